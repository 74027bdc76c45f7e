"""Every field of Agno's documented tables has a home: typed, or kept in a span's ``source``. The list is fixtures/agno/fields.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spanport

FIELDS = json.loads((Path(__file__).parent.parent / "fixtures" / "agno" / "fields.json").read_text())
MARK = "mark-of-this-field"
NUMBER = 7_654_321
NOW = 1_800_000_000

MESSAGE = {"role": "user", "content": MARK, "created_at": NOW}
TOOL = {"tool_call_id": "c", "tool_name": "t", "tool_args": {}, "result": MARK, "tool_call_error": False}
RECORD = {"run_id": "inner", "agent_id": "b", "content": MARK, "status": "COMPLETED", "session_id": "s"}
EVENT = {"event": "CustomEvent", "run_id": "r", "created_at": NOW, "marked": MARK}

# Values for fields whose shape matters; all others get the mark (or a number, where the type is one).
SHAPED: dict[str, Any] = {
    "messages": [MESSAGE],
    "additional_input": [MESSAGE],
    "reasoning_messages": [MESSAGE],
    "reasoning_steps": [{"title": MARK}],
    "tools": [TOOL],
    "tool": TOOL,
    "events": [EVENT],
    "requirements": [{"id": MARK, "tool_execution": {"tool_call_id": "c", "tool_name": "t"}}],
    "input": {"input_content": MARK},
    "run_input": {"input_content": MARK},
    "metrics": {"input_tokens": 1, "output_tokens": 1, "details": {"model": [{"id": MARK}]}},
    "status": "PAUSED",
    "created_at": NOW,
    "nested_depth": 0,
    "workflow_agent": True,
    "step_index": 3,
    "session_state": {MARK: 1},
    "metadata": {MARK: 1},
    "model_provider_data": {"id": MARK},
    "citations": {"raw": MARK},
    "references": [{"query": MARK, "references": [], "time": 0.1}],
    "followups": [MARK],
    "images": [{"id": MARK}],
    "videos": [{"id": MARK}],
    "audio": [{"id": MARK}],
    "files": [{"id": MARK}],
    "image": {"id": MARK},
    "response_audio": {"id": MARK},
    "additional_data": {"x": MARK},
    "session_summary": {"summary": MARK},
    "memories": [{"memory": MARK}],
    "time_to_first_token": 0.7654321,
}
SAID_BY_NAME = {
    "status": "paused",
    "nested_depth": "",
    "created_at": str(NOW),
    "workflow_agent": "workflow_agent",
    "step_index": "3",
    "event": "",
}
SAID_BY_NAME |= {"time_to_first_token": "7654321"}


def value(name: str, kind: str) -> Any:
    if name in SHAPED:
        return SHAPED[name]
    if kind.startswith(("int", "Optional[int]", "Optional[float]")):
        return NUMBER
    return MARK


def said(name: str, given: Any) -> str:
    return SAID_BY_NAME.get(name, str(NUMBER) if given == NUMBER else MARK)


def everything(traces: list[Any]) -> str:
    assert traces
    return b"\n".join(msgspec.json.encode(x) for t in traces for x in (t.header, *t.spans)).decode()


@pytest.mark.parametrize(("name", "kind"), FIELDS["RunOutput"])
def test_fields_of_a_record(name: str, kind: str) -> None:
    given = value(name, kind)
    record = {"run_id": "r", "agent_id": "a", "session_id": "s", "content": "x", "status": "COMPLETED", "created_at": NOW, name: given}
    text = everything(spanport.read(json.dumps(record).encode(), format="agno"))
    assert said(name, given) in text


def around(name: str) -> tuple[list[str], list[str]]:
    """Events that stand before and after one of this name, as Agno has them."""
    before, after = ["RunStarted"], ["RunCompleted"]
    if name == "RunStarted":
        before = []
    elif name in ("RunCompleted", "RunError"):
        after = []
    elif name in ("RunContent", "RunIntermediateContent", "ModelRequestCompleted"):
        before.append("ModelRequestStarted")
    elif name.endswith("Completed") and name not in ("RunContentCompleted", "ToolCallCompleted"):
        before.append(name.removesuffix("Completed") + "Started")
    elif name in ("ToolCallCompleted", "ToolCallError"):
        before.append("ToolCallStarted")
    elif name == "RunCancelled":
        after = ["RunCompleted"]
    if name in ("RunContent", "RunIntermediateContent", "ModelRequestStarted"):
        after = ["ModelRequestCompleted", *after]
    if name in ("ToolCallStarted",):
        after = ["ToolCallCompleted", *after]
    return before, after


def stream(name: str, field: str, given: Any) -> bytes:
    base = {"created_at": NOW, "agent_id": "a", "run_id": "r", "session_id": "s", "nested_depth": 0}
    tool = {"tool_call_id": "c", "tool_name": "t", "tool_args": {}}
    more = {"ToolCallStarted": {"tool": tool}, "ToolCallCompleted": {"tool": {**tool, "result": "x"}}, "ToolCallError": {"tool": tool}}
    before, after = around(name)
    events = [{**base, "event": e, **more.get(e, {})} for e in before]
    events.append({**base, **more.get(name, {}), field: given, "event": name})
    events += [{**base, "event": e, **more.get(e, {})} for e in after]
    return b"".join(json.dumps(e).encode() + b"\n" for e in events)


@pytest.mark.parametrize(("event", "name", "kind"), [(e, n, k) for e, fields in FIELDS["events"].items() for n, k in fields])
def test_fields_of_an_event(event: str, name: str, kind: str) -> None:
    given = value(name, kind)
    text = everything(spanport.read(stream(event, name, given), format="agno-events"))
    assert said(name, given) in text


@pytest.mark.parametrize(("name", "kind"), FIELDS["Base"])
def test_fields_of_every_event(name: str, kind: str) -> None:
    if name in ("run_id", "parent_run_id", "workflow_run_id", "step_id", "step_name", "workflow_id", "step_index"):
        return test_fields_that_place_an_event()
    given = value(name, kind)
    text = everything(
        spanport.read(
            stream("RunStarted", name, given)
            if name != "tools"
            else stream("RunPaused", name, [{**TOOL, "result": None, "tool_name": MARK}]),
            format="agno-events",
        )
    )
    assert said(name, given) in text
    return None


def test_fields_that_place_an_event() -> None:
    """Those that say which run, parent and step it is: the tree has them."""
    base = {"created_at": NOW, "session_id": "s", "nested_depth": 0}
    events = [
        {**base, "event": "WorkflowStarted", "workflow_id": "w", "workflow_name": "flow", "run_id": "W"},
        {
            **base,
            "event": "StepStarted",
            "workflow_id": "w",
            "workflow_name": "flow",
            "run_id": "W",
            "step_id": "S",
            "step_name": "step",
            "step_index": 3,
        },
        {
            **base,
            "event": "TeamRunStarted",
            "team_id": "t",
            "run_id": "T",
            "workflow_id": "w",
            "workflow_run_id": "W",
            "step_id": "S",
            "step_name": "step",
            "step_index": 3,
        },
        {
            **base,
            "event": "RunStarted",
            "agent_id": "a",
            "run_id": "A",
            "parent_run_id": "T",
            "workflow_id": "w",
            "workflow_run_id": "W",
            "step_id": "S",
        },
    ]
    (trace,) = spanport.read(b"".join(json.dumps(e).encode() + b"\n" for e in events), format="agno-events")
    by_id = {s.id: s for s in trace.spans}
    member = next(s for s in trace.spans if s.key == "A")
    chain = []
    while member.parent_id:
        member = by_id[member.parent_id]
        chain.append(member.key)
    assert chain == ["attempt/1", "T", "step/S/0", "attempt/1", "W"]
    assert next(s for s in trace.spans if s.key == "step/S/0").attributes["agno.step.index"] == 3


def test_the_list_is_whole() -> None:
    assert (len(FIELDS["RunOutput"]), len(FIELDS["Base"]), len(FIELDS["events"])) == (40, 15, 35)
