"""``spanport resend``."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..converters.errors import SpanportError
from .common import NOTHING_DONE, PART_DONE, complain, say, usage
from .export import pairs, signals, summary

if TYPE_CHECKING:
    from ..exporters.ledger import Ledger
    from ..exporters.spool import Meant


@click.command(
    "resend",
    epilog="""\b
Examples:
  spanport resend                                    everything in the spool, to where it was meant for
  spanport resend DIR --header authorization="Bearer …"
  spanport resend --list
""",
)
@click.argument("folder", metavar="[DIR]", required=False)
@click.option("--list", "only_list", is_flag=True, help="Tell what is there and where it was meant for; send nothing.")
@click.option("--endpoint", metavar="URL", help="Send there instead.")
@click.option("--protocol", type=click.Choice(["http/protobuf", "http/json", "grpc"]), help="Send so instead.")
@click.option(
    "--header", "headers", metavar="K=V", multiple=True, callback=pairs, help="A header; credentials are never kept in the spool."
)
@click.option("--compression", type=click.Choice(["gzip", "none", "deflate"]), help="Of requests (gzip).")
@click.option("--timeout", type=float, metavar="S", help="Seconds for one request (10).")
@click.option("--retry-for", type=float, default=60.0, metavar="S", help="Seconds that retrying may take for each file (60).")
@click.option("--certificate", metavar="FILE", help="CA certificates to trust.")
@click.option("--client-certificate", metavar="FILE", help="Own certificate, for mutual TLS.")
@click.option("--client-key", metavar="FILE", help="Its key.")
def command(folder: str | None, only_list: bool, retry_for: float, **given: Any) -> None:
    """Send what exports could not deliver, and remove what is accepted.

    DIR is the spool (spanport/spool in the user's state directory). What fails again stays for the next time.
    """
    from ..exporters.backends import Route
    from ..exporters.otlp.sender import Retry, Stop
    from ..exporters.resend import pending, resend, where
    from ..exporters.spool import default_folder, meant_of

    place = Path(folder) if folder else default_folder()
    files = pending(place)
    if folder and not place.is_dir():
        raise click.UsageError(f"no folder {folder}")
    if only_list:
        for path in files:
            try:
                meant = meant_of(path)
                click.echo(f"{path.name}  {meant.spans:,} spans for {meant.endpoint} ({meant.protocol}), {meant.at[:19]}")
                for reason, count in meant.reasons.items():
                    click.echo(f"    {count:,}: {reason}")
            except SpanportError as error:
                click.echo(str(error))
        return
    if not files:
        say(f"nothing to send in {place}")
        return
    stop, statuses = Stop(), []
    with usage(), signals(stop):
        for path in files:
            if stop:
                break
            try:
                to, meant = where(path, **given)
                missing = [h for h in meant.other_headers if h not in to.headers]
                if missing:
                    say(f"{path.name} was meant to go with the headers {', '.join(missing)} (--header)")
                with ledger_of(meant) as ledger:
                    done = resend(path, to, meant, retry=Retry(total=retry_for), stop=stop, say=say, ledger=ledger)
            except (SpanportError, OSError) as error:
                complain(str(error))
                statuses.append(NOTHING_DONE)
                continue
            if done.skipped:
                say(f"{path.name}: {done.skipped}")
                continue
            if done.broken_lines:
                complain(f"{path}: {done.broken_lines} lines can't be read; the file stays")
            for line in summary(Route(to, {}), done.account):
                say(line)
            statuses.append(done.account.status() or (PART_DONE if done.broken_lines else 0))
    if stop:
        sys.exit(128 + stop.signal)
    sys.exit(0 if not any(statuses) else NOTHING_DONE if all(s == NOTHING_DONE for s in statuses) else PART_DONE)


def ledger_of(meant: Meant) -> AbstractContextManager[Ledger | None]:
    """The ledger, for spans of an export that kept one."""
    if not meant.ledger:
        return nullcontext()
    from ..exporters.ledger import Ledger, default_path

    return Ledger(default_path())
