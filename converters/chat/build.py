"""Spans of one conversation, out of what was said: run → attempt → a phase a turn → model requests and tool calls.

Knows no spelling of messages (`said` does) and no file (`read` does). A request is concluded from each assistant message
(``inferred``): it ends when the message was made and starts at the message before it; a call runs from the message that asked for it to
its answer (clock ``derived``). What has no time takes the last known one, ``synthetic``; a conversation without any time has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from .. import ids
from ..errors import Report
from ..history import Chain
from ..model import (
    ABSENT,
    AnySpan,
    Artifact,
    Attempt,
    Clock,
    Error,
    Event,
    Message,
    ModelRequest,
    Phase,
    Run,
    TextPart,
    ToolCall,
    ToolCallPart,
    TraceHeader,
    raw,
)
from .said import Call, Result, Said, response_part

HOLD: Final = 256
"""Spans that wait for the first known time of the conversation; after these, spans go without."""


class _Open(Struct):
    """A call without an answer yet."""

    call: Call
    key: str
    requested_by: str | None
    start: int | None
    clock: Clock
    artifacts: list[Artifact]


class _Turn(Struct):
    number: int | str
    key: str
    id: str
    start: int | None = None
    end: int | None = None
    explicit: bool = False
    asked: bool = False
    requests: int = 0
    input: Raw = ABSENT
    output: Raw = ABSENT
    events: list[Event] = []
    artifacts: list[Artifact] = []
    source: dict[str, Raw] = {}


def split_name(name: str) -> tuple[str, str | None]:
    """``mcp__server__tool`` as (tool, server); any other name is the tool's own."""
    if name.startswith("mcp__") and name.count("__") >= 2:
        _, server, tool = name.split("__", 2)
        if server and tool:
            return tool, server
    return name, None


def _words(said: Said) -> str | None:
    found = [p.content for p in said.parts if isinstance(p, TextPart)]
    return "\n".join(found) if found else None


