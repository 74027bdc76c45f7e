"""Collinear SimLab ``RunArtifacts``: one ``artifacts.json``, and whole output folders."""

from ..registry import Format, Match, Probe

_KEYS = frozenset({"task_id", "messages", "tool_calls", "tool_results", "steps_taken"})
_FIRST = frozenset({"task_id", "task", "messages", "provider"})


def _detect(look: Probe) -> Match | None:
    if look.shape == "directory" and look.path is not None:
        from .layout import is_sole, recognise

        if (why := recognise(look.path, look.entries)) is None:
            return None
        return Match(85 if is_sole(look.path) else 40, why)
    if look.shape in ("object", "lines"):
        if len(_KEYS & look.keys) >= 3:
            return Match(90, "has task_id, messages, tool_calls and tool_results")
        if look.keys >= _FIRST:  # all that the head of a large file, or one that breaks off, has
            return Match(80, "begins with task_id, task, provider and messages")
    return None


FORMATS = (
    Format(
        name="runartifacts",
        title="Collinear SimLab RunArtifacts",
        example="artifacts.json",
        recognised="a JSON object with task_id, messages, tool_calls, tool_results; a folder with artifacts.json, agent_run_*, parallel_run_* or autoresearch_run_*",
        detect=_detect,
        open_field="metadata",
        suffix=".artifacts.json",
        reader=f"{__name__}.read:read",
        schema=f"{__name__}.schema:Document",
        writer=f"{__name__}.write:write",
    ),
)
