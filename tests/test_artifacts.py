"""The artifacts of a conversation: list and get word for word, in every way they can be found."""

import json
import os
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from spanport import get_artifact, list_artifacts, read
from spanport.cli import group
from spanport.converters.artifacts import Entry, Index, PayloadMissing, iso, line
from spanport.converters.conventions import flatten
from spanport.converters.errors import UsageError
from spanport.converters.model import (
    Artifact,
    Attempt,
    Message,
    ModelRequest,
    Run,
    TextPart,
    ToolCall,
    Trace,
    TraceHeader,
    raw,
)
from spanport.converters.otlp import jsontext
from spanport.converters.otlp.encode import resource_attributes
from spanport.converters.stages.artifacts import KNOWN, find
from spanport.converters.stages.limits import limit
from spanport.converters.stages.payloads import spill
from spanport.converters.stages.reading import listing

FIXTURES = Path(__file__).parents[1] / "fixtures" / "artifacts"
CASES = json.loads((FIXTURES / "spec" / "cases.json").read_text(encoding="utf-8"))
CORPUS = Path(os.environ["SPANPORT_CORPUS"]) / "artifacttools" if "SPANPORT_CORPUS" in os.environ else FIXTURES
THREADS = sorted(p.parent for p in (CORPUS / "threads").glob("*/_expected.json"))


