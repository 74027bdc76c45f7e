"""What was said in a trajectory, in one form for all harnesses, and the spans it makes.

Each reader of a shape (`spanport.converters.agentcompass.shapes`) turns its records into a list of `Said`; `assemble` turns that list into model
requests and tool calls, pairs answers with calls, and settles outcomes. Nothing here knows a harness, and nothing here makes up a time: a span
without one takes its parent's start and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from .. import ids
from ..history import Chain
from ..jsonio import fields, text
from ..model import (
    ABSENT,
    BlobPart,
    Clock,
    Error,
    GenericPart,
    Message,
    ModelRequest,
    Outcome,
    Part,
    ReasoningPart,
    Status,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
    Usage,
    Value,
)
from .schema import absent, integer, items, kind, number, words

_check = msgspec.json.Decoder().decode


@dataclass(slots=True)
class Call:
    """A tool call that a model asked for. ``decodable``: its arguments are JSON."""

    name: str
    id: str | None = None
    arguments: Raw = field(default_factory=absent)
    decodable: bool = True
    type: str | None = None
    server: str | None = None
    source: dict[str, Raw] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """What came back for a call. ``error``: what the record says of it, None when it says nothing."""

    content: Raw = field(default_factory=absent)
    call_id: str | None = None
    name: str | None = None
    error: bool | None = None
    message: str | None = None
    start: int | None = None
    end: int | None = None
    clock: Clock = "derived"
    uncertainty: int = 0
    shared: bool = False
    attributes: dict[str, Value] = field(default_factory=dict)
    source: dict[str, Raw] = field(default_factory=dict)


@dataclass(slots=True)
class Said:
    """One message, or one answer of a model (``request``) with the calls it asks for; or answers of tools."""

    message: Message | None = None
    request: bool = False
    calls: list[Call] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    start: int | None = None
    end: int | None = None
    clock: Clock = "derived"
    uncertainty: int = 0
    usage: Usage | None = None
    finish: str | None = None
    response_id: str | None = None
    response_model: str | None = None
    model: str | None = None
    system: list[Part] = field(default_factory=list)
    tools: Raw = field(default_factory=absent)
    inferred: bool = False
    attributes: dict[str, Value] = field(default_factory=dict)
    source: dict[str, Raw] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the requests and calls of one physical run stand. ``owner``: id of the attempt, from which ids are derived; ``parent``: the phase or
    the attempt; ``window``: the parent's start and end. ``broken``: the run did not end normally."""

    trace: str
    owner: str
    parent: str
    retry: int = 0
    window: tuple[int | None, int | None] = (None, None)
    model: str | None = None
    broken: bool = False
    reused: bool = False
    conversation: str | None = None
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Work:
    """The spans of one physical run. ``clamped``: derived times that were moved into their phase; ``outside``: stated ones that lie outside of it."""

    requests: list[ModelRequest] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    clamped: int = 0
    outside: int = 0
    orphans: int = 0

    def in_order(self) -> list[ModelRequest | ToolCall]:
        """Each request before the calls that it asked for."""
        found: list[ModelRequest | ToolCall] = []
        calls: dict[str | None, list[ToolCall]] = {}
        for call in self.calls:
            calls.setdefault(call.requested_by, []).append(call)
        for request in self.requests:
            found.append(request)
            found.extend(calls.pop(request.id, ()))
        return found + [c for rest in calls.values() for c in rest]

    def end(self) -> int | None:
        """The last end (or start) of any of them."""
        return max((t for s in [*self.requests, *self.calls] if (t := s.end if s.end is not None else s.start) is not None), default=None)

    def start(self) -> int | None:
        return min((s.start for s in [*self.requests, *self.calls] if s.start is not None), default=None)


# --------------------------------------------------------------------------------------------------------- parts
def parts_of(content: Raw, reasoning: Raw = ABSENT) -> list[Part]:
    """Message content (a string, a list of blocks, anything) as parts. Blocks that ask for a tool are left to `call_of`."""
    found: list[Part] = []
    if (thought := text(reasoning)) is not None and thought:
        found.append(ReasoningPart(thought))
    what = kind(content)
    if what == "string":
        if said := text(content):
            found.append(TextPart(said))
    elif what == "array":
        for block in items(content):
            if (part := _block(block)) is not None:
                found.append(part)
    elif what not in ("null", "nothing"):
        found.append(GenericPart(content=content))
    return found


def _block(block: Raw) -> Part | None:
    if kind(block) == "string":
        return TextPart(text(block) or "")
    f = fields(block)
    type = text(f.get("type", ABSENT)) or ""
    if type in ("text", "input_text", "output_text") and (said := text(f.get("text", ABSENT))) is not None:
        return TextPart(said)
    if type in ("thinking", "reasoning") and (said := text(f.get("thinking", f.get("text", ABSENT)))) is not None:
        return ReasoningPart(said)
    if type in ("tool_use", "toolCall", "tool_call"):
        return None
    if type == "image_url" and (url := text(fields(f.get("image_url", ABSENT)).get("url", ABSENT))) is not None:
        return UriPart("image", url)
    if type == "image":
        source = fields(f.get("source", ABSENT)) or f
        if (data := text(source.get("data", ABSENT))) is not None:
            return BlobPart("image", data, text(source.get("media_type", source.get("mimeType", ABSENT))))
    return GenericPart(type or None, block)


