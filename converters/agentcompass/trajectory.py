"""The work of one physical run: requests, calls, sub-agents, found in a `Result` by the shape of what it holds.

Order of preference: chat messages (they have the times), stream-json events, thread events, session events, ACTF steps. Nothing is counted
from two of them. Where request boundaries are not on disk (thread events) there are no request spans, only turns with their totals.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from msgspec import Raw

from .. import ids
from ..errors import Report
from ..jsonio import fields, is_null, text
from ..model import ABSENT, AnySpan, Attempt, Error, Message, ModelRequest, Phase, Run, TextPart, ToolCall, Usage, Value
from .result import CONSUMED, Result
from .said import Answer, Call, Place, Said, Work, arguments_of, assemble, message, parts_of, usage_of
from .schema import Zone, absent, integer, items, kind, number, plain, words
from .shapes import Stream, Window, chat, session, steps, stream_json


@dataclass(slots=True)
class Found:
    """Spans of one physical run, children before parents, and what is known of the whole. ``usage``: totals that no request states;
    ``shape``: which record they were read from; ``taken``: the members of ``artifacts`` that it was."""

    spans: list[AnySpan] = field(default_factory=list)
    work: Work = field(default_factory=Work)
    window: Window = field(default_factory=Window)
    usage: Usage | None = None
    conversation: str | None = None
    messages: list[Message] = field(default_factory=list)
    prompt: Raw = field(default_factory=absent)
    shape: str | None = None
    taken: set[str] = field(default_factory=set)
    attributes: dict[str, Value] = field(default_factory=dict)

    def end(self) -> int | None:
        return max((t for s in self.spans if (t := s.end if s.end is not None else s.start) is not None), default=None)

    def start(self) -> int | None:
        return min((s.start for s in self.spans if s.start is not None and s.clock != "synthetic"), default=None)


def _looks(raws: list[Raw]) -> str | None:
    """What a list holds, by its first objects."""
    for raw in raws[:8]:
        f = fields(raw)
        type = text(f.get("type", ABSENT)) or ""
        inner = f.get("message", ABSENT)
        if "role" in f and "type" not in f:
            return "chat"
        if type.startswith(("thread.", "turn.", "item.")):
            return "thread"
        if kind(inner) == "object" and "role" in fields(inner):
            return "stream" if type in ("assistant", "user") else "session"
        if "role" in f:
            return "chat"
    return None


def _candidates(result: Result) -> dict[str, tuple[str, list[Raw]]]:
    """Lists in ``artifacts`` (and a trajectory that is a list) by shape."""
    found: dict[str, tuple[str, list[Raw]]] = {}
    for name, raw in result.artifacts.items():
        if name in CONSUMED and name != "messages":
            continue
        what = kind(raw)
        listed = items(raw) if what == "array" else items(fields(raw).get("messages", ABSENT)) if what == "object" else []
        if listed and (shape := _looks(listed)) is not None:
            found.setdefault(shape, (name, listed))
    if result.listed and (shape := _looks(result.listed)) is not None:
        found.setdefault(shape, ("", result.listed))
    return found


def read(result: Result, place: Place, zone: Zone, report: Report) -> Found:
    """The spans of ``result``'s physical run, under ``place``."""
    found = Found(window=Window(zone.moment(result.started), zone.moment(result.finished)))
    lists = _candidates(result)
    said: list[Said] = []
    if "chat" in lists:
        said = chat(lists["chat"][1], zone, found.window)
        if result.steps and not any(s.request for s in said):
            said = []
        _instructions(said, result)
    if said:
        found.shape = "chat"
    elif "stream" in lists:
        found.shape = "stream"
        first = fields(result.steps[0]) if result.steps else {}
        stream = stream_json(lists["stream"][1], zone, found.window, text(first.get("user_content", ABSENT)))
        found.conversation = stream.session
        said = stream.said
    elif "thread" in lists:
        found.shape = "thread"
        _thread(lists["thread"][1], place, found)
    elif "session" in lists:
        found.shape = "session"
        said = session(lists["session"][1], zone, found.window)
    elif result.steps:
        found.shape = "steps"
        said = steps(result.steps, zone, found.window)
        _single(said, result)
    if found.shape in lists:
        found.taken.add(lists[found.shape][0])
    if found.conversation is not None:
        place = replace(place, conversation=found.conversation)
    if said:
        found.work = assemble(said, place)
        found.prompt = _first_prompt(said)
    _calls_of_metrics(result, found, zone)
    children: list[AnySpan] = []
    if found.shape == "stream":
        children = _stream_children(stream, place, found, report)
        _totals(stream, found)
    children.extend(_sub_agents(result, found.work.calls, place, zone, report))
    found.spans = [*children, *found.work.in_order(), *found.spans]
    if found.shape not in (None, "steps") and result.steps:
        report.loss("trajectory.steps[]", "dropped", len(result.steps), "the same work is read from artifacts, with its times")
    if found.work.orphans:
        report.note("orphan-answer", "a tool result that answers no call of its conversation", count=found.work.orphans)
    if found.work.clamped:
        report.note("clamped", "a derived time moved into its phase", "info", count=found.work.clamped)
    if found.work.outside:
        report.note("outside-phase", "a stated time lies outside of its phase and is kept", "info", count=found.work.outside)
    return found


