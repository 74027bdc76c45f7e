"""A run directory: the event stream joined with ``details/`` and the files at the top; also a tree of run directories, and one of the top files alone.

The stream drives: when an attempt is over its result is read, its phases get their issues, and all of it goes on before the next is looked at, so that
one result is held at a time. What only the disk knows (reused tasks, attempts whose events were lost, re-analysed runs) comes before the task or the run
it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from ..clock import SECOND, from_seconds, offset_of
from ..errors import ReadError, Report
from ..jsonio import decode, fields, is_null, text
from ..model import ABSENT, AnySpan, Attempt, Error, Item, Link, Phase, Run, Score, Status, Task, TraceHeader, Value
from ..registry import Share
from ..source import Line, Source
from . import attempt as attempts
from .events import ERROR_TYPES, Progress
from .layout import AttemptFiles, Details, TaskFiles, in_share, load, within
from .naming import agent_of, attempt_id, header_of, run_id, run_key, task_id
from .result import scalars
from .schema import Zone, decode_line, decode_object, flag, integer, items, line_of, number

FORMAT = "agentcompass"
_STATUS: dict[str | None, Status] = {"completed": "ok", "failed": "error", "timed_out": "error"}
_TRIES: Final = 3
"""How often what moves under the eyes of a reader is looked for."""
_TOP = ("run_info", "params", "progress", "metrics", "analysis_summary")

T = TypeVar("T")


@dataclass(slots=True)
class Top:
    """The files at the top of a run directory, by name without suffix; {} for one that is not there."""

    run_info: dict[str, Raw] = field(default_factory=dict)
    params: dict[str, Raw] = field(default_factory=dict)
    progress: dict[str, Raw] = field(default_factory=dict)
    metrics: dict[str, Raw] = field(default_factory=dict)
    analysis_summary: dict[str, Raw] = field(default_factory=dict)

    def section(self, name: str) -> dict[str, Raw]:
        """A section of the request: run_info's, with params.json for what it does not state."""
        return fields(fields(self.run_info.get("request", ABSENT)).get(name, ABSENT)) or fields(self.params.get(name, ABSENT))

    def component(self, name: str) -> str | None:
        return text(self.section(name).get("id", ABSENT)) or text(self.progress.get(name, ABSENT))

    def moment(self, name: str) -> int | None:
        """``started_at`` or ``finished_at`` of run_info, in whole seconds."""
        return Zone(None).moment(self.run_info.get(name, ABSENT))


def top_of(root: Path, report: Report) -> Top:
    return Top(**{name: load(root / f"{name}.json", report, root) or {} for name in _TOP})


def zone_of(top: Top) -> Zone:
    """The zone of naive times: the offset of ``run_info.started_at``, the only record of it."""
    started = text(top.run_info.get("started_at", ABSENT))
    try:
        return Zone(offset_of(started) if started else None)
    except ValueError:
        return Zone(None)


@dataclass(frozen=True, slots=True)
class Known:
    """A run directory of the tree, before it is read: what links to it need."""

    path: Path
    trace: str
    run_id: str
    orchestration: str | None
    index: int | None


def known(root: Path) -> Known | None:
    """Identity of a run directory by the first line of its stream."""
    report = Report()
    try:
        for line in Source(str(root), path=root / "progress.jsonl").lines():
            try:
                first = decode_line(line.data)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                first = line_of(decode(line.data, decode_object, report))[0]
            time = Progress(report, FORMAT)._time(first.timestamp)
            key = run_key((first.orchestration_id, first.request_index, first.run_id), time)
            trace = header_of(key, first.run_id, FORMAT).id
            return Known(root, trace, first.run_id, first.orchestration_id, first.request_index)
    except (ReadError, OSError):
        pass
    return None


