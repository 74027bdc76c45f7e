"""Flat spans as the bytes of one request: protobuf or JSON. A span is encoded once, on its own, so that batches are cut by exact bytes and a
request is only put together; `Codec.flat` goes back, for what is rare (shortening, the spool).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from ...converters.conventions.flat import Attributes, Dress, FlatEvent, FlatLink, FlatSpan
from ...converters.model import AnySpan
from ...converters.otlp import jsontext, wire
from ...converters.otlp.encode import SCOPE, scope_version

_decode = msgspec.json.Decoder().decode


class Envelope(Struct, frozen=True, eq=False):
    """What stands around the spans of one trace: its resource and the schema of the conventions. Compared by identity."""

    trace_id: str
    resource: Attributes
    schema_url: str
    scope: str = SCOPE
    version: str = ""


class Piece(Struct, gc=False):
    """One encoded span and whose it is. ``shortened``: it was too large for a request and its values were cut."""

    envelope: Envelope
    span_id: str
    root: bool
    data: bytes
    shortened: bool = False
    digest: bytes = b""


class Codec(Protocol):
    """``span``: one flat span as bytes; ``plain``: the same of a span in a dress that many have (None: not so); ``request``: pieces as one body; ``flat``: the flat span again; ``room``: bytes that a piece
    takes in a request apart from its own, and an envelope from its spans."""

    content_type: str

    def span(self, flat: FlatSpan) -> bytes: ...
    def plain(self, span: AnySpan, dress: Dress) -> bytes | None: ...
    def request(self, pieces: Sequence[Piece]) -> bytes: ...
    def flat(self, data: bytes) -> FlatSpan: ...
    def room(self, envelope: Envelope) -> int: ...


PIECE_ROOM: Final = 6
"""Bytes of framing that a span takes in a request, at most (a tag and a length in protobuf, a comma in JSON)."""


def _groups(pieces: Iterable[Piece]) -> Iterable[tuple[Envelope, list[bytes]]]:
    for _, group in groupby(pieces, key=lambda p: id(p.envelope)):
        held = list(group)
        yield held[0].envelope, [p.data for p in held]


class Protobuf:
    """OTLP protobuf: ``ExportTraceServiceRequest``, and equally ``TracesData``."""

    content_type = "application/x-protobuf"

    span = staticmethod(wire.span)
    plain = staticmethod(wire.plain)

    def request(self, pieces: Sequence[Piece]) -> bytes:
        return b"".join(  # repeated fields of one message may simply follow each other
            wire.request(wire.resource_spans_head(e.resource, e.scope, e.version or scope_version()), spans, e.schema_url)
            for e, spans in _groups(pieces)
        )

    def flat(self, data: bytes) -> FlatSpan:
        return flat_of_proto(ProtoSpan.FromString(data))

    def room(self, envelope: Envelope) -> int:
        head = wire.resource_spans_head(envelope.resource, envelope.scope, envelope.version or scope_version())
        return len(wire.request(head, [], envelope.schema_url)) + 16


class Json:
    """OTLP JSON: hex ids, 64-bit integers as strings, lowerCamelCase."""

    content_type = "application/json"

    span = staticmethod(jsontext.span)
    plain = staticmethod(jsontext.plain)

    def request(self, pieces: Sequence[Piece]) -> bytes:
        return b'{"resourceSpans":[' + b",".join(json_group(e, spans) for e, spans in _groups(pieces)) + b"]}"

    def flat(self, data: bytes) -> FlatSpan:
        return flat_of_json(_decode(data))

    def room(self, envelope: Envelope) -> int:
        return len(json_group(envelope, [])) + 32


PROTOBUF: Final = Protobuf()
JSON: Final = Json()


def json_group(envelope: Envelope, spans: Sequence[bytes]) -> bytes:
    """One ResourceSpans of encoded spans."""
    return jsontext.group(envelope.resource, envelope.scope, envelope.version or scope_version(), spans, envelope.schema_url)


# ------------------------------------------------------------------------------------------------- back to flat spans
def _value_of_proto(value: AnyValue) -> Any:
    which = value.WhichOneof("value")
    if which is None:
        return None
    if which == "array_value":
        return [_value_of_proto(v) for v in value.array_value.values]
    if which == "kvlist_value":
        return {p.key: _value_of_proto(p.value) for p in value.kvlist_value.values}
    return getattr(value, which)


def _attributes_of_proto(given: Any) -> Attributes:
    return [(p.key, _value_of_proto(p.value)) for p in given]


def flat_of_proto(m: ProtoSpan) -> FlatSpan:
    """A Span message as a flat span."""
    return FlatSpan(
        trace_id=m.trace_id.hex(),
        span_id=m.span_id.hex(),
        parent_id=m.parent_span_id.hex() or None,
        name=m.name,
        kind=int(m.kind),
        start=m.start_time_unix_nano,
        end=m.end_time_unix_nano,
        attributes=_attributes_of_proto(m.attributes),
        events=[FlatEvent(e.name, e.time_unix_nano, _attributes_of_proto(e.attributes)) for e in m.events],
        links=[FlatLink(x.trace_id.hex(), x.span_id.hex(), _attributes_of_proto(x.attributes)) for x in m.links],
        status=int(m.status.code),
        message=m.status.message,
    )


def _value_of_json(value: dict[str, Any]) -> Any:
    for kind, held in value.items():
        match kind:
            case "intValue":
                return int(held)
            case "doubleValue":
                return float(held)
            case "arrayValue":
                return [_value_of_json(v) for v in held.get("values", ())]
            case "kvlistValue":
                return {p["key"]: _value_of_json(p.get("value", {})) for p in held.get("values", ())}
            case _:
                return held
    return None


def attributes_of_json(given: Iterable[dict[str, Any]]) -> Attributes:
    """OTLP JSON's list of key and value as attributes."""
    return [(p["key"], _value_of_json(p.get("value", {}))) for p in given]


def flat_of_json(m: dict[str, Any]) -> FlatSpan:
    """A span object of OTLP JSON as a flat span. KeyError, TypeError or ValueError when it is none."""
    status = m.get("status", {})
    return FlatSpan(
        trace_id=m["traceId"],
        span_id=m["spanId"],
        parent_id=m.get("parentSpanId") or None,
        name=m.get("name", ""),
        kind=int(m.get("kind", 1)),
        start=int(m.get("startTimeUnixNano", 0)),
        end=int(m.get("endTimeUnixNano", 0)),
        attributes=attributes_of_json(m.get("attributes", ())),
        events=[
            FlatEvent(e.get("name", ""), int(e.get("timeUnixNano", 0)), attributes_of_json(e.get("attributes", ())))
            for e in m.get("events", ())
        ],
        links=[FlatLink(x["traceId"], x["spanId"], attributes_of_json(x.get("attributes", ()))) for x in m.get("links", ())],
        status=int(status.get("code", 0)),
        message=status.get("message", ""),
    )
