"""SimLab's output folders: sets, lost rollouts, verdicts, autoresearch, a root of many."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spanport
from click.testing import CliRunner
from spanport.cli import group
from spanport.converters.clock import from_iso
from spanport.converters.errors import ReadError, Report
from spanport.converters.model import Attempt, ModelRequest, Phase, Run, ToolCall, Trace

FIXTURES = Path(__file__).parent.parent / "fixtures" / "runartifacts"


def spans(trace: Trace, kind: type[Any]) -> list[Any]:
    return [s for s in trace.spans if isinstance(s, kind)]


def attempts(trace: Trace) -> dict[int, Attempt]:
    return {a.number: a for a in spans(trace, Attempt)}


def test_a_rollout_that_was_lost_still_has_its_attempt() -> None:
    (trace,) = spanport.read(FIXTURES / "parallel_mixed")
    found = attempts(trace)
    assert sorted(found) == [0, 1, 2, 3]
    assert (found[2].status, found[2].clock, found[2].error.message) == ("error", "synthetic", "docker compose up failed in sandbox")
    assert found[2].verdict == "unknown"
    assert [found[n].verdict for n in (0, 1, 3)] == ["pass", "fail", "fail"]
    assert [found[n].attributes["spanport.reward"] for n in (0, 1, 3)] == [1.0, 0.0, 0.0]
    assert [found[n].status for n in (0, 1, 3)] == ["ok", "ok", "error"]
    assert found[0].attributes["spanport.simlab.sandbox_id"] == "sbx-0001"


def test_a_set_is_one_run_from_its_stamp_on() -> None:
    (trace,) = spanport.read(FIXTURES / "parallel_mixed")
    (run,) = spans(trace, Run)
    assert run.type == "benchmark"
    assert run.start == from_iso("2026-11-30T20:07:28+00:00")
    assert run.uncertainty == 1_000_000_000
    assert run.end == max(a.end for a in spans(trace, Attempt))
    assert (run.status, run.attributes["spanport.simlab.passed"]) == ("ok", 1)
    assert {a.agent for n, a in attempts(trace).items() if n != 2} == {"simlab-reference-agent"}
    assert len({s.id for s in trace.spans}) == len(trace.spans)


def test_a_run_is_in_error_when_all_its_attempts_are(tmp_path: Path) -> None:
    home = tmp_path / "parallel_run_t_20260502_090000"
    for n in range(2):
        (home / f"rollout_{n}").mkdir(parents=True)
        record = {
            "task_id": "t",
            "messages": [],
            "tool_calls": [],
            "tool_results": [],
            "error": "Cancelled",
            "created_at": f"2026-05-02T09:00:0{n}+00:00",
        }
        (home / f"rollout_{n}/artifacts.json").write_text(json.dumps(record))
    (trace,) = spanport.read(home)
    assert spans(trace, Run)[0].status == "error"


def test_rollout_10_comes_after_rollout_9(tmp_path: Path) -> None:
    home = tmp_path / "parallel_run_t_20260502_090000"
    for n in (10, 2, 9, 0):
        (home / f"rollout_{n}").mkdir(parents=True)
        shutil.copy(FIXTURES / "shape_d/artifacts.json", home / f"rollout_{n}/artifacts.json")
    (trace,) = spanport.read(home)
    assert [a.number for a in spans(trace, Attempt)] == [0, 2, 9, 10]


def test_verifiers_are_phases_with_scores() -> None:
    (trace,) = spanport.read(FIXTURES / "failed_verifier")
    phases = {p.key: p for p in spans(trace, Phase)}
    verify = phases["verify"]
    rows = [p for p in spans(trace, Phase) if p.parent_id == verify.id]
    assert [r.name.rsplit(".", 1)[-1] for r in rows] == ["subject_check", "crash_check"]
    assert [(s.name.rsplit(".", 1)[-1], s.label) for s in rows[0].scores] == [
        ("subject_check", "fail"),
        ("mentions subject", "fail"),
        ("read an email", "pass"),
    ]
    assert rows[0].scores[1].explanation == "I could not find it."
    assert (rows[1].status, rows[1].error.type) == ("error", "verifier_error")
    assert all((p.clock, p.start == p.end) == ("synthetic", True) for p in (verify, *rows))
    (attempt,) = spans(trace, Attempt)
    assert [(s.name, s.value, s.label) for s in attempt.scores] == [("reward", 0.0, "fail")]
    assert spans(trace, Run)[0].verdict == "fail"
    assert attempt.status == "ok"  # a verdict is no error


def test_the_stamp_of_a_single_run_is_its_end() -> None:
    (trace,) = spanport.read(FIXTURES / "failed_verifier")
    (run,) = spans(trace, Run)
    last = max(r.end for r in spans(trace, ModelRequest))
    assert run.end == max(last, from_iso("2026-11-30T20:06:08+00:00"))


def test_reward_txt_decides_and_the_reward_is_a_score() -> None:
    (trace,) = spanport.read(FIXTURES / "harbor_half")
    (attempt,) = spans(trace, Attempt)
    assert (attempt.verdict, attempt.attributes["spanport.reward"]) == ("fail", 0.5)
    assert json.loads(bytes(attempt.source["reward.json.checks"])) == {"exists": True, "count": False}
    assert attempt.end == from_iso("2026-05-02T10:15:02+00:00")  # no times in it: until the folder's stamp
    assert {r.clock for r in spans(trace, ModelRequest)} == {"synthetic"}


@pytest.mark.parametrize(
    ("text", "rows", "reward", "verdict"),
    [
        ("0", [True], 0.5, "fail"),
        ("1", [False], 0.5, "pass"),
        (None, [True, True], 0.0, "pass"),
        (None, [True, False], 1.0, "fail"),
        (None, [], 1.0, "pass"),
        (None, None, 0.4, "fail"),
    ],
)
def test_what_decides_the_verdict(tmp_path: Path, text: str | None, rows: list[bool] | None, reward: float, verdict: str) -> None:
    shutil.copytree(FIXTURES / "harbor_half", tmp_path / "x")
    (folder,) = (tmp_path / "x").iterdir()
    found: dict[str, Any] = {"reward": reward}
    if rows is not None:
        found["verifier_results"] = [{"module": "m", "success": ok, "message": "", "output": ""} for ok in rows]
    (folder / "verifier/reward.json").write_text(json.dumps(found))
    (folder / "verifier/reward.txt").write_text(text or "")
    (trace,) = spanport.read(tmp_path / "x")
    assert (spans(trace, Attempt)[0].verdict, spans(trace, Attempt)[0].attributes["spanport.reward"]) == (verdict, reward)


def test_a_link_that_stands_for_reward_txt_is_not_followed(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "harbor_half", tmp_path / "x")
    (folder,) = (tmp_path / "x").iterdir()
    (tmp_path / "private").write_text("1 not of this run")
    (folder / "verifier/reward.txt").unlink()
    (folder / "verifier/reward.txt").symlink_to(tmp_path / "private")
    report = Report()
    (trace,) = spanport.read(tmp_path / "x", report=report)
    assert b"not of this run" not in msgspec.json.encode(trace)
    assert [n.code for n in report.notices if n.severity == "lost"] == ["link"]


def test_folders_are_read_in_natural_order(tmp_path: Path) -> None:
    for n in (10, 9, 1):
        (tmp_path / f"case{n}").mkdir()
        record = {"task_id": str(n), "messages": [], "tool_calls": [], "tool_results": [], "created_at": f"2026-05-02T09:00:{n:02}+00:00"}
        (tmp_path / f"case{n}/artifacts.json").write_text(json.dumps(record))
    assert [spans(t, Run)[0].native_id for t in spanport.read(tmp_path)] == ["1", "9", "10"]


def test_rubric_and_reward_model() -> None:
    (trace,) = spanport.read(FIXTURES / "rubric")
    rows = {p.key: p for p in spans(trace, Phase) if p.type == "verify"}
    assert [(s.name, s.value, s.label) for s in rows["verify.0"].scores] == [
        ("lab.universal_verifier", 1.0, "pass"),
        ("score", 0.8, "good"),
        ("tone", 0.7, None),
    ]
    assert [(s.name, s.value, s.label) for s in rows["verify.rubric"].scores] == [("rubric", 0.6, "partial"), ("format", 0.5, None)]
    assert json.loads(bytes(rows["verify.rubric"].source["failed_criteria"])) == ["signature"]
    assert json.loads(bytes(rows["verify.1"].source["took_ms"])) == 12
    assert spans(trace, Attempt)[0].verdict == "pass"


def test_reward_json_may_lie_in_the_rollout_itself(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "harbor_half", tmp_path / "x")
    (folder,) = (tmp_path / "x").iterdir()
    (folder / "verifier/reward.json").rename(folder / "reward.json")
    shutil.rmtree(folder / "verifier")
    (trace,) = spanport.read(tmp_path / "x")
    assert spans(trace, Attempt)[0].verdict == "fail"  # now from the verifiers' rows
    assert spans(trace, Attempt)[0].attributes["spanport.reward"] == 0.5


def test_autoresearch_is_a_run_an_iteration() -> None:
    traces = spanport.read(FIXTURES / "autoresearch")
    runs = [spans(t, Run)[0] for t in traces]
    assert [r.attributes["spanport.simlab.label"] for r in runs] == ["baseline", "iter_001", "iter_002"]
    assert [[(x.type, x.span_id) for x in r.links] for r in runs] == [[], [("follows", runs[0].id)], [("follows", runs[1].id)]]
    assert [r.verdict for r in runs] == ["fail", "fail", "pass"]
    assert {s.name: s.value for s in runs[2].scores}["pass_rate"] == 1.0
    assert runs[1].attributes["spanport.simlab.accepted"] is False
    assert json.loads(bytes(runs[1].source["proposal.json"]))["change_type"] == "add_instruction"
    assert sum(len(spans(t, ToolCall)) for t in traces) == 4


def test_an_iteration_of_several_rollouts_is_one_run(tmp_path: Path) -> None:
    home = tmp_path / "autoresearch_run_20260502_090000_abcdef"
    for n, name in enumerate(("agent_run_a_20260502_090001", "agent_run_b_20260502_090002")):
        folder = home / "baseline/output" / name
        folder.mkdir(parents=True)
        record = {"task_id": name[10], "messages": [], "tool_calls": [], "tool_results": [], "created_at": f"2026-05-02T09:00:0{n}+00:00"}
        (folder / "artifacts.json").write_text(json.dumps(record))
    (trace,) = spanport.read(home)
    assert sorted(attempts(trace)) == [0, 1]
    assert spans(trace, Run)[0].type == "benchmark"


def test_a_root_of_many_and_what_is_passed_over(tmp_path: Path) -> None:
    for name in ("parallel_mixed", "failed_verifier", "harbor_half"):
        shutil.copytree(FIXTURES / name, tmp_path / "output" / name)
    (tmp_path / "output/_notes").mkdir()
    shutil.copy(FIXTURES / "shape_d/artifacts.json", tmp_path / "output/_notes/artifacts.json")
    (tmp_path / "output/other.json").write_text("{}")
    report = Report()
    traces = spanport.read(tmp_path, report=report)
    assert len(traces) == 3
    assert report.warnings == 0


def test_a_folder_and_its_record_have_the_same_ids() -> None:
    (folder,) = spanport.read(FIXTURES / "failed_verifier")
    (record,) = spanport.read(next((FIXTURES / "failed_verifier").glob("*/artifacts.json")))
    assert folder.header.id == record.header.id
    assert {s.id for s in record.spans} <= {s.id for s in folder.spans}


def test_the_same_run_twice_is_read_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(FIXTURES / "failed_verifier", tmp_path / name)
    report = Report()
    assert len(spanport.read(tmp_path, report=report)) == 1
    assert report.counts["same-run", "warning"] == 1


def test_one_bad_rollout_does_not_cost_the_set(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "parallel_mixed", tmp_path / "x")
    bad = next((tmp_path / "x").glob("*/rollout_1/artifacts.json"))
    bad.write_bytes(b"")
    report = Report()
    (trace,) = spanport.read(tmp_path / "x", report=report)
    found = attempts(trace)[1]
    assert found.attributes["spanport.simlab.record"] == "unreadable"
    assert found.verdict == "fail"  # the summary still says so
    assert any("rollout_1" in str(n) for n in report.notices)
    assert report.lost == 1


def test_atif_where_there_is_no_record(tmp_path: Path) -> None:
    home = tmp_path / "agent_run_unknown_tool_20261130_195952/agent"
    home.mkdir(parents=True)
    shutil.copy(FIXTURES.parent / "atif/simlab_unknown_tool.json", home / "trajectory.json")
    (trace,) = spanport.read(tmp_path)
    (record,) = spanport.read(FIXTURES / "unknown_tool/artifacts.json")
    assert trace.header.id == record.header.id
    assert {(c.id, c.name, bytes(c.arguments), c.outcome) for c in spans(trace, ToolCall)} == {
        (c.id, c.name, bytes(c.arguments), c.outcome) for c in spans(record, ToolCall)
    }


def test_an_empty_folder_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ReadError):
        spanport.read(tmp_path)


def test_stats_over_the_command_line() -> None:
    result = CliRunner().invoke(group, ["stats", "--json", str(FIXTURES / "parallel_mixed")])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["spans"] | {"phase": 0} == {"run": 1, "task": 0, "attempt": 4, "phase": 0, "model_request": 8, "tool_call": 6}
    records = [json.loads(p.read_text()) for p in FIXTURES.glob("parallel_mixed/*/rollout_*/artifacts.json")]
    assert found["tokens"]["input"] == sum(r["metadata"]["rollout_metrics"]["token_usage"]["prompt_tokens_total"] for r in records)


def test_a_folder_around_one_run_is_that_run_and_a_folder_of_several_is_looked_into(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "failed_verifier", tmp_path / "case/output")
    (tmp_path / "case/_notes.json").write_text("{}")
    one = CliRunner().invoke(group, ["convert", str(tmp_path / "case"), "--to", "otlp-json", "-o", "-"])
    assert one.exit_code == 0, one.output
    shutil.copytree(FIXTURES / "harbor_half", tmp_path / "case/output2")
    two = CliRunner().invoke(group, ["stats", "--json", str(tmp_path / "case")])
    assert json.loads(two.stdout)["spans"]["run"] == 2
