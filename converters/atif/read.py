"""Read ATIF trajectories into spans: a run with one attempt, a model request for each agent step, a span for each tool call with a result.

A step has one time: it is the end of its request, and bounds the calls of the step before it (``derived``, with that uncertainty). A
trajectory that SimLab wrote is rebuilt from what it carries (`converters.simlab.trajectory`). Files that a reference names are never opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from .. import clock, cutoff, ids, jsonio
from ..errors import ReadError, Report
from ..history import Chain
from ..model import (
    ABSENT,
    AnySpan,
    Attempt,
    Clock,
    Error,
    Event,
    Item,
    Link,
    Message,
    ModelRequest,
    Part,
    ReasoningPart,
    Repair,
    Run,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    TraceHeader,
    UriPart,
    Usage,
    Value,
    raw,
)
from ..registry import ReadOptions
from ..simlab import trajectory
from ..simlab.trace import single
from ..source import Source
from . import schema

FAMILY: Final = "atif"
_MAY: Final = re.compile(r"\[?(\{(subagent_trajectories\[\{)*((steps|subagent_trajectories)\[)?)?")
"""What of a document that breaks off may be given in part: a trajectory, and the lists of steps and of trajectories in it."""
_object = msgspec.json.Decoder(dict[str, Raw])
_raws = msgspec.json.Decoder(list[Raw])
_NULL: Final = Raw(b"null")
_DEEPEST: Final = 50
T = TypeVar("T", bound=Struct)


# --------------------------------------------------------------------------------------------------------- decoding
def typed(given: Raw, kind: type[T]) -> tuple[T, dict[str, Raw]]:
    """``given`` as ``kind`` and the members that do not fit it (unknown, or of another type)."""
    try:
        return msgspec.json.decode(given, type=kind), {}
    except (msgspec.DecodeError, RecursionError):
        pass
    odd: dict[str, Raw] = {}
    good: dict[str, Any] = {}
    types = {f.name: f.type for f in msgspec.structs.fields(kind)}
    for name, value in jsonio.fields(given).items():
        try:
            if types[name] is Raw:
                good[name] = value
            elif not jsonio.is_null(value):
                good[name] = msgspec.json.decode(value, type=types[name])
        except (KeyError, msgspec.DecodeError, RecursionError):
            odd[name] = value
    return kind(**good), odd


def content(given: Raw, odd: dict[str, Raw]) -> list[Part]:
    """A step's message: text, or parts (since 1.6). A part of an unknown kind keeps the message in ``odd``."""
    if jsonio.is_null(given):
        return []
    if (words := jsonio.text(given)) is not None:
        return [TextPart(words)] if words else []
    parts: list[Part] = []
    found = jsonio.value(given)
    for item in found if isinstance(found, list) else [found]:
        if isinstance(item, dict) and isinstance(item.get("text"), str):
            parts.append(TextPart(item["text"]))
        elif isinstance(item, dict) and isinstance(source := item.get("source"), dict) and isinstance(source.get("path"), str):
            mime = source.get("media_type")
            parts.append(UriPart(str(item.get("type", "file")), source["path"], mime if isinstance(mime, str) else None))
    odd["message"] = given
    return parts


def usage(given: Raw) -> tuple[Usage | None, dict[str, Raw]]:
    """A step's metrics, and what of them has no place in `Usage`."""
    if jsonio.is_null(given):
        return None, {}
    found, odd = typed(given, schema.Metrics)
    more = jsonio.value(found.extra)
    more = more if isinstance(more, dict) else {}

    def count(*names: str) -> int | None:
        return next((more[n] for n in names if isinstance(more.get(n), int) and not isinstance(more.get(n), bool)), None)

    for name in ("prompt_token_ids", "completion_token_ids", "logprobs", "extra"):
        if value := getattr(found, name):
            odd[name] = value
    return Usage(
        input=found.prompt_tokens,
        output=found.completion_tokens,
        cache_read=found.cached_tokens,
        cache_write=count("cache_creation_input_tokens", "cache_write_tokens"),
        reasoning=count("reasoning_tokens", "reasoning_output_tokens"),
        cost=found.cost_usd,
    ), odd


