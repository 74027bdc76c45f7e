"""JSON as real files hold it, decoded with msgspec in two levels (DESIGN §3).

A document is decoded once into an envelope whose arrays are ``list[Raw]``; then item by item into typed Structs with
``forbid_unknown_fields``; an item that fails is decoded untyped (`item`). NaN, Infinity, lone surrogates and bytes that are no UTF-8 fail
a whole decode, also inside Raw and skipped fields: then `repair` mends the bytes, for that document only, and the same typed
path runs again.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from .errors import ReadError, Report
from .model import ABSENT, Repair

T = TypeVar("T")

MAX_DOCUMENT: Final = 4 << 30
"""Bytes of one document (4 GiB), unless the environment says otherwise (`largest`); a line of a stream has `MAX_LINE`."""
MAX_UNPACKED: Final = 1 << 30
"""The same of one that is compressed: a megabyte may be a gigabyte of nothing."""
LIMIT: Final = "SPANPORT_MAX_DOCUMENT"
MAX_LINE: Final = 256 << 20
TOO_DEEP: Final = "nested too deep"
MAX_REPAIRS: Final = 1_000_000
"""Places in one document that are mended: what has more is no text."""
BREAKS_OFF: Final = "the JSON breaks off here"

_untyped = msgspec.json.Decoder()
_raw_object = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)
_NULL: Final = Raw(b"null")
_QUOTE: Final = ord('"')
_NOT_SMALL: Final = 1 << 10
_utf8_decoder = codecs.getincrementaldecoder("utf-8")
_PIECE = 1 << 20
_SIZE = re.compile(r"([0-9]{1,18})\s*([KkMmGg]?)(?:i?[Bb])?")
_SHIFT: Final = {"": 0, "K": 10, "M": 20, "G": 30}
_PLACE = re.compile(r"\(byte (\d+)\)")
_PATH = re.compile(r" - at `([^`]*)`$")

# Strings are matched whole, so that a literal inside one is never touched. A string that the end of the data cuts off is matched to there:
# tried again from each escaped quote in it, it would cost the square of its length.
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|-?Infinity|NaN', re.DOTALL)
_UTF8 = re.compile(
    rb"(?:[\x00-\x7f]++|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})++"
)
_START = re.compile(rb"[ \t\r\n]*+[{\[\"\-0-9tfnNI]")
_ODD = re.compile(rb"NaN|Infinity|\\u[dD]")
_SURROGATE = re.compile(rb"\\\\|\\u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def largest(packed: bool = False) -> int:
    """Bytes that one document may have, once unpacked: what ``SPANPORT_MAX_DOCUMENT`` says (bytes, or a number with K, M or G), else 4 GiB, or 1 GiB where it
    is ``packed``. ReadError when the variable holds no size."""
    said = os.environ.get(LIMIT, "").strip()
    if not said:
        return MAX_UNPACKED if packed else MAX_DOCUMENT
    if (found := _SIZE.fullmatch(said)) is None:
        raise ReadError(f"{LIMIT} is no size: {said[:40]!r}", hint="bytes, or a number with K, M or G")
    return int(found[1]) << _SHIFT[found[2].upper()]


def too_large(packed: bool = False, input: str | None = None) -> ReadError:
    """The error of a document that has more bytes than `largest`."""
    limit = largest(packed)
    return ReadError(
        f"more than {limit:,} bytes{' once unpacked' if packed else ''}",
        input=input,
        hint=f"{LIMIT} sets the limit, such as {LIMIT}={(limit >> 30) * 4 or 4}G",
    )


def repair(data: bytes) -> tuple[bytes, list[Repair]]:
    """``data`` with NaN and infinities as null and lone surrogates and bad UTF-8 as U+FFFD, and what was replaced where
    (byte offsets in ``data``). Nothing else is mended: a document that is cut off stays so. ReadError for what is no text at all."""
    found: list[tuple[int, int, bytes]] = []

    def put(start: int, end: int, new: bytes) -> None:
        if len(found) >= MAX_REPAIRS:
            raise ReadError(f"more than {MAX_REPAIRS:,} places are no JSON", byte=found[0][0])
        found.append((start, end, new))

    for token in _TOKENS.finditer(data):
        start, text = token.start(), token.group()
        if not text.startswith(b'"'):
            put(start, token.end(), b"null")
            continue
        if b"\\u" in text:
            for hit in _SURROGATE.finditer(text):
                if hit.group() != b"\\\\" and hit.group(2) is None:
                    put(start + hit.start(), start + hit.end(), b"\\ufffd")
        if not text.isascii():
            at = 0
            for good in _UTF8.finditer(text):  # the gaps between what is UTF-8
                if good.start() > at:
                    put(start + at, start + good.start(), b"\\ufffd")
                at = good.end()
            if at < len(text):
                put(start + at, token.end(), b"\\ufffd")
    repairs: list[Repair] = []
    out: list[bytes] = []
    last = 0
    for start, end, new in sorted(found):  # one string may hold both kinds
        repairs.append(Repair(start, data[start:end].decode("latin-1")))
        out.extend((data[last:start], new))
        last = end
    out.append(data[last:])
    return b"".join(out) if repairs else data, repairs


def mended_as(repair: Repair) -> str:
    """What `repair` puts in place of it."""
    return "null" if repair.original[:1] in ("-", "N", "I") else "\\ufffd"


def unmended(place: int, repairs: list[Repair]) -> int:
    """A place in the mended bytes as one in the original."""
    shift = 0
    for r in repairs:
        new = len(mended_as(r))
        if place < r.offset + shift + new:
            break
        shift += new - len(r.original)
    return place - shift


def _mendable(error: Exception, data: bytes | memoryview) -> bool:
    """Whether `repair` might help: not where a text breaks off (all of it was read; but a lone surrogate at the very end is told in the same words), is of another
    type, is no JSON from its first byte on, or holds nothing that is mended."""
    text = str(error)
    if "truncated" in text:
        return b"\\u" in bytes(data[-16:])
    return not isinstance(error, msgspec.ValidationError) and _START.match(data) is not None and _ODD.search(data) is not None


def is_utf8(data: bytes | memoryview) -> bool:
    """Whether all of it is UTF-8. msgspec looks only at the strings that it decodes: a Raw, or a member that is passed over, may hold anything."""
    if isinstance(data, bytes) and data.isascii():
        return True
    try:
        if len(data) <= _PIECE:
            str(data, "utf-8")
            return True
        decoder = _utf8_decoder()
        for start in range(0, len(data), _PIECE):
            piece = bytes(data[start : start + _PIECE])
            if not piece.isascii() or decoder.getstate()[0]:
                decoder.decode(piece)
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def explain(error: Exception, size: int) -> tuple[str, int | None, str | None]:
    """msgspec's error as (message, byte, JSON path)."""
    text = str(error)
    byte = int(m[1]) if (m := _PLACE.search(text)) else size if "truncated" in text else None
    if byte is not None and "trailing characters" in text:  # it has looked at the first of them
        byte -= 1
    path = m[1] if (m := _PATH.search(text)) else None
    text = _PATH.sub("", _PLACE.sub("", text)).strip().rstrip(":")
    if "truncated" in text:
        text = BREAKS_OFF
    return text.replace("JSON is malformed: ", "not JSON: "), byte, path


