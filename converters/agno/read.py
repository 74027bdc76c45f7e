"""Readers of the two formats: which container an input is, and from there records and events to the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Raw

from .. import jsonio
from ..errors import ReadError, Report
from ..model import ABSENT, Item
from ..registry import ReadOptions, shape_of
from ..source import Line, Source, split_lines
from . import sse, store
from .events import Engine
from .schema import Event, Frequent, loosely

_array = msgspec.json.Decoder(list[Raw])
_object = msgspec.json.Decoder(dict[str, Raw])
_event = msgspec.json.Decoder(Event)
_frequent = msgspec.json.Decoder(Frequent).decode


def plain(value: Any) -> Any:
    """What ``to_dict()`` may hold beside JSON, as Agno's own events write it: dates as ISO text, enums as their value, models dumped, else str()."""
    for name in ("model_dump", "to_dict"):
        if hasattr(value, name):
            return getattr(value, name)()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return value.value if hasattr(value, "value") else str(value)


def encode(value: Any) -> bytes:
    """An object in memory as JSON. Floats that JSON can't hold become null, as in a file."""
    return msgspec.json.encode(value, enc_hook=plain)


def _never() -> bool:
    return False


def drain(engine: Engine) -> Iterator[Item]:
    out, engine.out = engine.out, []
    yield from out


def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """Records in whatever holds them: one, an array, lines, a session, a database, a folder, a REST answer, an object in memory."""
    engine = Engine(report, options, format="agno")
    found = 0
    if source.object is not None:
        nodes = store.nodes(encode(source.object), report)
    elif source.is_dir:
        nodes = store.folder(source, report)
    else:
        head = source.head(4096)
        shape = shape_of(head)
        if shape == "sqlite":
            nodes = store.sqlite(source, report, options.share)
        elif shape == "sse":
            yield from read_events(source, report, options)
            return
        elif shape == "lines":
            nodes = store.lines(source.lines(), report)
        else:
            nodes = store.nodes(source.data(), report)
    for node in nodes:
        found += 1
        for _ in engine.record(node):
            if engine.out:
                yield from drain(engine)
        yield from drain(engine)
    engine.close()
    yield from drain(engine)
    if not found and options.share is None:
        raise ReadError("no run in it", input=source.name)


def follow(source: Source, engine: Engine, stop: Callable[[], bool]) -> Iterator[Line]:
    """The lines of a file that grows, until the runs that began in it have ended, or ``stop`` says so."""
    held: list[bytes] = []
    number = offset = 0
    with source.open() as file:
        while True:
            block = file.read(1 << 20)
            if block:
                *whole, rest = block.split(b"\n")
                for data in whole:
                    data = b"".join((*held, data))
                    held = []
                    number += 1
                    yield Line(number, offset, data, True)
                    offset += len(data) + 1
                if rest:
                    held.append(rest)
                continue
            if stop() or (number and not engine.runs and not engine.waiting and not held):
                break
            time.sleep(0.1)
    if held:
        yield Line(number + 1, offset, b"".join(held), False)


def read_events(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """Events, one a line, or framed as server-sent events: each span as soon as it is complete."""
    if source.object is not None:
        given = source.object if isinstance(source.object, list) else [source.object]
        source = Source(source.name, content=b"\n".join(encode(one) for one in given) + b"\n")
    live = options.follow or source.stream is not None
    engine = Engine(report, options, format="agno-events", live=live)
    framed = shape_of(source.head(4096)) == "sse"
    if options.follow and source.path is not None:
        lines = follow(source, engine, options.stop or _never)
    elif options.share is not None:
        lines = source.stretch(*options.share[2:])
    else:
        lines = source.lines()
    good = 0
    bad: ReadError | None = None
    decode, frequent = _frequent, engine.frequent
    try:
        for line in sse.data(lines, report) if framed else lines:
            data = line.data
            if data.isascii() or jsonio.is_utf8(data):
                try:
                    short = decode(data)
                except (msgspec.DecodeError, RecursionError):  # any other event
                    pass
                else:
                    if frequent(short):
                        good += 1
                        if engine.out:
                            yield from engine.out
                            engine.out = []
                        continue
            if not data.strip():
                continue
            try:
                e, odd = _decode(line, report)
            except ReadError as error:
                bad = bad or error
                code = "truncated" if not line.ended else "bad-line"
                report.note(code, error.message, "lost", line=line.number, byte=error.byte, path=error.path)
                continue
            if not e.event:
                report.note("no-event", "an object without event", "lost", line=line.number)
                continue
            if e.run_id is None and e.created_at is None and e.workflow_id is None:
                report.note("control", f"{e.event}: says nothing of a run", "info", line=line.number)
                good += 1
                continue
            good += 1
            engine.event(e, odd)
            if engine.out:
                yield from drain(engine)
    except KeyboardInterrupt:
        if not options.follow:
            raise
    engine.close()
    yield from drain(engine)
    if not good and options.share is None:
        raise bad or ReadError("no event in it", input=source.name)


def _decode(line: Line, report: Report) -> tuple[Event, dict[str, Raw]]:
    try:
        if line.data.isascii() or jsonio.is_utf8(line.data):
            return _event.decode(line.data), {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    raw = jsonio.decode(line.data, msgspec.json.Decoder(Raw).decode, report, line=line.number, offset=line.offset)
    raw = raw.copy()
    try:
        return loosely(Event, raw)
    except msgspec.DecodeError:
        raise ReadError("expected an object", input=report.input, line=line.number, byte=line.offset) from None
    except RecursionError:
        raise ReadError("nested too deep", input=report.input, line=line.number, byte=line.offset) from None


__all__ = ["ABSENT", "encode", "follow", "read", "read_events", "split_lines"]
