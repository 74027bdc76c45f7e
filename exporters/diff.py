"""What changed between two runs, or two parts of one: spans paired by their stable path, then field by field.

Pairs are made from the roots down. Among the children of a pair, spans of the same kind, key and name belong together; what is left
(call ids differ from run to run) is paired by kind and name, in order. Times never make a difference by themselves unless a tolerance is given.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Raw, Struct, field

from ..converters.api import collect
from ..converters.errors import ReadError, Report, UsageError
from ..converters.history import plain
from ..converters.inputs import NotARun, inputs_of, items
from ..converters.jsonio import value
from ..converters.model import AnySpan, Attempt, Message, ModelRequest, Phase, Run, Task, ToolCall, Trace, Usage, kind_of
from ..converters.source import is_url
from .stats import Totals, count
from .terminal import WORDS, children, label, task_fits

_TOO_LONG = 3000
"""More siblings than this are paired by name and number instead of by their longest common order, whose cost grows with the square."""


class Side(Struct):
    """One of the two things that are compared: its root spans and everything below them."""

    name: str
    roots: list[AnySpan]
    below: dict[str | None, list[AnySpan]]


class Pair(Struct):
    """One span in both, or in one of them. ``changes``: field → (there, here)."""

    path: str
    a: AnySpan | None
    b: AnySpan | None
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def sign(self) -> str:
        return "-" if self.b is None else "+" if self.a is None else "!" if self.changes else " "


class Difference(Struct):
    """What changed from ``a`` to ``b``: pairs of spans, as they are asked for, and the totals of both."""

    pairs: Iterator[Pair]
    a: Totals
    b: Totals


def diff(
    a: Any,
    b: Any,
    *,
    format: str | None = None,
    content: bool = True,
    times: float | None = None,
    reports: Callable[[Report], object] | None = None,
    strict: bool = False,
) -> Difference:
    """Compare two inputs, or parts of them: ``run.jsonl#task=NAME&attempt=2`` (also ``trace=ID``). ``content``: messages, arguments and results count. ``times``: durations that
    differ by more than this part (0.1) count. ``reports`` is told what the readers say. ReadError when one can't be read, or what is picked is not in it."""
    sides = []
    for one in (a, b):
        name, pick = named(one) if isinstance(one, str) else (one, {})
        report = Report(strict=strict)
        traces: list[Trace] = []
        for each in inputs_of(name, format):
            with suppress(NotARun):
                traces += collect(items(each, report, format))
        if reports is not None:
            reports(report)
        found = side(str(one) if isinstance(one, str | Path) else "input", traces, pick)
        sides.append((found, _totals(found)))
    (left, totals_a), (right, totals_b) = sides
    return Difference(compare(left, right, content=content, times=times), totals_a, totals_b)


def named(argument: str) -> tuple[str, dict[str, str]]:
    """``run.jsonl#task=a&attempt=2`` as the input's name and what is picked in it. A file whose name holds a # is that file. UsageError for anything else after the #."""
    name, mark, fragment = argument.rpartition("#")
    if not mark or (not is_url(argument) and os.path.lexists(argument)):
        return argument, {}
    pick = dict(parse_qsl(fragment, keep_blank_values=True))
    if not pick or set(pick) - {"task", "attempt", "trace"}:
        raise UsageError(f"after # in {argument!r} come task=NAME, attempt=N or trace=ID, joined with &")
    return name, pick


def _totals(one: Side) -> Totals:
    totals = Totals(inputs=1)
    count(_walk(one.roots, one.below), totals)
    return totals


def side(name: str, traces: Sequence[Trace], pick: dict[str, str]) -> Side:
    """``pick`` as in ``run.jsonl#task=geo_7&attempt=2`` (and ``trace``). ReadError when it does not fit exactly one span."""
    chosen = [t for t in traces if t.header.id == pick["trace"]] if "trace" in pick else list(traces)
    spans = [s for t in chosen for s in t.spans]
    below = children(spans)
    roots = below.get(None, [])
    if "task" in pick:
        roots = _only([s for s in spans if isinstance(s, Task) and task_fits(s, pick["task"])], f"task {pick['task']}", name)
    if "attempt" in pick:
        inside = list(_walk(roots, below))
        roots = _only(
            [s for s in inside if isinstance(s, Attempt) and str(s.number) == pick["attempt"]], f"attempt {pick['attempt']}", name
        )
    if not roots:
        raise ReadError("no span in it", input=name)
    return Side(name, roots, below)


