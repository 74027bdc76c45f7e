"""Decode a RunArtifacts object, and recover what is whole of one that breaks off.

SimLab writes the file in place, so a crash while writing leaves JSON that is cut (fixture `truncated`). Then the
complete leading members count, and of the three lists their complete leading items.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

from .. import jsonio
from ..errors import ReadError, Report
from ..model import Repair
from ..simlab.document import result_fields

_object = msgspec.json.Decoder(dict[str, Raw])
_TOKEN: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL
)  # a cut string is matched to the end: see `jsonio.repair`


def whole_part(data: bytes) -> bytes | None:
    """``data`` up to the last complete member or list item, closed again; None when there is none.

    Looks at the top level and one level below: an item that is cut is dropped whole."""
    stack = bytearray()
    cut: int | None = None
    inside = b""
    for token in _TOKEN.finditer(data):
        mark = token.group()
        if mark in b"{[":
            stack += mark
        elif mark in b"}]":
            if not stack:
                return None
            del stack[-1:]
            if len(stack) == 2 and stack[1:] == b"[":  # an item of a top-level list is complete
                cut, inside = token.end(), b"]}"
            elif len(stack) == 1:
                cut, inside = token.end(), b"}"
        elif mark == b",":
            if len(stack) == 1:
                cut, inside = token.start(), b"}"
            elif len(stack) == 2 and stack[1:] == b"[":
                cut, inside = token.start(), b"]}"
    return None if cut is None else data[:cut] + inside


class _Map:
    """Places in the mended bytes → places in the original."""

    def __init__(self, repairs: list[Repair]) -> None:
        self.repairs = [(r.offset, len(r.original), len(mended_as(r))) for r in repairs]

    def original(self, place: int) -> int:
        shift = 0
        for offset, old, new in self.repairs:
            if place < offset + shift + new:
                break
            shift += new - old
        return place - shift


def mended_as(repair: Repair) -> str:
    """What `jsonio.repair` puts."""
    return "null" if repair.original in LITERALS else "\\ufffd"


LITERALS: Final = ("NaN", "Infinity", "-Infinity")


def verbatim(data: bytes, results: list[Raw], repairs: list[Repair]) -> dict[int, str]:
    """The original text of each observation that holds NaN or an infinity: with null in their place it would say something else."""
    literals = [r for r in repairs if r.original in LITERALS]
    if not literals or not results:
        return {}
    mended, _ = jsonio.repair(data)
    places = _Map(repairs)
    found: dict[int, str] = {}
    at = 0
    for i, item in enumerate(results):
        text = bytes(item)
        if b"null" not in text:
            continue
        start = mended.find(text, at)
        if start < 0:
            break
        at = start + len(text)
        body = bytes(result_fields(item)[0])
        inside = start + text.find(body) if body else start
        first, last = places.original(inside), places.original(inside + len(body))
        if any(first <= r.offset < last for r in literals):
            found[i] = data[first:last].decode("utf-8", "replace")
    return found


def decode_or_recover(data: bytes | memoryview, report: Report, repairs: list[Repair]) -> tuple[dict[str, Raw], bool]:
    """The members of the object in ``data``, and whether it breaks off. ReadError when nothing of it can be read."""
    if not data:
        raise ReadError("the file is empty", input=report.input, byte=0)
    try:
        return jsonio.decode(data, _object.decode, report, repairs=repairs), False
    except ReadError as error:
        if error.message != BREAKS_OFF:
            raise
        first = error
    part = whole_part(bytes(data))
    if part is None:
        raise first
    fields = jsonio.decode(part, _object.decode, report, repairs=repairs)
    if not fields:
        raise first
    names = ", ".join(fields)
    report.note("truncated", f"the JSON breaks off here; read what is whole before it ({names})", "lost", byte=first.byte)
    return fields, True


BREAKS_OFF: Final = "the JSON breaks off here"
