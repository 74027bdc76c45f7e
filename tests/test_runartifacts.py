"""RunArtifacts records: compared with alignments that were worked out without spanport, and by what each fixture shows."""

from __future__ import annotations

import io
import itertools
import json
import os
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spanport
from spanport.converters import registry
from spanport.converters.clock import from_iso
from spanport.converters.errors import ReadError, Report
from spanport.converters.model import Attempt, ModelRequest, Phase, Run, ToolCall, Trace
from spanport.converters.registry import WriteOptions
from spanport.converters.simlab import spans as builder
from spanport.converters.simlab.document import Head
from spanport.converters.stages.redact import redact

FIXTURES = Path(__file__).parent.parent / "fixtures" / "runartifacts"
CORPUS = Path(os.environ["SPANPORT_CORPUS"]) / "simlab" if "SPANPORT_CORPUS" in os.environ else None
MS = 1_000_000


def one(case: str | Path | bytes | dict[str, Any], report: Report | None = None) -> Trace:
    source = FIXTURES / case / "artifacts.json" if isinstance(case, str) else case
    traces = spanport.read(source, report=report)
    assert len(traces) == 1
    return traces[0]


def spans(trace: Trace, kind: type[Any]) -> list[Any]:
    return [s for s in trace.spans if isinstance(s, kind)]


def call(trace: Trace, name: str) -> ToolCall:
    (found,) = [c for c in spans(trace, ToolCall) if c.name == name]
    return found


def attempt(trace: Trace) -> Attempt:
    (found,) = spans(trace, Attempt)
    return found


# --------------------------------------------------------------------------------------------------- the alignments
def aligned() -> list[tuple[Path, Path]]:
    """(record, alignment): those of the corpus where there is one, else the fixtures."""
    found = [(p.parent / "artifacts.json", p) for p in sorted(FIXTURES.glob("*/align.json"))]
    found += [
        (FIXTURES / "parallel_mixed/parallel_run_read_subject_20261130_200728" / p.stem / "artifacts.json", p)
        for p in sorted(FIXTURES.glob("parallel_mixed/_align/*.json"))
    ]
    if CORPUS is None:
        warnings.warn("SPANPORT_CORPUS is not set: the records outside of fixtures/ were not tried", stacklevel=1)
    else:
        found += [(p.parent / "artifacts.json", p) for p in sorted(CORPUS.glob("*/_align.json")) if (p.parent / "artifacts.json").exists()]
    assert len(found) > 15
    return found


