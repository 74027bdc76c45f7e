"""Signals as a wish to end in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .common import say

if TYPE_CHECKING:
    from ..exporters.otlp.sender import Stop


@contextmanager
def signals(
    stop: Stop,
    follow: bool = False,
    at_once: bool = False,
    first: str = "ending: what is open is sent, marked unfinished (again to leave it)",
) -> Iterator[None]:
    """SIGINT and SIGTERM ask for an orderly end; a second one ends at once. With ``follow`` one more comes first: what is open is sent, as ``first`` says. ``at_once``: nothing
    here can be ended in order, so that the first one raises KeyboardInterrupt."""

    def ask(number: int, frame: Any) -> None:
        if follow and not stop.enough:
            say(first)
            stop.enough = number
            return
        if at_once:
            stop.set(number)
        if stop:
            raise KeyboardInterrupt
        say("ending: what is not sent goes to the spool (again to end at once)")
        stop.set(number)

    before: dict[signal.Signals, Any] = {}
    try:
        for one in (signal.SIGINT, signal.SIGTERM):
            before[one] = signal.signal(one, ask)
    except ValueError:  # not the main thread: the caller has the signals
        pass
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
