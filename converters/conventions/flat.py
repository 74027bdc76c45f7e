"""A span as OTLP has it: ids, times, a name, and attributes. What stands between the model and the two encodings of OTLP.

Attribute values are plain Python values (str, bool, int, float, lists and dicts of these), or ``bytes``, which is UTF-8 text
(mostly JSON that is carried) to be written as a string without being decoded on the way. Binary content never gets here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal

from msgspec import Struct

FlatValue = str | bytes | bool | int | float | list[Any] | dict[str, Any] | None
Attributes = list[tuple[str, Any]]
INT64: Final = range(-(1 << 63), 1 << 63)


class Own(str):
    """Stands in a dress where each span has something of its own: the value of its field of this name (``history.base``: of a field of that). ``how`` makes the
    attribute's text of it, as bytes; None where it stands as it is."""

    __slots__ = ("how",)
    how: Callable[[Any], bytes] | None

    def __new__(cls, field: str, how: Callable[[Any], bytes] | None = None) -> Own:
        made = super().__new__(cls, field)
        made.how = how
        return made


class Dress:
    """What many spans are dressed in, made once: a flat span's attributes, name, kind and status, with `Own` where they differ. Values are texts and numbers that OTLP
    holds as they are, each name occurs once. ``proto``, ``json``: what the two encodings make of it, once they have."""

    __slots__ = ("attributes", "json", "kind", "name", "names", "proto", "status")

    def __init__(self, attributes: Attributes, name: str, kind: int, status: int) -> None:
        self.attributes, self.name, self.kind, self.status = attributes, name, kind, status
        self.names = frozenset(key for key, _ in attributes)
        self.proto: Any = None
        self.json: Any = None

    @property
    def fits(self) -> bool:
        """Whether it holds what a dress may hold."""
        return (
            len(self.names) == len(self.attributes)
            and all(name and name.isascii() for name in self.names)
            and all(fits(value) for _, value in self.attributes)
            and fits(self.name)
        )


def fits(value: Any) -> bool:
    """Whether a value is a text or a number that OTLP holds as it is."""
    kind = value.__class__
    if kind is str or kind is Own:
        return bool(value.isascii())
    return kind is bool or (kind is int and value in INT64) or (kind is float and isfinite(value))


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
