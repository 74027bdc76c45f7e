"""Which spans of a long stream have come, in a few bytes a span: what `export` needs to leave out a span that comes twice."""

from __future__ import annotations

from array import array
from typing import Final

PARTS: Final = 16
"""Tables, of which one at a time is made anew when it is full: then only a sixteenth is there twice."""
_SLOTS: Final = 64


class Seen:
    """Keys of 64 bits, told apart by Python's hash (another one in each process), in tables of 11 to 17 bytes a key; a set takes a hundred. Of two million spans,
    two share a key once in ten million runs; a span id has no more bits than that."""

    def __init__(self) -> None:
        self._tables = [array("q", bytes(8 * _SLOTS)) for _ in range(PARTS)]
        self._room = [_room(_SLOTS)] * PARTS

    def add(self, name: str) -> bool:
        """Whether ``name`` is new."""
        key = hash(name) or 1  # 0 is an empty slot
        part = key % PARTS
        table = self._tables[part]
        if not _put(table, key):
            return False
        self._room[part] -= 1
        if not self._room[part]:
            wider = array("q", bytes(8 * (len(table) * 3 // 2)))
            for held in table:
                if held:
                    _put(wider, held)
            self._tables[part] = wider
            self._room[part] = _room(len(wider)) - _room(len(table))
        return True


def _room(slots: int) -> int:
    """How many keys a table takes before it is made wider: beyond seven tenths, a free slot is far."""
    return slots * 7 // 10


def _put(table: array[int], key: int) -> bool:
    """Put ``key`` into the next free slot; False when it is there."""
    slots = len(table)
    at = key // PARTS % slots
    while held := table[at]:
        if held == key:
            return False
        at += 1
        if at == slots:
            at = 0
    table[at] = key
    return True


__all__ = ["Seen"]
