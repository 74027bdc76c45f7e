"""One rollout as SimLab recorded it: the fields of the record, its three lists item by item, and a light index of its messages.

Nothing large is decoded here: items stay `Raw` (slices of the mapped file), the index holds names, ids, digests and times.
Rules: message shapes A to D, told apart by content, since every file says version 0.1 (fixtures `shape_a` … `shape_d`).
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from .. import clock, jsonio
from ..errors import Report
from ..model import ABSENT

ITEMS: Final = ("messages", "tool_calls", "tool_results")
PLACEHOLDER: Final = "custom-agent"
"""What stands in ``model`` and ``provider`` when a custom agent ran without a named model. It is no model."""

_raws = msgspec.json.Decoder(list[Raw])
_RECORDER_ID = re.compile(r"call_\d+\Z")
UNKNOWN_CALL: Final = "Unknown tool call requested by model:"


class Nested(Struct, gc=False):
    """A call inside an assistant message: its id, the wire name (``server__tool``), the digest of its arguments, and
    whether it is spelled flat (shape A)."""

    id: str | None
    wire: str
    digest: bytes
    flat: bool = False


class Note(Struct, gc=False):
    """What a tool message says of its call. ``plain``: the message is only the text. ``text``: digest of the summary."""

    id: str | None = None
    server: str | None = None
    name: str | None = None
    is_error: bool | None = None
    plain: bool = False
    unknown: bool = False
    text: bytes | None = None


class Entry(Struct, gc=False):
    """One element of ``tool_calls``. ``digest`` is None when the parameters are not recorded (ATIF)."""

    server: str | None
    name: str
    digest: bytes | None
    text: bytes | None = None


class Head(Struct, gc=False):
    """The index entry of a message. ``recorded``: made by SimLab's recorder for an adapter (one call, no text, ``call_<n>``)."""

    role: str
    time: int | None = None
    calls: list[Nested] = []
    note: Note | None = None
    recorded: bool = False


class Document(Struct, kw_only=True):
    """``fields``: every top-level member as it stands. ``cut``: the file breaks off, so its end is not known. ``atif``: taken from a
    trajectory, which has no times of tool messages and no parameters of its own. ``agent``: the agent's name, where stated outside the record.
    ``verbatim``: the original text of observations (by index) that hold NaN or an infinity, and so are no JSON."""

    fields: dict[str, Raw]
    messages: list[Raw]
    calls: list[Raw]
    results: list[Raw]
    cut: bool = False
    atif: bool = False
    agent: str | None = None
    verifier: Raw = ABSENT
    verbatim: dict[int, str] = {}

    def text(self, *names: str) -> str | None:
        """The first of these members that is a string."""
        for name in names:
            if (found := jsonio.text(self.fields.get(name, ABSENT))) is not None:
                return found
        return None


def digest(data: bytes | str) -> bytes:
    """A short digest, to compare contents without holding them."""
    return blake2b(data.encode("utf-8", "replace") if isinstance(data, str) else data, digest_size=12).digest()


_EMPTY: Final = digest(b"{}")


def digest_value(raw: Raw) -> bytes:
    """Digest of a JSON object by value (key order and white space apart); anything else counts as the empty object, as in SimLab."""
    if bytes(memoryview(raw)[:1]) != b"{":
        return _EMPTY
    try:
        return digest(msgspec.json.encode(msgspec.json.decode(raw), order="deterministic"))
    except (msgspec.DecodeError, RecursionError, OverflowError):
        return digest(bytes(raw))


def digest_text(text: str) -> bytes:
    """The same for JSON inside a string. Text that is no JSON counts as the empty object."""
    data = text.encode("utf-8", "replace")
    if data.lstrip()[:1] != b"{":
        return _EMPTY
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        return digest(data)
    except msgspec.DecodeError:
        try:
            value = msgspec.json.decode(jsonio.repair(data)[0])
        except (msgspec.DecodeError, RecursionError):
            return _EMPTY
    return digest(msgspec.json.encode(value, order="deterministic")) if isinstance(value, dict) else _EMPTY


def items(raw: Raw, name: str, report: Report) -> list[Raw]:
    """The elements of a top-level list; [] (and a notice, when something is lost) for anything else."""
    if jsonio.is_null(raw):
        return []
    try:
        return _raws.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        report.note("not-a-list", f"expected a list; kept as it stands in source.{name}", path=f"$.{name}")
        return []


def document(fields: dict[str, Raw], report: Report, *, cut: bool = False) -> Document:
    """A `Document` from the members of a RunArtifacts object."""
    lists = [items(fields.get(name, ABSENT), name, report) for name in ITEMS]
    return Document(fields=fields, messages=lists[0], calls=lists[1], results=lists[2], cut=cut)


def time_of(text: str | None) -> int | None:
    """ISO text to ns; None for what is no time."""
    if not text:
        return None
    try:
        return clock.from_iso(text)
    except (ValueError, OverflowError):
        return None


