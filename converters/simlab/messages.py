"""One message of a RunArtifacts record as a `Message` of the model, and back.

Both directions stand here, side by side, so that what `read` leaves out is what `render` puts in by itself: the shape's spelling, the default
form of arguments, the tool message's name, server and flag (which are those of the call). Whatever is spelled otherwise is
kept in the message's ``source``, odd content as it stands.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from .. import jsonio
from ..model import ABSENT, BlobPart, GenericPart, Message, Part, ReasoningPart, TextPart, ToolCallPart, ToolCallResponsePart, UriPart, raw
from . import shapes
from .document import Head, calls_of, flag, iso, nested_fields, stamp, time_of

NULL: Final = Raw(b"null")


class Answer(Struct, gc=False):
    """What a tool message says of its call, when the call explains it."""

    id: str | None = None
    server: str | None = None
    name: str | None = None
    is_error: bool | None = None


def answer(shape: str, number: str | None, server: str | None, name: str, wire: str | None, unknown: bool, is_error: bool) -> Answer:
    """What the tool message of a call says in ``shape``. ``wire``: the name that the model asked for; ``unknown``: no such tool."""
    asked = wire or (f"{server}__{name}" if server else name)
    if shape in ("A", "B"):
        return Answer(number, None, asked, is_error)
    return Answer(number, "unknown" if unknown else server or "", asked if unknown else name, is_error)


def default_text(value: Any) -> str:
    """JSON text in the form that Python's ``json`` gives by default, as SimLab's recorder and most providers have it."""
    return json.dumps(value)


def _no_float(text: str) -> float:
    raise ValueError(text)


_no_floats = msgspec.json.Decoder(float_hook=_no_float)
_encode = msgspec.json.Encoder().encode


def _is_plain_default(text: str, data: bytes) -> bool:
    """Whether ``text``, of which ``data`` are the bytes, is JSON that comes back when it is decoded and encoded again, and holds nothing that Python
    writes in its own way."""
    if not text.isascii() or "\\" in text or "\x7f" in text:
        return False
    try:
        return msgspec.json.format(_encode(_no_floats.decode(data)), indent=0) == data
    except (msgspec.DecodeError, RecursionError):
        return False


def given(text: str) -> tuple[Raw, str | None]:
    """The arguments of a call that are written as ``text``, as JSON, and the text where it is JSON in another form than the default."""
    data = text.encode("utf-8", "replace")
    if _is_plain_default(text, data):
        return Raw(data), None
    try:
        default = json.dumps(json.loads(text)) == text
    except (ValueError, RecursionError):
        default = True  # it is no JSON at all
    return jsonio.inner(text), None if default else text


# ------------------------------------------------------------------------------------------------------------ read
def _block(block: Raw) -> Part:
    found = jsonio.fields(block)
    kind = jsonio.text(found.get("type", ABSENT))
    words = jsonio.text(found.get("text", ABSENT))
    if kind in ("text", "input_text", "output_text") and words is not None and len(found) == 2:
        return TextPart(words)
    if kind == "image" and (data := jsonio.text(found.get("data", ABSENT))) is not None:
        return BlobPart("image", data, jsonio.text(found.get("mimeType", ABSENT)))
    if kind == "image_url":
        url = jsonio.text(jsonio.fields(found.get("image_url", ABSENT)).get("url", ABSENT))
        if url is not None and not url.startswith("data:"):
            return UriPart("image", url)
    return GenericPart(kind, block.copy())


def _content(content: Raw, source: dict[str, Raw]) -> list[Part]:
    """Content that is no tool call and no answer. Anything but a string is kept as it stands, too."""
    if (words := jsonio.text(content)) is not None:
        return [TextPart(words)] if words else []
    if not content:  # not stated at all
        return []
    source["content"] = content
    if jsonio.is_null(content):
        return []
    if bytes(memoryview(content)[:1]) == b"[":
        return [_block(b) for b in msgspec.json.decode(content, type=list[Raw])]
    words = jsonio.text(jsonio.fields(content).get("content", ABSENT))
    return [TextPart(words)] if words else [GenericPart(None, content)]


def _assistant(content: Raw, fields: dict[str, Raw], source: dict[str, Raw]) -> list[Part]:
    inside = jsonio.fields(content) if bytes(memoryview(content)[:1]) == b"{" else {}
    nested = calls_of(inside, fields)
    if not nested:
        return _content(content, source)
    beside = "tool_calls" not in inside
    words = jsonio.text(inside.get("content", ABSENT) if inside else content)
    parts: list[Part] = [TextPart(words)] if words else []
    odd = beside or words is None or bool(inside.keys() - {"content", "tool_calls"})
    texts: list[str | None] = []
    for call in nested:
        number, wire, arguments, rest = nested_fields(call)
        written = jsonio.text(arguments)
        in_function = b'"function"' in bytes(memoryview(call)[:200]) or bool(rest)
        if written is not None:
            value, other = given(written)
            parts.append(ToolCallPart(wire, number, value))
            texts.append(other if in_function else None)
        else:
            parts.append(ToolCallPart(wire, number, arguments))
            texts.append(None)
            odd = odd or in_function or not arguments
        odd = odd or bool(rest) or number is None
    if odd:
        if content:
            source["content"] = content
        if beside:
            source["tool_calls"] = fields["tool_calls"]
    elif any(t is not None for t in texts):
        source["arguments"] = raw(texts)
    return parts


def _tool(content: Raw, fields: dict[str, Raw], source: dict[str, Raw], answer: Answer) -> list[Part]:
    inside = jsonio.fields(content) if bytes(memoryview(content)[:1]) == b"{" else {}
    if "tool_call_id" not in inside:
        if content and (jsonio.text(content) is None or fields):  # the spelling of chat APIs: id and name beside the content
            source["content"] = content
        return [ToolCallResponsePart(content or NULL, jsonio.text(fields.get("tool_call_id", ABSENT)))]
    number = jsonio.text(inside["tool_call_id"])
    summary = inside.pop("summary", ABSENT)
    if (number is None and not jsonio.is_null(inside["tool_call_id"])) or (summary and jsonio.text(summary) is None):
        source["content"] = content
    else:
        inside.pop("tool_call_id")
        for name, known in (("tool_server", answer.server), ("tool_name", answer.name), ("is_error", answer.is_error)):
            if name in inside and known is not None and (flag(inside[name]) is known or jsonio.text(inside[name]) == known):
                inside.pop(name)
            elif name not in inside and known is not None:
                inside[name] = ABSENT  # the call states what the message does not
        source.update({k: v or NULL for k, v in inside.items()})
    return [ToolCallResponsePart(summary or NULL, number)]


def _common(message: shapes.Common, answer: Answer | None, head: Head | None) -> Message | None:
    """A message in the common spelling; None when it is not so common after all, or a tool message says something else than its call."""
    source: dict[str, Raw] = {}
    time = None
    if (written := message.timestamp) is not None:
        time, plain = stamp(written) if head is None or head.exact is None else (head.time, head.exact)
        if not plain:
            if not (written.isascii() and written.isprintable()):
                return None  # kept as it is spelled
            source["timestamp"] = raw(written)
    content = message.content
    if isinstance(content, str):
        return Message(role=message.role, parts=[TextPart(content)] if content else [], time=time, source=source)
    return _told(content, answer, time, source) if isinstance(content, shapes.Told) else _asked(content, time, source)


def agrees(content: shapes.Told, answer: Answer) -> bool:
    """Whether a tool message says the same of its call as ``answer`` does."""
    server = content.tool_server
    return (
        content.tool_name == answer.name
        and content.is_error is answer.is_error
        and (None if server is UNSET else server) == answer.server
        and (not content.summary or jsonio.is_text(content.summary))
    )


def agrees_well(content: shapes.Told, name: str) -> bool:
    """`agrees` with a call of the tool ``name`` that went well, whose server is the message's."""
    return content.is_error is False and content.tool_name == name and (not content.summary or jsonio.is_text(content.summary))


