"""Attributes → span, for what this package wrote: the inverse of `flatten`, field by field from the same tables.

A typed field comes back from its attribute, with its type checked; an attribute that does not fit stays an attribute. What no
attribute says (with ``carry``) is in ``spanport.rest``, a patch on the span (`converters.patch`) that the writer made by reading back what it wrote: so
that nothing is lost is not a matter of keeping two tables in step.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from .. import patch
from ..clock import from_seconds
from ..jsonio import inner, minify
from ..model import (
    ABSENT,
    AnySpan,
    Artifact,
    Attempt,
    Error,
    Event,
    History,
    Link,
    ModelRequest,
    Phase,
    Run,
    Score,
    Task,
    ToolCall,
    Usage,
    raw,
)
from . import messages as m
from . import native
from . import semconv as k
from .flat import ERROR, OK, UNSET, FlatEvent, FlatLink, FlatSpan

REST: Final = "spanport.rest"
CLASSES: Final[dict[str, type[AnySpan]]] = {
    "run": Run,
    "task": Task,
    "attempt": Attempt,
    "phase": Phase,
    "model_request": ModelRequest,
    "tool_call": ToolCall,
}
STATUS: Final = {UNSET: "unset", OK: "ok", ERROR: "error"}
_TYPES: Final[dict[type, dict[str, Any]]] = {
    cls: {f.name: f.type for f in msgspec.structs.fields(cls)} for cls in (*CLASSES.values(), Artifact, Usage, Score, History)
}
_encode = msgspec.json.Encoder().encode


class Taking:
    """The attributes of one span, event or link, of which typed fields are taken; what is left are its own attributes."""

    def __init__(self, attributes: list[tuple[str, Any]]) -> None:
        self.left: dict[str, Any] = dict(attributes)

    def take(self, cls: type[Struct], field: str, key: str, into: dict[str, Any]) -> None:
        """Move attribute ``key`` to ``into[field]`` when it has the field's type."""
        if key in self.left:
            try:
                into[field] = msgspec.convert(self.left[key], _TYPES[cls][field])
            except msgspec.ValidationError:
                return
            del self.left[key]

    def text(self, key: str) -> str | None:
        """Take a string."""
        value = self.left.get(key)
        if isinstance(value, str):
            del self.left[key]
            return value
        return None

    def flag(self, key: str) -> bool:
        """Take a true."""
        if self.left.get(key) is True:
            del self.left[key]
            return True
        return False

    def number(self, key: str) -> int | None:
        """Take an integer."""
        value = self.left.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            del self.left[key]
            return value
        return None

    def json(self, key: str) -> Raw:
        """Take JSON text, or a structured value, as Raw."""
        if key not in self.left:
            return ABSENT
        return m.content(self.left.pop(key))

    def source(self) -> dict[str, Raw]:
        """Take ``spanport.source``."""
        value = self.left.get("spanport.source")
        if isinstance(value, str):
            try:
                found = _source.decode(value)
            except (msgspec.DecodeError, RecursionError):
                return {}
            del self.left["spanport.source"]
            return found
        return {}


_source = msgspec.json.Decoder(dict[str, Raw])


def content_of(taking: Taking, key: str, mime_key: str, plain: bool = False) -> Raw:
    """``input.value`` with its mime type: plain text as a JSON string, JSON as it is. ``plain``: a value without a type is plain text, as the conventions
    say (and not all keep to)."""
    value = taking.left.get(key)
    if value is None:
        return ABSENT
    del taking.left[key]
    mime = taking.left.pop(mime_key, None)
    if isinstance(value, str):
        return inner(value) if mime == "application/json" or (mime is None and not plain) else raw(value)
    return m.content(value)


