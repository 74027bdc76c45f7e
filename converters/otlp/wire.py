"""Flat spans → OTLP protobuf bytes, written straight to the wire: what the protobuf classes would give, several times as fast.

Only what an exporter writes is here: varints, length prefixes, and the fields of `Span`, `Event`, `Link`, `KeyValue`, `AnyValue`, `Resource`,
`ScopeSpans`, `ResourceSpans` (numbers from opentelemetry-proto's trace.proto and common.proto). A property test holds that the bytes parse to
the same message as the official classes build. Values that OTLP can't hold are made safe as in `encode`: lone surrogates become U+FFFD,
integers beyond 64 bit become strings.

Large strings are put into the output once: lengths are worked out first, pieces are joined at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from struct import Struct
from typing import Any, Final

from ..conventions.flat import INT64 as _INT64
from ..conventions.flat import Attributes, Dress, FlatSpan, Own
from ..ids import is_id
from ..model import AnySpan, Event
from ..text import safe_text

FLAGS: Final = 0x100  # "is_remote is known, and false", as the SDK sets it
_FLAGS_16: Final = b"\x85\x01\x00\x01\x00\x00"  # Span.flags, field 16, fixed32
_FLAGS_6: Final = b"\x35\x00\x01\x00\x00"  # Link.flags, field 6, fixed32
_TIMES: Final = Struct("<BQBQ").pack  # start (7) and end (8), fixed64
_FIXED64: Final = Struct("<BQ").pack
_DOUBLE: Final = Struct("<Bd").pack
_U64 = (1 << 64) - 1
_MAX_TIME: Final = (1 << 63) - 1
_ZERO: Final = bytes(8)


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


_SMALL: Final = (*(bytes((n,)) for n in range(128)), *(bytes((n & 0x7F | 0x80, n >> 7)) for n in range(128, 1 << 14)))


def varint(n: int) -> bytes:
    """An unsigned integer as protobuf writes it."""
    return _SMALL[n] if n < 16384 else _varint(n)


def _utf8(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        return safe_text(value).encode()


def _delimited(tag: bytes, body: bytes) -> bytes:
    return tag + varint(len(body)) + body


def any_value(value: Any) -> bytes:
    """The body of an AnyValue; ``bytes`` is UTF-8 text (see `conventions.flat`), None is the empty value."""
    kind = value.__class__
    if kind is str:
        return _delimited(b"\x0a", _utf8(value))
    if kind is bytes:
        return _delimited(b"\x0a", value)
    if kind is bool:
        return b"\x10\x01" if value else b"\x10\x00"
    if kind is int:
        return b"\x18" + varint(value & _U64) if value in _INT64 else _delimited(b"\x0a", str(value).encode())
    if kind is float:
        return _DOUBLE(0x21, value)
    if isinstance(value, list | tuple):
        return _delimited(b"\x2a", b"".join([_delimited(b"\x0a", any_value(v)) for v in value]))
    if isinstance(value, dict):
        return _delimited(b"\x32", b"".join([_delimited(b"\x0a", _pair(str(n), v)) for n, v in value.items()]))
    return b"" if value is None else _delimited(b"\x0a", _utf8(str(value)))


_keys: dict[str, bytes] = {}


def _key(name: str) -> bytes:
    """The field ``key`` of a KeyValue and the tag of ``value``. Names are few: they are kept, up to a bound."""
    if (known := _keys.get(name)) is None:
        if len(_keys) > 8192:
            _keys.clear()
        known = _keys[name] = _delimited(b"\x0a", _utf8(name)) + b"\x12"
    return known


def _pair(name: str, value: Any) -> bytes:
    """The body of a KeyValue."""
    body = any_value(value)
    return _key(name) + varint(len(body)) + body


# Whole attributes whose value is a short string: most of a span's, and mostly the same ones again. By tag, then by (name, value).
_short: dict[bytes, dict[tuple[str, str], bytes]] = {}


def attributes(tag: bytes, given: Attributes, out: list[bytes]) -> None:
    """Add each of ``given`` as a KeyValue under ``tag`` to the pieces ``out``."""
    add = out.append
    short = _short.setdefault(tag, {})
    for pair in given:
        name, value = pair
        kind = value.__class__
        if kind is str:
            if len(value) < 40:
                if (piece := short.get(pair)) is None:
                    if len(short) > 8192:
                        short.clear()
                    piece = short[pair] = _delimited(tag, _pair(name, value))
                add(piece)
                continue
            value = _utf8(value)
        elif kind is int and value in _INT64:
            count = varint(value & _U64)
            key = _key(name)
            inside = 1 + len(count)
            add(tag + varint(len(key) + 1 + inside) + key + _SMALL[inside] + b"\x18" + count)
            continue
        elif kind is not bytes:
            add(_delimited(tag, _pair(name, value)))
            continue
        size = len(value)
        count = varint(size)
        inside = 1 + len(count) + size
        key = _key(name)
        length = varint(inside)
        add(tag + varint(len(key) + len(length) + inside) + key + length + b"\x0a" + count)
        add(value)


_names: dict[tuple[str, int], bytes] = {}


def _name_and_kind(name: str, kind: int) -> bytes:
    if (known := _names.get((name, kind))) is None:
        if len(_names) > 4096:
            _names.clear()
        known = _names[name, kind] = _delimited(b"\x2a", _utf8(name)) + (b"\x30" + varint(kind) if kind else b"")
    return known


# The fields of the ids of traces and of parents, the same for many spans. Only what is an id is kept.
_traces: dict[str, bytes] = {}
_parents: dict[str, bytes] = {}


def _id(known: dict[str, bytes], tag: bytes, text: str) -> bytes:
    """The field of an id (``tag`` says how many bytes it has), or of what stands in its place."""
    if (found := known.get(text)) is None:
        found = tag + bytes.fromhex(text)
        if is_id(text, 2 * tag[1]):
            if len(known) > 4096:
                known.clear()
            known[text] = found
    return found


def span(given: FlatSpan) -> bytes:
    """One Span message."""
    return b"".join(span_pieces(given))


def span_pieces(given: FlatSpan) -> list[bytes]:
    """The pieces of one Span message, to be joined."""
    fromhex = bytes.fromhex
    parent = given.parent_id
    start, end = given.start, given.end
    out = [
        _id(_traces, b"\x0a\x10", given.trace_id)
        + b"\x12\x08"
        + fromhex(given.span_id)
        + (_id(_parents, b"\x22\x08", parent) if parent else b""),
        _name_and_kind(given.name, given.kind),
        _TIMES(0x39, start if 0 < start <= _U64 else 0, 0x41, end if 0 < end <= _U64 else 0),
    ]
    attributes(b"\x4a", given.attributes, out)
    for event in given.events:
        inner = [_FIXED64(0x09, max(event.time, 0)), _delimited(b"\x12", _utf8(event.name))]
        attributes(b"\x1a", event.attributes, inner)
        out.append(b"\x5a" + varint(sum(map(len, inner))))
        out.extend(inner)
    for link in given.links:
        inner = [b"\x0a\x10" + fromhex(link.trace_id) + b"\x12\x08" + fromhex(link.span_id)]
        attributes(b"\x22", link.attributes, inner)
        inner.append(_FLAGS_6)
        out.append(b"\x6a" + varint(sum(map(len, inner))))
        out.extend(inner)
    if given.status:
        if given.message:
            out.append(_delimited(b"\x7a", _delimited(b"\x12", _utf8(given.message)) + b"\x18" + varint(given.status)))
        else:
            out.append(_delimited(b"\x7a", b"\x18" + varint(given.status)))
    out.append(_FLAGS_16)
    return out


class _Dressed:
    """A dress as it is written. ``name``: the fields of name and kind (None: the span's own name); ``attributes``: KeyValues, and of those whose value is
    a field of the span what they need: name, getter, and what makes the text; ``tail``: what comes after attributes and events."""

    __slots__ = ("attributes", "kind", "name", "tail")

    def __init__(self, dress: Dress) -> None:
        self.kind = dress.kind
        self.name = None if dress.name.__class__ is Own else _name_and_kind(dress.name, dress.kind)
        self.attributes: list[Any] = []
        shared: list[bytes] = []
        for pair in dress.attributes:
            if pair[1].__class__ is Own:
                self.attributes += (b"".join(shared), (pair[0], attrgetter(pair[1]), pair[1].how))
                shared = []
            else:
                attributes(b"\x4a", [pair], shared)
        self.attributes.append(b"".join(shared))
        self.tail = (_delimited(b"\x7a", b"\x18" + varint(dress.status)) if dress.status else b"") + _FLAGS_16


def plain(given: AnySpan, dress: Dress) -> bytes | None:
    """What `span` gives for a span with this dress, without a flat span; None where anything that is its own is not as it should be."""
    start, end, parent = given.start, given.end, given.parent_id
    if start is None or end is None or not 0 < start <= end <= _MAX_TIME:
        return None
    try:
        own = bytes.fromhex(given.id)  # passes over blanks, so that the bytes are counted too
        trace = _traces.get(given.trace_id) or _id(_traces, b"\x0a\x10", given.trace_id)
        above = b"" if parent is None else _parents.get(parent) or _id(_parents, b"\x22\x08", parent)
        if (
            len(own) != 8
            or len(given.id) != 16
            or own == _ZERO
            or given.trace_id not in _traces
            or not (parent is None or parent in _parents)
        ):
            return None
        if (made := dress.proto) is None:
            made = dress.proto = _Dressed(dress)
        name, times, shared = made.name, _TIMES(0x39, start, 0x41, end), made.attributes
        if len(shared) == 1 and not given.attributes and not given.events:
            return b"".join((trace, b"\x12\x08", own, above, name, times, shared[0], made.tail))
        if name is None:
            text = given.name.encode()
            name = b"\x2a" + varint(len(text)) + text + (b"\x30" + varint(made.kind))
        out = [trace, b"\x12\x08", own, above, name, times]
        for piece in shared:
            if piece.__class__ is bytes:
                out.append(piece)
                continue
            key, field, how = piece
            if how is None:
                out.append(_simple(b"\x4a", key, field(given)))
            else:
                out += _carried(key, how(field(given)))
        if given.attributes:
            if not dress.names.isdisjoint(given.attributes):
                return None
            out += [_simple(b"\x4a", key, value) for key, value in given.attributes.items()]
        if given.events:
            out += [_simple_event(event) for event in given.events]
        out.append(made.tail)
        return b"".join(out)
    except ValueError:  # no id, or a value that OTLP can't hold as it is
        return None


def _carried(name: str, text: bytes) -> tuple[bytes, bytes]:
    """A KeyValue of a span whose value is a text that may be long, in two pieces, so that it is not copied. ValueError for what is no UTF-8."""
    if not text.isascii():
        text.decode()
    count, key = varint(len(text)), _keys.get(name) or _key(name)
    inside = varint(1 + len(count) + len(text))
    size = varint(len(key) + len(inside) + 1 + len(count) + len(text))
    return b"".join((b"\x4a", size, key, inside, b"\x0a", count)), text


def _simple(tag: bytes, name: str, value: Any) -> bytes:
    """A KeyValue under ``tag`` of a text or a number. ValueError for anything else, and for what OTLP can't hold as it is."""
    kind = value.__class__
    if kind is str:
        text = value.encode()
        body = b"\x0a" + varint(len(text)) + text
    elif kind is int and value in _INT64:
        body = b"\x18" + varint(value & _U64)
    elif kind is float and value - value == 0:
        body = _DOUBLE(0x21, value)
    elif kind is bool:
        body = b"\x10\x01" if value else b"\x10\x00"
    else:
        raise ValueError(value)
    if not name or not name.isascii():
        raise ValueError(name)
    key, size = _keys.get(name) or _key(name), varint(len(body))
    return b"".join((tag, varint(len(key) + len(size) + len(body)), key, size, body))


def _simple_event(event: Event) -> bytes:
    """The field of an event whose attributes are texts and numbers. ValueError as with `_simple`."""
    time = event.time
    if time is None or not 0 <= time <= _MAX_TIME:
        raise ValueError(time)
    name = event.name.encode()
    size = varint(len(name))
    more = b"".join([_simple(b"\x1a", key, value) for key, value in event.attributes.items()]) if event.attributes else b""
    return b"".join((b"\x5a", varint(10 + len(size) + len(name) + len(more)), _FIXED64(0x09, time), b"\x12", size, name, more))


def resource_spans_head(resource: Attributes, scope: str, version: str) -> tuple[bytes, bytes]:
    """What stands in a ResourceSpans before its spans: (Resource field, scope field of the ScopeSpans)."""
    pieces: list[bytes] = []
    attributes(b"\x0a", resource, pieces)
    return _delimited(b"\x0a", b"".join(pieces)), _delimited(
        b"\x0a", _delimited(b"\x0a", _utf8(scope)) + _delimited(b"\x12", _utf8(version))
    )


def request(head: tuple[bytes, bytes], spans: Sequence[bytes], schema_url: str = "") -> bytes:
    """A TracesData (which is also an ExportTraceServiceRequest) of one ResourceSpans that holds ``spans`` (Span messages)."""
    resource, scope = head
    tail = _delimited(b"\x1a", schema_url.encode()) if schema_url else b""
    pieces: list[bytes] = []
    size = len(scope) + len(tail)
    for one in spans:
        prefix = b"\x12" + varint(len(one))
        size += len(prefix) + len(one)
        pieces += (prefix, one)
    scope_head = b"\x12" + varint(size)
    whole = len(resource) + len(scope_head) + size
    return b"".join((b"\x0a" + varint(whole), resource, scope_head, scope, *pieces, tail))
