"""Read SimLab's output folders: single rollouts, sets, autoresearch runs, and a root that holds many.

A single run's folder stamp is the end of its agent phase, a set's is its start, both cut to whole seconds. A rollout that died before it saved
anything exists only in ``summary.json`` and still gets its attempt (fixture `parallel_mixed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from .. import ids, jsonio
from ..clock import SECOND, from_seconds
from ..errors import ReadError, Report
from ..model import ABSENT, Attempt, Clock, Error, Event, Item, Link, Repair, Run, Score, Status, TraceHeader, Value, raw
from ..simlab import trajectory
from ..simlab.document import Document
from ..simlab.facts import FAMILY, Facts, facts, run_key
from ..simlab.reward import Judgement, judgement
from ..simlab.spans import Place, rollout
from ..simlab.trace import single
from ..source import Source, start_of
from .layout import Group, groups, stamp_of
from .one import load

_object = msgspec.json.Decoder(dict[str, Raw])
_SMALL: Final = 16 << 20
_BESIDE: Final = ("harness.json", "result.json", "proposal.json", "analysis.json")


# ------------------------------------------------------------------------------------------------------ small files
def small(path: Path, report: Report) -> Raw:
    """A JSON file beside a record; ABSENT when there is none, or it can't be read (which is noted)."""
    try:
        if not path.is_file():
            return ABSENT
        if path.stat().st_size > _SMALL:
            report.note("too-large", f"{path} is larger than {_SMALL >> 20} MiB; passed over", "lost")
            return ABSENT
        fields = jsonio.decode(path.read_bytes(), _object.decode, report)
    except (OSError, ReadError) as error:
        report.note("unreadable-file", f"{path}: {getattr(error, 'message', error)}", "lost")
        return ABSENT
    return Raw(msgspec.json.encode(fields))


def first_of(folder: Path, names: tuple[str, ...], report: Report) -> Raw:
    """The first of these files that there is."""
    return next((found for name in names if (found := small(folder / name, report))), ABSENT)


def _text(folder: Path, names: tuple[str, ...], report: Report) -> str | None:
    """The start of the first of these files that there is. A link is not followed: any text would do, wherever it lies."""
    for name in names:
        if (folder / name).is_symlink():
            report.note("link", f"{name} is a link and is not followed", "lost", path=name)
        elif found := start_of(folder / name, 64):
            return found.decode("utf-8", "replace")
    return None


# --------------------------------------------------------------------------------------------------------- rollouts
def record(folder: Path, report: Report) -> tuple[Document, list[Repair]]:
    """The record of a rollout's folder: ``artifacts.json``, else the trajectory that SimLab wrote."""
    native = folder / "artifacts.json"
    if native.is_file():
        return _within(native, report, load)
    return _within(folder / "agent" / "trajectory.json", report, _trajectory)


def _within(path: Path, report: Report, read: Any) -> tuple[Document, list[Repair]]:
    """Read one file of many: its notices name it."""
    inner = Report(input=str(path), strict=report.strict)
    try:
        found: tuple[Document, list[Repair]] = read(Source(str(path), path=path), inner)
    except ReadError as error:
        error.input = error.input or str(path)
        raise
    finally:
        report.merge(inner)
    return found


def _trajectory(source: Source, report: Report) -> tuple[Document, list[Repair]]:
    repairs: list[Repair] = []
    fields = jsonio.decode(source.data(), _object.decode, report, repairs=repairs)
    if not trajectory.is_simlab(fields):
        raise ReadError("a trajectory that SimLab did not write", input=source.name, hint="read it by itself with --from atif")
    return trajectory.document(fields, report), repairs


def worth(folder: Path, doc: Document, row: dict[str, Any], report: Report) -> Judgement:
    """The verdict of a rollout from whatever says it: files beside the record, the trajectory, the set's summary."""
    reward = first_of(folder, ("verifier/reward.json", "reward.json"), report)
    text = _text(folder, ("verifier/reward.txt", "reward.txt"), report)
    passed = row.get("verification_passed")
    stated = jsonio.fields(doc.verifier)
    if stated:
        passed = jsonio.value(stated.get("passed", ABSENT)) if passed is None else passed
        reward = reward or stated.get("payload", ABSENT)
    found = judgement(reward, text, passed if isinstance(passed, bool) else None)
    if found.reward is None:
        found.reward = jsonio.finite(jsonio.value(stated.get("reward", ABSENT))) if stated else jsonio.finite(row.get("reward"))
    if found.verdict is None:
        found.verdict = "unknown"
    return found


