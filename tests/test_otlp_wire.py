"""The wire writer against the official protobuf classes: its bytes parse to the same message, hostile values included."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from spanport.converters.conventions.flat import FlatEvent, FlatLink, FlatSpan
from spanport.converters.otlp import encode, wire

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


@settings(max_examples=300, deadline=None)
@given(spans)
def test_a_span_parses_to_what_the_official_classes_build(span: FlatSpan) -> None:
    scope = ScopeSpans()
    encode.add_span(scope, span)
    assert _canonical(SpanMessage.FromString(wire.span(span))) == _canonical(scope.spans[0])


@settings(max_examples=50, deadline=None)
@given(st.lists(spans, max_size=3), attributes)
def test_a_request_parses_to_what_the_official_classes_build(given_spans: list[FlatSpan], resource: list[tuple[str, object]]) -> None:
    wanted = ExportTraceServiceRequest()
    rs = wanted.resource_spans.add()
    rs.resource.SetInParent()
    encode._put(rs.resource.attributes, resource)
    scope = rs.scope_spans.add()
    scope.scope.name, scope.scope.version, scope.schema_url = "spanport", "1", "https://schema"
    for span in given_spans:
        encode.add_span(scope, span)
    head = wire.resource_spans_head(resource, "spanport", "1")
    found = ExportTraceServiceRequest.FromString(wire.request(head, [wire.span(s) for s in given_spans], "https://schema"))
    assert str(found) == str(wanted)


def test_a_large_string_is_written_whole() -> None:
    payload = b'{"a":"' + b"x" * 3_000_000 + b'"}'
    span = FlatSpan(trace_id="1" * 32, span_id="2" * 16, name="n", start=1, end=2, attributes=[("big", payload), ("nan", math.nan)])
    found = SpanMessage.FromString(wire.span(span))
    assert found.attributes[0].value.string_value.encode() == payload
    assert math.isnan(found.attributes[1].value.double_value)
