"""Which messages stand on a request when it leaves: ``delta`` (those that are new, and what stands before them by its hash), ``full`` (the whole chat
on every request) or ``none`` (no input messages).

With ``delta`` a request whose base was not selected gets the whole chat and says so: ``spanport.history.whole``. Where the whole is not known (it lies
in another record, or its hash does not match), ``spanport.history.missing`` says how many messages are not there, and nothing is made up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from msgspec.structs import replace

from ..history import full
from ..model import Item, Message, ModelRequest

Histories = Literal["delta", "full", "none"]
WHOLE: Final = "spanport.history.whole"
MISSING: Final = "spanport.history.missing"
KNOWN: Final = 256
"""Chats that are kept to be built upon: each request builds on one of the last ones."""


class Known(OrderedDict[str, list[Message]]):
    """The last `KNOWN` chats by the span id of the request that ended them."""

    def __setitem__(self, key: str, value: list[Message]) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > KNOWN:
            self.popitem(last=False)


class Chats:
    """Whole chats from requests that come in any order: one whose base has not come yet waits for it."""

    def __init__(self) -> None:
        self._known = Known()
        self._waiting: dict[str, list[ModelRequest]] = {}

    def take(self, request: ModelRequest) -> Iterator[tuple[ModelRequest, list[Message] | None]]:
        """``request`` and those that waited for it, each with all its input messages; nothing while its own base is not there. None: its base
        is there and does not match."""
        if request.history is not None and request.history.base not in self._known and request.history.base != request.id:
            self._waiting.setdefault(request.history.base, []).append(request)
            return
        ready = [request]
        while ready:
            one = ready.pop()
            messages = full(one, self._known)
            yield one, messages
            if messages is not None:
                ready.extend(reversed(self._waiting.pop(one.id, ())))

    def rest(self) -> Iterator[ModelRequest]:
        """Those whose base never came."""
        for group in self._waiting.values():
            yield from group
        self._waiting.clear()


def remember(items: Iterable[Item], whole: dict[str, list[Message]]) -> Iterator[Item]:
    """The items as they are; ``whole`` gets all input messages of each request (span id → messages). To stand before a selection."""
    chats = Chats()
    for item in items:
        if isinstance(item, ModelRequest):
            whole.update((one.id, messages) for one, messages in chats.take(item) if messages is not None)
        yield item


def history(items: Iterable[Item], mode: Histories, whole: dict[str, list[Message]] | None = None) -> Iterator[Item]:
    """The items with requests' messages as ``mode`` wants them. ``whole``: what `remember` found before a selection. With ``full`` a request may come
    after its place: when the one that it builds on comes later."""
    chats = Chats()
    sent: set[str] = set()
    for item in items:
        if not isinstance(item, ModelRequest):
            yield item
        elif mode == "none":
            yield replace(item, input_messages=[], history=None)
        elif mode == "full" and whole is None:
            for one, messages in chats.take(item):
                yield _whole(one, messages, mark=False)
        elif mode == "full":
            yield _whole(item, whole.get(item.id) if whole is not None else None, mark=False)
        else:
            if whole is not None and item.history is not None and item.history.base not in sent:
                yield _whole(item, whole.get(item.id), mark=True)
            else:
                yield item
            sent.add(item.id)
    for one in chats.rest():
        yield _whole(one, None, mark=False)


def _whole(request: ModelRequest, messages: list[Message] | None, mark: bool) -> ModelRequest:
    if request.history is None:
        return request
    if messages is None:
        return replace(request, attributes={**request.attributes, MISSING: request.history.count})
    attributes = {**request.attributes, WHOLE: True} if mark else request.attributes
    return replace(request, input_messages=messages, history=None, attributes=attributes)
