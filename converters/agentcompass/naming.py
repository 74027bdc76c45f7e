"""Who is who in an AgentCompass run: what the ids of a run, its tasks and its attempts are derived from, and who works in an attempt.

The stream and the result files derive the same ids, each from what it knows (DESIGN §2).
"""

from __future__ import annotations

from .. import ids
from ..model import TraceHeader
from .schema import FAMILY

Identity = tuple[str | None, int | None, str]


def run_key(identity: Identity, started: int | None) -> list[str]:
    """What a run's ids are derived from: orchestration and request index, which every line holds; without orchestration (a runtime called
    directly, re-analysis) the run id, which is not unique, and the time of the first event (fixture: sdk-direct)."""
    orchestration, index, run = identity
    if orchestration is not None:
        return [orchestration, str(index if index is not None else 0)]
    return [run, str(started)] if started is not None else [run]


def header_of(key: list[str], run: str, format: str) -> TraceHeader:
    """The trace of the run with this key."""
    return TraceHeader(id=ids.trace_id(FAMILY, *key), family=FAMILY, format=format, run_key=key, name=run or None)


def run_id(trace: str) -> str:
    return ids.span_id(trace, "run")


def task_id(trace: str, task: str) -> str:
    return ids.span_id(trace, "run", "task", task)


def attempt_id(trace: str, task: str, number: int) -> str:
    return ids.span_id(trace, "run", "task", task, "attempt", str(number))


def agent_of(harness: str | None, benchmark: str | None) -> str | None:
    """Who works in an attempt: the harness; where there is none, the benchmark itself (fixture: harness-free); None when it is not known."""
    if harness is None:
        return None
    return harness if harness not in ("", "none") else benchmark
