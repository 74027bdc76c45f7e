"""A run as the events that Agno would have streamed: each attempt's turns in order, what runs inside a call or a step between its two events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Raw

from .. import jsonio, model
from ..errors import Report
from ..model import ABSENT, AnySpan, Attempt, Event, ModelRequest, Phase, Run, ToolCall
from ..units import Unit
from . import wire
from .workflow import ENDS, STARTS
from .write import Tree, identity, record, step

_ENDS: Final = {kind: name for name, kind in ENDS.items()}
_STARTS: Final = {kind: name for name, kind in STARTS.items()}
_FIRST: Final = frozenset({"parallel_step_count", "condition_result", "max_iterations", "selected_steps", "steps_count"})
"""What a block says when it begins (and again when it ends)."""
FINAL: Final = (
    "reasoning_content", "citations", "model_provider_data", "images", "videos", "audio", "files", "response_audio", "references", "additional_input",
    "reasoning_steps", "reasoning_messages", "metadata", "metrics", "session_state",
)  # fmt: skip
"""Fields of a record that its RunCompleted repeats."""
_BETWEEN: Final = ("references", "reasoning_steps", "reasoning_messages", "additional_input", "citations")
_AGAIN: Final = ("content", "memories", "session_summary", "followups")


def events(tree: Tree, span: AnySpan, u: Unit | None, report: Report) -> Iterator[dict[str, Any]]:
    """All events of the run that ``span`` is, and of those inside it."""
    yield from _Stream(tree, report).run(span, u, {})


def stored(tree: Tree, span: AnySpan, u: Unit | None, report: Report, source: dict[str, Raw], empty: bool) -> list[dict[str, Any]]:
    """The events that a record keeps: no content, but for a workflow's."""
    if empty:
        return []
    workflow = isinstance(span, Run) and span.type == "workflow"
    skip = () if workflow else ("RunContent", "TeamRunContent", "RunIntermediateContent", "TeamRunIntermediateContent")
    return [e for e in events(tree, span, u, report) if e["event"] not in skip]


