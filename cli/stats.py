"""``spanport stats``."""

from __future__ import annotations

import sys
from functools import partial

import click
import msgspec

from ..converters.errors import Report
from ..exporters.stats import Totals, add, count
from .common import Account, Batch, Input, Inputs, batch, from_format, items, runs, usage


def _work(from_: str | None, one: Input, report: Report) -> Totals:
    totals = Totals(inputs=1)
    count(items(one, report, from_), totals)
    return totals


@click.command("stats")
@runs
@from_format
@batch
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(runs: tuple[str, ...], from_: str | None, batch: Batch, as_json: bool) -> None:
    """Count spans, errors, tokens and times."""
    totals, account = Totals(), Account(batch)
    with usage(), account:
        for outcome in account.each(partial(_work, from_), Inputs(runs, from_)):
            assert outcome.result is not None
            totals = add(totals, outcome.result)
            totals.warnings += outcome.report.warnings
    found = totals.as_dict()
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        for key, value in found.items():
            text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
            click.echo(f"{key:17} {text}")
    sys.exit(account.status())
