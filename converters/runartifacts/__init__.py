"""Collinear SimLab ``RunArtifacts``: one ``artifacts.json``, and whole output folders."""

from ..registry import Format, Match, Probe

_KEYS = frozenset({"task_id", "messages", "tool_calls", "tool_results", "steps_taken"})


def _detect(look: Probe) -> Match | None:
    if look.shape in ("object", "lines") and len(_KEYS & look.keys) >= 3:
        return Match(90, "has task_id, messages, tool_calls and tool_results")
    return None


FORMATS = (
    Format(
        name="runartifacts",
        title="Collinear SimLab RunArtifacts",
        example="artifacts.json",
        recognised="a JSON object with task_id, messages, tool_calls, tool_results",
        detect=_detect,
        reader=f"{__name__}.read:read",
    ),
)
