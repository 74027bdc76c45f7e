"""Counting: what `spanport stats` prints. One pass over the spans; memory is bounded by the number of names, not of tool calls and requests.

`Totals` is the stable summary; `Group` is a row of a table by run, tool, model, phase or task. Both can be added, so that inputs may be
counted in different processes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from msgspec import Struct, field

from ..converters.errors import Report
from ..converters.inputs import Input, inputs_of, items
from ..converters.model import KINDS, AnySpan, Attempt, Item, ModelRequest, Phase, Run, Task, ToolCall, TraceHeader, Usage, kind_of
from .batch import Tally, alone

TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")
BAD_OUTCOMES = ("error", "rejected", "aborted")
TABLES: Final = ("run", "task", "phase", "model", "tool")

_EXACT = 2000
"""So many durations of one name are kept as they are; more become a histogram whose buckets are 1 percent wide."""
_LOG = math.log(1.02)


class Times(Struct):
    """Durations (ns) of one name. Made-up times (clock ``synthetic``) are not in it; ``derived`` counts those that were worked out."""

    count: int = 0
    derived: int = 0
    total: int = 0
    longest: int = 0
    exact: list[int] = field(default_factory=list)
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, ns: int, derived: bool) -> None:
        self.count += 1
        self.derived += derived
        self.total += ns
        self.longest = max(self.longest, ns)
        self.exact.append(ns)
        if len(self.exact) > _EXACT:
            self._fold()

    def merge(self, other: Times) -> None:
        self.count += other.count
        self.derived += other.derived
        self.total += other.total
        self.longest = max(self.longest, other.longest)
        self.exact.extend(other.exact)
        for bucket, n in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + n
        if self.buckets or len(self.exact) > _EXACT:
            self._fold()

    def _fold(self) -> None:
        for ns in self.exact:
            bucket = math.ceil(math.log(ns) / _LOG) if ns > 0 else -1
            self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.exact.clear()

    def percentile(self, share: float) -> int | None:
        """The smallest duration that at least ``share`` (0 to 1) of all do not exceed; to 1 percent when there were many."""
        rank = max(1, math.ceil(share * self.count))
        if not self.count:
            return None
        if not self.buckets:
            return sorted(self.exact)[rank - 1]
        if self.exact:
            self._fold()
        for bucket in sorted(self.buckets):
            rank -= self.buckets[bucket]
            if rank <= 0:
                return min(self.longest, round(1.02 ** (bucket - 0.5))) if bucket >= 0 else 0
        return self.longest


class Group(Struct):
    """A row of a table: spans of one name (or one run, or one task) and what belongs to them. Of a run or a task, ``errors`` are requests and
    calls that failed, ``broken`` the attempts that ended in an error (``passed`` and ``failed`` are verdicts)."""

    count: int = 0
    errors: int = 0
    times: Times = field(default_factory=Times)
    tokens: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    requests: int = 0
    calls: int = 0
    attempts: int = 0
    passed: int = 0
    failed: int = 0
    broken: int = 0
    ending: str | None = None
    input: str | None = None

    def merge(self, other: Group) -> None:
        self.count += other.count
        self.errors += other.errors
        self.times.merge(other.times)
        for name, n in other.tokens.items():
            self.tokens[name] = self.tokens.get(name, 0) + n
        if other.cost is not None:
            self.cost = (self.cost or 0) + other.cost
        self.requests += other.requests
        self.calls += other.calls
        self.attempts += other.attempts
        self.passed += other.passed
        self.failed += other.failed
        self.broken += other.broken
        self.ending = self.ending or other.ending
        self.input = self.input or other.input


class Totals(Struct):
    """Counts over one or more inputs. `as_dict` is the stable JSON of ``stats --json``."""

    inputs: int = 0
    traces: int = 0
    spans: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    first: int | None = None
    last: int | None = None
    clock: dict[str, int] = field(default_factory=dict)
    warnings: int = 0
    tables: dict[str, dict[str, Group]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Keys as documented in the README; a token kind that no span states is left out."""
        known = self.first is not None and self.last is not None
        return {
            "inputs": self.inputs,
            "traces": self.traces,
            "spans": {k: self.spans.get(k, 0) for k in KINDS},
            "errors": {k: self.errors.get(k, 0) for k in KINDS},
            "tokens": {k: self.tokens[k] for k in TOKENS if k in self.tokens},
            "duration_seconds": ((self.last or 0) - (self.first or 0)) / 1e9 if known else None,
            "clock": {k: self.clock.get(k, 0) for k in ("recorded", "derived", "synthetic")},
            "warnings": self.warnings,
        }

    def merge(self, other: Totals) -> None:
        """Take over what another one counted; the window spans both."""
        self.inputs += other.inputs
        self.traces += other.traces
        self.warnings += other.warnings
        for mine, theirs in (
            (self.spans, other.spans),
            (self.errors, other.errors),
            (self.tokens, other.tokens),
            (self.clock, other.clock),
        ):
            for key, n in theirs.items():
                mine[key] = mine.get(key, 0) + n
        self.first = min((x for x in (self.first, other.first) if x is not None), default=None)
        self.last = max((x for x in (self.last, other.last) if x is not None), default=None)
        for table, groups in other.tables.items():
            known = self.tables.setdefault(table, {})
            for name, group in groups.items():
                if name in known:
                    known[name].merge(group)
                else:
                    known[name] = group

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """The rows of one table, as JSON-able objects, the most frequent first (runs in their order). Times in seconds; what the source
        does not state is null."""
        groups = self.tables.get(table, {})
        order = list(groups.items())
        if table != "run":
            order.sort(key=lambda pair: (-pair[1].count, -pair[1].times.total, pair[0]))
        for name, group in order:
            yield dict(_columns(table, name, group))


