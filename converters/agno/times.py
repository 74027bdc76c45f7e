"""Agno's clocks (whole seconds, floats, durations) as windows in which an instant lies, and how one narrows another.

Whole seconds are floors: an int ``t`` says [t, t+1). Floats are points. A window never invents precision: what is chosen from one is its
middle, and half of its width is the uncertainty that the span states. Nothing here knows runs or spans.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw, Struct

from .. import clock
from ..clock import SECOND
from .schema import Stamp, Timing, decoder

MILLI: Final = 1_000_000
SLACK: Final = SECOND // 10
"""How far a float may lie outside a whole second that was taken from another reading of the clock."""
_TEXT_DURATION: Final = re.compile(r"completed in (\d+\.\d+)s")


class Window(Struct, frozen=True, gc=False):
    """An instant lies between ``lo`` and ``hi`` (ns, both included); None where there is no bound."""

    lo: int | None = None
    hi: int | None = None

    @property
    def exact(self) -> bool:
        return self.lo is not None and self.lo == self.hi

    def after(self, t: int | None) -> Window:
        """Not before ``t``, as far as that leaves anything; else the point ``t``… which the window then contradicts by its own width at most."""
        if t is None:
            return self
        lo = t if self.lo is None else max(self.lo, t)
        return Window(lo, self.hi) if self.hi is None or lo <= self.hi else Window(self.hi, self.hi)

    def before(self, t: int | None) -> Window:
        """Not after ``t``, as far as that leaves anything."""
        if t is None:
            return self
        hi = t if self.hi is None else min(self.hi, t)
        return Window(self.lo, hi) if self.lo is None or hi >= self.lo else Window(self.lo, self.lo)

    def moved(self, by: int) -> Window:
        return Window(None if self.lo is None else self.lo + by, None if self.hi is None else self.hi + by)

    def holds(self, t: int, slack: int = SLACK) -> bool:
        return (self.lo is None or t >= self.lo - slack) and (self.hi is None or t <= self.hi + slack)

    def pick(self) -> int | None:
        """The middle; the bound where there is only one; None where nothing is known."""
        if self.lo is None or self.hi is None:
            return self.lo if self.lo is not None else self.hi
        return (self.lo + self.hi) // 2

    @property
    def slack(self) -> int:
        """Half of the width: by how much `pick` may be off."""
        return (self.hi - self.lo + 1) // 2 if self.lo is not None and self.hi is not None else 0


UNKNOWN: Final = Window()


def point(t: int) -> Window:
    return Window(t, t)


@lru_cache(maxsize=1024)
def _whole(stamp: int) -> Window:
    """The events of a second share it."""
    return point(stamp * MILLI) if abs(stamp) > 10**11 else Window(stamp * SECOND, stamp * SECOND + SECOND - 1)


def window(stamp: Stamp) -> Window:
    """A time as any version writes it: Unix seconds or (above 10^11) milliseconds, int or float, as number or text, or ISO."""
    if stamp.__class__ is int:
        return _whole(stamp)
    if stamp is None or isinstance(stamp, bool):
        return UNKNOWN
    if isinstance(stamp, str):
        text = stamp.strip()
        try:
            if text.replace(".", "", 1).isdigit():
                return window(float(text) if "." in text else int(text))
            return point(clock.from_iso(text))
        except ValueError:
            return UNKNOWN
    try:
        if isinstance(stamp, int):
            return _whole(stamp)
        return point(clock.from_milliseconds(stamp) if abs(stamp) > 1e11 else clock.from_seconds(stamp))
    except (ValueError, OverflowError):
        return UNKNOWN


_stamp: Final = decoder(Stamp).decode


def stamp(raw: Raw) -> Window:
    """`window` of a JSON value."""
    if not raw:
        return UNKNOWN
    try:
        return window(_stamp(raw))
    except msgspec.DecodeError:
        return UNKNOWN


_NUMBER: Final = frozenset(b"-0123456789")
_NANOS: Final[tuple[int, ...]] = tuple(10 ** (9 - digits) for digits in range(10))
"""ns in one unit of the last digit of a fraction of so many digits."""


def number(raw: Raw) -> int | None:
    """A JSON number of seconds (absolute or a duration) in ns; None for null, absent, or anything else. 1.x lists have no single one."""
    if not raw:
        return None
    data = bytes(raw)
    whole, _, fraction = data.partition(b".")
    if fraction.isdigit() and whole.isdigit() and whole < b"9223372036" and len(whole) < 11:  # the usual form
        fraction = fraction[:9]
        return int(whole + fraction) * _NANOS[len(fraction)]
    if data[0] not in _NUMBER:
        return None
    try:
        return clock.from_seconds(data)
    except ValueError:
        return None


class Clocks(Struct, frozen=True, gc=False):
    """What one ``metrics`` object says about time, in ns."""

    start: int | None = None
    end: int | None = None
    duration: int | None = None
    first_token: int | None = None


NO_CLOCKS: Final = Clocks()
_timing: Final = decoder(Timing).decode


def clocks(metrics: Raw) -> Clocks:
    """The clocks in a metrics object of a tool, a message or a run."""
    if not metrics:
        return NO_CLOCKS
    try:
        m = _timing(metrics)
    except msgspec.DecodeError:
        return NO_CLOCKS
    duration = number(m.duration)
    if duration is None and m.time:
        duration = number(m.time)
    if not m.start_time and not m.end_time:
        return Clocks(None, None, duration, number(m.time_to_first_token)) if duration is not None or m.time_to_first_token else NO_CLOCKS
    return Clocks(number(m.start_time), number(m.end_time), duration, number(m.time_to_first_token))


def text_duration(text: str | None) -> int | None:
    """The duration in a completion's text, ``name(args) completed in 0.3005s.``: the only one for a tool that ran in a continuation."""
    found = _TEXT_DURATION.search(text) if text else None
    try:
        return clock.from_seconds(found[1]) if found else None
    except ValueError:  # out of the range of times
        return None


class Stretch(Struct, frozen=True, gc=False):
    """A call's start and end, each as a window; ``recorded`` when the source states both as they are."""

    start: Window
    end: Window
    duration: int | None
    recorded: bool


def _floats(c: Stretch) -> bool:
    """Whether the source states both ends and the duration."""
    return c.recorded or (c.duration is not None and c.start.exact and c.end.exact)


def batch(calls: list[Stretch]) -> list[Stretch]:
    """Calls of one assistant message that overlap were collected together: their ``end_time`` is that of the collection and their
    ``start_time`` is worked out from it. All began with the first, and each took its own duration (fixture parallel-astream). Sequential calls
    never overlap, and stay as they are."""
    floats = [c for c in calls if _floats(c)] if len(calls) > 1 else []
    if len(floats) < 2:
        return calls
    starts = sorted([(c.start.lo or 0, c.end.lo or 0) for c in floats])
    groups: list[tuple[int, int, int]] = []  # first start, last end, how many
    for start, end in starts:
        if groups and start < groups[-1][1]:
            first, last, n = groups[-1]
            groups[-1] = (first, max(last, end), n + 1)
        else:
            groups.append((start, end, 1))
    if len(groups) == len(floats):
        return calls
    moved = []
    for c in calls:
        if _floats(c) and c.duration is not None:
            first, _, n = next(g for g in groups if g[0] <= (c.start.lo or 0) <= g[1])
            if n > 1:
                c = Stretch(point(first), point(first + c.duration), c.duration, False)
        moved.append(c)
    return moved
