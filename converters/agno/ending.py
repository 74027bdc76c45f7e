"""The end of a run: what is still open is closed, its clock is set from the best anchors there are, and attempts and run become spans.

Anchors, best first (`agno.md` §22.1): the end of the last tool plus the requests after it, minus the run's duration (not streamed); the start of the
first ordinary tool minus the time to the run's first token (streamed); the end of the call that delegated to this run. Without one the whole
seconds of its events and records leave a window, of which the middle is taken.
"""

from __future__ import annotations

from .. import jsonio, model
from ..clock import SECOND
from ..model import ABSENT
from . import spans
from .run import OpenRun, executed
from .schema import array
from .times import MILLI, UNKNOWN, Window, clocks, number, point

_STREAMED = 150 * MILLI
_PLAIN = MILLI


def finish(run: OpenRun, ending: str | None, at: Window = UNKNOWN) -> tuple[int | None, int | None]:
    """Close everything and emit the run's last spans. ``ending`` as the source says, lower case; None when it does not end. Gives start and end."""
    run.ending = ending if ending is not None else run.ending
    run.tick(at)
    plan = run.plan
    _inferred(run)
    for turn in plan.turns if plan is not None else ():
        run.insert(turn)
    _close_request(run)
    run.end_turn(last=True)
    if run.pending:
        run.resolve_pending(at, final=True)
    _leftover_tools(run)
    if run.calls:
        for call in run.calls:
            call.outcome = call.outcome or "aborted"
        for call in list(run.calls):
            run.emit_call(call, run.stretch(call), run.soft)
        run.calls = []
    t = run.attempt
    if t.ending is None:
        t.done = at
        if not run.cut:
            t.ending, t.error = run.ending, run.error
    if plan is not None and plan.turns.trailing:
        t.messages = plan.turns.trailing
    start, end, off = _clock(run)
    run.end = end
    edges = _edges(run, start, end)
    for t, (begin, stop, _) in zip(run.tries, edges, strict=True):
        t.begin, t.stop = begin, stop
    if run.phases:
        for held in run.phases.values():
            for p in held:
                run.emit_phase(p, UNKNOWN, finished=False)
        run.phases = {}
    late, run.late = run.late, []
    base = _retrieval(run, start, off)
    for make in late:
        span = make(base)
        if span.end is not None and (base[0] is None or span.end > base[0]):
            base = (span.end, span.uncertainty)
        run.put(span)
    run.mark(*base)
    start, end = _widen(run, start, end)
    for t in run.tries:
        if t.begin is not None and t.stop is not None and t.stop < t.begin:
            t.stop = t.begin
    stop = run.tries[-1].stop
    end = stop if stop is not None and (end is None or stop > end) else end
    edges = [(t.begin, t.stop, u) for t, (_, _, u) in zip(run.tries, edges, strict=True)]
    for t, (a, b, u) in list(zip(run.tries, edges, strict=True))[run.emitted :]:
        run.trace.put(run.trace, spans.attempt(run, t, a, b, max(u, off if t is run.tries[0] else 0)))
    run.emitted = len(run.tries)
    if run.emitted == 1:
        return start, end
    waits = [
        (edges[k - 1][1], edges[k][0], max(edges[k - 1][2], edges[k][2]))
        for k, t in enumerate(run.tries)
        if k and run.tries[k - 1].ending == "paused"
    ]
    for i, (a, b, u) in list(enumerate(waits))[run.emitted_waits :]:
        run.trace.put(run.trace, spans.wait(run, i, a, b, u))
    run.emitted_waits = len(waits)
    return start, end


def _retrieval(run: OpenRun, start: int | None, off: int) -> tuple[int | None, int]:
    """Knowledge that was looked up before the first request, as phases; what a tool looked up is that tool's call. Gives when it was done."""
    at = start
    if "references" not in run.source:
        return at, off
    searched = run.searched or run.emitted
    for i, raw in enumerate(array(run.source.get("references", ABSENT)) if not searched else ()):
        said = jsonio.fields(raw)
        took = number(said.get("time", ABSENT))
        span = spans.retrieval(run, i, said, at, None if at is None or took is None else at + took, off)
        run.put(span)
        at = span.end if span.end is not None else at
    return at, off


