"""What of a trace becomes one record of a format that holds one run: a whole run, or each attempt of a benchmark run or a set of rollouts.

Works on any format's spans, by kinds and parents alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from .model import AnySpan, Attempt, Item, ModelRequest, Phase, Run, Task, ToolCall, TraceHeader

S = TypeVar("S", ModelRequest, ToolCall)


class Unit(Struct, kw_only=True):
    """One record to be. ``attempt`` is the one that stands for it (the last of a run that was tried again); ``requests`` and ``calls``
    are of all that is below, in the order of their starts; ``spans``: everything, in the order in which it came."""

    header: TraceHeader
    run: Run | None = None
    task: Task | None = None
    attempt: Attempt | None = None
    attempts: list[Attempt] = []
    requests: list[ModelRequest] = []
    calls: list[ToolCall] = []
    phases: list[Phase] = []
    spans: list[AnySpan] = []
    many: bool = False


def in_order(spans: Sequence[S]) -> list[S]:
    """Spans by their starts; one without a start stays behind the one that it came after."""
    keyed: list[tuple[int, S]] = []
    last = -1
    for span in spans:
        last = span.start if span.start is not None else last
        keyed.append((last, span))
    return [span for _, span in sorted(keyed, key=lambda pair: pair[0])]


def traces(items: Iterable[Item]) -> Iterator[tuple[TraceHeader, list[AnySpan]]]:
    """Items gathered by trace, in the order of their headers."""
    headers: dict[str, TraceHeader] = {}
    spans: dict[str, list[AnySpan]] = {}
    for item in items:
        if isinstance(item, TraceHeader):
            headers.setdefault(item.id, item)
            spans.setdefault(item.id, [])
        else:
            spans[item.trace_id].append(item)
    for trace, header in headers.items():
        yield header, spans[trace]


def units(header: TraceHeader, spans: list[AnySpan]) -> Iterator[Unit]:
    """The records that a trace becomes, in the order of its runs and attempts."""
    by_id = {s.id: s for s in spans}
    holders = {s.parent_id for s in spans if isinstance(s, Attempt) and s.agent is not None}
    sets = {s.id for s in spans if isinstance(s, Run) and (s.type == "benchmark" or s.id in holders)}

    def owner(span: AnySpan) -> AnySpan | None:
        """The span whose record this one is in: an attempt of a run of many, else the outermost run, attempt or span."""
        found: AnySpan | None = None
        at: AnySpan | None = span
        steps = 0
        while at is not None and steps < 10_000:
            if isinstance(at, Attempt) and _stands_alone(at, by_id):
                return at
            if at.id not in sets and not isinstance(at, Task):
                found = at
            at = by_id.get(at.parent_id) if at.parent_id is not None else None
            steps += 1
        return found

    groups: dict[str, list[AnySpan]] = {}
    tops: dict[str, AnySpan] = {}
    for span in spans:
        if isinstance(span, Task) or span.id in sets:
            continue
        top = owner(span)
        if top is not None:
            tops[top.id] = top
            groups.setdefault(top.id, []).append(span)
    order = sorted(tops.values(), key=lambda t: (t.start is None, t.start or 0, t.number if isinstance(t, Attempt) else 0))
    alone = [t for t in order if isinstance(t, Attempt)]
    order = sorted(alone, key=lambda t: _place(t, by_id)) + [t for t in order if not isinstance(t, Attempt)] if alone else order
    some = False
    for top in order:
        if isinstance(top, Phase) and not any(isinstance(s, ModelRequest | ToolCall) for s in groups[top.id]):
            continue  # a stretch of a benchmark run outside of its attempts
        some = True
        yield _unit(header, top, groups[top.id], by_id, len(order) > 1)
    if not some and spans:  # a run that ended before its first attempt is a record too, and so is a trace without a run
        run = next((s for s in spans if isinstance(s, Run) and s.parent_id is None), None)
        yield Unit(header=header, run=run, phases=[s for s in spans if isinstance(s, Phase)], spans=spans)


def _place(attempt: Attempt, by_id: dict[str, AnySpan]) -> tuple[int, int, int]:
    task = by_id.get(attempt.parent_id or "")
    index = task.index if isinstance(task, Task) and task.index is not None else 0
    return index, attempt.number, attempt.start or 0


def _stands_alone(attempt: Attempt, by_id: dict[str, AnySpan]) -> bool:
    """Whether an attempt is a record of its own: the agent's invocation under a benchmark, a task, or a set of rollouts."""
    above = by_id.get(attempt.parent_id) if attempt.parent_id is not None else None
    return attempt.agent is not None or above is None or isinstance(above, Task) or (isinstance(above, Run) and above.type == "benchmark")


def _above(span: AnySpan, by_id: dict[str, AnySpan]) -> Iterator[AnySpan]:
    at = by_id.get(span.parent_id) if span.parent_id is not None else None
    steps = 0
    while at is not None and steps < 10_000:
        yield at
        at = by_id.get(at.parent_id) if at.parent_id is not None else None
        steps += 1


def _unit(header: TraceHeader, top: AnySpan, inside: list[AnySpan], by_id: dict[str, AnySpan], many: bool) -> Unit:
    run = top if isinstance(top, Run) else next((s for s in _above(top, by_id) if isinstance(s, Run)), None)
    attempts = [s for s in inside if isinstance(s, Attempt)]
    own = [a for a in attempts if a is top or a.parent_id == top.id]
    own.sort(key=lambda a: a.number)

    return Unit(
        header=header,
        run=run,
        task=next((s for s in _above(top, by_id) if isinstance(s, Task)), None),
        attempt=own[-1] if own else None,
        attempts=own,
        requests=in_order([s for s in inside if isinstance(s, ModelRequest)]),
        calls=in_order([s for s in inside if isinstance(s, ToolCall)]),
        phases=[s for s in inside if isinstance(s, Phase)],
        spans=inside,
        many=many,
    )
