"""Write Agno: RunOutput and its team and workflow kin, and run events as JSON Lines, from any format's spans.

A run that was read from Agno comes back with what its ``source`` kept. From other formats: who ran, the input and the output, messages and tools, counts and
times as far as they are known; nothing is made up. One run is one object; several are an array (events: one stream after the other).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Raw

from .. import jsonio
from ..errors import Report
from ..model import ABSENT, AnySpan, Attempt, Item, Message, ModelRequest, Phase, Run, ToolCall, Usage
from ..registry import WriteOptions
from ..units import Unit, traces, units
from . import wire

_encode = msgspec.json.Encoder().encode
_INSIDE: Final = frozenset({"step", "steps", "loop", "parallel", "condition", "router", "workflow", "iteration"})
STEP_KEYS: Final = (
    "content", "step_name", "step_id", "step_type", "executor_type", "executor_name", "step_run_id", "images", "videos", "audio", "files",
    "metrics", "success", "error", "stop", "is_paused",
)  # fmt: skip
_STATUS: Final = {
    "completed": "COMPLETED",
    "error": "ERROR",
    "failed": "ERROR",
    "cancelled": "CANCELLED",
    "paused": "PAUSED",
    "killed": "CANCELLED",
}


class Tree:
    """The spans of a unit by parent, siblings by start."""

    def __init__(self, spans: list[AnySpan]) -> None:
        self.by_id = {s.id: s for s in spans}
        self.below: dict[str | None, list[AnySpan]] = {}
        for s in spans:
            self.below.setdefault(s.parent_id, []).append(s)
        for group in self.below.values():
            group.sort(key=lambda s: (s.start is None, s.start or 0))

    def within(self, top: AnySpan) -> list[AnySpan]:
        """Everything under ``top`` down to, and with, the runs inside it, whose own insides are theirs."""
        found: list[AnySpan] = []
        stack = list(reversed(self.below.get(top.id, [])))
        while stack:
            one = stack.pop()
            found.append(one)
            if not isinstance(one, Run):
                stack.extend(reversed(self.below.get(one.id, [])))
        return found


def write(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions) -> None:
    """RunOutput JSON: one object for one run, an array for several."""
    found = [record(Tree(u.spans), top(u), u, report) for header, spans in traces(items) for u in units(header, spans) if u.spans]
    if not found:
        report.note("nothing", "no run in it", "lost")
        return
    out.write(_encode(found[0] if len(found) == 1 else found) + b"\n")


def write_events(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions) -> None:
    """Run events, one a line."""
    from .write_events import events

    some = False
    for header, spans in traces(items):
        for u in units(header, spans):
            if not u.spans:
                continue
            some = True
            for event in events(Tree(u.spans), top(u), u, report):
                text = _encode(event)
                out.write((msgspec.json.format(text, indent=-1) if b"\n" in text else text) + b"\n")  # what is carried may be laid out
    if not some:
        report.note("nothing", "no run in it", "lost")


def top(u: Unit) -> AnySpan:
    """The span that becomes the record: the unit's run; an attempt of a benchmark run; else whatever holds the rest."""
    inside = {s.id for s in u.spans}
    roots = [s for s in u.spans if s.parent_id not in inside]
    if u.run is not None and u.run.id in inside:
        return u.run
    return next((s for s in roots if isinstance(s, Attempt)), roots[0] if roots else u.spans[0])


def identity(span: AnySpan, u: Unit | None) -> dict[str, Any]:
    """The owner's id and name, the run and the session."""
    out: dict[str, Any] = {}
    if isinstance(span, Run):
        kind = {"benchmark": "agent"}.get(span.type, span.type)
        name: str | None = span.name or None
        put_id = span.agent_id or (slug(name) if name and not span.source else None)
        run_id = span.native_id or span.id
        session, user = span.conversation_id, span.user_id
    else:
        kind, name = (
            "agent",
            getattr(span, "agent", None) or (u.run.name if u is not None and u.run is not None else None) or span.name or None,
        )
        put_id, run_id = slug(name), span.id
        session, user = getattr(span, "conversation_id", None), None
    out["run_id"] = run_id
    wire.put(out, f"{kind}_id", put_id if put_id is not None or kind != "agent" else slug(name))
    wire.put(out, f"{kind}_name", name)
    wire.put(out, "session_id", session)
    wire.put(out, "user_id", user)
    return out


def slug(name: str | None) -> str | None:
    return "-".join(name.lower().split()) if name else None


