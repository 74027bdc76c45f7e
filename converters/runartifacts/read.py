"""Read SimLab's ``artifacts.json``, one file or a whole output folder, into spans. What the records mean is in `converters.simlab`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from .. import ids
from ..errors import ReadError, Report
from ..model import Item, Repair, Run, TraceHeader
from ..registry import ReadOptions
from ..simlab.document import Document, document
from ..simlab.spans import FAMILY, Facts, Place, facts, final_of, rollout, run_key
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
    doc, repairs = load(source, report)
    yield from single(doc, facts(doc), report, repairs)


def single(doc: Document, known: Facts, report: Report, repairs: list[Repair]) -> Iterator[Item]:
    """A run with one attempt."""
    key = run_key(doc, known)
    trace = ids.trace_id(FAMILY, *key)
    run = ids.span_id(trace, "run")
    yield TraceHeader(id=trace, family=FAMILY, format="runartifacts", run_key=key, name=known.task_id or None, repairs=repairs)
    place = Place(trace=trace, parent=run)
    attempt = None
    for span in rollout(doc, known, place, report):
        yield span
        attempt = span
    assert attempt is not None
    yield Run(
        id=run,
        trace_id=trace,
        key="run",
        name=known.agent,
        start=attempt.start,
        end=attempt.end,
        clock=attempt.clock,
        uncertainty=attempt.uncertainty,
        unfinished=attempt.unfinished,
        status=attempt.status,
        error=attempt.error,
        type="agent",
        native_id=known.task_id or None,
        conversation_id=known.conversation,
        model=known.model,
        provider=known.provider,
        input=doc.fields.get("task", Raw()),
        output=final_of(doc),
        ending=known.ending,
    )
