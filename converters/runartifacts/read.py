"""Read SimLab's ``artifacts.json``, one file or a whole output folder, into spans. What the records mean is in `converters.simlab`."""

from __future__ import annotations

from collections.abc import Iterator

from .. import jsonio
from ..errors import Report
from ..model import Item, Repair
from ..registry import ReadOptions
from ..simlab.document import Document, document
from ..simlab.trace import single
from ..source import Source
from .recover import decode_or_recover, verbatim


def load(source: Source, report: Report) -> tuple[Document, list[Repair]]:
    """The record in ``source``: a file, or an object in memory."""
    if source.object is not None:
        data: bytes | memoryview = jsonio.encode_object(source.object)
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