def status(span: AnySpan) -> str:
    """Agno's word for how a run ended."""
    ending = getattr(span, "ending", None)
    if ending is not None:
        return _STATUS.get(
            ending,
            ending.upper() if isinstance(span, Run) and "created_at" in span.source else "ERROR" if span.status == "error" else "COMPLETED",
        )
    if span.unfinished or span.end is None:
        return "RUNNING"
    return "ERROR" if span.status == "error" else "COMPLETED"


def last_attempts(spans: list[AnySpan], span: AnySpan) -> list[AnySpan]:
    """Spans of the attempts whose messages a record holds: the last one, and those that it continues."""
    tries = sorted((s for s in spans if isinstance(s, Attempt) and s.parent_id == span.id), key=lambda a: a.number)
    dropped: set[str] = set()
    for i, t in enumerate(tries):
        if any(x.type == "retry_of" for x in t.links):
            dropped = {a.id for a in tries[:i]}
    return [s for s in spans if s.parent_id not in dropped]


def _number(key: str) -> tuple[int, int]:
    kind, _, n = key.partition("/")
    return (0 if kind in ("request", "extra") else 1, int(n) if n.isdigit() else 0)


def record(tree: Tree, span: AnySpan, u: Unit | None, report: Report) -> dict[str, Any]:
    """``to_dict()`` of the run that ``span`` is."""
    inside = tree.within(span)
    source = span.source if isinstance(span, Run) else {}
    calls = [s for s in inside if isinstance(s, ToolCall)]
    requests = [s for s in inside if isinstance(s, ModelRequest)]
    runs = [s for s in inside if isinstance(s, Run)]
    workflow = isinstance(span, Run) and span.type == "workflow"
    out = identity(span, u)
    content = getattr(span, "output", ABSENT)
    if not content and requests and not source:
        last = requests[-1].output_messages
        content = next((p.content for m in last for p in m.parts if hasattr(p, "content") and isinstance(p.content, str)), None)
    if span.error is not None and not content and not source:
        content = span.error.message
    wire.put(out, "content", content)
    out["content_type"] = "str" if not isinstance(content, Raw) or jsonio.text(content) is not None else "dict"
    if isinstance(span, Run) and not workflow:
        wire.put(out, "model", span.model or (requests[0].model if requests else None))
        wire.put(out, "model_provider", wire.display(span.provider or (requests[0].provider if requests else None)))
    elif requests and not workflow:
        wire.put(out, "model", requests[0].model)
        wire.put(out, "model_provider", wire.display(requests[0].provider))
    wire.put(out, "created_at", wire.second(span.start))
    out["status"] = status(span)
    given = getattr(span, "input", ABSENT)
    if given and "input" not in source:
        out["input"] = given if workflow else {"input_content": given}
    if not source:
        _totals(out, span, requests)
    if not workflow:
        said = _messages(last_attempts(inside, span), span, calls)
        if said:
            out["messages"] = said
        executions = [wire.tool(c) for c in sorted(calls, key=lambda c: (c.end is None, c.end or 0)) if wire.executed(c)]
        if executions or ("created_at" in source and "metrics" in source and not _streamed(requests)):
            out["tools"] = executions
    _nested(out, tree, span, runs, inside, report)
    marked = dict(source)
    kept = marked.pop("stored_events", None)
    if kept is not None:
        from .write_events import stored

        out["events"] = stored(tree, span, u, report, marked, bytes(kept) == b"0")
    out.update(marked)
    return out


def _streamed(requests: list[ModelRequest]) -> bool:
    return bool(requests) and not any(
        "duration" in jsonio.fields(m.source.get("metrics", ABSENT)) for r in requests for m in r.output_messages
    )


def _totals(out: dict[str, Any], span: AnySpan, requests: list[ModelRequest]) -> None:
    total: Usage | None = None
    for r in requests:
        if r.usage is not None and not r.reused:
            total = wire.add(total or Usage(), r.usage)
    total = total or getattr(span, "usage", None)
    metrics: dict[str, Any] = wire.usage(total) if total is not None else {}
    if span.start is not None and span.end is not None:
        metrics["duration"] = wire.number(span.end - span.start)
    if metrics:
        out["metrics"] = metrics


