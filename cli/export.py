"""``spanport export``: options, signals and the summary around `spanport.export`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..converters import clock
from ..converters.errors import ReadError, SpanportError, UsageError
from ..exporters.batch import NOTHING_DONE, Batch
from .account import dry, of, summary
from .common import batch, complain, from_format, resume, runs, say, tally, usage
from .signals import signals

if TYPE_CHECKING:
    from ..exporters.exported import Exported
    from ..exporters.options import Options

PROFILES = ("generic", "phoenix", "langfuse", "mlflow")


def pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """``key=value`` options as a dict."""
    found: dict[str, str] = {}
    for text in value:
        key, eq, held = text.partition("=")
        if not eq or not key.strip():
            raise click.BadParameter(f"write KEY=VALUE, not {text!r}")
        found[key.strip()] = held
    return found


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A number of bytes, with KiB, MiB, kB or MB after it or not."""
    if value is None:
        return None
    text = value.strip().lower().removesuffix("b")
    scale = next((n for end, n in (("ki", 1 << 10), ("mi", 1 << 20), ("k", 1000), ("m", 1_000_000)) if text.endswith(end)), 1)
    try:
        found = int(float(text.rstrip("kmi")) * scale)
    except ValueError:
        found = 0
    if found < 1:
        raise click.BadParameter(f"no number of bytes: {value!r}")
    return found


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> str | int | None:
    """``now``, or an ISO time as ns."""
    if value is None or value == "now":
        return value
    try:
        return clock.from_iso(value)
    except ValueError:
        raise click.BadParameter(f"write now, or a time such as 2026-11-30T12:00:00Z, not {value!r}") from None


