"""Conversions: carries, their checks, ids, loss reports, folders, stages, the command. Small records, made here."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import spanport
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spanport.cli import group
from spanport.converters import carry, patch, registry
from spanport.converters.convert import convert, losses
from spanport.converters.errors import Report
from spanport.converters.model import ModelRequest, TraceHeader
from spanport.converters.source import source_of
from spanport.converters.stages.redact import redact

RECORD: dict[str, Any] = {
    "version": "0.1",
    "task_id": "t",
    "task": "Do it",
    "model": "m",
    "provider": "openai",
    "messages": [
        {"role": "user", "content": "Do it"},
        {
            "role": "assistant",
            "content": {
                "content": "",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}],
            },
        },
        {"role": "tool", "content": {"tool_call_id": "c1", "tool_server": "s", "tool_name": "look", "summary": "found"}, "mood": "odd"},
        {"role": "assistant", "content": "Done."},
    ],
    "tool_calls": [{"tool_server": "s", "tool_name": "look", "parameters": {"q": 1}}],
    "tool_results": [{"observation": "found", "is_error": False}],
    "metadata": {"thread_id": "th", "custom": {"x": [1, 2.0, None]}},
    "final_observation": "Done.",
    "error": None,
    "steps_taken": 1,
    "max_steps": 30,
    "created_at": "2026-11-30T20:00:00+00:00",
    "something_new": {"deep": [1, 1.0, True]},
}
OTHERS = [f.name for f in registry.formats().values() if f.writer and f.reader and f.name not in ("runartifacts", "agentcompass-progress")]


def to(source: Any, format: str, **more: Any) -> tuple[bytes, Report]:
    held = io.BytesIO()
    report = convert(source, held, to=format, **more)
    return held.getvalue(), report


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("format", OTHERS)
def test_there_and_back_is_the_record(format: str) -> None:
    there, _ = to(text(RECORD), format)
    back, report = to(there, "runartifacts", from_=format)
    assert json.loads(back) == RECORD
    assert patch.same(json.loads(back), RECORD)
    assert not report.lost


@pytest.mark.parametrize("format", OTHERS)
def test_ids_are_those_of_the_origin(format: str) -> None:
    (before,) = spanport.read(text(RECORD))
    there, _ = to(text(RECORD), format)
    (after,) = spanport.read(there, format=format)
    assert (after.header.id, after.header.family, after.header.run_key) == (before.header.id, before.header.family, before.header.run_key)
    known = {s.id for s in before.spans}
    for kind in (spanport.ToolCall, spanport.ModelRequest, spanport.Run):
        assert {s.id for s in after.spans if isinstance(s, kind)} & known


@pytest.mark.parametrize("format", OTHERS)
def test_an_edited_record_is_noticed_and_never_patched(format: str) -> None:
    there, _ = to(text(RECORD), format)
    edited = there.replace(b"Done.", b"Other")
    assert edited != there
    if format == "otlp-proto":  # lengths are the same
        assert len(edited) == len(there)
    back, report = to(edited, "runartifacts", from_=format)
    assert report.counts["carry-mismatch", "lost"] == 1
    assert "something_new" not in json.loads(back) or format in ("otlp-json", "otlp-proto", "spanport")  # these hold the model's source too
    assert b"Other" in back


@pytest.mark.parametrize("change", [{"version": 99, "base": "0" * 64}, {"patch": [0, {}], "base": "0" * 64}, {"record": "AAAA"}])
def test_a_carry_of_another_mapping_or_a_damaged_one_is_not_used(change: dict[str, Any]) -> None:
    there, _ = to(text(RECORD), "atif")
    value = json.loads(there)
    value["extra"]["spanport"]["carry"][0].update(change)
    back, report = to(text(value), "runartifacts")
    assert report.counts["carry-mismatch", "lost"] == 1
    assert ("made by mapping 99" in str(report.notices[-1])) == ("version" in change)
    assert "something_new" not in json.loads(back)


@pytest.mark.parametrize("odd", [b"NaN", b"-Infinity", b'"\\ud83d lone"', b"123456789012345678901234567890", b"1e400"])
@pytest.mark.parametrize("format", OTHERS)
def test_what_strict_json_cannot_hold_comes_back(odd: bytes, format: str) -> None:
    record = text(RECORD).replace(b"[1, 2.0, null]", b"[" + odd + b", 2.0, null]")
    there, _ = to(record, format)
    if format not in ("otlp-proto",):
        json.loads(there.splitlines()[0], parse_constant=lambda name: pytest.fail(f"{name} is no JSON")) if format.startswith(
            "otlp"
        ) else None
    back, _ = to(there, "runartifacts", from_=format)
    assert patch.same(carry.load(back).value(), carry.load(record).value())


def test_over_a_third_format() -> None:
    """runartifacts → atif → otlp-json → runartifacts: the ATIF record is made whole first."""
    over, _ = to(text(RECORD), "atif")
    again, _ = to(over, "otlp-json")
    back, report = to(again, "runartifacts")
    assert patch.same(json.loads(back), RECORD), report.notices
    third, _ = to(again, "atif")
    assert patch.same(json.loads(third), json.loads(over))


def test_no_carry_is_clean_and_says_what_is_lost() -> None:
    clean, report = to(text(RECORD), "otlp-json", carry=False, account=True)
    assert b"something_new" not in clean
    assert b"spanport.carry" not in clean
    dropped = {x.field: x.count for x in report.losses.values() if x.fate == "dropped"}
    assert dropped["something_new.deep[]"] == 3
    assert dropped["messages[].mood"] == 1
    mapped = {x.field for x in report.losses.values() if x.fate == "mapped"}
    assert {"task_id", "messages[].role", "tool_calls[].parameters.q", "final_observation"} <= mapped
    assert any(x.fate == "derived" for x in report.losses.values())


def test_the_carry_is_what_makes_the_difference() -> None:
    report = losses(text(RECORD), "atif")
    fates = {x.field: x.fate for x in report.losses.values() if x.field.startswith("something_new")}
    assert set(fates.values()) == {"carried"}
    assert not [x for x in report.losses.values() if x.fate == "dropped"]
    assert [x for x in losses(text(RECORD), "atif", carry=False).losses.values() if x.fate == "dropped"]


def test_a_table_says_what_it_leaves_out() -> None:
    data, report = to(text(RECORD), "table", account=True)
    rows = data.decode().splitlines()
    (trace,) = spanport.read(text(RECORD))
    assert len(rows) == len(trace.spans) + 1
    assert any(x.field == "model_request.output_messages" and x.fate == "dropped" for x in report.losses.values())


def test_redaction_comes_before_the_carry() -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 6
    record = {**RECORD, "final_observation": secret, "something_new": {"key": secret}, "metadata": {"api_key": secret}}
    for format in OTHERS:
        there, _ = to(text(record), format, stages=[redact])
        assert secret.encode() not in there
        back, _ = to(there, "runartifacts", from_=format)
        assert secret.encode() not in back


def test_requests_of_a_stream_convert_without_being_held(tmp_path: Path) -> None:
    """--no-carry: the reader's items go straight to the writer."""
    lines = io.BytesIO()
    spanport.write(spanport.read(text(RECORD)), lines, format="spanport")
    taken: list[int] = []

    class Out(io.BytesIO):
        def write(self, data: Any) -> int:
            taken.append(len(data))
            return super().write(data)

    out = Out()
    convert(lines.getvalue(), out, to="spanport", carry=False)
    assert len(taken) == lines.getvalue().count(b"\n")