def _widen(run: OpenRun, start: int | None, end: int | None) -> tuple[int | None, int | None]:
    """Attempts and run reach as far as what is in them, where their own clock is not the better one."""
    for i, t in enumerate(run.tries):
        first, last = i == 0, i + 1 == len(run.tries)
        if t.earliest is not None and (t.begin is None or t.earliest < t.begin) and (not first or _loose(run, t.begin, t.earliest)):
            if not first and (before := run.tries[i - 1]).latest is not None and before.stop is not None and t.earliest < before.stop:
                continue
            t.begin = t.earliest
        if last and t.latest is not None and (t.stop is None or t.latest > t.stop) and _loose(run, t.stop, t.latest):
            t.stop = t.latest
    begin, stop = run.tries[0].begin, run.tries[-1].stop
    if begin is not None and (start is None or begin < start):
        start = begin
    if stop is not None and (end is None or stop > end):
        end = stop
    run.end = end
    return start, end


def _loose(run: OpenRun, edge: int | None, reached: int) -> bool:
    return edge is None or run.uncertainty > _STREAMED or abs(edge - reached) <= run.uncertainty


def _inferred(run: OpenRun) -> None:
    """Requests that were concluded from tool events give way to the turns of a record that came at the end (1.1: the last event is one)."""
    if run.request is not None and run.request.inferred and not run.request.inserted:
        run.request.over, run.request.done = True, run.now if run.request.done.lo is None else run.request.done
        run.end_turn(last=True)
    held, run.inferred = run.inferred, []
    if run.plan is not None and run.plan.turns.some:
        if held:
            run.attempt.requests = 0
        return
    for r, last in held:
        run._place(r, last)


def emit_run(run: OpenRun, start: int | None, end: int | None, parent: str | None) -> None:
    run.trace.put(run.trace, spans.run_span(run, start, end, run.uncertainty, parent))


def _close_request(run: OpenRun) -> None:
    """A request that never completed: failed when the run did, cut off when it was cancelled, else open. The record of a cancelled run holds
    what it had said (fixture cancelled/stream-model)."""
    r = run.request
    if r is None or r.over:
        return
    if run.ending == "error":
        r.error = model.Error(type=run.error.type if run.error else None, message=run.error.message if run.error else None)
        r.done = run.now
    elif run.ending == "cancelled":
        r.error = model.Error(type="cancelled")
        r.done = run.now
    elif r.inferred:
        r.over, r.done = True, run.now


def _leftover_tools(run: OpenRun) -> None:
    """Executions that no message asks for: storage dropped the messages (fixture tools/plain-notoolmsg)."""
    if run.plan is None:
        return
    for found in run.plan.tools.rest():
        tool = found[0]
        if not executed(tool) and (run.ending in (None, "completed") or run.cut):
            continue
        call = run._new_call(tool.tool_call_id, None)
        call.name, call.requested_by = tool.tool_name or "", None
        run._fill(call, found)
        call.over = True
        if not executed(tool):
            call.outcome = "pending" if run.ending == "paused" else "aborted"
        run.calls.append(call)
    run.flush_calls(force=True)


