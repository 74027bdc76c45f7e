"""A run that is still going: ``progress.jsonl`` is tailed, through truncation, rotation by rename and a beginning that is yet to come, and spans go out as they
are complete. An attempt is complete when its result.json is there (it moves from ``running`` to its state and changes shape) or when its task has finished.

The spans are those that reading the finished run gives, with the same ids. Memory is bounded by what is open. It ends with the run, when ``stop`` says
so, or on an interrupt; then what is open is given out at its last known time, marked unfinished.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from ..errors import ReadError, Report
from ..jsonio import MAX_LINE, text
from ..model import ABSENT, Attempt, Item, Phase, Run, Task
from ..registry import ReadOptions
from ..source import Line
from .events import Progress
from .layout import is_run, load, run_directories
from .result import ISSUE_PHASES
from .rundir import FORMAT, Joiner, feed

POLL: Final = 0.2
"""Seconds between two looks at the file."""
SETTLE: Final = 3.0
"""Seconds that a finished run may take to write its final state to run_info.json."""
_BLOCK: Final = 1 << 20
_MARK: Final = 1024
_JUDGED: Final = frozenset(name for group in ISSUE_PHASES.values() for name in group)
"""Phases that a result can still say something of: they wait for it. The others go out when they end."""


class Tail:
    """The lines of a file that grows. `read` gives those that are there now; it never waits. ``restarted`` is set when the file begins anew."""

    def __init__(self, path: Path, report: Report) -> None:
        self.path, self.report = path, report
        self.restarted = False
        self._file: BinaryIO | None = None
        self._rest = self._mark = b""
        self._number = self._offset = 0

    def read(self) -> Iterator[Line]:
        if self._file is None and not self._open():
            return
        yield from self._lines()
        if self._moved():  # renamed away, and another stands in its place: the old one is read to its end first
            yield from self._lines()
            self.close()
            if self._open():
                self.restarted = True
                yield from self._lines()

    def _open(self) -> bool:
        try:
            self._file = self.path.open("rb")
        except OSError:
            return False
        self._drop()
        self._mark = b""
        self._number = self._offset = 0
        return True

    def _drop(self) -> None:
        if self._rest.strip():
            self.report.note("truncated", f"{len(self._rest):,} bytes without an end of line passed over", "lost", line=self._number + 1)
        self._rest = b""

    def _moved(self) -> bool:
        assert self._file is not None
        try:
            there, mine = self.path.stat(), os.fstat(self._file.fileno())
        except OSError:
            return False
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def _cut(self) -> bool:
        """Whether the file is no longer the one that was read: shorter, or other bytes stand where the last ones were (it was cut and has grown
        past them since). The mark is long enough to hold the last event's time."""
        assert self._file is not None
        end = self._offset + len(self._rest)
        if os.fstat(self._file.fileno()).st_size < end:
            return True
        self._file.seek(end - len(self._mark))
        return self._file.read(len(self._mark)) != self._mark

    def _lines(self) -> Iterator[Line]:
        assert self._file is not None
        if self._cut():
            self._file.seek(0)
            self._drop()
            self._mark = b""
            self._number = self._offset = 0
            self.restarted = True
        while block := self._file.read(_BLOCK):
            self._mark = (self._mark + block)[-_MARK:]
            *whole, self._rest = (self._rest + block).split(b"\n")
            for data in whole:
                self._number += 1
                yield Line(self._number, self._offset, data, True)
                self._offset += len(data) + 1
            if len(self._rest) > MAX_LINE:
                raise ReadError(f"a line of more than {MAX_LINE:,} bytes", input=self.report.input, line=self._number + 1)

    def last(self) -> Iterator[Line]:
        """A last line without an end, when nothing more will come."""
        if self._rest.strip():
            yield Line(self._number + 1, self._offset, self._rest, False)
        self._rest = b""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def lines(
    path: Path, report: Report, progress: Progress, stop: Callable[[], bool] | None, idle: Callable[[], bool] | None = None
) -> Iterator[Line | None]:
    """Lines as they come, and None at each look that finds nothing more. Ends when every run that began has ended, on ``stop`` and on an interrupt.
    After the file began anew, events that were read before are passed over by their time."""
    tail = Tail(path, report)
    try:
        while True:
            for line in tail.read():
                if tail.restarted:
                    progress.again()
                    tail.restarted = False
                yield line
            if progress.lines and not progress.runs:
                return
            if stop is not None and stop():
                break
            yield None
            time.sleep(POLL)
    except KeyboardInterrupt:
        report.note("interrupted", "following was interrupted: what is open is marked unfinished", "info")
    finally:
        tail.close()
    yield from tail.last()


def follow(root: Path, report: Report, options: ReadOptions) -> Iterator[Item]:
    """A run directory, which may not have begun."""
    if not is_run(root):
        below = list(run_directories(root))
        if len(below) > 1:
            raise ReadError(f"{len(below)} runs in it", input=report.input, hint="follow one run directory")
        root = below[0] if below else root
    joiner = Joiner(root, report, live=True)
    progress = Progress(report, FORMAT)
    live = _Live(joiner, progress, report)
    for line in lines(root / "progress.jsonl", report, progress, options.stop):
        if line is None:
            yield from live.look()
            continue
        for item in feed(joiner, progress, line, raw=True):
            yield from live.take(item)
    for item in progress.close():
        yield from live.take(item)


class _Live:
    """Holds attempts whose result is not there yet."""

    def __init__(self, joiner: Joiner, progress: Progress, report: Report) -> None:
        self.joiner, self.progress, self.report = joiner, progress, report
        self.waiting: list[Attempt] = []

    def take(self, item: Item) -> Iterator[Item]:
        if isinstance(item, Phase):
            if item.name not in _JUDGED:
                self.joiner.sent.add(item.id)
                yield item
            yield from self.joiner.take(item, self.progress)
        elif isinstance(item, Attempt):
            if item.unfinished or self.joiner.ready(item):
                yield from self.joiner.attempt(item, self.progress)
            else:
                self.waiting.append(item)
        else:
            if isinstance(item, Task | Run):
                yield from self._release(item)
            if isinstance(item, Run) and not item.unfinished:
                self._settle()
            yield from self.joiner.take(item, self.progress)

    def _release(self, parent: Task | Run) -> Iterator[Item]:
        ready = [a for a in self.waiting if isinstance(parent, Run) or a.parent_id == parent.id]
        self.waiting = [a for a in self.waiting if a not in ready]
        for one in ready:
            yield from self.joiner.attempt(one, self.progress)

    def look(self) -> Iterator[Item]:
        """Attempts whose result has come since."""
        ready = [a for a in self.waiting if self.joiner.ready(a)]
        if ready:
            self.waiting = [a for a in self.waiting if a not in ready]
            for one in ready:
                yield from self.joiner.attempt(one, self.progress)

    def _settle(self) -> None:
        """The final state is written next to the last event: wait for it a little."""
        path = self.joiner.root / "run_info.json"
        until = time.monotonic() + SETTLE
        while path.is_file() and time.monotonic() < until:
            if text((load(path, Report(), self.joiner.root) or {}).get("status", ABSENT)) is not None:
                return
            time.sleep(POLL)


def follow_stream(path: Path, report: Report, options: ReadOptions, format: str) -> Iterator[Item]:
    """A ``progress.jsonl`` alone, as it grows."""
    progress = Progress(report, format)
    for line in lines(path, report, progress, options.stop):
        if line is not None:
            yield from progress.feed(line)
    yield from progress.close()


__all__ = ["Tail", "follow", "follow_stream", "lines"]
