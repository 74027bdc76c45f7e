"""AgentCompass run directories and ``progress.jsonl``."""

from ..registry import Format, Match, Probe

_EVENT = frozenset({"run_id", "event", "timestamp", "task_id", "payload"})
_MARKS = frozenset({"run_info.json", "progress.jsonl", "progress.json", "details"})
_STATES = frozenset({"running", "normal", "error", "fatal"})


def _detect_progress(look: Probe) -> Match | None:
    if look.shape in ("lines", "object") and len(_EVENT & look.keys) >= 4 and {"run_id", "event"} <= look.keys:
        return Match(95, "lines with run_id, event, timestamp and payload")
    return None


def _detect(look: Probe) -> Match | None:
    if look.shape == "directory":
        found = _MARKS & look.entries
        if found - {"details"} or (found and "artifacts.json" not in look.entries):
            return Match(90 if len(found) > 1 else 60, f"a directory with {', '.join(sorted(found))}")
        if look.entries and look.entries <= _STATES:
            return Match(50, "a directory of task states")
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
        reader=f"{__name__}.rundir:read",
        folder=True,
    ),
    Format(
        name="agentcompass-progress",
        title="AgentCompass progress.jsonl, the event stream of a run",
        example="progress.jsonl",
        recognised="lines with run_id, event, timestamp, task_id and payload",
        suffix=".jsonl",
        detect=_detect_progress,
        reader=f"{__name__}.stream:read",
    ),
)
