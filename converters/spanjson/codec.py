"""Read and write ``spanport`` JSON Lines: `TraceHeader` and the span kinds, one a line, told apart by ``kind``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from ..errors import ReadError, Report
from ..jsonio import decode
from ..model import Item, TraceHeader
from ..registry import ReadOptions, WriteOptions
from ..source import Source

_items = msgspec.json.Decoder(Item)
_TRACE, _SPAN = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")
_LARGEST = 1 << 63


def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """A broken line is reported and passed over; ReadError when there is no readable line at all."""
    good = 0
    known: set[str] = set()
    bad: ReadError | None = None
    for line in source.lines():
        if not line.data.strip():
            continue
        try:
            item = decode(line.data, _items.decode, report, line=line.number, offset=line.offset)
            if (wrong := _wrong(item, known)) is not None:
                raise ReadError(wrong[1], input=report.input, line=line.number, byte=line.offset, path=wrong[0])
        except ReadError as error:
            bad = bad or error
            report.note("bad-line", error.message, "lost", line=line.number, byte=error.byte, path=error.path)
            continue
        good += 1
        yield item
    if not good and bad is not None:
        raise bad
    if not good:
        raise ReadError("no trace in it", input=source.name)


def _wrong(item: Item, known: set[str]) -> tuple[str, str] | None:
    """(path, what is expected) where an item that has the right types can't be one; ``known``: traces whose header was seen."""
    if isinstance(item, TraceHeader):
        if not _TRACE.fullmatch(item.id):
            return "$.id", "expected 32 lower-case hex digits"
        known.add(item.id)
        return None
    if item.trace_id not in known:
        return "$.trace_id", "the trace has no header before this line"
    if not _SPAN.fullmatch(item.id):
        return "$.id", "expected 16 lower-case hex digits"
    if item.parent_id is not None and not _SPAN.fullmatch(item.parent_id):
        return "$.parent_id", "expected 16 lower-case hex digits"
    for name, time in (("start", item.start), ("end", item.end)):
        if time is not None and not -_LARGEST <= time < _LARGEST:
            return f"$.{name}", "out of the range of times"
    return None


def write(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions) -> None:
    """One line an item. Only `options.carry` off changes what is written: then ``source`` and the header's carry stay behind."""
    encoder = msgspec.json.Encoder()
    buffer = bytearray()
    for item in items:
        if not options.carry and (item.source or getattr(item, "carry", None)):
            for name in item.source:
                report.loss(f"{item.__struct_config__.tag}.source.{name}", "dropped", reason="--no-carry")
            item = msgspec.structs.replace(item, source={})
        encoder.encode_into(item, buffer)
        if b"\n" in buffer:  # carried JSON keeps its white space, and an item is one line
            buffer[:] = msgspec.json.format(bytes(buffer), indent=-1)
        buffer += b"\n"
        out.write(buffer)
        buffer.clear()
