"""``spanport show``."""

from __future__ import annotations

import sys

import click

from ..converters.api import collect
from ..converters.errors import Report
from ..exporters.terminal import lines
from .common import Account, from_format, items, runs, strict, usage


@click.command("show")
@runs
@from_format
@strict
def command(runs: tuple[str, ...], from_: str | None, strict: bool) -> None:
    """A run as a tree in the terminal."""
    account = Account()
    with usage():
        for run in runs:
            report = Report(strict=strict)
            with account.input(report):
                for trace in collect(items(run, report, from_)):
                    for line in lines(trace):
                        click.echo(line)
    sys.exit(account.status())