def totals(given: Raw) -> tuple[Usage | None, dict[str, Raw]]:
    """``final_metrics`` as a roll-up, and the rest."""
    if jsonio.is_null(given):
        return None, {}
    found, odd = typed(given, schema.FinalMetrics)
    if found.extra:
        odd["extra"] = found.extra
    if found.total_steps is not None:
        odd["total_steps"] = raw(found.total_steps)
    sums = Usage(
        input=found.total_prompt_tokens,
        output=found.total_completion_tokens,
        cache_read=found.total_cached_tokens,
        cost=found.total_cost_usd,
    )
    stated = any(getattr(sums, f) is not None for f in Usage.__struct_fields__)
    return (sums if stated else None), odd


def _time(text: str | None) -> int | None:
    if not text:
        return None
    try:
        return clock.from_iso(text)
    except (ValueError, OverflowError):
        return None


# ------------------------------------------------------------------------------------------------------------- input
def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """A trace for each trajectory: one document, a list of them, or one a line. A broken line is reported and passed over."""
    some = False
    failure: ReadError | None = None
    for fields, repairs, open_ in _documents(source, report):
        if isinstance(fields, ReadError):
            failure = failure or fields
            continue
        some = True
        if trajectory.is_simlab(fields):
            record = trajectory.document(fields, report)
            record.cut = bool(open_)
            yield from single(record, "atif", report, repairs=repairs)
        else:
            yield from _trace(fields, repairs, report, open_)
    if not some:
        raise failure or ReadError("no trajectory in it", input=source.name)


_Found = tuple[dict[str, Raw] | ReadError, list[Repair], str]


def _documents(source: Source, report: Report) -> Iterator[_Found]:
    """Each trajectory (or what is wrong with it), the repairs, and what of it the end of the file cut (`cutoff.Part.open`; nothing for a whole one)."""
    if source.object is not None:
        data: bytes | memoryview = jsonio.encode_object(source.object)
    else:
        data = source.data()
    if not data:
        raise ReadError("the file is empty", input=source.name, byte=0)
    repairs: list[Repair] = []
    if bytes(data[:64]).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
        found, open_ = cutoff.decode(data, _raws.decode, report, _MAY, repairs=repairs)
        for n, item in enumerate(found):
            inside = (open_ or "")[1:] if n + 1 == len(found) else ""
            if bytes(memoryview(item)[:1]) == b"{":
                yield _object.decode(item), repairs, inside
            else:
                yield ReadError("expected a trajectory object"), repairs, ""
        return
    lines = source.object is None and b"\n" in bytes(data[: 1 << 16]) and bytes(data[:2]) not in (b"{\n", b"{\r")
    try:
        if lines:
            yield _checked(jsonio.decode(data, _object.decode, report, repairs=repairs), source), repairs, ""
        else:
            fields, open_ = cutoff.decode(data, _object.decode, report, _MAY, repairs=repairs)
            yield _checked(fields, source), repairs, open_ or ""
        return
    except ReadError as error:
        if not lines:
            raise
        first = error
    good = 0
    for line in source.lines():
        if not line.data.strip():
            continue
        found_: list[Repair] = []
        told = Report(report.input, report.strict)
        try:
            fields, open_ = cutoff.decode(line.data, _object.decode, told, _MAY, line=line.number, offset=line.offset, repairs=found_)
            _checked(fields, source)
        except ReadError as error:
            report.note("bad-line", error.message, "lost", line=line.number, byte=error.byte, path=error.path)
            continue
        report.merge(told)
        good += 1
        yield fields, found_, open_ or ""
    if not good:
        raise first


def _checked(fields: dict[str, Raw], source: Source) -> dict[str, Raw]:
    if bytes(memoryview(fields.get("steps", ABSENT))[:1]) != b"[":
        raise ReadError("no list of steps in it: not an ATIF trajectory", input=source.name, path="$.steps")
    return fields


