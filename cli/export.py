"""``spanport export``."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..converters import clock, registry
from ..converters.errors import ReadError, Report, SpanportError, UsageError
from ..converters.model import Item, Score
from .common import (
    NOTHING_DONE,
    PART_DONE,
    Account,
    Batch,
    Input,
    Inputs,
    Outcome,
    Resume,
    complain,
    from_format,
    items,
    large,
    resume,
    runs,
    say,
    usage,
)

if TYPE_CHECKING:
    from ..exporters.backends import Backend, Route
    from ..exporters.export import Plan
    from ..exporters.otlp.account import Account as Spans
    from ..exporters.otlp.codec import Piece
    from ..exporters.otlp.sender import Stop
    from ..exporters.pipeline import Pipeline

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


@dataclass
class Given:
    """The options of the command, by name."""

    values: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


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
@click.option("--strict", is_flag=True, help="Make a broken line or item fatal for its input.")
@click.option("--errors", metavar="FILE", help="Write what could not be read to this file, as JSON Lines.")
@click.option("--endpoint", metavar="URL", help="Where to send: a base address such as http://localhost:4318 (/v1/traces is added).")
@click.option("--protocol", type=click.Choice(["http/protobuf", "http/json", "grpc"]), help="How to send (http/protobuf).")
@click.option("-o", "--output", metavar="FILE", help="Write OTLP to a file instead, or - for standard output.")
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
    "--select", metavar="KEY=VALUE", multiple=True, help="Only spans that fit (status, kind, task, attempt, tool, model), and those above."
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
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Processes, over the inputs or the tasks of one large run (as many as processors for one large file, else 1).",
)
@click.option("--engine", metavar="ENGINE", default="local", help="Who sends: local (this machine), or dask://HOST:PORT.")
@click.option("--spool", metavar="DIR", help="Keep what could not be delivered here, for spanport resend (state directory).")
@click.option("--no-spool", is_flag=True, help="Keep nothing.")
@click.option("--ledger/--no-ledger", default=None, help="Send nothing that was delivered before (on for langfuse, which stores copies).")
@click.option("--force", is_flag=True, help="Send again what the ledger knows.")
@click.option("--verify", is_flag=True, help="Read every span id back (Phoenix, MLflow): then they are stored, not only accepted.")
@click.option("--verify-for", type=float, metavar="S", help="Give that up when no span has appeared for so long (30).")
@click.option("--scores", is_flag=True, help="Send scores by the backend's own API after the spans (Phoenix, MLflow).")
@click.option("--dry-run", is_flag=True, help="Send nothing; tell what would be sent where, and which content would leave.")
@click.option("--summary-json", metavar="FILE", help="Write the account as JSON (- for standard output).")
def command(runs: tuple[str, ...], **given: Any) -> None:
    """Send runs to a tracing backend.

    With no endpoint, in an option or in OTEL_EXPORTER_OTLP_ENDPOINT, each run is written to NAME.otlp.jsonl in the current
    directory. Every span that is read is accepted, rejected, failed or left out, and the numbers are printed.

    \b
    Exit status: 0 nothing was rejected or failed, 3 a part was, 1 nothing arrived.
    """
    options = Given({"runs": runs, **given})
    try:
        with usage():
            code = run(options)
    except SpanportError as error:
        complain(str(error))
        code = NOTHING_DONE
    sys.exit(code)


def run(given: Given) -> int:
    """Check the options and take the way that they ask for."""
    from ..exporters.otlp.settings import destination

    for one, other, when in (
        ("output", "endpoint", given.output and given.endpoint),
        ("redact", "no-redact", False),
        ("follow", "select", given.follow and given.select),
        ("follow", "shift-time", given.follow and given.shift_time is not None),
        ("follow", "resume", given.follow and given.resume),
        ("spool", "no-spool", given.spool and given.no_spool),
        ("follow", "jobs", given.follow and (given.jobs or 1) > 1),
        ("follow", "engine", given.follow and given.engine != "local"),
    ):
        if when:
            raise UsageError(f"--{one} and --{other} exclude each other")
    to = None
    if given.output is None:
        to = destination(
            given.endpoint,
            given.protocol,
            headers=given.headers,
            compression=given.compression,
            timeout=given.timeout,
            certificate=given.certificate,
            client_certificate=given.client_certificate,
            client_key=given.client_key,
        )
    if to is None:
        for name in ("verify", "scores", "resume"):
            if getattr(given, name):
                raise UsageError(f"--{name} needs an endpoint (--endpoint, or OTEL_EXPORTER_OTLP_ENDPOINT)")
        return to_files(given)
    if to.said_by != "--endpoint":
        say(f"to {to.name} ({to.said_by})")
    from ..exporters.backends import BACKENDS, route

    backend = BACKENDS[given.profile]
    for name in ("verify", "scores"):
        if getattr(given, name) and not backend.reads_back:
            raise UsageError(f"--{name} needs --profile phoenix or mlflow")
        if getattr(given, name) and to.protocol == "grpc":
            raise UsageError(f"--{name} needs HTTP: the API is not on the gRPC port")
    return to_backend(given, backend, route(backend, to, given.project, dry=given.dry_run))


# -------------------------------------------------------------------------------------------------------------- pieces
def pipeline(given: Given, spans: Spans, resource: dict[str, Any]) -> Pipeline:
    """The stages that the options ask for."""
    from ..converters.stages.resource import environment
    from ..exporters.pipeline import Choices, Pipeline

    named = {"service.name": given.service_name} if given.service_name else {}
    return Pipeline(
        Choices(
            profile=given.profile,
            dialect=given.dialect,
            carry=given.carry,
            content=given.content,
            redact=given.redact,
            builtin_redaction=not given.no_redact,
            select=given.select,
            history=given.history,
            shift_to=given.shift_time,
            salt=given.id_salt,
            trace_per=given.trace_per,
            resource={**environment(), **resource, **given.resources, **named},
            artifact_store=given.artifact_store,
        ),
        spans,
    )


def plan_of(given: Given, backend: Backend, pipe: Pipeline, census: Counter[str] | None = None) -> Plan:
    """How spans are dressed and cut."""
    from ..exporters.export import Plan
    from ..exporters.otlp.batch import Limits

    recent = time.time_ns() - backend.old_after * clock.SECOND
    return Plan(
        profile=pipe.choices.dressing(),
        limits=Limits(bytes=given.max_batch_bytes, spans=given.max_batch_spans),
        max_attribute_bytes=given.max_attribute_bytes,
        max_attributes=given.max_attributes,
        at_once=given.follow,
        unique_span_ids=backend.unique_span_ids,
        census=census,
        old=recent if backend.old else None,
        large=backend.large_after if backend.large else None,
    )


def reading(given: Given, stop: Stop) -> registry.ReadOptions:
    """How inputs are read. A followed one ends at the first signal: its reader gives out what is open, and all of it is sent."""
    return registry.ReadOptions(follow=given.follow, stop=(lambda: bool(stop.enough or stop)) if given.follow else None)


def read(given: Given, inputs: Account, pipe: Pipeline, stop: Stop, spans: Spans, done: Resume | None = None) -> Iterator[Item | None]:
    """The items of all inputs as they leave. An input that can't be read is told of and does not stop the others. ``done``: what earlier calls
    did is skipped, and an input counts as done when all of it was accepted."""
    from ..exporters.pipeline import pumped

    options = reading(given, stop)
    live = given.follow or "-" in given.runs

    def one(run: Input) -> Iterator[Item]:
        report = Report(input=str(run), strict=given.strict)
        with inputs.input(report, run):
            yield from pipe.items(items(run, report, given.from_, options), live)

    if live:
        sources: list[Callable[[], Iterable[Item]]] = [lambda r=r: one(r) for r in Inputs(given.runs, given.from_)]  # type: ignore[misc]
        yield from pumped(sources, lambda: bool(stop))
        spans.unread = bool(stop)
        inputs.end()
        return
    known = done.done() if done is not None else {}
    for found in inputs.over(Inputs(given.runs, given.from_)):
        digest = done.key(found) if done is not None else None
        if digest in known:
            inputs.take(Outcome(found, Report(), resumed=True))
            continue
        before = (spans.rejected, spans.failed, inputs.failed, inputs.partial, inputs.unchosen)
        yield from one(found)
        if done is not None and digest is not None:
            yield None  # what is held goes now, so that it is known what came of this input
            if before == (spans.rejected, spans.failed, inputs.failed, inputs.partial, inputs.unchosen) and not stop:
                done.mark(found, digest)


_SAME = (
    ("runs", "errors", "endpoint", "protocol", "output", "encoding", "project", "headers", "compression", "timeout", "retry_for"),
    ("certificate", "client_certificate", "client_key", "max_batch_bytes", "max_batch_spans", "follow", "resume", "jobs", "engine"),
    ("spool", "no_spool", "ledger", "force", "verify_for", "dry_run", "summary_json"),
)
"""Options that change nothing of what arrives, or that `resuming` looks at in another way. Any other one makes an input that was done one to do again."""


def resuming(given: Given, way: Route) -> Resume | None:
    """What earlier calls with the same options sent to the same place."""
    if not given.resume or given.dry_run:
        return None
    from .. import __version__
    from ..converters.stages.resource import environment
    from ..exporters.otlp.settings import variable
    from ..exporters.spool import state_folder

    options = sorted((k, v) for k, v in given.values.items() if not any(k in x for x in _SAME))
    # A key or a tenant in the headers is another place; only a digest of them is stored.
    settings = [
        __version__,
        way.to.url,
        way.project,
        sorted(way.to.headers.items()),
        variable("HEADERS"),
        sorted(environment().items()),
        options,
    ]
    return Resume(state_folder() / "exported", repr(settings))


@contextmanager
def signals(
    stop: Stop,
    follow: bool = False,
    at_once: bool = False,
    first: str = "ending: what is open is sent, marked unfinished (again to leave it)",
) -> Iterator[None]:
    """SIGINT and SIGTERM ask for an orderly end; a second one ends at once. With ``follow`` one more comes first: what is open is sent, as ``first`` says. ``at_once``: nothing
    here can be ended in order, so that the first one raises KeyboardInterrupt."""

    def ask(number: int, frame: Any) -> None:
        if follow and not stop.enough:
            say(first)
            stop.enough = number
            return
        if at_once:
            stop.set(number)
        if stop:
            raise KeyboardInterrupt
        say("ending: what is not sent goes to the spool (again to end at once)")
        stop.set(number)

    before: dict[signal.Signals, Any] = {}
    try:
        for one in (signal.SIGINT, signal.SIGTERM):
            before[one] = signal.signal(one, ask)
    except ValueError:  # not the main thread: the caller has the signals
        pass
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


# ------------------------------------------------------------------------------------------------------------- backends
def to_backend(given: Given, backend: Backend, way: Route) -> int:
    """Send, put away what failed, read back, send scores, tell."""
    from ..exporters.export import codec_for, send
    from ..exporters.otlp.account import Account as Spans
    from ..exporters.otlp.files import NoChannel
    from ..exporters.otlp.sender import Retry, Stop
    from ..exporters.spool import Spool, default_folder

    if not given.dry_run and (by_several(given) or one_large(given)):
        return by_workers(given, backend, way)
    spans, stop, inputs = Spans(), Stop(), Account(Batch(strict=given.strict, errors=given.errors))
    pipe = pipeline(given, spans, way.resource)
    census: Counter[str] | None = Counter() if given.dry_run else None
    plan = plan_of(given, backend, pipe, census)
    codec = codec_for(way.to.protocol)
    books = not given.dry_run and (given.ledger or (given.ledger is None and backend.twice == "stored"))
    spool = None
    if not given.no_spool and not given.dry_run:
        spool = Spool(Path(given.spool) if given.spool else default_folder(), way.to, codec, given.profile, books)
    accepted: dict[str, set[str]] = {}

    def delivered(pieces: list[Piece]) -> None:
        for trace in {piece.envelope.trace_id for piece in pieces}:
            accepted.setdefault(trace, set())
        if given.verify:
            for piece in pieces:
                accepted[piece.envelope.trace_id].add(piece.span_id)

    with ExitStack() as stack:
        stack.enter_context(inputs)
        stack.enter_context(signals(stop, given.follow))
        ledger = None
        if books:
            from ..exporters.ledger import Ledger, default_path

            ledger = stack.enter_context(Ledger(default_path()))
        send(
            read(given, inputs, pipe, stop, spans, resuming(given, way)),
            way.to,
            plan,
            account=spans,
            retry=Retry(total=given.retry_for, refill=given.follow),
            stop=stop,
            keep=spool.keep if spool is not None else None,
            ledger=ledger,
            force=given.force,
            delivered=delivered,
            say=say,
            say_old=lambda: say(f"warning: {age(spans)}: {backend.old}"),
            say_large=lambda trace: say(f"warning: trace {trace} has more than {volume(backend.large_after)}: {backend.large}"),
            channel=NoChannel() if given.dry_run else None,
            overlap=False if given.resume else None,  # what came of an input is to be known before the next
        )
        spans.redacted = pipe.redacted
        if spool is not None:
            spool.close()
            spans.spool, spans.spool_error = str(spool.path) if spool.path else None, spool.error
        if given.dry_run:
            dry(way, spans, census or Counter())
            return finish(given, inputs, spans, stop, way)
        conclude(given, backend, way, spans, stop, accepted, pipe.scored.scores)
    return told(given, inputs, spans, stop, way)


def by_several(given: Given) -> bool:
    """Whether several processes, or a cluster, were asked for."""
    return given.engine != "local" or ((given.jobs or 1) > 1 and "-" not in given.runs)


def one_large(given: Given) -> bool:
    """Whether the one input is a file that is worth several processes without being asked: what is in several inputs would be sent by each of them."""
    return given.jobs is None and not given.follow and len(given.runs) == 1 and large(given.runs[0])


def by_workers(given: Given, backend: Backend, way: Route) -> int:
    """The same by several processes or a cluster: each sends what it reads."""
    import tempfile

    from ..exporters.otlp.account import Account as Spans
    from . import spread

    spans, remote = Spans(), given.engine != "local"
    inputs = Account(Batch(jobs=given.jobs, engine=given.engine, progress="none", strict=given.strict, errors=given.errors))
    pipe = pipeline(given, spans, way.resource)
    plan = plan_of(given, backend, pipe)
    books = bool(given.ledger or (given.ledger is None and backend.twice == "stored"))
    with ExitStack() as stack:
        stack.enter_context(inputs)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="spanport-"))
        job = spread.job_for(given, way, plan, pipe.choices, books, folder)
        stop = spread.Passed(job.stop)
        stack.enter_context(signals(stop, at_once=remote))
        found, told_of = spread.Found(), set[str]()
        try:
            for sent in spread.run(job, inputs, given.runs, stop, resuming(given, way), not given.select and given.shift_time is None):
                spans.merge(sent.spans)
                first = sent.old and not found.old
                found.take(sent)
                if first:
                    say(f"warning: {age(spans)}: {backend.old}")
                for trace in [t for t in sent.large if t not in told_of]:
                    told_of.add(trace)
                    say(f"warning: trace {trace} has more than {volume(backend.large_after)}: {backend.large}")
        except KeyboardInterrupt:
            if not remote:
                raise
            spans.unread = True
            say("ended: what workers of the cluster had begun is still sent by them, and not in this account")
        conclude(given, backend, way, spans, stop, found.accepted, found.scores)
    return told(given, inputs, spans, stop, way)


def conclude(
    given: Given,
    backend: Backend,
    way: Route,
    spans: Spans,
    stop: Stop,
    accepted: dict[str, set[str]],
    scores: list[tuple[str, str, Score]],
) -> None:
    """What comes when all is sent: reading back, scores, links."""
    if (given.verify or given.scores) and spans.accepted and not stop:
        after(given, backend, way, spans, stop, accepted, scores)
    if accepted:
        from ..exporters.backends import links

        spans.links = links(backend, way, list(accepted)[:20])


def told(given: Given, inputs: Account, spans: Spans, stop: Stop, way: Route) -> int:
    """The summary for people and as JSON; the exit status."""
    for line in summary(way, spans):
        say(line)
    if inputs.resumed:
        say(f"{of(inputs.resumed, 'input')} were sent there before and skipped (--resume)")
    return finish(given, inputs, spans, stop, way)


def after(
    given: Given,
    backend: Backend,
    way: Route,
    spans: Spans,
    stop: Stop,
    accepted: dict[str, set[str]],
    collected: list[tuple[str, str, Score]],
) -> None:
    """Read back, then send the scores (which need the spans to be there)."""
    from ..exporters import backends
    from ..exporters.rest import RestError

    if given.verify:
        seconds = given.verify_for if given.verify_for is not None else 30.0
        try:
            spans.stored, missing = backends.wait_for(backend, way, accepted, seconds, stop.wait, lambda text: None)
        except (RestError, KeyError, TypeError) as error:
            spans.stored = 0
            complain(f"can't read back: {error}")
        else:
            for trace, count in list(missing.items())[:5]:
                complain(f"{count} spans of trace {trace} were accepted and can't be read back")
    if given.scores:
        scores = [s for s in collected if s[0] in accepted]
        taken, failed = 0, {"": len(scores)} if scores else {}
        until = time.monotonic() + (given.verify_for if given.verify_for is not None else 30 + 0.012 * spans.accepted)
        while failed and not stop:
            taken, failed = backends.send_scores(backend, way, scores)
            if not failed or time.monotonic() > until or not any(r.startswith("404") for r in failed):
                break  # a 404: the span is accepted and waits in a queue
            stop.wait(1.0)
        spans.scores, spans.scores_failed = taken, sum(failed.values())
        for reason, count in failed.items():
            complain(f"{count} scores were not taken: {reason}")


def age(spans: Spans) -> str:
    """How old the oldest span is, for people."""
    days = (time.time_ns() - (spans.first or 0)) / (86_400 * clock.SECOND)
    return f"spans are {days:,.0f} days old" if days >= 2 else f"spans are {days * 24:.0f} hours old"


def of(count: int, noun: str) -> str:
    """``1 span``, ``2 spans``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def volume(count: int) -> str:
    """Bytes for people."""
    return f"{count:,} B" if count < 10_000 else f"{count / 1000:,.1f} kB" if count < 10_000_000 else f"{count / 1e6:,.1f} MB"


