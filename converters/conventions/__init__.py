"""Span ⇄ attributes. `flatten` dresses a span of the model as OTLP has it: GenAI names, OpenInference names, our own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from importlib import import_module
from operator import itemgetter
from typing import Any, Final

from msgspec.structs import astuple, replace

from ..jsonio import minify
from ..model import AnySpan, Attempt, History, Message, ModelRequest, Phase, Task, ToolCall, raw
from . import gen_ai, native, openinference
from .flat import ERROR, OK, UNSET, Attributes, Dress, FlatSpan, Own, Profile

_STATUS = {"unset": UNSET, "ok": OK, "error": ERROR}
GENERIC = Profile()

# Most spans of a large benchmark run are phases, attempts and tasks that say the same few things: what they are dressed in is made once, and kept by all that it
# depends on, which is every field that is not in one of these lists.
_BESIDE: Final = ("id", "trace_id", "parent_id", "start", "end", "attributes", "events", "source")
"""What stands beside a dress, or (``source``) is sent only in a carry."""
_OWN: Final[dict[type, tuple[str, ...]]] = {
    Phase: (),
    Attempt: ("name",),
    Task: ("name", "key", "native_id", "index"),
    ToolCall: ("key",),
    ModelRequest: ("key",),
}
"""What stands in an attribute as it is, and must be there."""
_MAY: Final[dict[type, tuple[str, ...]]] = {
    ToolCall: ("call_id", "requested_by", "conversation_id", "arguments", "result"),
    ModelRequest: ("conversation_id", "input_messages", "output_messages", "history"),
}
"""What is a span's own too, and may be missing."""
_RARE: Final = ("error", "links", "scores", "artifacts", "input", "output", "expected", "messages", "usage", "reasoning")
"""What a span must not have to be one of many."""
_TOO: Final[dict[type, tuple[str, ...]]] = {
    ToolCall: ("uncertainty",),
    ModelRequest: (
        "uncertainty",
        "response_id",
        "finish_reasons",
        "system_instructions",
        "chunks",
        "tool_definitions",
        "parameters",
        "time_to_first_token",
    ),
}
"""The same, of one kind only."""
_STANDS: Final[dict[str, Any]] = {
    "arguments": raw("arguments"),
    "result": raw("result"),
    "input_messages": [Message(role="input", parts=[])],
    "output_messages": [Message(role="output", parts=[])],
    "history": History(base=Own("history.base"), count=Own("history.count"), hash=Own("history.hash")),  # type: ignore[arg-type]
}
"""What stands for a field that is no text while the dress is made."""
_input: Final = partial(gen_ai.messages_json, carry=False)
_output: Final = partial(gen_ai.messages_json, carry=False, output=True)
_MADE: Final[dict[bytes, Own]] = {
    minify(_STANDS["arguments"]): Own("arguments", minify),
    minify(_STANDS["result"]): Own("result", minify),
    _input(_STANDS["input_messages"]): Own("input_messages", _input),
    _output(_STANDS["output_messages"]): Own("output_messages", _output),
}
"""What becomes of it in an attribute, and what stands there then."""
_dresses: dict[tuple[Any, ...], Dress | None] = {}
_KEPT: Final = 4096


_Getter = Callable[[Any], tuple[Any, ...]]


@cache
def _getters(kind: type) -> tuple[Callable[[Any], Any], _Getter, _Getter | None, _Getter | None]:
    """Of the values of a kind of span (as a tuple: asked for by name they take five times as long): what its dress depends on, what it must not have, what is its own,
    and what is that where it is there."""
    fields: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    own, may, rare = _OWN[kind], _MAY.get(kind, ()), (*_RARE, *_TOO.get(kind, ()))
    facts = [f for f in fields if f not in (*_BESIDE, *rare, *own, *may)]
    at = fields.index
    return (
        itemgetter(*map(at, facts)),
        itemgetter(*(at(f) for f in fields if f in rare)),
        itemgetter(*map(at, ("name", *own))) if own else None,
        itemgetter(*map(at, may)) if may else None,
    )


def shared(span: AnySpan, profile: Profile = GENERIC) -> Dress | None:
    """What ``span`` is dressed in together with many others, apart from its attributes and events; None for a span that says something else of its own."""
    kind = span.__class__
    if kind not in _OWN or profile.carry or profile.name != "generic":
        return None
    facts, rare, own, may = _getters(kind)
    told = astuple(span)
    if any(rare(told)) or (own is not None and not all(own(told))):
        return None
    if kind is Attempt and span.name == f"attempt {span.number}":  # type: ignore[union-attr]
        return None  # that goes without saying
    there = None if may is None else tuple([None if value is None else bool(value) for value in may(told)])
    key = (kind, profile.dialect, span.start is None, span.end is None, there, facts(told))
    try:
        return _dresses[key]
    except KeyError:
        if len(_dresses) >= _KEPT:
            _dresses.clear()
        fields = [*_OWN[kind], *(field for field in _MAY.get(kind, ()) if getattr(span, field))]
        model = replace(span, attributes={}, **{field: _STANDS.get(field, Own(field)) for field in fields})
        attributes = [(name, _MADE.get(value, value) if value.__class__ is bytes else value) for name, value in _attributes(model, profile)]
        made = Dress(attributes, *gen_ai.name_and_kind(model), _STATUS[span.status])
        found = _dresses[key] = made if made.fits else None
        return found


def flatten(span: AnySpan, profile: Profile = GENERIC) -> FlatSpan:
    """``span`` with the attributes of ``profile``. An unfinished span ends at its last known time; a span without
    any time stands at 0 and says so in ``spanport.start.unknown``."""
    start = span.start if span.start is not None else 0
    end = span.end if span.end is not None else start
    name, kind = gen_ai.name_and_kind(span)
    events = [native.event(e, end, profile) for e in span.events] if span.events else []
    if span.scores:
        events += [gen_ai.evaluation(s, end) for s in span.scores]
    if span.artifacts:
        events += [native.artifact(a, end, profile) for a in span.artifacts]
    return FlatSpan(
        trace_id=span.trace_id,
        span_id=span.id,
        parent_id=span.parent_id,
        name=name,
        kind=kind,
        start=start,
        end=end,
        attributes=_attributes(span, profile),
        events=events,
        links=[native.link(x) for x in span.links] if span.links else [],
        status=_STATUS[span.status],
        message=(span.error.message or "") if span.error is not None and span.status == "error" else "",
    )


def _attributes(span: AnySpan, profile: Profile) -> Attributes:
    out: Attributes = []
    gen_ai.attributes(span, out, profile)
    openinference.attributes(span, out)
    native.attributes(span, out, profile)
    if profile.name != "generic":
        dressing(profile.name)(span, out, profile)
    return out


@lru_cache(maxsize=8)
def dressing(profile: str) -> Callable[[AnySpan, Attributes, Profile], None]:
    """What a backend's profile adds to the attributes of a span."""
    found: Callable[[AnySpan, Attributes, Profile], None] = import_module(f".{profile}", __name__).attributes
    return found


def unflatten(flat: FlatSpan) -> AnySpan:
    """The span that ``flat`` is: the one that `flatten` made it of, or, when somebody else wrote it, what its attributes say it is."""
    from . import foreign, undress

    return undress.span(flat) or foreign.span(flat)
