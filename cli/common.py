"""What the commands share: the argument RUN, options of batches, and the voice that tells on standard error.

A command is a skin over one function of the library: it makes a `tally` from its options, calls the function, draws what comes, and ends with
``tally.status()`` (DESIGN §6). Data goes to standard output and everything else to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, TypeVar

import click

from ..converters import clock
from ..converters.errors import UsageError
from ..converters.inputs import Arguments
from ..converters.stages.choose import Choice
from ..converters.text import printable
from ..exporters.batch import Batch, Tally
from ..exporters.voice import Voice
from . import output

F = TypeVar("F", bound=Callable[..., Any])


class Moment(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A time: ISO 8601 (without an offset: UTC), or Unix seconds. In ns."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        for read in (clock.from_iso, clock.from_seconds):
            try:
                return read(str(value))
            except ValueError:
                continue
        return self.fail(f"{value!r} is no time; give 2026-11-30T20:00:00Z or Unix seconds", param, ctx)


def runs(command: F) -> F:
    """The argument RUN…, and which of the runs in it: --run, --session, --since, --until."""

    @click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=output.paths)
    @click.option("--run", metavar="ID", help="Only the trace that holds this run.")
    @click.option("--session", metavar="ID", help="Only runs of this session or conversation.")
    @click.option("--since", type=Moment(), metavar="TIME", help="Only runs that began at this time (ISO 8601 or Unix seconds) or later.")
    @click.option("--until", type=Moment(), metavar="TIME", help="Only runs that began before this time.")
    @wraps(command)
    def wrapped(*args: Any, runs: tuple[str, ...], **given: Any) -> Any:
        if "" in runs:
            raise click.UsageError("a RUN is empty (a variable that is not set?)")
        if runs.count("-") > 1:
            raise click.UsageError("- stands for standard input, which can be read once")
        named = Arguments(runs)
        named.choice = Choice(*(given.pop(n) for n in ("run", "session", "since", "until")))
        return command(*args, runs=named, **given)

    return wrapped  # type: ignore[return-value]


from_format = click.option(
    "--from", "from_", metavar="FORMAT", shell_complete=output.format_names, help="Read as this format instead of recognising it."
)
strict = click.option("--strict", is_flag=True, help="Make a broken line or item fatal for its input.")
resume = click.option("--resume", is_flag=True, help="Skip inputs whose content was done by an earlier call with the same options.")


def batch(jobs: str = "Processes over the inputs (as many as processors).") -> Callable[[F], F]:
    """--jobs (whose help is ``jobs``), --engine, --progress, --errors, --on-error and --strict, given to the command as one argument ``batch``."""
    names = ("jobs", "progress", "errors", "on_error", "engine", "strict")

    def decorate(command: F) -> F:
        @strict
        @click.option("--on-error", type=click.Choice(["skip", "stop"]), default="skip", help="After an input that failed (skip).")
        @click.option(
            "--errors", metavar="FILE", help="Write what could not be read to this file: JSON Lines with input, line, path, message."
        )
        @click.option(
            "--progress", type=click.Choice(["auto", "plain", "none"]), default="auto", help="A bar on a terminal, plain lines, or nothing."
        )
        @click.option("--engine", metavar="ENGINE", default="local", help="Who works: local (this machine), or dask://HOST:PORT.")
        @click.option("-j", "--jobs", type=click.IntRange(1), metavar="N", help=jobs)
        @wraps(command)
        def wrapped(*args: Any, **given: Any) -> Any:
            return command(*args, batch=Batch(**{n: given.pop(n) for n in names}), **given)

        return wrapped  # type: ignore[return-value]

    return decorate


class Terminal(Voice):
    """Standard error, with a bar where somebody looks at it."""

    def say(self, text: str, least: int = 0) -> None:
        if self.level >= least:
            # Printed, and not written by click: a bar stands in for standard error, so that the line goes above it.
            print(printable(text), file=sys.stderr, flush=True)

    def complain(self, text: str) -> None:
        print(f"error: {printable(text)}", file=sys.stderr, flush=True)

    def progress(self, kind: str, inputs: Iterable[Any]) -> AbstractContextManager[Callable[[], None]]:
        from .progress import start

        return start("none" if self.level < 0 else kind, inputs)


def say(text: str, least: int = 0) -> None:
    """A line on standard error; none with --quiet. ``least``: 1 for what only --verbose tells."""
    Terminal(output.level).say(text, least)


def complain(text: str) -> None:
    """An error on standard error, also with --quiet."""
    Terminal(output.level).complain(text)


def tally(batch: Batch | None = None) -> Tally:
    """How the inputs of a command go, told on standard error."""
    return Tally(batch, Terminal(output.level))


@contextmanager
def usage() -> Iterator[None]:
    """UsageError as click's own, exit status 2."""
    try:
        yield
    except UsageError as error:
        raise click.UsageError(str(error)) from error


__all__ = ["Terminal", "batch", "complain", "from_format", "resume", "runs", "say", "strict", "tally", "usage"]
