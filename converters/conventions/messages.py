"""Attributes → messages: GenAI JSON (a string or structured), OpenInference's and Traceloop's flattened keys, the message events of
conventions before 1.37, and chat messages as the providers' APIs have them.

What a part or a message says beyond the GenAI schemas stays in ``Message.source``; a value that is no list of messages gives None, and the
attribute stays an attribute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from ..jsonio import inner
from ..model import (
    ABSENT,
    BlobPart,
    FilePart,
    GenericPart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
    raw,
)

_typed = msgspec.json.Decoder(list[Message])
_typed_parts = msgspec.json.Decoder(list[Part])
_untyped = msgspec.json.Decoder()

# Fields that a part of each type has in the GenAI schemas; what is more goes to the message's source.
_FIELDS: Final = {
    "text": {"type", "content"},
    "reasoning": {"type", "content"},
    "tool_call": {"type", "id", "name", "arguments"},
    "tool_call_response": {"type", "id", "response", "result"},
    "blob": {"type", "modality", "mime_type", "content"},
    "uri": {"type", "modality", "mime_type", "uri"},
    "file": {"type", "modality", "mime_type", "file_id"},
}


def ours(text: Any) -> list[Message] | None:
    """Messages as this package writes them, in one typed decode."""
    try:
        return _typed.decode(text)
    except (msgspec.DecodeError, TypeError, RecursionError):
        return None


def our_parts(text: Any) -> list[Part] | None:
    """``gen_ai.system_instructions`` as this package writes it."""
    try:
        return _typed_parts.decode(text)
    except (msgspec.DecodeError, TypeError, RecursionError):
        return None


def loaded(value: Any) -> Any:
    """The JSON that a string holds; anything else, and text that is no JSON, as it is."""
    if isinstance(value, str) and value[:1] in '[{"':
        try:
            return _untyped.decode(value)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return value
    return value


def _safe(value: Any) -> Raw:
    """A JSON value as Raw; NaN and infinities as strings."""
    try:
        return raw(value) if not _odd(value) else Raw(json.dumps(_without_nan(value)).encode())
    except (TypeError, UnicodeEncodeError, RecursionError):
        return Raw(json.dumps(str(value)).encode())


def _odd(value: Any) -> bool:
    if isinstance(value, float):
        return value - value != 0
    if isinstance(value, dict):
        return any(map(_odd, value.values()))
    return isinstance(value, list) and any(map(_odd, value))


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else json.dumps(value)
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    return [_without_nan(v) for v in value] if isinstance(value, list) else value


def content(value: Any) -> Raw:
    """Tool arguments or a result: JSON text in a string as its own JSON, other text as a JSON string, structured values as JSON."""
    return inner(value) if isinstance(value, str) else _safe(value)


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def part(given: Mapping[str, Any]) -> Part:
    """A part of the GenAI schemas, or of a provider's API."""
    kind = _str(given.get("type"))
    said = given.get("content")
    if kind in ("text", "input_text", "output_text") and isinstance(said if said is not None else given.get("text"), str):
        return TextPart(said if said is not None else given["text"])
    if kind in ("reasoning", "thinking") and isinstance(said if said is not None else given.get("thinking", given.get("text")), str):
        return ReasoningPart(said if said is not None else given.get("thinking", given.get("text")))
    if kind == "tool_call" and isinstance(given.get("name"), str):
        arguments = given.get("arguments")
        return ToolCallPart(given["name"], _str(given.get("id")), content(arguments) if arguments is not None else ABSENT)
    if kind == "tool_use" and isinstance(given.get("name"), str):
        return ToolCallPart(given["name"], _str(given.get("id")), content(given.get("input")))
    if kind == "tool_call_response" and ("response" in given or "result" in given):
        return ToolCallResponsePart(content(given.get("response", given.get("result"))), _str(given.get("id")))
    if kind == "tool_result":
        return ToolCallResponsePart(content(said), _str(given.get("tool_use_id")))
    if kind == "blob" and isinstance(said, str):
        return BlobPart(_str(given.get("modality")) or "document", said, _str(given.get("mime_type")))
    if kind == "uri" and isinstance(given.get("uri"), str):
        return UriPart(_str(given.get("modality")) or "document", given["uri"], _str(given.get("mime_type")))
    if kind == "file" and isinstance(given.get("file_id"), str):
        return FilePart(_str(given.get("modality")) or "document", given["file_id"], _str(given.get("mime_type")))
    if kind == "image_url" and isinstance(url := given.get("image_url"), dict | str):
        address = url if isinstance(url, str) else _str(url.get("url"))
        if address is not None:
            return UriPart("image", address)
    if kind == "generic":
        return GenericPart(_str(given.get("generic_type")), _safe(said) if "content" in given else ABSENT)
    return GenericPart(kind, _safe(dict(given)))


