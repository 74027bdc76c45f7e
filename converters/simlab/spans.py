"""A `Document` as spans: one attempt with its phases, model requests and tool calls.

Times (formats page, "Time"): a request ends at its assistant message and starts at the message before it; a call ends at its tool message and
starts at its assistant message, or, when that holds several, at the tool message before it. All of these are ``derived``. Records without
message times get ``synthetic`` ones that keep the order. Nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from msgspec import Raw, Struct

from .. import ids, jsonio
from ..errors import Report
from ..history import Chain
from ..model import (
    ABSENT,
    AnySpan,
    Attempt,
    Clock,
    Error,
    Message,
    ModelRequest,
    Outcome,
    Phase,
    Score,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    Value,
    raw,
)
from . import messages, observation, shapes
from .document import Document, digest, entry, entry_fields, head, iso, metadata, result_fields, same
from .facts import Facts, final_of, number_of
from .pairing import Call, bare, pair, server_of
from .reward import Judgement
from .timeline import shape_of, times_of, turns_of


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


# ----------------------------------------------------------------------------------------------------------- calls
class Judged(Struct):
    """What became of a call."""

    outcome: Outcome
    error: Error | None
    attributes: dict[str, Value]


_OBJECT: Final = ord("{")
GOOD: Final = Judged("ok", None, {})
_BITS: Final = 40
"""Of the number of an item in a document: there are not that many."""


class _Builder:
    """Spans of one rollout, one by one; holds the index, never the contents."""

    def __init__(self, doc: Document, known: Facts, place: Place, report: Report) -> None:
        self.doc, self.known, self.place, self.report = doc, known, place, report
        meta = metadata(doc)
        self.heads = [head(m, doc.atif) for m in doc.messages]
        self.shape = shape_of(self.heads)
        self.entries = entries = [entry(c) for c in doc.calls]
        if doc.atif:
            for e, r in zip(entries, doc.results, strict=False):
                words = observation.text(result_fields(r)[0])
                e.compared, e.text = False, digest(words) if words else None
        self.calls = pair(self.heads, entries)
        self.times = times_of(self.heads, known, place.until)
        alone = len(self.heads) == 1 and self.heads[0].role == "assistant" and not self.heads[0].calls
        final = alone and doc.text("final_observation") is not None and self._words(0) == doc.text("final_observation")
        self.turns = turns_of(self.heads, meta.get("reference_agent") is True, final)
        self.attempt = (*place.path, "attempt", str(place.number))
        self.attempt_id = ids.span_id(place.trace, *self.attempt)
        self._id = ids.Below(place.trace, *self.attempt).span_id
        self.agent_id = self._id("phase", "agent")
        self.turn_of = {m: t for t, turn in enumerate(self.turns) for m in turn.messages}
        self.answers = {c.answer: c for c in self.calls if c.answer is not None}
        self.last_answer: dict[int, int] = {}
        for c in self.calls:
            if c.message is not None and c.answer is not None:
                self.last_answer[c.message] = max(c.answer, self.last_answer.get(c.message, 0))
        self._asked: dict[int, list[Raw]] = {}
        self._told: dict[int, messages.Answer | Message] = {}
        """What calls say of the messages that answered them, until these are read: that is with the next request. Or the message, where it says nothing else."""
        self._of_today = self.shape in ("C", "D")
        self._request = -1, ""
        self.last_turn = set(self.turns[-1].messages) if self.turns else set()

    def _words(self, index: int) -> str | None:
        return jsonio.text(jsonio.fields(self.doc.messages[index]).get("content", ABSENT))

    def request_id(self, turn: int) -> str:
        first = self.turns[turn].messages[0]
        if self._request[0] != first:  # its calls ask next
            self._request = first, self._id("request", str(first))
        return self._request[1]

    # -- messages
    def message(self, index: int) -> Message:
        told = self._told.pop(index, None)
        if isinstance(told, Message):
            return told
        if told is None and (call := self.answers.get(index)) is not None:
            server, name, _ = self.identity(call)
            told = self.answer(call, server, name, self.recorded(call)[1] if self.has_result(call) else None)
        return messages.read(self.doc.messages[index], told, self.heads[index])

    def answer(self, call: Call, server: str | None, name: str, outer: bool | None) -> messages.Answer:
        """What the span of ``call`` says, so that the message need not."""
        note = call.note
        failed = outer if self.has_result(call) else note and note.is_error
        wire = call.nested.wire if call.nested is not None else None
        return messages.answer(self.shape, note.id if note else None, server, name, wire, bool(note and note.unknown), bool(failed))

    # -- calls
    def has_result(self, call: Call) -> bool:
        return call.result is not None and call.result < len(self.doc.results)

    def recorded(self, call: Call) -> tuple[Raw, bool | None, dict[str, Raw]]:
        """Observation, outer flag and other members of the result of ``call``; it must have one."""
        assert call.result is not None
        item = self.doc.results[call.result]
        if (found := shapes.result(item)) is not None:
            return found.observation, found.is_error, {}
        return result_fields(item)

    def identity(self, call: Call) -> tuple[str | None, str, Raw]:
        """(server, bare name, parameters) of a call; a name in ``tool_calls`` comes first."""
        if call.result is not None:
            entry = self.entries[call.result]
            server, name, parameters = entry.server, entry.name, entry.parameters
            if name:
                if server != "unknown":
                    return server or None, bare(name) if server and name.startswith(f"{server}__") else name, parameters
                return server_of(name), bare(name), parameters
        wire = call.nested.wire if call.nested is not None else (call.note.name if call.note else None) or ""
        server = call.note.server if call.note is not None and call.note.server not in (None, "", "unknown") else server_of(wire)
        return server, bare(wire), ABSENT

    def answer_before(self, index: int, message: int) -> int | None:
        """The last tool message before ``index`` that answers a call of ``message``."""
        for i in range(index - 1, message, -1):
            if (call := self.answers.get(i)) is not None and call.message == message:
                return i
        return None

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
                    mine = self.answer_before(call.answer, call.message)
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

    def usual(self, call: Call) -> ToolCall | None:
        """The span of a call that was asked for, answered and recorded in the common spelling and gave no error, as most are: what `tool` gives, in fewer
        steps. None for any other."""
        doc, note, index, answer, message = self.doc, call.note, call.result, call.answer, call.message
        if index is None or answer is None or message is None or note is None or note.unknown:
            return None
        end = self.times.at[answer]
        if end is None or index >= len(doc.results) or index in doc.verbatim:
            return None
        entry = self.entries[index]
        server, name = entry.server, entry.name
        if not entry.common or not name or not server or server == "unknown":
            return None
        found = shapes.result(doc.results[index])
        if found is None or found.is_error or observation.failed(found.observation):
            return None
        if "__" in name and name.startswith(f"{server}__"):
            name = bare(name)
        at = self.times.at
        start = at[message]
        if call.position:
            before = self.answers.get(answer - 1)  # mostly it is the one before
            mine = answer - 1 if before is not None and before.message == message else self.answer_before(answer, message)
            if mine is not None and at[mine] is not None:
                start = at[mine]
        asked = self._asked.get(message)
        nested = asked[call.position] if asked is not None and call.position < len(asked) else self.nested_arguments(call)
        arguments = nested or entry.parameters
        source: dict[str, Raw] = {}
        if nested and not (call.alike and memoryview(nested)[0] == _OBJECT) and not same(nested, entry.parameters):
            source["parameters"] = entry.parameters
        head = self.heads[answer]
        told = head.content
        if self._of_today and isinstance(told, shapes.Told) and told.tool_server == server and messages.agrees_well(told, name):
            self._told[answer] = messages.told(told, head.time)
        else:
            self._told[answer] = self.answer(call, server, name, False)
        turn = self.turn_of.get(message)
        key = f"{message}.{call.position}"
        return ToolCall(
            id=self._id("tool", key),
            trace_id=self.place.trace,
            parent_id=self.agent_id,
            key=key,
            name=name,
            start=end if start is None or start > end else start,
            end=end,
            clock=self.times.clock,
            status="ok",
            source=source,
            call_id=(call.nested.id if call.nested is not None else None) or note.id,
            server=server,
            arguments=arguments,
            result=found.observation,
            requested_by=self.request_id(turn) if turn is not None else None,
            reasoning=lifted(arguments),
            conversation_id=self.known.conversation,
        )

    def tool(self, number: int, call: Call) -> ToolCall | None:
        """The span of ``call``; None when it only stays a part of its message."""
        if (usual := self.usual(call)) is not None:
            return usual
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
                if rest:
                    source.update({f"tool_results.{k}": v for k, v in rest.items()})
                if outer is None:
                    source["tool_results.is_error"] = jsonio.fields(self.doc.results[call.result]).get("is_error", ABSENT) or Raw(
                        b'"absent"'
                    )
            judged = self.judge(call, result, outer)
            if call.answer is not None:
                self._told[call.answer] = self.answer(call, server, name, outer)
            if call.result is None and self.summary(call) is not None:
                result = self.summary_raw(call)
            if judged is not GOOD:
                attributes.update(judged.attributes)
            if call.result is not None and (written := self.doc.verbatim.get(call.result)) is not None:
                result, attributes["spanport.tool.result.literals"] = raw(written), True
        if call.result is not None:
            if not self.entries[call.result].common:
                source.update({f"tool_calls.{k}": v for k, v in entry_fields(self.doc.calls[call.result])[3].items()})
            known = call.alike and bytes(memoryview(nested_arguments)[:1]) == b"{"  # JSON that was compared as it stands
            if nested_arguments and parameters and call.nested is not None and not known and not same(nested_arguments, parameters):
                source["parameters"] = parameters
            if judged.outcome not in ("ok", "error"):
                attributes["spanport.simlab.recorded"] = "calls"
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
            return GOOD
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
        return self.entries[call.result].server if call.result is not None else None

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
    def build(self) -> Generator[AnySpan, None, Attempt]:
        # By message; there requests before calls, and calls by their result. One number each, since there are as many as spans.
        order = [turn.messages[-1] << _BITS * 2 + 1 | n for n, turn in enumerate(self.turns)]
        far = len(self.heads)
        for n, call in enumerate(self.calls):
            where = call.answer if call.answer is not None else far if call.message is None else call.message
            order.append(((where << 1 | 1) << _BITS | (call.result if call.result is not None else far)) << _BITS | n)
        order.sort()
        chain = Chain()
        any_child = False
        for place in order:
            n = place & (1 << _BITS) - 1
            span = self.tool(n, self.calls[n]) if place >> _BITS * 2 & 1 else self.request(n, chain)
            if span is not None:
                any_child = True
                yield span
        yield from self.phases(any_child)
        attempt = self.attempt_span()
        yield attempt
        return attempt

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
        if "created_at" in doc.fields and (
            known.created is None or known.created != self.times.start or iso(known.created) != doc.text("created_at")
        ):
            source["created_at"] = doc.fields["created_at"]
        if bytes(source.get("version", ABSENT)) == VERSION:
            del source["version"]
        steps = source.get("max_steps", ABSENT)
        if steps and (jsonio.is_null(steps) or number_of(jsonio.value(steps)) is not None):
            del source["max_steps"]
        attributes: dict[str, Value] = {"spanport.simlab.shape": self.shape, "spanport.task.id": known.task_id}
        if known.error is not None and doc.text("final_observation") is not None:
            attributes["spanport.late_finish"] = True
        for name in ("steps_taken", "max_steps"):
            if (number := number_of(jsonio.value(doc.fields.get(name, ABSENT)))) is not None:
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
"""Members with a typed home; what of them is odd goes to ``source`` again. ``metadata`` stays there whole."""
VERSION: Final = b'"0.1"'
"""What SimLab always writes as ``version``; anything else is kept."""


def rollout(doc: Document, known: Facts, place: Place, report: Report) -> Generator[AnySpan, None, Attempt]:
    """The spans of one rollout, children first, the attempt last; that is returned, too."""
    return _Builder(doc, known, place, report).build()


def lifted(arguments: Raw) -> str | None:
    """The ``action_and_reasoning`` argument."""
    if bytes(arguments).find(b"action_and_reasoning") < 0:
        return None
    return jsonio.text(jsonio.fields(arguments).get("action_and_reasoning", ABSENT))
