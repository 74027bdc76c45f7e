"""The pieces of a run that is open: trace, call, request, phase, attempt, and the plan that a record makes for its events. Data only."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from .. import ids, jsonio
from ..model import ABSENT, AnySpan, Chunk, Error, Event, History, Link, Message, Outcome, Status, ToolCallPart, Usage, Value
from .messages import Answer, Turn, Turns
from .schema import Asked, Execution, Tool, execution
from .times import NO_CLOCKS, UNKNOWN, Clocks, Window, clocks

FAMILY: Final = "agno"
DELEGATES: Final = ("delegate", "transfer_task", "execute_task", "run_member", "run_workflow")
"""Tools that hand work to a member begin with one of these, in whichever version."""


class Trace(Struct, eq=False):
    """A trace being written: where its spans go, and the workflow steps that are open in it."""

    id: str
    root: str
    put: Callable[[Trace, AnySpan], None]
    name: str | None = None
    session: str | None = None
    started: int | None = None
    headed: bool = False
    wanted: bool | None = None
    held: list[AnySpan] = []
    flows: bool = False  # the header was given, and nothing is held back
    seen: set[str] = set()
    steps: dict[str, str] = {}
    open: int = 0

    def span(self, *path: str) -> str:
        return ids.span_id(self.id, *path)


class Call(Struct, eq=False):
    """One execution of a tool."""

    id: str
    key: str
    name: str
    call_id: str | None
    parent: str
    requested_by: str | None
    tool: Tool | None = None
    raw: Raw = ABSENT
    first: Execution | None = None  # the tool as the start showed it
    answer: Answer | None = None
    started: Window = UNKNOWN
    done: Window = UNKNOWN
    begun: bool = False
    over: bool = False
    after: int | None = None
    text: Raw = ABSENT
    error: str | None = None
    failed: bool = False
    custom: int = 0
    children: list[Window] = []
    open_children: int = 0
    claimed: bool = False
    waiting: list[Any] = []
    ending: list[Any] = []
    events: list[Event] = []
    source: dict[str, Raw] = {}
    outcome: Outcome | None = None
    requested: Asked | None = None
    read: tuple[Raw, Clocks] = (ABSENT, NO_CLOCKS)

    @property
    def clocks(self) -> Clocks:
        """Those of its execution, read once for each state of it."""
        metrics = self.tool.metrics if self.tool is not None else ABSENT
        if self.read[0] is not metrics:
            self.read = (metrics, clocks(metrics))
        return self.read[1]

    @property
    def delegates(self) -> bool:
        return self.name.startswith(DELEGATES)

    @property
    def arguments(self) -> dict[str, Raw]:
        return jsonio.fields(self.tool.tool_args) if self.tool is not None else {}


class Request(Struct, eq=False):
    """One model request and its turn."""

    id: str
    key: str
    parent: str
    number: int
    started: Window
    done: Window = UNKNOWN
    over: bool = False
    after: int | None = None
    after_off: int = 0
    limit: int | None = None
    followed: bool = False
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    first_token: int | None = None
    turn: Turn | None = None
    inferred: bool = False
    inserted: bool = False
    text: list[str] = []
    reasoning: list[str] = []
    chunks: list[Chunk] = []
    asked: list[ToolCallPart] = []
    calls: list[Call] = []
    answers: list[Message] = []
    unran: list[Call] = []
    response_id: str | None = None
    content: Raw = ABSENT
    error: Error | None = None
    source: dict[str, Raw] = {}
    events: list[Event] = []
    input: list[Message] = []
    output: list[Message] = []
    history: History | None = None


class OpenPhase(Struct, eq=False):
    """A stretch that began: a hook, reasoning, a workflow step…"""

    id: str
    key: str
    name: str
    type: str
    parent: str
    started: Window
    operation: str | None = None
    after: int | None = None
    after_off: int = 0
    input: Raw = ABSENT
    output: Raw = ABSENT
    error: Error | None = None
    status: Status = "unset"
    events: list[Event] = []
    source: dict[str, Raw] = {}
    attributes: dict[str, Value] = {}
    children: list[Window] = []
    step: str | None = None
    group: str | None = None
    claimed: bool = False
    above: OpenPhase | None = None


class Try(Struct, eq=False):
    """One attempt."""

    number: int
    id: str
    started: Window
    begun: bool
    link: Link | None = None
    requests: int = 0
    extra: int = 0
    calls: dict[str, int] = {}
    phases: dict[str, int] = {}
    done: Window = UNKNOWN
    ending: str | None = None
    error: Error | None = None
    events: list[Event] = []
    source: dict[str, Raw] = {}
    messages: list[Message] = []
    any_tool: bool = False
    first_tool: int | None = None  # when its first call began, if that call has an exact clock of its own
    last_tool: int | None = None
    low: int | None = None
    high: int | None = None
    begin: int | None = None  # set when the run ends
    stop: int | None = None
    earliest: int | None = None  # of the spans in it
    latest: int | None = None


class Tools:
    """The executions that a record lists, in order, each read when it is asked for. Of those that others were asked for before, the texts are kept, by call id."""

    def __init__(self, listed: Sequence[Raw] = (), only: set[str | None] | None = None) -> None:
        self._rest = iter(enumerate(listed))
        self._only = only
        self._passed: dict[str | None, deque[tuple[int, Raw]]] = {}
        self._front = 0

    def _next(self) -> tuple[int, Execution] | None:
        for place, raw in self._rest:
            try:
                found = execution(raw)
            except msgspec.DecodeError:
                continue
            if self._only is None or found[0].tool_call_id in self._only:
                return place, found
        return None

    def take(self, call: str | None) -> Execution | None:
        """The next execution of the call with this id, taken out."""
        held = self._passed.get(call)
        if held:
            return execution(held.popleft()[1])
        while (found := self._next()) is not None:
            place, (tool, raw) = found
            if tool.tool_call_id == call:
                return tool, raw
            self._passed.setdefault(tool.tool_call_id, deque()).append((place, raw))
        return None

    def back(self, one: Execution) -> None:
        """It was not wanted: it comes before all others."""
        self._front -= 1
        self._passed.setdefault(one[0].tool_call_id, deque()).appendleft((self._front, one[1]))

    def rest(self) -> Iterator[Execution]:
        """The executions that are left, in order, taken out."""
        left = sorted((x for held in self._passed.values() for x in held), key=itemgetter(0))
        self._passed = {}
        for _, raw in left:
            yield execution(raw)
        while (found := self._next()) is not None:
            yield found[1]


class Plan(Struct, eq=False):
    """What a record adds to the events of its run (or has to say alone): turns, executions of tools by call, and how many RunStarted there are."""

    turns: Turns = field(default_factory=Turns)
    tools: Tools = field(default_factory=Tools)
    starts: int = 0
    by_events: Counter[str] = field(default_factory=Counter)
    waits: set[str] = set()
    members: list[Any] = []