class Tree:
    """The runs of one input, for the links between them."""

    def __init__(self, roots: list[Path]) -> None:
        self.runs = [k for root in roots if (k := known(root)) is not None] if len(roots) > 1 else []

    def siblings(self, me: Known) -> list[Link]:
        """Requests of one launch: the first links to all others, each other one to the first."""
        if me.orchestration is None:
            return []
        group = sorted((k for k in self.runs if k.orchestration == me.orchestration), key=lambda k: (k.index or 0, str(k.path)))
        others = [k for k in group if k.path != me.path]
        if group and group[0].path != me.path:
            others = group[:1]
        return [Link(trace_id=k.trace, span_id=run_id(k.trace), type="same_launch") for k in others]

    def source(self, me: Path, inherited: dict[str, Value], task: str, number: int) -> Link | None:
        """The attempt that inherited work came from, when its run is an input too and cannot be mistaken."""
        run, path = inherited.get("agentcompass.reused.run_id"), inherited.get("agentcompass.reused.path")
        fit = [k for k in self.runs if k.run_id == run and k.path != me]
        if len(fit) > 1 and isinstance(path, str):
            tail = Path(path.replace("\\", "/")).parts

            def shared(k: Known) -> int:
                return next((i for i, (a, b) in enumerate(zip(reversed(tail), reversed(k.path.parts), strict=False)) if a != b), len(tail))

            best = max(map(shared, fit))
            fit = [k for k in fit if shared(k) == best]
        if len(fit) != 1:
            return None
        return Link(trace_id=fit[0].trace, span_id=attempt_id(fit[0].trace, task, number), type="reused_from")


def _task_of(base: Attempt) -> str:
    return base.name.rpartition(" attempt ")[0]


