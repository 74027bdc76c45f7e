"""What is whole of a JSON document that breaks off (a crash while it was written, a full disk, a download that stopped) or turns into something else.

The document is closed again after its last complete member or item, in the innermost container that its format allows to be given in part: of a list of
messages the whole ones, and never half a message. What a reader makes of it must not say how the cut thing ended. Nothing is mended and
nothing after the break is looked at: where a broken text goes on can't be known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec

from . import jsonio
from .errors import ReadError, Report
from .model import Repair

T = TypeVar("T")

DEEPEST: Final = 4000
"""Containers in each other, above what msgspec decodes."""
SHALLOW: Final = 256
"""What of a document that is nested too deep to be decoded is kept."""
_PATIENCE: Final = 500_000
"""Brackets in a row, below `SHALLOW`, after which a document is given up."""

# Whole strings and small whole containers are passed over in one step each run, so that the walk has a step only for what is nested deeper. All
# repeats are possessive: the cost is linear (a container is tried at most once for each of the three levels that one step spans).
_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRINGS: Final = re.compile(rb'(?:[^"]++|' + _TEXT + rb")*+", re.DOTALL)
_FLAT: Final = rb'[^"\[\]{}]++|' + _TEXT
_LEAF: Final = rb"[\[{](?:" + _FLAT + rb")*+[\]}]"
_TWIG: Final = rb"[\[{](?:" + _FLAT + rb"|" + _LEAF + rb")*+[\]}]"
_STEP: Final = re.compile(rb"(?:" + _FLAT + rb"|" + _TWIG + rb")*+([\[\]{}])?", re.DOTALL)
_MEMBERS: Final = re.compile(rb'(?:(?:[^",\[\]{}]++|' + _TEXT + rb"|" + _TWIG + rb")*+,)*+", re.DOTALL)
_ONE: Final = _TEXT + rb"|" + _TWIG + rb"|true|false|null"
_WHOLE: Final = {  # the last member, when it is whole without a comma behind it: a number might go on
    0x5B: re.compile(rb"[\s,]*+(?:" + _ONE + rb")", re.DOTALL),
    0x7B: re.compile(rb"[\s,]*+" + _TEXT + rb"\s*+:\s*+(?:" + _ONE + rb")", re.DOTALL),
}
_KEY: Final = re.compile(rb"[\s,]*+(" + _TEXT + rb")\s*+:\s*+\Z", re.DOTALL)


class Part(NamedTuple):
    """The closed document, and the containers that were open: each as its key (none in a list) and its bracket, so ``{runs[{messages[`` is a list of messages of a run
    in a list of runs of the document. Of those, the last one is given in part, and so are all around it."""

    data: bytes
    open: str


def whole_part(data: bytes | memoryview, may: re.Pattern[str], end: int | None = None) -> Part | None:
    """``data`` up to ``end``, which is JSON up to there. ``may`` matches `Part.open` of what may be given in part. None when there is no such container."""
    end = len(data) if end is None else min(end, len(data))
    found = _STRINGS.match(data, 0, end)
    if found is not None:  # up to a string that is cut, which would be tried again and again
        end = found.end()
    at = 0
    stack: list[
        tuple[int, int]
    ] = []  # of each open container: where what is before its current member (or the end) begins, and its bracket
    begin = 0
    while True:
        step = _STEP.match(data, at, end)
        mark = step[1] if step is not None else None
        if step is None or mark is None:
            break
        at = step.end()
        if mark in b"[{":
            stack.append((begin, at - 1))
            if len(stack) > DEEPEST:
                return None
        elif stack:
            stack.pop()
        else:
            return None
        begin = at
    if not stack:
        return Part(bytes(data[:end]), "") if _is_whole(data, end) else None
    names: list[str] = []
    for n, (before, bracket) in enumerate(stack):
        names.append((_key(data, before, bracket) if n and data[stack[n - 1][1]] == 0x7B else "") + chr(data[bracket]))
    befores = [before for before, _ in stack[1:]] + [begin]
    ends = [bracket for _, bracket in stack[1:]] + [end]
    for n in range(len(stack) - 1, -1, -1):
        path = "".join(names[: n + 1])
        if may.fullmatch(path):
            cut = _last(data, befores[n], ends[n], data[stack[n][1]]) if n + 1 == len(stack) else _comma(data, befores[n], ends[n])
            closing = bytes(0x5D if data[b] == 0x5B else 0x7D for _, b in reversed(stack[: n + 1]))
            return Part(b"".join((memoryview(data)[:cut], closing)), path)
    return None


def _is_whole(data: bytes | memoryview, end: int) -> bool:
    try:
        msgspec.json.decode(memoryview(data)[:end], type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _last(data: bytes | memoryview, begin: int, end: int, bracket: int) -> int:
    """Where the last complete member ends that ends in this stretch of one container; ``begin`` follows a bracket."""
    at = _comma(data, begin, end)
    found = _WHOLE[bracket].match(data, at, end)
    return found.end() if found is not None else at


def _comma(data: bytes | memoryview, begin: int, end: int) -> int:
    """The last comma between members in this stretch; ``begin`` if there is none."""
    found = _MEMBERS.match(data, begin, end)
    return found.end() - 1 if found is not None and found.end() > begin else begin


def _key(data: bytes | memoryview, begin: int, bracket: int) -> str:
    """The name of the member whose value opens at ``bracket``."""
    last = _comma(data, begin, bracket)
    found = _KEY.match(bytes(data[last:bracket]))
    return jsonio.text(msgspec.Raw(found[1])) or "" if found is not None else ""


def shallow(data: bytes | memoryview) -> tuple[bytes, list[int]] | None:
    """``data`` with null in place of what is nested deeper than `SHALLOW`, and where that was; None when nothing is, or it has no end in sight."""
    out: list[bytes | memoryview] = []
    deep: list[int] = []
    view = memoryview(data)
    depth = at = kept = steps = 0
    while (step := _STEP.match(data, at)) is not None and (mark := step[1]) is not None:
        at = step.end()
        if mark in b"[{":
            depth += 1
            if depth == SHALLOW + 1:
                out.append(view[kept : at - 1])
                deep.append(at - 1)
                steps = 0
        else:
            depth -= 1
            if depth == SHALLOW:
                out.append(b"null")
                kept = at
        steps += 1
        if depth > SHALLOW and steps > _PATIENCE:
            return None
    if not deep:
        return None
    if depth <= SHALLOW:
        out.append(view[kept:])
    return b"".join(out), deep


def decode(
    data: bytes | memoryview,
    decoder: Callable[[bytes | memoryview], T],
    report: Report,
    may: re.Pattern[str],
    *,
    line: int | None = None,
    offset: int = 0,
    repairs: list[Repair] | None = None,
) -> tuple[T, str | None]:
    """`jsonio.decode`, and of a document that breaks off what is whole of it: then with `Part.open`, and a notice of what is lost. ReadError when there is nothing."""
    try:
        return jsonio.decode(data, decoder, report, line=line, offset=offset, repairs=repairs), None
    except ReadError as error:
        first = error
    if first.message == jsonio.TOO_DEEP and (less := shallow(data)) is not None:
        kept, deep = less
        found, open_ = decode(kept, decoder, report, may, line=line, offset=offset, repairs=repairs)
        for place in deep:
            report.note("too-deep", f"{jsonio.TOO_DEEP}; read as null", "lost", line=line, byte=offset + place)
        return found, open_
    if first.byte is None or first.byte < offset + 8 or first.path is not None or first.message == jsonio.TOO_DEEP:
        raise first
    assert first.byte is not None
    start = 3 if bytes(data[:3]) == b"\xef\xbb\xbf" else 0
    part = whole_part(memoryview(data)[start:], may, first.byte - offset - start)
    if part is None or not re.search(rb"[^\s\[\]{}]", part.data):
        raise first
    try:
        result = jsonio.decode(part.data, decoder, report, line=line, offset=offset + start, repairs=repairs)
    except ReadError:
        raise first from None
    report.note("truncated", f"{first.message}; what is whole before it was read", "lost", line=line, byte=first.byte)
    return result, part.open
