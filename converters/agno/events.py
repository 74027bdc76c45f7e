"""Events, in the order in which they came, to spans: a state machine without input or output.

`Engine.event` takes one decoded event, `Engine.record` one record (with its members and executors inside), `Engine.close` says that there is no more. What
is complete by then lies in `Engine.out`. Memory holds what is open: runs, turns, calls, phases; of runs that ended only their ids, while their
trace is open.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import Raw

from .. import ids, jsonio, model
from ..errors import Report
from ..model import ABSENT, AnySpan, Item, TraceHeader
from ..registry import ReadOptions
from . import ending, records, workflow
from .handlers import FREQUENT, HANDLERS, HIDDEN, KNOWN, TERMINAL
from .parts import FAMILY, Call, OpenPhase, Trace
from .run import OpenRun
from .schema import Event, Place
from .times import Window, window


def _base(name: str) -> str:
    """An event's name without ``Team``, and as the later versions have it."""
    bare = name.removeprefix("Team")
    if bare in HANDLERS:
        return bare
    return _ALIASES.get(bare, _ALIASES.get(name, name))


_ALIASES: Final = {
    "RunResponse": "RunContent",
    "RunResponseContent": "RunContent",
    "RunIntermediateResponseContent": "RunIntermediateContent",
    "UpdatingMemory": "MemoryUpdated",
}
"""Names of 1.x as the later ones."""

PHASES: Final = {
    "PreHook": ("hook", None),
    "PostHook": ("hook", None),
    "Reasoning": ("reasoning", None),
    "ParserModelResponse": ("model", None),
    "OutputModelResponse": ("model", None),
    "MemoryUpdate": ("memory", "update_memory"),
    "SessionSummary": ("summary", None),
    "Compression": ("compression", None),
    "Compaction": ("compaction", None),
    "Followups": ("followups", None),
    "TaskIteration": ("iteration", None),
}
"""Pairs of events that make a phase: the name before Started and Completed → type, GenAI operation."""
_FORGET: Final = 4096
_HELD: Final = 256


@dataclass
class Home:
    """Where a run belongs: the run, the call, the step above it. ``only``: no other run was started by that call."""

    above: OpenRun | None
    call: Call | None
    phase: OpenPhase | None
    only: bool = True


