"""Small records as Agno writes them: messages, tool executions, metrics. Plain dicts with Raw values; from fields of the model and what ``source`` kept."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from .. import clock, jsonio, model
from ..model import ABSENT, Message, ModelRequest, Part, ToolCall, Usage
from .messages import PROVIDERS

TOOL_KEYS: Final = (
    "tool_call_id", "tool_name", "tool_args", "tool_call_error", "result", "metrics", "child_run_id", "stop_after_tool_call", "created_at",
    "requires_confirmation", "confirmed", "confirmation_note", "requires_user_input", "user_input_schema", "user_feedback_schema", "answered",
    "external_execution_required", "external_execution_silent", "approval_type", "approval_id", "parent_tool_call_id",
)  # fmt: skip
"""Keys of ``ToolExecution`` in 3.x; all are always written."""
OWN: Final = frozenset({"completed", "started", "images", "videos", "audio", "files", "at"})
"""Members of a call's ``source`` that are its events', not the tool's."""
_DISPLAY: Final = {v: k for k, v in reversed(PROVIDERS.items())}
_ROLES: Final = frozenset({"system", "user", "assistant", "tool", "developer"})


def display(provider: str | None) -> str | None:
    """A provider's conventional name as Agno shows it."""
    return _DISPLAY.get(provider, provider) if provider is not None else None


def second(ns: int | None) -> int | None:
    """Whole Unix seconds."""
    return None if ns is None else ns // clock.SECOND


def number(ns: int) -> Raw:
    """ns as a JSON number of seconds."""
    return Raw(clock.to_seconds(ns).encode())


def put(into: dict[str, Any], name: str, value: Any) -> None:
    """Agno leaves out what is None."""
    if value is None or (isinstance(value, Raw) and not value):
        return
    into[name] = value


def argument_text(arguments: Raw) -> str:
    """``function.arguments``: JSON in a string; text that never was JSON as it was."""
    if not arguments:
        return "{}"
    text = jsonio.text(arguments)
    return text if text is not None else bytes(arguments).decode("utf-8", "replace")


def _asked(part: model.ToolCallPart) -> dict[str, Any]:
    return {"id": part.id, "function": {"arguments": argument_text(part.arguments), "name": part.name}, "type": "function"}


def _content(parts: list[Part]) -> Any:
    said: list[Any] = []
    for p in parts:
        if isinstance(p, model.TextPart) or (
            isinstance(p, model.GenericPart) and p.generic_type not in ("image", "audio", "video", "file")
        ):
            said.append(p.content)
    if not said:
        return None
    if len(said) == 1:
        return said[0]
    if all(isinstance(x, str) for x in said):
        return [{"type": "text", "text": x} for x in said]
    return [{"type": "text", "text": x} if isinstance(x, str) else x for x in said]


def message(m: Message, request: ModelRequest | None, calls: dict[str, ToolCall]) -> dict[str, Any]:
    """A message; an assistant's gets the counts of its request, where its own are not kept."""
    source = m.source
    out: dict[str, Any] = {}
    put(out, "id", source.get("id"))
    role = m.role if m.role in _ROLES else "assistant" if m.role in ("model", "ai") else "user"
    if m.role == "model" and source:
        role = m.role
    answer = next((p for p in m.parts if isinstance(p, model.ToolCallResponsePart)), None)
    if answer is not None:
        value: Any = answer.response if not jsonio.is_null(answer.response) else None
        if value is not None and not source and jsonio.text(value) is None:
            value = bytes(jsonio.minify(value)).decode()
        put(out, "content", value)
    else:
        put(out, "content", _content(m.parts))
    thoughts = [p.content for p in m.parts if isinstance(p, model.ReasoningPart)]
    if thoughts:
        out["reasoning_content"] = "".join(thoughts)
    out["from_history"] = False
    out["stop_after_tool_call"] = False
    put(out, "name", m.name)
    out["role"] = "tool" if answer is not None else role
    if asked := [_asked(p) for p in m.parts if isinstance(p, model.ToolCallPart)]:
        out["tool_calls"] = asked
    if answer is not None:
        put(out, "tool_call_id", answer.id)
        call = calls.get(answer.id or "")
        if call is not None and "id" not in source:
            out["tool_name"] = call.name
            put(out, "tool_args", call.arguments)
            out["tool_call_error"] = call.outcome == "error"
    out.update(source)
    if role == "assistant" and request is not None and "metrics" not in source and request.usage is not None and not source:
        out["metrics"] = usage(request.usage)
        if request.response_id is not None:
            out["provider_data"] = {"id": request.response_id}
    put(out, "created_at", second(m.time))
    return out


