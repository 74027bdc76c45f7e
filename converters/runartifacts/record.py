"""One RunArtifacts record to be written: what SimLab's own class, its evaluation reader and verifiers accept, from any format's spans.

A record that was read from SimLab comes back as it was: its shape, its own members and the odd spellings that its spans kept. From other formats: messages
of all requests in order, executed calls in completion order, tokens as totals, the final text and the error. Nothing is made up: a tool's server is named only
where it is known, and times only where they are.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Raw

from .. import jsonio
from ..errors import Report
from ..history import plain
from ..model import (
    BlobPart,
    Message,
    ModelRequest,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
    Usage,
    raw,
)
from ..registry import WriteOptions
from ..simlab import messages
from ..simlab.document import iso
from ..units import Unit

SHAPE: Final = "spanport.simlab.shape"
RECORDED: Final = "spanport.simlab.recorded"
_BESIDE: Final = ("atif",)
"""Members of an attempt's source that are no members of the record; so are those named after a file."""


def dump(unit: Unit, out: BinaryIO, report: Report, options: WriteOptions) -> None:
    """One record, formatted as SimLab does (two blanks, no final newline)."""
    first = True
    for name, value in Record(unit, report, options).members():
        out.write(b"{\n  " if first else b",\n  ")
        first = False
        out.write(msgspec.json.encode(name) + b": ")
        if isinstance(value, Iterator):
            some = False
            for item in value:
                out.write(b",\n    " if some else b"[\n    ")
                some = True
                out.write(_pretty(item, 4))
            out.write(b"\n  ]" if some else b"[]")
        else:
            out.write(_pretty(value, 2))
    out.write(b"\n}")


def _pretty(value: Any, level: int) -> bytes:
    data = bytes(value) if isinstance(value, Raw) else msgspec.json.encode(value)
    try:
        data = msgspec.json.format(data, indent=2)
    except (msgspec.DecodeError, RecursionError):  # NaN, or nested too deep to be laid out
        return data
    return data.replace(b"\n", b"\n" + b" " * level)


class _Queues:
    """Things by call id, first come, first served: ids repeat."""

    def __init__(self) -> None:
        self._held: dict[str, deque[Any]] = {}

    def add(self, number: str | None, thing: Any) -> None:
        if number is not None:
            self._held.setdefault(number, deque()).append(thing)

    def take(self, number: str | None) -> Any:
        queue = self._held.get(number) if number is not None else None
        return queue.popleft() if queue else None


