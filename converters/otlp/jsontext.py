"""Flat spans → OTLP JSON, straight to text: hex ids, 64-bit integers as strings, lowerCamelCase.

The twin of `wire`: attributes that recur (short strings, truth values) are kept as text, large strings are escaped once. A property test holds that the text parses to
what a plain tree of dicts would. Values that OTLP can't hold are made safe: lone surrogates, integers beyond 64 bit; NaN and infinities are the strings that the
protobuf JSON mapping has for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ..conventions.flat import Attributes, Dress, FlatSpan, Own
from ..ids import is_id
from ..model import AnySpan
from ..text import safe_text

FLAGS: Final = 0x100  # "is_remote is known, and false", as the SDK sets it
_INT64 = range(-(1 << 63), 1 << 63)
_MAX_TIME: Final = (1 << 63) - 1
_encode = msgspec.json.Encoder().encode


def string(value: str) -> bytes:
    """A JSON string; lone surrogates become U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(safe_text(value))


def any_value(value: Any) -> bytes:
    """An AnyValue; ``bytes`` is UTF-8 text (see `conventions.flat`), None is the empty value."""
    kind = value.__class__
    if kind is str:
        return b'{"stringValue":' + string(value) + b"}"
    if kind is bytes:
        return b'{"stringValue":' + _encode(value.decode()) + b"}"
    if kind is bool:
        return b'{"boolValue":true}' if value else b'{"boolValue":false}'
    if kind is int:
        written: bytes = (b'{"intValue":"%d"}' if value in _INT64 else b'{"stringValue":"%d"}') % value
        return written
    if kind is float:
        if value - value != 0:
            return b'{"doubleValue":"%s"}' % (b"NaN" if value != value else b"Infinity" if value > 0 else b"-Infinity")
        return b'{"doubleValue":' + _encode(value) + b"}"
    if isinstance(value, list | tuple):
        return b'{"arrayValue":{"values":[' + b",".join([any_value(v) for v in value]) + b"]}}"
    if isinstance(value, dict):
        pairs = b",".join([b'{"key":' + string(str(n)) + b',"value":' + any_value(v) + b"}" for n, v in value.items()])
        return b'{"kvlistValue":{"values":[' + pairs + b"]}}"
    return b"{}" if value is None else b'{"stringValue":' + string(str(value)) + b"}"


_heads: dict[str, bytes] = {}
_short: dict[tuple[str, str], bytes] = {}


def _pair(name: str, value: Any) -> bytes:
    if (head := _heads.get(name)) is None:
        if len(_heads) > 8192:
            _heads.clear()
        head = _heads[name] = b'{"key":' + string(name) + b',"value":'
    return head + any_value(value) + b"}"


def attributes(given: Attributes) -> bytes:
    """The list of key and value."""
    out: list[bytes] = []
    for name, value in given:
        if value.__class__ is str and len(value) < 40:
            if (piece := _short.get((name, value))) is None:
                if len(_short) > 8192:
                    _short.clear()
                piece = _short[name, value] = _pair(name, value)
            out.append(piece)
        else:
            out.append(_pair(name, value))
    return b"[" + b",".join(out) + b"]"


def span(given: FlatSpan) -> bytes:
    """One span as OTLP JSON has it."""
    out = [b'{"traceId":"%s","spanId":"%s",' % (given.trace_id.encode(), given.span_id.encode())]
    if given.parent_id is not None:
        out.append(b'"parentSpanId":"%s",' % given.parent_id.encode())
    out.append(
        b'"flags":256,"name":%s,"kind":%d,"startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":'
        % (string(given.name), given.kind, max(given.start, 0), max(given.end, 0))
    )
    out.append(attributes(given.attributes))
    if given.events:
        events = [
            b'{"timeUnixNano":"%d","name":%s,"attributes":%s}' % (max(e.time, 0), string(e.name), attributes(e.attributes))
            for e in given.events
        ]
        out.append(b',"events":[' + b",".join(events) + b"]")
    if given.links:
        links = [
            b'{"traceId":"%s","spanId":"%s","flags":256,"attributes":%s}'
            % (x.trace_id.encode(), x.span_id.encode(), attributes(x.attributes))
            for x in given.links
        ]
        out.append(b',"links":[' + b",".join(links) + b"]")
    code = b'"code":%d' % given.status if given.status else b""
    message = b'"message":' + string(given.message) if given.message else b""
    out.append(b',"status":{' + code + (b"," if code and message else b"") + message + b"}}")
    return b"".join(out)


def plain(given: AnySpan, dress: Dress) -> bytes | None:
    """What `span` gives for a span that has ids, times and this dress and nothing of its own, without a flat span; None for any other, and where one of these is not as it
    should be."""
    start, end = given.start, given.end
    own, trace, parent = given.id, given.trace_id, given.parent_id
    if start is None or end is None or not 0 < start <= end <= _MAX_TIME or not (is_id(own, 16) and is_id(trace, 32)):
        return None
    if (parent is not None and not is_id(parent, 16)) or given.attributes or given.events:
        return None
    if (around := dress.json) is None:
        around = dress.json = () if any(value.__class__ is Own for _, value in dress.attributes) else _around(dress)
    if not around:
        return None
    above = b"" if parent is None else b'"parentSpanId":"%s",' % parent.encode()
    return b'{"traceId":"%s","spanId":"%s",%s%s"startTimeUnixNano":"%d","endTimeUnixNano":"%d",%s' % (
        trace.encode(),
        own.encode(),
        above,
        around[0],
        start,
        end,
        around[1],
    )


def _around(dress: Dress) -> tuple[bytes, bytes]:
    """What stands before and after the times."""
    status = b'"code":%d' % dress.status if dress.status else b""
    return (
        b'"flags":256,"name":%s,"kind":%d,' % (string(dress.name), dress.kind),
        b'"attributes":%s,"status":{%s}}' % (attributes(dress.attributes), status),
    )


def group(resource: Attributes, scope: str, version: str, spans: Sequence[bytes], schema_url: str = "") -> bytes:
    """A ResourceSpans of encoded spans."""
    tail = b',"schemaUrl":' + string(schema_url) if schema_url else b""
    return b'{"resource":{"attributes":%s},"scopeSpans":[{"scope":{"name":%s,"version":%s},"spans":[%s]%s}]}' % (
        attributes(resource),
        string(scope),
        string(version),
        b",".join(spans),
        tail,
    )


def line(resource: Attributes, scope: str, version: str, spans: Sequence[bytes], schema_url: str = "") -> bytes:
    """One TracesData with one ResourceSpans, as one line with its ``\\n``."""
    return b'{"resourceSpans":[' + group(resource, scope, version, spans, schema_url) + b"]}\n"