def stats(source: Any, *, format: str | None = None, tally: Tally | None = None) -> Totals:
    """Count what is in ``source`` (see `spanport.export`), over all inputs together. ``tally``: how they went, and how many processes do it; without one an input
    that can't be read raises ReadError."""
    totals, tally = Totals(), tally or alone()
    with tally:
        for outcome in tally.each(partial(_counted, format), inputs_of(source, format)):
            assert outcome.result is not None
            totals.merge(outcome.result)
            totals.warnings += outcome.report.warnings
    return totals


def _counted(format: str | None, one: Input, report: Report) -> Totals:
    totals = Totals(inputs=1)
    count(items(one, report, format), totals, str(one))
    return totals


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _columns(table: str, name: str, group: Group) -> Iterator[tuple[str, Any]]:
    times = group.times
    yield table, name.rpartition("\0")[2] if table == "run" else name
    if table == "run":
        yield "trace", name.partition("\0")[0]
        yield "input", group.input
        yield "ending", group.ending
        yield "spans", group.count
    elif table == "task":
        yield "attempts", group.attempts
        yield "passed", group.passed
        yield "failed", group.failed
        yield "broken", group.broken
    else:
        yield {"phase": "count", "model": "requests", "tool": "calls"}[table], group.count
    yield "errors", group.errors
    if table in ("run", "task"):
        yield "requests", group.requests
        yield "calls", group.calls
    if table in ("run", "task", "model"):
        for kind in ("input", "output", "cache_read", "reasoning"):
            yield f"{kind}_tokens", group.tokens.get(kind)
        yield "cost", group.cost
    if table in ("run", "task"):
        yield "seconds", _seconds(times.total) if times.count else None
    else:
        yield "p50_seconds", _seconds(times.percentile(0.5))
        yield "p95_seconds", _seconds(times.percentile(0.95))
        yield "max_seconds", _seconds(times.longest) if times.count else None
        yield "total_seconds", _seconds(times.total) if times.count else None
    yield "derived_times", times.derived


def bad(span: AnySpan) -> bool:
    """Whether a span counts as an error."""
    return span.outcome in BAD_OUTCOMES if isinstance(span, ToolCall) else span.status == "error"


def _tokens(counts: dict[str, int], usage: Usage) -> None:
    for name in TOKENS:
        if (n := getattr(usage, name)) is not None:
            counts[name] = counts.get(name, 0) + n


class _Leaves(Struct, gc=False):
    """Model requests and tool calls directly under one span."""

    requests: int = 0
    calls: int = 0
    errors: int = 0
    spans: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    cost: float | None = None


