"""Moving a record in time, only when asked to (``--shift-time``): for backends that drop or hide old spans. Everything of one input moves by the same
amount, and every span says by how much (``spanport.shifted_ns``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from ..model import Item, TraceHeader

SHIFTED: Final = "spanport.shifted_ns"


def shift(items: Iterable[Item], *, end: int | None = None, start: int | None = None) -> Iterator[Item]:
    """The items moved so that the last time is ``end``, or the first one ``start`` (ns). All of them are held: the first and last time
    are known only at the end of the input."""
    held = list(items)
    spans = [i for i in held if not isinstance(i, TraceHeader)]
    starts = [s.start for s in spans if s.start is not None]
    ends = [t for s in spans for t in (s.end, s.start) if t is not None]
    if not starts:
        yield from held
        return
    by = end - max(ends) if end is not None else (start or 0) - min(starts)
    for item in held:
        yield item if isinstance(item, TraceHeader) else moved(item, by)


def moved(span: Any, by: int) -> Any:
    """``span`` with all its times moved by ``by`` ns, and marked."""
    more: dict[str, Any] = {"attributes": {**span.attributes, SHIFTED: by}}

    def new(time: int | None) -> int | None:
        return None if time is None else time + by

    more["start"], more["end"] = new(span.start), new(span.end)
    if span.events:
        more["events"] = [replace(e, time=new(e.time)) for e in span.events]
    if span.scores:
        more["scores"] = [replace(s, time=new(s.time)) for s in span.scores]
    if span.artifacts:
        more["artifacts"] = [replace(a, created=new(a.created)) for a in span.artifacts]
    for name in ("messages", "input_messages", "output_messages"):
        if messages := getattr(span, name, None):
            more[name] = [m if m.time is None else replace(m, time=m.time + by) for m in messages]
    if chunks := getattr(span, "chunks", None):
        more["chunks"] = [c if c.time is None else replace(c, time=c.time + by) for c in chunks]
    return replace(span, **more)
