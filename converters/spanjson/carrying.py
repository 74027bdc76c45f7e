"""Carries in the model's own format: the trace header has a field for them."""

from __future__ import annotations

from typing import Final

import msgspec

from ..carry import Carrier
from ..model import Carry, TraceHeader


def embed(written: bytes, carries: list[Carry]) -> bytes:
    """Lines whose first header holds the carries."""
    first, newline, rest = written.partition(b"\n")
    header = msgspec.json.decode(first, type=TraceHeader)
    return msgspec.json.encode(msgspec.structs.replace(header, carry=carries)) + newline + rest


CARRIER: Final = Carrier(embed)
