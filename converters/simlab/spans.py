"""A `Document` as spans: one attempt with its phases, model requests and tool calls.

Times (formats page, "Time"): a request ends at its assistant message and starts at the message before it; a call ends at its tool message and
starts at its assistant message, or, when that holds several, at the tool message before it. All of these are ``derived``. Records without
message times get ``synthetic`` ones that keep the order. Nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Raw, Struct

from .. import ids, jsonio
from ..clock import from_seconds
from ..errors import Report
from ..history import Chain
from ..model import (
    ABSENT,
    AnySpan,
    Attempt,
    Clock,
    Error,
    Item,
    Message,
    ModelRequest,
    Outcome,
    Phase,
    Repair,
    Run,
    Score,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    TraceHeader,
    Usage,
    Value,
    raw,
)
from . import messages, observation
from .document import PLACEHOLDER, Document, Head, digest, digest_value, entry, entry_fields, head, metadata, result_fields, time_of
from .endings import ending
from .pairing import Call, bare, pair, server_of
from .reward import Judgement, judgement, number

FAMILY: Final = "simlab"
STEP: Final = 1000
"""Distance in ns of made-up times when not even the end of a run is known."""


class Facts(Struct, kw_only=True):
    """What a record says of its run as a whole. ``end``: from the record's own duration, for records without message times."""

    task_id: str
    key: str
    created: int | None
    end: int | None
    agent: str
    model: str | None
    request_model: str | None
    provider: str | None
    conversation: str | None
    ending: str | None
    error: Error | None
    usage: Usage | None


class Place(Struct, kw_only=True):
    """Where the attempt stands: its trace, the run above it, its path and number. ``agent``: its name when the attempt is the agent's own
    invocation (a rollout of a set). ``until``: latest end known from outside (folder stamp), ``slack``: ns by which that may be short.
    ``judgement``, ``attributes``, ``source`` and ``error`` come from the files beside the record. ``input``, ``output``: keep the task, the final text on
    the attempt, since they are not those of the run; ``model``, ``provider``: those of the run."""

    trace: str = ""
    parent: str = ""
    path: tuple[str, ...] = ("run",)
    number: int = 0
    agent: str | None = None
    until: int | None = None
    slack: int = 0
    input: bool = False
    output: bool = False
    model: str | None = None
    provider: str | None = None
    judgement: Judgement | None = None
    error: Error | None = None
    attributes: dict[str, Value] = {}
    source: dict[str, Raw] = {}


# ----------------------------------------------------------------------------------------------------------- facts
def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _duration(meta: dict[str, Any]) -> int | None:
    timing = _part(_part(meta, "rollout_metrics"), "timing")
    for name in ("duration_seconds", "elapsed_seconds_total", "agent_turn_seconds_total"):
        value = timing.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
            return from_seconds(value)
    return None


