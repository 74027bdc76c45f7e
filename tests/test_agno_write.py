"""Writing Agno: what its own classes load (where the package ``agno`` is installed), what comes back, and what other formats' spans become."""

from __future__ import annotations

import importlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import spanport
from spanport.converters import ids
from spanport.converters.model import (
    Attempt,
    Link,
    Message,
    ModelRequest,
    Run,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    Trace,
    TraceHeader,
    Usage,
    raw,
)

AGNO = Path(__file__).parent.parent / "fixtures" / "agno" / "corpus" / "agno"
RECORDS = sorted(p for p in AGNO.rglob("*.run_output*.json") if "versions" not in p.parts)
STREAMS = sorted(p for p in AGNO.rglob("*.events.jsonl") if "1.1.17" not in p.parts and "1.8.4" not in p.parts)
S = 1_000_000_000


def name(path: Path) -> str:
    return str(path.relative_to(AGNO))


def written(source: Any, format: str) -> bytes:
    out = io.BytesIO()
    spanport.write(spanport.read(source), out, format=format)
    return out.getvalue()


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.split(b"\n") if line]


@pytest.mark.parametrize("path", RECORDS, ids=name)
def test_a_record_comes_back_with_its_messages_and_tools(path: Path) -> None:
    old, new = json.loads(path.read_text()), json.loads(written(path, "agno"))
    for key in ("run_id", "status", "content", "messages", "metrics", "input", "session_id"):
        assert new.get(key) == old.get(key), key
    tools = {json.dumps(t, sort_keys=True) for t in new.get("tools") or []}
    assert {json.dumps(t, sort_keys=True) for t in old.get("tools") or []} <= tools or old["status"] in ("PAUSED", "CANCELLED")


@pytest.mark.parametrize("path", STREAMS, ids=name)
def test_a_stream_comes_back_with_the_same_events(path: Path) -> None:
    old, new = lines(path.read_bytes()), lines(written(path, "agno-events"))
    kinds = sorted(e["event"] for e in old)
    shown = sorted(e["event"] for e in new)
    missing = [k for k in kinds if k not in shown]
    assert len(missing) <= len(kinds) * 0.1, missing
    assert "".join(e.get("content") or "" for e in old if e["event"] == "RunContent" and isinstance(e.get("content"), str)) == "".join(
        e.get("content") or "" for e in new if e["event"] == "RunContent" and isinstance(e.get("content"), str)
    ) or "workflow" in name(path)


@pytest.mark.parametrize("path", [*RECORDS, *STREAMS], ids=name)
def test_what_is_written_reads_back_with_the_same_ids(path: Path) -> None:
    format = "agno-events" if path.suffix == ".jsonl" else "agno"
    before = {s.id for t in spanport.read(path) for s in t.spans}
    after = {s.id for t in spanport.read(written(path, format), format=format) for s in t.spans}
    assert len(before - after) <= len(before) * 0.25, sorted(before - after)
    if path.parent.name in ("simple", "tools", "parallel-tools", "model-error", "team", "odd-content"):
        assert before == after


def foreign() -> Trace:
    """A run of another format, as its reader would give it: two requests, a call that failed, and one that was not answered."""
    trace = ids.trace_id("other", "x")

    def at(*path: str) -> str:
        return ids.span_id(trace, *path)

    start = 1_800_000_000 * S
    base: dict[str, Any] = {"trace_id": trace}
    call = ToolCallPart(name="search", id="c1", arguments=raw({"q": "æ"}))
    spans = [
        ModelRequest(**base, id=at("r1"), parent_id=at("a"), name="m", key="r1", start=start + S, end=start + 2 * S, model="m", provider="anthropic",
                     input_messages=[Message(role="system", parts=[TextPart("be kind")]), Message(role="user", parts=[TextPart("hi")])],
                     output_messages=[Message(role="assistant", parts=[TextPart("let me see"), call])], usage=Usage(input=10, output=5), status="ok"),
        ToolCall(**base, id=at("t1"), parent_id=at("a"), name="search", key="t1", start=start + 2 * S, end=start + 3 * S, call_id="c1",
                 arguments=raw({"q": "æ"}), result=raw({"hits": [1]}), requested_by=at("r1"), status="ok"),
        ModelRequest(**base, id=at("r2"), parent_id=at("a"), name="m", key="r2", start=start + 3 * S, end=start + 4 * S, model="m", provider="anthropic",
                     input_messages=[Message(role="tool", parts=[ToolCallResponsePart(response=raw({"hits": [1]}), id="c1")])],
                     output_messages=[Message(role="assistant", parts=[TextPart("done")])], usage=Usage(input=20, output=2, cache_read=4), status="ok"),
        Attempt(**base, id=at("a"), parent_id=at("run"), name="attempt 1", key="a", number=1, start=start, end=start + 4 * S, status="ok"),
        Run(**base, id=at("run"), name="My Agent", key="run", start=start, end=start + 4 * S, status="ok", native_id="x", input=raw("hi"), output=raw("done"), conversation_id="s"),
    ]  # fmt: skip
    return Trace(header=TraceHeader(id=trace, family="other", format="other", run_key=["x"]), spans=spans)