def call_of(raw: Raw) -> Call:
    """A call in any of the shapes that occur: function shape, ``tool_use``, ``toolCall``, name and arguments, or a string that is the action itself."""
    if kind(raw) != "object":
        return Call("action", None, raw)
    f = fields(raw)
    function = fields(f.pop("function", ABSENT))
    name = words(function.pop("name", f.pop("name", ABSENT))) or ""
    arguments = function.pop("arguments", ABSENT) or f.pop("arguments", ABSENT) or f.pop("input", ABSENT)
    call = Call(name, words(f.pop("id", f.pop("call_id", ABSENT))), type=words(f.pop("type", ABSENT)))
    if call.type in ("tool_use", "toolCall", "tool_call"):
        call.type = "function"
    call.arguments, call.decodable = arguments_of(arguments)
    call.source = {**{f"function.{k}": v for k, v in function.items()}, **f}
    return call


def arguments_of(raw: Raw) -> tuple[Raw, bool]:
    """Arguments as JSON, and whether they are: an object as it is, JSON in a string decoded once, other text as a JSON string."""
    said = text(raw)
    if said is None:
        return raw, True
    data = said.encode("utf-8", "replace")
    try:
        _check(data)
    except (msgspec.DecodeError, RecursionError):
        return raw, False
    return Raw(data), True


def usage_of(raw: Raw) -> Usage | None:
    """Token counts in the words of OpenAI (prompt tokens include cached ones), Anthropic (they do not), codex and OpenClaw, normalised."""
    f = fields(raw)

    def n(name: str, of: dict[str, Raw] = f) -> int | None:
        return integer(of.get(name, ABSENT))

    cost = number(f.get("cost_usd", ABSENT))
    if "prompt_tokens" in f or "completion_tokens" in f:
        prompt, completion = fields(f.get("prompt_tokens_details", ABSENT)), fields(f.get("completion_tokens_details", ABSENT))
        found = Usage(
            input=n("prompt_tokens"),
            output=n("completion_tokens"),
            total=n("total_tokens"),
            cache_read=n("cached_tokens", prompt) if "cached_tokens" in prompt else n("cache_tokens"),
            cache_write=n("cache_write_tokens", prompt),
            reasoning=n("reasoning_tokens", completion),
        )
    elif "input_tokens" in f or "output_tokens" in f:
        read, write = n("cache_read_input_tokens"), n("cache_creation_input_tokens")
        plain = n("input_tokens")
        found = Usage(
            input=None if plain is None else plain + (read or 0) + (write or 0),
            output=n("output_tokens"),
            cache_read=read if read is not None else n("cached_input_tokens"),
            cache_write=write if write is not None else n("cache_write_input_tokens"),
            reasoning=n("reasoning_output_tokens"),
        )
    elif "input" in f and "output" in f:
        plain = n("input")
        found = Usage(
            input=None if plain is None else plain + (n("cacheRead") or 0) + (n("cacheWrite") or 0),
            output=n("output"),
            cache_read=n("cacheRead"),
            cache_write=n("cacheWrite"),
            total=n("totalTokens"),
        )
        cost = number(fields(f.get("cost", ABSENT)).get("total", ABSENT))
    else:
        return None
    found.cost = float(cost) if cost is not None else None
    return found if found != Usage() else None


# ------------------------------------------------------------------------------------------------------- assembly
@dataclass(slots=True)
class _Asked:
    call: Call
    request: ModelRequest | None
    nth: int
    index: int
    answer: Answer | None = None


def assemble(said: list[Said], place: Place) -> Work:
    """The requests and calls of one conversation, in order."""
    work = Work()
    chain = Chain()
    pending: list[Message] = []
    system: list[Part] = []
    asked: list[_Asked] = []
    last: list[_Asked] = []
    for one in said:
        if one.request:
            nth = len(work.requests)
            request = _request(one, nth, pending, chain, place, work, system)
            work.requests.append(request)
            chain.close(request.id, pending, request.output_messages)
            pending = []
            last = [_Asked(c, request, nth, i) for i, c in enumerate(one.calls)]
            asked.extend(last)
        elif one.message is not None:
            pending.append(one.message)
        for answer in one.answers:
            found = _find(answer, last, asked)
            if found is None:
                work.orphans += 1
                found = _Asked(Call(answer.name or "", answer.call_id), None, len(work.requests), len(asked))
                asked.append(found)
            found.answer = answer
            if not answer.shared:
                message = Message(
                    role="tool",
                    parts=[ToolCallResponsePart(answer.content or Raw(b"null"), answer.call_id or found.call.id)],
                    name=answer.name,
                    time=answer.end,
                )
                pending.append(message)
    used: set[str] = set()
    unanswered = {id(a) for a in last} if place.broken else set()
    for a in asked:
        if a.answer is not None or id(a) in unanswered:
            work.calls.append(_call(a, place, work, used))
    return work


