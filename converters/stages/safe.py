"""Values that OTLP can hold: binary as base64, NaN and infinities, integers beyond 64 bit and other types as strings, lone surrogates as U+FFFD,
keys that are not empty and occur once, ids of the right length, times that fit.

Works on flat spans, in place of nothing that is right already; what was changed is counted by kind, so that a user hears of it.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from .. import ids
from ..conventions.flat import Attributes, FlatEvent, FlatLink, FlatSpan
from ..text import safe_text

MAX_DEPTH: Final = 32
"""Lists and maps in an attribute that are nested deeper become JSON text: encoders, ours and the servers', go down by recursion."""
_INT64 = range(-(1 << 63), 1 << 63)
_MAX_TIME: Final = (1 << 63) - 1
_PLAIN = (bool, type(None))
_HEX: Final = "0123456789abcdefABCDEF"
_ZERO: Final = "0" * 32
_names: set[str] = set()
"""Keys that are in ASCII and not empty: few, so they are kept, up to a bound."""
EMPTY_KEY: Final = "spanport.empty_key"


def safe(span: FlatSpan, changed: Counter[str]) -> FlatSpan:
    """``span`` with values that OTLP holds; the same object when nothing had to be changed. ``changed`` is counted up by kind."""
    more: dict[str, Any] = {}
    given = span.attributes
    if (attributes := _attributes(given, changed)) is not given:
        more["attributes"] = attributes
    if span.events and (events := [_event(e, changed) for e in span.events]) != span.events:
        more["events"] = events
    if span.links:
        links = [x for x in (_link(x, changed) for x in span.links) if x is not None]
        if links != span.links:
            more["links"] = links
    if not (span.name.isascii() and span.message.isascii()):
        for name in ("name", "message"):
            text = getattr(span, name)
            if (mended := _text(text, changed)) is not text:
                more[name] = mended
    if not (0 <= span.start <= _MAX_TIME and 0 <= span.end <= _MAX_TIME):
        for name in ("start", "end"):
            if not 0 <= getattr(span, name) <= _MAX_TIME:
                changed["time"] += 1
                more[name] = 0 if getattr(span, name) < 0 else _MAX_TIME
    trace, own, parent = span.trace_id, span.span_id, span.parent_id
    if (
        not (len(trace) == 32 and len(own) == 16 and (parent is None or len(parent) == 16))
        or (trace + own + parent if parent is not None else trace + own).strip(_HEX)
        or trace == _ZERO
        or own == _ZERO[:16]
        or parent == _ZERO[:16]
    ):
        _ids(span, changed, more)
    return replace(span, **more) if more else span


def _ids(span: FlatSpan, changed: Counter[str], more: dict[str, Any]) -> None:
    """Other ids for those that are none."""
    if not ids.is_id(span.trace_id, 32):
        changed["id"] += 1
        more["trace_id"] = ids.trace_id("id", span.trace_id)
    if not ids.is_id(span.span_id, 16):
        changed["id"] += 1
        more["span_id"] = ids.span_id(more.get("trace_id", span.trace_id), "id", span.span_id, span.name, str(span.start))
    if span.parent_id is not None and not ids.is_id(span.parent_id, 16):
        changed["id"] += 1
        more["parent_id"] = None


def _text(value: str, changed: Counter[str]) -> str:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        changed["surrogate"] += 1
        return safe_text(value)
    return value


def _attributes(given: Attributes, changed: Counter[str]) -> Attributes:
    """The same list when all is well, which is nearly always: else a new one is made."""
    keys = {key for key, _ in given}
    if len(keys) == len(given) and (keys <= _names or _known(keys)) and _good(given):
        return given
    seen: set[str] = set()
    out: Attributes | None = None
    for i, (key, value) in enumerate(given):
        kind = value.__class__
        good = (kind is str and value.isascii()) or kind is bool or (kind is int and value in _INT64)
        new = value if good else _value(value, changed)
        name = key if key.isascii() else _text(key, changed)
        drop = False
        if not key:
            changed["empty key"] += 1
            name = EMPTY_KEY
        if name in seen:
            changed["key twice"] += 1
            drop = True
        seen.add(name)
        if out is None and (new is not value or name is not key or drop):
            out = list(given[:i])
        if out is not None and not drop:
            out.append((name, new))
    return given if out is None else out


def _known(keys: set[str]) -> bool:
    if not all(key and key.isascii() for key in keys):
        return False
    if len(_names) > 8192:
        _names.clear()
    _names.update(keys)
    return True


def _good(given: Attributes) -> bool:
    """Whether all values are of those, by far the most, that have nothing to change. The others get a second look."""
    for _, value in given:
        kind = value.__class__
        if kind is str or kind is bytes:
            if not value.isascii():
                return False
        elif kind is int:
            if value not in _INT64:
                return False
        elif kind is float:
            if not math.isfinite(value):
                return False
        elif kind is list:
            if not all(v.__class__ is str and v.isascii() for v in value):
                return False
        elif kind is not bool:
            return False
    return True


def _value(value: Any, changed: Counter[str], depth: int = 0) -> Any:
    if isinstance(value, str):
        return _text(str(value), changed) if value.__class__ is not str else _text(value, changed)
    if isinstance(value, bytes):  # UTF-8 text (see `conventions.flat`), or binary that a foreign value brought
        try:
            value.decode()
        except UnicodeDecodeError:
            changed["bytes"] += 1
            return base64.b64encode(value).decode()
        return value
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, int):
        if value in _INT64:
            return value
        changed["integer"] += 1
        return str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        changed["NaN"] += 1
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple | dict):
        if depth >= MAX_DEPTH:
            changed["depth"] += 1
            return _json(value)
        if isinstance(value, dict):
            made = {_text(str(k), changed) or EMPTY_KEY: _value(v, changed, depth + 1) for k, v in value.items()}
            return value if made == value and all(made[k] is value[k] for k in value) else made
        held = [_value(v, changed, depth + 1) for v in value]
        return value if all(a is b for a, b in zip(held, value, strict=True)) else held
    changed["type"] += 1
    return _json(value)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return safe_text(str(value)[:4096])


def _event(event: FlatEvent, changed: Counter[str]) -> FlatEvent:
    attributes = _attributes(event.attributes, changed)
    name = _text(event.name, changed)
    good = 0 <= event.time <= _MAX_TIME
    if attributes is event.attributes and name is event.name and good:
        return event
    changed["time"] += not good
    return FlatEvent(name, event.time if good else 0, attributes)


def _link(link: FlatLink, changed: Counter[str]) -> FlatLink | None:
    if not (ids.is_id(link.trace_id, 32) and ids.is_id(link.span_id, 16)):
        changed["link"] += 1
        return None
    attributes = _attributes(link.attributes, changed)
    return link if attributes is link.attributes else FlatLink(link.trace_id, link.span_id, attributes)
