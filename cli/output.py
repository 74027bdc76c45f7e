"""How much is told on standard error: set once by ``-v`` and ``-q``, which stand before or after the command's name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from rich.console import Console

level = 0
"""-1 only errors, 0 what matters, 1 everything."""


def _set(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    global level
    if value and not ctx.resilient_parsing:
        level = 1 if param.name == "verbose" else -1


def options() -> list[click.Option]:
    """``-v`` and ``-q``."""
    return [
        click.Option(
            ["-v", "--verbose"], is_flag=True, expose_value=False, callback=_set, help="Tell everything, repairs and guesses too."
        ),
        click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=_set, help="Tell only errors."),
    ]


def format_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of formats, for completion in a shell."""
    from ..converters.registry import formats

    return [name for name in formats() if name.startswith(incomplete)]


def paths(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files and folders, for completion in a shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def folded(line: str, hang: int) -> str:
    """On a terminal ``line`` broken between words, with ``hang`` spaces before what is left of it; elsewhere as it is."""
    if not sys.stdout.isatty():
        return line
    from shutil import get_terminal_size

    from rich.cells import cell_len

    wide = max(20, get_terminal_size().columns)
    found, here = "", 0
    for i, word in enumerate(line.split(" ")):
        long = cell_len(word)
        if i and here + 1 + long > wide and here > hang:
            found, here = f"{found.rstrip()}\n{' ' * hang}{word}", hang + long
        else:
            found, here = f"{found} {word}" if i else word, here + long + (i > 0)
    return found


def console(width: int | None = None) -> Console:
    """Where tables and trees are drawn: standard output, with nothing read into the text."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:  # rich would end with status 1
            raise BrokenPipeError

    return Plain(width=width, highlight=False, markup=False, emoji=False)