class _Stream:
    def __init__(self, tree: Tree, report: Report) -> None:
        self.tree, self.report = tree, report

    def run(self, span: AnySpan, u: Unit | None, around: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Events of one run. ``around``: what the workflow step around it adds to each of them."""
        kind = span.type if isinstance(span, Run) else "agent"
        kind = "agent" if kind == "benchmark" else kind
        who = identity(span, u)
        base = {f"{kind}_id": who.get(f"{kind}_id", ""), f"{kind}_name": who.get(f"{kind}_name", ""), "run_id": who["run_id"]}
        wire.put(base, "session_id", who.get("session_id"))
        parent = self._parent(span)
        if parent is not None and kind != "workflow":
            base["parent_run_id"] = parent
        base |= {k: v for k, v in around.items() if kind != "workflow" or k == "nested_depth"}
        base.setdefault("nested_depth", 0)
        said = Speaker(base, "Team" if kind == "team" else "")
        hidden = span.attributes.get("agno.events_hidden")
        if hidden is not None:
            if hidden == "but the last":
                yield from self._end(said, span, kind)
            elif hidden == "but content":
                for r in self.tree.within(span):
                    if isinstance(r, ModelRequest) and r.chunks:
                        yield from self._chunks(said, r)
            return
        tries = sorted((s for s in self.tree.below.get(span.id, []) if isinstance(s, Attempt)), key=lambda a: a.number)
        inner: list[tuple[Attempt | None, list[AnySpan]]] = [(t, self.tree.below.get(t.id, [])) for t in tries]
        if not inner:
            inner = [(span if isinstance(span, Attempt) else None, self.tree.below.get(span.id, []))]
        if isinstance(span, Run):
            for e in span.events:
                yield _event(e, base)
        for i, (attempt, below) in enumerate(inner):
            yield from self._attempt(said, span, attempt, below, kind, i + 1 == len(inner))
        yield from self._end(said, span, kind)

    def _parent(self, span: AnySpan) -> str | None:
        at = self.tree.by_id.get(span.parent_id or "")
        steps = 0
        while at is not None and steps < 1000:
            if isinstance(at, Run):
                return (at.native_id or at.id) if at.type != "workflow" else None
            at, steps = self.tree.by_id.get(at.parent_id or ""), steps + 1
        return None

    def _attempt(
        self, said: Speaker, span: AnySpan, t: Attempt | None, below: list[AnySpan], kind: str, last: bool
    ) -> Iterator[dict[str, Any]]:
        start = t.start if t is not None else span.start
        continued = t is not None and any(x.type == "continuation_of" for x in t.links)
        more = {k: v for k, v in (t.source if t is not None else {}).items() if k not in ("model", "model_provider")}
        loose = list(t.events) if t is not None else []
        hooks = [p for p in below if isinstance(p, Phase) and p.key.split("/")[1:2] in (["PreHook"], ["Compaction"])]
        for p in hooks:
            yield from self._phase(said, p, kind)
        if kind == "workflow" and continued:
            for e in [e for e in loose if e.name.endswith("Continued")]:
                loose.remove(e)
                yield _event(e, said.base)
        elif kind == "workflow":
            yield said("WorkflowStarted", start, more)
        elif continued:
            yield said("RunContinued", start, more)
        else:
            shown: dict[str, Any] = {}
            wire.put(shown, "model", getattr(span, "model", None) or next((r.model for r in below if isinstance(r, ModelRequest)), None))
            wire.put(
                shown,
                "model_provider",
                wire.display(getattr(span, "provider", None) or next((r.provider for r in below if isinstance(r, ModelRequest)), None)),
            )
            yield said("RunStarted", start, {**shown, **more})
        requests = [s for s in below if isinstance(s, ModelRequest) and not s.key.startswith("extra/")]
        requests.sort(
            key=lambda r: (int(n) if (n := r.key.rpartition("/")[2]).isdigit() and r.key.startswith("request/") else 0, r.start or 0)
        )
        ids = {r.id for r in requests}
        of: dict[str | None, list[ToolCall]] = {}
        rest: list[AnySpan] = []
        for s in below:
            if isinstance(s, ToolCall):
                of.setdefault(s.requested_by if s.requested_by in ids else None, []).append(s)
            elif isinstance(s, Phase | Run) and s not in hooks and not (kind == "workflow" and isinstance(s, Run)):
                rest.append(s)
        yield from self._calls(said, of.pop(None, []))
        for r in requests:
            yield from self._before(said, rest, loose, r.start, kind)
            yield from self._request(said, r)
            yield from self._calls(said, of.get(r.id, []))
        final: list[AnySpan] = [
            p
            for p in rest
            if isinstance(p, Phase) and p.key.split("/")[1:2] not in (["Followups"], ["ParserModelResponse"], ["OutputModelResponse"])
        ]
        yield from self._before(said, [p for p in rest if p not in final], loose, None, kind)
        ended = getattr(span, "ending", None) or ("error" if span.status == "error" else "completed")
        if kind != "workflow" and last and ended == "completed" and requests:
            yield from self._loose(said, loose, None)
            yield said("RunContentCompleted", span.end, {})
        yield from self._before(said, final, loose, None, kind)
        if not last and t is not None and t.ending == "paused" and isinstance(span, Run) and kind != "workflow":
            yield said("RunPaused", t.end, {k: v for k, v in span.source.items() if k == "requirements"})

    def _before(self, said: Speaker, rest: list[AnySpan], loose: list[Event], start: int | None, kind: str) -> Iterator[dict[str, Any]]:
        """Phases, and events without a span, that came before ``start``."""
        for p in list(rest):
            if start is None or (p.start is not None and p.start < start):
                rest.remove(p)
                yield from self._loose(said, loose, p.start)
                if isinstance(p, Phase):
                    yield from self._phase(said, p, kind)
                elif isinstance(p, Run):
                    yield from self.run(p, None, {})
        yield from self._loose(said, loose, start)

    def _loose(self, said: Speaker, loose: list[Event], until: int | None) -> Iterator[dict[str, Any]]:
        while loose and (until is None or loose[0].time is None or (wire.second(loose[0].time) or 0) < (wire.second(until) or 0)):
            yield _event(loose.pop(0), said.base)

    def _request(self, said: Speaker, r: ModelRequest) -> Iterator[dict[str, Any]]:
        shown: dict[str, Any] = {}
        wire.put(shown, "model", r.model)
        wire.put(shown, "model_provider", wire.display(r.provider))
        if not r.inferred:
            yield said("ModelRequestStarted", r.start, shown)
        yield from self._chunks(said, r)
        if r.status == "error" or r.unfinished or r.inferred:
            return
        u = r.usage or model.Usage()
        done = {
            **shown,
            "input_tokens": u.input or 0,
            "output_tokens": u.output or 0,
            "total_tokens": u.total if u.total is not None else (u.input or 0) + (u.output or 0),
            "reasoning_tokens": u.reasoning or 0,
            "cache_read_tokens": u.cache_read or 0,
            "cache_write_tokens": u.cache_write or 0,
        }
        if r.time_to_first_token is not None:
            done["time_to_first_token"] = wire.number(r.time_to_first_token)
        done.update((k, v) for k, v in r.source.items() if k in ("model", "model_provider", "time_to_first_token"))
        yield said("ModelRequestCompleted", r.end, done)

    def _chunks(self, said: Speaker, r: ModelRequest) -> Iterator[dict[str, Any]]:
        text = "".join(p.content for m in r.output_messages for p in m.parts if isinstance(p, model.TextPart))
        thought = "".join(p.content for m in r.output_messages for p in m.parts if isinstance(p, model.ReasoningPart))
        shared: dict[str, Any] = {k: r.source[k] for k in ("model_provider_data", *_BETWEEN) if k in r.source}
        if not shared and r.response_id is not None and r.chunks:
            shared = {"model_provider_data": {"id": r.response_id}}
        chunks = r.chunks or ([model.Chunk(time=r.end, length=len(text))] if text and "metrics" not in r.source else [])
        at = {"content": 0, "reasoning": 0}
        for c in chunks:
            piece = (text if c.part == "content" else thought)[at[c.part] : at[c.part] + c.length]
            at[c.part] += c.length
            content = {"content": piece if c.part == "content" else ""} if c.part == "content" else {}
            yield said(
                "RunContent",
                c.time if c.time is not None else r.end,
                {
                    **content,
                    "workflow_agent": False,
                    "content_type": "str",
                    "reasoning_content": piece if c.part == "reasoning" else "",
                    **shared,
                    **c.source,
                },
            )

    def _calls(self, said: Speaker, calls: list[ToolCall]) -> Iterator[dict[str, Any]]:
        """Calls that overlap begin together and end in the order in which they began; others one after the other."""
        shown = [c for c in calls if wire.executed(c) and c.outcome != "pending" and not (c.outcome == "aborted" and c.start is None)]
        groups: list[list[ToolCall]] = []
        for c in shown:
            if groups and c.start is not None and any(o.end is not None and c.start < o.end for o in groups[-1]):
                groups[-1].append(c)
            else:
                groups.append([c])
        for group in groups:
            for c in group:
                yield said("ToolCallStarted", c.start, {"tool": wire.begun(c)})
            for c in group:
                for e in c.events:
                    yield _event(e, said.base)
                for inner in self.tree.below.get(c.id, []):
                    if isinstance(inner, Run):
                        yield from self.run(inner, None, {k: v for k, v in said.base.items() if k in _PLACE})
                if c.unfinished:
                    continue
                extra = {k: v for k, v in c.source.items() if k in ("images", "videos", "audio", "files")}
                yield said("ToolCallCompleted", c.end, {"content": c.source.get("completed", _completed(c)), **extra, "tool": wire.tool(c)})
                if c.outcome == "error":
                    yield said("ToolCallError", c.end, {"tool": wire.tool(c), "error": c.error.message if c.error is not None else None})

    def _phase(self, said: Speaker, p: Phase, kind: str) -> Iterator[dict[str, Any]]:
        if kind == "workflow" and (p.type in _STARTS or p.type == "iteration"):
            yield from self._step(said, p)
            return
        if p.type in ("wait", "retrieval"):  # worked out from other fields
            return
        parts = p.key.split("/")
        stem = parts[1] if len(parts) > 1 and parts[0] == "phase" else None
        if stem is None or not stem.isidentifier():
            if any(self.tree.below.get(p.id, [])):  # of another format: only what is in it has events
                yield from self._inside(said, p, kind)
            return
        name = "pre_hook_name" if stem == "PreHook" else "post_hook_name" if stem == "PostHook" else None
        shown: dict[str, Any] = {name: p.name} if name is not None else {}
        wire.put(shown, "run_input", p.input)
        first = {k: v for k, v in p.source.items() if k in ("iteration", "max_iterations")}
        yield said(f"{stem}Started", p.start, {**shown, **first})
        if p.unfinished:
            return
        output = {"MemoryUpdate": "memories", "SessionSummary": "session_summary", "Followups": "followups"}.get(stem, "content")
        done = {**shown, **p.source}
        wire.put(done, output, p.output)
        yield said(f"{stem}Completed", p.end, done)

    def _inside(self, said: Speaker, p: Phase, kind: str) -> Iterator[dict[str, Any]]:
        for s in self.tree.below.get(p.id, []):
            if isinstance(s, ModelRequest):
                yield from self._request(said, s)
            elif isinstance(s, ToolCall):
                yield from self._calls(said, [s])
            elif isinstance(s, Run):
                yield from self.run(s, None, {})
            elif isinstance(s, Phase):
                yield from self._phase(said, s, kind)

    def _step(self, said: Speaker, p: Phase) -> Iterator[dict[str, Any]]:
        """A step or block of a workflow with what ran in it."""
        above = self.tree.by_id.get(p.parent_id or "")
        if isinstance(above, Phase) and above.type == "iteration":
            above = self.tree.by_id.get(above.parent_id or "")
        block = p if p.type != "iteration" else self.tree.by_id.get(p.parent_id or "")
        parts = (block.key if isinstance(block, Phase) else p.key).split("/")
        step_id = parts[1] if len(parts) == 3 and parts[0] == "step" else None
        place: dict[str, Any] = {}
        wire.put(place, "step_id", step_id)
        if p.type != "iteration" and isinstance(above, Phase):
            up = above.key.split("/")
            wire.put(place, "parent_step_id", up[1] if len(up) == 3 else None)
        holder = block if isinstance(block, Phase) else p
        place["step_name"] = holder.name
        index = holder.source.get("step_index")
        wire.put(place, "step_index", index)
        first = {k: v for k, v in p.source.items() if k in _FIRST or k == "iteration"}
        stem = "LoopIterationStarted" if p.type == "iteration" else _STARTS.get(p.type or "step", "StepStarted")
        yield said(stem, p.start, {**place, **first})
        around = {k: v for k, v in place.items() if k != "parent_step_id"}
        around = {"workflow_id": said.base.get("workflow_id", ""), "workflow_run_id": said.base.get("run_id"), **around, "nested_depth": 0}
        inner = list(self.tree.below.get(p.id, []))
        if p.type == "parallel":
            inner.sort(key=lambda s: (s.end is None, s.end or 0))
        for s in inner:
            if isinstance(s, Phase):
                yield from self._step(said, s)
            elif isinstance(s, Run):
                yield from self.run(s, None, around)
        for e in p.events:
            yield _event(e, {**said.base, **place})
        if (
            p.unfinished
            or (p.error is not None and "step_response" not in p.source)
            or (any(e.name == "StepOutput" for e in p.events) and "step_response" not in p.source)
        ):
            return
        done: dict[str, Any] = {k: v for k, v in p.source.items() if k != "step_index"}
        if p.type == "iteration":
            wire.put(done, "iteration_results", p.output)
            yield said("LoopIterationCompleted", p.end, {**place, **done})
            return
        if "parent_step_id" in place and p.type == "step":
            place = {k: v for k, v in place.items() if k != "step_id"}
        if p.type == "step":
            wire.put(done, "content", p.output)
            done.setdefault("content_type", "str")
            done.setdefault("step_response", step(self.tree, p))
        elif p.type == "loop":
            wire.put(done, "all_results", p.output)
        else:
            wire.put(done, "step_results", p.output)
        yield said(_ENDS.get(p.type or "step", "StepCompleted"), p.end, {**place, **done})

    def _end(self, said: Speaker, span: AnySpan, kind: str) -> Iterator[dict[str, Any]]:
        """The terminal event, or the two of a cancelled run."""
        ended = getattr(span, "ending", None) or ("error" if span.status == "error" else None if span.unfinished else "completed")
        source = span.source if isinstance(span, Run) else {}
        if ended in (None, "running", "pending"):
            return
        content: dict[str, Any] = {}
        wire.put(content, "content", getattr(span, "output", ABSENT))
        shown: dict[str, Any] = {k: v for k, v in source.items() if k in FINAL or k in ("content_type",)}
        if ended in ("error", "failed"):
            text = span.error.message if span.error is not None else None
            more = {k: v for k, v in source.items() if k in ("error_id", "additional_data")}
            wire.put(more, "error_type", span.error.type if span.error is not None else None)
            yield said(
                "WorkflowError" if kind == "workflow" else "RunError",
                span.end,
                {"error" if kind == "workflow" else "content": text, **more},
            )
            return
        if ended == "paused":
            if kind != "workflow":
                waiting = [wire.tool(c) for c in self.tree.within(span) if isinstance(c, ToolCall)]
                yield said("RunPaused", span.end, {**content, "tools": waiting, **{k: v for k, v in source.items() if k == "requirements"}})
            return
        if ended == "cancelled":
            text = span.error.message if span.error is not None else None
            yield said(
                "WorkflowCancelled" if kind == "workflow" else "RunCancelled", span.end, {**content, "reason": source.get("reason", text)}
            )
        content["content_type"] = "str"
        if kind == "workflow":
            whole = record(self.tree, span, None, self.report) if "stored_events" not in source else {}
            results: dict[str, Any] = {k: whole[k] for k in ("step_results", "step_executor_runs") if k in whole}
            yield said("WorkflowCompleted", span.end, {**content, **results, **shown})
            for t in self.tree.below.get(span.id, []):  # the agent that drives it, whose own events are not shown
                for driver in [s for s in self.tree.below.get(t.id, []) if isinstance(s, Run)]:
                    last: dict[str, Any] = {"run_id": driver.native_id or driver.id}
                    wire.put(last, "content", driver.output)
                    yield said("WorkflowAgentCompleted", driver.end, last)
            return
        if kind == "team":
            members = [record(self.tree, r, None, self.report) for r in self.tree.within(span) if isinstance(r, Run)]
            if members:
                shown["member_responses"] = members
        yield said("RunCompleted", span.end, {**content, **shown})


_PLACE: Final = frozenset({"workflow_id", "workflow_run_id", "step_id", "step_name", "step_index", "nested_depth"})


class Speaker:
    """Makes the events of one run: its base fields, and the prefix of a team's."""

    def __init__(self, base: dict[str, Any], prefix: str) -> None:
        self.base, self.prefix = base, prefix

    def __call__(self, name: str, at: int | None, payload: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        wire.put(out, "created_at", wire.second(at))
        out["event"] = self.prefix + name
        out.update(self.base)
        out.update(payload)
        return out


def _event(e: Event, base: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    wire.put(out, "created_at", wire.second(e.time))
    out["event"] = e.name
    out.update(base)
    said: dict[str, Any] = dict(e.source) or {k.removeprefix("agno."): v for k, v in e.attributes.items()}
    out.update(said)
    return out


def _completed(c: ToolCall) -> str:
    took = (c.end - c.start) / 1e9 if c.start is not None and c.end is not None else 0.0
    arguments = ", ".join(f"{k}={jsonio.value(v)}" for k, v in jsonio.fields(c.arguments).items())
    return f"{c.name}({arguments}) completed in {took:.4f}s. "