def test_a_pipe_converts_as_a_file_does() -> None:
    there, _ = to(io.BytesIO(text(RECORD)), "atif")
    back, _ = to(io.BytesIO(there), "runartifacts")
    assert patch.same(json.loads(back), RECORD)


def test_an_object_in_memory_converts() -> None:
    there, _ = to(dict(RECORD), "atif")
    back, _ = to(json.loads(there), "runartifacts")
    assert patch.same(json.loads(back), RECORD)


# ------------------------------------------------------------------------------------------------------- generated
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.floats(), st.text(max_size=12)),
    lambda v: st.one_of(st.lists(v, max_size=3), st.dictionaries(st.text(max_size=6), v, max_size=3)),
    max_leaves=8,
)
messages = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "tool", "system", "other"]),
            "content": st.one_of(st.text(max_size=30), json_values),
        },
        optional={"timestamp": st.one_of(st.just("2026-11-30T20:00:00.123456+00:00"), json_values), "extra": json_values},
    ),
    max_size=4,
)
calls = st.lists(st.tuples(st.text(max_size=8), json_values, json_values, st.booleans()), max_size=3)


@st.composite
def generated(draw: Any) -> dict[str, Any]:
    found = draw(calls)
    record = {
        **RECORD,
        "messages": draw(messages),
        "tool_calls": [{"tool_server": "s", "tool_name": n, "parameters": a} for n, a, _, _ in found],
        "tool_results": [{"observation": r, "is_error": e} for _, _, r, e in found],
        "metadata": draw(st.dictionaries(st.text(max_size=6), json_values, max_size=3)),
        "something_new": draw(json_values),
    }
    for name in draw(
        st.lists(st.sampled_from(["error", "max_steps", "final_observation", "created_at", "something_new"]), max_size=2, unique=True)
    ):
        record[name] = draw(json_values)
    return record


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(record=generated(), format=st.sampled_from(["runartifacts", "otlp-json", "otlp-proto", "atif"]))
def test_generated_records_come_back(record: dict[str, Any], format: str) -> None:
    data = json.dumps(record).encode()
    there, _ = to(data, format, from_="runartifacts")
    back, report = to(there, "runartifacts", from_=format)
    assert not report.counts["carry-mismatch", "lost"]
    assert patch.same(carry.load(back).value(), carry.load(data).value())


