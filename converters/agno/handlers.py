"""What each kind of run event does to its run: one function an event, found by its name. What belongs to workflows is in `converters/agno/workflow.py`; which
run an event is of, and what becomes of runs that ended, in `converters/agno/events.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw

from .. import jsonio, model
from ..model import ABSENT
from . import messages, records
from .parts import Request
from .run import OpenRun
from .schema import (
    CallCompleted,
    CallStarted,
    ContentCompleted,
    Delta,
    Event,
    Execution,
    Place,
    Record,
    RequestCompleted,
    RequestStarted,
    Requirement,
    TeamCallCompleted,
    TeamCallStarted,
    TeamContentCompleted,
    TeamDelta,
    TeamRequestCompleted,
    TeamRequestStarted,
    execution,
    executions,
    items,
)
from .times import Window, clocks, number, window

if TYPE_CHECKING:
    from .events import Engine

_NONE: Final[dict[str, Raw]] = {}


def _started(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    run.model, run.provider = e.model or run.model, e.model_provider or run.provider
    run.stated = True
    run.old = e.nested_depth is None
    run.start(run.now)
    run.previous = run.now
    run.attempt.source.update(records.payload(e, odd, records.BESIDE_MODEL))


def _continued(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    run.resume(run.now)
    run.attempt.source.update(odd)


def _infer(run: OpenRun, content: bool) -> None:
    """1.x and streams before 2.4 have no request events: one stands between the start (or the last tool) and what it gave. A call that begins in the
    second in which the one before it ended, with no text between, is taken for the same turn's."""
    if not run.old or not run.stated or run.requests_seen:
        return
    r = run.request
    if r is None or (r.calls and all(c.over for c in r.calls) and (content or run.now.lo != run.previous.lo)):
        run.request_start(Window(run.previous.lo, run.now.hi), None, None, inferred=True)


