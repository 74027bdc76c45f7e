"""Working through inputs: one after the other or in several processes, an error in one never stopping the others; what was done, failed and was passed over
(`Tally`); what was done before (`Resume`).

A function that handles inputs one by one reads::

    with tally:
        for outcome in tally.each(work, inputs_of(given)):
            ...                      # outcome.result is what work gave; only for inputs that could be done

``work(input, report)`` is a function of a module (or a `functools.partial` of one), since it may run in another process. Nothing here prints: what there is
to tell goes to the tally's `Voice`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

from ..converters import registry
from ..converters.api import collect
from ..converters.errors import MAX_RECORD, ReadError, Report, SpanportError, UsageError, debugging, internal
from ..converters.inputs import Input, Inputs, NotARun, absolute, divisible, items, open_input, size
from ..converters.model import Trace
from ..converters.stages.choose import ALL, NothingFits
from .file import FULL
from .voice import SILENT, Voice

if TYPE_CHECKING:
    from .engine import Engine

ALL_DONE, NOTHING_DONE, WRONG_USAGE, PART_DONE, LOSS_FORBIDDEN = 0, 1, 2, 3, 4
"""Exit statuses (DESIGN §6)."""
IN_FULL = 100_000
"""Notices of one input that are kept in full for --errors; the rest is counted."""
MANY = 200
"""Without a number of jobs, tasks (sessions) that one input has to hold before several processes share it."""

Divide = Callable[[Input, int, int], list[registry.Share]]
T = TypeVar("T")


@dataclass(frozen=True)
class Batch:
    """How inputs are worked through. ``jobs``: processes (None: as many as processors, where it is worth it). ``progress``: auto, plain, none. ``errors``: a file for
    what could not be read, as JSON Lines. ``on_error``: ``skip`` goes on with the next input, ``stop`` does not, ``raise`` raises the error. ``engine``: local, or
    dask://HOST:PORT. ``strict``: a broken line or item is fatal for its input."""

    jobs: int | None = None
    progress: str = "auto"
    errors: str | None = None
    on_error: str = "skip"
    engine: str = "local"
    strict: bool = False


@dataclass
class Outcome(Generic[T]):
    """How one input went. ``result`` is what the work gave, ``error`` why it could not be done. ``more``: what the work gave for the other shares of
    an input that was divided, in their order."""

    input: Input
    report: Report
    result: T | None = None
    error: SpanportError | None = None
    passed_over: bool = False
    """A file found in a folder that is of no known format."""
    resumed: bool = False
    """Done by an earlier call."""
    unchosen: bool = False
    """No run in it is one of those that were asked for."""
    digest: str | None = None
    more: list[T] = field(default_factory=list)

    @property
    def results(self) -> list[T]:
        """What the work gave, for each share that could be done."""
        return [x for x in (self.result, *self.more) if x is not None]

    def merge(self, other: Outcome[T]) -> None:
        """Take over another share of the same input."""
        self.report.merge(other.report)
        self.error = self.error or other.error
        self.more += other.results


class Partly(SpanportError):
    """An input that ended badly, after work that counts all the same: ``result``."""

    def __init__(self, error: SpanportError, result: Any) -> None:
        super().__init__(str(error))
        self.error, self.result = error, result


