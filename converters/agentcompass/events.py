"""``progress.jsonl`` as spans: run, task, attempt and phase, sans-IO. Lines go in, spans come out as they complete.

Memory is bounded by what is open: a task that has finished leaves a few bytes of its id behind, by which a late event is recognised.
This module opens no files, knows nothing of ``details/`` and makes no model requests or tool calls: the stream holds none.

Rules (fixtures in ``fixtures/agentcompass/``): there is no "phase ended" event, so a phase ends at the next different phase of the same task and
attempt, at ``attempt_retry``, ``attempt_finished`` or ``task_finished``; what is open at the end of the run ends at the last event of its own,
marked unfinished. Repeats of a phase are events on it. ``execution_plan_resolved`` names a phase and is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Raw

from ..clock import SECOND, from_seconds
from ..errors import ReadError, Report
from ..jsonio import decode
from ..model import ABSENT, Attempt, Clock, Error, Event, Item, Phase, Run, Status, Task, Value, raw
from ..source import Block
from ..source import Line as Bytes
from .columns import EMPTY, NOTHING, event_of, payload_members, stray, take_number, unused
from .naming import Identity, agent_of, attempt_id, header_of, run_key, task_id
from .opened import Open, OpenRun, OpenTask, columns
from .schema import LARGEST, Line, Zone, decode_line, decode_lines, decode_object, kind, line_of, words
from .sieve import Sieve, stamped

PHASE_TYPES: Final = {
    "plan": "plan",
    "open_environment": "setup",
    "prepare_task": "setup",
    "start_harness": "setup",
    "run_harness": "agent",
    "run_task": "agent",
    "collect_harness_result": "collect",
    "collect_artifacts": "collect",
    "download_artifacts": "collect",
    "save_evaluation_checkpoint": "save",
    "recover_evaluation": "recover",
    "evaluate_environment": "verify",
    "evaluate": "verify",
    "retry_wait": "wait",
    "save_partial": "save",
    "analyze": "analyze",
}
"""What each phase is, in our words (`Phase.type`). A phase that is not here is kept by its name, without a type."""

RUN_PHASES: Final = ("run_harness", "run_task")
EVENTS: Final = (
    "run_started",
    "tasks_loaded",
    "reuse_loaded",
    "task_started",
    "attempt_started",
    "phase_changed",
    "execution_plan_resolved",
    "attempt_retry",
    "attempt_finished",
    "partial_saved",
    "task_finished",
    "summary_started",
    "run_finished",
)
NO_START: Final = "agentcompass.start_event_lost"
"""Attribute of a span whose start is that of the first event that tells of it, since its own start event is not there (fixture: glued-lines)."""
MAX_EVENTS: Final = 10_000
"""Span events kept on one span; what a stream repeats beyond that is counted as lost."""

_STATUS: Final[dict[str | None, Status]] = {"completed": "ok", "failed": "error", "timed_out": "error"}
ERROR_TYPES: Final = {"timed_out": "timeout"}
_GLUE = b'{"run_id"'
_DIGITS: Final[tuple[int, ...]] = tuple(10 ** (9 - n) for n in range(10))
"""What a fraction of a second of n digits is multiplied by to give ns."""


class Progress:
    """The reader of one stream. `feed` a line at a time, then `close`; both give what is complete, in order.

    ``format``: the name the header carries. Lines of several runs may be mixed: each finds its own."""

    def __init__(self, report: Report, format: str) -> None:
        self.report, self.format = report, format
        self.runs: dict[Identity, OpenRun] = {}
        self.ended: set[Identity] = set()
        self.lines = 0
        self._last: OpenRun | None = None
        self.latest: OpenRun | None = None
        self._zone = Zone(None)
        self._second, self._second_ns = b"", 0
        self._until: int | None = None
        self.wanted: Callable[[str], bool] | None = None
        """Which tasks are told of (a share of the run); None for all. Of the others only the times count."""
        self.whole = True
        """Whether this share tells of the run."""
        self.sieve: Sieve | None = None
        """Of a share that doesn't tell of lines as such: what finds its own."""
        self.of_lines = report
        """What there is to say of lines as such: the same in each share, so only one of them says it."""

    # ------------------------------------------------------------------------------------------------------ lines
    def feed_block(self, block: Block) -> list[Item]:
        """The same as `feed` for each of these lines."""
        out: list[Item] = []
        if (sieve := self.sieve) is not None and (lines := sieve.lines(block)) is not None:
            events = decode_lines(b"\n".join([line for _, line in lines]), len(lines)) if lines else []
            if events is not None and stamped(events):
                for (number, _), event in zip(lines, events, strict=True):
                    self._take(event, NOTHING, number, out)
                return out
        elif sieve is None and (events := decode_lines(block.data, block.count)) is not None:
            for number, event in enumerate(events, block.number + 1):
                self._take(event, NOTHING, number, out)
            return out
        for line in block.lines():
            out += self.feed(line)
        if sieve is not None:
            sieve.learn(block, self._last.first if self._last is not None else None)
        return out

    def feed(self, line: Bytes) -> list[Item]:
        """What is complete with this line. A line that fails is searched for events that were glued to a torn one (fixture: glued-lines)."""
        out: list[Item] = []
        data = line.data
        try:
            if not data.isascii():
                data.decode()  # msgspec looks only at the strings that it decodes, not into a payload
            event = decode_line(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            if data.strip():
                self._mend(line, out)
        else:
            self._take(event, NOTHING, line.number, out)
        return out

    def _mend(self, line: Bytes, out: list[Item]) -> None:
        """The slow path: repaired literals, odd types, unknown fields, torn and glued lines."""
        data = line.data
        try:
            members = decode(data, decode_object, self.of_lines, line=line.number, offset=line.offset)
        except ReadError as error:
            first = error
        else:
            self._odd(members, line.number, out)
            return
        cuts = [0]
        while (at := data.find(_GLUE, cuts[-1] + 1)) > 0:
            cuts.append(at)
        if len(cuts) == 1:
            what, code = (first.message, "bad-line") if line.ended else ("cut off", "truncated")
            self.of_lines.note(code, f"{what}: {len(data):,} bytes passed over", "lost", line=line.number, byte=line.offset)
            return
        for start, end in zip(cuts, [*cuts[1:], len(data)], strict=True):
            piece = data[start:end]
            try:
                piece.decode()
                members = decode_object(piece)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                offset = line.offset + start
                self.of_lines.note("torn-line", f"torn event: {len(piece):,} bytes passed over", "lost", line=line.number, byte=offset)
            else:
                if start:
                    self.of_lines.note("glued-line", "an event glued to a torn one is read", line=line.number, byte=line.offset + start)
                self._odd(members, line.number, out)

    def _odd(self, members: dict[str, Raw], number: int, out: list[Item]) -> None:
        event, odd = line_of(members)
        if not event.event or "run_id" not in members:
            self.of_lines.note("not-an-event", "an object without run_id and event", "lost", line=number)
            return
        if odd:
            self.of_lines.note("odd-field", f"unexpected {', '.join(sorted(odd)[:5])} kept in source", "info", line=number)
        self._take(event, {f"line.{name}": raw.copy() for name, raw in odd.items()}, number, out)

    # ------------------------------------------------------------------------------------------------------ events
    def _take(self, e: Line, odd: dict[str, Raw], number: int, out: list[Item]) -> None:
        self.lines += 1
        run = self._last
        if run is None or columns(e) != run.columns or self._until is not None:
            if (run := self._run_of(e, number, out)) is None:
                return
            odd = stray(e, run.first, odd)
        elif e.payload != EMPTY and kind(e.payload) != "object":
            odd = stray(e, run.first, odd)
        span = run.span
        time = self._time(e.timestamp)
        if time is None:
            self.of_lines.note("no-time", f"{e.event} has no readable timestamp; takes that of the event before", line=number)
            time = span.last
        elif time < span.last:
            self.of_lines.note("clock-back", f"{e.event} is stamped before the event above it", "info", line=number)
        else:
            span.last = time
        if e.phase == "analyze" and e.event == "phase_changed":
            run.analysis = True
        if e.task_id is None:
            self._run_event(run, e, odd, time, number, out)
        elif self.wanted is None or self.wanted(e.task_id):
            self._task_event(run, e, odd, time, number, out)

    def _run_of(self, e: Line, number: int, out: list[Item]) -> OpenRun | None:
        """The run that an event is of, which begins with it when it is new; None when the event is passed over."""
        identity = (e.orchestration_id, e.request_index, e.run_id)
        last = self._last
        run = last if last is not None and last.identity == identity else self.runs.get(identity)
        fresh = run is None
        if run is None:
            if identity in self.ended:
                self.of_lines.note("late-event", f"{e.event} after the end of its run passed over", "lost", line=number)
                return None
            run = self._begin(identity, e, self._time(e.timestamp), number, out)
        self._last = self.latest = run
        if self._until is not None and not fresh and (time := self._time(e.timestamp)) is not None:
            if time <= self._until:
                return None  # read before the file began anew
            self._until = None
        return run

    def _time(self, raw: Raw) -> int | None:
        whole, _, fraction = (data := bytes(raw)).partition(b".")
        if whole == self._second and fraction.isdigit() and len(fraction) < 10:  # most stamps share their second with the one before
            return self._second_ns + int(fraction) * _DIGITS[len(fraction)]
        try:
            found = from_seconds(data.decode())
            if whole.isdigit() and 0 <= found < LARGEST - SECOND:
                self._second, self._second_ns = whole, int(whole) * SECOND
        except ValueError:
            return self._zone.moment(raw)
        return found if 0 <= found < LARGEST else self._zone.moment(raw)

    def _begin(self, identity: Identity, e: Line, time: int | None, number: int, out: list[Item]) -> OpenRun:
        header = header_of(run_key(identity, time), e.run_id, self.format)
        if e.event != "run_started" and e.orchestration_id is None:
            self.of_lines.note("no-start", "the stream has no run_started: ids are derived from its first event", line=number)
        run = OpenRun(identity, e, time if time is not None else 0, header)
        self.runs[identity] = run
        out.append(header)
        return run

    def _run_event(self, run: OpenRun, e: Line, odd: dict[str, Raw], time: int, number: int, out: list[Item]) -> None:
        payload = payload_members(e.payload)
        span = run.span
        if e.event == "run_started" and not span.started:
            span.started, span.start = True, time
            odd = unused(e, odd, "phase", "status", "attempt", "category")
            run.model, run.benchmark = words(payload.pop("model", ABSENT)), words(payload.pop("benchmark", ABSENT))
            run.harness, run.environment = words(payload.pop("harness", ABSENT)), words(payload.pop("environment", ABSENT))
            span.source.update((f"run_started.{k}", v) for k, v in {**payload, **odd}.items())
        elif e.event == "run_finished":
            odd = unused(e, odd, "phase", "attempt", "category")
            del self.runs[run.identity]
            self.ended.add(run.identity)
            self._last = None
            self._end(run, e, odd, payload, time, out)
        elif self.whole:
            if e.event not in EVENTS:
                self.report.note("unknown-event", f"event {e.event!r} kept as an event of the run", "info", line=number)
            self._keep(span.events, e, odd, payload, time)

    def _task_event(self, run: OpenRun, e: Line, odd: dict[str, Raw], time: int, number: int, out: list[Item]) -> None:
        name = e.task_id or ""
        task = run.tasks.get(name)
        if task is None:
            id = task_id(run.trace, name)
            if id in run.done:
                self.report.note("late-event", f"{e.event} after the end of task {name!r} passed over", "lost", line=number)
                return
            task = run.tasks[name] = OpenTask(id, time, e.event == "task_started", e.category)
        if e.attempt is None:
            target: Open = task
        else:
            known = task.attempts.get(e.attempt, 0)
            if known is None:
                self.report.note("late-event", f"{e.event} after the end of attempt {e.attempt} passed over", "lost", line=number)
                return
            if isinstance(known, int):
                known = task.attempts[e.attempt] = Open(attempt_id(run.trace, name, e.attempt), time, e.event == "attempt_started")
            target = known
        if time > target.last:
            target.last = time
        if e.category != task.category:
            if task.category is None:
                task.category = e.category
            else:
                odd = {**odd, "line.category": raw(e.category)}
        what = e.event
        if what == "phase_changed" and e.phase is not None:
            self._phase(run, target, e, odd, time, out)
        elif what == "attempt_finished" and e.attempt is not None:
            self._attempt(run, task, name, e, odd, time, out)
        elif what == "task_finished":
            self._task(run, task, name, e, odd, time, out)
        elif what == "attempt_started" and target is not task:
            odd = unused(e, odd, "phase", "status")
            if (payload := payload_members(e.payload)) or odd:
                target.source.update((f"{what}.{k}", v) for k, v in {**payload, **odd}.items())
        elif what == "task_started":
            payload = payload_members(e.payload)
            odd = unused(e, odd, "phase", "status")
            task.index, task.total = take_number(payload, "index"), take_number(payload, "total")
            task.source.update((f"{what}.{k}", v) for k, v in {**payload, **odd}.items())
        else:
            payload = payload_members(e.payload)
            if what == "attempt_retry":
                self._close_phase(target, time, out)
                target.retries += 1
                if words(payload.get("scope", ABSENT)) == "attempt" and words(payload.get("stage", ABSENT)) != "recovery":
                    target.retry += 1
            elif what not in EVENTS:
                self.report.note("unknown-event", f"event {what!r} kept as an event of its span", "info", line=number)
            held = target.events
            if what == "execution_plan_resolved" and target.phase is not None and target.phase.name == e.phase:
                held = target.phase.events
                target.phase.end = time
            self._keep(held, e, odd, payload, time)

    def _keep(self, held: list[Event], e: Line, odd: dict[str, Raw], payload: dict[str, Raw], time: int) -> None:
        if len(held) >= MAX_EVENTS:
            self.report.note("too-many-events", f"more than {MAX_EVENTS:,} events on one span", "lost")
            return
        held.append(event_of(e, odd, payload, time))

    # ------------------------------------------------------------------------------------------------------ spans
    def _phase(self, run: OpenRun, owner: Open, e: Line, odd: dict[str, Raw], time: int, out: list[Item]) -> None:
        name = e.phase or ""
        phase = owner.phase
        payload = payload_members(e.payload)
        if phase is not None and phase.name == name:
            phase.end = time
            self._keep(phase.events, e, odd, payload, time)
        else:
            if phase is not None:
                self._close_phase(owner, time, out)
            nth = owner.seen[name] = owner.seen.get(name, 0) + 1
            key = f"{name}#{nth}"
            phase = owner.phase = Phase(
                id=run.below.span_id(owner.id, "phase", key),
                trace_id=run.trace,
                name=name,
                key=key,
                parent_id=owner.id,
                start=time,
                end=time,
                clock="derived",
                source={**payload, **odd} if payload or odd else {},
                type=PHASE_TYPES.get(name),
                retry=owner.retry,
            )
            if e.status is not None:
                phase.attributes["agentcompass.status"] = e.status
        if e.status in ("error", "failed"):
            phase.status = "error"
        if e.status is not None and phase.status == "error":
            phase.error = Error(type=e.status, message=words(payload.get("error", ABSENT)))

    def _close_phase(self, owner: Open, time: int | None, out: list[Item]) -> None:
        """``time`` None: the run is over and the phase has no end of its own but the last that was heard of it."""
        phase, owner.phase = owner.phase, None
        if phase is None:
            return
        start, end = phase.start or 0, time if time is not None else phase.end or 0
        phase.end = end = max(end, start)
        owner.child = max(owner.child, end)
        if time is None:
            phase.unfinished = True
        elif phase.events and phase.name == "plan":
            # The limiter is taken after the plan is resolved: from then on the attempt waits for a free slot.
            resolved = [x.time for x in phase.events if x.name == "execution_plan_resolved" and x.time is not None]
            if resolved:
                phase.attributes["agentcompass.queue_seconds"] = (end - resolved[-1]) / 1e9
        out.append(phase)

    def _attempt(
        self,
        run: OpenRun,
        task: OpenTask,
        name: str,
        e: Line | None,
        odd: dict[str, Raw],
        time: int | None,
        out: list[Item],
        number: int = 0,
    ) -> None:
        """An attempt is over: by its event, or (``e`` None) because its task or run is. ``time`` None: by the run."""
        n = e.attempt if e is not None and e.attempt is not None else number
        one = task.attempts[n]
        assert one is not None
        self._close_phase(one, time, out)
        task.attempts[n] = None
        source = one.source
        if e is not None:
            odd = unused(e, odd, "phase")
            run.attempts_finished += 1
            source.update((f"attempt_finished.{k}", v) for k, v in {**payload_members(e.payload), **odd}.items())
        end = max(time if e is not None and time is not None else max(one.last, one.child), one.start)
        task.child = max(task.child, end)
        status = e.status if e is not None else None
        attributes: dict[str, Value] = {}
        if one.retries:
            attributes["agentcompass.retries"] = one.retries
        if not one.started:
            attributes[NO_START] = True
        out.append(
            Attempt(
                id=one.id,
                trace_id=run.trace,
                name=f"{name} attempt {n}",
                key=str(n),
                parent_id=task.id,
                start=one.start,
                end=end,
                clock=_clock(one.started and e is not None),
                unfinished=e is None,
                status=_STATUS.get(status, "unset"),
                error=Error(type=status) if _STATUS.get(status) == "error" else None,
                events=one.events,
                attributes=attributes,
                source=source,
                number=n,
                agent=agent_of(run.harness, run.benchmark),
                ending=status,
            )
        )

    def _task(
        self, run: OpenRun, task: OpenTask, name: str, e: Line | None, odd: dict[str, Raw], time: int | None, out: list[Item]
    ) -> None:
        for n, one in task.attempts.items():
            if one is not None:
                self._attempt(run, task, name, None, NOTHING, time, out, n)
        self._close_phase(task, time, out)
        del run.tasks[name]
        run.done.add(task.id)
        attributes: dict[str, Value] = {}
        status: str | None = None
        error: Error | None = None
        if e is not None:
            odd = unused(e, odd, "phase")
            run.tasks_finished += 1
            status = e.status
            payload = payload_members(e.payload)
            severity = words(payload.pop("severity", ABSENT))
            if severity is not None:
                attributes["agentcompass.severity"] = severity
            for key, mine in (("index", task.index), ("total", task.total)):
                found = take_number(payload, key)
                if found is None or found == mine:
                    continue
                if mine is not None:
                    payload[key] = raw(found)
                elif key == "index":
                    task.index = found
                else:
                    task.total = found
            task.source.update((f"task_finished.{k}", v) for k, v in {**payload, **odd}.items())
            if _STATUS.get(status) == "error":
                error = Error(type=severity or status)
        if task.total is not None:
            attributes["agentcompass.total_tasks"] = task.total
        if not task.started:
            attributes[NO_START] = True
        end = max(time if e is not None and time is not None else max(task.last, task.child), task.start)
        run.span.child = max(run.span.child, end)
        out.append(
            Task(
                id=task.id,
                trace_id=run.trace,
                name=name,
                key=name,
                parent_id=run.span.id,
                start=task.start,
                end=end,
                clock=_clock(task.started and e is not None),
                unfinished=e is None,
                status=_STATUS.get(status, "unset"),
                error=error,
                events=task.events,
                attributes=attributes,
                source=task.source,
                native_id=name,
                category=task.category,
                index=task.index,
                ending=status,
            )
        )

    def _end(self, run: OpenRun, e: Line | None, odd: dict[str, Raw], payload: dict[str, Raw], time: int | None, out: list[Item]) -> None:
        for name, task in list(run.tasks.items()):
            self._task(run, task, name, None, NOTHING, None, out)
        if not self.whole:
            return
        span = run.span
        status = e.status if e is not None else None
        error = None
        if _STATUS.get(status) == "error":
            error = Error(type=ERROR_TYPES.get(status or "", status), message=words(payload.pop("error", ABSENT)))
        if e is not None:
            span.source.update((f"run_finished.{k}", v) for k, v in {**payload, **odd}.items())
        first = run.first
        attributes: dict[str, Value] = {}
        for key, value in (
            ("harness", run.harness),
            ("environment", run.environment),
            ("orchestration.id", first.orchestration_id),
            ("request.key", first.request_key),
            ("request.name", first.request_name),
            ("request.index", first.request_index),
        ):
            if value is not None:
                attributes[f"agentcompass.{key}"] = value
        if not span.started:
            attributes[NO_START] = True
        if run.analysis:
            attributes["agentcompass.reanalysis"] = True
        end = time if e is not None and time is not None else max(span.last, span.child)
        out.append(
            Run(
                id=span.id,
                trace_id=run.trace,
                name=run.benchmark or first.run_id,
                key="run",
                start=span.start,
                end=max(end, span.start),
                clock=_clock(span.started and e is not None),
                unfinished=e is None,
                status=_STATUS.get(status, "unset"),
                error=error,
                events=span.events,
                attributes=attributes,
                source=span.source,
                type="benchmark",
                native_id=first.run_id,
                model=run.model,
                ending=status,
            )
        )

    def again(self) -> None:
        """The file begins anew (it was cut, or another took its place): events up to the last one of an open run were read already."""
        self._until = max((r.span.last for r in self.runs.values()), default=None)

    def close(self) -> list[Item]:
        """The stream is over: what is open ends at its last known time, marked unfinished."""
        out: list[Item] = []
        for run in list(self.runs.values()):
            self._end(run, None, NOTHING, {}, None, out)
        self.runs.clear()
        self._last = None
        return out


def _clock(stated: bool) -> Clock:
    return "recorded" if stated else "derived"


def read_blocks(
    blocks: Iterator[Block], report: Report, format: str, wanted: Callable[[str], bool] | None = None, whole: bool = True
) -> Iterator[Item]:
    """All items of a stream, or of the ``wanted`` tasks; see `Progress`."""
    progress = Progress(report, format)
    progress.wanted, progress.whole = wanted, whole
    if wanted is not None and not whole:
        progress.of_lines, progress.sieve = Report(), Sieve(wanted)
    for block in blocks:
        yield from progress.feed_block(block)
    yield from progress.close()
    if not progress.lines and whole:
        raise ReadError(
            "no AgentCompass event in it", input=report.input, hint="progress.jsonl holds one JSON object a line, with run_id and event"
        )


__all__ = ["EVENTS", "PHASE_TYPES", "RUN_PHASES", "Progress", "read_blocks"]