def _instructions(said: list[Said], result: Result) -> None:
    """The steps' system prompt, where no message holds it: all that steps have beyond messages."""
    first = next((s for s in said if s.request), None)
    if first is None or any(s.message is not None and s.message.role == "system" for s in said) or not result.steps:
        return
    if prompt := text(fields(result.steps[0]).get("system_prompt", ABSENT)):
        first.system = [TextPart(prompt)]


def _first_prompt(said: list[Said]) -> Raw:
    """The text of the first user message."""
    for one in said:
        if one.message is not None and one.message.role == "user":
            texts = [p.content for p in one.message.parts if isinstance(p, TextPart)]
            return Raw(msgspec.json.encode("\n".join(texts))) if texts else ABSENT
    return ABSENT


def _single(said: list[Said], result: Result) -> None:
    """Where the one request's whole answer is kept beside the steps, it knows cached tokens and cost (fixture: openai-chat)."""
    requests = [s for s in said if s.request]
    if len(requests) != 1:
        return
    for raw in result.artifacts.values():
        if kind(raw) == "object" and (stated := fields(raw).get("usage", ABSENT)) and (usage := usage_of(stated)) is not None:
            one = requests[0]
            if one.usage is None or (one.usage.input, one.usage.output) == (usage.input, usage.output):
                one.usage = usage
                one.source["usage"] = stated
            return


def _calls_of_metrics(result: Result, found: Found, zone: Zone) -> None:
    """``metrics.llm_calls`` of an artifact (openhands, from source): times, model and usage of each response, by its id, else in order."""
    for raw in result.artifacts.values():
        listed = items(fields(fields(raw).get("metrics", ABSENT)).get("llm_calls", ABSENT)) if kind(raw) == "object" else []
        if not listed or found.shape != "steps":
            continue
        calls = [fields(c) for c in listed]
        by_id = {words(c.get("id", ABSENT)): c for c in calls}
        in_order = len(calls) == len(found.work.requests)
        for i, r in enumerate(found.work.requests):
            call = by_id.get(r.response_id) if r.response_id is not None else calls[i] if in_order else None
            if call is None:
                continue
            start, end = zone.moment(call.get("started_at", ABSENT)), zone.moment(call.get("finished_at", ABSENT))
            found.work.requests[i] = msgspec.structs.replace(
                r,
                start=start if start is not None else r.start,
                end=end if start is not None else r.end,
                clock="recorded" if start is not None and end is not None else r.clock,
                response_id=words(call.get("id", ABSENT)) or r.response_id,
                response_model=words(call.get("model", ABSENT)) or r.response_model,
                usage=usage_of(call.get("usage", ABSENT)) or r.usage,
                inferred=False,
            )


