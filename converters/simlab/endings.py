"""How a rollout ended, from its ``error`` text: SimLab has no field for it (formats page, endings)."""

from __future__ import annotations

import re
from typing import Final

from ..model import Error

# Prefix of the text → (ending, error type). The first that fits counts; None: the exception's name in the text, else "agent_error".
_TABLE: Final[tuple[tuple[str, str, str | None], ...]] = (
    ("Max steps reached", "max_steps", "max_steps"),
    ("context_window_exceeded", "context_window_exceeded", "context_window_exceeded"),
    ("Rollout timeout exceeded", "timeout", "timeout"),
    ("Cancelled", "cancelled", "cancelled"),
    ("LLM call failed", "failed", None),
    ("Agent execution failed", "failed", None),
)
_EXCEPTION = re.compile(r"\b((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exceeded|Interrupt))\b")
_LIMIT: Final = "Max steps reached"


def ending(error: str | None, final: str | None, timeout: bool) -> tuple[str | None, Error | None]:
    """(ending, error) of a rollout. ``timeout``: the flag in ``metadata``. A final text "Max steps reached" with no error is one
    cookbook's way to say so. None where the record says nothing."""
    if error is None:
        if timeout:
            return "timeout", None
        if final == _LIMIT:
            return "max_steps", None
        return ("completed" if final is not None else None), None
    for prefix, word, kind in _TABLE:
        if error.startswith(prefix):
            return word, Error(type=kind or _exception(error), message=error)
    return ("timeout", Error(type="timeout", message=error)) if timeout else ("failed", Error(type=_exception(error), message=error))


def _exception(text: str) -> str:
    return found[1] if (found := _EXCEPTION.search(text[:2000])) else "agent_error"
