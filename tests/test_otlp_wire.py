"""The two OTLP encodings against plain oracles, hostile values included: the wire writer against the official protobuf classes, the text writer against
a tree of dicts."""

import json
import math
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from spanport.converters.conventions.flat import Attributes, FlatEvent, FlatLink, FlatSpan
from spanport.converters.model import Phase, TraceHeader
from spanport.converters.otlp import jsontext, wire
from spanport.converters.otlp.encode import OPEN, batched
from spanport.converters.text import safe_text

# What the official classes make of a flat span: the oracle.
_INT64 = range(-(1 << 63), 1 << 63)
FLAGS = 0x100


def _safe(value: str) -> str:
    return safe_text(value) if any("\ud800" <= c <= "\udfff" for c in value) else value


def _fill(target: AnyValue, value: Any) -> None:
    if value.__class__ is str:
        try:
            target.string_value = value
        except (ValueError, UnicodeEncodeError):
            target.string_value = _safe(value)
    elif value.__class__ is bytes:
        target.string_value = value.decode()
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        if value in _INT64:
            target.int_value = value
        else:
            target.string_value = str(value)
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, list | tuple):
        target.array_value.SetInParent()
        for item in value:
            _fill(target.array_value.values.add(), item)
    elif isinstance(value, dict):
        target.kvlist_value.SetInParent()
        for key, item in value.items():
            pair = target.kvlist_value.values.add()
            pair.key = _safe(str(key))
            pair.value.SetInParent()
            _fill(pair.value, item)
    elif value is not None:
        target.string_value = _safe(str(value))


def _put(target: Any, attributes: Attributes) -> None:
    for key, value in attributes:
        pair = target.add()
        pair.key = _safe(key)
        pair.value.SetInParent()
        _fill(pair.value, value)


def add_span(scope: ScopeSpans, span: FlatSpan) -> None:
    """Append ``span`` to ``scope``."""
    m = scope.spans.add()
    m.trace_id = bytes.fromhex(span.trace_id)
    m.span_id = bytes.fromhex(span.span_id)
    if span.parent_id is not None:
        m.parent_span_id = bytes.fromhex(span.parent_id)
    m.name = _safe(span.name)
    m.kind = span.kind  # type: ignore[assignment]
    m.start_time_unix_nano = max(span.start, 0)
    m.end_time_unix_nano = max(span.end, 0)
    m.flags = FLAGS
    _put(m.attributes, span.attributes)
    for event in span.events:
        e = m.events.add()
        e.time_unix_nano = max(event.time, 0)
        e.name = _safe(event.name)
        _put(e.attributes, event.attributes)
    for link in span.links:
        x = m.links.add()
        x.trace_id = bytes.fromhex(link.trace_id)
        x.span_id = bytes.fromhex(link.span_id)
        x.flags = FLAGS
        _put(x.attributes, link.attributes)
    if span.status:
        m.status.code = span.status  # type: ignore[assignment]
        if span.message:
            m.status.message = _safe(span.message)


# OTLP JSON as a tree of dicts: the oracle of the text writer.
def _json_value(value: Any) -> dict[str, Any]:
    if value.__class__ is str:
        return {"stringValue": _safe(value)}
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
        return {"kvlistValue": {"values": [{"key": _safe(str(n)), "value": _json_value(v)} for n, v in value.items()]}}
    return {} if value is None else {"stringValue": _safe(str(value))}


def _json_attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": _safe(key), "value": _json_value(value)} for key, value in attributes]


def json_span(span: FlatSpan) -> dict[str, Any]:
    """``span`` as the object that OTLP JSON has for it."""
    found: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id is not None:
        found["parentSpanId"] = span.parent_id
    found["flags"] = FLAGS
    found["name"] = _safe(span.name)
    found["kind"] = span.kind
    found["startTimeUnixNano"] = str(max(span.start, 0))
    found["endTimeUnixNano"] = str(max(span.end, 0))
    found["attributes"] = _json_attributes(span.attributes)
    if span.events:
        found["events"] = [
            {"timeUnixNano": str(max(e.time, 0)), "name": _safe(e.name), "attributes": _json_attributes(e.attributes)} for e in span.events
        ]
    if span.links:
        found["links"] = [
            {"traceId": x.trace_id, "spanId": x.span_id, "flags": FLAGS, "attributes": _json_attributes(x.attributes)} for x in span.links
        ]
    status: dict[str, Any] = {"code": span.status} if span.status else {}
    if span.message:
        status["message"] = _safe(span.message)
    found["status"] = status
    return found


