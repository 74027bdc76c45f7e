"""One trace per task or attempt (``--trace-per``), so that a run of 10,000 tasks can be opened in a backend.

Each task (or each attempt) of a run becomes the root of a trace of its own, with a link of type ``part_of`` to the span it stood under; the run, and with
``attempt`` its tasks, stay in the run's trace. Span ids stay as they are; trace ids are derived from the run key, so that a second export
gives the same ones. Spans come before their parents, so what is open is held: one task, or, in a run without tasks, the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from .. import ids
from ..model import AnySpan, Attempt, Item, Link, Run, Task, TraceHeader

Per = Literal["run", "task", "attempt"]


def split(items: Iterable[Item], per: Per) -> Iterator[Item]:
    """``items`` with a trace for each task or attempt. Of attempts inside attempts (sub-agents) the outermost counts; a run that has no task (no
    attempt) stays one trace. What a source leaves without its parent goes out at the end, in its own trace."""
    if per == "run":
        yield from items
        return
    traces: dict[str, _Trace] = {}
    for item in items:
        if isinstance(item, TraceHeader):
            traces[item.id] = _Trace(item, per)
            yield item
        else:
            yield from traces[item.trace_id].take(item)
    for trace in traces.values():
        yield from trace.rest()


class _Trace:
    """The spans of one trace whose place is not known yet, by parent."""

    def __init__(self, header: TraceHeader, per: Per) -> None:
        self.header, self.per = header, per
        self.held: dict[str, list[AnySpan]] = {}

    def take(self, span: AnySpan) -> Iterator[Item]:
        if self.per == "task" and isinstance(span, Task):
            yield from self._part(span)
        elif isinstance(span, Task):
            yield from self._parts_below(span)
            yield span
        elif span.parent_id is None:
            if self.per == "attempt" and isinstance(span, Run):
                yield from self._parts_below(span)
            yield from self._below(span.id)
            yield span
        else:
            self.held.setdefault(span.parent_id, []).append(span)

    def _parts_below(self, span: AnySpan) -> Iterator[Item]:
        """Attempts directly under ``span``, each as a trace; the rest of what is under it."""
        for child in self.held.pop(span.id, ()):
            if isinstance(child, Attempt):
                yield from self._part(child)
            else:
                yield from self._below(child.id)
                yield child

    def _below(self, id: str) -> Iterator[AnySpan]:
        """Everything held under the span ``id``, children before parents."""
        stack = list(reversed(self.held.pop(id, [])))
        while stack:
            span = stack[-1]
            if span.id in self.held:
                stack.extend(reversed(self.held.pop(span.id)))
            else:
                yield stack.pop()

    def _part(self, root: AnySpan) -> Iterator[Item]:
        header, spans = self.header, [*self._below(root.id), root]
        key = [*header.run_key, self.per, root.id]
        trace = ids.trace_id(header.family, *key)
        inside = {s.id for s in spans}
        yield TraceHeader(
            id=trace, family=header.family, format=header.format, run_key=key, name=root.name or header.name, resource=header.resource
        )
        for span in spans:
            links = [
                msgspec.structs.replace(x, trace_id=trace) if x.trace_id == header.id and x.span_id in inside else x for x in span.links
            ]
            if span is root:
                if span.parent_id is not None:
                    links.append(Link(trace_id=header.id, span_id=span.parent_id, type="part_of"))
                yield msgspec.structs.replace(span, trace_id=trace, parent_id=None, links=links)
            else:
                yield msgspec.structs.replace(span, trace_id=trace, links=links)

    def rest(self) -> Iterator[AnySpan]:
        """Spans whose parent never came, as they came."""
        for group in list(self.held.values()):
            yield from group
        self.held.clear()


__all__ = ["Per", "split"]
