"""What the columns and the payload of one event hold, beside what makes a span of it: nothing of them is dropped."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from ..jsonio import fields, is_null
from ..model import ABSENT, Event, Value, raw
from .schema import Line, integer, kind, plain

NOTHING: Final[dict[str, Raw]] = {}
EMPTY: Final = Raw(b"{}")
_PLAIN: Final = ("string", "number", "true", "false")


def stray(e: Line, first: Line, odd: dict[str, Raw]) -> dict[str, Raw]:
    """Columns that differ from those of the run's first line, and a payload that is no object: kept as odd fields of the line."""
    more = {f"line.{n}": raw(v) for n in ("request_key", "request_name") if (v := getattr(e, n)) != getattr(first, n)}
    if not is_null(e.payload) and kind(e.payload) != "object":
        more["line.payload"] = e.payload.copy()
    return {**odd, **more} if more else odd


def unused(e: Line, odd: dict[str, Raw], *names: str) -> dict[str, Raw]:
    """Columns of an event that makes a span which that span does not hold."""
    for name in names:
        if (value := getattr(e, name)) is not None:
            odd = {**odd, f"line.{name}": raw(value)}
    return odd


def payload_members(payload: Raw) -> dict[str, Raw]:
    """The members of a payload, which may outlive its line; mostly there are none."""
    return fields(payload.copy()) if payload and payload != EMPTY else {}


def take_number(payload: dict[str, Raw], name: str) -> int | None:
    """A whole number taken out of the payload; what is none stays in it."""
    found = integer(payload.get(name, ABSENT))
    if found is not None:
        del payload[name]
    return found


def event_of(e: Line, odd: dict[str, Raw], payload: dict[str, Raw], time: int) -> Event:
    """An event of the stream as an event of a span: plain values as attributes, the rest (and a resolved plan, whole) as ``source``."""
    attributes: dict[str, Value] = {}
    source = dict(odd)
    if e.status is not None:
        attributes["agentcompass.status"] = e.status
    if e.phase is not None and e.event not in ("phase_changed", "execution_plan_resolved"):
        attributes["agentcompass.phase"] = e.phase
    for key, value in payload.items():
        if e.event != "execution_plan_resolved" and f"agentcompass.{key}" not in attributes and kind(value) in _PLAIN:
            attributes[f"agentcompass.{key}"] = plain(value)
        else:
            source[key] = value
    return Event(name=e.event, time=time, attributes=attributes, source=source)