@pytest.mark.parametrize(("record", "alignment"), aligned(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_calls_and_requests_agree_with_an_independent_alignment(record: Path, alignment: Path) -> None:
    want = json.loads(alignment.read_text())
    results = json.loads(record.read_bytes())["tool_results"]
    trace = one(record)
    calls, requests = spans(trace, ToolCall), spans(trace, ModelRequest)
    assert len(calls) == want["tool_spans"]
    lone = len(json.loads(record.read_bytes())["messages"]) == 1 and not calls_in(record)
    assert len(requests) == want["model_requests_visible"] - lone
    left = list(calls)
    for w in (w for w in want["spans"] if "name" in w):  # large cases list only the first ones
        fit = [c for c in left if (c.name, c.call_id) == (w["name"], w.get("id"))]
        if w.get("start") and w.get("end"):
            fit = [c for c in fit if (c.start, c.end) == (from_iso(w["start"]), from_iso(w["end"]))]
        if w.get("result") is not None:
            observation = results[w["result"]]["observation"]
            fit = [c for c in fit if repr(python(c)) == repr(observation)]
        assert fit, w
        left.remove(fit[0])
        assert (fit[0].status == "error") == bool(w["effective_error"] or w["dangling"]), w
        assert (fit[0].outcome == "aborted") == w["dangling"]
        assert fit[0].server == w["server"] or w["server"] is None
    times = {(r.start, r.end) for r in requests}
    for w in want["requests"]:
        if w["start"] and w["end"] and not lone:
            assert (from_iso(w["start"]), from_iso(w["end"])) in times


def python(c: ToolCall) -> Any:
    """The result as Python reads it; literals such as NaN are kept as the text they were."""
    value = json.loads(bytes(c.result)) if c.result else None
    return json.loads(value) if "spanport.tool.result.literals" in c.attributes else value


def calls_in(record: Path) -> bool:
    """Whether the one message of a record asks for calls (else the runner added it)."""
    return any(isinstance(m["content"], dict) or m["role"] != "assistant" for m in json.loads(record.read_bytes())["messages"])


def timed() -> list[Path]:
    found = [p.parent / "artifacts.json" for p in sorted(FIXTURES.glob("*/align.json"))]
    found += sorted(FIXTURES.glob("parallel_mixed/*/rollout_*/artifacts.json")) + sorted(FIXTURES.glob("failed_verifier/*/artifacts.json"))
    if CORPUS is not None:
        found += sorted(CORPUS.glob("*/artifacts.json")) + sorted(CORPUS.glob("*/output/*/artifacts.json"))
        found += sorted(CORPUS.glob("*/output/*/rollout_*/artifacts.json"))
    return found


def test_rebuilt_times_agree_with_simlabs_own_totals() -> None:
    checked = 0
    for path in timed():
        try:
            record = json.loads(path.read_bytes())
        except ValueError:
            continue
        timing = record["metadata"].get("rollout_metrics", {}).get("timing", {})
        if "llm_inference_seconds_total" not in timing or not any("timestamp" in m for m in record["messages"]):
            continue
        trace = one(path)
        within = 25 * MS if len(record["tool_calls"]) >= 1000 else 5 * MS
        for kind, key in ((ToolCall, "tool_execution_seconds_total"), (ModelRequest, "llm_inference_seconds_total")):
            rebuilt = sum(s.end - s.start for s in spans(trace, kind) if s.clock == "derived" and s.end is not None)
            assert abs(rebuilt - timing.get(key, 0) * 1e9) < within, (path, kind, rebuilt, timing)
        checked += 1
    assert checked >= 7


# ------------------------------------------------------------------------------------------------------------ shapes
@pytest.mark.parametrize(
    ("case", "shape", "clock"),
    [("shape_a", "A", "synthetic"), ("shape_b", "B", "synthetic"), ("shape_c", "C", "synthetic"), ("shape_d", "D", "derived")],
)
def test_the_shape_is_told_by_content(case: str, shape: str, clock: str) -> None:
    trace = one(case)
    assert attempt(trace).attributes["spanport.simlab.shape"] == shape
    assert {s.clock for s in spans(trace, ModelRequest)} == {clock}
    order = [s for s in trace.spans if isinstance(s, ModelRequest | ToolCall)]
    assert [s.end for s in order] == sorted(s.end for s in order)


@pytest.mark.parametrize("case", ["shape_a", "shape_b", "shape_c"])
def test_old_shapes_give_the_same_calls(case: str) -> None:
    found = [(c.name, c.server, c.outcome, c.error and c.error.type) for c in spans(one(case), ToolCall)]
    assert sorted(found, key=str) == sorted(
        [
            ("search_emails", "email-env", "ok", None),
            ("teleport", "email-env", "rejected", "unknown_tool"),
            ("read_email", "email-env", "error", "tool"),
            ("read_email", "email-env", "error", "tool"),
            ("boom", "email-env", "error", "transport"),
        ],
        key=str,
    )


def test_text_that_is_no_json_stays_text() -> None:
    bad = [c for c in spans(one("shape_c"), ToolCall) if bytes(c.arguments).startswith(b'"')]
    assert [json.loads(bytes(c.arguments)) for c in bad] == ['{"id": "unclosed']


def test_the_tree_and_what_stands_where() -> None:
    trace = one("shape_d")
    (run,) = spans(trace, Run)
    top = attempt(trace)
    phases = {p.name: p for p in spans(trace, Phase)}
    assert trace.spans[-1] is run
    assert run.parent_id is None
    assert top.parent_id == run.id
    assert set(phases) == {"setup", "agent"}
    assert all(p.parent_id == top.id for p in phases.values())
    assert {s.parent_id for s in trace.spans if isinstance(s, ModelRequest | ToolCall)} == {phases["agent"].id}
    assert (run.name, run.model, run.provider) == ("simlab-reference-agent", "gpt-4o-mini", "openai")
    assert top.usage is not None
    assert (
        top.usage.input
        == json.loads((FIXTURES / "shape_d/artifacts.json").read_text())["metadata"]["rollout_metrics"]["token_usage"][
            "prompt_tokens_total"
        ]
    )
    assert all(r.usage is None for r in spans(trace, ModelRequest))
    asked = {c.requested_by for c in spans(trace, ToolCall)}
    assert asked <= {r.id for r in spans(trace, ModelRequest)}


def test_a_placeholder_is_no_model() -> None:
    trace = one("adapter_concurrent")
    assert {(r.model, r.provider) for r in spans(trace, ModelRequest)} == {(None, None)}
    assert spans(trace, Run)[0].model is None
    assert spans(trace, Run)[0].name == "openai-agents-sdk"


def test_an_adapters_requests_are_inferred_and_its_calls_overlap() -> None:
    trace = one("adapter_concurrent")
    assert all(r.inferred for r in spans(trace, ModelRequest))
    (three,) = [r for r in spans(trace, ModelRequest) if len(r.output_messages[0].parts) == 3]
    mine = [c for c in spans(trace, ToolCall) if c.requested_by == three.id]
    assert [c.call_id for c in mine] == ["call_3", "call_4", "call_2"]  # in the order in which they ended
    assert max(c.start for c in mine) < min(c.end for c in mine)
    assert [json.loads(bytes(c.arguments)) for c in mine] == [{"name": "Contoso"}, {"seconds": 0.2}, {"seconds": 0.4}]


def test_each_request_holds_only_new_messages() -> None:
    trace = one("shape_d")
    requests = spans(trace, ModelRequest)
    assert sum(len(r.input_messages) + len(r.output_messages) for r in requests) == 10
    assert requests[0].history is None
    for before, after in itertools.pairwise(requests):
        assert after.history.base == before.id


# ------------------------------------------------------------------------------------------------------------ errors
def test_both_levels_of_an_error() -> None:
    (bad,) = [c for c in spans(one("hidden_tool_error"), ToolCall) if c.status == "error"]
    assert bad.attributes["spanport.tool.error.outer"] is False
    assert bad.attributes["spanport.tool.error.inner"] is True
    assert bad.error.type == "tool"
    assert bad.error.message


def test_an_error_inside_json_text_counts() -> None:
    record = json.loads((FIXTURES / "hidden_tool_error/artifacts.json").read_text())
    for result in record["tool_results"]:
        result["observation"] = json.dumps(result["observation"])
    assert [c.outcome for c in spans(one(record), ToolCall)] == [c.outcome for c in spans(one("hidden_tool_error"), ToolCall)]


def test_a_tool_error_is_no_run_error() -> None:
    trace = one("hidden_tool_error")
    assert attempt(trace).status == "ok"
    assert spans(trace, Run)[0].error is None


@pytest.mark.parametrize(
    ("case", "ending", "error"),
    [
        ("timeout_late_finish", "timeout", "timeout"),
        ("cancelled", "cancelled", "cancelled"),
        ("error_with_final", "failed", "agent_error"),
        ("dangling_call", "failed", "agent_error"),
        ("shape_d", "completed", None),
        ("empty_run", None, None),
    ],
)
def test_endings(case: str, ending: str | None, error: str | None) -> None:
    top = attempt(one(case))
    assert top.ending == ending
    assert (top.error and top.error.type) == error
    assert (top.status == "error") == (error is not None)


def test_ending_words_of_other_agents() -> None:
    for text, ending, kind in (
        ("Max steps reached without final assistant response", "max_steps", "max_steps"),
        ("context_window_exceeded", "context_window_exceeded", "context_window_exceeded"),
        ("Agent execution failed: litellm.BadRequestError: no", "failed", "litellm.BadRequestError"),
        ("LangGraph assistant failed: nothing", "failed", "agent_error"),
    ):
        top = attempt(one({"task_id": "x", "messages": [], "tool_calls": [], "tool_results": [], "error": text}))
        assert (top.ending, top.error.type) == (ending, kind)
    at_limit = {
        "task_id": "x",
        "messages": [],
        "tool_calls": [],
        "tool_results": [],
        "final_observation": "Max steps reached",
        "error": None,
    }
    assert attempt(one(at_limit)).ending == "max_steps"


def test_a_late_finish_keeps_both() -> None:
    trace = one("timeout_late_finish")
    assert spans(trace, Run)[0].output
    assert attempt(trace).attributes["spanport.late_finish"] is True


def test_a_call_that_broke_the_run_off() -> None:
    trace = one("dangling_call")
    (broken,) = [c for c in spans(trace, ToolCall) if c.outcome == "aborted"]
    assert (broken.name, broken.end, broken.unfinished) == ("send_email", None, True)
    assert broken.error.message == attempt(trace).error.message


def test_an_unanswered_call_of_a_good_run_is_only_a_part() -> None:
    record = json.loads((FIXTURES / "dangling_call/artifacts.json").read_text()) | {"error": None}
    trace = one(record)
    assert [c.name for c in spans(trace, ToolCall)] == ["search_emails"]
    assert any(
        p.name == "email-env__send_email"
        for r in spans(trace, ModelRequest)
        for m in r.output_messages
        for p in m.parts
        if hasattr(p, "arguments")
    )


def test_an_unanswered_call_of_an_earlier_turn_is_only_a_part() -> None:
    record = json.loads((FIXTURES / "dangling_call/artifacts.json").read_text())
    record["messages"].append({"role": "assistant", "content": "Never mind."})
    assert [c.outcome for c in spans(one(record), ToolCall)] == ["ok"]


def test_parameters_tell_calls_of_one_name_apart() -> None:
    """Two threads may append in another order than their tool messages have."""
    record = json.loads((FIXTURES / "adapter_concurrent/artifacts.json").read_text())
    for name in ("tool_calls", "tool_results"):
        record[name][2], record[name][3] = record[name][3], record[name][2]
    found = {c.call_id: json.loads(bytes(c.result))["observation"]["text"] for c in spans(one(record), ToolCall)}
    assert (found["call_2"], found["call_4"]) == ("slept 0.4", "slept 0.2")


# ------------------------------------------------------------------------------------------------------ odd producers
def test_records_without_tool_messages() -> None:
    trace = one("no_tool_messages")
    found = {c.call_id: (c.name, c.outcome, json.loads(bytes(c.result))) for c in spans(trace, ToolCall)}
    assert found == {
        "call_0_0": ("search", "ok", "nothing"),
        "call_0_1": ("fly", "rejected", "no tool fly"),
        "call_1_0": ("search", "ok", "bill.pdf"),
    }
    assert {c.clock for c in spans(trace, ToolCall)} == {"synthetic"}


def test_the_spelling_of_chat_apis() -> None:
    trace = one("chat_spelling")
    add = call(trace, "add")
    assert (add.call_id, bytes(add.result), json.loads(bytes(add.arguments))) == ("c1", b'"5"', {"a": 2, "b": 3})
    assert len(spans(trace, ModelRequest)) == 2


def test_other_members_are_kept() -> None:
    source = attempt(one("closed_platform")).source
    record = json.loads((FIXTURES / "closed_platform/artifacts.json").read_text())
    for name in ("task_file", "tool_servers", "log_probs", "seed_data", "rollback_input", "diffs"):
        assert json.loads(bytes(source[name])) == record[name]


def test_agents_that_record_only_one_list() -> None:
    messages, calls = one("messages_only"), one("calls_only")
    assert [c.attributes.get("spanport.simlab.recorded") for c in spans(messages, ToolCall)] == ["messages"]
    assert [(c.name, c.requested_by) for c in spans(calls, ToolCall)] == [("slow", None), ("slow", None)]
    assert spans(one("final_only"), ModelRequest) == []
    assert len(attempt(one("final_only")).messages) == 1


def test_members_of_other_types_do_not_cost_the_record() -> None:
    record = {
        "task_id": 7,
        "task": ["a"],
        "messages": [
            None,
            3,
            "x",
            {"role": 1},
            {"role": "user", "content": {"a": 1}},
            {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        ],
        "tool_calls": [None, {"tool_name": 5}],
        "tool_results": "none",
        "metadata": [1],
        "error": {"code": 3},
        "created_at": "yesterday",
        "steps_taken": "many",
    }
    report = Report()
    trace = one(record, report)
    assert len(spans(trace, ModelRequest)) == 1
    source = attempt(trace).source
    assert json.loads(bytes(source["tool_results"])) == "none"
    assert json.loads(bytes(source["task_id"])) == 7
    assert attempt(trace).error.message == '{"code":3}'


# ------------------------------------------------------------------------------------------------------- odd bytes
def test_nan_is_kept_as_it_was_written() -> None:
    report = Report()
    result = call(one("nan_infinity", report), "mean").result
    assert json.loads(bytes(result)) == '{\n        "mean": NaN,\n        "max": Infinity,\n        "min": -Infinity\n      }'
    assert report.counts["repaired", "info"] == 4
    assert report.lost == 0


def test_an_object_in_memory_keeps_its_nan() -> None:
    class Record:
        def to_dict(self) -> dict[str, Any]:
            return json.loads((FIXTURES / "nan_infinity/artifacts.json").read_text())  # type: ignore[no-any-return]

    (trace,) = spanport.read(Record())
    assert json.loads(json.loads(bytes(call(trace, "mean").result)))["max"] == float("inf")
    with pytest.raises(ReadError, match="can't be written as JSON"):
        spanport.read({"task_id": "x", "messages": [object()], "tool_calls": [], "tool_results": []})


def test_lone_surrogates() -> None:
    data = (FIXTURES / "unicode/artifacts.json").read_bytes().replace(b"na\\u00efve", b"na\\ud800ve")
    report = Report()
    echo = call(one(data, report), "echo")
    assert "na\ufffdve" in json.loads(bytes(echo.arguments))["text"]
    assert report.counts["repaired", "info"] >= 3


def test_a_file_that_breaks_off() -> None:
    report = Report()
    trace = one("truncated", report)
    (notice,) = [n for n in report.notices if n.severity == "lost"]
    assert notice.byte == (FIXTURES / "truncated/artifacts.json").stat().st_size
    assert [type(s).__name__ for s in trace.spans] == ["ModelRequest", "ToolCall", "Phase", "Attempt", "Run"]
    assert attempt(trace).unfinished
    assert attempt(trace).ending == "cut off"
    assert call(trace, "q").outcome == "ok"


def test_every_cut_is_one_clear_line_or_a_part() -> None:
    whole = (FIXTURES / "unknown_tool/artifacts.json").read_bytes()
    last, clear = 0, True
    for at in range(0, len(whole), 97):
        report = Report()
        try:
            trace = spanport.read(whole[:at], format="runartifacts", report=report)
        except ReadError as error:
            clear &= "\n" not in str(error)
            continue
        assert report.lost == 1
        requests = len(spans(trace[0], ModelRequest))
        assert requests >= last
        last = requests
    assert last == 4
    assert clear


def test_an_item_is_whole_when_it_is_closed() -> None:
    data = (FIXTURES / "shape_d/artifacts.json").read_bytes()
    at = data.index(b'"role": "tool"')
    at = data.index(b"\n    }", at) + len(b"\n    }")
    assert [c.outcome for c in spans(one(data[:at], Report()), ToolCall)] == ["ok"]
    assert [c.outcome for c in spans(one(data[: at - 1], Report()), ToolCall)] == ["aborted"]  # without its answer


@pytest.mark.parametrize("data", [b"", b"   ", b"null", b"[]", b'"x"', b"{", b"\x00\xff\xfe", b"{}x"])
def test_what_is_no_record(data: bytes) -> None:
    with pytest.raises(ReadError) as caught:
        spanport.read(data, format="runartifacts")
    assert "\n" not in str(caught.value)


def test_nested_very_deep() -> None:
    deep = b'{"task_id":"d","task":"d","provider":null,"messages":[{"role":"user","content":' + b"[" * 200_000 + b"]" * 200_000 + b"}]}"
    report = Report()
    (trace,) = spanport.read(deep, report=report)
    assert spans(trace, Run)
    assert [n.code for n in report.notices if n.severity == "lost"] == ["too-deep"]


def test_strict_makes_a_cut_fatal() -> None:
    with pytest.raises(ReadError, match="breaks off"):
        spanport.read(FIXTURES / "truncated/artifacts.json", report=Report(strict=True))


# --------------------------------------------------------------------------------------------------------------- ids
def test_a_longer_copy_keeps_the_ids() -> None:
    record = json.loads((FIXTURES / "shape_d/artifacts.json").read_text())
    whole = {s.id for s in one(record).spans}
    for count in range(1, len(record["messages"])):
        short = {**record, "messages": record["messages"][:count]}
        done = sum(m["role"] == "tool" for m in short["messages"])
        short |= {"tool_calls": record["tool_calls"][:done], "tool_results": record["tool_results"][:done], "final_observation": None}
        assert {s.id for s in one(short).spans} <= whole


def test_repeated_call_ids_are_different_spans() -> None:
    found = spans(one("duplicate_ids"), ToolCall)
    assert len({c.call_id for c in found}) == 1
    assert len({c.id for c in found}) == 2


def test_two_reads_are_the_same() -> None:
    assert one("adapter_concurrent") == one("adapter_concurrent")


def test_pairing_is_linear() -> None:
    """20,000 calls with the same name and the same parameters, answered in reverse: seconds if it were quadratic."""
    n = 20_000
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "s__t", "arguments": "{}"}} for i in range(n)]
    record = {
        "task_id": "many",
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": {"content": "", "tool_calls": calls}},
            *(
                {"role": "tool", "content": {"tool_call_id": f"c{i}", "tool_server": "s", "tool_name": "t", "is_error": False}}
                for i in reversed(range(n))
            ),
        ],
        "tool_calls": [{"tool_server": "s", "tool_name": "t", "parameters": {}}] * n,
        "tool_results": [{"observation": i, "is_error": False} for i in range(n)],
        "created_at": "2026-05-02T09:00:00+00:00",
    }
    found = {c.call_id: bytes(c.result) for c in spans(one(record), ToolCall)}
    assert len(found) == n
    assert found[f"c{n - 1}"] == b"0"