def told(content: shapes.Told, time: int | None) -> Message:
    """A tool message that says nothing but what its call says, and a text."""
    return Message(role="tool", parts=[ToolCallResponsePart(content.summary or NULL, content.tool_call_id)], time=time)


def _told(content: shapes.Told, answer: Answer | None, time: int | None, source: dict[str, Raw]) -> Message | None:
    if not agrees(content, answer or Answer()):
        return None
    found = told(content, time)
    if source:
        found.source = source
    return found


def _asked(content: shapes.Asked, time: int | None, source: dict[str, Raw]) -> Message | None:
    if not content.tool_calls:
        return None
    words = jsonio.text(content.content)
    parts: list[Part] = [TextPart(words)] if words else []
    texts: list[str | None] = []
    odd = False
    for call in content.tool_calls:
        if (text := jsonio.text(call.function.arguments)) is None:
            return None
        arguments, other = given(text)
        parts.append(ToolCallPart(call.function.name, call.id, arguments))
        texts.append(other)
        odd = odd or other is not None
    if odd:
        source["arguments"] = raw(texts)
    return Message(role="assistant", parts=parts, time=time, source=source)


def read(message: Raw, answer: Answer | None = None, head: Head | None = None) -> Message:
    """One message. ``answer``: what the call says that this tool message answers; ``head``: its index entry."""
    found: Message | None = None
    if head is not None and (kept := head.content) is not None:
        found = _told(kept, answer, head.time, {}) if isinstance(kept, shapes.Told) else _asked(kept, head.time, {})
    elif (known := shapes.message(message)) is not None:
        found = _common(known, answer, head)
    if found is not None:
        return found
    fields = jsonio.fields(message)
    role = jsonio.text(fields.pop("role", ABSENT))
    content = fields.pop("content", ABSENT)
    source: dict[str, Raw] = {}
    time = None
    if (stamp := fields.pop("timestamp", ABSENT)) and not jsonio.is_null(stamp):
        written = jsonio.text(stamp)
        time = time_of(written)
        if time is None or iso(time) != written:
            source["timestamp"] = stamp
    if not fields and not role:
        return Message(role=role or "", parts=[GenericPart(None, message)], source={"message": message})
    if role == "assistant":
        parts = _assistant(content, fields, source)
        fields.pop("tool_calls", None)
        if (thoughts := jsonio.text(fields.get("reasoning_content", ABSENT))) is not None:
            fields.pop("reasoning_content")
            parts.insert(0, ReasoningPart(thoughts))
    elif role == "tool":
        parts = _tool(content, fields, source, answer or Answer())
    else:
        parts = _content(content, source)
    source.update({k: v for k, v in fields.items() if k not in source})
    return Message(role=role or "", parts=parts, time=time, source=source)


