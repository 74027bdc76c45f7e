"""One run while it is read: its attempts, turns, calls and phases, and the spans that they become.

Both sources of a run drive the same object: its events (`converters/agno/events.py`), its record (`converters/agno/records.py`), or both at once, where
the record's messages and tools fill in what the events lack. So both give the same ids: ordinals are counted here and nowhere else.

A turn (one model request and the calls that it asked for) is held until it is over, since only then its end and its output are known. What began
before the run has an exact clock waits for the run's end, unless the spans are wanted live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Raw, Struct, field

from .. import jsonio
from ..history import Chain
from ..ids import Below
from ..model import (
    ABSENT,
    AnySpan,
    Error,
    Event,
    Link,
    Message,
    RunType,
    ToolCallPart,
    ToolCallResponsePart,
    Usage,
    Value,
)
from . import spans
from .messages import Turn
from .parts import Call, OpenPhase, Plan, Request, Trace, Try
from .schema import Asked, Execution, Tool
from .times import MILLI, NO_CLOCKS, UNKNOWN, Stretch, Window, batch, clocks, point, stamp, text_duration, window

_GENERATOR: Final = 5 * MILLI


def _same(one: Usage | None, two: Usage | None) -> bool:
    if one is None or two is None:
        return one is None
    return one.input == two.input and one.output == two.output


_NOWHERE: Final = Below("")


class OpenRun(Struct, eq=False):
    """See the module. ``kind``: agent, team or workflow. Times given to it are windows; the order of the calls is the order of what happened."""

    trace: Trace
    run_id: str
    kind: RunType
    parent: str | None
    live: bool = False
    id: str = ""
    below: Below = _NOWHERE  # of the current attempt
    name: str = ""
    agent_id: str | None = None
    session: str | None = None
    user: str | None = None
    model: str | None = None
    provider: str | None = None
    parent_call: Call | None = None
    parent_phase: OpenPhase | None = None
    parent_run: OpenRun | None = None
    unknown_parent: str | None = None
    tries: list[Try] = []
    request: Request | None = None
    calls: list[Call] = []  # not yet emitted, in order
    pending: list[tuple[Asked | None, Turn | None, Call]] = []
    phases: dict[str, list[OpenPhase]] = {}
    plan: Plan | None = None
    late: list[Callable[[tuple[int | None, int]], AnySpan]] = []
    soft: int | None = None  # when the last thing in it ended, as far as known
    soft_off: int = 0  # by how much that may be off
    now: Window = UNKNOWN
    second: int | None = None  # the last one that `now` was set from
    chain: Chain = field(default_factory=Chain)
    first_number: int = 1
    ending: str | None = None
    terminal: Window = UNKNOWN
    error: Error | None = None
    metrics: Raw = ABSENT
    input: Raw = ABSENT
    output: Raw = ABSENT
    source: dict[str, Raw] = {}
    attributes: dict[str, Value] = {}
    events: list[Event] = []
    requests_seen: bool = False
    stated: bool = False
    delegations: list[Call] = []
    begins: dict[str, tuple[int, int]] = {}  # of the current turn's calls: when each began, and by how much that may be off
    waits: list[tuple[Window, Window]] = []
    after: int | None = None
    old: bool = False  # a stream without request events: requests are concluded
    outer: tuple[int | None, int | None] | None = None
    node: Any = None  # the record (records.Node), where there is one
    claim: Callable[[Call], None] | None = None
    begun: Window = UNKNOWN
    previous: Window = UNKNOWN
    earlier: Try | None = None  # the attempt before those that are seen here
    emitted: int = 0
    again: bool = False  # its span was given already, when it seemed to have ended
    emitted_waits: int = 0
    inferred: list[tuple[Request, bool]] = []
    places: dict[int, Below] = {}
    begun_ids: dict[str, int] = {}
    low: int | None = None  # of the runs inside this one
    high: int | None = None
    iterations: dict[str, OpenPhase] = {}
    step_counts: dict[str, int] = {}
    step_ids: dict[str, list[OpenPhase]] = {}
    left: list[tuple[OpenPhase, Window]] = []
    ceiling: int | None = None  # the end of the call that started it
    searched: bool = False  # a tool looked something up in the knowledge
    busy: int = 0  # ns that its tools took
    tail: int = 0  # ns that requests took after the last tool, as far as they state it
    end: int | None = None
    request_last: Request | None = None
    uncertainty: int = 0
    paused: int | None = None  # the instant of the last pause, where a requirement states it
    pauses: list[int | None] = []
    answers: list[Message] = []

    def __post_init__(self) -> None:
        self.id = self.trace.span(self.run_id)

    @property
    def cut(self) -> bool:
        """Whether the file breaks off in its record: how its last attempt that can be seen went on is not known, nor what came of calls without an answer."""
        return self.node is not None and self.node.cut

    @property
    def cut_off(self) -> bool:
        """The same, before anything that says when the run ended."""
        return self.cut and clocks(self.metrics).duration is None

    # ------------------------------------------------------------------------------------------------ attempts
    @property
    def attempt(self) -> Try:
        """The current attempt; the first one is opened when something happens before it was announced (a pre-hook)."""
        if not self.tries:
            self._open(self.now, False, None)
        return self.tries[-1]

    def _open(self, at: Window, begun: bool, link: str | None) -> Try:
        number = self.tries[-1].number + 1 if self.tries else self.first_number
        new = Try(number, self.trace.span(self.run_id, "attempt", str(number)), at, begun)
        if link and number > 1:
            new.link = Link(trace_id=self.trace.id, span_id=self.trace.span(self.run_id, "attempt", str(number - 1)), type=link)
        self.below = self._below(number)
        self.tries.append(new)
        return new

    def _below(self, number: int) -> Below:
        """Ids of what is in the attempt with this number."""
        if (found := self.places.get(number)) is None:
            found = self.places[number] = Below(self.trace.id, self.run_id, "attempt", str(number))
        return found

    def mark(self, end: int | None, off: int) -> None:
        """Something in the run ended then: what follows begins there, or later."""
        if end is not None and (self.soft is None or end >= self.soft):
            self.soft, self.soft_off = end, off

    def tick(self, at: Window) -> Window:
        """The clock of an event: seconds never run backwards within a run."""
        now = self.now
        if at.lo is not None:
            if now.lo is None or (now.hi is not None and at.hi is not None and at.lo >= now.lo and at.hi >= now.hi):
                self.now = at
            else:
                self.now = Window(max(now.lo, at.lo), max(now.hi or at.hi or at.lo, at.hi or at.lo))
        return self.now

    def start(self, at: Window) -> None:
        """``RunStarted``: the first attempt, or the next after a failed one."""
        if self.tries and not self.tries[-1].begun and self.tries[-1].ending is None:
            self.tries[-1].begun = True
            return
        if self.tries:
            self.end_turn(failed="retried")
            self.close_try(at, "failed", Error(type="retried", message=None))
        self._open(at, True, "retry_of")
        if self.live:
            begin = at.after(self.soft)
            self.mark(begin.pick(), begin.slack)
        else:
            self.soft = None  # nothing exact stands before what follows

    def resume(self, at: Window) -> None:
        """``RunContinued``: the next attempt, after a pause (or, in a stream that begins with it, after one that is not seen here)."""
        if not self.tries:
            self.first_number = max(self.first_number, 2)
        elif self.tries[-1].ending is None:
            self.end_turn()
            self.close_try(at, "paused", None)
        else:
            self.waits.append((self.tries[-1].done, at.after(self.paused)))
        if self.tries:
            self.pauses.append(self.paused)
        begin = at.after(self.paused if self.paused is not None else self.soft)
        self.soft, self.soft_off = (begin.pick(), begin.slack) if self.tries or self.live else (None, 0)
        self.paused = None
        self.ending = None
        self.error = None
        self._open(begin, True, "continuation_of")

    def close_try(self, at: Window, ending: str, error: Error | None) -> None:
        t = self.attempt
        t.done, t.ending, t.error = at, ending, error

    def pause(self, waiting: list[Execution]) -> None:
        """The run waits for a person: calls that nothing came of yet are held until they are taken up or the run ends."""
        asked_by = self.request.id if self.request is not None else None
        for tool, _ in waiting:
            if self.plan is not None and tool.tool_call_id:
                self.plan.waits.add(tool.tool_call_id)
        begun = {c.call_id for c in (self.request.calls if self.request is not None else ())}
        if self.request is not None:
            self.request.limit = self.paused
        self.end_turn()
        self.close_try(self.now if self.paused is None else point(self.paused), "paused", None)
        known = {c.call_id for _, _, c in self.pending}
        for tool, raw in waiting:
            if (
                tool.tool_call_id in known
                or tool.tool_call_id in begun
                or (executed(tool) and self.attempt.calls.get(tool.tool_call_id or "", 0))
            ):
                continue
            if executed(tool):  # ran, and no event showed it
                call = self._new_call(tool.tool_call_id, None)
                call.name, call.requested_by, call.requested = tool.tool_name or "", asked_by, None
                self._fill(call, (tool, raw))
                call.over = True
                self.calls.append(call)
                self.flush_calls()
                continue
            call = self._new_call(tool.tool_call_id, None)
            call.name, call.tool, call.raw = tool.tool_name or "", tool, raw
            call.requested_by, call.requested = asked_by, None
            self.pending.append((None, None, call))

    # ------------------------------------------------------------------------------------------------ requests
    def request_start(self, at: Window, name: str | None, provider: str | None, inferred: bool = False) -> None:
        if self.request is not None:
            self.end_turn(failed="fallback" if not self.request.over else None)
        if self.pending:
            self.resolve_pending(at)
        t = self.tries[-1] if self.tries else self.attempt
        number, t.requests = t.requests, t.requests + 1
        self.request = Request(
            id=self.below.span_id("request", str(number)),
            key=f"request/{number}",
            parent=t.id,
            number=number,
            started=at,
            after=self.soft,
            after_off=self.soft_off,
            model=name or self.model,
            provider=provider or self.provider,
            inferred=inferred,
        )
        self.requests_seen = self.requests_seen or not inferred

    def request_end(self, at: Window, usage: Usage | None, first_token: int | None, source: dict[str, Raw]) -> None:
        r = self.request
        if r is None or r.over:
            self.request_start(at, None, None)
            r = self.request
            assert r is not None
        turn = self._turn(usage)
        r.done, r.over, r.usage, r.first_token, r.turn = at, True, usage, first_token, turn
        r.source.update(source)

    def _turn(self, counted: Usage | None) -> Turn | None:
        """The record's turn for the request that just completed; turns before it that no request event tells of are put in first."""
        plan = self.plan
        if plan is None or sum(t.begun for t in self.tries) < plan.starts:
            return None
        place = 0
        while (turn := plan.turns.ahead(place)) is not None:
            if _same(turn.usage, counted):
                held, self.request = self.request, None
                for _ in range(place):
                    self._insert_next(plan)
                if self.request is not None:
                    self.end_turn()
                self.request = held
                return plan.turns.take()
            place += 1
        return None

    def _insert_next(self, plan: Plan) -> None:
        if (turn := plan.turns.take()) is not None:
            self.insert(turn)

    def insert(self, turn: Turn) -> None:
        """A request that only the record tells of."""
        counted, told = self.attempt.requests, self.requests_seen
        if told:  # beside request events it gets a number of its own, so that theirs stay the same without the record
            self.attempt.requests = self.attempt.extra
        self.request_start(turn.time, None, None, inferred=not turn.stated)
        r = self.request
        assert r is not None
        self.requests_seen = told
        if told:
            self.attempt.extra, self.attempt.requests = self.attempt.requests, counted
            r.key = f"extra/{r.number}"
            r.id = self.below.span_id("extra", str(r.number))
        r.over, r.usage, r.turn, r.inserted, r.chunks = True, turn.usage, turn, True, turn.chunks
        r.first_token = turn.clocks.first_token if turn.clocks.duration is None else None

    def end_turn(self, failed: str | None = None, last: bool = False) -> None:
        """The turn is over: calls that left no event are taken from the messages, and the request and its calls get their times."""
        r, self.request = self.request, None
        if r is None:
            self.flush_calls(force=True)
            return
        if not r.over and failed is None and not last:
            failed = "failed"
        if r.turn is not None and r.inserted and r.turn.clocks.duration is not None:
            self.tail += r.turn.clocks.duration  # counts from the last tool: its own calls set it back
        if r.turn is not None:
            self._calls_of(r, r.turn, last)
        if self.calls:
            self.flush_calls(True, r)
        if failed is not None and not r.over:
            r.error, r.done = r.error or Error(type=failed), self.now
        if r.inferred and not r.inserted:
            self.inferred.append((r, last))
        else:
            self._place(r, last)

    def _place(self, r: Request, last: bool) -> None:
        """The request's span: now, when an exact instant stands before it (or nobody can wait); else when the run's own start is known."""
        first, off = None, 0
        if self.begins and r.calls:
            first, off = min((begin for c in r.calls if (begin := self.begins.get(c.id)) is not None), default=(None, 0))
        turn = r.turn
        r.input = turn.before if turn is not None else self.answers
        said = turn.message if turn is not None else spans.said(r)
        r.output = [said] if said.parts else []
        self.answers, self.begins = r.answers, {}
        if last:
            self.request_last = r
        r.history = self.chain.history()
        self.chain.close(r.id, r.input, r.output)
        now = (r.after is not None or self.live) and not last
        if now:
            span = spans.request(self, r, first, (self.soft, self.soft_off), off)
            self.mark(span.end, span.uncertainty)
            self.put(span)
        else:
            self.late.append(lambda base: spans.request(self, r, first, base, off))
        for call in r.unran:
            self.later(partial(self._unran, call), now)

    def _unran(self, call: Call, base: tuple[int | None, int]) -> AnySpan:
        return spans.tool_call(self, call, base[0], base[0], "derived", base[1])

    def put(self, span: AnySpan) -> None:
        """Emit a span, and let its attempt know how far it reaches."""
        t = self.tries[-1]
        if t.id != span.parent_id:
            t = self.attempt_of(span.parent_id) or t
        start, end, latest = span.start, span.end, t.latest
        if start is not None:
            if t.earliest is None or start < t.earliest:
                t.earliest = start
            if latest is None or start > latest:
                t.latest = latest = start
        if end is not None and (latest is None or end > latest):
            t.latest = end
        self.trace.put(self.trace, span)

    def attempt_of(self, parent: str | None) -> Try | None:
        """The attempt with this id: mostly the last."""
        if self.tries and self.tries[-1].id == parent:
            return self.tries[-1]
        return next((t for t in self.tries if t.id == parent), None)

    def reach(self, t: Try, start: int | None, end: int | None) -> None:
        if start is not None:
            if t.earliest is None or start < t.earliest:
                t.earliest = start
            if t.latest is None or start > t.latest:
                t.latest = start
        if end is not None and (t.latest is None or end > t.latest):
            t.latest = end

    def later(self, make: Callable[[tuple[int | None, int]], AnySpan], now: bool) -> None:
        """Emit what ``make`` gives: now, or when the run's start is known. ``make`` gets the end of what came before, and by how much that may be off."""
        if now:
            span = make((self.soft, self.soft_off))
            self.mark(span.end, span.uncertainty)
            self.put(span)
        else:
            self.late.append(make)

    def _calls_of(self, r: Request, turn: Turn, last: bool) -> None:
        """Calls that this turn asked for and that no event started."""
        seen = Counter([c.call_id for c in r.calls]) if r.calls else None
        unanswered: list[Asked] = []
        plan = self.plan
        for position, a in enumerate(turn.asked):
            if seen and seen.get(a.id, 0) > 0:
                seen[a.id] -= 1
                call = next(c for c in r.calls if c.call_id == a.id and c.answer is None)
                call.answer = turn.answer(a.id, position)
                continue
            if plan is not None and (
                (plan.by_events and plan.by_events.get(a.id or "", 0) > 0) or (plan.waits and a.id is not None and a.id in plan.waits)
            ):
                self.pending.append((a, turn, self._new_call(a.id, r, asked=a)))
                continue
            if self.begun_ids and self.begun_ids.get(a.id or "", 0) > 0:
                self.begun_ids[a.id or ""] -= 1
                continue
            found = plan.tools.take(a.id) if plan is not None else None
            answer = turn.answer(a.id, position)
            if answer is None and (found is None or not executed(found[0])):
                unanswered.append(a)
                if found is not None and plan is not None:
                    plan.tools.back(found)
                continue
            call = self._new_call(a.id, r, asked=a)
            call.answer = answer
            self._fill(call, found)
            if call.tool is None:
                self._lost(call, r, turn)
            call.over = True
            if call.delegates and self.claim is not None:
                self.claim(call)
            self.calls.append(call)
            r.calls.append(call)
        if last and self.ending not in (None, "completed") and not self.cut:
            for a in unanswered:
                call = self._new_call(a.id, r, asked=a)
                self._fill(call, self.plan.tools.take(a.id) if self.plan is not None else None)
                call.over = True
                call.outcome = "pending" if self.ending == "paused" else "aborted"
                self.calls.append(call)
                r.calls.append(call)

    def _fill(self, call: Call, found: Execution | None) -> None:
        if found is not None:
            call.tool, call.raw = found
            c = call.clocks
            if c.start is not None and c.end is not None:
                call.started, call.done = point(c.start), point(c.end)
        if not call.done.exact and call.answer is not None:
            call.done = window(call.answer.record.created_at)
        call.after = self.soft

    def _lost(self, call: Call, r: Request, turn: Turn) -> None:
        """A call whose execution the record lost (fixtures cancelled/plain-tool, model-error/plain-late): the first began when its request
        ended, which is stamped when it began and has a duration; any other, between that and its answer. The run's own duration narrows both."""
        took, plan = turn.clocks.duration, self.plan
        if call.done.lo is None or took is None or turn.time.lo is None or plan is None:
            return
        began = turn.time.moved(took)
        lasted = clocks(self.metrics).duration
        if lasted is not None and len(self.tries) == 1 and not plan.waits:
            total = plan.turns.total
            first = plan.turns.first.hi if plan.turns.first is not None else None
            began = began.after(call.done.lo + total - lasted)
            call.done = call.done.before(first + lasted - (total - turn.until) if first is not None else None)
        call.started = Window(began.lo, call.done.hi) if r.calls else began.before(call.done.hi)

    def _new_call(self, call_id: str | None, r: Request | None, attempt: Try | None = None, asked: Asked | None = None) -> Call:
        """A call of ``attempt`` (the current one). ``r``: the request that asked for it (the open one); ``asked``: in these words."""
        t = attempt or self.attempt
        by = call_id or ""
        occurrence = t.calls.get(by, 0)
        t.calls[by] = occurrence + 1
        function = asked.function if asked is not None else None
        name = function.name if function is not None else ""
        path = ("tool", by or name, str(occurrence))
        asked_by = r or self.request
        below = self.below if t is self.tries[-1] else self._below(t.number)
        return Call(
            id=below.span_id(*path),
            key="/".join(path),
            name=name,
            call_id=call_id,
            parent=t.id,
            requested_by=asked_by.id if asked_by is not None else None,
            requested=asked if function is not None else None,
        )

    # --------------------------------------------------------------------------------------------------- calls
    def tool_start(self, at: Window, tool: Tool, raw: Raw) -> Call:
        """``ToolCallStarted``. A call that a pause held back keeps the attempt that asked for it in its id."""
        name, call_id = tool.tool_name or "", tool.tool_call_id
        for i, (_, turn, held) in enumerate(self.pending) if self.pending else ():
            if held.call_id == call_id and (not held.name or held.name == name):
                del self.pending[i]
                call = held
                call.parent = self.attempt.id
                if turn is not None:
                    call.answer = turn.answer(call_id, 0)
                break
        else:
            plan = self.plan
            if plan is not None and self._asks(call_id):
                self._insert_next(plan)
            t = before = self.tries[-1] if self.tries else self.attempt
            if t.number > 1 and t.link is not None and t.link.type == "continuation_of" and not t.requests and self.request is None:
                if len(self.tries) > 1:
                    before = self.tries[-2]
                else:
                    before = self.earlier = self.earlier or Try(0, "", UNKNOWN, True)
                before.number = t.number - 1
            call = self._new_call(call_id, self.request, before)
            if not call_id:
                call.id = self._below(before.number).span_id("tool", name, str(before.calls[""]))
            call.parent = t.id
            if self.request is not None:
                self.request.calls.append(call)
                if self.request.turn is None:
                    self.request.asked.append(ToolCallPart(name=name, id=call_id, arguments=tool.tool_args))
        call.name = name
        call.tool, call.raw, call.first = tool, raw, (tool, raw)
        call.started, call.begun, call.after = at, True, self.soft
        if self.old:
            self.begun_ids[call_id or ""] = self.begun_ids.get(call_id or "", 0) + 1
        if self.plan is not None:
            self.plan.by_events[call_id or ""] -= 1
            self.plan.tools.take(call_id)
        self.calls.append(call)
        return call

    def _asks(self, call_id: str | None) -> bool:
        """Whether the record's next turn asks for this call, and no request of the current turn did."""
        plan = self.plan
        if plan is None or sum(t.begun for t in self.tries) < plan.starts or (turn := plan.turns.ahead()) is None:
            return False
        r = self.request
        if r is not None and r.turn is not None and any(a.id == call_id for a in r.turn.asked):
            return False
        return any(a.id == call_id for a in turn.asked)

    def open_call(self, call_id: str | None, name: str | None = None) -> Call | None:
        """The call with this id that is open; without an id the oldest open one of that name."""
        for c in self.calls:
            if c.begun and not c.over and (c.call_id == call_id if call_id else name is None or c.name == name):
                return c
        return None

    def tool_end(self, at: Window, tool: Tool, raw: Raw, text: Raw, call: Call | None) -> Call:
        """``ToolCallCompleted`` of ``call``, or (None) of one that no event started."""
        if call is None:
            call = self.tool_start(at, tool, raw)
            call.started = UNKNOWN
        call.tool, call.raw, call.over, call.text = tool, raw, True, text
        call.failed = tool.tool_call_error is True
        c = call.clocks
        call.done = at
        if c.start is not None and c.end is not None:
            call.done = point(c.end)
        if not call.failed:
            if self.calls == [call]:
                self.calls = []
                self.emit_call(call, self.stretch(call), self.soft)
            else:
                self.flush_calls()
        return call

    def tool_error(self, at: Window, tool: Tool, raw: Raw, error: str | None) -> Call:
        """``ToolCallError``: comes after the completion of the same call (fixture tool-errors), or alone."""
        for c in self.calls:
            if c.over and c.call_id == tool.tool_call_id and c.error is None:
                c.error, c.failed = error, True
                self.flush_calls()
                return c
        call = self.open_call(tool.tool_call_id, tool.tool_name) or self.tool_start(at, tool, raw)
        call.tool, call.raw, call.over, call.done = tool, raw, True, at
        call.error, call.failed = error, True
        self.flush_calls()
        return call

    def settle(self) -> None:
        """A failed call whose ToolCallError did not follow at once is as complete as it gets."""
        for c in self.calls:
            if c.over:
                self.flush_calls()
                return

    def flush_calls(self, force: bool = False, request: Request | None = None) -> None:
        """Emit calls that are over, unless others of their batch are still open."""
        ready = [c for c in self.calls if c.over]
        if not ready or (not force and len(ready) < len(self.calls)):
            return
        self.calls = [c for c in self.calls if not c.over] if len(ready) < len(self.calls) else []
        stretches = batch([self.stretch(c) for c in ready])
        before = self.soft
        for call, s in zip(ready, stretches, strict=True):
            if request is not None and not s.start.exact and not call.begun and spans.outcome(self, call)[0] == "rejected":
                request.unran.append(call)  # it takes no time: it stands where its request ends
                continue
            self.emit_call(call, s, before)
            before = self.soft

    def stretch(self, call: Call) -> Stretch:
        c = call.clocks
        if c.start is not None and c.end is not None and c.end >= c.start:
            duration = c.duration if c.duration is not None else c.end - c.start
            if duration >= _GENERATOR and not call.children:
                return Stretch(point(c.start), point(c.end), duration, True)
            generator = duration < _GENERATOR and (call.custom or call.children or (call.delegates and call.begun))
            if (
                call.children
                and (early := min((w.lo for w in call.children if w.lo is not None), default=None)) is not None
                and early < c.start
            ):
                return Stretch(point(early), point(c.end), None, False)
            if generator and call.begun and call.started.lo is not None:
                follows = self.request is not None and self.request.calls and self.request.calls[0] is not call
                if follows and call.after is not None and call.started.holds(call.after) and call.after <= c.start:
                    return Stretch(point(call.after), point(c.end), None, False)  # right after the call before it
                return Stretch(call.started.after(call.after).before(c.start), point(c.end), None, False)
            return Stretch(point(c.start), point(c.end), duration, True)
        if not call.over and not call.done.exact:
            return Stretch(call.started.after(call.after), UNKNOWN, None, False)
        took = c.duration if c.duration is not None else text_duration(jsonio.text(call.text))
        return _without_floats(call, took)

    def emit_call(self, call: Call, s: Stretch, before: int | None) -> None:
        if s.recorded:
            start, end, off = s.start.lo, s.end.lo, 0
        else:
            start, end, off = s.start.pick(), s.end.pick(), max(s.start.slack, s.end.slack)
        if start is None and end is not None:
            start = before if before is not None and before <= end else end
        if start is not None and end is not None and end < start:
            start, end = (end, end) if s.end.exact else (start, start)
        t = self.tries[-1] if self.tries else self.attempt
        if t.id != call.parent:
            t = self.attempt_of(call.parent) or t
        delegates = call.delegates
        began = start if s.duration is not None and s.start.exact else None  # as the source states it
        if began is not None and (t.low is None or began < t.low):
            t.low = began
        if end is not None and (s.recorded or s.end.exact):
            if t.high is None or end > t.high:
                t.high = end
            if t.last_tool is None or end > t.last_tool:
                t.last_tool = end
        known = None if call.children or call.custom or delegates else began
        if not t.any_tool or (known is not None and t.first_tool is not None and known < t.first_tool):
            t.any_tool, t.first_tool = True, known
        self.busy += s.duration or 0
        self.mark(end, off)
        span = spans.tool_call(self, call, start, end, "recorded" if s.recorded else "derived", off)
        if delegates:
            self.delegations.append(call)
        if start is not None:
            self.begins[call.id] = (start, 0 if s.recorded else s.start.slack)
        if not self.searched and "search_knowledge" in call.name:
            self.searched = True
        self.tail = 0
        if self.request is not None and span.result:
            self.request.answers.append(
                Message(
                    role="tool",
                    parts=[ToolCallResponsePart(response=span.result, id=call.call_id)],
                    time=stamp(call.tool.created_at).lo if call.tool else None,
                )
            )
        self.put(span)

    def resolve_pending(self, at: Window, final: bool = False) -> None:
        """Calls that a pause held back and that no event took up: answered from outside, refused, or still waiting."""
        held, self.pending = self.pending, []
        for a, turn, call in held:
            if not final and self.plan is not None and self.plan.by_events[call.call_id or ""] > 0:
                self.pending.append((a, turn, call))
                continue
            answer = turn.answer(call.call_id, 0) if turn is not None else None
            found = self.plan.tools.take(call.call_id) if self.plan is not None else None
            if found is not None:
                call.tool, call.raw = found
            call.answer = answer
            if answer is None and not (call.tool is not None and executed(call.tool)):
                if not final:
                    self.pending.append((a, turn, call))
                    continue
                call.outcome = "pending" if self.ending == "paused" else "aborted"
            else:
                call.parent = self.attempt.id
            if self.waits and answer is not None:
                call.started, call.done = self.waits[-1]
                if call.tool is not None and not call.tool.external_execution_required:
                    call.started = call.done
            elif self.tries:
                call.started = self.tries[-1].done if final and self.tries[-1].done.lo is not None else at
                call.done = call.started
            call.over = True
            self.calls.append(call)
        if held:
            self.flush_calls(force=final)

    # -------------------------------------------------------------------------------------------------- phases
    def phase_start(self, name: str, kind: str, at: Window, operation: str | None = None, label: str | None = None) -> OpenPhase:
        t = self.attempt
        n = t.phases.get(name, 0)
        t.phases[name] = n + 1
        path = ("attempt", str(t.number), "phase", name, str(n))
        found = OpenPhase(
            id=self.trace.span(self.run_id, *path),
            key="/".join(path[2:]),
            name=label or name,
            type=kind,
            parent=t.id,
            started=at,
            operation=operation,
            after=self.soft,
            after_off=self.soft_off,
        )
        if self.request is not None:
            self.request.followed = True
        self.phases.setdefault(name, []).append(found)
        return found

    def phase_end(self, name: str, label: str | None = None) -> OpenPhase | None:
        """The phase that began last under this name (and this label, where there is one) ends; its span is emitted by the caller's `spans.phase`."""
        open_ = self.phases.get(name, [])
        for i in range(len(open_) - 1, -1, -1):
            if label is None or open_[i].name == label:
                return open_.pop(i)
        return None

    def emit_phase(self, p: OpenPhase, at: Window, finished: bool = True) -> None:

        def make(base: tuple[int | None, int]) -> AnySpan:
            span = spans.phase(self, p, at, finished, base)
            if p.above is not None and span.clock != "synthetic":
                p.above.children.append(Window(span.start, span.end))
            return span

        self.later(make, p.after is not None or self.live)

    @property
    def here(self) -> list[Event]:
        """Where an event of its own goes: the attempt."""
        return self.attempt.events


