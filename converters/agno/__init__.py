"""Agno ``RunOutput`` and its team and workflow kin, and run events as JSON Lines."""

from ..registry import Format

FORMATS: tuple[Format, ...] = ()
