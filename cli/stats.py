"""``spanport stats``: the tables of `spanport.stats`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..converters.text import printable
from ..exporters.batch import Batch
from ..exporters.stats import TABLES, Totals, stats
from ..exporters.terminal import duration
from . import output
from .common import batch, from_format, runs, tally, usage

if TYPE_CHECKING:
    from rich.table import Table


@click.command(
    "stats",
    epilog="""\b
Examples:
  spanport stats RUN
  spanport stats --json runs/
  spanport stats --by tool --csv runs/ > tools.csv
  spanport stats --by model --by task --top 50 'runs/*/*.jsonl'
""",
)
@runs
@from_format
@batch()
@click.option("--by", "by", type=click.Choice(TABLES), multiple=True, help="Only this table (may be given more than once).")
@click.option("--top", type=click.IntRange(1), default=20, metavar="N", help="Rows of a printed table (20); --json and --csv have all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: the totals, or with --by the tables.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one table (--by; runs if not given) as CSV.")
def command(runs: tuple[str, ...], from_: str | None, batch: Batch, by: tuple[str, ...], top: int, as_json: bool, as_csv: bool) -> None:
    """Spans, errors, tokens and times; tables by run, tool, model, phase and task, over all inputs together.

    Times that were only made up to keep an order are not in the tables; ~ says that some were worked out and not measured.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    if as_csv and len(by) > 1:
        raise click.UsageError("--csv prints one table: give one --by")
    account = tally(batch)
    with usage():
        totals = stats(runs, format=from_, tally=account)
    if as_json:
        found: Any = {table: list(totals.rows(table)) for table in by} if by else totals.as_dict()
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif as_csv:
        _csv(list(totals.rows(by[0] if by else "run")))
    else:
        _print(totals, by, top)
    sys.exit(account.status())


def _csv(rows: Sequence[dict[str, Any]]) -> None:
    import csv

    if rows:
        table = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def _print(totals: Totals, by: tuple[str, ...], top: int) -> None:
    terminal = sys.stdout.isatty()
    console = output.console(None if terminal else 10_000)
    if not by:
        for key, value in totals.as_dict().items():
            text = ", ".join(f"{k} {v:,}" for k, v in value.items()) if isinstance(value, dict) else "" if value is None else f"{value:,}"
            click.echo(f"{key.replace('_', ' '):17} {text}")
    for name in by or TABLES:
        rows = list(totals.rows(name))
        if not rows or (not by and name == "run" and len(rows) < 2):
            continue
        click.echo()
        used = [c for c in rows[0] if c == name or (c not in ("derived_times", "trace") and any(r[c] not in (None, 0) for r in rows))]
        table = _table(name, used, rows[:top], None)
        if console.measure(table, options=console.options.update(max_width=10_000)).maximum > console.width:
            table = _table(name, used, rows[:top], console.width)
        console.print(table, width=max(console.width, console.measure(table).minimum), crop=False)
        if len(rows) > top:
            click.echo(f"… {len(rows) - top:,} more (--top, --json, --csv)")


def _table(name: str, used: Sequence[str], rows: Sequence[dict[str, Any]], narrow: int | None) -> Table:
    """A table for a terminal. ``narrow``: its columns, which are not enough: headings are broken and names cut; numbers never are."""
    from rich.table import Table

    gap, between = (2, " ") if narrow is None else (1, "\n")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0))
    for column in used:
        words = column.replace("_seconds", "").replace("_", between).replace("seconds", "time")
        left = column in (name, "input", "ending")
        cells = [_cell(column, row[column], row["derived_times"]) for row in rows]
        wide = None if left else max(map(len, [*words.split("\n"), *cells]))
        table.add_column(words, justify="left" if left else "right", overflow="ellipsis", no_wrap=True, min_width=wide)
    if narrow is not None:
        names = [one for one in table.columns if one.min_width is None]
        room = narrow - sum(one.min_width or 0 for one in table.columns) - gap * len(used)
        for one in names:
            one.max_width = max(10, room // len(names))
    for row in rows:
        table.add_row(*(_cell(c, row[c], row["derived_times"]) for c in used))
    return table


def _cell(column: str, value: Any, derived: int) -> str:
    if value is None:
        return ""
    if "seconds" in column:
        return ("~" if derived else "") + duration(round(value * 1e9))
    if column == "cost":
        return f"${value:.4g}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))
