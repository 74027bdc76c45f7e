"""Where a long stream of events can be cut, so that each part reads by itself: between two lines where no run is open, and no run is spoken of on both sides.

What a run without a parent belongs to depends on what is open when it begins (`events.Engine`), so runs are never taken out of the order of the stream:
streams in which there is always some run open stay whole. This module makes no spans.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .. import jsonio
from ..errors import ReadError, Report
from ..registry import WORTH, Share, shape_of
from ..source import Source
from .schema import Event, loosely

ENDS: Final = frozenset(
    {"RunCompleted", "TeamRunCompleted", "WorkflowCompleted", "RunError", "TeamRunError", "WorkflowError", "WorkflowAgentCompleted"}
)
"""Events after which nothing of a run is open. A run that was paused or cancelled may go on."""
_DRIVER: Final = "WorkflowAgentStarted"
"""It names no run, and belongs to one that begins later."""


class Head(msgspec.Struct, gc=False):
    """Which runs an event speaks of."""

    event: str = ""
    run_id: str | None = None
    parent_run_id: str | None = None
    workflow_run_id: str | None = None


_decode = msgspec.json.Decoder(Head).decode
_raw = msgspec.json.Decoder(msgspec.Raw).decode


def shares(source: Source, most: int, least: int) -> list[Share]:
    """See `Format.divide`: (k, n, first byte, byte after the last, lines before), at most ``most`` of about the same size."""
    size = source.size()
    if most < 2 or size < WORTH or source.packed() or shape_of(source.head(4096)) != "lines":
        return []
    starts: list[tuple[int, int]] = [(0, 0)]  # of the parts: byte, lines before
    known: dict[int, int] = {}  # run → first byte of the part in which it came first
    open_: set[str] = set()
    drivers = 0
    last: str | None = None
    free = False
    for line in source.lines():
        try:
            e = _decode(line.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if (other := _slowly(line.data)) is None:
                continue  # it is lost for the reader too
            e = other
        run = e.run_id
        above = e.parent_run_id or e.workflow_run_id
        if run == last and above is None and run is not None:
            pass  # it was looked at with the line before
        else:
            names = [hash(x) for x in (run, e.parent_run_id, e.workflow_run_id) if x]
            first = min((known[x] for x in names if x in known), default=None)
            if first is not None:
                while starts[-1][0] > first:
                    starts.pop()
            elif free and names and len(starts) < most and line.offset >= size * len(starts) // most:
                starts.append((line.offset, line.number - 1))
            for x in names:
                known.setdefault(x, starts[-1][0])
            last = run if above is None else None
        if run is not None and e.event in ENDS:
            open_.discard(run)
        elif run is not None:
            open_.add(run)
        drivers += (e.event == _DRIVER) - (e.event == "WorkflowAgentCompleted")
        free = not open_ and not drivers and run is not None
    count = len(starts)
    ends = [start for start, _ in starts[1:]] + [1 << 62]
    return [(k, count, start, end, lines) for k, ((start, lines), end) in enumerate(zip(starts, ends, strict=True))] if count > 1 else []


def _slowly(data: bytes) -> Head | None:
    """A line with literals that are no JSON, or fields of odd types; None for what is no event at all."""
    try:
        e, _ = loosely(Event, jsonio.decode(data, _raw, Report()))
    except (ReadError, msgspec.DecodeError, RecursionError):
        return None
    return Head(e.event, e.run_id, e.parent_run_id, e.workflow_run_id)


__all__ = ["shares"]
