"""Counting: what `spanport stats` prints. One pass, memory bounded by the number of names, not of spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from ..converters.model import KINDS, Attempt, Item, ModelRequest, ToolCall, TraceHeader, Usage, kind_of

TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")
BAD_OUTCOMES = ("error", "rejected", "aborted")


class Totals(Struct):
    """Counts over one or more inputs. `as_dict` is the stable JSON of ``stats --json``."""

    inputs: int = 0
    traces: int = 0
    spans: dict[str, int] = {}
    errors: dict[str, int] = {}
    tokens: dict[str, int] = {}
    first: int | None = None
    last: int | None = None
    clock: dict[str, int] = {}
    warnings: int = 0

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


def _add(counts: dict[str, int], usage: Usage) -> None:
    for name in TOKENS:
        if (n := getattr(usage, name)) is not None:
            counts[name] = counts.get(name, 0) + n


def count(items: Iterable[Item], totals: Totals) -> None:
    """Add ``items`` to ``totals``. Tokens come from model requests, and from an attempt's roll-up when none of the requests under it has any;
    those of reused spans (work of an older run) are not this run's and are not counted."""
    parents: dict[str, str | None] = {}
    counted: set[str] = set()
    rollups: dict[str, Usage] = {}
    for item in items:
        if isinstance(item, TraceHeader):
            totals.traces += 1
            continue
        kind = kind_of(item)
        totals.spans[kind] = totals.spans.get(kind, 0) + 1
        bad = item.outcome in BAD_OUTCOMES if isinstance(item, ToolCall) else item.status == "error"
        if bad:
            totals.errors[kind] = totals.errors.get(kind, 0) + 1
        totals.clock[item.clock] = totals.clock.get(item.clock, 0) + 1
        if item.start is not None:
            totals.first = item.start if totals.first is None else min(totals.first, item.start)
            end = item.end if item.end is not None else item.start
            totals.last = end if totals.last is None else max(totals.last, end)
        if isinstance(item, ModelRequest):
            if item.usage is not None and not item.reused:
                _add(totals.tokens, item.usage)
                if item.parent_id is not None:
                    counted.add(item.parent_id)
        else:
            if not isinstance(item, ToolCall):
                parents[item.id] = item.parent_id
            if isinstance(item, Attempt) and item.usage is not None and not item.reused:
                rollups[item.id] = item.usage
    covered: set[str] = set()
    for span in counted:
        up: str | None = span
        while up is not None and up not in covered:
            covered.add(up)
            up = parents.get(up)
    for attempt, usage in rollups.items():
        if attempt not in covered:
            _add(totals.tokens, usage)


def add(one: Totals, two: Totals) -> Totals:
    """Two totals as one; the window spans both."""

    def merge(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        return {k: a.get(k, 0) + b.get(k, 0) for k in [*a, *(k for k in b if k not in a)]}

    return Totals(
        inputs=one.inputs + two.inputs,
        traces=one.traces + two.traces,
        spans=merge(one.spans, two.spans),
        errors=merge(one.errors, two.errors),
        tokens=merge(one.tokens, two.tokens),
        first=min((x for x in (one.first, two.first) if x is not None), default=None),
        last=max((x for x in (one.last, two.last) if x is not None), default=None),
        clock=merge(one.clock, two.clock),
        warnings=one.warnings + two.warnings,
    )
