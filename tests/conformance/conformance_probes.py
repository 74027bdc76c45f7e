"""A record of each format with the traps that it has, and what it says. One story in all of them, written from the formats' pages."""

from __future__ import annotations

import json
from typing import Any

from conformance_kit import Call, Probe

SECOND = 1_000_000_000
T0 = 1_790_000_000  # 2026-09-21T14:13:20Z
SECRET = "sk-proj-" + "Ab3dEf6h" * 6
LONG = "Grüße, 世界 " + "0123456789abcdef " * 1300  # 22 kB
ASK = f"Weather in Zürich? My key is {SECRET}"
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg+M9QDwADhgGAWjRNewAAAABJRU5ErkJggg=="
A = {"city": "Zürich", "days": 3, "ratio": 1.5, "deep": {"list": [1, None, True]}}
B = {"key": "b"}
C = {"key": "never answered"}
WRONG = "KeyError: 'b' is not known"


def _calls() -> list[Call]:
    return [Call("weather", "call_a", A, LONG), Call("lookup", "call_b", B, WRONG, error=True), Call("lookup", "call_c", C)]


def _function(id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}


def iso(seconds: float) -> str:
    whole = int(seconds)
    micro = round((seconds - whole) * 1e6)
    minute, second = divmod(13 * 60 + 20 + whole, 60)
    return f"2026-09-21T14:{minute:02}:{second:02}.{micro:06}+00:00"


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def lines(values: list[Any]) -> bytes:
    return b"".join(dumped(v) + b"\n" for v in values)


def runartifacts() -> Probe:
    """SimLab: calls and results by completion (b before a); the messages ask a, b and c."""
    ask = {
        "content": "",
        "tool_calls": [
            _function("call_a", "env__weather", A),
            _function("call_b", "env__lookup", B),
            _function("call_c", "env__lookup", C),
        ],
    }

    def result(id: str, name: str, text: Any) -> dict[str, Any]:
        return {"tool_call_id": id, "tool_server": "env", "tool_name": name, "summary": text}

    record = {
        "version": "0.1",
        "task_id": "probe",
        "task": ASK,
        "model": "m",
        "provider": "openai",
        "messages": [
            {"role": "user", "content": ASK, "timestamp": iso(0)},
            {"role": "assistant", "content": ask, "timestamp": iso(1.25)},
            {"role": "tool", "content": result("call_b", "lookup", WRONG), "timestamp": iso(2.000001)},
            {"role": "tool", "content": result("call_a", "weather", LONG), "timestamp": iso(3)},
            {"role": "oracle", "content": {"unknown": ["record", 1]}, "timestamp": iso(3.5), "mood": "odd"},
        ],
        "tool_calls": [
            {"tool_server": "env", "tool_name": "lookup", "parameters": B},
            {"tool_server": "env", "tool_name": "weather", "parameters": A},
        ],
        "tool_results": [{"observation": WRONG, "is_error": True}, {"observation": LONG, "is_error": False}],
        "metadata": {"something": {"new": SECRET}},
        "final_observation": None,
        "error": "Agent execution failed: stopped",
        "steps_taken": 2,
        "max_steps": 9,
        "created_at": iso(0),
        "unknown_member": [1, 1.0, "ü"],
    }
    shorter = {
        **record,
        "messages": record["messages"][:3],
        "tool_calls": record["tool_calls"][:1],
        "tool_results": record["tool_results"][:1],
        "steps_taken": 1,
    }
    return Probe(
        "runartifacts",
        dumped(record),
        calls=_calls(),
        times=[T0 * SECOND + 1_250_000_000, (T0 + 2) * SECOND + 1000, (T0 + 3) * SECOND],
        texts=[LONG, ASK, "odd"],
        shorter=dumped(shorter),
    )


_METRICS = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120, "cache_read_tokens": 60}


def _agno_tool(id: str, name: str, args: Any, result: Any, error: bool | None, start: float) -> dict[str, Any]:
    return {
        "tool_call_id": id,
        "tool_name": name,
        "tool_args": args,
        "tool_call_error": error,
        "result": result,
        "metrics": {"duration": 0.25} if result is not None else None,
        "created_at": int(T0 + start),
        "stop_after_tool_call": False,
    }


