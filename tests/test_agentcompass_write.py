"""``progress.jsonl`` written from spans: the same events again, all thirteen keys in order."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import spanport
from hypothesis import given, settings
from hypothesis import strategies as st
from spanport.converters.agentcompass.schema import KEYS
from spanport.converters.errors import Report
from spanport.converters.model import Attempt, ModelRequest, Run, TraceHeader
from spanport.converters.registry import WriteOptions

FIXTURES = Path(__file__).parent.parent / "fixtures" / "agentcompass"
ROOT = Path(os.environ["SPANPORT_CORPUS"]) / "agentcompass" if "SPANPORT_CORPUS" in os.environ else FIXTURES
STREAMS = sorted(p for p in ROOT.rglob("progress.jsonl"))


def written(items: Any, report: Report | None = None) -> list[dict[str, Any]]:
    out = io.BytesIO()
    spanport.write(items, out, format="agentcompass-progress", report=report, options=WriteOptions(carry=False))
    lines = [json.loads(line) for line in out.getvalue().split(b"\n") if line]
    assert all(list(line)[:13] == list(KEYS) for line in lines)
    return lines


def readable(data: bytes) -> list[dict[str, Any]]:
    found = []
    for line in data.split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            if (at := line.find(b'{"run_id"', 1)) > 0:
                found.append(json.loads(line[at:]))
    return found


@pytest.mark.parametrize("path", STREAMS, ids=lambda p: str(p.relative_to(ROOT).parent))
def test_there_and_back(path: Path) -> None:
    """Nothing need be carried: each event comes back from the spans alone."""
    assert written(spanport.stream(path, format="agentcompass-progress")) == readable(path.read_bytes())


def test_a_run_directory_gives_its_stream() -> None:
    for case in ("sdk-direct", "artifacts-collect-fail"):
        assert written(spanport.stream(FIXTURES / case)) == readable((FIXTURES / case / "progress.jsonl").read_bytes())


def test_what_the_format_cannot_say_is_told() -> None:
    report = Report()
    written(spanport.stream(FIXTURES / "sdk-direct"), report)
    dropped = {loss.field: loss.count for loss in report.losses.values() if loss.fate == "dropped"}
    assert dropped["model_request[]"] == 4
    assert dropped["tool_call[]"] == 2


def test_a_run_without_tasks_gets_one() -> None:
    header = TraceHeader(id="1" * 32, family="elsewhere", format="x", run_key=["k"])
    spans = [
        ModelRequest(id="3" * 16, trace_id=header.id, name="m", key="r", parent_id="2" * 16, start=2_000_000_000, end=3_000_000_000),
        Attempt(
            id="2" * 16,
            trace_id=header.id,
            name="a",
            key="1",
            parent_id="1" * 16,
            number=1,
            start=2_000_000_000,
            end=4_000_000_000,
            status="error",
        ),
        Run(
            id="1" * 16,
            trace_id=header.id,
            name="agent",
            key="run",
            native_id="n",
            start=1_000_000_000,
            end=5_000_000_000,
            ending="max_steps",
        ),
    ]
    lines = written([header, *spans])
    assert [(x["event"], x["timestamp"], x["task_id"], x["attempt"], x["status"]) for x in lines] == [
        ("run_started", 1.0, None, None, None),
        ("task_started", 2.0, "n", None, None),
        ("attempt_started", 2.0, "n", 1, None),
        ("attempt_finished", 4.0, "n", 1, "failed"),
        ("task_finished", 4.0, "n", None, "completed"),
        ("run_finished", 5.0, None, None, "completed"),
    ]
    (trace,) = spanport.read(b"".join(json.dumps(x).encode() + b"\n" for x in lines))
    assert len(trace.spans) == 3


VALUES = st.one_of(
    st.text(max_size=8),
    st.integers(-(2**40), 2**40),
    st.booleans(),
    st.none(),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(st.text("ab", min_size=1, max_size=2), st.integers(0, 9), max_size=2),
)
EVENT_NAMES = st.sampled_from(["phase_changed", "attempt_retry", "partial_saved", "execution_plan_resolved", "tasks_loaded", "new_event"])


@given(
    st.lists(
        st.tuples(
            EVENT_NAMES,
            st.sampled_from([None, "a", "b\u2028"]),
            st.sampled_from([None, 1, 2]),
            st.sampled_from([None, "plan", "evaluate", "odd phase"]),
            st.sampled_from([None, "error", "fine"]),
            st.dictionaries(st.text("xyz", min_size=1, max_size=3), VALUES, max_size=3),
        ),
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_stream_comes_back(picked: list[tuple[Any, ...]]) -> None:
    """Generated events, ended in order: what comes back is what went in, odd columns and payloads included."""
    base: dict[str, Any] = dict.fromkeys(KEYS) | {"run_id": "r", "payload": {}, "orchestration_id": "o", "request_index": 0}
    lines: list[dict[str, Any]] = [base | {"event": "run_started", "timestamp": 1796068847.5, "payload": {"model": "m", "benchmark": "b"}}]
    tasks: dict[str, set[int]] = {}
    for name, task, attempt, phase, status, payload in picked:
        if name in ("phase_changed", "attempt_retry", "partial_saved", "execution_plan_resolved"):
            task = task or "a"
        attempt = attempt if task is not None else None
        if name == "phase_changed":
            phase = phase or "plan"
        if name == "execution_plan_resolved":
            phase = "plan"
        if task is not None and task not in tasks:
            tasks[task] = set()
            lines.append(base | {"event": "task_started", "task_id": task, "payload": {"index": len(tasks), "total": 9}})
        if task is not None and attempt is not None and attempt not in tasks[task]:
            tasks[task].add(attempt)
            lines.append(base | {"event": "attempt_started", "task_id": task, "attempt": attempt})
        lines.append(base | {"event": name, "task_id": task, "attempt": attempt, "phase": phase, "status": status, "payload": payload})
    for task, attempts in tasks.items():
        lines += [base | {"event": "attempt_finished", "task_id": task, "attempt": n, "status": "completed"} for n in sorted(attempts)]
        lines.append(
            base | {"event": "task_finished", "task_id": task, "status": "failed", "payload": {"index": 1, "total": 9, "severity": "fatal"}}
        )
    lines.append(base | {"event": "run_finished", "status": "failed", "payload": {"error": "why"}})
    for i, line in enumerate(lines):
        line["timestamp"] = 1796068847.5 + i
    data = b"".join(json.dumps(x, ensure_ascii=False).encode() + b"\n" for x in lines)
    assert written(spanport.stream(data, format="agentcompass-progress")) == lines
