"""Spans of other people's instrumentations as spans of the model: expectations are written from the conventions' pages, not from our output."""

from __future__ import annotations

import json
from typing import Any

import pytest
import spanport
from spanport.converters.errors import ReadError, Report
from spanport.converters.model import ModelRequest, Phase, Run, TextPart, ToolCall, ToolCallPart, ToolCallResponsePart

T = 1_790_000_000_000_000_000


def value(v: Any) -> dict[str, Any]:
    if isinstance(v, bool):
        return {"boolValue": v}
    if isinstance(v, int):
        return {"intValue": str(v)}
    if isinstance(v, float):
        return {"doubleValue": v}
    if isinstance(v, list):
        return {"arrayValue": {"values": [value(x) for x in v]}}
    if isinstance(v, dict):
        return {"kvlistValue": {"values": [{"key": k, "value": value(x)} for k, x in v.items()]}}
    return {"stringValue": v}


def kvs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": k, "value": value(v)} for k, v in attributes.items()]


def span(number: int, name: str, attributes: dict[str, Any], parent: int | None = None, **more: Any) -> dict[str, Any]:
    found = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": f"{number:016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(T + number),
        "endTimeUnixNano": str(T + number + 1000),
        "attributes": kvs(attributes),
        **more,
    }
    if parent is not None:
        found["parentSpanId"] = f"{parent:016x}"
    return found


def document(*spans: dict[str, Any], scope: str = "somebody") -> dict[str, Any]:
    return {
        "resourceSpans": [
            {"resource": {"attributes": kvs({"service.name": "shop"})}, "scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}]}
        ]
    }


def one(attributes: dict[str, Any], name: str = "x", parent: int | None = 1, **more: Any) -> Any:
    (trace,) = spanport.read(json.dumps(document(span(2, name, attributes, parent, **more))).encode())
    assert trace.header.family == "shop"
    return trace.spans[0]


MESSAGES = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}])
ANSWER = json.dumps(
    [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "calling"}, {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"q": 1}}],
            "finish_reason": "tool_call",
        }
    ]
)


@pytest.mark.parametrize("write_key", ["gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_write.input_tokens"])
def test_gen_ai_request(write_key: str) -> None:
    got = one(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "claude-x",
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.max_tokens": 100,
            "gen_ai.response.model": "claude-x-1",
            "gen_ai.response.id": "r1",
            "gen_ai.response.finish_reasons": ["tool_use"],
            "gen_ai.response.time_to_first_chunk": 0.25,
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 60,
            write_key: 5,
            "gen_ai.usage.reasoning.output_tokens": 7,
            "gen_ai.conversation.id": "conv",
            "gen_ai.system_instructions": '[{"type":"text","content":"be good"}]',
            "gen_ai.input.messages": MESSAGES,
            "gen_ai.output.messages": ANSWER,
            "server.address": "api.example",
        },
        kind=3,
        status={"code": 1},
    )
    assert isinstance(got, ModelRequest)
    assert (got.provider, got.model, got.response_model, got.response_id) == ("anthropic", "claude-x", "claude-x-1", "r1")
    assert got.parameters == {"temperature": 0.5, "max_tokens": 100}
    assert got.finish_reasons == ["tool_use"]
    assert got.time_to_first_token == 250_000_000
    usage = got.usage
    assert usage is not None
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning) == (100, 20, 60, 5, 7)
    assert got.conversation_id == "conv"
    assert got.system_instructions == [TextPart("be good")]
    assert got.input_messages[0].parts == [TextPart("hi")]
    call = got.output_messages[0].parts[1]
    assert isinstance(call, ToolCallPart)
    assert (call.id, call.name, json.loads(bytes(call.arguments))) == ("c1", "look", {"q": 1})
    assert got.attributes == {"server.address": "api.example"}
    assert (got.start, got.end, got.clock, got.status) == (T + 2, T + 1002, "recorded", "ok")


