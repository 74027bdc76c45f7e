"""``spanport export`` by several processes, or on a cluster: each input (or share of one large input) is read, encoded and sent (or written) by the worker
that has it, and its account comes back and is merged. Ids don't depend on who sends, so that what is sent twice after a worker died is one span.

What needs all inputs at once stays with the caller: the choice of the destination, reading back, scores, the summary.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..converters.errors import ReadError, Report, SpanportError, UsageError
from ..converters.model import Item, Score, TraceHeader
from ..exporters.otlp.sender import Stop
from . import output
from .common import Account, Input, Inputs, Partly, absolute, items, say, shares
from .parts import Part, join, keep

if TYPE_CHECKING:
    from ..exporters.backends import Route
    from ..exporters.export import Plan
    from ..exporters.otlp.account import Account as Spans
    from ..exporters.pipeline import Choices
    from .common import Resume


@dataclass(frozen=True)
class Job:
    """What each worker does with its input; everything that the environment of this machine said is in it. ``stop``: a file that is there as soon as
    the user wants it to end; None where workers can't see it."""

    way: Route
    plan: Plan
    choices: Choices
    profile: str
    from_: str | None
    retry_for: float
    spool: str | None
    ledger: bool
    force: bool
    names: bool
    """The ids of spans that were accepted come back (for reading them back)."""
    stop: str | None
    level: int


@dataclass
class Sent:
    """What came of one input."""

    spans: Spans
    traces: set[str] = field(default_factory=set)
    accepted: dict[str, set[str]] = field(default_factory=dict)
    scores: list[tuple[str, str, Score]] = field(default_factory=list)
    old: bool = False
    large: list[str] = field(default_factory=list)


def work(job: Job, one: Input, report: Report) -> Sent:
    """Send one input. What was sent before its reading ended badly counts: `Partly`."""
    from ..exporters.export import codec_for, send
    from ..exporters.ledger import Ledger, default_path
    from ..exporters.otlp.account import Account as Spans
    from ..exporters.otlp.sender import Retry
    from ..exporters.pipeline import Pipeline
    from ..exporters.spool import Spool

    output.level = job.level
    sent, stop = Sent(Spans()), Stop()
    pipe = Pipeline(job.choices, sent.spans)
    codec = codec_for(job.way.to.protocol)
    spool = Spool(Path(job.spool), job.way.to, codec, job.profile, job.ledger) if job.spool is not None else None
    failed: list[SpanportError] = []

    def noted() -> Iterator[Item]:
        try:
            for item in pipe.items(items(one, report, job.from_)):
                if item.__class__ is TraceHeader:
                    sent.traces.add(item.id)
                yield item
        except SpanportError as error:
            failed.append(error)

    def delivered(pieces: list[Any]) -> None:
        for trace in {piece.envelope.trace_id for piece in pieces}:
            sent.accepted.setdefault(trace, set())
        if job.names:
            for piece in pieces:
                sent.accepted[piece.envelope.trace_id].add(piece.span_id)

    def old() -> None:
        sent.old = True

    over = threading.Event()
    if job.stop is not None and Path(job.stop).exists():
        stop.set(signal.SIGTERM)
    elif job.stop is not None:
        threading.Thread(target=_watch, args=(Path(job.stop), stop, over), daemon=True).start()
    ledger = Ledger(default_path()) if job.ledger else None
    try:
        send(
            noted(),
            job.way.to,
            job.plan,
            account=sent.spans,
            retry=Retry(total=job.retry_for),
            stop=stop,
            keep=spool.keep if spool is not None else None,
            ledger=ledger,
            force=job.force,
            delivered=delivered,
            say=say,
            say_old=old,
            say_large=sent.large.append,
        )
    finally:
        over.set()
        if ledger is not None:
            ledger.__exit__()
        if spool is not None:
            spool.close()
            sent.spans.spool, sent.spans.spool_error = str(spool.path) if spool.path else None, spool.error
    sent.spans.redacted = pipe.redacted
    sent.scores = pipe.scored.scores
    if failed:
        if not sent.spans.read:
            raise failed[0]
        raise Partly(failed[0], sent)
    return sent


def _watch(file: Path, stop: Stop, over: threading.Event) -> None:
    """Pass the wish to end on to this worker: its signals are not the user's."""
    while not over.is_set():
        if file.exists():
            stop.set(signal.SIGTERM)
            return
        over.wait(0.2)


@dataclass(frozen=True)
class FileJob:
    """What each worker does with its input when OTLP is written and not sent. ``parts``: a folder of this machine for what they write; None where
    workers can't see it."""

    plan: Plan
    choices: Choices
    from_: str | None
    encoding: str
    parts: str | None


@dataclass
class Written:
    """What came of one input, or of a share (then with its ``traces``)."""

    spans: Spans
    part: Part = (None, b"")
    traces: set[str] = field(default_factory=set)