# ---------------------------------------------------------------------------------------------------- the command
def run(*args: str) -> Any:
    return CliRunner().invoke(group, ["convert", *args])


def test_command_files_folders_and_reports(tmp_path: Path) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_bytes(text(RECORD))
    b.write_bytes(text({**RECORD, "task_id": "u"}))
    result = run(str(a), "--to", "otlp-json", "-o", str(tmp_path / "a.otlp.jsonl"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "a.otlp.jsonl").exists()
    result = run(str(a), str(b), "--to", "otlp-json")
    assert result.exit_code == 2
    assert "-o FOLDER" in result.output
    result = run(str(a), str(b), "--to", "otlp-json", "-o", str(tmp_path / "out"), "--report-json", str(tmp_path / "r.json"))
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a.otlp.jsonl", "b.otlp.jsonl"]
    rows = [json.loads(x) for x in (tmp_path / "r.json").read_text().splitlines()]
    assert [r["to"] for r in rows] == ["otlp-json", "otlp-json"]
    assert rows[0]["totals"]["dropped"] == 0
    result = run(str(tmp_path / "out" / "b.otlp.jsonl"), "--to", "runartifacts", "-o", str(tmp_path / "b2.json"))
    assert json.loads((tmp_path / "b2.json").read_text()) == {**RECORD, "task_id": "u"}


def test_command_fail_on_loss_and_wrong_use(tmp_path: Path) -> None:
    a = tmp_path / "a.json"
    a.write_bytes(text(RECORD))
    assert run(str(a), "--to", "table", "-o", str(tmp_path / "a.csv"), "--fail-on-loss").exit_code == 4
    assert run(str(a), "--to", "otlp-json", "-o", str(tmp_path / "a.jsonl"), "--fail-on-loss").exit_code == 0
    assert run(str(a), "--to", "agentcompass", "-o", str(tmp_path / "x")).exit_code == 2
    assert run(str(a), "--to", "nothing").exit_code == 2
    edited = (tmp_path / "a.jsonl").read_bytes().replace(b"Done.", b"Other")
    (tmp_path / "a.jsonl").write_bytes(edited)
    result = run(str(tmp_path / "a.jsonl"), "--to", "runartifacts", "-o", str(tmp_path / "back.json"))
    assert result.exit_code == 3
    assert "not put back" in result.output


def test_command_to_standard_output_is_data_only(tmp_path: Path) -> None:
    a = tmp_path / "a.json"
    a.write_bytes(text(RECORD))
    for more in ([], ["-o", "-"], ["--no-carry"]):
        result = CliRunner().invoke(group, ["convert", str(a), "--to", "spanport", *more])
        assert result.exit_code == 0
        first = json.loads(result.stdout.splitlines()[0])
        assert first["kind"] == "trace"


def test_reading_gives_the_carry_to_the_header() -> None:
    there, _ = to(text(RECORD), "atif")
    header = next(iter(registry.get("atif").read(source_of(there), Report())))
    assert isinstance(header, TraceHeader)
    assert [c.format for c in header.carry] == ["runartifacts"]


def test_foreign_otlp_to_runartifacts_says_each_message_once() -> None:
    """Requests of other instrumentations repeat the whole conversation each time."""
    chat = [{"role": "user", "parts": [{"type": "text", "content": "q"}]}]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "a"}], "finish_reason": "stop"}]
    more = [*chat, *answer, {"role": "user", "parts": [{"type": "text", "content": "q2"}]}]

    def span(n: int, attributes: dict[str, Any], parent: int | None = None) -> dict[str, Any]:
        return {
            "traceId": "ab" * 16,
            "spanId": f"{n:016x}",
            **({"parentSpanId": f"{parent:016x}"} if parent else {}),
            "name": "x",
            "startTimeUnixNano": str(10**18 + n),
            "endTimeUnixNano": str(10**18 + n + 1),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
        }

    def request(n: int, into: Any) -> dict[str, Any]:
        return span(
            n,
            {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(into), "gen_ai.output.messages": json.dumps(answer)},
            1,
        )

    spans = [request(2, chat), request(3, more), span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "A"})]
    document = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    data, _ = to(text(document), "runartifacts", carry=False)
    assert [m["content"] for m in json.loads(data)["messages"]] == ["q", "a", "q2", "a"]
    back, report = to(to(text(document), "runartifacts")[0], "otlp-json")
    assert patch.same(json.loads(back), document), report.notices
    # Nanoseconds that a float can't hold stay whole on the way, also in the line that the carry is put into and taken from.
    for format in ("agno-events", "agno", "atif"):
        back, report = to(to(text(document), format)[0], "otlp-json", from_=format)
        assert patch.same(json.loads(back), document), report.notices
    (trace,) = spanport.read(text(document))
    assert sum(isinstance(s, ModelRequest) for s in trace.spans) == 2


