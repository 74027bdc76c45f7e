"""Server-sent events of AgentOS: the ``data:`` of each frame as one line. Split at LF only: the text may hold other line separators."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import Report
from ..source import Line


def data(lines: Iterator[Line], report: Report) -> Iterator[Line]:
    """The data of each frame, numbered by the line on which it began. Comments and names of frames are passed over (the event is in the data); the last frame
    needs no blank line. Control frames without data have nothing to say."""
    held: list[bytes] = []
    first: Line | None = None
    ended = True
    for line in lines:
        text = line.data.removesuffix(b"\r")
        ended = line.ended
        if text.startswith(b"data:"):
            if first is None:
                first = line
            held.append(text[5:].removeprefix(b" "))
        elif not text and first is not None:
            yield Line(first.number, first.offset, b"\n".join(held), True)
            held, first = [], None
    if first is not None:
        yield Line(first.number, first.offset, b"\n".join(held), ended)
