"""A run that is going on, in the terminal: what is complete, as it comes.

For a pipe one line a span (`lines`); for a terminal a tree of the last spans under a summary of each run (`View`, drawn by `watch`). What is kept is bounded:
counts of the last runs, and the text of the last spans, never the spans.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..converters import clock
from ..converters.inputs import Input, inputs_of, items
from ..converters.model import AnySpan, Attempt, Item, ModelRequest, Run, TraceHeader, kind_of
from ..converters.registry import ReadOptions
from ..converters.text import printable
from . import terminal
from .batch import Tally
from .otlp.sender import Stop
from .pipeline import pumped
from .terminal import COLOURS, WORDS, Choice

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

REDRAW: Final = 0.25
"""Seconds between two pictures."""
RUNS: Final = 8
"""Runs that are summarised one by one, the latest; of older ones the number is kept."""
SPANS: Final = 200
"""Spans that a picture can hold, the latest."""


def shown(span: AnySpan, choice: Choice) -> bool:
    """Whether ``choice`` picks a span. What stands above and below it is not known while a run goes on."""
    return (choice.kinds is None or kind_of(span) in choice.kinds) and (not choice.errors or terminal.failed(span))


def name_of(span: AnySpan) -> str:
    """The name of a span that stands without those above it: an attempt says of what."""
    return printable(span.name) if isinstance(span, Attempt) and span.name else terminal.label(span)


def lines(items: Iterable[Item | None], choice: Choice, most: int | None = None) -> Iterator[str]:
    """For a pipe: when a span ended, and its line. With ``most``, content below it."""
    for item in items:
        if item is None:
            continue
        if isinstance(item, TraceHeader):
            yield printable(" · ".join(["trace " + item.id, item.family, *([item.name] if item.name else [])]))
        elif shown(item, choice):
            when = item.end if item.end is not None else item.start
            first, *rest = terminal.row_lines(terminal.Row(item, 0, (), name=name_of(item)), most)
            yield f"{_hour(when)}  {first}"
            yield from ("  " + line for line in rest)


def _hour(ns: int | None) -> str:
    """The time of day, UTC."""
    return "--:--:--" if ns is None else clock.to_iso(ns)[11:19] or "--:--:--"


@dataclass
class _Summary:
    """What is known of one run while it goes on."""

    header: TraceHeader
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    input: int = 0
    output: int = 0
    cost: float = 0.0
    first: int | None = None
    last: int | None = None
    ending: str | None = None

    def take(self, span: AnySpan) -> None:
        kind = kind_of(span)
        self.done[kind] += 1
        self.failed[kind] += terminal.failed(span)
        if isinstance(span, ModelRequest) and span.usage is not None and not span.reused:
            self.input += span.usage.input or 0
            self.output += span.usage.output or 0
            self.cost += span.usage.cost or 0.0
        if span.start is not None and (self.first is None or span.start < self.first):
            self.first = span.start
        if span.end is not None and (self.last is None or span.end > self.last):
            self.last = span.end
        if isinstance(span, Run) and span.parent_id is None:
            self.ending = terminal.outcome_of(span) or "ended"

    def text(self) -> Text:
        from rich.text import Text

        found = Text(printable(self.header.name or f"trace {self.header.id}"), style="bold")
        found.append(f"  {self.ending or 'going on'}", "bold yellow" if self.ending is None else "bold")
        if self.first is not None and self.last is not None:
            found.append(f"  {terminal.duration(self.last - self.first)}")
        for kind, word in WORDS.items():
            if kind == "run" or not self.done[kind]:
                continue
            found.append(f"  {self.done[kind]:,} {word}{'' if self.done[kind] == 1 else 's'}", COLOURS[kind])
            if self.failed[kind]:
                found.append(f" ({self.failed[kind]:,} ✗)", "bold red")
        if self.input or self.output:
            found.append(f"  {self.input:,}→{self.output:,} tokens", "green")
        if self.cost:
            found.append(f"  ${self.cost:.4g}", "yellow")
        return found


@dataclass(frozen=True)
class _Row:
    """The text of a span that was complete."""

    id: str
    parent: str | None
    order: tuple[bool, int]
    word: str
    colour: str
    label: str
    right: str
    failed: bool


class View:
    """What is to be seen of all runs so far. `take` items, `picture` whenever it is to be drawn."""

    def __init__(self, choice: Choice | None = None) -> None:
        self._choice = choice or Choice()
        self._runs: OrderedDict[str, _Summary] = OrderedDict()
        self._older = 0
        self._rows: deque[_Row] = deque(maxlen=SPANS)

    def take(self, item: Item) -> None:
        """One more header or complete span."""
        if isinstance(item, TraceHeader):
            if item.id not in self._runs:
                self._runs[item.id] = _Summary(item)
                if len(self._runs) > RUNS:
                    ended = next((k for k, r in self._runs.items() if r.ending is not None), next(iter(self._runs)))
                    del self._runs[ended]
                    self._older += 1
            return
        if (run := self._runs.get(item.trace_id)) is not None:
            run.take(item)
        if shown(item, self._choice):
            self._rows.append(_row(item))

    def picture(self, width: int, height: int) -> RenderableType:
        """At most ``height`` lines: a summary of each run, and the last spans as a tree, the latest at the bottom."""
        from rich.console import Group
        from rich.text import Text

        found = [run.text() for run in list(self._runs.values())[-max(1, height // 3) :]]
        if hidden := self._older + len(self._runs) - len(found):
            found.insert(0, Text(f"and {hidden:,} more runs", style="dim"))
        if not found:
            found.append(Text("waiting for the first event", style="dim"))
        room = max(0, height - len(found))
        if room:
            found += self._tree(room, width)
        for line in found:
            line.truncate(width, overflow="ellipsis")
            line.no_wrap = True
        return Group(*found)

    def _tree(self, room: int, width: int) -> list[Text]:
        """The latest rows that ``room`` lines can hold, with the lines that stand for parents that are not complete."""
        for count in range(min(len(self._rows), room), 0, -1):
            drawn = _drawn(list(self._rows)[-count:], width)
            if len(drawn) <= room:
                return drawn
        return []


def _row(span: AnySpan) -> _Row:
    right = [terminal.time_of(span), terminal.outcome_of(span), terminal.tokens_of(span), terminal.cost_of(span), terminal.error_of(span)]
    kind = kind_of(span)
    return _Row(
        id=span.id,
        parent=span.parent_id,
        order=(span.start is None, span.start or 0),
        word=WORDS[kind],
        colour=COLOURS[kind],
        label=name_of(span)[:500],
        right="  ".join(x for x in right if x)[:500],
        failed=terminal.failed(span),
    )


def _drawn(rows: list[_Row], width: int) -> list[Text]:
    """Rows as a tree. Those whose parent is not among them stand together below a line for it."""
    from rich.text import Text

    ids = {row.id for row in rows}
    below: dict[str | None, list[_Row]] = {}
    for row in rows:
        below.setdefault(row.parent, []).append(row)
    found: list[Text] = []
    seen: set[str] = set()

    def draw(top: _Row, depth: int) -> None:
        stack = [(top, depth)]
        while stack:
            row, level = stack.pop()
            if row.id in seen:
                continue
            seen.add(row.id)
            line = Text("  " * min(level, width // 8))
            line.append(f"{row.word} ", "dim")
            line.append(row.label, "red" if row.failed else row.colour)
            line.append(f"  {row.right}", "red" if row.failed else "dim")
            found.append(line)
            stack += [(child, level + 1) for child in sorted(below.get(row.id, ()), key=lambda r: r.order, reverse=True)]

    for parent in [p for p in below if p not in ids]:
        if parent is not None:
            found.append(Text("…", style="dim"))
        for row in sorted(below[parent], key=lambda r: r.order):
            draw(row, 0 if parent is None else 1)
    for row in rows:  # spans that are their own ancestors
        draw(row, 0)
    return found


def follow(source: Any, *, format: str | None = None, tally: Tally, stop: Stop) -> Iterator[Item | None]:
    """The items of ``source`` (see `spanport.export`) as they come, while its inputs grow; None when nothing comes for the moment. Setting ``stop`` ends the reading, which gives
    out what is open."""
    options = ReadOptions(follow=True, stop=lambda: bool(stop.enough or stop))

    def read(one: Input) -> Iterator[Item]:
        with tally.input(one) as report:
            yield from items(one, report, format, options)

    with tally:
        yield from pumped([lambda one=one: read(one) for one in inputs_of(source, format)], lambda: bool(stop))  # type: ignore[misc]
        tally.end()


def watch(items: Iterable[Item | None], console: Console, choice: Choice) -> None:
    """Draw ``items`` as they come; a None among them means that nothing comes for the moment. The last picture stays."""
    from rich.live import Live

    view = View(choice)

    def picture() -> RenderableType:
        return view.picture(console.width, max(1, console.height - 1))

    with Live(picture(), console=console, auto_refresh=False, vertical_overflow="crop") as live:
        drawn = time.monotonic()
        try:
            for item in items:
                if item is not None:
                    view.take(item)
                if (now := time.monotonic()) - drawn >= REDRAW:
                    drawn = now
                    live.update(picture(), refresh=True)
        finally:
            live.update(picture(), refresh=True)


__all__ = ["View", "lines", "watch"]
