"""From what is known of a request, a call, a phase, an attempt or a run to its span: times chosen from their windows, fields put where they
belong. Pure functions of the open run; nothing here reads a record or changes the run, but for what an attempt learns of its own limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Raw
from msgspec.structs import astuple

from .. import jsonio, model
from ..model import ABSENT, Outcome
from . import messages
from .schema import Tool
from .times import NO_CLOCKS, Window, point, window

if TYPE_CHECKING:
    from .parts import Call, OpenPhase, Request, Try
    from .run import OpenRun

_NEVER_RAN: Final = (
    ("Error: The requested tool", "unknown_tool"),
    ("Error while decoding function arguments", "invalid_arguments"),
    ("Tool call limit reached.", "limit"),
)
_SUSPECT: Final = frozenset({b'"E', b'"T', b'"\\'})
"""How the JSON of one of these begins, escapes included."""
_NULL: Final = Raw(b"null")
_FINE: Final[tuple[Outcome, None]] = ("ok", None)
_TRUE: Final = Raw(b"true")
_FALSE: Final = Raw(b"false")
_TOOL_TYPED = frozenset({"tool_call_id", "tool_name", "tool_args", "result", "content", "role"})


def said(r: Request) -> model.Message:
    """A request's output as its events show it: the deltas of its text and the calls that followed."""
    parts: list[model.Part] = []
    if r.reasoning:
        parts.append(model.ReasoningPart("".join(r.reasoning)))
    if r.text:
        parts.append(model.TextPart("".join(r.text)))
    elif r.content:
        parts += messages.content_parts(r.content)
    return model.Message(role="assistant", parts=parts + list(r.asked))


def request(run: OpenRun, r: Request, first_tool: int | None, base: tuple[int | None, int], tool_off: int = 0) -> model.ModelRequest:
    """The request's span. ``first_tool``: when the first of its calls began (± ``tool_off``); ``base``: when the thing before it ended, where the request does not know.

    It begins when what came before it ended (a tool, the start of the run), and ends when its first tool begins; else the seconds of its events and its own
    duration bound it (`agno.md` §14.3)."""
    turn = r.turn
    times = turn.clocks if turn is not None else NO_CLOCKS
    after, off = (r.after, r.after_off) if r.after is not None else base
    start, end = r.started, r.done
    t = run.tries[-1] if run.tries[-1].id == r.parent else run.attempt_of(r.parent)
    if t is not None and t.begin is not None and (after is None or after < t.begin or (t.stop is not None and after > t.stop)):
        after, off = t.begin, base[1]
    follows = after is not None and (first_tool is None or after <= first_tool) and start.holds(after)
    if follows:
        start = Window(after, after)
    else:
        start, off = start.after(after).before(first_tool), 0
    if times.duration is not None and r.inserted:
        if first_tool is not None:
            start, end, off = point(max(after or 0, first_tool - times.duration)), point(first_tool), max(off, tool_off)
        else:
            if not follows and run.end is not None:
                start = start.before(run.end - times.duration)
            end = start.moved(times.duration)
    else:
        limit = first_tool if first_tool is not None else r.limit
        if limit is None and r is run.request_last and not r.followed:
            limit = run.end
        if r.first_token is not None and start.lo is not None:
            end = end.after(start.lo + r.first_token)
        if limit is not None and (end.lo is None or end.holds(limit)):
            end = Window(limit, limit)
        else:
            end = end.after(start.lo).before(limit if limit is not None else t.stop if t is not None else None)
    a, b, near = start.lo, end.lo, off
    if a != start.hi or b != end.hi:
        a, b, near = start.pick(), end.pick(), max(start.slack, end.slack, off)
    if a is not None and b is not None and b < a:
        b = a
    unfinished = not r.over and r.error is None
    return model.ModelRequest(
        id=r.id,
        trace_id=run.trace.id,
        parent_id=r.parent,
        name=r.model or "",
        key=r.key,
        start=a,
        end=None if unfinished else b,
        clock="derived",
        uncertainty=near,
        unfinished=unfinished,
        status="error" if r.error is not None else "ok" if r.over else "unset",
        error=r.error,
        events=r.events,
        source=r.source,
        provider=messages.provider(r.provider),
        model=r.model,
        response_id=turn.response_id if turn is not None else r.response_id,
        input_messages=r.input,
        output_messages=r.output,
        history=r.history,
        chunks=r.chunks,
        conversation_id=run.session,
        agent=run.name or None,
        usage=r.usage,
        time_to_first_token=r.first_token if r.first_token is not None else times.first_token,
        inferred=r.inferred,
    )


