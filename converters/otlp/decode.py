"""OTLP → model: JSON (a document, or JSON Lines), Phoenix's REST exports, and protobuf. One path for all: each encoding gives flat spans with their
resource, and `conventions.unflatten` says what they are.

Spans come in any order and traces interleave, as a collector writes them; a header is yielded before the first span of its trace. Of spans that others wrote,
what the model has no field for (trace state, scope, dropped counts) stays in ``source`` under its OTLP JSON name.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, TypeVar

import msgspec

from .. import cutoff, jsonio, patch
from ..clock import from_iso
from ..conventions import unflatten
from ..conventions.flat import FlatEvent, FlatLink, FlatSpan
from ..errors import ReadError, Report
from ..jsonio import TOO_DEEP, decode
from ..model import ABSENT, Carry, Item, TraceHeader, raw
from ..registry import ReadOptions
from ..source import Source
from . import schema as s

T = TypeVar("T")

HEADER: Final = "spanport.header"
CARRY: Final = "spanport.carry"
FAMILY: Final = "spanport.family"
FORMAT: Final = "spanport.source.format"
RUN_KEY: Final = "spanport.run.key"
SERVICE: Final = "service.name"

_MAY: Final = re.compile(r"\{(resourceSpans\[(\{((scopeSpans|instrumentationLibrarySpans)\[(\{(spans\[)?)?)?)?)?|\{(data|spans)\[|\[")
"""What of a document (or a line) that breaks off may be given in part: never a span, nor a resource."""
_document = msgspec.json.Decoder(s.TracesData)
_loose = msgspec.json.Decoder(s.LooseData)
_span = msgspec.json.Decoder(s.Span)
_untyped = msgspec.json.Decoder()
_skip = msgspec.json.Decoder(msgspec.Raw)
_KINDS: Final = {f"SPAN_KIND_{n}": i for i, n in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))}
_CODES: Final = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2, "UNSET": 0, "OK": 1, "ERROR": 2}


# ---------------------------------------------------------------------------------------------------------- values
def any_value(v: s.AnyValue | None) -> Any:
    """The plain value. Bytes stay base64 text."""
    if v is None:
        return None
    if v.string_value is not None:
        return v.string_value
    if v.bool_value is not None:
        return v.bool_value
    if v.int_value is not None:
        return whole(v.int_value)
    if v.double_value is not None:
        return float(v.double_value)
    if v.array_value is not None:
        return [any_value(x) for x in v.array_value.values]
    if v.kvlist_value is not None:
        return {x.key: any_value(x.value) for x in v.kvlist_value.values}
    return v.bytes_value


def pairs(given: list[s.KeyValue] | None) -> list[tuple[str, Any]]:
    """Attributes as pairs, in their order."""
    return [(x.key, any_value(x.value)) for x in given] if given else []


def whole(value: int | str | None) -> int:
    """A 64-bit integer, which JSON has as a string; 0 for none. ValueError when it is no integer."""
    return int(value) if isinstance(value, str) else value or 0


def hex_id(value: str | None, size: int) -> str | None:
    """An id of ``size`` bytes as lower-case hex; None for an empty, all-zero or malformed one. Base64 (the plain JSON mapping of protobuf) is understood."""
    if not value:
        return None
    if len(value) != 2 * size:
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(data) != size:
            return None
        value = data.hex()
    value = value.lower()
    try:
        number = int(value, 16)
    except ValueError:
        return None
    return value if number and value.isalnum() else None


def flat_span(given: s.Span, extra: dict[str, Any]) -> FlatSpan:
    """A decoded span as a flat one. ValueError for an id that is none, or a number that is none."""
    trace, span = hex_id(given.trace_id, 16), hex_id(given.span_id, 8)
    if trace is None or span is None:
        raise ValueError(
            f"{'traceId' if trace is None else 'spanId'} {(given.trace_id if trace is None else given.span_id)[:40]!r} is no id"
        )
    if given.trace_state:
        extra["traceState"] = given.trace_state
    for name, count in (
        ("droppedAttributesCount", given.dropped_attributes_count),
        ("droppedEventsCount", given.dropped_events_count),
        ("droppedLinksCount", given.dropped_links_count),
    ):
        if count:
            extra[name] = whole(count)
    status = given.status
    return FlatSpan(
        trace_id=trace,
        span_id=span,
        parent_id=hex_id(given.parent_span_id, 8),
        name=given.name,
        kind=_enum(given.kind, _KINDS),
        start=whole(given.start_time_unix_nano),
        end=whole(given.end_time_unix_nano),
        attributes=pairs(given.attributes),
        events=[FlatEvent(e.name, whole(e.time_unix_nano), pairs(e.attributes)) for e in given.events or ()],
        links=[
            FlatLink(t, i, pairs(x.attributes))
            for x in given.links or ()
            if (t := hex_id(x.trace_id, 16)) is not None and (i := hex_id(x.span_id, 8)) is not None
        ],
        status=_enum(status.code, _CODES) if status is not None else 0,
        message=(status.message or "") if status is not None else "",
        extra=extra,
    )


def _enum(value: int | str | None, names: dict[str, int]) -> int:
    if isinstance(value, str):
        return names[value] if value in names else int(value)
    return value or 0


# --------------------------------------------------------------------------------------------------- spans, tolerantly
def _camel(value: Any) -> Any:
    """Keys of OTLP's own objects in lowerCamelCase (some exports have them in snake_case); attribute keys are values and stay."""
    if isinstance(value, dict):
        return {_name(str(k)): _camel(v) for k, v in value.items() if v is not None}
    return [_camel(v) for v in value] if isinstance(value, list) else value


