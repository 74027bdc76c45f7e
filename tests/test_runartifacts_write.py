"""RunArtifacts written: SimLab's own come back as they were, other formats' runs become records that SimLab's tools read."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spanport
from hypothesis import given, settings
from hypothesis import strategies as st
from spanport.converters import registry
from spanport.converters.clock import from_iso
from spanport.converters.errors import Report, UsageError
from spanport.converters.model import (
    AnySpan,
    Attempt,
    Error,
    Item,
    Message,
    ModelRequest,
    ReasoningPart,
    Run,
    Score,
    Task,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    TraceHeader,
    Usage,
    raw,
)
from spanport.converters.registry import WriteOptions

FIXTURES = Path(__file__).parent.parent / "fixtures" / "runartifacts"
CASES = sorted(p.parent.name for p in FIXTURES.glob("*/artifacts.json") if p.parent.name != "truncated")
SIMLAB = os.environ.get("SPANPORT_SIMLAB_PYTHON", sys.executable)
T0 = from_iso("2026-05-02T09:00:00+00:00")
MS = 1_000_000


def text(value: Any) -> str:
    """Canonical JSON; NaN equals NaN."""
    return json.dumps(value, sort_keys=True)


def written(items: list[Item] | Any, folder: Path | None = None) -> bytes:
    out = io.BytesIO()
    extra = {} if folder is None else {"folder": folder}
    registry.get("runartifacts").write(items, out, Report(), WriteOptions(extra=extra))
    return out.getvalue()


def again(data: bytes, format: str = "runartifacts") -> Any:
    return json.loads(written(list(spanport.stream(data, format=format))))


# --------------------------------------------------------------------------------------------------- SimLab's own
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("via", [None, "spanport", "otlp-json", "otlp-proto"])
def test_a_record_comes_back(case: str, via: str | None) -> None:
    """Without any carried difference: all of it is in the model. What can't be is said here."""
    data = (FIXTURES / case / "artifacts.json").read_bytes()
    want = json.loads(data)
    if via is not None:
        held = io.BytesIO()
        registry.get(via).write(spanport.stream(data), held, Report())
        got = again(held.getvalue(), via)
    else:
        got = again(data)
    if case == "nan_infinity":  # a null stands where the parameters had NaN; the observation is whole
        assert math.isnan(want["tool_calls"][0]["parameters"]["xs"].pop())
        assert got["tool_calls"][0]["parameters"]["xs"].pop() is None
    if case == "chat_spelling":  # spelled as SimLab's class has it, unless the difference is carried
        assert got["messages"] == want["messages"]
        assert got["tool_calls"] == [{"tool_server": "", "tool_name": "add", "parameters": {"a": 2, "b": 3}}]
        assert got["tool_results"] == [{"observation": "5"}]
        return
    assert text(got) == text(want)


def test_it_is_laid_out_as_simlab_does() -> None:
    data = (FIXTURES / "shape_d/artifacts.json").read_bytes()
    assert written(list(spanport.stream(data))) == data


def test_a_set_comes_back_as_a_folder(tmp_path: Path) -> None:
    written(list(spanport.stream(FIXTURES / "parallel_mixed")), tmp_path)
    (origin,) = (FIXTURES / "parallel_mixed").glob("parallel_run_*")
    (made,) = tmp_path.iterdir()
    assert made.name == origin.name
    files = {p.relative_to(origin) for p in origin.rglob("*") if p.is_file()}
    assert files == {p.relative_to(made) for p in made.rglob("*") if p.is_file()}
    for name in files:
        assert json.loads((made / name).read_text()) == json.loads((origin / name).read_text()), name


def test_many_attempts_need_a_folder() -> None:
    with pytest.raises(UsageError, match="folder"):
        written(list(spanport.stream(FIXTURES / "parallel_mixed")))


