"""What each kind of run event does to its run: one function an event, found by its name. What belongs to workflows is in `converters/agno/workflow.py`; which
run an event is of, and what becomes of runs that ended, in `converters/agno/events.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from .. import jsonio, model
from ..model import ABSENT
from . import messages, records
from .run import OpenRun
from .schema import Event, Execution, Record, Requirement, executions, items
from .times import Window, clocks, number, window

if TYPE_CHECKING:
    from .events import Engine


def _started(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    run.model, run.provider = e.model or run.model, e.model_provider or run.provider
    run.stated = True
    run.old = e.nested_depth is None
    run.start(run.now)
    run.previous = run.now
    run.attempt.source.update({k: v for k, v in records.payload(e, odd).items() if k not in ("model", "model_provider")})


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
        r.response_id = r.response_id or jsonio.text(jsonio.fields(e.model_provider_data).get("id", ABSENT))
        if r.source.setdefault("model_provider_data", e.model_provider_data) != e.model_provider_data:
            extra["model_provider_data"] = e.model_provider_data
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


_REPEATED: Final = ("references", "reasoning_steps", "reasoning_messages", "additional_input", "citations")


def _request_started(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    run.request_start(run.now, e.model, e.model_provider)
    if odd and run.request is not None:
        run.request.source.update(odd)


def _request_completed(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    source = dict(odd)
    if e.time_to_first_token:
        source["time_to_first_token"] = e.time_to_first_token
    if (r := run.request) is not None:
        for name, value, known in (("model", e.model, r.model), ("model_provider", e.model_provider, r.provider)):
            if value is not None and value != known:
                source[name] = model.raw(value)
    run.request_end(run.now, messages.counts(e), number(e.time_to_first_token), source)


def tools_of(e: Event, run: OpenRun, started: bool) -> list[Execution]:
    """The tools an event is about: ``tool``; or, in 1.1, those of the cumulative ``tools`` that are new (or newly answered)."""
    if e.tool:
        found = executions([e.tool])
        if found and (found[0][0].tool_call_id is not None or jsonio.fields(e.tool)):
            return found
    found = []
    for tool, raw in executions(e.tools):
        answered = not (jsonio.is_null(tool.content) and jsonio.is_null(tool.result)) or tool.tool_call_error is not None
        if (started and not answered and run.open_call(tool.tool_call_id) is None) or (
            not started and answered and run.open_call(tool.tool_call_id) is not None
        ):
            found.append((tool, raw))
    return found


def _tool_started(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    _infer(run, False)
    if run.request is not None and run.request.inferred and not run.request.over:
        run.request.over, run.request.done = True, run.now
    for tool, raw in tools_of(e, run, True):
        call = run.tool_start(run.now, tool, raw)
        call.source.update(odd)


def _tool_completed(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    for tool, raw in tools_of(e, run, False):
        call = run.open_call(tool.tool_call_id, tool.tool_name)
        if call is not None and call.waiting:
            engine.release(call)
        if call is not None and call.ending:
            engine.completed(call, clocks(tool.metrics).end)
        text = jsonio.text(e.content)
        if call is not None:
            call.source.update(records.payload(e, odd, records.BESIDE_TOOL))
            if text is not None:
                call.source["completed"] = e.content
        run.tool_end(run.now, tool, raw, text)
    run.previous = run.now


def _tool_error(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    for tool, raw in tools_of(e, run, False):
        call = run.open_call(tool.tool_call_id, tool.tool_name)
        if call is not None and call.waiting:
            engine.release(call)
        if call is not None and call.ending:
            engine.completed(call, None)
        run.tool_error(run.now, tool, raw, jsonio.text(e.error))


def _content_completed(engine: Engine, run: OpenRun, e: Event, odd: dict[str, Raw]) -> None:
    if odd:
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

__all__ = ["HANDLERS", "HIDDEN", "KNOWN", "TERMINAL", "tools_of"]