def outcome(run: OpenRun, call: Call) -> tuple[Outcome, str | None]:
    """What became of a call, and the type of its error (`agno.md` §22.3): a refusal, then what never ran, then a stated error; a call that was
    begun and never completed was aborted."""
    if call.outcome is not None:
        return call.outcome, None if call.outcome == "pending" else "aborted"
    tool = call.tool
    if tool is not None and tool.confirmed is False:
        return "rejected", "refused"
    if (kind := _never_ran(call)) is not None:
        return "rejected", kind
    if not call.over:
        return "aborted", "aborted"
    answered = call.answer is not None and call.answer.record.tool_call_error is True
    if call.failed or call.error is not None or answered or (tool is not None and tool.tool_call_error is True):
        return "error", "tool"
    return _FINE


def _never_ran(call: Call) -> str | None:
    """Why a call was not executed, by what Agno answers then. A result may be long: only one that begins alike is decoded."""
    tool = call.tool
    for raw in (
        ABSENT if call.answer is None else call.answer.record.content,
        ABSENT if tool is None else tool.result,
        ABSENT if tool is None else tool.content,
    ):
        if not raw:
            continue
        start = bytes(memoryview(raw)[:2])
        if start in _SUSPECT:
            if text := jsonio.text(raw):
                return next((kind for beginning, kind in _NEVER_RAN if text.startswith(beginning)), None)
        elif start[:1] == b'"' and start != b'""':
            return None
    return None


def tool_call(run: OpenRun, call: Call, start: int | None, end: int | None, clock: model.Clock, uncertainty: int) -> model.ToolCall:
    verdict, kind = outcome(run, call)
    tool, answer = call.tool, call.answer
    arguments, result = ABSENT, ABSENT
    source = dict(call.source)
    if tool is not None:
        if not jsonio.is_null(tool.tool_args):
            arguments = tool.tool_args
            if (text := jsonio.text(arguments)) is not None:
                arguments = jsonio.inner(text)
        result = tool.result if not jsonio.is_null(tool.result) else tool.content if not jsonio.is_null(tool.content) else ABSENT
        _beside(tool, call, source)
    if not arguments and call.requested is not None:
        arguments = messages.call_part(call.requested).arguments
    if not result and answer is not None and not jsonio.is_null(answer.record.content):
        result = answer.record.content
    error = None
    if verdict in ("error", "rejected", "aborted"):
        error = model.Error(type=kind, message=call.error or (jsonio.text(result) if verdict != "aborted" else None))
    unfinished = not call.over
    return model.ToolCall(
        id=call.id,
        trace_id=run.trace.id,
        parent_id=call.parent,
        name=call.name,
        key=call.key,
        start=start,
        end=None if unfinished else end,
        clock=clock,
        uncertainty=uncertainty,
        unfinished=unfinished,
        status="error" if error is not None else "ok" if verdict == "ok" else "unset",
        error=error,
        events=call.events,
        source=source,
        call_id=call.call_id,
        type="function",
        arguments=arguments,
        result=result,
        outcome=verdict,
        requested_by=call.requested_by,
        conversation_id=run.session,
        agent=run.name or None,
    )


_START, _END, _MOMENT, _REST = 3, 6, 8, 9
"""Where in a tool's fields the kinds of them begin: error, result and metrics, which come with its end; what else may be known of its run; the time of its
record; what belongs to people and approvals."""
_OPEN: Final = ((None, ABSENT, ABSENT), (None, _NULL, _NULL), (False, _NULL, _NULL))
_NOBODY: Final = (astuple(Tool())[_REST:], astuple(Tool(user_input_schema=_NULL, user_feedback_schema=_NULL))[_REST:])


def _beside(tool: Tool, call: Call, source: dict[str, Raw]) -> None:
    """What an execution says beside name, arguments and result; and what the start of the call showed otherwise."""
    end = astuple(tool)
    if tool.__class__ is Tool and tool.child_run_id is None and not tool.stop_after_tool_call and end[_REST:] in _NOBODY:
        if tool.tool_call_error is not None:
            source["tool_call_error"] = _TRUE if tool.tool_call_error else _FALSE
        if tool.metrics and tool.metrics != _NULL:
            source["metrics"] = tool.metrics
        if tool.created_at and tool.created_at != _NULL:
            source["created_at"] = tool.created_at
    else:
        kept = {k: v for k, v in jsonio.fields(call.raw).items() if v != _NULL and k not in _TOOL_TYPED}
        if kept.get("stop_after_tool_call") == _FALSE:
            del kept["stop_after_tool_call"]
        source.update(kept)
    if call.first is None or call.first[1] is call.raw:
        return
    first, raw = call.first
    start = astuple(first)
    if (
        first.__class__ is tool.__class__ is Tool
        and start[:_START] == end[:_START]
        and start[_START:_END] in _OPEN
        and start[_END:_MOMENT] == end[_END:_MOMENT]
        and start[_REST:] == end[_REST:]
    ):
        return
    now = jsonio.fields(call.raw)
    changed = {k: v for k, v in jsonio.fields(raw).items() if v != _NULL and v != _FALSE and k != "created_at" and now.get(k) != v}
    if changed:
        source["started"] = model.raw(changed)


