"""Attribute limits: how large a value and how many attributes a span may have. Every cut is marked on the span.

``spanport.cut`` lists what was cut, as ``name (N bytes)`` with the size it had; ``spanport.dropped_attributes`` counts what was left out. Message
lists and other JSON stay JSON: the long strings inside them are cut, not the text of the whole, which a backend could no longer read.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ..conventions.flat import Attributes, FlatEvent, FlatSpan

CUT: Final = "spanport.cut"
DROPPED: Final = "spanport.dropped_attributes"
_MARK: Final = "… [cut]"
_MARKS = (CUT, DROPPED)
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def limit(span: FlatSpan, max_bytes: int | None = None, max_attributes: int | None = None) -> FlatSpan:
    """``span`` with each attribute value (its events' and links' too) of at most ``max_bytes`` bytes of UTF-8, and at most ``max_attributes``
    attributes, the first ones (they are in the order of their weight). The same object when nothing was over."""
    cut: list[str] = []
    attributes, events = span.attributes, span.events
    if max_bytes is not None:
        attributes = _cut(attributes, max_bytes, cut)
        events = [_cut_event(e, max_bytes, cut) for e in events]
    dropped = 0
    if max_attributes is not None and len(attributes) > max_attributes:
        keep = max(max_attributes - 1 - bool(cut), 0)
        dropped = len(attributes) - keep
        attributes = attributes[:keep]
    if not cut and not dropped:
        return span
    before = dict(a for a in span.attributes if a[0] in _MARKS)
    attributes = [a for a in attributes if a[0] not in _MARKS]
    if cut or CUT in before:
        told = before.get(CUT)
        names = [str(n) for n in told] if isinstance(told, list | tuple) else []
        known = {n.rpartition(" (")[0] for n in names}
        attributes.append((CUT, names + [c for c in cut if c.rpartition(" (")[0] not in known]))
    if dropped or DROPPED in before:
        earlier = before.get(DROPPED, 0)
        attributes.append((DROPPED, dropped + (earlier if isinstance(earlier, int) else 0)))
    return replace(span, attributes=attributes, events=events)


def shorten(span: FlatSpan, size: int) -> FlatSpan:
    """``span`` with its values cut so that they take about ``size`` bytes together: the large ones are cut, small ones stay. Events
    beyond what fits are left out, the last first, and counted in the mark."""
    sizes = sorted(
        [_size(v) for _, v in span.attributes] + [_size(v) for e in span.events for _, v in e.attributes] + [len(span.message)],
        reverse=True,
    )
    overhead = sum(len(k) + 12 for k, _ in span.attributes) + sum(
        40 + len(e.name) + sum(len(k) + 12 for k, _ in e.attributes) for e in span.events
    )
    room = max(size - overhead, 64)
    cap = room
    total = sum(sizes)
    for n, _one in enumerate(sizes, 1):  # the level at which cutting the n largest is enough
        rest = total - sum(sizes[:n])
        cap = max((room - rest) // n, 32)
        if n == len(sizes) or cap >= sizes[n]:
            break
    found = limit(span, cap)
    if len(found.message) > cap:
        found = replace(found, message=found.message[:cap] + _MARK)
    spent = sum(_size(v) + len(k) + 12 for k, v in found.attributes)
    if span.events and spent + sum(_event_size(e) for e in found.events) > size:
        kept: list[FlatEvent] = []
        for event in found.events:
            spent += _event_size(event)
            if spent > size:
                break
            kept.append(event)
        lost = len(found.events) - len(kept)
        if lost:
            attributes = [a for a in found.attributes if a[0] != CUT]
            names = [str(n) for n in dict(found.attributes).get(CUT) or () if not str(n).startswith("event.")]
            attributes.append((CUT, [*names, f"events ({lost} of {len(span.events)} left out)"]))
            found = replace(found, events=kept, attributes=attributes)
    if spent > size and len(found.attributes) > 8:
        found = limit(found, cap, max(8, len(found.attributes) * size // max(spent, 1)))
    return found


def _event_size(event: FlatEvent) -> int:
    return 40 + len(event.name) + sum(_size(v) + len(k) + 12 for k, v in event.attributes)


def _size(value: Any) -> int:
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
    if isinstance(value, list | tuple):
        return sum(_size(v) + 4 for v in value)
    if isinstance(value, dict):
        return sum(_size(v) + len(k) + 8 for k, v in value.items())
    return 8


def _cut(given: Attributes, most: int, cut: list[str], prefix: str = "") -> Attributes:
    if all(v.__class__ in (bool, int, float) or k in _MARKS or _size(v) <= most for k, v in given):
        return given
    out: Attributes = []
    for key, value in given:
        if key not in _MARKS and (size := _size(value)) > most:
            cut.append(f"{prefix}{key} ({size} bytes)")
            value = _shorter(value, most)
        out.append((key, value))
    return out


def _cut_event(event: FlatEvent, most: int, cut: list[str]) -> FlatEvent:
    found = _cut(event.attributes, most, cut, "event.")
    return event if found is event.attributes else FlatEvent(event.name, event.time, found)


def _shorter(value: Any, most: int) -> Any:
    if isinstance(value, str | bytes):
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        if text[:1] in ("{", "[") and (made := _shorter_json(text, most)) is not None:
            return made
        return _cut_text(text, most)
    if isinstance(value, list | dict | tuple):
        made = _shorter_json(_encode(value).decode(), most)
        return _cut_text(_encode(value).decode(), most) if made is None else _decode(made)
    return value


def _cut_text(text: str, most: int) -> str:
    """The head of ``text`` in at most ``most`` bytes of UTF-8, the mark included."""
    room = max(most - len(_MARK.encode()), 0)
    head = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    return (head + _MARK).encode()[:most].decode("utf-8", "ignore") if most < len(_MARK.encode()) else head + _MARK


def _shorter_json(text: str, most: int) -> str | None:
    """The same JSON with its long strings cut, in at most ``most`` bytes; None when it is no JSON or its structure alone takes more."""
    try:
        value = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    low, high, best = 0, most, None
    while low <= high:
        middle = (low + high) // 2
        made = _encode(_with_strings(value, middle))
        if len(made) <= most:
            best, low = made, middle + 1
        else:
            high = middle - 1
        if high - low < most // 64:
            break
    if best is None:
        made = _encode(_with_strings(value, 0))
        best = made if len(made) <= most else None
    return best.decode() if best is not None else None


def _with_strings(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most + len(_MARK) else value[:most] + _MARK
    if isinstance(value, list):
        return [_with_strings(v, most) for v in value]
    if isinstance(value, dict):
        return {k: _with_strings(v, most) for k, v in value.items()}
    return value