def _name(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def loose_span(given: Any, extra: dict[str, Any]) -> s.Span:
    """A span that the schema does not fit: fields by themselves, what does not fit to ``extra``. ValueError when not even the ids are there."""
    if not isinstance(given, dict):
        raise ValueError("a span is no object")
    found: dict[str, Any] = {}
    for name, value in _camel(given).items():
        if name not in _FIELD_TYPES:
            extra[name] = value
            continue
        try:
            found[name] = msgspec.convert(value, _FIELD_TYPES[name])
        except msgspec.ValidationError:
            if name in ("attributes", "events", "links") and isinstance(value, list):
                kept, odd = _loose_list(name, value)
                found[name] = kept
                extra[name] = odd
            else:
                extra[name] = value
    if not isinstance(found.get("traceId"), str) or not isinstance(found.get("spanId"), str):
        raise ValueError("a span without traceId and spanId")
    return msgspec.convert({n: msgspec.to_builtins(v) for n, v in found.items()}, s.Span)


def _loose_list(name: str, given: list[Any]) -> tuple[list[Any], list[Any]]:
    cls: Any = {"attributes": s.KeyValue, "events": s.Event, "links": s.Link}[name]
    kept: list[Any] = []
    odd: list[Any] = []
    for item in given:
        try:
            kept.append(msgspec.convert(item, cls))
        except msgspec.ValidationError:
            if name == "events" and isinstance(item, dict):
                known = {n: v for n, v in item.items() if n in ("timeUnixNano", "name")}
                attributes, more = _loose_list("attributes", item["attributes"] if isinstance(item.get("attributes"), list) else [])
                try:
                    event = msgspec.convert(known, s.Event)
                except msgspec.ValidationError:
                    odd.append(item)
                    continue
                event.attributes = attributes
                kept.append(event)
                odd.extend(more or [{n: v for n, v in item.items() if n not in known and n != "attributes"}])
            else:
                odd.append(item)
    return kept, odd


_FIELD_TYPES: Final = {f.encode_name: f.type for f in msgspec.structs.fields(s.Span)}


# --------------------------------------------------------------------------------------------------------- headers
def header_of(trace: str, resource: list[tuple[str, Any]], format: str) -> TraceHeader:
    """The header of trace ``trace``, by its resource: as this package wrote it, or with the service as the producer."""
    found = dict(resource)
    rest = found.pop(HEADER, None)
    carry = _carries(found)
    run_key = found.get(RUN_KEY)
    if isinstance(run_key, list) and all(isinstance(x, str) for x in run_key):
        family = found.pop(FAMILY, None)
        if family is None:
            family = found.pop(SERVICE, "otlp")
        del found[RUN_KEY]
        header = TraceHeader(id=trace, family=str(family), format=str(found.pop(FORMAT, format)), run_key=run_key, resource=found)
        header = _patched(header, rest) if isinstance(rest, str) else header
        return msgspec.structs.replace(header, carry=carry) if carry else header
    service = found.get(SERVICE)
    return TraceHeader(
        id=trace,
        family=service if isinstance(service, str) and service else "otlp",
        format=format,
        run_key=[trace],
        resource=found,
        carry=carry,
    )


def _carries(resource: dict[str, Any]) -> list[Carry]:
    """Take the carries from a resource."""
    said = resource.get(CARRY)
    if not isinstance(said, str):
        return []
    try:
        found = msgspec.json.decode(said, type=list[Carry])
    except (msgspec.DecodeError, RecursionError):
        return []
    del resource[CARRY]
    return found


def _patched(header: TraceHeader, rest: str) -> TraceHeader:
    try:
        value = patch.apply(json.loads(msgspec.json.encode(header)), json.loads(rest))
        return msgspec.json.decode(json.dumps(value), type=TraceHeader)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return header


class Traces:
    """Which traces have had their header; what every encoding of OTLP shares."""

    def __init__(self, format: str, report: Report) -> None:
        self.format, self.report = format, report
        self._known: set[str] = set()
        self.good = 0

    def items(self, flat: FlatSpan, resource: list[tuple[str, Any]]) -> Iterator[Item]:
        """The span, and before it the header of its trace when it is the first."""
        if flat.trace_id not in self._known:
            self._known.add(flat.trace_id)
            yield header_of(flat.trace_id, resource, self.format)
        self.good += 1
        yield unflatten(flat)

    def bad(self, why: Exception | str, line: int | None, path: str, record: msgspec.Raw | None = None) -> None:
        """A span that can't be read."""
        self.report.note("bad-span", str(why), "lost", line=line, path=path, record=record)


def _document_items(data: bytes | memoryview, traces: Traces, line: int | None, offset: int) -> Iterator[Item]:
    document = _data(data, traces.report, line, offset)
    if document.resource_spans is None:
        found, _ = cutoff.decode(data, _untyped.decode, Report(), _MAY, line=line, offset=offset)
        yield from _other_items(found, traces, line)
        return
    for i, group in enumerate(document.resource_spans):
        resource = pairs(group.resource.attributes) if group.resource is not None else []
        for scoped, where in ((group.scope_spans, "scopeSpans"), (group.instrumentation_library_spans, "instrumentationLibrarySpans")):
            for j, part in enumerate(scoped or ()):
                common = _scope(part.scope, part.schema_url)
                for n, raw_span in enumerate(part.spans or ()):
                    try:
                        extra: dict[str, Any] = {}
                        try:
                            given = _span.decode(raw_span)
                        except msgspec.ValidationError:
                            given = loose_span(_untyped.decode(raw_span), extra)
                        flat = flat_span(given, extra)
                    except (ValueError, msgspec.DecodeError, RecursionError) as error:
                        traces.bad(error, line, f"$.resourceSpans[{i}].{where}[{j}].spans[{n}]", raw_span)
                        continue
                    flat.extra.update(common)
                    yield from traces.items(flat, resource)


def _data(data: bytes | memoryview, report: Report, line: int | None, offset: int) -> s.TracesData:
    """A document, or a line. Where a resource, a scope or a list is of another type than it should be, only that is lost."""
    try:
        return cutoff.decode(data, _document.decode, report, _MAY, line=line, offset=offset)[0]
    except ReadError as error:
        if error.path is None:
            raise
        first = error
    try:
        loose, _ = cutoff.decode(data, _loose.decode, report, _MAY, line=line, offset=offset)
    except ReadError:
        raise first from None
    found: list[s.ResourceSpans] = []
    for i, raw_group in enumerate(loose.resource_spans):
        group = _Loose(raw_group, f"$.resourceSpans[{i}]", report, line)
        found.append(
            s.ResourceSpans(
                resource=group.resource(),
                scope_spans=group.parts("scopeSpans"),
                instrumentation_library_spans=group.parts("instrumentationLibrarySpans"),
            )
        )
    return s.TracesData(found)


class _Loose:
    """An object whose members are read one by one: what is of another type than it should be is noted, and left out."""

    def __init__(self, given: msgspec.Raw, path: str, report: Report, line: int | None) -> None:
        self.path, self.report, self.line = path, report, line
        self.fields = jsonio.fields(given)
        if bytes(memoryview(given)[:1]) != b"{":
            self.lost("Expected `object`", path, given)

    def lost(self, why: str, path: str, given: msgspec.Raw) -> None:
        self.report.note("bad-item", why, "lost", line=self.line, path=path, record=given)

    def member(self, name: str, kind: type[T]) -> T | None:
        """The member ``name``; None where there is none, or it is no ``kind``."""
        given = self.fields.get(name, ABSENT)
        return None if jsonio.is_null(given) else self.read(given, kind, f"{self.path}.{name}")

    def read(self, given: msgspec.Raw, kind: type[T], path: str) -> T | None:
        """``given`` as a ``kind``; None, and a notice, where it is none."""
        try:
            return msgspec.json.decode(given, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            why, _, inside = jsonio.explain(error, len(memoryview(given)))
            self.lost(why, path + (inside or "$")[1:], given)
            return None

    def resource(self) -> s.Resource | None:
        """The resource, with those of its attributes that are some."""
        given = self.fields.get("resource", ABSENT)
        if bytes(memoryview(given)[:1]) != b"{":
            return self.member("resource", s.Resource)
        inside = _Loose(given, f"{self.path}.resource", self.report, self.line)
        listed = enumerate(inside.member("attributes", list[msgspec.Raw]) or ())
        read = [inside.read(one, s.KeyValue, f"{inside.path}.attributes[{n}]") for n, one in listed]
        return s.Resource([pair for pair in read if pair is not None])

    def parts(self, name: str) -> list[s.ScopeSpans] | None:
        """The scopes in the member ``name``, with their spans."""
        found = []
        for j, given in enumerate(self.member(name, list[msgspec.Raw]) or ()):
            part = _Loose(given, f"{self.path}.{name}[{j}]", self.report, self.line)
            scope = part.member("scope", s.Scope)
            found.append(s.ScopeSpans(scope, part.member("spans", list[msgspec.Raw]), part.member("schemaUrl", str)))
        return found


def _safely(given: Any) -> msgspec.Raw | None:
    """A value as JSON; None where it can't be written."""
    try:
        return raw(given)
    except (TypeError, UnicodeEncodeError, RecursionError):
        return None


def _scope(scope: s.Scope | None, url: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if scope is not None and (scope.name or scope.version or scope.attributes):
        found["scope"] = msgspec.to_builtins(scope)
    if url:
        found["schemaUrl"] = url
    return found


# ------------------------------------------------------------------------------------------------------ Phoenix's REST
def _other_items(document: Any, traces: Traces, line: int | None) -> Iterator[Item]:
    """``{"data": [span…]}``: Phoenix's ``/spans/otlpv1`` (OTLP spans in snake_case) and ``/spans`` (spans in its own words). Also a list of spans as
    the SDK's console exporter prints them."""
    spans = document.get("data", document.get("spans")) if isinstance(document, dict) else document
    if not isinstance(spans, list):
        raise ReadError("no resourceSpans in it", input=traces.report.input, line=line, path="$")
    for n, given in enumerate(spans):
        extra: dict[str, Any] = {}
        try:
            if isinstance(given, dict) and isinstance(given.get("context"), dict):
                flat = _sdk_span(given)
            else:
                flat = flat_span(loose_span(given, extra), extra)
        except (ValueError, TypeError, KeyError) as error:
            traces.bad(error, line, f"$.data[{n}]", _safely(given))
            continue
        resource = given.get("resource") if isinstance(given, dict) else None
        attributes = resource.get("attributes") if isinstance(resource, dict) else None
        yield from traces.items(flat, list(attributes.items()) if isinstance(attributes, dict) else [])


def _iso(value: Any) -> int:
    return from_iso(value) if isinstance(value, str) else 0


def _sdk_span(given: dict[str, Any]) -> FlatSpan:
    """A span of Phoenix's ``/spans``, or of ``ReadableSpan.to_json``: the names are the same, but for the kind and the status."""
    context = given["context"]
    trace = hex_id(str(context.get("trace_id", "")).removeprefix("0x"), 16)
    span = hex_id(str(context.get("span_id", "")).removeprefix("0x"), 8)
    if trace is None or span is None:
        raise ValueError("a span without trace_id and span_id")
    status = given.get("status") if isinstance(given.get("status"), dict) else {}
    assert isinstance(status, dict)
    code, message = given.get("status_code", status.get("status_code")), given.get("status_message", status.get("description"))
    attributes = _flatten(given["attributes"]) if isinstance(given.get("attributes"), dict) else {}
    kind = given.get("span_kind")
    if isinstance(kind, str) and kind not in ("UNKNOWN", ""):
        attributes.setdefault("openinference.span.kind", kind)
    return FlatSpan(
        trace_id=trace,
        span_id=span,
        parent_id=hex_id(str(given.get("parent_id") or "").removeprefix("0x"), 8),
        name=str(given.get("name", "")),
        kind=_KINDS.get("SPAN_KIND_" + str(given.get("kind", "INTERNAL")).removeprefix("SpanKind."), 1),
        start=_iso(given.get("start_time")),
        end=_iso(given.get("end_time")),
        attributes=list(attributes.items()),
        events=[
            FlatEvent(
                str(e.get("name", "")), _iso(e.get("timestamp")), list(a.items()) if isinstance(a := e.get("attributes"), dict) else []
            )
            for e in given.get("events") or ()
            if isinstance(e, dict)
        ],
        status=_CODES.get(str(code), 0),
        message=message if isinstance(message, str) else "",
    )


def _flatten(given: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested attributes with dots, as they were sent; lists stay."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, dict) and value:
            out.update(_flatten(value, f"{prefix}{key}."))
        else:
            out[prefix + key] = value
    return out


# --------------------------------------------------------------------------------------------------------- readers
def read_json(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """OTLP JSON: JSON Lines, or one document over many lines. A bad line is reported and passed over, of one that breaks off (and of such a document) the whole
    spans are read; ReadError when nothing is readable."""
    traces = Traces("otlp-json", report)
    if source.object is not None:
        yield from _document_items(msgspec.json.encode(source.object), traces, None, 0)
        return
    lines = (line for line in source.lines() if line.data.strip())
    ahead = list(islice(lines, _LOOK))
    if ahead and not _alone(ahead[0].data) and _opens(ahead[0].data) and not any(_alone(line.data) for line in ahead[1:]):
        # The first line is no JSON by itself, nor is any other: a document over many lines.
        offset = ahead[0].offset
        data = bytearray()
        for line in chain(ahead, lines):
            data += line.data
            if line.ended:
                data += b"\n"
        del ahead
        yield from _document_items(memoryview(data), traces, None, offset)
    else:
        first: ReadError | None = None
        for line in chain(ahead, lines):
            try:
                yield from _document_items(line.data, traces, line.number, line.offset)
            except ReadError as error:
                first = first or error
                report.note("bad-line", error.message, "lost", line=line.number, byte=error.byte, path=error.path)
        if not traces.good and first is not None:
            raise first
    if not traces.good:
        raise ReadError("no spans in it", input=source.name)


_LOOK: Final = 20
"""Lines that are looked at to tell a document over many lines from lines of which the first is broken."""


def _opens(data: bytes) -> bool:
    return data.lstrip(b"\xef\xbb\xbf \t")[:1] in (b"{", b"[")


def _alone(data: bytes) -> bool:
    """Whether a line is a JSON object by itself."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.startswith(b"{") or data.strip() == b"{}":
        return False
    try:
        decode(data, _skip.decode, Report())
    except ReadError as error:
        return error.message == TOO_DEEP
    return True


# -------------------------------------------------------------------------------------------------------- protobuf
def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """(value, position after it); IndexError at the end, ValueError for more than 64 bits."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a length of more than 64 bits")


def _one_message(data: memoryview) -> list[tuple[int, int]] | None:
    """Places of the ResourceSpans in one TracesData; None when the bytes are not one such message from start to end (or to where they break off)."""
    found: list[tuple[int, int]] = []
    at = 0
    try:
        while at < len(data):
            if data[at] != 0x0A:
                return None
            size, at = read_varint(data, at + 1)
            if at + size <= len(data) and size and data[at] not in (0x0A, 0x12, 0x1A):
                return None
            found.append((at, at + size))
            at += size
    except (IndexError, ValueError):
        return found or None
    return found


def places(data: memoryview) -> Iterator[tuple[int, int]]:
    """Places of the ResourceSpans: of one message, or of many with their length before each."""
    whole_message = _one_message(data)
    if whole_message is not None:
        yield from whole_message
        return
    at = 0
    while at < len(data):
        try:
            size, start = read_varint(data, at)
        except (IndexError, ValueError):
            raise ReadError("no length where a message should begin", byte=at) from None
        inside = _one_message(data[start : start + size])
        if inside is None and size:
            raise ReadError("no OTLP message: expected ResourceSpans", byte=start)
        for a, b in inside or ():
            yield start + a, start + b
        at = start + size


_SIZES: Final = {1: 8, 5: 4}
"""Bytes of the wire types that have a fixed size."""


def whole_fields(data: memoryview, inside: tuple[int, ...]) -> bytes:
    """A message that breaks off, up to its last whole field. ``inside``: numbers of the fields, from the outside in, of which the last may be given in part."""
    at = 0
    while at < len(data):
        start = at
        try:
            tag, at = read_varint(data, at)
            kind = tag & 7
            if kind == 0:
                at = read_varint(data, at)[1]
                size = 0
            else:
                size, at = read_varint(data, at) if kind == 2 else (_SIZES[kind], at)
        except (IndexError, ValueError, KeyError):
            return bytes(data[:start])
        if at + size > len(data):
            if kind != 2 or not inside or tag >> 3 != inside[0]:
                return bytes(data[:start])
            part = whole_fields(data[at:], inside[1:])
            return b"".join((data[:start], _varint(tag), _varint(len(part)), part))
        at += size
    return bytes(data)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def proto_value(v: Any) -> Any:
    """An AnyValue message as a plain value."""
    which = v.WhichOneof("value")
    if which is None:
        return None
    value = getattr(v, which)
    if which == "array_value":
        return [proto_value(x) for x in value.values]
    if which == "kvlist_value":
        return {x.key: proto_value(x.value) for x in value.values}
    if which == "bytes_value":
        return base64.b64encode(value).decode()
    return value


def _proto_pairs(given: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(x.key, proto_value(x.value)) for x in given]


def proto_span(m: Any) -> FlatSpan:
    """A Span message as a flat span. ValueError for an id that is none."""
    trace, span = m.trace_id, m.span_id
    if len(trace) != 16 or not any(trace) or len(span) != 8 or not any(span):
        raise ValueError(f"{'trace_id' if len(trace) != 16 or not any(trace) else 'span_id'} is no id")
    extra: dict[str, Any] = {}
    if m.trace_state:
        extra["traceState"] = m.trace_state
    for name, count in (
        ("droppedAttributesCount", m.dropped_attributes_count),
        ("droppedEventsCount", m.dropped_events_count),
        ("droppedLinksCount", m.dropped_links_count),
    ):
        if count:
            extra[name] = count
    parent = m.parent_span_id
    return FlatSpan(
        trace_id=trace.hex(),
        span_id=span.hex(),
        parent_id=parent.hex() if len(parent) == 8 and any(parent) else None,
        name=m.name,
        kind=int(m.kind),
        start=m.start_time_unix_nano,
        end=m.end_time_unix_nano,
        attributes=_proto_pairs(m.attributes),
        events=[FlatEvent(e.name, e.time_unix_nano, _proto_pairs(e.attributes)) for e in m.events],
        links=[
            FlatLink(x.trace_id.hex(), x.span_id.hex(), _proto_pairs(x.attributes))
            for x in m.links
            if len(x.trace_id) == 16 and len(x.span_id) == 8
        ],
        status=int(m.status.code),
        message=m.status.message,
        extra=extra,
    )


def read_proto(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """OTLP protobuf: TracesData or ExportTraceServiceRequest (the same on the wire), one message or many with their length before each. A part
    that does not parse is reported with its byte and passed over."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

    traces = Traces("otlp-proto", report)
    data = memoryview(source.data())
    first: ReadError | None = None
    try:
        for start, end in places(data):
            try:
                if end > len(data):
                    missing = f"{end - len(data):,} bytes are missing"
                    group = ResourceSpans.FromString(whole_fields(data[start:], (2,)))
                    if not any(part.spans for part in group.scope_spans):
                        raise DecodeError(missing)
                    report.note("truncated", f"{missing}; what is whole before was read", "lost", byte=len(data))
                else:
                    group = ResourceSpans.FromString(bytes(data[start:end]))
            except (DecodeError, RecursionError) as error:
                first = first or ReadError(f"no ResourceSpans: {error}", input=source.name, byte=start)
                report.note("bad-message", f"no ResourceSpans: {error}", "lost", byte=start)
                continue
            resource = _proto_pairs(group.resource.attributes)
            for j, part in enumerate(group.scope_spans):
                common = _proto_scope(part)
                for n, m in enumerate(part.spans):
                    try:
                        flat = proto_span(m)
                    except ValueError as error:
                        report.note("bad-span", str(error), "lost", byte=start, path=f"$.scopeSpans[{j}].spans[{n}]")
                        continue
                    flat.extra.update(common)
                    yield from traces.items(flat, resource)
    except ReadError as error:
        if not traces.good:
            raise ReadError(error.message, input=source.name, byte=error.byte) from None
        report.note("bad-message", error.message, "lost", byte=error.byte)
    if not traces.good:
        raise first or ReadError("no spans in it", input=source.name)


def _proto_scope(part: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if part.scope.name or part.scope.version or part.scope.attributes:
        scope: dict[str, Any] = {"name": part.scope.name, "version": part.scope.version}
        if part.scope.attributes:
            scope["attributes"] = dict(_proto_pairs(part.scope.attributes))
        found["scope"] = scope
    if part.schema_url:
        found["schemaUrl"] = part.schema_url
    return found


def is_proto(head: bytes) -> bool:
    """Whether the first bytes are OTLP protobuf: a ResourceSpans whose first field is a resource with attributes, or scope spans with spans."""
    view = memoryview(head)
    for start in (0, None):
        try:
            at = 0 if start == 0 else read_varint(view, 0)[1]
            if view[at] != 0x0A:
                continue
            _, at = read_varint(view, at + 1)
            if view[at] == 0x0A:  # resource
                size, at = read_varint(view, at + 1)
                if not size:
                    return bool(view[at] == 0x12)
                if view[at] == 0x0A:  # its first attribute: a KeyValue whose key is text
                    _, at = read_varint(view, at + 1)
                    if view[at] == 0x0A:
                        length, at = read_varint(view, at + 1)
                        key = bytes(view[at : at + length])
                        if key and key.decode("utf-8", "replace").isprintable() and "\ufffd" not in key.decode("utf-8", "replace"):
                            return True
            elif view[at] == 0x12:  # scope spans: a scope, or at once a span
                _, at = read_varint(view, at + 1)
                if view[at] in (0x0A, 0x12):
                    return True
        except (IndexError, ValueError):
            continue
    return False