class Record:
    """The members of one record, large lists as iterators."""

    def __init__(self, unit: Unit, report: Report, options: WriteOptions) -> None:
        self.unit, self.report, self.options = unit, report, options
        attempt = unit.attempt
        stated = attempt.attributes.get(SHAPE) if attempt is not None else None
        self.own = isinstance(stated, str)
        self.shape = stated if isinstance(stated, str) else "D"
        self.source = dict(attempt.source) if attempt is not None and self.own else {}
        self.timed = self.own or _timed(unit)
        self.servers: dict[str, str] | None = None
        self.asked: dict[str, list[ToolCall]] | None = None
        self.sent: set[str] | None = None
        if self.own:  # a record's own order does not depend on its clocks
            unit.requests = [s for s in unit.spans if isinstance(s, ModelRequest)]
            unit.calls = [s for s in unit.spans if isinstance(s, ToolCall)]

    # ------------------------------------------------------------------------------------------------------ members
    def members(self) -> Iterator[tuple[str, Any]]:
        """Name and value, in SimLab's order."""
        unit, source = self.unit, self.source
        attempt, run = unit.attempt, unit.run
        calls = self.executed()
        yield "version", source.pop("version", "0.1")
        yield "task_id", source.pop("task_id", None) or self.task_id()
        yield "task", source.pop("task", None) or self.task()
        model, provider = self.model()
        yield "model", source.pop("model", model)
        yield "provider", source.pop("provider", provider)
        yield "messages", source.pop("messages", None) or iter(self.messages())
        yield "tool_calls", source.pop("tool_calls", None) or (self.call(c) for c in calls)
        yield "tool_results", source.pop("tool_results", None) or (self.result(c) for c in calls)
        yield "metadata", source.pop("metadata", None) or self.metadata()
        yield "final_observation", source.pop("final_observation", None) or self.final()
        yield "error", source.pop("error", None) or self.error()
        yield "steps_taken", source.pop("steps_taken", len(calls))
        yield "max_steps", source.pop("max_steps", None) or (attempt.attributes.get("spanport.max_steps") if attempt is not None else None)
        created = attempt.start if attempt is not None and attempt.start is not None else run.start if run is not None else None
        yield "created_at", source.pop("created_at", iso(created) if created is not None else "")
        for name, value in source.items():
            if name not in _BESIDE and ".json" not in name and name != "reward.txt":
                yield name, value

    def task_id(self) -> str:
        unit = self.unit
        for span in (unit.attempt, unit.run):
            if span is not None and isinstance(found := span.attributes.get("spanport.task.id"), str):
                return found
        if unit.task is not None:
            return unit.task.native_id or unit.task.name
        if unit.run is not None:
            return unit.run.native_id or unit.run.name
        return ""

    def task(self) -> str:
        unit = self.unit
        for span in (unit.attempt, unit.task, unit.run):
            if span is not None and span.input:
                return _words(span.input)
        return ""

    def model(self) -> tuple[str | None, str | None]:
        """Model and provider of the run, else of the first request that names them."""
        run, requests = self.unit.run, self.unit.requests
        model = run.model if run is not None and run.model else next((r.model for r in requests if r.model), None)
        provider = run.provider if run is not None and run.provider else next((r.provider for r in requests if r.provider), None)
        return model, provider

    def final(self) -> str | None:
        unit = self.unit
        if unit.attempt is not None and unit.attempt.output:
            return _words(unit.attempt.output)
        if unit.run is not None and unit.run.output and (unit.run.type != "benchmark"):
            return _words(unit.run.output)
        return None

    def error(self) -> str | None:
        unit = self.unit
        for span in (unit.attempt, unit.run if not unit.many else None):
            if span is None or span.error is None or (self.own and span.error.type == "rollout_error"):
                continue
            return span.error.message or span.error.type or "error"
        return None

    def metadata(self) -> Any:
        """Totals as SimLab's evaluation reads them, the thread, and nothing that is not known."""
        if self.own:
            return {}
        unit = self.unit
        found: dict[str, Any] = {}
        usage = total(unit)
        metrics: dict[str, Any] = {}
        if usage is not None:
            names = (
                ("prompt_tokens_total", usage.input),
                ("completion_tokens_total", usage.output),
                ("total_tokens_total", usage.total),
                ("cached_tokens_total", usage.cache_read),
            )
            if tokens := {k: v for k, v in names if v}:
                metrics["token_usage"] = tokens
            if usage.cost is not None:
                metrics["cost"] = {"estimated_cost_usd": usage.cost}
        span = unit.attempt if unit.attempt is not None else unit.run
        if span is not None and span.start is not None and span.end is not None and span.clock != "synthetic":
            metrics["timing"] = {"duration_seconds": round((span.end - span.start) / 1e9, 9)}
        if metrics:
            found["rollout_metrics"] = metrics
        thread = next((s.conversation_id for s in (unit.attempt, unit.run) if s is not None and s.conversation_id), None)
        if thread is not None:
            found["thread_id"] = thread
        if unit.run is not None and unit.run.name and unit.run.type != "benchmark":
            found["cookbook_agent"] = {"name": unit.run.name}
        return found

    # ---------------------------------------------------------------------------------------------------- calls
    def executed(self) -> list[ToolCall]:
        """Calls that ran and gave something back, in completion order."""
        found = []
        for call in self.unit.calls:
            recorded = call.attributes.get(RECORDED)
            ran = call.outcome in ("ok", "error") and recorded != "messages"
            if ran or recorded == "calls":
                found.append(call)
        return found if self.own else sorted(found, key=lambda c: (c.end is None, c.end or 0))

    def call(self, call: ToolCall) -> dict[str, Any]:
        """An element of ``tool_calls``."""
        parameters = call.source.get("parameters") or call.arguments
        if bytes(memoryview(parameters)[:1]) != b"{":
            parameters = Raw(b"{}")
        server = "unknown" if call.attributes.get(RECORDED) == "calls" and call.error and call.server is None else call.server
        found = {"tool_server": server or "", "tool_name": call.name, "parameters": parameters}
        found.update({k.removeprefix("tool_calls."): v for k, v in call.source.items() if k.startswith("tool_calls.")})
        return found

    def result(self, call: ToolCall) -> Raw:
        """An element of ``tool_results``. An observation that held NaN gets its literals back."""
        observation = call.result
        if call.attributes.get("spanport.tool.result.literals") is True and (text := jsonio.text(observation)) is not None:
            observation = Raw(text.encode("utf-8", "replace"))
        elif not observation:
            observation = (
                raw(call.error.message) if call.error is not None and call.error.message is not None and not self.own else Raw(b"null")
            )
        outer = call.attributes.get("spanport.tool.error.outer")
        failed: Any = outer if isinstance(outer, bool) else call.outcome != "ok"
        found: dict[str, Any] = {"observation": observation, "is_error": failed}
        if "tool_results.is_error" in call.source:
            if bytes(call.source["tool_results.is_error"]) == b'"absent"':
                del found["is_error"]
            else:
                found["is_error"] = call.source["tool_results.is_error"]
        more = {k: v for k, v in call.source.items() if k.startswith("tool_results.") and k != "tool_results.is_error"}
        found.update({k.removeprefix("tool_results."): v for k, v in more.items()})
        return Raw(msgspec.json.encode(found))

    # -------------------------------------------------------------------------------------------------- messages
    def messages(self) -> Iterator[Any]:
        """All messages: of each request those that are new, then its output; at the end those that no request holds."""
        asked, answered = _Queues(), _Queues()
        for call in self.unit.calls:
            answered.add(call.call_id, call)
        seen: dict[tuple[str | None, str | None], list[Message]] = {}
        told: set[str] = set()
        system: dict[tuple[str | None, str | None], list[Part]] = {}
        for request in self.unit.requests:
            key = (request.conversation_id, request.agent or request.parent_id)
            if not self.own and request.system_instructions and system.get(key) != request.system_instructions:
                system[key] = request.system_instructions
                first = Message(role="system", parts=request.system_instructions)
                yield self._render(self._stamped(first, request.start), asked, answered, told)
            fresh = request.input_messages
            if request.history is None:
                fresh = _new(fresh, seen.get(key, []))
            for message in fresh:
                yield self._render(self._stamped(message, request.start), asked, answered, told)
            outputs = list(self._outputs(request))
            for message in outputs:
                yield self._render(message, asked, answered, told)
            held = seen.setdefault(key, [])
            held.extend(fresh)
            held.extend(outputs)
            if not self.own:
                yield from self._unanswered(request, told, asked)
        for attempt in self.unit.attempts:
            for message in attempt.messages:
                if self.own or message.role != "tool":
                    yield self._render(message, asked, answered, told)

    def _stamped(self, message: Message, time: int | None) -> Message:
        """The message with the time of the request that it was sent with: other formats' message times are coarse, or none."""
        if self.own or time is None or not self.timed or message.role == "tool":
            return message
        return msgspec.structs.replace(message, time=time)

    def _outputs(self, request: ModelRequest) -> Iterator[Message]:
        """The output of a request: one message, or, when an adapter's recorder wrote one for each call, those again."""
        for message in request.output_messages:
            pieces = jsonio.value(message.source["messages"]) if "messages" in message.source else None
            calls = [p for p in message.parts if isinstance(p, ToolCallPart)]
            if isinstance(pieces, list) and len(pieces) == len(calls):
                mine = {c.call_id: c for c in self._of(request)}
                for n, (part, piece) in enumerate(zip(calls, pieces, strict=True)):
                    begun = mine[part.id].start if part.id in mine else None
                    yield Message(
                        role=message.role,
                        parts=[part],
                        time=message.time if n == 0 else begun,
                        source={k: raw(v) for k, v in piece.items()} if isinstance(piece, dict) else {},
                    )
            elif self.own or not self.timed or request.end is None or request.clock == "synthetic":
                yield message
            else:
                yield msgspec.structs.replace(message, time=request.end)

    def _render(self, message: Message, asked: _Queues, answered: _Queues, told: set[str]) -> Any:
        if message.role == "tool" and "content" not in message.source:
            part = next((p for p in message.parts if isinstance(p, ToolCallResponsePart)), None)
            call = answered.take(part.id) if part is not None else None
            wire = asked.take(part.id) if part is not None else None
            answer = None
            if call is not None:
                told.add(call.id)
                unknown = (
                    call.outcome == "rejected"
                    and call.error is not None
                    and call.error.type == "unknown_tool"
                    and RECORDED not in call.attributes
                )
                levels = (call.attributes.get("spanport.tool.error.outer"), call.attributes.get("spanport.tool.error.message"))
                failed = next((x for x in levels if isinstance(x, bool)), call.outcome != "ok")
                answer = messages.answer(self.shape, part.id if part else None, call.server, call.name, wire, unknown, failed)
                if not self.own and call.end is not None and call.clock != "synthetic":
                    message = msgspec.structs.replace(message, time=call.end)
            elif not self.own and part is not None and part.id is not None:
                answer = messages.Answer(part.id, "", wire, None)
            if not self.own:
                message = msgspec.structs.replace(message, source={})
            return messages.render(message, self.shape, answer, timed=self.timed)
        for place in message.parts:
            if isinstance(place, ToolCallPart):
                asked.add(place.id, place.name)
        if self.own:
            return messages.render(message, self.shape, timed=self.timed)
        return foreign(self._named(message), self.timed)

    def _named(self, message: Message) -> Message:
        """Tool names as SimLab spells them, ``server__tool``, where the call's server is known."""
        if not any(isinstance(p, ToolCallPart) for p in message.parts):
            return message
        servers = self._servers()
        parts: list[Part] = [
            msgspec.structs.replace(p, name=f"{servers[p.id or '']}__{p.name}")
            if isinstance(p, ToolCallPart) and servers.get(p.id or "")
            else p
            for p in message.parts
        ]
        return msgspec.structs.replace(message, parts=parts)

    def _servers(self) -> dict[str, str]:
        if self.servers is None:
            self.servers = {c.call_id: c.server for c in self.unit.calls if c.call_id is not None and c.server}
        return self.servers

    def _of(self, request: ModelRequest) -> list[ToolCall]:
        """The calls that ``request`` asked for."""
        if self.asked is None:
            self.asked = {}
            for call in self.unit.calls:
                if call.requested_by is not None:
                    self.asked.setdefault(call.requested_by, []).append(call)
        return self.asked.get(request.id, [])

    def _unanswered(self, request: ModelRequest, told: set[str], asked: _Queues) -> Iterator[Any]:
        """Tool messages for calls of this request that no later request was sent the answer of (the run ended, or its messages are not recorded)."""
        if self.sent is None:
            parts = (p for r in self.unit.requests for m in r.input_messages for p in m.parts)
            self.sent = {p.id for p in parts if isinstance(p, ToolCallResponsePart) and p.id is not None}
        sent = self.sent
        mine = [c for c in self._of(request) if c.call_id not in sent and c.outcome in ("ok", "error", "rejected")]
        for call in sorted(mine, key=lambda c: (c.end is None, c.end or 0)):
            words = call.result or raw(call.error.message if call.error is not None else None)
            message = Message(role="tool", parts=[ToolCallResponsePart(words, call.call_id)], time=call.end if self.timed else None)
            unknown = call.outcome == "rejected" and call.error is not None and call.error.type == "unknown_tool"
            wire = asked.take(call.call_id)
            told.add(call.id)
            yield messages.render(
                message,
                "D",
                messages.answer("D", call.call_id, call.server, call.name, wire, unknown, call.outcome != "ok"),
                timed=self.timed,
            )


