"""What came of an export: `Exported`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from ..converters.model import Score
from .backends import Route
from .batch import NOTHING_DONE, PART_DONE, Tally
from .options import Options
from .otlp.account import Account
from .otlp.codec import Piece
from .otlp.sender import Stop

Scores = list[tuple[str, str, Score]]
"""(trace id, span id, score)."""


@dataclass
class Exported(Account):
    """The account of an export: that of its spans, with that of its ``inputs``. ``way``: where it went; None for files. ``census``: bytes of content by
    attribute (of a dry run)."""

    options: Options = field(default_factory=Options)
    inputs: Tally = field(default_factory=Tally)
    way: Route | None = None
    stop: Stop = field(default_factory=Stop)
    census: Counter[str] = field(default_factory=Counter)

    def status(self) -> int:
        """What the command exits with: 0 nothing was rejected or failed, 3 a part was, 1 nothing arrived, 128 + n after signal n."""
        if self.stop or self.stop.enough:
            return 128 + (self.stop.signal or self.stop.enough)
        own, read = super().status(), self.inputs.status()
        if own == NOTHING_DONE or (read == NOTHING_DONE and not self.read):
            return NOTHING_DONE
        return PART_DONE if own or read else 0

    def as_dict(self, **more: Any) -> dict[str, Any]:
        """The object of ``--summary-json``. Keys stay stable."""
        way, inputs = self.way, self.inputs
        where = {"endpoint": way.to.name, "protocol": way.to.protocol} if way is not None else {"output": self.options.output}
        return super().as_dict(
            **where,
            profile=self.options.profile,
            project=way.project if way is not None else None,
            inputs={"done": inputs.done, "failed": inputs.failed, "skipped": inputs.resumed},
            dry_run=self.options.dry_run,
            exit_status=self.status(),
            **more,
        )


LINKS: Final = 20
"""Traces that are linked to at most."""


class Delivered:
    """Which spans were accepted, by trace: the first traces, for links; all of them where scores are sent after them; and the ids of their spans where these are
    read back."""

    def __init__(self, options: Options) -> None:
        self.accepted: dict[str, set[str]] = {}
        self._nothing: set[str] = set()
        self._names = options.verify
        self._all = options.verify or options.scores

    def __call__(self, pieces: list[Piece]) -> None:
        if not self._all and len(self.accepted) >= LINKS:
            return
        for trace in {piece.envelope.trace_id for piece in pieces}:
            self.accepted.setdefault(trace, set() if self._names else self._nothing)
        if self._names:
            for piece in pieces:
                self.accepted[piece.envelope.trace_id].add(piece.span_id)


__all__ = ["LINKS", "Delivered", "Exported", "Scores"]
