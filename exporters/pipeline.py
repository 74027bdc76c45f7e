"""What is done to the items of a record before they leave, in this order: selection, history, traces, secrets, content, time, ids, resource. One place, so that
every way out (a backend, a file, a dry run) gets the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from queue import Empty, Queue
from typing import Final, Literal

from ..converters.conventions.flat import Profile
from ..converters.model import AnySpan, Item, Message, Value
from ..converters.stages.content import Content, content
from ..converters.stages.history import Histories, history, remember
from ..converters.stages.payloads import spill
from ..converters.stages.redact import Redactor
from ..converters.stages.resource import resource
from ..converters.stages.salt import salt
from ..converters.stages.select import parse, select
from ..converters.stages.shift import shift
from ..converters.stages.split import split
from .backends import Scored
from .otlp.account import Account


@dataclass(frozen=True)
class Choices:
    """What a user chose of what leaves. ``shift_to``: "now" (the last time becomes now) or ns (the first time becomes that)."""

    profile: str = "generic"
    dialect: Literal["1.41", "0.1"] = "1.41"
    carry: bool = False
    content: Content = "full"
    redact: tuple[str, ...] = ()
    builtin_redaction: bool = True
    select: tuple[str, ...] = ()
    history: Histories = "delta"
    shift_to: int | Literal["now"] | None = None
    salt: str | None = None
    trace_per: Literal["run", "task", "attempt"] = "run"
    resource: dict[str, Value] = field(default_factory=dict)
    artifact_store: str | None = None
    """A folder for large payloads of artifacts: what is sent names them by SHA-256."""

    def dressing(self) -> Profile:
        """The profile that spans are dressed by."""
        return Profile(name=self.profile, dialect=self.dialect, carry=self.carry and self.content == "full")


class Pipeline:
    """The stages that ``choices`` ask for. ``scores``: what passes is kept for its scores (`scored`). UsageError for a selection or pattern that is none."""

    def __init__(self, choices: Choices, account: Account, scores: bool = False) -> None:
        self.choices, self.account = choices, account
        self._tests = [parse(s) for s in choices.select]
        redacts = choices.redact or choices.builtin_redaction
        self._redactor = Redactor(choices.redact, choices.builtin_redaction, source=choices.carry) if redacts else None
        self.scored, self._scores = Scored(), scores
        self._now = time.time_ns()

    def items(self, items: Iterable[Item], live: bool = False) -> Iterator[Item]:
        """The items of one input, as they leave. ``live``: each goes on at once, since the next may be waited for."""
        choices = self.choices
        if not live:
            items = in_blocks(items)
        whole: dict[str, list[Message]] | None = None
        if self._tests:
            whole = {}
            items = select(remember(items, whole), self._tests, self._not_selected)
        if choices.history != "delta" or whole is not None:
            items = history(items, choices.history, whole)
        if choices.trace_per != "run":
            items = split(items, choices.trace_per)
        if self._redactor is not None:
            items = self._redactor.items(items)
        if choices.content != "full":
            items = content(items, choices.content)
        if choices.artifact_store is not None:
            items = spill(items, Path(choices.artifact_store))
        if choices.shift_to is not None:
            items = shift(items, end=self._now) if choices.shift_to == "now" else shift(items, start=choices.shift_to)
        if choices.salt is not None:
            items = salt(items, choices.salt)
        if choices.resource:
            items = resource(items, choices.resource)
        if self._scores:
            items = self.scored.items(items)
        return iter(items) if live else in_blocks(items)

    def _not_selected(self, span: AnySpan) -> None:
        self.account.read += 1
        self.account.left_out["not_selected"] += 1

    @property
    def redacted(self) -> int:
        """How many values were taken out."""
        return self._redactor.count if self._redactor is not None else 0


BLOCK: Final = 64
"""Items that a step takes at once. Steps that take turns for each item push each other out of the processor's caches: a fifth of the time."""


def in_blocks(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, read some at a time. Not for what may be waited for. When reading ends badly, what was read before comes first."""
    source = iter(items)
    failed: BaseException | None = None
    while failed is None:
        held: list[Item] = []
        try:
            held.extend(islice(source, BLOCK))
        except BaseException as error:
            failed = error
        yield from held
        if not held:
            break
    if failed is not None:
        raise failed


def pumped(sources: Iterable[Callable[[], Iterable[Item]]], ended: Callable[[], bool], quiet: float = 0.2) -> Iterator[Item | None]:
    """The items of several inputs that may never end, each read in a thread of its own, as they come; None whenever nothing has come for
    ``quiet`` seconds. Ends with the inputs, or when ``ended`` turns true."""
    queue: Queue[Item | BaseException | None] = Queue(maxsize=1024)
    open_ = 0

    def read(source: Callable[[], Iterable[Item]]) -> None:
        try:
            for item in source():
                queue.put(item)
            queue.put(None)
        except BaseException as error:
            queue.put(error)

    for source in sources:
        threading.Thread(target=read, args=(source,), daemon=True).start()
        open_ += 1
    while open_ and not ended():
        try:
            got = queue.get(timeout=quiet)
        except Empty:
            yield None
            continue
        if isinstance(got, BaseException):
            raise got
        if got is None:
            open_ -= 1
        else:
            yield got
