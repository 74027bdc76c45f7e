"""``spanport artifacts list|get``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..converters.api import collect
from ..converters.artifacts import EMPTY, Index, PayloadMissing, get_artifact, line
from ..converters.errors import Report
from ..converters.model import Trace
from .common import Account, from_format, items, say, strict, usage
from .inputs import Inputs

run = click.argument("run", metavar="RUN")
thread = click.option("--thread", metavar="T", help="The conversation; a run with one needs none.")


@click.group(
    "artifacts",
    epilog="""\b
Examples:
  spanport artifacts list fixtures/artifacts/spec/rows.json --thread t-A
  spanport artifacts get fixtures/artifacts/threads/two_turns_compare/thread.json 501
""",
)
def command() -> None:
    """Artifacts of a conversation: list them, get one."""


def _index(account: Account, run: str, from_: str | None, strict: bool) -> Index | None:
    """The artifacts of ``run``; None when nothing of it can be read."""
    traces: list[Trace] = []
    read = False
    for one in account.over(Inputs((run,), from_)):
        report = Report(strict=strict)
        with account.input(report, one):
            traces.extend(collect(items(one, report, from_)))
            read = True
    return Index(traces) if read else None


@command.command("list")
@run
@thread
@click.option("--type", "type_", metavar="X", help="Only artifacts of this type.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N, the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with the span that made each.")
@from_format
@strict
def list_(run: str, thread: str | None, type_: str | None, limit: int | None, as_json: bool, from_: str | None, strict: bool) -> None:
    """The artifacts of a conversation, newest first: #id [turn n] type — title."""
    account = Account()
    with usage():
        index = _index(account, run, from_, strict)
        if index is not None:
            entries = index.entries(thread, type=type_, limit=limit)
            if as_json:
                import msgspec

                rows = [
                    {
                        "id": e.number,
                        "original_id": e.artifact.id,
                        **{k: getattr(e.artifact, k) for k in ("type", "title", "turn", "version", "mime_type", "uri", "sha256", "status")},
                        "versions": e.versions,
                        "payload": bool(e.artifact.payload or e.artifact.sha256),
                        "trace_id": e.trace_id,
                        "span_id": e.span_id,
                    }
                    for e in entries
                ]
                click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2))
            else:
                click.echo("\n".join(map(line, entries)) or EMPTY)
    sys.exit(account.status())


@command.command("get")
@run
@click.argument("id", metavar="ID")
@thread
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), help="The folder of payloads that lie beside the record.")
@from_format
@strict
def get(run: str, id: str, thread: str | None, store: Path | None, from_: str | None, strict: bool) -> None:
    """One artifact as JSON, with its metadata and whole payload."""
    account = Account()
    status = None
    with usage():
        index = _index(account, run, from_, strict)
        if index is not None:
            try:
                click.echo(get_artifact(index, id, thread, store=store))
            except PayloadMissing as error:
                say(str(error))
                status = 1
    sys.exit(account.status() if status is None else status)
