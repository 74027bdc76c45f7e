"""Attributes → span, for what others wrote: GenAI semantic conventions (1.36 to 1.41, the 0.1 names, and what came before them),
OpenInference, Langfuse, MLflow, Traceloop.

A kind is told by what a span says of itself, strongest word first (`kind_of`); what fits none is a phase. A typed field takes its attribute
away; everything else stays an attribute under its own name. Nothing is concluded: no attempt, no request and no time that the
spans do not state.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Raw

from .. import model
from ..jsonio import finite
from ..model import ABSENT, AnySpan, Error, Message, ModelRequest, Phase, Run, ToolCall, Usage, raw
from . import messages as m
from . import semconv as k
from .flat import CLIENT, ERROR, INTERNAL, FlatSpan
from .openinference import span_kind
from .undress import STATUS, USAGE_KEYS, Taking, content_of, link, seconds, split_events

Kind = Literal["request", "tool", "agent", "workflow", "phase"]

_OPERATIONS: Final[dict[str, Kind]] = {
    "chat": "request",
    "completion": "request",
    "text_completion": "request",
    "generate": "request",
    "generate_content": "request",
    "embeddings": "request",
    "fetch_response": "request",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "phase",
    "invoke_workflow": "workflow",
}
"""``gen_ai.operation.name``; every other operation (plan, retrieval, memory …) is a phase of that operation."""

_OPENINFERENCE: Final[dict[str, Kind]] = {"LLM": "request", "EMBEDDING": "request", "TOOL": "tool", "AGENT": "agent"}
_LANGFUSE: Final[dict[str, Kind]] = {"generation": "request", "embedding": "request", "tool": "tool", "agent": "agent"}
_MLFLOW: Final[dict[str, Kind]] = {
    "LLM": "request",
    "CHAT_MODEL": "request",
    "EMBEDDING": "request",
    "TOOL": "tool",
    "AGENT": "agent",
    "WORKFLOW": "workflow",
}
_TRACELOOP: Final[dict[str, Kind]] = {"workflow": "workflow", "agent": "agent", "tool": "tool"}
_PHASES: Final = {"EVALUATOR": "verify", "RETRIEVER": "retrieval", "GUARDRAIL": "guardrail", "RERANKER": "rerank"}

LF: Final = "langfuse."
OBSERVATION: Final = "langfuse.observation."


def _word(at: dict[str, Any], key: str) -> str | None:
    value = m.loaded(at.get(key))
    return value if isinstance(value, str) else None


def kind_of(at: dict[str, Any], root: bool) -> Kind:
    """What a span is, by its attributes."""
    operation = _word(at, k.OPERATION)
    if operation is not None and (found := _OPERATIONS.get(operation)) is not None:
        return found
    words = (
        (_LANGFUSE, _word(at, "langfuse.observation.type")),
        (_OPENINFERENCE, _word(at, k.SPAN_KIND)),
        (_MLFLOW, _word(at, "mlflow.spanType")),
        (_TRACELOOP, _word(at, "traceloop.span.kind")),
    )
    for table, word in words:
        if word is not None:
            if (found := table.get(word)) is not None:
                return found
            if root and word in ("CHAIN", "chain"):  # the outermost chain is the execution that the trace is about
                return "workflow"
    if operation is not None or any(word is not None for _, word in words):
        return "phase"
    if k.TOOL_NAME in at or "tool.name" in at:
        return "tool"
    if any(
        name in at for name in (k.REQUEST_MODEL, k.RESPONSE_MODEL, "llm.model_name", "langfuse.observation.model.name", "llm.request.type")
    ):
        return "request"
    return "phase"


def span(flat: FlatSpan) -> AnySpan:
    """The span of the model that ``flat``, written by anybody, is."""
    taking = Taking(flat.attributes)
    kind = kind_of(taking.left, flat.parent_id is None)
    f: dict[str, Any] = {
        "id": flat.span_id,
        "trace_id": flat.trace_id,
        "parent_id": flat.parent_id,
        "name": flat.name,
        "key": flat.span_id,
        "start": flat.start or None,
        "end": flat.end or None,
        "status": STATUS.get(flat.status, "unset"),
    }
    if not flat.end:
        f["unfinished"] = True
    if flat.start == 0:
        f["clock"] = "synthetic"
    source = {name: raw(value) for name, value in flat.extra.items()}
    if (error := _error(taking, flat)) is not None:
        f["error"] = error
    elif flat.message:
        source["status"] = raw({"message": flat.message})
    _common(taking, f)
    made: AnySpan
    if kind == "request":
        _request(taking, f, flat)
        made = ModelRequest(**f)
    elif kind == "tool":
        _tool(taking, f, flat)
        made = ToolCall(**f)
    elif kind == "phase":
        _phase(taking, f)
        made = Phase(**f)
    else:
        _run(taking, f, kind, flat.parent_id is None)
        made = Run(**f)
    expected = CLIENT if kind == "request" else INTERNAL
    if flat.kind != expected:
        source["kind"] = raw(flat.kind)
    if flat.name != made.name:
        source["name"] = raw(flat.name)
    if taking.left.get(k.SPAN_KIND) == span_kind(made):
        del taking.left[k.SPAN_KIND]
    made.events, made.scores, made.artifacts = split_events(flat.events)
    made.links = [link(x) for x in flat.links]
    made.attributes, made.source = {key: _value(v) for key, v in taking.left.items()}, source
    return made


def _value(value: Any) -> Any:
    """An attribute value without numbers that JSON can't hold."""
    return m._without_nan(value) if m._odd(value) else value


