"""The carry: what the target of a conversion can't say, kept in its open field, so that the way back gives the same record (DESIGN §4).

For ``A → B``: ``b`` is written, read again and written as A: that is the base. The carry is the difference between the base and the record, with the base's SHA-256.
On the way back the base is made anew from ``b``; when its hash is the same the difference is applied, and the record is whole by
construction. When it is not (somebody changed ``b``, or another version of this package maps it otherwise) nothing is applied.

Here are records as plain values (`Record`), the place of a carry in each format, and the ids that a record keeps. `converters.convert` does the conversions.
This module knows of a format what `Home` says, which `registry.Format` does.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw, Struct

from . import named, patch
from .model import ABSENT, AnySpan, Attempt, Carry, Item, ModelRequest, Run, Task, ToolCall, TraceHeader, kind_of
from .source import Source

VERSION: Final = 1
"""Of the mapping: to be raised when readers or writers change what they make of a record. A carry of another version is told of when its base differs."""
MEMBER: Final = "spanport"
"""The member of the open field that holds the carry."""
SIDECAR: Final = "spanport-carry.json"
"""The file that holds the carry of a folder of records."""
MARK: Final = b'"spanport"'
MAX_RECORD: Final = 1 << 30
"""Bytes that a carried record may unpack to."""


class Record(Struct):
    """A record as plain values. ``form``: ``json`` (one value), ``lines`` (one a line), ``text`` (bytes that are no JSON, as Latin-1)."""

    form: str
    items: list[Any]

    def value(self) -> dict[str, Any]:
        """What is hashed and compared."""
        return {"form": self.form, "items": self.items}


class Home(Protocol):
    """Where records of a format hold a carry; see `registry.Format`."""

    @property
    def lines(self) -> bool: ...
    @property
    def open_field(self) -> str | None: ...
    @property
    def carrier(self) -> str | None: ...


@dataclass(frozen=True)
class Carrier:
    """How a format holds carries that has another place for them than an open field (`registry.Format.carrier` names one). ``embed`` puts them into what was written,
    TypeError when nothing there could hold them; ``load`` and ``dump`` are for a format that is no text: its record as plain values, and back."""

    embed: Callable[[bytes, list[Carry]], bytes]
    load: Callable[[bytes], Record] | None = None
    dump: Callable[[Record], bytes] | None = None


def carrier_of(format: Home) -> Carrier | None:
    """The carrier that ``format`` supplies, if any."""
    if format.carrier is None:
        return None
    found: Carrier = named.load(format.carrier)
    return found


# ------------------------------------------------------------------------------------------------------ record ⇄ bytes
def load_as(format: Home, data: bytes | memoryview) -> Record:
    """The record of ``format`` in ``data``."""
    carrier = carrier_of(format)
    return carrier.load(bytes(data)) if carrier is not None and carrier.load is not None else load(data, format.lines)


def dump_as(format: Home, record: Record, indent: int | None = None) -> bytes:
    """The record as bytes of ``format``."""
    carrier = carrier_of(format)
    if carrier is None or carrier.dump is None or record.form == "text":
        return dump(record, indent)
    return carrier.dump(record)


def _loads(text: str) -> Any:
    return json.loads(text)


def load(data: bytes | memoryview, lines: bool = False) -> Record:
    """The record in ``data``. ``lines``: of a format that is JSON Lines, so that a single line is no document. A line that is no JSON is kept as it is."""
    raw = bytes(data)
    text = raw.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    if not lines and (whole := _whole(text)) is not None:
        return whole
    found: list[Any] = []
    good = bad = 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            found.append(_loads(line))
            good += 1
        except (ValueError, RecursionError):
            found.append({_LINE: line})
            bad += 1
    if bad and lines and (whole := _whole(text)) is not None:
        return whole
    if good and (lines or not bad or good > 1):
        return Record("lines", found)
    return Record("text", [raw.decode("latin-1")])


def _whole(text: str) -> Record | None:
    try:
        return Record("json", [_loads(text)])
    except (ValueError, RecursionError):
        return None


_LINE: Final = "\0line"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def dump(record: Record, indent: int | None = None) -> bytes:
    """The record as bytes: NaN and lone surrogates as they were."""
    if record.form == "text":
        return b"".join(str(x).encode("latin-1") for x in record.items)
    if record.form == "json":
        return _text(record.items[0], indent) + (b"\n" if indent else b"")
    return b"".join((x[_LINE].encode("utf-8", "surrogateescape") if _is_line(x) else _text(x, None)) + b"\n" for x in record.items)


def _is_line(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and _LINE in value


def _text(value: Any, indent: int | None) -> bytes:
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", text).encode()


def indent_of(data: bytes) -> int | None:
    """How a document is indented, by its first lines."""
    hit = re.match(rb"\s*[\[{]\r?\n( +)", data[:4096])
    return len(hit[1]) if hit else None


# ------------------------------------------------------------------------------------------------------ making, using
def make(base: Record, record: Record, format: str, header: TraceHeader, ids: dict[str, str]) -> tuple[Carry, int]:
    """The carry that makes ``record`` of ``base``, and how many bytes of patch it took."""
    a, b = base.value(), record.value()
    found = patch.diff(a, b)
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode() if found is not None else b""
    whole: str | None = None
    data = dump(record) if text else b""
    if len(text) > len(data) / 2:
        whole = base64.b64encode(zlib.compress(data, 9)).decode()
    carry = Carry(
        version=VERSION,
        format=format,
        base=patch.digest(a),
        family=header.family,
        run_key=header.run_key,
        ids=ids,
        patch=Raw(text) if text and whole is None else ABSENT,
        record=whole,
    )
    return carry, len(text)


class Mismatch(Exception):
    """The base is not the one that the carry was made for."""


def use(carry: Carry, base: Record, format: Home, indent: int | None) -> bytes:
    """The original record, of ``format``, from what it became. Mismatch when ``base`` is another one, or the carry itself is damaged."""
    if patch.digest(base.value()) != carry.base:
        version = f"; it was made by mapping {carry.version}, this is {VERSION}" if carry.version != VERSION else ""
        raise Mismatch(f"the record was changed since it was converted{version}")
    if carry.record is not None:
        try:
            opened = zlib.decompressobj()
            data = opened.decompress(base64.b64decode(carry.record, validate=True), MAX_RECORD)
            if opened.unconsumed_tail or not opened.eof:
                raise Mismatch("the carried record is damaged or too large")
            carrier = carrier_of(format)
            return data if carrier is None or carrier.dump is None else dump_as(format, load(data, True))
        except (binascii.Error, ValueError, zlib.error) as error:
            raise Mismatch(f"the carried record is damaged: {error}") from error
    try:
        value = patch.apply(base.value(), json.loads(bytes(carry.patch)) if carry.patch else None)
        return dump_as(format, Record(value["form"], value["items"]), indent)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Mismatch(f"the carried difference is damaged: {error}") from error


# ----------------------------------------------------------------------------------------------- embedding, extracting
# The text of everything else stays as it is (a float of a writer may have more digits than Python's), so objects are taken apart into Raw members.
_members = msgspec.json.Decoder(dict[str, Raw])
_items = msgspec.json.Decoder(list[Raw])
_encode = msgspec.json.Encoder().encode
_carries = msgspec.json.Decoder(list[Carry])


def _object(data: bytes | Raw) -> dict[str, Raw] | None:
    try:
        return _members.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _apart(data: bytes) -> tuple[dict[str, Raw], list[Raw] | None, bytes] | None:
    """The object that holds a carry, the list that it is the first item of, and the lines after it; None when there is none."""
    if (found := _object(data)) is not None:
        return found, None, b"\n" if data.endswith(b"\n") else b""
    try:
        listed = _items.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        first, newline, rest = data.partition(b"\n")
        return (found, None, newline + rest) if newline and (found := _object(first)) is not None else None
    return (found, listed, b"") if listed and (found := _object(listed[0])) is not None else None


def _together(holder: dict[str, Raw], listed: list[Raw] | None, rest: bytes) -> bytes:
    text = _encode(holder)
    return _encode([Raw(text), *listed[1:]]) if listed is not None else text + rest


def put(data: bytes, place: str, carries: list[Carry]) -> bytes:
    """Embed ``carries`` in the open field ``place`` of the record ("" for the record itself), or of the first one of lines or a list. TypeError when there is
    no object to hold it."""
    apart = _apart(data)
    if apart is None:
        raise TypeError("there is no object that could hold the carry")
    top, listed, rest = apart
    said: dict[str, Any] = {"carry": carries}
    holder = top
    if place:
        old = top.get(place)
        inside = _object(old) if old is not None else None
        if inside is None:
            said["was"] = [] if old is None else [old]
        holder = inside or {}
    if MEMBER in holder:
        said["before"] = holder[MEMBER]
    holder[MEMBER] = Raw(_encode(said))
    if place:
        top[place] = Raw(_encode(holder))
    return _together(top, listed, rest)


def take(data: bytes, place: str) -> tuple[bytes, list[Carry]]:
    """The record without its carry, and the carry; the same bytes and [] when there is none."""
    if MARK not in data or (apart := _apart(data)) is None:
        return data, []
    top, listed, rest = apart
    holder = _object(top[place]) if place and place in top else top if not place else None
    said = _object(holder[MEMBER]) if holder is not None and MEMBER in holder else None
    if holder is None or said is None or "carry" not in said:
        return data, []
    try:
        found = _carries.decode(said["carry"])
        was = _items.decode(said["was"]) if "was" in said else None
    except (msgspec.DecodeError, RecursionError):
        return data, []
    del holder[MEMBER]
    if "before" in said:
        holder[MEMBER] = said["before"]
    if place:
        top[place] = Raw(_encode(holder))
        if was is not None and not holder:
            del top[place]
            if was:
                top[place] = was[0]
    return _together(top, listed, rest), found


def unpacked(source: Source, format: Home, carries: list[Carry]) -> Source:
    """``source`` without the carry in it; the carry is put into ``carries`` (for lines: as they are read). A source without one is given back as it is."""
    place = format.open_field
    if place is None:
        return source
    if source.is_dir:
        _sidecar(source, carries)
        return source
    if source.object is not None:
        return _unpacked_object(source, place, carries)
    if format.lines:
        return _unpacked_lines(source, place, carries)
    data = source.data()
    plain = source if source.path is not None or source.content is not None else Source(source.name, content=bytes(data))
    if not holds_mark(data):
        return plain
    rest, found = take(bytes(data), place)
    if not found:
        return plain
    carries += found
    return Source(source.name, content=rest)


def _unpacked_object(source: Source, place: str, carries: list[Carry]) -> Source:
    given = source.object
    holder = given.get(place) if place and isinstance(given, dict) else given
    if not isinstance(holder, dict) or MEMBER not in holder:
        return source
    try:
        rest, found = take(_encode(given), place)
    except (TypeError, ValueError, RecursionError):
        return source
    if not found:
        return source
    carries += found
    return Source(source.name, object=_loads(rest.decode()))


def holds_mark(data: bytes | memoryview) -> bool:
    """Whether the bytes could hold a carry."""
    owner = data.obj if isinstance(data, memoryview) else data
    find = getattr(owner, "find", None)
    return find(MARK) >= 0 if find is not None else MARK in bytes(data)


def _sidecar(source: Source, carries: list[Carry]) -> None:
    path = source.path / SIDECAR if source.path is not None else None
    if path is not None and path.is_file() and path.stat().st_size < MAX_RECORD:
        try:
            carries += msgspec.json.decode(path.read_bytes(), type=list[Carry])
        except (OSError, msgspec.DecodeError):
            return


def _unpacked_lines(source: Source, place: str, carries: list[Carry]) -> Source:
    is_file = source.path is not None and source.stream is None and source.content is None
    if is_file and not any(MARK in line.data for line in islice((line for line in source.lines() if line.data.strip()), 1)):
        return source
    stream = _Stripping(source, place, carries)
    return Source(source.name, stream=io.BufferedReader(stream, 1 << 16))


class _Stripping(io.RawIOBase):
    """Lines without the carry that the first one holds."""

    def __init__(self, source: Source, place: str, carries: list[Carry]) -> None:
        self._lines = iter(source.lines())
        self._place, self._carries = place, carries
        self._rest: memoryview = memoryview(b"")
        self._number = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            line = next(self._lines, None)
            if line is None:
                return 0
            data = line.data
            if MARK in data and not self._carries:
                data, found = take(data, self._place)
                self._carries += found
            empty = b"\n" * (line.number - self._number - 1)  # of many, only the last ones come
            self._number = line.number
            self._rest = memoryview(empty + data + b"\n" if line.ended else empty + data)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


# --------------------------------------------------------------------------------------------------------------- ids
def _names(items: Iterable[Item]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """What a span is known by on either side of a conversion, and its id."""
    seen: Counter[tuple[Any, ...]] = Counter()
    for item in items:
        name: tuple[Any, ...]
        if isinstance(item, TraceHeader):
            name = ("trace",)
        elif isinstance(item, ToolCall):
            name = ("tool_call", item.name, item.call_id)
        elif isinstance(item, ModelRequest):
            name = ("model_request", item.response_id)
        elif isinstance(item, Attempt):
            name = ("attempt", item.number)
        elif isinstance(item, Run | Task):
            name = (kind_of(item), item.name)
        else:
            name = (kind_of(item), item.name, item.type)
        seen[name] += 1
        yield (*name, seen[name]), item.id


def ids_between(origin: Iterable[Item], target: Iterable[Item]) -> dict[str, str]:
    """Ids of the target's spans and traces → those of the origin, where both are the same thing and the ids differ."""
    ours, theirs = dict(_names(origin)), dict(_names(target))
    found = {id: ours[name] for name, id in theirs.items() if name in ours}
    # What has another name on the other side (a run that the target calls by its agent) is paired in order, where as many are left of its kind.
    left: dict[str, list[str]] = {}
    for name, id in ours.items():
        if name not in theirs:
            left.setdefault(name[0], []).append(id)
    open_: dict[str, list[str]] = {}
    for name, id in theirs.items():
        if name not in ours:
            open_.setdefault(name[0], []).append(id)
    for kind, ids in open_.items():
        if len(ids) == len(left.get(kind, ())):
            found.update(zip(ids, left[kind], strict=True))
    return {id: own for id, own in found.items() if id != own}