def foreign(message: Message, timed: bool) -> Any:
    """A message of another format as SimLab's: text, calls, images as content blocks, reasoning beside the content."""
    found = messages.render(msgspec.structs.replace(message, source={}), "D", timed=timed)
    if any(isinstance(p, BlobPart | UriPart) for p in message.parts) and not any(isinstance(p, ToolCallPart) for p in message.parts):
        found["content"] = [block for p in message.parts if (block := _block(p)) is not None]
    return found


def _block(part: Part) -> dict[str, Any] | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.content}
    if isinstance(part, BlobPart):
        return {"type": part.modality, "data": part.content, "mimeType": part.mime_type}
    if isinstance(part, UriPart):
        return (
            {"type": "image_url", "image_url": {"url": part.uri}} if part.modality == "image" else {"type": part.modality, "uri": part.uri}
        )
    return json.loads(msgspec.json.encode(part)) if not isinstance(part, ToolCallPart | ToolCallResponsePart | ReasoningPart) else None


def _words(value: Raw) -> str:
    """Text as it stands, any other JSON value as its text."""
    found = jsonio.text(value)
    return found if found is not None else jsonio.minify(value).decode("utf-8", "replace")


def _new(given: list[Message], before: list[Message]) -> list[Message]:
    """Messages that a request sends besides those that stand before it: full histories repeat what was said."""
    if not before:
        return given
    count = 0
    for known, message in zip(before, given, strict=False):
        if not _alike(known, message):
            break
        count += 1
    return given[count:]


def _alike(a: Message, b: Message) -> bool:
    x, y = plain(a), plain(b)
    return x.role == y.role and x.parts == y.parts


def _timed(unit: Unit) -> bool:
    """Whether the requests have times that mean something."""
    return any(r.start is not None and r.clock != "synthetic" for r in unit.requests)


def total(unit: Unit) -> Usage | None:
    """Tokens of the record: those of its requests, else the attempt's or the run's own roll-up."""
    counted = [r.usage for r in unit.requests if r.usage is not None and not r.reused]
    if not counted:
        if unit.attempt is not None and unit.attempt.usage is not None:
            return unit.attempt.usage
        return unit.run.usage if unit.run is not None and not unit.many else None
    sums: dict[str, Any] = {}
    for name in Usage.__struct_fields__:
        known = [v for u in counted if (v := getattr(u, name)) is not None]
        sums[name] = sum(known) if known else None
    found = Usage(**sums)
    if found.total is None and found.input is not None and found.output is not None:
        found.total = found.input + found.output
    return found