def _error(taking: Taking, flat: FlatSpan) -> Error | None:
    kind = taking.left.get(k.ERROR_TYPE)
    if flat.status != ERROR and kind is None:
        return None
    message: Any = flat.message or None
    for e in flat.events:
        if e.name == "exception":
            said = dict(e.attributes)
            kind = kind or said.get("exception.type")
            message = message or said.get("exception.message")
    taking.text(k.ERROR_TYPE)
    message = message or taking.left.get(OBSERVATION + "status_message")
    kind = kind if isinstance(kind, str) and kind != "_OTHER" else None
    return Error(type=kind, message=message if isinstance(message, str) else None) if kind or message else None


def _first(taking: Taking, *keys: str) -> str | None:
    """Take the first of ``keys`` that is a string; the others that say the same are taken too."""
    found: str | None = None
    for key in keys:
        value = taking.left.get(key)
        if isinstance(value, str) and value and (found is None or value == found):
            found = value
            del taking.left[key]
    return found


def _common(taking: Taking, f: dict[str, Any]) -> None:
    conversation = _first(taking, k.CONVERSATION_ID, k.SESSION_ID, "langfuse.session.id")
    if conversation is not None:
        f["conversation_id"] = conversation


def _content(taking: Taking, *keys: str) -> Raw:
    """Content of the first of ``keys`` that is there."""
    for key in keys:
        if key in (k.INPUT_VALUE, k.OUTPUT_VALUE):
            if value := content_of(taking, key, key.replace("value", "mime_type")):
                return value
        elif taking.left.get(key) is not None:
            return m.content(taking.left.pop(key))
    return ABSENT


def _in_out(taking: Taking, f: dict[str, Any]) -> None:
    if value := _content(taking, k.INPUT_VALUE, OBSERVATION + "input", "mlflow.spanInputs", "traceloop.entity.input", k.INPUT_MESSAGES):
        f["input"] = value
    if value := _content(
        taking, k.OUTPUT_VALUE, OBSERVATION + "output", "mlflow.spanOutputs", "traceloop.entity.output", k.OUTPUT_MESSAGES
    ):
        f["output"] = value


