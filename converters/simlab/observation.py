"""What is inside a tool result: its text, and the errors that it hides.

An HTTP tool server answers 200 with ``is_error: true`` inside the observation and the outer flag stays false (fixture
`hidden_tool_error`); one agent stores the whole answer as JSON in a string. Both levels are read.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from .. import jsonio
from ..model import ABSENT

_TRANSPORT = re.compile(
    r"HTTP Error \d{3}|HTTP(?: status)? [45]\d\d|urlopen error|[Cc]onnection (?:refused|reset|aborted|error)|Remote end closed|timed out|[Tt]imeout"
    r"|Expecting value|Name or service not known|SSL|certificate|reset by peer|Broken pipe|Max retries"
)
_UNKNOWN_SERVER = "Unknown tool server:"


class _Inner(Struct):
    is_error: bool | None = None
    text: Raw = Raw()
    structured_content: Raw = Raw()
    observation: Raw = Raw()
    summary: Raw = Raw()
    message: Raw = Raw()
    result: Raw = Raw()


class _Flags(Struct, gc=False):
    is_error: bool | None = None
    structured_content: Raw = ABSENT


class _Levels(Struct, gc=False):
    """What `look` needs of both levels, where the inner one is an object as usual."""

    is_error: bool | None = None
    structured_content: Raw = ABSENT
    observation: _Flags | None = None


class Finding(Struct):
    """``inner``: the flag inside, None when there is none. ``code``: the server's own error code."""

    inner: bool | None = None
    code: str | None = None


_inner = msgspec.json.Decoder(_Inner)
_levels = msgspec.json.Decoder(_Levels)
_NOTHING = Finding()


def _object(raw: Raw) -> _Inner | None:
    """The observation as an object, also out of a JSON string."""
    first = bytes(memoryview(raw)[:1])
    if first == b'"' and memoryview(raw)[:64].tobytes().lstrip(b'" \\nrt').startswith(b"{"):
        if (inside := jsonio.text(raw)) is None:
            return None
        raw = Raw(inside.encode("utf-8", "replace"))
    elif first != b"{":
        return None
    try:
        return _inner.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        pass
    known = jsonio.fields(raw)
    return _Inner(
        text=known.get("text", ABSENT),
        structured_content=known.get("structured_content", ABSENT),
        observation=known.get("observation", ABSENT),
        summary=known.get("summary", ABSENT),
        message=known.get("message", ABSENT),
        result=known.get("result", ABSENT),
    )


def look(raw: Raw) -> Finding:
    """The error flag inside an observation, and its code."""
    if not raw:
        return _NOTHING
    outer: _Inner | _Levels | None
    inner: _Inner | _Flags | None
    try:
        outer = _levels.decode(raw)
        inner = outer.observation
    except (msgspec.DecodeError, RecursionError):
        if (outer := _object(raw)) is None:
            return _NOTHING
        inner = _object(outer.observation) if outer.observation else None
    found = inner or outer
    code = None
    if found.is_error and found.structured_content:
        structured: Any = jsonio.value(found.structured_content)
        if isinstance(structured, dict):
            code = next((str(structured[k]) for k in ("error_code", "code", "error") if isinstance(structured.get(k), str | int)), None)
    flag = found.is_error if found.is_error is not None else outer.is_error
    return Finding(flag, code)


def failed(raw: Raw) -> bool:
    """Whether there is a flag inside an observation that says so: as `look` finds it."""
    try:
        outer = _levels.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return bool(look(raw).inner)
    inner = outer.observation
    return bool(outer.is_error if inner is None or inner.is_error is None else inner.is_error)


def text(raw: Raw) -> str | None:
    """The text of an observation, in SimLab's own order: ``text``, ``observation.text``, a string as it stands."""
    if not raw:
        return None
    if (plain := jsonio.text(raw)) is not None:
        return plain
    outer = _object(raw)
    if outer is None:
        return None
    for level in (outer, _object(outer.observation) if outer.observation else None):
        if level is not None and (found := jsonio.text(level.text)) is not None:
            return found
    return None


def explanation(raw: Raw) -> str | None:
    """Text that says what went wrong: as `text`, else the words that SimLab's evaluator looks for."""
    if (found := text(raw)) is not None:
        inner = _object(raw)
        told = jsonio.text(inner.observation and (_object(inner.observation) or _Inner()).text) if inner is not None else None
        return told or found
    outer = _object(raw) if raw else None
    for level in (outer, _object(outer.observation) if outer is not None and outer.observation else None):
        if level is not None:
            for word in (level.summary, level.message, level.result):
                if (told := jsonio.text(word)) is not None:
                    return told
    return None


def error_type(outer: bool, observation: Raw, message: str | None) -> str:
    """``unknown_tool`` (no such server), ``transport`` (the tool was not reached or gave no proper answer) or ``tool``."""
    if outer and message is not None and bytes(memoryview(observation)[:1]) == b'"':
        if message.startswith(_UNKNOWN_SERVER):
            return "unknown_tool"
        if _TRANSPORT.search(message[:400]):
            return "transport"
    return "tool"
