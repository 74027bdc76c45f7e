"""What both encodings of OTLP share: the resource of a trace, the scope, spans grouped by trace. The encodings are `wire` and `jsontext`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from ..conventions.flat import Attributes
from ..model import Item, TraceHeader

SCOPE: Final = "spanport"


def resource_attributes(header: TraceHeader) -> Attributes:
    """The resource of a trace: its own, with ``service.name`` from the producer where the source names no service."""
    known = dict(header.resource)
    known.setdefault("service.name", header.family)
    if known["service.name"] != header.family:
        known["spanport.family"] = header.family
    known.setdefault("spanport.source.format", header.format)
    known.setdefault("spanport.run.key", header.run_key)
    return list(known.items())


@cache
def scope_version() -> str:
    """The version of the installed package."""
    return version("spanport")


OPEN: Final = 8
"""How many batches' spans may be held, over all traces that are open."""


def batched(items: Iterable[Item], size: int) -> Iterator[tuple[TraceHeader, list[Any]]]:
    """Items as (header, up to ``size`` spans of that trace), in order. Spans of interleaved traces each find their own header. A trace goes when its root has
    come, which is mostly its last span; the largest one when many are open, so that memory does not grow with the input."""
    headers: dict[str, TraceHeader] = {}
    held: dict[str, list[Any]] = {}
    count = 0
    for item in items:
        if isinstance(item, TraceHeader):
            headers[item.id] = item
            continue
        group = held.setdefault(item.trace_id, [])
        group.append(item)
        count += 1
        if len(group) >= size or item.parent_id is None:
            trace = item.trace_id
        elif count > OPEN * size:
            trace = max(held, key=lambda t: len(held[t]))
        else:
            continue
        group = held.pop(trace)
        count -= len(group)
        yield headers[trace], group
    for trace, group in held.items():
        yield headers[trace], group
