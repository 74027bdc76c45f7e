"""Spans as rows. The columns are data (`COLUMNS`); a cell is empty (null in Parquet) where the span does not say. Rows come as spans complete, in bounded memory.

What a table has no column for (messages, events, links, scores, artifacts, attributes, untyped fields) goes to the loss report.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Final, Literal

from msgspec import Raw

from .. import clock
from ..errors import Report, UsageError
from ..jsonio import minify, text
from ..model import AnySpan, Item, TraceHeader, Usage, kind_of
from ..registry import WriteOptions

Type = Literal["text", "time", "int", "float", "bool"]
BATCH: Final = 10_000
"""Rows of one row group of Parquet."""


def _field(*names: str) -> Callable[[AnySpan], Any]:
    def get(span: AnySpan) -> Any:
        for name in names:
            value = getattr(span, name, None)
            if isinstance(value, Raw):
                value = (text(value) or minify(value).decode("utf-8", "replace")) if value else None
            if value not in (None, ""):
                return value
        return None

    return get


def _usage(name: str) -> Callable[[AnySpan], Any]:
    def get(span: AnySpan) -> Any:
        usage = getattr(span, "usage", None)
        return getattr(usage, name) if isinstance(usage, Usage) else None

    return get


def _error(name: str) -> Callable[[AnySpan], Any]:
    return lambda span: getattr(span.error, name) if span.error is not None else None


def _duration(span: AnySpan) -> float | None:
    return None if span.start is None or span.end is None else (span.end - span.start) / 1e9


COLUMNS: Final[tuple[tuple[str, Type, Callable[[AnySpan], Any]], ...]] = (
    ("trace_id", "text", _field("trace_id")),
    ("span_id", "text", _field("id")),
    ("parent_id", "text", _field("parent_id")),
    ("kind", "text", kind_of),
    ("name", "text", _field("name")),
    ("start", "time", _field("start")),
    ("end", "time", _field("end")),
    ("duration_seconds", "float", _duration),
    ("clock", "text", _field("clock")),
    ("unfinished", "bool", lambda span: span.unfinished),
    ("status", "text", _field("status")),
    ("error_type", "text", _error("type")),
    ("error_message", "text", _error("message")),
    ("type", "text", _field("type", "operation")),
    ("number", "int", _field("number", "index")),
    ("ending", "text", _field("ending", "outcome")),
    ("verdict", "text", _field("verdict")),
    ("agent", "text", _field("agent")),
    ("model", "text", _field("model")),
    ("provider", "text", _field("provider")),
    ("server", "text", _field("server")),
    ("call_id", "text", _field("call_id")),
    ("requested_by", "text", _field("requested_by")),
    ("conversation_id", "text", _field("conversation_id")),
    ("user_id", "text", _field("user_id")),
    ("native_id", "text", _field("native_id", "response_id")),
    ("retry", "int", _field("retry")),
    ("inferred", "bool", lambda span: getattr(span, "inferred", None)),
    ("input_tokens", "int", _usage("input")),
    ("output_tokens", "int", _usage("output")),
    ("cache_read_tokens", "int", _usage("cache_read")),
    ("cache_write_tokens", "int", _usage("cache_write")),
    ("reasoning_tokens", "int", _usage("reasoning")),
    ("total_tokens", "int", _usage("total")),
    ("cost_usd", "float", _usage("cost")),
    ("input", "text", _field("arguments", "input")),
    ("output", "text", _field("result", "output")),
)
_IN_COLUMNS: Final = {
    *("id", "trace_id", "key", "parent_id", "name", "start", "end", "clock", "unfinished", "status", "error", "type", "operation"),
    *(
        "number",
        "index",
        "ending",
        "outcome",
        "verdict",
        "agent",
        "model",
        "provider",
        "server",
        "call_id",
        "requested_by",
        "conversation_id",
    ),
    *("user_id", "native_id", "response_id", "retry", "inferred", "usage", "arguments", "input", "result", "output"),
}


def rows(items: Iterable[Item], report: Report) -> Iterator[list[Any]]:
    """The values of each span, in the order of `COLUMNS`; times in ns."""
    for item in items:
        if isinstance(item, TraceHeader):
            for name in (*item.resource, *item.source):
                report.loss(f"trace.{name}", "dropped", reason="a table has rows of spans only")
            continue
        for name in item.__struct_fields__:
            if name not in _IN_COLUMNS and (value := getattr(item, name)):
                report.loss(
                    f"{kind_of(item)}.{name}",
                    "dropped",
                    len(value) if isinstance(value, list | dict) else 1,
                    "a table has no column for it",
                )
        yield [get(item) for _, _, get in COLUMNS]


def write(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions) -> None:
    """CSV in UTF-8 with a header row (times in ISO 8601, UTC), or Parquet when ``options.extra["parquet"]`` is set (times as ``timestamp[ns, UTC]``)."""
    if options.extra.get("parquet"):
        _parquet(rows(items, report), out)
    else:
        _csv(rows(items, report), out)


def _csv(given: Iterable[list[Any]], out: BinaryIO) -> None:
    wrapped = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="", write_through=True)
    table = csv.writer(wrapped, lineterminator="\n")
    table.writerow([name for name, _, _ in COLUMNS])
    times = [i for i, (_, type, _) in enumerate(COLUMNS) if type == "time"]
    for row in given:
        for i in times:
            if row[i] is not None:
                row[i] = clock.to_iso(row[i])
        table.writerow(["" if v is None else str(v).lower() if isinstance(v, bool) else v for v in row])
    wrapped.flush()
    wrapped.detach()


def _parquet(given: Iterable[list[Any]], out: BinaryIO) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'spanport[parquet]'") from None
    types = {"text": pa.string(), "time": pa.timestamp("ns", tz="UTC"), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    schema = pa.schema([(name, types[type]) for name, type, _ in COLUMNS])
    with pq.ParquetWriter(out, schema) as writer:
        held: list[list[Any]] = []

        def flush() -> None:
            columns = [pa.array(column, types[type]) for column, (_, type, _) in zip(zip(*held, strict=True), COLUMNS, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))
            held.clear()

        for row in given:
            held.append([_cell(v, type) for v, (_, type, _) in zip(row, COLUMNS, strict=True)])
            if len(held) >= BATCH:
                flush()
        if held:
            flush()


def _cell(value: Any, type: Type) -> Any:
    if type == "text" and value is not None:
        return str(value).encode("utf-8", "replace").decode()
    if type in ("int", "time") and isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return None
    return value
