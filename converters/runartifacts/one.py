"""One ``artifacts.json``, whole or cut off, as a `Document`. What the record means is in `converters.simlab`."""

from __future__ import annotations

from .. import jsonio
from ..errors import Report
from ..model import Repair
from ..simlab.document import Document, document
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
