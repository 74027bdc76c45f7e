"""Records (``RunOutput`` and kin) to spans: alone, or joined with the events that they hold.

A record is turned into a tree of nodes (the run, and the members, executors and driver inside it). `read` feeds a node's own events to the engine, which
looks up here what the record adds to each run; runs without events are told to the same `OpenRun` by `drive`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from .. import jsonio, model
from ..model import ABSENT
from . import messages, workflow
from .parts import Call, OpenPhase, Plan, Tools
from .run import OpenRun, executed
from .schema import BASE, Event, Record, Requirement, Tool, array, each, items, loosely
from .times import SLACK, UNKNOWN, Window, point, window

if TYPE_CHECKING:
    from .events import Engine

_FIELDS: Final = Event.__struct_fields__
_UNSET: Final = astuple(Event())


def _stretch(first: str, end: str = "") -> Stretch:
    """The fields from ``first`` up to ``end``: from, to, their names, and what they are where the event says nothing."""
    a, b = _FIELDS.index(first), _FIELDS.index(end) if end else len(_FIELDS)
    return a, b, _FIELDS[a:b], _UNSET[a:b]


Stretch = tuple[int, int, tuple[str, ...], tuple[Any, ...]]
PAYLOAD: Final = tuple(
    _stretch(*x) for x in pairwise((_FIELDS[len(BASE)], "input_tokens", "tool", "metrics", "pre_hook_name", "step_response", ""))
)
"""All that an event may say beside `BASE`, by subject: most events say nothing of most subjects."""
BESIDE_MODEL: Final = (_stretch(_FIELDS[len(BASE)], "model"), _stretch("input_tokens"))
"""What the start of a run says beside its model."""
BESIDE_TEXT: Final = (_stretch("model"),)
"""What a delta says beside its text."""
BESIDE_TOOL: Final = (_stretch("content_type", "tool"), _stretch("error"))
"""What an event of a call says beside the call and its text."""
RUN_TYPED: Final = frozenset(
    {
        "run_id", "agent_id", "agent_name", "team_id", "team_name", "session_id", "user_id", "content", "model", "messages", "tools",
        "events", "member_responses", "step_executor_runs", "workflow_agent_run", "status", "input", "step_results", "step_responses",
    }
)  # fmt: skip
"""Fields of a record that have a typed home in the run's span or are spans themselves."""
_TASKS: Final = ("TeamTaskCreated", "TeamTaskUpdated", "TeamTaskStateUpdated")


def payload(e: Event, odd: dict[str, Raw], stretches: tuple[Stretch, ...] = PAYLOAD) -> dict[str, Raw]:
    """What an event says beside who, where and when: its set fields, and the unknown ones."""
    values = astuple(e)
    found: dict[str, Raw] = {}
    for first, end, names, unset in stretches:
        said = values[first:end]
        if said != unset:
            for name, value, none in zip(names, said, unset, strict=True):
                if value is not none:
                    found[name] = value if value.__class__ is Raw else model.raw(value)
    found.update(odd)
    return found


def as_event(e: Event, odd: dict[str, Raw]) -> model.Event:
    """An event without a span of its own, as an event of the span in which it came."""
    said = payload(e, odd)
    shown: dict[str, model.Value] = {}
    for name, raw in said.items():
        if len(bytes(raw)) <= 256 and isinstance(value := jsonio.value(raw), str | int | bool):
            shown[f"agno.{name}"] = value
    return model.Event(name=e.event, time=window(e.created_at).lo, attributes=shown, source=said)


