"""Spans → ``progress.jsonl``: one event a line, all thirteen keys in order, in the order of time.

What the format can say of any run is its run, tasks, attempts and phases; requests, calls, messages, scores and artifacts it can't, which the loss report
says. Events need a task: attempts of a run without tasks go under one that is named like the run. Rows are held until their run is there,
since the columns that stand on every line (run id, orchestration) come with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Raw

from ..clock import to_seconds
from ..errors import Report
from ..model import AnySpan, Attempt, Event, Item, Phase, Run, Task, TraceHeader, kind_of
from ..registry import WriteOptions
from .events import EVENTS, NO_START
from .schema import FAMILY, KEYS

_encode = msgspec.json.Encoder().encode
_PREFIX: Final = "agentcompass."
_ENDINGS: Final = ("completed", "failed", "cancelled", "timed_out", "skipped")
_PHASE_OF: Final = {"execution_plan_resolved": "plan"}
_NOT_PAYLOAD: Final = ("status", "phase")

Row = tuple[int, int, str, str | None, str | None, str | None, dict[str, bytes], dict[str, bytes]]
"""(time, rank, event, span id of the task or attempt, phase, status, payload, other fields of the line)"""
_FIRST = {"run": 0, "task": 1, "attempt": 2}
_MIDDLE = 3
_LAST = {"attempt": 4, "task": 5, "run": 6}


def _text(value: Any) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(str(value).encode("utf-8", "replace").decode())


def _split(source: dict[str, Raw], event: str | None = None) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """``source`` as (payload, fields of the line). On a span its keys begin with the event they came with."""
    payload: dict[str, bytes] = {}
    line: dict[str, bytes] = {}
    for key, raw in source.items():
        if event is not None:
            if not key.startswith(event + "."):
                continue
            key = key[len(event) + 1 :]
        (line if key.startswith("line.") else payload)[key.removeprefix("line.")] = bytes(raw)
    return payload, line


class _Trace:
    def __init__(self, header: TraceHeader, report: Report) -> None:
        self.header, self.report = header, report
        self.rows: list[Row] = []
        self.attempts: dict[str, tuple[int, str | None, int | None, int | None]] = {}
        self.tasks: dict[str, tuple[str, str | None]] = {}

    def row(
        self,
        time: int | None,
        rank: int,
        event: str,
        owner: str | None,
        phase: str | None,
        status: str | None,
        payload: dict[str, bytes],
        line: dict[str, bytes],
    ) -> None:
        if time is None:
            self.report.loss(f"{event}.timestamp", "dropped", reason="an event needs a time")
            return
        self.rows.append((time, rank, event, owner, phase, status, payload, line))

    def events(self, span: AnySpan, phase: str | None = None) -> None:
        owner = None if isinstance(span, Run) else span.parent_id if isinstance(span, Phase) else span.id
        for event in span.events:
            if event.name in EVENTS or (self.header.family == FAMILY and event.name not in ("issue",)):
                payload, line = _payload(event)
                status = event.attributes.get(f"{_PREFIX}status")
                self.row(
                    event.time,
                    _MIDDLE,
                    event.name,
                    owner,
                    phase or _word(event, "phase") or _PHASE_OF.get(event.name),
                    status if isinstance(status, str) else None,
                    payload,
                    line,
                )
            else:
                self.report.loss(f"{kind_of(span)}.events[]", "dropped", reason="progress.jsonl has no such event")
        for name, held in (("scores", span.scores), ("artifacts", span.artifacts), ("links", span.links)):
            if held:
                self.report.loss(f"{kind_of(span)}.{name}[]", "dropped", len(held), "progress.jsonl has no place for it")

    def take(self, span: AnySpan) -> None:
        if isinstance(span, Phase):
            payload, line = _split(span.source)
            status = span.attributes.get(f"{_PREFIX}status")
            self.row(
                span.start, _MIDDLE, "phase_changed", span.parent_id, span.name, status if isinstance(status, str) else None, payload, line
            )
            self.events(span, span.name)
        elif isinstance(span, Attempt):
            self.attempts[span.id] = (span.number, span.parent_id, span.start, span.end)
            self._ends(span, "attempt", {}, {})
        elif isinstance(span, Task):
            self.tasks[span.id] = (span.native_id or span.name, span.category)
            shared = {}
            if span.index is not None:
                shared["index"] = _encode(span.index)
            if isinstance(total := span.attributes.get(f"{_PREFIX}total_tasks"), int):
                shared["total"] = _encode(total)
            severity = span.attributes.get(f"{_PREFIX}severity")
            last = {**shared, **({"severity": _text(severity)} if severity is not None else {})}
            self._ends(span, "task", shared, last)
        else:
            self.report.loss(f"{kind_of(span)}[]", "dropped", reason="progress.jsonl holds no requests, calls or runs inside a run")

    def _ends(self, span: Attempt | Task, what: str, first: dict[str, bytes], last: dict[str, bytes]) -> None:
        if NO_START not in span.attributes:
            payload, line = _split(span.source, f"{what}_started")
            self.row(span.start, _FIRST[what], f"{what}_started", span.id, None, None, {**first, **payload}, line)
        self.events(span)
        if not span.unfinished:
            payload, line = _split(span.source, f"{what}_finished")
            status = self._status(span)
            self.row(span.end, _LAST[what], f"{what}_finished", span.id, None, status, {**last, **payload}, line)

    def _status(self, span: Run | Task | Attempt) -> str | None:
        if self.header.family == FAMILY:
            said = span.attributes.get(f"{_PREFIX}event_status")
            word = said if isinstance(said, str) else span.ending
            if isinstance(span, Attempt) and word not in (None, *_ENDINGS):
                return "failed" if span.status == "error" and span.error is not None else "completed"
            return word
        if span.ending in _ENDINGS:
            return span.ending
        self.report.loss(
            f"{kind_of(span)}.ending", "derived", reason="from the status: the format knows completed, failed, cancelled and timed_out"
        )
        return "failed" if span.status == "error" else "completed"

    def write(self, run: Run | None, out: BinaryIO) -> None:
        """All rows, in the order of time."""
        columns: dict[str, bytes] = {"run_id": _text(self.header.name or self.header.run_key[0] if self.header.run_key else "")}
        loose = [(id, a) for id, a in self.attempts.items() if a[1] not in self.tasks]
        if run is not None:
            columns["run_id"] = _text(run.native_id or run.name)
            for name in ("orchestration_id", "request_key", "request_name", "request_index"):
                value = run.attributes.get(_PREFIX + name.replace("_", ".", 1))
                if value is not None:
                    columns[name] = _text(value)
            self._run(run)
            if loose:
                name = run.native_id or run.name
                self.tasks[run.id] = (name, None)
                starts = [a[2] for _, a in loose if a[2] is not None]
                ends = [a[3] for _, a in loose if a[3] is not None]
                self.row(
                    min(starts, default=run.start), _FIRST["task"], "task_started", run.id, None, None, {"index": b"0", "total": b"1"}, {}
                )
                self.row(
                    max(ends, default=run.end),
                    _LAST["task"],
                    "task_finished",
                    run.id,
                    None,
                    self._status(run),
                    {"index": b"0", "total": b"1", "severity": b'""'},
                    {},
                )
                self.report.loss("task[]", "derived", reason="events need a task: one that is named like the run")
        self.rows.sort(key=lambda r: (r[0], r[1]))
        for time, _, event, owner, phase, status, payload, line in self.rows:
            out.write(self._line(columns, time, event, owner, phase, status, payload, line))
        self.rows.clear()

    def _run(self, run: Run) -> None:
        payload: dict[str, bytes] = {}
        known = self.header.family == FAMILY
        for name, value in (
            ("benchmark", run.name if run.name != run.native_id or not known else None),
            ("harness", run.attributes.get(f"{_PREFIX}harness")),
            ("environment", run.attributes.get(f"{_PREFIX}environment")),
            ("model", run.model),
        ):
            if value is not None:
                payload[name] = _text(value)
        more, line = _split(run.source, "run_started")
        if NO_START not in run.attributes:
            self.row(run.start, _FIRST["run"], "run_started", None, None, None, {**payload, **more}, line)
        self.events(run)
        if not run.unfinished:
            payload, line = _split(run.source, "run_finished")
            if run.error is not None and run.error.message is not None and "error" not in payload:
                payload["error"] = _text(run.error.message)
            self.row(run.end, _LAST["run"], "run_finished", None, None, self._status(run), payload, line)

    def _line(
        self,
        columns: dict[str, bytes],
        time: int,
        event: str,
        owner: str | None,
        phase: str | None,
        status: str | None,
        payload: dict[str, bytes],
        line: dict[str, bytes],
    ) -> bytes:
        number: int | None = None
        if owner in self.attempts:
            number, owner = self.attempts[owner][:2]
        task, category = self.tasks.get(owner, (None, None)) if owner is not None else (None, None)
        values = {
            **columns,
            "event": _text(event),
            "timestamp": to_seconds(time).encode(),
            "task_id": _text(task),
            "category": _text(category),
            "attempt": _encode(number),
            "phase": _text(phase),
            "status": _text(status),
            "payload": b"{" + b", ".join(_text(k) + b": " + v for k, v in payload.items()) + b"}",
            **line,
        }
        names = [*KEYS, *(k for k in values if k not in KEYS)]
        return b"{" + b", ".join(_text(k) + b": " + values.get(k, b"null") for k in names) + b"}\n"


def _word(event: Event, name: str) -> str | None:
    value = event.attributes.get(_PREFIX + name)
    return value if isinstance(value, str) else None


def _payload(event: Event) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """An event's payload and other fields of its line, from its attributes and its source."""
    payload, line = _split(event.source)
    for key, value in event.attributes.items():
        name = key.removeprefix(_PREFIX)
        if name not in _NOT_PAYLOAD and not name.startswith("discarded.") and name not in payload:
            payload[name] = _text(value)
    return payload, line


def write(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions) -> None:
    """All traces, one after the other."""
    traces: dict[str, _Trace] = {}
    for item in items:
        if isinstance(item, TraceHeader):
            traces.setdefault(item.id, _Trace(item, report))
            continue
        trace = traces[item.trace_id]
        if isinstance(item, Run) and item.parent_id is None:
            trace.write(item, out)
        else:
            trace.take(item)
    for trace in traces.values():
        if trace.rows:
            trace.write(None, out)


__all__ = ["write"]