def _clock(run: OpenRun) -> tuple[int | None, int | None, int]:
    """Start, end, and by how much they may be off."""
    m = clocks(run.metrics)
    first, last = run.tries[0], run.tries[-1]
    whole = not any(t.link is not None and t.link.type == "continuation_of" for t in run.tries) and run.first_number == 1
    said = first.started
    low, high = first.low, first.high
    if first is not last:
        low = min((t.low for t in run.tries if t.low is not None), default=None)
        high = max((t.high for t in run.tries if t.high is not None), default=None)
    start: int | None = None
    end: int | None = None
    off = 0
    called = next((t for t in run.tries if t.any_tool), None)
    plain = run.plan is not None and not run.plan.turns.streamed
    if plain and whole and m.duration is not None and last.last_tool is not None:
        end = last.last_tool + run.tail
        start = end - m.duration
        off = _PLAIN
        if said.hi is not None and start > said.hi + SECOND // 10:
            start = end = None
    elif not plain and called is not None and called.first_tool is not None and m.first_token is not None:
        start = called.first_tool - m.first_token
        off = _STREAMED
        if not said.holds(start):
            start = None
    if start is None and run.outer is not None and run.outer[1] is not None and m.duration is not None and whole:
        guess = run.outer[1] - m.duration
        if said.holds(guess) and (low is None or guess <= low):
            start, end, off = guess, run.outer[1], _STREAMED
    if start is None:
        if plain and m.duration is not None and said.lo is not None and run.plan is not None:
            # a record is stamped when the model loop began (for the last time): retries, hooks and reasoning came before
            other = m.duration - run.plan.turns.took - run.busy
            said = Window(said.lo - max(0, other), said.hi)
        open_ = said.before(low)
        if run.pauses or run.paused is not None:
            open_ = open_.before(next((p for p in [*run.pauses, run.paused] if p is not None), None))
        if run.outer is not None:
            open_ = open_.after(run.outer[0])
        if m.duration is not None and whole and last.done.lo is not None:
            ended = last.done.moved(-m.duration)
            narrowed = open_.after(ended.lo).before(ended.hi)
            open_ = narrowed
        start, off = open_.pick(), max(open_.slack, off)
        if run.after is not None and run.parent is not None:  # it was started when what came before it had ended
            start = run.after if open_.lo is None else max(open_.lo, min(run.after, open_.hi if open_.hi is not None else run.after))
    if end is None and start is not None and m.duration is not None and whole and run.ending not in (None, "running", "pending"):
        end = start + m.duration
        if high is not None and end < high:
            end = high
    if off and run.low is not None and start is not None and run.low < start:
        start, off = run.low, off + start - run.low
    if end is None:
        high = max((h for h in (high, run.high, run.soft if len(run.tries) > 1 else None, start) if h is not None), default=None)
        open_ = point(run.paused) if run.ending == "paused" and run.paused is not None else last.done.after(high)
        taken = run.plan.turns.took if run.plan else 0
        if open_.hi is None and start is not None and whole and taken:
            open_ = point(max(high or 0, start + taken))
        end, off = open_.pick(), max(off, open_.slack)
        if not whole and run.tail and (begin := last.started.pick()) is not None:
            end = max(end or 0, begin + run.tail)
        if end is None or (high is not None and end < high):
            end = high
    if end is not None and run.ceiling is not None and end > run.ceiling and (high is None or high <= run.ceiling):
        end = run.ceiling
    if start is not None and end is not None and end < start:
        end = start
    run.uncertainty = off
    return start, end, off


def _edges(run: OpenRun, start: int | None, end: int | None) -> list[tuple[int | None, int | None, int]]:
    """Start, end and uncertainty of each attempt, in order, inside the run."""
    if len(run.tries) == 1:
        return [(start, end, 0)]
    found: list[tuple[int | None, int | None, int]] = []
    a, u = start, 0
    pauses = list(run.pauses)
    for i, t in enumerate(run.tries):
        if i + 1 == len(run.tries):
            found.append((a, end, u))
            break
        after = run.tries[i + 1]
        if t.ending == "paused":
            exact = pauses.pop(0) if pauses else None
            stop = (point(exact) if exact is not None else t.done.after(t.high)).after(a)
            begin = after.started.after(stop.pick()).before(after.low)
        else:
            stop = begin = t.done.after(t.high).after(a).before(after.low)
        found.append((a, stop.pick(), max(u, stop.slack)))
        a, u = begin.pick(), begin.slack
    return found


__all__ = ["Window", "emit_run", "finish"]
