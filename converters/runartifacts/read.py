"""Read SimLab's ``artifacts.json``, one file or a whole output folder, into spans. What the records mean is in `converters.simlab`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..errors import ReadError, Report
from ..model import Item, Repair
from ..registry import ReadOptions
from ..simlab.document import Document, document
from ..simlab.trace import single
from ..source import Source
from .recover import decode_or_recover, verbatim


def load(source: Source, report: Report) -> tuple[Document, list[Repair]]:
    """The record in ``source``: a file, or an object in memory."""
    if source.object is not None:
        try:
            data: bytes | memoryview = msgspec.json.encode(source.object)
        except (TypeError, ValueError, RecursionError) as error:
            raise ReadError(f"the object can't be written as JSON: {error}", input=source.name) from error
    else:
        data = source.data()
    repairs: list[Repair] = []
    fields, cut = decode_or_recover(data, report, repairs)
    doc = document(fields, report, cut=cut)
    if repairs:
        doc.verbatim = verbatim(bytes(data), doc.results, repairs)
    return doc, repairs


def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """One trace for a file; for a folder one for each run in it."""
    if source.is_dir:
        from .folder import read_folder

        yield from read_folder(source, report)
        return
    doc, repairs = load(source, report)
    yield from single(doc, "runartifacts", report, repairs=repairs)
