"""Agno: counts against logs that were taken without spanport, ids, outcomes, nesting, and what odd files do."""

from __future__ import annotations

import json
import os
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spanport
from spanport.converters import ids
from spanport.converters.errors import ReadError, Report
from spanport.converters.model import Attempt, ModelRequest, Phase, Run, TextPart, ToolCall, ToolCallPart, kind_of

FIXTURES = Path(__file__).parent.parent / "fixtures" / "agno"
CORPUS = Path(os.environ.get("SPANPORT_CORPUS") or FIXTURES / "corpus")
AGNO = FIXTURES / "corpus" / "agno"
EXPECTED = [
    r for line in (CORPUS / "expected.jsonl").read_text().splitlines() if line and (r := json.loads(line))["path"].startswith("agno/")
]


def spans(path: Path | bytes | dict[str, Any] | list[Any], report: Report | None = None, **more: Any) -> list[Any]:
    traces = spanport.read(path, report=report, **more)
    found = [s for t in traces for s in t.spans]
    known = {s.id for s in found}
    assert len(known) == len(found), "an id twice"
    assert all(s.parent_id is None or s.parent_id in known for s in found), "a parent that is not there"
    return found


def of(kind: type, found: list[Any]) -> list[Any]:
    return [s for s in found if isinstance(s, kind)]


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(
        json.dumps({"created_at": 1_800_000_000, "run_id": "r", "agent_id": "a", "session_id": "s", **e}).encode() + b"\n" for e in events
    )


@pytest.mark.parametrize("row", EXPECTED, ids=lambda r: r["path"])
def test_counts_agree_with_the_logs(row: dict[str, Any]) -> None:
    found = spans(CORPUS / row["path"])
    counts = Counter(kind_of(s) for s in found)
    assert {k: counts[k] for k in row["spans"]} == row["spans"]
    if "tool_errors" in row:
        assert sum(s.outcome in ("error", "rejected", "aborted") for s in of(ToolCall, found)) == row["tool_errors"]


def test_how_much_of_the_corpus_was_tried() -> None:
    tried = sum((CORPUS / r["path"]).exists() for r in EXPECTED)
    assert tried == len(EXPECTED)
    print(f"{tried} records of {CORPUS}")


