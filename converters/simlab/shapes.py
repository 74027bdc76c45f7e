"""The common spelling of messages, calls and results, as typed Structs: what SimLab writes today (shapes B to D).

Each function gives None for an item that is spelled otherwise, by so much as one member: then the item is read untyped, by the rules of the modules that
ask. Nothing is interpreted here.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..jsonio import is_text
from ..model import ABSENT


class Function(Struct, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: Raw


class Call(Struct, forbid_unknown_fields=True, gc=False):
    id: str
    type: Literal["function"]
    function: Function


class Asked(Struct, forbid_unknown_fields=True, gc=False):
    """The content of an assistant message with calls (or with an empty list of them). ``content`` is text."""

    content: Raw
    tool_calls: list[Call]


class Told(Struct, forbid_unknown_fields=True, gc=False):
    """The content of a tool message. ``summary`` should be text, but need not."""

    tool_call_id: str
    tool_name: str
    is_error: bool
    tool_server: str | UnsetType = UNSET
    summary: Raw = ABSENT


class Assistant(Struct, tag="assistant", tag_field="role", forbid_unknown_fields=True, gc=False):
    role: ClassVar[str] = "assistant"
    content: Asked | str
    timestamp: str | None = None


class Tool(Struct, tag="tool", tag_field="role", forbid_unknown_fields=True, gc=False):
    role: ClassVar[str] = "tool"
    content: Told
    timestamp: str | None = None


class User(Struct, tag="user", tag_field="role", forbid_unknown_fields=True, gc=False):
    role: ClassVar[str] = "user"
    content: str
    timestamp: str | None = None


class System(Struct, tag="system", tag_field="role", forbid_unknown_fields=True, gc=False):
    role: ClassVar[str] = "system"
    content: str
    timestamp: str | None = None


class Recorded(Struct, forbid_unknown_fields=True, gc=False):
    """An element of ``tool_calls``."""

    tool_server: str
    tool_name: str
    parameters: Raw


class Result(Struct, forbid_unknown_fields=True, gc=False):
    """An element of ``tool_results``."""

    observation: Raw
    is_error: bool


Common = Assistant | Tool | User | System
_message: msgspec.json.Decoder[Common] = msgspec.json.Decoder(Common)
_call = msgspec.json.Decoder(Recorded)
_result = msgspec.json.Decoder(Result)
_ODD = (msgspec.DecodeError, RecursionError)


def message(raw: Raw) -> Common | None:
    """A message in the common spelling."""
    try:
        found = _message.decode(raw)
    except _ODD:
        return None
    content = found.content
    return None if content.__class__ is Asked and not is_text(content.content) else found


def call(raw: Raw) -> Recorded | None:
    """An element of ``tool_calls`` in the common spelling."""
    try:
        return _call.decode(raw)
    except _ODD:
        return None


def result(raw: Raw) -> Result | None:
    """An element of ``tool_results`` in the common spelling."""
    try:
        return _result.decode(raw)
    except _ODD:
        return None
