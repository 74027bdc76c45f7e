"""Reading and writing as a library: `stream`, `read`, `write`, `detect`. The commands are thin skins over these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from . import registry
from .errors import Report
from .model import Item, Trace, TraceHeader
from .source import source_of


def detect(source: Any) -> str:
    """The name of the format that ``source`` is in, by its content. ReadError when none or two fit."""
    return registry.detect(source_of(source)).name


def stream(
    source: Any,
    *,
    format: str | None = None,
    report: Report | None = None,
    options: registry.ReadOptions | None = None,
) -> Iterator[Item]:
    """A header and spans, each as soon as it is complete.

    ``source``: a path, bytes, a binary file object, a dict or list, or anything with ``to_dict()``. ``format`` overrides recognition.
    What is odd or lost goes to ``report``. ReadError when nothing can be read."""
    given = source_of(source)
    report = report if report is not None else Report()
    if report.input is None:
        report.input = given.name
    chosen = registry.get(format) if format else registry.detect(given)
    return chosen.read(given, report, options)


def collect(items: Iterable[Item]) -> list[Trace]:
    """Items gathered into traces, in the order of their headers."""
    traces: dict[str, Trace] = {}
    for item in items:
        if isinstance(item, TraceHeader):
            traces.setdefault(item.id, Trace(header=item, spans=[]))
        else:
            traces[item.trace_id].spans.append(item)
    return list(traces.values())


def read(
    source: Any,
    *,
    format: str | None = None,
    report: Report | None = None,
    options: registry.ReadOptions | None = None,
) -> list[Trace]:
    """All traces of ``source``, whole. See `stream` for the arguments."""
    return collect(stream(source, format=format, report=report, options=options))


def items_of(traces: Iterable[Trace] | Iterable[Item]) -> Iterator[Item]:
    """Traces (or items, passed through) as items: each header, then its spans."""
    for one in traces:
        if isinstance(one, Trace):
            yield one.header
            yield from one.spans
        else:
            yield one


def write(
    traces: Iterable[Trace] | Iterable[Item],
    out: BinaryIO,
    *,
    format: str,
    report: Report | None = None,
    options: registry.WriteOptions | None = None,
) -> Report:
    """Write traces (or the items of a stream) to the binary file ``out`` in ``format``; the report says what was lost."""
    report = report if report is not None else Report()
    registry.get(format).write(items_of(traces), out, report, options)
    return report
