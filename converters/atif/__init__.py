"""ATIF, the Agent Trajectory Interchange Format (versions 1.0 to 1.8)."""

from ..registry import Format, Match, Probe


def _detect(look: Probe) -> Match | None:
    if look.shape not in ("object", "lines", "array"):
        return None
    if b'"ATIF-v' in look.head and "schema_version" in look.keys:
        return Match(95, "schema_version is ATIF-v…")
    if {"schema_version", "agent", "steps"} <= look.keys:
        return Match(85, "has schema_version, agent and steps")
    return None


FORMATS: tuple[Format, ...] = (
    Format(
        name="atif",
        title="ATIF, the Agent Trajectory Interchange Format, 1.0 to 1.8",
        example="trajectory.json",
        recognised="a JSON object with schema_version ATIF-v…, agent and steps",
        suffix=".atif.json",
        detect=_detect,
        reader=f"{__name__}.read:read",
        writer=f"{__name__}.write:write",
        open_field="extra",
        schema=f"{__name__}.schema:Trajectory",
    ),
)