# Records as generated: any mix of agents' habits.
_word = st.text(max_size=6)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | _word,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_word, inner, max_size=3),
    max_leaves=6,
)
_arguments = st.dictionaries(_word, _json, max_size=3)
_name = st.sampled_from(["read", "send", "list_all"])


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """A record as the reference agent writes it, with or without times, some calls unknown, some not JSON."""
    timed = draw(st.booleans())
    now = T0
    messages: list[dict[str, Any]] = []
    calls: list[Any] = []
    results: list[Any] = []

    def say(role: str, content: Any) -> None:
        nonlocal now
        now += draw(st.integers(1, 10**7)) * 1000
        messages.append({"role": role, "content": content, **({"timestamp": stamp(now)} if timed else {})})

    def stamp(ns: int) -> str:
        from datetime import UTC, datetime, timedelta

        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).isoformat()

    say("user", draw(_word))
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        asked = []
        for _ in range(draw(st.integers(1, 3))):
            arguments = draw(_arguments)
            written = draw(st.sampled_from([json.dumps(arguments), json.dumps(arguments, indent=1), "{broken", "[1]"]))
            parameters = arguments if written[:1] == "{" and written != "{broken" else {}
            asked.append((f"id{number}", draw(_name), written, parameters, draw(st.integers(0, 9))))
            number += draw(st.integers(0, 1))  # ids may repeat
        nested = [{"id": i, "type": "function", "function": {"name": f"srv__{n}", "arguments": w}} for i, n, w, _, _ in asked]
        say("assistant", {"content": draw(_word), "tool_calls": nested})
        for i, n, _, parameters, fate in asked:
            if fate == 0:
                say(
                    "tool",
                    {
                        "tool_call_id": i,
                        "tool_server": "unknown",
                        "tool_name": f"srv__{n}",
                        "is_error": True,
                        "summary": f"Unknown tool call requested by model: srv__{n}",
                    },
                )
                continue
            summary = draw(_word)
            outer, inner = fate == 1, fate == 2
            observation = (
                summary if outer else {"observation": {"is_error": inner, "text": summary, "content": []}, "reward": None, "done": False}
            )
            say(
                "tool",
                {"tool_call_id": i, "tool_server": "srv", "tool_name": n, "is_error": outer, **({"summary": summary} if summary else {})},
            )
            calls.append({"tool_server": "srv", "tool_name": n, "parameters": parameters})
            results.append({"observation": observation, "is_error": outer})
    final = draw(st.none() | _word)
    if final is not None:
        say("assistant", final)
    return {
        "version": "0.1",
        "task_id": draw(_word),
        "task": messages[0]["content"],
        "model": draw(st.sampled_from(["m", "custom-agent", None])),
        "provider": draw(st.sampled_from(["openai", "custom-agent", None])),
        "messages": messages,
        "tool_calls": calls,
        "tool_results": results,
        "metadata": {"reference_agent": True, **draw(_arguments)},
        "final_observation": final,
        "error": draw(st.sampled_from([None, None, "Cancelled", "Rollout timeout exceeded"])),
        "steps_taken": len(calls),
        "max_steps": draw(st.none() | st.integers(1, 50)),
        "created_at": stamp(T0),
    }


@settings(max_examples=60, deadline=None)
@given(records(), st.sampled_from([None, "otlp-json"]))
def test_any_record_comes_back(record: dict[str, Any], via: str | None) -> None:
    data = json.dumps(record).encode()
    if via is None:
        assert text(again(data)) == text(record)
        return
    held = io.BytesIO()
    registry.get(via).write(spanport.stream(data), held, Report())
    assert text(again(held.getvalue(), via)) == text(record)


# ---------------------------------------------------------------------------------------------- from other formats
def foreign() -> list[AnySpan]:
    """A team: the leader asks a member (a run inside its call), then two tools at once that end in another order, one in error."""
    trace = "0" * 31 + "1"

    def span(kind: type[Any], own: int, parent: int | None, start: int, end: int, /, **fields: Any) -> Any:
        ids = {"id": f"{own:016x}", "trace_id": trace, "parent_id": None if parent is None else f"{parent:016x}", "key": str(own)}
        return kind(**ids, start=T0 + start * MS, end=T0 + end * MS, name=fields.pop("name", ""), **fields)

    def says(words: str, *calls: ToolCallPart) -> list[Message]:
        return [Message(role="assistant", parts=[*([TextPart(words)] if words else []), *calls])]

    ask = ToolCallPart("delegate", "d1", raw({"to": "helper"}))
    slow, fast = ToolCallPart("slow", "t1", raw({"n": 1})), ToolCallPart("fast", "t2", raw({"n": 2}))
    user = Message(role="user", parts=[TextPart("Do it.")])
    delegated = Message(role="tool", parts=[ToolCallResponsePart(raw("it is 7"), "d1")])
    answers = [
        Message(role="tool", parts=[ToolCallResponsePart(raw({"rows": 3}), "t1")]),
        Message(role="tool", parts=[ToolCallResponsePart(raw("boom"), "t2")]),
    ]
    first, second = says("", ask), [Message(role="assistant", parts=[ReasoningPart("hm"), slow, fast])]
    return [
        span(
            ModelRequest,
            3,
            2,
            10,
            100,
            model="m-1",
            provider="openai",
            input_messages=[user],
            output_messages=first,
            usage=Usage(input=10, output=2),
        ),
        span(
            ModelRequest,
            7,
            6,
            120,
            180,
            model="m-2",
            input_messages=[Message(role="user", parts=[TextPart("What is it?")])],
            output_messages=says("it is 7"),
            usage=Usage(input=5, output=1),
        ),
        span(Attempt, 6, 5, 110, 190, number=1),
        span(Run, 5, 4, 110, 190, name="helper"),
        span(
            ToolCall,
            4,
            2,
            105,
            200,
            name="delegate",
            call_id="d1",
            arguments=ask.arguments,
            result=raw("it is 7"),
            requested_by=f"{3:016x}",
            status="ok",
        ),
        # a format without deltas: the whole history is sent again
        span(
            ModelRequest,
            8,
            2,
            210,
            300,
            model="m-1",
            input_messages=[user, *first, delegated],
            output_messages=second,
            usage=Usage(input=20, output=4),
        ),
        span(
            ToolCall,
            10,
            2,
            301,
            320,
            name="fast",
            call_id="t2",
            server="kit",
            arguments=fast.arguments,
            outcome="error",
            status="error",
            error=Error(type="ValueError", message="boom"),
            requested_by=f"{8:016x}",
        ),
        span(
            ToolCall,
            9,
            2,
            300,
            400,
            name="slow",
            call_id="t1",
            server="kit",
            arguments=slow.arguments,
            result=raw({"rows": 3}),
            requested_by=f"{8:016x}",
            status="ok",
        ),
        span(
            ModelRequest,
            11,
            2,
            410,
            500,
            model="m-1",
            input_messages=[user, *first, delegated, *second, *answers],
            output_messages=says("Done."),
            usage=Usage(input=30, output=3),
        ),
        span(Attempt, 2, 1, 0, 500, number=1),
        span(
            Run,
            1,
            None,
            0,
            500,
            type="team",
            name="crew",
            native_id="run-1",
            conversation_id="c-9",
            input=raw("Do it."),
            output=raw("Done."),
        ),
    ]