def test_a_key_that_an_agent_told_does_not_leave() -> None:
    """One cookbook agent writes its key into a message and into `metadata.startup_diagnostic`."""
    held = io.BytesIO()
    registry.get("otlp-json").write(redact(spanport.stream(FIXTURES / "startup_diagnostic/artifacts.json")), held, Report())
    assert b"placeholder-" in (FIXTURES / "startup_diagnostic/artifacts.json").read_bytes()
    assert b"placeholder-" not in held.getvalue()


# ------------------------------------------------------------------------------------------------------------ golden
def test_otlp_json_of_a_small_record() -> None:
    """The whole output, as it was checked by eye. Only the version of the package may differ."""
    held = io.BytesIO()
    registry.get("otlp-json").write(
        spanport.stream(FIXTURES / "hidden_tool_error/artifacts.json"), held, Report(), WriteOptions(carry=False)
    )
    golden = FIXTURES / "hidden_tool_error/golden.otlp.jsonl"
    got, want = json.loads(held.getvalue()), json.loads(golden.read_bytes())
    for document in (got, want):
        for group in document["resourceSpans"]:
            for scope in group["scopeSpans"]:
                del scope["scope"]["version"]
    assert got == want


def test_the_short_way_to_a_usual_call_and_message_gives_what_the_long_way_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    other = json.loads((FIXTURES / "shape_d/artifacts.json").read_bytes())
    for recorded in other["tool_calls"]:
        recorded["parameters"] = {"other": 1}
    records = [*timed(), other]
    short = [msgspec.json.encode(one(p)) for p in records]
    usual = Counter[bool]()

    quick = builder._Builder.usual

    def never(self: Any, call: Any) -> None:
        usual[quick(self, call) is not None] += 1
        self._told.pop(call.answer, None)

    monkeypatch.setattr(builder._Builder, "usual", never)
    assert [msgspec.json.encode(one(p)) for p in records] == short
    assert min(usual.values()) > 10  # both ways were taken
    head = builder.head
    monkeypatch.setattr(builder, "head", lambda raw, told=False: _without_content(head(raw, told)))
    assert [msgspec.json.encode(one(p)) for p in records] == short


def _without_content(head: Head) -> Head:
    head.content = None
    return head
