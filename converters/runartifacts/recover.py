"""Decode a RunArtifacts object, or what is whole of one that breaks off.

SimLab writes the file in place, so a crash while writing leaves JSON that is cut (fixture `truncated`). Then the
complete leading members count, and of the lists their complete leading items.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

from .. import cutoff, jsonio
from ..errors import ReadError, Report
from ..model import Repair
from ..simlab.document import result_fields

_object = msgspec.json.Decoder(dict[str, Raw])
_MAY: Final = re.compile(r"\{([^\[{]*\[)?")
"""What may be given in part: the object, and a list in it."""


LITERALS: Final = ("NaN", "Infinity", "-Infinity")


def verbatim(data: bytes, results: list[Raw], repairs: list[Repair]) -> dict[int, str]:
    """The original text of each observation that holds NaN or an infinity: with null in their place it would say something else."""
    literals = [r for r in repairs if r.original in LITERALS]
    if not literals or not results:
        return {}
    mended, _ = jsonio.repair(data)
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
        first, last = jsonio.unmended(inside, repairs), jsonio.unmended(inside + len(body), repairs)
        if any(first <= r.offset < last for r in literals):
            found[i] = data[first:last].decode("utf-8", "replace")
    return found


def decode_or_recover(data: bytes | memoryview, report: Report, repairs: list[Repair]) -> tuple[dict[str, Raw], bool]:
    """The members of the object in ``data``, and whether it breaks off. ReadError when nothing of it can be read."""
    if not data:
        raise ReadError("the file is empty", input=report.input, byte=0)
    fields, cut = cutoff.decode(data, _object.decode, report, _MAY, repairs=repairs)
    return fields, cut is not None
