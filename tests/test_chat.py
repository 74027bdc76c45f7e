"""Conversations: every spelling of messages, rows and streams, as one kind of trace."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from spanport import Attempt, ModelRequest, Phase, ReadError, Report, Run, ToolCall, Trace, detect, read
from spanport.converters.chat.said import usage_of
from spanport.converters.chat.sse import events
from spanport.converters.chat.words import when
from spanport.converters.history import full
from spanport.converters.model import BlobPart, ReasoningPart, Span, TextPart, ToolCallPart, UriPart, Usage, raw
from spanport.converters.source import source_of

FIXTURES = Path(__file__).parents[1] / "fixtures" / "artifacts"
COMPARE = FIXTURES / "threads" / "two_turns_compare"


def of(trace: Trace, kind: type) -> list:
    return [s for s in trace.spans if isinstance(s, kind)]


def tree(trace: Trace) -> dict[str, str | None]:
    return {s.id: s.parent_id for s in trace.spans}


def one(given: object, **more: object) -> Trace:
    (trace,) = read(given, **more)  # type: ignore[arg-type]
    return trace


# ------------------------------------------------------------------------------------------------- the fixtures
@pytest.mark.parametrize(
    ("file", "format"),
    [
        ("threads/two_turns_compare/thread.json", "chat"),
        ("threads/two_turns_compare/events.sse", "chat"),
        ("two_threads.sse", "chat"),
        ("spec/rows.json", "artifact-table"),
        ("neighbours/adk_events.json", "chat"),
        ("neighbours/a2a_1_0.json", "chat"),
        ("neighbours/a2a_0_3.json", "chat"),
        ("neighbours/langchain_messages.json", "chat"),
    ],
)
def test_recognised(file: str, format: str) -> None:
    assert detect(FIXTURES / file) == format


def test_messages_and_stream_of_one_conversation_give_the_same_ids() -> None:
    record, stream = one(COMPARE / "thread.json"), one(COMPARE / "events.sse")
    assert tree(record) == tree(stream)
    assert record.header.id == stream.header.id


def test_spans_of_a_conversation() -> None:
    """Counted in the source: 2 user messages, 6 assistant messages, 4 calls."""
    trace = one(COMPARE / "thread.json")
    (run,), (attempt,), phases = of(trace, Run), of(trace, Attempt), of(trace, Phase)
    assert [p.name for p in phases] == ["turn 1", "turn 2"]
    assert len(of(trace, ModelRequest)) == 6
    assert all(r.inferred and r.conversation_id == "th-1" for r in of(trace, ModelRequest))
    assert {p.parent_id for p in phases} == {attempt.id}
    assert attempt.parent_id == run.id
    source = json.loads((COMPARE / "thread.json").read_text(encoding="utf-8"))["messages"]
    calls = of(trace, ToolCall)
    asked = {m["tool_calls"][0]["id"]: when(raw(m["created_at"])) for m in source if m.get("tool_calls")}
    answered = {m["tool_call_id"]: when(raw(m["created_at"])) for m in source if m["role"] == "tool"}
    assert {c.call_id: (c.start, c.end, c.clock) for c in calls} == {i: (asked[i], answered[i], "derived") for i in asked}
    said = {json.loads(bytes(p.output)) for p in phases}
    assert said == {"Here is the chart.", "Chart #502 is higher than #501 in every quarter."}


def test_history_rebuilds_what_each_request_saw() -> None:
    known: dict = {}
    sizes = [len(full(r, known) or []) for r in of(one(COMPARE / "thread.json"), ModelRequest)]
    assert sizes == [1, 3, 5, 7, 9, 11]  # every message before the assistant's


def test_a_longer_copy_keeps_the_ids() -> None:
    messages = json.loads((COMPARE / "thread.json").read_text(encoding="utf-8"))["messages"]
    whole, part = one(messages), one(messages[:6])
    assert part.header.id == whole.header.id
    assert {s.id for s in part.spans} <= {s.id for s in whole.spans}
    assert one([*messages[:6], {"role": "user", "content": "x"}]).header.id == whole.header.id
    assert one([{"role": "user", "content": "other"}]).header.id != whole.header.id


def test_turns_are_counted_where_none_is_stated() -> None:
    said = [("system", "s"), ("assistant", "Hello."), ("user", "a"), ("assistant", "b"), ("user", "c"), ("user", "d"), ("assistant", "e")]
    trace = one([{"role": role, "content": text} for role, text in said])
    assert [(p.name, json.loads(bytes(p.input)) if p.input else None) for p in of(trace, Phase)] == [
        ("turn 1", "a"),
        ("turn 2", "c"),
        ("turn 3", "d"),
    ]


def test_no_times_are_made_up() -> None:
    stream = "".join(
        f"event: {name}\ndata: {json.dumps(data)}\n\n"
        for name, data in [
            ("turn_start", {"thread_id": "t", "turn": 1}),
            ("tool_call", {"id": "c", "name": "f", "arguments": {}}),
            ("tool_result", {"id": "c", "content": "x"}),
            ("message", {"role": "assistant", "content": "y"}),
        ]
    )
    trace = one(stream.encode())
    assert {(s.start, s.end, s.clock) for s in trace.spans} == {(None, None, "synthetic")}
    assert [len(of(trace, k)) for k in (Run, Attempt, Phase, ModelRequest, ToolCall)] == [1, 1, 1, 2, 1]


def test_spans_without_a_time_stand_at_the_known_times_and_say_so() -> None:
    trace = one(COMPARE / "events.sse")
    assert {s.clock for s in trace.spans if isinstance(s, ToolCall | ModelRequest | Phase)} == {"synthetic"}
    assert all(s.start == s.end for s in trace.spans if isinstance(s, ToolCall | ModelRequest | Phase))
    (run,) = of(trace, Run)
    assert (run.start, run.end) == (when(raw("2026-03-02T09:00:09Z")), when(raw("2026-03-02T09:00:36Z")))  # both artifacts


def test_threads_of_one_stream() -> None:
    report = Report()
    a, b = read(FIXTURES / "two_threads.sse", report=report)
    assert (a.header.run_key, b.header.run_key) == (["A"], ["B"])
    assert [s.call_id for s in of(a, ToolCall)] == ["call_1", "call_2"]
    assert [s.call_id for s in of(b, ToolCall)] == ["call_1"]
    assert [e.name for p in of(a, Phase) for e in p.events] == ["thinking"]
    assert report.lost == 0


def test_threads_that_are_mixed_in_a_stream() -> None:
    sent = [
        ("turn_start", {"thread_id": "A", "turn": 1}),
        ("tool_call", {"id": "a1", "name": "f", "arguments": {}}),
        ("turn_start", {"thread_id": "B", "turn": 1}),
        ("tool_call", {"id": "b1", "name": "g", "arguments": {}}),
        ("artifact", {"id": 1, "thread_id": "A", "turn": 1, "type": "chart", "payload": 1, "tool_call_id": "a1"}),
        ("tool_result", {"id": "b1", "content": "of b"}),
        ("tool_result", {"id": "a1", "content": "of a"}),
    ]
    a, b = read("".join(f"event: {n}\ndata: {json.dumps(d)}\n\n" for n, d in sent).encode())
    assert [(c.call_id, c.name, bytes(c.result), [x.id for x in c.artifacts]) for c in of(a, ToolCall)] == [("a1", "f", b'"of a"', ["1"])]
    assert [(c.call_id, c.name, bytes(c.result), [x.id for x in c.artifacts]) for c in of(b, ToolCall)] == [("b1", "g", b'"of b"', [])]


# ---------------------------------------------------------------------------------------------------- neighbours
def test_adk() -> None:
    trace = one(FIXTURES / "neighbours" / "adk_events.json")
    calls = of(trace, ToolCall)
    assert [[(a.id, a.version) for a in c.artifacts] for c in calls] == [
        [("chart.json", "0"), ("user:notes.txt", "0")],
        [("chart.json", "1"), ("user:notes.txt", "1")],
        [],
    ]
    assert calls[1].artifacts[0].uri == "memory://apps/lab/users/u1/sessions/s1/artifacts/chart.json/versions/1"
    assert calls[2].links[0].span_id == calls[1].id  # load_artifacts reads the newest version
    assert [r.usage.input for r in of(trace, ModelRequest)] == [150, 150, 150, 120]
    assert of(trace, Run)[0].name == "artist"


@pytest.mark.parametrize("file", ["a2a_1_0.json", "a2a_0_3.json"])
def test_a2a(file: str) -> None:
    trace = one(FIXTURES / "neighbours" / file)
    report, chart = of(trace, Attempt)[0].artifacts
    assert (report.id, report.title, report.thread, json.loads(bytes(report.payload))) == (
        "art-1",
        "report",
        "ctx-1",
        "# Report\nmore text",
    )
    assert (chart.id, chart.status, len(json.loads(bytes(chart.payload)))) == ("art-2", None, 2)


def test_a2a_stream_that_breaks_off() -> None:
    stream = json.loads((FIXTURES / "neighbours" / "a2a_1_0.json").read_text())["stream"][:2]
    lines = "".join(f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': item})}\n\n" for item in stream)
    (artifact,) = of(one(lines.encode()), Attempt)[0].artifacts
    assert (artifact.status, json.loads(bytes(artifact.payload))) == ("incomplete", "# Report\n")


def test_langchain() -> None:
    trace = one(FIXTURES / "neighbours" / "langchain_messages.json")
    (call,) = of(trace, ToolCall)
    (artifact,) = call.artifacts
    assert (artifact.id, artifact.type, artifact.title, json.loads(bytes(artifact.payload))) == (
        "call_lcart00000",
        "chart",
        "Revenue",
        {"data": [1, 2, 3]},
    )
    first = of(trace, ModelRequest)[0]
    assert (first.model, first.provider, first.usage) == ("gpt-4o-mini", "openai", Usage(input=150, output=30, total=180))


def test_claude_export() -> None:
    export = json.loads((FIXTURES / "neighbours" / "claude_constructed.json").read_text())["export_text_form"]
    trace = one([{"uuid": "u-1", "name": "Form", **export}])
    first, second = of(trace, ModelRequest)
    assert [(a.id, a.operation, json.loads(bytes(a.payload))) for r in (first, second) for a in r.artifacts] == [
        ("login-form", "create", "export default () => null"),
        ("login-form", "rewrite", "export default () => <b/>"),
    ]
    assert trace.header.run_key == ["u-1"]


def test_what_is_no_conversation_is_said() -> None:
    with pytest.raises(ReadError, match="an MCP result is read where it stands"):
        read(json.dumps({"content": [{"type": "text", "text": "x"}], "isError": False}).encode())
    for text in (b"[]", b"{}", b"[1, 2]", b'"x"', b"5", b"null", b"[" * 100_000, b"data: 5\n\n", b"\n"):
        with pytest.raises(ReadError):
            read(text, format="chat")
        with pytest.raises(ReadError):
            read(text, format="artifact-table")


# ------------------------------------------------------------------------------------------------------ shapes
def test_contents_of_messages() -> None:
    trace = one(
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                    {"type": "odd", "x": 1},
                ],
            },
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}],
                "model": "m",
                "usage": {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 3},
                "stop_reason": "tool_use",
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "boom", "is_error": True}]},
            {"role": "assistant", "content": "b", "x_extra": {"kept": True}},
        ]
    )
    first, second = of(trace, ModelRequest)
    parts = first.input_messages[0].parts
    assert parts[:3] == [TextPart("a"), UriPart("image", "https://x/y.png"), BlobPart("image", "QUJD", "image/png")]
    assert first.output_messages[0].parts == [ReasoningPart("hm"), ToolCallPart("f", "t1", Raw(b'{"a": 1}'))]
    assert (first.model, first.usage, first.finish_reasons) == ("m", Usage(input=8, output=7, cache_read=3), ["tool_use"])
    (call,) = of(trace, ToolCall)
    assert (call.status, call.outcome, bytes(call.result)) == ("error", "error", b'"boom"')
    assert call.requested_by == first.id
    assert [p.name for p in of(trace, Phase)] == ["turn 1"]  # answers to calls are no turn of the user
    assert json.loads(bytes(second.output_messages[0].source["x_extra"])) == {"kept": True}


def test_calls_without_answer_answers_without_call_and_repeated_ids() -> None:
    def asked(*ids: str) -> dict:
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": i, "function": {"name": "f", "arguments": "{bad"}} for i in ids],
        }

    trace = one(
        [
            {"role": "user", "content": "a"},
            asked("1", "2"),
            {"role": "tool", "tool_call_id": "1", "content": "x"},
            {"role": "tool", "tool_call_id": "9", "content": "y"},
            asked("1"),
            {"role": "tool", "tool_call_id": "1", "content": "z"},
        ]
    )
    calls = of(trace, ToolCall)
    assert [(c.call_id, c.outcome, bytes(c.result)) for c in calls] == [
        ("1", "ok", b'"x"'),
        ("9", "ok", b'"y"'),
        ("1", "ok", b'"z"'),
        ("2", "aborted", b""),
    ]
    assert len({c.id for c in calls}) == 4
    assert [c.unfinished for c in calls] == [False, False, False, True]
    assert bytes(calls[0].arguments) == b'"{bad"'


def test_lines_of_messages_and_lines_of_conversations() -> None:
    messages = json.loads((COMPARE / "thread.json").read_text(encoding="utf-8"))["messages"]
    lines = "\n".join(json.dumps(m) for m in messages)
    assert one(lines.encode()).header.id == one(messages).header.id
    assert one(lines.encode()).spans == one(messages).spans
    both = "\n".join(json.dumps({"thread_id": t, "messages": messages}) for t in ("a", "b"))
    report = Report()
    assert [t.header.run_key for t in read((both + "\n{broken\n").encode(), report=report)] == [["a"], ["b"]]
    assert (report.lost, report.notices[0].line) == (1, 3)


@pytest.mark.parametrize("key", ["threads", "conversations"])
def test_several_threads_in_one_object(key: str) -> None:
    messages = json.loads((COMPARE / "thread.json").read_text(encoding="utf-8"))["messages"]
    for several in (
        {"a": messages, "b": {"messages": messages}},
        [{"thread_id": "a", "messages": messages}, {"thread_id": "b", "messages": messages}],
    ):
        text = json.dumps({key: several}).encode()
        assert detect(text) == "chat"
        assert [t.header.run_key for t in read(text)] == [["a"], ["b"]]
    assert detect(json.dumps([{"thread_id": "a", "messages": messages}]).encode()) == "chat"


def test_a_stream_that_is_cut_gives_what_there_is() -> None:
    whole = (COMPARE / "events.sse").read_bytes()
    for cut in range(70, len(whole), 97):
        report = Report()
        (trace,) = read(whole[:cut], format="chat", report=report)
        assert {s.parent_id for s in trace.spans} - {None} <= {s.id for s in trace.spans}
        assert of(trace, Run)


def test_a_document_that_is_cut_gives_the_messages_before() -> None:
    whole = (COMPARE / "thread.json").read_bytes()
    messages = json.loads(whole)["messages"]
    seen = set()
    for cut in range(200, len(whole), 211):
        report = Report()
        (trace,) = read(whole[:cut], format="chat", report=report)
        assert report.lost == 1
        (run,) = of(trace, Run)
        assert run.unfinished
        assert not run.output
        count = len(of(trace, ModelRequest))
        assert count in range(sum(m["role"] == "assistant" for m in messages) + 1)
        seen.add(count)
    assert seen == set(range(7))
    (trace,) = read(json.dumps(messages).encode()[:-60], format="chat", report=Report())  # a list, cut
    assert len(of(trace, ModelRequest)) == 5


def test_times_and_usages_as_they_are_written() -> None:
    assert when(raw("2026-03-02 09:01:00+00:00")) == when(raw("2026-03-02T09:01:00Z")) == when(raw(1772442060)) == when(raw(1772442060000))
    assert [when(raw(x)) for x in ("yesterday", True, None, [], "")] == [None] * 5
    assert usage_of(raw({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})) == Usage(
        input=5, output=2, cache_read=4
    )
    assert usage_of(raw({"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 3})) == Usage(
        input=5, output=5, reasoning=3
    )
    assert usage_of(raw({"prompt_tokens": "5", "completion_tokens": -1})) is None


def test_server_sent_events() -> None:
    text = b": hello\nid: 1\nevent: a\ndata: {\ndata: }\n\nretry: 5\n\ndata:x\r\n\r\nevent: cut\ndata: y"
    assert [(e.name, e.data, e.ended) for e in events(source_of(text).lines())] == [
        ("a", b"{\n}", True),
        ("", b"x", True),
        ("cut", b"y", False),
    ]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=8), x, max_size=3),
    max_leaves=6,
)
_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "x", None])},
    optional={
        "content": _json
        | st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["text", "tool_use", "tool_result", "image"])},
                optional={"text": _json, "name": _json, "input": _json, "tool_use_id": _json, "content": _json},
            ),
            max_size=2,
        ),
        "tool_calls": _json
        | st.lists(
            st.fixed_dictionaries(
                {
                    "id": st.sampled_from(["a", "b", 1, None]),
                    "function": st.fixed_dictionaries({"name": st.sampled_from(["f", "get_artifact", 3]), "arguments": _json}),
                }
            ),
            max_size=2,
        ),
        "tool_call_id": st.sampled_from(["a", "b", 1, None]),
        "created_at": st.sampled_from(["2026-03-02T09:00:00Z", "2026-03-02T08:00:00Z", 5, "x", None]),
        "turn": st.sampled_from([1, 2, "x", None]),
        "artifact": _json,
        "usage": _json,
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_message, min_size=1, max_size=8))
def test_any_messages_give_a_sound_tree(messages: list[dict]) -> None:
    """Ids are unique, parents are there, times are in order, and nothing raises but ReadError."""
    try:
        traces = read(messages, format="chat")
    except ReadError:
        return
    for trace in traces:
        spans: list[Span] = list(trace.spans)
        ids = [s.id for s in spans]
        assert len(set(ids)) == len(ids)
        assert {s.parent_id for s in spans} - {None} <= set(ids)
        assert all(s.start is None or s.end is None or s.start <= s.end for s in spans)
        assert len(of(trace, Run)) == 1
