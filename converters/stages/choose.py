"""Choosing runs of an input that holds many: by the id of a run, by session, by the time at which they began. Whole traces are kept or left out.

Readers that can do it earlier get the same choice in their `ReadOptions`; this stage makes it hold for every format. A trace is held until it is whole, only while
something is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..clock import to_iso
from ..errors import SpanportError
from ..model import AnySpan, Attempt, Item, Run, Task, TraceHeader


class NothingFits(SpanportError):
    """No run of an input is one of those that were asked for."""


@dataclass(frozen=True)
class Choice:
    """``since`` and ``until`` in ns; a trace began at its earliest span."""

    run: str | None = None
    session: str | None = None
    since: int | None = None
    until: int | None = None

    def __bool__(self) -> bool:
        return any(x is not None for x in (self.run, self.session, self.since, self.until))

    def __str__(self) -> str:
        given = {"run": self.run, "session": self.session, "since": self.since, "until": self.until}
        return " and ".join(f"--{k} {to_iso(v) if isinstance(v, int) else v}" for k, v in given.items() if v is not None)

    def fits(self, header: TraceHeader, spans: list[AnySpan]) -> bool:
        """Whether the trace is one of those that were asked for."""
        if self.run is not None:
            names = {n for s in spans if isinstance(s, Run | Task) for n in (s.native_id, s.key) if n} | {*header.run_key, header.id}
            if self.run not in names:
                return False
        if self.session is not None and not any(isinstance(s, Run | Attempt) and s.conversation_id == self.session for s in spans):
            return False
        began = min((s.start for s in spans if s.start is not None), default=None)
        if self.since is not None and (began is None or began < self.since):
            return False
        return not (self.until is not None and (began is None or began >= self.until))


ALL = Choice()


def choose(items: Iterable[Item], choice: Choice) -> Iterator[Item]:
    """The items of the traces that fit; `NothingFits` when none does."""
    if not choice:
        yield from items
        return
    headers: dict[str, TraceHeader] = {}
    spans: dict[str, list[AnySpan]] = {}
    for item in items:
        if isinstance(item, TraceHeader):
            headers[item.id] = item
        else:
            spans.setdefault(item.trace_id, []).append(item)
    found = False
    for trace, header in headers.items():
        if choice.fits(header, spans.get(trace, [])):
            found = True
            yield header
            yield from spans.get(trace, [])
    if not found:
        raise NothingFits(f"no run in it fits {choice}")
