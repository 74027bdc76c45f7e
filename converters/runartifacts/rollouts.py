"""Write a folder as SimLab lays it out: ``agent_run_<task>_<stamp>`` for a single run, ``parallel_run_<task>_<stamp>/rollout_<i>`` for several attempts of a task, with
``verifier/reward.json`` where a verdict or reward is known and ``summary.json`` for a set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from .. import jsonio
from ..clock import SECOND
from ..errors import Report
from ..model import Attempt, Item, Phase, Run, Score, Task
from ..registry import WriteOptions
from ..units import Unit, traces, units
from .record import SHAPE, Record, dump

_UNSAFE: Final = re.compile(r"[^\w.-]+")


def write_folder(items: Iterable[Item], folder: Path, report: Report, options: WriteOptions) -> None:
    """Write all runs of ``items`` below ``folder``, which must not hold folders of the same names."""
    for header, spans in traces(items):
        groups: dict[str, list[Unit]] = {}
        for unit in units(header, spans):
            groups.setdefault(unit.task.id if unit.task is not None else "", []).append(unit)
        for group in groups.values():
            _group(group, folder, report, options)


def stamp(ns: int | None) -> str:
    """The stamp in a folder's name: UTC, whole seconds."""
    return datetime.fromtimestamp((ns or 0) // SECOND, UTC).strftime("%Y%m%d_%H%M%S")


def safe(name: str) -> str:
    """A task id as part of a folder's name."""
    return _UNSAFE.sub("_", name)[:100].strip("._") or "task"


def _fresh(path: Path) -> Path:
    found, n = path, 1
    while found.exists():
        n += 1
        found = path.with_name(f"{path.name[:-16]}_{n}{path.name[-16:]}")
    return found


def _group(group: list[Unit], folder: Path, report: Report, options: WriteOptions) -> None:
    first = Record(group[0], report, options)
    task = safe(first.task_id())
    single = len(group) == 1 and not (group[0].attempt is not None and group[0].attempt.agent is not None)
    if single:
        span = group[0].attempt or group[0].run
        place = _fresh(folder / f"agent_run_{task}_{stamp(span.end if span is not None else None)}")
        _rollout(group[0], place, report, options)
        return
    starts = [s.start for u in group if (s := u.attempt or u.run) is not None and s.start is not None]
    home = _fresh(folder / f"parallel_run_{task}_{stamp(min(starts, default=None))}")
    home.mkdir(parents=True)
    rows = []
    for index, unit in enumerate(group):
        own = Record(unit, report, options).own
        lost = unit.attempt is not None and unit.attempt.attributes.get("spanport.simlab.record") is not None
        number = unit.attempt.number if unit.attempt is not None and (own or lost) else index
        if not lost:
            _rollout(unit, home / f"rollout_{number}", report, options)
        rows.append(_row(unit, number, report, options))
    (home / "summary.json").write_bytes(_json(_summary(first, group, rows)))


def _rollout(unit: Unit, place: Path, report: Report, options: WriteOptions) -> None:
    place.mkdir(parents=True)
    with (place / "artifacts.json").open("wb") as file:
        dump(unit, file, report, options)
    found = reward(unit)
    if found is not None:
        (place / "verifier").mkdir()
        (place / "verifier" / "reward.json").write_bytes(_json(found))
        verdict = verdict_of(unit)
        if verdict in ("pass", "fail"):
            (place / "verifier" / "reward.txt").write_text("1" if verdict == "pass" else "0")


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def verdict_of(unit: Unit) -> str | None:
    """pass, fail, unknown, or None where nothing is said."""
    spans: tuple[Attempt | Task | Run | None, ...] = (
        unit.attempt,
        unit.task if not unit.many else None,
        unit.run if not unit.many else None,
    )
    return next((s.verdict for s in spans if s is not None and s.verdict is not None), None)


def _scores(unit: Unit) -> list[Score]:
    if unit.attempt is not None and unit.attempt.scores:
        return unit.attempt.scores
    return unit.run.scores if unit.run is not None and not unit.many else []


def value_of(unit: Unit) -> float | None:
    """The reward as the source states it; for another format's verdict 1.0 or 0.0."""
    stated = unit.attempt.attributes.get("spanport.reward") if unit.attempt is not None else None
    if isinstance(stated, int | float) and not isinstance(stated, bool):
        return float(stated)
    named = next((s.value for s in _scores(unit) if s.name in ("reward", "score") and s.value is not None), None)
    return named if named is not None else {"pass": 1.0, "fail": 0.0}.get(verdict_of(unit) or "")


def reward(unit: Unit) -> dict[str, Any] | None:
    """``reward.json``: reward and verifier rows, from the verify phases, else from the scores. None when nothing was judged."""
    rows, rubric = [], None
    own = unit.attempt is not None and SHAPE in unit.attempt.attributes
    for phase in (p for p in unit.phases if own and p.type == "verify" and p.key != "verify"):
        if phase.key == "verify.rubric":
            rubric = _rubric(phase)
        else:
            rows.append(_verifier(phase))
    scores = [s for s in _scores(unit) if s.name != "reward"]
    if not rows:
        rows = [
            {
                "module": s.name,
                "success": s.label == "pass" if s.label in ("pass", "fail") else (s.value or 0) >= 1,
                "message": s.explanation or "",
                "output": "",
            }
            for s in scores
            if s.label in ("pass", "fail") or s.value is not None
        ]
    value = value_of(unit)
    if value is None and not rows:
        return None
    if not rows and not own and (verdict := verdict_of(unit)) in ("pass", "fail"):
        rows = [{"module": unit.header.family, "success": verdict == "pass", "message": "", "output": ""}]
    found: dict[str, Any] = {} if value is None else {"reward": value}
    found["verifier_results"] = rows
    if rubric is not None:
        found["rubric_result"] = rubric
    if unit.attempt is not None:
        more = {k: v for k, v in unit.attempt.source.items() if k.startswith("reward.json.")}
        found.update({k.removeprefix("reward.json."): v for k, v in more.items()})
    return found


def _verifier(phase: Phase) -> dict[str, Any]:
    first = phase.scores[0] if phase.scores else None
    found: dict[str, Any] = {"module": phase.name}
    if first is not None and first.label is not None:
        found["success"] = first.label == "pass"
    if first is not None and first.explanation is not None:
        found["message"] = first.explanation
    found["output"] = phase.output or ""
    found.update(phase.source)
    return found


def _rubric(phase: Phase) -> dict[str, Any]:
    main = next((s for s in phase.scores if s.name == "rubric"), None)
    found: dict[str, Any] = {}
    if main is not None:
        found.update({k: v for k, v in (("score", main.value), ("verdict", main.label)) if v is not None})
    if (sure := phase.attributes.get("spanport.rubric.confidence")) is not None:
        found["confidence"] = sure
    found["dimension_scores"] = [{"dimension": s.name, "score": s.value, "reason": s.explanation} for s in phase.scores if s is not main]
    if phase.error is not None:
        found["error"] = phase.error.message
    found.update(phase.source)
    return found


def _row(unit: Unit, number: int, report: Report, options: WriteOptions) -> Any:
    attempt = unit.attempt
    if attempt is not None and "summary.json" in attempt.source:
        return attempt.source["summary.json"]
    record = Record(unit, report, options)
    took = (attempt.end - attempt.start) / 1e9 if attempt is not None and attempt.start is not None and attempt.end is not None else 0.0
    verdict = verdict_of(unit)
    return {
        "rollout_idx": number,
        "sandbox_id": "",
        "reward": value_of(unit),
        "verification_passed": None if verdict not in ("pass", "fail") else verdict == "pass",
        "steps": len(record.executed()),
        "duration": round(took, 1),
        "error": record.error() or (attempt.error.message if attempt is not None and attempt.error is not None else None),
    }


def _summary(first: Record, group: list[Unit], rows: list[Any]) -> dict[str, Any]:
    """``summary.json``: as it was read, else counted. A rollout without a verdict and without an error counts as passed."""
    run = group[0].run
    stated = jsonio.fields(run.source["summary.json"]) if run is not None and "summary.json" in run.source and first.own else None
    if stated is not None:
        return {**stated, "results": rows}
    plain = [jsonio.value(r) if isinstance(r, Raw) else r for r in rows]
    passed = [r for r in plain if r.get("verification_passed") or (r.get("verification_passed") is None and not r.get("error"))]
    rewards = [r["reward"] for r in plain if isinstance(r.get("reward"), int | float)]
    steps = [r["steps"] for r in passed if isinstance(r.get("steps"), int)]
    whole = group[0].task or run
    took = (whole.end - whole.start) / 1e9 if whole is not None and whole.start is not None and whole.end is not None else 0.0
    return {
        "task_id": first.task_id(),
        "rollout_count": len(rows),
        "passed": len(passed),
        "failed": len(rows) - len(passed),
        "avg_reward": sum(rewards) / len(rewards) if rewards else None,
        "avg_steps": sum(steps) / len(steps) if steps else None,
        "total_duration_seconds": round(took, 1),
        "results": rows,
    }
