"""The matrix of formats × levels in the README, made from what readers and writers do: ``python tests/conformance/levels.py`` writes it anew.

A level is read when a fixture or a probe of the format gives it, and written when a run that has all levels still has it after it was written in the format and
read again (without a carry).
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the kit's own modules, which are no package
from conformance_probes import PROBES
from spanport.converters import registry
from spanport.converters.errors import Report, SpanportError
from spanport.converters.model import (
    AnySpan,
    Attempt,
    Item,
    Message,
    ModelRequest,
    Phase,
    Run,
    Task,
    TextPart,
    ToolCall,
    ToolCallPart,
    TraceHeader,
    Usage,
    raw,
)
from spanport.converters.registry import Format, WriteOptions
from spanport.converters.source import Source, source_of

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- levels: made by tests/conformance/levels.py -->", "<!-- /levels -->"
LEVELS = ("run", "attempt", "phase", "request", "tool", "tokens", "times", "content")
TRACE = "0123456789abcdef0123456789abcdef"
T = 1_790_000_000_123_456_000
MOST = 60
"""Fixtures of a format that are looked at."""


def whole() -> list[Item]:
    """A run that has all levels."""

    def ids(n: int, parent: int | None) -> dict[str, str | None]:
        return {"id": f"{n:016x}", "trace_id": TRACE, "key": str(n), "parent_id": f"{parent:016x}" if parent else None}

    ask = Message(role="user", parts=[TextPart("question")], time=T)
    answer = Message(role="assistant", parts=[TextPart("look"), ToolCallPart("look", "c1", raw({"q": 1}))], time=T + 2_000_000)
    return [
        TraceHeader(id=TRACE, family="levels", format="spanport", run_key=["k"]),
        ModelRequest(
            **ids(4, 3), name="m", model="m", start=T + 1_000_000, end=T + 2_000_000, usage=Usage(input=10, output=5), input_messages=[ask],
            output_messages=[answer], finish_reasons=["tool_calls"],
        ),
        ToolCall(
            **ids(5, 3), name="look", call_id="c1", start=T + 2_000_000, end=T + 3_000_000, arguments=raw({"q": 1}), result=raw("found"), status="ok",
            requested_by=f"{4:016x}",
        ),
        Phase(**ids(3, 2), name="run_harness", type="agent", start=T + 500_000, end=T + 3_500_000, status="ok"),
        Attempt(**ids(2, 6), name="attempt 1", number=1, agent="a", start=T, end=T + 4_000_000, status="ok", ending="completed"),
        Task(**ids(6, 1), name="t", native_id="t", start=T, end=T + 4_000_000, status="ok", ending="completed"),
        Run(**ids(1, None), name="b", native_id="k", type="benchmark", start=T, end=T + 5_000_000, status="ok", ending="completed", model="m"),
    ]  # fmt: skip


def levels(items: Iterable[Item]) -> set[str]:
    """Which levels the items have."""
    found: set[str] = set()
    for item in items:
        if isinstance(item, TraceHeader):
            continue
        found |= _of(item)
    return found


def _of(span: AnySpan) -> set[str]:
    found = {"times"} if span.start is not None and span.clock != "synthetic" else set()
    kinds = {Run: "run", Attempt: "attempt", Phase: "phase", ModelRequest: "request", ToolCall: "tool"}
    if span.__class__ in kinds:
        found.add(kinds[span.__class__])
    if getattr(span, "usage", None) is not None:
        found.add("tokens")
    if any(
        getattr(span, name, None) for name in ("messages", "input_messages", "output_messages", "arguments", "result", "input", "output")
    ):
        found.add("content")
    return found


def fixtures(format: Format) -> Iterable[Source]:
    """Records of the format: the probes and the fixtures."""
    yield from (source_of(p.record) for probe in PROBES if (p := probe()).format == format.name)
    taken = 0
    for path in sorted((ROOT / "fixtures").rglob("*")):
        if (
            taken >= MOST
            or (path.is_file() and path.stat().st_size > 200_000)
            or (path.is_dir() and not format.folder and format.name != "agentcompass")
        ):
            continue
        try:
            source = source_of(path)
            if registry.detect(source).name == format.name:
                taken += 1
                yield source
        except (SpanportError, OSError):
            continue


def read(format: Format) -> set[str]:
    """Levels that its reader gives."""
    if format.reader is None:
        return set()
    if format.name == "spanport":
        return set(LEVELS)
    found: set[str] = set()
    for source in fixtures(format):
        try:
            found |= levels(format.read(source, Report()))
        except SpanportError:
            continue
        if found >= {*LEVELS}:
            break
    return found | (write(format) if format.name.startswith("otlp") else set())


def write(format: Format) -> set[str]:
    """Levels that are still there after writing and reading again."""
    if format.writer is None:
        return set()
    held = io.BytesIO()
    options = WriteOptions(carry=False)
    if format.reader is None:  # a table: what has a column
        return {*LEVELS}
    try:
        format.write(whole(), held, Report(), options)
        return levels(format.read(source_of(held.getvalue()), Report()))
    except SpanportError:
        with tempfile.TemporaryDirectory() as folder:
            format.write(whole(), held, Report(), WriteOptions(carry=False, extra={"folder": Path(folder)}))
            return levels(format.read(source_of(Path(folder)), Report()))


def table() -> str:
    """The matrix as Markdown."""
    rows = ["| format | " + " | ".join(LEVELS) + " |", "|---|" + "---|" * len(LEVELS)]
    for format in registry.formats().values():
        r, w = read(format), write(format)
        cells = ["read, write" if x in r and x in w else "read" if x in r else "write" if x in w else "–" for x in LEVELS]
        rows.append(f"| `{format.name}` | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def put(text: str) -> str:
    """The README with the matrix of today."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n\n{table()}\n\n{end}{after}" if begin and end else text


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(put(readme.read_text()))
    print(table())