def span(flat: FlatSpan) -> AnySpan | None:
    """The span that `flatten` made ``flat`` of; None when it was not made by it."""
    taking = Taking(flat.attributes)
    cls = CLASSES.get(str(taking.left.get(native.KIND)))
    if cls is None:
        return None
    del taking.left[native.KIND]
    rest = taking.left.pop(REST, None)
    f: dict[str, Any] = {
        "id": flat.span_id,
        "trace_id": flat.trace_id,
        "parent_id": flat.parent_id,
        "name": "",
        "key": flat.span_id,
        "status": STATUS.get(flat.status, "unset"),
    }
    _common(taking, cls, f, flat)
    _FIELDS[cls](taking, f, flat)
    events, scores, artifacts = split_events(flat.events)
    if events:
        f["events"] = events
    if scores:
        f["scores"] = scores
    if artifacts:
        f["artifacts"] = artifacts
    if flat.links:
        f["links"] = [link(x) for x in flat.links]
    if source := taking.source():
        f["source"] = source
    nested(taking.left)
    if taking.left:
        f["attributes"] = taking.left
    made = cls(**f)
    return patched(made, rest) if isinstance(rest, str) else made


def nested(attributes: dict[str, Any]) -> None:
    """Objects and lists that were written as JSON text."""
    names = attributes.get(native.NESTED)
    if isinstance(names, list):
        for name in names:
            if isinstance(name, str) and isinstance(value := attributes.get(name), str):
                attributes[name] = m.loaded(value)
        del attributes[native.NESTED]


def _common(taking: Taking, cls: type[AnySpan], f: dict[str, Any], flat: FlatSpan) -> None:
    taking.take(cls, "key", "spanport.key", f)
    taking.take(cls, "clock", "spanport.clock", f)
    taking.take(cls, "uncertainty", "spanport.uncertainty_ns", f)
    if taking.flag("spanport.unfinished"):
        f["unfinished"] = True
    if taking.flag("spanport.reused"):
        f["reused"] = True
    f["start"] = None if taking.flag("spanport.start.unknown") else flat.start
    f["end"] = None if taking.flag("spanport.end.unknown") else flat.end
    taking.left.pop(k.SPAN_KIND, None)
    kind = taking.text(k.ERROR_TYPE)
    kind = None if kind == "_OTHER" else kind
    if kind is not None or flat.message:
        f["error"] = Error(type=kind, message=flat.message or None)
    for field, key in native._PLAIN[cls]:
        taking.take(cls, field, key, f)
    if cls is Run and f["key"] == flat.span_id and f.get("native_id") is not None:
        f["key"] = f["native_id"]
    if cls is not Task:
        taking.take(cls, "conversation_id", k.CONVERSATION_ID, f)
    if f.get("conversation_id") is not None and taking.left.get(k.SESSION_ID) == f["conversation_id"]:
        del taking.left[k.SESSION_ID]
    if cls not in (ModelRequest, ToolCall):
        if value := content_of(taking, k.INPUT_VALUE, k.INPUT_MIME_TYPE, True):
            f["input"] = value
        if value := content_of(taking, k.OUTPUT_VALUE, k.OUTPUT_MIME_TYPE, True):
            f["output"] = value


def _rollup(taking: Taking, f: dict[str, Any]) -> None:
    counts: dict[str, Any] = {}
    for field, key in native.USAGE:
        taking.take(Usage, field, key, counts)
    if counts:
        f["usage"] = Usage(**counts)


def _run(taking: Taking, f: dict[str, Any], flat: FlatSpan) -> None:
    taking.text(k.OPERATION)
    taking.take(Run, "name", k.WORKFLOW_NAME, f)
    if not f["name"]:
        taking.take(Run, "name", k.AGENT_NAME, f)
    taking.take(Run, "agent_id", k.AGENT_ID, f)
    taking.take(Run, "user_id", k.USER_ID, f)
    taking.take(Run, "tags", k.TAGS, f)
    _rollup(taking, f)


def _task(taking: Taking, f: dict[str, Any], flat: FlatSpan) -> None:
    f["name"] = flat.name
    if value := taking.json("spanport.task.expected"):
        f["expected"] = value
    _rollup(taking, f)


def _attempt(taking: Taking, f: dict[str, Any], flat: FlatSpan) -> None:
    f.setdefault("number", 0)
    if taking.text(k.OPERATION) is not None:
        f["agent"] = ""
        taking.take(Attempt, "agent", k.AGENT_NAME, f)
    name = taking.text("spanport.name")
    f["name"] = name if name is not None else f"attempt {f['number']}"
    if isinstance(text := taking.left.get("spanport.messages"), str) and (found := m.ours(text)) is not None:
        del taking.left["spanport.messages"]
        f["messages"] = found
    _rollup(taking, f)


