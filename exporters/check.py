"""Looking a record over: what `spanport check` tells. One pass; holds ids of spans and calls, no content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct, field

from ..converters import registry
from ..converters.convert import losses
from ..converters.errors import Loss, Notice, Report
from ..converters.inputs import Input, inputs_of, items, open_input, recognised
from ..converters.model import KINDS, AnySpan, Item, ModelRequest, ToolCall, ToolCallPart, TraceHeader, kind_of
from ..converters.source import Source
from ..converters.stages.choose import choose
from .batch import Tally, alone

CLOCKS = ("recorded", "derived", "synthetic")

ODD = {
    "duplicate-id": "spans share their id with another one",
    "no-parent": "spans name a parent that is not there",
    "backwards": "spans end before they start",
    "outside-parent": "spans lie outside of their parent's time, though the source states both",
    "unfinished": "spans have no end",
    "no-time": "spans have no time",
    "unanswered": "tool calls have no answer (pending or aborted)",
    "not-taken-up": "tool calls that a model asked for and nothing took up",
    "nobody-asked": "tool calls that no model request asks for",
    "no-usage": "model requests state no tokens",
    "no-model": "model requests name no model",
}
"""What can be odd about spans, and how it is told (after a number)."""
NOTES = frozenset({"nobody-asked", "no-usage", "no-model"})
"""What is worth knowing, and no more: whole formats do not state it."""


class Odd(Struct, omit_defaults=True):
    """One kind of oddity: how often, and the first span of it."""

    count: int = 0
    example: str | None = None


class Checked(Struct, kw_only=True):
    """What was found in one input."""

    input: str = ""
    format: str = ""
    why: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    families: list[str] = field(default_factory=list)
    traces: int = 0
    spans: dict[str, int] = field(default_factory=dict)
    clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    odd: dict[str, Odd] = field(default_factory=dict)
    notices: dict[str, int] = field(default_factory=dict)
    first: list[Notice] = field(default_factory=list)
    lost: int = 0
    warnings: int = 0
    """Notices that something is odd or lost."""
    target: str | None = None
    losses: list[Loss] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The object that ``check --json`` prints."""
        found: dict[str, Any] = {
            "input": self.input,
            "format": self.format,
            "recognised": self.why,
            "families": self.families,
            "versions": self.versions,
            "traces": self.traces,
            "spans": {k: self.spans.get(k, 0) for k in KINDS},
            "clocks": {k: {c: n for c in CLOCKS if (n := self.clocks[k].get(c))} for k in KINDS if k in self.clocks},
            "odd": {k: {"count": o.count, "example": o.example} for k, o in self.odd.items()},
            "notices": self.notices,
            "first_notices": [
                {"code": n.code, "severity": n.severity, "line": n.line, "byte": n.byte, "path": n.path, "message": n.message}
                for n in self.first
            ],
            "lost": self.lost,
        }
        if self.target is not None:
            found["target"] = self.target
            found["losses"] = [{"field": x.field, "fate": x.fate, "count": x.count, "reason": x.reason} for x in self.losses]
        return found

    @property
    def dropped(self) -> int:
        """How many values the target would not hold."""
        return sum(x.count for x in self.losses if x.fate == "dropped")


def check(
    source: Any, *, format: str | None = None, to: str | None = None, carry: bool = True, tally: Tally | None = None
) -> Iterator[Checked]:
    """Look each input of ``source`` (see `spanport.export`) over. ``to``: tell also what would be lost on the way to this format, with or without a ``carry``.
    ``tally``: how they went; without one an input that can't be read raises ReadError."""
    if to is not None:
        registry.get(to)
    tally = tally or alone()
    with tally:
        for outcome in tally.each(partial(_checked, format, to, carry), inputs_of(source, format), told=False):
            assert outcome.result is not None
            yield outcome.result


