"""How far a batch is: a bar on a terminal, plain lines on request, nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

Step = Callable[[], None]


def _plain(total: int) -> Step:
    done, begun = 0, time.monotonic()
    told = begun

    def step() -> None:
        nonlocal done, told
        done += 1
        now = time.monotonic()
        if now - told >= 1 or done == total:
            told = now
            rate = done / max(now - begun, 1e-9)
            left = f", {(total - done) / rate:.0f} s left" if done < total else ""
            click.echo(f"{done:,} of {total:,} inputs, {rate:,.1f}/s{left}", err=True)

    return step


@contextmanager
def start(kind: str, inputs: Iterable[Any]) -> Iterator[Step]:
    """Progress over ``inputs``, which are counted first (their names only): called for each of them that is done."""
    terminal = sys.stderr.isatty()
    total = 0 if kind == "none" or (kind == "auto" and not terminal) else sum(1 for _ in inputs)
    if total and kind == "plain":
        yield _plain(total)
        return
    if total < 2:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Rich

    # Lines on standard error go above the bar; standard output is left alone, it may be data.
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Rich(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        begun = time.monotonic()
        task = bar.add_task("", total=total, rate="")

        def step() -> None:
            done = bar.tasks[0].completed + 1
            bar.update(task, advance=1, rate=f"{done / max(time.monotonic() - begun, 1e-9):,.0f}/s")

        yield step
