"""Span → OpenInference: the span kind on every span, and ``input.value``/``output.value`` where no GenAI attribute holds the
same content (run, task, attempt, phase), so that nothing is written twice.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from ..jsonio import minify, text
from ..model import AnySpan, Attempt, ModelRequest, Phase, Run, ToolCall
from . import semconv as k
from .flat import Attributes

JSON: Final = "application/json"
TEXT: Final = "text/plain"


_PHASES: Final = {"verify": "EVALUATOR", "retrieval": "RETRIEVER"}


def span_kind(span: AnySpan) -> str:
    """``openinference.span.kind``."""
    kind = span.__class__
    if kind is ToolCall:
        return "TOOL"
    if kind is ModelRequest:
        return "EMBEDDING" if span.operation == "embeddings" else "LLM"  # type: ignore[union-attr]
    if kind is Phase:
        return _PHASES.get(span.type or "", "CHAIN")  # type: ignore[union-attr]
    agent = span.type in ("agent", "team") if isinstance(span, Run) else isinstance(span, Attempt) and span.agent is not None
    return "AGENT" if agent else "CHAIN"


def _content(value: Raw, key: str, mime_key: str, out: Attributes) -> None:
    plain = text(value)
    out.append((key, plain if plain is not None else minify(value)))
    if plain is None:  # plain text is what a value without a type is
        out.append((mime_key, JSON))


def attributes(span: AnySpan, out: Attributes) -> None:
    """Add the OpenInference attributes of ``span``."""
    out.append((k.SPAN_KIND, span_kind(span)))
    if isinstance(span, (ModelRequest, ToolCall)):
        return
    if span.input:
        _content(span.input, k.INPUT_VALUE, k.INPUT_MIME_TYPE, out)
    if span.output:
        _content(span.output, k.OUTPUT_VALUE, k.OUTPUT_MIME_TYPE, out)
    if isinstance(span, Run) and span.tags:
        out.append((k.TAGS, span.tags))