def write(job: FileJob, one: Input, report: Report) -> Written:
    """Write one input. What was read before its reading ended badly counts: `Partly`."""
    from ..exporters.export import send
    from ..exporters.otlp.account import Account as Spans
    from ..exporters.otlp.codec import JSON, PROTOBUF
    from ..exporters.otlp.files import FileChannel
    from ..exporters.otlp.settings import Destination
    from ..exporters.pipeline import Pipeline

    done = Written(Spans())
    pipe = Pipeline(job.choices, done.spans)
    codec = JSON if job.encoding == "json" else PROTOBUF
    failed: list[SpanportError] = []

    def read() -> Iterator[Item]:
        try:
            for item in pipe.items(items(one, report, job.from_)):
                if one.share is not None and item.__class__ is TraceHeader:
                    done.traces.add(item.id)
                yield item
        except SpanportError as error:
            failed.append(error)

    def run(out: BinaryIO) -> None:
        send(read(), Destination(url="file:."), job.plan, account=done.spans, channel=FileChannel(out, codec), codec=codec)
        if done.spans.failed:
            raise SpanportError(next(iter(done.spans.reasons)))

    done.part = keep(job.parts, run)
    done.spans.redacted = pipe.redacted
    if failed and not done.spans.read:
        raise failed[0]
    if failed:
        raise Partly(failed[0], done)
    return done


def to_files(given: Any, plan: Plan, choices: Choices, encoding: str, inputs: Account, spans: Spans) -> None:
    """All inputs into ``-o``, or each into a file in the current directory; ``spans`` is the account of it. Of an input that ends badly what was read
    before goes into the common output, but there is no file of its own."""
    from ..exporters.file import replacing

    with ExitStack() as stack:
        stack.enter_context(inputs)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="spanport-"))
        job = FileJob(plan, choices, given.from_, encoding, folder if given.engine == "local" else None)
        out: BinaryIO | None = sys.stdout.buffer if given.output == "-" else None
        if given.output not in (None, "-"):
            out = stack.enter_context(replacing(Path(given.output)))
        named: dict[str, str] = {}
        divide = partial(shares, given.from_) if not given.select and given.shift_time is None else None
        for outcome in inputs.each(partial(write, job), Inputs(given.runs, given.from_), divide=divide):
            known: set[str] = set()
            for done in outcome.results:
                done.spans.traces -= len(done.traces & known)  # the shares of one run have its header each
                known |= done.traces
                spans.merge(done.spans)
            parts = (done.part for done in outcome.results)
            if out is not None:
                join(parts, out)
            elif outcome.error is None:
                name = outcome.input.output(".otlp.jsonl").name
                if named.setdefault(name, str(outcome.input)) != str(outcome.input):
                    hint = "spanport convert --to otlp-json -o FOLDER keeps them apart"
                    inputs.spoilt(ReadError(f"would be written to {name}, as {named[name]} was", input=str(outcome.input), hint=hint))
                    continue
                with replacing(Path(name)) as file:
                    join(parts, file)
                say(f"no endpoint given: wrote {name}")
    if given.output not in (None, "-"):
        say(f"wrote {given.output}")


class Passed(Stop):
    """The wish to end, passed on to the workers of this machine by way of a file."""

    def __init__(self, file: str | None) -> None:
        super().__init__()
        self._file = file

    def set(self, signal: int) -> None:
        super().set(signal)
        if self._file is not None:
            Path(self._file).touch()


@dataclass
class Found:
    """What all workers together give: span ids that were accepted, by trace; scores; whether some span is too old for the backend."""

    accepted: dict[str, set[str]] = field(default_factory=dict)
    scores: list[tuple[str, str, Score]] = field(default_factory=list)
    old: bool = False

    def take(self, sent: Sent) -> None:
        for trace, names in sent.accepted.items():
            self.accepted.setdefault(trace, set()).update(names)
        self.scores += sent.scores
        self.old |= sent.old


def run(job: Job, inputs: Account, runs: tuple[str, ...], stop: Stop, resume: Resume | None, divisible: bool) -> Iterator[Sent]:
    """All inputs, in their order: what came of each of them, and of each share of one that was divided."""
    divide = partial(shares, job.from_) if divisible else None
    for outcome in inputs.each(partial(work, job), Inputs(runs, job.from_), resume=resume, divide=divide):
        known: set[str] = set()
        for sent in outcome.results:
            sent.spans.traces -= len(sent.traces & known)  # the shares of one run have its header each
            known |= sent.traces
            if sent.spans.rejected or sent.spans.failed or stop:
                outcome.digest = None  # not done: --resume comes back to it
            yield sent


def job_for(given: Any, way: Route, plan: Plan, choices: Choices, books: bool, folder: str) -> Job:
    """The job that the options ask for. UsageError for what can't be spread."""
    from ..exporters.spool import default_folder

    remote = given.engine != "local"
    if remote and books:
        raise UsageError("the ledger of what was sent is a file of one machine: --no-ledger sends from a cluster without it")
    spool = None if given.no_spool else absolute(given.spool) if given.spool else str(default_folder())
    return Job(
        way=way,
        plan=plan,
        choices=choices,
        profile=given.profile,
        from_=given.from_,
        retry_for=given.retry_for,
        spool=spool,
        ledger=books,
        force=given.force,
        names=given.verify,
        stop=None if remote else str(Path(folder) / "stop"),
        level=output.level,
    )


__all__ = ["FileJob", "Found", "Job", "Passed", "Sent", "Written", "job_for", "run", "to_files", "work", "write"]
