"""AgentCompass run directories and ``progress.jsonl``."""

import os
from pathlib import Path

from ..registry import Format, Match, Probe
from ..source import start_of

_EVENT = frozenset({"run_id", "event", "timestamp", "task_id", "payload"})
_MARKS = frozenset({"run_info.json", "progress.jsonl", "progress.json", "details"})
_STATES = frozenset({"running", "normal", "error", "fatal"})

_CERTAIN = frozenset({"run_info.json", "progress.jsonl"})
_TREE_DEPTH, _TREE_FOLDERS = 12, 20_000


def _only_runs(path: Path, depth: int, budget: list[int]) -> bool:
    """Whether below ``path`` there are run directories and no other file: a results tree, which is read as one so that its runs can be linked."""
    budget[0] -= 1
    try:
        with os.scandir(path) as found:
            entries = [e for e in found if not e.name.startswith(".")]
    except OSError:
        return False
    if any(e.name in _CERTAIN for e in entries):
        return True
    if depth == 0 or budget[0] < 0 or not entries or not all(e.is_dir(follow_symlinks=False) for e in entries):
        return False
    return all(_only_runs(Path(e.path), depth - 1, budget) for e in entries)


def _has_details(path: Path) -> bool:
    """Whether a ``details`` folder is one of AgentCompass: states, task folders, or (before 1.0) one JSON file a task beside params.json."""
    try:
        entries = set(os.listdir(path))
    except OSError:
        return False
    if entries & _STATES or any((path / e / "task.json").is_file() for e in sorted(entries)[:5]):
        return True
    return (path.parent / "params.json").is_file() and any(e.endswith(".json") for e in entries)


def _is_snapshot(path: Path) -> bool:
    return b'"total_tasks"' in start_of(path, 4096)


def _detect_progress(look: Probe) -> Match | None:
    if look.shape in ("lines", "object") and len(_EVENT & look.keys) >= 4 and {"run_id", "event"} <= look.keys:
        return Match(95, "lines with run_id, event, timestamp and payload")
    return None


def _detect(look: Probe) -> Match | None:
    if look.shape == "directory":
        found = _MARKS & look.entries
        if found & _CERTAIN or (
            look.path is not None and (_has_details(look.path / "details") or _is_snapshot(look.path / "progress.json"))
        ):
            return Match(90 if len(found) > 1 else 60, f"a directory with {', '.join(sorted(found))}")
        if look.entries and look.entries <= _STATES:
            return Match(50, "a directory of task states")
        if look.path is not None and _only_runs(look.path, _TREE_DEPTH, [_TREE_FOLDERS]):
            return Match(70, "a tree of run directories and nothing else")
        return None
    alone = {"schema_version", "request"} <= look.keys or {"total_tasks", "finished_tasks"} <= look.keys
    if look.shape in ("object", "lines") and "run_id" in look.keys and alone:
        return Match(90, "a run_info.json or a progress.json")
    return None


FORMATS = (
    Format(
        name="agentcompass",
        title="AgentCompass run directory (also a results tree, run_info.json or progress.json)",
        example="results/gpt_gaia_naive_search_agent/20261201_040047",
        recognised="a directory with run_info.json, progress.jsonl or details/, or a tree of these",
        detect=_detect,
        reader=f"{__name__}.read:read",
        schema=f"{__name__}.described:FILES",
        shares=f"{__name__}.layout:shares",
        part=f"{__name__}.layout:part",
        folder=True,
    ),
    Format(
        name="agentcompass-progress",
        title="AgentCompass progress.jsonl, the event stream of a run",
        example="progress.jsonl",
        recognised="lines with run_id, event, timestamp, task_id and payload",
        suffix=".jsonl",
        detect=_detect_progress,
        lines=True,
        open_field="payload",
        reader=f"{__name__}.stream:read",
        shares=f"{__name__}.stream:shares",
        writer=f"{__name__}.write:write",
        schema=f"{__name__}.schema:Line",
    ),
)
