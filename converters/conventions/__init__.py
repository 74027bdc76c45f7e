"""Span ⇄ attributes. `flatten` dresses a span of the model as OTLP has it: GenAI names, OpenInference names, our own."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

from ..model import AnySpan
from . import gen_ai, native, openinference
from .flat import ERROR, OK, UNSET, Attributes, FlatSpan, Profile

_STATUS = {"unset": UNSET, "ok": OK, "error": ERROR}
GENERIC = Profile()


def flatten(span: AnySpan, profile: Profile = GENERIC) -> FlatSpan:
    """``span`` with the attributes of ``profile``. An unfinished span ends at its last known time; a span without
    any time stands at 0 and says so in ``spanport.start.unknown``."""
    start = span.start if span.start is not None else 0
    end = span.end if span.end is not None else start
    out: Attributes = []
    gen_ai.attributes(span, out, profile)
    openinference.attributes(span, out)
    native.attributes(span, out, profile)
    if profile.name != "generic":
        dressing(profile.name)(span, out, profile)
    name, kind = gen_ai.name_and_kind(span)
    events = [native.event(e, end, profile) for e in span.events]
    events += [gen_ai.evaluation(s, end) for s in span.scores]
    events += [native.artifact(a, end, profile) for a in span.artifacts]
    return FlatSpan(
        trace_id=span.trace_id,
        span_id=span.id,
        parent_id=span.parent_id,
        name=name,
        kind=kind,
        start=start,
        end=end,
        attributes=out,
        events=events,
        links=[native.link(x) for x in span.links],
        status=_STATUS[span.status],
        message=(span.error.message or "") if span.error is not None and span.status == "error" else "",
    )


@lru_cache(maxsize=8)
def dressing(profile: str) -> Callable[[AnySpan, Attributes, Profile], None]:
    """What a backend's profile adds to the attributes of a span."""
    found: Callable[[AnySpan, Attributes, Profile], None] = import_module(f".{profile}", __name__).attributes
    return found


def unflatten(flat: FlatSpan) -> AnySpan:
    """The span that ``flat`` is: the one that `flatten` made it of, or, when somebody else wrote it, what its attributes say it is."""
    from . import foreign, undress

    return undress.span(flat) or foreign.span(flat)
