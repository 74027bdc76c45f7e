"""``spanport view``."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from ..converters.api import collect
from ..converters.errors import Report
from ..converters.model import Trace
from ..converters.stages.redact import Redactor
from ..exporters.file import replacing
from ..exporters.page import write
from .common import NOTHING_DONE, Account, Input, Inputs, from_format, items, runs, say, strict, usage


class _NothingToShow(Exception):
    """No input could be read: no page is written, and one that is there stays."""


@click.command("view")
@runs
@from_format
@strict
@click.option("-o", "--output", metavar="FILE", help="Write the page to FILE (- for standard output) instead of opening it.")
@click.option("--carry", is_flag=True, help="Show the fields of the record that have no place in the span model, too.")
@click.option("--redact", metavar="REGEX", multiple=True, help="Take out what matches, on top of the built-in list of secrets.")
@click.option("--no-redact", is_flag=True, help="Turn the built-in list off.")
def command(
    runs: tuple[str, ...], from_: str | None, strict: bool, output: str | None, carry: bool, redact: tuple[str, ...], no_redact: bool
) -> None:
    """One self-contained page that shows runs, opened in the browser."""
    account = Account()
    reports: list[Report] = []
    with usage():
        redactor = Redactor(redact, builtin=not no_redact) if redact or not no_redact else None

    def traces() -> Iterator[tuple[Trace, str]]:
        for one in account.over(Inputs(runs, from_)):
            report = Report(input=str(one), strict=strict)
            reports.append(report)
            with account.input(report, one):
                for trace in _read(one, report, from_):
                    yield trace, str(one)

    def page(file: BinaryIO) -> None:
        if not write(traces(), file, reports=reports, carry=carry, redactor=redactor):
            raise _NothingToShow

    with usage():
        if output and Path(output).is_dir():
            raise click.UsageError(f"-o {output}: a folder; name a file")
        try:
            if output == "-":
                page(sys.stdout.buffer)
            else:
                path = Path(output) if output else Path(tempfile.mkdtemp(prefix="spanport-")) / "run.html"
                with replacing(path) as file:
                    page(file)
                if output:
                    say(f"wrote {path}")
                elif webbrowser.open(path.as_uri()):
                    say(f"opened {path}")
                else:
                    say(f"no browser found; the page is {path}")
            if redactor is not None and redactor.count:
                say(f"{redactor.count:,} secrets redacted")
        except _NothingToShow:
            if not output:
                path.parent.rmdir()
            sys.exit(account.status() or NOTHING_DONE)
    sys.exit(account.status())


def _read(one: Input, report: Report, from_: str | None) -> list[Trace]:
    """The traces of one input, whole."""
    return collect(items(one, report, from_))