def dry(way: Route, spans: Spans, census: Counter[str]) -> None:
    """What would be sent, and which content would leave."""
    click.echo(
        f"destination: {way.to.name} ({way.to.protocol}, {way.to.compression})" + (f", project {way.project}" if way.project else "")
    )
    click.echo(f"spans:       {spans.accepted:,} of {of(spans.traces, 'trace')} in {of(spans.requests, 'request')}, {volume(spans.bytes)}")
    if spans.first is not None and spans.last is not None:
        click.echo(f"times:       {clock.to_iso(spans.first)} to {clock.to_iso(spans.last)}")
    for name, count in spans.left_out.items():
        click.echo(f"left out:    {count:,} {name.replace('_', ' ')}")
    click.echo(f"redacted:    {spans.redacted:,} values")
    if not census:
        click.echo("content:     none")
    for name, count in census.most_common():
        click.echo(f"content:     {name} {volume(count)}")


def summary(way: Route, spans: Spans) -> Iterator[str]:
    """The account in a few lines."""
    words = [f"{spans.accepted:,} accepted", f"{spans.rejected:,} rejected", f"{spans.failed:,} failed"]
    words += [f"{count:,} left out ({name.replace('_', ' ')})" for name, count in spans.left_out.items() if count]
    yield f"{way.to.name}: read {of(spans.read, 'span')} of {of(spans.traces, 'trace')}: {', '.join(words)}"
    extra = [f"{volume(spans.bytes)} in {of(spans.requests, 'request')}"]
    extra += ["1 retry" if spans.retries == 1 else f"{spans.retries:,} retries"] if spans.retries else []
    extra += [f"{of(spans.redacted, 'secret')} redacted"] if spans.redacted else []
    extra += [f"{spans.cut:,} spans with cut values"] if spans.cut else []
    extra += [f"{of(spans.shortened, 'oversize span')} shortened"] if spans.shortened else []
    extra += [f"{n:,} × {what} made safe" for what, n in spans.changed.items()]
    yield ", ".join(extra)
    if spans.first is not None and spans.last is not None:
        yield f"times {clock.to_iso(spans.first)} to {clock.to_iso(spans.last)}"
    if spans.stored is not None:
        yield f"{spans.stored:,} of {spans.accepted:,} read back: stored"
    if spans.scores or spans.scores_failed:
        yield f"{of(spans.scores, 'score')} sent"
    for text, count in spans.warnings.items():
        yield f"warning: {text}" + (f" ({count:,} times)" if count > 1 else "")
    for reason, count in spans.reasons.most_common(3):
        yield f"{of(count, 'span')}: {reason}"
    if spans.rejected_spans:
        more = spans.rejected - len(spans.rejected_spans)
        yield f"rejected spans: {', '.join(spans.rejected_spans)}" + (f" and {more:,} more" if more > 0 else "")
    if spans.failed_traces:
        yield f"traces with failed spans: {', '.join(spans.failed_traces[:5])}" + (" …" if len(spans.failed_traces) > 5 else "")
    if spans.left_out["delivered_before"] and not spans.accepted and not spans.failed:
        yield "everything of it was delivered there before; nothing was sent (--force sends it again)"
    if spans.spool:
        yield f"{of(spans.spooled, 'span')} kept in {spans.spool}: spanport resend sends them"
    if spans.spool_error:
        yield f"error: {spans.failed - spans.spooled:,} failed spans could not be kept: {spans.spool_error}"
    for link in spans.links[:5]:
        yield f"open {link}"


