"""``progress.jsonl`` alone, from a file or a pipe: run, task, attempt and phase spans, in memory bounded by what is open."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import Report
from ..model import Item
from ..registry import ReadOptions
from ..source import Source
from .events import read_lines
from .follow import follow_stream

FORMAT = "agentcompass-progress"


def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """Items as they complete. ReadError when no line is an event."""
    if options.follow and source.path is not None:
        yield from follow_stream(source.path, report, options, FORMAT)
        return
    yield from read_lines(source.lines(), report, FORMAT)