def _renamed(span: AnySpan, ids: dict[str, str], trace: str) -> AnySpan:
    changes: dict[str, Any] = {"id": ids.get(span.id, span.id), "trace_id": trace}
    if span.parent_id is not None:
        changes["parent_id"] = ids.get(span.parent_id, span.parent_id)
    if span.links:
        changes["links"] = [
            msgspec.structs.replace(x, trace_id=ids.get(x.trace_id, x.trace_id), span_id=ids.get(x.span_id, x.span_id)) for x in span.links
        ]
    if isinstance(span, ToolCall) and span.requested_by is not None:
        changes["requested_by"] = ids.get(span.requested_by, span.requested_by)
    if isinstance(span, ModelRequest) and span.history is not None:
        changes["history"] = msgspec.structs.replace(span.history, base=ids.get(span.history.base, span.history.base))
    return msgspec.structs.replace(span, **changes)


def restored(items: Iterable[Item], carries: list[Carry]) -> Iterator[Item]:
    """Items with the ids of the record that they come from; the carries go to the first header. ``carries`` may fill while the items are read."""
    first = True
    for item in items:
        if isinstance(item, TraceHeader):
            if carries:
                ids = carries[0].ids
                changes: dict[str, Any] = {"id": ids.get(item.id, item.id), "family": carries[0].family}
                if first:
                    changes |= {"run_key": carries[0].run_key, "carry": [*carries, *item.carry]}
                item = msgspec.structs.replace(item, **changes)
            first = False
            yield item
        elif carries and (ids := carries[0].ids):
            yield _renamed(item, ids, ids.get(item.trace_id, item.trace_id))
        else:
            yield item


def without(items: Iterable[Item]) -> Iterator[Item]:
    """Items whose headers hold no carry."""
    for item in items:
        yield msgspec.structs.replace(item, carry=[]) if isinstance(item, TraceHeader) and item.carry else item


__all__ = [
    "Carrier",
    "Mismatch",
    "Record",
    "carrier_of",
    "dump",
    "dump_as",
    "ids_between",
    "indent_of",
    "load",
    "load_as",
    "make",
    "put",
    "restored",
    "take",
    "unpacked",
    "use",
    "without",
]