def test_protobuf_of_others_comes_back_over_other_formats() -> None:
    """What is carried whole is protobuf again."""
    document = {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
                "scopeSpans": [
                    {
                        "scope": {"name": "other", "version": "2"},
                        "spans": [
                            {
                                "traceId": "ab" * 16,
                                "spanId": "cd" * 8,
                                "name": "GET /",
                                "kind": 2,
                                "startTimeUnixNano": "5",
                                "endTimeUnixNano": "9",
                            }
                        ],
                    }
                ],
            }
        ]
    }
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    theirs = TracesData()
    scope = theirs.resource_spans.add().scope_spans.add()
    scope.scope.name = "other"
    span = scope.spans.add()
    span.trace_id, span.span_id, span.name, span.kind, span.trace_state = b"\xab" * 16, b"\xcd" * 8, "GET /", 2, "a=1"
    span.start_time_unix_nano, span.end_time_unix_nano = 5, 9
    for format in ("otlp-json", "atif", "spanport"):
        back, report = to(to(theirs.SerializeToString(), format)[0], "otlp-proto", from_=format)
        assert not report.lost
        assert TracesData.FromString(back) == theirs
    for format in ("otlp-proto", "atif"):
        assert patch.same(json.loads(to(to(text(document), format)[0], "otlp-json", from_=format)[0]), document)
