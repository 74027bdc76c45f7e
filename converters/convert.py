"""From any format to any format: `convert`, and `losses`, which says what a conversion would lose.

``A → B`` with a carry: ``b`` is written and read again, and what A can't be rebuilt from goes into its open field (`converters.carry`). ``A → A`` gives the record
itself. Without a carry items go from the reader straight to the writer, in memory bounded by what is open.

Stages (redaction, content levels) come before a carry is made: then the record that is carried is the one that the stages left, so that a carry
never holds what was removed.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from . import carry as carries
from . import patch, registry
from .carry import Mismatch, Record
from .errors import Fate, Report, SpanportError
from .jsonio import minify
from .model import Carry, Item, ModelRequest, TraceHeader, kind_of, raw
from .registry import Format, ReadOptions, WriteOptions
from .source import Source, source_of

Stage = Callable[[Iterator[Item]], Iterator[Item]]
_ITEMS_WHOLE = ("otlp-json", "otlp-proto", "spanport")
"""Formats that hold the model itself: what they write reads back as it was."""


def convert(
    source: Any,
    out: BinaryIO,
    *,
    to: str,
    from_: str | None = None,
    carry: bool = True,
    report: Report | None = None,
    stages: Sequence[Stage] = (),
    folder: Path | None = None,
    account: bool = False,
    options: ReadOptions | None = None,
    extra: dict[str, Any] | None = None,
) -> Report:
    """Write ``source`` (a path, bytes, a file, an object) to the binary file ``out`` in format ``to``.

    ``carry``: keep what the target can't say in its open field, so that the way back gives the same record. ``folder``: where a target of several files
    goes (``out`` then gets nothing). ``account``: work out for the report what was mapped, carried, derived and dropped, by field. ``extra``: options of the writer.
    ReadError when nothing can be read, UsageError when the target can't take it (several records, and no folder)."""
    report = report if report is not None else Report()
    given = source_of(source)
    if report.input is None:
        report.input = given.name
    origin = registry.get(from_) if from_ else registry.detect(given)
    target = registry.get(to)
    writing = WriteOptions(carry=carry, extra={**(extra or {}), **({"folder": folder} if folder is not None else {})})
    if not carry and not account:
        target.write(carries.without(_staged(origin.read(given, report, options), stages)), out, report, writing)
        return report
    data = _bytes(given)
    if data is not None and given.path is None:
        given = Source(given.name, content=bytes(data))
    items = list(_staged(origin.read(given, report, options), stages))
    older = [c for x in items if isinstance(x, TraceHeader) for c in x.carry]
    if not stages and older and (whole := _back(items, older, target, origin, given, report)) is not None:
        out.write(whole)
        return report
    plain = list(carries.without(items))
    record = _record(origin, data, plain, bool(stages))
    held = io.BytesIO()
    target.write(plain, held, report, writing)
    if origin.name == target.name and carry:
        _same_format(target, record, held, out, report, account)
    else:
        _other_format(_Job(origin, target, plain, record, data, [] if stages else older, folder, writing, report, account), held, out)
    if account:
        _derived(plain, report)
    return report


def losses(source: Any, to: str, *, from_: str | None = None, carry: bool = True, report: Report | None = None, **more: Any) -> Report:
    """What a conversion of ``source`` to the format ``to`` would do to each field, in ``report.losses``, without writing anything. ``more``: as for `convert`."""
    import tempfile

    report = report if report is not None else Report()
    with tempfile.TemporaryDirectory(prefix="spanport-") as name:
        return convert(source, io.BytesIO(), to=to, from_=from_, carry=carry, report=report, folder=Path(name), account=True, **more)


# ----------------------------------------------------------------------------------------------------------- the parts
def _staged(items: Iterator[Item], stages: Sequence[Stage]) -> Iterator[Item]:
    for stage in stages:
        items = stage(items)
    return items


def _bytes(given: Source) -> bytes | memoryview | None:
    """The bytes of a record that is one file of text; None for folders and databases, which are no single record."""
    if given.object is not None:
        try:
            return msgspec.json.encode(given.object)
        except (TypeError, ValueError, RecursionError):
            return None
    if given.is_dir or given.head(16).startswith(b"SQLite format 3\0"):
        return None
    return given.data()


def _record(origin: Format, data: bytes | memoryview | None, items: list[Item], staged: bool) -> Record | None:
    """The record that the way back has to give; None when this format has no way back."""
    if origin.writer is None or data is None:
        return None
    if not staged:
        found = carries.load_as(origin, data)
        # What is no JSON (a document that breaks off, an event stream) is read as far as it goes; it is no record of the format to go back to.
        return None if found.form == "text" else found
    written = _written(origin, items)
    return None if written is None else carries.load_as(origin, written)