def agno() -> Probe:
    """A RunOutput: the usage of the run repeats that of its messages."""
    record = {
        "run_id": "run-1",
        "agent_id": "a",
        "agent_name": "Ä",
        "session_id": "s",
        "content": "done",
        "content_type": "str",
        "model": "m",
        "model_provider": "OpenAI",
        "created_at": T0,
        "status": "COMPLETED",
        "metrics": {**{k: 2 * v for k, v in _METRICS.items()}, "duration": 3.0},
        "input": {"input_content": ASK, "images": [{"id": "i", "mime_type": "image/png", "content": IMAGE}]},
        "tools": [_agno_tool("call_b", "lookup", B, WRONG, True, 1), _agno_tool("call_a", "weather", A, LONG, False, 1)],
        "messages": [
            {
                "id": "m1",
                "role": "user",
                "content": ASK,
                "created_at": T0,
                "images": [{"id": "i", "mime_type": "image/png", "content": IMAGE}],
            },
            {
                "id": "m2",
                "role": "assistant",
                "content": None,
                "tool_calls": [_function("call_a", "weather", A), _function("call_b", "lookup", B)],
                "metrics": {**_METRICS, "duration": 1.0},
                "created_at": T0,
            },
            {"id": "m3", "role": "tool", "tool_call_id": "call_a", "tool_name": "weather", "content": LONG, "created_at": T0 + 2},
            {
                "id": "m4",
                "role": "tool",
                "tool_call_id": "call_b",
                "tool_name": "lookup",
                "content": WRONG,
                "tool_call_error": True,
                "created_at": T0 + 2,
            },
            {"id": "m5", "role": "assistant", "content": "done", "metrics": {**_METRICS, "duration": 1.0}, "created_at": T0 + 2},
        ],
        "metadata": {"secret": SECRET},
        "unknown_member": {"x": [1, 1.0]},
    }
    calls = [c for c in _calls() if c.id != "call_c"]
    return Probe("agno", dumped(record), calls=calls, tokens=(200, 40), texts=[LONG, ASK, "unknown_member"])


def agno_events() -> Probe:
    """An event stream that ends before call c is answered; b completes before a; the usage stands on the request and on the run."""
    base = {"created_at": T0, "agent_id": "a", "agent_name": "Ä", "run_id": "run-2", "session_id": "s"}

    def event(name: str, at: int, **more: Any) -> dict[str, Any]:
        return {**base, "event": name, "created_at": T0 + at, **more}

    def tool(id: str, name: str, args: Any, result: Any = None, error: bool | None = None) -> dict[str, Any]:
        return _agno_tool(id, name, args, result, error, 1)

    found = [
        event("RunStarted", 0, model="m", model_provider="OpenAI", run_input={"input_content": ASK}),
        event("ModelRequestStarted", 0, model="m", model_provider="OpenAI"),
        event("RunContent", 0, content="Let me ", content_type="str"),
        event("RunContent", 0, content="löök", content_type="str"),
        event(
            "ModelRequestCompleted",
            1,
            model="m",
            model_provider="OpenAI",
            input_tokens=100,
            output_tokens=20,
            total_tokens=120,
            cache_read_tokens=60,
        ),
        event("ToolCallStarted", 1, tool=tool("call_a", "weather", A)),
        event("ToolCallStarted", 1, tool=tool("call_b", "lookup", B)),
        event("ToolCallStarted", 1, tool=tool("call_c", "lookup", C)),
        event("ToolCallError", 2, tool=tool("call_b", "lookup", B, WRONG, True), error=WRONG),
        event("ToolCallCompleted", 3, tool=tool("call_a", "weather", A, LONG, False), content="weather() completed in 0.2500s."),
        event("SomethingNew", 3, payload={"secret": SECRET, "n": 1.0}),
    ]
    return Probe("agno-events", lines(found), calls=_calls(), tokens=(100, 20), texts=[LONG, ASK, "SomethingNew"], shorter=lines(found[:9]))


def progress() -> Probe:
    """AgentCompass events: two attempts that run at once, a phase that is not closed, an event that is not known."""

    def line(
        event: str, at: float, task: str | None = None, attempt: int | None = None, phase: str | None = None, **payload: Any
    ) -> dict[str, Any]:
        return {
            "timestamp": T0 + at,
            "run_id": "r",
            "orchestration_id": "o",
            "request_index": 0,
            "request_key": "k",
            "request_name": "n",
            "event": event,
            "task_id": task,
            "category": None,
            "attempt": attempt,
            "phase": phase,
            "status": payload.pop("status", None),
            "payload": payload,
        }

    found = [
        line("run_started", 0, model="m", benchmark="b", total_tasks=1, secret=SECRET),
        line("task_started", 0.5, "tä"),
        line("attempt_started", 1, "tä", 1),
        line("attempt_started", 1.25, "tä", 2),
        line("phase_started", 1.5, "tä", 1, "run_harness", status="running"),
        line("something_new", 1.75, "tä", 1, None, long=LONG, n=[1, 1.0]),
        line("phase_finished", 2.5, "tä", 1, "run_harness", status="completed"),
        line("attempt_finished", 3.000001, "tä", 1, status="completed"),
        line("phase_started", 3.5, "tä", 2, "evaluate", status="running"),
    ]
    return Probe(
        "agentcompass-progress",
        lines(found),
        times=[T0 * SECOND, (T0 + 1) * SECOND, (T0 + 1) * SECOND + 250_000_000, (T0 + 3) * SECOND + 1000],
        texts=[LONG, "something_new"],
        shorter=lines(found[:6]),
    )


