"""An attempt whole: the span that the events gave (or that the disk gives), joined with its result, its checkpoint and its discarded results.

Physical runs are no spans (page §12.1): their number is ``retry`` on phases, requests and calls. A discarded result of scope ``attempt`` was a run of its own; one
of scope ``evaluate`` repeats the trajectory of the final result, and one of stage ``recovery`` that of the source run: neither is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import Report
from ..jsonio import fields, is_null, text
from ..model import ABSENT, AnySpan, Attempt, Event, Phase, Value
from . import result as results
from . import trajectory
from .events import RUN_PHASES
from .layout import AttemptFiles, load, load_part
from .result import ISSUE_PHASES, Issue, Result, result_of
from .said import Place
from .schema import Zone, integer, plain, words


@dataclass
class Context:
    """What the attempts of one run share. ``plans``: resolved execution plans of run_info.json by task and attempt. ``sources``: the links to an
    older run, when that is an input too: (run id or path) → (trace id, attempt → span id)."""

    root: Any
    report: Report
    zone: Zone
    trace: str
    run_id: str | None = None
    model: str | None = None
    reused_from: dict[str, Raw] = field(default_factory=dict)
    plans: dict[str, Raw] = field(default_factory=dict)
    link: Any = None


@dataclass(slots=True)
class _Discarded:
    retry: int
    scope: str | None
    stage: str | None
    result: Result
    source: dict[str, Raw]


def _discarded(files: AttemptFiles, context: Context) -> list[_Discarded]:
    found = []
    for number, stage, path in files.retries:
        members, open_ = load_part(path, context.report, context.root)
        if members is None:
            continue
        known = {
            k: members.pop(k, ABSENT)
            for k in ("retry", "scope", "stage", "discarded_result", "task_id", "category", "attempt", "schema_version")
        }
        result = result_of(fields(known["discarded_result"]), open_ is not None)
        if not result.issues and (listed := members.get("issues")) is not None:
            result.issues = result_of({"issues": listed}).issues
        members.pop("issues", None)
        retry = integer(known["retry"])
        found.append(
            _Discarded(retry if retry is not None else number, text(known["scope"]), text(known["stage"]) or stage, result, members)
        )
    return sorted(found, key=lambda d: d.retry)


def _repeats(discarded: _Discarded) -> bool:
    """Whether a discarded result was a physical run of its own."""
    return (
        discarded.scope in ("attempt", None)
        and discarded.stage != "recovery"
        and not (discarded.scope is None and discarded.stage == "evaluate")
    )


def _inherited(final: Result | None, checkpoint: dict[str, Raw], phases: list[Phase], context: Context) -> dict[str, Value] | None:
    """Where inherited work came from, as attributes; None when the work is this run's own (page §12.3)."""
    history = fields(final.artifacts.get("reuse_history", ABSENT)) if final is not None else {}
    recovered = any(p.name == "recover_evaluation" for p in phases)
    if not history and not recovered:
        return None
    found: dict[str, Value] = {}
    path = words(history.get("source_run", ABSENT)) or words(context.reused_from.get("path", ABSENT))
    run = words(fields(checkpoint.get("evaluation", ABSENT)).get("source_run_id", ABSENT)) if not history else None
    run = (
        run
        or words(context.reused_from.get("run_id", ABSENT))
        or (path.replace("\\", "/").rstrip("/").rpartition("/")[2] if path else None)
    )
    if run:
        found["agentcompass.reused.run_id"] = run
    if path:
        found["agentcompass.reused.path"] = path
    if (count := integer(history.get("retry_count", ABSENT))) is not None:
        found["agentcompass.reused.retry_count"] = count
    return found


def _phase_of(phases: list[Phase], retry: int | None) -> Phase | None:
    """The phase in which the agent of a physical run worked."""
    running = [p for p in phases if p.name in RUN_PHASES and (retry is None or p.retry == retry)]
    return running[-1] if running else None


def _blame(phases: list[Phase], issues: list[Issue], attempt: list[Event]) -> list[Phase]:
    """Phases with the issues that are about them: the last of those that the issue's phase names. The rest goes to the attempt."""
    changed: dict[int, Phase] = {}
    for issue in issues:
        wanted = ISSUE_PHASES.get(issue.phase or "", ())
        at = next((i for i in reversed(range(len(phases))) if phases[i].name in wanted), None)
        if at is None:
            attempt.append(issue.event())
            continue
        phase = changed.get(at, phases[at])
        update: dict[str, Any] = {"events": [*phase.events, issue.event()]}
        if issue.rank >= 2 and phase.status != "error":
            update.update(status="error", error=issue.error())
        changed[at] = msgspec.structs.replace(phase, **update)
    return [changed.get(i, p) for i, p in enumerate(phases)]