def _content(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    if run.old:
        _infer(run, True)
    r = run.request
    if r is None or (r.over and not r.inferred):
        run.here.append(records.as_event(e, odd))
        return
    text, thought = jsonio.text(e.content), jsonio.text(e.reasoning_content) or jsonio.text(e.thinking)
    extra = records.payload(e, odd, records.BESIDE_TEXT)
    at = run.now.lo
    r.provider = r.provider or e.model_provider
    if e.model_provider_data:
        _answered_by(r, e.model_provider_data, extra)
    if extra:
        for name in _REPEATED:  # sent again with every delta: kept once
            if name in extra and r.source.setdefault(name, extra[name]) == extra[name]:
                del extra[name]
    if e.content_type is not None and e.content_type != "str":
        extra["content_type"] = model.raw(e.content_type)
    if e.workflow_agent:
        extra["workflow_agent"] = Raw(b"true")
    if thought:
        r.reasoning.append(thought)
        r.chunks.append(model.Chunk(time=at, length=len(thought), part="reasoning", source=extra if not text else {}))
    if text is not None and (text or not thought):
        r.text.append(text)
        r.chunks.append(model.Chunk(time=at, length=len(text), source=extra))
    elif text is None and not jsonio.is_null(e.content):
        r.content = e.content
        r.chunks.append(model.Chunk(time=at, length=0, source={**extra, "content": e.content}))
    elif text is None and not thought:
        r.chunks.append(model.Chunk(time=at, length=0, source=extra))
    if r.inferred and r.first_token is None:
        r.over, r.done = True, run.now
    elif r.inferred:
        r.done = run.now


def _answered_by(r: Request, said: Raw, extra: dict[str, Raw]) -> None:
    """``model_provider_data``, which comes again with every delta: it is kept once."""
    if r.source.setdefault("model_provider_data", said) != said:
        extra["model_provider_data"] = said
    elif r.response_id:
        return
    r.response_id = r.response_id or jsonio.text(jsonio.fields(said).get("id", ABSENT))


def _delta(engine: Engine, run: OpenRun, e: Delta) -> bool:
    """`_content` of a delta of text."""
    if run.old:
        _infer(run, True)
    r = run.request
    if r is None or (r.over and not r.inferred):
        return False
    text, thought = e.content, e.reasoning_content
    extra: dict[str, Raw] = {}
    if e.model_provider_data:
        _answered_by(r, e.model_provider_data, extra)
    if e.content_type is not None and e.content_type != "str":
        extra["content_type"] = model.raw(e.content_type)
    if e.workflow_agent:
        extra["workflow_agent"] = Raw(b"true")
    if thought:
        r.reasoning.append(thought)
        r.chunks.append(model.Chunk(time=run.now.lo, length=len(thought), part="reasoning", source=extra if not text else {}))
    if text is not None and (text or not thought):
        r.text.append(text)
        r.chunks.append(model.Chunk(time=run.now.lo, length=len(text), source=extra))
    elif text is None and not thought:
        r.chunks.append(model.Chunk(time=run.now.lo, length=0, source=extra))
    if r.inferred and r.first_token is None:
        r.over, r.done = True, run.now
    elif r.inferred:
        r.done = run.now
    return True


_REPEATED: Final = ("references", "reasoning_steps", "reasoning_messages", "additional_input", "citations")


def _request_started(engine: Engine, run: OpenRun, e: Event | RequestStarted, odd: dict[str, Raw] = _NONE) -> None:
    run.request_start(run.now, e.model, e.model_provider)
    if odd and run.request is not None:
        run.request.source.update(odd)


def _request_completed(engine: Engine, run: OpenRun, e: Event | RequestCompleted, odd: dict[str, Raw] = _NONE) -> None:
    source = dict(odd)
    if e.time_to_first_token:
        source["time_to_first_token"] = e.time_to_first_token
    if (r := run.request) is not None:
        if e.model is not None and e.model != r.model:
            source["model"] = model.raw(e.model)
        if e.model_provider is not None and e.model_provider != r.provider:
            source["model_provider"] = model.raw(e.model_provider)
    usage = messages.counts(e) if isinstance(e, Event) else messages.stated(e)
    run.request_end(run.now, usage, number(e.time_to_first_token), source)


def tools_of(e: Event | CallStarted | CallCompleted, run: OpenRun, started: bool) -> list[Execution]:
    """The tools an event is about: ``tool``; or, in 1.1, those of the cumulative ``tools`` that are new (or newly answered)."""
    if e.tool:
        try:
            one = execution(e.tool)
        except msgspec.DecodeError:
            pass
        else:
            if one[0].tool_call_id is not None or jsonio.fields(e.tool):
                return [one]
    found = []
    for tool, raw in executions(e.tools) if isinstance(e, Event) else ():
        answered = not (jsonio.is_null(tool.content) and jsonio.is_null(tool.result)) or tool.tool_call_error is not None
        if (started and not answered and run.open_call(tool.tool_call_id) is None) or (
            not started and answered and run.open_call(tool.tool_call_id) is not None
        ):
            found.append((tool, raw))
    return found


def _tool_started(engine: Engine, run: OpenRun, e: Event | CallStarted, odd: dict[str, Raw] = _NONE) -> None:
    if run.old:
        _infer(run, False)
    if run.request is not None and run.request.inferred and not run.request.over:
        run.request.over, run.request.done = True, run.now
    for tool, raw in tools_of(e, run, True):
        call = run.tool_start(run.now, tool, raw)
        if odd:
            call.source.update(odd)


def _tool_completed(engine: Engine, run: OpenRun, e: Event | CallCompleted, odd: dict[str, Raw] = _NONE) -> None:
    for tool, raw in tools_of(e, run, False):
        call = run.open_call(tool.tool_call_id, tool.tool_name)
        if call is not None and call.waiting:
            engine.release(call)
        if call is not None and call.ending:
            engine.completed(call, clocks(tool.metrics).end)
        if call is not None:
            if isinstance(e, Event):
                call.source.update(records.payload(e, odd, records.BESIDE_TOOL))
            if jsonio.is_text(e.content):
                call.source["completed"] = e.content
        run.tool_end(run.now, tool, raw, e.content, call)
    run.previous = run.now


def _tool_error(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    for tool, raw in tools_of(e, run, False):
        call = run.open_call(tool.tool_call_id, tool.tool_name)
        if call is not None and call.waiting:
            engine.release(call)
        if call is not None and call.ending:
            engine.completed(call, None)
        run.tool_error(run.now, tool, raw, jsonio.text(e.error))


def _content_completed(engine: Engine, run: OpenRun, e: Event | ContentCompleted, odd: dict[str, Raw] = _NONE) -> None:
    if odd and isinstance(e, Event):
        run.here.append(records.as_event(e, odd))


def _embedded(engine: Engine, run: OpenRun, e: Event) -> None:
    """Records inside a terminal event are records like any other (`agno.md` §22.5)."""
    for raw in [*(e.member_responses or ()), *(e.step_executor_runs or ())]:
        node = records.node(raw, run.run_id)
        if node is not None:
            records.embedded(engine, run, node)


def _completed(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    run.metrics = e.metrics or run.metrics
    if run.node is None or not run.output:
        run.output = e.content if not jsonio.is_null(e.content) else run.output
    records.terminal(run, e, odd)
    if e.messages and run.plan is None:  # 1.1: the last event is the whole record
        run.plan = records.plan_of(
            records.Node(Record(run_id=run.run_id, messages=e.messages), {}, ABSENT, run.run_id), engine.options.media
        )
    _embedded(engine, run, e)
    engine.flush_thin(run.trace, run.run_id)
    engine.finish(run, run.ending if run.ending in ("cancelled", "error") else records.stated(run) or "completed", run.now)


def _error(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    run.ending = "error"
    text = jsonio.text(e.content) or jsonio.text(e.error)
    run.error = model.Error(type=e.error_type, message=text)
    records.terminal(run, e, odd)
    engine.finish(run, "error", run.now, hold=run.node is None)


def _cancelled(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    """A RunCompleted with the metrics follows (fixture cancelled/stream-model): the run ends there, or with the input."""
    run.ending = "cancelled"
    run.error = model.Error(type="cancelled", message=jsonio.text(e.reason) or jsonio.text(e.content))
    run.terminal = run.now
    run.source.update({k: v for k, v in records.payload(e, odd).items() if k == "reason"})


def _paused(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    run.ending = "paused"
    run.terminal = run.now
    for requirement, _ in items(Requirement, e.requirements):
        at = window(requirement.created_at)
        if at.exact and requirement.tool_execution and run.now.holds(at.lo or 0, 10**9):
            run.paused = max(run.paused or 0, at.lo or 0)
    run.source.update({k: v for k, v in records.payload(e, odd).items() if k in ("requirements",)})
    if run.node is None and not jsonio.is_null(e.content):
        run.output = e.content
    run.pause(executions(e.tools))


HANDLERS: Final[dict[str, Callable[[Engine, OpenRun, Event, dict[str, Raw]], None]]] = {
    "RunStarted": _started,
    "RunContinued": _continued,
    "RunContent": _content,
    "RunIntermediateContent": _content,
    "RunContentCompleted": _content_completed,
    "RunCompleted": _completed,
    "RunError": _error,
    "RunCancelled": _cancelled,
    "RunPaused": _paused,
    "ModelRequestStarted": _request_started,
    "ModelRequestCompleted": _request_completed,
    "ToolCallStarted": _tool_started,
    "ToolCallCompleted": _tool_completed,
    "ToolCallError": _tool_error,
}
FREQUENT: Final[dict[type[Place], Callable[[Engine, OpenRun, Any], bool | None]]] = {
    **dict.fromkeys((Delta, TeamDelta), _delta),
    **dict.fromkeys((RequestStarted, TeamRequestStarted), _request_started),
    **dict.fromkeys((RequestCompleted, TeamRequestCompleted), _request_completed),
    **dict.fromkeys((CallStarted, TeamCallStarted), _tool_started),
    **dict.fromkeys((CallCompleted, TeamCallCompleted), _tool_completed),
    **dict.fromkeys((ContentCompleted, TeamContentCompleted), _content_completed),
}
"""The same for the short forms. False: it is to be handled as an `Event`."""
KNOWN: Final = frozenset(
    {
        "CustomEvent",
        "ReasoningStep",
        "ReasoningContentDelta",
        "TaskStateUpdated",
        "TaskCreated",
        "TaskUpdated",
        "MemoryUpdated",
        "WorkflowAgentStarted",
    }
)
"""Events that have no span and are no surprise."""
HIDDEN: Final = frozenset({"RunContent", "RunContentCompleted", "RunCompleted", "RunIntermediateContent"})
"""What is seen of a run inside another whose events are not shown."""
TERMINAL: Final = frozenset({"RunCompleted", "RunError", "RunCancelled"})

__all__ = ["FREQUENT", "HANDLERS", "HIDDEN", "KNOWN", "TERMINAL", "tools_of"]
