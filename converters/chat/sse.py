"""Server-sent events: lines to (event name, data). Knows no format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..source import Line


class Sent(NamedTuple):
    """One event: its name ("" when none is stated), its data lines joined, the line it begins at and that line's byte offset,
    and whether a blank line ended it (a last event without one may be cut)."""

    name: str
    data: bytes
    line: int
    offset: int
    ended: bool


def events(lines: Iterable[Line]) -> Iterator[Sent]:
    """The events that have data. Comments, ids and retry hints are passed over, as the standard has it."""
    name, data, first, offset = "", list[bytes](), 0, 0
    for line in lines:
        text = line.data.removesuffix(b"\r")
        if line.number == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")
        if not text:
            if data:
                yield Sent(name, b"\n".join(data), first, offset, True)
            name, data = "", []
            continue
        field, _, content = text.partition(b":")
        content = content.removeprefix(b" ")
        if field == b"event":
            name = content.decode("utf-8", "replace")
        elif field == b"data":
            if not data:
                first, offset = line.number, line.offset
            data.append(content)
    if data:
        yield Sent(name, b"\n".join(data), first, offset, False)