def test_structured_messages_and_arguments() -> None:
    """Maps instead of JSON strings, as the conventions want them on events and some write on spans."""
    got = one({"gen_ai.operation.name": "chat", "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]})
    assert got.input_messages[0].parts == [TextPart("hi")]
    tool = one({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": {"a": [1, 2.5]}})
    assert json.loads(bytes(tool.arguments)) == {"a": [1, 2.5]}


def test_gen_ai_names_before_1_37() -> None:
    got = one(
        {"gen_ai.system": "openai", "gen_ai.request.model": "gpt", "gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 4},
        events=[
            {"name": "gen_ai.user.message", "timeUnixNano": str(T), "attributes": kvs({"content": "hello", "gen_ai.system": "openai"})},
            {
                "name": "gen_ai.choice",
                "timeUnixNano": str(T),
                "attributes": kvs({"index": 0, "finish_reason": "stop", "message": '{"role":"assistant","content":"hey"}'}),
            },
        ],
    )
    assert isinstance(got, ModelRequest)
    assert got.provider == "openai"
    assert got.usage is not None
    assert (got.usage.input, got.usage.output) == (3, 4)
    assert got.input_messages[0].parts == [TextPart("hello")]
    assert got.output_messages[0].parts == [TextPart("hey")]
    assert got.finish_reasons == ["stop"]
    assert len(got.events) == 2  # the events themselves stay


def test_traceloop_numbered_messages() -> None:
    got = one(
        {
            "gen_ai.system": "OpenAI",
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "sys",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": "ask",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "tell",
            "gen_ai.completion.0.finish_reason": "stop",
        }
    )
    assert [(m.role, m.parts) for m in got.input_messages] == [("system", [TextPart("sys")]), ("user", [TextPart("ask")])]
    assert got.output_messages[0].parts == [TextPart("tell")]
    assert one({"traceloop.span.kind": "tool", "traceloop.entity.name": "adder", "traceloop.entity.input": "{}"}).name == "adder"


def test_openinference_request_and_tool() -> None:
    got = one(
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "gpt-x",
            "llm.provider": "openai",
            "llm.invocation_parameters": '{"temperature": 1}',
            "llm.token_count.prompt": 10,
            "llm.token_count.completion": 5,
            "llm.token_count.total": 15,
            "llm.token_count.prompt_details.cache_read": 4,
            "llm.token_count.completion_details.reasoning": 2,
            "llm.cost.total": 0.01,
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "see",
            "llm.input_messages.1.message.role": "tool",
            "llm.input_messages.1.message.tool_call_id": "c9",
            "llm.input_messages.1.message.content": '{"ok": true}',
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c10",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "go",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"x": 1}',
            "llm.tools.0.tool.json_schema": '{"type":"function"}',
            "session.id": "s",
        }
    )
    assert isinstance(got, ModelRequest)
    usage = got.usage
    assert usage is not None
    assert (usage.input, usage.output, usage.total, usage.cache_read, usage.reasoning, usage.cost) == (10, 5, 15, 4, 2, 0.01)
    assert got.input_messages[0].parts == [TextPart("see")]
    answer = got.input_messages[1].parts[0]
    assert isinstance(answer, ToolCallResponsePart)
    assert (answer.id, json.loads(bytes(answer.response))) == ("c9", {"ok": True})
    call = got.output_messages[0].parts[0]
    assert isinstance(call, ToolCallPart)
    assert (call.name, call.id, json.loads(bytes(call.arguments))) == ("go", "c10", {"x": 1})
    assert got.parameters == {"temperature": 1}
    assert json.loads(bytes(got.tool_definitions)) == [{"type": "function"}]
    assert got.conversation_id == "s"
    assert not got.attributes

    tool = one(
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "go",
            "input.value": '{"x":1}',
            "input.mime_type": "application/json",
            "output.value": "done",
        }
    )
    assert isinstance(tool, ToolCall)
    assert (tool.name, json.loads(bytes(tool.arguments)), json.loads(bytes(tool.result))) == ("go", {"x": 1}, "done")


def test_langfuse() -> None:
    got = one(
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.model.name": "m",
            "langfuse.observation.model.parameters": '{"top_p": 0.9}',
            "langfuse.observation.usage_details": '{"input": 10, "input_cached_tokens": 90, "output": 5, "output_reasoning_tokens": 2}',
            "langfuse.observation.cost_details": '{"total": 0.5}',
            "langfuse.observation.input": '[{"role":"user","content":"q"}]',
            "langfuse.observation.output": '{"role":"assistant","content":"a"}',
            "langfuse.session.id": "s",
        }
    )
    usage = got.usage
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning, usage.cost) == (
        100,
        90,
        7,
        2,
        0.5,
    )  # Langfuse's counts do not overlap
    assert got.input_messages[0].parts == [TextPart("q")]
    assert got.output_messages[0].parts == [TextPart("a")]
    assert (got.model, got.parameters, got.conversation_id) == ("m", {"top_p": 0.9}, "s")
    assert isinstance(one({"langfuse.observation.type": "tool"}, "adder"), ToolCall)
    assert isinstance(one({"langfuse.observation.type": "agent"}), Run)
    assert isinstance(one({"langfuse.observation.type": "span"}), Phase)


def test_agents_workflows_and_the_rest() -> None:
    agent = one(
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "A", "gen_ai.agent.id": "7", "user.id": "u"}, "invoke_agent A"
    )
    assert isinstance(agent, Run)
    assert (agent.type, agent.name, agent.agent_id, agent.user_id) == ("agent", "A", "7", "u")
    for key in ("gen_ai.workflow.name", "gen_ai.agent.name"):  # 1.41, 0.1
        flow = one({"gen_ai.operation.name": "invoke_workflow", key: "W"})
        assert (flow.type, flow.name) == ("workflow", "W")
    assert one({"openinference.span.kind": "CHAIN"}, parent=None).type == "workflow"
    assert isinstance(one({"openinference.span.kind": "CHAIN"}), Phase)
    plan = one({"gen_ai.operation.name": "plan", "gen_ai.agent.name": "A"})
    assert isinstance(plan, Phase)
    assert (plan.operation, plan.attributes) == ("plan", {"gen_ai.agent.name": "A"})
    http = one({"http.request.method": "GET", "a": [1, "b", True], "m": {"k": 1.5}}, "GET /", kind=2, traceState="a=1")
    assert isinstance(http, Phase)
    assert http.attributes == {"http.request.method": "GET", "a": [1, "b", True], "m": {"k": 1.5}}
    assert {n: json.loads(bytes(v)) for n, v in http.source.items()} == {"kind": 2, "traceState": "a=1", "scope": {"name": "somebody"}}


