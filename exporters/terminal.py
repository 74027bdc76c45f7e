"""A trace as a tree in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from ..converters.conventions.gen_ai import name_and_kind
from ..converters.model import AnySpan, Artifact, ModelRequest, Trace, kind_of

_WORDS = {"model_request": "request", "tool_call": "tool"}


def duration(ns: int) -> str:
    """A span's length for people: 12 µs, 3.4 ms, 1.25 s, 2 m 03 s, 1 h 05 m."""
    if ns < 1_000_000:
        return f"{ns / 1000:.0f} µs"
    if ns < 1_000_000_000:
        return f"{ns / 1e6:.1f} ms"
    if ns < 120 * 1_000_000_000:
        return f"{ns / 1e9:.2f} s"
    minutes, seconds = divmod(ns // 1_000_000_000, 60)
    return f"{minutes} m {seconds:02} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} m"


def tree(trace: Trace) -> Iterator[tuple[int, AnySpan]]:
    """Spans depth first, siblings by start, with their depth. A span whose parent is not in the trace stands at the top."""
    ids = {s.id for s in trace.spans}
    below: dict[str | None, list[AnySpan]] = {}
    for span in trace.spans:
        below.setdefault(span.parent_id if span.parent_id in ids else None, []).append(span)
    for group in below.values():
        group.sort(key=lambda s: (s.start is None, s.start or 0))
    stack = [(0, s) for s in reversed(below.get(None, []))]
    while stack:
        depth, span = stack.pop()
        yield depth, span
        stack.extend((depth + 1, s) for s in reversed(below.get(span.id, [])))


def artifact_line(artifact: Artifact) -> str:
    """``artifact #502 chart — Title``, on one line."""
    kind = artifact.type or artifact.mime_type
    words = [f"artifact #{artifact.id}", *([kind] if kind else []), *([f"— {artifact.title}"] if artifact.title else [])]
    return "".join(c if c.isprintable() else " " for c in " ".join(words))[:200]


def lines(trace: Trace) -> Iterator[str]:
    """The tree, one line a span: kind, name, duration, status, tokens."""
    yield f"trace {trace.header.id} · {trace.header.family} · {len(trace.spans)} spans"
    for depth, span in tree(trace):
        parts = [f"{'  ' * depth}{_WORDS.get(kind_of(span), kind_of(span))} {name_and_kind(span)[0]}"]
        if span.start is not None and span.end is not None:
            parts.append(("" if span.clock == "recorded" else "~") + duration(span.end - span.start))
        else:
            parts.append("no end")
        if span.status != "unset":
            parts.append(span.status)
        if isinstance(span, ModelRequest) and span.usage is not None:
            parts.append(
                f"{span.usage.input if span.usage.input is not None else '?'}→{span.usage.output if span.usage.output is not None else '?'} tokens"
            )
        if span.error is not None and span.error.message:
            parts.append(span.error.message.split("\n", 1)[0][:100])
        yield "  ".join(parts)
        for artifact in span.artifacts:
            yield f"{'  ' * (depth + 1)}{artifact_line(artifact)}"