# ----------------------------------------------------------------------------------------------------- stream-json
def _totals(stream: Stream, found: Found) -> None:
    """The closing totals: of output tokens there is no other count (page §12.10)."""
    usage = usage_of(stream.result.get("usage", ABSENT))
    cost = number(stream.result.get("total_cost_usd", ABSENT))
    if usage is not None:
        usage.cost = None if cost is None else float(cost)
    found.usage = usage
    for key in ("duration_ms", "duration_api_ms", "num_turns", "ttft_ms", "subtype", "terminal_reason"):
        if isinstance(value := plain(stream.result.get(key, ABSENT)), str | int | float):
            found.attributes[f"agentcompass.session.{key}"] = value


def _stream_children(stream: Stream, place: Place, found: Found, report: Report) -> list[AnySpan]:
    """Sub-agents of a CLI agent: events with ``parent_tool_use_id`` are a run of their own under the call that made it."""
    out: list[AnySpan] = []
    made = {c.call_id: c for c in found.work.calls}
    for call_id, said in stream.children.items():
        call = made.get(call_id)
        arguments = fields(call.arguments) if call is not None else {}
        name = words(arguments.get("subagent_type", ABSENT)) or "sub-agent"
        window = (call.start, call.end) if call is not None else place.window
        child = _Child(f"sub-agent-{call_id}", name, call.id if call is not None else place.parent, window)
        child.input, child.output = arguments.get("prompt", ABSENT), call.result if call is not None else ABSENT
        out.extend(_child_run(child, said, place, report))
    return out


# ---------------------------------------------------------------------------------------------------- sub-agents
@dataclass(slots=True)
class _Child:
    key: str
    name: str
    parent: str
    window: tuple[int | None, int | None]
    input: Raw = field(default_factory=absent)
    output: Raw = field(default_factory=absent)
    status: str | None = None
    error: str | None = None
    usage: Usage | None = None
    native: str | None = None
    stated: bool = False
    source: dict[str, Raw] = field(default_factory=dict)


def _child_run(child: _Child, said: list[Said], place: Place, report: Report) -> list[AnySpan]:
    """A run inside the run, with its one attempt."""
    run = ids.span_id(place.trace, place.owner, f"run-{place.retry}/{child.key}")
    attempt = ids.span_id(place.trace, run, "attempt", "1")
    broken = place.broken or child.status not in (None, "completed")
    window = child.window if child.stated else (None, None)
    inside = replace(place, owner=attempt, parent=attempt, window=window, broken=broken)
    work = assemble(said, inside)
    start = child.window[0] if child.window[0] is not None else work.start()
    end = child.window[1] if child.window[1] is not None else work.end()
    error = Error(type=child.status, message=child.error) if child.error or child.status in ("error", "failed") else None
    common: dict[str, Any] = {
        "trace_id": place.trace,
        "start": start,
        "end": end,
        "clock": "recorded" if child.stated else "derived",
        "reused": place.reused,
        "status": "error" if error is not None else "ok" if child.status == "completed" else "unset",
        "error": error,
        "attributes": place.attributes,
        "ending": child.status,
    }
    return [
        *work.in_order(),
        Attempt(id=attempt, name=f"{child.name} attempt 1", key="1", parent_id=run, number=1, **common),
        Run(
            id=run,
            name=child.name,
            key=f"run-{place.retry}/{child.key}",
            parent_id=child.parent,
            type="agent",
            native_id=child.native,
            model=place.model,
            input=child.input,
            output=child.output,
            usage=child.usage,
            source=child.source,
            **common,
        ),
    ]


def _prompts(call: ToolCall) -> set[tuple[str, int | None]]:
    """(prompt, index) of each sub-agent that a call's arguments ask for."""
    found: set[tuple[str, int | None]] = set()
    for raw in fields(call.arguments).values():
        for entry in items(raw):
            f = fields(entry)
            if (prompt := text(f.get("prompt", ABSENT))) is not None:
                found.add((prompt, integer(f.get("index", ABSENT))))
    return found