def test_errors_times_and_links() -> None:
    got = one(
        {"gen_ai.tool.name": "t"},
        status={"code": 2},
        endTimeUnixNano="0",
        events=[{"name": "exception", "timeUnixNano": T, "attributes": kvs({"exception.type": "KeyError", "exception.message": "'x'"})}],
        links=[{"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": f"{9:016x}", "attributes": []}],
    )
    assert got.error is not None
    assert (got.error.type, got.error.message, got.outcome) == ("KeyError", "'x'", "error")
    assert got.unfinished
    assert got.end is None
    assert got.links[0].trace_id == "5b8efff798038103d269b633813fc60c"
    assert got.events[0].time == T


def test_score_of_somebody_else() -> None:
    event = {
        "name": "gen_ai.evaluation.result",
        "timeUnixNano": str(T),
        "attributes": kvs({"gen_ai.evaluation.name": "good", "gen_ai.evaluation.score.value": 0.5, "judge": "j"}),
    }
    (score,) = one({}, events=[event]).scores
    assert (score.name, score.value, score.time, json.loads(bytes(score.source["judge"]))) == ("good", 0.5, T, "j")


def test_odd_spans_do_not_cost_the_document() -> None:
    """Enums as names, snake_case, unknown fields, a base64 id, an id that is none, NaN, integers as numbers."""
    good = span(3, "a", {"k": 1}, kind="SPAN_KIND_CLIENT", newField={"x": 1}, startTimeUnixNano=T)
    good["attributes"].append({"key": "odd", "value": {"newValue": 1}})
    snake = {
        "trace_id": good["traceId"],
        "span_id": f"{4:016x}",
        "name": "b",
        "start_time_unix_nano": T,
        "end_time_unix_nano": str(T + 1),
        "attributes": [{"key": "z", "value": {"int_value": 5}}],
    }
    b64 = span(5, "c", {"n": float("nan")}, traceId="W47/95gDgQPSabYzgT/GDA==", spanId="AAAAAAAAAAU=")
    report = Report()
    text = json.dumps(document(good, snake, b64, span(6, "d", {}, traceId="xyz"), {"name": "e"})).replace("NaN", '"NaN"')
    (trace,) = spanport.read(text.encode(), report=report)
    assert [s.id for s in trace.spans] == [f"{n:016x}" for n in (3, 4, 5)]
    a, b, c = trace.spans
    assert a.attributes == {"k": 1}
    assert json.loads(bytes(a.source["newField"])) == {"x": 1}
    assert json.loads(bytes(a.source["attributes"])) == [{"key": "odd", "value": {"newValue": 1}}]
    assert b.attributes == {"z": 5}
    assert c.attributes == {"n": "NaN"}
    assert report.lost == 2
    assert "$.resourceSpans[0].scopeSpans[0].spans[3]" in str(report.notices[0])