def beside(folder: Path, doc: Document, report: Report) -> dict[str, Raw]:
    """What else lies in a rollout's folder and is not in its record."""
    if b"npc_chat_transcripts" in bytes(doc.fields.get("metadata", ABSENT)):
        return {}
    found = small(folder / "npc_chat_transcripts.json", report)
    return {"npc_chat_transcripts.json": found} if found else {}


# ------------------------------------------------------------------------------------------------------------- runs
class _Seen:
    """Traces of this input so far: the same run in two folders is read once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.places: dict[str, Path] = {}

    def new(self, trace: str, folder: Path) -> bool:
        if trace in self.places:
            self.report.note("same-run", f"{folder} is the run that {self.places[trace]} holds, too; passed over")
            return False
        self.places[trace] = folder
        return True


def read_folder(source: Source, report: Report) -> Iterator[Item]:
    """A trace for each run in the folder. ReadError when there is none that can be read."""
    assert source.path is not None
    seen = _Seen(report)
    some = False
    failure: ReadError | None = None
    before: dict[Path, Run] = {}
    for group in groups(source.path):
        link = before.get(group.home) if group.home is not None else None
        try:
            for item in _group(group, link, seen, report):
                some = True
                if isinstance(item, Run) and group.home is not None:
                    before[group.home] = item
                yield item
        except ReadError as error:
            if report.strict:
                raise
            failure = failure or error
            report.note("unreadable", str(error), "lost")
    if not some:
        raise failure or ReadError("no SimLab run in this folder", input=source.name)


def _group(group: Group, before: Run | None, seen: _Seen, report: Report) -> Iterator[Item]:
    links = [Link(trace_id=before.trace_id, span_id=before.id, type="follows")] if before is not None else []
    if group.kind == "iteration" and not group.rollouts and not group.sets:
        report.note("no-rollouts", f"{group.folder} holds no rollout", "info")
        return
    if group.kind == "single" or (group.kind == "iteration" and len(group.rollouts) == 1 and not group.sets):
        yield from _single(group, links, seen, report)
    else:
        yield from _set(group, links, seen, report)


def _single(group: Group, links: list[Link], seen: _Seen, report: Report) -> Iterator[Item]:
    count, folder = group.rollouts[0]
    doc, repairs = record(folder, report)
    known = facts(doc)
    key = run_key(doc, known)
    trace = ids.trace_id(FAMILY, *key)
    if not seen.new(trace, folder):
        return
    _, stamp = stamp_of(folder.name) if folder.name.startswith("agent_run_") else (None, None)
    place = Place(
        number=count,
        until=stamp,
        slack=SECOND if stamp is not None else 0,
        judgement=worth(folder, doc, {}, report),
        source=beside(folder, doc, report),
    )
    attributes, scores, source, events = _iteration(group, report)
    more = Run(id="", trace_id="", name="", key="", links=links, attributes=attributes, scores=scores, source=source, events=events)
    yield from single(doc, "runartifacts", report, repairs=repairs, place=place, name=folder.name, more=more)


def _iteration(group: Group, report: Report) -> tuple[dict[str, Value], list[Score], dict[str, Raw], list[Event]]:
    """What an autoresearch step says of itself."""
    attributes: dict[str, Value] = {}
    if group.kind != "iteration":
        return attributes, [], {}, []
    source = {name: found for name in _BESIDE if (found := small(group.folder / name, report))}
    result = jsonio.value(source.get("result.json", ABSENT)) or {}
    attributes["spanport.simlab.iteration"] = group.number
    attributes["spanport.simlab.label"] = group.label
    for name in ("accepted", "change_type", "rationale", "objective_type"):
        if isinstance(value := result.get(name), bool | str):
            attributes[f"spanport.simlab.{name}"] = value
    scores = [
        Score(name=name, value=value) for name in result if name != "iteration" and (value := jsonio.finite(result[name])) is not None
    ]
    events: list[Event] = []
    if group.last and group.home is not None and (crash := small(group.home / "crash.json", report)):
        source["crash.json"] = crash
        events.append(Event(name="autoresearch.crash", attributes={"spanport.simlab.crash": jsonio.value(crash)}))
    return attributes, scores, source, events


class _Row:
    """``summary.json`` of a set: its rows by rollout, and the rest."""

    def __init__(self, folder: Path | None, report: Report) -> None:
        self.rest = jsonio.fields(small(folder / "summary.json", report)) if folder is not None else {}
        listed = jsonio.value(self.rest.get("results", ABSENT))
        self.rows: dict[int, dict[str, Any]] = {}
        if isinstance(listed, list):
            self.rest.pop("results")
            for place, row in enumerate(r for r in listed if isinstance(r, dict)):
                index = row.get("rollout_idx")
                self.rows[index if isinstance(index, int) and not isinstance(index, bool) else place] = row
        total = jsonio.finite(jsonio.value(self.rest.get("total_duration_seconds", ABSENT)))
        self.total = from_seconds(total) if total is not None and 0 <= total < 1e9 else None
        self.task = jsonio.text(self.rest.get("task_id", ABSENT))


def _seconds(value: Any) -> int | None:
    found = jsonio.finite(value)
    return from_seconds(found) if found is not None and 0 <= found < 1e9 else None


def _set(group: Group, links: list[Link], seen: _Seen, report: Report) -> Iterator[Item]:
    home = group.sets[0] if len(group.sets) == 1 else None
    summary = _Row(home, report)
    named, stamp = stamp_of(home.name) if home is not None else (None, None)
    first: tuple[Document, Facts] | None = None
    attempts: list[Attempt] = []
    trace = run = ""
    folders = dict(group.rollouts)
    extra = sorted(set(summary.rows) - set(folders)) if home is not None else []
    order = sorted([*folders, *extra])
    start: int | None = stamp
    for count in order:
        row = summary.rows.get(count, {})
        doc = known = None
        repairs: list[Repair] = []
        if count in folders:
            try:
                doc, repairs = record(folders[count], report)
                known = facts(doc)
            except ReadError as error:
                if report.strict:
                    raise
                report.note("unreadable", str(error), "lost")
        if not trace:
            task = summary.task or (known.task_id if known is not None else None) or named or ""
            if group.kind == "iteration" and group.home is not None:
                key = [group.home.name, group.label or ""]
            else:
                begun = stamp if stamp is not None else known.created if known is not None else None
                key = [task, str(begun) if begun is not None else group.folder.name]
            trace = ids.trace_id(FAMILY, "set", *key)
            if not seen.new(trace, group.folder):
                return
            run = ids.span_id(trace, "run")
            yield TraceHeader(
                id=trace, family=FAMILY, format="runartifacts", run_key=["set", *key], name=group.folder.name, repairs=repairs
            )
        if doc is None or known is None:
            lost = _lost(trace, run, count, row, start, count in folders)
            attempts.append(lost)
            yield lost
            continue
        if first is None:
            first = doc, known
            start = known.created if start is None else start
        wrong = row.get("error")
        attributes: dict[str, Value] = {}
        if isinstance(sandbox := row.get("sandbox_id"), str):
            attributes["spanport.simlab.sandbox_id"] = sandbox
        took = _seconds(row.get("duration"))
        place = Place(
            trace=trace,
            parent=run,
            number=count,
            agent=known.agent,
            until=known.created + took if took is not None and known.created is not None and not _timed(doc) else None,
            input=doc is not first[0] and doc.text("task") != first[0].text("task"),
            output=True,
            model=first[1].model,
            provider=first[1].provider,
            judgement=worth(folders[count], doc, row, report),
            error=Error(type="rollout_error", message=wrong) if isinstance(wrong, str) and wrong else None,
            attributes=attributes,
            source={**beside(folders[count], doc, report), **({"summary.json": raw(row)} if row else {})},
        )
        for span in rollout(doc, known, place, report):
            if isinstance(span, Attempt):
                attempts.append(span)
            yield span
    if trace:
        yield _set_run(group, trace, first, attempts, summary, start, stamp is not None, links, report)


def _timed(doc: Document) -> bool:
    return any(b'"timestamp"' in bytes(m) for m in doc.messages[:2])


def _lost(trace: str, run: str, count: int, row: dict[str, Any], start: int | None, unreadable: bool) -> Attempt:
    """A rollout without a readable record: what the summary says of it, with made-up times."""
    took = _seconds(row.get("duration"))
    wrong = row.get("error")
    error = Error(type="rollout_error", message=wrong) if isinstance(wrong, str) and wrong else None
    if error is None and unreadable:
        error = Error(type="unreadable", message="the record of this rollout can't be read")
    found = judgement(passed=row.get("verification_passed") if isinstance(row.get("verification_passed"), bool) else None)
    reward = jsonio.finite(row.get("reward"))
    attributes: dict[str, Value] = {"spanport.simlab.record": "unreadable" if unreadable else "summary"}
    if isinstance(sandbox := row.get("sandbox_id"), str):
        attributes["spanport.simlab.sandbox_id"] = sandbox
    return Attempt(
        id=ids.span_id(trace, "run", "attempt", str(count)),
        trace_id=trace,
        parent_id=run,
        key=str(count),
        name=f"attempt {count}",
        start=start,
        end=start + took if start is not None and took is not None else start,
        clock="synthetic",
        status="error" if error is not None else "unset",
        error=error,
        scores=[Score(name="reward", value=reward, label=found.verdict)] if reward is not None else [],
        attributes=attributes,
        source={"summary.json": raw(row)} if row else {},
        number=count,
        agent="",
        ending="failed" if error is not None else None,
        verdict=found.verdict or "unknown",
    )


def _set_run(
    group: Group,
    trace: str,
    first: tuple[Document, Facts] | None,
    attempts: list[Attempt],
    summary: _Row,
    start: int | None,
    stamped: bool,
    links: list[Link],
    report: Report,
) -> Run:
    attributes, scores, source, events = _iteration(group, report)
    starts = [a.start for a in attempts if a.start is not None]
    ends = [a.end for a in attempts if a.end is not None]
    begun = min([*starts, *([start] if start is not None else [])], default=None)
    ended = max([*ends, *([begun + summary.total] if begun is not None and summary.total is not None else [])], default=None)
    average = jsonio.finite(jsonio.value(summary.rest.get("avg_reward", ABSENT)))
    if average is not None:
        scores.append(Score(name="avg_reward", value=average))
    for name in ("passed", "failed", "rollout_count"):
        if isinstance(found := jsonio.value(summary.rest.get(name, ABSENT)), int):
            attributes[f"spanport.simlab.{name}"] = found
    if summary.rest:
        source["summary.json"] = raw(summary.rest)
    failed = bool(attempts) and all(a.status == "error" for a in attempts)
    status: Status = "error" if failed else "ok" if any(a.status == "ok" for a in attempts) else "unset"
    clock: Clock = "derived" if begun is not None else "synthetic"
    task = (first[1].task_id if first is not None else None) or summary.task
    if task:
        attributes["spanport.task.id"] = task
    return Run(
        id=ids.span_id(trace, "run"),
        trace_id=trace,
        key="run",
        name=task or group.folder.name,
        start=begun,
        end=ended,
        clock=clock,
        uncertainty=SECOND if stamped else 0,
        status=status,
        error=Error(type="all_attempts_failed", message=_reason(attempts)) if failed else None,
        links=links,
        events=events,
        scores=scores,
        attributes=attributes,
        source=source,
        type="benchmark",
        native_id=group.folder.name,
        model=first[1].model if first is not None else None,
        provider=first[1].provider if first is not None else None,
        input=first[0].fields.get("task", ABSENT) if first is not None else ABSENT,
    )


def _reason(attempts: list[Attempt]) -> str | None:
    """The first attempt's error text."""
    return next((a.error.message for a in attempts if a.error is not None), None)