class Conversation:
    """Feed it with `say`, `turn`, `artifact` …; each gives the spans that are complete. `close` gives the rest."""

    def __init__(
        self, header: TraceHeader, report: Report, *, thread: str | None, rows: Iterable[tuple[Artifact, str | None]] = ()
    ) -> None:
        self.header, self.report, self.thread = header, report, thread
        self.run_source: dict[str, Raw] = {}
        self.agent = ""
        self.cut = False  # the record breaks off: its end is not known
        self._run = ids.span_id(header.id, "run")
        self._attempt = ids.span_id(header.id, "run", "1")
        self._chain = Chain()
        self._new: list[Message] = []
        self._turn: _Turn | None = None
        self._turns: dict[str, int] = {}
        self._users = 0
        self._calls: dict[str, int] = {}
        self._open: list[_Open] = []
        self._now: int | None = None
        self._first: int | None = None
        self._held: list[AnySpan] = []
        self._waiting = True
        self._asking: Said | None = None
        self._first_input = self._last_output = ABSENT
        self._loose: list[Artifact] = []
        self._by_call: dict[str, list[Artifact]] = {}
        self._by_turn: dict[str, list[Artifact]] = {}
        for artifact, call in rows:
            (self._by_call if call is not None else self._by_turn).setdefault(call or str(artifact.turn), []).append(artifact)

    # ------------------------------------------------------------------------------------------------- output
    def _see(self, time: int | None) -> None:
        """``time`` was stated: the clock of the conversation stands there now."""
        if time is None:
            return
        if self._first is None:
            self._first = time
        self._now = time if self._now is None else max(self._now, time)
        if self._turn is not None:
            self._turn.start = time if self._turn.start is None else min(self._turn.start, time)
            self._turn.end = time if self._turn.end is None else max(self._turn.end, time)

    def _give(self, spans: Iterable[AnySpan]) -> Iterator[AnySpan]:
        """Spans on their way out: those without a time wait for the first that is known, but not for ever."""
        for span in spans:
            if span.start is None and self._first is None and self._waiting:
                self._held.append(span)
                if len(self._held) >= HOLD:
                    self._waiting = False
                    yield from self._held
                    self._held = []
                continue
            yield from self._release()
            yield span

    def _release(self) -> Iterator[AnySpan]:
        held, self._held = self._held, []
        for span in held:
            if self._first is not None:
                span = msgspec.structs.replace(span, start=self._first, end=self._first, clock="synthetic")
            yield span

    # -------------------------------------------------------------------------------------------------- turns
    def turn(self, number: int | str | None, source: dict[str, Raw] | None = None, explicit: bool = True) -> Iterator[AnySpan]:
        """A turn begins. ``number`` None: one more than the user messages so far."""
        yield from self._give(self._ask())
        yield from self._give(self._end_turn())
        self._begin_turn(number, source, explicit)

    def _begin_turn(self, number: int | str | None, source: dict[str, Raw] | None, explicit: bool) -> _Turn:
        number = number if number is not None else self._users + 1
        count = self._turns[str(number)] = self._turns.get(str(number), 0) + 1
        key = f"turn-{number}" if count == 1 else f"turn-{number}-{count}"
        self._turn = _Turn(
            number=number,
            key=key,
            id=ids.span_id(self.header.id, "run", "1", key),
            explicit=explicit,
            source=source or {},
            events=[],
            artifacts=self._by_turn.pop(str(number), []),
        )
        return self._turn

    def _in_turn(self) -> _Turn:
        return self._turn or self._begin_turn(None, None, False)

    def _end_turn(self) -> Iterator[AnySpan]:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        for open_ in self._open:
            yield self._call_span(turn, open_, None, None)
        self._open = []
        start, end = turn.start, turn.end
        clock: Clock = "derived"
        if start is None or start == end:  # one time, or none: how long the turn took is not known
            start = end = start if start is not None else self._now
            clock = "synthetic"
        yield Phase(
            id=turn.id,
            trace_id=self.header.id,
            parent_id=self._attempt,
            name=f"turn {turn.number}",
            key=turn.key,
            type="turn",
            start=start,
            end=end,
            clock=clock,
            conversation_id=self.thread,
            input=turn.input,
            output=turn.output,
            events=turn.events,
            artifacts=self._dressed(turn.artifacts, turn),
            attributes={"spanport.turn": turn.number},
            source=turn.source,
        )

    # ----------------------------------------------------------------------------------------------- messages
    def say(self, said: Said) -> Iterator[AnySpan]:
        """A message, in order."""
        if said.role == "assistant":
            yield from self._give(self._ask())
            self._asking = said
            yield from self._give(self._ask())
            for result in said.results:  # blocks of one message may hold the answers too
                yield from self._give(self._answer(result, said.time, said.time is not None))
            return
        yield from self._give(self._ask())
        real_user = said.role == "user" and (bool(said.parts) or not said.results)
        if real_user:
            yield from self._user_turn(said)
        elif said.turn is not None and (self._turn is None or said.turn != self._turn.number):
            yield from self.turn(said.turn, explicit=True)
        before = self._now
        self._see(said.time)
        for result in said.results:
            yield from self._give(self._answer(result, said.time if said.time is not None else before, said.time is not None))
        if said.parts or not said.results:
            self._new.append(self._message(said))
        for artifact in said.artifacts:
            self.artifact(artifact, None)

    def _user_turn(self, said: Said) -> Iterator[AnySpan]:
        turn = self._turn
        new = turn is None or turn.asked or (self._users > 0 and not turn.explicit)
        if said.turn is not None:
            new = turn is None or turn.number != said.turn
        if new:
            yield from self.turn(said.turn, explicit=said.turn is not None)
        turn = self._in_turn()
        turn.asked = True
        self._users += 1
        if (words := _words(said)) is not None:
            turn.input = turn.input or raw(words)
            self._first_input = self._first_input or turn.input

    def _message(self, said: Said) -> Message:
        return Message(role=said.role, parts=said.parts, name=said.name, finish_reason=said.finish, time=said.time, source=said.source)

    def call(self, call: Call, time: int | None = None) -> None:
        """A call in a stream of events: calls that follow each other were asked for by one request."""
        if self._asking is None:
            self._asking = Said(role="assistant", parts=[], calls=[], results=[], source={}, time=time)
        self._asking.calls.append(call)
        self._asking.parts.append(ToolCallPart(name=call.name, id=call.id, arguments=call.arguments))

    def _ask(self) -> Iterator[AnySpan]:
        """The request that gave the assistant message that is held."""
        said, self._asking = self._asking, None
        if said is None:
            return
        if said.turn is not None and (self._turn is None or self._turn.number != said.turn):
            yield from self._end_turn()
            self._begin_turn(said.turn, None, True)
        turn = self._in_turn()
        turn.requests += 1
        key = f"request-{turn.requests}"
        span = ids.span_id(self.header.id, "run", "1", turn.key, key)
        start, clock = self._now, "derived"
        self._see(said.time)
        end = said.time
        if end is None or start is None:
            start, end = (self._now, self._now) if end is None else (end, end)
            clock = "synthetic"
        message = self._message(said)
        new, self._new = self._new, []
        history = self._chain.history()
        self._chain.close(span, new, [message])
        if (words := _words(said)) is not None:
            turn.output = self._last_output = raw(words)
        yield ModelRequest(
            id=span,
            trace_id=self.header.id,
            parent_id=turn.id,
            name=said.model or "",
            key=key,
            start=start,
            end=max(start, end) if start is not None and end is not None else end,
            clock=clock,  # type: ignore[arg-type]
            model=said.model,
            provider=said.provider,
            response_id=said.response_id,
            finish_reasons=[said.finish] if said.finish is not None else [],
            input_messages=new,
            output_messages=[message],
            history=history,
            conversation_id=self.thread,
            usage=said.usage,
            inferred=True,
            artifacts=self._dressed(said.artifacts, turn),
        )
        for call in said.calls:
            count = self._calls[call.id or ""] = self._calls.get(call.id or "", 0) + 1
            name = call.id or "call"
            key = name if count == 1 and call.id else f"{name}#{count}"
            made = self._by_call.pop(call.id, []) if call.id is not None else []
            self._open.append(_Open(call, key, span, end, "derived" if said.time is not None else "synthetic", made))

    def _answer(self, result: Result, time: int | None, stated: bool) -> Iterator[AnySpan]:
        turn = self._in_turn()
        found = next((o for o in self._open if o.call.id == result.call_id and result.call_id is not None), None)
        if found is None and result.call_id is None:  # no id: the oldest open call of that name, else the oldest
            found = next((o for o in self._open if o.call.name == result.name), self._open[0] if self._open else None)
        if found is None:
            call = Call(name=result.name or "", id=result.call_id)
            count = self._calls[result.call_id or ""] = self._calls.get(result.call_id or "", 0) + 1
            made = self._by_call.pop(result.call_id, []) if result.call_id is not None else []
            found = _Open(
                call,
                f"{result.call_id or 'call'}#{count}" if count > 1 or not result.call_id else result.call_id,
                None,
                time,
                "synthetic",
                made,
            )
        else:
            self._open.remove(found)
        self._new.append(Message(role="tool", parts=[response_part(result)], name=result.name))
        yield self._call_span(turn, found, result, time if stated else None)

    def _call_span(self, turn: _Turn, o: _Open, result: Result | None, end: int | None) -> ToolCall:
        artifacts = self._dressed([*o.artifacts, *(result.artifacts if result is not None else [])], turn)
        made = [a.created for a in artifacts if a.created is not None]
        for time in made:
            self._see(time)
        clock: Clock = o.clock if end is not None else "synthetic"
        start = o.start if o.clock != "synthetic" else end if end is not None else max(made) if made else o.start
        if result is not None and end is None:  # the answer has no time of its own: not before what is known of the call
            known = [t for t in (start, *made) if t is not None]
            end = max(known) if known else None
        if start is not None and end is not None:
            end = max(start, end)
        name, server = split_name(o.call.name)
        error = Error(type="tool") if result is not None and result.error else None
        return ToolCall(
            id=ids.span_id(self.header.id, "run", "1", turn.key, o.key),
            trace_id=self.header.id,
            parent_id=turn.id,
            name=name,
            key=o.key,
            start=start,
            end=end,
            clock=clock if result is not None else o.clock,
            unfinished=result is None,
            status="unset" if result is None else "error" if error else "ok",
            error=error,
            outcome="aborted" if result is None else "error" if error else "ok",
            call_id=o.call.id,
            server=server,
            arguments=o.call.arguments,
            result=result.content if result is not None else ABSENT,
            requested_by=o.requested_by,
            conversation_id=self.thread,
            artifacts=artifacts,
            source=result.source if result is not None else {},
        )

    def result(self, result: Result, time: int | None = None) -> Iterator[AnySpan]:
        """The answer to a call, in a stream of events."""
        yield from self._give(self._ask())
        self._see(time)
        yield from self._give(self._answer(result, time, time is not None))

    # -------------------------------------------------------------------------------- artifacts and other events
    def artifact(self, artifact: Artifact, call_id: str | None) -> None:
        """An artifact was made: by the open call ``call_id``, else in the turn, else in the conversation."""
        for o in self._open:
            if call_id is not None and o.call.id == call_id:
                o.artifacts.append(artifact)
                return
        self._see(artifact.created)
        (self._turn.artifacts if self._turn is not None else self._loose).append(artifact)

    def waits(self, call_id: str | None) -> bool:
        """Whether a call of that id has no answer yet."""
        asked = self._asking.calls if self._asking is not None else []
        return any(c.id == call_id for c in [*asked, *(o.call for o in self._open)])

    def flush(self) -> Iterator[AnySpan]:
        """The request that is held, when something else follows."""
        yield from self._give(self._ask())

    def see(self, time: int | None) -> None:
        """A time was stated in the turn."""
        self._see(time)

    def event(self, event: Event) -> None:
        """Something else that happened in the turn."""
        self._see(event.time)
        self._in_turn().events.append(event)

    def _dressed(self, artifacts: list[Artifact], turn: _Turn | None) -> list[Artifact]:
        """Artifacts with the thread, and the turn of the span that made them, where they state none."""
        found = []
        for a in artifacts:
            if a.thread is None or (a.turn is None and turn is not None):
                a = msgspec.structs.replace(
                    a,
                    thread=a.thread if a.thread is not None else self.thread,
                    turn=a.turn if a.turn is not None or turn is None else turn.number,
                )
            found.append(a)
        return found

    # ---------------------------------------------------------------------------------------------------- end
    def close(self) -> Iterator[AnySpan]:
        """What is still open, the attempt and the run."""
        yield from self._give(self._ask())
        if self._new and self._turn is None:
            self._in_turn()
        yield from self._give(self._end_turn())
        left = [
            msgspec.structs.replace(a, source={"tool_call_id": raw(call), **a.source})
            for call, group in self._by_call.items()
            for a in group
        ]
        left += [a for group in self._by_turn.values() for a in group] + self._loose
        for a in left:
            self._see(a.created)
        start, end, clock = self._first, self._now, "derived" if self._first is not None else "synthetic"
        yield from self._give(
            (
                Attempt(
                    id=self._attempt,
                    trace_id=self.header.id,
                    parent_id=self._run,
                    name="",
                    key="1",
                    number=1,
                    start=start,
                    end=end,
                    clock=clock,  # type: ignore[arg-type]
                    unfinished=self.cut,
                    ending="cut off" if self.cut else None,
                    conversation_id=self.thread,
                    messages=self._new,
                    artifacts=self._dressed(left, None),
                ),
                Run(
                    id=self._run,
                    trace_id=self.header.id,
                    name=self.agent,
                    key="run",
                    start=start,
                    end=end,
                    clock=clock,  # type: ignore[arg-type]
                    unfinished=self.cut,
                    ending="cut off" if self.cut else None,
                    conversation_id=self.thread,
                    input=self._first_input,
                    output=self._last_output if not self.cut else ABSENT,
                    source=self.run_source,
                ),
            )
        )
        self._waiting = False
        yield from self._release()
