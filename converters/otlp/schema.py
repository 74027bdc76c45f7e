"""OTLP traces as JSON has them (opentelemetry-proto's trace.proto, common.proto and resource.proto in the JSON mapping of the OTLP specification).

Spans are decoded with unknown fields forbidden; one that fails is decoded untyped, and what does not fit goes to its source (`decode`).
64-bit integers come as strings or numbers, enums as numbers or (against the specification, and seen) as names.
"""

from __future__ import annotations

from msgspec import Raw, Struct


class ArrayValue(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    values: list[AnyValue] = []


class KeyValueList(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    values: list[KeyValue] = []


class AnyValue(Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """At most one of the fields is set; none is the empty value."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    array_value: ArrayValue | None = None
    kvlist_value: KeyValueList | None = None
    bytes_value: str | None = None


class KeyValue(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    key: str
    value: AnyValue | None = None


class Event(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    time_unix_nano: int | str | None = None
    name: str = ""
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: int | str | None = None


class Link(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    trace_id: str = ""
    span_id: str = ""
    trace_state: str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: int | str | None = None
    flags: int | str | None = None


class Status(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    message: str | None = None
    code: int | str | None = None


class Span(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    trace_id: str
    span_id: str
    trace_state: str | None = None
    parent_span_id: str | None = None
    flags: int | str | None = None
    name: str = ""
    kind: int | str | None = None
    start_time_unix_nano: int | str | None = None
    end_time_unix_nano: int | str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: int | str | None = None
    events: list[Event] | None = None
    dropped_events_count: int | str | None = None
    links: list[Link] | None = None
    dropped_links_count: int | str | None = None
    status: Status | None = None


class Scope(Struct, rename="camel", omit_defaults=True):
    name: str = ""
    version: str = ""
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: int | str | None = None


class Resource(Struct, rename="camel"):
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: int | str | None = None


class ScopeSpans(Struct, rename="camel"):
    scope: Scope | None = None
    spans: list[Raw] | None = None
    schema_url: str | None = None


class ResourceSpans(Struct, rename="camel"):
    resource: Resource | None = None
    scope_spans: list[ScopeSpans] | None = None
    schema_url: str | None = None
    instrumentation_library_spans: list[ScopeSpans] | None = None


class LooseData(Struct, rename="camel"):
    """`TracesData` of which one part may be of another type than it should be."""

    resource_spans: list[Raw]


class TracesData(Struct, rename="camel"):
    """One document or one line: TracesData, and ExportTraceServiceRequest, which has the same shape."""

    resource_spans: list[ResourceSpans] | None = None
