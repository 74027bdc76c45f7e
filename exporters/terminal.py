"""A trace as a tree in the terminal: which spans are shown (`Choice`), what stands in a line, and the two ways to draw it: plain lines for
a pipe, and a coloured tree with a waterfall for a terminal.

What comes from a record is never written as it is: control characters are shown escaped, so that a record can't drive the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from ..converters import clock
from ..converters.errors import SpanportError
from ..converters.inputs import inputs_of
from ..converters.jsonio import minify, text
from ..converters.model import (
    AnySpan,
    Artifact,
    Attempt,
    BlobPart,
    FilePart,
    GenericPart,
    Message,
    ModelRequest,
    Part,
    Phase,
    ReasoningPart,
    Run,
    Task,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    Trace,
    UriPart,
    Usage,
    kind_of,
)
from ..converters.text import printable
from .batch import Tally, alone
from .stats import Totals, count

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WORDS = {"run": "run", "task": "task", "attempt": "attempt", "phase": "phase", "model_request": "request", "tool_call": "tool"}
"""What a kind is called in a line, and by ``--kind``."""
COLOURS = {
    "run": "bold cyan",
    "task": "blue",
    "attempt": "magenta",
    "phase": "yellow",
    "model_request": "green",
    "tool_call": "bright_blue",
}
_BARS = {"recorded": "━", "derived": "╍", "synthetic": "┄"}


def duration(ns: int) -> str:
    """A span's length for people: 12 µs, 3.4 ms, 1.25 s, 2 m 03 s, 1 h 05 m."""
    if ns < 0:
        return f"-{duration(-ns)}"
    if ns < 1_000_000:
        return f"{ns / 1000:.0f} µs"
    if ns < 1_000_000_000:
        return f"{ns / 1e6:.1f} ms"
    if ns < 120 * 1_000_000_000:
        return f"{ns / 1e9:.2f} s"
    minutes, seconds = divmod(ns // 1_000_000_000, 60)
    return f"{minutes} m {seconds:02} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} m"


# ------------------------------------------------------------------------------------------------ which spans
@dataclass(frozen=True)
class Choice:
    """Which spans are shown. ``depth``: levels, 1 is the roots. ``kinds``: names of kinds; others are left out and their children move up.
    ``errors``: spans with an error, and what stands above them. ``task``: a pattern for a task's name, native id or key; ``attempt``: its
    number. Above and below what these pick, everything is shown."""

    depth: int | None = None
    kinds: frozenset[str] | None = None
    errors: bool = False
    task: str | None = None
    attempt: int | None = None


@dataclass
class Row:
    """One line: ``depth`` from 0, ``last`` for each level whether no sibling follows, and how many spans ``below`` it are not shown.
    ``name``: what it is called where that is not its `label`."""

    span: AnySpan
    depth: int
    last: tuple[bool, ...]
    below: int = 0
    name: str | None = None


def failed(span: AnySpan) -> bool:
    """Whether a span is an error: by its status, or a tool call's outcome."""
    return span.status == "error" or (isinstance(span, ToolCall) and span.outcome in ("error", "rejected", "aborted"))


def tree(trace: Trace) -> Iterator[tuple[int, AnySpan]]:
    """Spans depth first, siblings by start, with their depth. A span whose parent is not in the trace stands at the top."""
    for row in rows(trace):
        yield row.depth, row.span


def show(
    source: Any,
    choice: Choice | None = None,
    *,
    write: Callable[[str], object] = print,
    console: Console | None = None,
    most: int | None = None,
    format: str | None = None,
    tally: Tally | None = None,
) -> None:
    """Each trace of ``source`` (see `spanport.export`) as a tree: plain lines that go to ``write``, or drawn on ``console``. ``most``: characters of each content below
    its span; None shows none, 0 all. ``tally``: how the inputs went; without one an input that can't be read raises ReadError. SpanportError when the task
    or attempt of ``choice`` is in none of them."""
    tally, choice = tally or alone(), choice or Choice()
    fitted = choice.task is None and choice.attempt is None
    with tally:
        for trace, _ in tally.traces(inputs_of(source, format), format):
            fitted = fitted or fits(trace, choice)
            if console is not None:
                draw(trace, console, choice, most=most)
                continue
            for line in lines(trace, choice, most=most):
                write(line)
    if not fitted and not tally.status():
        asked = [f"--{name} {given}" for name, given in (("task", choice.task), ("attempt", choice.attempt)) if given is not None]
        raise SpanportError(f"nothing fits {' '.join(asked)}")


def rows(trace: Trace, choice: Choice | None = None) -> Iterator[Row]:
    """The lines of ``trace`` that ``choice`` picks, from the top."""
    choice = choice or Choice()
    below = children(trace.spans)
    kept = _kept(trace, below, choice)

    def shown(spans: Iterable[AnySpan]) -> list[AnySpan]:
        found: list[AnySpan] = []
        stack = list(reversed(list(spans)))
        while stack:
            span = stack.pop()
            if kept is not None and span.id not in kept:
                continue
            if choice.kinds is None or kind_of(span) in choice.kinds:
                found.append(span)
            else:
                stack.extend(reversed(below.get(span.id, [])))
        return found

    top = shown(below.get(None, []))
    stack = [Row(span, 0, (i == len(top) - 1,)) for i, span in enumerate(top)][::-1]
    while stack:
        row = stack.pop()
        under = shown(below.get(row.span.id, []))
        if choice.depth is not None and row.depth + 1 >= choice.depth:
            row.below, under = _size(under, lambda s: shown(below.get(s.id, []))), []
        yield row
        stack.extend([Row(span, row.depth + 1, (*row.last, i == len(under) - 1)) for i, span in enumerate(under)][::-1])


def children(spans: Iterable[AnySpan]) -> dict[str | None, list[AnySpan]]:
    """Spans by their parent's id, siblings by start; under None those whose parent is not there. Spans that are their own ancestors stand
    at the top too, so that each is reached once."""
    spans = list(spans)
    parents = {s.id: s.parent_id for s in spans}
    rooted: set[str] = set()
    tops: set[str] = set()
    for span in spans:
        path: list[str] = []
        here: str | None = span.id
        seen: set[str] = set()
        while here is not None and here in parents and here not in rooted and here not in seen:
            seen.add(here)
            path.append(here)
            here = parents[here]
        if here is not None and here in seen:
            tops.add(here)
        rooted.update(path)
    found: dict[str | None, list[AnySpan]] = {}
    for span in spans:
        found.setdefault(span.parent_id if span.parent_id in parents and span.id not in tops else None, []).append(span)
    for group in found.values():
        group.sort(key=lambda s: (s.start is None, s.start or 0))
    return found


def _size(spans: list[AnySpan], under: Callable[[AnySpan], list[AnySpan]]) -> int:
    count, stack = 0, list(spans)
    while stack:
        count += 1
        stack.extend(under(stack.pop()))
    return count


def _kept(trace: Trace, below: dict[str | None, list[AnySpan]], choice: Choice) -> set[str] | None:
    """Ids that the picks leave; None for all."""
    kept: set[str] | None = None
    spans = {s.id: s for s in trace.spans}

    def keep(picked: Iterable[AnySpan], subtree: bool) -> None:
        nonlocal kept
        ids: set[str] = set()
        for span in picked:
            stack = [span]
            while stack:
                one = stack.pop()
                ids.add(one.id)
                if subtree:
                    stack.extend(s for s in below.get(one.id, []) if s.id not in ids)
            up = span.parent_id
            while up in spans and up not in ids:
                ids.add(up)
                up = spans[up].parent_id
        kept = ids if kept is None else kept & ids

    if choice.task is not None:
        keep([s for s in trace.spans if isinstance(s, Task) and task_fits(s, choice.task)], True)
    if choice.attempt is not None:
        keep([s for s in trace.spans if isinstance(s, Attempt) and s.number == choice.attempt], True)
    if choice.errors:
        keep([s for s in trace.spans if failed(s)], False)
    return kept


def fits(trace: Trace, choice: Choice) -> bool:
    """Whether the trace holds a task and an attempt that are asked for."""
    tasks = choice.task is None or any(isinstance(s, Task) and task_fits(s, choice.task) for s in trace.spans)
    return tasks and (choice.attempt is None or any(isinstance(s, Attempt) and s.number == choice.attempt for s in trace.spans))


def task_fits(span: Task, pattern: str) -> bool:
    """Whether a task's name, native id or key is, or fits, ``pattern``."""
    return any(n == pattern or fnmatchcase(n, pattern) for n in (span.name, span.native_id, span.key) if n is not None)


# ------------------------------------------------------------------------------------------- what stands in a line
def label(span: AnySpan) -> str:
    """The name in a line, beside the kind's word."""
    if isinstance(span, Attempt):
        return str(span.number) + (f" {printable(span.agent)}" if span.agent else "")
    if isinstance(span, ModelRequest):
        return printable(span.model or span.response_model or span.name) or "(model not stated)"
    if isinstance(span, ToolCall) and span.server:
        return printable(f"{span.server}/{span.name}")
    return printable(span.name or span.key)


def time_of(span: AnySpan) -> str:
    """The duration, with ``~`` when it was worked out, ``≈`` when it was made up."""
    if span.start is None or span.end is None:
        return "no end" if span.start is not None else "no time"
    mark = {"recorded": "", "derived": "~", "synthetic": "≈"}[span.clock]
    return mark + duration(span.end - span.start)


def outcome_of(span: AnySpan) -> str:
    """The status, or what became of a tool call, or a run's own word for its end; "" when nothing is stated."""
    if isinstance(span, ToolCall):
        return span.outcome
    ending = span.ending if isinstance(span, Run | Task | Attempt) else None
    verdict = span.verdict if isinstance(span, Run | Task | Attempt) else None
    status = span.status if span.status != "unset" else "unfinished" if span.unfinished else ""
    return printable(", ".join(dict.fromkeys(x for x in (status, ending, verdict) if x)))


def tokens_of(span: AnySpan) -> str:
    """``input→output``: of a model request, or the sum that the source states for a run or an attempt."""
    usage: Usage | None = getattr(span, "usage", None)
    if usage is None or (usage.input is None and usage.output is None):
        return ""
    return f"{_count(usage.input)}→{_count(usage.output)}"


def cost_of(span: AnySpan) -> str:
    """US dollars, when the source states them."""
    usage: Usage | None = getattr(span, "usage", None)
    return "" if usage is None or usage.cost is None else f"${usage.cost:.4g}"


def _count(n: int | None) -> str:
    return "?" if n is None else f"{n:,}" if n < 100_000 else f"{n / 1000:,.0f}k"


def error_of(span: AnySpan) -> str:
    """Type and message of an error, in one line."""
    if span.error is None:
        return ""
    found = [x for x in (span.error.type, span.error.message) if x]
    return printable(": ".join(dict.fromkeys(found)).replace("\n", " ⏎ ").replace("\r", ""))


def artifact_line(artifact: Artifact) -> str:
    """``artifact #502 chart — Title``: what stands below the span that made it."""
    kind = artifact.type or artifact.mime_type
    words = [f"artifact #{artifact.id}", kind or "", f"— {artifact.title}" if artifact.title else ""]
    words += [f"({artifact.operation})"] if artifact.operation != "create" else []
    return printable(" ".join(w for w in words if w))[:200]


def title(trace: Trace) -> str:
    """The line above a tree. Tokens are those of `spanport.stats`, cost likewise."""
    totals = Totals()
    count(trace.spans, totals)
    starts = [s.start for s in trace.spans if s.start is not None]
    ends = [s.end for s in trace.spans if s.end is not None]
    words = [f"trace {trace.header.id}", trace.header.family, f"{len(trace.spans):,} spans"]
    if starts:
        words.append(clock.to_iso(min(starts))[:19] + " UTC")
    if starts and ends:
        words.append(duration(max(ends) - min(starts)))
    into, out = totals.tokens.get("input"), totals.tokens.get("output")
    if into is not None or out is not None:
        words.append(f"{'?' if into is None else f'{into:,}'}→{'?' if out is None else f'{out:,}'} tokens")
    groups = totals.tables.get("run") or totals.tables.get("model") or {}
    if costs := [g.cost for g in groups.values() if g.cost is not None]:
        words.append(f"${sum(costs):.4g}")
    return printable(" · ".join(words))


# ------------------------------------------------------------------------------------------------------- content
def content(span: AnySpan, most: int = 2000) -> Iterator[tuple[str, str]]:
    """Heading and text of what a span holds: messages, arguments, results, input and output. ``most`` characters of each (0: all)."""
    for heading, body in _content(span):
        whole = "\n".join(printable(line) for line in body.replace("\r\n", "\n").split("\n"))
        yield heading, whole if not most or len(whole) <= most else f"{whole[:most]}… ({len(whole) - most:,} characters more)"


def _content(span: AnySpan) -> Iterator[tuple[str, str]]:
    if isinstance(span, ModelRequest):
        for part in span.system_instructions:
            yield "system", _part(part)
        if span.history is not None and span.history.count:
            yield "input", f"({span.history.count} messages as before)"
        yield from _messages(span.input_messages)
        yield from _messages(span.output_messages, "→ ")
    elif isinstance(span, ToolCall):
        yield from _raw("arguments", span.arguments)
        yield from _raw("result", span.result)
    elif isinstance(span, Run | Task | Attempt | Phase):
        yield from _raw("input", span.input)
        if isinstance(span, Attempt):
            yield from _messages(span.messages)
        yield from _raw("output", span.output)
        if isinstance(span, Task):
            yield from _raw("expected", span.expected)


def _raw(heading: str, raw: Raw) -> Iterator[tuple[str, str]]:
    if raw:
        plain = text(raw)
        yield heading, minify(raw).decode("utf-8", "replace") if plain is None else plain


def _messages(messages: list[Message], mark: str = "") -> Iterator[tuple[str, str]]:
    for message in messages:
        yield mark + printable(message.role), "\n".join(_part(part) for part in message.parts)


def _part(part: Part) -> str:
    match part:
        case TextPart():
            return part.content
        case ReasoningPart():
            return f"(reasoning) {part.content}"
        case ToolCallPart():
            return f"calls {part.name} {minify(part.arguments).decode('utf-8', 'replace')}"
        case ToolCallResponsePart():
            plain = text(part.response)
            return minify(part.response).decode("utf-8", "replace") if plain is None else plain
        case BlobPart():
            return f"({part.modality}, {part.mime_type or 'type not stated'}, {len(part.content):,} characters of base64)"
        case UriPart():
            return f"({part.modality}: {part.uri})"
        case FilePart():
            return f"({part.modality}: file {part.file_id})"
        case GenericPart():
            return f"({part.generic_type or 'part'}) {minify(part.content).decode('utf-8', 'replace')}"


# ------------------------------------------------------------------------------------------------------- drawing
def lines(trace: Trace, choice: Choice | None = None, *, most: int | None = None) -> Iterator[str]:
    """The tree for a pipe, one line a span: kind, name, duration, status, tokens, cost, error. With ``most``, content below each."""
    yield title(trace)
    for row in rows(trace, choice):
        yield from row_lines(row, most)


def row_lines(row: Row, most: int | None = None) -> Iterator[str]:
    """One span for a pipe, with its artifacts and, with ``most``, its content below it."""
    span = row.span
    indent = "  " * row.depth
    parts = [f"{indent}{WORDS[kind_of(span)]} {row.name or label(span)}", time_of(span), outcome_of(span), tokens_of(span), cost_of(span)]
    if parts[3]:
        parts[3] += " tokens"
    parts += [error_of(span), f"(+{row.below:,} spans below)" if row.below else ""]
    yield "  ".join(p for p in parts if p)
    for artifact in span.artifacts:
        yield f"{indent}  {artifact_line(artifact)}"
    if most is not None:
        for heading, body in content(span, most):
            for i, line in enumerate(body.split("\n")):
                yield f"{indent}    {heading + ': ' if i == 0 else '  '}{line}"


def draw(trace: Trace, console: Console, choice: Choice | None = None, *, most: int | None = None) -> None:
    """The tree for a terminal of any width, coloured by kind and status, with a waterfall where there is room for one."""
    from rich.text import Text

    width = console.width
    found = list(rows(trace, choice))
    times = [t for r in found for t in (r.span.start, r.span.end) if t is not None]
    window = (min(times), max(times)) if times else (0, 0)
    right = [(time_of(r.span), tokens_of(r.span), cost_of(r.span)) for r in found]
    sizes = [max((len(x[i]) for x in right), default=0) for i in range(3)]
    if width < 70:  # what can be left out goes first
        sizes[1:] = [0, 0]
    fixed = sum(s + 1 for s in sizes if s)
    bar = 0 if width - fixed < 50 else min(60, (width - fixed) // 3)
    room = max(12, width - fixed - (bar + 1 if bar else 0))
    console.print(Text(title(trace), style="bold"))
    for row, (time, tokens, cost) in zip(found, right, strict=True):
        line = _label(row, room)
        if bar:
            line.append(" ")
            line.append_text(_bar(row.span, window, bar))
        line.append(f" {time:>{sizes[0]}}", "dim" if row.span.clock != "recorded" else "")
        if sizes[1]:
            line.append(f" {tokens:>{sizes[1]}}", "green")
        if sizes[2]:
            line.append(f" {cost:>{sizes[2]}}", "yellow")
        console.print(line, no_wrap=True, overflow="crop", crop=True)
        guide = _guide(row, below=True)
        if (error := error_of(row.span)) and failed(row.span):
            console.print(Text(f"{guide}  {error}", style="red"), no_wrap=True, overflow="ellipsis", crop=True)
        for artifact in row.span.artifacts:
            console.print(Text(f"{guide}  {artifact_line(artifact)}", style="cyan"), no_wrap=True, overflow="ellipsis", crop=True)
        if most is not None:
            for heading, body in content(row.span, most):
                _paragraph(console, guide, heading, body)


def _guide(row: Row, below: bool = False) -> str:
    """The lines of the tree left of a span, or left of what stands below it."""
    if not row.depth:
        return "  " if below else ""
    levels = "".join("  " if last else "│ " for last in row.last[1:-1])
    return levels + (("  " if row.last[-1] else "│ ") if below else ("└ " if row.last[-1] else "├ "))


def _label(row: Row, room: int) -> Text:
    """Tree lines, kind, name and outcome in exactly ``room`` cells."""
    from rich.cells import cell_len
    from rich.text import Text

    span, kind = row.span, kind_of(row.span)
    outcome = outcome_of(span)
    bad = failed(span)
    line = Text(_guide(row), style="")
    line.stylize("dim")
    line.append(f"{WORDS[kind]} ", "dim")
    line.append(label(span), f"{COLOURS[kind]}{' red' if bad else ''}")
    if row.below:
        line.append(f" +{row.below:,}", "dim")
    words = [{"ok": "✓", "error": "✗"}.get(w, w) for w in outcome.split(", ") if w]
    redundant = {"✓": ("completed",), "✗": ("failed", "error")}.get(words[0] if words else "", ())
    words = [w for w in words if w not in redundant]
    tail = "".join(f" {w}" for w in words)
    space = room - cell_len(tail)
    if space < 8:
        tail, space = "", room
    line.truncate(space, overflow="ellipsis")
    line.append(tail, "bold red" if bad else "green" if span.status == "ok" else "yellow")
    line.pad_right(max(0, room - cell_len(line.plain)))
    return line


def _bar(span: AnySpan, window: tuple[int, int], cells: int) -> Text:
    """Where the span lies in the window: whole cells, at least one."""
    from rich.text import Text

    if span.start is None:
        return Text(" " * cells)
    first, last = window
    whole = max(1, last - first)
    end = span.end if span.end is not None else last
    left = min(cells - 1, (span.start - first) * cells // whole)
    right = max(left + 1, min(cells, -(-(end - first) * cells // whole)))
    bar = _BARS[span.clock] * (right - left)
    if span.end is None:
        bar = bar[:-1] + "…"
    found = Text(" " * left)
    found.append(bar, "red" if failed(span) else COLOURS[kind_of(span)].removeprefix("bold "))
    found.pad_right(cells - right)
    return found


def _paragraph(console: Console, guide: str, heading: str, body: str) -> None:
    """Text below a span, wrapped to the width, with the tree's lines left of it."""
    from rich.text import Text

    indent = f"{guide}    "
    wide = max(20, console.width - len(indent) - 1)
    first = True
    for paragraph in body.split("\n"):
        line = Text()
        if first:
            line.append(f"{heading}: ", "bold dim")
            first = False
        line.append(paragraph)
        for piece in line.wrap(console, wide) or [Text("")]:
            console.print(Text.assemble((indent, "dim"), piece), no_wrap=True, overflow="ignore", crop=False)
