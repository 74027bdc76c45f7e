"""What of a stream is open: runs, tasks and attempts whose end has not come. Plain state; the rules are in `events`. A phase that is open is its span, whose end is
the last that was heard of it."""

from __future__ import annotations

from operator import attrgetter

from msgspec import Raw
from msgspec.structs import replace

from ..ids import Below
from ..model import ABSENT, Event, Phase, TraceHeader
from ..seen import Seen
from .naming import Identity, run_id
from .schema import Line

columns = attrgetter("orchestration_id", "request_index", "run_id", "request_key", "request_name")
"""What is the same on all lines of a run; the first three of them are its `Identity`."""


class Open:
    """A task or an attempt that has not finished."""

    __slots__ = ("child", "events", "id", "last", "phase", "retries", "retry", "seen", "source", "start", "started")

    def __init__(self, id: str, time: int, started: bool) -> None:
        self.id, self.start, self.last, self.child, self.started = id, time, time, time, started
        self.phase: Phase | None = None
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
        self.identity, self.header = identity, header
        self.first = replace(first, timestamp=ABSENT, payload=ABSENT)  # they would keep all lines that were read with it
        self.columns = columns(first)
        self.trace = header.id
        self.below = Below(header.id)
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