class Joiner:
    """Joins the items of one run's stream with its directory. `take` gives what is complete; `rest` what only the disk knows."""

    def __init__(self, root: Path, report: Report, tree: Tree | None = None, live: bool = False, share: Share | None = None) -> None:
        self.root, self.report, self.live, self.share = root, report, live, share
        self.whole = share is None or share[0] == share[1] - 1
        """Whether what belongs to all tasks is this share's to give and to tell."""
        aloud = report if self.whole else Report()
        self.top = Top() if live else top_of(root, aloud)
        self.zone = zone_of(self.top)
        self.details = Details(root, Report() if live else aloud)
        if not live:
            self.details.scan()
        self.tree = tree
        self.context: attempts.Context | None = None
        self.header: TraceHeader | None = None
        self.held: dict[str, list[Phase]] = {}
        self.seen: dict[str, set[int]] = {}
        self.ends: dict[str, int] = {}
        self.starts: dict[str, int] = {}
        self.fresh: set[str] = set()
        self.truth: dict[str, Raw] = {}
        self.sent: set[str] = set()

    def begin(self, header: TraceHeader) -> None:
        self.header = header
        if self.live:  # nothing of it need be there before the first event
            self.top = top_of(self.root, self.report)
            self.zone = zone_of(self.top)
            self.details.scan()
        info = self.top.run_info
        model = self.top.component("model")
        self.context = attempts.Context(
            root=self.root,
            report=self.report,
            zone=self.zone,
            trace=header.id,
            run_id=text(info.get("run_id", ABSENT)) or header.name,
            model=model,
            reused_from=fields(info.get("reused_from", ABSENT)),
            plans=fields(info.get("resolved_execution_plans", ABSENT)),
            link=(lambda i, t, n: self.tree.source(self.root, i, t, n)) if self.tree is not None else None,
        )

    # ------------------------------------------------------------------------------------------------------ stream
    def take(self, item: Item, progress: Progress | None) -> Iterator[Item]:
        """The item, whole, and what has to come before it."""
        if isinstance(item, TraceHeader):
            self.begin(item)
            yield item
        elif isinstance(item, Phase):
            self.held.setdefault(item.parent_id or "", []).append(item)
        elif isinstance(item, Attempt):
            if in_share(task := item.name.rpartition(" attempt ")[0], self.share):
                yield from self.attempt(item, progress)
            else:
                self._passed(task, item.id)
        elif isinstance(item, Task):
            if in_share(task := item.native_id or item.name, self.share):
                yield from self.task(item, progress)
            else:
                self._passed(task, item.id)
        elif isinstance(item, Run):
            yield from self.run(item, progress)
        elif self.whole:
            yield item

    def _passed(self, task: str, id: str) -> None:
        """A task or an attempt of another share."""
        self.held.pop(id, None)
        self.seen.setdefault(task, set())

    def _context(self, progress: Progress | None) -> attempts.Context:
        assert self.context is not None
        if self.context.model is None and progress is not None and progress.latest is not None:
            self.context.model = progress.latest.model
        return self.context

    def _name(self, task: str) -> TaskFiles | None:
        return self.details.find(task) if self.live else self.details.known.get(task)

    def _files(self, base: Attempt, report: Report) -> AttemptFiles | None:
        files = self._name(_task_of(base))
        return files.attempts(files.members(report, self.root)).get(base.number) if files is not None else None

    def _settled(self, read: Callable[[Report], tuple[T, bool]]) -> T:
        """What ``read`` gives. Of a run that goes on it is read again when a folder moved meanwhile (``read`` says so, or misses a file): then what was told of the
        old place is of no worth."""
        if not self.live:
            return read(self.report)[0]
        for _ in range(_TRIES):
            told = Report(input=self.report.input)
            found, moved = read(told)
            if not moved and not told.lost:
                break
        if told.lost and self.report.strict:
            return read(self.report)[0]
        self.report.merge(told)
        return found

    def ready(self, base: Attempt) -> bool:
        """Whether the result of an attempt is on disk."""
        files = self._files(base, Report())
        return files is not None and files.result is not None and files.result.is_file()

    def attempt(self, base: Attempt, progress: Progress | None) -> Iterator[Item]:
        """An attempt that the stream tells of."""
        phases = self.held.pop(base.id, [])
        task = _task_of(base)

        def read(report: Report) -> tuple[list[AnySpan], bool]:
            found = self._files(base, report)
            there = found is not None and found.result is not None and found.result.is_file()
            context = self._context(progress)
            spans = attempts.spans(base, phases, found, task, replace(context, report=report) if self.live else context, True)
            now = self._files(base, Report()) if self.live else None
            if now is None or now.result is None or not now.result.is_file():
                return spans, False
            return spans, not (there and found is not None and found.result == now.result)  # it came, or its folder moved

        spans = self._settled(read)
        self.seen.setdefault(task, set()).add(base.number)
        yield from (s for s in self._note(spans) if s.id not in self.sent)
        self.sent.difference_update(p.id for p in phases)

    def _note(self, spans: list[AnySpan]) -> list[AnySpan]:
        """Remember how far the children of open spans reach."""
        last = spans[-1]
        if last.parent_id is not None:
            if not last.reused:
                self.fresh.add(last.parent_id)
            if isinstance(last, Attempt) and (truth := last.source.get("ground_truth")) is not None:
                self.truth[last.parent_id] = truth
            if last.reused and isinstance(last, Task):
                return spans  # older work does not stretch the run
            if last.end is not None:
                self.ends[last.parent_id] = max(self.ends.get(last.parent_id, 0), last.end)
            if last.start is not None and last.clock != "synthetic":
                self.starts[last.parent_id] = min(self.starts.get(last.parent_id, last.start), last.start)
        return spans

    def task(self, base: Task, progress: Progress | None) -> Iterator[Item]:
        """A task of the stream: first the attempts that only the disk knows, then its own phases."""
        task = base.native_id or base.name
        phases = self.held.pop(base.id, [])

        def read(report: Report) -> tuple[tuple[TaskFiles | None, dict[str, Raw]], bool]:
            files = self._name(task)
            members = files.members(report, self.root) if files is not None else {}
            return (files, members), files is not None and not members

        files, members = self._settled(read)
        if files is not None:
            yield from self._lost(files, members, base.id, base.start, progress)
        yield from (p for p in phases if p.id not in self.sent)
        self.sent.difference_update(p.id for p in phases)
        yield self._task(base, files, members)
        self.seen.setdefault(task, set())

    def _lost(self, files: TaskFiles, members: dict[str, Raw], parent: str, start: int | None, progress: Progress | None) -> Iterator[Item]:
        """Attempts on disk that the stream does not tell of."""
        context = self._context(progress)
        agent = agent_of(self._harness(progress), self.top.component("benchmark"))
        for n, found in files.attempts(members).items():
            if n in self.seen.get(files.task, ()):
                continue
            base = attempts.on_disk(context.trace, attempt_id(context.trace, files.task, n), parent, files.task, n, agent)
            spans = attempts.spans(base, [], found, files.task, context, False)
            if spans[-1].start is None and start is not None:
                spans = [s if s.start is not None else msgspec.structs.replace(s, start=start) for s in spans]
            yield from self._note(spans)

    def _harness(self, progress: Progress | None) -> str | None:
        """The harness; "none" where the request is on disk and names none, None where nothing says."""
        known = progress.latest.harness if progress is not None and progress.latest is not None else None
        return known or self.top.component("harness") or ("none" if "request" in self.top.run_info else None)

    def _task(self, base: Task, files: TaskFiles | None, members: dict[str, Raw]) -> Task:
        changes: dict[str, Any] = {}
        end = self.ends.pop(base.id, None)
        self.starts.pop(base.id, None)
        self.fresh.discard(base.id)
        stated = self.truth.pop(base.id, None)
        if base.unfinished and end is not None:
            changes["end"] = max(base.end or 0, end)
        if files is None:
            return msgspec.structs.replace(base, **changes)
        f = {k: v for k, v in members.items() if k not in ("task_id", "attempts")}
        attributes = dict(base.attributes)
        if files.state is not None:
            attributes["agentcompass.state"] = files.state
        category = text(f.get("category", ABSENT))
        if base.category is None and category is not None:
            changes["category"] = category
        if category is not None and category == (base.category or category):
            del f["category"]
        if not is_null(truth := f.pop("ground_truth", ABSENT)):
            changes["expected"] = truth
        elif stated is not None:  # of a task that is still in ``running``, only its results say it
            changes["expected"] = stated
        if (correct := flag(f.get("correct", ABSENT))) is not None:
            changes["verdict"] = "pass" if correct else "fail"
            changes["scores"] = [Score(name="correct", value=float(correct), label="pass" if correct else "fail")]
            del f["correct"]
        changes["attributes"] = attributes
        changes["source"] = {**base.source, **f}
        return msgspec.structs.replace(base, **changes)

    # ------------------------------------------------------------------------------------------------------ disk
    def rest(self, parent: str, start: int | None, progress: Progress | None) -> Iterator[Item]:
        """Tasks that the stream does not tell of: reused ones, and those whose events were lost."""
        context = self._context(progress)
        if self.live:
            self.details.known.clear()
            self.details.scan()
        for task, files in list(self.details.known.items()):
            if task in self.seen:
                continue
            if not in_share(task, self.share):
                self.seen[task] = set()
                continue
            id = task_id(context.trace, task)
            members = files.members(self.report, self.root)
            yield from self._lost(files, members, id, start, progress)
            self.seen[task] = set()
            first, last = self.starts.pop(id, None), self.ends.get(id)
            status: Status = "error" if files.state == "fatal" else "unset"
            base = Task(
                id=id,
                trace_id=context.trace,
                name=task,
                key=task,
                parent_id=parent,
                start=first if first is not None else start,
                end=last if first is not None else None,
                clock="derived" if first is not None else "synthetic",
                status=status,
                error=Error(type="fatal") if status == "error" else None,
                native_id=task,
                reused=first is not None and id not in self.fresh,
            )
            whole = self._task(base, files, members)
            yield from self._note([whole])

    def run(self, base: Run, progress: Progress | None) -> Iterator[Item]:
        """The run, last: with everything that the top files say of it."""
        if self.live:  # they were written while the run went on
            self.top = top_of(self.root, self.report)
        yield from self.rest(base.id, base.start, progress)
        if self.whole:
            yield self._run(base, progress)
        else:
            self._zones()

    def _run(self, base: Run, progress: Progress | None) -> Run:
        top, info = self.top, self.top.run_info
        attributes, source, changes = dict(base.attributes), dict(base.source), dict[str, Any]()
        stated = text(info.get("status", ABSENT))
        error = text(info.get("error", ABSENT))
        snapshot = text(top.progress.get("status", ABSENT))
        if base.ending is None:
            changes["ending"] = stated or snapshot
            changes["status"] = _STATUS.get(stated, "unset")
            if changes["status"] == "error":
                changes["error"] = Error(type=ERROR_TYPES.get(stated or "", stated), message=error)
        elif error is not None and (base.error is None or base.error.message != error):
            attributes["agentcompass.run_info.error"] = error
        if stated is not None and stated != (base.ending or stated):
            attributes["agentcompass.run_info.status"] = stated
        if base.name == base.native_id and (benchmark := top.component("benchmark")) is not None:
            changes["name"] = benchmark
        for key in ("harness", "environment"):
            if f"agentcompass.{key}" not in attributes and (value := top.component(key)) is not None:
                attributes[f"agentcompass.{key}"] = value
        if base.model is None:
            changes["model"] = top.component("model")
        if base.unfinished:
            finished = top.moment("finished_at")
            last = [base.end, finished, Zone(None).moment(top.progress.get("updated_at", ABSENT)), self.ends.get(base.id)]
            changes["end"] = max((t for t in last if t is not None), default=None)
            changes["unfinished"] = stated is None or finished is None
        if not is_null(reused := top.progress.get("reused_tasks", ABSENT)):
            attributes["agentcompass.reused_tasks"] = integer(reused)
        counts = fields(info.get("metric_artifacts", ABSENT))
        attributes.update(scalars(counts.get("report", ABSENT), "agentcompass.report."))
        changes["scores"] = [*base.scores, *_series(top.metrics)]
        typed = {"run_id", "status", "error", "resolved_execution_plans"}
        source.update((f"run_info.{k}", v) for k, v in info.items() if k not in typed)
        rest = {t: v for t, v in (self.context.plans if self.context else {}).items() if t not in self.seen}
        if rest:  # of tasks that neither the stream nor the disk tells of
            source["run_info.resolved_execution_plans"] = as_object(rest)
        for name in _TOP[1:]:
            if members := getattr(top, name):
                source[name] = as_object(members)
        if self.tree is not None and base.native_id is not None:
            mine = next((k for k in self.tree.runs if k.path == self.root), None)
            if mine is not None:
                changes["links"] = [*base.links, *self.tree.siblings(mine)]
        if progress is not None and progress.latest is not None:
            self._check(progress)
        self._zones()
        for name in self.details.leftovers():
            self.report.note("leftover", f"{name} is a temporary file of a write that did not finish; not read", "info")
        return msgspec.structs.replace(base, attributes=attributes, source=source, **changes)

    def _zones(self) -> None:
        if self.zone.naive and self.zone.zone is None:
            self.report.note(
                "no-zone", "times without an offset are read as UTC: no run_info.json says which zone they are in", count=self.zone.naive
            )

    def _check(self, progress: Progress) -> None:
        """The counters of progress.json were right even where writes to the stream failed (fixture: glued-lines)."""
        assert progress.latest is not None
        run, snapshot = progress.latest, self.top.progress
        if text(snapshot.get("run_id", ABSENT)) not in (None, run.first.run_id):
            return
        reused = integer(snapshot.get("reused_tasks", ABSENT)) or 0
        for name, mine, plus in (("attempts_finished", run.attempts_finished, 0), ("finished_tasks", run.tasks_finished, reused)):
            theirs = integer(snapshot.get(name, ABSENT))
            if theirs is not None and theirs != mine + plus:
                self.report.note("count-mismatch", f"progress.json counts {theirs} {name}, the event stream {mine + plus}: it has holes")


