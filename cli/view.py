"""``spanport view``: the page of `spanport.view`, in a file or the browser."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from pathlib import Path

import click

from ..exporters.batch import NOTHING_DONE, Batch
from ..exporters.page import NothingToShow, view
from .common import from_format, runs, say, strict, tally, usage


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
    account = tally(Batch(jobs=1, progress="none", strict=strict))
    path = Path(output or "")
    if output and path.is_dir():
        raise click.UsageError(f"-o {output}: a folder; name a file")
    if not output:
        path = Path(tempfile.mkdtemp(prefix="spanport-")) / "run.html"
    try:
        with usage():
            secrets = view(
                runs,
                sys.stdout.buffer if output == "-" else path,
                format=from_,
                carry=carry,
                redact=redact,
                builtin_redaction=not no_redact,
                tally=account,
            )
    except BaseException as error:
        if not output:
            path.parent.rmdir()
        if isinstance(error, NothingToShow):
            sys.exit(account.status() or NOTHING_DONE)
        raise
    if output != "-":
        if output:
            say(f"wrote {path}")
        elif webbrowser.open(path.as_uri()):
            say(f"opened {path}")
        else:
            say(f"no browser found; the page is {path}")
    if secrets:
        say(f"{secrets:,} secrets redacted")
    sys.exit(account.status())