def _run(taking: Taking, f: dict[str, Any], kind: Kind, root: bool) -> None:
    f["type"] = "workflow" if kind == "workflow" else "agent"
    taking.text(k.OPERATION)
    trace_name = ("langfuse.trace.name",) if root else ()
    name = _first(taking, k.AGENT_NAME, k.WORKFLOW_NAME, "agent.name", "traceloop.entity.name", *trace_name)
    prefixes = ("invoke_agent ", "invoke_workflow ")
    f["name"] = name or next((f["name"][len(p) :] for p in prefixes if f["name"].startswith(p)), f["name"])
    if (agent := _first(taking, k.AGENT_ID)) is not None:
        f["agent_id"] = agent
    if (user := _first(taking, k.USER_ID, "langfuse.user.id")) is not None:
        f["user_id"] = user
    for key in (k.TAGS, "langfuse.trace.tags"):
        if isinstance(tags := taking.left.get(key), list) and "tags" not in f and all(isinstance(t, str) for t in tags):
            f["tags"] = taking.left.pop(key)
    model_name = _first(taking, k.REQUEST_MODEL)
    if model_name is not None:
        f["model"] = model_name
    if (provider := _first(taking, k.PROVIDER, "gen_ai.system")) is not None:
        f["provider"] = provider
    if (usage := _usage(taking)) is not None:
        f["usage"] = usage
    _in_out(taking, f)


def _phase(taking: Taking, f: dict[str, Any]) -> None:
    if (operation := _first(taking, k.OPERATION)) is not None:
        f["operation"] = operation
    word = taking.left.get(k.SPAN_KIND)
    kind = _PHASES.get(word) if isinstance(word, str) else None
    observed = taking.left.get("langfuse.observation.type")
    if kind is None and isinstance(observed, str):
        kind = _PHASES.get(observed.upper())
    if kind is not None:
        f["type"] = kind
    if value := _content(taking, k.INPUT_VALUE, OBSERVATION + "input", "mlflow.spanInputs", "traceloop.entity.input"):
        f["input"] = value
    if value := _content(taking, k.OUTPUT_VALUE, OBSERVATION + "output", "mlflow.spanOutputs", "traceloop.entity.output"):
        f["output"] = value


def _tool(taking: Taking, f: dict[str, Any], flat: FlatSpan) -> None:
    taking.text(k.OPERATION)
    name = _first(taking, k.TOOL_NAME, "tool.name", "traceloop.entity.name")
    f["name"] = name or flat.name.removeprefix("execute_tool ")
    for field, keys in (
        ("call_id", (k.TOOL_CALL_ID, "tool.id", "tool_call.id")),
        ("type", (k.TOOL_TYPE,)),
        ("description", (k.TOOL_DESCRIPTION, "tool.description")),
        ("agent", (k.AGENT_NAME, "agent.name")),
    ):
        if (value := _first(taking, *keys)) is not None:
            f[field] = value
    if said := _content(
        taking, k.TOOL_ARGUMENTS, k.INPUT_VALUE, OBSERVATION + "input", "mlflow.spanInputs", "traceloop.entity.input", "tool.parameters"
    ):
        f["arguments"] = said
    if said := _content(taking, k.TOOL_RESULT, k.OUTPUT_VALUE, OBSERVATION + "output", "mlflow.spanOutputs", "traceloop.entity.output"):
        f["result"] = said
    if flat.status == ERROR:
        f["outcome"] = "error"


_PARAMETERS: Final = ("llm.invocation_parameters", "langfuse.observation.model.parameters")


