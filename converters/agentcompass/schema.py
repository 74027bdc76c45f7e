"""The records of an AgentCompass run as msgspec Structs and small readers of odd values.

One typed Struct, for the hot path: a line of ``progress.jsonl``. Everything in ``details/`` has open shapes that differ per harness and
release, so it is read as objects of Raw members (`spanport.converters.jsonio.fields`): what a rule does not take stays in ``source`` untouched.
This module opens no files and makes no spans.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from math import isfinite
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ..clock import MILLISECOND, from_iso, from_milliseconds, from_seconds
from ..jsonio import fields, is_null, text
from ..model import ABSENT

FAMILY: Final = "agentcompass"


class Line(Struct, gc=False, forbid_unknown_fields=True):
    """One event. Always these thirteen keys, in this order (fixture: every ``progress.jsonl``)."""

    run_id: str
    event: str
    timestamp: Raw
    task_id: str | None = None
    category: str | None = None
    attempt: int | None = None
    phase: str | None = None
    status: str | None = None
    payload: Raw = ABSENT
    orchestration_id: str | None = None
    request_key: str | None = None
    request_name: str | None = None
    request_index: int | None = None


_BEGIN: Final = b'{"run_id"'
KEYS: Final = Line.__struct_fields__
_lines = msgspec.json.Decoder(Line)
decode_line = _lines.decode
decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_number = msgspec.json.Decoder(int | float).decode
_flag = msgspec.json.Decoder(bool).decode
_any = msgspec.json.Decoder().decode

_BAD = (msgspec.DecodeError, RecursionError)


def decode_lines(data: bytes, count: int) -> list[Line] | None:
    """The events of ``count`` lines, one a line; None where any of them has more to it than that."""
    try:
        if not data.isascii():
            data.decode()  # msgspec looks only at the strings that it decodes, not into a payload
        events = _lines.decode_lines(data)
    except (*_BAD, UnicodeDecodeError):
        return None
    begun = data.startswith(_BEGIN) + data.count(b"\n" + _BEGIN)
    return events if len(events) == count == begun else None


def absent() -> Raw:
    """ABSENT itself, as a default: msgspec leaves a default out by identity, and an empty Raw of its own would break the document it is written to."""
    return ABSENT


def line_of(members: dict[str, Raw]) -> tuple[Line, dict[str, Raw]]:
    """An event that does not fit `Line`, taken field by field: (what could be read, the odd and unknown fields)."""
    odd: dict[str, Raw] = {}
    found: dict[str, Any] = {}
    for name, raw in members.items():
        if name not in KEYS:
            odd[name] = raw
        elif name in ("timestamp", "payload"):
            found[name] = raw
        elif is_null(raw):
            found[name] = None
        elif name in ("attempt", "request_index"):
            number = integer(raw)
            found[name] = number
            if number is None or bytes(raw) != str(number).encode():
                odd[name] = raw
        else:
            value = text(raw)
            if value is None:  # an id that is a number, say: its JSON text stands for it
                value, odd[name] = bytes(raw).decode("utf-8", "replace"), raw
            found[name] = value
    return (
        Line(
            run_id=found.get("run_id") or "",
            event=found.get("event") or "",
            timestamp=found.get("timestamp", ABSENT),
            task_id=found.get("task_id"),
            category=found.get("category"),
            attempt=found.get("attempt"),
            phase=found.get("phase"),
            status=found.get("status"),
            payload=found.get("payload", ABSENT),
            orchestration_id=found.get("orchestration_id"),
            request_key=found.get("request_key"),
            request_name=found.get("request_name"),
            request_index=found.get("request_index"),
        ),
        odd,
    )


def items(raw: Raw) -> list[Raw]:
    """The elements of a JSON array; [] for anything else (``tools: {}`` stands for no tools)."""
    if not raw or bytes(memoryview(raw)[:1]) != b"[":
        return []
    try:
        return _list(raw)
    except _BAD:
        return []


def number(raw: Raw) -> int | float | None:
    """A finite JSON number that 64 bits can hold."""
    if is_null(raw):
        return None
    try:
        found: int | float = _number(raw)
    except _BAD:
        return None
    if isinstance(found, int):
        return found if -LARGEST <= found < LARGEST else None
    return found if isfinite(found) else None


def integer(raw: Raw) -> int | None:
    """A whole JSON number, or a string of digits."""
    found = number(raw)
    if isinstance(found, float) and found.is_integer():
        return int(found)
    if isinstance(found, int):
        return found
    word = text(raw) if raw else None
    return int(word) if word is not None and word.isascii() and word.isdigit() and len(word) < 19 else None


def flag(raw: Raw) -> bool | None:
    """A JSON boolean."""
    if is_null(raw):
        return None
    try:
        found: bool = _flag(raw)
    except _BAD:
        return None
    return found


def plain(raw: Raw) -> Any:
    """Any JSON value as plain Python values, None when it does not decode."""
    if not raw:
        return None
    try:
        return _any(raw)
    except _BAD:
        return None


def kind(raw: Raw) -> str:
    """What a Raw holds, by its first byte: object, array, string, number, true, false, null or nothing."""
    first = bytes(memoryview(raw)[:1]) if raw else b""
    return _KINDS.get(first, "number" if first else "nothing")


_KINDS = {b"{": "object", b"[": "array", b'"': "string", b"t": "true", b"f": "false", b"n": "null"}

LARGEST: Final = 1 << 63
"""What a signed 64-bit integer can't hold any more: no count and no time (ns) of a record is that large."""

