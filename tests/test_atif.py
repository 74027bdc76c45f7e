"""ATIF: trajectories of all versions, SimLab's own rebuilt, and what is written validated with the ``atif`` package."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spanport
from hypothesis import given, settings
from hypothesis import strategies as st
from spanport.converters import registry
from spanport.converters.clock import SECOND, from_iso
from spanport.converters.errors import ReadError, Report
from spanport.converters.model import (
    Attempt,
    Item,
    Message,
    ModelRequest,
    ReasoningPart,
    Run,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    Trace,
    TraceHeader,
    UriPart,
    Usage,
    raw,
)

FIXTURES = Path(__file__).parent.parent / "fixtures"
ATIF = FIXTURES / "atif"
PLAIN = ("minimal_1_0", "mixed_1_6", "subagents_1_8")
CORPUS = Path(os.environ["SPANPORT_CORPUS"]) / "simlab" if "SPANPORT_CORPUS" in os.environ else None


def one(source: Any, report: Report | None = None) -> Trace:
    (trace,) = spanport.read(ATIF / f"{source}.json" if isinstance(source, str) else source, report=report)
    return trace


def spans(trace: Trace, kind: type[Any]) -> list[Any]:
    return [s for s in trace.spans if isinstance(s, kind)]


def written(items: Any, report: Report | None = None) -> bytes:
    out = io.BytesIO()
    registry.get("atif").write(items, out, report or Report())
    return out.getvalue()


def valid(data: bytes) -> None:
    atif = pytest.importorskip("atif", reason="the package atif (test extra) is not installed")
    for document in [json.loads(data)] if data.startswith(b"{\n") else map(json.loads, data.splitlines()):
        atif.Trajectory.model_validate(document)


# ------------------------------------------------------------------------------------------------------ SimLab's own
@pytest.mark.parametrize(("file", "case"), [("simlab_unknown_tool", "unknown_tool"), ("simlab_timeout", "timeout_late_finish")])
def test_simlabs_trajectory_is_the_record_that_it_was_made_from(file: str, case: str) -> None:
    """Its own pairing is wrong; names, arguments, results and outcomes are those of the record, and so are the ids."""
    trace = one(file)
    (record,) = spanport.read(FIXTURES / f"runartifacts/{case}/artifacts.json")
    assert trace.header.id == record.header.id

    def told(t: Trace) -> list[Any]:
        return [
            (c.id, c.call_id, c.name, c.server, bytes(c.arguments), c.outcome, json.loads(bytes(c.result)), c.start)
            for c in spans(t, ToolCall)
        ]

    starts = {c.id: c.start for c in spans(record, ToolCall)}
    got, want = told(trace), told(record)
    assert [g[:-1] for g in got] == [w[:-1] for w in want]
    assert [(r.id, r.end) for r in spans(trace, ModelRequest)] == [(r.id, r.end) for r in spans(record, ModelRequest)]
    for c in spans(trace, ToolCall):  # an answer has no time in a trajectory: the next step bounds it
        assert c.clock == "derived"
        assert c.uncertainty == c.end - c.start
        assert c.start <= starts[c.id] <= c.end
    (a,), (b,) = spans(trace, Attempt), spans(record, Attempt)
    assert (a.ending, a.usage, a.error) == (b.ending, b.usage, b.error)


def test_simlabs_file_holds_the_wrong_names() -> None:
    """That the fixture shows what it is for."""
    step = json.loads((ATIF / "simlab_unknown_tool.json").read_text())["steps"][1]
    assert [c["function_name"] for c in step["tool_calls"]] == ["search_emails", "read_email"]
    assert [c.name for c in spans(one("simlab_unknown_tool"), ToolCall)][:2] == ["teleport", "search_emails"]


# ------------------------------------------------------------------------------------------------------- in general
def test_version_1_0() -> None:
    trace = one("minimal_1_0")
    (run,), (attempt,) = spans(trace, Run), spans(trace, Attempt)
    first, second = spans(trace, ModelRequest)
    (call,) = spans(trace, ToolCall)
    at = from_iso("2026-03-02T09:15:00Z")
    assert (run.name, run.model, run.conversation_id) == ("shell-helper", "small-model", "3f1c-minimal")
    assert json.loads(bytes(run.output)) == "notes.txt has 42 lines."
    assert (first.start, first.end) == (at + SECOND, at + 3 * SECOND + SECOND // 4)
    assert first.usage == Usage(input=120, output=18, cache_read=100, cost=0.00012)
    assert [m.role for m in first.input_messages] == ["system", "user"]
    assert [type(p).__name__ for p in first.output_messages[0].parts] == ["ReasoningPart", "TextPart", "ToolCallPart"]
    assert (second.model, second.history.base) == ("other-model", first.id)
    assert [p.response for m in second.input_messages for p in m.parts] == [call.result]
    assert (call.name, call.requested_by, bytes(call.result)) == ("run", first.id, b'"42 notes.txt"')
    assert (call.start, call.end, call.uncertainty) == (first.end, at + 4 * SECOND, 3 * SECOND // 4)
    assert attempt.usage == Usage(input=270, output=27, cache_read=100, cost=0.00012)


def test_answers_in_another_order_and_of_no_call() -> None:
    trace = one("mixed_1_6")
    found = {c.call_id: json.loads(bytes(c.result)) for c in spans(trace, ToolCall)}
    assert found == {"a": "an ear", "b": [{"type": "text", "text": "a tail"}]}
    first, last = spans(trace, ModelRequest)
    assert first.input_messages[0].parts == [TextPart("What is on the picture?"), UriPart("image", "images/cat.png", "image/png")]
    assert (first.reused, first.parameters, first.usage.reasoning) == (True, {"reasoning_effort": "high"}, 12)
    assert [(p.id, json.loads(bytes(p.response))) for m in last.input_messages for p in m.parts][2] == (None, "the lamp went out")
    assert (last.end, last.clock) == (first.end, "synthetic")


def test_sub_agents() -> None:
    trace = one("subagents_1_8")
    calls = {c.name: c for c in spans(trace, ToolCall)}
    runs = {r.name: r for r in spans(trace, Run)}
    assert runs["searcher"].parent_id == calls["delegate"].id
    assert calls["archive"].attributes["spanport.subagent.path"] == "archive/old.json"
    assert (calls["archive"].outcome, calls["archive"].error.message) == ("error", "no such archive")
    assert calls["write_file"].requested_by is None  # no model was asked
    assert len(spans(trace, ModelRequest)) == 3
    assert spans(trace, ModelRequest)[0].attributes["spanport.model_calls"] == 2
    (event,) = [e for a in spans(trace, Attempt) for e in a.events]
    assert (event.name, json.loads(bytes(event.source["results"]))) == ("observation", [{"content": "dropped 3 messages"}])
    assert len({s.id for s in trace.spans}) == len(trace.spans)
    assert json.loads(bytes(runs["planner"].source["continued_trajectory_ref"])) == "run-7-part-2.json"


def test_answers_without_ids_pair_by_order_and_say_so() -> None:
    document = json.loads((ATIF / "mixed_1_6.json").read_text())
    results = document["steps"][1]["observation"]["results"]
    for result in results:
        result.pop("source_call_id", None)
    del results[2]
    found = {c.call_id: c for c in spans(one(document), ToolCall)}
    assert bytes(found["b"].result) == b'"an ear"'
    assert found["a"].attributes["spanport.tool.result.paired"] == "order"


def test_a_call_without_an_answer_is_only_a_part() -> None:
    document = json.loads((ATIF / "minimal_1_0.json").read_text())
    del document["steps"][2]["observation"]
    trace = one(document)
    assert spans(trace, ToolCall) == []
    assert any(isinstance(p, ToolCallPart) for p in spans(trace, ModelRequest)[0].output_messages[0].parts)


def test_odd_members_do_not_cost_the_trajectory() -> None:
    document = {
        "schema_version": "ATIF-v9.9",
        "agent": {"name": 3, "color": "red"},
        "steps": [
            None,
            5,
            {"source": "agent", "message": {"x": 1}, "timestamp": "soon", "metrics": {"prompt_tokens": "many"}, "novel": True},
            {"source": "agent", "tool_calls": [{"tool_call_id": 4}], "observation": {"results": [None, {"source_call_id": 4}]}},
            {"source": "watcher", "message": "hm"},
        ],
        "final_metrics": {"total_prompt_tokens": "x"},
    }
    trace = one(document)
    first = spans(trace, ModelRequest)[0]
    assert json.loads(bytes(first.source["novel"])) is True
    assert json.loads(bytes(first.source["timestamp"])) == "soon"
    assert json.loads(bytes(spans(trace, Run)[0].source["agent"])) == {"name": 3, "color": "red"}
    assert json.loads(written(spanport.stream(document)))["steps"][0]["source"] == "user"


def test_lines_and_a_broken_one() -> None:
    text = (ATIF / "minimal_1_0.json").read_text()
    lines = [json.dumps(json.loads(text) | {"session_id": f"s{n}"}) for n in range(3)]
    lines[1] = lines[1][:100]
    report = Report()
    traces = spanport.read("\n".join(lines).encode(), report=report, format="atif")
    assert [t.header.name for t in traces] == ["s0", "s2"]
    assert [(n.line, n.severity) for n in report.notices] == [(2, "lost")]


@pytest.mark.parametrize("data", [b"", b"{", b"null", b'{"schema_version": "ATIF-v1.4"}', (ATIF / "minimal_1_0.json").read_bytes()[:150]])
def test_what_is_no_trajectory(data: bytes) -> None:
    with pytest.raises(ReadError) as caught:
        spanport.read(data, format="atif")
    assert "\n" not in str(caught.value)


def test_a_longer_copy_keeps_the_ids() -> None:
    document = json.loads((ATIF / "subagents_1_8.json").read_text())
    whole = {s.id for s in one(document).spans}
    assert {s.id for s in one({**document, "steps": document["steps"][:3]}).spans} <= whole


# ---------------------------------------------------------------------------------------------------------- writing
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("via", [None, "spanport", "otlp-json", "otlp-proto"])
def test_a_trajectory_comes_back(name: str, via: str | None) -> None:
    data = (ATIF / f"{name}.json").read_bytes()
    items: Any = spanport.stream(data)
    if via is not None:
        held = io.BytesIO()
        registry.get(via).write(items, held, Report())
        items = spanport.stream(held.getvalue(), format=via)
    got = written(items)
    assert json.loads(got) == json.loads(data)
    valid(got)


_word = st.text(max_size=5)
_value = st.none() | st.booleans() | st.integers(0, 9) | _word


@st.composite
def trajectories(draw: st.DrawFn) -> dict[str, Any]:
    """A valid trajectory with any mix of optional members."""
    steps: list[dict[str, Any]] = []
    for n in range(draw(st.integers(1, 5))):
        step: dict[str, Any] = {"step_id": n + 1, "source": draw(st.sampled_from(["user", "system", "agent"])), "message": draw(_word)}
        if draw(st.booleans()):
            step["timestamp"] = f"2026-06-01T08:00:{n:02}{draw(st.sampled_from(['Z', '.5Z', '.123456Z', '+02:00']))}"
        if draw(st.booleans()):
            step["extra"] = draw(st.dictionaries(_word, _value, max_size=2))
        if step["source"] == "agent":
            ids = [f"c{n}.{i}" for i in range(draw(st.integers(0, 2)))]
            if ids:
                step["tool_calls"] = [
                    {"tool_call_id": i, "function_name": draw(_word), "arguments": draw(st.dictionaries(_word, _value, max_size=2))}
                    for i in ids
                ]
                answered = draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]
                if answered:
                    step["observation"] = {"results": [{"source_call_id": i, "content": draw(_word)} for i in answered]}
            if draw(st.booleans()):
                step["metrics"] = {"prompt_tokens": draw(st.integers(0, 99)), "completion_tokens": draw(st.integers(0, 99))}
            if draw(st.booleans()):
                step["reasoning_content"] = draw(_word)
            if draw(st.booleans()):
                step["model_name"] = draw(st.sampled_from(["m", "n"]))
        steps.append(step)
    return {
        "schema_version": draw(st.sampled_from(["ATIF-v1.2", "ATIF-v1.7"])),
        "session_id": draw(_word),
        "agent": {"name": draw(_word), "version": draw(_word), **({"model_name": "m"} if draw(st.booleans()) else {})},
        "steps": steps,
    }


@settings(max_examples=80, deadline=None)
@given(trajectories())
def test_any_trajectory_comes_back(document: dict[str, Any]) -> None:
    got = json.loads(written(spanport.stream(json.dumps(document).encode(), format="atif")))
    assert got == document


def records() -> list[Path]:
    """RunArtifacts records, as another format's runs."""
    found = [*sorted((FIXTURES / "runartifacts").glob("*/artifacts.json")), FIXTURES / "runartifacts/parallel_mixed"]
    return found + (sorted(CORPUS.glob("*/artifacts.json")) if CORPUS is not None else [])


