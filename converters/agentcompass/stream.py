"""``progress.jsonl`` alone, from a file or a pipe: run, task, attempt and phase spans, in memory bounded by what is open."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from zlib import crc32

from ..errors import Report
from ..model import Item
from ..registry import WORTH, ReadOptions, Share, evenly
from ..source import Source
from .events import read_blocks

FORMAT = "agentcompass-progress"


def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """Items as they complete. ReadError when no line is an event."""
    if options.follow and source.path is not None:
        from .follow import follow_stream

        yield from follow_stream(source.path, report, options, FORMAT)
        return
    if (share := options.share) is None:
        yield from read_blocks(source.blocks(), report, FORMAT)
        return
    # The last share decodes all lines, to tell of those that can't be read: it gets nineteen tasks for twenty of the others.
    k, count = share[:2]
    wanted = lru_cache(1 << 12)(lambda task: min(crc32(task.encode("utf-8", "surrogatepass")) % (20 * count - 1) // 20, count - 1) == k)
    yield from read_blocks(source.blocks(), report, FORMAT, wanted, whole=share[0] == share[1] - 1)


def shares(source: Source, most: int, least: int) -> list[Share]:
    """See `Format.divide`: by tasks. Each share reads all lines, which takes a tenth of what the spans take."""
    return evenly(most) if source.size() >= WORTH else []