def as_object(members: dict[str, Raw]) -> Raw:
    """The members as one JSON object again, their text untouched."""
    return Raw(b"{" + b",".join(msgspec.json.encode(k) + b":" + bytes(v) for k, v in members.items()) + b"}")


def _series(metrics: dict[str, Raw]) -> list[Score]:
    """Series of metrics.json as scores of the run. A value of null (a run with fatal issues) is a score without one."""
    found = []
    for raw in items(metrics.get("series", ABSENT)):
        s = fields(raw)
        value = number(s.get("value", ABSENT))
        name = text(s.get("series_id", ABSENT)) or text(s.get("metric_id", ABSENT)) or "metric"
        found.append(Score(name=name, value=None if value is None else float(value), label=text(s.get("role", ABSENT))))
    return found


# ---------------------------------------------------------------------------------------------------------- reading
def _on_disk(joiner: Joiner) -> Iterator[Item]:
    """A run without a readable stream: run_info, progress.json and details, whichever there are."""
    top = joiner.top
    header, base = without_events(top, joiner.root.name)
    joiner.begin(header)
    yield header
    yield from joiner.rest(base.id, base.start, None)
    starts, ends = joiner.starts.get(base.id), joiner.ends.get(base.id)
    if base.start is None and starts is not None:
        base = msgspec.structs.replace(base, start=starts, clock="derived")
    if base.end is None and ends is not None:
        base = msgspec.structs.replace(base, end=ends, clock="derived")
    yield joiner._run(base, None)


