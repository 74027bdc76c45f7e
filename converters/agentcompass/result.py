"""One attempt's ``result.json`` in any of its shapes (published, raw, discarded, v2, flat), and what of it becomes fields of an attempt.

Every field is optional: an attempt may be published as its retry count alone. This module opens no files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from msgspec import Raw

from ..jsonio import fields, is_null, text
from ..model import ABSENT, Artifact, Error, Event, Score, Status, Value
from .schema import absent, flag, integer, items, number, plain, words

BROKEN: Final = ("run_error", "run_error_or_eval_error", "cancelled", "interrupted")
"""Statuses of a run that did not end normally; ``eval_error`` is not one of them (page §12.6)."""

ISSUE_PHASES: Final = {
    "setup": ("open_environment", "prepare_task", "start_harness"),
    "run": ("run_harness", "run_task"),
    "collect": ("collect_harness_result", "collect_artifacts", "download_artifacts"),
    "evaluate": ("evaluate_environment", "evaluate"),
}
"""Which phase spans an issue's phase names: the last of these that there was. ``cleanup`` and anything else stay with the attempt."""

_SEVERITY: Final = {"fatal": 3, "error": 2, "warning": 1}
CONSUMED: Final = ("messages", "sub_agents", "reuse_history", "declared_artifacts")
"""Members of ``artifacts`` that become spans, marks or artifact events; the others go to ``source``."""


@dataclass(slots=True)
class Issue:
    severity: str | None
    phase: str | None
    code: str | None
    message: str | None
    source: dict[str, Raw] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        return _SEVERITY.get(self.severity or "", 2)

    def event(self) -> Event:
        """The issue as an event of the span it is about. It has no time."""
        found: dict[str, Value] = {}
        for key in ("severity", "phase", "code", "message"):
            if (value := getattr(self, key)) is not None:
                found[f"agentcompass.issue.{key}"] = value
        return Event(name="issue", attributes=found, source=self.source)

    def error(self) -> Error:
        return Error(type=self.code or self.severity, message=self.message)


@dataclass(slots=True)
class Result:
    """A result, its fields by meaning. ``error`` is the text of releases before issues: of unknown severity."""

    status: str | None = None
    metrics: dict[str, Raw] = field(default_factory=dict)
    final_answer: Raw = field(default_factory=absent)
    steps: list[Raw] = field(default_factory=list)
    listed: list[Raw] = field(default_factory=list)
    started: Raw = field(default_factory=absent)
    finished: Raw = field(default_factory=absent)
    issues: list[Issue] = field(default_factory=list)
    artifacts: dict[str, Raw] = field(default_factory=dict)
    analysis: dict[str, Raw] = field(default_factory=dict)
    scoring: Raw = field(default_factory=absent)
    telemetry: Raw = field(default_factory=absent)
    plan: Raw = field(default_factory=absent)
    retry_count: int | None = None
    error: str | None = None
    category: str | None = None
    ground_truth: Raw = field(default_factory=absent)
    source: dict[str, Raw] = field(default_factory=dict)
    cut: bool = False
    """The file breaks off: what comes last of the trajectory may not have been the last, and calls without an answer may have had one."""

    @property
    def broken(self) -> bool:
        return self.status in BROKEN and not self.cut


def result_of(members: dict[str, Raw], cut: bool = False) -> Result:
    """The result that ``members`` hold. What has no field here goes to its ``source``. ``cut``: the file breaks off in it."""
    f = dict(members)
    found = Result(status=text(f.get("status", ABSENT)), source=f, cut=cut)
    f.pop("task_id", None)
    if found.status is not None:
        del f["status"]
    found.metrics = fields(f.pop("metrics", ABSENT))
    for key in ("correct", "score"):  # releases before 1.0 have these two instead of metrics
        if key in f and key not in found.metrics and not is_null(f[key]):
            found.metrics[key] = f.pop(key)
    found.final_answer = f.pop("final_answer", ABSENT)
    trajectory = f.pop("trajectory", ABSENT)
    t = fields(trajectory)
    found.steps = items(t.pop("steps", ABSENT))
    found.listed = items(trajectory)  # once a plain list of session events
    found.started, found.finished = t.pop("started_at", ABSENT), t.pop("finished_at", ABSENT)
    f.update((f"trajectory.{k}", v) for k, v in t.items())
    for raw in items(f.pop("issues", ABSENT)):
        i = fields(raw)
        one = Issue(
            words(i.pop("severity", ABSENT)),
            words(i.pop("phase", ABSENT)),
            words(i.pop("code", ABSENT)),
            words(i.pop("message", ABSENT)),
            i,
        )
        found.issues.append(one)
    found.artifacts = fields(f.pop("artifacts", ABSENT))
    found.analysis = fields(f.pop("analysis_result", ABSENT))
    found.retry_count = integer(f.pop("retry_count", ABSENT))
    found.category, found.ground_truth = text(f.pop("category", ABSENT)), f.pop("ground_truth", ABSENT)
    found.error = text(f.pop("error", ABSENT)) or None
    meta, extra = fields(f.pop("meta", ABSENT)), fields(f.pop("extra", ABSENT))
    benchmark, harness = fields(meta.pop("benchmark", ABSENT)), fields(meta.pop("harness", ABSENT))
    found.scoring = benchmark.pop("scoring", ABSENT) or extra.pop("scoring", ABSENT)
    found.telemetry = harness.pop("telemetry", ABSENT) or f.pop("telemetry", ABSENT) or extra.pop("harness_metrics", ABSENT)
    found.plan = meta.pop("resolved_execution_plan", ABSENT) or meta.pop("plan", ABSENT)
    for name, rest in (("meta.benchmark", benchmark), ("meta.harness", harness), ("meta", meta), ("extra", extra)):
        f.update((f"{name}.{k}", v) for k, v in rest.items())
    return found


