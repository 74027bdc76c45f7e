"""Model → OTLP JSON Lines. The protobuf encoding is in `wire`.

Ids are hex, 64-bit integers are strings. Values that OTLP can't hold are made safe: lone surrogates, integers beyond 64 bit, NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any, BinaryIO, Final

import msgspec

from ..conventions import GENERIC, flatten
from ..conventions.flat import Attributes, FlatSpan, Profile
from ..conventions.semconv import SCHEMA_URL
from ..errors import Report
from ..model import Item, TraceHeader
from ..registry import WriteOptions
from .text import safe_text

SCOPE: Final = "spanport"
FLAGS: Final = 0x100  # "is_remote is known, and false", as the SDK sets it
_INT64 = range(-(1 << 63), 1 << 63)
_json = msgspec.json.Encoder()


def resource_attributes(header: TraceHeader) -> Attributes:
    """The resource of a trace: its own, with ``service.name`` from the producer where the source names no service."""
    known = dict(header.resource)
    known.setdefault("service.name", header.family)
    if known["service.name"] != header.family:
        known["spanport.family"] = header.family
    known.setdefault("spanport.source.format", header.format)
    known.setdefault("spanport.run.key", header.run_key)
    return list(known.items())


def scope_version() -> str:
    """The version of the installed package."""
    return version("spanport")


def _text(value: str) -> str:
    """A string that UTF-8 can hold: lone surrogates become U+FFFD."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return safe_text(value)
    return value


# ------------------------------------------------------------------------------------------------------------ JSON
def _json_value(value: Any) -> dict[str, Any]:
    if value.__class__ is str:
        return {"stringValue": _text(value)}
    if value.__class__ is bytes:
        return {"stringValue": value.decode()}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if value in _INT64 else {"stringValue": str(value)}
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return {"doubleValue": "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"}
        return {"doubleValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_json_value(v) for v in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": _text(str(n)), "value": _json_value(v)} for n, v in value.items()]}}
    return {} if value is None else {"stringValue": _text(str(value))}


def _json_attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _json_value(value)} for key, value in attributes]


def json_span(span: FlatSpan) -> dict[str, Any]:
    """``span`` as the object that OTLP JSON has for it."""
    found: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id is not None:
        found["parentSpanId"] = span.parent_id
    found["flags"] = FLAGS
    found["name"] = _text(span.name)
    found["kind"] = span.kind
    found["startTimeUnixNano"] = str(max(span.start, 0))
    found["endTimeUnixNano"] = str(max(span.end, 0))
    found["attributes"] = _json_attributes(span.attributes)
    if span.events:
        found["events"] = [
            {"timeUnixNano": str(max(e.time, 0)), "name": _text(e.name), "attributes": _json_attributes(e.attributes)} for e in span.events
        ]
    if span.links:
        found["links"] = [
            {"traceId": x.trace_id, "spanId": x.span_id, "flags": FLAGS, "attributes": _json_attributes(x.attributes)} for x in span.links
        ]
    status: dict[str, Any] = {"code": span.status} if span.status else {}
    if span.message:
        status["message"] = _text(span.message)
    found["status"] = status
    return found


def json_line(header: TraceHeader, spans: list[FlatSpan], profile: Profile) -> bytes:
    """One TracesData as one line of OTLP JSON, with its ``\\n``."""
    scope = {
        "scope": {"name": SCOPE, "version": scope_version()},
        "spans": [json_span(s) for s in spans],
        "schemaUrl": SCHEMA_URL[profile.dialect],
    }
    resource = {"attributes": _json_attributes(resource_attributes(header))}
    return _json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}) + b"\n"


def batched(items: Iterable[Item], size: int) -> Iterator[tuple[TraceHeader, list[Any]]]:
    """Items as (header, up to ``size`` spans of that trace), in order. Spans of interleaved traces each find their own header."""
    headers: dict[str, TraceHeader] = {}
    held: dict[str, list[Any]] = {}
    for item in items:
        if isinstance(item, TraceHeader):
            headers[item.id] = item
            continue
        group = held.setdefault(item.trace_id, [])
        group.append(item)
        if len(group) >= size:
            yield headers[item.trace_id], held.pop(item.trace_id)
    for trace, group in held.items():
        yield headers[trace], group


def write_json(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions, size: int = 512) -> None:
    """OTLP JSON Lines: one TracesData a line, of at most ``size`` spans of one trace."""
    profile = options.extra.get("profile") or Profile(carry=options.carry)
    for header, spans in batched(items, size):
        out.write(json_line(header, [flatten(s, profile) for s in spans], profile))


__all__ = ["GENERIC", "batched", "json_line", "json_span", "resource_attributes", "write_json"]