def _sub_agents(result: Result, calls: list[ToolCall], place: Place, zone: Zone, report: Report) -> list[AnySpan]:
    """``artifacts.sub_agents``: runs under the call that made them, found by prompt and index, else by time (page §12.2; fixture: multi-agent).
    ``sequence`` counts the sub-agents of the attempt, not the calls."""
    out: list[AnySpan] = []
    asked = [(call, _prompts(call)) for call in calls]
    for nth, raw in enumerate(items(result.artifacts.get("sub_agents", ABSENT)), 1):
        f = fields(raw)
        sequence, index = integer(f.get("sequence", ABSENT)), integer(f.get("index", ABSENT))
        prompt = text(f.get("prompt", ABSENT))
        start, end = zone.moment(f.pop("started_at", ABSENT)), zone.moment(f.pop("finished_at", ABSENT))
        fitting = [c for c, wanted in asked if prompt is not None and (prompt, index) in wanted]
        timed = [c for c in (fitting or [c for c, wanted in asked if wanted] or calls) if _inside(start, c)]
        call = timed[0] if timed else fitting[0] if fitting else None
        if call is None:
            report.note("no-parent-call", "a sub-agent whose call is not found stands under its attempt")
        child = _Child(
            f"sub-agent-{sequence if sequence is not None else nth}", "sub-agent", call.id if call else place.parent, (start, end)
        )
        child.stated = start is not None and end is not None
        child.input, child.output = f.pop("prompt", ABSENT), f.pop("response", ABSENT)
        child.status, child.error = text(f.pop("status", ABSENT)), text(f.pop("error", ABSENT)) or None
        child.usage = usage_of(f.get("metrics", ABSENT))
        child.native = str(sequence) if sequence is not None else None
        messages = items(f.pop("messages", ABSENT))
        t = fields(f.pop("trajectory", ABSENT))
        window = Window(start, end)
        said = chat(messages, zone, window)
        if not any(s.request for s in said):
            said = steps(items(t.get("steps", ABSENT)), zone, window) or said
        elif listed := items(t.get("steps", ABSENT)):
            report.loss("artifacts.sub_agents[].trajectory.steps[]", "dropped", len(listed), "the same work is read from its messages")
        child.source = {k: v for k, v in f.items() if not is_null(v)}
        out.extend(_child_run(child, said, place, report))
    return out


def _inside(time: int | None, call: ToolCall) -> bool:
    return time is not None and call.start is not None and call.end is not None and call.start <= time <= call.end


# -------------------------------------------------------------------------------------------------- thread events
_ITEM_TOOLS = {"command_execution": "shell", "file_change": "apply_patch", "mcp_tool_call": None, "web_search": "web_search"}


def _thread(events: list[Raw], place: Place, found: Found) -> None:
    """Thread events of a CLI agent: no times and no request boundaries. A turn is a phase with its totals, its items are calls; what was said goes to
    the attempt's messages. How many requests there were, nothing on disk says."""
    turns: list[dict[str, Any]] = []
    started: dict[str, dict[str, Raw]] = {}
    totals: list[Usage] = []

    def turn() -> dict[str, Any]:
        if not turns or turns[-1].get("done"):
            turns.append({"id": ids.span_id(place.trace, place.owner, f"run-{place.retry}/turn-{len(turns)}"), "items": {}, "source": {}})
        return turns[-1]

    for raw in events:
        f = fields(raw)
        type = text(f.get("type", ABSENT)) or ""
        if type == "thread.started":
            found.conversation = text(f.get("thread_id", ABSENT))
        elif type == "turn.started":
            turn()
        elif type in ("item.started", "item.updated", "item.completed"):
            item = fields(f.get("item", ABSENT))
            key = words(item.get("id", ABSENT)) or f"#{len(turn()['items'])}"
            turn()["items"][key] = (item, type == "item.completed")
            started[key] = item
        elif type in ("turn.completed", "turn.failed"):
            one = turn()
            one["done"], one["failed"] = True, type == "turn.failed"
            one["error"] = words(fields(f.get("error", ABSENT)).get("message", ABSENT)) or words(f.get("error", ABSENT))
            if not is_null(stated := f.get("usage", ABSENT)):
                one["source"]["usage"] = stated
                if (counted := usage_of(stated)) is not None:
                    one["usage"] = counted
                    totals.append(counted)
        elif type == "error":
            one = turn()
            one["error"] = words(f.get("message", ABSENT))
    low = place.window[0]
    for nth, one in enumerate(turns):
        for key, (item, done) in one["items"].items():
            call = _item_call(item, done, key, one["id"], nth, place, found.conversation)
            if call is not None:
                found.spans.append(call)
                found.work.calls.append(call)
            elif (said := text(item.get("text", item.get("message", ABSENT)))) is not None:
                what = text(item.get("type", ABSENT))
                parts = parts_of(ABSENT, item["text"]) if what == "reasoning" else parts_of(item.get("text", item.get("message", ABSENT)))
                found.messages.append(message("assistant", parts) if said else Message(role="assistant", parts=[]))
        attributes = dict(place.attributes)
        usage: Usage | None = one.get("usage")
        for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
            if usage is not None and (count := getattr(usage, name)) is not None:
                attributes[f"spanport.usage.{name}"] = count
        failed = bool(one.get("failed")) or (one.get("error") is not None and not one.get("done"))
        found.spans.append(
            Phase(
                id=one["id"],
                trace_id=place.trace,
                name="turn",
                key=f"run-{place.retry}/turn-{nth}",
                parent_id=place.parent,
                start=low,
                clock="synthetic",
                unfinished=not one.get("done"),
                reused=place.reused,
                status="error" if failed else "unset",
                error=Error(type="turn_failed", message=one.get("error")) if failed else None,
                attributes=attributes,
                source=one["source"],
                type="turn",
                retry=place.retry,
                conversation_id=found.conversation,
            )
        )
    found.usage = _sum(totals)
    found.work.calls = []


