"""Carries in OTLP: the attribute ``spanport.carry`` on the first resource, put there after the spans are written; and protobuf as the plain values that
carries are made of."""

from __future__ import annotations

from typing import Final

import msgspec

from ..carry import Carrier, Record
from ..model import Carry
from . import wire
from .decode import CARRY, places, read_varint


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


def load_proto(data: bytes) -> Record:
    """A record of protobuf: a value for each ResourceSpans."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

    try:
        groups = [ResourceSpans.FromString(data[a:b]) for a, b in places(memoryview(data))]
    except (DecodeError, ValueError):
        return Record("text", [data.decode("latin-1")])
    return Record("lines", [json_format.MessageToDict(group) for group in groups])


def dump_proto(record: Record) -> bytes:
    """The protobuf message that `load_proto` took apart; ValueError when the values are no spans, as a damaged carry may give."""
    from google.protobuf import json_format
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    message = TracesData()
    try:
        for item in record.items:
            json_format.ParseDict(item, message.resource_spans.add())
    except json_format.ParseError as error:
        raise ValueError(f"no spans: {error}") from error
    return message.SerializeToString()


JSON: Final = Carrier(into_json)
PROTO: Final = Carrier(into_proto, load_proto, dump_proto)