def parts(value: Any) -> list[Part] | None:
    """``gen_ai.system_instructions`` and the like: a list of parts, or one text."""
    value = loaded(value)
    if isinstance(value, str):
        return [TextPart(value)]
    if not isinstance(value, list):
        return None
    return [part(p) if isinstance(p, dict) else TextPart(p) if isinstance(p, str) else GenericPart(None, _safe(p)) for p in value]


def message(given: Mapping[str, Any], role: str | None = None) -> Message:
    """One message of the GenAI schemas (``parts``) or of a chat API (``content``, ``tool_calls``)."""
    who = _str(given.get("role")) or role or "user"
    found: list[Part] = []
    source: dict[str, Raw] = {}
    known = {"role", "name", "finish_reason"}
    if isinstance(listed := given.get("parts"), list):
        known.add("parts")
        found = parts(listed) or []
        if any(isinstance(p, dict) and set(p) - _FIELDS.get(str(p.get("type")), set(p)) for p in listed):
            source["parts"] = _safe(listed)
    said = given.get("content")
    if who == "tool" and said is not None:
        known |= {"content", "tool_call_id"}
        found.append(ToolCallResponsePart(content(said), _str(given.get("tool_call_id"))))
    elif isinstance(said, str):
        known.add("content")
        found.append(TextPart(said))
    elif isinstance(said, list):
        known.add("content")
        found += parts(said) or []
    elif isinstance(said, dict):
        known.add("content")
        found.append(part(said))
    if isinstance(calls := given.get("tool_calls"), list):
        known.add("tool_calls")
        for call in calls:
            function = call.get("function", call) if isinstance(call, dict) else None
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                arguments = function.get("arguments")
                found.append(ToolCallPart(function["name"], _str(call.get("id")), content(arguments) if arguments is not None else ABSENT))
            else:
                found.append(GenericPart("tool_call", _safe(call)))
    for key, value in given.items():
        if key not in known and value is not None:
            source[str(key)] = _safe(value)
    return Message(
        role=who, parts=found, name=_str(given.get("name")), finish_reason=_str(given.get("finish_reason")) or None, source=source
    )


def messages(value: Any, role: str | None = None) -> list[Message] | None:
    """A list of messages, as a JSON string or structured; None when it is none."""
    value = loaded(value)
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if isinstance(value, dict) and ("role" in value or "parts" in value or "tool_calls" in value):
        value = [value]
    if not isinstance(value, list) or not value or not all(isinstance(m, dict) and ("role" in m or "parts" in m) for m in value):
        return None
    return [message(m, role) for m in value]


# ------------------------------------------------------------------------------------------------- flattened attributes
_INDEXED = re.compile(r"(\d+)\.(.*)")


