"""AgentCompass run directories and ``progress.jsonl``."""

from ..registry import Format

FORMATS: tuple[Format, ...] = ()
