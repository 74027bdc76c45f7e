"""A second copy on purpose (``--id-salt TEXT``): the same spans under other ids, which are the same each time for the same text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from .. import ids
from ..model import Item, ModelRequest, ToolCall, TraceHeader


def salt(items: Iterable[Item], text: str) -> Iterator[Item]:
    """The items with every id replaced, references included (parents, links, histories, who asked for a call)."""

    @lru_cache(maxsize=1 << 16)
    def other(native: str) -> str:
        return ids.salted(native, text)

    for item in items:
        if isinstance(item, TraceHeader):
            yield replace(item, id=other(item.id))
            continue
        more: dict[str, Any] = {"id": other(item.id), "trace_id": other(item.trace_id)}
        if item.parent_id is not None:
            more["parent_id"] = other(item.parent_id)
        if item.links:
            more["links"] = [replace(x, trace_id=other(x.trace_id), span_id=other(x.span_id)) for x in item.links]
        if isinstance(item, ModelRequest) and item.history is not None:
            more["history"] = replace(item.history, base=other(item.history.base))
        if isinstance(item, ToolCall) and item.requested_by is not None:
            more["requested_by"] = other(item.requested_by)
        yield replace(item, **more)