def run(*args: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(group, [str(a) for a in args])
    return result.exit_code, result.stdout.removesuffix("\n"), result.stderr


def tool(name: str = "make", **more: object) -> ToolCall:
    return ToolCall(**{"id": "1" * 16, "trace_id": "2" * 32, "name": name, "key": "k", "conversation_id": "t", **more})  # type: ignore[arg-type]


def found(span: ToolCall) -> ToolCall:
    (one,) = find([span])
    assert isinstance(one, ToolCall)
    return one


# ------------------------------------------------------------------------------------------------ the two operations
@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_operations_of_the_document(case: dict) -> None:
    index = Index(read(FIXTURES / "spec" / "rows.json"))
    arguments = case["arguments"]
    if case["operation"] == "list_artifacts":
        got = list_artifacts(index, case["thread_id"], **arguments)
    else:
        got = get_artifact(index, arguments["artifact_id"], case["thread_id"])
    assert got == case["expected"]


@pytest.mark.parametrize("source", ["thread.json", "events.sse"])
@pytest.mark.parametrize("folder", THREADS, ids=lambda p: p.name)
def test_threads(folder: Path, source: str) -> None:
    want = json.loads((folder / "_expected.json").read_text(encoding="utf-8"))
    traces = read(folder / source)
    index = Index(traces)
    assert list_artifacts(index, want["thread_id"]) == want["final_listing"]
    for id, text in want["get"].items():
        assert get_artifact(index, id, want["thread_id"]) == text
    spans = [s for t in traces for s in t.spans]
    calls = [s for s in spans if isinstance(s, ToolCall)]
    assert len(calls) == want["tool_calls"]
    assert all(
        c.reasoning and c.reasoning in bytes(c.arguments).decode("unicode_escape", "replace")
        for c in calls
        if b"\\u" not in bytes(c.arguments)
    )
    assert sum(a.found_in == "channel" for s in spans for a in s.artifacts) == want["artifact_events"]
    reading = [c for c in calls if "spanport.artifact.operation" in c.attributes]
    assert len(reading) == want["read_calls"]
    assert (
        sum(c.attributes.get("spanport.artifact.found") is False and c.attributes["spanport.artifact.operation"] == "get" for c in reading)
        == want["not_found_results"]
    )
    assert {c.status for c in reading} <= {"ok"}
    assert not any(c.artifacts for c in reading)


def test_a_comparison_points_at_the_chart_of_the_turn_before() -> None:
    (trace,) = read(FIXTURES / "threads" / "two_turns_compare" / "thread.json")
    calls = {s.call_id: s for s in trace.spans if isinstance(s, ToolCall)}
    maker = calls["call_th1_001"]
    assert [a.id for a in maker.artifacts] == ["501"]
    for reader in (calls["call_th1_002"], calls["call_th1_003"]):
        assert [(x.span_id, x.type) for x in reader.links] == [(maker.id, "read_from")]
    assert calls["call_th1_003"].attributes["spanport.artifact.id"] == "501"


def test_command_line() -> None:
    thread = FIXTURES / "threads" / "two_turns_compare" / "thread.json"
    assert run("artifacts", "list", thread)[:2] == (0, "#502 [turn 2] chart — Revenue vs last year\n#501 [turn 1] chart — Revenue")
    assert run("artifacts", "list", thread, "--limit", 1)[1] == "#502 [turn 2] chart — Revenue vs last year"
    assert run("artifacts", "get", thread, 9)[:2] == (0, "artifact #9 not found in this conversation")
    assert run("artifacts", "list", thread, "--thread", "no-such")[:2] == (0, "(no artifacts produced yet in this conversation)")


def test_several_threads_are_named_and_never_merged() -> None:
    rows = FIXTURES / "spec" / "rows.json"
    code, out, err = run("artifacts", "list", rows)
    assert (code, out) == (2, "")
    assert all(name in err for name in ("t-A (5 artifacts)", "t-B (1 artifact)", "t-C"))
    with pytest.raises(UsageError, match="choose one"):
        list_artifacts(read(rows))
    stream = FIXTURES / "two_threads.sse"
    assert run("artifacts", "list", stream, "--thread", "A")[1] == "#1 [turn 1] chart — A"
    assert run("artifacts", "get", stream, 2, "--thread", "A")[:2] == (0, "artifact #2 not found in this conversation")
    assert json.loads(run("artifacts", "get", stream, 2, "--thread", "B")[1])["payload"] == {"of": "B"}


def test_known_without_payload_is_said() -> None:
    folder = FIXTURES / "threads" / "no_artifact_channel"
    code, out, err = run("artifacts", "get", folder / "thread.json", 502)
    assert (code, out, err) == (1, "", "artifact #502 is known, but its payload is not in this record\n")


def test_envelopes_and_names_of_the_reading_tools() -> None:
    (trace,) = read(FIXTURES / "enveloped.json")
    calls = {s.call_id: s for s in trace.spans if isinstance(s, ToolCall)}
    assert [calls[i].attributes.get("spanport.artifact.found") for i in ("c2", "c3", "c4", "c5")] == [True, True, False, False]
    assert calls["c2"].attributes["spanport.artifact.lines"] == 1
    assert calls["c1"].reasoning == "First the chart."
    assert b"action_and_reasoning" in bytes(calls["c1"].arguments)
    assert [len(calls[i].links) for i in ("c2", "c3", "c4", "c5")] == [1, 1, 0, 0]
    assert list_artifacts([trace]) == "#7 [turn 1] chart — Kept"
    assert json.loads(get_artifact([trace], 7))["payload"] == {"a": 1.0}


@pytest.mark.parametrize("envelope", ["result", "output", "data", "content", "text", "message"])
@pytest.mark.parametrize("as_text", [False, True])
def test_any_one_level_envelope(envelope: str, as_text: bool) -> None:
    def wrap(content: object) -> dict:
        whole = {"ok": True, envelope: content, "took_ms": 3}
        return {"result": raw(json.dumps(whole) if as_text else whole)}

    body = {"id": 7, "type": "chart", "title": None, "turn": 1, "created_at": "2026-03-02T09:00:09+00:00", "payload": {"a": 1}}
    made = tool(id="5" * 16, **wrap("created artifact #7 (chart)"))
    listed = tool("list_artifacts", **wrap("#7 [turn 1] chart"))
    for got in (body, json.dumps(body)):
        spans = list(find([made, listed, tool("x__get_artifact", arguments=raw({"artifact_id": 7}), **wrap(got))]))
        assert [a.id for a in spans[0].artifacts] == ["7"]  # type: ignore[union-attr]
        assert [s.links[0].span_id for s in spans[1:]] == ["5" * 16] * 2  # type: ignore[union-attr]
        trace = Trace(header=TraceHeader(id="2" * 32, family="x", format="x", run_key=["1"]), spans=spans)  # type: ignore[arg-type]
        assert get_artifact([trace], 7) == json.dumps(body)


# ----------------------------------------------------------------------------------------------- where they are found
def test_resources_commands_and_tags() -> None:
    (trace,) = read(FIXTURES / "others.json")
    made = {s.call_id: s.artifacts for s in trace.spans if isinstance(s, ToolCall)}
    link, png = made["m1"]
    assert (link.id, link.title, link.mime_type, bytes(link.payload)) == ("chart://7", "Chart 7", "application/json", b'{"data":[1,2,3]}')
    assert json.loads(bytes(png.payload)) == {"blob": "iVBORw0KGgo="}
    index = Index([trace])
    # Ids that are no numbers get one, in creation order; the id itself is accepted too.
    assert list_artifacts(index) == (
        "#4 [turn 3] text/html — Login\n#3 [turn 2] application/vnd.ant.code — Schema\n#2 [turn 1] resource\n#1 [turn 1] resource — Chart 7"
    )
    assert json.loads(get_artifact(index, "schema"))["payload"] == "create table t(i bigint)"
    assert json.loads(get_artifact(index, 4)) == json.loads(get_artifact(index, "login"))
    assert json.loads(get_artifact(index, 4))["payload"] == "<b>2</b>"
    assert index.thread(None).entries["login"].versions == 2


@pytest.mark.parametrize(
    ("result", "want"),
    [
        ("created artifact #502 (chart)", [("502", "chart", None)]),
        ("Saved the artifact #a-1.", [("a-1", None, None)]),
        ("Done.\ncreated artifact #1 (chart)\ncreated artifact #2 (table)", [("1", "chart", None), ("2", "table", None)]),
        ("created artifact #3 (chart): Sales", [("3", "chart", "Sales")]),
        ("the page says: created artifact #5 (chart) yesterday", []),
        ("artifact #5 not found in this conversation", []),
        ({"content": [{"type": "text", "text": "created artifact #4 (map)"}], "isError": False}, [("4", "map", None)]),
        (
            {"observation": {"text": "created artifact #4 (map)", "content": [{"type": "text", "text": "created artifact #4 (map)"}]}},
            [("4", "map", None)],
        ),
        ({"artifact": {"id": 8, "type": "chart", "payload": [1]}}, [("8", "chart", None)]),
        ({"artifacts": [{"artifactId": "x", "name": "n", "parts": [{"text": "t"}]}]}, [("x", None, "n")]),
        ({"type": "resource", "name": "a cloud resource"}, []),
        (["resource", 1, None, {"type": "resource", "resource": 5}], []),
    ],
)
def test_what_results_show(result: object, want: list[tuple[str, str | None, str | None]]) -> None:
    span = found(tool(result=raw(result)))
    assert [(a.id, a.type, a.title) for a in span.artifacts] == want
    assert all(a.thread == "t" and a.found_in == "tool_result" for a in span.artifacts)


@pytest.mark.parametrize("size", [0, 3_000_000])
def test_marks_in_small_and_large_results(size: int) -> None:
    block = {"type": "resource", "resource": {"uri": "x://1", "text": "y" * size}}
    for result in ({"content": [block]}, json.dumps({"content": [block]})):
        assert [a.id for a in found(tool(result=raw(result))).artifacts] == ["x://1"]
    assert found(tool(result=raw("y" * size))).artifacts == []


def test_the_stage_keeps_all_else_and_a_second_pass_changes_nothing() -> None:
    for file in ("others.json", "enveloped.json", "threads/two_turns_compare/thread.json", "two_threads.sse"):
        for trace in read(FIXTURES / file):
            once = [trace.header, *trace.spans]
            assert list(find(once)) == once
    plain = tool(arguments=raw({"a": 1}), result=raw("nothing of the kind"))
    assert found(plain) is plain


def test_attempts_of_one_trace_do_not_link_to_each_other() -> None:
    def attempt(parent: str, ids: str) -> list[ToolCall]:
        made = tool(conversation_id=None, parent_id=parent, id=ids * 16, result=raw("created artifact #1 (chart)"))
        got = tool(
            "get_artifact",
            conversation_id=None,
            parent_id=parent,
            id=ids.upper() * 16,
            arguments=raw({"artifact_id": 1}),
            result=raw({"id": 1, "payload": 1}),
        )
        return [made, got]

    one, two = attempt("a" * 16, "b"), attempt("c" * 16, "d")
    spans = list(find([one[0], two[0], one[1], two[1]]))
    assert [s.links[0].span_id for s in spans[2:]] == ["b" * 16, "d" * 16]  # type: ignore[union-attr]


def test_threads_without_a_conversation_are_attempts() -> None:
    header = TraceHeader(id="2" * 32, family="x", format="x", run_key=["1"])
    base = {"trace_id": "2" * 32}
    spans = [
        tool(
            conversation_id=None,
            id=f"{n}" * 16,
            parent_id=f"{n}0" * 8,
            artifacts=[Artifact(id="1", type="chart", payload=raw(n))],
            start=5,
            end=6,
        )
        for n in (1, 2)
    ]
    attempts = [Attempt(id=f"{n}0" * 8, name="", key=str(n), number=n, parent_id="f" * 16, **base) for n in (1, 2)]
    index = Index([Trace(header=header, spans=[*spans, *attempts, Run(id="f" * 16, name="set", key="run", **base)])])
    with pytest.raises(UsageError, match=r"attempt 1 of set, 1 artifact\)"):
        list_artifacts(index)
    assert json.loads(get_artifact(index, 1, "20" * 8))["payload"] == 2


def test_the_turn_is_one_more_than_the_user_messages_before() -> None:
    def ask(*users: str, trace: str = "2" * 32) -> ModelRequest:
        said = [Message(role="user", parts=[TextPart(u)]) for u in users]
        return ModelRequest(id="3" * 16, trace_id=trace, name="m", key="k", conversation_id="t", input_messages=said)

    made = tool(result=raw("created artifact #1 (chart)"))
    turns = [s.artifacts[0].turn for s in find([ask("a"), made, ask("b", trace="4" * 32), made]) if isinstance(s, ToolCall)]
    assert turns == [1, 2]
    assert found(made).artifacts[0].turn is None  # nothing is known of the turn
    assert [s.artifacts[0].turn for s in find([ask("a"), ask("a", "b", trace="4" * 32), made]) if isinstance(s, ToolCall)] == [2]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9), st.integers(0, 999), st.sampled_from(["chart", "a b", "image/png"]), st.none() | st.text(max_size=20)
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda x: x[0],
    )
)
def test_a_printed_listing_reads_back(rows: list[tuple[int, int, str, str | None]]) -> None:
    """Whatever the titles hold, each artifact is one line, and the line says what it is."""
    entries = [Entry(number=n, artifact=Artifact(id=str(n), turn=turn, type=type, title=title)) for n, turn, type, title in rows]
    printed = [line(e) for e in entries]
    assert all(len(p.splitlines()) == 1 for p in printed)
    told = listing(raw({"result": "\n".join(printed)}))
    assert told is not None
    assert [(int(x.id), x.turn, x.type) for x in told] == [(n, turn, type) for n, turn, type, _ in rows]
    for x, (_, _, _, title) in zip(told, rows, strict=True):
        assert (x.title or "").split() == (title or "").split()


