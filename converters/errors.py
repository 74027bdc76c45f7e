"""What can go wrong with a record, said in one line, and the account of it.

A reader never prints and never gives up on what it can still read: it tells its `Report`. Only an input of which nothing
can be read raises `ReadError`.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec import Raw, Struct

Severity = Literal["info", "warning", "lost"]
"""``info``: worth knowing (a repair, a derived clock); ``warning``: odd, and nothing was lost; ``lost``: something of the input
(a line, an item, a field) is not in the output: the exit status becomes 3."""


MAX_RECORD: Final = 1 << 20
"""Bytes of a bad record that are kept."""
MAX_RECORDS: Final = 16 << 20
"""Bytes of all bad records of one input that are kept with its notices; lines of a stream are not among them, since they can be looked up again."""


class SpanportError(Exception):
    """Base of what spanport raises on purpose; its text is one line fit for a user."""


class UsageError(SpanportError):
    """The call itself is wrong (unknown format name, options that exclude each other): exit status 2."""


class ReadError(SpanportError):
    """An input, or a record in it, that can't be read. ``str()`` names the file, the place, what was expected and what to do.

    ``line`` counts from 1, ``byte`` from 0; ``path`` is a JSON path such as ``$.messages[3].content``."""

    def __init__(
        self,
        message: str,
        *,
        input: str | None = None,
        line: int | None = None,
        byte: int | None = None,
        path: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message, self.input, self.line, self.byte, self.path, self.hint = message, input, line, byte, path, hint
        super().__init__(message)

    def __str__(self) -> str:
        return place(self.message, self.input, self.line, self.byte, self.path, self.hint)

    def __reduce__(self) -> tuple[object, ...]:  # keyword-only arguments survive the way back from a worker process
        return _rebuild, (self.message, self.input, self.line, self.byte, self.path, self.hint)


def _rebuild(message: str, input: str | None, line: int | None, byte: int | None, path: str | None, hint: str | None) -> ReadError:
    return ReadError(message, input=input, line=line, byte=byte, path=path, hint=hint)


def debugging() -> bool:
    """Whether a defect of ours shows its traceback: ``SPANPORT_DEBUG`` is set."""
    return bool(os.environ.get("SPANPORT_DEBUG"))


def internal(error: Exception, input: str | None = None) -> ReadError:
    """A defect of ours in one line; the traceback shows with SPANPORT_DEBUG=1."""
    return ReadError(
        f"internal error: {type(error).__name__}: {error}"[:300], input=input, hint="SPANPORT_DEBUG=1 shows where; please report it"
    )


def place(message: str, input: str | None, line: int | None, byte: int | None, path: str | None, hint: str | None = None) -> str:
    """One line: ``input: line L, byte B, PATH: message; hint``. Control characters are shown escaped."""
    spots = [f"line {line}" if line is not None else "", f"byte {byte}" if byte is not None else "", path or ""]
    where = ", ".join(s for s in spots if s)
    text = ": ".join(s for s in (input or "", where, message) if s) + (f"; {hint}" if hint else "")
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Notice(Struct, kw_only=True, omit_defaults=True):
    """One thing that a reader, a stage or a writer has to say about an input. ``code`` is stable and short (``bad-line``,
    ``repaired``, ``unknown-event``, ``truncated`` …). ``record``: the text of the item of a document that it is about, up to `MAX_RECORD` bytes of it."""

    code: str
    message: str
    severity: Severity = "warning"
    input: str | None = None
    line: int | None = None
    byte: int | None = None
    path: str | None = None
    record: str | None = None

    def __str__(self) -> str:
        return place(self.message, self.input, self.line, self.byte, self.path)


Fate = Literal["mapped", "carried", "derived", "dropped"]


class Loss(Struct, kw_only=True, omit_defaults=True):
    """What became of one field of the source on the way to a target, with how often and why."""

    field: str
    fate: Fate
    count: int = 1
    reason: str | None = None


@dataclass
class Report:
    """What happened to one or more inputs. Holds at most ``limit`` notices in full; every one is counted.

    ``strict`` makes the first notice of severity ``lost`` a ReadError."""

    input: str | None = None
    strict: bool = False
    limit: int = 1000
    notices: list[Notice] = field(default_factory=list)
    counts: Counter[tuple[str, Severity]] = field(default_factory=Counter)
    losses: dict[tuple[str, Fate, str | None], Loss] = field(default_factory=dict)
    room: int = MAX_RECORDS

    def note(
        self,
        code: str,
        message: str,
        severity: Severity = "warning",
        *,
        line: int | None = None,
        byte: int | None = None,
        path: str | None = None,
        count: int = 1,
        record: bytes | memoryview | Raw | None = None,
    ) -> None:
        """Add a notice. ``count`` is how many times it stands for; ``record`` the bytes of the item of a document that is lost."""
        self.counts[code, severity] += count
        if self.strict and severity == "lost":
            raise ReadError(message, input=self.input, line=line, byte=byte, path=path, hint="leave out --strict to go on without it")
        if len(self.notices) < self.limit:
            notice = Notice(code=code, message=message, severity=severity, input=self.input, line=line, byte=byte, path=path)
            if record is not None and self.room > 0:
                kept = bytes(memoryview(record)[: min(MAX_RECORD, self.room)])
                self.room -= len(kept)
                notice.record = kept.decode("utf-8", "surrogateescape")
            self.notices.append(notice)

    def loss(self, field: str, fate: Fate, count: int = 1, reason: str | None = None) -> None:
        """Count ``field`` (a path with ``[]`` for indexes) under ``fate``."""
        key = (field, fate, reason)
        if (known := self.losses.get(key)) is not None:
            known.count += count
        else:
            self.losses[key] = Loss(field=field, fate=fate, count=count, reason=reason)

    def merge(self, other: Report) -> None:
        """Take over what another report (of a worker, of one input) holds."""
        self.notices.extend(other.notices[: max(0, self.limit - len(self.notices))])
        self.counts.update(other.counts)
        for item in other.losses.values():
            self.loss(item.field, item.fate, item.count, item.reason)

    @property
    def warnings(self) -> int:
        """How many notices of severity ``warning`` or ``lost`` there were."""
        return sum(n for (_, severity), n in self.counts.items() if severity != "info")

    @property
    def lost(self) -> int:
        """How many notices said that something was lost."""
        return sum(n for (_, severity), n in self.counts.items() if severity == "lost")
