"""One rollout as SimLab recorded it: the fields of the record, its three lists item by item, and a light index of its messages.

Nothing large is decoded here: items stay `Raw` (slices of the mapped file), the index holds names, ids, digests and times.
Rules: message shapes A to D, told apart by content, since every file says version 0.1 (fixtures `shape_a` … `shape_d`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from .. import clock, jsonio
from ..errors import Report
from ..model import ABSENT
from . import shapes

ITEMS: Final = ("messages", "tool_calls", "tool_results")
PLACEHOLDER: Final = "custom-agent"
"""What stands in ``model`` and ``provider`` when a custom agent ran without a named model. It is no model."""

_raws = msgspec.json.Decoder(list[Raw])
_RECORDER_ID = re.compile(r"call_\d+\Z")
UNKNOWN_CALL: Final = "Unknown tool call requested by model:"


class Nested(Struct, gc=False):
    """A call inside an assistant message: its id, the wire name (``server__tool``), its arguments as they stand, and
    whether it is spelled flat (shape A)."""

    id: str | None
    wire: str
    arguments: Raw
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
    """One element of ``tool_calls``. ``common``: it has these members and no others, spelled as today. ``compared`` is false when the
    parameters are not recorded (ATIF); then ``text`` is the digest of the result's text."""

    server: str | None
    name: str
    parameters: Raw
    common: bool = False
    compared: bool = True
    text: bytes | None = None


class Head(Struct, gc=False):
    """The index entry of a message. ``exact``: `iso` prints ``time`` as it is spelled; None when that was not looked at. ``recorded``: made by SimLab's
    recorder for an adapter (one call, no text, ``call_<n>``). ``content``: the content of a message in the common spelling, without its text, so that it need
    not be decoded again; None where the rest of the message has to be looked at."""

    role: str
    time: int | None = None
    calls: Sequence[Nested] = ()
    note: Note | None = None
    recorded: bool = False
    exact: bool | None = None
    content: shapes.Asked | shapes.Told | None = None


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


_EMPTY: Final = b"{}"
_NO_TEXT: Final = Raw(b'""')


def by_value(raw: Raw) -> bytes:
    """A JSON object as text that is the same for equal values (key order and white space apart); anything else counts as the empty object, as in SimLab."""
    if bytes(memoryview(raw)[:1]) != b"{":
        return _EMPTY
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="deterministic")
    except (msgspec.DecodeError, RecursionError, OverflowError):
        return bytes(raw)


def arguments_by_value(raw: Raw) -> bytes:
    """The same for the arguments of a nested call, which may be JSON inside a string. Text that is no JSON counts as the empty object."""
    text = jsonio.text(raw)
    if text is None:
        return by_value(raw)
    data = text.encode("utf-8", "replace")
    if data.lstrip()[:1] != b"{":
        return _EMPTY
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        return data
    except msgspec.DecodeError:
        try:
            value = msgspec.json.decode(jsonio.repair(data)[0])
        except (msgspec.DecodeError, RecursionError):
            return _EMPTY
    return msgspec.json.encode(value, order="deterministic") if isinstance(value, dict) else _EMPTY


def _spelled_alike(one: bytes, other: bytes) -> bool:
    """Whether two objects are the same but for white space: no need to decode them."""
    if not one[:1] == other[:1] == b"{":
        return False
    try:
        if one == other or msgspec.json.format(other, indent=0) == one:  # as Python writes it on one line
            return True
        return msgspec.json.format(one, indent=-1) == msgspec.json.format(other, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return False


def same(given: Raw, recorded: Raw) -> bool:
    """Whether two values are the same object (what is no object counts as {})."""
    return _spelled_alike(bytes(given), bytes(recorded)) or by_value(given) == by_value(recorded)


def alike(arguments: Raw, parameters: Raw) -> bool:
    """Whether the arguments of a nested call are the recorded parameters."""
    text = jsonio.text(arguments)
    if text is not None and text.isascii() and _spelled_alike(text.encode(), bytes(parameters)):
        return True
    return arguments_by_value(arguments) == by_value(parameters)


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


@lru_cache(maxsize=4096)
def _second(text: str) -> int | None:
    """The time of ``YYYY-MM-DDTHH:MM:SS`` in UTC; None for anything that would not be printed so again."""
    found = time_of(text)
    return found if found is not None and clock.to_iso(found)[:19] == text else None


def stamp(text: str) -> tuple[int | None, bool]:
    """The time that a stamp states, and whether `iso` prints it as it stands."""
    if len(text) == 32 and text[19] == "." and text[26:] == "+00:00":
        micro = text[20:26]
        if micro.isdecimal() and micro.isascii() and (second := _second(text[:19])) is not None:
            return second + int(micro) * 1000, micro != "000000"
    time = time_of(text)
    return time, time is not None and iso(time) == text


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
    return Nested(number, wire, arguments, "function" not in jsonio.fields(raw))


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


_names: dict[str, str] = {}


def once(name: str) -> str:
    """The name of a tool or a server as one object: they are few, and stand in every call."""
    if len(name) > 100:
        return name
    if len(_names) > 4096:
        _names.clear()
    return _names.setdefault(name, name)


def head(raw: Raw, told: bool = False) -> Head:
    """The index entry of one message; ``told``: with the digests of answers."""
    message = shapes.message(raw)
    if message is None:
        return _odd_head(raw, told)
    role = message.role
    written = message.timestamp
    time, exact = stamp(written) if written else (None, None)
    content = message.content
    kind = content.__class__
    if kind is str:
        return Head(role, time, exact=exact)
    kept = content if exact or written is None else None
    if isinstance(content, shapes.Told):
        server = None
        if content.tool_server is not UNSET:
            content.tool_server = server = once(content.tool_server)
        content.tool_name = once(content.tool_name)
        if server is None and content.is_error:  # its text tells whether the tool was unknown
            return _odd_head(raw, told)
        summary = jsonio.text(content.summary) if told else None
        unknown = server == "unknown"
        return Head(
            role,
            time,
            note=Note(
                content.tool_call_id,
                server,
                content.tool_name or None,
                content.is_error,
                False,
                unknown,
                digest(summary) if summary else None,
            ),
            exact=exact,
            content=kept,  # type: ignore[arg-type]
        )
    assert isinstance(content, shapes.Asked)
    if not content.tool_calls:
        return _odd_head(raw, told)
    for call in content.tool_calls:
        call.function.name = once(call.function.name)
    calls = [Nested(c.id, c.function.name, c.function.arguments) for c in content.tool_calls]
    recorded = len(calls) == 1 and content.content == _NO_TEXT and _RECORDER_ID.match(calls[0].id or "") is not None
    return Head(role, time, calls, recorded=recorded, exact=exact, content=kept)  # type: ignore[arg-type]


def _odd_head(raw: Raw, told: bool) -> Head:
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
    if (found := shapes.call(raw)) is not None:
        return Entry(once(found.tool_server), once(found.tool_name), found.parameters, True)
    server, name, parameters, _ = entry_fields(raw)
    return Entry(server, name, parameters)


def metadata(doc: Document) -> dict[str, Any]:
    """``metadata`` decoded; {} when it is no object."""
    found = jsonio.value(doc.fields.get("metadata", ABSENT))
    return found if isinstance(found, dict) else {}
