"""A trace of one run with one attempt, from one record."""

from __future__ import annotations

from collections.abc import Iterator

from .. import ids, jsonio
from ..errors import Report
from ..model import ABSENT, Item, Repair, Run, TraceHeader
from .document import Document
from .facts import FAMILY, facts, final_of, run_key
from .reward import Judgement, judgement
from .spans import Place, rollout


def single(
    doc: Document,
    form: str,
    report: Report,
    *,
    repairs: list[Repair] | None = None,
    place: Place | None = None,
    name: str | None = None,
    more: Run | None = None,
) -> Iterator[Item]:
    """A trace of one run with one attempt. ``form``: the format that it was read as; ``more``: links, scores, attributes, source and
    events that the run gets besides."""
    known = facts(doc)
    key = run_key(doc, known)
    trace = ids.trace_id(FAMILY, *key)
    run = ids.span_id(trace, "run")
    yield TraceHeader(id=trace, family=FAMILY, format=form, run_key=key, name=name or known.task_id or None, repairs=repairs or [])
    given = place or Place(judgement=stated_judgement(doc))
    given.trace, given.parent, given.model, given.provider = trace, run, known.model, known.provider
    attempt = yield from rollout(doc, known, given, report)
    extra = more or Run(id="", trace_id="", name="", key="")
    yield Run(
        id=run,
        trace_id=trace,
        key="run",
        name=known.agent,
        start=attempt.start,
        end=attempt.end,
        clock=attempt.clock,
        uncertainty=attempt.uncertainty,
        unfinished=attempt.unfinished,
        status=attempt.status,
        error=attempt.error,
        links=extra.links,
        events=extra.events,
        scores=extra.scores,
        attributes=extra.attributes,
        source=extra.source,
        type="agent",
        native_id=known.task_id or None,
        conversation_id=known.conversation,
        model=known.model,
        provider=known.provider,
        input=doc.fields.get("task", ABSENT),
        output=final_of(doc),
        ending=attempt.ending,
        verdict=attempt.verdict,
    )


def stated_judgement(doc: Document) -> Judgement | None:
    """The verdict that a trajectory states itself."""
    stated = jsonio.fields(doc.verifier)
    if not stated:
        return None
    passed = jsonio.value(stated.get("passed", ABSENT))
    found = judgement(stated.get("payload", ABSENT), None, passed if isinstance(passed, bool) else None)
    if found.reward is None:
        found.reward = jsonio.finite(jsonio.value(stated.get("reward", ABSENT)))
    return found