def count(items: Iterable[Item], totals: Totals, input: str | None = None) -> None:
    """Add ``items`` (of ``input``) to ``totals``. Tokens come from model requests, and from an attempt's roll-up when none of the requests under it
    has any; those of reused spans (work of an older run) are not this run's and are not counted."""
    parents: dict[str, str | None] = {}
    tops: dict[str, tuple[str, Group]] = {}  # spans that have a row of their own in a table by run or task
    leaves: dict[str, _Leaves] = {}
    counted: set[str] = set()
    rollups: dict[str, Usage] = {}
    attempts: list[Attempt] = []
    tables = totals.tables
    for item in items:
        if isinstance(item, TraceHeader):
            totals.traces += 1
            continue
        kind = kind_of(item)
        totals.spans[kind] = totals.spans.get(kind, 0) + 1
        wrong = bad(item)
        if wrong:
            totals.errors[kind] = totals.errors.get(kind, 0) + 1
        totals.clock[item.clock] = totals.clock.get(item.clock, 0) + 1
        if item.start is not None:
            totals.first = item.start if totals.first is None else min(totals.first, item.start)
            end = item.end if item.end is not None else item.start
            totals.last = end if totals.last is None else max(totals.last, end)
        group: Group | None = None
        if isinstance(item, ModelRequest):
            group = _group(tables, "model", item.model or item.response_model or item.name or "(not stated)")
            if item.usage is not None and not item.reused:
                _tokens(totals.tokens, item.usage)
                _tokens(group.tokens, item.usage)
                if item.usage.cost is not None:
                    group.cost = (group.cost or 0) + item.usage.cost
                if item.parent_id is not None:
                    counted.add(item.parent_id)
        elif isinstance(item, ToolCall):
            group = _group(tables, "tool", item.name)
        else:
            parents[item.id] = item.parent_id
            if isinstance(item, Phase):
                group = _group(tables, "phase", item.name)
            elif isinstance(item, Attempt):
                attempts.append(item)
                if item.usage is not None and not item.reused:
                    rollups[item.id] = item.usage
            elif isinstance(item, Task):
                group = _group(tables, "task", item.native_id or item.name)
                tops[item.id] = ("task", group)
            elif isinstance(item, Run) and item.parent_id is None:
                group = _group(tables, "run", f"{item.trace_id}\0{input or ''}\0{item.name}")
                group.input, group.ending = input, item.ending or (item.status if item.status != "unset" else None)
                tops[item.id] = ("run", group)
        if group is not None:
            group.count += item.id not in tops or tops[item.id][0] != "run"
            group.errors += wrong and not isinstance(item, Task | Run)
            if item.start is not None and item.end is not None and item.clock != "synthetic":
                group.times.add(item.end - item.start, item.clock == "derived")
        _leaf(leaves, item, wrong)
    covered: set[str] = set()
    for span in counted:
        up: str | None = span
        while up is not None and up not in covered:
            covered.add(up)
            up = parents.get(up)
    for attempt, usage in rollups.items():
        if attempt not in covered:
            _tokens(totals.tokens, usage)
            under = leaves.setdefault(attempt, _Leaves())
            _tokens(under.tokens, usage)
            if usage.cost is not None:
                under.cost = (under.cost or 0) + usage.cost
    for parent, under in leaves.items():
        for _, group in _above(parent, parents, tops):
            group.requests += under.requests
            group.calls += under.calls
            group.errors += under.errors
            for name, n in under.tokens.items():
                group.tokens[name] = group.tokens.get(name, 0) + n
            if under.cost is not None:
                group.cost = (group.cost or 0) + under.cost
        for table, group in _above(parent, parents, tops):
            group.count += under.spans if table == "run" else 0
    for one in attempts:
        for table, group in _above(one.id, parents, tops):
            if table == "task":
                group.attempts += 1
                group.passed += one.verdict == "pass"
                group.failed += one.verdict == "fail"
                group.broken += bad(one)


def _leaf(leaves: dict[str, _Leaves], item: AnySpan, wrong: bool) -> None:
    """Add one span to what stands directly under its parent (a span with a row of its own: under itself)."""
    home = item.parent_id if item.parent_id is not None else item.id
    under = leaves.get(home)
    if under is None:
        under = leaves[home] = _Leaves()
    under.spans += 1
    if isinstance(item, ModelRequest):
        under.requests += 1
        under.errors += wrong
        if item.usage is not None and not item.reused:
            _tokens(under.tokens, item.usage)
            if item.usage.cost is not None:
                under.cost = (under.cost or 0) + item.usage.cost
    elif isinstance(item, ToolCall):
        under.calls += 1
        under.errors += wrong


def _above(span: str, parents: dict[str, str | None], tops: dict[str, tuple[str, Group]]) -> Iterator[tuple[str, Group]]:
    """The rows that a span belongs to, from itself upwards."""
    up: str | None = span
    seen: set[str] = set()
    while up is not None and up not in seen:
        seen.add(up)
        if up in tops:
            yield tops[up]
        up = parents.get(up)


def _group(tables: dict[str, dict[str, Group]], table: str, name: str) -> Group:
    groups = tables.setdefault(table, {})
    group = groups.get(name)
    if group is None:
        group = groups[name] = Group()
    return group