def _item_call(
    item: dict[str, Raw], done: bool, key: str, parent: str, nth: int, place: Place, conversation: str | None
) -> ToolCall | None:
    type = text(item.get("type", ABSENT)) or ""
    if type not in _ITEM_TOOLS:
        return None
    f = {k: v for k, v in item.items() if k not in ("id", "type")}
    name = _ITEM_TOOLS[type] or words(f.pop("tool", ABSENT)) or type
    server = words(f.pop("server", ABSENT))
    result = f.pop("aggregated_output", f.pop("result", ABSENT))
    asked = {k: f.pop(k) for k in ("command", "query", "changes", "arguments") if k in f}
    arguments = (
        asked["arguments"]
        if "arguments" in asked
        else Raw(b"{" + b",".join(b'"%s":%s' % (k.encode(), bytes(v)) for k, v in asked.items()) + b"}")
    )
    status = text(f.get("status", ABSENT))
    attributes: dict[str, Value] = dict(place.attributes)
    if (code := integer(f.get("exit_code", ABSENT))) is not None:
        attributes["agentcompass.exit_code"] = code
    failure = words(fields(f.get("error", ABSENT)).get("message", ABSENT)) or words(f.get("error", ABSENT))
    # "failed" with an exit code says no more than the code does, which alone is no error (page §12.6).
    failed = failure is not None or (status == "failed" and code is None)
    outcome = "aborted" if not done else "rejected" if status == "declined" else "error" if failed else "ok"
    call = Call(name, None, *arguments_of(arguments))
    return ToolCall(
        id=ids.span_id(place.trace, place.owner, f"run-{place.retry}/turn-{nth}/item-{key}"),
        trace_id=place.trace,
        name=name,
        key=f"item-{key}",
        parent_id=parent,
        start=place.window[0],
        clock="synthetic",
        unfinished=not done,
        reused=place.reused,
        status="unset" if outcome == "ok" else "error",
        error=None
        if outcome == "ok"
        else Error(type="tool" if outcome == "error" else "refused" if outcome == "rejected" else "aborted", message=failure),
        attributes=attributes,
        source=f,
        call_id=key if not key.startswith("#") else None,
        server=server,
        type=type,
        arguments=call.arguments,
        result=Answer(ABSENT if is_null(result) else result).content,
        outcome=outcome,  # type: ignore[arg-type]
        conversation_id=conversation,
        retry=place.retry,
    )


def _sum(totals: list[Usage]) -> Usage | None:
    if not totals:
        return None
    whole = Usage()
    for name in Usage.__struct_fields__:
        known = [v for u in totals if (v := getattr(u, name)) is not None]
        if known:
            setattr(whole, name, sum(known))
    return whole


__all__ = ["Found", "ModelRequest", "read"]