def indexed(attributes: Mapping[str, Any], prefix: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Attributes ``prefix.{i}.rest`` as a list of {rest: value} in the order of i, and the keys that it was made of. A list under
    ``prefix`` itself (some exports nest instead) gives the same."""
    found: dict[int, dict[str, Any]] = {}
    keys: list[str] = []
    start = prefix + "."
    if isinstance(nested := attributes.get(prefix), list) and all(isinstance(v, dict) for v in nested):
        return [_dotted(v) for v in nested], [prefix]
    for key, value in attributes.items():
        if key.startswith(start) and (hit := _INDEXED.fullmatch(key, len(start))):
            found.setdefault(int(hit[1]), {})[hit[2]] = value
            keys.append(key)
    return [found[i] for i in sorted(found)], keys


def _dotted(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            out.update(_dotted(item, f"{prefix}{key}."))
        else:
            out[prefix + key] = item
    return out


def openinference(attributes: Mapping[str, Any], prefix: str) -> tuple[list[Message], list[str]]:
    """``llm.input_messages`` or ``llm.output_messages``, flattened, and the keys that they took."""
    rows, keys = indexed(attributes, prefix)
    return [_openinference(row) for row in rows], keys


def _openinference(row: dict[str, Any]) -> Message:
    taken = {"message.role", "message.content", "message.name", "message.tool_call_id"}
    role = _str(row.get("message.role")) or "user"
    found: list[Part] = []
    contents, used = indexed(row, "message.contents")
    taken |= set(used)
    for item in contents:
        text, url = item.get("message_content.text"), item.get("message_content.image.image.url")
        kind = item.get("message_content.type")
        if isinstance(text, str):
            found.append(ReasoningPart(text) if kind == "reasoning" else TextPart(text))
        elif isinstance(url, str):
            found.append(UriPart("image", url))
        else:
            found.append(GenericPart(_str(kind), _safe(item)))
    said = row.get("message.content")
    if role == "tool" and (said is not None or row.get("message.tool_call_id") is not None):
        found.append(ToolCallResponsePart(content(said), _str(row.get("message.tool_call_id"))))
    elif isinstance(said, str) and (said or not contents):
        found.append(TextPart(said))
    calls, used = indexed(row, "message.tool_calls")
    taken |= set(used)
    for call in calls:
        arguments = call.get("tool_call.function.arguments")
        name = _str(call.get("tool_call.function.name")) or ""
        found.append(ToolCallPart(name, _str(call.get("tool_call.id")), content(arguments) if arguments is not None else ABSENT))
    source = {key: _safe(value) for key, value in row.items() if key not in taken}
    return Message(role=role, parts=found, name=_str(row.get("message.name")), source=source)


def numbered(attributes: Mapping[str, Any], prefix: str) -> tuple[list[Message], list[str]]:
    """``gen_ai.prompt.{i}.role`` and ``.content``, as older instrumentations write them, and the keys that they took."""
    rows, keys = indexed(attributes, prefix)
    made = []
    for row in rows:
        calls, used = indexed(row, "tool_calls")
        plain = {k: v for k, v in row.items() if k not in used}
        if calls:
            plain["tool_calls"] = calls
        if isinstance(plain.get("content"), str) and plain.get("role") != "tool":
            plain["content"] = loaded(plain["content"]) if plain["content"][:2] == "[{" else plain["content"]
        made.append(message(plain, "user" if prefix.endswith("prompt") else "assistant"))
    return made, keys


_EVENT_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}


def from_events(events: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[list[Message], list[Message]]:
    """Input and output messages of the message events that the conventions had before 1.37 (their attributes, as span events)."""
    into: list[Message] = []
    out: list[Message] = []
    for name, attributes in events:
        if (role := _EVENT_ROLES.get(name)) is None:
            continue
        given = {k.removeprefix("gen_ai.event."): v for k, v in attributes.items() if k not in ("gen_ai.system", "index")}
        if isinstance(inside := loaded(given.pop("message", None)), dict):
            given.update(inside)
        elif isinstance(inside, str):
            given["content"] = inside
        if role == "tool" and "id" in given:
            given["tool_call_id"] = given.pop("id")
        given["tool_calls"] = loaded(given.get("tool_calls"))
        (out if name == "gen_ai.choice" else into).append(message({k: v for k, v in given.items() if v is not None}, role))
    return into, out