PAIRS = [
    ("tools/stream.events.jsonl", "tools/stream.run_output.with_events.json"),
    ("simple/stream.events.jsonl", "simple/stream.run_output.with_events.json"),
    ("parallel-tools/astream.events.jsonl", "parallel-tools/astream.run_output.with_events.json"),
    ("model-error/stream-agent-retries.events.jsonl", "model-error/stream-agent-retries.run_output.with_events.json"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p[0])
def test_the_stream_and_the_record_of_one_run_have_the_same_ids(pair: tuple[str, str]) -> None:
    stream, record = (spans(AGNO / p) for p in pair)
    assert {s.id for s in stream} == {s.id for s in record}
    assert {s.id: s.parent_id for s in stream} == {s.id: s.parent_id for s in record}


def test_a_record_without_events_has_the_ids_of_its_stream(tmp_path: Path) -> None:
    record = json.loads((AGNO / "tools/stream.run_output.with_events.json").read_text())
    del record["events"]
    assert {s.id for s in spans(record)} == {s.id for s in spans(AGNO / "tools/stream.events.jsonl")}


def test_ids_come_from_the_run_and_nothing_else() -> None:
    found = spanport.read(AGNO / "tools/plain.run_output.json")[0]
    run_id = json.loads((AGNO / "tools/plain.run_output.json").read_text())["run_id"]
    assert found.header.id == ids.trace_id("agno", run_id)
    assert found.header.run_key == [run_id]
    assert ids.span_id(found.header.id, run_id) in {s.id for s in found.spans}


def test_a_longer_copy_keeps_the_ids() -> None:
    whole = (AGNO / "tools/stream.events.jsonl").read_bytes().split(b"\n")
    every = {s.id for s in spans(b"\n".join(whole))}
    for n in range(2, len(whole)):
        assert {s.id for s in spans(b"\n".join(whole[:n]) + b"\n")} <= every


def test_a_paused_call_keeps_its_id_when_it_is_taken_up() -> None:
    one = (AGNO / "hitl/confirm-1-paused.events.jsonl").read_bytes()
    two = (AGNO / "hitl/confirm-2-continued.events.jsonl").read_bytes()
    first, both, second = spans(one), spans(one + two), spans(two)
    waiting = next(s for s in of(ToolCall, first) if s.outcome == "pending")
    taken = next(s for s in of(ToolCall, both) if s.name == waiting.name)
    assert (waiting.id, taken.outcome) == (taken.id, "ok")
    assert {s.id for s in of(ToolCall, second)} <= {s.id for s in of(ToolCall, both)}
    assert len(of(ToolCall, both)) == 2
    assert [(a.number, a.ending) for a in sorted(of(Attempt, both), key=lambda a: a.number)] == [(1, "paused"), (2, "completed")]
    assert [x.type for a in of(Attempt, both) for x in a.links] == ["continuation_of"]
    (wait,) = [p for p in of(Phase, both) if p.type == "wait"]
    assert wait.end - wait.start > 1_500_000_000  # the person took two seconds (fixture's created_at)


CALLS = [  # read off the messages of the fixture by hand
    ("explode", "error", "tool"),
    ("explode", "error", "tool"),  # its arguments failed the validation
    ("explode", "rejected", "invalid_arguments"),
    ("no_such_tool", "rejected", "unknown_tool"),
    ("returns_error", "ok", None),
]


def test_what_became_of_each_call() -> None:
    found = of(ToolCall, spans(AGNO / "tool-errors/plain.run_output.json"))
    assert sorted((s.name, s.outcome, s.error.type if s.error else None) for s in found) == CALLS
    limit = of(ToolCall, spans(AGNO / "tool-errors/stream-limit.run_output.with_events.json"))
    assert [s.error.type for s in limit if s.outcome == "rejected"] == ["limit"]
    refused = of(ToolCall, spans(AGNO / "hitl/reject-2-continued.run_output.json"))
    assert [(s.outcome, s.error.type, s.error.message) for s in refused] == [("rejected", "refused", "too dangerous")]
    broken = of(ToolCall, spans(AGNO / "cancelled/stream-tool.events.jsonl"))
    assert [(s.outcome, s.unfinished, s.end) for s in broken] == [("aborted", True, None)]


def test_attempts_of_a_retried_run() -> None:
    found = spans(AGNO / "model-error/stream-agent-retries.events.jsonl")
    attempts = sorted(of(Attempt, found), key=lambda a: a.number)
    assert [(a.number, a.status, [x.type for x in a.links]) for a in attempts] == [
        (1, "error", []),
        (2, "error", ["retry_of"]),
        (3, "ok", ["retry_of"]),
    ]
    assert attempts[1].links[0].span_id == attempts[0].id
    assert [sum(r.parent_id == a.id for r in of(ModelRequest, found)) for a in attempts] == [1, 2, 2]
    assert sum(r.status == "error" for r in of(ModelRequest, found)) == 2


def test_messages_stand_where_they_belong() -> None:
    found = sorted(of(ModelRequest, spans(AGNO / "tools/plain.run_output.json")), key=lambda s: s.start)
    assert [[m.role for m in s.input_messages] for s in found] == [["user"], ["tool"], ["tool", "tool"]]
    assert [p.name for p in found[1].output_messages[0].parts if isinstance(p, ToolCallPart)] == ["slow_lookup", "fast_lookup"]
    assert [s.history.count if s.history else 0 for s in found] == [0, 2, 4]
    assert [s.response_id for s in found] == ["chatcmpl-00008", "chatcmpl-00009", "chatcmpl-00010"]
    calls = {s.name: s for s in of(ToolCall, spans(AGNO / "tools/plain.run_output.json"))}
    assert calls["slow_lookup"].requested_by == found[1].id
    assert json.loads(bytes(calls["slow_lookup"].arguments)) == {"key": "a"}
    assert json.loads(json.loads(bytes(calls["slow_lookup"].result))) == {"key": "a", "value": 42}


def test_deltas_are_chunks_of_the_message() -> None:
    found = sorted(of(ModelRequest, spans(AGNO / "tools/stream.events.jsonl")), key=lambda s: s.start)
    (text,) = [p for p in found[2].output_messages[0].parts if isinstance(p, TextPart)]
    assert text.content == "Oslo has rain; a=42, b=7."
    assert [c.length for c in found[2].chunks] == [0, 7, 7, 7, 4]


def test_an_agent_inside_a_tool_stands_under_it() -> None:
    found = spans(AGNO / "custom-events/stream-nested-agent.events.jsonl")
    outer = next(s for s in of(ToolCall, found) if s.name == "ask_inner")
    inner = next(s for s in of(Run, found) if s.name == "inner")
    assert inner.parent_id == outer.id
    assert len({s.trace_id for s in found}) == 1
    assert outer.start <= inner.start <= inner.end <= outer.end


def test_a_run_beside_a_tool_that_outlives_it_is_no_child() -> None:
    data = lines(
        {"event": "RunStarted", "nested_depth": 0},
        {"event": "ToolCallStarted", "tool": {"tool_call_id": "c", "tool_name": "t"}},
        {"event": "RunStarted", "run_id": "other"},
        {"event": "ToolCallCompleted", "tool": {"tool_call_id": "c", "tool_name": "t", "result": "x"}},
        {"event": "RunCompleted", "run_id": "other"},
        {"event": "RunCompleted"},
    )
    assert {(s.native_id, s.parent_id) for s in of(Run, spans(data))} == {("r", None), ("other", None)}


def test_members_stand_under_the_call_that_asked_for_them() -> None:
    for path in ("team/plain.run_output.json", "team/stream-nomemberevents.events.jsonl"):
        found = spans(AGNO / path)
        calls = {s.id: s for s in of(ToolCall, found)}
        members = [r for r in of(Run, found) if r.parent_id]
        assert {json.loads(bytes(calls[m.parent_id].arguments))["member_id"]: m.agent_id for m in members} == {
            "weather-member": "weather-member",
            "key-member": "key-member",
        }


def test_executors_stand_under_their_steps() -> None:
    found = spans(AGNO / "workflow/plain.run_output.json")
    by_id = {s.id: s for s in found}

    def above(s: Any) -> list[str]:
        names = []
        while s.parent_id:
            s = by_id[s.parent_id]
            if isinstance(s, Phase):
                names.append(s.name)
        return names

    runs = {r.name: above(r) for r in of(Run, found)}
    assert runs["research"] == ["research step"]
    assert runs["p2"] == ["par two", "parallel block"]
    assert runs["rb"] == ["route-b", "router block"]
    assert runs["tmember"] == ["team step", "steps block"]
    assert sorted(above(r) for r in of(Run, found) if r.name == "loop") == [
        ["loop step", "iteration 1", "loop block"],
        ["loop step", "iteration 2", "loop block"],
    ]


def test_silent_failures_of_steps_are_found() -> None:
    found = of(Phase, spans(AGNO / "workflow-more/fail-stream.events.jsonl"))
    assert {(p.name, p.status) for p in found} == {("broken step", "error"), ("after", "ok")}
    stopped = of(Phase, spans(AGNO / "workflow-more/stop-stream.events.jsonl"))
    assert [(p.name, p.status, p.unfinished) for p in stopped] == [("stopper", "ok", False)]
    progress = of(Phase, spans(AGNO / "workflow-more/progress-stream.events.jsonl"))
    assert [e.name for e in progress[0].events] == ["StepProgress"] * 3 + ["StepOutput"]


def test_the_run_of_a_workflow_agent_is_in_the_workflows_trace() -> None:
    found = spans(AGNO / "workflow-more/wagent-stream.events.jsonl")
    assert len({s.trace_id for s in found}) == 1
    assert {r.type for r in of(Run, found) if r.parent_id is None} == {"workflow"}


def test_a_member_that_failed_is_in_the_record_too() -> None:
    for end in ("events.jsonl", "run_output.with_events.json"):
        found = of(Run, spans(AGNO / f"team-modes/memberfail-stream.{end}"))
        assert {(r.name, r.status, r.error.message if r.error else None) for r in found} == {
            ("ft", "ok", None),
            ("bad", "error", "member model exploded"),
        }


def test_a_cancelled_run_is_one_run() -> None:
    (run,) = of(Run, spans(AGNO / "cancelled/stream-model.events.jsonl"))
    assert (run.ending, run.error.type, run.unfinished) == ("cancelled", "cancelled", False)
    (left,) = of(Run, spans(AGNO / "cancelled/stream-abandoned.events.jsonl"))
    assert (left.ending, left.end, left.unfinished) == (None, None, True)


def test_history_and_forks_make_no_spans() -> None:
    record = json.loads((AGNO / "tools/plain.run_output.json").read_text())
    old = [{**m, "from_history": True, "id": f"old-{i}"} for i, m in enumerate(record["messages"])]
    record["messages"] = old + record["messages"]
    found = spans(record)
    assert len(of(ModelRequest, found)) == len(of(ToolCall, found)) == 3
    first = min(of(ModelRequest, found), key=lambda s: s.start)
    assert len(first.input_messages) == 8
    fork = json.loads((AGNO / "tools/plain.run_output.json").read_text())
    fork |= {"forked_from_run_id": "other", "forked_from_message_index": 3}
    found = spans(fork)
    assert len(of(ModelRequest, found)) == len(of(ToolCall, found)) == 2  # the first request and its call are the other run's


def test_one_call_id_used_three_times() -> None:
    for path in ("odd-content/stream-dupids.events.jsonl", "odd-content/plain-dupids.run_output.json"):
        found = sorted(of(ToolCall, spans(AGNO / path)), key=lambda s: s.start)
        assert len({s.id for s in found}) == 3
        assert len({s.call_id for s in found}) == 1
        assert len({bytes(s.arguments) for s in found}) == 3  # each with its own


def test_two_captures_are_one_run_and_control_frames_are_no_error() -> None:
    both = b"".join((AGNO / f"agentos-sse/agent-stream-{x}.sse").read_bytes() for x in ("paused", "continued"))
    found = spans(both)
    assert len(of(Run, found)) == 1
    assert len(of(Attempt, found)) == 2
    report = Report()
    control = b'event: error\ndata: {"event": "error", "error": "Run x not found in buffer or database"}\n\n: keepalive\n\n'
    assert spans(control, report) == []
    assert [n.code for n in report.notices] == ["control"]
    assert report.lost == 0


def test_old_versions() -> None:
    for version in ("1.1.17", "1.8.4", "2.5.17"):
        found = spans(AGNO / f"versions/{version}/plain.run_output.json")
        (run,) = of(Run, found)
        assert run.ending == "completed"
        assert sum(s.usage.input for s in of(ModelRequest, found)) == 120 + 170 + 240
        assert [s.outcome for s in sorted(of(ToolCall, found), key=lambda s: s.start)].count("error") == 1
        assert all(s.start <= t.start for s in of(Run, found) for t in of(ToolCall, found))
    stream = of(ModelRequest, spans(AGNO / "versions/1.8.4/stream.events.jsonl"))
    assert [s.inferred for s in stream] == [True] * 3


def test_unknown_events_and_fields_are_kept() -> None:
    report = Report()
    data = lines(
        {"event": "RunStarted", "nested_depth": 0, "brand_new": {"x": 1}},
        {"event": "SomethingElse", "payload": [1, 2]},
        {"event": "RunCompleted", "content": "ok", "later": True},
    )
    found = spans(data, report)
    text = b"".join(msgspec.json.encode(s) for s in found)
    assert b"brand_new" in text
    assert b"SomethingElse" in text
    assert b"later" in text
    assert report.lost == 0


@pytest.mark.parametrize(
    "data",
    [
        b'{"run_id": "r", "ag',
        b"[]",
        b"{}",
        b"[1, 2]",
        b'{"session_id": "s", "runs": []}',
        b"nothing",
    ],
)
def test_no_run_is_one_line(data: bytes) -> None:
    with pytest.raises(ReadError) as caught:
        spanport.read(data, format="agno")
    assert "\n" not in str(caught.value)


def test_a_broken_line_costs_a_line() -> None:
    whole = (AGNO / "tools/stream.events.jsonl").read_bytes().split(b"\n")
    report = Report()
    spoilt = [*whole[:3], b'{"event": "RunCont', *whole[3:]]
    assert len(spans(b"\n".join(spoilt), report)) == len(spans(b"\n".join(whole)))
    assert [(n.code, n.line, n.severity) for n in report.notices] == [("bad-line", 4, "lost")]


@pytest.mark.parametrize("depth", [100, 200_000])
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("agno", b'{"run_id": "r", "agent_id": "a", "session_id": "s", "content": "x", "metadata": ', b"}"),
        ("agno-events", b'{"event": "RunStarted", "run_id": "r", "created_at": 1, "metadata": ', b"}"),
    ],
)
def test_deep_nesting_is_no_crash(depth: int, name: str, before: bytes, after: bytes) -> None:
    data = before + b"[" * depth + b"]" * depth + after
    report = Report()
    if depth > 10_000 and name == "agno-events":  # one line, and nothing else
        with pytest.raises(ReadError, match="deep"):
            spanport.read(data, format=name)
    else:
        assert len(of(Run, spans(data, report, format=name))) == 1
        assert report.lost == (depth > 10_000)


