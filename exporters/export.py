"""`export`: spans of the model to a destination, with an account of every one (DESIGN §5). The command and the library call this.

items → stages (given by the caller) → flat spans dressed by the profile → safe values → limits → encoded once → requests → `sender`.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..converters.conventions import flatten, shared
from ..converters.conventions.flat import FlatSpan, Profile
from ..converters.conventions.semconv import SCHEMA_URL
from ..converters.model import Item, TraceHeader
from ..converters.otlp.encode import resource_attributes, scope_version
from ..converters.seen import Seen
from ..converters.stages.limits import limit
from ..converters.stages.safe import safe
from .otlp.account import Account
from .otlp.batch import Batcher, Limits
from .otlp.codec import JSON, PROTOBUF, Codec, Envelope, Piece
from .otlp.sender import Channel, Keep, Retry, Sender, Stop, shortened
from .otlp.settings import Destination

if TYPE_CHECKING:
    from .ledger import Ledger


@dataclass(frozen=True)
class Plan:
    """How spans are dressed and cut. ``max_attribute_bytes``, ``max_attributes``: None is no limit. ``at_once``: a stream that is
    followed, where each span goes as soon as it is complete."""

    profile: Profile = field(default_factory=Profile)
    limits: Limits = field(default_factory=Limits)
    max_attribute_bytes: int | None = None
    max_attributes: int | None = None
    at_once: bool = False
    unique_span_ids: bool = False
    census: Counter[str] | None = None
    """Bytes of content by attribute, counted where somebody asks (``--dry-run``)."""
    old: int | None = None
    """Spans that start before this (ns) make `Encoder` say so once, before any of them is sent."""
    large: int | None = None
    """Bytes of one trace from which `Encoder` says so once."""


CONTENT: Final = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.evaluation.explanation",
    "gen_ai.tool.description",
    "input.value",
    "output.value",
    "spanport.artifact.payload",
    "spanport.messages",
    "spanport.source",
    "spanport.task.expected",
    "spanport.tool.reasoning",
    "langfuse.observation.input",
    "langfuse.observation.output",
    "langfuse.trace.input",
    "langfuse.trace.output",
    "mlflow.spanInputs",
    "mlflow.spanOutputs",
)
"""Attributes that hold content (see `stages.content`)."""


def take_census(flat: FlatSpan, census: Counter[str]) -> None:
    """Add the bytes of content that ``flat`` holds, by attribute."""
    for attributes in (flat.attributes, *(e.attributes for e in flat.events)):
        for key, value in attributes:
            if key in CONTENT and isinstance(value, str | bytes):
                census[key] += len(value)
    if flat.message:
        census["status message"] += len(flat.message)


def codec_for(protocol: str) -> Codec:
    """The encoding that a protocol sends."""
    return JSON if protocol == "http/json" else PROTOBUF


def open_channel(to: Destination, stop: Stop) -> Channel:
    """The channel of a destination; its library is imported here."""
    if to.protocol == "grpc":
        from .otlp.grpc import GrpcChannel

        return GrpcChannel(to, lambda: stop.over)
    from .otlp.http import HttpChannel

    return HttpChannel(to, lambda: stop.over)


@lru_cache(maxsize=1)
def _version() -> str:
    return scope_version()


def envelope(header: TraceHeader, profile: Profile) -> Envelope:
    """What stands around the spans of the trace ``header``."""
    return Envelope(header.id, resource_attributes(header), SCHEMA_URL[profile.dialect], version=_version())


_AT_HAND: Final = 1024
"""Traces of which the envelope is kept ready; of a long stream of short ones, all others in a third of the memory."""
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[list[tuple[str, Any]], int]).decode


class Encoder:
    """Items as pieces: one encoded span each. Counts what is read and what had to be changed."""

    def __init__(
        self,
        codec: Codec,
        plan: Plan,
        account: Account,
        say_old: Callable[[], None] = lambda: None,
        say_large: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._say_old, self._old = say_old, False
        self._say_large, self._large, self._sizes = say_large, False, Counter[str]()
        self._codec, self._plan, self.account = codec, plan, account
        self._uncut = plan.max_attribute_bytes is None and plan.max_attributes is None and plan.census is None
        self._envelopes: dict[str, Envelope] = {}  # of the traces that were spoken of last
        self._resources: dict[str, bytes] = {}  # of all others: trace id → resource and bytes so far, packed
        self._spans, self._ids = Seen(), Seen()

    def encode(self, item: Item) -> tuple[Piece, str | None] | None:
        """The span ``item`` encoded, with its parent's id; None for a header, and for a second span with the same id in the same trace,
        which is left out and counted."""
        account, plan = self.account, self._plan
        if isinstance(item, TraceHeader):
            if item.id not in self._envelopes and item.id not in self._resources:
                self._keep(envelope(item, plan.profile))
                account.traces += 1
            return None
        account.read += 1
        if not self._spans.add(item.trace_id + item.id):
            account.left_out["twice"] += 1
            return None
        if plan.unique_span_ids and not self._ids.add(item.id):  # seen, and not in this trace
            account.warnings["span ids that occur in two traces: this backend keeps only the first"] += 1
        around = self._envelopes.get(item.trace_id) or self._again(item.trace_id)
        if self._uncut and (dress := shared(item, plan.profile)) is not None and (data := self._codec.plain(item, dress)) is not None:
            self._seen(item.start, item.end)
            return self.checked(Piece(around, item.id, item.parent_id is None, data)), item.parent_id
        flat = self.dress(flatten(item, plan.profile))
        if item.start is not None:
            self._seen(flat.start, flat.end)
        return self.checked(Piece(around, flat.span_id, flat.parent_id is None, self._codec.span(flat))), flat.parent_id

    def _keep(self, around: Envelope) -> None:
        """An envelope is in use."""
        self._envelopes[around.trace_id] = around
        if len(self._envelopes) > _AT_HAND:
            old = self._envelopes.pop(next(iter(self._envelopes)))
            try:
                self._resources[old.trace_id] = _pack((old.resource, self._sizes[old.trace_id]))
                del self._sizes[old.trace_id]
            except (OverflowError, TypeError, ValueError):  # an integer of more than 64 bits
                self._envelopes[old.trace_id] = old

    def _again(self, trace: str) -> Envelope:
        """That of a trace of which nothing came for long."""
        resource, size = _unpack(self._resources.pop(trace))
        self._sizes[trace] = size
        around = Envelope(trace, resource, SCHEMA_URL[self._plan.profile.dialect], version=_version())
        self._keep(around)
        return around

    def _seen(self, start: int | None, end: int | None) -> None:
        """The times of one more span into the account."""
        if start is None or end is None:
            return
        account, plan = self.account, self._plan
        if account.first is None or start < account.first:
            account.first = start
        if account.last is None or end > account.last:
            account.last = end
        if plan.old is not None and start < plan.old and not self._old:
            self._old = True
            self._say_old()

    def dress(self, flat: FlatSpan) -> FlatSpan:
        """Safe values within the limits."""
        account, plan = self.account, self._plan
        flat = safe(flat, account.changed)
        if plan.max_attribute_bytes is not None or plan.max_attributes is not None:
            cut = limit(flat, plan.max_attribute_bytes, plan.max_attributes)
            account.cut += cut is not flat
            flat = cut
        if plan.census is not None:
            take_census(flat, plan.census)
        return flat

    def checked(self, piece: Piece) -> Piece:
        """``piece``; one that alone is larger than a request may be is shortened, marked and counted."""
        around, size = piece.envelope, len(piece.data)
        if size > 4096 and size > (most := self._plan.limits.bytes - self._codec.room(around) - 64):
            piece = shortened(piece, self._codec, most)
            size = len(piece.data)
            self.account.shortened += 1
        self.account.bytes += size
        if self._plan.large is not None and not self._large:
            self._sizes[around.trace_id] += size
            if self._sizes[around.trace_id] > self._plan.large:
                self._large = True
                self._say_large(around.trace_id)
        return piece


class Courier:
    """Sends in a thread of its own, in the order given, while the next request is read and encoded. One request is under way and ``ahead`` wait;
    more than that is not taken, so that memory stays bounded when the receiver is slow."""

    def __init__(self, deliver: Callable[[list[Piece]], None], ahead: int = 1) -> None:
        self._deliver = deliver
        self._waiting: deque[list[Piece] | None] = deque()
        self._room, self._ready = threading.Semaphore(ahead + 1), threading.Semaphore(0)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="spanport-send", daemon=True)
        self._thread.start()

    def put(self, pieces: list[Piece] | None) -> None:
        """Hand over one request, as soon as there is room for it."""
        try:
            self._room.acquire()
        finally:  # also when a signal breaks the waiting off: nothing that was read is dropped
            self._waiting.append(pieces)
            self._ready.release()

    def _run(self) -> None:
        while True:
            self._ready.acquire()
            if (pieces := self._waiting.popleft()) is None:
                return
            try:
                if self._error is None:
                    self._deliver(pieces)
            except BaseException as error:
                self._error = error
            finally:
                self._room.release()

    def close(self) -> None:
        """Wait until everything is sent. What sending raised, which is a defect, is raised here."""
        self.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error


def send(
    items: Iterable[Item | None],
    to: Destination,
    plan: Plan | None = None,
    *,
    account: Account | None = None,
    retry: Retry | None = None,
    stop: Stop | None = None,
    keep: Keep | None = None,
    ledger: Ledger | None = None,
    force: bool = False,
    delivered: Callable[[list[Piece]], None] | None = None,
    say: Callable[[str], None] | None = None,
    say_old: Callable[[], None] = lambda: None,
    say_large: Callable[[str], None] = lambda _: None,
    channel: Channel | None = None,
    codec: Codec | None = None,
    overlap: bool | None = None,
) -> Account:
    """Send ``items`` to ``to``; the account holds every span that was read. A None among them means that nothing comes for the moment: then
    what is held goes. ``keep`` takes what could not be delivered, ``ledger`` knows what was delivered before, ``delivered`` is told of
    requests that were accepted whole, ``stop`` ends it early: then what is read and not sent goes to ``keep``. ``overlap``: send in a thread, while
    the next is read (by default where there is a network; ``keep``, ``ledger``, ``delivered`` and ``say`` are then called in it). Only a reader raises."""
    overlap = channel is None if overlap is None else overlap
    plan, account, stop = plan or Plan(), account if account is not None else Account(), stop if stop is not None else Stop()
    codec = codec or codec_for(to.protocol)
    channel = channel or open_channel(to, stop)

    sent = Account() if overlap else account  # a thread that sends has its own; the other one reads and encodes

    def accepted(pieces: list[Piece]) -> None:
        if ledger is not None:
            ledger.mark(to.name, pieces, sent)
        if delivered is not None:
            delivered(pieces)

    sender = Sender(channel, codec, sent, retry=retry, limits=plan.limits, stop=stop, keep=keep, say=say, delivered=accepted)
    encoder = Encoder(codec, plan, account, say_old, say_large)
    batcher = Batcher(codec, plan.limits, plan.at_once)

    def deliver(pieces: list[Piece]) -> None:
        if ledger is None:
            sender.deliver(pieces)
            return
        left, why = ledger.deliver(to.name, pieces, sent, sender.deliver, force=force, stop=stop)
        if left:
            sender.fail(left, why)

    courier = Courier(deliver) if overlap else None
    hand = courier.put if courier is not None else deliver
    try:
        try:
            for item in items:
                if item is None:
                    for pieces in batcher.flush():
                        hand(pieces)
                elif (made := encoder.encode(item)) is not None:
                    for pieces in batcher.add(*made):
                        hand(pieces)
        finally:  # what was read is sent, or kept, also when reading ends badly
            for pieces in batcher.flush():
                hand(pieces)
            if courier is not None:
                courier.close()
    finally:
        channel.close()
        if overlap:
            account.merge(sent)
    return account


__all__ = ["Account", "Encoder", "Plan", "Stop", "codec_for", "open_channel", "send"]
