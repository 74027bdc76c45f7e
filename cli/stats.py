"""``spanport stats``."""

from __future__ import annotations

import sys

import click
import msgspec

from ..converters.errors import Report
from ..exporters.stats import Totals, count
from .common import Account, from_format, items, runs, strict, usage


@click.command("stats")
@runs
@from_format
@strict
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(runs: tuple[str, ...], from_: str | None, strict: bool, as_json: bool) -> None:
    """Count spans, errors, tokens and times."""
    totals, account = Totals(), Account()
    with usage():
        for run in runs:
            report = Report(strict=strict)
            with account.input(report):
                one = Totals()
                count(items(run, report, from_), totals if len(runs) == 1 else one)
                if len(runs) > 1:
                    totals = add(totals, one)
                totals.inputs += 1
            totals.warnings += report.warnings
    found = totals.as_dict()
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        for key, value in found.items():
            text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
            click.echo(f"{key:17} {text}")
    sys.exit(account.status())


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
