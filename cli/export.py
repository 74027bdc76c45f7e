"""``spanport export``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..converters import registry
from ..converters.errors import Report
from ..exporters.file import replacing
from .common import Account, from_format, items, runs, say, strict, usage


@click.command("export")
@runs
@from_format
@strict
@click.option("--endpoint", metavar="URL", help="Where to send: a base address such as http://localhost:4318 (/v1/traces is added).")
@click.option("--protocol", help="http/protobuf, http/json or grpc.")
def command(runs: tuple[str, ...], from_: str | None, strict: bool, endpoint: str | None, protocol: str | None) -> None:
    """Send runs to a tracing backend; with no endpoint, to NAME.otlp.jsonl in the current directory."""
    account = Account()
    with usage():
        from ..exporters.export import send
        from ..exporters.otlp.settings import destination

        to = destination(endpoint, protocol)
        for run in runs:
            report = Report(strict=strict)
            with account.input(report):
                if to is not None:
                    found = send(items(run, report, from_), to, say=say)
                    say(f"read {found.read}: accepted {found.accepted}, rejected {found.rejected}, failed {found.failed}")
                    continue
                path = Path((Path(run).resolve().stem if run != "-" else "stdin") + ".otlp.jsonl")
                with replacing(path) as file:
                    registry.get("otlp-json").write(items(run, report, from_), file, report, registry.WriteOptions(carry=False))
                say(f"no endpoint given: wrote {path}")
    sys.exit(account.status())