@dataclass(frozen=True)
class Resume:
    """What was done before, by content. ``settings``: everything that makes the output another one (format, options, destination).
    ``suffix``: that of outputs in ``folder``, when there are any: an input whose output is gone, or was written anew by another call, is done
    again, and one content at two places has two outputs."""

    file: Path
    settings: str
    folder: Path | None = None
    suffix: str | None = None

    def key(self, one: Input) -> str | None:
        """The digest of what ``one`` holds; None for standard input and URLs, which are always done."""
        path = Path(one.name)
        if one.name == "-" or one.held is not None or not path.exists():
            return None
        total = blake2b(digest_size=16, key=blake2b(self.settings.encode("utf-8", "surrogateescape"), digest_size=16).digest())
        if one.choice:
            total.update(repr(one.choice).encode("utf-8", "surrogateescape"))
        if self.folder is not None:
            total.update(one.relative.encode("utf-8", "surrogateescape"))
        for part in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
            total.update(b"\0" + str(part.relative_to(path)).encode("utf-8", "surrogateescape") + b"\0")
            with part.open("rb") as file:
                while block := file.read(1 << 20):
                    total.update(block)
        return total.hexdigest()

    def done(self) -> dict[str, str]:
        """The digests of what earlier calls did, each with the stamp of its output."""
        try:
            with self.file.open(encoding="utf-8", errors="replace") as file:
                return {digest: stamp for digest, _, stamp in (line.rstrip("\n").partition(" ") for line in file)}
        except OSError:
            return {}

    def mark(self, one: Input, digest: str) -> None:
        """Put down that ``one`` was done."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            print(digest, self.stamp(one) or "", file=file)

    def stamp(self, one: Input) -> str | None:
        """What tells the output of ``one`` from another call's: its place, size and time. None without outputs, or when it is gone."""
        if self.folder is None or self.suffix is None:
            return None
        place = one.output(self.suffix)
        for path in (self.folder / place, self.folder / place.with_name(place.name[: -len(self.suffix)])):  # a file, or a folder of files
            try:
                found = path.stat()
            except (OSError, ValueError):
                continue
            return json.dumps([str(place), found.st_size, found.st_mtime_ns])
        return None

    def keeps(self, one: Input, stamp: str) -> bool:
        """Whether the output of ``one`` is still there, as it was left."""
        return self.folder is None or self.suffix is None or self.stamp(one) == stamp


@dataclass(frozen=True)
class _Task:
    input: Input
    resume: Resume | None = None


_known: dict[Path, dict[str, str]] = {}


def _perform(work: Callable[[Input, Report], Any], strict: bool, limit: int, task: _Task) -> Outcome[Any]:
    """One input, in whatever process: an error in it is kept, and does not stop the others."""
    report = Report(input=str(task.input), strict=strict, limit=limit)
    outcome: Outcome[Any] = Outcome(task.input, report)
    try:
        if task.resume is not None:
            outcome.digest = task.resume.key(task.input)
            if task.resume.file not in _known:
                _known[task.resume.file] = task.resume.done()
            stamp = _known[task.resume.file].get(outcome.digest or "")
            if stamp is not None and task.resume.keeps(task.input, stamp):
                outcome.resumed = True
                return outcome
        outcome.result = work(task.input, report)
    except NotARun:
        outcome.passed_over = True
    except NothingFits:
        outcome.unchosen = True
    except UsageError:
        raise
    except Partly as error:
        outcome.error, outcome.result = error.error, error.result
    except SpanportError as error:
        outcome.error = error
    except OSError as error:
        outcome.error = _failure(error, str(task.input))
    except MemoryError:
        outcome.error = ReadError("not enough memory for it", input=str(task.input))
    except Exception as error:
        if debugging():
            raise
        outcome.error = internal(error, str(task.input))
    return outcome


def _failure(error: OSError, input: str | None) -> SpanportError:
    if not error.filename and error.errno in FULL:
        return SpanportError(f"standard output can't be written: {error.strerror}")
    return ReadError(error.strerror or str(error), input=str(error.filename) if error.filename else input)