def header() -> TraceHeader:
    return TraceHeader(id="0" * 31 + "1", family="other", format="other", run_key=["run-1"])


def team() -> Any:
    return json.loads(written([header(), *foreign()]))


def test_a_team_becomes_one_record() -> None:
    record = team()
    assert list(record) == [
        "version",
        "task_id",
        "task",
        "model",
        "provider",
        "messages",
        "tool_calls",
        "tool_results",
        "metadata",
        "final_observation",
        "error",
        "steps_taken",
        "max_steps",
        "created_at",
    ]
    assert (record["task_id"], record["task"], record["model"], record["final_observation"]) == ("run-1", "Do it.", "m-1", "Done.")
    assert record["created_at"] == "2026-05-02T09:00:00+00:00"
    assert record["steps_taken"] == 3
    assert [(c["tool_server"], c["tool_name"]) for c in record["tool_calls"]] == [
        ("", "delegate"),
        ("kit", "fast"),
        ("kit", "slow"),
    ]  # as they ended
    assert record["tool_results"] == [
        {"observation": "it is 7", "is_error": False},
        {"observation": "boom", "is_error": True},
        {"observation": {"rows": 3}, "is_error": False},
    ]
    assert record["metadata"]["rollout_metrics"]["token_usage"] == {
        "prompt_tokens_total": 65,
        "completion_tokens_total": 10,
        "total_tokens_total": 75,
    }
    assert record["metadata"]["thread_id"] == "c-9"


def test_messages_of_a_team_are_told_once_and_in_order() -> None:
    messages = team()["messages"]
    shown = [(m["role"], m["content"] if isinstance(m["content"], str) else m["content"].get("summary", "calls")) for m in messages]
    assert shown == [
        ("user", "Do it."),
        ("assistant", "calls"),
        ("user", "What is it?"),
        ("assistant", "it is 7"),
        ("tool", "it is 7"),
        ("assistant", "calls"),
        ("tool", '{"rows":3}'),
        ("tool", "boom"),
        ("assistant", "Done."),
    ]
    assert [c["function"]["name"] for c in messages[5]["content"]["tool_calls"]] == ["kit__slow", "kit__fast"]
    assert messages[5]["reasoning_content"] == "hm"
    assert messages[6]["content"]["tool_server"] == "kit"
    assert messages[4]["timestamp"] == "2026-05-02T09:00:00.200000+00:00"


def test_what_was_written_reads_back_as_the_same_calls() -> None:
    (trace,) = spanport.read(written([header(), *foreign()]))
    found = {c.call_id: c for c in trace.spans if isinstance(c, ToolCall)}
    for c in foreign():
        if isinstance(c, ToolCall):
            back = found[c.call_id]
            assert (back.name, back.server, back.outcome, back.end) == (c.name, c.server, c.outcome, c.end)
            assert json.loads(bytes(back.arguments)) == json.loads(bytes(c.arguments))


