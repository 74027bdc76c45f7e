"""Span ⇄ attributes. `flatten` dresses a span of the model as OTLP has it: GenAI names, OpenInference names, our own."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

from ..model import AnySpan, Phase
from . import gen_ai, native, openinference
from .flat import ERROR, OK, UNSET, Attributes, FlatSpan, Profile, Shared

_STATUS = {"unset": UNSET, "ok": OK, "error": ERROR}
GENERIC = Profile()

# Phases are most spans of a large benchmark run, and nearly all of them say the same few things: what they are dressed in is made once. What a dress
# depends on, and what a phase must not have to be one of those; a test holds that every field is in one of them.
_DRESS: Final = ("name", "key", "type", "operation", "conversation_id", "clock", "uncertainty", "unfinished", "reused", "status", "retry")
_RARE: Final = ("error", "events", "links", "scores", "artifacts", "attributes", "input", "output")
_dress: Final[Callable[[Phase], Any]] = attrgetter(*_DRESS)
_rare: Final[Callable[[Phase], tuple[Any, ...]]] = attrgetter(*_RARE)
_dresses: dict[tuple[Any, ...], Shared] = {}
_KEPT: Final = 4096


def shared(span: AnySpan, profile: Profile = GENERIC) -> Shared | None:
    """What ``span`` is dressed in together with many others; None for a span that says something of its own."""
    if span.__class__ is not Phase or profile.carry or profile.name != "generic" or any(_rare(span)):
        return None
    key = (profile.dialect, span.start is None, span.end is None, _dress(span))
    if (known := _dresses.get(key)) is None:
        if len(_dresses) >= _KEPT:
            _dresses.clear()
        known = _dresses[key] = Shared(_attributes(span, profile), *gen_ai.name_and_kind(span), _STATUS[span.status])
    return known


def flatten(span: AnySpan, profile: Profile = GENERIC) -> FlatSpan:
    """``span`` with the attributes of ``profile``. An unfinished span ends at its last known time; a span without
    any time stands at 0 and says so in ``spanport.start.unknown``."""
    start = span.start if span.start is not None else 0
    end = span.end if span.end is not None else start
    if (dress := shared(span, profile)) is not None:
        return FlatSpan(
            trace_id=span.trace_id,
            span_id=span.id,
            parent_id=span.parent_id,
            name=dress.name,
            kind=dress.kind,
            start=start,
            end=end,
            attributes=dress,
            status=dress.status,
        )
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
