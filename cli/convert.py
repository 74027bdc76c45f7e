"""``spanport convert``."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from ..converters import registry
from ..converters.errors import Report
from ..exporters.file import replacing
from .common import Account, from_format, items, runs, say, strict, usage


@click.command("convert")
@runs
@from_format
@strict
@click.option("--to", metavar="FORMAT", required=True, help="The format to write (spanport formats lists them).")
@click.option(
    "-o", "--output", metavar="OUT", help="A file, a folder for several inputs, or - for standard output (the default for one input)."
)
@click.option("--carry/--no-carry", default=True, help="Keep what the target can't say in its open field.")
def command(runs: tuple[str, ...], from_: str | None, strict: bool, to: str, output: str | None, carry: bool) -> None:
    """Write runs in another format."""
    account = Account()
    with usage():
        target = registry.get(to)
        if len(runs) > 1 and (output is None or output == "-"):
            raise click.UsageError("several inputs need -o FOLDER")
        options = registry.WriteOptions(carry=carry)
        for run in runs:
            report = Report(strict=strict)
            with account.input(report):
                if output is None or output == "-":
                    held = io.BytesIO()
                    target.write(items(run, report, from_), held, report, options)
                    sys.stdout.buffer.write(held.getbuffer())
                    sys.stdout.buffer.flush()
                else:
                    path = Path(output)
                    if len(runs) > 1 or path.is_dir():
                        path = path / (Path(run).stem + target.suffix)
                    with replacing(path) as file:
                        target.write(items(run, report, from_), file, report, options)
                    say(f"wrote {path}")
    sys.exit(account.status())
