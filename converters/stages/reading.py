"""The two tools that read artifacts: how their calls are recognised and what their answers say. Pure functions over JSON.

The texts are those of the tools' document; the envelope around them is not known, so any of a few levels are looked through
(shown by `fixtures/artifacts/enveloped.json`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from ..jsonio import fields, inner, text, value
from ..model import ABSENT, Artifact, raw

EMPTY: Final = "(no artifacts produced yet in this conversation)"
NOT_FOUND: Final = re.compile(r"^artifact #(\S+) not found in this conversation\.?$")
# The first separator splits, so that a title may contain the dash.
LINE: Final = re.compile(r"^#(\S+) \[turn ([^\]]+)\] (\S.*?)(?: — (.*))?$")
_TOOLS: Final = {"list_artifacts": "list", "get_artifact": "get", "load_artifacts": "get"}
_ENVELOPES: Final = ("result", "output", "data", "content", "text", "message", "observation")
_DEPTH: Final = 4


class Listed(Struct, gc=False):
    """A line of a listing."""

    id: str
    turn: int | str
    type: str
    title: str | None


class Got(Struct):
    """The answer of a get: the artifact, or None for "not found"."""

    artifact: Artifact | None


def operation(tool: str) -> str | None:
    """``list`` or ``get`` for a tool that reads artifacts, by its bare name: also ``server__name``, ``mcp__server__name``, ``server.name``."""
    if "rtifact" not in tool:
        return None
    return _TOOLS.get(re.split(r"__|[./:]", tool)[-1])


def inside(given: Raw, depth: int = 0) -> Iterator[Raw]:
    """What a result may mean, the most direct first: itself, what stands in an envelope (an object, or JSON in a string), and the texts
    of blocks joined by line breaks."""
    if depth > _DEPTH or not given:
        return
    yield given
    first = bytes(memoryview(given)[:1])
    if first == b'"':
        words = (text(given) or "").strip()
        if words[:1] in ("{", "[") and words[-1:] in ("}", "]"):
            held = inner(words)
            if bytes(memoryview(held)[:1]) != b'"':
                yield from inside(held, depth + 1)
    elif first == b"[":
        try:
            blocks = msgspec.json.decode(given, type=list[Raw])
        except (msgspec.DecodeError, RecursionError):
            return
        found = [w for b in blocks if (w := text(b) or text(fields(b).get("text", ABSENT))) is not None]
        if found:
            yield from inside(raw("\n".join(found)), depth + 1)
    elif first == b"{":
        f = fields(given)
        for name in _ENVELOPES:
            if name in f:
                yield from inside(f[name], depth + 1)


def number(words: str) -> int | str:
    """A turn as a number, when it is written as Python writes one."""
    return int(words) if len(words) < 19 and words.isascii() and words.isdigit() and (words == "0" or words[0] != "0") else words


def listing(given: Raw) -> list[Listed] | None:
    """The lines of a listing, newest first as printed; [] for the empty message; None for another text."""
    for held in inside(given):
        words = (text(held) or "").strip()
        if words == EMPTY:
            return []
        if words[:1] != "#":
            continue
        lines = [LINE.match(line) for line in words.split("\n") if line.strip()]
        if all(lines):
            return [Listed(m[1], number(m[2]), m[3], m[4]) for m in lines if m is not None]
    return None


def wrapped(given: Raw) -> Got | None:
    """The artifact that a get printed, its payload as it stands; `Got(None)` for "not found"; None for another text."""
    for held in inside(given):
        words = text(held)
        if words is not None:
            if NOT_FOUND.match(words.strip()):
                return Got(None)
        elif (found := _record(fields(held))) is not None:
            return Got(found)
    return None


def _record(f: dict[str, Raw]) -> Artifact | None:
    """The object that a get prints."""
    if "payload" not in f or "id" not in f:
        return None
    id, turn = value(f["id"]), value(f.get("turn", ABSENT))
    if not isinstance(id, str | int) or isinstance(id, bool):
        return None
    source = {"created_at": f["created_at"]} if "created_at" in f else {}
    if isinstance(id, str) and isinstance(number(id), int):
        source["id"] = f["id"]
    return Artifact(
        id=str(id),
        type=text(f.get("type", ABSENT)),
        title=text(f.get("title", ABSENT)),
        turn=turn if isinstance(turn, int | str) and not isinstance(turn, bool) else None,
        payload=f["payload"],
        operation="get",
        found_in="listing",
        source=source,
    )