def test_lines_interleave_traces_and_survive_a_broken_one() -> None:
    other = {**span(7, "o", {}), "traceId": "11" * 16}
    lines = [document(span(2, "a", {}, 1)), document(other), document(span(1, "root", {}))]
    text = b"{broken\n" + b"\n".join(json.dumps(x).encode() for x in lines) + b"\n"
    report = Report()
    traces = spanport.read(text, format="otlp-json", report=report)
    assert [len(t.spans) for t in traces] == [2, 1]
    assert report.notices[0].line == 1
    assert report.lost == 1


def test_one_document_over_many_lines() -> None:
    (trace,) = spanport.read(json.dumps(document(span(1, "root", {})), indent=2).encode())
    assert len(trace.spans) == 1


def test_phoenix_rest_exports() -> None:
    """``/v1/projects/P/spans``: spans in Phoenix's own words, with times in ISO form and the kind beside the attributes."""
    exported = {
        "data": [
            {
                "id": "U3Bhbjox",
                "name": "llm",
                "context": {"trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "00000000000000ab"},
                "span_kind": "LLM",
                "parent_id": None,
                "start_time": "2026-11-30T20:10:02.550932+00:00",
                "end_time": "2026-11-30T20:10:03+00:00",
                "status_code": "ERROR",
                "status_message": "boom",
                "attributes": {
                    "llm": {"model_name": "m", "token_count": {"prompt": 3}},
                    "llm.input_messages": [{"message": {"role": "user", "content": "q"}}],
                },
                "events": [],
            }
        ],
        "next_cursor": None,
    }
    (trace,) = spanport.read(json.dumps(exported).encode())
    (got,) = trace.spans
    assert isinstance(got, ModelRequest)
    assert (got.model, got.usage and got.usage.input, got.error and got.error.message) == ("m", 3, "boom")
    assert got.start == 1796069402550932000
    assert got.input_messages[0].parts == [TextPart("q")]


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"[]",
        b'{"resourceSpans": []}',
        b'{"resourceSpans": 5}',
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b'{"a":' * 200_000,
    ],
)
@pytest.mark.parametrize("format", ["otlp-json", "otlp-proto"])
def test_what_is_no_otlp_is_one_clear_error(data: bytes, format: str) -> None:
    with pytest.raises(ReadError):
        spanport.read(data, format=format)


def test_protobuf_of_others_one_message_and_delimited() -> None:
    from google.protobuf import json_format
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    def message(*spans: dict[str, Any]) -> bytes:
        as_base64 = json.loads(json.dumps(document(*spans)))
        for s in as_base64["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            import base64

            for key in ("traceId", "spanId", "parentSpanId"):
                if key in s:
                    s[key] = base64.b64encode(bytes.fromhex(s[key])).decode()
        return json_format.ParseDict(as_base64, TracesData()).SerializeToString()

    def varint(n: int) -> bytes:
        return bytes([n & 0x7F | 0x80, n >> 7]) if n > 127 else bytes([n])

    a = message(span(1, "invoke_agent A", {"gen_ai.operation.name": "invoke_agent", "x": [1.5, "y", {"z": True}]}))
    b = message(span(2, "t", {"gen_ai.tool.name": "t"}, 1))
    for data in (a + b, varint(len(a)) + a + varint(len(b)) + b):
        assert spanport.detect(data) == "otlp-proto"
        (trace,) = spanport.read(data)
        assert [type(s) for s in trace.spans] == [Run, ToolCall]
        assert trace.spans[0].attributes == {"x": [1.5, "y", {"z": True}]}
        assert trace.spans[0].start == T + 1
    report = Report()
    spanport.read((a + b)[:-5], report=report)
    assert report.lost == 1
