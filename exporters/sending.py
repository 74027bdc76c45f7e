"""From inputs to a backend: read, sent, kept when it fails, read back, with scores after it; here or by several workers (`spread`). `Exported` is what came of it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from ..converters import clock, registry
from ..converters.inputs import Input, Inputs, items, large
from ..converters.model import Item
from ..converters.text import volume
from .backends import Route, links, route, send_scores, wait_for
from .batch import Resume, Tally
from .export import codec_for, send
from .exported import LINKS, Delivered, Exported, Scores
from .ledger import Ledger, default_path
from .options import Options
from .otlp.files import NoChannel
from .otlp.sender import Retry, Stop
from .otlp.settings import Destination
from .pipeline import Pipeline, pumped
from .rest import RestError
from .spool import Spool, state_folder


def to_backend(given: Iterable[Input], to: Destination, found: Exported) -> None:
    """Send, put away what failed, read back, send scores."""
    options, tally, stop = found.options, found.inputs, found.stop
    backend = options.backend
    way = found.way = route(backend, to, options.project, dry=options.dry_run)
    if not options.dry_run and (by_several(given, options, tally) or _one_large(given, options, tally)):
        by_workers(given, way, found)
        return
    pipe = Pipeline(options.choices(way.resource), found, options.scores)
    codec = codec_for(to.protocol)
    spool = None
    if options.spool is not None and not options.dry_run:
        spool = Spool(Path(options.spool), way.to, codec, options.profile, options.books)
    delivered = Delivered(options)
    with ExitStack() as stack:
        stack.enter_context(tally)
        ledger = stack.enter_context(Ledger(default_path())) if options.books else None
        try:
            send(
                read(given, found, pipe, resuming(options, tally, way)),
                way.to,
                options.plan(found.census if options.dry_run else None),
                account=found,
                retry=Retry(total=options.retry_for, refill=options.follow),
                stop=stop,
                keep=spool.keep if spool is not None else None,
                ledger=ledger,
                force=options.force,
                delivered=delivered,
                say=tally.voice.say,
                say_old=lambda: _say_old(found),
                say_large=lambda trace: _say_large(found, trace),
                channel=NoChannel() if options.dry_run else None,
                overlap=False if options.resume else None,  # what came of an input is to be known before the next
            )
        finally:
            found.redacted = pipe.redacted
            if spool is not None:
                spool.close()
                found.spool, found.spool_error = str(spool.path) if spool.path else None, spool.error
        if not options.dry_run:
            _conclude(way, found, delivered.accepted, pipe.scored.scores)


def read(given: Iterable[Input], found: Exported, pipe: Pipeline, done: Resume | None = None) -> Iterator[Item | None]:
    """The items of all inputs as they leave. An input that can't be read does not stop the others. ``done``: what earlier calls did is skipped, and an
    input counts as done when all of it was accepted."""
    options, tally, stop = found.options, found.inputs, found.stop
    reading, live = how(options, stop), waited_for(given, options)

    def one(run: Input) -> Iterator[Item]:
        with tally.input(run) as report:
            yield from pipe.items(items(run, report, options.format, reading), live)

    if live:
        sources: list[Callable[[], Iterable[Item]]] = [lambda r=r: one(r) for r in given]  # type: ignore[misc]
        yield from pumped(sources, lambda: bool(stop))
        found.unread = bool(stop)
        tally.end()
        return
    known = done.done() if done is not None else {}
    for run in tally.over(given):
        digest = done.key(run) if done is not None else None
        if digest in known:
            tally.skip(run)
            continue
        before = (found.rejected, found.failed, tally.failed, tally.partial, tally.unchosen)
        yield from one(run)
        if done is not None and digest is not None:
            yield None  # what is held goes now, so that it is known what came of this input
            if before == (found.rejected, found.failed, tally.failed, tally.partial, tally.unchosen) and not stop:
                done.mark(run, digest)


def waited_for(given: Iterable[Input], options: Options) -> bool:
    """Whether the next item may be long in coming: then each goes on at once."""
    return options.follow or (isinstance(given, Inputs) and "-" in given.arguments)


def how(options: Options, stop: Stop) -> registry.ReadOptions:
    """How inputs are read. A followed one ends at the first signal: its reader gives out what is open, and all of it is sent."""
    return registry.ReadOptions(follow=options.follow, stop=(lambda: bool(stop.enough or stop)) if options.follow else None)


def resuming(options: Options, tally: Tally, way: Route) -> Resume | None:
    """What earlier calls with the same options sent to the same place."""
    if not options.resume or options.dry_run:
        return None
    return Resume(state_folder() / "exported", options.settings(way, tally.batch.strict))


def by_workers(given: Iterable[Input], way: Route, found: Exported) -> None:
    """The same by several processes or a cluster: each sends what it reads."""
    from . import spread

    options, tally, stop = found.options, found.inputs, found.stop
    remote = tally.batch.engine != "local"
    together, told_of = spread.Together(), set[str]()
    with ExitStack() as stack:
        stack.enter_context(tally)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="spanport-"))
        job = spread.job_for(options, tally, way, folder)
        stop.file = Path(job.stop) if job.stop is not None else None
        try:
            for sent in spread.run(job, given, found, resuming(options, tally, way)):
                found.merge(sent.spans)
                first = sent.old and not together.old
                together.take(sent)
                if first:
                    _say_old(found)
                for trace in [t for t in sent.large if t not in told_of]:
                    told_of.add(trace)
                    _say_large(found, trace)
        except KeyboardInterrupt:
            if not remote:
                raise
            found.unread = True
            tally.voice.say("ended: what workers of the cluster had begun is still sent by them, and not in this account")
        finally:
            stop.file = None
        _conclude(way, found, together.accepted, together.scores)


def by_several(given: Iterable[Input], options: Options, tally: Tally) -> bool:
    """Whether several processes, or a cluster, were asked for."""
    return tally.batch.engine != "local" or ((tally.batch.jobs or 1) > 1 and not waited_for(given, options))


def _one_large(given: Iterable[Input], options: Options, tally: Tally) -> bool:
    """Whether the one input is a file that is worth several processes without being asked: what is in several inputs would be sent by each of them."""
    if tally.batch.jobs is not None or waited_for(given, options) or (isinstance(given, Inputs) and len(given.arguments) != 1):
        return False
    first = list(islice(iter(given), 2))
    return len(first) == 1 and not first[0].found and large(first[0])


def _conclude(way: Route, found: Exported, accepted: dict[str, set[str]], scores: Scores) -> None:
    """What comes when all is sent: reading back, scores (which need the spans to be there), links."""
    options = found.options
    if options.verify and found.accepted and not found.stop:
        _verify(way, found, accepted)
    if options.scores and found.accepted and not found.stop:
        _send_scores(way, found, [s for s in scores if s[0] in accepted])
    if accepted:
        found.links = links(options.backend, way, list(accepted)[:LINKS])


def _verify(way: Route, found: Exported, accepted: dict[str, set[str]]) -> None:
    """Read every accepted span back."""
    options, complain = found.options, found.inputs.voice.complain
    seconds = options.verify_for if options.verify_for is not None else 30.0
    try:
        found.stored, missing = wait_for(options.backend, way, accepted, seconds, found.stop.wait, lambda text: None)
    except (RestError, KeyError, TypeError) as error:
        found.stored = 0
        complain(f"can't read back: {error}")
        return
    for trace, count in list(missing.items())[:5]:
        complain(f"{count} spans of trace {trace} were accepted and can't be read back")


def _send_scores(way: Route, found: Exported, scores: Scores) -> None:
    """Send ``scores``, again for as long as their spans wait in a queue of the backend."""
    options, stop = found.options, found.stop
    taken, failed = 0, {"": len(scores)} if scores else {}
    until = time.monotonic() + (options.verify_for if options.verify_for is not None else 30 + 0.012 * found.accepted)
    while failed and not stop:
        taken, failed = send_scores(options.backend, way, scores)
        if not failed or time.monotonic() > until or not any(r.startswith("404") for r in failed):
            break  # a 404: the span is accepted and waits in a queue
        stop.wait(1.0)
    found.scores, found.scores_failed = taken, sum(failed.values())
    for reason, count in failed.items():
        found.inputs.voice.complain(f"{count} scores were not taken: {reason}")


def _say_old(found: Exported) -> None:
    """Spans are of an age that the backend hides."""
    days = (time.time_ns() - (found.first or 0)) / (86_400 * clock.SECOND)
    age = f"spans are {days:,.0f} days old" if days >= 2 else f"spans are {days * 24:.0f} hours old"
    found.inputs.voice.say(f"warning: {age}: {found.options.backend.old}")


def _say_large(found: Exported, trace: str) -> None:
    """A trace is of a size that the backend has trouble with."""
    backend = found.options.backend
    found.inputs.voice.say(f"warning: trace {trace} has more than {volume(backend.large_after)}: {backend.large}")


__all__ = ["by_several", "by_workers", "how", "read", "to_backend", "waited_for"]
