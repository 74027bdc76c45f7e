"""Span → our own attributes, ``spanport.*``: what the model knows and no convention has a name for.

With ``carry``, ``spanport.source`` holds the untyped fields of the record too, so that `A → OTLP → A` is lossless.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ..jsonio import minify
from ..model import AnySpan, Artifact, Attempt, Event, Link, ModelRequest, Phase, Run, Task, ToolCall, Usage, Value
from .flat import Attributes, FlatEvent, FlatLink, Profile

KIND: Final = "spanport.kind"
NESTED: Final = "spanport.json"
ARTIFACT_EVENT: Final = "spanport.artifact"
_encode = msgspec.json.Encoder().encode

# Fields of a kind that become an attribute as they are, when they are set: (field, attribute).
_PLAIN: Final[dict[type, tuple[tuple[str, str], ...]]] = {
    Run: (
        ("type", "spanport.run.type"),
        ("native_id", "spanport.run.id"),
        ("model", "spanport.run.model"),
        ("provider", "spanport.run.provider"),
        ("ending", "spanport.ending"),
        ("verdict", "spanport.verdict"),
    ),
    Task: (
        ("native_id", "spanport.task.id"),
        ("category", "spanport.task.category"),
        ("index", "spanport.task.index"),
        ("ending", "spanport.ending"),
        ("verdict", "spanport.verdict"),
    ),
    Attempt: (("number", "spanport.attempt.number"), ("ending", "spanport.ending"), ("verdict", "spanport.verdict")),
    Phase: (("type", "spanport.phase.type"), ("retry", "spanport.retry")),
    ModelRequest: (("inferred", "spanport.inferred"), ("retry", "spanport.retry")),
    ToolCall: (
        ("server", "spanport.tool.server"),
        ("outcome", "spanport.tool.outcome"),
        ("requested_by", "spanport.tool.requested_by"),
        ("reasoning", "spanport.tool.reasoning"),
        ("retry", "spanport.retry"),
    ),
}
_ZERO: Final = ("number", "index")  # a 0 here says something
_USUAL: Final = {"spanport.run.type": "agent", "spanport.tool.outcome": "ok"}
"""Values that go without saying, as does the clock ``recorded``."""
_USUAL_ARTIFACT: Final = {"operation": "create", "found_in": "channel"}
USAGE: Final = tuple((name, f"spanport.usage.{name}") for name in Usage.__struct_fields__)


def attributes(span: AnySpan, out: Attributes, profile: Profile) -> None:
    """Add the ``spanport.*`` attributes of ``span``, and those that its reader gave it."""
    out.append((KIND, span.__struct_config__.tag))
    if not isinstance(span, Run) or span.key != span.native_id:
        out.append(("spanport.key", span.key))
    if span.clock != "recorded":
        out.append(("spanport.clock", span.clock))
    if span.uncertainty:
        out.append(("spanport.uncertainty_ns", span.uncertainty))
    if span.unfinished:
        out.append(("spanport.unfinished", True))
    if span.end is None:
        out.append(("spanport.end.unknown", True))
    if span.start is None:
        out.append(("spanport.start.unknown", True))
    if span.reused:
        out.append(("spanport.reused", True))
    for field, name in _PLAIN[span.__class__]:
        value = getattr(span, field)
        if value is not None and (value or field in _ZERO) and value != _USUAL.get(name):
            out.append((name, value))
    if (more := _MORE.get(span.__class__)) is not None:
        more(span, out, profile)
    if span.attributes:
        own(span.attributes, out)
    if profile.carry and span.source:
        out.append(("spanport.source", minify(msgspec.Raw(_encode(span.source)))))


def own(attributes: dict[str, Value], out: Attributes) -> None:
    """Attributes that a reader gave. Objects, and lists of them, become JSON text, which backends show and which is a third of the size; ``spanport.json``
    names those."""
    nested: list[str] = []
    for key, value in attributes.items():
        kind = value.__class__
        if kind is dict or (kind is list and any(x.__class__ in (dict, list) for x in value)):  # type: ignore[union-attr]
            try:
                out.append((key, msgspec.json.format(_encode(value), indent=-1)))
                nested.append(key)
                continue
            except (TypeError, UnicodeEncodeError):
                pass
        out.append((key, value))
    if nested:
        out.append((NESTED, nested))


def _rollup(span: Run | Task | Attempt, out: Attributes, profile: Profile) -> None:
    """Roll-ups have names of their own, so that no backend adds them to the requests'."""
    if span.usage is not None:
        for field, name in USAGE:
            if (count := getattr(span.usage, field)) is not None:
                out.append((name, count))


def _task(span: Task, out: Attributes, profile: Profile) -> None:
    _rollup(span, out, profile)
    if span.expected:
        out.append(("spanport.task.expected", minify(span.expected)))


def _attempt(span: Attempt, out: Attributes, profile: Profile) -> None:
    _rollup(span, out, profile)
    if span.name != f"attempt {span.number}":
        out.append(("spanport.name", span.name))
    if span.messages:
        sent = span.messages if profile.carry else [msgspec.structs.replace(m, source={}) if m.source else m for m in span.messages]
        out.append(("spanport.messages", minify(msgspec.Raw(_encode(sent)))))


def _request(span: ModelRequest, out: Attributes, profile: Profile) -> None:
    if span.history is not None:
        out.append(("spanport.history.base", span.history.base))
        out.append(("spanport.history.count", span.history.count))
        out.append(("spanport.history.hash", span.history.hash))
    if span.usage is not None:
        # What the conventions have no name for, or ask to be left out (zero counts of cached tokens).
        for field, name in USAGE:
            count = getattr(span.usage, field)
            if field == "cost":
                name = "spanport.cost_usd"
            elif (field != "total" and (count != 0 or field in ("input", "output"))) or (
                field == "total" and count == (span.usage.input or 0) + (span.usage.output or 0) and not profile.carry
            ):
                continue
            if count is not None:
                out.append((name, count))


_MORE: Final[dict[type, Callable[[Any, Attributes, Profile], None]]] = {
    Run: _rollup,
    Task: _task,
    Attempt: _attempt,
    ModelRequest: _request,
}


def event(given: Event, time: int, profile: Profile) -> FlatEvent:
    """An event of the model; one without a time of its own gets ``time`` and says so."""
    out: Attributes = list(given.attributes.items())
    if given.time is None:
        out.append(("spanport.clock", "synthetic"))
    if profile.carry and given.source:
        out.append(("spanport.source", minify(msgspec.Raw(_encode(given.source)))))
    return FlatEvent(given.name, given.time if given.time is not None else time, out)


def artifact(given: Artifact, time: int, profile: Profile) -> FlatEvent:
    """An artifact as the event ``spanport.artifact`` on the span that made it."""
    out: Attributes = []
    for field in Artifact.__struct_fields__:
        value = getattr(given, field)
        if field in ("created", "source") or value is None or value == _USUAL_ARTIFACT.get(field):
            continue
        if field == "payload":
            if value:
                out.append(("spanport.artifact.payload", minify(value)))
        else:
            out.append((f"spanport.artifact.{field}", value))
    if given.created is None:
        out.append(("spanport.clock", "synthetic"))
    if profile.carry and given.source:
        out.append(("spanport.source", minify(msgspec.Raw(_encode(given.source)))))
    return FlatEvent(ARTIFACT_EVENT, given.created if given.created is not None else time, out)


def link(given: Link) -> FlatLink:
    """A link with its type."""
    return FlatLink(given.trace_id, given.span_id, [("spanport.link.type", given.type), *given.attributes.items()])
