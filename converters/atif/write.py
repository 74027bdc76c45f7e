"""Write ATIF: trajectories that the ``atif`` package accepts, from any format's spans.

A step is a message or a model request; a step's observation holds the answers of its own calls, wherever in the conversation they came. Runs inside a run
become embedded sub-agents. What ATIF demands and a source does not know (an agent's name or version, a call's id) is written as ``unknown`` or numbered,
and told to the report. Several runs are written one a line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Raw

from .. import clock, jsonio
from ..errors import Report
from ..history import plain
from ..model import (
    ABSENT,
    AnySpan,
    Attempt,
    BlobPart,
    Item,
    Message,
    ModelRequest,
    Part,
    ReasoningPart,
    Run,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
    Usage,
    raw,
)
from ..registry import WriteOptions
from ..units import Unit, in_order, traces, units

VERSION: Final = "ATIF-v1.8"
STATED: Final = "spanport.atif.version"
UNKNOWN: Final = "unknown"
_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_DEEPEST: Final = 50
_METRICS: Final = (
    ("prompt_tokens", "input"),
    ("completion_tokens", "output"),
    ("cached_tokens", "cache_read"),
    ("cost_usd", "cost"),
)


def write(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions) -> None:
    """One trajectory as a document, several as lines."""
    found = [u for header, spans in traces(items) for u in units(header, spans)]
    if not found:
        report.note("nothing", "no run in it", "lost")
        return
    for unit in found:
        data = msgspec.json.encode(Document(unit, report).trajectory())
        if len(found) == 1:
            out.write(msgspec.json.format(data, indent=2) + b"\n")
        else:
            out.write(msgspec.json.format(data, indent=-1) + b"\n")


def stamp(ns: int) -> str:
    """UTC with ``Z``, microseconds when there are any."""
    return clock.to_iso(ns).replace("+00:00", "Z").replace(".000000Z", "Z")


class Document:
    """One unit as a trajectory."""

    def __init__(self, unit: Unit, report: Report) -> None:
        self.unit, self.report = unit, report
        self.by_id: dict[str, AnySpan] = {s.id: s for s in unit.spans}
        self.runs = [s for s in unit.spans if isinstance(s, Run)]
        top = unit.run if unit.run is not None and unit.run.id in self.by_id else None
        self.top = top.id if top is not None else None

    def trajectory(self) -> dict[str, Any]:
        """The document of the unit's own run (or attempt), with those inside it."""
        inside: dict[str | None, list[AnySpan]] = {}
        parents: dict[str | None, list[Run]] = {}
        for span in self.unit.spans:
            home = self._home(span)
            inside.setdefault(home, []).append(span)
            if isinstance(span, Run) and span.id != self.top:
                parents.setdefault(self._home(span, skip=True), []).append(span)
        return self._one(self.unit.run, self.top, inside, parents, 0)

    def _home(self, span: AnySpan, skip: bool = False) -> str | None:
        """The id of the run that ``span`` belongs to; None outside of any run of the unit. ``skip``: not the span itself."""
        at: AnySpan | None = span
        steps = 0
        while at is not None and steps < 10_000:
            if isinstance(at, Run) and not (skip and at is span):
                return at.id
            at = self.by_id.get(at.parent_id) if at.parent_id is not None else None
            steps += 1
        return None

    def _one(
        self, run: Run | None, home: str | None, inside: dict[str | None, list[AnySpan]], parents: dict[str | None, list[Run]], depth: int
    ) -> dict[str, Any]:
        spans = inside.get(home, [])
        attempts = sorted((s for s in spans if isinstance(s, Attempt)), key=lambda a: a.number)
        attempt = attempts[-1] if attempts else self.unit.attempt if home == self.top else None
        stated = attempt.attributes.get(STATED) if attempt is not None else None
        own = isinstance(stated, str)
        source = dict(run.source) if run is not None and own else {}
        requests = [s for s in spans if isinstance(s, ModelRequest)]
        calls = [s for s in spans if isinstance(s, ToolCall)]
        if not own:  # a trajectory's own order does not depend on its clocks
            requests, calls = in_order(requests), in_order(calls)
        children = parents.get(home, []) if depth < _DEEPEST else []
        made = Steps(own, run, attempts, requests, calls, children, self.report).steps()
        steps = [{"step_id": number, **step} for number, step in enumerate(made, 1)]
        found: dict[str, Any] = {"schema_version": stated if own else VERSION}
        session = run.conversation_id if run is not None else None
        if session is None and not own:
            session = run.native_id if run is not None else self.unit.header.name
        if session is not None:
            found["session_id"] = session
        stated_id = run.attributes.get("spanport.atif.trajectory_id") if run is not None else None
        if stated_id is not None:
            found["trajectory_id"] = stated_id
        elif depth and run is not None:
            found["trajectory_id"] = _number(run)
        elif self.unit.many and not own and self.unit.attempt is not None:
            found["trajectory_id"] = self.unit.attempt.id
        found["agent"] = self._agent(run, attempt, requests, source, own)
        found["steps"] = steps
        totals = _totals(attempt, run, requests, source, own, len(steps))
        if totals:
            found["final_metrics"] = totals
        below = [self._one(child, child.id, inside, parents, depth + 1) for child in children]
        if below:
            found["subagent_trajectories"] = _unique(below)
        if not own and (extra := _outcome(run, attempt)):
            found["extra"] = extra
        for name, value in source.items():
            if name not in ("agent", "final_metrics", "tool_definitions", "schema_version"):
                found[name] = value
        return found

    def _agent(
        self, run: Run | None, attempt: Attempt | None, requests: list[ModelRequest], source: dict[str, Raw], own: bool
    ) -> dict[str, Any]:
        name = attempt.agent if attempt is not None and attempt.agent is not None else run.name if run is not None else ""
        version = run.attributes.get("gen_ai.agent.version") if run is not None else None
        found: dict[str, Any] = {}
        found["name"] = name or ("" if own else UNKNOWN)
        if version is not None or not own:
            found["version"] = version if isinstance(version, str) else UNKNOWN
        if not own and not (name and version):
            self.report.loss("agent.version" if name else "agent.name", "derived", reason="ATIF demands one; the source has none")
        model = run.model if run is not None and run.model else None
        if model is None and not own:
            model = next((r.model for r in requests if r.model), None)
        if model is not None:
            found["model_name"] = model
        tools = source.get("tool_definitions") or next((r.tool_definitions for r in requests if r.tool_definitions), ABSENT)
        if tools and bytes(memoryview(tools)[:1]) == b"[":
            found["tool_definitions"] = tools
        found.update(jsonio.fields(source.get("agent", ABSENT)))
        return found


