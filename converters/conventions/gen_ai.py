"""Span → GenAI semantic conventions: span name, OTLP kind, ``gen_ai.*`` attributes, evaluation events.

The rules that matter: usage stands on model requests only (roll-ups get our own prefix, in `native`); ``gen_ai.request.model`` never
stands on a run or attempt; message content is one JSON string; output messages keep ``finish_reason``, without which one
backend drops them; a conversation id is never filled from anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from ..history import needs_minifying, plain_json
from ..jsonio import minify
from ..model import (
    AnySpan,
    Attempt,
    Message,
    ModelRequest,
    Part,
    Phase,
    Run,
    Score,
    Task,
    ToolCall,
    Usage,
)
from . import semconv as k
from .flat import CLIENT, INTERNAL, Attributes, FlatEvent, Profile

_encode = msgspec.json.Encoder().encode


def _named(operation: str, name: str | None) -> str:
    return f"{operation} {name}" if name else operation


def _run_operation(span: Run) -> str:
    return "invoke_agent" if span.type in ("agent", "team") else "invoke_workflow"


def operation(span: AnySpan) -> str | None:
    """``gen_ai.operation.name`` of the span, or None where no operation fits."""
    kind = span.__class__
    if kind is ToolCall:
        return "execute_tool"
    if kind is ModelRequest or kind is Phase:
        return span.operation  # type: ignore[union-attr]
    if kind is Run:
        return _run_operation(span)  # type: ignore[arg-type]
    if kind is Attempt and span.agent is not None:  # type: ignore[union-attr]
        return "invoke_agent"
    return None


_NAMES: Final[dict[type, Callable[[Any], str]]] = {
    ModelRequest: lambda s: _named(s.operation, s.model),
    ToolCall: lambda s: f"execute_tool {s.name}",
    Run: lambda s: _named(_run_operation(s), s.name),
    Attempt: lambda s: _named("invoke_agent", s.agent) if s.agent is not None else f"attempt {s.number}",
    Task: lambda s: s.name or "task",
    Phase: lambda s: s.name or "phase",
}


def name_and_kind(span: AnySpan) -> tuple[str, int]:
    """The span's name as the conventions want it, and its OTLP kind."""
    kind = span.__class__
    return _NAMES[kind](span), CLIENT if kind is ModelRequest else INTERNAL


def messages_json(messages: Sequence[Message], carry: bool, output: bool = False, reason: str | None = None) -> bytes:
    """Messages as the one JSON string that the conventions ask for."""
    if not carry:
        ended = (reason or "") if output else None
        data = b"[" + b",".join([plain_json(m, ended) for m in messages]) + b"]"
        return msgspec.json.format(data, indent=-1) if any(map(needs_minifying, messages)) else data
    sent: Sequence[Message] = messages
    if output:
        sent = [m if m.finish_reason is not None else _ended(m, reason or "") for m in sent]
    data = _encode(sent)
    for message in sent:
        if message.source or needs_minifying(message):
            return msgspec.json.format(data, indent=-1)
    return data


def _ended(m: Message, reason: str) -> Message:
    return Message(role=m.role, parts=m.parts, name=m.name, finish_reason=reason, time=m.time, source=m.source)


def parts_json(parts: Sequence[Part]) -> bytes:
    """``gen_ai.system_instructions``: a list of parts."""
    return msgspec.json.format(_encode(parts), indent=-1)


def usage_attributes(usage: Usage, out: Attributes, profile: Profile) -> None:
    """Token counts of one request. Cache and reasoning counts only when they are not zero, as the conventions ask."""
    if usage.input is not None:
        out.append((k.USAGE_INPUT, usage.input))
    if usage.output is not None:
        out.append((k.USAGE_OUTPUT, usage.output))
    if usage.cache_read:
        out.append((k.USAGE_CACHE_READ, usage.cache_read))
    if usage.cache_write:
        out.append((k.USAGE_CACHE_CREATION if profile.dialect == "1.41" else k.USAGE_CACHE_WRITE, usage.cache_write))
    if usage.reasoning:
        out.append((k.USAGE_REASONING, usage.reasoning))


