"""The documents of a run directory, for `spanport schema`: the fields that the reader looks for in each.

They have open shapes, which differ per harness and release, and are read field by field (`spanport.converters.jsonio.fields`): every one is optional, and what
is not named here is kept. Nothing reads with these.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from .schema import Line


class RunInfo(Struct, kw_only=True):
    """``run_info.json``. Times are ISO 8601."""

    schema_version: str | None = None
    run_id: str | None = None
    request: dict[str, Any] | None = None
    status: str | None = None
    error: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    metric_artifacts: dict[str, Any] | None = None
    resolved_execution_plans: dict[str, Any] | None = None
    reused_from: dict[str, Any] | None = None


class State(Struct, kw_only=True):
    """``progress.json``: the state of the run when it was last written."""

    run_id: str | None = None
    benchmark: str | None = None
    harness: str | None = None
    environment: str | None = None
    model: str | None = None
    status: str | None = None
    total_tasks: int | None = None
    finished_tasks: int | None = None
    elapsed_seconds: float | None = None
    updated_at: float | None = None


class Task(Struct, kw_only=True):
    """``task.json``: a task and where the records of its attempts lie, or (earlier layouts) those records themselves, by number."""

    schema_version: str | None = None
    task_id: str | None = None
    category: str | None = None
    ground_truth: str | None = None
    attempts: dict[str, str | dict[str, Any]] | None = None
    attempt_plan: dict[str, Any] | None = None
    correct: bool | None = None
    k: int | None = None
    attempts_tried: int | None = None
    solved_at: int | None = None
    retry_counts: dict[str, int] | None = None


class Attempt(Struct, kw_only=True):
    """The record of one attempt."""

    task_id: str | None = None
    category: str | None = None
    attempt: int | None = None
    status: str | None = None
    error: str | None = None
    final_answer: str | None = None
    ground_truth: str | None = None
    metrics: dict[str, Any] | None = None
    trajectory: dict[str, Any] | None = None
    issues: list[Any] | None = None
    artifacts: dict[str, Any] | None = None
    analysis_result: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    retry_count: int | None = None


class Retry(Struct, kw_only=True):
    """A try of an attempt that was given up, with its result."""

    task_id: str | None = None
    attempt: int | None = None
    retry: int | None = None
    max_retries: int | None = None
    retry_delay_seconds: float | None = None
    stage: str | None = None
    scope: str | None = None
    matched_pattern: str | None = None
    error: str | None = None
    discarded_result: dict[str, Any] | None = None


FILES: Final = {
    "run_info.json": RunInfo,
    "progress.json": State,
    "progress.jsonl": Line,
    "details/**/task.json": Task,
    "details/**/result.json": Attempt,
    "details/**/checkpoint.json": Attempt,
    "details/**/*.retry*.json": Retry,
}
"""Which of them is where, by a glob."""
