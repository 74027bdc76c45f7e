"""`export`: spans of the model to a destination, with an account of every one (DESIGN §5). The command and the library call this.

items → stages (given by the caller) → flat spans dressed by the profile → safe values → limits → encoded once → requests → `sender`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from ..converters.conventions import flatten
from ..converters.conventions.flat import FlatSpan, Profile
from ..converters.conventions.semconv import SCHEMA_URL
from ..converters.model import Item, TraceHeader
from ..converters.otlp.encode import resource_attributes, scope_version
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


def codec_for(protocol: str) -> Codec:
    """The encoding that a protocol sends."""
    return JSON if protocol == "http/json" else PROTOBUF


def open_channel(to: Destination) -> Channel:
    """The channel of a destination; its library is imported here."""
    if to.protocol == "grpc":
        from .otlp.grpc import GrpcChannel

        return GrpcChannel(to)
    from .otlp.http import HttpChannel

    return HttpChannel(to)


@lru_cache(maxsize=1)
def _version() -> str:
    return scope_version()


def envelope(header: TraceHeader, profile: Profile) -> Envelope:
    """What stands around the spans of the trace ``header``."""
    return Envelope(header.id, resource_attributes(header), SCHEMA_URL[profile.dialect], version=_version())


class Encoder:
    """Items as pieces: one encoded span each, with its parent's id. Counts what is read and what had to be changed."""

    def __init__(self, codec: Codec, plan: Plan, account: Account) -> None:
        self._codec, self._plan, self.account = codec, plan, account
        self._envelopes: dict[str, Envelope] = {}
        self._seen: dict[str, set[str]] = {}
        self._ids: dict[str, str] = {}
        self.bytes_by_attribute: dict[str, int] = {}

    def pieces(self, items: Iterable[Item]) -> Iterator[tuple[Piece, str | None]]:
        """Each span once: a second one with the same id in the same trace is left out and counted."""
        account, plan = self.account, self._plan
        for item in items:
            if isinstance(item, TraceHeader):
                if item.id not in self._envelopes:
                    self._envelopes[item.id] = envelope(item, plan.profile)
                    account.traces += 1
                continue
            account.read += 1
            seen = self._seen.setdefault(item.trace_id, set())
            if item.id in seen:
                account.left_out["twice"] += 1
                continue
            seen.add(item.id)
            if plan.unique_span_ids and self._ids.setdefault(item.id, item.trace_id) != item.trace_id:
                account.warnings["span ids that occur in two traces: this backend keeps only the first"] += 1
            flat = self.dress(flatten(item, plan.profile))
            if item.start is not None:
                account.first = flat.start if account.first is None else min(account.first, flat.start)
                account.last = flat.end if account.last is None else max(account.last, flat.end)
            yield self.piece(self._envelopes[item.trace_id], flat), flat.parent_id

    def dress(self, flat: FlatSpan) -> FlatSpan:
        """Safe values within the limits."""
        account, plan = self.account, self._plan
        flat = safe(flat, account.changed)
        if plan.max_attribute_bytes is not None or plan.max_attributes is not None:
            cut = limit(flat, plan.max_attribute_bytes, plan.max_attributes)
            account.cut += cut is not flat
            flat = cut
        return flat

    def piece(self, around: Envelope, flat: FlatSpan) -> Piece:
        """``flat`` encoded; one that alone is larger than a request may be is shortened, marked and counted."""
        piece = Piece(around, flat.span_id, flat.parent_id is None, self._codec.span(flat))
        most = self._plan.limits.bytes - self._codec.room(around) - 64 if len(piece.data) > 4096 else self._plan.limits.bytes
        if len(piece.data) > most:
            piece = shortened(piece, self._codec, most)
            self.account.shortened += 1
        self.account.bytes += len(piece.data)
        return piece


def send(
    items: Iterable[Item],
    to: Destination,
    plan: Plan | None = None,
    *,
    account: Account | None = None,
    retry: Retry | None = None,
    stop: Stop | None = None,
    keep: Keep | None = None,
    ledger: Ledger | None = None,
    force: bool = False,
    say: Callable[[str], None] | None = None,
    channel: Channel | None = None,
) -> Account:
    """Send ``items`` to ``to``; the account holds every span that was read. ``keep`` takes what could not be delivered, ``ledger`` knows what was
    delivered before, ``stop`` ends it early: then what is read and not sent goes to ``keep``. Nothing raises but a reader."""
    plan, account, stop = plan or Plan(), account if account is not None else Account(), stop if stop is not None else Stop()
    codec = codec_for(to.protocol)
    own = channel is None
    channel = channel or open_channel(to)
    delivered = None if ledger is None else lambda pieces: ledger.mark(to.name, pieces, account)
    sender = Sender(
        channel, codec, account, retry=retry, limits=plan.limits, stop=stop, keep=keep, say=say, delivered=delivered
    )
    encoder = Encoder(codec, plan, account)
    batcher = Batcher(codec, plan.limits, plan.at_once)

    def deliver(pieces: list[Piece]) -> None:
        if ledger is None:
            sender.deliver(pieces)
            return
        left, why = ledger.deliver(to.name, pieces, account, sender.deliver, force=force, stop=stop)
        if left:
            sender.fail(left, why)

    try:
        for piece, parent in encoder.pieces(items):
            for request in batcher.add(piece, parent):
                deliver(request)
        for request in batcher.flush():
            deliver(request)
    finally:
        if own:
            channel.close()
    return account


__all__ = ["Account", "Encoder", "Plan", "Stop", "codec_for", "open_channel", "send"]
