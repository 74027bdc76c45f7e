"""A conversation and a table of artifacts as documents, for `spanport schema`.

A conversation is read in many spellings, told by shape (``docs/formats/chat.md``); this is that of the chat APIs, which most tools write. Fields are taken one by
one, so that each is optional, and what is not named here is kept. Nothing reads with these.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Row(Struct, kw_only=True):
    """An artifact. ``id`` (or ``artifact_id``) is the one thing that it must have."""

    id: str | int | None = None
    artifact_id: str | int | None = None
    type: str | None = None
    artifact_type: str | None = None
    title: str | None = None
    thread_id: str | int | None = None
    turn: int | str | None = None
    version: str | int | float | None = None
    created_at: str | int | float | None = None
    mime_type: str | None = None
    uri: str | None = None
    payload: Any = None
    content: Any = None
    tool_call_id: str | None = None


class Function(Struct, kw_only=True):
    """``arguments`` is JSON in a string, or JSON."""

    name: str
    arguments: Any = None


class Call(Struct, kw_only=True):
    """A call that an assistant asks for."""

    id: str | int | None = None
    type: str | None = None
    function: Function | None = None
    name: str | None = None
    arguments: Any = None


class Message(Struct, kw_only=True):
    """``content``: text, or a list of blocks. ``tool_call_id``: of a tool's message, the call that it answers."""

    role: str
    content: Any = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | int | None = None
    is_error: bool | None = None
    artifact: Any = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    finish_reason: str | None = None


class Thread(Struct, kw_only=True):
    """A conversation in an object."""

    thread_id: str | int | None = None
    conversation_id: str | int | None = None
    session_id: str | int | None = None
    id: str | int | None = None
    model: str | None = None
    name: str | None = None
    title: str | None = None
    messages: list[Message] | None = None
    artifacts: list[Row] | None = None


Conversation = Thread | list[Message]
Rows = list[Row]
