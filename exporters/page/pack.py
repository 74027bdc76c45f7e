"""A trace as blocks for the page: one index (what every row of the tree shows, in columns) and chunks of content (messages, arguments,
results …), a line of JSON a span, that the page opens only when somebody looks at one.

Rows are the spans in the order of the tree, so that what is under a span are the rows after it. Keys of content are short and never words: the
page searches the text of a line, and only what the record said is to be found there.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from ...converters.model import (
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
from ..stats import BAD_OUTCOMES, Totals, count

KINDS: Final = ("run", "task", "attempt", "phase", "model_request", "tool_call")
CLOCKS: Final = ("recorded", "derived", "synthetic")
STATUSES: Final = ("unset", "ok", "error")
UNFINISHED, REUSED, INFERRED, BAD = 1, 2, 4, 8
"""Flags of a row."""

CHUNK: Final = 1 << 18
"""Bytes of content in one block, before compression; a longer line has a block for itself."""

# Facts of a kind that the panel lists: (field, label).
FACTS: Final[dict[type, tuple[tuple[str, str], ...]]] = {
    Run: (
        ("type", "type"),
        ("native_id", "run id"),
        ("agent_id", "agent id"),
        ("model", "model"),
        ("provider", "provider"),
        ("conversation_id", "conversation"),
        ("user_id", "user"),
        ("ending", "ending"),
        ("verdict", "verdict"),
        ("tags", "tags"),
    ),
    Task: (("native_id", "task id"), ("category", "category"), ("index", "index"), ("ending", "ending"), ("verdict", "verdict")),
    Attempt: (
        ("number", "number"),
        ("agent", "agent"),
        ("conversation_id", "conversation"),
        ("ending", "ending"),
        ("verdict", "verdict"),
    ),
    Phase: (("type", "type"), ("operation", "operation"), ("conversation_id", "conversation"), ("retry", "retry")),
    ModelRequest: (
        ("model", "model"),
        ("response_model", "answered by"),
        ("provider", "provider"),
        ("operation", "operation"),
        ("finish_reasons", "finish reasons"),
        ("response_id", "response id"),
        ("agent", "agent"),
        ("conversation_id", "conversation"),
        ("retry", "retry"),
    ),
    ToolCall: (
        ("outcome", "outcome"),
        ("server", "server"),
        ("type", "type"),
        ("description", "description"),
        ("call_id", "call id"),
        ("agent", "agent"),
        ("conversation_id", "conversation"),
        ("retry", "retry"),
    ),
}
LABELS: Final = tuple(dict.fromkeys(label for facts in FACTS.values() for _, label in facts))
_LABEL: Final = {label: n for n, label in enumerate(LABELS)}

_encoder = msgspec.json.Encoder()
_ALPHABET: Final = bytes.maketrans(b"<&`", b",./")


class Packed(NamedTuple):
    """Blocks of one trace, ready for the file, and what the list of runs says about it."""

    rows: bytes
    chunks: list[bytes]
    facts: dict[str, Any]


# ------------------------------------------------------------------------------------------------------ encoding
def block(data: bytes) -> bytes:
    """``data`` compressed (raw deflate) and in base 85, which is 6 % smaller than base 64. ``<``, ``&`` and the backtick of Python's alphabet
    are written ``,``, ``.`` and ``/``, so that no block can hold anything that HTML knows."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b85encode(packer.compress(data) + packer.flush()).translate(_ALPHABET)


