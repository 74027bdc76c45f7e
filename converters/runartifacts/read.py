"""Read SimLab's ``artifacts.json``, one file or a whole output folder, into spans. What the records mean is in `converters.simlab`."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import Report
from ..model import Item
from ..registry import ReadOptions
from ..simlab.trace import single
from ..source import Source
from .folder import read_folder
from .one import load


def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """One trace for a file; for a folder one for each run in it."""
    if source.is_dir:
        yield from read_folder(source, report)
        return
    doc, repairs = load(source, report)
    yield from single(doc, "runartifacts", report, repairs=repairs)