text = st.text(st.characters(), max_size=60)  # lone surrogates included
leaf = st.one_of(
    text,
    text.map(lambda s: s.encode("utf-8", "replace")),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.integers(-200, 200),
    st.floats(),
    st.none(),
)
values = st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6)
attributes = st.lists(st.tuples(text, values), max_size=8)
times = st.integers(-5, (1 << 64) - 1)
hex16 = st.binary(min_size=8, max_size=8).map(bytes.hex)
hex32 = st.binary(min_size=16, max_size=16).map(bytes.hex)
spans = st.builds(
    FlatSpan,
    trace_id=hex32,
    span_id=hex16,
    parent_id=st.none() | hex16,
    name=text,
    kind=st.integers(0, 5),
    start=times,
    end=times,
    attributes=attributes,
    events=st.lists(st.builds(FlatEvent, name=text, time=times, attributes=attributes), max_size=3),
    links=st.lists(st.builds(FlatLink, trace_id=hex32, span_id=hex16, attributes=attributes), max_size=2),
    status=st.integers(0, 2),
    message=text,
)


def _canonical(message: SpanMessage) -> str:
    """Text form, in which every NaN is the same."""
    return str(message)


@settings(max_examples=100, deadline=None)
@given(spans)
def test_a_span_parses_to_what_the_official_classes_build(span: FlatSpan) -> None:
    scope = ScopeSpans()
    add_span(scope, span)
    assert _canonical(SpanMessage.FromString(wire.span(span))) == _canonical(scope.spans[0])


@settings(max_examples=50, deadline=None)
@given(st.lists(spans, max_size=3), attributes)
def test_a_request_parses_to_what_the_official_classes_build(given_spans: list[FlatSpan], resource: list[tuple[str, object]]) -> None:
    wanted = ExportTraceServiceRequest()
    rs = wanted.resource_spans.add()
    rs.resource.SetInParent()
    _put(rs.resource.attributes, resource)
    scope = rs.scope_spans.add()
    scope.scope.name, scope.scope.version, scope.schema_url = "spanport", "1", "https://schema"
    for span in given_spans:
        add_span(scope, span)
    head = wire.resource_spans_head(resource, "spanport", "1")
    found = ExportTraceServiceRequest.FromString(wire.request(head, [wire.span(s) for s in given_spans], "https://schema"))
    assert str(found) == str(wanted)


def test_a_large_string_is_written_whole() -> None:
    payload = b'{"a":"' + b"x" * 3_000_000 + b'"}'
    span = FlatSpan(trace_id="1" * 32, span_id="2" * 16, name="n", start=1, end=2, attributes=[("big", payload), ("nan", math.nan)])
    found = SpanMessage.FromString(wire.span(span))
    assert found.attributes[0].value.string_value.encode() == payload
    assert math.isnan(found.attributes[1].value.double_value)


@settings(max_examples=100, deadline=None)
@given(spans)
def test_json_text_parses_to_the_tree_of_dicts(span: FlatSpan) -> None:
    assert json.loads(jsontext.span(span)) == json_span(span)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_batches_hold_all_spans_of_each_trace_in_their_order(given_spans: list[tuple[int, bool]]) -> None:
    headers = [TraceHeader(id=str(t) * 32, family="f", format="x", run_key=[]) for t in range(4)]
    spans = [
        Phase(id=f"{i + 1:016x}", trace_id=headers[t].id, name="n", key="k", parent_id=None if root else "a" * 16)
        for i, (t, root) in enumerate(given_spans)
    ]
    found: dict[str, list[Any]] = {h.id: [] for h in headers}
    for header, group in batched([*headers, *spans], 2):
        assert 0 < len(group) <= 2
        found[header.id] += group
    assert found == {h.id: [s for s in spans if s.trace_id == h.id] for h in headers}


def test_batches_of_many_open_traces_are_not_held() -> None:
    def items() -> Iterator[Any]:
        nonlocal read
        for i in range(1000):
            trace = f"{i + 1:032x}"
            yield TraceHeader(id=trace, family="f", format="x", run_key=[])
            read += 1
            yield Phase(id="a" * 16, trace_id=trace, name="n", key="k", parent_id="b" * 16)

    read = gave = 0
    for _, group in batched(items(), 4):
        gave += len(group)
        assert read - gave <= OPEN * 4
    assert gave == 1000