def _value(raw: Raw) -> tuple[float | None, str | None]:
    """A verdict or measurement as (value, label)."""
    if (yes := flag(raw)) is not None:
        return float(yes), "pass" if yes else "fail"
    if (n := number(raw)) is not None:
        return float(n), None
    return None, None if is_null(raw) else (text(raw) if text(raw) is not None else None)


def scores(result: Result) -> list[Score]:
    """Metrics, the judge's verdict and the analyzers' findings."""
    found = []
    for name, raw in result.metrics.items():
        value, label = _value(raw)
        found.append(Score(name=name, value=value, label=label, source={} if value is not None or label is not None else {"value": raw}))
    judged = fields(result.scoring)
    if judged:
        verdict, label = _value(judged.pop("correct", ABSENT))
        if verdict is None:
            verdict, label = _value(judged.pop("score", ABSENT))
        name = text(judged.pop("evaluation_type", ABSENT)) or "scoring"
        said = next((text(judged[k]) for k in ("explanation", "reasoning", "reason") if k in judged), None)
        found.append(Score(name=name, value=verdict, label=label, explanation=said, source=judged))
    for name, raw in result.analysis.items():
        a = fields(raw)
        if is_null(a.get("is_badcase", ABSENT)) and is_null(a.get("score", ABSENT)):
            continue  # counts, or an analyzer that could not run: `analysis_rest`
        bad, value = flag(a.pop("is_badcase", ABSENT)), number(a.pop("score", ABSENT))
        said = text(a.pop("error", ABSENT))
        found.append(
            Score(
                name=f"analysis.{name}",
                value=None if value is None else float(value),
                label=None if bad is None else "badcase" if bad else "ok",
                explanation=said,
                source=a,
            )
        )
    return found


def analysis_rest(result: Result) -> dict[str, Raw]:
    """Findings of analyzers that judge nothing, for ``source``."""
    found = {}
    for name, raw in result.analysis.items():
        a = fields(raw)
        if is_null(a.get("is_badcase", ABSENT)) and is_null(a.get("score", ABSENT)):
            found[f"analysis_result.{name}"] = raw
    return found


def verdict(result: Result) -> Literal["pass", "fail"] | None:
    """Whether the answer was correct, where the metrics say so in one word."""
    yes = flag(result.metrics.get("correct", ABSENT))
    return None if yes is None else "pass" if yes else "fail"


def status(result: Result) -> tuple[Status, Error | None]:
    """An attempt is an error when it did not complete or has an issue of severity error or worse. Whether the answer is right is a score."""
    worst = max(result.issues, key=lambda i: i.rank, default=None)
    if worst is not None and worst.rank >= 2:
        return "error", worst.error()
    if result.error:
        return "error", Error(type=result.status if result.status != "completed" else None, message=result.error)
    if result.status == "completed":
        return "ok", None
    if result.status in (None, "skipped", "cancelled", "interrupted"):
        return "unset", None
    return "error", Error(type=result.status)


def manifest(result: Result) -> list[Artifact]:
    """Entries of the artifact manifest: path, size and status, no content."""
    raw = result.artifacts.get("declared_artifacts", ABSENT)
    found = []
    for entry in items(fields(raw).get("entries", ABSENT)):
        e = fields(entry)
        path = words(e.pop("destination", ABSENT))
        origin = words(e.get("source", ABSENT))
        found.append(
            Artifact(
                id=path or origin or "?",
                type=text(e.pop("kind", ABSENT)),
                path=path,
                status=text(e.pop("status", ABSENT)),
                size=integer(e.pop("size_bytes", ABSENT)),
                sha256=text(e.pop("sha256", ABSENT)),
                found_in="manifest",
                source=e,
            )
        )
    return found


def scalars(raw: Raw, prefix: str, most: int = 40) -> dict[str, Any]:
    """Short plain members of an object as attributes: numbers, flags, and text of at most 500 characters."""
    found: dict[str, Any] = {}
    for key, value in fields(raw).items():
        if len(found) >= most:
            break
        if len(bytes(value)) <= 502 and (v := plain(value)) is not None and isinstance(v, str | bool | int | float):
            found[f"{prefix}{key}"] = v
    return found