class Tally:
    """How the inputs of one call went, what is told of it, and the exit status that this gives. ``reports``: takes over the report of each input."""

    def __init__(self, batch: Batch | None = None, voice: Voice = SILENT, reports: Report | None = None) -> None:
        self.batch = batch or Batch(jobs=1, progress="none")
        self.voice, self._reports = voice, reports
        self.done = self.failed = self.partial = self.resumed = self.passed_over = self.unchosen = 0
        self.forbidden = False
        """A loss that --fail-on-loss forbids."""
        self._errors: IO[str] | None = None
        self._arguments: dict[str, bool] = {}
        self._choice = ALL

    def __enter__(self) -> Tally:
        if self.batch.errors:
            try:
                self._errors = open(self.batch.errors, "w", encoding="utf-8")
            except OSError as error:
                raise UsageError(f"--errors {self.batch.errors}: {error.strerror}") from error
        return self

    def __exit__(self, *exc: object) -> None:
        if self._errors is not None:
            self._errors.close()

    @contextmanager
    def input(self, one: Input) -> Iterator[Report]:
        """One input, here and now: an error in it is said in one line and does not stop the others."""
        report = Report(input=str(one), strict=self.batch.strict)
        outcome: Outcome[Any] = Outcome(one, report)
        try:
            yield report
        except UsageError:
            raise
        except NotARun:
            outcome.passed_over = True
        except NothingFits:
            outcome.unchosen = True
        except SpanportError as error:
            outcome.error = error
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            outcome.error = _failure(error, report.input)
        except Exception as error:
            if debugging():
                raise
            outcome.error = internal(error, report.input)
        self.take(outcome)

    def each(
        self,
        work: Callable[[Input, Report], T],
        inputs: Iterable[Input],
        *,
        resume: Resume | None = None,
        told: bool = True,
        divide: Divide | None = None,
    ) -> Iterator[Outcome[T]]:
        """``work`` over all inputs, by the batch's engine; the outcomes of those that could be done (or of which something was), in the order of the
        inputs. Use within ``with account``. Notices go to standard error unless the command says not to have them ``told`` (it prints them
        itself). ``divide``: gives the shares in which an input may be done (`shares`) when there are fewer inputs than workers; `Outcome.results` has
        what each of them gave."""
        from .engine import WorkerDied, in_order
        from .engines import open_engine

        _known.clear()
        jobs, inputs = self._jobs(inputs, divide is not None)
        engine: Engine | None = open_engine(self.batch.engine) if self.batch.engine != "local" else None
        items = self._divided(self._noted(inputs), divide, engine.width if engine is not None else jobs)
        try:
            first = list(islice(items, 2))
            engine = engine or open_engine("local", jobs if len(first) > 1 else 1)  # before the bar, whose thread would keep it from a fork
            limit = IN_FULL if self.batch.errors else 1000
            with self.voice.progress(self.batch.progress, inputs) as step:
                tasks = (_Task(one, resume) for one in chain(first, items))
                held: Outcome[T] | None = None  # shares that came before
                for task, done in in_order(engine, partial(_perform, work, self.batch.strict, limit), tasks):
                    if isinstance(done.error, WorkerDied):
                        outcome: Outcome[T] = Outcome(
                            task.input, Report(input=str(task.input)), error=ReadError(str(done.error), input=str(task.input))
                        )
                    elif done.error is not None:
                        raise done.error
                    else:
                        assert done.result is not None
                        outcome = done.result
                    if (share := task.input.share) is not None:
                        if held is not None:
                            held.merge(outcome)
                            outcome = held
                        held = outcome
                        if share[0] < share[1] - 1:
                            continue
                        held, outcome.input = None, replace(outcome.input, share=None)
                    step()
                    self.take(outcome, told=told)
                    if outcome.resumed or outcome.passed_over or outcome.unchosen:
                        continue
                    if outcome.error is None or outcome.results:
                        yield outcome
                    if outcome.error is None:
                        # What was done in part is done again, and told again.
                        if resume is not None and outcome.digest and not outcome.report.lost:
                            resume.mark(outcome.input, outcome.digest)
                    elif self.batch.on_error == "stop":
                        break
        finally:
            if engine is not None:
                engine.close()
        self.end()

    def _divided(self, inputs: Iterable[Input], divide: Divide | None, width: int) -> Iterator[Input]:
        """The inputs as work items: fewer inputs than workers are divided into shares."""
        if divide is None:
            yield from map(self._placed, inputs)
            return
        source = iter(inputs)
        first = list(islice(source, width + 1))
        if len(first) > width:
            yield from map(self._placed, chain(first, source))
            return
        least = 2 if self.batch.jobs is not None or self.batch.engine != "local" else MANY
        for one in map(self._placed, first):
            yield from [replace(one, share=share) for share in divide(one, -(-width // len(first)), least)] or [one]

    def _placed(self, one: Input) -> Input:
        """``one`` as the workers of the engine find it."""
        if self.batch.engine == "local":
            return one
        if one.name == "-":
            raise UsageError("standard input can't be read by a cluster")
        if one.held is not None:
            return one
        return replace(one, name=absolute(one.name))

    def traces(
        self, inputs: Iterable[Input], format: str | None = None, reports: list[Report] | None = None
    ) -> Iterator[tuple[Trace, Input]]:
        """The whole traces of all inputs, read here one after the other; their reports are put into ``reports``."""
        for one in self.over(inputs):
            with self.input(one) as report:
                if reports is not None:
                    reports.append(report)
                for trace in collect(items(one, report, format)):
                    yield trace, one

    def over(self, inputs: Iterable[Input]) -> Iterator[Input]:
        """The inputs, for a call that works through them here, one after the other, with `input`."""
        with self.voice.progress(self.batch.progress, inputs) as step:
            for one in self._noted(inputs):
                failed = self.failed
                yield one
                step()
                if self.failed > failed and self.batch.on_error == "stop":
                    break
        self.end()

    def end(self) -> None:
        """A folder in which nothing was found has failed, and so has a choice that no run fits."""
        for argument, seen in self._arguments.items():
            if not seen and not (self.failed and self.batch.on_error == "stop"):
                self.failed += 1
                self._fail(ReadError("no run in it that a known format recognises", input=argument, hint="spanport formats lists them"))
        if self._nothing():
            self.voice.complain(f"no run fits {self._choice}")

    def _nothing(self) -> bool:
        return bool(self.unchosen) and not (self.done or self.failed or self.resumed)

    def skip(self, one: Input) -> None:
        """An input that an earlier call did."""
        self.take(Outcome(one, Report(), resumed=True))

    def take(self, outcome: Outcome[Any], *, told: bool = True) -> None:
        """Count one input and tell what there is to tell of it."""
        report = outcome.report
        if outcome.passed_over:
            self.passed_over += 1
            self.voice.say(f"note: {outcome.input}: of no known format, passed over", least=1)
            return
        if self._reports is not None:
            self._reports.merge(report)
        if outcome.input.argument in self._arguments:
            self._arguments[outcome.input.argument] = True
        if outcome.resumed:
            self.resumed += 1
            return
        if outcome.unchosen:
            self.unchosen += 1
            self._choice = outcome.input.choice
            self.tell(report)
            return
        if outcome.error is not None:
            self.failed += 1
            error = outcome.error
            if isinstance(error, ReadError) and error.input is None and report.input:
                error.input = report.input
            self._fail(error)
        else:
            self.done += 1
            self.partial += bool(report.lost)
        if told or outcome.error is not None:
            self.tell(report, outcome.error)
        if self._errors is not None:
            self._keep(outcome)

    def tell(self, report: Report, error: SpanportError | None = None) -> None:
        """The first notices of a report, and how many more there are: two lines, or all where everything is told. The one that is the ``error`` too was
        told."""
        level = self.voice.level
        if level < 0:
            return
        told = (error.line, error.path, error.message) if isinstance(error, ReadError) else None
        notices = [n for n in report.notices if (n.line, n.path, n.message) != told]
        shown = [n for n in notices if n.severity != "info" or level > 0]
        total = (report.warnings if level == 0 else sum(report.counts.values())) - (len(report.notices) - len(notices))
        most = 2 if level == 0 and total <= 2 else 1 if level == 0 else 1000
        for notice in shown[:most]:
            self.voice.say(f"{'note' if notice.severity == 'info' else 'warning'}: {notice}")
        if (more := total - len(shown[:most])) > 0:
            self.voice.say(f"warning: {report.input}: {more:,} more" + (" (-v shows them)" if level == 0 else ""))

    def spoilt(self, error: SpanportError) -> None:
        """An input that was done and whose output found no place: it has failed."""
        self.done -= 1
        self.failed += 1
        self._fail(error)

    def _fail(self, error: SpanportError) -> None:
        if self.batch.on_error == "raise":
            raise error
        self.voice.complain(str(error))
        if self._errors is not None and isinstance(error, ReadError):
            self._write(error.input, error.line, error.byte, error.path, error.message, "failed")

    def _keep(self, outcome: Outcome[Any]) -> None:
        """The lost records of one input into the --errors file, with their text where they are lines, or items of a document."""
        lost = [n for n in outcome.report.notices if n.severity == "lost"]
        records = _records(outcome.input, {n.line for n in lost if n.line is not None and n.record is None})
        for n in lost:
            self._write(n.input or str(outcome.input), n.line, n.byte, n.path, n.message, n.code, n.record or records.get(n.line or 0))
        if (more := outcome.report.lost - len(lost)) > 0:
            self._write(str(outcome.input), None, None, None, f"{more} more, of which only the number is known", "more")

    def _write(
        self, input: str | None, line: int | None, byte: int | None, path: str | None, message: str, code: str, record: str | None = None
    ) -> None:
        assert self._errors is not None
        found = {"input": input, "line": line, "byte": byte, "path": path, "message": message, "code": code}
        if record is not None:
            found["record"] = record
        print(json.dumps(found), file=self._errors, flush=True)

    def _noted(self, inputs: Iterable[Input]) -> Iterator[Input]:
        """The inputs, remembering of which folders something has to be found."""
        if isinstance(inputs, Inputs):
            for argument in inputs.arguments:
                if os.path.isdir(argument):
                    self._arguments.setdefault(argument, False)
        yield from inputs

    def _jobs(self, inputs: Iterable[Input], divide: bool = False) -> tuple[int, Iterable[Input]]:
        """How many processes are worth it. Without --jobs, a few small inputs are done here: starting a process takes longer. An input that can
        be divided (``divide``) is worth several."""
        if self.batch.jobs is not None and divide:
            return self.batch.jobs, inputs
        if self.batch.jobs is not None:
            first = list(islice(iter(inputs), 2))
            return (1, first) if len(first) < 2 and not isinstance(inputs, Inputs) else (1 if len(first) < 2 else self.batch.jobs, inputs)
        from .engine import processors

        first = list(islice(iter(inputs), 200))
        small = len(first) < 200 and sum(size(one) for one in first) < 4 << 20
        if divide and len(first) == 1 and divisible(first[0]):
            return processors(), inputs
        return 1 if small or len(first) < 2 or any(one.name == "-" for one in first) else processors(), inputs

    def status(self) -> int:
        """0 all done, 1 nothing could be done, 3 a part was done, 4 a loss that was forbidden."""
        if self.forbidden:
            return LOSS_FORBIDDEN
        if self._nothing() or (self.failed and not self.done and not self.resumed):
            return NOTHING_DONE
        return PART_DONE if self.failed or self.partial else ALL_DONE

    def summary(self) -> str | None:
        """One line on many inputs; None when there is nothing that was not told."""
        if self.done + self.failed + self.resumed + self.unchosen < 2 and not self.resumed:
            return None
        words = [f"{self.done:,} {'input' if self.done == 1 else 'inputs'} done"]
        words += [f"{self.partial:,} of them in part"] if self.partial else []
        words += [f"{self.resumed:,} done before"] if self.resumed else []
        words += [f"{self.unchosen:,} with no run that fits"] if self.unchosen else []
        words += [f"{self.failed:,} failed"] if self.failed else []
        words += (
            [f"{self.passed_over:,} {'file' if self.passed_over == 1 else 'files'} of no known format passed over"]
            if self.passed_over
            else []
        )
        return ", ".join(words)


def alone(reports: Report | None = None) -> Tally:
    """The tally of a call that was given none: an input that can't be read raises its error."""
    return Tally(Batch(jobs=1, progress="none", on_error="raise"), reports=reports)


def _records(one: Input, lines: set[int]) -> dict[int, str]:
    """The text of these lines, for the --errors file. A record that is no UTF-8 keeps its bytes as surrogate escapes."""
    if not lines or one.name == "-" or one.held is not None:
        return {}
    found: dict[int, str] = {}
    try:
        source = open_input(one)
        if source.is_dir:
            return {}
        for line in source.lines():
            if line.number in lines:
                found[line.number] = line.data[:MAX_RECORD].decode("utf-8", "surrogateescape")
                if len(found) == len(lines):
                    break
    except (SpanportError, OSError):
        pass
    return found


__all__ = [
    "ALL_DONE",
    "LOSS_FORBIDDEN",
    "NOTHING_DONE",
    "PART_DONE",
    "WRONG_USAGE",
    "Batch",
    "Outcome",
    "Partly",
    "Resume",
    "Tally",
    "alone",
]