# ------------------------------------------------------------------------------------------------------------- spans
def run_key(fields: dict[str, Raw]) -> list[str]:
    """Session and trajectory id; without any, agent and first step (so that a longer copy keeps the ids)."""
    stated = [jsonio.text(fields.get(n, ABSENT)) for n in ("session_id", "trajectory_id")]
    if any(stated):
        return [s or "" for s in stated]
    first = next(iter(_raws.decode(fields["steps"])), ABSENT)
    return ["", blake2b(bytes(fields.get("agent", ABSENT)) + bytes(first), digest_size=12).hexdigest()]


def _trace(fields: dict[str, Raw], repairs: list[Repair], report: Report, open_: str) -> Iterator[Item]:
    key = run_key(fields)
    trace = ids.trace_id(FAMILY, *key)
    yield TraceHeader(id=trace, family=FAMILY, format="atif", run_key=key, name=key[0] or key[1] or None, repairs=repairs)
    yield from _Trajectory(fields, trace, ("run",), None, report, 0, open_).spans()


class _Trajectory:
    """One trajectory: a run, its attempt, and what the steps hold."""

    def __init__(
        self, fields: dict[str, Raw], trace: str, path: tuple[str, ...], parent: str | None, report: Report, depth: int, open_: str = ""
    ) -> None:
        self.fields, self.trace, self.path, self.parent, self.report, self.depth = fields, trace, path, parent, report, depth
        self.cut = open_ != ""  # its end is not in the file
        self.open = open_.partition("subagent_trajectories[")[2]  # the same of the last of its sub-agents
        self.agent, self.odd_agent = typed(fields.get("agent", ABSENT) or Raw(b"{}"), schema.Agent)
        self.run_id = ids.span_id(trace, *path)
        self.attempt_path = (*path, "attempt", "1")
        self.attempt_id = ids.span_id(trace, *self.attempt_path)
        self.session = jsonio.text(fields.get("session_id", ABSENT))
        self.children = self._embedded()
        self.used: set[str] = set()

    def _embedded(self) -> dict[str, dict[str, Raw]]:
        given = self.fields.get("subagent_trajectories", ABSENT)
        found: dict[str, dict[str, Raw]] = {}
        if bytes(memoryview(given)[:1]) == b"[":
            for place, item in enumerate(_raws.decode(given)):
                inside = jsonio.fields(item)
                if bytes(memoryview(inside.get("steps", ABSENT))[:1]) == b"[":
                    found[jsonio.text(inside.get("trajectory_id", ABSENT)) or f"#{place}"] = inside
                else:
                    path = f"$.subagent_trajectories[{place}]"
                    self.report.note("no-steps", "a sub-agent's trajectory without steps", "lost", path=path, record=item)
        return found

    def _id(self, *path: str) -> str:
        return ids.span_id(self.trace, *self.attempt_path, *path)

    def spans(self) -> Iterator[AnySpan]:
        steps = _raws.decode(self.fields["steps"])
        times: list[int | None] = []
        for step in steps:
            try:
                times.append(_time(jsonio.text(jsonio.fields(step).get("timestamp", ABSENT))))
            except ReadError:
                times.append(None)
        chain, waiting, events = Chain(), [], []
        before: int | None = None
        final: list[Part] = []
        for index, step in enumerate(steps):
            found, odd = typed(step, schema.Step)
            now = times[index]
            bound = next((t for t in times[index + 1 : index + 64] if t is not None), None)
            if found.source != "agent":
                message, more = self._plain(found, odd, now)
                waiting.append(message)
                events.extend(more)
            else:
                request, calls, answers = self._agent_step(index, found, odd, before, now, bound, waiting, chain)
                if request is not None:
                    waiting = []
                    yield request
                    final = [p for m in request.output_messages for p in m.parts if isinstance(p, TextPart)]
                for call, references in calls:
                    yield call
                    for reference in references:
                        yield from self._child(reference, call.id, (*self.attempt_path, "tool", call.key))
                waiting.extend(answers)
            before = now if now is not None else before
        for name, inside in self.children.items():
            if name not in self.used:
                self.used.add(name)
                yield from self._below(inside, self.attempt_id, (*self.attempt_path, "run", name))
        yield from self._ends(times, waiting, events, final)

    def _child(self, reference: schema.Reference, parent: str, path: tuple[str, ...]) -> Iterator[AnySpan]:
        name = reference.trajectory_id
        if name is not None and name in self.children and name not in self.used:
            self.used.add(name)
            yield from self._below(self.children[name], parent, (*path, "run", name))

    def _below(self, fields: dict[str, Raw], parent: str, path: tuple[str, ...]) -> Iterator[AnySpan]:
        if self.depth >= _DEEPEST:
            self.report.note("too-deep", f"sub-agents nested deeper than {_DEEPEST}", "lost")
            return
        open_ = self.open if fields is next(reversed(self.children.values())) else ""
        yield from _Trajectory(fields, self.trace, path, parent, self.report, self.depth + 1, open_).spans()

    def _plain(self, step: schema.Step, odd: dict[str, Raw], now: int | None) -> tuple[Message, list[Event]]:
        """A system or user step as a message; what a system step observed as an event."""
        source = dict(odd)
        parts = content(step.message, source)
        if step.extra:
            source["extra"] = step.extra
        if step.is_copied_context is not None:
            source["is_copied_context"] = raw(step.is_copied_context)
        if step.timestamp is not None and (now is None or stamp(now) != step.timestamp):
            source["timestamp"] = raw(step.timestamp)
        events = []
        if step.observation is not None and step.observation.results:
            source["observation"] = raw(step.observation)
            events = [Event(name="observation", time=now, source={"results": raw(step.observation.results)})]
        return Message(role=step.source or "user", parts=parts, time=now, source=source), events

    def _agent_step(
        self,
        index: int,
        step: schema.Step,
        odd: dict[str, Raw],
        before: int | None,
        now: int | None,
        bound: int | None,
        waiting: list[Message],
        chain: Chain,
    ) -> tuple[ModelRequest | None, list[tuple[ToolCall, list[schema.Reference]]], list[Message]]:
        """(request, calls with their sub-agents, answers that the next request sees). No request when no model was asked."""
        copied = bool(step.is_copied_context)
        own = self._id("step", str(index + 1))
        asked = step.llm_call_count != 0
        calls = [typed(c, schema.Call) for c in step.tool_calls or ()]
        results = [typed(r, schema.Result) for r in (step.observation.results if step.observation is not None else ())]
        paired, by_order = pair(calls, results)
        source = dict(odd)
        parts: list[Part] = [ReasoningPart(step.reasoning_content)] if step.reasoning_content is not None else []
        parts += content(step.message, source)
        parts += [ToolCallPart(c.function_name or "", c.tool_call_id, c.arguments) for c, _ in calls]
        for name in ("reasoning_effort", "extra"):
            if value := getattr(step, name):
                source[name] = value
        for name, stated in (("llm_call_count", step.llm_call_count), ("is_copied_context", step.is_copied_context)):
            if stated is not None:
                source[name] = raw(stated)
        if step.timestamp is not None and (now is None or stamp(now) != step.timestamp):
            source["timestamp"] = raw(step.timestamp)
        if step.model_name is not None and step.model_name == self.agent.model_name:
            source["model_name"] = raw(step.model_name)
        counts, rest = usage(step.metrics)
        if rest:
            source["metrics"] = raw(rest)
        out = [
            self._call(index, n, call, more, paired.get(n), own if asked else None, now, bound, copied, by_order)
            for n, (call, more) in enumerate(calls)
            if n in paired
        ]
        answers = []
        for result, more in results:
            kept = {**more, **({"extra": result.extra} if result.extra else {})}
            if result.subagent_trajectory_ref:
                kept["subagent_trajectory_ref"] = result.subagent_trajectory_ref
            mine = next((c for c, r in paired.items() if r is result), None)
            number = calls[mine][0].tool_call_id if mine is not None else None
            if mine is not None:
                kept = {}
            part = ToolCallResponsePart(result.content or _NULL, number if number is not None else result.source_call_id)
            answers.append(Message(role="tool", parts=[part], source=kept))
        if not asked:
            if parts:
                answers.insert(0, Message(role="assistant", parts=parts, time=now, source=source))
            return None, out, answers
        model = step.model_name or self.agent.model_name
        output = [Message(role="assistant", parts=parts, time=now)]
        history = chain.history()
        chain.close(own, waiting, output)
        start = before if before is not None else now
        effort = jsonio.value(step.reasoning_effort)
        attributes: dict[str, Value] = {}
        if step.llm_call_count is not None and step.llm_call_count > 1:
            attributes["spanport.model_calls"] = step.llm_call_count
        request = ModelRequest(
            id=own,
            trace_id=self.trace,
            parent_id=self.attempt_id,
            key=str(index + 1),
            name=model or "",
            start=min(start, now) if start is not None and now is not None else start,
            end=now if now is not None else start,
            clock="derived" if now is not None else "synthetic",
            uncertainty=max(now - start, 0) if now is not None and start is not None else 0,
            reused=copied,
            attributes=attributes,
            source=source,
            model=model,
            input_messages=list(waiting),
            output_messages=output,
            history=history,
            parameters={"reasoning_effort": effort} if isinstance(effort, str | int | float) else {},
            conversation_id=self.session,
            usage=counts,
        )
        return request, out, answers

    def _call(
        self,
        index: int,
        position: int,
        call: schema.Call,
        odd: dict[str, Raw],
        result: schema.Result | None,
        requested_by: str | None,
        now: int | None,
        bound: int | None,
        copied: bool,
        by_order: bool,
    ) -> tuple[ToolCall, list[schema.Reference]]:
        assert result is not None
        key = f"{index + 1}.{position}"
        source = dict(odd)
        if call.extra:
            source["extra"] = call.extra
        if result.extra:
            source["result.extra"] = result.extra
        references: list[schema.Reference] = []
        if result.subagent_trajectory_ref:
            source["subagent_trajectory_ref"] = result.subagent_trajectory_ref
            references = _references(result.subagent_trajectory_ref)
        server = jsonio.text(jsonio.fields(call.extra).get("tool_server", ABSENT)) if call.extra else None
        failed = jsonio.value(jsonio.fields(result.extra).get("is_error", ABSENT)) is True if result.extra else False
        words = jsonio.text(result.content)
        end = bound if bound is not None else now
        span_clock: Clock = "derived" if now is not None else "synthetic"
        attributes: dict[str, Value] = {"spanport.tool.result.paired": "order"} if by_order else {}
        lost = [r.trajectory_path for r in references if r.trajectory_path is not None and r.trajectory_id not in self.children]
        if lost:
            attributes["spanport.subagent.path"] = lost[0]
        return ToolCall(
            id=self._id("tool", key),
            trace_id=self.trace,
            parent_id=self.attempt_id,
            key=key,
            name=call.function_name or "",
            start=now,
            end=max(now, end) if now is not None and end is not None else now,
            clock=span_clock,
            uncertainty=max(end - now, 0) if now is not None and end is not None else 0,
            reused=copied,
            status="error" if failed else "ok",
            error=Error(type="tool", message=words) if failed else None,
            attributes=attributes,
            source=source,
            call_id=call.tool_call_id,
            server=server,
            arguments=call.arguments,
            result=result.content,
            outcome="error" if failed else "ok",
            requested_by=requested_by,
            conversation_id=self.session,
        ), references

    def _ends(self, times: list[int | None], waiting: list[Message], events: list[Event], final: list[Part]) -> Iterator[AnySpan]:
        stated = [t for t in times if t is not None]
        start, end = (min(stated), max(stated)) if stated else (None, None)
        span_clock: Clock = "derived" if stated else "synthetic"
        sums, rest = totals(self.fields.get("final_metrics", ABSENT))
        agent_rest = {**self.odd_agent, **({"extra": self.agent.extra} if self.agent.extra else {})}
        typed_names = ("schema_version", "agent", "steps", "session_id", "trajectory_id", "final_metrics")
        source = {k: v for k, v in self.fields.items() if k not in typed_names and not jsonio.is_null(v)}
        if self.children:
            source.pop("subagent_trajectories", None)
        if agent_rest:
            source["agent"] = raw(agent_rest)
        if rest:
            source["final_metrics"] = raw(rest)
        attributes: dict[str, Value] = {}
        if self.agent.version is not None:
            attributes["gen_ai.agent.version"] = self.agent.version
        if (number := jsonio.text(self.fields.get("trajectory_id", ABSENT))) is not None:
            attributes["spanport.atif.trajectory_id"] = number
        if self.agent.tool_definitions:
            source["tool_definitions"] = self.agent.tool_definitions
        yield Attempt(
            id=self.attempt_id,
            trace_id=self.trace,
            parent_id=self.run_id,
            key="1",
            name="attempt 1",
            start=start,
            end=end,
            clock=span_clock,
            unfinished=self.cut,
            ending="cut off" if self.cut else None,
            number=1,
            conversation_id=self.session,
            attributes={"spanport.atif.version": jsonio.text(self.fields.get("schema_version", ABSENT)) or ""},
            messages=waiting,
            usage=sums,
            events=events,
        )
        links: list[Link] = []
        yield Run(
            id=self.run_id,
            trace_id=self.trace,
            parent_id=self.parent,
            key=self.path[-1],
            name=self.agent.name or "",
            start=start,
            end=end,
            clock=span_clock,
            unfinished=self.cut,
            ending="cut off" if self.cut else None,
            links=links,
            attributes=attributes,
            source=source,
            type="agent",
            native_id=jsonio.text(self.fields.get("trajectory_id", ABSENT)) or self.session,
            conversation_id=self.session,
            model=self.agent.model_name,
            output=raw("\n".join(p.content for p in final if isinstance(p, TextPart))) if final and not self.cut else ABSENT,
        )


