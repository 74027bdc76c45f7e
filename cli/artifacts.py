"""``spanport artifacts list|get``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..converters.artifacts import EMPTY, Index, PayloadMissing, get_artifact, line
from ..converters.inputs import Inputs
from ..exporters.batch import Batch, Tally
from .common import from_format, say, strict, tally, usage

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


def _index(account: Tally, run: str, from_: str | None) -> Index | None:
    """The artifacts of ``run``; None when nothing of it can be read."""
    with account:
        traces = [trace for trace, _ in account.traces(Inputs((run,), from_), from_)]
    return Index(traces) if account.done else None


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
    account = tally(Batch(jobs=1, progress="none", strict=strict))
    with usage():
        index = _index(account, run, from_)
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
    account = tally(Batch(jobs=1, progress="none", strict=strict))
    status = None
    with usage():
        index = _index(account, run, from_)
        if index is not None:
            try:
                click.echo(get_artifact(index, id, thread, store=store))
            except PayloadMissing as error:
                say(str(error))
                status = 1
    sys.exit(account.status() if status is None else status)