def test_odd_values_go_to_source() -> None:
    record = json.loads((AGNO / "simple/plain.run_output.json").read_text())
    record["agent_name"] = 7
    record["status"] = ["x"]
    record["messages"].insert(0, "not a message")
    found = spans(record)
    (run,) = of(Run, found)
    assert bytes(run.source["agent_name"]) == b"7"
    assert len(of(ModelRequest, found)) == 1


def test_an_object_in_memory() -> None:
    class Mood:
        value = "calm"

    record = json.loads((AGNO / "tools/plain.run_output.json").read_text())
    record["metadata"] = {"mood": Mood(), "tags": {"one"}, "when": __import__("datetime").datetime(2026, 1, 1)}

    class RunOutput:
        def to_dict(self) -> dict[str, Any]:
            return record

    (run,) = of(Run, spans(RunOutput()))  # type: ignore[arg-type]
    assert json.loads(bytes(run.source["metadata"])) == {"mood": "calm", "tags": ["one"], "when": "2026-01-01T00:00:00"}


def test_media_are_described_not_copied() -> None:
    (run,) = of(Run, spans(AGNO / "media/input-plain.run_output.json"))
    said = run.attributes["agno.input.images"][0]["content"]
    record = json.loads((AGNO / "media/input-plain.run_output.json").read_text())
    given = record["input"]["images"][0]["content"]
    assert said["content_sha256"] == sha256(given.encode()).hexdigest()
    assert said["content_size"] == len(given)
    assert given not in json.dumps(run.attributes)
    options = spanport.converters.registry.ReadOptions(media=True)
    (run,) = of(Run, spans(AGNO / "media/input-plain.run_output.json", options=options))
    assert given in json.dumps(run.attributes["agno.input.images"])


def test_a_look_up_before_the_request_is_a_phase() -> None:
    record = json.loads((AGNO / "simple/plain.run_output.json").read_text())
    record["references"] = [{"query": "q", "references": [{"content": "doc"}], "time": 0.1}]
    (phase,) = of(Phase, spans(record))
    assert (phase.operation, phase.end - phase.start, bytes(phase.input)) == ("retrieval", 100_000_000, b'"q"')


def test_what_is_unknown_is_counted() -> None:
    report = Report()
    spans(lines({"event": "RunStarted", "x": 1}, {"event": "Novel"}, {"event": "Novel"}, {"event": "RunCompleted"}), report)
    assert report.counts["unknown-event", "info"] == 2
    assert report.counts["unknown-field", "info"] == 1
    assert report.warnings == 0