def without_events(top: Top, fallback: str) -> tuple[TraceHeader, Run]:
    """Header and run from run_info.json, params.json or progress.json (page §12.5): the ids differ from those of the stream, and the run says so."""
    info, snapshot = top.run_info, top.progress
    run = (
        text(info.get("run_id", ABSENT))
        or text(top.section("output").get("run_id", ABSENT))
        or text(snapshot.get("run_id", ABSENT))
        or fallback
    )
    started, model, benchmark = text(info.get("started_at", ABSENT)), top.component("model"), top.component("benchmark")
    key = [run, *(x or "" for x in (started, model, benchmark))]
    header = header_of(key, run, FORMAT)
    start, end = top.moment("started_at"), top.moment("finished_at")
    status = text(info.get("status", ABSENT)) or text(snapshot.get("status", ABSENT))
    clock: Any = "recorded" if start is not None and end is not None else "derived"
    updated, elapsed = Zone(None).moment(snapshot.get("updated_at", ABSENT)), number(snapshot.get("elapsed_seconds", ABSENT))
    if start is None and updated is not None and elapsed is not None:
        start = updated - from_seconds(elapsed) if 0 <= elapsed < updated / SECOND else None
    attributes: dict[str, Value] = {"agentcompass.ids_from": "run_info" if info else "snapshot"}
    for name in ("harness", "environment"):
        if (value := top.component(name)) is not None:
            attributes[f"agentcompass.{name}"] = value
    for name in ("total_tasks", "finished_tasks", "completed_tasks", "failed_tasks", "attempts_started", "attempts_finished"):
        if (count := integer(snapshot.get(name, ABSENT))) is not None:
            attributes[f"agentcompass.{name}"] = count
    over = status in ("completed", "failed", "cancelled", "timed_out")
    bad = _STATUS.get(status, "unset")
    return header, Run(
        id=run_id(header.id),
        trace_id=header.id,
        name=benchmark or run,
        key="run",
        start=start,
        end=end if end is not None else updated,
        clock=clock if start is not None else "synthetic",
        unfinished=not over and bool(info or snapshot),
        status=bad,
        error=Error(type=ERROR_TYPES.get(status or "", status), message=text(info.get("error", ABSENT))) if bad == "error" else None,
        attributes=attributes,
        type="benchmark",
        native_id=run,
        model=model,
        ending=status,
    )