def decode(
    data: bytes | memoryview,
    decoder: Callable[[bytes | memoryview], T],
    report: Report,
    *,
    line: int | None = None,
    offset: int = 0,
    repairs: list[Repair] | None = None,
) -> T:
    """One document (or one line: ``line``, ``offset``) through ``decoder`` (a msgspec Decoder's ``decode``), mended where it must be.

    A byte-order mark is passed over. What was repaired is noted and added to ``repairs``. ReadError says where it broke (in ``data`` as given)."""
    if line is not None:
        if len(data) > MAX_LINE:
            raise ReadError(f"{len(data):,} bytes are more than one record may have", input=report.input, line=line, byte=offset)
    elif len(data) > _NOT_SMALL and len(data) > largest():
        raise too_large(input=report.input)
    if bytes(data[:3]) == b"\xef\xbb\xbf":
        data, offset = data[3:], offset + 3
    first: Exception | None = None
    try:
        if is_utf8(data):
            return decoder(data)
    except RecursionError:
        raise ReadError(TOO_DEEP, input=report.input, line=line, byte=offset) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        first = error
    found: list[Repair] = []
    if first is None and _START.match(data) is None:
        raise ReadError("not JSON: invalid character", input=report.input, line=line, byte=offset)
    if first is None or _mendable(first, data):
        try:
            mended, found = repair(bytes(data))
        except ReadError as error:
            raise ReadError(error.message, input=report.input, line=line, byte=offset + (error.byte or 0)) from None
    if found:
        try:
            result = decoder(mended)
        except RecursionError:
            raise ReadError(TOO_DEEP, input=report.input, line=line, byte=offset) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            message, byte, path = explain(error, len(mended))
            byte = None if byte is None else offset + unmended(byte, found)
            raise ReadError(message, input=report.input, line=line, byte=byte, path=path) from None
        else:
            for r in found:
                r.offset += offset
                report.note(
                    "repaired",
                    f"{r.original!r} is no JSON; read as {'null' if mended_as(r) == 'null' else 'U+FFFD'}",
                    "info",
                    line=line,
                    byte=r.offset,
                )
            if repairs is not None:
                repairs.extend(found)
            return result
    if first is None:  # no UTF-8 outside of strings, where nothing can be mended
        try:
            decoder(data)
        except RecursionError:
            raise ReadError(TOO_DEEP, input=report.input, line=line, byte=offset) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            first = error
    message, byte, path = explain(first, len(data)) if first is not None else ("not JSON: no UTF-8", None, None)
    raise ReadError(message, input=report.input, line=line, byte=None if byte is None else offset + byte, path=path)