def atif() -> Probe:
    """A trajectory of version 1.6: observations answer out of order, one call is not answered, metrics stand on the step and in the sums."""

    def call(id: str, name: str, arguments: Any) -> dict[str, Any]:
        return {"tool_call_id": id, "function_name": name, "arguments": arguments}

    metrics = {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 60}
    record = {
        "schema_version": "ATIF-v1.6",
        "session_id": "probe",
        "agent": {"name": "ä", "version": "1", "model_name": "m"},
        "steps": [
            {
                "step_id": 1,
                "timestamp": "2026-09-21T14:13:20.000000Z",
                "source": "user",
                "message": [{"type": "text", "text": ASK}, {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}],
            },
            {
                "step_id": 2,
                "timestamp": "2026-09-21T14:13:21.250000Z",
                "source": "agent",
                "message": "Löök",
                "model_name": "m",
                "tool_calls": [call("call_a", "weather", A), call("call_b", "lookup", B), call("call_c", "lookup", C)],
                "observation": {
                    "results": [
                        {"source_call_id": "call_b", "content": WRONG, "extra": {"is_error": True}},
                        {"source_call_id": "call_a", "content": LONG},
                    ]
                },
                "metrics": metrics,
                "extra": {"unknown": SECRET},
            },
        ],
        "final_metrics": {"total_prompt_tokens": 100, "total_completion_tokens": 20, "total_cached_tokens": 60, "total_steps": 2},
        "extra": {"something": [1, 1.0]},
    }
    return Probe(
        "atif",
        dumped(record),
        # ATIF has no mark of its own for a failed call (SimLab's is extra.is_error), and what a step asks for without an observation was not
        # executed, as far as the record says: it stays in the message.
        calls=_calls()[:2],
        tokens=(100, 20),
        times=[T0 * SECOND, T0 * SECOND + 1_250_000_000],
        texts=[LONG, ASK, "unknown", "never answered"],
    )


def otlp_json() -> Probe:
    """Somebody's spans: children first, a trace state, an unknown field, structured arguments, usage on the agent's span too."""

    def kv(key: str, value: Any) -> dict[str, Any]:
        return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}

    def span(n: int, name: str, parent: int | None, start: int, end: int, attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {
            "traceId": "5b8efff798038103d269b633813fc60c",
            "spanId": f"{n:016x}",
            **({"parentSpanId": f"{parent:016x}"} if parent else {}),
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(T0 * SECOND + start),
            "endTimeUnixNano": str(T0 * SECOND + end) if end else "0",
            "attributes": [kv(k, v) for k, v in attributes.items()],
            **more,
        }

    def tool(n: int, id: str, name: str, args: Any, result: str | None, start: int, end: int, **more: Any) -> dict[str, Any]:
        said = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": id,
            "gen_ai.tool.call.arguments": json.dumps(args),
        }
        if result is not None:
            said["gen_ai.tool.call.result"] = result
        return span(n, f"execute_tool {name}", 1, start, end, said, **more)

    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.input.messages": json.dumps(
            [
                {
                    "role": "user",
                    "parts": [
                        {"type": "text", "content": ASK},
                        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": IMAGE},
                    ],
                }
            ]
        ),
        "odd.attribute": "ü",
    }
    found = [
        span(2, "chat m", 1, 5, 1_000_000_007, chat, traceState="a=1", kind=3),
        tool(3, "call_b", "lookup", B, WRONG, 1_000_000_008, 2_000_000_001, status={"code": 2, "message": WRONG}),
        tool(4, "call_a", "weather", A, LONG, 1_000_000_008, 3_000_000_000, newField={"x": SECRET}),
        tool(5, "call_c", "lookup", C, None, 1_000_000_009, 0, status={"code": 2}),
        span(
            1,
            "invoke_agent ä",
            None,
            1,
            3_000_000_003,
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "ä", "gen_ai.usage.input_tokens": 100},
        ),
    ]

    def line(*spans: Any) -> dict[str, Any]:
        return {
            "resourceSpans": [
                {
                    "resource": {"attributes": [kv("service.name", "shop")]},
                    "scopeSpans": [{"scope": {"name": "other"}, "spans": list(spans)}],
                }
            ]
        }

    return Probe(
        "otlp-json",
        lines([line(*found[:2]), line(*found[2:])]),
        calls=_calls(),
        tokens=(100, 20),
        times=[T0 * SECOND + 5, T0 * SECOND + 1_000_000_007, T0 * SECOND + 2_000_000_001],
        texts=[LONG, ASK, "odd.attribute"],
        shorter=lines([line(*found[:2])]),
    )


PROBES = (runartifacts, agno, agno_events, progress, atif, otlp_json)