def _only(found: list[AnySpan], what: str, name: str) -> list[AnySpan]:
    if not found:
        raise ReadError(f"no {what} in it", input=name)
    if len(found) > 1:
        raise ReadError(f"{len(found)} spans fit {what}", input=name, hint="pick the task too: #task=NAME&attempt=N")
    return found


def _walk(roots: list[AnySpan], below: dict[str | None, list[AnySpan]]) -> Iterator[AnySpan]:
    stack = list(reversed(roots))
    while stack:
        span = stack.pop()
        yield span
        stack.extend(reversed(below.get(span.id, [])))


def compare(a: Side, b: Side, *, content: bool = True, times: float | None = None) -> Iterator[Pair]:
    """All pairs, from the roots down, in order. ``times``: by how much (0.1 is 10 percent) two durations may differ."""
    # A single root on either side is the same thing, whatever it is called.
    single = len(a.roots) == len(b.roots) == 1 and type(a.roots[0]) is type(b.roots[0])
    first: list[tuple[AnySpan | None, AnySpan | None]] = [(a.roots[0], b.roots[0])] if single else _pairs(a.roots, b.roots)
    stack = [(one, two, name) for (one, two), name in zip(first, _names(first), strict=True)][::-1]
    while stack:
        one, two, path = stack.pop()
        pair = Pair(path, one, two)
        if one is not None and two is not None:
            pair.changes = dict(_changes(one, two, content, times))
        yield pair
        under = _pairs(a.below.get(one.id, []) if one else [], b.below.get(two.id, []) if two else [])
        stack.extend([(x, y, f"{path}/{name}") for (x, y), name in zip(under, _names(under), strict=True)][::-1])


def _names(pairs: Sequence[tuple[AnySpan | None, AnySpan | None]]) -> list[str]:
    """``kind name`` for each pair, with its number on the side that it is named after (A, unless it is only in B) where a name stands there more than once."""
    sides = [(x, 0) if x is not None else (y, 1) for x, y in pairs]
    named = [(f"{WORDS[kind_of(s)]} {label(s)}", which) for s, which in sides if s is not None]
    totals: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for pair in pairs:
        for total, span in zip(totals, pair, strict=True):
            if span is not None:
                total[f"{WORDS[kind_of(span)]} {label(span)}"] += 1
    seen: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    found = []
    for (name, which), (_, y) in zip(named, pairs, strict=True):
        seen[which][name] += 1
        found.append(f"{name}[{seen[which][name]}]" if totals[which][name] > 1 else name)
        if which == 0 and y is not None:
            seen[1][f"{WORDS[kind_of(y)]} {label(y)}"] += 1  # those that are only in B are counted on from here
    return found


def _pairs(ones: list[AnySpan], twos: list[AnySpan]) -> list[tuple[AnySpan | None, AnySpan | None]]:
    """Which belong together, in an order that keeps both."""
    if not ones or not twos:
        return [(s, None) for s in ones] + [(None, s) for s in twos]
    by_key = {_exactly(s): s for s in twos}
    partner: dict[str, AnySpan] = {}
    taken: set[str] = set()
    for s in ones:
        other = by_key.get(_exactly(s))
        if other is not None and other.id not in taken:
            partner[s.id] = other
            taken.add(other.id)
    left, right = [s for s in ones if s.id not in partner], [s for s in twos if s.id not in taken]
    for i, j in _common([_sort(s) for s in left], [_sort(s) for s in right]):
        partner[left[i].id] = right[j]
        taken.add(right[j].id)
    found: list[tuple[AnySpan | None, AnySpan | None]] = []
    at = 0
    position = {s.id: i for i, s in enumerate(twos)}
    for s in ones:
        match = partner.get(s.id)
        if match is not None:
            while at < position[match.id]:
                if twos[at].id not in taken:
                    found.append((None, twos[at]))
                at += 1
        found.append((s, match))
    found += [(None, s) for s in twos[at:] if s.id not in taken]
    return found


