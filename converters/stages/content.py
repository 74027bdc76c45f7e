"""How much of the content leaves: ``full``, ``metadata`` (its shape: roles, kinds of parts, names, sizes) or ``none``.

Content is what people, models and tools said: messages, instructions, arguments, results, inputs, outputs, payloads, explanations, error texts, and
every text of a record that has no typed home. Names (of models, tools, agents, tasks), ids, times, counts, kinds of errors and verdicts are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from msgspec import Raw
from msgspec.structs import replace

from ..model import (
    ABSENT,
    AnySpan,
    Artifact,
    Attempt,
    BlobPart,
    Event,
    FilePart,
    GenericPart,
    Item,
    Link,
    Message,
    ModelRequest,
    Part,
    Phase,
    ReasoningPart,
    Run,
    Score,
    Task,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    TraceHeader,
    UriPart,
    Value,
    raw,
)

Content = Literal["full", "metadata", "none"]
_RAWS: Final[dict[type, tuple[str, ...]]] = {
    Run: ("input", "output"),
    Task: ("input", "output", "expected"),
    Attempt: ("input", "output"),
    Phase: ("input", "output"),
    ModelRequest: ("tool_definitions",),
    ToolCall: ("arguments", "result"),
}
_MESSAGES: Final[dict[type, tuple[str, ...]]] = {Attempt: ("messages",), ModelRequest: ("input_messages", "output_messages")}


def content(items: Iterable[Item], level: Content) -> Iterator[Item]:
    """The items with as much content as ``level`` says. ``source`` and a carry go with the first cut: they may hold anything."""
    if level == "full":
        yield from items
        return
    for item in items:
        if isinstance(item, TraceHeader):
            yield replace(item, source={}, carry=[], resource=_facts(item.resource) if level == "none" else item.resource)
        else:
            yield _span(item, level == "none")


def said(size: int, unit: str = "characters") -> str:
    """What stands for content of that size."""
    return f"[{size} {unit} left out]"


def _raw(value: Raw, none: bool) -> Raw:
    return ABSENT if none or not value else raw(said(len(bytes(value)), "bytes"))


def _span(span: AnySpan, none: bool) -> AnySpan:
    more: dict[str, Any] = {
        "source": {},
        "attributes": _facts(span.attributes),
        "events": [_event(e) for e in span.events],
        "scores": [_score(s) for s in span.scores],
        "artifacts": [] if none else [_artifact(a) for a in span.artifacts],
        "links": [Link(trace_id=x.trace_id, span_id=x.span_id, type=x.type) for x in span.links] if none else span.links,
    }
    if span.error is not None:
        text = span.error.message
        more["error"] = replace(span.error, message=None if none or text is None else said(len(text)))
    for name in _RAWS[span.__class__]:
        more[name] = _raw(getattr(span, name), none)
    for name in _MESSAGES.get(span.__class__, ()):
        more[name] = [] if none else [_message(m) for m in getattr(span, name)]
    if isinstance(span, ModelRequest):
        more["system_instructions"] = [] if none else [_part(p) for p in span.system_instructions]
        more["parameters"] = _facts(span.parameters)
        if none:
            more["history"] = None
    elif isinstance(span, ToolCall):
        more["reasoning"] = None if none or span.reasoning is None else said(len(span.reasoning))
        more["description"] = None
    return replace(span, **more)


def _facts(attributes: dict[str, Value]) -> dict[str, Value]:
    """Numbers and truth values: any text among a record's own attributes may be content."""
    return {k: v for k, v in attributes.items() if isinstance(v, int | float)}


def _event(event: Event) -> Event:
    return Event(name=event.name, time=event.time, attributes=_facts(event.attributes))


def _score(score: Score) -> Score:
    return replace(score, explanation=None, source={})


def _artifact(one: Artifact) -> Artifact:
    return replace(one, title=None, payload=ABSENT, source={}, uri=None, path=None, ref=None)


def _message(message: Message) -> Message:
    return replace(message, parts=[_part(p) for p in message.parts], source={})


def _part(part: Part) -> Part:
    match part:
        case TextPart():
            return TextPart(content=said(len(part.content)))
        case ReasoningPart():
            return ReasoningPart(content=said(len(part.content)))
        case ToolCallPart():
            return replace(part, arguments=_raw(part.arguments, False))
        case ToolCallResponsePart():
            return replace(part, response=_raw(part.response, False))
        case BlobPart():
            return replace(part, content="")
        case UriPart():
            return replace(part, uri=said(len(part.uri)))
        case FilePart() | GenericPart():
            return GenericPart(generic_type=part.generic_type) if isinstance(part, GenericPart) else part