def attributes(span: AnySpan, out: Attributes, profile: Profile) -> None:
    """Add the ``gen_ai.*``, ``error.type``, ``session.id`` and ``user.id`` attributes of ``span``."""
    if (op := operation(span)) is not None:
        out.append((k.OPERATION, op))
    kind = span.__class__
    if kind is not Phase:
        _ADD[kind](span, out, profile)
    if kind is not Task and (conversation := span.conversation_id) is not None:  # type: ignore[union-attr]
        out.append((k.CONVERSATION_ID, conversation))
        out.append((k.SESSION_ID, conversation))
    if span.error is not None or span.status == "error":
        out.append((k.ERROR_TYPE, (span.error and span.error.type) or "_OTHER"))


def _run(span: Run, out: Attributes, profile: Profile) -> None:
    if span.name:
        workflow = span.type in ("workflow", "benchmark")
        out.append((k.WORKFLOW_NAME if workflow and profile.dialect == "1.41" else k.AGENT_NAME, span.name))
    if span.agent_id is not None:
        out.append((k.AGENT_ID, span.agent_id))
    if span.user_id is not None:
        out.append((k.USER_ID, span.user_id))


def _attempt(span: Attempt, out: Attributes, profile: Profile) -> None:
    if span.agent:
        out.append((k.AGENT_NAME, span.agent))


def _request(span: ModelRequest, out: Attributes, profile: Profile) -> None:
    if span.provider is not None:
        out.append((k.PROVIDER, span.provider))
    if span.model:
        out.append((k.REQUEST_MODEL, span.model))
    if span.response_model is not None:
        out.append((k.RESPONSE_MODEL, span.response_model))
    if span.response_id is not None:
        out.append((k.RESPONSE_ID, span.response_id))
    if span.finish_reasons:
        out.append((k.FINISH_REASONS, span.finish_reasons))
    if span.agent is not None:
        out.append((k.AGENT_NAME, span.agent))
    if span.time_to_first_token is not None:
        out.append((k.TIME_TO_FIRST_CHUNK, span.time_to_first_token / 1e9))
    for name, value in span.parameters.items():
        out.append((k.REQUEST_PREFIX + name, value))
    if span.usage is not None:
        usage_attributes(span.usage, out, profile)
    if span.system_instructions:
        out.append((k.SYSTEM_INSTRUCTIONS, parts_json(span.system_instructions)))
    if span.tool_definitions:
        out.append((k.TOOL_DEFINITIONS, minify(span.tool_definitions)))
    if span.input_messages:
        out.append((k.INPUT_MESSAGES, messages_json(span.input_messages, profile.carry)))
    if span.output_messages:
        reason = span.finish_reasons[0] if span.finish_reasons else None
        out.append((k.OUTPUT_MESSAGES, messages_json(span.output_messages, profile.carry, True, reason)))


def _tool(span: ToolCall, out: Attributes, profile: Profile) -> None:
    out.append((k.TOOL_NAME, span.name))
    if span.call_id is not None:
        out.append((k.TOOL_CALL_ID, span.call_id))
    if span.type is not None:
        out.append((k.TOOL_TYPE, span.type))
    if span.description is not None:
        out.append((k.TOOL_DESCRIPTION, span.description))
    if span.agent is not None:
        out.append((k.AGENT_NAME, span.agent))
    if span.arguments:
        out.append((k.TOOL_ARGUMENTS, minify(span.arguments)))
    if span.result:
        out.append((k.TOOL_RESULT, minify(span.result)))


_ADD: Final[dict[type, Callable[[Any, Attributes, Profile], None]]] = {
    Run: _run,
    Task: lambda span, out, profile: None,
    Attempt: _attempt,
    ModelRequest: _request,
    ToolCall: _tool,
}


def evaluation(score: Score, time: int) -> FlatEvent:
    """A score as the event ``gen_ai.evaluation.result`` (on the span it judges; ``time`` where the score states none)."""
    out: Attributes = [(k.EVALUATION_NAME, score.name)]
    if score.value is not None:
        out.append((k.EVALUATION_VALUE, score.value))
    if score.label is not None:
        out.append((k.EVALUATION_LABEL, score.label))
    if score.explanation is not None:
        out.append((k.EVALUATION_EXPLANATION, score.explanation))
    if score.time is None:
        out.append((k.PREFIX + "clock", "synthetic"))
    return FlatEvent(k.EVALUATION_EVENT, score.time if score.time is not None else time, out)
