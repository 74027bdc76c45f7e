"""Agno's times: the rules one by one, and the error against the wall clock of the recorded runs (`benchmarks/agno_time_error.py`)."""

from __future__ import annotations

import importlib.util
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import spanport
from spanport.converters.agno import times
from spanport.converters.model import ModelRequest, Run, ToolCall

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures" / "agno" / "corpus"
CORPUS = Path(os.environ.get("SPANPORT_CORPUS") or FIXTURES)
S = 1_000_000_000

_spec = importlib.util.spec_from_file_location("agno_time_error", ROOT / "benchmarks" / "agno_time_error.py")
assert _spec is not None
assert _spec.loader is not None
measured = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(measured)
ERRORS = list(measured.cases(CORPUS))
CASES = ("tools", "parallel-tools", "tool-errors", "large", "simple")


def ordinary(e: Any) -> bool:
    """A run of one agent whose first tool is logged, ran as a function, and was not lost from the record."""
    return e.path.parent.name in CASES and e.tools > 0


@pytest.mark.parametrize(
    "error", [e for e in ERRORS if e.tool is not None and ordinary(e)], ids=lambda e: f"{e.path.parent.name}/{e.path.name}"
)
def test_tools_are_within_15_ms(error: Any) -> None:
    assert error.tool < 0.015


@pytest.mark.parametrize("error", [e for e in ERRORS if ordinary(e)], ids=lambda e: f"{e.path.parent.name}/{e.path.name}")
def test_runs_with_tools(error: Any) -> None:
    bound = 0.150 if error.streamed or "stream" in error.path.name else 0.010
    assert abs(error.start) < bound
    assert error.end is None or abs(error.end) < bound


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: f"{e.path.parent.name}/{e.path.name}")
def test_what_is_not_known_is_said(error: Any) -> None:
    assert abs(error.start) <= error.uncertainty + 0.010


def read(*events: dict[str, Any]) -> list[Any]:
    data = b"".join(json.dumps({"run_id": "r", "agent_id": "a", "nested_depth": 0, **e}).encode() + b"\n" for e in events)
    return [s for t in spanport.read(data, format="agno-events") for s in t.spans]


def tool(name: str, start: float | None = None, end: float | None = None, duration: float | None = None, **more: Any) -> dict[str, Any]:
    metrics = {"start_time": start, "end_time": end, "duration": duration} if start is not None else None
    return {"tool_call_id": name, "tool_name": name, "tool_args": {}, "metrics": metrics, **more}


def test_stamps() -> None:
    assert times.window(1_800_000_000) == times.Window(1_800_000_000 * S, 1_800_000_001 * S - 1)
    assert times.window(1_800_000_000.25) == times.point(1_800_000_000_250_000_000)
    assert times.window("2026-11-30T20:00:00.5Z") == times.window("2026-11-30T20:00:00.500000+00:00")
    assert times.window("1800000000") == times.window(1_800_000_000)
    assert times.window(1_800_000_000_123) == times.point(1_800_000_000_123_000_000)  # ms
    assert times.window("not a time") == times.UNKNOWN
    assert times.window(1e300) == times.UNKNOWN or times.window(1e300).lo is not None
    assert times.text_duration("t(a=1) completed in 0.3005s. ") == 300_500_000


def test_calls_that_were_collected_together_began_together() -> None:
    fast = times.Stretch(times.point(16 * S), times.point(17 * S), S, True)
    slow = times.Stretch(times.point(5 * S), times.point(17 * S), 12 * S, True)
    assert times.batch([fast, slow]) == [
        times.Stretch(times.point(5 * S), times.point(6 * S), S, False),
        times.Stretch(times.point(5 * S), times.point(17 * S), 12 * S, False),
    ]
    after = times.Stretch(times.point(17 * S), times.point(18 * S), S, True)
    assert times.batch([slow, after]) == [slow, after]


def test_a_generator_tool_lasts_as_long_as_what_it_yields() -> None:
    found = read(
        {"event": "RunStarted", "created_at": 1000},
        {"event": "ToolCallStarted", "created_at": 1000, "tool": tool("gen")},
        {"event": "CustomEvent", "created_at": 1002, "tool_call_id": "gen"},
        {"event": "ToolCallCompleted", "created_at": 1005, "tool": tool("gen", 1005.5, 1005.5002, 0.0002, result="x")},
        {"event": "RunCompleted", "created_at": 1006},
    )
    (call,) = [s for s in found if isinstance(s, ToolCall)]
    assert 1000 * S <= call.start < 1001 * S
    assert call.end == 1_005_500_200_000
    assert call.clock == "derived"
    assert call.uncertainty > 0


def test_a_continued_tool_takes_its_duration_from_the_text() -> None:
    found = read(
        {"event": "RunContinued", "created_at": 1000},
        {"event": "ToolCallStarted", "created_at": 1000, "tool": tool("t")},
        {"event": "ToolCallCompleted", "created_at": 1000, "content": "t() completed in 0.3005s. ", "tool": tool("t", result="x")},
        {"event": "RunCompleted", "created_at": 1001},
    )
    (call,) = [s for s in found if isinstance(s, ToolCall)]
    assert call.end - call.start == 300_500_000


def test_an_import_time_stamp_does_not_move_the_run() -> None:
    path = FIXTURES / "agno/versions/1.8.4/plain.run_output.json"
    record = json.loads(path.read_text())
    first = record["messages"][0]["created_at"]
    record["created_at"] = first - 86_400  # the process is a day old
    (run,) = [s for t in spanport.read(record) for s in t.spans if isinstance(s, Run)]
    assert abs(run.start - first * S) <= 2 * S


@pytest.mark.parametrize(
    ("record", "start", "end"),
    [
        ("cancelled/plain-tool", 1796068889.0708053, 1796068890.2736776),
        ("model-error/plain-late", 1796068673.5042164, 1796068673.9043162),
    ],
)
def test_a_lost_execution_is_within_what_it_says(record: str, start: float, end: float) -> None:
    """The record kept the tool's message and lost its execution. ``start`` and ``end``: by the tool's own log."""
    found = [s for t in spanport.read(FIXTURES / f"agno/{record}.run_output.json") for s in t.spans]
    (call,) = [s for s in found if isinstance(s, ToolCall)]
    assert call.clock == "derived"
    assert abs(call.start / 1e9 - start) <= call.uncertainty / 1e9 + 0.010
    assert abs(call.end / 1e9 - end) <= call.uncertainty / 1e9 + 0.010
    first = min((s for s in found if isinstance(s, ModelRequest)), key=lambda s: s.start)
    assert first.id == call.requested_by
    assert first.end <= call.start


def test_seconds_never_become_floats() -> None:
    found = [s for t in spanport.read(FIXTURES / "agno/tools/plain.run_output.json") for s in t.spans]
    call = next(s for s in found if isinstance(s, ToolCall) and s.name == "get_weather")
    assert (call.start, call.end, call.clock) == (1796068620_288459300, 1796068620_689095700, "recorded")


def test_requests_and_tools_follow_each_other() -> None:
    found = [s for t in spanport.read(FIXTURES / "agno/tools/stream.events.jsonl") for s in t.spans]
    row = sorted((s for s in found if isinstance(s, ModelRequest | ToolCall)), key=lambda s: s.start)
    assert [type(s) for s in row] == [ModelRequest, ToolCall, ModelRequest, ToolCall, ToolCall, ModelRequest]
    assert all(a.end <= b.start for a, b in pairwise(row))