def test_memory_is_bounded() -> None:
    from spanport.converters.stages.artifacts import _State

    state = _State()
    for n in range(KNOWN + 10):
        state.made("t", str(n), tool())
    assert len(state.makers) == KNOWN
    assert ("t", "0") not in state.makers


def test_hostile_values_do_no_harm() -> None:
    deep = b"[" * 200_000
    for arguments, result in [
        (raw({"action_and_reasoning": 5}), raw({"resource": deep.decode()})),
        (raw(["action_and_reasoning"]), raw({"content": {"type": "resource", "resource": {"uri": 1}}})),
        (raw({"command": "create", "id": 4}), raw(deep.decode() + "artifact #1")),
    ]:
        assert found(tool("artifacts", arguments=arguments, result=result)).artifacts == []
    odd = [
        {"id": True, "payload": 1},
        {"id": {"a": 1}, "payload": 1},
        "#1 [turn 1]",
        5,
        None,
        {"result": {"result": {"result": {"result": {"result": 1}}}}},
    ]
    for result in odd:
        span = found(tool("get_artifact", arguments=raw({"artifact_id": {"a": 1}}), result=raw(result)))
        assert "spanport.artifact.found" not in span.attributes


# ---------------------------------------------------------------------------------------------------- elsewhere
def test_large_payloads_lie_in_a_folder(tmp_path: Path) -> None:
    (trace,) = read(FIXTURES / "threads" / "two_turns_compare" / "thread.json")
    whole = get_artifact([trace], 502)
    small = Trace(header=trace.header, spans=list(spill(trace.spans, tmp_path / "store", over=30)))  # type: ignore[arg-type]
    kept = {a.id: a for s in small.spans for a in s.artifacts}["502"]
    assert not kept.payload
    assert kept.ref == f"sha256:{kept.sha256}"
    assert kept.size == (tmp_path / "store" / f"{kept.sha256}.json").stat().st_size
    with pytest.raises(PayloadMissing, match="--store"):
        get_artifact([small], 502)
    assert get_artifact([small], 502, store=tmp_path / "store") == whole