def spans(base: Attempt, phases: list[Phase], files: AttemptFiles | None, task: str, context: Context, events: bool) -> list[AnySpan]:
    """All spans of an attempt, children before parents, the attempt last. ``events``: whether ``base`` comes from the stream."""
    files = files or AttemptFiles()
    final: Result | None = None
    if files.flat:
        final = result_of(fields(files.flat), files.cut)
    elif files.result is not None:
        members, open_ = load_part(files.result, context.report, context.root)
        final = result_of(members, open_ is not None) if members is not None else None
    need = final is None or any(p.name == "recover_evaluation" for p in phases)
    checkpoint = (load(files.checkpoint, context.report, context.root) if need and files.checkpoint is not None else None) or {}
    attributes = dict(base.attributes)
    recovered = False
    if final is None and (kept := fields(fields(checkpoint.get("evaluation", ABSENT)).get("run_result", ABSENT))):
        final, recovered = result_of(kept), True
        attributes["agentcompass.recovered_from"] = "checkpoint"
    discarded = _discarded(files, context)
    inherited = _inherited(final if not recovered else None, checkpoint, phases, context)
    out: list[AnySpan] = []
    events_of = list(base.events)
    last_run = max([p.retry for p in phases if p.retry] or [0])
    counted = 0
    for one in discarded:
        before = [p for p in phases if p.retry == counted] if _repeats(one) else [p for p in phases if p.retry <= counted]
        at = next((e.time for e in events_of if e.name == "attempt_retry" and e.attributes.get("agentcompass.retry") == one.retry), None)
        if at is not None:
            before = [p for p in before if p.end is not None and p.end <= at]
        blamed = {p.id: p for p in _blame(before, one.result.issues, events_of)} if one.stage != "recovery" else {}
        phases = [blamed.get(p.id, p) for p in phases]
        if not _repeats(one):
            continue
        found = _work(one.result, base, phases, counted, context, one.result.broken, False, {}, out, last=False)
        if one.source or found.shape:
            _note_retry(events_of, one, found)
        counted += 1
    last_run = max(last_run, counted)
    whole: trajectory.Found | None = None
    if final is not None:
        broken = final.broken or recovered  # a checkpoint without a result: the attempt did not finish
        own = [p for p in phases if p.retry == last_run] or phases
        if not recovered:
            blamed = {p.id: p for p in _blame(own, final.issues, events_of)}
            phases = [blamed.get(p.id, p) for p in phases]
        whole = _work(final, base, phases, last_run, context, broken, inherited is not None, inherited or {}, out, last=True)
    ends: dict[str | None, int] = {}
    for span in out:
        end = span.end if span.end is not None else span.start
        if end is not None and not span.reused:
            ends[span.parent_id] = max(ends.get(span.parent_id, 0), end)
    phases = [
        msgspec.structs.replace(p, end=max(p.end or 0, ends[p.id])) if p.unfinished and p.id in ends and ends[p.id] > (p.end or 0) else p
        for p in phases
    ]
    changes: dict[str, Any] = {"events": events_of}
    if final is not None:
        changes.update(_fields(final, base, recovered, inherited, attributes, whole, context, task))
    elif events and base.unfinished:
        attributes["agentcompass.result"] = "none"
    source = dict(base.source)
    source.update(changes.pop("source", {}))
    plan = fields(fields(context.plans.get(task, ABSENT)).get("attempts", ABSENT)).get(str(base.number))
    if plan is not None and not _planned(phases, base, plan):
        source["resolved_execution_plan"] = plan
    if not is_null(stated := fields(checkpoint.get("evaluation", ABSENT)).get("source_run_id", ABSENT)):
        attributes["agentcompass.checkpoint.source_run_id"] = words(stated)
    if events and base.unfinished:
        children = [t for s in [*out, *phases] if not s.reused and (t := s.end if s.end is not None else s.start) is not None]
        changes["end"] = max([base.end or 0, *children])
    elif not events:
        changes.update(_times_on_disk(base, whole, out))
        if final is not None and final.cut and whole is not None and whole.window.end is None:
            changes["unfinished"] = True
    if inherited is not None:
        attributes.update(inherited)
        if context.link is not None and (link := context.link(inherited, task, base.number)) is not None:
            changes["links"] = [*base.links, link]
    changes["attributes"], changes["source"] = attributes, source
    attempt = msgspec.structs.replace(base, **changes)
    if base.start is None and attempt.start is not None:
        out = [s if s.start is not None else msgspec.structs.replace(s, start=attempt.start) for s in out]
    return [*out, *phases, attempt]


def _work(
    one: Result,
    base: Attempt,
    phases: list[Phase],
    retry: int,
    context: Context,
    broken: bool,
    reused: bool,
    attributes: dict[str, Value],
    out: list[AnySpan],
    last: bool,
) -> trajectory.Found:
    phase = None if reused else _phase_of(phases, retry) or (_phase_of(phases, None) if last else None)
    if phase is not None:
        parent, window = phase.id, (phase.start, None if phase.unfinished else phase.end)
    else:
        parent, window = base.id, (base.start, None)
    place = Place(
        context.trace,
        base.id,
        parent,
        retry,
        window,
        context.model,
        broken,
        reused,
        attributes={k: v for k, v in attributes.items() if k != "agentcompass.reused.retry_count"},
    )
    found = trajectory.read(one, place, context.zone, context.report)
    out.extend(found.spans)
    return found