def merged(messages: list[Message]) -> Message:
    """Several messages of one turn, each with one call (the recorder writes one a call), as the one message that the model gave. What is
    peculiar to each is kept in order; the times of the later ones are the starts of their calls."""
    first = messages[0]
    if len(messages) == 1:
        return first
    source = {"messages": raw([m.source for m in messages])}
    return Message(role=first.role, parts=[p for m in messages for p in m.parts], time=first.time, source=source)


# ---------------------------------------------------------------------------------------------------------- render
def _argument_text(part: ToolCallPart) -> str:
    """The arguments as the text that the model gave, in the default form."""
    if not part.arguments:
        return "{}"
    if (plain := jsonio.text(part.arguments)) is not None:
        return plain
    data = bytes(part.arguments)
    try:
        return default_text(json.loads(data))
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")


def nested(part: ToolCallPart, shape: str, written: str | None = None) -> dict[str, Any]:
    """A nested call in ``shape``; ``written`` is its argument text where it is not in the default form."""
    if shape == "A":
        plain = jsonio.text(part.arguments)
        if plain is None and bytes(memoryview(part.arguments)[:1]) != b"{":
            plain = _argument_text(part) if part.arguments else "{}"
        return {"id": part.id, "name": part.name, "arguments": part.arguments if plain is None else plain}
    return {
        "id": part.id,
        "type": "function",
        "function": {"name": part.name, "arguments": written if written is not None else _argument_text(part)},
    }


def words_of(parts: list[Part]) -> str:
    """The text of a message, and what is no text as JSON."""
    out = []
    for part in parts:
        if isinstance(part, TextPart):
            out.append(part.content)
        elif not isinstance(part, ToolCallPart | ToolCallResponsePart | ReasoningPart):
            out.append(msgspec.json.encode(part).decode())
    return "\n".join(out)


_HANDLED: Final = frozenset(
    {"content", "tool_calls", "timestamp", "arguments", "messages", "message", "tool_server", "tool_name", "is_error"}
)


def render(message: Message, shape: str, answer: Answer | None = None, *, timed: bool = True) -> Any:
    """The message as SimLab writes it in ``shape``; what its ``source`` holds takes precedence."""
    source = message.source
    if "message" in source:
        return source["message"]
    found: dict[str, Any] = {"role": message.role}
    calls = [p for p in message.parts if isinstance(p, ToolCallPart)]
    rest = {k: v for k, v in source.items() if k not in _HANDLED}
    if "content" in source:
        found["content"] = source["content"]
        if "tool_calls" in source:
            found["tool_calls"] = source["tool_calls"]
    elif calls:
        texts = jsonio.value(source["arguments"]) if "arguments" in source else None
        texts = texts if isinstance(texts, list) and len(texts) == len(calls) else [None] * len(calls)
        found["content"] = {
            "content": words_of(message.parts),
            "tool_calls": [nested(c, shape, t if isinstance(t, str) else None) for c, t in zip(calls, texts, strict=True)],
        }
    elif message.role == "tool":
        found["content"] = _render_tool(message, answer, rest)
    else:
        found["content"] = words_of(message.parts)
    if timed and "timestamp" in source:
        found["timestamp"] = source["timestamp"]
    elif timed and message.time is not None:
        found["timestamp"] = iso(message.time)
    if thoughts := [p.content for p in message.parts if isinstance(p, ReasoningPart)]:
        found["reasoning_content"] = "\n".join(thoughts)
    found.update(rest)
    return found


def _render_tool(message: Message, answer: Answer | None, rest: dict[str, Raw]) -> Any:
    part = next((p for p in message.parts if isinstance(p, ToolCallResponsePart)), None)
    response = part.response if part is not None else NULL
    if part is not None and part.id is None and (answer is None or answer.id is None) and "tool_name" not in message.source:
        return response if jsonio.text(response) is not None else jsonio.minify(response).decode()
    answer = answer or Answer()
    content: dict[str, Any] = {"tool_call_id": part.id if part is not None else answer.id}
    for name, known in (("tool_server", answer.server), ("tool_name", answer.name), ("is_error", answer.is_error)):
        if name in message.source:
            if not jsonio.is_null(message.source[name]):
                content[name] = message.source[name]
        elif known is not None:
            content[name] = known
    if not jsonio.is_null(response) and bytes(response) != b'""':
        content["summary"] = response if jsonio.text(response) is not None else jsonio.minify(response).decode()
    for name in list(rest):
        content[name] = rest.pop(name)
    return content