@click.command(
    "export",
    epilog="""\b
Examples:
  spanport export RUN                                          to RUN.otlp.jsonl, no server needed
  spanport export RUN --endpoint http://localhost:4318         any OTLP receiver
  spanport export RUN --endpoint http://localhost:6006 --profile phoenix --project runs --verify
  spanport export RUN --endpoint http://localhost:5000 --profile mlflow --project runs --scores
  spanport export FOLDER --endpoint URL --select status=error --content metadata --dry-run
""",
)
@runs
@from_format
@batch("Processes, over the inputs or the tasks of one large run (as many as processors for one large file, else 1).")
@click.option("--endpoint", metavar="URL", help="Where to send: a base address such as http://localhost:4318 (/v1/traces is added).")
@click.option("--protocol", type=click.Choice(["http/protobuf", "http/json", "grpc"]), help="How to send (http/protobuf).")
@click.option(
    "-o", "--output", metavar="FILE", help="Write OTLP to FILE instead, to a file for each input in FOLDER/, or (-) to standard output."
)
@click.option("--encoding", type=click.Choice(["json", "protobuf"]), help="Of -o: JSON Lines, or protobuf messages with their lengths.")
@click.option("--profile", type=click.Choice(PROFILES), default="generic", help="Dress the spans for this backend (generic).")
@click.option("--project", metavar="NAME", help="Phoenix project, or MLflow experiment (name or id; made when missing).")
@click.option(
    "--header", "headers", metavar="K=V", multiple=True, callback=pairs, help="A header of each request, such as authorization=…."
)
@click.option("--compression", type=click.Choice(["gzip", "none", "deflate"]), help="Of requests (gzip, level 1).")
@click.option("--timeout", type=float, metavar="S", help="Seconds for one request, whatever the server does (10).")
@click.option("--retry-for", type=float, default=60.0, metavar="S", help="Seconds that retrying may take in total (60).")
@click.option("--certificate", metavar="FILE", help="CA certificates to trust.")
@click.option("--client-certificate", metavar="FILE", help="Own certificate, for mutual TLS.")
@click.option("--client-key", metavar="FILE", help="Its key.")
@click.option(
    "--content", type=click.Choice(["full", "metadata", "none"]), default="full", help="How much of messages and results leaves (full)."
)
@click.option("--redact", metavar="REGEX", multiple=True, help="Take out what matches, on top of the built-in list of secrets.")
@click.option("--no-redact", is_flag=True, help="Turn the built-in list off.")
@click.option("--carry/--no-carry", default=False, help="Send the record's own untyped fields too, so that nothing of it is lost.")
@click.option(
    "--select",
    metavar="KEY=VALUE",
    multiple=True,
    help="Only spans that fit (status, kind, task, attempt, tool, model, outcome), and those above.",
)
@click.option(
    "--history", type=click.Choice(["delta", "full", "none"]), default="delta", help="Messages of each request: new ones, all, none."
)
@click.option("--dialect", type=click.Choice(["1.41", "0.1"]), default="1.41", help="Names of the GenAI conventions (1.41).")
@click.option("--resource", "resources", metavar="K=V", multiple=True, callback=pairs, help="A resource attribute.")
@click.option("--service-name", metavar="NAME", help="service.name of the resource.")
@click.option("--trace-per", type=click.Choice(["run", "task", "attempt"]), default="run", help="What is one trace (run).")
@click.option(
    "--shift-time", metavar="now|TIME", callback=moment, help="Move each input in time so that it ends now, or starts at TIME; marked."
)
@click.option("--id-salt", metavar="TEXT", help="Other ids, for a second copy on purpose.")
@click.option(
    "--artifact-store", metavar="DIR", help="Put payloads of artifacts of more than 64 KiB here, by SHA-256, and send references."
)
@click.option("--max-attribute-bytes", metavar="N", callback=size, help="Cut longer values, with a mark (no limit).")
@click.option("--max-attributes", type=click.IntRange(8), metavar="N", help="Attributes of a span at most, with a mark (no limit).")
@click.option("--max-batch-bytes", metavar="N", callback=size, default="3MiB", help="Bytes of one request before compression (3MiB).")
@click.option("--max-batch-spans", type=click.IntRange(1), metavar="N", default=2048, help="Spans of one request (2048).")
@click.option("--follow", is_flag=True, help="Keep reading a growing input; each span goes as soon as it is complete.")
@resume
@click.option("--spool", metavar="DIR", help="Keep what could not be delivered here, for spanport resend (state directory).")
@click.option("--no-spool", is_flag=True, help="Keep nothing.")
@click.option("--ledger/--no-ledger", default=None, help="Send nothing that was delivered before (on for langfuse, which stores copies).")
@click.option("--force", is_flag=True, help="Send again what the ledger knows.")
@click.option("--verify", is_flag=True, help="Read every span id back (Phoenix, MLflow): then they are stored, not only accepted.")
@click.option("--verify-for", type=float, metavar="S", help="Give that up when no span has appeared for so long (30).")
@click.option("--scores", is_flag=True, help="Send scores by the backend's own API after the spans (Phoenix, MLflow).")
@click.option("--dry-run", is_flag=True, help="Send nothing; tell what would be sent where, and which content would leave.")
@click.option("--summary-json", metavar="FILE", help="Write the account as JSON (- for standard output).")
def command(runs: tuple[str, ...], batch: Batch, summary_json: str | None, **given: Any) -> None:
    """Send runs to a tracing backend.

    With no endpoint, in an option or in OTEL_EXPORTER_OTLP_ENDPOINT, each run is written to NAME.otlp.jsonl in the current
    directory. Every span that is read is accepted, rejected, failed or left out, and the numbers are printed.

    \b
    Exit status: 0 nothing was rejected or failed, 3 a part was, 1 nothing arrived.
    """
    from ..exporters.api import export
    from ..exporters.otlp.sender import Stop

    stop, account = Stop(), tally(batch)
    try:
        with usage():
            options = options_of(given)
            by_workers = batch.engine != "local" or (batch.jobs or 1) > 1
            # A file is whole or not there: a signal ends the writing of files as it ends any command, unless the input is followed.
            as_any = options.output is not None and (by_workers or not options.follow)
            at_once = batch.engine != "local" or options.output is not None
            orderly = nullcontext() if as_any else signals(stop, options.follow, at_once)
            with orderly:
                found = export(runs, options=options, tally=account, stop=stop)
    except SpanportError as error:
        complain(str(error))
        sys.exit(NOTHING_DONE)
    if options.dry_run:
        dry(found)
    elif found.way is not None:
        for line in summary(found.way, found):
            say(line)
        if account.resumed:
            say(f"{of(account.resumed, 'input')} were sent there before and skipped (--resume)")
    else:
        if found.redacted:
            say(f"{of(found.redacted, 'secret')} redacted")
        for reason, count in found.reasons.most_common(3):
            complain(f"{count:,} spans: {reason}")
        if options.output != "-" and (told := account.summary()) is not None:
            say(f"{options.output}: {told}")
    if summary_json is not None:
        write_summary(found, summary_json)
    sys.exit(found.status())


def options_of(given: dict[str, Any]) -> Options:
    """The options of the command by the names that the library has for them. Without an endpoint, in an option or in the environment, each input goes to a file in
    the current directory."""
    from ..exporters.options import Options
    from ..exporters.spool import default_folder

    if given["spool"] and given["no_spool"]:
        raise UsageError("--spool and --no-spool exclude each other")
    named = {"service.name": name} if (name := given.pop("service_name")) else {}
    kept = None if given.pop("no_spool") else given.pop("spool") or str(default_folder())
    given.pop("spool", None)
    found = Options(
        format=given.pop("from_"),
        builtin_redaction=not given.pop("no_redact"),
        resource={**given.pop("resources"), **named},
        shift_to=given.pop("shift_time"),
        salt=given.pop("id_salt"),
        spool=kept,
        **given,
    )
    if found.output is not None:
        return found
    to = found.where()
    if to is None and (found.verify or found.scores or found.resume):
        return found  # which can't be, as the library says
    if to is None:
        say("no endpoint given: to files in this directory")
        return replace(found, output="./")
    if to.said_by != "--endpoint":
        say(f"to {to.name} ({to.said_by})")
    return found


def write_summary(found: Exported, file: str) -> None:
    """The account as JSON, to ``file`` or (-) standard output."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(found.as_dict()), indent=2) + b"\n"
    if file == "-":
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
        return
    try:
        Path(file).write_bytes(text)
    except OSError as error:
        raise ReadError(f"the summary can't be written: {error.strerror}", input=file) from error
