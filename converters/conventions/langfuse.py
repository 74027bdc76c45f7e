"""Langfuse's own attributes (its OTLP intake of version 4): observation types, input and output in its own keys (``input.value`` would win over the chat),
usage in counts that do not overlap, and the fields of the trace on the root. Written after its source; it can't be tried without an account.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..jsonio import minify
from ..model import AnySpan, Attempt, Message, ModelRequest, Phase, Run, Task, ToolCall, Usage
from .flat import Attributes, Profile
from .gen_ai import messages_json

_encode = msgspec.json.Encoder().encode
_OBSERVATION: Final = "langfuse.observation."
_TRACE: Final = "langfuse.trace."
INGESTION: Final = {"x-langfuse-ingestion-version": "4"}


def observation_type(span: AnySpan) -> str:
    """Langfuse's type of the span."""
    if isinstance(span, ModelRequest):
        return "embedding" if span.operation == "embeddings" else "generation"
    if isinstance(span, ToolCall):
        return "tool"
    if isinstance(span, Run):
        return "agent" if span.type in ("agent", "team") else "chain"
    if isinstance(span, Attempt):
        return "agent" if span.agent is not None else "span"
    if isinstance(span, Phase):
        return {"verify": "evaluator", "retrieval": "retriever", "step": "chain", "loop": "chain"}.get(span.type or "", "span")
    return "span"


def usage_details(usage: Usage) -> dict[str, int]:
    """Counts that add up: what is cached is taken off the input, and reasoning off the output."""
    found: dict[str, int] = {}
    if usage.input is not None:
        found["input"] = max(usage.input - (usage.cache_read or 0) - (usage.cache_write or 0), 0)
    if usage.cache_read:
        found["input_cached_tokens"] = usage.cache_read
    if usage.cache_write:
        found["input_cache_creation"] = usage.cache_write
    if usage.output is not None:
        found["output"] = max(usage.output - (usage.reasoning or 0), 0)
    if usage.reasoning:
        found["output_reasoning_tokens"] = usage.reasoning
    return found


def attributes(span: AnySpan, out: Attributes, profile: Profile) -> None:
    """Add what the profile adds for ``span``."""
    out.append((_OBSERVATION + "type", observation_type(span)))
    if span.error is not None and span.error.message and span.status == "error":
        out.append((_OBSERVATION + "status_message", span.error.message))
    if isinstance(span, ModelRequest):
        if span.model or span.response_model:
            out.append((_OBSERVATION + "model.name", span.response_model or span.model))
        if span.parameters:
            out.append((_OBSERVATION + "model.parameters", _encode(span.parameters)))
        if span.usage is not None and (details := usage_details(span.usage)):
            out.append((_OBSERVATION + "usage_details", _encode(details)))
        if span.usage is not None and span.usage.cost is not None:
            out.append((_OBSERVATION + "cost_details", _encode({"total": span.usage.cost})))
        system = [Message(role="system", parts=span.system_instructions)] if span.system_instructions else []
        if span.input_messages or system:
            out.append((_OBSERVATION + "input", messages_json([*system, *span.input_messages], False)))
        if span.output_messages:
            out.append((_OBSERVATION + "output", messages_json(span.output_messages, False)))
    else:
        given, made = (span.arguments, span.result) if isinstance(span, ToolCall) else (span.input, span.output)
        if given:
            out.append((_OBSERVATION + "input", minify(given)))
        if made:
            out.append((_OBSERVATION + "output", minify(made)))
    out.extend((_OBSERVATION + "metadata." + link.type, link.span_id) for link in span.links[:1])  # it has no links of its own
    if span.parent_id is None:
        _root(span, out)


def _root(span: AnySpan, out: Attributes) -> None:
    out.append((_TRACE + "name", span.name))
    if isinstance(span, Run):
        if span.user_id is not None:
            out.append(("langfuse.user.id", span.user_id))
        if span.tags:
            out.append((_TRACE + "tags", span.tags))
    if isinstance(span, Run | Task | Attempt):
        if span.input:
            out.append((_TRACE + "input", minify(span.input)))
        if span.output:
            out.append((_TRACE + "output", minify(span.output)))
        for name in ("ending", "verdict"):
            if (value := getattr(span, name)) is not None:
                out.append((f"{_TRACE}metadata.{name}", value))
    if (conversation := getattr(span, "conversation_id", None)) is not None:
        out.append(("langfuse.session.id", conversation))