@dataclass
class Node:
    """A record and those inside it."""

    rec: Record
    odd: dict[str, Raw]
    raw: Raw
    run_id: str
    children: list[Node] = field(default_factory=list)
    used: bool = False
    cut: bool = False  # the file breaks off in it
    ended: Window = UNKNOWN
    hidden: str | None = None  # in a stream: which of its events were not shown ("all", "but the last", "but content")
    content: list[Event] = field(default_factory=list)  # those of its content that were shown

    @cached_property
    def fields(self) -> dict[str, Raw]:
        """Its members as they stand in the text. Each look at a large record costs its whole length."""
        return jsonio.fields(self.raw)

    @property
    def kind(self) -> model.RunType:
        """By its keys (`agno.md` §18.2): an agent may carry a workflow's id."""
        r = self.rec
        if r.agent_id or r.agent_name:
            return "agent"
        if r.team_id or r.team_name or r.member_responses is not None:
            return "team"
        known = r.workflow_id or r.workflow_name or r.step_results is not None or r.step_responses is not None
        return "workflow" if known else "agent"

    def walk(self) -> Iterator[Node]:
        stack = [self]
        while stack:
            one = stack.pop()
            yield one
            stack.extend(one.children)


def node(raw: Raw, above: str | None = None, depth: int = 0) -> Node | None:
    """The record and its members, executors and driver; None when it is no object. A run that is listed twice counts once: the last one that is
    not less complete (`agno.md` §18.8)."""
    try:
        rec, odd = loosely(Record, raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    run_id = rec.run_id or f"{above or rec.session_id or rec.agent_id or rec.team_id or ''}/{rec.created_at or ''}"
    found = Node(rec, odd, raw, run_id)
    if depth < 64:
        inside = [*(rec.member_responses or ()), *(rec.step_executor_runs or ())]
        if rec.workflow_agent_run and not jsonio.is_null(rec.workflow_agent_run):
            inside.append(rec.workflow_agent_run)
        for item in inside:
            child = node(item, run_id, depth + 1)
            if child is None:
                continue
            same = next((i for i, c in enumerate(found.children) if c.run_id == child.run_id), None)
            if same is None:
                found.children.append(child)
            elif better(child, found.children[same]):
                found.children[same] = child
    return found


def mark_cut(n: Node, where: str) -> None:
    """The file breaks off in ``n``; ``where`` are the containers that were open in it (`cutoff.Part.open`, from the record on)."""
    n.cut = True
    for name in _INSIDE.finditer(where):
        listed = getattr(n.rec, name[1]) or ()
        last = listed[-1] if isinstance(listed, list) and listed else listed
        below = next((c for c in reversed(n.children) if c.raw == last), None)
        if below is None:
            return
        if below.rec.run_id is None:  # cut before it says which run it is
            n.children.remove(below)
            return
        n = below
        n.cut = True


_INSIDE: Final = re.compile(r"(member_responses|step_executor_runs|workflow_agent_run)\[?\{")


def better(one: Node, two: Node) -> bool:
    """Whether ``one`` tells more of the same run than ``two``: a run that ended, then more messages."""
    final = ("COMPLETED", "ERROR", "CANCELLED", "REGENERATED")

    def rank(n: Node) -> tuple[bool, int, int, int]:
        r = n.rec
        return (r.status or "").upper() in final, len(r.messages or ()), len(n.children), len(r.events or ())

    return rank(one) >= rank(two)


def ending(n: Node) -> str | None:
    """The run's status in lower case. 1.x leaves RUNNING standing after a success: there a final assistant message is the end. Of a record that breaks off
    nothing is concluded."""
    rec = n.rec
    status = (rec.status or "").lower() or None
    if n.cut:
        return status
    if status in (None, "running", "pending") and _old(rec):
        for raw in reversed(rec.messages or ()):
            said = jsonio.fields(raw)
            if jsonio.text(said.get("role", ABSENT)) == "assistant" and not messages.asked(said.get("tool_calls", ABSENT)):
                return "completed"
            break
        if not rec.messages and not jsonio.is_null(rec.content):
            return "completed"
        return status
    return status if status is not None else "completed" if not jsonio.is_null(rec.content) else None


def _old(rec: Record) -> bool:
    """A record of 1.x: no input and no session state, or counts in lists."""
    listed = any(bytes(memoryview(v)[:1]) == b"[" for v in jsonio.fields(rec.metrics).values())
    return (
        listed or rec.event is not None or bool(rec.formatted_tool_calls) or (not rec.input and not rec.session_state and not rec.run_input)
    )


def stated(run: OpenRun) -> str | None:
    """How the run ended by its record, which wins over the events."""
    if run.node is None:
        return None
    how = ending(run.node)
    return how if how not in ("running", "pending") else None


def plan_of(n: Node, media: bool = False) -> Plan:
    """What the record's messages and tools say, in order."""
    rec, how = n.rec, ending(n)
    inherited = rec.forked_from_message_index if rec.forked_from_run_id or rec.regenerated_from else None
    given = rec.messages or (), inherited or 0, how in ("cancelled", "error", "paused", "running"), media
    kept = {a.id for t in messages.Turns(*given) for a in t.asked} if inherited else None
    return Plan(messages.Turns(*given), Tools(rec.tools or (), kept))


def attach(run: OpenRun, n: Node, media: bool = False) -> None:
    """Everything that the record says of the run as a whole, and its plan."""
    r = n.rec
    n.used = True
    run.node = n
    run.name = (
        run.name or r.workflow_name or r.team_name or r.agent_name or ""
        if n.kind == "workflow"
        else run.name or r.team_name or r.agent_name or ""
    )
    run.agent_id = run.agent_id or (r.workflow_id if n.kind == "workflow" else r.team_id or r.agent_id)
    run.session = run.session or r.session_id or None
    run.user = run.user or r.user_id or None
    run.model, run.provider = r.model or run.model, r.model_provider or run.provider
    run.metrics = r.metrics or r.workflow_metrics or run.metrics
    run.output = r.content if not jsonio.is_null(r.content) else run.output
    given = jsonio.fields(r.input)
    if n.kind != "workflow" and "input_content" in given:
        run.input = given["input_content"]
        if len(given) > 1:
            run.source["input"] = r.input
    elif not jsonio.is_null(r.input):
        run.input = r.input
    elif not jsonio.is_null(r.run_input):
        run.input = r.run_input
    typed = RUN_TYPED if n.kind != "workflow" else RUN_TYPED | {"workflow_id", "workflow_name"}
    for name, value in n.fields.items():
        if name not in typed and name not in run.source and value != Raw(b"null"):
            run.source[name] = value
    run.source.update(n.odd)
    if n.hidden is not None:
        run.attributes["agno.events_hidden"] = n.hidden
    if r.events is not None:
        run.source["stored_events"] = model.raw(len(r.events))
    facts(run, n.fields, media)
    run.plan = plan_of(n, media)
    run.plan.members = list(n.children)
    for requirement, _ in items(Requirement, r.requirements):
        tool = loosely(Tool, requirement.tool_execution)[0] if jsonio.fields(requirement.tool_execution) else None
        if tool is not None and tool.tool_call_id is not None and not requirement.member_run_id:
            run.plan.waits.add(tool.tool_call_id)
    how = ending(n)
    if how == "error":
        run.error = run.error or model.Error(type=None, message=jsonio.text(r.content))
    elif how == "cancelled":
        run.error = run.error or model.Error(type="cancelled", message=jsonio.text(r.content))
    trace = run.trace
    trace.session = trace.session or run.session
    trace.name = trace.name or run.name or None


def facts(run: OpenRun, fields: dict[str, Raw], media: bool) -> None:
    """What of a run's untyped fields is worth an attribute: where it was forked from, and its media as described (never their bytes)."""
    for name in _FACTS if not _FACTS.keys().isdisjoint(fields) else ():
        value = jsonio.value(fields.get(name, ABSENT))
        if isinstance(value, str | int) and (name, value) != ("content_type", "str"):
            run.attributes[f"agno.{name}"] = value
    for prefix, where in (("input.", jsonio.fields(fields.get("input", ABSENT))), ("", fields)):
        for name, modality in _MEDIA.items() if not _MEDIA.keys().isdisjoint(where) else ():
            held = where.get(name, ABSENT)
            if jsonio.is_null(held):
                continue
            parts = [messages.describe(item, modality, media) for item in array(held) or ([held] if jsonio.fields(held) else [])]
            if parts:
                run.attributes[f"agno.{prefix}{name}"] = [jsonio.value(model.raw(p)) for p in parts]


_FACTS: Final = dict.fromkeys(
    ("forked_from_run_id", "forked_from_message_index", "forked_from_session_id", "regenerated_from", "cancellation_stage", "content_type")
)
_MEDIA: Final = {**messages.MEDIA, "audios": "audio", "response_audio": "audio"}


def terminal(run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    """What a terminal event says of the run, where no record says it: fields without a typed home."""
    if run.node is not None:
        return
    said = payload(e, odd)
    for name, value in said.items():
        if name not in ("content", "member_responses", "step_executor_runs", "messages", "tools") and name not in run.source:
            run.source[name] = value
    facts(run, said, False)
    run.model, run.provider = run.model or e.model, run.provider or e.model_provider


def begun(n: Node) -> Window:
    """When a run without events began. Some versions stamp the record with the time their module was imported: then its first message says it."""
    created = window(n.rec.created_at)
    first = UNKNOWN
    for raw in n.rec.messages or ():
        said = jsonio.fields(raw)
        if said.get("from_history") == Raw(b"true"):
            continue
        value = jsonio.value(said.get("created_at", ABSENT))
        first = window(value if isinstance(value, int | float | str) else None)
        break
    if created.lo is None:
        return first
    if first.lo is not None and first.lo > created.lo:
        return first if first.lo - created.lo > 10 * SLACK else Window(created.lo, first.hi)
    return created


def read(engine: Engine, n: Node) -> Iterator[None]:
    """A record that stands at the top of its input (or row): its events, then what they leave out. Stops where spans may be complete, so that they can be
    taken out before there are more."""
    for one in n.walk():
        engine.plans[one.run_id] = one
        if one.odd:
            engine.report.note("unknown-field", f"run {one.run_id}: {', '.join(sorted(one.odd)[:5])}", "info", count=len(one.odd))
        for child in one.children:
            engine.parents[child.run_id] = one.run_id
    if n.rec.parent_run_id and n.run_id not in engine.parents:
        engine.parents[n.run_id] = n.rec.parent_run_id
    yield from _feed(engine, n)
    if not n.used:
        yield from drive(engine, n, engine.runs.get(engine.parents.get(n.run_id, "")), None, None)
    for one in n.walk():
        if not one.used:
            yield from drive(engine, one, engine.runs.get(engine.parents.get(one.run_id, "")), None, None)
        engine.plans.pop(one.run_id, None)
        engine.parents.pop(one.run_id, None)


def _foreseen(events: list[Raw]) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """What the events of a record will tell: of each run how often it starts, up to its last RunStarted, and which calls begin."""
    needed, so_far, calls = Counter[str](), Counter[str](), dict[str, Counter[str]]()
    for e, _ in each(Event, events):
        if not e.event:
            continue
        run_id = e.run_id or ""
        bare = e.event.removeprefix("Team")
        if bare in ("RunStarted", "RunContinued"):
            so_far[run_id] += 1
            if bare == "RunStarted":
                needed[run_id] = so_far[run_id]
        elif bare == "ToolCallStarted" and e.tool:
            calls.setdefault(run_id, Counter())[jsonio.text(jsonio.fields(e.tool).get("tool_call_id", ABSENT)) or ""] += 1
    return needed, calls


def _feed(engine: Engine, n: Node) -> Iterator[None]:
    """The record's events, in order; its run ends with its status, if its events do not say so."""
    if not n.rec.events:
        return
    outside = set(engine.runs)
    engine.foreseen = _foreseen(n.rec.events)
    seen: set[bytes] = set()
    for e, odd in each(Event, n.rec.events):
        if not e.event:
            continue
        if e.event in _TASKS:  # stored twice (fixture team-modes/tasks-stream)
            said = msgspec.json.encode(payload(e, odd)) + e.event.encode()
            if said in seen:
                continue
            seen.add(said)
        engine.event(e, odd)
        yield
    for call in [c for r in list(engine.runs.values()) for c in r.calls if c.ending]:
        engine.completed(call, None)
    for one in n.walk():
        run = engine.runs.get(one.run_id)
        if run is not None and run.node is one and one is not n:
            engine.end(run, ending(one), run.terminal if run.terminal.lo is not None else run.now)
    for run in reversed(list(engine.runs.values())):
        if run.run_id in engine.runs and run.run_id not in outside and run.run_id != n.run_id:
            engine.end(run, run.ending, run.terminal if run.terminal.lo is not None else run.now)
    run = engine.runs.get(n.run_id)
    if run is not None:
        engine.end(run, ending(n), run.terminal if run.terminal.lo is not None else run.now)
    engine.foreseen = (Counter(), {})


def drive(engine: Engine, n: Node, above: OpenRun | None, call: Call | None, phase: OpenPhase | None, only: bool = True) -> Iterator[None]:
    """A run that only its record knows, under the run, call or step that started it. Its own events, where it holds some, come first."""
    if n.used:
        return
    if n.rec.events and any(jsonio.text(jsonio.fields(r).get("run_id", ABSENT)) == n.run_id for r in n.rec.events):
        engine.place(n.run_id, above, call, phase, only)
        engine.plans[n.run_id] = n
        yield from _feed(engine, n)
        if n.used:
            return
    engine.place(n.run_id, above, call, phase, only)
    kind = n.kind
    parent = above.run_id if above is not None else n.rec.parent_run_id or engine.parents.get(n.run_id)
    run = engine.open(n.run_id, kind, parent_run=parent)
    attach(run, n, engine.options.media)
    at = begun(n)
    if run.trace.started is None:
        run.trace.started = at.lo
    run.tick(at)
    how = ending(n)
    assert run.plan is not None
    _deltas(run, n)
    run.begun = at
    run.start(at)
    if kind == "workflow":
        yield from workflow.drive(engine, run, n)
    else:
        run.claim = lambda c: _claim(engine, run, c)
        yield from _turns(run, n)
    engine.end(run, how, n.ended if n.ended.lo is not None else _last(n))


def _deltas(run: OpenRun, n: Node) -> None:
    """Deltas that a stream showed of a run whose other events it hid: chunks of the message that they add up to."""
    texts = [jsonio.text(e.content) or "" for e in n.content]
    place = 0
    while run.plan is not None and texts and (turn := run.plan.turns.ahead(place)) is not None:
        if "".join(p.content for p in turn.message.parts if isinstance(p, model.TextPart)) == "".join(texts):
            turn.chunks = [model.Chunk(time=window(e.created_at).lo, length=len(t)) for e, t in zip(n.content, texts, strict=True)]
            return
        place += 1
    if texts:
        run.here.extend(as_event(e, {}) for e in n.content)


def _last(n: Node) -> Window:
    """A window for the end of a run without events: not before its last message."""
    for raw in reversed(n.rec.messages or ()):
        value = jsonio.value(jsonio.fields(raw).get("created_at", ABSENT))
        at = window(value if isinstance(value, int | float | str) else None)
        if at.lo is not None:
            return Window(at.lo, None)
    return UNKNOWN


def _turns(run: OpenRun, n: Node) -> Iterator[None]:
    """The record's turns as requests, with a pause and a continuation after a turn whose call a person answered."""
    plan = run.plan
    assert plan is not None
    answered: dict[str, Window] = {}
    for requirement, _ in items(Requirement, n.rec.requirements):
        tool = loosely(Tool, requirement.tool_execution)[0] if jsonio.fields(requirement.tool_execution) else None
        if tool is not None and tool.tool_call_id is not None and not requirement.member_run_id:
            answered[tool.tool_call_id] = window(requirement.created_at)
    for turn in plan.turns:
        run.insert(turn)
        yield
        waited = [a.id for a in turn.asked if a.id in answered]
        follows = plan.turns.ahead() if waited else None
        gone_on = follows is not None or any(a.record.tool_call_id in waited for a in turn.answers)
        if waited and gone_on:
            at = answered[waited[0] or ""]
            run.tick(at)
            run.ending = "paused"
            run.paused = at.lo if at.exact else None
            run.pause([])
            after = follows.time if follows is not None else UNKNOWN
            answer = next((a for a in turn.answers if a.record.tool_call_id in waited), None)
            if answer is not None:
                after = window(answer.record.created_at)
            run.tick(after)
            run.resume(after.after(at.lo))


def whole(steps: Iterator[None]) -> None:
    """Go through to the end: a run inside another is told before that one goes on."""
    for _ in steps:
        pass


def _claim(engine: Engine, run: OpenRun, call: Call) -> None:
    """Members that a delegating call started, told before it: by member id; a call without one (a broadcast) takes those that are left over."""
    assert run.plan is not None
    wanted = jsonio.text(call.arguments.get("member_id", ABSENT))
    child = call.tool.child_run_id if call.tool is not None else None
    open_ = [m for m in run.plan.members if not m.used]
    if wanted is not None:
        chosen = [m for m in open_ if wanted in (m.rec.agent_id, m.rec.team_id, m.rec.agent_name, m.rec.team_name)][:1]
        if not chosen:
            chosen = [m for m in open_ if m.run_id == child][:1]
    else:
        chosen = open_ if not call.name.startswith("run_workflow") else []
    for m in chosen:
        whole(drive(engine, m, run, call, None, len(chosen) == 1))


def embedded(engine: Engine, run: OpenRun, n: Node) -> None:
    """A record inside a terminal event: for a run whose events were seen it says nothing new that can still be used; any other is told from it."""
    if n.run_id in run.trace.seen or n.run_id in engine.plans or n.run_id in engine.runs or n.run_id in engine.ended:
        return
    held = engine.thin.pop(n.run_id, None)
    if held:
        n.ended = window(held[-1][0].created_at)
    n.hidden = "but the last" if held and held[-1][0].event.endswith("RunCompleted") else "but content" if held else "all"
    n.content = [e for e, _ in held or () if e.event.endswith("RunContent")]
    for one in n.walk():
        if one is not n:
            one.hidden = "but the last" if engine.thin.pop(one.run_id, None) else "all"
    for one in n.walk():
        for child in one.children:
            engine.parents[child.run_id] = one.run_id
    phase = workflow.step_of(run, n.rec.workflow_step_id) if run.kind == "workflow" else None
    call = None
    if run.kind != "workflow":
        call = delegation(run, n)
    whole(drive(engine, n, run, call, phase))


def delegation(run: OpenRun, n: Node) -> Call | None:
    """The delegating call of ``run`` that a member belongs to, when its own events are missing: by member id, in order, each once."""
    ids_ = (n.rec.agent_id, n.rec.team_id, n.rec.agent_name, n.rec.team_name)
    open_ = [c for c in run.delegations if not c.claimed]
    named = [c for c in open_ if (jsonio.text(c.arguments.get("member_id", ABSENT)) or "") in ids_]
    broad = [c for c in run.delegations if "member_id" not in c.arguments]
    chosen = named[0] if named else broad[0] if broad else open_[0] if open_ else None
    if chosen is not None and chosen in named:
        chosen.claimed = True
    return chosen


__all__ = [
    "Node",
    "as_event",
    "attach",
    "better",
    "drive",
    "embedded",
    "ending",
    "executed",
    "node",
    "payload",
    "plan_of",
    "point",
    "read",
    "stated",
    "terminal",
    "whole",
]