def _written(format: Format, items: Iterable[Item], folder: Path | None = None) -> bytes | None:
    """Items in ``format``; None when the writer can't (several records where one was)."""
    held = io.BytesIO()
    try:
        format.write(
            carries.without(items), held, Report(), WriteOptions(carry=True, extra={"folder": folder} if folder is not None else {})
        )
    except SpanportError:
        return None
    return held.getvalue()


def _back(items: list[Item], older: list[Carry], target: Format, origin: Format, given: Source, report: Report) -> bytes | None:
    """The record of the target's format that ``items`` came from, whole; None when there is none or when it can't be told to be the same."""
    own = [c for c in older if c.format == target.name]
    if not own:
        return None
    why: Mismatch | None = None
    written = _written(target, items)
    if written is not None:
        try:
            return carries.use(own[0], carries.load_as(target, written), target, carries.indent_of(written))
        except Mismatch as error:
            why = error
    # The record may have come over a third format: then that one is made whole first.
    for c in older:
        step = registry.formats().get(c.format)
        if step is None or step.name in (target.name, origin.name) or step.writer is None:
            continue
        between = _written(step, items)
        if between is None:
            continue
        try:
            whole = carries.use(c, carries.load_as(step, between), step, None)
            held, inner = io.BytesIO(), Report()
            convert(whole, held, to=target.name, from_=step.name, report=inner)
        except (Mismatch, SpanportError):
            continue
        if not inner.lost:
            return held.getvalue()
    report.note(
        "carry-mismatch",
        f"what was carried of the {target.name} record is not put back: {why or 'it can no longer be written'}",
        "lost",
    )
    return None


def _same_format(target: Format, record: Record | None, held: io.BytesIO, out: BinaryIO, report: Report, account: bool) -> None:
    """``A → A``: the record itself, by way of what the model makes of it."""
    written = held.getvalue()
    if record is None or not written:
        out.write(written)
        return
    if account:
        _count(record, carries.load_as(target, written), report, "carried", "put back from the record itself")
    out.write(carries.dump_as(target, record, carries.indent_of(written)))


class _Job(msgspec.Struct):
    """One conversion between two formats."""

    origin: Format
    target: Format
    items: list[Item]
    record: Record | None
    data: bytes | memoryview | None
    older: list[Carry]
    folder: Path | None
    options: WriteOptions
    report: Report
    account: bool


def _other_format(job: _Job, held: io.BytesIO, out: BinaryIO) -> None:
    written = held.getvalue()
    carry = job.options.carry
    target = job.target
    made: Carry | None = None
    if (carry or job.account) and target.reader is not None and (written or job.folder is not None):
        base = _base(job, written)
        if base is not None:
            back, ids = base
            if job.account:
                _tell_fields(job, back)
            header = next((x for x in job.items if isinstance(x, TraceHeader)), None)
            if carry and job.record is not None and job.data is not None and header is not None:
                found = _written(job.origin, carries.without(back))
                if found is not None:
                    made, _size = carries.make(carries.load_as(job.origin, found), job.record, job.origin.name, header, ids)
    if made is None:
        out.write(written)
        return
    kept = [made, *(msgspec.structs.replace(c, ids={}) for c in job.older)]
    if not written and job.folder is not None:
        (job.folder / carries.SIDECAR).write_bytes(msgspec.json.encode(kept))
        return
    try:
        out.write(embed(target, written, kept))
    except TypeError as error:
        job.report.note("no-carry", f"nothing is carried: {error}")
        out.write(written)


def _base(job: _Job, written: bytes) -> tuple[list[Item], dict[str, str]] | None:
    """What the target reads of what was written, with the ids of the origin; and which ids were changed to them."""
    target = job.target
    if written:
        record = written
        if target.open_field is not None:
            try:  # the text as it will stand there once the carry is taken out again
                record = carries.take(
                    embed(target, written, [Carry(version=0, format="", base="", family="", run_key=[])]), target.open_field
                )[0]
            except TypeError:
                record = written
        source = Source(job.report.input or "", content=record)
    else:
        source = Source(str(job.folder), path=job.folder)
    quiet = Report()
    try:
        found = list(target.read(source, quiet))
    except SpanportError as error:
        job.report.note("no-carry", f"nothing is carried: what was written can't be read again ({error})")
        return None
    ids = carries.ids_between(job.items, found)
    header = next((x for x in job.items if isinstance(x, TraceHeader)), None)
    if header is None:
        return None
    carry = Carry(version=0, format="", base="", family=header.family, run_key=header.run_key, ids=ids)
    return list(carries.without(carries.restored(found, [carry]))), ids