def executed(tool: Tool) -> bool:
    """The record shows that something came of the call: a result, an error, a refusal."""
    return (
        not jsonio.is_null(tool.result)
        or not jsonio.is_null(tool.content)
        or tool.tool_call_error is True
        or tool.confirmed is False
        or clocks(tool.metrics) != NO_CLOCKS
    )


def _without_floats(call: Call, duration: int | None) -> Stretch:
    """A call whose source has no float clock (1.x, a continuation): the seconds of its events, its duration, and what came before it."""
    start, end = call.started.after(call.after), call.done
    lows, highs = [w.lo for w in call.children if w.lo is not None], [w.hi for w in call.children if w.hi is not None]
    if lows and highs and call.delegates:  # what it started says more
        return Stretch(point(min(lows)), point(max(highs)), None, False)
    if duration is None:
        return Stretch(start if start.lo is not None else Window(call.after, None), end, None, False)
    if start.lo is None and end.lo is not None:
        start = end.moved(-duration).after(call.after)
    elif start.lo is not None and end.lo is not None:
        start = start.before((end.hi or end.lo) - duration).after(end.lo - duration)
        if call.after is not None and start.holds(call.after):
            start = start.before(max(call.after, start.lo or 0))
    return Stretch(start, start.moved(duration), None, False)
