"""Messages once: full histories on every request would grow with the square of the run, so a request holds only the messages
that are new, and a `History` that says what stands before them.

A reader keeps one `Chain` for each conversation of one agent. `digest` is the hash: it runs over the messages without their ``source`` and ``time``,
so that it is the same on either side of a conversion.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import msgspec

from .jsonio import is_text
from .model import History, Message, ModelRequest, ReasoningPart, TextPart, ToolCallResponsePart

_encoder = msgspec.json.Encoder()


def plain(message: Message) -> Message:
    """The message as the GenAI schemas have it: without ``time`` and ``source``."""
    if message.time is None and not message.source:
        return message
    return Message(role=message.role, parts=message.parts, name=message.name, finish_reason=message.finish_reason)


_ROLES: Final = {role: b'{"role":"' + role.encode() + b'","parts":' for role in ("user", "assistant", "tool", "system")}


def plain_json(message: Message, ended: str | None = None) -> bytes:
    """`plain` as JSON; ``ended``: the finish reason of one that states none. What is only carried is as it stands in it: see `needs_minifying`."""
    begin = _ROLES.get(message.role)
    if begin is not None and message.name is None and message.finish_reason is None:
        if ended is None:
            return begin + _encoder.encode(message.parts) + b"}"
        return b"".join((begin, _encoder.encode(message.parts), b',"finish_reason":', _encoder.encode(ended), b"}"))
    reason = message.finish_reason if message.finish_reason is not None else ended
    return _encoder.encode(Message(role=message.role, parts=message.parts, name=message.name, finish_reason=reason))


def needs_minifying(message: Message) -> bool:
    """Whether JSON that is only carried may hold white space between its tokens: then it is in an object or array."""
    for part in message.parts:
        kind = part.__class__
        if kind is TextPart or kind is ReasoningPart:
            continue
        if kind is not ToolCallResponsePart or not is_text(part.response):  # type: ignore[union-attr]
            return True
    return False


class Chain:
    """The messages of one conversation so far, as a count and a running digest. Memory does not grow with the run."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._base: str | None = None
        self.count = 0

    def add(self, messages: Iterable[Message]) -> None:
        """Messages that are now part of the conversation."""
        for message in messages:
            data = plain_json(message)
            self._hash.update((msgspec.json.format(data, indent=-1) if needs_minifying(message) else data) + b"\n")
            self.count += 1

    def history(self) -> History | None:
        """What the next request does not repeat; None before the first request."""
        if self._base is None:
            return None
        return History(base=self._base, count=self.count, hash=self._hash.hexdigest())

    def close(self, request: str, new: Iterable[Message], output: Iterable[Message]) -> None:
        """The request with span id ``request`` was made with ``new`` messages on top of `history` and gave ``output``."""
        self.add(new)
        self.add(output)
        self._base = request


def full(request: ModelRequest, known: dict[str, list[Message]]) -> list[Message] | None:
    """All input messages of ``request``, from the conversations in ``known`` (span id of a request → its whole input and output, which is
    kept up to date here). None when its base is not known or does not match."""
    before: list[Message] = []
    if request.history is not None:
        held = known.get(request.history.base)
        if held is None or len(held) < request.history.count:
            return None
        before = held[: request.history.count]
    whole = before + request.input_messages
    known[request.id] = whole + request.output_messages
    return whole
