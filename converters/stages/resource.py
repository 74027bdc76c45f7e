"""The resource of every trace: options before ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` before what the source says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from msgspec.structs import replace

from ..model import Item, TraceHeader, Value


def environment() -> dict[str, Value]:
    """What the environment says of the resource: ``k=v,k2=v2`` with percent-encoded values; the service's name has its own variable."""
    found: dict[str, Value] = {}
    for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, eq, value = pair.partition("=")
        if eq and key.strip():
            found[unquote(key.strip())] = unquote(value.strip())
    if name := os.environ.get("OTEL_SERVICE_NAME", "").strip():
        found["service.name"] = name
    return found


def resource(items: Iterable[Item], more: Mapping[str, Value]) -> Iterator[Item]:
    """The items with ``more`` in the resource of each trace, before what is there."""
    for item in items:
        yield replace(item, resource={**item.resource, **more}) if isinstance(item, TraceHeader) and more else item
