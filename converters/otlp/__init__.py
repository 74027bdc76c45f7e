"""OTLP traces: JSON (one document, or JSON Lines) and protobuf."""

from ..registry import Format, Match, Probe


def _detect_json(look: Probe) -> Match | None:
    if look.shape in ("object", "lines") and "resourceSpans" in look.keys:
        return Match(99, "has resourceSpans")
    return None


FORMATS = (
    Format(
        name="otlp-json",
        title="OTLP traces as JSON Lines (one TracesData a line) or one JSON document",
        example="run.otlp.jsonl",
        recognised="a JSON object with resourceSpans",
        suffix=".otlp.jsonl",
        detect=_detect_json,
        writer=f"{__name__}.encode:write_json",
    ),
)
