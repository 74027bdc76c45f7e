"""What was said: messages of the chat APIs in one shape, whatever their spelling (OpenAI's, Anthropic's content blocks).

Only shapes are looked at, never names or versions of producers. Fields without a home stay in ``source``. Nothing here makes spans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw, Struct

from ..jsonio import fields, inner, is_null, text, value
from ..model import (
    ABSENT,
    Artifact,
    BlobPart,
    FilePart,
    GenericPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
    Usage,
    raw,
)
from .rows import beside
from .words import TIMES, items, take_time, turn_of, word


class Call(Struct, kw_only=True):
    """A call that an assistant message asks for."""

    name: str
    id: str | None = None
    arguments: Raw = ABSENT


class Result(Struct, kw_only=True):
    """The answer to a call; ``payload``: artifacts that came beside the text."""

    content: Raw
    call_id: str | None = None
    name: str | None = None
    error: bool = False
    artifacts: list[Artifact] = []
    source: dict[str, Raw] = {}


class Said(Struct, kw_only=True):
    """One message. ``calls`` are also in ``parts``; ``results`` are not."""

    role: str
    parts: list[Part] = []
    calls: list[Call] = []
    results: list[Result] = []
    time: int | None = None
    turn: int | str | None = None
    name: str | None = None
    model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    finish: str | None = None
    usage: Usage | None = None
    artifacts: list[Artifact] = []
    source: dict[str, Raw] = {}


# Token counts by the names of the APIs: (ours, theirs, dots for nesting).
_USAGE: Final = (
    ("input", ("prompt_tokens", "input_tokens", "promptTokenCount")),
    ("output", ("completion_tokens", "output_tokens", "candidatesTokenCount")),
    ("total", ("total_tokens", "totalTokenCount")),
    (
        "cache_read",
        (
            "prompt_tokens_details.cached_tokens",
            "input_tokens_details.cached_tokens",
            "input_token_details.cache_read",
            "cachedContentTokenCount",
        ),
    ),
    (
        "reasoning",
        (
            "completion_tokens_details.reasoning_tokens",
            "output_tokens_details.reasoning_tokens",
            "output_token_details.reasoning",
            "thoughtsTokenCount",
        ),
    ),
)


def usage_of(given: Raw) -> Usage | None:
    """Token counts as OpenAI, Anthropic, LangChain and Gemini state them. Anthropic's input leaves cached tokens out: they are added;
    Gemini's output leaves thoughts out: they are added too."""
    found = value(given)
    if not isinstance(found, dict):
        return None
    counts: dict[str, int] = {}
    for ours, names in _USAGE:
        for name in names:
            at: object = found
            for step in name.split("."):
                at = at.get(step) if isinstance(at, dict) else None
            if isinstance(at, int) and not isinstance(at, bool) and at >= 0:
                counts[ours] = at
                break
    read, write = found.get("cache_read_input_tokens"), found.get("cache_creation_input_tokens")
    for ours, extra in (("cache_read", read), ("cache_write", write)):
        if isinstance(extra, int) and not isinstance(extra, bool) and "input" in counts:
            counts[ours] = extra
            counts["input"] += extra
    if "thoughtsTokenCount" in found and {"output", "reasoning"} <= counts.keys():
        counts["output"] += counts["reasoning"]
    return Usage(**counts) if counts else None


# ------------------------------------------------------------------------------------------------------ parts
def _media(block: dict[str, Raw], modality: str) -> Part | None:
    """``image_url``, ``input_audio``, ``source`` and ``data`` blocks."""
    url = text(block.get("image_url", ABSENT)) or text(fields(block.get("image_url", ABSENT)).get("url", ABSENT))
    if url is not None and url.startswith("data:") and ";base64," in url[:200]:
        mime, _, data = url[5:].partition(";base64,")
        return BlobPart(modality=modality, content=data, mime_type=mime or None)
    if url is not None:
        return UriPart(modality=modality, uri=url)
    held = fields(block.get("source", ABSENT)) or fields(block.get("input_audio", ABSENT)) or block
    mime_type = text(held.get("media_type", ABSENT)) or text(held.get("mimeType", ABSENT))
    if (data_text := text(held.get("data", ABSENT))) is not None:
        return BlobPart(modality=modality, content=data_text, mime_type=mime_type)
    if (link := text(held.get("url", ABSENT))) is not None:
        return UriPart(modality=modality, uri=link, mime_type=mime_type)
    return None