class Steps:
    """The steps of one run, in order."""

    def __init__(
        self,
        own: bool,
        run: Run | None,
        attempts: list[Attempt],
        requests: list[ModelRequest],
        calls: list[ToolCall],
        children: list[Run],
        report: Report,
    ) -> None:
        self.own, self.run, self.attempts, self.requests, self.calls, self.report = own, run, attempts, requests, calls, report
        self.by_number: dict[str, deque[ToolCall]] = {}
        for call in calls:
            if call.call_id is not None:
                self.by_number.setdefault(call.call_id, deque()).append(call)
        self.below: dict[str | None, list[Run]] = {}
        for child in children:
            self.below.setdefault(child.parent_id, []).append(child)
        self.asked: dict[str, deque[dict[str, Any]]] = {}
        self.done: set[str] = set()
        self.made: list[dict[str, Any]] = []
        self.agent_step: dict[str, Any] | None = None
        self.numbered = 0
        self.numbers: set[str | None] | None = None

    def steps(self) -> list[dict[str, Any]]:
        seen: dict[str | None, list[Message]] = {}
        system: dict[str | None, list[Part]] = {}
        loose = deque(c for c in self.calls if not self._asked_for(c)) if not self.own else deque[ToolCall]()
        if not self.requests and self.run is not None and not self.own:
            self._bare()
        for request in self.requests:
            while loose and loose[0].start is not None and request.start is not None and loose[0].start < request.start:
                self._dispatch(loose.popleft())
            key = request.agent or request.parent_id
            if not self.own and request.system_instructions and system.get(key) != request.system_instructions:
                system[key] = request.system_instructions
                self._message(Message(role="system", parts=request.system_instructions), request.start)
            before = seen.setdefault(key, [])
            fresh = request.input_messages if request.history is not None else _new(request.input_messages, before)
            for message in fresh:
                self._message(message, request.start)
            self._request(request)
            before.extend([*fresh, *request.output_messages])
        for attempt in self.attempts:
            for message in attempt.messages:
                self._message(message, None)
        while loose:
            self._dispatch(loose.popleft())
        for call in self.calls:
            if call.id not in self.done and not self.own and call.outcome not in ("pending", "aborted"):
                self._answer(call, call.result, None)
        return self.made

    def _asked_for(self, call: ToolCall) -> bool:
        if self.numbers is None:
            self.numbers = {p.id for r in self.requests for m in r.output_messages for p in m.parts if isinstance(p, ToolCallPart)}
        return call.call_id is not None and call.call_id in self.numbers

    def _bare(self) -> None:
        """A run without any request: its input and its output."""
        assert self.run is not None
        if self.run.input:
            self.made.append(_timed({"source": "user", "message": _words(self.run.input)}, self.run.start))
        if self.run.output and not self.attempts_hold_messages():
            self.agent_step = _timed({"source": "agent", "message": _words(self.run.output)}, self.run.end)
            self.made.append(self.agent_step)

    def attempts_hold_messages(self) -> bool:
        return any(a.messages for a in self.attempts)

    # -- messages
    def _message(self, message: Message, fallback: int | None) -> None:
        if message.role == "tool" and any(isinstance(p, ToolCallResponsePart) for p in message.parts):
            for part in message.parts:
                if isinstance(part, ToolCallResponsePart):
                    self._response(part, message)
            return
        if message.role == "assistant":
            step = self._agent_fields(message, dict(message.source))
            step.setdefault("source", "agent")
            self._place(step, message.time)
            self.agent_step = step
            return
        role = message.role if message.role in ("user", "system") else "system" if message.role == "developer" else "user"
        step = {"source": role, "message": message.source.get("message") or _content(message.parts)}
        if self.own:
            step.update({k: v for k, v in message.source.items() if k not in ("message", "timestamp")})
            if "timestamp" in message.source:
                step["timestamp"] = message.source["timestamp"]
        self._place(step, message.time if message.time is not None or self.own else fallback)

    def _place(self, step: dict[str, Any], time: int | None) -> None:
        self.made.append(_timed(step, time))

    def _agent_fields(self, message: Message, source: dict[str, Raw]) -> dict[str, Any]:
        """Members of an agent step that its message holds; registers its calls."""
        step: dict[str, Any] = {"source": "agent", "message": source.pop("message", None) or _content(message.parts)}
        thoughts = [p.content for p in message.parts if isinstance(p, ReasoningPart)]
        if thoughts:
            step["reasoning_content"] = "\n".join(thoughts)
        calls = [self._nested(p, step) for p in message.parts if isinstance(p, ToolCallPart)]
        if calls:
            step["tool_calls"] = calls
        if self.own:
            if "metrics" in source:
                step["metrics"] = source.pop("metrics")
            step.update(source)
        return step

    def _nested(self, part: ToolCallPart, step: dict[str, Any]) -> dict[str, Any]:
        number = part.id
        if number is None and not self.own:
            self.numbered += 1
            number = f"call_{self.numbered}"
        found: dict[str, Any] = {}
        if number is not None:
            found["tool_call_id"] = number
            self.asked.setdefault(number, deque()).append(step)
        held = self.by_number.get(number) if number is not None else None
        known = next((c for c in held if c.id not in self.done), None) if held and not self.own else None
        found["function_name"] = known.name if known is not None and known.server else part.name
        found["arguments"] = _object(part.arguments) if not self.own else part.arguments or Raw(b"{}")
        call = next((c for c in held if "extra" in c.source), None) if held and self.own else None
        if call is not None:
            found["extra"] = call.source["extra"]
        elif known is not None and known.server:
            found["extra"] = {"tool_server": known.server}
        return found

    # -- answers
    def _response(self, part: ToolCallResponsePart, message: Message) -> None:
        queue = self.by_number.get(part.id) if part.id is not None else None
        call = next((c for c in queue if c.id not in self.done), None) if queue else None
        if call is not None:
            if self.own or part.id in self.asked:
                self._answer(call, part.response, message)
            else:
                self._dispatch(call)
            return
        found: dict[str, Any] = {}
        if part.id is not None and (not self.agent_step or not self.agent_step.get("tool_calls") or part.id in self.asked):
            found["source_call_id"] = part.id
        self._result(found, part.response, self.asked.get(part.id or ""), message)

    def _answer(self, call: ToolCall, response: Raw, message: Message | None) -> None:
        self.done.add(call.id)
        if not response or jsonio.is_null(response):
            response = call.result
        found: dict[str, Any] = {"source_call_id": call.call_id} if call.call_id is not None else {}
        if "result.extra" in call.source:
            found["extra"] = call.source["result.extra"]
        elif not self.own and call.outcome in ("error", "rejected"):
            found["extra"] = {"is_error": True}
            if call.error is not None and call.error.type:
                found["extra"]["error_type"] = call.error.type
            if not response and call.error is not None and call.error.message:
                response = raw(call.error.message)
        if "subagent_trajectory_ref" in call.source:
            found["subagent_trajectory_ref"] = call.source["subagent_trajectory_ref"]
        elif below := self.below.get(call.id):
            found["subagent_trajectory_ref"] = [{"trajectory_id": _number(r)} for r in below]
        self._result(found, response, self.asked.get(call.call_id or ""), message)

    def _result(self, found: dict[str, Any], response: Raw, homes: deque[dict[str, Any]] | None, message: Message | None) -> None:
        if response and not jsonio.is_null(response):
            found["content"] = response if self.own else _words(response)
        if self.own and message is not None:
            found.update({k: v for k, v in message.source.items() if k not in found})
        home = homes[0] if homes else self.agent_step
        if homes and len(homes) > 1:
            homes.popleft()
        if home is None:
            home = _timed({"source": "system", "message": ""}, message.time if message is not None else None)
            self.made.append(home)
        number = found.get("source_call_id")
        if (
            not self.own
            and number is not None
            and "tool_calls" in home
            and all(c.get("tool_call_id") != number for c in home["tool_calls"])
        ):
            del found["source_call_id"]
            found.setdefault("extra", {})["call_id"] = number
        home.setdefault("observation", {"results": []})["results"].append(found)

    def _dispatch(self, call: ToolCall) -> None:
        """A call that no model asked for: a step of its own."""
        if call.id in self.done:
            return
        self.numbered += call.call_id is None
        number = call.call_id or f"call_{self.numbered}"
        nested: dict[str, Any] = {"tool_call_id": number, "function_name": call.name, "arguments": _object(call.arguments)}
        if call.server:
            nested["extra"] = {"tool_server": call.server}
        step = _timed({"source": "agent", "message": "", "llm_call_count": 0, "tool_calls": [nested]}, call.start)
        self.made.append(step)
        kept = self.agent_step
        self.agent_step = step
        self._answer(msgspec.structs.replace(call, call_id=number), call.result, None)
        self.agent_step = kept

    # -- requests
    def _request(self, request: ModelRequest) -> None:
        parts = [p for m in request.output_messages for p in m.parts]
        message = Message(role="assistant", parts=parts)
        source = dict(request.source) if self.own else {}
        step = self._agent_fields(
            message, {k: v for k, v in source.items() if k not in ("metrics", "model_name", "timestamp", "reasoning_effort")}
        )
        default = self.run.model if self.run is not None else None
        if request.model and (request.model != default or (self.own and "model_name" in source)):
            step["model_name"] = request.model
        if (effort := request.parameters.get("reasoning_effort")) is not None and not isinstance(effort, list | dict | bool):
            step["reasoning_effort"] = effort
        elif "reasoning_effort" in source:
            step["reasoning_effort"] = source["reasoning_effort"]
        metrics = _metrics(request.usage, source.get("metrics", ABSENT), self.own)
        if metrics or (self.own and request.usage is not None):
            step["metrics"] = metrics
        if "timestamp" in source:
            step["timestamp"] = source["timestamp"]
        elif self.own:
            step = _timed(step, next((m.time for m in request.output_messages if m.time is not None), None))
        else:
            step = _timed(step, request.end if request.clock != "synthetic" else None)
        if not self.own and request.reused:
            step["is_copied_context"] = True
        self.made.append(step)
        self.agent_step = step