def _messages(inside: list[AnySpan], span: AnySpan, calls: list[ToolCall]) -> list[dict[str, Any]]:
    """All messages of the run in order: what each request added, and what it gave; then what came after the last."""
    answers = {c.call_id: c for c in calls if c.call_id is not None}
    tries = {s.id: s for s in inside if isinstance(s, Attempt)}
    order = {a.id: a.number for a in tries.values()}
    requests = [s for s in inside if isinstance(s, ModelRequest)]
    if all(r.key.partition("/")[0] in ("request", "extra") for r in requests):
        requests.sort(
            key=lambda r: (
                order.get(r.parent_id or "", 0),
                r.output_messages[0].time or 0 if r.output_messages else r.start or 0,
                _number(r.key),
            )
        )
    found: list[dict[str, Any]] = []
    for r in requests:
        if r.system_instructions and not found:
            found.append(wire.message(Message(role="system", parts=r.system_instructions), None, answers))
        found += [wire.message(m, None, answers) for m in r.input_messages]
        found += [wire.message(m, r, answers) for m in r.output_messages]
    for t in sorted(tries.values(), key=lambda a: a.number):
        found += [wire.message(m, None, answers) for m in t.messages]
    if isinstance(span, Attempt):
        found += [wire.message(m, None, answers) for m in span.messages]
    seen = {i for m in found if isinstance(i := m.get("tool_call_id"), str)}
    if not isinstance(span, Run) or not span.source:  # the answers to a last turn that no request read
        for c in calls:
            if c.result and c.call_id is not None and c.call_id not in seen and found:
                found.append(
                    {
                        "content": wire.text_result(c.result),
                        "from_history": False,
                        "stop_after_tool_call": False,
                        "role": "tool",
                        "tool_call_id": c.call_id,
                        "tool_name": c.name,
                        "tool_call_error": c.outcome == "error",
                    }
                )
    return found


def _nested(out: dict[str, Any], tree: Tree, span: AnySpan, runs: list[Run], inside: list[AnySpan], report: Report) -> None:
    """Members of a team, executors and results of a workflow. A run inside an agent has no place in its record."""
    kind = span.type if isinstance(span, Run) else "agent"
    if kind == "team":
        out["member_responses"] = [record(tree, r, None, report) for r in runs if r.status != "error" or not r.source.get("error_type")]
    elif kind == "workflow":
        driver = [
            r
            for r in runs
            if r.type == "agent" and "workflow_step_id" not in r.source and r.parent_id and isinstance(tree.by_id.get(r.parent_id), Attempt)
        ]
        executors = [r for r in runs if r not in driver]
        if executors:
            out["step_executor_runs"] = [
                record(tree, r, None, report) for r in sorted(executors, key=lambda r: (r.end is None, r.end or 0))
            ]
        if driver:
            out["workflow_agent_run"] = record(tree, driver[0], None, report)
        results = [
            step(tree, p)
            for p in inside
            if isinstance(p, Phase) and p.type in _INSIDE and isinstance(tree.by_id.get(p.parent_id or ""), Attempt | Run)
        ]
        if results:
            out["step_results"] = results
    elif runs:
        report.loss("nested runs", "dropped", len(runs), "an agent's record has no place for the runs inside its tools")


def step(tree: Tree, p: Phase) -> Any:
    """``StepOutput`` of a step or block, with those inside it."""
    if "step_response" in p.source:
        return p.source["step_response"]
    below: list[Any] = []
    for s in tree.below.get(p.id, []):
        if isinstance(s, Phase) and s.type == "iteration":
            below += [step(tree, x) for x in tree.below.get(s.id, []) if isinstance(x, Phase) and x.type in _INSIDE]
        elif isinstance(s, Phase) and s.type in _INSIDE:
            below.append(step(tree, s))
    out: dict[str, Any] = dict.fromkeys(STEP_KEYS)
    wire.put(out, "content", p.output)
    out["step_name"] = p.name
    kind = p.type or "step"
    out["step_type"] = kind.capitalize()
    ran = next((s for s in tree.below.get(p.id, []) if isinstance(s, Run)), None)
    if ran is not None:
        out |= {"executor_type": ran.type, "executor_name": ran.name, "step_run_id": ran.native_id}
    out |= {"success": p.error is None, "stop": False, "is_paused": False}
    wire.put(out, "error", p.error.message if p.error is not None else None)
    out.update((k, v) for k, v in p.source.items() if k in STEP_KEYS)
    if below:
        out["steps"] = below
    return out


__all__ = ["Tree", "identity", "record", "status", "step", "top", "write", "write_events"]
