"""What single fields of a chat say: times, ids, turns, lists. Knows no message and no row."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from ..clock import from_iso, from_milliseconds, from_seconds
from ..jsonio import text, value

_list = msgspec.json.Decoder(list[Raw])
_YEAR_5138: Final = 10**11
"""Unix seconds beyond this are milliseconds: no chat was held after the year 5138."""
TIMES: Final = ("created_at", "timestamp", "create_time", "createTime", "created", "time")


def items(given: Raw) -> list[Raw]:
    """The elements of a JSON array, each as Raw; [] for anything else."""
    try:
        return _list.decode(given) if given else []
    except (msgspec.DecodeError, RecursionError):
        return []


def when(given: Raw) -> int | None:
    """A time as chats write it: ISO 8601, or Unix seconds or milliseconds. None for anything else."""
    stamp = text(given)
    try:
        if stamp is not None:
            return from_iso(stamp)
        number = value(given)
        if isinstance(number, bool) or not isinstance(number, int | float):
            return None
        return from_milliseconds(bytes(given)) if abs(number) >= _YEAR_5138 else from_seconds(bytes(given))
    except (ValueError, OverflowError):
        return None


def word(given: Raw) -> str | None:
    """A string, or a whole number as text (ids)."""
    found = value(given) if len(bytes(given)) < 4096 else None
    return found if isinstance(found, str) else str(found) if isinstance(found, int) and not isinstance(found, bool) else None


def turn_of(given: Raw) -> int | str | None:
    """A turn as the source counts it."""
    found = value(given)
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def take_time(f: dict[str, Raw], *names: str) -> int | None:
    """The first readable time among the fields ``names``, which is taken out of ``f``."""
    for name in names:
        if name in f and (found := when(f[name])) is not None:
            del f[name]
            return found
    return None