def finish(given: Given, inputs: Account, spans: Spans, stop: Stop, way: Route | None) -> int:
    """Write the summary; the exit status."""
    code = status(inputs, spans, stop)
    if given.summary_json:
        import msgspec

        where = {"endpoint": way.to.name, "protocol": way.to.protocol} if way is not None else {"output": given.output}
        found = spans.as_dict(
            **where,
            profile=given.profile,
            project=way.project if way is not None else None,
            inputs={"done": inputs.done, "failed": inputs.failed, "skipped": inputs.resumed},
            dry_run=given.dry_run,
            exit_status=code,
        )
        text = msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
        if given.summary_json == "-":
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
        else:
            try:
                Path(given.summary_json).write_bytes(text)
            except OSError as error:
                raise ReadError(f"the summary can't be written: {error.strerror}", input=given.summary_json) from error
    return code


def status(inputs: Account, spans: Spans, stop: Stop) -> int:
    """A signal first; then nothing arrived, a part, all."""
    if stop or stop.enough:
        return 128 + (stop.signal or stop.enough)
    own, read_ = spans.status(), inputs.status()
    if own == NOTHING_DONE or (read_ == NOTHING_DONE and not spans.read):
        return NOTHING_DONE
    return PART_DONE if own or read_ else 0


# ---------------------------------------------------------------------------------------------------------------- files
class _Nothing(Exception):
    """No input gave anything: no file is written, and one that is there stays."""


