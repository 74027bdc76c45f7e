"""ATIF, the Agent Trajectory Interchange Format (versions 1.0 to 1.8)."""

from ..registry import Format

FORMATS: tuple[Format, ...] = ()
