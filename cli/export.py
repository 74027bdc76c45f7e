"""``spanport export``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..converters import registry
from ..converters.errors import Report
from ..exporters.file import replacing
from .common import Account, from_format, items, runs, say, strict, usage


@click.command("export")
@runs
@from_format
@strict
def command(runs: tuple[str, ...], from_: str | None, strict: bool) -> None:
    """Send runs to a tracing backend; with no endpoint, to NAME.otlp.jsonl in the current directory."""
    account = Account()
    with usage():
        for run in runs:
            report = Report(strict=strict)
            with account.input(report):
                path = Path((Path(run).resolve().stem if run != "-" else "stdin") + ".otlp.jsonl")
                with replacing(path) as file:
                    registry.get("otlp-json").write(items(run, report, from_), file, report, registry.WriteOptions(carry=False))
                say(f"no endpoint given: wrote {path}")
    sys.exit(account.status())
