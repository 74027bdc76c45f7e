"""SimLab's own ATIF (``extra.simlab``) back into the record it was made from.

SimLab pairs calls with results by a cursor, so that under concurrency and after unknown tools the names, arguments and results of a step belong to
other calls (fixture `atif_unknown_tool`). Its ``extra.raw_message`` and ``extra.tool_message`` are right: the messages come from these, and a
``raw_observation`` belongs to the call whose summary equals its text, wherever in the file it stands.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from .. import jsonio
from ..errors import Report
from ..model import ABSENT, raw
from .document import Document, items

SYNTHETIC: Final = ("run_status", "verifier")
"""Steps that the writer made up from the run's status and verdict."""


def is_simlab(fields: dict[str, Raw]) -> bool:
    """Whether a trajectory was written by SimLab."""
    return bool(jsonio.fields(jsonio.fields(fields.get("extra", ABSENT)).get("simlab", ABSENT)))


def _message(role: str, content: Any, stamp: Raw) -> Raw:
    found = {"role": role, "content": content}
    if stamp and not jsonio.is_null(stamp):
        found["timestamp"] = stamp
    return raw(found)


def _step(step: Raw, messages: list[Raw], calls: list[Raw], results: list[Raw]) -> None:
    fields = jsonio.fields(step)
    extra = jsonio.fields(fields.get("extra", ABSENT))
    if jsonio.text(extra.get("kind", ABSENT)) in SYNTHETIC:
        return
    origin = jsonio.text(fields.get("source", ABSENT)) or ""
    found = jsonio.fields(fields.get("observation", ABSENT)).get("results", ABSENT)
    answers = items(found, "steps", Report()) if found else []
    if raw_message := extra.get("raw_message", ABSENT):
        messages.append(raw_message)
    elif asked := fields.get("tool_calls", ABSENT):
        content = {"content": fields.get("message") or "", "tool_calls": [_nested(c) for c in items(asked, "steps", Report())]}
        messages.append(_message("assistant", content, extra.get("raw_timestamp", ABSENT)))
    elif not (origin == "system" and answers):
        role = {"agent": "assistant"}.get(origin, origin)
        messages.append(_message(role, fields.get("message") or "", extra.get("raw_timestamp", ABSENT)))
    for answer in answers:
        inside = jsonio.fields(jsonio.fields(answer).get("extra", ABSENT))
        if told := inside.get("tool_message", ABSENT):
            messages.append(raw({"role": "tool", "content": told}))
        if "raw_observation" in inside:
            calls.append(raw({"tool_server": inside.get("tool_server"), "tool_name": inside.get("tool_name")}))
            results.append(raw({"observation": inside["raw_observation"], "is_error": inside.get("is_error", False)}))


def _nested(call: Raw) -> dict[str, Any]:
    fields = jsonio.fields(call)
    server = jsonio.text(jsonio.fields(fields.get("extra", ABSENT)).get("tool_server", ABSENT))
    name = jsonio.text(fields.get("function_name", ABSENT)) or ""
    arguments = jsonio.minify(fields["arguments"]).decode() if fields.get("arguments") else "{}"
    wire = f"{server}__{name}" if server else name
    return {"id": fields.get("tool_call_id"), "type": "function", "function": {"name": wire, "arguments": arguments}}


def document(fields: dict[str, Raw], report: Report) -> Document:
    """The record behind a trajectory for which `is_simlab` is true."""
    extra = jsonio.fields(fields["extra"])
    simlab = jsonio.fields(extra["simlab"])
    agent = jsonio.fields(fields.get("agent", ABSENT))
    messages: list[Raw] = []
    calls: list[Raw] = []
    results: list[Raw] = []
    for step in items(fields.get("steps", ABSENT), "steps", report):
        _step(step, messages, calls, results)
    known: dict[str, Raw] = {
        "model": agent.get("model_name", ABSENT),
        "provider": jsonio.fields(agent.get("extra", ABSENT)).get("provider", ABSENT),
        "error": simlab.pop("run_error", ABSENT),
        **{k: v for k, v in simlab.items() if k != "verifier"},
    }
    rest = {
        "agent": fields.get("agent", ABSENT),
        "session_id": fields.get("session_id", ABSENT),
        "final_metrics": fields.get("final_metrics", ABSENT),
    }
    known["atif"] = Raw(msgspec.json.encode({k: v for k, v in rest.items() if v}))
    verifier = simlab.get("verifier", ABSENT)
    return Document(
        fields={k: v for k, v in known.items() if v},
        messages=messages,
        calls=calls,
        results=results,
        atif=True,
        agent=jsonio.text(agent.get("name", ABSENT)) or None,
        verifier=verifier,
    )
