"""Sending what the spool holds: what is accepted is removed, what fails again stays (in a new file, when a part went)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..converters.errors import SpanportError
from .export import codec_for, open_channel
from .ledger import Ledger, default_path
from .otlp.account import Account
from .otlp.batch import Batcher, Limits
from .otlp.codec import Codec, Piece
from .otlp.sender import Channel, Retry, Sender, Stop
from .otlp.settings import Destination, destination
from .spool import Meant, Spool, default_folder, lines, locked, meant_of, pending, remove, spans_of
from .voice import SILENT, Voice


@dataclass
class Resent:
    """What became of one spool file. ``skipped``: why it was not tried."""

    path: Path
    account: Account = field(default_factory=Account)
    to: Destination | None = None
    skipped: str | None = None
    error: Exception | None = None
    """Why it could not even be tried."""
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
    folder: str | Path | None = None,
    *,
    endpoint: str | None = None,
    protocol: str | None = None,
    headers: Mapping[str, str] | None = None,
    retry_for: float = 60.0,
    stop: Stop | None = None,
    voice: Voice = SILENT,
    **more: Any,
) -> Iterator[Resent]:
    """Send what the spool in ``folder`` (by default the user's own) holds, to where it was meant to go unless the arguments name another place, and remove what is
    accepted. Yields what became of each file. ``headers``: credentials are never kept. ``retry_for``: seconds for each file. ``more``: ``compression``, ``timeout``,
    certificates, as in `Options`."""
    place, stop = Path(folder) if folder else default_folder(), stop if stop is not None else Stop()
    for path in pending(place):
        if stop:
            return
        try:
            to, meant = where(path, endpoint, dict(headers or {}), protocol=protocol, **more)
            if missing := [h for h in meant.other_headers if h not in to.headers]:
                voice.say(f"{path.name} was meant to go with the headers {', '.join(missing)} (--header)")
            # An export that kept a ledger did so for a backend that stores copies.
            with Ledger(default_path()) if meant.ledger else nullcontext() as ledger:
                yield resend_file(path, to, meant, retry=Retry(total=retry_for), stop=stop, say=voice.say, ledger=ledger)
        except (SpanportError, OSError) as error:
            yield Resent(path, error=error)


def resend_file(
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
    stop, found = stop if stop is not None else Stop(), Resent(path, to=to)
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


__all__ = ["Resent", "pending", "resend", "resend_file", "where"]
