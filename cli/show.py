"""``spanport show``: `spanport.show` on this terminal, or in a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ..converters.errors import UsageError
from ..exporters import terminal
from ..exporters.batch import Batch, Tally
from . import output
from .common import from_format, runs, strict, tally, usage
from .signals import signals

if TYPE_CHECKING:
    from rich.console import Console

KINDS = {**{word: kind for kind, word in terminal.WORDS.items()}, **{kind: kind for kind in terminal.WORDS}}


def kinds_of(ctx: click.Context, param: click.Parameter, value: str | None) -> frozenset[str] | None:
    """``tool,request`` as names of kinds."""
    if value is None:
        return None
    names = [v.strip() for v in value.split(",") if v.strip()]
    unknown = [n for n in names if n not in KINDS]
    if unknown or not names:
        raise click.BadParameter(f"{', '.join(unknown) or 'nothing'} is no kind; there are {', '.join(terminal.WORDS.values())}")
    return frozenset(KINDS[n] for n in names)


def kind_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The kinds that may follow, for completion in a shell."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{word}" for word in terminal.WORDS.values() if word.startswith(last) and word not in before.split(",")]


@click.command(
    "show",
    epilog="""\b
Examples:
  spanport show RUN
  spanport show --errors-only --kind tool RUN
  spanport show --task quito --attempt 2 --content RUN | less
  spanport show --follow RUN
""",
)
@runs
@from_format
@strict
@click.option("--depth", type=click.IntRange(1), metavar="N", help="Levels of the tree (1: the roots only).")
@click.option(
    "--kind",
    "kinds",
    metavar="KIND,…",
    callback=kinds_of,
    shell_complete=kind_names,
    help="Only these kinds: run, task, attempt, phase, request, tool.",
)
@click.option("--errors-only", is_flag=True, help="Only what failed, and what stands above it.")
@click.option("--task", metavar="NAME", help="Only tasks of this name or id (a pattern such as 'geo_*').")
@click.option("--attempt", type=int, metavar="N", help="Only attempts of this number, as the source counts.")
@click.option("--follow", is_flag=True, help="A run that is going on: what is complete, as it comes.")
@click.option("--content", is_flag=True, help="Messages, arguments and results below each span.")
@click.option("--max-chars", type=click.IntRange(0), default=2000, metavar="N", help="Characters of each content; 0 for all (2000).")
@click.option("--width", type=click.IntRange(20), metavar="N", help="Draw for a terminal of this width, also in a pipe.")
def command(
    runs: tuple[str, ...],
    from_: str | None,
    strict: bool,
    depth: int | None,
    kinds: frozenset[str] | None,
    errors_only: bool,
    task: str | None,
    attempt: int | None,
    follow: bool,
    content: bool,
    max_chars: int,
    width: int | None,
) -> None:
    """A run as a tree, one line a span: name, status, a waterfall bar, duration, input→output tokens, cost.

    ~ marks a duration that was worked out, ≈ one that only keeps the order. In a pipe the tree is plain lines.

    With --follow a terminal shows a summary and the last spans, a pipe gets one line a span as soon as it is complete. It
    ends with the run, or on Ctrl-C, which shows what is open too.
    """
    account = tally(Batch(jobs=1, progress="none", strict=strict))
    choice = terminal.Choice(depth=depth, kinds=kinds, errors=errors_only, task=task, attempt=attempt)
    most = max_chars if content else None
    console = None if width is None and not sys.stdout.isatty() else output.console(width)
    with usage():
        if not follow:
            terminal.show(runs, choice, write=click.echo, console=console, most=most, format=from_, tally=account)
            sys.exit(account.status())
        for name, given in (("depth", depth), ("task", task), ("attempt", attempt)):
            if given is not None:
                raise UsageError(f"--follow and --{name} exclude each other: what a span stands below is known only once that has ended")
        sys.exit(_live(runs, from_, account, choice, most, console))


def _live(
    runs: tuple[str, ...], from_: str | None, account: Tally, choice: terminal.Choice, most: int | None, console: Console | None
) -> int:
    """Show ``runs`` as they grow; the exit status. The first signal ends the reading, which gives out what is open."""
    from ..exporters.live import follow, lines, watch
    from ..exporters.otlp.sender import Stop

    stop = Stop()
    with signals(stop, follow=True, at_once=True, first="ending: what is open is shown, marked unfinished (again to leave it)"):
        found = follow(runs, format=from_, tally=account, stop=stop)
        if console is not None:
            watch(found, console, choice)
        else:
            for line in lines(found, choice, most):
                click.echo(line)
    return 128 + stop.enough if stop.enough else account.status()