@pytest.mark.parametrize("path", records(), ids=lambda p: p.parent.name if p.is_file() else p.name)
def test_other_formats_become_valid_trajectories(path: Path) -> None:
    items = list(spanport.stream(path))
    data = written(items)
    valid(data)
    documents = [json.loads(data)] if data.startswith(b"{\n") else [json.loads(line) for line in data.splitlines()]
    answered = [r for d in documents for s in d["steps"] for r in s.get("observation", {}).get("results", [])]
    calls = [c for c in items if isinstance(c, ToolCall) and c.outcome in ("ok", "error", "rejected")]
    assert len(answered) >= len(calls)
    errors = [r for r in answered if r.get("extra", {}).get("is_error")]
    assert len(errors) == sum(c.outcome != "ok" for c in calls)


def team() -> list[Item]:
    trace = "0" * 31 + "1"
    at = from_iso("2026-05-02T09:00:00+00:00")

    def ids(own: int, parent: int | None, start: int, end: int) -> dict[str, Any]:
        base = {"id": f"{own:016x}", "trace_id": trace, "parent_id": None if parent is None else f"{parent:016x}", "key": str(own)}
        return {**base, "start": at + start * SECOND, "end": at + end * SECOND}

    ask = ToolCallPart("delegate", "d1", raw({"to": "helper"}))
    user = Message(role="user", parts=[TextPart("Do it.")])
    first = Message(role="assistant", parts=[ReasoningPart("hm"), ask])
    answer = Message(role="tool", parts=[ToolCallResponsePart(raw("it is 7"), "d1")])
    last = Message(role="assistant", parts=[TextPart("Done.")])
    child = [
        ModelRequest(**ids(7, 6, 3, 4), name="m-2", model="m-2", input_messages=[Message(role="user", parts=[TextPart("What?")])], output_messages=[Message(role="assistant", parts=[TextPart("it is 7")])]),
        ToolCall(**ids(12, 6, 3, 3), name="peek", arguments=raw([1]), result=raw({"n": 7})),
        Attempt(**ids(6, 5, 3, 4), name="", number=1),
        Run(**ids(5, 4, 3, 4), name="helper", native_id="run-2"),
    ]  # fmt: skip
    return [
        TraceHeader(id=trace, family="other", format="other", run_key=["run-1"]),
        ModelRequest(
            **ids(3, 2, 1, 2),
            name="m-1",
            model="m-1",
            input_messages=[user],
            output_messages=[first],
            usage=Usage(input=9, output=3, reasoning=2),
        ),
        *child,
        ToolCall(
            **ids(4, 2, 2, 5), name="delegate", call_id="d1", arguments=ask.arguments, result=raw("it is 7"), requested_by=f"{3:016x}"
        ),
        ModelRequest(
            **ids(8, 2, 5, 6),
            name="m-1",
            model="m-1",
            input_messages=[user, first, answer],
            output_messages=[last],
            usage=Usage(input=20, output=1),
        ),
        Attempt(**ids(2, 1, 0, 6), name="", number=1),
        Run(**ids(1, None, 0, 6), name="crew", type="team", native_id="run-1", conversation_id="c-9", model="m-1"),
    ]