def _exactly(span: AnySpan) -> tuple[str, str, str]:
    """The same thing in both: a model request too when another model was asked."""
    return kind_of(span), span.key, "" if isinstance(span, ModelRequest) else label(span)


def _sort(span: AnySpan) -> tuple[str, str]:
    return kind_of(span), label(span)


def _common(a: list[tuple[str, str]], b: list[tuple[str, str]]) -> list[tuple[int, int]]:
    if len(a) + len(b) <= _TOO_LONG:
        blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
        return [(block.a + k, block.b + k) for block in blocks for k in range(block.size)]
    places: dict[tuple[str, str], list[int]] = {}
    for j, name in enumerate(b):
        places.setdefault(name, []).append(j)
    found = []
    for i, name in enumerate(a):
        if places.get(name):
            found.append((i, places[name].pop(0)))
    return found


def _changes(a: AnySpan, b: AnySpan, content: bool, times: float | None) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name, one, two in _facts(a, b, content):
        if one != two:
            yield name, (one, two)
    if times is not None and a.start is not None and a.end is not None and b.start is not None and b.end is not None:
        one_ns, two_ns = a.end - a.start, b.end - b.start
        if abs(one_ns - two_ns) > times * max(one_ns, two_ns):
            yield "seconds", (one_ns / 1e9, two_ns / 1e9)


def _facts(a: AnySpan, b: AnySpan, content: bool) -> Iterator[tuple[str, Any, Any]]:
    """(name, there, here) of what can be compared across runs: never ids and times."""
    yield "status", a.status, b.status
    yield "error.type", a.error and a.error.type, b.error and b.error.type
    yield "error.message", a.error and a.error.message, b.error and b.error.message
    yield "unfinished", a.unfinished, b.unfinished
    for score in sorted({s.name for s in (*a.scores, *b.scores)}):
        yield f"score {score}", _score(a, score), _score(b, score)
    if isinstance(a, ToolCall) and isinstance(b, ToolCall):
        yield "outcome", a.outcome, b.outcome
        if content:
            yield "arguments", _json(a.arguments), _json(b.arguments)
            yield "result", _json(a.result), _json(b.result)
    elif isinstance(a, ModelRequest) and isinstance(b, ModelRequest):
        yield "model", a.model, b.model
        yield "finish_reasons", a.finish_reasons, b.finish_reasons
        yield from _usage(a.usage, b.usage)
        if content:
            yield "input_messages", _messages(a.input_messages), _messages(b.input_messages)
            yield "output_messages", _messages(a.output_messages), _messages(b.output_messages)
    elif isinstance(a, Run | Task | Attempt) and isinstance(b, Run | Task | Attempt):
        yield "ending", a.ending, b.ending
        yield "verdict", a.verdict, b.verdict
        if content:
            yield "input", _json(a.input), _json(b.input)
            yield "output", _json(a.output), _json(b.output)
    elif isinstance(a, Phase) and isinstance(b, Phase) and content:
        yield "input", _json(a.input), _json(b.input)
        yield "output", _json(a.output), _json(b.output)


def _score(span: AnySpan, name: str) -> Any:
    return next(((s.value if s.value is not None else s.label) for s in span.scores if s.name == name), None)


def _usage(a: Usage | None, b: Usage | None) -> Iterator[tuple[str, Any, Any]]:
    for name in ("input", "output", "cache_read", "cache_write", "reasoning", "cost"):
        yield f"tokens.{name}" if name != "cost" else name, a and getattr(a, name), b and getattr(b, name)


def _json(raw: Raw) -> Any:
    found = value(raw)
    return found if found is not None or not raw else bytes(raw).decode("utf-8", "replace")


def _messages(messages: list[Message]) -> list[dict[str, Any]]:
    """Messages for comparison: call ids, which differ from run to run, stay out."""
    import msgspec

    found = []
    for message in messages:
        plain_message = msgspec.json.decode(msgspec.json.encode(plain(message)))
        for part in plain_message["parts"]:
            part.pop("id", None)
        found.append(plain_message)
    return found