# ------------------------------------------------------------------------------------------------------------ pieces
def _number(run: Run) -> str:
    stated = run.attributes.get("spanport.atif.trajectory_id")
    return stated if isinstance(stated, str) else run.native_id or run.id


def _unique(below: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Trajectory ids made unique within their parent, as ATIF demands."""
    seen: set[str] = set()
    for child in below:
        base, n = str(child.get("trajectory_id")), 1
        while child.get("trajectory_id") in seen:
            n += 1
            child["trajectory_id"] = f"{base}-{n}"
        seen.add(str(child.get("trajectory_id")))
    return below


def _timed(step: dict[str, Any], time: int | None) -> dict[str, Any]:
    """The step with its timestamp, when it has one."""
    if time is not None and "timestamp" not in step:
        step["timestamp"] = stamp(time)
    return step


def _words(value: Raw) -> str:
    found = jsonio.text(value)
    return found if found is not None else jsonio.minify(value).decode("utf-8", "replace")


def _object(arguments: Raw) -> Any:
    """Arguments as the object that ATIF demands; anything else under the name ``arguments``."""
    if bytes(memoryview(arguments)[:1]) == b"{":
        return arguments
    return {"arguments": arguments} if arguments and not jsonio.is_null(arguments) else {}


def _content(parts: list[Part]) -> Any:
    """Text, or content parts when there is an image or audio that ATIF can refer to."""
    shown = [p for p in parts if not isinstance(p, ReasoningPart | ToolCallPart | ToolCallResponsePart)]
    if any(isinstance(p, UriPart | BlobPart) and _media(p) is not None for p in shown):
        return [found for p in shown if (found := _media(p)) is not None]
    return "\n".join(p.content if isinstance(p, TextPart) else msgspec.json.encode(p).decode() for p in shown)


def _media(part: Part) -> dict[str, Any] | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.content}
    if isinstance(part, UriPart | BlobPart) and part.modality in ("image", "audio") and part.mime_type:
        if part.modality == "image" and part.mime_type not in _IMAGES:
            return {"type": "text", "text": msgspec.json.encode(part).decode()}
        path = part.uri if isinstance(part, UriPart) else f"data:{part.mime_type};base64,{part.content}"
        return {"type": part.modality, "source": {"media_type": part.mime_type, "path": path}}
    return {"type": "text", "text": msgspec.json.encode(part).decode()}


def _metrics(usage: Usage | None, rest: Raw, own: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if usage is not None:
        found = {name: value for name, field in _METRICS if (value := getattr(usage, field)) is not None}
        extra = {"reasoning_tokens": usage.reasoning, "cache_creation_input_tokens": usage.cache_write}
        if not own and (known := {k: v for k, v in extra.items() if v}):
            found["extra"] = known
    found.update(jsonio.fields(rest))
    return found


def _totals(
    attempt: Attempt | None, run: Run | None, requests: list[ModelRequest], source: dict[str, Raw], own: bool, steps: int
) -> dict[str, Any]:
    usage = attempt.usage if attempt is not None else None
    if usage is None and not own:
        counted = [r.usage for r in requests if r.usage is not None and not r.reused]
        if counted:
            sums = {n: [v for u in counted if (v := getattr(u, n)) is not None] for n in Usage.__struct_fields__}
            usage = Usage(**{n: sum(v) for n, v in sums.items() if v})
        elif run is not None:
            usage = run.usage
    found: dict[str, Any] = {}
    if usage is not None:
        found = {f"total_{name}": value for name, field in _METRICS if (value := getattr(usage, field)) is not None}
    if not own:
        found["total_steps"] = steps
    found.update(jsonio.fields(source.get("final_metrics", ABSENT)))
    return found


def _outcome(run: Run | None, attempt: Attempt | None) -> dict[str, Any]:
    """How it ended and what it was worth, for which ATIF has no fields."""
    found: dict[str, Any] = {}
    for span in (attempt, run):
        if span is None:
            continue
        if span.ending is not None:
            found.setdefault("status", span.ending)
        if span.error is not None:
            found.setdefault("error", span.error.message or span.error.type)
        if span.verdict is not None:
            found.setdefault("verdict", span.verdict)
        if span.scores and "scores" not in found:
            found["scores"] = [
                {k: v for k, v in (("name", s.name), ("value", s.value), ("label", s.label)) if v is not None} for s in span.scores
            ]
    return found


def _new(given: list[Message], before: list[Message]) -> list[Message]:
    """Messages that a request sends besides those before it."""
    count = 0
    for known, message in zip(before, given, strict=False):
        x, y = plain(known), plain(message)
        if x.role != y.role or x.parts != y.parts:
            break
        count += 1
    return given[count:] if before else given
