"""Which nested call, tool message and element of ``tool_calls``/``tool_results`` belong together.

``tool_calls[i]`` belongs to ``tool_results[i]`` and to nothing else by index: unknown tools, failed calls and concurrency shift it (fixtures
`unknown_tool`, `adapter_concurrent`, `dangling_call`). Ids repeat when an agent builds its toolset twice. Everything
here is linear in the number of calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from .document import Entry, Head, Nested, Note, alike, arguments_by_value, by_value, digest


class Call(Struct, gc=False):
    """One tool call: where it was asked for (``message``, ``position``), answered (``answer``: index of the tool message) and
    recorded (``result``: index in the two lists). Each may be missing."""

    message: int | None = None
    position: int = 0
    of: int = 1
    nested: Nested | None = None
    note: Note | None = None
    answer: int | None = None
    result: int | None = None
    alike: bool = False
    """The arguments that were asked for are the recorded parameters."""


def bare(wire: str) -> str:
    """The tool's own name in a wire name ``server__tool`` (first double underscore)."""
    return wire.split("__", 1)[-1]


def server_of(wire: str) -> str | None:
    """The server in a wire name, when it has one."""
    return wire.split("__", 1)[0] if "__" in wire else None


class _Open:
    """Calls without an answer so far, by id and in order."""

    def __init__(self) -> None:
        self._by_id: dict[str, Call | deque[Call]] = {}  # a queue only where an id repeats
        self._order: deque[Call] = deque()

    def add(self, call: Call) -> None:
        assert call.nested is not None
        self._order.append(call)
        if (number := call.nested.id) is not None:
            known = self._by_id.setdefault(number, call)
            if isinstance(known, deque):
                known.append(call)
            elif known is not call:
                self._by_id[number] = deque((known, call))

    def _first(self, queue: Call | deque[Call] | None) -> Call | None:
        if isinstance(queue, Call):
            return queue if queue.answer is None else None
        while queue:
            if queue[0].answer is None:
                return queue[0]
            queue.popleft()
        return None

    def take(self, note: Note) -> Call | None:
        """The oldest open call that this answer can belong to."""
        if note.id is not None:
            return self._first(self._by_id.get(note.id))
        return self._first(self._order) if note.plain else None


def _names(call: Call) -> Iterator[str]:
    """The names that ``call`` may be recorded under, the likeliest first; some may come twice."""
    wire = call.nested.wire if call.nested is not None else ""
    told = (call.note.name if call.note is not None else None) or ""
    if wire:
        yield wire
    if told:
        yield told
    if name := bare(wire):
        yield name
    if name := bare(told):
        yield name


class _Entries:
    """The elements of ``tool_calls`` that no call has taken yet."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.used = bytearray(len(entries))
        self._named: dict[str, deque[int]] = {}
        self._told: dict[tuple[str, bytes | None], deque[int]] = {}
        self._same: dict[tuple[str, bytes], deque[int]] | None = None
        for i, e in enumerate(entries):
            for name in (e.name, f"{e.server}__{e.name}") if e.server else (e.name,):
                if (queue := self._named.get(name)) is None:
                    queue = self._named[name] = deque()
                queue.append(i)
                if not e.compared:
                    self._told.setdefault((name, e.text), deque()).append(i)

    def _equal(self, name: str, nested: Nested) -> deque[int] | None:
        """The elements with this name and these parameters, by digests: only made when the first with the name is another one."""
        if self._same is None:
            self._same = {}
            for i, e in enumerate(self.entries):
                if e.compared:
                    value = digest(by_value(e.parameters))
                    for known in (e.name, f"{e.server}__{e.name}") if e.server else (e.name,):
                        self._same.setdefault((known, value), deque()).append(i)
        return self._same.get((name, digest(arguments_by_value(nested.arguments))))

    def _scan(self, queue: deque[int] | None, call: Call) -> int | None:
        while queue and self.used[queue[0]]:
            queue.popleft()
        if queue and self._fits(self.entries[queue[0]], call):
            return queue[0]
        return next((i for i in queue or () if not self.used[i] and self._fits(self.entries[i], call)), None)

    def _fits(self, entry: Entry, call: Call) -> bool:
        """Servers are compared only when both sides state one."""
        wire = call.nested.wire if call.nested is not None else ""
        if entry.server is None or f"{entry.server}__{entry.name}" == wire or entry.name == wire:
            return True
        server = call.note.server if call.note is not None and call.note.server else server_of(wire)
        return server is None or server == entry.server or entry.server == "unknown"

    def take(self, call: Call) -> int | None:
        """The first with the same name and the same parameters, else the first with the same name."""
        if self._told:
            told = call.note.text if call.note is not None else None
            for name in _names(call):  # parameters that a trajectory does not hold: the text of the result decides
                if (found := self._scan(self._told.get((name, told)), call)) is not None:
                    self.used[found] = True
                    return found
        if call.nested is not None:
            for name in _names(call):
                found = self._scan(self._named.get(name), call)
                if found is None:  # then none of those with equal parameters fits
                    continue
                call.alike = self.entries[found].compared and alike(call.nested.arguments, self.entries[found].parameters)
                if not call.alike:
                    found = self._scan(self._equal(name, call.nested), call)
                if found is not None:
                    self.used[found] = True
                    return found
        for name in _names(call):
            found = self._scan(self._named.get(name), call)
            if found is not None and self.entries[found].compared:
                self.used[found] = True
                return found
        return None

    def left(self) -> Iterator[int]:
        return (i for i in range(len(self.entries)) if not self.used[i])


def pair(heads: list[Head], entries: list[Entry]) -> list[Call]:
    """All calls: those that were asked for, in order; then answers and records that no request explains."""
    calls: list[Call] = []
    answered: list[Call] = []
    waiting = _Open()
    for i, head in enumerate(heads):
        for position, nested in enumerate(head.calls):
            call = Call(message=i, position=position, of=len(head.calls), nested=nested)
            calls.append(call)
            waiting.add(call)
        if head.note is not None:
            call = waiting.take(head.note) or Call()
            if call.nested is None:
                calls.append(call)
            call.note, call.answer = head.note, i
            answered.append(call)
    records = _Entries(entries)
    for call in answered:
        if call.note is not None and not call.note.unknown:
            call.result = records.take(call)
    for call in calls:
        if call.answer is None:  # agents that record no tool messages
            call.result = records.take(call)
    calls.extend(Call(result=i) for i in records.left())
    return calls
