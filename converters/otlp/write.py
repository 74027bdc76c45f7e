"""Model → OTLP files: JSON Lines and protobuf, as ``convert`` writes them. Sending is `spanport.exporters`' business.

With ``carry`` each span is read back as it was written, and what did not come back is put beside it as ``spanport.rest`` (see `conventions.undress`);
the header likewise, as ``spanport.header`` on the resource of the trace's first line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from .. import patch
from ..conventions import flatten, shared, unflatten
from ..conventions.flat import Attributes, FlatSpan, Profile
from ..conventions.semconv import SCHEMA_URL
from ..conventions.undress import REST, rest
from ..errors import Report
from ..model import AnySpan, Item, TraceHeader
from ..registry import WriteOptions
from . import jsontext, wire
from . import schema as s
from .decode import CARRY, HEADER, flat_span, header_of
from .encode import SCOPE, batched, resource_attributes, scope_version

_encode = msgspec.json.Encoder().encode
_span = msgspec.json.Decoder(s.Span)


def _written(span: AnySpan, profile: Profile, codec: Any) -> bytes:
    """``span`` as ``codec`` (`wire` or `jsontext`) has it."""
    if (dress := shared(span, profile)) is not None and (data := codec.plain(span, dress)) is not None:
        found: bytes = data
    else:
        found = codec.span(dressed(span, profile))
    return found


def dressed(span: AnySpan, profile: Profile) -> FlatSpan:
    """``span`` flat; with ``profile.carry`` together with everything that it takes to read it back as it is."""
    flat = flatten(span, profile)
    if span.attributes:  # a key stands once in OTLP: the typed field's wins, and the rest has the span's own
        known: dict[str, Any] = {}
        for key, value in flat.attributes:
            known.setdefault(key, value)
        known.pop(REST, None)
        flat.attributes = list(known.items())
    if profile.carry:
        missing = rest(span, unflatten(flat_span(_span.decode(jsontext.span(flat)), {})))
        if missing is not None:
            flat.attributes.append((REST, missing))
    return flat


def _like(value: Any) -> Any:
    """An attribute value as it comes back."""
    if isinstance(value, bool) or not isinstance(value, int) or -(1 << 63) <= value < 1 << 63:
        return value
    return str(value)


def resource_of(header: TraceHeader, carry: bool) -> Attributes:
    """The resource of a trace; with ``carry`` everything that the header says."""
    found = resource_attributes(header)
    if not carry:
        return found
    if header.carry:
        found.append((CARRY, _encode(header.carry)))
        header = msgspec.structs.replace(header, carry=[])
    back = header_of(header.id, [(key, _like(value)) for key, value in found if key != CARRY], header.format)
    a, b = json.loads(_encode(back)), json.loads(_encode(header))
    if (missing := patch.diff(a, b)) is not None:
        found.append((HEADER, json.dumps(missing, separators=(",", ":"), ensure_ascii=False)))
    return found


class _Left:
    """The untyped fields that don't leave without a carry, counted by the names that a span has: most spans of a kind have the same."""

    def __init__(self, report: Report) -> None:
        self._report, self._found = report, Counter[tuple[type, tuple[str, ...]]]()

    def add(self, spans: list[AnySpan]) -> None:
        self._found.update([(span.__class__, tuple(span.source)) for span in spans if span.source])
        if len(self._found) > 1000:
            self.tell()

    def tell(self) -> None:
        for (kind, names), count in self._found.items():
            for name in names:
                self._report.loss(f"{kind.__struct_config__.tag}.source.{name}", "dropped", count, reason="--no-carry")  # type: ignore[attr-defined]
        self._found.clear()


def _profile(options: WriteOptions) -> Profile:
    given = options.extra.get("profile")
    return given if isinstance(given, Profile) else Profile(carry=options.carry)


def _batches(items: Iterable[Item], report: Report, profile: Profile, size: int) -> Iterator[tuple[Attributes, list[AnySpan]]]:
    """Up to ``size`` spans of one trace with its resource; what is left out is told to the report, also when reading ends badly."""
    told: set[str] = set()
    left = _Left(report)
    try:
        for header, spans in batched(items, size):
            resource = resource_of(header, profile.carry and header.id not in told)
            told.add(header.id)
            if not profile.carry:
                left.add(spans)
            yield resource, spans
    finally:
        left.tell()


def write_json(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions, size: int = 512) -> None:
    """OTLP JSON Lines: one TracesData a line, of at most ``size`` spans of one trace."""
    profile = _profile(options)
    for resource, spans in _batches(items, report, profile, size):
        texts = [_written(span, profile, jsontext) for span in spans]
        out.write(jsontext.line(resource, SCOPE, scope_version(), texts, SCHEMA_URL[profile.dialect]))


def write_proto(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions, size: int = 512) -> None:
    """One ExportTraceServiceRequest (or TracesData: the same on the wire), written piece by piece: repeated fields of protobuf messages that stand
    one after another are one message."""
    profile = _profile(options)
    for resource, spans in _batches(items, report, profile, size):
        head = wire.resource_spans_head(resource, SCOPE, scope_version())
        out.write(wire.request(head, [_written(span, profile, wire) for span in spans], SCHEMA_URL[profile.dialect]))