def usage(u: Usage) -> dict[str, Any]:
    """Token counts that are not zero."""
    found = {
        "input_tokens": u.input,
        "output_tokens": u.output,
        "total_tokens": u.total if u.total is not None else (u.input or 0) + (u.output or 0),
        "cache_read_tokens": u.cache_read,
        "cache_write_tokens": u.cache_write,
        "reasoning_tokens": u.reasoning,
        "cost": u.cost,
    }
    return {k: v for k, v in found.items() if v}


def add(total: Usage, one: Usage) -> Usage:
    """Two requests' counts as one."""

    def plus(a: int | None, b: int | None) -> int | None:
        return b if a is None else a if b is None else a + b

    return Usage(
        input=plus(total.input, one.input),
        output=plus(total.output, one.output),
        cache_read=plus(total.cache_read, one.cache_read),
        cache_write=plus(total.cache_write, one.cache_write),
        reasoning=plus(total.reasoning, one.reasoning),
        total=plus(total.total, one.total),
        cost=total.cost if one.cost is None else (total.cost or 0.0) + one.cost,
    )


def text_result(result: Raw) -> Any:
    """Agno keeps results as text: what is no text is its JSON."""
    if jsonio.is_null(result):
        return None
    return result if jsonio.text(result) is not None else bytes(jsonio.minify(result)).decode("utf-8", "replace")


def executed(call: ToolCall) -> bool:
    """Whether Agno would have a ToolExecution of it: what never ran has only a message."""
    if call.outcome != "rejected":
        return True
    return "confirmed" in call.source


def tool(call: ToolCall) -> dict[str, Any]:
    """``ToolExecution`` as it stands at the end."""
    out: dict[str, Any] = dict.fromkeys(TOOL_KEYS)
    source = call.source
    native = "created_at" in source
    out["tool_call_id"] = call.call_id
    out["tool_name"] = call.name
    arguments = call.arguments
    out["tool_args"] = arguments if arguments and bytes(arguments)[:1] == b"{" else ({} if not native else arguments or None)
    out["result"] = text_result(call.result) if not (call.outcome == "rejected" and native) else None
    out["stop_after_tool_call"] = False
    if not native:
        out["tool_call_error"] = None if call.outcome == "pending" else call.outcome in ("error", "rejected")
        if call.start is not None and call.end is not None and call.outcome not in ("pending", "rejected"):
            out["metrics"] = {"start_time": number(call.start), "end_time": number(call.end), "duration": number(call.end - call.start)}
        out["created_at"] = second(call.end if call.end is not None else call.start)
        if call.outcome == "rejected" and call.error is not None and call.error.type == "refused":
            out |= {"requires_confirmation": True, "confirmed": False, "confirmation_note": call.error.message}
    out.update((k, v) for k, v in source.items() if k not in OWN)
    return out


def begun(call: ToolCall) -> dict[str, Any]:
    """``ToolExecution`` as its start shows it: without result, clocks and verdict."""
    out = tool(call)
    out |= {"result": None, "metrics": None, "tool_call_error": None, "created_at": second(call.start)}
    out.update(jsonio.fields(call.source.get("started", ABSENT)))
    return out


__all__ = [
    "OWN",
    "TOOL_KEYS",
    "add",
    "argument_text",
    "begun",
    "display",
    "executed",
    "message",
    "number",
    "put",
    "second",
    "text_result",
    "tool",
    "usage",
]