def read_run(root: Path, report: Report, tree: Tree | None = None, share: Share | None = None) -> Iterator[Item]:
    """One run directory, or a share of it: then the stream is read as a whole, and the results of the share's tasks."""
    joiner = Joiner(root, report, tree, share=share)
    stream = root / "progress.jsonl"
    progress: Progress | None = None
    if stream.is_file() and not stream.is_symlink():
        progress = Progress(report if joiner.whole else Report(), FORMAT)
        if not joiner.whole:
            progress.wanted = lambda task: in_share(task, share)
        for line in Source(str(stream), path=stream).lines():
            yield from feed(joiner, progress, line)
        with within(report, "progress.jsonl"):
            closed = progress.close()
        for item in closed:
            yield from joiner.take(item, progress)
    if progress is None or not progress.lines:
        yield from _on_disk(joiner)


def feed(joiner: Joiner, progress: Progress, line: Line, raw: bool = False) -> Iterator[Item]:
    """What is complete with one more line of the stream; ``raw``: as the stream has it, not joined."""
    report = progress.report
    name, report.input = report.input, f"{report.input}/progress.jsonl" if report.input else "progress.jsonl"
    try:
        found = progress.feed(line)
    finally:
        report.input = name
    for item in found:
        if raw:
            yield item
        else:
            yield from joiner.take(item, progress)


__all__ = ["FORMAT", "Joiner", "Top", "Tree", "as_object", "feed", "read_run", "top_of", "without_events"]