def to_files(given: Given) -> int:
    """To a file each in the current directory, or all to ``-o``."""
    from ..exporters.file import replacing
    from ..exporters.otlp.account import Account as Spans
    from ..exporters.otlp.files import codec_of
    from ..exporters.otlp.sender import Stop

    spread = by_several(given) and not given.dry_run
    spans, stop = Spans(), Stop()
    pipe = pipeline(given, spans, {})
    if spread:
        from ..exporters.backends import BACKENDS
        from ..exporters.otlp.codec import JSON
        from . import spread as workers

        inputs = Account(Batch(jobs=given.jobs, engine=given.engine, progress="none", strict=given.strict, errors=given.errors))
        encoding = "json" if codec_of(given.output or "-", given.encoding if given.output else None) is JSON else "protobuf"
        workers.to_files(given, plan_of(given, BACKENDS[given.profile], pipe), pipe.choices, encoding, inputs, spans)
        return close_files(given, inputs, spans, stop)
    inputs = Account(Batch(strict=given.strict, errors=given.errors))
    with inputs, signals(stop, given.follow):
        if given.output is not None:
            codec = codec_of(given.output, given.encoding)
            if given.output == "-" or given.dry_run:
                write(given, read(given, inputs, pipe, stop, spans), sys.stdout.buffer, codec, spans, stop, pipe)
            else:
                with suppress(_Nothing):
                    with replacing(Path(given.output)) as file:
                        write(given, read(given, inputs, pipe, stop, spans), file, codec, spans, stop, pipe)
                        if inputs.status() == NOTHING_DONE and not spans.read:
                            raise _Nothing
                    say(f"wrote {given.output}")
        else:
            options = reading(given, stop)
            taken: dict[str, str] = {}
            for one in inputs.over(Inputs(given.runs, given.from_)):
                report = Report(input=str(one), strict=given.strict)
                name = one.output(".otlp.jsonl").name
                with inputs.input(report, one):
                    found = pipe.items(items(one, report, given.from_, options), given.follow or "-" in given.runs)
                    if given.dry_run:
                        write(given, found, sys.stdout.buffer, codec_of("-", None), spans, stop, pipe)
                        continue
                    first = next(found, None)  # a file that is no run has ended here
                    if taken.setdefault(name, str(one)) != str(one):
                        raise ReadError(
                            f"would be written to {name}, as {taken[name]} was",
                            hint="spanport convert --to otlp-json -o FOLDER keeps them apart",
                        )
                    with replacing(Path(name)) as file:
                        write(given, chain([first] if first is not None else [], found), file, codec_of("-", None), spans, stop, pipe)
                    say(f"no endpoint given: wrote {name}")
    spans.redacted = pipe.redacted
    return close_files(given, inputs, spans, stop)