def _request(taking: Taking, f: dict[str, Any], flat: FlatSpan) -> None:
    left = taking.left
    word = left.get(k.SPAN_KIND), left.get("langfuse.observation.type")
    f["operation"] = _first(taking, k.OPERATION) or ("embeddings" if "EMBEDDING" in word or "embedding" in word else "chat")
    for field, keys in (
        ("provider", (k.PROVIDER, "gen_ai.system", "llm.provider", "llm.system")),
        ("model", (k.REQUEST_MODEL, "llm.request.model_name", "llm.model_name", "langfuse.observation.model.name", "mlflow.llm.model")),
        ("response_model", (k.RESPONSE_MODEL, "llm.response.model_name")),
        ("response_id", (k.RESPONSE_ID,)),
        ("agent", (k.AGENT_NAME,)),
    ):
        if (value := _first(taking, *keys)) is not None:
            f[field] = value
    f["name"] = f.get("model") or ""
    reasons = m.loaded(left.get(k.FINISH_REASONS))
    if isinstance(reasons, list) and reasons and all(isinstance(r, str) for r in reasons):
        f["finish_reasons"] = reasons
        del left[k.FINISH_REASONS]
    elif (reason := _first(taking, "llm.finish_reason", "gen_ai.response.finish_reason")) is not None:
        f["finish_reasons"] = [reason]
    if (wait := seconds(left.get(k.TIME_TO_FIRST_CHUNK))) is not None:
        del left[k.TIME_TO_FIRST_CHUNK]
        f["time_to_first_token"] = wait
    parameters = {key[len(k.REQUEST_PREFIX) :]: _value(left.pop(key)) for key in [x for x in left if x.startswith(k.REQUEST_PREFIX)]}
    for key in _PARAMETERS:
        if isinstance(given := m.loaded(left.get(key)), dict):
            parameters.update((name, v) for name, v in given.items() if name not in parameters)
            del left[key]
    if parameters:
        f["parameters"] = parameters
    if (usage := _usage(taking)) is not None:
        f["usage"] = usage
    if (parts := m.parts(left.get(k.SYSTEM_INSTRUCTIONS))) is not None:
        del left[k.SYSTEM_INSTRUCTIONS]
        f["system_instructions"] = parts
    if definitions := taking.json(k.TOOL_DEFINITIONS):
        f["tool_definitions"] = definitions
    else:
        rows, used = m.indexed(left, "llm.tools")
        if rows and all("tool.json_schema" in row for row in rows):
            f["tool_definitions"] = raw([m.loaded(row["tool.json_schema"]) for row in rows])
            for key in used:
                del left[key]
    into, out = _messages(taking, flat)
    if into:
        f["input_messages"] = into
    if out:
        f["output_messages"] = out
    if "finish_reasons" not in f and (found := [x.finish_reason for x in out if x.finish_reason]):
        f["finish_reasons"] = found


def _messages(taking: Taking, flat: FlatSpan) -> tuple[list[Message], list[Message]]:
    """Input and output messages, from the first form of them that the span has. ``input.value`` of a request stays an attribute when there is a better form."""
    left = taking.left
    found: list[list[Message]] = []
    for mine, theirs, older, value_keys, role in (
        (k.INPUT_MESSAGES, "llm.input_messages", "gen_ai.prompt", (OBSERVATION + "input", "mlflow.spanInputs", k.INPUT_VALUE), "user"),
        (
            k.OUTPUT_MESSAGES,
            "llm.output_messages",
            "gen_ai.completion",
            (OBSERVATION + "output", "mlflow.spanOutputs", k.OUTPUT_VALUE),
            "assistant",
        ),
    ):
        if (known := m.messages(left.get(mine), role)) is not None:
            del left[mine]
            found.append(known)
            continue
        for reader, prefix in ((m.openinference, theirs), (m.numbered, older)):
            listed, used = reader(left, prefix)
            if listed:
                for key in used:
                    del left[key]
                found.append(listed)
                break
        else:
            for key in (*value_keys, older):
                if (known := m.messages(left.get(key), role)) is not None:
                    del left[key]
                    left.pop(key.replace(".value", ".mime_type") if key.endswith(".value") else "", None)
                    found.append(known)
                    break
            else:
                found.append([])
    into, out = found
    if not into and not out:
        into, out = m.from_events((e.name, dict(e.attributes)) for e in flat.events)
    for key, target, role in (
        (OBSERVATION + "output", out, "assistant"),
        (k.OUTPUT_VALUE, out, "assistant"),
        (OBSERVATION + "input", into, "user"),
        (k.INPUT_VALUE, into, "user"),
    ):
        mime = left.get(key.replace("value", "mime_type")) if key.endswith("value") else None
        if not target and isinstance(text := left.get(key), str) and text and mime != "application/json" and text[:1] not in "{[":
            # A plain text stands for the one message that it is; it is no more than the span says.
            target.append(Message(role=role, parts=[model.TextPart(str(m.loaded(text)))]))
            del left[key]
            left.pop(key.replace("value", "mime_type") if key.endswith("value") else "", None)
    return into, out