def _phase(taking: Taking, f: dict[str, Any], flat: FlatSpan) -> None:
    taking.take(Phase, "operation", k.OPERATION, f)
    f["name"] = flat.name


def _request(taking: Taking, f: dict[str, Any], flat: FlatSpan) -> None:
    if (operation := taking.text(k.OPERATION)) not in (None, "chat"):
        f["operation"] = operation
    taking.take(ModelRequest, "provider", k.PROVIDER, f)
    taking.take(ModelRequest, "model", k.REQUEST_MODEL, f)
    f["name"] = f.get("model") or ""
    taking.take(ModelRequest, "response_model", k.RESPONSE_MODEL, f)
    taking.take(ModelRequest, "response_id", k.RESPONSE_ID, f)
    taking.take(ModelRequest, "finish_reasons", k.FINISH_REASONS, f)
    taking.take(ModelRequest, "agent", k.AGENT_NAME, f)
    if (wait := seconds(taking.left.get(k.TIME_TO_FIRST_CHUNK))) is not None:
        del taking.left[k.TIME_TO_FIRST_CHUNK]
        f["time_to_first_token"] = wait
    if parameters := {key: v for key, v in taking.left.items() if key.startswith(k.REQUEST_PREFIX)}:
        for key in parameters:
            del taking.left[key]
        f["parameters"] = {key[len(k.REQUEST_PREFIX) :]: v for key, v in parameters.items()}
    _rollup(taking, f)
    counts: dict[str, Any] = {}
    for field, key in USAGE_KEYS:
        taking.take(Usage, field, key, counts)
    taking.take(Usage, "cost", "spanport.cost_usd", counts)
    if counts:
        f["usage"] = msgspec.structs.replace(f.get("usage", Usage()), **counts)
    history: dict[str, Any] = {}
    for field in History.__struct_fields__:
        taking.take(History, field, f"spanport.history.{field}", history)
    if len(history) == 3:
        f["history"] = History(**history)
    if isinstance(text := taking.left.get(k.SYSTEM_INSTRUCTIONS), str) and (parts := m.our_parts(text)) is not None:
        del taking.left[k.SYSTEM_INSTRUCTIONS]
        f["system_instructions"] = parts
    if value := taking.json(k.TOOL_DEFINITIONS):
        f["tool_definitions"] = value
    if isinstance(text := taking.left.get(k.INPUT_MESSAGES), str) and (found := m.ours(text)) is not None:
        del taking.left[k.INPUT_MESSAGES]
        f["input_messages"] = found
    if isinstance(text := taking.left.get(k.OUTPUT_MESSAGES), str) and (found := m.ours(text)) is not None:
        del taking.left[k.OUTPUT_MESSAGES]
        reason = f["finish_reasons"][0] if f.get("finish_reasons") else ""
        # `flatten` puts the request's reason on each message that has none, for a backend that drops messages without one.
        f["output_messages"] = [msgspec.structs.replace(x, finish_reason=None) if x.finish_reason == reason else x for x in found]


USAGE_KEYS: Final = (
    ("input", k.USAGE_INPUT),
    ("output", k.USAGE_OUTPUT),
    ("cache_read", k.USAGE_CACHE_READ),
    ("cache_write", k.USAGE_CACHE_CREATION),
    ("cache_write", k.USAGE_CACHE_WRITE),
    ("reasoning", k.USAGE_REASONING),
)