def close_files(given: Given, inputs: Account, spans: Spans, stop: Stop) -> int:
    """What there is to say of files, and the exit status."""
    if spans.redacted:
        say(f"{of(spans.redacted, 'secret')} redacted")
    for reason, count in spans.reasons.most_common(3):
        complain(f"{count:,} spans: {reason}")
    return finish(given, inputs, spans, stop, None)


def write(given: Given, found: Iterable[Item | None], file: Any, codec: Any, spans: Spans, stop: Stop, pipe: Pipeline) -> None:
    """Spans into an open file; nothing with --dry-run, which tells instead."""
    from ..exporters.backends import BACKENDS
    from ..exporters.export import send
    from ..exporters.otlp.files import FileChannel, NoChannel
    from ..exporters.otlp.settings import Destination

    census: Counter[str] = Counter()
    where = Destination(url=f"file:{given.output or '.'}")
    channel = NoChannel() if given.dry_run else FileChannel(file, codec)
    before = spans.failed
    send(
        found,
        where,
        plan_of(given, BACKENDS[given.profile], pipe, census if given.dry_run else None),
        account=spans,
        stop=stop,
        channel=channel,
        codec=codec,
    )
    if spans.failed > before and not stop:
        raise SpanportError(next(iter(spans.reasons)))
    if given.dry_run:
        spans.redacted = pipe.redacted
        click.echo(f"destination: {given.output or 'NAME.otlp.jsonl in this directory'}")
        click.echo(f"spans:       {spans.accepted:,} of {of(spans.traces, 'trace')}, {volume(spans.bytes)}")
        for name, count in census.most_common():
            click.echo(f"content:     {name} {volume(count)}")