def stamp(ns: int) -> str:
    """The common form of an ATIF time: UTC, ``Z``, microseconds when there are any."""
    shown = clock.to_iso(ns).replace("+00:00", "Z")
    return shown.replace(".000000Z", "Z")


def _references(given: Raw) -> list[schema.Reference]:
    """A reference or (since 1.5) a list of them."""
    items = _raws.decode(given) if bytes(memoryview(given)[:1]) == b"[" else [given]
    return [typed_reference(i) for i in items if bytes(memoryview(i)[:1]) == b"{"]


def typed_reference(given: Raw) -> schema.Reference:
    """A reference; members of another type are passed over (the whole stays in the call's source)."""
    inside = jsonio.fields(given)
    return schema.Reference(**{n: jsonio.text(inside.get(n, ABSENT)) for n in ("trajectory_id", "trajectory_path", "session_id")})


def pair(
    calls: list[tuple[schema.Call, dict[str, Raw]]], results: list[tuple[schema.Result, dict[str, Raw]]]
) -> tuple[dict[int, schema.Result], bool]:
    """Position of a call → its result, by id (ids may repeat: first come, first served). Where no result names a call and there are as
    many of them as calls, by order; then True."""
    found: dict[int, schema.Result] = {}
    by_id: dict[str, list[int]] = {}
    for n, (call, _) in enumerate(calls):
        if call.tool_call_id is not None:
            by_id.setdefault(call.tool_call_id, []).append(n)
    if calls and len(results) == len(calls) and all(r.source_call_id is None for r, _ in results):
        return {n: r for n, (r, _) in enumerate(results)}, True
    for result, _ in results:
        if result.source_call_id is not None and (places := by_id.get(result.source_call_id)):
            found[places.pop(0)] = result
    return found, False