def _mended(value: Any) -> Any:
    """``value`` with what JSON or UTF-8 can't hold replaced: lone surrogates, integers over 64 bits, a Raw that is no JSON."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Raw):
        try:
            msgspec.json.format(bytes(value), indent=-1)
        except (msgspec.DecodeError, RecursionError):
            return bytes(value).decode("utf-8", "replace")
        return value
    if isinstance(value, list | tuple):
        return [_mended(v) for v in value]
    if isinstance(value, dict):
        return {str(_mended(str(k))): _mended(v) for k, v in value.items()}
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 64:
        return str(value)
    return value


def encode(value: Any) -> bytes:
    """JSON in one line, without blanks between tokens."""
    try:
        return msgspec.json.format(_encoder.encode(value), indent=-1)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, OverflowError, RecursionError):
        return msgspec.json.format(_encoder.encode(_mended(value)), indent=-1)


# --------------------------------------------------------------------------------------------------------- order
def in_order(spans: list[AnySpan]) -> Iterator[tuple[int, AnySpan]]:
    """Spans depth first with their depth, siblings by start; each span once, whatever its parent says (an unknown parent, a
    ring of parents, an id that two spans have)."""
    ids = {s.id for s in spans}
    below: dict[str | None, list[AnySpan]] = {}
    for span in spans:
        below.setdefault(span.parent_id if span.parent_id in ids and span.parent_id != span.id else None, []).append(span)
    for group in below.values():
        group.sort(key=lambda s: (s.start is None, s.start or 0))

    def walk(top: list[AnySpan]) -> Iterator[tuple[int, AnySpan]]:
        stack = [(0, s) for s in reversed(top)]
        while stack:
            depth, span = stack.pop()
            yield depth, span
            stack.extend((depth + 1, s) for s in reversed(below.pop(span.id, [])))

    yield from walk(below.pop(None, []))
    while below:  # what is left hangs on a ring of parents
        yield from walk(below.pop(next(iter(below))))


def title(span: AnySpan) -> str:
    """What the row is called: the source's own name, without the operation, which the row's sign says."""
    if isinstance(span, ModelRequest):
        return span.model or span.response_model or span.name or "model request"
    if isinstance(span, Attempt):
        return f"attempt {span.number}"
    return span.name or kind_of(span).replace("_", " ")


def aside(span: AnySpan) -> str | None:
    """A second word for the row: who did it."""
    if isinstance(span, Attempt | ModelRequest):
        return span.agent
    if isinstance(span, ToolCall):
        return span.server
    if isinstance(span, Run):
        return span.type if span.type != "agent" else None
    return span.category if isinstance(span, Task) else None


def is_bad(span: AnySpan) -> bool:
    """Whether the row is marked as an error: as `spanport stats` counts them."""
    return span.outcome in BAD_OUTCOMES if isinstance(span, ToolCall) else span.status == "error"


# ------------------------------------------------------------------------------------------------------- content
def _raw(value: Raw) -> Raw | None:
    return value or None


def _source(fields: dict[str, Raw], carry: bool) -> dict[str, Raw] | None:
    return fields if carry and fields else None


def _cut(values: list[Any]) -> list[Any]:
    """Without the empty fields at the end."""
    while values and (values[-1] is None or values[-1] == []):
        values.pop()
    return values


def part(given: Part) -> list[Any]:
    """A part as the page has it: a letter and its fields in order."""
    match given:
        case TextPart():
            return ["t", given.content]
        case ReasoningPart():
            return ["r", given.content]
        case ToolCallPart():
            return _cut(["c", given.name, given.id, _raw(given.arguments)])
        case ToolCallResponsePart():
            return ["R", given.id, _raw(given.response)]
        case BlobPart():
            return ["b", given.modality, given.mime_type, given.content]
        case UriPart():
            return _cut(["u", given.modality, given.uri, given.mime_type])
        case FilePart():
            return _cut(["f", given.modality, given.file_id, given.mime_type])
        case GenericPart():
            return _cut(["g", given.generic_type, _raw(given.content)])


def message(given: Message, carry: bool) -> list[Any]:
    """[role, parts, name, finish reason, time in ns as text, source], cut after the last that is there."""
    time = None if given.time is None else str(given.time)
    return _cut([given.role, [part(p) for p in given.parts], given.name, given.finish_reason, time, _source(given.source, carry)])


ARTIFACT: Final = tuple(f for f in Artifact.__struct_fields__ if f not in ("payload", "source", "created"))


def _artifact(given: Artifact, carry: bool) -> list[Any]:
    """[{field: value}, payload, created in ns as text, source]."""
    facts = {f: v for f in ARTIFACT if (v := getattr(given, f)) is not None}
    return _cut([facts, _raw(given.payload), None if given.created is None else str(given.created), _source(given.source, carry)])


def usage(given: Usage | None) -> list[Any] | None:
    """[input, output, cache read, cache write, reasoning, total, cost]."""
    return None if given is None else [getattr(given, f) for f in Usage.__struct_fields__]


def facts(span: AnySpan) -> list[list[Any]]:
    """[number of the label, value] for what the panel lists; a retry of 0 is the first try and not told."""
    found: list[list[Any]] = []
    for field, label in FACTS[span.__class__]:
        value = getattr(span, field)
        if value is not None and value != "" and value != [] and not (field == "retry" and value == 0):
            found.append([_LABEL[label], value])
    return found


def content(span: AnySpan, rows: dict[str, int], carry: bool) -> dict[str, Any]:
    """What the panel shows of ``span``; ``rows`` finds spans of the same trace. Only fields that are there."""
    found: dict[str, Any] = {
        "f": facts(span),
        "e": [span.error.type, span.error.message] if span.error is not None else None,
        "S": [_cut([s.name, s.value, s.label, s.explanation, _source(s.source, carry)]) for s in span.scores],
        "A": [_artifact(a, carry) for a in span.artifacts],
        "E": [_cut([e.name, None if e.time is None else str(e.time), e.attributes or None, _source(e.source, carry)]) for e in span.events],
        "L": [_cut([x.type, x.trace_id, x.span_id, x.attributes or None]) for x in span.links],
        "t": span.attributes,
        "u": _source(span.source, carry),
    }
    if isinstance(span, Run | Task | Attempt | Phase):
        found |= {"i": _raw(span.input), "o": _raw(span.output)}
    if isinstance(span, Run | Task | Attempt | ModelRequest):
        found["U"] = usage(span.usage)
    if isinstance(span, Task):
        found["x"] = _raw(span.expected)
    elif isinstance(span, Attempt):
        found["m"] = [message(m, carry) for m in span.messages]
    elif isinstance(span, ModelRequest):
        found |= {
            "s": [part(p) for p in span.system_instructions],
            "m": [message(m, carry) for m in span.input_messages],
            "M": [message(m, carry) for m in span.output_messages],
            "h": [rows.get(span.history.base), span.history.count] if span.history is not None else None,
            "d": _raw(span.tool_definitions),
            "p": span.parameters,
            "w": span.time_to_first_token,
            "c": [
                _cut([c.time - span.start if c.time is not None and span.start is not None else None, c.length, c.part[:1]])
                for c in span.chunks
            ],
        }
    elif isinstance(span, ToolCall):
        found |= {"z": span.reasoning, "a": _raw(span.arguments), "r": _raw(span.result)}
    return {k: v for k, v in found.items() if v is not None and v != [] and v != {}}


def chunked(lines: Iterable[bytes]) -> tuple[list[bytes], list[int]]:
    """Blocks of lines, and the row that each begins with."""
    chunks: list[bytes] = []
    firsts: list[int] = []
    held: list[bytes] = []
    size = first = row = 0
    for row, line in enumerate(lines, 1):
        if held and size + len(line) > CHUNK:
            chunks.append(block(b"\n".join(held)))
            firsts.append(first)
            held, size, first = [], 0, row - 1
        held.append(line)
        size += len(line) + 1
    if held:
        chunks.append(block(b"\n".join(held)))
        firsts.append(first)
    return chunks, firsts


# --------------------------------------------------------------------------------------------------------- index
class _Words:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.list: list[str] = []
        self._known: dict[str, int] = {}

    def __call__(self, text: str | None) -> int:
        """The number of ``text``; -1 for None."""
        if text is None:
            return -1
        if (known := self._known.get(text)) is None:
            known = self._known[text] = len(self.list)
            self.list.append(text)
        return known


def _first_line(text: str | None) -> str | None:
    return None if text is None else text.strip().split("\n", 1)[0][:160]


def index(spans: list[AnySpan], depths: list[int], firsts: list[int], rows: dict[str, int]) -> dict[str, Any]:
    """The columns of the rows. ``start``: ns after the start of the last row before it that has one (the first: after ``base``); ``length``: ns; both
    null when the record does not say."""
    words = _Words()
    base = last = min((s.start for s in spans if s.start is not None), default=0)
    starts: list[int | None] = []
    for s in spans:
        starts.append(None if s.start is None else s.start - last)
        last = last if s.start is None else s.start
    requests = [(n, s) for n, s in enumerate(spans) if isinstance(s, ModelRequest)]
    return {
        "base": str(base),
        "id": "".join(s.id for s in spans) if all(len(s.id) == 16 for s in spans) else [s.id for s in spans],
        "depth": depths,
        "kind": "".join(str(KINDS.index(kind_of(s))) for s in spans),
        "clock": "".join(str(CLOCKS.index(s.clock)) for s in spans),
        "status": "".join(str(STATUSES.index(s.status)) for s in spans),
        "flags": [
            UNFINISHED * s.unfinished | REUSED * s.reused | INFERRED * (isinstance(s, ModelRequest) and s.inferred) | BAD * is_bad(s)
            for s in spans
        ],
        "name": [words(title(s)) for s in spans],
        "aside": [words(aside(s)) for s in spans],
        "start": starts,
        "length": [None if s.start is None or s.end is None else s.end - s.start for s in spans],
        "unsure": [[n, s.uncertainty] for n, s in enumerate(spans) if s.uncertainty],
        "tokens": [[n, u.input, u.output] for n, s in requests if (u := s.usage) is not None],
        "models": [words(s.model or s.response_model) for _, s in requests],
        "errors": [[n, words(s.error.type), words(_first_line(s.error.message))] for n, s in enumerate(spans) if s.error is not None],
        "by": [[n, rows[s.requested_by]] for n, s in enumerate(spans) if isinstance(s, ToolCall) and s.requested_by in rows],
        "links": [[n, rows[x.span_id], words(x.type)] for n, s in enumerate(spans) for x in s.links if x.span_id in rows],
        "chunks": firsts,
        "labels": LABELS,
        "words": words.list,
    }


def about(trace: Trace) -> dict[str, Any]:
    """What the list of runs and the head say: the counts are those of `spanport stats`."""
    totals = Totals()
    count([trace.header, *trace.spans], totals)
    known = totals.as_dict()
    ids = {s.id for s in trace.spans}
    tops = [s for s in trace.spans if s.parent_id not in ids]
    root = next((s for s in tops if isinstance(s, Run)), tops[0] if tops else None)
    header = trace.header
    return {
        "trace": header.id,
        "name": header.name or (title(root) if root is not None else header.id[:8]),
        "family": header.family,
        "format": header.format,
        "key": header.run_key,
        "resource": header.resource,
        "spans": known["spans"],
        "errors": known["errors"],
        "tokens": known["tokens"],
        "clock": known["clock"],
        "start": None if totals.first is None else str(totals.first),
        "length": None if totals.first is None or totals.last is None else totals.last - totals.first,
        "cost": _cost(trace),
        "ending": getattr(root, "ending", None),
        "verdict": getattr(root, "verdict", None),
        "bad": root is not None and is_bad(root),
        "unfinished": root is not None and root.unfinished,
    }


def _cost(trace: Trace) -> float | None:
    """Dollars, of the requests whose source states them."""
    stated = [
        s.usage.cost
        for s in trace.spans
        if isinstance(s, ModelRequest) and not s.reused and s.usage is not None and s.usage.cost is not None
    ]
    return sum(stated) if stated else None


def pack(trace: Trace, carry: bool = False) -> Packed:
    """The blocks of ``trace``. ``carry``: with the untyped fields of the record."""
    pairs = list(in_order(trace.spans))
    spans, depths = [s for _, s in pairs], [d for d, _ in pairs]
    rows: dict[str, int] = {}
    for row, span in enumerate(spans):
        rows.setdefault(span.id, row)
    chunks, firsts = chunked(encode(content(s, rows, carry)) for s in spans)
    return Packed(block(encode(index(spans, depths, firsts, rows))), chunks, about(trace))