def test_a_team_becomes_a_trajectory_with_a_sub_agent() -> None:
    report = Report()
    data = written(team(), report)
    valid(data)
    document = json.loads(data)
    assert (document["session_id"], document["agent"]) == ("c-9", {"name": "crew", "version": "unknown", "model_name": "m-1"})
    assert [(s["source"], s["message"]) for s in document["steps"]] == [("user", "Do it."), ("agent", ""), ("agent", "Done.")]
    step = document["steps"][1]
    assert step["reasoning_content"] == "hm"
    assert step["timestamp"] == "2026-05-02T09:00:02Z"
    assert step["metrics"] == {"prompt_tokens": 9, "completion_tokens": 3, "extra": {"reasoning_tokens": 2}}
    assert step["observation"]["results"] == [
        {"source_call_id": "d1", "subagent_trajectory_ref": [{"trajectory_id": "run-2"}], "content": "it is 7"}
    ]
    (child,) = document["subagent_trajectories"]
    assert (child["trajectory_id"], child["agent"]["name"]) == ("run-2", "helper")
    peek = next(s for s in child["steps"] if "tool_calls" in s)
    assert (peek["llm_call_count"], peek["tool_calls"][0]["arguments"]) == (0, {"arguments": [1]})
    assert peek["observation"]["results"][0]["content"] == '{"n":7}'
    assert document["final_metrics"] == {"total_prompt_tokens": 29, "total_completion_tokens": 4, "total_steps": 3}
    assert any(x.field == "agent.version" for x in report.losses.values())


