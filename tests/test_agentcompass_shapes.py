"""Shapes of harnesses that are known from AgentCompass's source only, as constructed results (fixtures/agentcompass/constructed). What is expected was
written down from the description of each shape, not from what the reader makes of it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import spanport
from spanport.converters.clock import from_iso
from spanport.converters.errors import Report
from spanport.converters.model import AnySpan, Attempt, ModelRequest, Phase, Run, ToolCall

CONSTRUCTED = Path(__file__).parent.parent / "fixtures" / "agentcompass" / "constructed"
T0 = from_iso("2026-11-30T20:00:00+00:00")


def run_with(folder: Path, result: dict[str, Any], report: Report | None = None) -> list[AnySpan]:
    """The spans of a run with one task and one attempt that has this result; it ran at +08:00."""
    task = folder / "details" / "normal" / f"t--{sha256(b't').hexdigest()}"
    (task / "attempt-1").mkdir(parents=True)
    (folder / "run_info.json").write_text(
        json.dumps({"run_id": "r", "started_at": "2026-12-01T04:00:00+08:00", "request": {"model": {"id": "m"}, "harness": {"id": "h"}}})
    )
    (task / "task.json").write_text(json.dumps({"task_id": "t", "attempts": {"1": "attempt-1"}}))
    (task / "attempt-1" / "result.json").write_text(json.dumps(result))
    return [s for t in spanport.read(folder, report=report) for s in t.spans]


def constructed(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CONSTRUCTED / f"{name}.json").read_text())
    return found


def requests(spans: list[AnySpan]) -> list[ModelRequest]:
    return [s for s in spans if isinstance(s, ModelRequest)]


def calls(spans: list[AnySpan]) -> list[ToolCall]:
    return [s for s in spans if isinstance(s, ToolCall)]


def times(*spans: ModelRequest | ToolCall) -> list[tuple[float | None, float | None, str]]:
    return [(None if s.start is None else (s.start - T0) / 1e9, None if s.end is None else (s.end - T0) / 1e9, s.clock) for s in spans]


def test_thread_events_have_calls_and_turns_but_no_requests(tmp_path: Path) -> None:
    spans = run_with(tmp_path, constructed("codex"))
    assert not requests(spans)
    found = calls(spans)
    assert [(c.name, c.outcome) for c in found] == [
        ("shell", "ok"),
        ("shell", "ok"),  # a non-zero exit code alone is no error
        ("read", "error"),
        ("apply_patch", "ok"),
        ("web_search", "ok"),
        ("shell", "aborted"),
    ]
    assert found[1].attributes["agentcompass.exit_code"] == 1
    assert (found[2].server, found[2].error.message) == ("files", "no such file")  # type: ignore[union-attr]
    assert all(c.clock == "synthetic" and c.end is None for c in found)
    turns = [s for s in spans if isinstance(s, Phase)]
    assert [(t.name, t.type, t.status) for t in turns] == [("turn", "turn", "unset"), ("turn", "turn", "error")]
    attempt = next(s for s in spans if isinstance(s, Attempt))
    assert attempt.usage is not None
    assert (attempt.usage.input, attempt.usage.cache_read, attempt.usage.output, attempt.usage.reasoning) == (900, 300, 80, 20)
    assert attempt.conversation_id == "0199-thread"
    assert [type(m.parts[0]).__name__ for m in attempt.messages] == ["ReasoningPart", "TextPart"]


def test_prefilled_steps_are_no_requests(tmp_path: Path) -> None:
    spans = run_with(tmp_path, constructed("scicode_tool_use"))
    assert times(*requests(spans)) == [(1.0, 2.5, "derived"), (3.0, 4.0, "recorded")]
    (call,) = calls(spans)  # the second call of the turn was never taken up: a part of the message only
    assert (call.call_id, times(call)) == ("c1", [(2.5, 3.0, "derived")])
    first = requests(spans)[0]
    assert [p.name for p in first.output_messages[0].parts if p.__class__.__name__ == "ToolCallPart"] == ["python", "python"]  # type: ignore[union-attr]
    assert [m.role for m in first.input_messages] == ["assistant"]
    assert json.loads(bytes(call.arguments)) == {"code": "print(1)"}


def test_steps_of_one_response_are_one_request_with_the_times_of_its_metrics(tmp_path: Path) -> None:
    spans = run_with(tmp_path, constructed("openhands"))
    found = requests(spans)
    assert times(*found) == [(0.2, 0.9, "recorded"), (3.1, 4.9, "recorded")]
    assert [(r.response_id, r.response_model, r.usage.input) for r in found] == [("resp-1", "m-1", 100), ("resp-2", "m-1", 140)]  # type: ignore[union-attr]
    assert [(c.name, c.outcome) for c in calls(spans)] == [("bash", "ok"), ("bash", "ok")]


def test_calls_without_ids_are_answered_in_order(tmp_path: Path) -> None:
    found = calls(run_with(tmp_path, constructed("researchharness")))
    assert [(c.name, c.outcome, bytes(c.result)) for c in found] == [("search", "ok", b'"found"'), ("visit", "error", b'""')]
    assert found[1].error is not None
    assert found[1].error.message == "timed out"
    assert times(*found) == [(1.8, 3.0, "derived")] * 2


def test_times_that_do_not_fit_their_own_durations_are_not_used(tmp_path: Path) -> None:
    """taubench: steps are stamped when they are converted."""
    spans = run_with(tmp_path, constructed("taubench"))
    assert [r.clock for r in requests(spans)] == ["synthetic", "synthetic"]
    assert [r.end for r in requests(spans)] == [None, None]
    (call,) = calls(spans)
    assert (call.name, bytes(call.result), call.clock) == ("find_user", b'"user 1"', "synthetic")


def test_actions_that_are_strings(tmp_path: Path) -> None:
    spans = run_with(tmp_path, constructed("osworld"))
    (call,) = calls(spans)
    assert bytes(call.arguments) == b'"pyautogui.click(10, 20)"'
    assert bytes(call.result) == b'"screenshot:sha256:abc"'
    assert times(*requests(spans)) == [(1.0, 2.0, "derived"), (4.0, 5.0, "recorded")]


def test_session_events_as_the_trajectory(tmp_path: Path) -> None:
    spans = run_with(tmp_path, constructed("openclaw_events"))
    first, second = requests(spans)
    assert times(first, second) == [(1.0, 3.0, "derived"), (4.0, 6.0, "derived")]
    assert first.usage is not None
    assert (first.usage.input, first.usage.cache_read, first.usage.output, first.usage.cost) == (120, 30, 10, 0.25)
    assert (first.response_model, first.finish_reasons) == ("m-9", ["toolUse"])
    (call,) = calls(spans)
    assert (call.name, call.outcome, times(call)) == ("exec", "error", [(3.0, 4.0, "derived")])


def test_a_trajectory_without_model_calls(tmp_path: Path) -> None:
    """openevolve: no assistant message, and times that count from 1970."""
    spans = run_with(tmp_path, constructed("openevolve"))
    assert not requests(spans)
    assert all(s.start is None or s.start >= T0 for s in spans)


def test_sub_agents_of_stream_json(tmp_path: Path) -> None:
    spans = run_with(tmp_path, constructed("claude_sub_agent"))
    by_id = {s.id: s for s in spans}
    child = next(s for s in spans if isinstance(s, Run) and s.parent_id is not None)
    made = by_id[child.parent_id or ""]
    assert (child.name, made.name) == ("explorer", "Task")
    inner = next(c for c in calls(spans) if c.name == "Bash")
    assert inner.outcome == "error"
    assert by_id[by_id[inner.parent_id or ""].parent_id or ""] is child
    main = [r for r in requests(spans) if r.response_id in ("m1", "m3")]
    assert len(main) == 2
    assert main[0].usage is not None
    assert (main[0].usage.input, main[0].usage.output) == (17, None)
    assert main[0].conversation_id == "sess"


def test_an_attempt_that_is_its_retry_count_alone(tmp_path: Path) -> None:
    attempt = next(s for s in run_with(tmp_path, constructed("nothing")) if isinstance(s, Attempt))
    assert (attempt.status, attempt.attributes["agentcompass.retry_count"]) == ("unset", 2)


@pytest.mark.parametrize("name", sorted(p.stem for p in CONSTRUCTED.glob("*.json")))
def test_any_member_may_be_missing_or_odd(name: str, tmp_path: Path) -> None:
    """Each member of a result replaced by each kind of JSON value: nothing is raised, and ids stay unique."""
    whole = constructed(name)
    for i, key in enumerate(whole):
        for j, odd in enumerate((None, 7, "x", [], {}, [1, "a", None, {}], {"a": [{}]}, True)):
            spans = run_with(tmp_path / f"{i}-{j}", whole | {key: odd})
            assert len({s.id for s in spans}) == len(spans)


def test_damage_in_a_result_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    run_with(tmp_path, constructed("osworld"))
    result = next(tmp_path.rglob("result.json"))
    result.write_bytes(b"[1, 2]")
    report = Report(input="run")
    spans = [s for t in spanport.read(tmp_path, report=report) for s in t.spans]
    assert [type(s).__name__ for s in spans] == ["Attempt", "Task", "Run"]
    (notice,) = [n for n in report.notices if n.severity == "lost"]
    assert notice.code == "bad-file"
    assert notice.input is not None
    assert notice.input.startswith("run/details/normal/t--")
    assert notice.input.endswith("/attempt-1/result.json")


def test_links_and_paths_in_records_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    (secret / "attempt-1").mkdir(parents=True)
    (secret / "attempt-1" / "result.json").write_text(json.dumps(constructed("osworld")))
    run_with(tmp_path / "run", constructed("nothing"))
    task = next((tmp_path / "run").rglob("task.json"))
    task.write_text(json.dumps({"task_id": "t", "attempts": {"1": "../../../../secret/attempt-1", "2": "attempt-2"}}))
    (task.parent / "attempt-2").symlink_to(secret / "attempt-1")
    spans = [s for t in spanport.read(tmp_path / "run") for s in t.spans]
    assert not requests(spans)
    assert [s.number for s in spans if isinstance(s, Attempt)] == [1]