def value(raw: Raw) -> Any:
    """The Raw decoded to plain Python values; None for ABSENT and for bytes that do not decode."""
    if not raw:
        return None
    try:
        return _untyped.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def fields(raw: Raw) -> dict[str, Raw]:
    """The members of a JSON object, each as Raw; {} for anything else."""
    try:
        return _raw_object.decode(raw) if raw else {}
    except (msgspec.DecodeError, RecursionError):
        return {}


def is_text(raw: Raw) -> bool:
    """Whether there is a JSON string in ``raw``."""
    return bool(raw) and memoryview(raw)[0] == _QUOTE


def text(raw: Raw) -> str | None:
    """The string that a Raw holds, or None when it holds something else."""
    if raw and memoryview(raw)[0] == _QUOTE:
        try:
            return _string.decode(raw)
        except msgspec.DecodeError:
            return None
    return None


def inner(source: str) -> Raw:
    """JSON inside a string (a model's ``arguments``): its own text as Raw when it is JSON, else the text as a JSON string."""
    data = source.encode("utf-8", "replace")
    try:
        _untyped.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return Raw(msgspec.json.encode(data.decode()))
    return Raw(data)


def minify(raw: Raw) -> bytes:
    """The JSON text without white space outside strings."""
    data = bytes(raw)
    if not data or (data[:1] == data[-1:] == b'"'):  # a string, which large texts mostly are, has none
        return data
    return msgspec.json.format(data, indent=-1)


def encode_object(given: Any) -> bytes:
    """An object in memory as the JSON text that its producer would write: NaN and infinities as literals (so that they are told, not lost as
    null). ReadError for what no JSON can hold."""
    try:
        return json.dumps(given, default=msgspec.to_builtins).encode()
    except (TypeError, ValueError, RecursionError, NotImplementedError) as error:
        raise ReadError(f"the object can't be written as JSON: {error}") from error


def finite(value: Any) -> float | None:
    """A number as a float; None for anything else, and for what no float can hold (an integer of 400 digits, an infinity)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def is_null(raw: Raw) -> bool:
    """Absent or JSON null."""
    return not raw or raw == _NULL


__all__ = [
    "ABSENT",
    "BREAKS_OFF",
    "MAX_DOCUMENT",
    "MAX_LINE",
    "MAX_UNPACKED",
    "TOO_DEEP",
    "decode",
    "encode_object",
    "explain",
    "fields",
    "finite",
    "inner",
    "is_null",
    "is_text",
    "largest",
    "mended_as",
    "minify",
    "repair",
    "text",
    "too_large",
    "unmended",
    "value",
]
