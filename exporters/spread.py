"""An export by several processes, or on a cluster: each input (or share of one large input) is read, encoded and sent (or written) by the worker
that has it, and its account comes back and is merged. Ids don't depend on who sends, so that what is sent twice after a worker died is one span.

What needs all inputs at once stays with the caller: the choice of the destination, reading back, scores, the summary.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

from ..converters.errors import Report, SpanportError, UsageError
from ..converters.inputs import Input, absolute, items, shares
from ..converters.model import Item, TraceHeader
from .backends import Route
from .batch import Partly, Resume, Tally
from .export import Plan, codec_for, send
from .exported import Delivered, Exported, Scores
from .ledger import Ledger, default_path
from .options import Options
from .otlp.account import Account
from .otlp.codec import JSON, PROTOBUF
from .otlp.files import FileChannel
from .otlp.sender import Retry, Stop
from .otlp.settings import Destination
from .parts import Part, keep
from .pipeline import Choices, Pipeline
from .spool import Spool
from .voice import Voice


@dataclass(frozen=True)
class Job:
    """What each worker does with its input; everything that the environment of this machine said is in it. ``stop``: a file that is there as soon as
    the user wants it to end; None where workers can't see it."""

    options: Options
    way: Route
    plan: Plan
    choices: Choices
    spool: str | None
    stop: str | None
    voice: Voice


@dataclass
class Sent:
    """What came of one input."""

    spans: Account
    traces: set[str] = field(default_factory=set)
    accepted: dict[str, set[str]] = field(default_factory=dict)
    scores: Scores = field(default_factory=list)
    old: bool = False
    large: list[str] = field(default_factory=list)


def work(job: Job, one: Input, report: Report) -> Sent:
    """Send one input. What was sent before its reading ended badly counts: `Partly`."""
    options, delivered = job.options, Delivered(job.options)
    sent, stop = Sent(Account(), accepted=delivered.accepted), Stop()
    pipe = Pipeline(job.choices, sent.spans, options.scores)
    codec = codec_for(job.way.to.protocol)
    spool = Spool(Path(job.spool), job.way.to, codec, options.profile, options.books) if job.spool is not None else None
    failed: list[SpanportError] = []

    def noted() -> Iterator[Item]:
        try:
            for item in pipe.items(items(one, report, options.format)):
                if item.__class__ is TraceHeader:
                    sent.traces.add(item.id)
                yield item
        except SpanportError as error:
            failed.append(error)

    def old() -> None:
        sent.old = True

    over = threading.Event()
    if job.stop is not None and Path(job.stop).exists():
        stop.set(signal.SIGTERM)
    elif job.stop is not None:
        threading.Thread(target=_watch, args=(Path(job.stop), stop, over), daemon=True).start()
    ledger = Ledger(default_path()) if options.books else None
    try:
        send(
            noted(),
            job.way.to,
            job.plan,
            account=sent.spans,
            retry=Retry(total=options.retry_for),
            stop=stop,
            keep=spool.keep if spool is not None else None,
            ledger=ledger,
            force=options.force,
            delivered=delivered,
            say=job.voice.say,
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
    format: str | None
    encoding: str
    parts: str | None


@dataclass
class Written:
    """What came of one input, or of a share (then with its ``traces``)."""

    spans: Account
    part: Part = (None, b"")
    traces: set[str] = field(default_factory=set)


def write(job: FileJob, one: Input, report: Report) -> Written:
    """Write one input. What was read before its reading ended badly counts: `Partly`."""
    done = Written(Account())
    pipe = Pipeline(job.choices, done.spans)
    codec = JSON if job.encoding == "json" else PROTOBUF
    failed: list[SpanportError] = []

    def read() -> Iterator[Item]:
        try:
            for item in pipe.items(items(one, report, job.format)):
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


@dataclass
class Together:
    """What all workers together give: span ids that were accepted, by trace; scores; whether some span is too old for the backend."""

    accepted: dict[str, set[str]] = field(default_factory=dict)
    scores: Scores = field(default_factory=list)
    old: bool = False

    def take(self, sent: Sent) -> None:
        for trace, names in sent.accepted.items():
            self.accepted.setdefault(trace, set()).update(names)
        self.scores += sent.scores
        self.old |= sent.old


def run(job: Job, given: Iterable[Input], found: Exported, resume: Resume | None) -> Iterator[Sent]:
    """All inputs, in their order: what came of each of them, and of each share of one that was divided."""
    divide = partial(shares, job.options.format) if divisible(job.options) else None
    for outcome in found.inputs.each(partial(work, job), given, resume=resume, divide=divide):
        for sent in once(outcome.results):
            if sent.spans.rejected or sent.spans.failed or found.stop:
                outcome.digest = None  # not done: --resume comes back to it
            yield sent


def divisible(options: Options) -> bool:
    """Whether one input may be done in shares: not where a step has to see all of it."""
    return not options.select and options.shift_to is None


Some = TypeVar("Some", Sent, Written)


def once(shares: Sequence[Some]) -> Iterator[Some]:
    """What came of the shares of one input. Each has the header of the run, which is counted once."""
    known: set[str] = set()
    for one in shares:
        one.spans.traces -= len(one.traces & known)
        known |= one.traces
        yield one


def job_for(options: Options, tally: Tally, way: Route, folder: str) -> Job:
    """The job that the options ask for. UsageError for what can't be spread."""
    remote = tally.batch.engine != "local"
    if remote and options.books:
        raise UsageError("the ledger of what was sent is a file of one machine: --no-ledger sends from a cluster without it")
    return Job(
        options=options,
        way=way,
        plan=options.plan(),
        choices=options.choices(way.resource),
        spool=absolute(options.spool) if options.spool is not None else None,
        stop=None if remote else str(Path(folder) / "stop"),
        voice=tally.voice,
    )


__all__ = ["FileJob", "Job", "Sent", "Together", "Written", "divisible", "job_for", "once", "run", "work", "write"]