class Engine:
    """See the module. ``live``: give spans before the clock of their run is known."""

    def __init__(self, report: Report, options: ReadOptions | None = None, *, format: str = "agno-events", live: bool = False) -> None:
        self.report, self.options, self.format, self.live = report, options or ReadOptions(), format, live
        self.out: list[Item] = []
        self.runs: dict[str, OpenRun] = {}
        self.traces: OrderedDict[str, Trace] = OrderedDict()
        self.ended: OrderedDict[str, tuple[str, int]] = OrderedDict()  # run id → its root, its attempts
        self.held: OrderedDict[str, tuple[OpenRun, int | None, int | None]] = OrderedDict()
        self.waiting: dict[str, Call] = {}
        self.placing: dict[str, Home] = {}
        self.roots: set[str] = set()
        self.orphans: OrderedDict[str, list[tuple[OpenRun, int | None, int | None]]] = OrderedDict()
        self.thin: dict[str, list[tuple[Event, dict[str, Raw]]]] = {}
        self.closing: set[str] = set()  # runs that ended and wait for the call that started them
        self.drivers: dict[str, str] = {}  # workflow id → run of it that an agent drives
        self.foreseen: tuple[Counter[str], dict[str, Counter[str]]] = (Counter(), {})
        self.parents: dict[str, str] = {}  # run id → parent run id, from records
        self.plans: dict[str, records.Node] = {}
        self.driver: tuple[Event, dict[str, Raw]] | None = None
        self.last: OpenRun | None = None
        self.sources: dict[str, dict[str, Raw]] = {}
        self.filtering = any((self.options.run, self.options.session, self.options.since is not None, self.options.until is not None))

    # ------------------------------------------------------------------------------------------------- output
    def put(self, trace: Trace, span: AnySpan) -> None:
        """A span of ``trace`` is complete; the header goes first. What the user did not choose is left out."""
        if trace.flows:
            self.out.append(span)
            return
        if trace.wanted is None:
            self._choose(trace, span)
        if trace.wanted is False:
            return
        if trace.wanted is None:
            trace.held.append(span)
            return
        if not trace.headed:
            trace.headed = True
            self.out.append(
                TraceHeader(
                    id=trace.id,
                    family=FAMILY,
                    format=self.format,
                    run_key=[trace.root],
                    name=trace.name,
                    source=self.sources.get(trace.root, {}),
                )
            )
        if trace.held:
            self.out.extend(trace.held)
            trace.held = []
        trace.flows = True
        self.out.append(span)

    def _choose(self, trace: Trace, span: AnySpan) -> None:
        o = self.options
        if not self.filtering:
            trace.wanted = True
            return
        if (o.session is not None and trace.session is not None and trace.session != o.session) or (
            trace.started is not None
            and ((o.since is not None and trace.started < o.since) or (o.until is not None and trace.started >= o.until))
        ):
            trace.wanted = False
        elif o.run is None or o.run in trace.seen or o.run == trace.root:
            trace.wanted = True

    def trace(self, root: str) -> Trace:
        if root not in self.traces:
            self.traces[root] = Trace(ids.trace_id(FAMILY, root), root, self.put)
        return self.traces[root]

    # ------------------------------------------------------------------------------------------------- opening
    def open(
        self, run_id: str, kind: model.RunType, *, parent_run: str | None = None, workflow_run: str | None = None, step: str | None = None
    ) -> OpenRun:
        """A run that begins: its trace and its parent from what its first event (or record) says, or from where it was placed."""
        place = self.placing.pop(run_id, None)
        above = parent_run or workflow_run
        root = run_id
        if place is not None and place.above is not None:
            root = place.above.trace.root
        elif above is not None:
            root = self._root(above)
        elif run_id in self.ended:
            root = self.ended[run_id][0]
        if (open_ := self.runs.get(run_id)) is not None:  # a record of a run whose events go on: they end here
            self.end(open_, open_.ending, open_.now)
        trace = self.trace(root)
        run = OpenRun(trace, run_id, kind, None, self.live)
        if run_id in self.ended and self.ended[run_id][0] == root:
            run.first_number, run.again = self.ended[run_id][1] + 1, True
            self.report.note("reopened", f"run {run_id} goes on after its end was read", "info")
        trace.seen.add(run_id)
        trace.open += 1
        self.runs[run_id] = run
        run.parent_run = self.runs.get(above) if above else None
        if run.parent_run is not None and run.parent_run.trace is not trace:
            run.parent_run = None  # it names a run of another trace, and was found in a record of this one
        phase = place.phase if place is not None else None
        if phase is None and step is not None and (held := trace.steps.get(step)) is not None:
            run.parent, phase = held, self._phase(trace, held)
        if place is not None and place.call is not None:
            call = place.call
            run.parent, run.parent_call, run.after = call.id, call, call.after
            run.parent_run = run.parent_run or place.above
            if call.done.exact:
                run.outer = (call.after, call.done.lo if place.only else None)
        elif phase is not None:
            run.parent, run.parent_phase, run.after = phase.id, phase, phase.after
            if phase.started.lo is not None:
                run.after = max(run.after or 0, phase.started.lo)
        elif run.parent is not None:
            pass
        elif run.parent_run is not None or (place is not None and place.above is not None):
            over = run.parent_run or (place.above if place is not None else None)
            assert over is not None
            run.parent, run.after = over.attempt.id, over.soft
        elif above is not None and above in self.ended:
            run.parent = trace.span(above)
        elif above is not None:
            run.unknown_parent = above
        for orphan, start, end in self.orphans.pop(run_id, ()):
            ending.emit_run(orphan, start, end, run.id)
        return run

    def place(self, run_id: str, above: OpenRun | None, call: Call | None, phase: OpenPhase | None, only: bool = True) -> None:
        """Where a run that will be opened belongs."""
        self.placing[run_id] = Home(above, call, phase, only)

    def _owner(self, call: Call) -> OpenRun | None:
        return next((r for r in self.runs.values() if call in r.calls), None)

    def _phase(self, trace: Trace, phase_id: str) -> OpenPhase | None:
        for run in self.runs.values():
            if run.trace is trace:
                for group in run.phases.values():
                    for p in group:
                        if p.id == phase_id:
                            return p
        return None

    def _root(self, run_id: str) -> str:
        """The root of the tree that ``run_id`` stands in, as far as it is known."""
        if run_id in self.runs:
            return self.runs[run_id].trace.root
        if run_id in self.ended:
            return self.ended[run_id][0]
        known: set[str] = set()
        while run_id in self.parents and run_id not in known:
            known.add(run_id)
            run_id = self.parents[run_id]
            if run_id in self.runs:
                return self.runs[run_id].trace.root
        return run_id

    def member(self, run: OpenRun, agent: str | None) -> None:
        """Put a member under the call of its team that handed it the work: the open one, by member id where there are several."""
        team = run.parent_run
        if team is None:
            return
        open_ = [c for c in team.calls if c.begun and not c.over]
        chosen = [c for c in open_ if c.delegates] or open_
        if len(chosen) > 1 and agent is not None:
            chosen = [c for c in chosen if jsonio.text(c.arguments.get("member_id", ABSENT)) == agent] or chosen
        if chosen:
            call = next((c for c in chosen if not c.open_children), chosen[0])
            run.parent, run.parent_call = call.id, call
            call.open_children += 1
            run.after = call.after

    # ------------------------------------------------------------------------------------------------- events
    def event(self, e: Event, odd: dict[str, Raw], again: bool = False) -> None:
        """One event, in the order of the stream."""
        base = e.event
        handler = HANDLERS.get(base)
        if handler is None:
            base = _base(base)
            handler = HANDLERS.get(base)
        run_id = e.run_id
        run = self.runs.get(run_id) if run_id is not None and run_id not in self.waiting else None
        if run is None:
            run = self._run_of(e, odd, base, again)
            if run is None:
                return
        if odd and base != "CustomEvent":
            self.report.note("unknown-field", f"{e.event}: {', '.join(sorted(odd)[:5])}", "info", count=len(odd))
        self.last = run
        at = window(e.created_at)
        if at is not run.now:  # the events of a second share their window
            run.tick(at)
        if run.calls and base != "ToolCallError":
            run.settle()
        if handler is not None:
            handler(self, run, e, odd)
        elif not workflow.event(self, run, e, odd, base) and not self._phase_event(run, e, odd, base):
            self.other(run, e, odd)

    def frequent(self, e: Place) -> bool:
        """The same for one of the events that most of a stream consists of, in its short form. False when there is more to it (its run is not open, a delta
        belongs to no request): then it is to be given to `event`."""
        run = self.runs.get(e.run_id)
        if run is None or (self.waiting and e.run_id in self.waiting):
            return False
        self.last = run
        if e.created_at != run.second:
            run.second = e.created_at
            run.tick(window(e.created_at))
        if run.calls:
            run.settle()
        return FREQUENT[e.__class__](self, run, e) is not False

    def _run_of(self, e: Event, odd: dict[str, Raw], base: str, again: bool) -> OpenRun | None:
        """The run of an event that names none, or none that is open: another one, a new one. None: the event waits, or belongs nowhere."""
        run_id = e.run_id
        if run_id is None:
            if base == "WorkflowAgentStarted":
                self.driver = (e, odd)
                return None
            if self.last is None or self.last.run_id not in self.runs:
                self.report.note("no-run-id", f"{e.event} names no run and follows none", "lost")
                return None
            run_id = self.last.run_id
        if run_id in self.waiting:
            self.waiting[run_id].waiting.append((run_id, base in TERMINAL, e, odd))
            return None
        run = self.runs.get(run_id)
        if run is None and run_id in self.held:
            run = self._reopen(run_id)
        if (
            run is None
            and not again
            and (run_id in self.thin or ((e.workflow_run_id or e.parent_run_id) and run_id not in self.plans and run_id not in self.ended))
        ):
            # a run inside another whose events are hidden: the record in the outer run's end may tell the rest
            if base in HIDDEN:
                self.thin.setdefault(run_id, []).append((e, odd))
                return None
            for held in self.thin.pop(run_id, ()):
                self.event(*held, True)
            run = self.runs.get(run_id)
        if run is None:
            if base == "RunStarted" and (call := self._enclosing(e)) is not None:
                self.waiting[run_id] = call
                call.waiting.append((run_id, False, e, odd))
                return None
            run = self._begin(e, base, run_id)
        return run

    def _enclosing(self, e: Event) -> Call | None:
        """A run that starts without a parent while exactly one call of another run is open may be that tool's own (`agno.md` §22.6)."""
        known = self.roots, self.placing, self.ended, self.parents
        if e.parent_run_id or e.workflow_run_id or e.workflow_id or any(e.run_id in x for x in known):
            return None
        open_ = [c for r in self.runs.values() for c in r.calls if c.begun and not c.over and not c.open_children]
        return open_[0] if len(open_) == 1 else None

    def _begin(self, e: Event, base: str, run_id: str) -> OpenRun:
        kind = workflow.kind(e, base)
        node = self.plans.get(run_id)
        parent = e.parent_run_id or self.parents.get(run_id)
        if base == "WorkflowAgentCompleted":
            parent = parent or self.drivers.pop(e.workflow_id or "", None)
        if kind == "workflow":
            outer = None
            if e.parent_step_id is not None:
                outer = next((t for t in self.traces.values() if e.parent_step_id in t.steps), None)
            if outer is not None and parent is None:
                parent = outer.root
            run = self.open(run_id, kind, parent_run=parent, step=e.parent_step_id)
        else:
            team = self.runs.get(parent) if parent else None
            step = e.step_id if e.workflow_run_id and (team is None or team.kind == "workflow") else None
            run = self.open(
                run_id,
                kind,
                parent_run=parent if team is not None or not e.workflow_run_id else None,
                workflow_run=e.workflow_run_id,
                step=step,
            )
            if run.parent_run is not None and run.parent_run.kind != "workflow":
                self.member(run, e.agent_id or e.team_id)
        run.name = e.workflow_name or e.team_name or e.agent_name or "" if kind == "workflow" else e.team_name or e.agent_name or ""
        run.agent_id = (e.workflow_id if kind == "workflow" else None) or e.team_id or e.agent_id or None
        run.session, run.user = e.session_id or None, e.user_id
        trace = run.trace
        trace.session = trace.session or run.session
        trace.name = trace.name or run.name or None
        if trace.started is None:
            trace.started = window(e.created_at).lo
        if node is not None and not node.used:
            records.attach(run, node, self.options.media)
            assert run.plan is not None
            run.plan.starts = self.foreseen[0][run_id]
            run.plan.by_events = self.foreseen[1].get(run_id, Counter())
        if kind == "workflow" and self.driver is not None and self.driver[0].workflow_id == e.workflow_id:
            first, more = self.driver
            run.events.append(records.as_event(first, more))
            self.drivers[e.workflow_id or ""] = run_id
            run.tick(window(first.created_at))
            self.driver = None
        return run

    def _reopen(self, run_id: str) -> OpenRun:
        run, _, _ = self.held.pop(run_id)
        self.runs[run_id] = run
        run.trace.open += 1
        self.traces[run.trace.root] = run.trace
        return run

    def other(self, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
        """An event without a span of its own stays an event of the span in which it came: a call's, when it names one."""
        if e.event.removeprefix("Team") not in KNOWN:
            self.report.note("unknown-event", f"{e.event} is kept as an event of its span", "info")
        found = records.as_event(e, odd)
        call = run.open_call(e.tool_call_id) if e.tool_call_id else next((c for c in run.calls if c.begun and not c.over), None)
        if call is not None:
            call.custom += 1
            call.events.append(found)
        else:
            run.here.append(found)

    def _phase_event(self, run: OpenRun, e: Event, odd: dict[str, Raw], base: str) -> bool:
        stem, started = (base[:-7], True) if base.endswith("Started") else (base[:-9], False) if base.endswith("Completed") else ("", False)
        if stem not in PHASES:
            return False
        kind, operation = PHASES[stem]
        at = run.now
        payload = records.payload(e, odd)
        if started:
            if (
                stem == "PreHook"
                and run.tries
                and run.attempt.begun
                and run.attempt.ending is None
                and run.request is not None
                and not run.request.over
            ):
                run.start(at)  # hooks come before the RunStarted of their attempt
                run.attempt.begun = False
            label = e.pre_hook_name or e.post_hook_name
            p = run.phase_start(stem, kind, at, operation, label)
            p.input = payload.pop("run_input", ABSENT)
            p.source = payload
            return True
        label = e.pre_hook_name or e.post_hook_name
        p2 = run.phase_end(stem, label)
        if p2 is None:
            run.here.append(records.as_event(e, odd))
            return True
        p2.output = next(
            (v for k in ("content", "memories", "session_summary", "followups") if not jsonio.is_null(v := payload.get(k, ABSENT))), ABSENT
        )
        for k in ("content", "memories", "session_summary", "followups"):
            payload.pop(k, None)
        p2.source = {**p2.source, **payload}
        p2.status = "ok"
        run.emit_phase(p2, at)
        return True

    # ------------------------------------------------------------------------------------------- ends of runs
    def finish(self, run: OpenRun, how: str | None, at: Window, hold: bool = False) -> None:
        """A run's terminal event. One that a call started waits for the end of that call, which has an exact clock."""
        call = run.parent_call
        if call is not None and not self.live and not call.over:
            run.ending = how or run.ending
            call.ending.append((run, how, at, hold))
            self.closing.add(run.run_id)
            return
        self.end(run, how, at, hold)

    def completed(self, call: Call, end: int | None) -> None:
        """A call is complete: what it started ended with it, where it started one run only."""
        waiting, call.ending = call.ending, []
        for run, how, at, hold in waiting:
            self.closing.discard(run.run_id)
            run.ceiling = end
            if len(waiting) + len(call.children) == 1 and end is not None:
                run.outer = (call.after, end)
            if run.run_id in self.runs:
                self.end(run, how, at, hold)

    def end(self, run: OpenRun, how: str | None, at: Window, hold: bool = False) -> None:
        """A run is over (or broken off): its last spans. ``hold``: its own span waits, since it may go on (after an error)."""
        run.ending = how or run.ending
        if run.kind == "workflow" and (run.left or run.phases.get("step")):
            workflow.close_steps(run, run.node.rec.step_results if run.node is not None else None, run.now)
        if run.plan is not None and run.plan.members and run.claim is None:
            self._members(run)
        start, end = ending.finish(run, how, at)
        if run.plan is not None and run.plan.members:
            self._members(run)
        self.runs.pop(run.run_id, None)
        run.trace.open -= 1
        self.ended[run.run_id] = (run.trace.root, run.tries[-1].number)
        if len(self.ended) > _FORGET:
            self.ended.popitem(last=False)
        w = Window(start, end)
        if run.parent_call is not None:
            run.parent_call.children.append(w)
            run.parent_call.open_children = max(0, run.parent_call.open_children - 1)
        if run.parent_phase is not None:
            run.parent_phase.children.append(w)
            if (owner := self._above(run)) is not None and end is not None:
                block = run.parent_phase.above
                if block is None or block.type != "parallel":
                    owner.soft, owner.soft_off = end, run.uncertainty
        above = run.parent_run or (self._above(run) if run.parent is not None else None)
        if above is not None and above.tries and run.parent == above.tries[-1].id:
            above.reach(above.tries[-1], start, end)
        if above is not None:
            above.low = min((x for x in (above.low, start) if x is not None), default=None)
            above.high = max((x for x in (above.high, end) if x is not None), default=None)
        if run.again:
            return
        if run.parent is None and run.unknown_parent is not None and (run.unknown_parent in run.trace.seen):
            run.parent = run.trace.span(run.unknown_parent)
        if run.parent is None and run.unknown_parent is not None:
            self.orphans.setdefault(run.unknown_parent, []).append((run, start, end))
            while len(self.orphans) > _HELD:
                self._orphans(next(iter(self.orphans)))
        elif hold:
            self.held[run.run_id] = (run, start, end)
            while len(self.held) > _HELD:
                _, (old, a, b) = self.held.popitem(last=False)
                ending.emit_run(old, a, b, old.parent)
        else:
            ending.emit_run(run, start, end, run.parent)
        if run.trace.open == 0 and run.run_id == run.trace.root:
            self.traces.pop(run.trace.root, None)

    def _above(self, run: OpenRun) -> OpenRun | None:
        return self.runs.get(run.trace.root)

    def _orphans(self, parent: str) -> None:
        for run, start, end in self.orphans.pop(parent, ()):
            ending.emit_run(run, start, end, None)

    def _members(self, run: OpenRun) -> None:
        """Members and executors that only the record knows, each under the call or the step that started it."""
        assert run.plan is not None
        nodes, run.plan.members = run.plan.members, []
        for node in nodes:
            if node.used:
                continue
            step = workflow.step_of(run, node.rec.workflow_step_id) if run.kind == "workflow" else None
            call = records.delegation(run, node) if run.kind != "workflow" else None
            records.whole(self.node(node, run, call, step))

    def node(self, node: records.Node, above: OpenRun | None, call: Call | None, phase: OpenPhase | None) -> Iterator[None]:
        """A run of which there is only the record."""
        return records.drive(self, node, above, call, phase)

    def record(self, node: records.Node) -> Iterator[None]:
        """A record with all that is inside it, joined with the events it holds. After each step what is complete is in `out`."""
        return records.read(self, node)

    def flush_thin(self, trace: Trace | None, parent: str | None = None) -> None:
        """Runs of which there was a completion only, and no record: told from that."""
        for run_id, held in list(self.thin.items()):
            e = held[0][0]
            above = e.parent_run_id or e.workflow_run_id or ""
            if run_id in self.thin and (trace is None or (e.parent_run_id == parent if parent else self._root(above) == trace.root)):
                del self.thin[run_id]
                for one in held:
                    self.event(*one, True)

    def close(self) -> None:
        """No more input: what is open is unfinished, innermost first."""
        for call in [c for r in list(self.runs.values()) for c in r.calls if c.waiting]:
            self.release(call)
        for call in [c for r in list(self.runs.values()) for c in r.calls if c.ending]:
            self.completed(call, None)
        self.flush_thin(None)
        for run in reversed(list(self.runs.values())):
            if run.run_id in self.runs:
                self.end(run, run.ending, run.terminal if run.terminal.lo is not None else run.now)
        for run_id, (run, start, end) in list(self.held.items()):
            ending.emit_run(run, start, end, run.parent)
            del self.held[run_id]
        for parent in list(self.orphans):
            self._orphans(parent)

    def release(self, call: Call) -> None:
        """The call that enclosed waiting runs is complete: those that ended within it are its own, the others are roots."""
        held, call.waiting = call.waiting, []
        done = {run_id for run_id, terminal, _, _ in held if terminal}
        named = list(dict.fromkeys(run_id for run_id, _, _, _ in held))
        owner = self._owner(call)
        for run_id in named:
            self.waiting.pop(run_id, None)
            if run_id in done:
                self.place(run_id, owner, call, None)
                call.open_children += 1
            else:
                self.roots.add(run_id)
        for _, _, e, odd in held:
            self.event(e, odd)
        for run_id in named:
            self.roots.discard(run_id)
            self.placing.pop(run_id, None)
            if run_id in self.runs and run_id in done and run_id not in self.closing:
                run = self.runs[run_id]
                self.end(run, run.ending, run.terminal)


__all__ = ["PHASES", "Engine"]
