"""The event stream line by line: damage, holes, odd values, byte by byte, and what must never happen."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
import spanport
from hypothesis import given, settings
from hypothesis import strategies as st
from spanport.converters.errors import ReadError, Report
from spanport.converters.model import AnySpan, Attempt, Phase, Run, Task, kind_of

FIXTURES = Path(__file__).parent.parent / "fixtures" / "agentcompass"


def line(event: str, time: float | str, task: str | None = None, attempt: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "run_id": "r",
        "event": event,
        "timestamp": time,
        "task_id": task,
        "category": None if task is None else "all",
        "attempt": attempt,
        "phase": None,
        "status": None,
        "payload": {},
        "orchestration_id": "a" * 32,
        "request_key": "a" * 32 + "/0",
        "request_name": "run",
        "request_index": 0,
    } | more


T = 1796068847.0


def run(*lines: dict[str, Any] | bytes, report: Report | None = None) -> list[AnySpan]:
    data = b"".join(x if isinstance(x, bytes) else json.dumps(x).encode() + b"\n" for x in lines)
    return [s for t in spanport.read(data, report=report, format="agentcompass-progress") for s in t.spans]


START = line("run_started", T, payload={"model": "m", "benchmark": "b", "harness": "h", "environment": "e"})
WHOLE = (
    START,
    line("tasks_loaded", T + 1, payload={"total_tasks": 1}),
    line("task_started", T + 2, "t", payload={"index": 0, "total": 1}),
    line("attempt_started", T + 3, "t", 1),
    line("phase_changed", T + 4, "t", 1, phase="plan"),
    line("execution_plan_resolved", T + 5, "t", 1, phase="plan", payload={"environment": {"id": "host"}, "run_timeout_seconds": 9.5}),
    line("phase_changed", T + 6, "t", 1, phase="open_environment"),
    line("phase_changed", T + 7, "t", 1, phase="run_harness"),
    line("attempt_retry", T + 8, "t", 1, payload={"retry": 1, "scope": "attempt", "stage": "attempt"}),
    line("phase_changed", T + 8.5, "t", 1, phase="retry_wait", payload={"retry": 1}),
    line("phase_changed", T + 9, "t", 1, phase="run_harness"),
    line("phase_changed", T + 10, "t", 1, phase="download_artifacts", payload={"operation": "inspect"}),
    line("phase_changed", T + 11, "t", 1, phase="download_artifacts", payload={"operation": "completed"}),
    line("phase_changed", T + 12, "t", 1, phase="evaluate"),
    line("attempt_finished", T + 13, "t", 1, status="completed"),
    line("phase_changed", T + 14, "t", phase="save_partial"),
    line("partial_saved", T + 15, "t"),
    line("task_finished", T + 16, "t", status="completed", payload={"index": 0, "total": 1, "severity": "warning"}),
    line("summary_started", T + 17),
    line("run_finished", T + 18, status="completed"),
)


def seconds(span: AnySpan) -> tuple[float, float]:
    assert span.start is not None
    assert span.end is not None
    return span.start / 1e9 - T, span.end / 1e9 - T


def test_a_whole_run() -> None:
    spans = run(*WHOLE)
    phases = [(p.name, *seconds(p), p.retry) for p in spans if isinstance(p, Phase)]
    assert phases == [
        ("plan", 4, 6, 0),
        ("open_environment", 6, 7, 0),
        ("run_harness", 7, 8, 0),
        ("retry_wait", 8.5, 9, 1),
        ("run_harness", 9, 10, 1),
        ("download_artifacts", 10, 12, 1),
        ("evaluate", 12, 13, 1),
        ("save_partial", 14, 16, 0),
    ]
    plan = next(s for s in spans if s.name == "plan")
    assert plan.attributes["agentcompass.queue_seconds"] == 1.0
    assert [e.name for e in plan.events] == ["execution_plan_resolved"]
    download = next(s for s in spans if s.name == "download_artifacts")
    assert [e.attributes["agentcompass.operation"] for e in download.events] == ["completed"]
    attempt = next(s for s in spans if isinstance(s, Attempt))
    assert (*seconds(attempt), attempt.clock, attempt.status, attempt.agent) == (3, 13, "recorded", "ok", "h")
    task = next(s for s in spans if isinstance(s, Task))
    assert (*seconds(task), task.index, task.attributes["agentcompass.severity"]) == (2, 16, 0, "warning")
    whole = next(s for s in spans if isinstance(s, Run))
    assert (*seconds(whole), whole.name, whole.model, whole.native_id, whole.ending) == (0, 18, "b", "m", "r", "completed")
    assert [e.name for e in whole.events] == ["tasks_loaded", "summary_started"]


def test_children_come_before_their_parents_and_the_header_first() -> None:
    items = list(spanport.stream(b"".join(json.dumps(x).encode() + b"\n" for x in WHOLE)))
    assert type(items[0]).__name__ == "TraceHeader"
    seen: set[str] = set()
    for span in items[1:]:
        assert span.parent_id not in seen  # type: ignore[union-attr]
        seen.add(span.id)


def test_what_is_open_at_the_end_of_the_run_is_marked() -> None:
    spans = run(*WHOLE[:8], line("run_finished", T + 30, status="cancelled"))
    open_ = {kind_of(s): seconds(s) for s in spans if s.unfinished}
    assert open_ == {"phase": (7, 7), "attempt": (3, 7), "task": (2, 7)}
    whole = next(s for s in spans if isinstance(s, Run))
    assert (seconds(whole), whole.status, whole.ending) == ((0, 30), "unset", "cancelled")


@pytest.mark.parametrize(
    ("word", "status", "type_"), [("failed", "error", "failed"), ("timed_out", "error", "timeout"), ("cancelled", "unset", None)]
)
def test_how_a_run_ends(word: str, status: str, type_: str | None) -> None:
    whole = run(START, line("run_finished", T + 1, status=word, payload={"error": "why"}))[-1]
    assert (whole.status, whole.error.type if whole.error else None) == (status, type_)


def test_a_stream_that_breaks_off() -> None:
    report = Report()
    cut = json.dumps(WHOLE[8]).encode()[:60]
    spans = run(*WHOLE[:8], cut, report=report)
    assert all(s.unfinished for s in spans if s.name not in ("plan", "open_environment"))
    assert [(n.code, n.severity, n.line) for n in report.notices] == [("truncated", "lost", 9)]


def test_the_last_line_needs_no_end() -> None:
    whole = b"".join(json.dumps(x).encode() + b"\n" for x in WHOLE)
    report = Report()
    assert run(whole.rstrip(b"\n"), report=report) == run(whole)
    assert not report.notices


def test_a_torn_line_with_the_next_event_glued_to_it() -> None:
    report = Report()
    torn = json.dumps(WHOLE[9]).encode()[:100]
    glued = torn + json.dumps(WHOLE[10]).encode() + b"\n"
    spans = run(*WHOLE[:9], glued, *WHOLE[11:], report=report)
    assert [s.name for s in spans if isinstance(s, Phase)].count("run_harness") == 2
    assert [(n.code, n.severity, n.line) for n in report.notices] == [("torn-line", "lost", 10), ("glued-line", "warning", 10)]


def test_two_events_on_one_line_are_both_read() -> None:
    both = json.dumps(WHOLE[3]).encode() + json.dumps(WHOLE[4]).encode() + b"\n"
    assert run(*WHOLE[:3], both, *WHOLE[5:]) == run(*WHOLE)


def test_holes_are_bridged() -> None:
    """No task_started, no attempt_started, no attempt_finished (fixture: glued-lines)."""
    spans = run(WHOLE[0], *WHOLE[6:14], *WHOLE[17:])
    attempt = next(s for s in spans if isinstance(s, Attempt))
    assert (seconds(attempt), attempt.clock, attempt.unfinished) == ((6, 16), "derived", True)
    task = next(s for s in spans if isinstance(s, Task))
    assert (seconds(task), task.clock, task.unfinished) == ((6, 16), "derived", False)
    evaluate = next(s for s in spans if s.name == "evaluate")
    assert (seconds(evaluate), evaluate.unfinished) == ((12, 16), False)


def test_unknown_events_and_fields_are_kept() -> None:
    spans = run(START, line("gpu_heated", T + 1, payload={"degrees": 90}, colour="red"), line("run_finished", T + 2, status="completed"))
    event = spans[-1].events[0]
    assert (event.name, event.attributes, bytes(event.source["line.colour"])) == ("gpu_heated", {"agentcompass.degrees": 90}, b'"red"')


def test_odd_types_do_not_cost_the_line() -> None:
    report = Report()
    spans = run(
        START, line("task_started", T + 1, 7, attempt=None), line("task_finished", str(int(T + 2)), 7, status="completed"), report=report
    )  # type: ignore[arg-type]
    task = next(s for s in spans if isinstance(s, Task))
    assert (task.native_id, seconds(task)[0]) == ("7", 1)
    assert not report.lost


def test_times_in_milliseconds_and_in_text() -> None:
    spans = run(START | {"timestamp": int(T) * 1000}, line("run_finished", "2026-12-01T00:00:00+00:00", status="completed"))
    assert seconds(spans[-1])[0] == 0


def test_nan_is_mended_and_said() -> None:
    report = Report()
    text = json.dumps(line("tasks_loaded", T + 1, payload={"total_tasks": float("nan")})).encode() + b"\n"
    spans = run(START, text, line("run_finished", T + 2, status="completed"), report=report)
    assert [e.name for e in spans[-1].events] == ["tasks_loaded"]
    assert [n.code for n in report.notices if n.severity != "info"] == []


def test_late_events_never_make_a_second_span() -> None:
    report = Report()
    spans = run(
        *WHOLE[:18], line("phase_changed", T + 20, "t", 1, phase="evaluate"), *WHOLE[18:], line("tasks_loaded", T + 30), report=report
    )
    assert len({s.id for s in spans}) == len(spans) == len(run(*WHOLE))
    assert [n.code for n in report.notices if n.severity == "lost"] == ["late-event", "late-event"]


def test_two_runs_in_one_stream() -> None:
    other = [{**x, "orchestration_id": "b" * 32} for x in WHOLE]
    mixed = [x for pair in zip(WHOLE, other, strict=True) for x in pair]
    traces = spanport.read(b"".join(json.dumps(x).encode() + b"\n" for x in mixed))
    assert len(traces) == 2
    assert len(traces[0].spans) == len(traces[1].spans) == len(run(*WHOLE))


def test_line_separators_of_unicode_are_no_line_ends() -> None:
    text = json.dumps(line("task_started", T + 1, "a\u2028b\u0085c"), ensure_ascii=False).encode() + b"\n"
    assert next(s for s in run(START, text) if isinstance(s, Task)).native_id == "a\u2028b\u0085c"


def test_nothing_readable() -> None:
    with pytest.raises(ReadError, match="no AgentCompass event"):
        run(b"not json\n")
    with pytest.raises(ReadError, match="no AgentCompass event"):
        run(b'{"a": 1}\n')


def test_hostile_lines_do_not_crash() -> None:
    report = Report()
    deep = b'{"run_id": "r", "event": "x", "timestamp": 1, "payload": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    spans = run(START, deep, b"\x00\xff\n", b"[]\n", b"null\n", line("run_finished", T + 1, status="completed"), report=report)
    assert isinstance(spans[-1], Run)
    assert report.lost == 4


class OneByte(io.RawIOBase):
    """A stream that gives one byte at a time."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self.at += 1
        return self.data[self.at - 1 : self.at]

    read1 = read


