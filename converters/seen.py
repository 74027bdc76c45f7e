"""Which names of a long stream have come, in a few bytes a name: spans that come twice, tasks that have ended. Knows nothing of either."""

from __future__ import annotations

from array import array
from typing import Final

FEW: Final = 1 << 16
"""Names that are kept in a plain set, which is three times as fast and takes five times the memory."""
PARTS: Final = 16
"""Tables, of which one at a time is made anew when it is full: then only a sixteenth is there twice."""
_SLOTS: Final = 1 << 14


class Seen:
    """Keys of 64 bits, told apart by Python's hash (another one in each process): few in a set, many in tables of 11 to 17 bytes a key. Of two million
    names, two share a key once in ten million runs; a span id has no more bits than that."""

    def __init__(self) -> None:
        self._few: set[int] | None = set()
        self._tables: list[array[int]] = []
        self._room: list[int] = []

    def add(self, name: str) -> bool:
        """Whether ``name`` is new; from now on it is not."""
        key = hash(name) or 1  # 0 is an empty slot
        if (few := self._few) is None:
            return self._put(key)
        if key in few:
            return False
        few.add(key)
        if len(few) > FEW:
            self._few, self._tables, self._room = None, [_table(_SLOTS) for _ in range(PARTS)], [_room(_SLOTS)] * PARTS
            for held in few:
                self._put(held)
        return True

    def _put(self, key: int) -> bool:
        part = key % PARTS
        table = self._tables[part]
        slots = len(table)
        at = key // PARTS % slots
        while held := table[at]:
            if held == key:
                return False
            at += 1
            if at == slots:
                at = 0
        table[at] = key
        self._room[part] -= 1
        if not self._room[part]:
            wider = _table(len(table) * 3 // 2)
            for held in table:
                if held:
                    wider[_slot(wider, held)] = held
            self._tables[part] = wider
            self._room[part] = _room(len(wider)) - _room(len(table))
        return True

    def __contains__(self, name: str) -> bool:
        key = hash(name) or 1
        if self._few is not None:
            return key in self._few
        table = self._tables[key % PARTS]
        return table[_slot(table, key)] != 0

    def __len__(self) -> int:
        if self._few is not None:
            return len(self._few)
        return sum(_room(len(table)) - left for table, left in zip(self._tables, self._room, strict=True))


def _table(slots: int) -> array[int]:
    """An empty table."""
    return array("q", bytes(8 * slots))


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
