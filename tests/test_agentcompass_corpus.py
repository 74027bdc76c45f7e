"""AgentCompass run directories and streams against counts and server logs that were taken without spanport.

With ``SPANPORT_CORPUS`` (a corpus with ``expected.jsonl`` and ``agentcompass/``) all of its records, else the copies in ``fixtures/agentcompass``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import spanport
from spanport.converters.errors import Report
from spanport.converters.model import AnySpan, ModelRequest, Run, ToolCall, kind_of

FIXTURES = Path(__file__).parent.parent / "fixtures" / "agentcompass"
CORPUS = Path(os.environ["SPANPORT_CORPUS"]) if "SPANPORT_CORPUS" in os.environ else None
ROOT = CORPUS / "agentcompass" if CORPUS is not None else FIXTURES


def expected() -> list[dict[str, Any]]:
    if CORPUS is None:
        return [json.loads(line) for line in (FIXTURES / "expected.jsonl").read_text().splitlines()]
    rows = [json.loads(line) for line in (CORPUS / "expected.jsonl").read_text().splitlines()]
    return [{**r, "path": r["path"].removeprefix("agentcompass/")} for r in rows if r["path"].startswith("agentcompass/")]


def spans_of(path: Path, report: Report | None = None) -> list[AnySpan]:
    return [s for t in spanport.read(path, report=report) for s in t.spans]


@pytest.mark.parametrize("row", expected(), ids=lambda r: r["path"])
def test_counts(row: dict[str, Any], record_property: pytest.RecordProperty) -> None:
    if CORPUS is None:
        record_property("not_tried", "57 records of the corpus, of which 40 are copied here")
    spans = spans_of(ROOT / row["path"])
    kinds = Counter(kind_of(s) for s in spans)
    assert {k: kinds.get(k, 0) for k in row["spans"]} == row["spans"]
    if "tool_errors" in row:
        assert sum(isinstance(s, ToolCall) and s.outcome in ("error", "rejected", "aborted") for s in spans) == row["tool_errors"]
    assert len({(s.trace_id, s.id) for s in spans}) == len(spans)
    ids = {s.id for s in spans}
    assert all(s.parent_id in ids for s in spans if s.parent_id is not None)
    assert all(s.end is None or (s.start is not None and s.start <= s.end) for s in spans)


# Requests that the server answered and that nothing on disk holds: none but in the killed run.
LOGS = {
    "sdk-direct": 0,
    "multi-agent": 0,
    "harness-free": 0,
    "mini-swe-agent": 0,
    "openai-chat": 0,
    "severity": 0,
    "artifacts-collect-fail": 0,
    "killed": 8,
}


@pytest.mark.parametrize("case", LOGS)
def test_every_request_that_the_server_saw_lies_in_a_span_of_its_own(case: str) -> None:
    log = [json.loads(line) for line in (ROOT / "_server_logs" / f"{case}.jsonl").read_text().splitlines()]
    seen = sorted((r["t0"], r["t1"]) for r in log if r["kind"] in ("agent", "child") and r.get("status", 200) == 200)
    have = [(s.start / 1e9, s.end / 1e9) for s in spans_of(ROOT / case) if isinstance(s, ModelRequest) and s.start and s.end]
    lost = 0
    for t0, t1 in seen:
        fit = [h for h in have if h[0] - 0.02 <= t0 and t1 <= h[1] + 0.02]
        if fit:
            have.remove(min(fit, key=lambda h: h[1]))
        else:
            lost += 1
    assert lost == LOGS[case]
    assert not have or LOGS[case]


@pytest.mark.parametrize("case", ["sdk-direct", "killed", "multi-agent", "artifacts-collect-fail", "odd-text"])
def test_stream_and_directory_give_the_same_ids(case: str) -> None:
    stream = {s.id: s for s in spans_of(ROOT / case / "progress.jsonl")}
    folder = {s.id: s for s in spans_of(ROOT / case)}
    assert stream.keys() <= folder.keys()
    for id, span in stream.items():
        joined = folder[id]
        assert (kind_of(joined), joined.parent_id, joined.key, joined.start) == (kind_of(span), span.parent_id, span.key, span.start)
    assert {s.trace_id for s in stream.values()} == {s.trace_id for s in folder.values()}


def test_a_longer_copy_keeps_the_ids(tmp_path: Path) -> None:
    data = (FIXTURES / "sdk-direct" / "progress.jsonl").read_bytes()
    short = tmp_path / "progress.jsonl"
    short.write_bytes(b"".join(data.splitlines(True)[:20]))
    whole = {s.id for s in spans_of(FIXTURES / "sdk-direct" / "progress.jsonl")}
    assert {s.id for s in spans_of(short)} <= whole


def test_sub_agents_are_runs_under_the_call_that_made_them() -> None:
    spans = {s.id: s for s in spans_of(FIXTURES / "multi-agent")}
    children = [s for s in spans.values() if isinstance(s, Run) and s.parent_id is not None]
    assert len(children) == 5
    for child in children:
        call = spans[child.parent_id or ""]
        assert isinstance(call, ToolCall)
        assert call.name == "create_sub_agents"
        assert json.loads(bytes(child.input)) in bytes(call.arguments).decode()


def test_inherited_work_is_marked_and_its_tokens_are_not_counted() -> None:
    spans = spans_of(FIXTURES / "reused")
    requests = [s for s in spans if isinstance(s, ModelRequest)]
    assert (len(requests), sum(r.reused for r in requests)) == (32, 12)
    # Two tasks without any event, and one that was recovered from a checkpoint.
    assert {s.attributes["agentcompass.reused.run_id"] for s in requests if s.reused} == {"cancelled"}
    run = next(s for s in spans if isinstance(s, Run))
    assert run.start is not None
    assert all(s.end is None or s.end < run.start for s in requests if s.reused)
    from spanport.exporters.stats import Totals, count

    totals = Totals()
    count(spanport.stream(FIXTURES / "reused"), totals)
    own = sum(r.usage.input or 0 for r in requests if r.usage is not None and not r.reused)
    assert totals.tokens["input"] == own


def test_a_tree_links_reused_work_to_its_source_when_that_is_an_input_too(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(FIXTURES / "reused", tmp_path / "b" / "reused")
    source = tmp_path / "a" / "cancelled"
    source.mkdir(parents=True)
    line = {
        "run_id": "cancelled",
        "event": "run_started",
        "timestamp": 1796068890.5,
        "payload": {},
        "orchestration_id": "0" * 32,
        "request_index": 0,
    }
    (source / "progress.jsonl").write_text(json.dumps(line) + "\n")
    traces = spanport.read(tmp_path)
    other = next(t.header.id for t in traces if t.header.name == "cancelled")
    links = [x for t in traces for s in t.spans for x in s.links if x.type == "reused_from"]
    assert len(links) == 3
    assert {x.trace_id for x in links} == {other}
    assert not [x for t in spanport.read(FIXTURES / "reused") for s in t.spans for x in s.links]


def test_requests_of_one_launch_are_one_trace_each_and_linked() -> None:
    traces = spanport.read(FIXTURES / "launch")
    assert len(traces) == 4
    runs = [s for t in traces for s in t.spans if isinstance(s, Run)]
    first = next(r for r in runs if r.attributes["agentcompass.request.index"] == 0)
    assert {x.trace_id for x in first.links} == {r.trace_id for r in runs if r is not first}
    assert all([x.span_id for x in r.links] == [first.id] for r in runs if r is not first)


def test_completed_is_not_success_and_a_wrong_answer_is_no_error() -> None:
    spans = spans_of(FIXTURES / "severity")
    attempts = {s.name.split(" ")[0]: s for s in spans if kind_of(s) == "attempt"}
    assert (attempts["s-err-400"].status, attempts["s-err-400"].error.type) == ("error", "model_invalid_output")  # type: ignore[union-attr]
    assert attempts["s-toomanycalls"].status == "ok"
    assert attempts["s-toomanycalls"].verdict == "fail"  # type: ignore[union-attr]
    assert {x.name: x.value for x in attempts["s-ok"].scores}["correct"] == 1.0
    judge = next(s for s in spans if s.name == "evaluate" and s.error is not None)
    assert judge.error is not None
    assert judge.error.type == "judge_failed"


def test_numbers_of_physical_runs() -> None:
    """Two tasks, each run twice because collecting failed: phases, requests and calls say in which run they were."""
    spans = spans_of(FIXTURES / "artifacts-collect-fail")
    running = [s for s in spans if s.name == "run_harness"]
    assert sorted(s.retry for s in running) == [0, 0, 1, 1]  # type: ignore[union-attr]
    for phase in running:
        below = [s for s in spans if s.parent_id == phase.id]
        assert below
        assert {s.retry for s in below} == {phase.retry}  # type: ignore[union-attr]
    retries = [e for s in spans for e in s.events if e.name == "attempt_retry"]
    assert [e.attributes["agentcompass.scope"] for e in retries] == ["attempt", "attempt"]
    assert all(e.attributes["agentcompass.discarded.status"] == "run_error" for e in retries)


def test_claude_tokens_once_per_message() -> None:
    """Input and cache tokens once per ``message.id`` add up to the final usage; output tokens of one request are not known (page §12.10)."""
    spans = spans_of(FIXTURES / "claude-code")
    for attempt in (s for s in spans if kind_of(s) == "attempt"):
        phases = {s.id for s in spans if s.parent_id == attempt.id}
        requests = [s for s in spans if isinstance(s, ModelRequest) and s.parent_id in phases]
        total = attempt.usage  # type: ignore[union-attr]
        assert total is not None
        assert sum(r.usage.input or 0 for r in requests if r.usage) == total.input
        assert all(r.usage is not None and r.usage.output is None for r in requests)
        assert total.output
        assert total.cost


def test_naive_times_take_the_offset_of_run_info() -> None:
    """openai-chat ran at −05:00: its times without an offset lie in their phases only when read so."""
    spans = {s.id: s for s in spans_of(FIXTURES / "openai-chat")}
    requests = [s for s in spans.values() if isinstance(s, ModelRequest)]
    assert len(requests) == 12
    for r in requests:
        phase = spans[r.parent_id or ""]
        assert phase.start is not None
        assert phase.end is not None
        assert phase.start <= (r.start or 0) <= (r.end or 0) <= phase.end
        assert r.clock == "recorded"


def test_a_killed_run() -> None:
    report = Report()
    spans = spans_of(FIXTURES / "killed", report)
    run = next(s for s in spans if isinstance(s, Run))
    assert (run.unfinished, run.status, run.ending) == (True, "unset", "running")
    recovered = [s for s in spans if s.attributes.get("agentcompass.recovered_from") == "checkpoint"]
    assert len(recovered) == 1
    requests = [s for s in spans if isinstance(s, ModelRequest)]
    assert len(requests) == 16


def test_run_info_alone_and_progress_json_alone() -> None:
    run = spans_of(FIXTURES / "sdk-direct" / "run_info.json")
    assert [kind_of(s) for s in run] == ["run"]
    assert (run[0].name, run[0].status, run[0].clock) == ("gaia", "ok", "recorded")
    snapshot = spans_of(FIXTURES / "killed" / "progress.json")
    assert [kind_of(s) for s in snapshot] == ["run"]
    assert snapshot[0].unfinished
    assert snapshot[0].attributes["agentcompass.attempts_finished"] == 3


def test_details_alone(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(FIXTURES / "sdk-direct" / "details", tmp_path / "run" / "details")
    kinds = Counter(kind_of(s) for s in spans_of(tmp_path / "run"))
    assert kinds == {"run": 1, "task": 2, "attempt": 2, "model_request": 4, "tool_call": 2}
    assert Counter(kind_of(s) for s in spans_of(tmp_path / "run" / "details")) == kinds
