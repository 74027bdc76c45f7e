"""Carries in OTLP: the attribute ``spanport.carry`` on the first resource, put there after the spans are written."""

from __future__ import annotations

import msgspec

from ..model import Carry
from . import wire
from .decode import CARRY, read_varint


def into_json(written: bytes, carries: list[Carry]) -> bytes:
    """OTLP JSON Lines whose first line's resource holds the carries."""
    first, newline, rest = written.partition(b"\n")
    document = msgspec.json.decode(first)
    groups = document.get("resourceSpans") if isinstance(document, dict) else None
    if not groups:
        raise TypeError("there are no spans that could hold the carry")
    attributes = groups[0].setdefault("resource", {}).setdefault("attributes", [])
    attributes.append({"key": CARRY, "value": {"stringValue": msgspec.json.encode(carries).decode()}})
    return msgspec.json.encode(document) + newline + rest


def into_proto(written: bytes, carries: list[Carry]) -> bytes:
    """OTLP protobuf whose first resource holds the carries: both messages stand first in their parents, so that only two lengths change."""
    view = memoryview(written)
    if not written or view[0] != 0x0A:
        raise TypeError("there are no spans that could hold the carry")
    size, start = read_varint(view, 1)
    body = view[start : start + size]
    if body[0] != 0x0A:
        raise TypeError("there is no resource that could hold the carry")
    inner, at = read_varint(body, 1)
    pieces: list[bytes] = []
    wire.attributes(b"\x0a", [(CARRY, msgspec.json.encode(carries).decode())], pieces)
    resource = bytes(body[at : at + inner]) + b"".join(pieces)
    group = b"\x0a" + wire.varint(len(resource)) + resource + bytes(body[at + inner :])
    return b"\x0a" + wire.varint(len(group)) + group + bytes(view[start + size :])