def phase(run: OpenRun, p: OpenPhase, at: Window, finished: bool, base: tuple[int | None, int]) -> model.Phase:
    """A phase's span; a workflow step takes the times of the run that executed it where those are narrower."""
    after, off = (p.after, p.after_off) if p.after is not None else base
    start, end = p.started, at
    if after is not None and start.holds(after):
        start = point(after)
    else:
        start, off = start.after(after).before(run.end), 0
    lows = [w.lo for w in p.children if w.lo is not None]
    highs = [w.hi for w in p.children if w.hi is not None]
    if lows:  # what it holds says more than the seconds of its events
        start = point(min(lows))
    if highs:
        end = point(max(highs))
    else:
        end = end.after(start.lo).before(run.end)
    if end.lo is None and finished and not highs:
        end = start
    a, b = start.pick(), end.pick()
    if a is not None and b is not None and b < a:
        b = a
    return model.Phase(
        id=p.id,
        trace_id=run.trace.id,
        parent_id=p.parent,
        name=p.name,
        key=p.key,
        start=a,
        end=b if finished else None,
        clock="synthetic" if a is None or (at.lo is None and not highs) else "derived",
        uncertainty=max(start.slack, end.slack, off),
        unfinished=not finished,
        status="error" if p.error is not None else p.status,
        error=p.error,
        events=p.events,
        source=p.source,
        attributes=p.attributes,
        type=p.type,
        operation=p.operation,
        conversation_id=run.session,
        input=p.input,
        output=p.output,
    )


_STATUS: dict[str, model.Status] = {"completed": "ok", "error": "error", "failed": "error", "cancelled": "error"}


def attempt(run: OpenRun, t: Try, start: int | None, end: int | None, uncertainty: int) -> model.Attempt:
    ending = t.ending
    unfinished = ending in (None, "running", "pending")
    return model.Attempt(
        id=t.id,
        trace_id=run.trace.id,
        parent_id=run.id,
        name=f"attempt {t.number}",
        key=f"attempt/{t.number}",
        number=t.number,
        start=start,
        end=None if unfinished else end,
        clock="derived",
        uncertainty=uncertainty,
        unfinished=unfinished,
        status=_STATUS.get(ending or "", "unset"),
        error=t.error,
        events=t.events,
        links=[t.link] if t.link is not None else [],
        source=t.source,
        messages=t.messages,
        conversation_id=run.session,
        ending=ending,
    )


def run_span(run: OpenRun, start: int | None, end: int | None, uncertainty: int, parent: str | None) -> model.Run:
    ending = run.ending
    unfinished = ending in (None, "running", "pending") or run.cut_off
    links = []
    if parent is None and run.unknown_parent is not None:
        links.append(model.Link(trace_id=run.trace.id, span_id=run.trace.span(run.unknown_parent), type="part_of"))
    return model.Run(
        id=run.id,
        trace_id=run.trace.id,
        parent_id=parent,
        name=run.name,
        key=run.run_id,
        start=start,
        end=None if unfinished else end,
        clock="derived",
        uncertainty=uncertainty,
        unfinished=unfinished,
        status=_STATUS.get(ending or "", "unset"),
        error=run.error,
        events=run.events,
        links=links,
        attributes=run.attributes,
        source=run.source,
        type=run.kind,
        native_id=run.run_id,
        agent_id=run.agent_id,
        conversation_id=run.session,
        user_id=run.user,
        model=run.model,
        provider=messages.provider(run.provider),
        input=run.input,
        output=run.output,
        usage=messages.usage(run.metrics),
        ending=ending,
    )


def retrieval(run: OpenRun, number: int, said: dict[str, Raw], start: int | None, end: int | None, uncertainty: int) -> model.Phase:
    """A look-up in the knowledge before the first request: query, what was found, and how long it took."""
    t = run.tries[0]
    return model.Phase(
        id=run.trace.span(run.run_id, "attempt", str(t.number), "retrieval", str(number)),
        trace_id=run.trace.id,
        parent_id=t.id,
        name="knowledge retrieval",
        key=f"retrieval/{number}",
        start=start,
        end=end if end is not None else start,
        clock="derived",
        uncertainty=uncertainty,
        status="ok",
        type="retrieval",
        operation="retrieval",
        conversation_id=run.session,
        input=said.get("query", ABSENT),
        output=said.get("references", ABSENT),
    )


def wait(run: OpenRun, number: int, start: int | None, end: int | None, uncertainty: int) -> model.Phase:
    """The time between a pause and its continuation: a person's, not a tool's."""
    if start is not None and end is not None and end < start:
        end = start
    return model.Phase(
        id=run.trace.span(run.run_id, "wait", str(number)),
        trace_id=run.trace.id,
        parent_id=run.id,
        name="waiting for a person",
        key=f"wait/{number}",
        start=start,
        end=end,
        clock="derived",
        uncertainty=uncertainty,
        type="wait",
        conversation_id=run.session,
    )


__all__ = ["attempt", "phase", "request", "run_span", "said", "tool_call", "wait", "window"]