def embed(target: Format, written: bytes, kept: list[Carry]) -> bytes:
    """``written`` with the carries where the target has a place for them."""
    if (carrier := carries.carrier_of(target)) is not None:
        return carrier.embed(written, kept)
    if target.open_field is None:
        raise TypeError(f"{target.name} has no open field")
    data = carries.put(written, target.open_field, kept)
    indent = carries.indent_of(written)
    if indent is not None:
        try:
            return msgspec.json.format(data, indent=indent)
        except (msgspec.DecodeError, RecursionError):
            return data
    return data


# ------------------------------------------------------------------------------------------------------- the account
def _count(record: Record, base: Record, report: Report, fate: Fate, reason: str) -> None:
    """What of ``record`` is in ``base`` by itself, and what is not, by field."""
    changed: Counter[str] = Counter()
    patch.diff(base.value(), record.value(), changed)
    for path, n in patch.leaves(record.value()).items():
        off = min(n, changed.get(path, 0))
        field = path.removeprefix("items[].").removeprefix("items[]") or "(record)"
        if path == "form":
            continue
        if n - off:
            report.loss(field, "mapped", n - off)
        if off:
            report.loss(field, fate, off, reason)


def _tell_fields(job: _Job, back: list[Item]) -> None:
    """The fate of each field: of the record, when it can be rebuilt from the target; else of the model."""
    fate: Fate = "carried" if job.options.carry else "dropped"
    if job.record is not None and (found := _written(job.origin, back)) is not None:
        reason = "kept in the open field" if job.options.carry else f"{job.target.name} has no place for it, and --no-carry"
        _count(job.record, carries.load_as(job.origin, found), job.report, fate, reason)
    else:
        _tell_model(job, back)


def _tell_model(job: _Job, back: list[Item]) -> None:
    """Field by field of the spans, when the origin has no writer: a value is mapped when the target gives it back for a span of that kind, wherever that stands there."""
    reason = f"{job.target.name} does not say it, and nothing of {job.origin.name} can be carried"
    there = Counter(fact for item in back for fact in _facts(item))
    for item in job.items:
        for fact in _facts(item):
            if there[fact] > 0:
                there[fact] -= 1
                job.report.loss(fact[0], "mapped")
            else:
                job.report.loss(fact[0], "dropped", reason=reason)


_NO_FACTS = (
    "id",
    "trace_id",
    "parent_id",
    "key",
    "carry",
    "format",
    "run_key",
    "family",
    "clock",
    "uncertainty",
    "history",
    "requested_by",
    "inferred",
    "repairs",
)


def _facts(item: Item) -> Iterator[tuple[str, bytes]]:
    """What an item says, as (field, value); of messages each part by itself, whichever span has them."""
    kind = "trace" if isinstance(item, TraceHeader) else kind_of(item)
    for name in item.__struct_fields__:
        value = getattr(item, name)
        if (
            name in _NO_FACTS
            or value is None
            or value is False
            or value == []
            or value == {}
            or value == ""
            or (isinstance(value, msgspec.Raw) and not value)
        ):
            continue
        if name in ("messages", "input_messages", "output_messages", "system_instructions"):
            for one in value:
                for part in getattr(one, "parts", [one]):
                    yield f"messages.{part.__struct_config__.tag}", _text(part)
        elif name in ("source", "attributes", "resource", "parameters"):
            for key, held in value.items():
                yield f"{kind}.{name}.{key}", _text(held)
        elif name == "usage":
            for key in value.__struct_fields__:
                if getattr(value, key) is not None:
                    yield f"{kind}.usage.{key}", _text(getattr(value, key))
        elif isinstance(value, list):
            for one in value:
                yield f"{kind}.{name}[]", _text(one)
        else:
            yield f"{kind}.{name}", _text(value)


def _text(value: Any) -> bytes:
    try:
        return minify(raw(value))
    except (TypeError, ValueError, UnicodeEncodeError, msgspec.DecodeError):
        return repr(value).encode("utf-8", "replace")


def _derived(items: list[Item], report: Report) -> None:
    """Times that the record does not state, and requests that were concluded."""
    for item in items:
        if isinstance(item, TraceHeader):
            continue
        if item.clock != "recorded":
            report.loss(f"{kind_of(item)} times", "derived", 1, f"the clock is {item.clock}")
        if isinstance(item, ModelRequest) and item.inferred:
            report.loss("model_request", "derived", 1, "request boundaries concluded from messages")


__all__ = ["convert", "embed", "losses"]
