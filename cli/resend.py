"""``spanport resend``: `spanport.resend`, and what became of each file in words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ..converters.errors import SpanportError
from ..exporters.batch import NOTHING_DONE, PART_DONE
from . import output
from .account import summary
from .common import Terminal, complain, say, usage
from .export import pairs
from .signals import signals


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
def command(folder: str | None, only_list: bool, **given: Any) -> None:
    """Send what exports could not deliver, and remove what is accepted.

    DIR is the spool (spanport/spool in the user's state directory). What fails again stays for the next time.
    """
    from ..exporters.backends import Route
    from ..exporters.otlp.sender import Stop
    from ..exporters.resend import pending, resend
    from ..exporters.spool import default_folder

    place = Path(folder) if folder else default_folder()
    if folder and not place.is_dir():
        raise click.UsageError(f"no folder {folder}")
    if only_list:
        _list(place)
        return
    if not pending(place):
        say(f"nothing to send in {place}")
        return
    stop, statuses = Stop(), []
    with usage(), signals(stop):
        for done in resend(place, stop=stop, voice=Terminal(output.level), **given):
            if done.error is not None:
                complain(str(done.error))
                statuses.append(NOTHING_DONE)
                continue
            if done.skipped:
                say(f"{done.path.name}: {done.skipped}")
                continue
            if done.broken_lines:
                complain(f"{done.path}: {done.broken_lines} lines can't be read; the file stays")
            assert done.to is not None
            for line in summary(Route(done.to, {}), done.account):
                say(line)
            statuses.append(done.account.status() or (PART_DONE if done.broken_lines else 0))
    if stop:
        sys.exit(128 + stop.signal)
    sys.exit(0 if not any(statuses) else NOTHING_DONE if all(s == NOTHING_DONE for s in statuses) else PART_DONE)


def _list(place: Path) -> None:
    """What is in the spool, and where it was meant for."""
    from ..exporters.spool import meant_of, pending

    for path in pending(place):
        try:
            meant = meant_of(path)
        except SpanportError as error:
            click.echo(str(error))
            continue
        click.echo(f"{path.name}  {meant.spans:,} spans for {meant.endpoint} ({meant.protocol}), {meant.at[:19]}")
        for reason, count in meant.reasons.items():
            click.echo(f"    {count:,}: {reason}")
