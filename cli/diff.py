"""``spanport diff``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import click

from ..converters.api import collect
from ..converters.errors import Report, SpanportError
from ..converters.source import is_url
from ..converters.text import printable
from ..exporters.diff import Pair, Side, compare, side
from ..exporters.stats import Totals, count
from ..exporters.terminal import duration, error_of, outcome_of, time_of, tokens_of
from . import output
from .common import complain, from_format, internal, items, strict, tell

SAME, DIFFERENT, TROUBLE = 0, 1, 2
_SIGNS = {"+": "green", "-": "red", "!": "yellow", " ": None}


def named(argument: str) -> tuple[str, dict[str, str]]:
    """``run.jsonl#task=a&attempt=2`` as the input's name and what is picked in it. A file whose name holds a # is that file."""
    name, mark, fragment = argument.rpartition("#")
    if not mark or (not is_url(argument) and os.path.lexists(argument)):
        return argument, {}
    pick = dict(parse_qsl(fragment, keep_blank_values=True))
    if not pick or set(pick) - {"task", "attempt", "trace"}:
        raise click.BadParameter(f"after # in {argument!r} come task=NAME, attempt=N or trace=ID, joined with &")
    return name, pick


def _side(argument: str, from_: str | None, strict: bool) -> tuple[Side, Totals]:
    name, pick = named(argument)
    report = Report(strict=strict)
    traces = collect(items(name, report, from_))
    tell(report)
    one = side(argument, traces, pick)
    totals = Totals(inputs=1)
    inside: list[Any] = []
    stack = list(one.roots)
    while stack:
        span = stack.pop()
        inside.append(span)
        stack.extend(one.below.get(span.id, []))
    count(inside, totals)
    return one, totals


@click.command(
    "diff",
    epilog="""\b
Examples:
  spanport diff A B
  spanport diff 'RUN#task=quito&attempt=1' 'RUN#task=quito&attempt=2'
  spanport diff --no-content --json A B
""",
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@from_format
@strict
@click.option("--content/--no-content", default=True, help="Compare messages, arguments and results too (the default).")
@click.option("--times", type=click.FloatRange(0), metavar="PERCENT", help="Durations that differ by more than this make a difference.")
@click.option("--all", "everything", is_flag=True, help="Print spans that are the same too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(a: str, b: str, from_: str | None, strict: bool, content: bool, times: float | None, everything: bool, as_json: bool) -> None:
    """What changed from A to B: spans that are only in A (-), only in B (+), or changed (!), with times and tokens side by side.

    A and B are inputs, or parts of one: run.jsonl#attempt=2, run#task=NAME&attempt=1. Times alone make no difference without --times.
    Exit status as diff's: 0 the same, 1 different, 2 trouble.
    """
    try:
        left, totals_a = _side(a, from_, strict)
        right, totals_b = _side(b, from_, strict)
    except SpanportError as error:
        complain(str(error))
        sys.exit(TROUBLE)
    except Exception as error:  # 1 would say that they differ
        if output.debug():
            raise
        complain(str(internal(error)))
        sys.exit(TROUBLE)
    pairs = compare(left, right, content=content, times=None if times is None else times / 100)
    different = 0
    if as_json:
        found: dict[str, Any] = {"a": totals_a.as_dict(), "b": totals_b.as_dict(), "missing": [], "added": [], "changed": []}
        for pair in pairs:
            if pair.sign != " ":
                different += 1
                found[{"-": "missing", "+": "added", "!": "changed"}[pair.sign]].append(_object(pair))
        click.echo(json.dumps({"same": not different, **found}, indent=2, ensure_ascii=False, default=str))
    else:
        for pair in pairs:
            different += pair.sign != " "
            if pair.sign != " " or everything:
                for line, colour in _lines(pair):
                    click.secho(line, fg=colour)
        _summary(totals_a, totals_b)
    sys.exit(DIFFERENT if different else SAME)


def _object(pair: Pair) -> dict[str, Any]:
    found: dict[str, Any] = {"path": pair.path}
    for name, span in (("a", pair.a), ("b", pair.b)):
        if span is not None:
            seconds = (span.end - span.start) / 1e9 if span.start is not None and span.end is not None else None
            found[name] = {"id": span.id, "trace_id": span.trace_id, "seconds": seconds, "clock": span.clock}
    if pair.changes:
        found["changes"] = {k: {"a": one, "b": two} for k, (one, two) in pair.changes.items()}
    return found


def _lines(pair: Pair) -> Iterator[tuple[str, str | None]]:
    colour = _SIGNS[pair.sign]
    if pair.a is not None and pair.b is not None:
        facts = [f"{time_of(pair.a)} → {time_of(pair.b)}"]
        one, two = tokens_of(pair.a), tokens_of(pair.b)
        if one or two:
            facts.append(f"{one or 'no'} tokens ⇒ {two or 'no'} tokens")
    else:
        span = pair.a or pair.b
        assert span is not None
        facts = [x for x in (time_of(span), outcome_of(span), tokens_of(span), error_of(span)) if x]
    yield printable(f"{pair.sign} {pair.path}  {'  '.join(facts)}"), colour
    for name, (a, b) in pair.changes.items():
        yield printable(f"    {name}: {_short(a, b)}"), None


def _short(a: Any, b: Any, most: int = 60) -> str:
    """Both values, cut to where they begin to differ."""
    one, two = (x if isinstance(x, str) else json.dumps(x, ensure_ascii=False, default=str) for x in (a, b))
    if output.level > 0 or max(len(one), len(two)) <= most:
        return f"{one} → {two}"
    same = next((i for i, (x, y) in enumerate(zip(one, two, strict=False)) if x != y), min(len(one), len(two)))
    start = max(0, same - 20)
    return " → ".join(("…" if start else "") + x[start : start + most] + ("…" if len(x) > start + most else "") for x in (one, two))


def _summary(a: Totals, b: Totals) -> None:
    """Counts, tokens and time side by side."""

    def seconds(t: Totals) -> int | None:
        return None if t.first is None or t.last is None else t.last - t.first

    rows: list[tuple[str, Any, Any]] = [
        (kind.replace("_", " ") + "s", a.spans.get(kind, 0), b.spans.get(kind, 0)) for kind in a.as_dict()["spans"]
    ]
    rows += [("errors", sum(a.errors.values()), sum(b.errors.values()))]
    rows += [(f"{k} tokens", a.tokens.get(k), b.tokens.get(k)) for k in dict.fromkeys([*a.tokens, *b.tokens])]
    one, two = seconds(a), seconds(b)
    rows += [("time", None if one is None else duration(one), None if two is None else duration(two))]
    shown = [(n, *("" if v is None else f"{v:,}" if isinstance(v, int) else v for v in (x, y))) for n, x, y in rows if x or y]
    wide = max((len(x) for _, x, _ in shown), default=1)
    for name, x, y in shown:
        click.echo(f"{name:20} {x:>{wide}} → {y}")