def test_a_late_answer_stands_with_the_step_that_asked() -> None:
    items = team()
    second = next(x for x in items if isinstance(x, ModelRequest) and x.id.endswith("8"))
    third = msgspec.structs.replace(second, id="9" * 16, start=second.end, end=second.end + SECOND)
    second.input_messages = second.input_messages[:2]
    second.output_messages[0].parts.append(ToolCallPart("other", "d2", raw({})))
    third.input_messages = [
        *second.input_messages,
        *second.output_messages,
        Message(role="tool", parts=[ToolCallResponsePart(raw("it is 7"), "d1")]),
    ]
    data = written([*items[:-2], third, *items[-2:]])
    valid(data)
    assert [[r["content"] for r in s.get("observation", {}).get("results", [])] for s in json.loads(data)["steps"]] == [
        [],
        ["it is 7"],
        [],
        [],
    ]


def test_what_was_written_reads_back() -> None:
    trace = one(written(team()))
    assert {c.name: json.loads(bytes(c.result)) for c in spans(trace, ToolCall)} == {"delegate": "it is 7", "peek": '{"n":7}'}
    assert {r.name: r.parent_id is None for r in spans(trace, Run)} == {"crew": True, "helper": False}


def test_several_runs_are_lines() -> None:
    data = written([*spanport.stream(ATIF / "minimal_1_0.json"), *spanport.stream(ATIF / "mixed_1_6.json")])
    assert [json.loads(line)["session_id"] for line in data.splitlines()] == ["3f1c-minimal", "mixed"]
    assert len(spanport.read(data)) == 2