def _checked(format: str | None, to: str | None, carry: bool, one: Input, report: Report) -> Checked:
    found = Checked(input=str(one), format=format or "")
    source = open_input(one)
    if to is not None and source.stream is not None:  # it is read twice
        source = Source(source.name, content=bytes(source.data()))
    if fits := recognised(one, source, format):
        found.format, found.why = format or fits[0][0].name, fits[0][1].why
    for _ in watch(choose(items(source, report, format), one.choice), found):
        pass
    if to is not None:
        stages = [partial(choose, choice=one.choice)] if one.choice else ()
        told = losses(source if one.name == "-" else open_input(one), to, from_=format, carry=carry, stages=stages)
        found.target = to
        found.losses = sorted(told.losses.values(), key=lambda x: (x.fate, -x.count, x.field))
    conclude(report, found)
    return found


def watch(items: Iterable[Item], found: Checked) -> Iterator[Item]:
    """Pass ``items`` on, and put into ``found`` what there is to say when they end."""
    spans: dict[tuple[str, str], tuple[int | None, int | None, bool, str | None, str]] = {}
    asked: dict[tuple[str, str], str] = {}
    executed: set[tuple[str, str]] = set()
    for item in items:
        yield item
        if isinstance(item, TraceHeader):
            _header(item, found)
            continue
        kind = kind_of(item)
        found.spans[kind] = found.spans.get(kind, 0) + 1
        by_clock = found.clocks.setdefault(kind, {})
        by_clock[item.clock] = by_clock.get(item.clock, 0) + 1
        key = (item.trace_id, item.id)
        name = item.name or item.key
        if f"{kind} " not in name:  # "attempt 0" and "geo_7 attempt 1" say it
            name = f"{kind.replace('_', ' ')} {name}"
        if key in spans:
            _odd(found, "duplicate-id", name)
        spans[key] = (item.start, item.end, item.clock == "recorded", item.parent_id, name)
        for code in _alone(item):
            _odd(found, code, name)
        if isinstance(item, ToolCall) and item.call_id is not None:
            executed.add((item.trace_id, item.call_id))
        if isinstance(item, ModelRequest):
            for message in item.output_messages:
                for part in message.parts:
                    if isinstance(part, ToolCallPart) and part.id is not None:
                        asked[item.trace_id, part.id] = f"call {part.id} of {part.name}"
    for (trace, _), (start, end, recorded, parent, name) in spans.items():
        if parent is None:
            continue
        above = spans.get((trace, parent))
        if above is None:
            _odd(found, "no-parent", name)
        elif recorded and above[2]:
            early = start is not None and above[0] is not None and start < above[0]
            late = end is not None and above[1] is not None and end > above[1]
            if early or late:
                _odd(found, "outside-parent", name)
    for call, name in asked.items():
        if call not in executed:
            _odd(found, "not-taken-up", name)


def _header(header: TraceHeader, found: Checked) -> None:
    found.traces += 1
    if header.family not in found.families:
        found.families.append(header.family)
    for key, value in header.resource.items():
        if "version" in key and isinstance(value, str | int | float):
            found.versions[key] = str(value)
    for key, raw in header.source.items():
        if "version" in key and raw and len(bytes(raw)) < 100:
            found.versions[key] = bytes(raw).decode("utf-8", "replace").strip('"')


def _alone(span: AnySpan) -> Iterator[str]:
    """What is odd about a span by itself."""
    if span.start is None:
        yield "no-time"
    elif span.end is None:
        yield "unfinished"
    elif span.end < span.start:
        yield "backwards"
    if isinstance(span, ToolCall):
        if span.outcome in ("pending", "aborted"):
            yield "unanswered"
        if span.requested_by is None:
            yield "nobody-asked"
    if isinstance(span, ModelRequest):
        if span.usage is None:
            yield "no-usage"
        if not (span.model or span.response_model or span.name):
            yield "no-model"


def _odd(found: Checked, code: str, example: str) -> None:
    known = found.odd.get(code)
    if known is None:
        known = found.odd[code] = Odd(example=example)
    known.count += 1


def conclude(report: Report, found: Checked, most: int = 20) -> None:
    """What the readers told, by code, and the first ones with their places."""
    for (code, severity), n in report.counts.items():
        found.notices[code] = found.notices.get(code, 0) + n
        found.lost += n if severity == "lost" else 0
    found.warnings = report.warnings
    found.first = sorted(report.notices, key=lambda n: n.severity == "info")[:most]
