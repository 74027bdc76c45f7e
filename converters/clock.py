"""Times: from the text forms that sources use to integer nanoseconds since the epoch, and back, without float arithmetic.

Which of a span's times are stated and which are worked out is on the span (``clock``); this module only reads and writes
the notations.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from functools import lru_cache

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_LARGEST = 1 << 63
_NANOS = tuple(10 ** (9 - digits) for digits in range(10))
"""ns in one unit of the last digit of a fraction of so many digits."""


def _within(ns: int) -> int:
    """A time or duration that OTLP and SQLite can hold. A larger number is none, whatever it is."""
    if -_LARGEST <= ns < _LARGEST:
        return ns
    raise ValueError(f"out of the range of times: {str(ns)[:20] if ns.bit_length() < 9999 else 'a huge number'}")


def _near(value: Decimal) -> Decimal:
    """``1e999999`` would be a number of a million digits."""
    if value.adjusted() > 30:
        raise ValueError("out of the range of times")
    return value


def from_seconds(value: str | bytes | int | float) -> int:
    """Unix seconds (a number, or its JSON text) to ns. Text and floats are read by their decimal digits, so that
    ``1761234567.123456`` is exactly ``…123456000``. ValueError for text that is no finite number."""
    if isinstance(value, int):
        return _within(value * SECOND)
    text = value if isinstance(value, bytes) else (repr(value) if isinstance(value, float) else value).encode()
    whole, dot, fraction = text.partition(b".")
    try:
        if whole.isdigit() and (fraction.isdigit() or not dot):
            if len(fraction) > 9:
                fraction = fraction[:9]
            ns = int(whole + fraction) * _NANOS[len(fraction)]
            return ns if ns < _LARGEST else _within(ns)
        return _within(int(_near(Decimal(text.decode())).scaleb(9)))
    except (InvalidOperation, OverflowError, ValueError) as error:
        raise ValueError(f"not a time in seconds: {text[:40].decode(errors='replace')!r}") from error


def from_milliseconds(value: str | bytes | int | float) -> int:
    """Milliseconds (a duration or a Unix time) to ns, by decimal digits."""
    if isinstance(value, int):
        return _within(value * MILLISECOND)
    text = repr(value) if isinstance(value, float) else value.decode() if isinstance(value, bytes) else value
    try:
        return _within(int(_near(Decimal(text)).scaleb(6)))
    except (InvalidOperation, OverflowError, ValueError) as error:
        raise ValueError(f"not a time in milliseconds: {text[:40]!r}") from error


@lru_cache(maxsize=4096)
def _second(text: str) -> int:
    """``YYYY-MM-DDTHH:MM:SS`` read as UTC, in whole seconds: most stamps of one file share their second."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)


def from_iso(text: str, zone: tzinfo | None = UTC) -> int:
    """An ISO 8601 stamp (blank or ``T``, with or without fraction, offset or ``Z``) to ns. ``zone`` is what a stamp
    without an offset is in; None makes such a stamp a ValueError."""
    if len(text) == 32 and text.endswith("+00:00") and text[19] == ".":  # the common form, without the general parser
        try:
            return _second(text[:19]) * SECOND + int(text[20:26]) * 1000
        except ValueError:
            pass
    stamp = datetime.fromisoformat(text)
    if stamp.tzinfo is None:
        if zone is None:
            raise ValueError(f"no offset in {text[:40]!r}")
        stamp = stamp.replace(tzinfo=zone)
    return (stamp - _EPOCH) // _MICRO * 1000


def offset_of(text: str) -> tzinfo | None:
    """The UTC offset that an ISO stamp states, or None."""
    offset = datetime.fromisoformat(text).utcoffset()
    return None if offset is None else timezone(offset)


def to_iso(ns: int, zone: tzinfo = UTC) -> str:
    """ns to ISO 8601 with microseconds (nanoseconds when there are any) and offset, as Python's isoformat writes it; seconds since
    the epoch for a time that no calendar date stands for."""
    whole, rest = divmod(ns, SECOND)
    try:
        base = (_EPOCH + timedelta(seconds=whole)).astimezone(zone)
    except (OverflowError, ValueError):
        return to_seconds(ns)
    fraction = f"{rest:09d}"
    text = base.isoformat(timespec="seconds")
    return f"{text[:19]}.{fraction if rest % 1000 else fraction[:6]}{text[19:]}"


def to_seconds(ns: int) -> str:
    """ns to the JSON text of a number of seconds, exact, without needless zeros after the first digit of the fraction."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    whole, rest = divmod(ns, SECOND)
    return f"{sign}{whole}.{(f'{rest:09d}'.rstrip('0') or '0')}"