def seconds(value: Any) -> int | None:
    """A number of seconds as ns."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return from_seconds(value)
        except (ValueError, ArithmeticError):
            return None
    return None


def _tool(taking: Taking, f: dict[str, Any], flat: FlatSpan) -> None:
    taking.text(k.OPERATION)
    taking.take(ToolCall, "name", k.TOOL_NAME, f)
    taking.take(ToolCall, "call_id", k.TOOL_CALL_ID, f)
    taking.take(ToolCall, "type", k.TOOL_TYPE, f)
    taking.take(ToolCall, "description", k.TOOL_DESCRIPTION, f)
    taking.take(ToolCall, "agent", k.AGENT_NAME, f)
    if value := taking.json(k.TOOL_ARGUMENTS):
        f["arguments"] = value
    if value := taking.json(k.TOOL_RESULT):
        f["result"] = value


_FIELDS: Final = {Run: _run, Task: _task, Attempt: _attempt, Phase: _phase, ModelRequest: _request, ToolCall: _tool}


# ------------------------------------------------------------------------------------------- events, scores, artifacts
def split_events(given: list[FlatEvent]) -> tuple[list[Event], list[Score], list[Artifact]]:
    """Events told apart: scores and artifacts have their own types in the model."""
    events: list[Event] = []
    scores: list[Score] = []
    artifacts: list[Artifact] = []
    for e in given:
        if e.name == k.EVALUATION_EVENT and (score := _score(e)) is not None:
            scores.append(score)
        elif e.name == native.ARTIFACT_EVENT and (made := _artifact(e)) is not None:
            artifacts.append(made)
        else:
            events.append(_event(e))
    return events, scores, artifacts


def _time(taking: Taking, time: int) -> int | None:
    if taking.left.get("spanport.clock") == "synthetic":
        del taking.left["spanport.clock"]
        return None
    return time


def _event(given: FlatEvent) -> Event:
    taking = Taking(given.attributes)
    time, source = _time(taking, given.time), taking.source()
    return Event(name=given.name, time=time, attributes=taking.left, source=source)


def _score(given: FlatEvent) -> Score | None:
    taking = Taking(given.attributes)
    f: dict[str, Any] = {}
    for field, key in (
        ("name", k.EVALUATION_NAME),
        ("value", k.EVALUATION_VALUE),
        ("label", k.EVALUATION_LABEL),
        ("explanation", k.EVALUATION_EXPLANATION),
    ):
        taking.take(Score, field, key, f)
    if "name" not in f:
        return None
    time, source = _time(taking, given.time), taking.source()
    source.update((key, m.content(value)) for key, value in taking.left.items())
    return Score(time=time, source=source, **f)


def _artifact(given: FlatEvent) -> Artifact | None:
    taking = Taking(given.attributes)
    f: dict[str, Any] = {}
    for field in Artifact.__struct_fields__:
        if field == "payload":
            if value := taking.json("spanport.artifact.payload"):
                f[field] = value
        elif field not in ("created", "source"):
            taking.take(Artifact, field, f"spanport.artifact.{field}", f)
    if "id" not in f:
        return None
    time, source = _time(taking, given.time), taking.source()
    source.update((key, m.content(value)) for key, value in taking.left.items())
    return Artifact(created=time, source=source, **f)


def link(given: FlatLink) -> Link:
    """A link; one that says no type is a plain ``link``."""
    taking = Taking(given.attributes)
    kind = taking.text("spanport.link.type") or "link"
    return Link(trace_id=given.trace_id, span_id=given.span_id, type=kind, attributes=taking.left)


# -------------------------------------------------------------------------------------------------------- the rest
def plain(value: Struct) -> Any:
    """A Struct of the model as plain JSON values (integers of any size stay whole)."""
    return json.loads(_encode(value))


def rest(wanted: AnySpan, got: AnySpan) -> str | None:
    """The patch, as JSON text, that makes ``wanted`` of ``got``; None when they say the same."""
    a, b = _encode(got), _encode(wanted)
    if a == b or minify(Raw(a)) == minify(Raw(b)):
        return None
    found = patch.diff(json.loads(a), json.loads(b))
    return None if found is None else json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def patched(got: AnySpan, text: str) -> AnySpan:
    """``got`` with a `rest` applied; a rest that does not fit (somebody changed the attributes) leaves it as it is, with the rest as an attribute."""
    try:
        value = patch.apply(plain(got), json.loads(text))
        return msgspec.json.decode(json.dumps(value), type=AnySpan)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return msgspec.structs.replace(got, attributes={**got.attributes, REST: text})