def _note_retry(events: list[Event], one: _Discarded, found: trajectory.Found) -> None:
    """What a discarded result says, on the event of its retry."""
    for i, e in enumerate(events):
        if e.name == "attempt_retry" and e.attributes.get("agentcompass.retry") == one.retry:
            more: dict[str, Value] = {"agentcompass.discarded.requests": len(found.work.requests)}
            if one.result.status is not None:
                more["agentcompass.discarded.status"] = one.result.status
            rest = {k: v for k, v in one.source.items() if f"agentcompass.{k}" not in e.attributes}
            events[i] = msgspec.structs.replace(e, attributes={**e.attributes, **more}, source={**e.source, **rest})
            return
    told: dict[str, Value] = {"agentcompass.retry": one.retry}
    for key, value in (("scope", one.scope), ("stage", one.stage), ("discarded.status", one.result.status)):
        if value is not None:
            told[f"agentcompass.{key}"] = value
    events.append(Event(name="attempt_retry", attributes=told, source=one.source))


def _fields(
    final: Result,
    base: Attempt,
    recovered: bool,
    inherited: dict[str, Value] | None,
    attributes: dict[str, Value],
    whole: trajectory.Found | None,
    context: Context,
    task: str,
) -> dict[str, Any]:
    """Fields of the attempt that its result gives."""
    changes: dict[str, Any] = {}
    source = {**final.source, **results.analysis_rest(final)}
    if whole is not None:
        changes["input"], changes["messages"] = whole.prompt, whole.messages
        changes["conversation_id"], changes["usage"] = whole.conversation, whole.usage
        attributes.update(whole.attributes)
        source.update((f"artifacts.{k}", v) for k, v in final.artifacts.items() if k not in results.CONSUMED and k not in whole.taken)
    if not is_null(final.final_answer):
        changes["output"] = final.final_answer
    changes["artifacts"] = results.manifest(final)
    if recovered:
        attributes["agentcompass.checkpoint.status"] = final.status
    else:
        changes["status"], changes["error"] = results.status(final)
        changes["ending"] = final.status or base.ending
        changes["scores"], changes["verdict"] = results.scores(final), results.verdict(final)
        if changes["status"] == "unset" and final.status is None:
            changes["status"], changes["error"] = base.status, base.error
        if base.status == "error" and changes["status"] != "error":
            # The page lets result.json win; what the event said stays to be seen.
            attributes["agentcompass.event_status"] = base.ending
    if final.retry_count is not None:
        attributes["agentcompass.retry_count"] = final.retry_count
    if inherited is not None and "reuse_history" in final.artifacts:
        changes["reused"] = True
    if final.telemetry:
        attributes.update(results.scalars(final.telemetry, "agentcompass.telemetry."))
        rest = {k: v for k, v in fields(final.telemetry).items() if f"agentcompass.telemetry.{k}" not in attributes}
        source.update((f"telemetry.{k}", v) for k, v in rest.items())
    if not is_null(final.plan) and bytes(final.plan) != b"{}":
        source["plan"] = final.plan
    if not is_null(final.ground_truth):
        source["ground_truth"] = final.ground_truth
    if final.category is not None:
        source["category"] = Raw(msgspec.json.encode(final.category))
    changes["source"] = source
    return changes


def _planned(phases: list[Phase], base: Attempt, plan: Raw) -> bool:
    """Whether the event of the plan says the same as run_info.json."""
    resolved = [e for s in [*phases, base] for e in s.events if e.name == "execution_plan_resolved"]
    mine = {k: plain(v) for k, v in fields(plan).items()} if resolved else None
    return any({k: plain(v) for k, v in e.source.items()} == mine for e in resolved)


def _times_on_disk(base: Attempt, whole: trajectory.Found | None, out: list[AnySpan]) -> dict[str, Any]:
    """An attempt that no event tells of: the window that its trajectory states, else that of its children."""
    if whole is None:
        return {}
    starts = [whole.window.start, *(s.start for s in out if s.clock != "synthetic")]
    ends = [whole.window.end, *(s.end if s.end is not None else s.start for s in out if s.clock != "synthetic")]
    start = min((t for t in starts if t is not None), default=None)
    end = max((t for t in ends if t is not None), default=None)
    return {"start": start, "end": end, "clock": "derived"} if start is not None else {}


def on_disk(trace: str, id: str, parent: str, task: str, number: int, agent: str | None) -> Attempt:
    """The span of an attempt that only the disk knows."""
    return Attempt(
        id=id,
        trace_id=trace,
        name=f"{task} attempt {number}",
        key=str(number),
        parent_id=parent,
        clock="synthetic",
        number=number,
        agent=agent,
    )


__all__ = ["Context", "on_disk", "spans"]
