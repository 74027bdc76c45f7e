"""Sending what the spool holds: what is accepted is removed, what fails again stays (in a new file, when a part went)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..converters.errors import SpanportError
from .export import codec_for, open_channel
from .otlp.account import Account
from .otlp.batch import Batcher, Limits
from .otlp.codec import Codec, Piece
from .otlp.sender import Channel, Retry, Sender, Stop
from .otlp.settings import Destination, destination
from .spool import Meant, Spool, lines, locked, meant_of, pending, remove, spans_of

if TYPE_CHECKING:
    from .ledger import Ledger


@dataclass
class Resent:
    """What became of one spool file. ``skipped``: why it was not tried."""

    path: Path
    account: Account = field(default_factory=Account)
    skipped: str | None = None
    broken_lines: int = 0


def where(path: Path, endpoint: str | None, headers: dict[str, str], **more: str | None) -> tuple[Destination, Meant]:
    """Where ``path`` goes: as it was meant, unless the call or the environment names another place. SpanportError when nobody says."""
    protocol = more.pop("protocol", None)
    try:
        meant = meant_of(path)
    except SpanportError:
        if endpoint is None:
            raise
        meant = Meant(endpoint=endpoint, protocol=protocol or "http/protobuf")
    found = destination(endpoint or meant.endpoint, protocol or meant.protocol, headers={**meant.headers, **headers}, **more)  # type: ignore[arg-type]
    assert found is not None
    return found, meant


def resend(
    path: Path,
    to: Destination,
    meant: Meant,
    *,
    limits: Limits | None = None,
    retry: Retry | None = None,
    stop: Stop | None = None,
    say: Callable[[str], None] | None = None,
    channel: Channel | None = None,
    ledger: Ledger | None = None,
) -> Resent:
    """Send one spool file. It is removed when every span of it was accepted or rejected; when a part failed, that part is in a new
    file; when nothing went, it stays as it is."""
    stop, found = stop if stop is not None else Stop(), Resent(path)
    with locked(path) as mine:
        if not mine:
            found.skipped = "another process is sending it, or has sent it"
            return found
        codec, limits = codec_for(to.protocol), limits or Limits()
        again = Spool(path.parent, to, codec, meant.profile)
        again.meant = replace_meant(meant)
        account = found.account
        channel = channel or open_channel(to, stop)
        delivered = None if ledger is None else lambda pieces: ledger.mark(to.name, pieces, account)
        sender = Sender(channel, codec, account, retry=retry, limits=limits, stop=stop, keep=again.keep, say=say, delivered=delivered)

        def deliver(pieces: list[Piece]) -> None:
            if ledger is None:
                sender.deliver(pieces)
                return
            left, why = ledger.deliver(to.name, pieces, account, sender.deliver, force=False, stop=stop)
            if left:
                sender.fail(left, why)

        batcher = Batcher(codec, limits)
        try:
            found.broken_lines = _send_lines(path, codec, batcher, account, deliver)
            for request in batcher.flush():
                deliver(request)
        finally:
            channel.close()
            again.close()
        account.spool, account.spool_error = str(again.path) if again.path else None, again.error
        kept_all = account.spooled == account.failed and again.error is None
        if account.failed == account.read and again.path is not None:
            remove(again.path)  # nothing went: one file is enough, the old one
            account.spool = str(path)
        elif found.broken_lines:
            account.spool = account.spool or str(path)  # what can't be read is not thrown away
        elif kept_all:
            remove(path)
    return found


def replace_meant(meant: Meant) -> Meant:
    """The same place, with nothing counted yet."""
    return Meant(
        endpoint=meant.endpoint,
        protocol=meant.protocol,
        profile=meant.profile,
        headers=meant.headers,
        other_headers=meant.other_headers,
        ledger=meant.ledger,
    )


def _send_lines(path: Path, codec: Codec, batcher: Batcher, account: Account, deliver: Callable[[list[Piece]], None]) -> int:
    broken = 0
    traces: set[str] = set()
    for _, line in lines(path):
        try:
            if line is None:
                raise ValueError
            spans = list(spans_of(line))
        except (KeyError, TypeError, ValueError, AttributeError):
            broken += 1
            continue
        for around, flat in spans:
            account.read += 1
            traces.add(around.trace_id)
            account.first = flat.start if account.first is None else min(account.first, flat.start)
            account.last = flat.end if account.last is None else max(account.last, flat.end)
            data = codec.span(flat)
            account.bytes += len(data)
            for request in batcher.add(Piece(around, flat.span_id, flat.parent_id is None, data), flat.parent_id):
                deliver(request)
    account.traces = len(traces)
    return broken


__all__ = ["Resent", "pending", "resend", "where"]
