"""What the commands share: inputs, messages on standard error, exit statuses (DESIGN §6)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from ..converters import registry
from ..converters.errors import ReadError, Report, SpanportError, UsageError
from ..converters.model import Item
from ..converters.source import Source, source_of

ALL_DONE, NOTHING_DONE, WRONG_USAGE, PART_DONE = 0, 1, 2, 3

runs = click.argument("runs", metavar="RUN...", nargs=-1, required=True)
from_format = click.option("--from", "from_", metavar="FORMAT", help="Read as this format instead of recognising it.")
strict = click.option("--strict", is_flag=True, help="Make a broken line or item fatal for its input.")


def say(text: str) -> None:
    """A line on standard error."""
    click.echo(text, err=True)


def open_source(run: str) -> Source:
    """The input that the user named; ``-`` is standard input."""
    if run == "-":
        return Source("standard input", stream=sys.stdin.buffer)
    return source_of(run)


def items(run: str, report: Report, from_: str | None, options: registry.ReadOptions | None = None) -> Iterator[Item]:
    """What a reader yields for ``run``."""
    source = open_source(run)
    report.input = source.name
    chosen = registry.get(from_) if from_ else registry.detect(source)
    yield from chosen.read(source, report, options)


def tell(report: Report, most: int = 3) -> None:
    """The first notices of a report on standard error, and how many more there are."""
    shown = [n for n in report.notices if n.severity != "info"]
    for notice in shown[:most]:
        say(str(notice))
    if (more := report.warnings - len(shown[:most])) > 0:
        say(f"{report.input}: {more} more warnings")


class Account:
    """How the inputs of one command went, and the exit status that this gives."""

    def __init__(self) -> None:
        self.done = self.failed = self.partial = 0

    @contextmanager
    def input(self, report: Report) -> Iterator[None]:
        """One input: an error in it is said in one line and does not stop the others."""
        try:
            yield
        except UsageError:
            raise
        except SpanportError as error:
            text = str(error)
            if isinstance(error, ReadError) and error.input is None and report.input:
                text = f"{report.input}: {text}"
            say(f"error: {text}")
            self.failed += 1
        else:
            self.done += 1
            self.partial += bool(report.lost)
        finally:
            tell(report)

    def status(self) -> int:
        """0 all done, 1 nothing could be done, 3 a part was done."""
        if self.failed and not self.done:
            return NOTHING_DONE
        return PART_DONE if self.failed or self.partial else ALL_DONE


@contextmanager
def usage() -> Iterator[None]:
    """UsageError as click's own, exit status 2."""
    try:
        yield
    except UsageError as error:
        raise click.UsageError(str(error)) from error