def _part(given: Raw, said: Said) -> Part | None:
    """One content block. Calls and results in blocks (Anthropic's) go to ``said``."""
    plain = text(given)
    if plain is not None:
        return TextPart(plain)
    block = fields(given)
    kind = text(block.get("type", ABSENT)) or ""
    if kind in ("text", "input_text", "output_text") and (words := text(block.get("text", ABSENT))) is not None:
        return TextPart(words)
    if kind in ("thinking", "reasoning") and (words := text(block.get("thinking", block.get("text", ABSENT)))) is not None:
        return ReasoningPart(words)
    if kind == "tool_use" and (name := text(block.get("name", ABSENT))) is not None:
        call = Call(name=name, id=word(block.get("id", ABSENT)), arguments=block.get("input", ABSENT))
        said.calls.append(call)
        return ToolCallPart(name=name, id=call.id, arguments=call.arguments)
    if kind == "tool_result" and "tool_use_id" in block:
        said.results.append(
            Result(
                content=block.get("content", ABSENT),
                call_id=word(block["tool_use_id"]),
                error=value(block.get("is_error", ABSENT)) is True,
                source={k: v for k, v in block.items() if k not in ("type", "tool_use_id", "content", "is_error")},
            )
        )
        return None
    if kind in ("image_url", "image", "input_image") and (part := _media(block, "image")) is not None:
        return part
    if kind in ("input_audio", "audio") and (part := _media(block, "audio")) is not None:
        return part
    if kind in ("file", "input_file") and (
        file := text(block.get("file_id", ABSENT)) or text(fields(block.get("file", ABSENT)).get("file_id", ABSENT))
    ):
        return FilePart(modality="document", file_id=file)
    return GenericPart(generic_type=kind or None, content=given)


def put_content(given: Raw, said: Said) -> None:
    """``content`` of a message (a string, a list of blocks, or an odd value) into ``said.parts``, ``calls`` and ``results``."""
    if is_null(given):
        return
    blocks = items(given)
    for block in blocks or ([] if bytes(given).strip() == b"[]" else [given]):
        if (part := _part(block, said)) is not None and part != TextPart(""):
            said.parts.append(part)


def call_of(given: Raw) -> Call | None:
    """One entry of ``tool_calls``: {id, type, function: {name, arguments}} or flat {id, name, arguments | args | input}."""
    f = fields(given)
    held = fields(f.get("function", ABSENT)) or f
    name = text(held.get("name", ABSENT))
    if name is None:
        return None
    arguments = next((held[k] for k in ("arguments", "args", "input") if k in held), ABSENT)
    words = text(arguments)
    return Call(name=name, id=word(f.get("id", ABSENT)), arguments=inner(words) if words is not None else arguments)


def add_calls(given: Raw, said: Said) -> bool:
    """``tool_calls`` into ``said``; False when an entry is no call (then the field stays in ``source`` too)."""
    good = True
    for entry in items(given):
        call = call_of(entry)
        if call is None:
            good = False
            continue
        said.calls.append(call)
        said.parts.append(ToolCallPart(name=call.name, id=call.id, arguments=call.arguments))
    return good


_ROLES: Final = {"human": "user", "ai": "assistant", "model": "assistant", "agent": "assistant", "function": "tool", "developer": "system"}


def openai(given: Raw) -> Said | None:
    """A message of the OpenAI chat API and its relatives; None when it has no role."""
    f = fields(given)
    role = text(f.pop("role", ABSENT))
    if role is None:
        return None
    said = Said(role=_ROLES.get(role, role), parts=[], calls=[], results=[], source={})
    said.time = take_time(f, *TIMES)
    if "turn" in f and (turn := turn_of(f["turn"])) is not None:
        said.turn = turn
        del f["turn"]
    content = f.pop("content", ABSENT)
    if said.role == "tool":
        error = f.pop("is_error", ABSENT)
        status = text(f.get("status", ABSENT))
        result = Result(
            content=content if content else ABSENT,
            call_id=word(f.pop("tool_call_id", ABSENT)),
            name=text(f.pop("name", ABSENT)),
            error=value(error) is True or status == "error",
        )
        if "artifact" in f and not is_null(f["artifact"]):
            result.artifacts = [beside(f.pop("artifact"), result.call_id)]
        result.source = f
        said.results.append(result)
        return said
    for field in ("reasoning_content", "reasoning", "thinking"):
        if field in f and (words := text(f[field])):
            said.parts.append(ReasoningPart(words))
            del f[field]
            break
    put_content(content, said)
    if (refusal := text(f.get("refusal", ABSENT))) and role == "assistant":
        said.parts.append(GenericPart(generic_type="refusal", content=raw(refusal)))
        del f["refusal"]
    if "tool_calls" in f and add_calls(f["tool_calls"], said):
        del f["tool_calls"]
    if "function_call" in f and (call := call_of(f["function_call"])) is not None:
        said.calls.append(call)
        said.parts.append(ToolCallPart(name=call.name, id=call.id, arguments=call.arguments))
        del f["function_call"]
    said.name = text(f.pop("name", ABSENT))
    if said.role == "assistant":
        said.model = text(f.pop("model", ABSENT))
        said.finish = text(f.pop("finish_reason", ABSENT)) or text(f.pop("stop_reason", ABSENT))
        said.response_id = text(f.pop("id", ABSENT))
        if "usage" in f:
            said.usage = usage_of(f["usage"])
    said.source = f
    return said


def response_part(result: Result) -> ToolCallResponsePart:
    """A result as a part of the ``tool`` message that the next request gets."""
    return ToolCallResponsePart(response=result.content if result.content else Raw(b"null"), id=result.call_id)


Dialect = Callable[[Raw], Said | None]
