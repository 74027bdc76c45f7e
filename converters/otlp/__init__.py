"""OTLP traces: JSON (one document, or JSON Lines) and protobuf."""

import re
from typing import Final

from ..registry import Format, Match, Probe

_LATER: Final = re.compile(rb'(?m)(?:^[\x00-\x09\x0b-\x20\x7f-\xff]*|\}\s*)\{"resourceSpans"\s*:\s*\[')
"""A line of OTLP behind one that is damaged. A source file or a page that only speaks of it is none."""


def _detect_json(look: Probe) -> Match | None:
    if look.shape in ("object", "lines") and "resourceSpans" in look.keys:
        return Match(99, "has resourceSpans")
    told = (look.shape in ("object", "lines") and b'{"resourceSpans"' in look.head) or (look.shape == "other" and _LATER.search(look.head))
    if told:
        return Match(20, "has resourceSpans, though not at its top or in its first line")
    exported = (
        look.shape in ("object", "lines") and "data" in look.keys and (b'"start_time_unix_nano"' in look.head or b'"context"' in look.head)
    )
    if exported and b'"trace_id"' in look.head:
        return Match(80, "has data with spans, as Phoenix's REST API gives them")
    return None


def _detect_proto(look: Probe) -> Match | None:
    if look.shape in ("directory", "sqlite", "empty") or not look.head:
        return None
    from .decode import is_proto

    return Match(95, "is a protobuf message of ResourceSpans") if is_proto(look.head) else None


FORMATS = (
    Format(
        name="otlp-json",
        title="OTLP traces as JSON Lines (one TracesData a line) or one JSON document",
        example="run.otlp.jsonl",
        recognised="a JSON object with resourceSpans",
        suffix=".otlp.jsonl",
        detect=_detect_json,
        lines=True,
        reader=f"{__name__}.decode:read_json",
        writer=f"{__name__}.write:write_json",
        carrier=f"{__name__}.carrying:JSON",
        schema="opentelemetry.proto.trace.v1.trace_pb2:TracesData",
    ),
    Format(
        name="otlp-proto",
        title="OTLP traces as protobuf: TracesData or ExportTraceServiceRequest, one message or many with their length before each",
        example="run.otlp.pb",
        recognised="bytes that are a ResourceSpans message",
        suffix=".otlp.pb",
        detect=_detect_proto,
        reader=f"{__name__}.decode:read_proto",
        writer=f"{__name__}.write:write_proto",
        carrier=f"{__name__}.carrying:PROTO",
        no_schema="it is binary; spanport schema otlp-json is that of the same messages as JSON",
    ),
)
