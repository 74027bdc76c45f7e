"""Who hears what happens meanwhile. A library tells nobody (`Voice`); the command line has one that writes to standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Voice:
    """One that tells nobody. Picklable, since worker processes have it too. ``level``: -1 only errors, 0 what matters, 1 everything."""

    level: int = -1

    def say(self, text: str, least: int = 0) -> None:
        """A line for people, when `level` is ``least`` or more."""

    def complain(self, text: str) -> None:
        """An error, whatever the level."""

    def progress(self, kind: str, inputs: Iterable[Any]) -> AbstractContextManager[Callable[[], None]]:
        """Told of each input that is done by a call. ``kind``: auto, plain, none."""
        return nullcontext(_nothing)


def _nothing() -> None:
    """One more input is done."""


SILENT = Voice()

__all__ = ["SILENT", "Voice"]
