"""A span as OTLP has it: ids, times, a name, and attributes. What stands between the model and the two encodings of OTLP.

Attribute values are plain Python values (str, bool, int, float, lists and dicts of these), or ``bytes``, which is UTF-8 text
(mostly JSON that is carried) to be written as a string without being decoded on the way. Binary content never gets here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec import Struct

FlatValue = str | bytes | bool | int | float | list[Any] | dict[str, Any] | None
Attributes = list[tuple[str, Any]]


class Shared(list[tuple[str, Any]]):
    """Attributes that many spans have, made once and never changed, with the name, the kind and the status that go with them. ``proto``, ``json``: as the two
    encodings write what stands before and after the times, once they have; ``fits``: the last plan of an export that changed nothing in them."""

    __slots__ = ("fits", "json", "kind", "name", "proto", "status")

    def __init__(self, given: Attributes, name: str, kind: int, status: int) -> None:
        super().__init__(given)
        self.name, self.kind, self.status = name, kind, status
        self.fits: object = None
        self.proto: tuple[bytes, bytes] | None = None
        self.json: tuple[bytes, bytes] | None = None


INTERNAL: Final = 1
CLIENT: Final = 3
UNSET: Final = 0
OK: Final = 1
ERROR: Final = 2


class FlatEvent(Struct, gc=False):
    name: str
    time: int
    attributes: Attributes = []


class FlatLink(Struct, gc=False):
    trace_id: str
    span_id: str
    attributes: Attributes = []


class FlatSpan(Struct, kw_only=True, gc=False):
    """Times in ns; ids in hex; ``kind`` and ``status`` are OTLP's numbers. ``extra``: what a span of somebody else's says beyond these, by its
    OTLP JSON name (traceState, scope, …); never written from here."""

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str
    kind: int = INTERNAL
    start: int
    end: int
    attributes: Attributes
    events: list[FlatEvent] = []
    links: list[FlatLink] = []
    status: int = UNSET
    message: str = ""
    extra: dict[str, Any] = {}


@dataclass(frozen=True)
class Profile:
    """How spans are dressed for the reader on the other side. ``carry``: with ``source`` and the residue, so that nothing
    is lost; ``dialect``: which names of the GenAI conventions."""

    name: str = "generic"
    dialect: Literal["1.41", "0.1"] = "1.41"
    carry: bool = False
