"""Workflows: steps and blocks as phases, from events or from the ``step_results`` of a record.

A step that began and has no completion (a failure that was skipped, an early stop) is closed by the next of its siblings, or by the workflow, and what became
of it is in the results at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from .. import jsonio, model
from ..model import ABSENT
from .parts import OpenPhase
from .run import OpenRun
from .schema import Event, StepOutput, items, loosely
from .times import UNKNOWN, Window, window

if TYPE_CHECKING:
    from .events import Engine
    from .records import Node

STARTS: Final = {
    "StepStarted": "step",
    "ParallelExecutionStarted": "parallel",
    "ConditionExecutionStarted": "condition",
    "LoopExecutionStarted": "loop",
    "RouterExecutionStarted": "router",
    "StepsExecutionStarted": "steps",
}
ENDS: Final = {name.replace("Started", "Completed"): kind for name, kind in STARTS.items()}
_PAUSES: Final = frozenset({"StepPaused", "StepExecutorPaused", "RouterPaused", "ConditionPaused", "WorkflowPaused"})
_CONTINUES: Final = frozenset({"StepContinued", "StepExecutorContinued", "WorkflowContinued"})
_OWN: Final = frozenset(
    {
        *STARTS, *ENDS, *_PAUSES, *_CONTINUES, "WorkflowStarted", "WorkflowCompleted", "WorkflowCancelled", "WorkflowError", "WorkflowAgentStarted",
        "LoopIterationStarted", "LoopIterationCompleted", "StepOutput", "StepProgress", "StepError", "StepOutputReview",
    }
)  # fmt: skip


def kind(e: Event, base: str) -> model.RunType:
    """What kind of run an event is of."""
    if base in _OWN or (e.workflow_name and not (e.agent_id or e.agent_name or e.team_id) and base != "WorkflowAgentCompleted"):
        return "workflow"
    return "team" if e.team_id or e.team_name or e.event.startswith("Team") else "agent"


def event(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw], base: str) -> bool:
    """Handle an event of a workflow; False when it is none."""
    from . import records

    at = run.now
    if base in STARTS:
        _start(run, e, odd, base, at)
    elif base in ENDS:
        _end(run, e, odd, base, at)
    elif base == "LoopIterationStarted":
        p = run.phase_start(f"iteration:{e.step_id}:{e.iteration}", "iteration", at, label=f"iteration {e.iteration}")
        block = _open(run, e.step_id)
        p.parent, p.group, p.above = (block.id if block is not None else p.parent), e.step_id, block
        p.source = records.payload(e, odd)
        run.iterations[e.step_id or ""] = p
    elif base == "LoopIterationCompleted":
        _close_below(run, run.iterations.get(e.step_id or ""), at)
        run.iterations.pop(e.step_id or "", None)
        p2 = run.phase_end(f"iteration:{e.step_id}:{e.iteration}")
        if p2 is not None:
            p2.source.update(records.payload(e, odd))
            p2.output = p2.source.pop("iteration_results", ABSENT)
            p2.status = "ok"
            run.emit_phase(p2, at)
    elif base == "WorkflowStarted":
        run.stated = True
        run.start(at)
        if odd:
            run.attempt.source.update(odd)
    elif base in _PAUSES:
        run.ending, run.terminal = "paused", at
        run.here.append(records.as_event(e, odd))
        run.close_try(at, "paused", None)
        if base == "WorkflowPaused":
            records.terminal(run, e, odd)
            for raw in e.step_executor_runs or ():
                if (n := records.node(raw, run.run_id)) is not None:
                    records.embedded(engine, run, n)
    elif base in _CONTINUES:
        if not run.tries or run.attempt.ending is not None:
            run.resume(at)
        run.here.append(records.as_event(e, odd))
    elif base in ("StepOutput", "StepProgress", "StepError", "StepOutputReview"):
        _within(run, e, odd, base, at)
    elif base == "WorkflowCancelled":
        run.ending, run.terminal = "cancelled", at
        run.error = model.Error(type="cancelled", message=jsonio.text(e.reason) or jsonio.text(e.content))
        run.source.update({k: v for k, v in records.payload(e, odd).items() if k == "reason"})
    elif base == "WorkflowError":
        run.error = model.Error(type=e.error_type, message=jsonio.text(e.error) or jsonio.text(e.content))
        run.ending = "error"
        records.terminal(run, e, odd)
        close_steps(run, e.step_results, at)
        engine.end(run, "error", at)
    elif base == "WorkflowCompleted":
        run.metrics = e.metrics or run.metrics
        if not run.output and not jsonio.is_null(e.content):
            run.output = e.content
        records.terminal(run, e, odd)
        run.ending = run.ending if run.ending in ("cancelled", "error") else "completed"
        close_steps(run, e.step_results or e.step_responses or (run.node.rec.step_results if run.node else None), at)
        for raw in e.step_executor_runs or ():
            if (n := records.node(raw, run.run_id)) is not None:
                records.embedded(engine, run, n)
        engine.flush_thin(run.trace)
        engine.end(run, run.ending if run.ending in ("cancelled", "error") else records.stated(run) or "completed", at)
    elif base == "WorkflowAgentCompleted":
        run.output = e.content if not run.output else run.output
        engine.end(run, run.ending or "completed", at)
    else:
        return False
    return True


def _open(run: OpenRun, step: str | None) -> OpenPhase | None:
    return next((p for p in reversed(run.phases.get("step", [])) if p.step == step), None) if step else None


def _begin(run: OpenRun, step: str | None, name: str | None, type: str, parent_step: str | None, at: Window) -> OpenPhase:
    """A step or block begins, under its block (or the loop's current iteration)."""
    t = run.attempt
    key = step or name or type
    n = run.step_counts.get(key, 0)
    run.step_counts[key] = n + 1
    path = ("step", key, str(n)) if not run.again else ("attempt", str(t.number), "step", key, str(n))
    above = run.iterations.get(parent_step or "") or _open(run, parent_step)
    p = OpenPhase(
        id=run.trace.span(run.run_id, *path),
        key="/".join(path),
        name=name or type,
        type=type,
        parent=above.id if above is not None else t.id,
        started=at,
        after=run.soft,
        after_off=run.soft_off,
        step=step,
        group=parent_step,
        above=above,
    )
    run.phases.setdefault("step", []).append(p)
    run.step_ids.setdefault(step or "", []).append(p)
    if step:
        run.trace.steps[step] = p.id
    return p


def _start(run: OpenRun, e: Event, odd: dict[str, Raw], base: str, at: Window) -> None:
    from . import records

    above = _open(run, e.parent_step_id)
    if above is None or above.type != "parallel":
        for p in [p for p in run.phases.get("step", []) if p.group == e.parent_step_id]:
            _leave(run, p, at)
    p = _begin(run, e.step_id, e.step_name, STARTS[base], e.parent_step_id, at)
    p.source = records.payload(e, odd)
    if e.step_index:
        p.source["step_index"] = e.step_index
        shown = jsonio.value(e.step_index)
        if isinstance(shown, int | list):
            p.attributes["agno.step.index"] = shown


def _leave(run: OpenRun, p: OpenPhase, at: Window) -> None:
    """A step without a completion is over; how it ended, the results will say."""
    run.phases["step"].remove(p)
    if p.step:
        run.trace.steps.pop(p.step, None)
    run.left.append((p, at))


def _close_below(run: OpenRun, above: OpenPhase | None, at: Window) -> None:
    if above is not None:
        for p in [p for p in run.phases.get("step", []) if p.parent == above.id]:
            _leave(run, p, at)


def _end(run: OpenRun, e: Event, odd: dict[str, Raw], base: str, at: Window) -> None:
    """The event may lack the step's id (inside a block): its result has it, else its name and its block (`agno.md` §10.4)."""
    from . import records

    said = _output(e.step_response)
    p = _open(run, e.step_id) or _open(run, said.step_id if said is not None else None)
    if p is None:
        p = next((x for x in run.phases.get("step", []) if x.name == e.step_name and x.group == e.parent_step_id), None)
    if p is None:
        run.here.append(records.as_event(e, odd))
        return
    _close_below(run, p, at)
    run.phases["step"].remove(p)
    if p.step:
        run.trace.steps.pop(p.step, None)
    p.source.update(records.payload(e, odd))
    p.source.pop("content", None)
    p.output = (
        e.content
        if not jsonio.is_null(e.content)
        else next((p.source.pop(k) for k in ("step_results", "all_results") if k in p.source), ABSENT)
    )
    p.status = "ok"
    if said is not None:
        _judge(p, said)
    run.emit_phase(p, at)


def _output(raw: Raw) -> StepOutput | None:
    try:
        return loosely(StepOutput, raw)[0] if raw and not jsonio.is_null(raw) else None
    except msgspec.DecodeError:
        return None


def _judge(p: OpenPhase, said: StepOutput) -> None:
    if said.success is False or not jsonio.is_null(said.error):
        p.error = model.Error(type="step", message=jsonio.text(said.error))
    elif said.is_paused:
        p.status = "unset"
    else:
        p.status = "ok"


def _within(run: OpenRun, e: Event, odd: dict[str, Raw], base: str, at: Window) -> None:
    """An event inside a step."""
    from . import records

    said = _output(e.step_output)
    p = _open(run, e.step_id) or _open(run, said.step_id if said is not None else None)
    if p is None:
        open_ = run.phases.get("step", [])
        p = next((x for x in reversed(open_) if x.source.get("step_index") == e.step_index), open_[-1] if open_ else None)
    if p is None:
        run.here.append(records.as_event(e, odd))
        return
    p.events.append(records.as_event(e, odd))
    if base == "StepError":
        p.error = model.Error(type="step", message=jsonio.text(e.error))
    if said is not None:
        p.output = said.content if not jsonio.is_null(said.content) else p.output
        _judge(p, said)


def flat(results: list[Raw] | None) -> list[StepOutput]:
    """All step outputs, nested ones too."""
    found: list[StepOutput] = []
    stack = [s for s, _ in items(StepOutput, results)]
    while stack and len(found) < 100_000:
        one = stack.pop(0)
        found.append(one)
        stack = [s for s, _ in items(StepOutput, one.steps)] + stack
    return found


def close_steps(run: OpenRun, results: list[Raw] | None, at: Window) -> None:
    """At the end of a workflow: what is still open is over, and steps without a completion are judged by the results, by id, then by name."""
    over = run.ending in ("completed", "cancelled", "error", "regenerated")
    still = {p.id for p in run.phases.get("step", [])} if not over else set()
    for p in list(run.phases.get("step", [])):
        _leave(run, p, at)
    if not run.left:
        return
    said = flat(results)
    for p, end in run.left:
        found = next((s for s in said if s.step_id and s.step_id == p.step), None) or next(
            (s for s in said if s.step_name and s.step_name == p.name), None
        )
        if found is not None:
            _judge(p, found)
            if not p.output and not jsonio.is_null(found.content):
                p.output = found.content
        elif p.status == "unset" and p.error is None:
            failed = next(
                (s for s in said if s.success is False and not s.step_name and f"'{p.name}'" in (jsonio.text(s.error) or "")), None
            )
            if failed is not None:
                _judge(p, failed)
        run.emit_phase(p, end, finished=p.id not in still or found is not None)
    run.left = []


def step_of(run: OpenRun, step: str | None) -> OpenPhase | None:
    """The next execution of a step that has no run yet: where an executor belongs of which only the record is known."""
    if not step:
        return None
    for p in run.step_ids.get(step, []):
        if not p.children and not p.claimed:
            p.claimed = True
            return p
    held = run.step_ids.get(step, [])
    return held[-1] if held else None


def drive(engine: Engine, run: OpenRun, n: Node) -> Iterator[None]:
    """A workflow of which there is only the record: its results as phases, each with the runs that executed it."""
    assert run.plan is not None
    left = {c.run_id: c for c in run.plan.members}
    run.plan.members = []
    yield from _results(engine, run, n.rec.step_results or n.rec.step_responses or [], None, left)
    for child in left.values():
        yield from engine.node(child, run, None, step_of(run, child.rec.workflow_step_id))


def _results(engine: Engine, run: OpenRun, results: list[Raw], block: OpenPhase | None, left: dict[str, Node]) -> Iterator[None]:
    loop = block is not None and block.type == "loop"
    seen: set[str] = set()
    number = 0
    iteration: OpenPhase | None = None
    for raw, (s, _) in zip(results, items(StepOutput, results), strict=False):
        key = s.step_id or s.step_name or ""
        if loop and block is not None and (iteration is None or key in seen):
            if iteration is not None:
                run.phase_end(f"iteration:{block.step}:{number}")
                run.emit_phase(iteration, UNKNOWN)
            number += 1
            seen = set()
            iteration = run.phase_start(f"iteration:{block.step}:{number}", "iteration", UNKNOWN, label=f"iteration {number}")
            iteration.parent, iteration.status, iteration.above = block.id, "ok", block
            run.iterations[block.step or ""] = iteration
        seen.add(key)
        p = _begin(run, s.step_id, s.step_name, (s.step_type or "step").lower(), block.step if block is not None else None, UNKNOWN)
        if block is not None:
            p.above = iteration or block
            p.parent = p.above.id
        said = jsonio.fields(raw)
        p.source = {k: v for k, v in said.items() if k not in ("content", "steps") and not jsonio.is_null(v)}
        p.output = s.content if not jsonio.is_null(s.content) else ABSENT
        _judge(p, s)
        p.started = Window(run.soft, None) if run.soft is not None else run.begun
        executor = left.pop(s.step_run_id, None) if s.step_run_id else None
        if executor is None and s.step_id is not None and not s.steps:
            executor = next((c for c in left.values() if c.rec.workflow_step_id == s.step_id), None)
            if executor is not None:
                left.pop(executor.run_id)
        if executor is not None:
            yield from engine.node(executor, run, None, p)
        nested = list(s.steps or [])
        if not nested and s.parallel_step_outputs:
            nested = list(s.parallel_step_outputs.values())
        yield from _results(engine, run, nested, p, left)
        run.phases["step"].remove(p)
        if p.step:
            run.trace.steps.pop(p.step, None)
        run.emit_phase(p, UNKNOWN)
    if iteration is not None and block is not None:
        run.phase_end(f"iteration:{block.step}:{number}")
        run.iterations.pop(block.step or "", None)
        run.emit_phase(iteration, UNKNOWN)


__all__ = ["ENDS", "STARTS", "close_steps", "drive", "event", "flat", "kind", "step_of", "window"]