# Token counts of OpenInference and of what the GenAI conventions were before 1.27; `Usage` includes cached and reasoning tokens, and so do these.
_MORE_USAGE: Final = (
    *USAGE_KEYS,
    ("input", "gen_ai.usage.prompt_tokens"),
    ("output", "gen_ai.usage.completion_tokens"),
    ("input", "llm.token_count.prompt"),
    ("output", "llm.token_count.completion"),
    ("total", "llm.token_count.total"),
    ("total", "llm.usage.total_tokens"),
    ("total", "gen_ai.usage.total_tokens"),
    ("cache_read", "llm.token_count.prompt_details.cache_read"),
    ("cache_read", "llm.token_count.prompt_details.cache_input"),
    ("cache_write", "llm.token_count.prompt_details.cache_write"),
    ("reasoning", "llm.token_count.completion_details.reasoning"),
)
_COSTS: Final = ("gen_ai.usage.cost", "llm.cost.total")


def _count(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def _usage(taking: Taking) -> Usage | None:
    counts: dict[str, Any] = {}
    for field, key in _MORE_USAGE:
        if (n := _count(taking.left.get(key))) is not None and counts.get(field, n) == n:
            counts[field] = n
            del taking.left[key]
    for key in _COSTS:
        value = taking.left.get(key)
        if (amount := finite(value)) is not None and "cost" not in counts:
            counts["cost"] = amount
            del taking.left[key]
    if not counts:
        counts = _langfuse_usage(taking) or _mlflow_usage(taking)
    if "cost" not in counts and isinstance(costs := m.loaded(taking.left.get(OBSERVATION + "cost_details")), dict):
        amount = finite(costs.get("total"))
        if amount is not None:
            counts["cost"] = amount
            if len(costs) == 1:
                del taking.left[OBSERVATION + "cost_details"]
    return Usage(**counts) if counts else None


def _langfuse_usage(taking: Taking) -> dict[str, Any]:
    """Langfuse counts do not overlap: ``input`` leaves cached tokens out, ``output`` reasoning."""
    given = m.loaded(taking.left.get(OBSERVATION + "usage_details"))
    if not isinstance(given, dict):
        return {}
    n = {name: c for name, v in given.items() if (c := _count(v)) is not None}
    read = n.get("input_cached_tokens", n.get("cache_read_input_tokens"))
    write = n.get("input_cache_creation", n.get("cache_creation_input_tokens"))
    reasoning = n.get("output_reasoning_tokens")
    counts: dict[str, Any] = {"cache_read": read, "cache_write": write, "reasoning": reasoning, "total": n.get("total")}
    if "input" in n:
        counts["input"] = n["input"] + (read or 0) + (write or 0)
    if "output" in n:
        counts["output"] = n["output"] + (reasoning or 0)
    known = {
        "input",
        "output",
        "total",
        "input_cached_tokens",
        "cache_read_input_tokens",
        "input_cache_creation",
        "cache_creation_input_tokens",
    }
    if set(given) <= known | {"output_reasoning_tokens"}:
        del taking.left[OBSERVATION + "usage_details"]
    return {name: c for name, c in counts.items() if c is not None}


def _mlflow_usage(taking: Taking) -> dict[str, Any]:
    given = m.loaded(taking.left.get("mlflow.chat.tokenUsage"))
    if not isinstance(given, dict):
        return {}
    names = {
        "input_tokens": "input",
        "output_tokens": "output",
        "total_tokens": "total",
        "cache_read_input_tokens": "cache_read",
        "cache_creation_input_tokens": "cache_write",
    }
    counts = {field: c for name, field in names.items() if (c := _count(given.get(name))) is not None}
    if counts and set(given) <= set(names):
        del taking.left["mlflow.chat.tokenUsage"]
    return counts