def _find(answer: Answer, last: list[_Asked], asked: list[_Asked]) -> _Asked | None:
    if answer.call_id is None:
        return next((a for a in last if a.answer is None), None)
    for group in (last, reversed(asked)):
        for a in group:
            if a.call.id == answer.call_id and a.answer is None:
                return a
    # A call without an id, answered by an id: the order decides.
    return next((a for a in last if a.answer is None and a.call.id is None), None)


def _fit(start: int | None, end: int | None, clock: Clock, place: Place, work: Work) -> tuple[int | None, int | None, Clock]:
    """Derived times moved into the parent's window; a span without any time takes its parent's start."""
    low, high = place.window
    if start is None and end is None:
        return low, None, "synthetic"
    if start is None:
        start = end
    if low is not None and high is not None and not place.reused:
        inside = low <= (start or 0) <= high and (end is None or low <= end <= high)
        if not inside and clock == "recorded":
            work.outside += 1
        elif not inside:
            work.clamped += 1
            start = min(max(start or 0, low), high)
            end = None if end is None else min(max(end, low), high)
    if end is not None and start is not None and end < start:
        end = start
    return start, end, clock


def _request(one: Said, nth: int, pending: list[Message], chain: Chain, place: Place, work: Work, system: list[Part]) -> ModelRequest:
    start, end, clock = _fit(one.start, one.end, one.clock, place, work)
    instructions: list[Part] = []
    if one.system and one.system != system:
        system[:] = instructions = one.system
    parts = list(one.message.parts) if one.message is not None else []
    parts.extend(ToolCallPart(c.name, c.id, c.arguments) for c in one.calls)
    output = Message(
        role="assistant",
        parts=parts,
        finish_reason=one.finish,
        name=one.message.name if one.message is not None else None,
        source=one.message.source if one.message is not None else {},
    )
    model = one.model or place.model
    return ModelRequest(
        id=ids.span_id(place.trace, place.owner, "run", str(place.retry), "request", str(nth)),
        trace_id=place.trace,
        name=model or "",
        key=f"run-{place.retry}/request-{nth}",
        parent_id=place.parent,
        start=start,
        end=end,
        clock=clock,
        uncertainty=one.uncertainty,
        reused=place.reused,
        attributes={**place.attributes, **one.attributes},
        source=one.source,
        model=model,
        response_model=one.response_model,
        response_id=one.response_id,
        finish_reasons=[one.finish] if one.finish else [],
        system_instructions=list(instructions),
        input_messages=pending,
        output_messages=[output] if parts or one.finish else [],
        history=chain.history(),
        tool_definitions=one.tools,
        conversation_id=place.conversation,
        usage=one.usage,
        inferred=one.inferred,
        retry=place.retry,
    )


def _outcome(a: _Asked) -> tuple[Outcome, Status, Error | None]:
    """What became of a call. An exit code alone is no error; an error flag or an exception is (page §12.6)."""
    answer = a.answer
    if answer is None:
        return "aborted", "error", Error(type="aborted", message="unanswered when the run broke off")
    if not a.call.decodable:
        return "rejected", "error", Error(type="invalid_arguments", message=answer.message or words(answer.content))
    if answer.error:
        return "error", "error", Error(type="tool", message=answer.message or words(answer.content))
    return "ok", "ok" if answer.error is False else "unset", None


def _call(a: _Asked, place: Place, work: Work, used: set[str]) -> ToolCall:
    answer = a.answer or Answer()
    start, end, clock = answer.start, answer.end, answer.clock
    if a.answer is None and a.request is not None:  # it can only have begun when the request was answered
        start = a.request.end if a.request.end is not None else a.request.start
        clock = "derived"
    start, end, clock = _fit(start, end, clock, place, work)
    outcome, status, error = _outcome(a)
    part = a.call.id or answer.call_id or f"#{a.index}"
    key = f"run-{place.retry}/request-{a.nth}/call-{part}"
    while key in used:  # call ids repeat within one request in damaged records
        key += "'"
    used.add(key)
    attributes: dict[str, Value] = {**place.attributes, **answer.attributes}
    if answer.shared:
        attributes["agentcompass.observation"] = "shared with the last call of the step"
    return ToolCall(
        id=ids.span_id(place.trace, place.owner, key),
        trace_id=place.trace,
        name=a.call.name or answer.name or "",
        key=key,
        parent_id=place.parent,
        start=start,
        end=end,
        clock=clock,
        uncertainty=answer.uncertainty,
        unfinished=a.answer is None,
        reused=place.reused,
        status=status,
        error=error,
        attributes=attributes,
        source={**a.call.source, **answer.source},
        call_id=a.call.id or answer.call_id,
        server=a.call.server,
        type=a.call.type,
        arguments=a.call.arguments,
        result=answer.content,
        outcome=outcome,
        requested_by=a.request.id if a.request is not None else None,
        conversation_id=place.conversation,
        retry=place.retry,
    )


def message(role: str, content: Any, time: int | None = None, source: dict[str, Raw] | None = None) -> Message:
    """A message of text."""
    return Message(role=role, parts=[TextPart(content)] if isinstance(content, str) else content, time=time, source=source or {})
