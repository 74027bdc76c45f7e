"""``spanport diff``: what `spanport.diff` found, side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from shutil import get_terminal_size
from typing import Any

import click

from ..converters.errors import SpanportError, debugging, internal
from ..converters.text import printable
from ..exporters.diff import Pair, diff
from ..exporters.stats import Totals
from ..exporters.terminal import duration, error_of, outcome_of, time_of, tokens_of
from . import output
from .common import complain, from_format, strict, tally, usage

SAME, DIFFERENT, TROUBLE = 0, 1, 2
_SIGNS = {"+": "green", "-": "red", "!": "yellow", " ": None}


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
        with usage():
            found = diff(
                a, b, format=from_, content=content, times=None if times is None else times / 100, reports=tally().tell, strict=strict
            )
    except click.ClickException:
        raise
    except SpanportError as error:
        complain(str(error))
        sys.exit(TROUBLE)
    except Exception as error:  # 1 would say that they differ
        if debugging():
            raise
        complain(str(internal(error)))
        sys.exit(TROUBLE)
    different = 0
    if as_json:
        told: dict[str, Any] = {"a": found.a.as_dict(), "b": found.b.as_dict(), "missing": [], "added": [], "changed": []}
        for pair in found.pairs:
            if pair.sign != " ":
                different += 1
                told[{"-": "missing", "+": "added", "!": "changed"}[pair.sign]].append(_object(pair))
        click.echo(json.dumps({"same": not different, **told}, indent=2, ensure_ascii=False, default=str))
    else:
        for pair in found.pairs:
            different += pair.sign != " "
            if pair.sign != " " or everything:
                for line, colour in _lines(pair):
                    click.secho(output.folded(line, 8), fg=colour)
        _summary(found.a, found.b)
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
        yield printable(f"    {name}: {_short(a, b, _room(name))}"), None


def _room(name: str) -> int:
    """Characters of each of two values that stand in one line."""
    return max(20, (get_terminal_size().columns - len(name) - 13) // 2) if sys.stdout.isatty() else 60


def _short(a: Any, b: Any, most: int) -> str:
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
