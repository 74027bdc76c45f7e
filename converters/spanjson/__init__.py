"""The model's own format, ``spanport`` JSON Lines: a trace header, then a span a line. Nothing is lost in it."""

from ..registry import Format, Match, Probe


def _detect(look: Probe) -> Match | None:
    if look.shape in ("lines", "object") and "kind" in look.keys and {"family", "run_key"} <= look.keys:
        return Match(99, "the first line is a spanport trace header")
    return None


FORMATS = (
    Format(
        name="spanport",
        title="spanport's own span model, JSON Lines",
        example="run.spanport.jsonl",
        recognised="the first line has kind, family and run_key",
        suffix=".spanport.jsonl",
        detect=_detect,
        lines=True,
        reader=f"{__name__}.codec:read",
        writer=f"{__name__}.codec:write",
        carrier=f"{__name__}.carrying:CARRIER",
        schema="spanport.converters.model:Item",
    ),
)
