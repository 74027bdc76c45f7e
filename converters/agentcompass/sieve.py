"""Which lines of a stream are those of a share's tasks, told without decoding the others: a share that tells of half of the tasks need not read the other half.

Only where all lines of a block look as they are always written, and are of one run. That the others are whole is not known here: the share that tells of lines decodes
them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from ..source import Block
from .schema import Line, decode_line

_TASK: Final = b'"task_id": "'
_TAIL: Final = re.compile(
    rb'"orchestration_id": (?:"[^"\\{}]*"|null), "request_key": (?:"[^"\\{}]*"|null), "request_name": (?:"[^"\\{}]*"|null), "request_index": (?:[0-9]+|null)\}\Z'
).search
"""A line's end, which says of which launch it is."""
_STAMPS: Final = re.compile(rb"(?:[0-9]{10}\.[0-9]{1,9},)*").fullmatch
_KEPT: Final = 1 << 12


class Sieve:
    """``wanted``: which tasks the share tells of, by their id."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self._known: dict[bytes, bool] = {}
        self._head = self._tail = b""

    def learn(self, block: Block, run: Line | None) -> None:
        """How the lines of ``run``, of which the last line of ``block`` is, begin and end; None where that is no run's."""
        self._tail = b""
        if run is None or (found := _TAIL(block.data.rstrip(b"\n"))) is None:
            return
        name = msgspec.json.encode(run.run_id)
        end: Line = decode_line(b'{"run_id":%s,"event":"","timestamp":0,%s' % (name, found.group()))
        launch = (run.orchestration_id, run.request_key, run.request_name, run.request_index)
        if launch == (end.orchestration_id, end.request_key, end.request_name, end.request_index):
            self._head, self._tail = b'{"run_id": %s, "event": "' % name, found.group() + b"\n"

    def lines(self, block: Block) -> list[tuple[int, bytes]] | None:
        """Those of wanted tasks with their numbers; None where each line has to be looked at."""
        data, count, known = block.data, block.count, self._known
        if not self._tail or not data.isascii() or data.find(b"\\") >= 0:
            return None
        if not count == data.count(self._head) == data.count(self._tail) == data.count(_TASK):
            return None
        found: list[tuple[int, bytes]] = []
        for number, line in enumerate(data.split(b"\n")[:-1], block.number + 1):
            at = line.find(_TASK)
            if at < 0 or not line.startswith(self._head):  # another line has two of them
                return None
            task = line[at + len(_TASK) : line.find(b'"', at + len(_TASK))]
            if (wanted := known.get(task)) is None:
                if len(known) >= _KEPT:
                    known.clear()
                wanted = known[task] = self._wanted(task.decode())
            if wanted:
                found.append((number, line))
        return found


def stamped(events: list[Line]) -> bool:
    """Whether all events have a time, as it is always written: one that has none takes that of the line before, which may be another task's."""
    return _STAMPS(b"".join([b"%b," % event.timestamp for event in events])) is not None


__all__ = ["Sieve", "stamped"]
