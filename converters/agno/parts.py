"""The pieces of a run that is open: trace, call, request, phase, attempt, and the plan that a record makes for its events. Data only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Raw

from .. import ids, jsonio
from ..model import ABSENT, AnySpan, Chunk, Error, Event, History, Link, Message, Outcome, Status, ToolCallPart, Usage, Value
from .messages import Answer, Turn
from .schema import Asked, Tool
from .times import NO_CLOCKS, UNKNOWN, Clocks, Window, clocks

FAMILY: Final = "agno"
DELEGATES: Final = ("delegate", "transfer_task", "execute_task", "run_member", "run_workflow")
"""Tools that hand work to a member begin with one of these, in whichever version."""


@dataclass
class Trace:
    """A trace being written: where its spans go, and the workflow steps that are open in it."""

    id: str
    root: str
    put: Callable[[Trace, AnySpan], None]
    name: str | None = None
    session: str | None = None
    started: int | None = None
    headed: bool = False
    wanted: bool | None = None
    held: list[AnySpan] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    steps: dict[str, str] = field(default_factory=dict)
    open: int = 0

    def span(self, *path: str) -> str:
        return ids.span_id(self.id, *path)


@dataclass
class Call:
    """One execution of a tool."""

    id: str
    key: str
    name: str
    call_id: str | None
    parent: str
    requested_by: str | None
    tool: Tool | None = None
    raw: Raw = field(default_factory=lambda: ABSENT)
    first: Raw = field(default_factory=lambda: ABSENT)  # the tool as the start showed it
    odd: dict[str, Raw] = field(default_factory=dict)
    answer: Answer | None = None
    started: Window = UNKNOWN
    done: Window = UNKNOWN
    begun: bool = False
    over: bool = False
    after: int | None = None
    text: str | None = None
    error: str | None = None
    failed: bool = False
    custom: int = 0
    children: list[Window] = field(default_factory=list)
    open_children: int = 0
    claimed: bool = False
    waiting: list[Any] = field(default_factory=list)
    ending: list[Any] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    source: dict[str, Raw] = field(default_factory=dict)
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


@dataclass
class Request:
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
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    asked: list[ToolCallPart] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    answers: list[Message] = field(default_factory=list)
    unran: list[Call] = field(default_factory=list)
    response_id: str | None = None
    content: Raw = field(default_factory=lambda: ABSENT)
    error: Error | None = None
    source: dict[str, Raw] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    input: list[Message] = field(default_factory=list)
    output: list[Message] = field(default_factory=list)
    history: History | None = None


@dataclass
class OpenPhase:
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
    input: Raw = field(default_factory=lambda: ABSENT)
    output: Raw = field(default_factory=lambda: ABSENT)
    error: Error | None = None
    status: Status = "unset"
    events: list[Event] = field(default_factory=list)
    source: dict[str, Raw] = field(default_factory=dict)
    attributes: dict[str, Value] = field(default_factory=dict)
    children: list[Window] = field(default_factory=list)
    step: str | None = None
    group: str | None = None
    claimed: bool = False
    above: OpenPhase | None = None


@dataclass
class Try:
    """One attempt."""

    number: int
    id: str
    started: Window
    begun: bool
    link: Link | None = None
    requests: int = 0
    extra: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    done: Window = UNKNOWN
    ending: str | None = None
    error: Error | None = None
    events: list[Event] = field(default_factory=list)
    source: dict[str, Raw] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    any_tool: bool = False
    first_tool: int | None = None  # when its first call began, if that call has an exact clock of its own
    last_tool: int | None = None
    low: int | None = None
    high: int | None = None
    begin: int | None = None  # set when the run ends
    stop: int | None = None
    earliest: int | None = None  # of the spans in it
    latest: int | None = None


@dataclass
class Plan:
    """What a record adds to the events of its run (or has to say alone): turns, tools in order, and how many RunStarted there are."""

    turns: list[Turn]
    tools: list[tuple[Tool, dict[str, Raw], Raw]]
    trailing: list[Message] = field(default_factory=list)
    starts: int = 0
    by_events: Counter[str] = field(default_factory=Counter)
    waits: set[str] = field(default_factory=set)
    at: int = 0
    members: list[Any] = field(default_factory=list)
    streamed: bool = True

    def tool(self, call: str | None) -> tuple[Tool, dict[str, Raw], Raw] | None:
        """The next execution of the call with this id, taken out."""
        for i, (tool, _, _) in enumerate(self.tools):
            if tool.tool_call_id == call:
                return self.tools.pop(i)
        return None