def test_export_with_payloads_beside(tmp_path: Path) -> None:
    rows = [{"id": n, "thread_id": "t", "turn": 1, "type": "table", "payload": {"text": "x" * size}} for n, size in ((1, 10), (2, 100_000))]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    out, store = tmp_path / "out.jsonl", tmp_path / "store"
    assert run("export", tmp_path / "rows.json", "-o", out, "--artifact-store", store)[0] == 0
    assert out.stat().st_size < 50_000
    assert [p.stat().st_size for p in store.iterdir()] == [100_000 + len('{"text":""}')]
    assert json.loads(run("artifacts", "get", out, 1)[1])["payload"] == rows[0]["payload"]
    assert run("artifacts", "get", out, 2)[0] == 1
    assert run("artifacts", "get", out, 2, "--store", store)[1] == run("artifacts", "get", tmp_path / "rows.json", 2)[1]


def test_a_reference_is_never_followed_as_a_path(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("1")
    (tmp_path / "s").mkdir()
    span = tool(artifacts=[Artifact(id="1", sha256="../secret", ref="../secret.json")])
    trace = Trace(header=TraceHeader(id="2" * 32, family="x", format="x", run_key=["1"]), spans=[span])
    with pytest.raises(PayloadMissing):
        get_artifact([trace], 1, store=tmp_path / "s")


def test_a_cut_payload_is_no_payload() -> None:
    span = tool(artifacts=[Artifact(id="1", payload=msgspec.Raw(b'{"a": [1, 2'))])
    trace = Trace(header=TraceHeader(id="2" * 32, family="x", format="x", run_key=["1"]), spans=[span])
    with pytest.raises(PayloadMissing):
        get_artifact([trace], 1)


def test_a_payload_that_a_limit_shortened_is_no_payload() -> None:
    """Limits leave JSON that can be read; what it says is not what the artifact holds."""
    payload = {"text": "x" * 5000}
    made = tool(id="5" * 16, artifacts=[Artifact(id="1", type="report", thread="t", payload=raw(payload))])
    got = found(
        tool(
            "get_artifact", arguments=raw({"artifact_id": 2}), result=raw(json.dumps({"id": 2, "type": "x", "turn": 1, "payload": payload}))
        )
    )
    spans = [made, got]
    header = TraceHeader(id="2" * 32, family="x", format="x", run_key=["1"])
    assert json.loads(get_artifact([Trace(header=header, spans=spans)], 1))["payload"] == payload  # type: ignore[arg-type]
    flat = [limit(flatten(s), 1000) for s in spans]
    cut = read(jsontext.line(resource_attributes(header), "spanport", "1", [jsontext.span(s) for s in flat]))
    for id in (1, 2):
        with pytest.raises(PayloadMissing):
            get_artifact(cut, id)
    assert get_artifact(cut, 3) == "artifact #3 not found in this conversation"


def test_artifacts_in_otlp(tmp_path: Path) -> None:
    """An event on the span that made it, its payload whole; and the way back lists and gets the same."""
    source = FIXTURES / "threads" / "unicode_titles" / "thread.json"
    out = tmp_path / "run.otlp.jsonl"
    assert run("convert", source, "--to", "otlp-json", "-o", out)[0] == 0
    spans = [
        s for line in out.read_text(encoding="utf-8").splitlines() for s in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]
    rows = json.loads(source.read_text(encoding="utf-8"))["artifacts"]
    events = []
    for span in spans:
        call = next((a["value"]["stringValue"] for a in span["attributes"] if a["key"] == "gen_ai.tool.call.id"), None)
        for event in span.get("events", []):
            if event["name"] == "spanport.artifact":
                held = {a["key"]: next(iter(a["value"].values())) for a in event["attributes"]}
                events.append(
                    {
                        "id": int(held["spanport.artifact.id"]),
                        "thread_id": held["spanport.artifact.thread"],
                        "turn": int(held["spanport.artifact.turn"]),
                        "type": held["spanport.artifact.type"],
                        "title": held["spanport.artifact.title"],
                        "payload": json.loads(held["spanport.artifact.payload"]),
                        "created_at": iso(int(event["timeUnixNano"])),
                        "tool_call_id": call,
                    }
                )
    assert sorted(events, key=lambda e: e["id"]) == rows
    want = json.loads((source.parent / "_expected.json").read_text(encoding="utf-8"))
    assert run("artifacts", "list", out, "--thread", "th-6")[1] == want["final_listing"]
    assert run("artifacts", "get", out, 502)[1] == want["get"]["502"]


@pytest.mark.parametrize("file", ["others.json", "threads/two_turns_compare/thread.json", "neighbours/adk_events.json"])
@pytest.mark.parametrize("format", ["spanport", "otlp-json", "otlp-proto"])
def test_artifacts_survive_a_conversion(file: str, format: str, tmp_path: Path) -> None:
    assert run("convert", FIXTURES / file, "--to", format, "-o", tmp_path / "out")[0] == 0
    want = run("artifacts", "list", FIXTURES / file)[1]
    assert run("artifacts", "list", tmp_path / "out")[:2] == (0, want)
    for id in [printed[1:].split(" ")[0] for printed in want.splitlines()]:
        assert run("artifacts", "get", tmp_path / "out", id)[:2] == run("artifacts", "get", FIXTURES / file, id)[:2]


def test_in_a_run_record() -> None:
    """SimLab's record has no artifact channel: the sentence gives id and type, the reading calls the rest, the thread is in its metadata."""
    file = FIXTURES / "simlab" / "artifacts.json"
    assert run("artifacts", "list", file, "--thread", "th-1")[1] == "#502 [turn 2] chart\n#501 [turn 1] chart — Revenue"
    want = json.loads((FIXTURES / "threads" / "two_turns_compare" / "_expected.json").read_text(encoding="utf-8"))
    assert run("artifacts", "get", file, 501)[1] == want["get"]["501"]
    (trace,) = read(file)
    calls = [s for s in trace.spans if isinstance(s, ToolCall)]
    assert all(c.reasoning and c.reasoning.startswith(f"I call {c.name} because") for c in calls)
    assert [len(c.links) for c in calls] == [0, 1, 1, 0]


def test_artifacts_in_show() -> None:
    code, out, _ = run("show", FIXTURES / "threads" / "two_turns_compare" / "thread.json")
    assert code == 0
    assert "#501" in out
    assert "Revenue vs last year" in out