# Below: 1973 to 5138 in seconds. Above: the same in milliseconds. Nothing of a run lies outside.
_LEAST, _MILLIS = 100_000_000, 100_000_000_000


class Zone:
    """Reads the times of one run. ``zone`` is the offset of ``run_info.started_at``: the only record of which zone times without an offset
    are in; ``naive`` counts those that were read with it."""

    def __init__(self, zone: tzinfo | None) -> None:
        self.zone = zone
        self.naive = 0

    def moment(self, raw: Raw) -> int | None:
        """ns of a time in any of the forms that occur: Unix seconds or milliseconds, or text with a blank or ``T``, with or without fraction
        and offset. None for null, for odd values and for times around 1970 (openevolve counts from there)."""
        if is_null(raw):
            return None
        word = text(raw)
        try:
            if word is None:
                word = bytes(raw).decode()
                value = float(word)
                found = from_milliseconds(word) if value >= _MILLIS else from_seconds(word) if value >= _LEAST else None
                return found if found is not None and found < LARGEST else None
            return self.read(word)
        except (ValueError, OverflowError):
            return None

    def read(self, word: str) -> int | None:
        """ns of a time in text; ValueError when it is none."""
        found = from_iso(word, None) if _has_offset(word) else None
        if found is None:
            found = from_iso(word, self.zone or UTC)
            self.naive += 1
        return found if found >= _LEAST * 1_000_000_000 else None


def _has_offset(word: str) -> bool:
    return word.endswith("Z") or "+" in word[10:] or "-" in word[10:]


def duration(raw: Raw) -> int | None:
    """A duration in milliseconds as ns; None for null, and for the −1 that stands for "unknown"."""
    found = number(raw)
    if found is None or found < 0:
        return None
    try:
        took = found * MILLISECOND if isinstance(found, int) else from_milliseconds(bytes(raw))
    except ValueError:
        return None
    return took if took < LARGEST else None


def words(raw: Raw) -> str | None:
    """A string, or the JSON text of anything else that is not null."""
    if is_null(raw):
        return None
    found = text(raw)
    return found if found is not None else bytes(raw).decode("utf-8", "replace")


__all__ = [
    "FAMILY",
    "KEYS",
    "LARGEST",
    "Line",
    "Zone",
    "absent",
    "decode_line",
    "decode_lines",
    "decode_object",
    "duration",
    "fields",
    "flag",
    "integer",
    "items",
    "kind",
    "line_of",
    "number",
    "plain",
    "words",
]
