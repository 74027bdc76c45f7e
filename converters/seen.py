"""Which names of a long stream have come, in a few bytes a name: spans that come twice, tasks that have ended. Knows nothing of either."""

from __future__ import annotations

from array import array
from typing import Final

PARTS: Final = 16
"""Tables, of which one at a time is made anew when it is full: then only a sixteenth is there twice."""
_SLOTS: Final = 64


class Seen:
    """Keys of 64 bits, told apart by Python's hash (another one in each process), in tables of 11 to 17 bytes a key; a set takes a hundred. Of two million names,
    two share a key once in ten million runs; a span id has no more bits than that."""

    def __init__(self) -> None:
        self._tables = [array("q", bytes(8 * _SLOTS)) for _ in range(PARTS)]
        self._room = [_room(_SLOTS)] * PARTS

    def add(self, name: str) -> bool:
        """Whether ``name`` is new; from now on it is not."""
        key = hash(name) or 1  # 0 is an empty slot
        part = key % PARTS
        table = self._tables[part]
        slot = _slot(table, key)
        if table[slot]:
            return False
        table[slot] = key
        self._room[part] -= 1
        if not self._room[part]:
            wider = array("q", bytes(8 * (len(table) * 3 // 2)))
            for held in table:
                if held:
                    wider[_slot(wider, held)] = held
            self._tables[part] = wider
            self._room[part] = _room(len(wider)) - _room(len(table))
        return True

    def __contains__(self, name: str) -> bool:
        key = hash(name) or 1
        table = self._tables[key % PARTS]
        return table[_slot(table, key)] != 0

    def __len__(self) -> int:
        return sum(_room(len(table)) - left for table, left in zip(self._tables, self._room, strict=True))


def _room(slots: int) -> int:
    """How many keys a table takes before it is made wider: beyond seven tenths, a free slot is far."""
    return slots * 7 // 10


def _slot(table: array[int], key: int) -> int:
    """Where ``key`` is, or the free slot where it belongs."""
    slots = len(table)
    at = key // PARTS % slots
    while (held := table[at]) and held != key:
        at += 1
        if at == slots:
            at = 0
    return at


__all__ = ["Seen"]