def test_nothing_is_made_up_without_times_and_tokens() -> None:
    trace = "0" * 31 + "1"
    request = ModelRequest(
        id="2" * 16,
        trace_id=trace,
        parent_id="1" * 16,
        key="r",
        name="",
        clock="synthetic",
        output_messages=[Message(role="assistant", parts=[TextPart("hi")])],
    )
    run = Run(id="1" * 16, trace_id=trace, key="run", name="")
    record = json.loads(written([header(), request, run]))
    assert record["messages"] == [{"role": "assistant", "content": "hi"}]
    assert record["metadata"] == {}
    assert (record["model"], record["final_observation"], record["created_at"]) == (None, None, "")


def benchmark() -> list[Item]:
    trace = "0" * 31 + "1"
    spans: list[Item] = [header()]
    for task in range(2):
        for number in (1, 2):
            spans.append(
                Attempt(
                    id=f"{task}{number}" + "a" * 14, trace_id=trace, parent_id=f"{task}" + "b" * 15, key=str(number), name="", number=number, agent="searcher",
                    start=T0 + number * MS, end=T0 + (1000 + number) * MS, output=raw("Rome"), verdict="pass" if number == 2 else "fail",
                    scores=[Score(name="correct", value=float(number == 2), label="pass" if number == 2 else "fail")],
                )
            )  # fmt: skip
        spans.append(
            Task(
                id=f"{task}" + "b" * 15,
                trace_id=trace,
                parent_id="c" * 16,
                key=str(task),
                name=f"q/{task}",
                native_id=f"q/{task}",
                index=task,
                input=raw("Capital?"),
                start=T0,
                end=T0 + 2000 * MS,
            )
        )
    spans.append(Run(id="c" * 16, trace_id=trace, key="run", name="geo", type="benchmark", start=T0, end=T0 + 3000 * MS))
    return spans


def test_a_benchmark_becomes_a_folder_of_rollouts_with_rewards(tmp_path: Path) -> None:
    written(benchmark(), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["parallel_run_q_0_20260502_090000", "parallel_run_q_1_20260502_090000"]
    home = tmp_path / "parallel_run_q_1_20260502_090000"
    record = json.loads((home / "rollout_1/artifacts.json").read_text())
    assert (record["task_id"], record["task"], record["final_observation"]) == ("q/1", "Capital?", "Rome")
    reward = json.loads((home / "rollout_1/verifier/reward.json").read_text())
    assert reward == {"reward": 1.0, "verifier_results": [{"module": "correct", "success": True, "message": "", "output": ""}]}
    assert (home / "rollout_0/verifier/reward.txt").read_text() == "0"
    summary = json.loads((home / "summary.json").read_text())
    assert (summary["rollout_count"], summary["passed"], summary["avg_reward"], summary["total_duration_seconds"]) == (2, 1, 0.5, 2.0)
    traces = spanport.read(tmp_path)
    assert [a.verdict for t in traces for a in t.spans if isinstance(a, Attempt)] == ["fail", "pass"] * 2


def test_names_of_tasks_stay_inside_the_folder(tmp_path: Path) -> None:
    items = benchmark()
    for x in items:
        if isinstance(x, Task):
            x.native_id = "../../up/and/away"
    written(items, tmp_path / "in")
    assert all(p.parent == tmp_path / "in" for p in (tmp_path / "in").iterdir())
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


# ------------------------------------------------------------------------------------------------- SimLab itself
_LOADS = """
import json, sys
from pathlib import Path
from simlab.agents.base import RunArtifacts, ToolCall, ToolCallResult
from simlab import evaluation
for path in Path(sys.argv[1]).rglob("artifacts.json"):
    fields = json.loads(path.read_text())
    fields["tool_calls"] = [ToolCall(**c) for c in fields["tool_calls"]]
    fields["tool_results"] = [ToolCallResult(**r) for r in fields["tool_results"]]
    assert RunArtifacts(**fields).to_dict() == json.loads(path.read_text())
report = evaluation.build_report(Path(sys.argv[1]))
print(json.dumps([report["warnings"], report["summary"]["overview"]["total_rollouts"], report["summary"]["passed_count"], report["summary"]["overview"]["total_tool_calls"]]))
"""


def test_simlabs_class_and_evaluation_read_what_was_written(tmp_path: Path) -> None:
    known = subprocess.run([SIMLAB, "-c", "import simlab.agents.base"], capture_output=True, check=False)
    if known.returncode:
        pytest.skip(
            f"simulationlab 0.2.0 (Python 3.13, mcp<2) is not installed for {SIMLAB}; SPANPORT_SIMLAB_PYTHON may name an interpreter that has it"
        )
    written(benchmark(), tmp_path)
    written([header(), *foreign()], tmp_path)
    done = subprocess.run([SIMLAB, "-c", _LOADS, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], 5, 2, 3]
