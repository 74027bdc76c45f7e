"""How far a batch is: a bar on a terminal, plain lines on request, nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from . import output


class Progress:
    """Tells nothing."""

    def step(self) -> None:
        """One more input is done."""


class _Plain(Progress):
    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._start = self._told = time.monotonic()

    def step(self) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._told >= 1 or self._done == self._total:
            self._told = now
            rate = self._done / max(now - self._start, 1e-9)
            left = f", {(self._total - self._done) / rate:.0f} s left" if self._done < self._total else ""
            click.echo(f"{self._done:,} of {self._total:,} inputs, {rate:,.1f}/s{left}", err=True)


class _Bar(Progress):
    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task

    def step(self) -> None:
        self._bar.advance(self._task)


@contextmanager
def start(kind: str, inputs: Iterable[Any]) -> Iterator[Progress]:
    """Progress over ``inputs``, which are counted first (their names only)."""
    terminal = sys.stderr.isatty()
    if kind == "none" or output.level < 0 or (kind == "auto" and not terminal):
        yield Progress()
        return
    total = sum(1 for _ in inputs)
    if kind == "plain":
        yield _Plain(total)
        return
    if total < 2:
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Rich

    # Lines on standard error go above the bar; standard output is left alone, it may be data.
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Rich(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        begun = time.monotonic()
        task = bar.add_task("", total=total, rate="")

        class Rated(_Bar):
            def step(self) -> None:
                done = bar.tasks[0].completed + 1
                bar.update(task, advance=1, rate=f"{done / max(time.monotonic() - begun, 1e-9):,.0f}/s")

        yield Rated(bar, task)