def _part(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def usage_of(meta: dict[str, Any]) -> Usage | None:
    """The roll-up of tokens and cost. SimLab leaves out what is zero or unknown; so does this."""
    metrics = _part(meta, "rollout_metrics")
    tokens = _part(metrics, "token_usage")

    def count(*names: str) -> int | None:
        return next((n for name in names for place in (tokens, meta) if (n := _number(place.get(name))) is not None), None)

    cost = _part(metrics, "cost").get("estimated_cost_usd", meta.get("estimated_cost_usd"))
    found = Usage(
        input=count("prompt_tokens_total", "prompt_tokens"),
        output=count("completion_tokens_total", "completion_tokens"),
        total=count("total_tokens_total"),
        cache_read=count("cached_tokens_total"),
        cost=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )
    return found if any(getattr(found, f) is not None for f in Usage.__struct_fields__) else None


def _agent(doc: Document, meta: dict[str, Any]) -> str:
    """The agent's name where the record tells it: it has no field for it."""
    if doc.agent:
        return doc.agent
    if meta.get("reference_agent") is True:
        return "simlab-reference-agent"
    if isinstance(name := _part(meta, "cookbook_agent").get("name"), str) and name:
        return name
    path = _part(meta, "cli_runtime").get("agent_import_path")
    return path.replace(":", ".").rsplit(".", 1)[-1] if isinstance(path, str) else ""


def facts(doc: Document) -> Facts:
    """See `Facts`."""
    meta = metadata(doc)
    stamp = doc.text("created_at")
    created = time_of(stamp)
    provider = doc.text("provider")
    model = doc.text("model")
    routed = meta.get("litellm_model")
    provider = provider if provider != PLACEHOLDER else None
    request_model = model = model if model != PLACEHOLDER else None
    if isinstance(routed, str) and routed:
        prefix, slash, name = routed.partition("/")
        request_model = name if slash and name else routed
        provider = provider or (prefix if slash else None)
    word, error = ending(doc.text("error") or None, doc.text("final_observation"), meta.get("timeout") is True)
    if doc.text("error") is None and not jsonio.is_null(problem := doc.fields.get("error", ABSENT)):
        word, error = "failed", Error(type="agent_error", message=jsonio.minify(problem).decode("utf-8", "replace"))
    duration = _duration(meta)
    thread = meta.get("thread_id")
    return Facts(
        task_id=doc.text("task_id") or "",
        key=str(created) if created is not None else stamp or "",
        created=created,
        end=created + duration if created is not None and duration is not None else None,
        agent=_agent(doc, meta),
        model=model or None,
        request_model=request_model or None,
        provider=provider or None,
        conversation=thread if isinstance(thread, str) and thread else None,
        ending="cut off" if doc.cut and word is None else word,
        error=error,
        usage=usage_of(meta),
    )


def run_key(doc: Document, known: Facts) -> list[str]:
    """(task id, created_at in ns). A record that breaks off before ``created_at`` has the time of its first message instead."""
    if known.key:
        return [known.task_id, known.key]
    first = head(doc.messages[0]).time if doc.messages else None
    return [known.task_id, str(first) if first is not None else ""]


# ----------------------------------------------------------------------------------------------------------- times
class Times(Struct):
    """Time of each message (None: unknown), and whether they were made up."""

    at: list[int | None]
    clock: Clock
    start: int | None
    end: int | None

    def before(self, index: int) -> int | None:
        """The last known time before message ``index``; the start of the run when there is none."""
        while index > 0:
            index -= 1
            if (found := self.at[index]) is not None:
                return found
        return self.start

    def after(self, index: int) -> int | None:
        """The first known time after message ``index``; the end of the run when there is none."""
        for i in range(index + 1, len(self.at)):
            if (found := self.at[i]) is not None:
                return found
        return self.end


def times_of(heads: list[Head], known: Facts, until: int | None) -> Times:
    """Message times as recorded, else spread between start and end, else `STEP` apart."""
    at = [h.time for h in heads]
    stated = [t for t in at if t is not None]
    if stated:
        start = known.created if known.created is not None else stated[0]
        return Times(at, "derived", min(start, min(stated)), max(max(stated), until or 0))
    end = known.end if known.end is not None else until
    if known.created is None:
        return Times(at, "synthetic", None, end)
    if end is None or end < known.created:
        return Times([known.created + STEP * (i + 1) for i in range(len(at))], "synthetic", known.created, None)
    width = (end - known.created) // (len(at) + 1)
    return Times([known.created + width * (i + 1) for i in range(len(at))], "synthetic", known.created, end)


# -------------------------------------------------------------------------------------------------------- requests
class Turn(Struct):
    """Assistant messages that came from one model request."""

    messages: list[int]
    inferred: bool = False


def turns_of(heads: list[Head], reference: bool, final: bool) -> list[Turn]:
    """Model requests. A series of recorder-made messages without a tool message between them is one request (fixture
    `adapter_concurrent`). ``final``: the only message was added by the runner, it is no request (fixture `final_only`)."""
    if final:
        return []
    turns: list[Turn] = []
    adapter = not reference and any(h.recorded for h in heads)
    for i, h in enumerate(heads):
        if h.role != "assistant":
            continue
        last = turns[-1].messages[-1] if turns else -2
        if adapter and h.recorded and last == i - 1 and heads[last].recorded:
            turns[-1].messages.append(i)
        else:
            turns.append(Turn([i], adapter))
    return turns


# ----------------------------------------------------------------------------------------------------------- calls
class Judged(Struct):
    """What became of a call."""

    outcome: Outcome
    error: Error | None
    attributes: dict[str, Value]


class _Builder:
    """Spans of one rollout, one by one; holds the index, never the contents."""

    def __init__(self, doc: Document, known: Facts, place: Place, report: Report) -> None:
        self.doc, self.known, self.place, self.report = doc, known, place, report
        meta = metadata(doc)
        self.heads = [head(m, doc.atif) for m in doc.messages]
        self.shape = shape_of(self.heads)
        entries = [entry(c) for c in doc.calls]
        if doc.atif:
            for e, r in zip(entries, doc.results, strict=False):
                words = observation.text(result_fields(r)[0])
                e.digest, e.text = None, digest(words) if words else None
        self.calls = pair(self.heads, entries)
        self.times = times_of(self.heads, known, place.until)
        alone = len(self.heads) == 1 and self.heads[0].role == "assistant" and not self.heads[0].calls
        final = alone and doc.text("final_observation") is not None and self._words(0) == doc.text("final_observation")
        self.turns = turns_of(self.heads, meta.get("reference_agent") is True, final)
        self.attempt = (*place.path, "attempt", str(place.number))
        self.attempt_id = ids.span_id(place.trace, *self.attempt)
        self.agent_id = self._id("phase", "agent")
        self.turn_of = {m: t for t, turn in enumerate(self.turns) for m in turn.messages}
        self.answers = {c.answer: c for c in self.calls if c.answer is not None}
        self.last_answer: dict[int, int] = {}
        for c in self.calls:
            if c.message is not None and c.answer is not None:
                self.last_answer[c.message] = max(c.answer, self.last_answer.get(c.message, 0))
        self._asked: dict[int, list[Raw]] = {}
        self.last_turn = set(self.turns[-1].messages) if self.turns else set()

    def _id(self, *path: str) -> str:
        return ids.span_id(self.place.trace, *self.attempt, *path)

    def _words(self, index: int) -> str | None:
        return jsonio.text(jsonio.fields(self.doc.messages[index]).get("content", ABSENT))

    def request_id(self, turn: int) -> str:
        return self._id("request", str(self.turns[turn].messages[0]))

    # -- messages
    def message(self, index: int) -> Message:
        call = self.answers.get(index)
        return messages.read(self.doc.messages[index], self.answer(call) if call is not None else None)

    def answer(self, call: Call) -> messages.Answer:
        """What the span of ``call`` will say, so that the message need not."""
        server, name, _ = self.identity(call)
        wire = call.nested.wire if call.nested is not None else None
        outer = self.recorded(call)[1] if self.has_result(call) else call.note and call.note.is_error
        return messages.answer(
            self.shape, call.note.id if call.note else None, server, name, wire, bool(call.note and call.note.unknown), bool(outer)
        )

    # -- calls
    def has_result(self, call: Call) -> bool:
        return call.result is not None and call.result < len(self.doc.results)

    def recorded(self, call: Call) -> tuple[Raw, bool | None, dict[str, Raw]]:
        """Observation, outer flag and other members of the result of ``call``; it must have one."""
        assert call.result is not None
        return result_fields(self.doc.results[call.result])

    def identity(self, call: Call) -> tuple[str | None, str, Raw]:
        """(server, bare name, parameters) of a call; a name in ``tool_calls`` comes first."""
        if call.result is not None:
            server, name, parameters, _ = entry_fields(self.doc.calls[call.result])
            if name:
                if server != "unknown":
                    return server, name if server is None or not name.startswith(f"{server}__") else bare(name), parameters
                return server_of(name), bare(name), parameters
        wire = call.nested.wire if call.nested is not None else (call.note.name if call.note else None) or ""
        server = call.note.server if call.note is not None and call.note.server not in (None, "unknown") else server_of(wire)
        return server, bare(wire), ABSENT

    def span_times(self, call: Call) -> tuple[int | None, int | None, Clock, int]:
        """Start, end, clock and uncertainty of a call."""
        at = self.times.at
        if call.answer is not None:
            end = at[call.answer]
            if call.message is None:
                start = self.times.before(call.answer)
            else:
                start = at[call.message]
                if call.position:
                    earlier = (i for i in range(call.answer - 1, call.message, -1) if self.heads[i].note is not None)
                    mine = next((i for i in earlier if (c := self.answers.get(i)) is not None and c.message == call.message), None)
                    start = at[mine] if mine is not None and at[mine] is not None else start
            if end is None and self.doc.atif:  # the answer has no time of its own; the next message bounds it
                end = self.times.after(call.answer)
                if start is not None and end is not None and end > start:
                    return start, end, "derived", end - start
            if end is None:
                return start, start, "synthetic", 0
            return (min(start, end) if start is not None else end), end, self.times.clock, 0
        if call.message is not None:
            start = at[call.message]
            mine = self.last_answer.get(call.message)
            if call.position and mine is not None and at[mine] is not None:
                start = at[mine]
            return start, start, "synthetic", 0
        last = self.times.end if self.times.end is not None else self.times.before(len(at))
        return last, last, "synthetic", 0

    def tool(self, number: int, call: Call) -> ToolCall | None:
        """The span of ``call``; None when it only stays a part of its message."""
        server, name, parameters = self.identity(call)
        start, end, clock, slack = self.span_times(call)
        source: dict[str, Raw] = {}
        nested_arguments = self.nested_arguments(call)
        arguments = nested_arguments or parameters
        key = (
            f"{call.message}.{call.position}"
            if call.message is not None
            else f"m{call.answer}"
            if call.answer is not None
            else f"r{call.result}"
        )
        attributes: dict[str, Value] = {}
        unfinished = False
        result = ABSENT
        if call.answer is None and call.result is None:
            broken = self.known.error is not None or self.doc.cut
            if not broken or call.message not in self.last_turn:
                return None
            judged = Judged("aborted", Error(type="aborted", message=self.known.error.message if self.known.error else None), {})
            end, unfinished, clock = None, True, self.times.clock
        else:
            outer = None
            if self.has_result(call):
                assert call.result is not None
                result, outer, rest = self.recorded(call)
                source.update({f"tool_results.{k}": v for k, v in rest.items()})
                if outer is None:
                    source["tool_results.is_error"] = jsonio.fields(self.doc.results[call.result]).get("is_error", ABSENT) or Raw(
                        b'"absent"'
                    )
            judged = self.judge(call, result, outer)
            if call.result is None and self.summary(call) is not None:
                result = self.summary_raw(call)
            attributes.update(judged.attributes)
            if call.result is not None and (written := self.doc.verbatim.get(call.result)) is not None:
                result, attributes["spanport.tool.result.literals"] = raw(written), True
        if call.result is not None:
            source.update({f"tool_calls.{k}": v for k, v in entry_fields(self.doc.calls[call.result])[3].items()})
            if nested_arguments and parameters and call.nested is not None and not same_arguments(nested_arguments, parameters):
                source["parameters"] = parameters
        elif judged.outcome in ("ok", "error") and not self.doc.atif:
            attributes["spanport.simlab.recorded"] = "messages"
        request = self.turn_of.get(call.message) if call.message is not None else None
        reasoning = lifted(arguments)
        return ToolCall(
            id=self._id("tool", key),
            trace_id=self.place.trace,
            parent_id=self.agent_id,
            key=key,
            name=name,
            start=start,
            end=end,
            clock=clock,
            uncertainty=slack,
            unfinished=unfinished,
            status="ok" if judged.outcome == "ok" else "error",
            error=judged.error,
            attributes=attributes,
            source=source,
            call_id=(call.nested.id if call.nested is not None else None) or (call.note.id if call.note is not None else None),
            server=server,
            arguments=arguments,
            result=result,
            outcome=judged.outcome,
            requested_by=self.request_id(request) if request is not None else None,
            reasoning=reasoning,
            conversation_id=self.known.conversation,
        )

    def judge(self, call: Call, result: Raw, outer: bool | None) -> Judged:
        """Outcome and error of a call that was answered or recorded. Effective error: outer flag, or the flag inside the
        observation, or the tool message's flag when there is no result."""
        missing = call.result is None
        found = observation.Finding() if missing else observation.look(result)
        told = call.note.is_error if call.note is not None else None
        failed = bool(outer) or bool(found.inner) or (missing and bool(told))
        unknown = bool(call.note and call.note.unknown) or (failed and self.recorded_server(call) == "unknown")
        if not failed and not unknown:
            return Judged("ok", None, {})
        summary = self.summary(call) if call.answer is not None else None
        message = None if missing else observation.explanation(result)
        message = message if message is not None else summary
        if unknown:
            return Judged("rejected", Error(type="unknown_tool", message=message), {})
        kind = observation.error_type(bool(outer) or missing, raw(message) if missing else result, message)
        levels: dict[str, Value] = {}
        if missing:
            levels["spanport.tool.error.message"] = bool(told)
        else:
            levels["spanport.tool.error.outer"] = bool(outer)
            if found.inner is not None:
                levels["spanport.tool.error.inner"] = found.inner
        if found.code is not None:
            levels["spanport.tool.error.code"] = found.code
        return Judged("rejected" if kind == "unknown_tool" else "error", Error(type=kind, message=message), levels)

    def recorded_server(self, call: Call) -> str | None:
        return entry_fields(self.doc.calls[call.result])[0] if call.result is not None else None

    def nested_arguments(self, call: Call) -> Raw:
        """The arguments as the model gave them."""
        if call.message is None:
            return ABSENT
        found = self._asked.get(call.message)
        if found is None:
            found = self._remember(call.message, messages.read(self.doc.messages[call.message]))
        return found[call.position] if call.position < len(found) else ABSENT

    def _remember(self, index: int, message: Message) -> list[Raw]:
        """Hold the arguments of the last few assistant messages, since their calls come next."""
        if len(self._asked) >= 64:
            self._asked.clear()
        found = [p.arguments for p in message.parts if isinstance(p, ToolCallPart)]
        self._asked[index] = found
        return found

    def summary_raw(self, call: Call) -> Raw:
        assert call.answer is not None
        part = messages.read(self.doc.messages[call.answer]).parts[0]
        return part.response if isinstance(part, ToolCallResponsePart) and not jsonio.is_null(part.response) else ABSENT

    def summary(self, call: Call) -> str | None:
        return jsonio.text(self.summary_raw(call))

    # -- requests
    def request(self, number: int, chain: Chain) -> ModelRequest:
        turn = self.turns[number]
        first = turn.messages[0]
        after = self.turns[number - 1].messages[-1] + 1 if number else 0
        given = [self.message(i) for i in range(after, first)]
        answers = [self.message(i) for i in turn.messages]
        for i, answered in zip(turn.messages, answers, strict=True):
            self._remember(i, answered)
        output = [messages.merged(answers)]
        end = self.times.at[first]
        start = self.times.before(first)
        clock = self.times.clock
        if end is None:
            end, clock = start, "synthetic"
        elif start is None or start > end:
            start = end
        history = chain.history()
        own = self.request_id(number)
        chain.close(own, given, output)
        slack = end - start if self.doc.atif and first and self.times.at[first - 1] is None and end is not None and start is not None else 0
        return ModelRequest(
            id=own,
            trace_id=self.place.trace,
            parent_id=self.agent_id,
            key=str(first),
            name=self.known.request_model or "",
            start=start,
            end=end,
            clock=clock,
            uncertainty=slack,
            provider=self.known.provider,
            model=self.known.request_model,
            input_messages=given,
            output_messages=output,
            history=history,
            inferred=turn.inferred,
            conversation_id=self.known.conversation,
        )

    # -- everything
    def build(self) -> Iterator[AnySpan]:
        order: list[tuple[int, int, int, int]] = [(turn.messages[-1], 0, 0, n) for n, turn in enumerate(self.turns)]
        far = len(self.heads)
        for n, call in enumerate(self.calls):
            where = call.answer if call.answer is not None else far if call.message is None else call.message
            order.append((where, 1, call.result if call.result is not None else far, n))
        chain = Chain()
        any_child = False
        for _, kind, _, n in sorted(order):
            span = self.tool(n, self.calls[n]) if kind else self.request(n, chain)
            if span is not None:
                any_child = True
                yield span
        yield from self.phases(any_child)
        yield self.attempt_span()

    def phases(self, any_child: bool) -> Iterator[Phase]:
        stated = [t for t in self.times.at if t is not None]
        recorded = self.times.clock == "derived" and bool(stated)
        created = self.known.created
        if recorded and created is not None and created <= stated[0]:
            yield self.phase("setup", "setup", created, stated[0], "derived")
        if any_child or self.heads:
            first, last = (stated[0], max(stated)) if recorded else (self.times.start, self.times.end)
            if last is None and stated:
                last = stated[-1]
            yield self.phase("agent", "agent", first, last, self.times.clock)
        worth = self.place.judgement
        if worth is not None and worth.rows:
            at = max(stated) if recorded else self.times.end
            if at is None:
                at = stated[-1] if stated else self.times.start
            for row in worth.rows:
                span = self.phase(f"verify.{row.key}", "verify", at, at, "synthetic")
                span.parent_id = self._id("phase", "verify")
                span.name, span.scores, span.output = row.name, row.scores, row.output
                span.source, span.attributes, span.error = row.source, row.attributes, row.error
                failed = row.scores[0].label == "fail" if row.scores else False
                span.status = "error" if row.error is not None else "unset" if failed else "ok"
                yield span
            yield self.phase("verify", "verify", at, at, "synthetic")

    def phase(self, key: str, kind: str, start: int | None, end: int | None, clock: Clock) -> Phase:
        return Phase(
            id=self._id("phase", key),
            trace_id=self.place.trace,
            parent_id=self.attempt_id,
            key=key,
            name=key,
            start=start,
            end=end,
            clock=clock,
            type=kind,
            conversation_id=self.known.conversation,
        )

    def attempt_span(self) -> Attempt:
        place, known, doc = self.place, self.known, self.doc
        source = {k: v for k, v in doc.fields.items() if k not in TYPED}
        for name in ("messages", "tool_calls", "tool_results"):
            if name in doc.fields and not jsonio.is_null(doc.fields[name]) and bytes(memoryview(doc.fields[name])[:1]) != b"[":
                source[name] = doc.fields[name]
        if bytes(doc.fields.get("steps_taken", ABSENT)) != str(len(doc.calls)).encode() and "steps_taken" in doc.fields:
            source["steps_taken"] = doc.fields["steps_taken"]
        for name, kept in (("model", place.model), ("provider", place.provider)):
            if name in doc.fields and doc.text(name) != kept:
                source[name] = doc.fields[name]
        for name in ("task_id", "task", "created_at", "error"):
            if name in doc.fields and doc.text(name) is None and not (name == "error" and jsonio.is_null(doc.fields[name])):
                source[name] = doc.fields[name]
        if known.created is None and "created_at" in doc.fields:
            source["created_at"] = doc.fields["created_at"]
        attributes: dict[str, Value] = {"spanport.simlab.shape": self.shape, "spanport.task.id": known.task_id}
        if known.error is not None and doc.text("final_observation") is not None:
            attributes["spanport.late_finish"] = True
        for name in ("steps_taken", "max_steps"):
            if (number := _number(jsonio.value(doc.fields.get(name, ABSENT)))) is not None:
                attributes[f"spanport.{name}"] = number
        attributes.update(place.attributes)
        worth, scores = place.judgement, []
        if worth is not None:
            if worth.reward is not None:
                attributes["spanport.reward"] = worth.reward
            if worth.reward is not None or worth.verdict not in (None, "unknown"):
                scores.append(Score(name="reward", value=worth.reward, label=worth.verdict))
            source.update({f"reward.json.{k}" if k != "reward.txt" else k: v for k, v in worth.source.items()})
        error = known.error or place.error
        last = {self.turns[-1].messages[-1] + 1} if self.turns else {0}
        tail = [self.message(i) for i in range(min(last), len(self.heads))]
        start, end = self.times.start, self.times.end
        slack = 0
        if place.until is not None and (end is None or place.until > end):
            end = place.until
        if place.until is not None and end == place.until:
            slack = place.slack
        clock: Clock = "derived" if end is not None else "recorded"
        if start is None:
            clock = "synthetic"
        return Attempt(
            id=self.attempt_id,
            trace_id=place.trace,
            parent_id=place.parent,
            key=str(place.number),
            name=f"attempt {place.number}",
            start=start,
            end=end,
            clock=clock,
            uncertainty=slack,
            status="error" if error is not None else "ok" if known.ending == "completed" else "unset",
            error=error,
            unfinished=doc.cut,
            scores=scores,
            attributes=attributes,
            source={**source, **place.source},
            number=place.number,
            agent=place.agent,
            conversation_id=known.conversation,
            input=doc.fields.get("task", ABSENT) if place.input else ABSENT,
            output=final_of(doc) if place.output else ABSENT,
            messages=tail,
            usage=known.usage,
            ending=known.ending,
            verdict=worth.verdict if worth is not None else None,
        )


TYPED: Final = frozenset(
    {
        "task_id",
        "task",
        "model",
        "provider",
        "messages",
        "tool_calls",
        "tool_results",
        "final_observation",
        "error",
        "created_at",
        "steps_taken",
    }
)
"""Members with a typed home; what of them is odd goes to ``source`` again. ``metadata``, ``version`` and ``max_steps`` stay there whole."""


def final_of(doc: Document) -> Raw:
    """The final observation, ABSENT when it is null."""
    found = doc.fields.get("final_observation", ABSENT)
    return ABSENT if jsonio.is_null(found) else found


def same_arguments(given: Raw, recorded: Raw) -> bool:
    """Whether the parameters that were recorded are those that the model gave (no object counts as {})."""
    return digest_value(given) == digest_value(recorded)


def shape_of(heads: list[Head]) -> str:
    """Which of the shapes A to D the messages are in."""
    notes = [h.note for h in heads if h.note is not None and h.note.id is not None]
    if any(n.flat for h in heads for n in h.calls):
        return "A"
    if any(n.server is None for n in notes):
        return "B"
    return "D" if any(h.time is not None for h in heads) else "C"


def rollout(doc: Document, known: Facts, place: Place, report: Report) -> Iterator[AnySpan]:
    """The spans of one rollout, children first, the attempt last."""
    return _Builder(doc, known, place, report).build()


def single(
    doc: Document,
    form: str,
    report: Report,
    *,
    repairs: list[Repair] | None = None,
    place: Place | None = None,
    name: str | None = None,
    more: Run | None = None,
) -> Iterator[Item]:
    """A trace of one run with one attempt. ``form``: the format that it was read as; ``more``: links, scores, attributes, source and
    events that the run gets besides."""
    known = facts(doc)
    key = run_key(doc, known)
    trace = ids.trace_id(FAMILY, *key)
    run = ids.span_id(trace, "run")
    yield TraceHeader(id=trace, family=FAMILY, format=form, run_key=key, name=name or known.task_id or None, repairs=repairs or [])
    given = place or Place(judgement=stated_judgement(doc))
    given.trace, given.parent, given.model, given.provider = trace, run, known.model, known.provider
    attempt: AnySpan | None = None
    for span in rollout(doc, known, given, report):
        yield span
        attempt = span
    assert isinstance(attempt, Attempt)
    extra = more or Run(id="", trace_id="", name="", key="")
    yield Run(
        id=run,
        trace_id=trace,
        key="run",
        name=known.agent,
        start=attempt.start,
        end=attempt.end,
        clock=attempt.clock,
        uncertainty=attempt.uncertainty,
        unfinished=attempt.unfinished,
        status=attempt.status,
        error=attempt.error,
        links=extra.links,
        events=extra.events,
        scores=extra.scores,
        attributes=extra.attributes,
        source=extra.source,
        type="agent",
        native_id=known.task_id or None,
        conversation_id=known.conversation,
        model=known.model,
        provider=known.provider,
        input=doc.fields.get("task", ABSENT),
        output=final_of(doc),
        ending=attempt.ending,
        verdict=attempt.verdict,
    )


def stated_judgement(doc: Document) -> Judgement | None:
    """The verdict that a trajectory states itself."""
    stated = jsonio.fields(doc.verifier)
    if not stated:
        return None
    passed = jsonio.value(stated.get("passed", ABSENT))
    found = judgement(stated.get("payload", ABSENT), None, passed if isinstance(passed, bool) else None)
    if found.reward is None:
        found.reward = number(jsonio.value(stated.get("reward", ABSENT)))
    return found


def lifted(arguments: Raw) -> str | None:
    """The ``action_and_reasoning`` argument."""
    if b"action_and_reasoning" not in bytes(arguments):
        return None
    return jsonio.text(jsonio.fields(arguments).get("action_and_reasoning", ABSENT))