def test_another_formats_run_as_a_record() -> None:
    out = io.BytesIO()
    spanport.write([foreign()], out, format="agno")
    record = json.loads(out.getvalue())
    assert {k: record[k] for k in ("run_id", "agent_id", "agent_name", "session_id", "content", "status", "model", "model_provider")} == {
        "run_id": "x",
        "agent_id": "my-agent",
        "agent_name": "My Agent",
        "session_id": "s",
        "content": "done",
        "status": "COMPLETED",
        "model": "m",
        "model_provider": "Anthropic",
    }
    assert [(m["role"], m.get("content")) for m in record["messages"]] == [
        ("system", "be kind"),
        ("user", "hi"),
        ("assistant", "let me see"),
        ("tool", '{"hits":[1]}'),
        ("assistant", "done"),
    ]
    assert record["messages"][2]["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"q":"æ"}'}
    assert record["metrics"] == {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37, "cache_read_tokens": 4, "duration": 4.0}
    (tool,) = record["tools"]
    assert (tool["tool_args"], tool["result"], tool["tool_call_error"]) == ({"q": "æ"}, '{"hits":[1]}', False)
    assert tool["metrics"] == {"start_time": 1_800_000_002.0, "end_time": 1_800_000_003.0, "duration": 1.0}
    back = [s for t in spanport.read(record) for s in t.spans]
    assert sorted(type(s).__name__ for s in back) == ["Attempt", "ModelRequest", "ModelRequest", "Run", "ToolCall"]


def test_another_formats_run_as_events() -> None:
    out = io.BytesIO()
    spanport.write([foreign()], out, format="agno-events")
    assert [e["event"] for e in lines(out.getvalue())] == [
        "RunStarted",
        "ModelRequestStarted",
        "RunContent",
        "ModelRequestCompleted",
        "ToolCallStarted",
        "ToolCallCompleted",
        "ModelRequestStarted",
        "RunContent",
        "ModelRequestCompleted",
        "RunContentCompleted",
        "RunCompleted",
    ]
    back = [s for t in spanport.read(out.getvalue()) for s in t.spans]
    assert sum(s.usage.input for s in back if isinstance(s, ModelRequest)) == 30


def test_what_never_happened_is_not_written() -> None:
    trace = foreign()
    bare = Trace(header=trace.header, spans=[s for s in trace.spans if isinstance(s, Run)])
    out = io.BytesIO()
    spanport.write([bare], out, format="agno")
    record = json.loads(out.getvalue())
    assert not {"messages", "tools", "model", "user_id"} & set(record)
    assert record["metrics"] == {"duration": 4.0}


def agno() -> Any:
    return pytest.importorskip("agno.run.agent", reason="the package agno is not installed (extra spanport[agno])")


@pytest.mark.parametrize("path", RECORDS, ids=name)
def test_agno_loads_what_is_written(path: Path) -> None:
    agno()
    data = json.loads(written(path, "agno"))
    count = len(data.get("messages") or [])
    run_id = data["run_id"]  # from_dict takes its argument apart
    if "workflow_id" in data and "agent_id" not in data:
        loaded = importlib.import_module("agno.run.workflow").WorkflowRunOutput.from_dict(data)
    elif "team_id" in data:
        loaded = importlib.import_module("agno.run.team").TeamRunOutput.from_dict(data)
    else:
        loaded = importlib.import_module("agno.run.agent").RunOutput.from_dict(data)
    assert loaded.run_id == run_id
    assert len(loaded.to_dict().get("messages") or []) == count


def parse(event: dict[str, Any]) -> Any:
    for module, function in (
        ("agno.run.agent", "run_output_event_from_dict"),
        ("agno.run.team", "team_run_output_event_from_dict"),
        ("agno.run.workflow", "workflow_run_output_event_from_dict"),
    ):
        try:
            return getattr(importlib.import_module(module), function)(dict(event))
        except (ValueError, KeyError):
            continue
    raise AssertionError(f"agno knows no {event['event']}")


@pytest.mark.parametrize("path", STREAMS, ids=name)
def test_agno_parses_the_events_that_are_written(path: Path) -> None:
    agno()
    for event in lines(written(path, "agno-events")):
        assert parse(event).event == event["event"]


def test_agno_loads_another_formats_run() -> None:
    module = agno()
    out = io.BytesIO()
    spanport.write([foreign()], out, format="agno")
    loaded = module.RunOutput.from_dict(json.loads(out.getvalue()))
    assert loaded.messages[2].tool_calls[0]["function"]["name"] == "search"
    assert loaded.tools[0].result == '{"hits":[1]}'
    events = io.BytesIO()
    spanport.write([foreign()], events, format="agno-events")
    for event in lines(events.getvalue()):
        parse(event)


def test_attempts_that_were_tried_again() -> None:
    trace = foreign()
    first = ids.span_id(trace.header.id, "a")
    second = Attempt(
        id=ids.span_id(trace.header.id, "b"), trace_id=trace.header.id, parent_id=ids.span_id(trace.header.id, "run"), name="attempt 2", key="b", number=2,
        start=1_800_000_005 * S, end=1_800_000_006 * S, status="ok", links=[Link(trace_id=trace.header.id, span_id=first, type="retry_of")],
    )  # fmt: skip
    out = io.BytesIO()
    spanport.write([Trace(header=trace.header, spans=[*trace.spans, second])], out, format="agno-events")
    assert [e["event"] for e in lines(out.getvalue())].count("RunStarted") == 2
