"""When things happened, and which assistant messages came from one model request: rules over the index of a record alone."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ..model import Clock
from .document import Head
from .facts import Facts

STEP: Final = 1000
"""Distance in ns of made-up times when not even the end of a run is known."""


class Times(Struct):
    """Time of each message (None: unknown), and whether they were made up."""

    at: list[int | None]
    clock: Clock
    start: int | None
    end: int | None

    def before(self, index: int) -> int | None:
        """The last known time before message ``index``; the start of the run when there is none."""
        while index > 0:
            index -= 1
            if (found := self.at[index]) is not None:
                return found
        return self.start

    def after(self, index: int) -> int | None:
        """The first known time after message ``index``; the end of the run when there is none."""
        for i in range(index + 1, len(self.at)):
            if (found := self.at[i]) is not None:
                return found
        return self.end


def times_of(heads: list[Head], known: Facts, until: int | None) -> Times:
    """Message times as recorded, else spread between start and end, else `STEP` apart."""
    at = [h.time for h in heads]
    stated = [t for t in at if t is not None]
    if stated:
        start = known.created if known.created is not None else stated[0]
        return Times(at, "derived", min(start, min(stated)), max(max(stated), until or 0))
    end = known.end if known.end is not None else until
    if known.created is None:
        return Times(at, "synthetic", None, end)
    if end is None or end < known.created:
        return Times([known.created + STEP * (i + 1) for i in range(len(at))], "synthetic", known.created, None)
    width = (end - known.created) // (len(at) + 1)
    return Times([known.created + width * (i + 1) for i in range(len(at))], "synthetic", known.created, end)


class Turn(Struct):
    """Assistant messages that came from one model request."""

    messages: list[int]
    inferred: bool = False


def turns_of(heads: list[Head], reference: bool, final: bool) -> list[Turn]:
    """Model requests. A series of recorder-made messages without a tool message between them is one request (fixture
    `adapter_concurrent`). ``final``: the only message was added by the runner, it is no request (fixture `final_only`)."""
    if final:
        return []
    turns: list[Turn] = []
    adapter = not reference and any(h.recorded for h in heads)
    for i, h in enumerate(heads):
        if h.role != "assistant":
            continue
        last = turns[-1].messages[-1] if turns else -2
        if adapter and h.recorded and last == i - 1 and heads[last].recorded:
            turns[-1].messages.append(i)
        else:
            turns.append(Turn([i], adapter))
    return turns


def shape_of(heads: list[Head]) -> str:
    """Which of the shapes A to D the messages are in."""
    notes = [h.note for h in heads if h.note is not None and h.note.id is not None]
    if any(n.flat for h in heads for n in h.calls):
        return "A"
    if any(n.server is None for n in notes):
        return "B"
    return "D" if any(h.time is not None for h in heads) else "C"