def iso(ns: int) -> str:
    """ns as SimLab prints it: UTC, microseconds (what is below is cut), no fraction when it is zero."""
    shown = clock.to_iso(ns // 1000 * 1000)
    return shown.replace(".000000", "") if shown[19:26] == ".000000" and shown[26:27] in "+-" else shown


# ------------------------------------------------------------------------------------------------------- the index
def text_of(content: Raw) -> str | None:
    """The text of message content: a string, or the text blocks of a list."""
    found = jsonio.text(content)
    if found is None and bytes(memoryview(content)[:1]) == b"[":
        blocks = jsonio.value(content)
        texts = [b["text"] for b in blocks if isinstance(b, dict) and isinstance(b.get("text"), str)] if isinstance(blocks, list) else []
        return "\n".join(texts) if texts else None
    return found


def nested_fields(raw: Raw) -> tuple[str | None, str, Raw, dict[str, Raw]]:
    """(id, wire name, arguments, other members) of a nested call: ``function`` in shapes B to D, ``name`` and ``arguments`` beside the id in A."""
    rest = jsonio.fields(raw)
    number = jsonio.text(rest.get("id", ABSENT))
    if number is not None:
        rest.pop("id")
    inside = rest
    if "function" in rest:
        inside = jsonio.fields(rest["function"])
        if "name" in inside:
            rest.pop("function")
            rest.update({f"function.{k}": v for k, v in inside.items() if k not in ("name", "arguments")})
        if jsonio.text(rest.get("type", ABSENT)) == "function":
            rest.pop("type")
    name = jsonio.text(inside.get("name", ABSENT))
    arguments = inside.get("arguments", ABSENT)
    if inside is rest:
        rest.pop("name", None)
        rest.pop("arguments", None)
    return number, name or "", arguments, rest


def calls_of(content: dict[str, Raw], fields: dict[str, Raw]) -> list[Raw]:
    """The nested calls of an assistant message: in its content, or beside it (the spelling of chat APIs)."""
    for place in (content, fields):
        if (raw := place.get("tool_calls", ABSENT)) and bytes(memoryview(raw)[:1]) == b"[":
            return _raws.decode(raw)
    return []


def _nested(raw: Raw) -> Nested:
    number, wire, arguments, _ = nested_fields(raw)
    inner = jsonio.text(arguments)
    flat = "function" not in jsonio.fields(raw)
    return Nested(number, wire, digest_text(inner) if inner is not None else digest_value(arguments), flat)


def flag(raw: Raw) -> bool | None:
    """A JSON boolean, or None for anything else."""
    return {b"true": True, b"false": False}.get(bytes(memoryview(raw)[:5]))


def note_of(content: Raw, fields: dict[str, Raw], told: bool) -> Note:
    """What a tool message says of its call; ``told``: with the digest of its text."""
    inside = jsonio.fields(content) if bytes(memoryview(content)[:1]) == b"{" else {}
    stated = inside if "tool_call_id" in inside or "tool_name" in inside else fields
    number = jsonio.text(stated.get("tool_call_id", ABSENT))
    name = jsonio.text(stated.get("tool_name", ABSENT)) or jsonio.text(stated.get("name", ABSENT))
    server = jsonio.text(stated.get("tool_server", ABSENT))
    failed = flag(stated.get("is_error", ABSENT))
    guess = server is None and failed is True
    summary = (jsonio.text(inside.get("summary", ABSENT)) if inside else text_of(content)) if told or guess else None
    unknown = server == "unknown" or (guess and (summary or "").startswith(UNKNOWN_CALL))
    return Note(number, server, name, failed, number is None and name is None, unknown, digest(summary) if summary else None)


def head(raw: Raw, told: bool = False) -> Head:
    """The index entry of one message; ``told``: with the digests of answers."""
    fields = jsonio.fields(raw)
    role = jsonio.text(fields.get("role", ABSENT)) or ""
    content = fields.get("content", ABSENT)
    time = time_of(jsonio.text(fields.get("timestamp", ABSENT)))
    if role == "tool":
        return Head(role, time, note=note_of(content, fields, told))
    if role == "assistant":
        inside = jsonio.fields(content) if bytes(memoryview(content)[:1]) == b"{" else {}
        found = [_nested(c) for c in calls_of(inside, fields)]
        words = inside.get("content", ABSENT) if inside else content
        silent = len(memoryview(words)) <= 4 and bytes(words) in (b'""', b"null", b"")
        recorded = len(found) == 1 and silent and found[0].id is not None and _RECORDER_ID.match(found[0].id) is not None
        return Head(role, time, found, recorded=recorded)
    return Head(role, time)


def entry_fields(raw: Raw) -> tuple[str | None, str, Raw, dict[str, Raw]]:
    """(server, tool, parameters, other members) of an element of ``tool_calls``."""
    rest = jsonio.fields(raw)

    def take(*names: str) -> Raw:
        for name in names:
            if name in rest:
                return rest.pop(name)
        return ABSENT

    server = jsonio.text(take("tool_server", "server"))
    name = jsonio.text(take("tool_name", "name")) or ""
    return server, name, take("parameters", "arguments"), rest


def result_fields(raw: Raw) -> tuple[Raw, bool | None, dict[str, Raw]]:
    """(observation, outer is_error, other members) of an element of ``tool_results``."""
    rest = jsonio.fields(raw)
    for name in ("observation", "result"):
        if name in rest:
            return rest.pop(name), flag(rest.pop("is_error", ABSENT)), rest
    return ABSENT, flag(rest.pop("is_error", ABSENT)), rest


def entry(raw: Raw) -> Entry:
    """The index entry of an element of ``tool_calls``."""
    server, name, parameters, _ = entry_fields(raw)
    return Entry(server, name, digest_value(parameters) if parameters else _EMPTY)


def metadata(doc: Document) -> dict[str, Any]:
    """``metadata`` decoded; {} when it is no object."""
    found = jsonio.value(doc.fields.get("metadata", ABSENT))
    return found if isinstance(found, dict) else {}