def test_byte_by_byte_gives_the_same_spans() -> None:
    data = gzip.decompress((FIXTURES / "big-240" / "progress.jsonl.gz").read_bytes())
    whole = spanport.read(data, format="agentcompass-progress")
    slow = spanport.read(OneByte(data), format="agentcompass-progress")
    assert slow == whole
    assert len(whole[0].spans) == 1 + 240 + 240 + 2160


def test_memory_is_bounded_by_what_is_open() -> None:
    """A long stream leaves nothing of its finished tasks behind but their ids."""
    from spanport.converters.agentcompass.events import Progress
    from spanport.converters.source import Line

    progress = Progress(Report(), "agentcompass-progress")
    for i in range(500):
        for x in WHOLE[2:18] if i else WHOLE[:18]:
            task = f"t{i}" if x["task_id"] else None
            progress.feed(Line(1, 0, json.dumps(x | {"task_id": task}).encode(), True))
    (one,) = progress.runs.values()
    assert not one.tasks
    assert len(one.done) == 500
    assert len(one.span.events) == 1


@given(st.lists(st.sampled_from(range(1, len(WHOLE))), max_size=30), st.integers(0, 3000))
@settings(max_examples=60, deadline=None)
def test_any_lines_in_any_order_give_a_tree(picked: list[int], cut: int) -> None:
    """Whatever is missing, repeated or cut: ids are unique, parents exist, ends do not lie before starts."""
    data = b"".join(json.dumps(x).encode() + b"\n" for x in [START, *(WHOLE[i] for i in picked)])
    data = data[: max(len(data) - cut, len(json.dumps(START)) + 1)]
    spans = [s for t in spanport.read(data, format="agentcompass-progress") for s in t.spans]
    ids = {s.id for s in spans}
    assert len(ids) == len(spans)
    assert all(s.parent_id is None or s.parent_id in ids for s in spans)
    assert all((s.start or 0) <= (s.end or 0) for s in spans)
