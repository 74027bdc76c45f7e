"""What of a stream is open: runs, tasks, attempts and phases whose end has not come. Plain state; the rules are in `events`."""

from __future__ import annotations

from msgspec import Raw

from ..model import Error, Event, Status, TraceHeader
from ..seen import Seen
from .naming import Identity, run_id
from .schema import Line


class OpenPhase:
    __slots__ = ("error", "events", "key", "last", "name", "retry", "source", "start", "status", "word")

    def __init__(self, name: str, key: str, start: int, retry: int, source: dict[str, Raw]) -> None:
        self.name, self.key, self.start, self.last, self.retry, self.source = name, key, start, start, retry, source
        self.events: list[Event] = []
        self.status: Status = "unset"
        self.error: Error | None = None
        self.word: str | None = None


class Open:
    """A task or an attempt that has not finished."""

    __slots__ = ("child", "events", "id", "last", "phase", "retries", "retry", "seen", "source", "start", "started")

    def __init__(self, id: str, time: int, started: bool) -> None:
        self.id, self.start, self.last, self.child, self.started = id, time, time, time, started
        self.phase: OpenPhase | None = None
        self.seen: dict[str, int] = {}
        self.retry = 0
        self.retries = 0
        self.events: list[Event] = []
        self.source: dict[str, Raw] = {}


class OpenTask(Open):
    __slots__ = ("attempts", "category", "index", "total")

    def __init__(self, id: str, time: int, started: bool, category: str | None) -> None:
        super().__init__(id, time, started)
        self.category = category
        self.index: int | None = None
        self.total: int | None = None
        self.attempts: dict[int, Open | None] = {}  # None: finished


class OpenRun:
    """A run whose ``run_finished`` has not come."""

    def __init__(self, identity: Identity, first: Line, time: int, header: TraceHeader) -> None:
        self.identity, self.first, self.header = identity, first, header
        self.trace = header.id
        self.span = Open(run_id(header.id), time, False)
        self.tasks: dict[str, OpenTask] = {}
        self.done = Seen()
        self.model: str | None = None
        self.benchmark: str | None = None
        self.harness: str | None = None
        self.environment: str | None = None
        self.attempts_finished = 0
        self.tasks_finished = 0
        self.analysis = False
