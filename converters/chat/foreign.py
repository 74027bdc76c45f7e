"""Conversations as neighbours write them, each as `Said`: LangChain messages, Google ADK events, Claude exports, A2A tasks.

One small function a spelling, dispatched on shape. Makes no spans.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Raw

from ..jsonio import fields, is_null, text, value
from ..model import ABSENT, Artifact, ReasoningPart, TextPart, ToolCallPart, raw
from .rows import beside
from .said import Call, Result, Said, add_calls, put_content, usage_of
from .words import TIMES, items, take_time, when, word

_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "tool": "tool",
    "system": "system",
    "chat": "user",
    "function": "tool",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "ToolMessage": "tool",
    "SystemMessage": "system",
    "assistant": "assistant",
    "user": "user",
}


def langchain(given: Raw) -> Said | None:
    """``messages_to_dict`` ({type, data}) and ``dumpd`` ({lc, type: constructor, id, kwargs}). No times in either."""
    outer = fields(given)
    kind = text(outer.get("type", ABSENT)) or ""
    f = fields(outer.get("data", ABSENT))
    if kind == "constructor":
        path = value(outer.get("id", ABSENT))
        kind = str(path[-1]) if isinstance(path, list) and path else ""
        f = fields(outer.get("kwargs", ABSENT))
    role = _ROLES.get(kind)
    if role is None or not f:
        return None
    f.pop("type", None)
    said = Said(role=role, parts=[], calls=[], results=[], source={})
    content = f.pop("content", ABSENT)
    if role == "tool":
        call_id = word(f.pop("tool_call_id", ABSENT))
        error = text(f.get("status", ABSENT)) == "error"
        result = Result(content=content, call_id=call_id, name=text(f.pop("name", ABSENT)), error=error)
        if not is_null(f.get("artifact", ABSENT)):
            result.artifacts = [beside(f.pop("artifact"), call_id)]
        result.source = _told(f)
        said.results = [result]
        return said
    put_content(content, said)
    if role == "assistant":
        if "tool_calls" in f and not said.calls and add_calls(f["tool_calls"], said):
            del f["tool_calls"]
        meta = fields(f.get("response_metadata", ABSENT))
        said.model = text(meta.get("model_name", ABSENT)) or text(meta.get("model", ABSENT))
        said.provider = text(meta.get("model_provider", ABSENT))
        said.finish = text(meta.get("finish_reason", ABSENT)) or text(meta.get("stop_reason", ABSENT))
        said.response_id = text(meta.get("id", ABSENT))
        said.usage = usage_of(f.get("usage_metadata", ABSENT)) or usage_of(meta.get("token_usage", ABSENT))
    said.name = text(f.pop("name", ABSENT))
    said.source = _told(f)
    return said


def _told(f: dict[str, Raw]) -> dict[str, Raw]:
    """Fields that say something."""
    return {k: v for k, v in f.items() if not is_null(v) and bytes(v) not in (b"{}", b"[]")}


# -------------------------------------------------------------------------------------------------------- ADK
def adk(given: Raw, versions: dict[tuple[str, str], dict[str, Raw]]) -> list[Said]:
    """One ADK event. Function responses are answers to calls; an ``artifactDelta`` names what was stored, without payloads: its
    artifacts belong to the event's first response (to the turn where there is none). ``versions``: what the artifact service says of each."""
    f = fields(given)
    if value(f.get("partial", ABSENT)) is True:  # the full text follows in an event of its own
        return []
    content = fields(f.pop("content", ABSENT))
    role = text(content.get("role", ABSENT))
    author = text(f.get("author", ABSENT))
    said = Said(role="assistant" if role == "model" else "user", parts=[], calls=[], results=[], artifacts=[], name=author)
    said.time = take_time(f, "timestamp")
    for part in items(content.get("parts", ABSENT)):
        p = fields(part)
        call, response = fields(p.get("functionCall", ABSENT)), fields(p.get("functionResponse", ABSENT))
        words = text(p.get("text", ABSENT))
        if call and (name := text(call.get("name", ABSENT))):
            arguments = call.get("args", ABSENT)
            said.calls.append(Call(name=name, id=word(call.get("id", ABSENT)), arguments=arguments))
            said.parts.append(ToolCallPart(name=name, id=word(call.get("id", ABSENT)), arguments=arguments))
        elif response:
            body = response.get("response", ABSENT)
            error = "error" in fields(body)
            said.results.append(
                Result(content=body, call_id=word(response.get("id", ABSENT)), name=text(response.get("name", ABSENT)), error=error)
            )
        elif words is not None:
            said.parts.append(ReasoningPart(words) if value(p.get("thought", ABSENT)) is True else TextPart(words))
        else:
            put_content(part, said)
    made = [_stored(name, version, versions) for name, version in _delta(f)]
    if said.results:
        said.results[0].artifacts = made
    else:
        said.artifacts = made
    said.usage = usage_of(f.get("usageMetadata", ABSENT))
    said.model = text(f.pop("modelVersion", ABSENT))
    said.finish = text(f.pop("finishReason", ABSENT))
    said.source = _told({k: v for k, v in f.items() if k not in ("author", "partial")})
    if said.results:
        said.role = "tool" if not said.parts else said.role
        said.results[0].source = said.source
    return [said] if said.parts or said.results or said.artifacts else []


def _delta(f: dict[str, Raw]) -> list[tuple[str, str]]:
    delta = value(fields(f.get("actions", ABSENT)).get("artifactDelta", ABSENT))
    return [(str(k), str(v)) for k, v in delta.items()] if isinstance(delta, dict) else []


def _stored(name: str, version: str, versions: dict[tuple[str, str], dict[str, Raw]]) -> Artifact:
    known = versions.get((name, version), {})
    scope = {"scope": raw("user")} if name.startswith("user:") else {}
    return Artifact(
        id=name,
        title=name,
        version=version,
        operation="create" if version == "0" else "update",
        uri=text(known.get("canonicalUri", ABSENT)),
        mime_type=text(known.get("mimeType", ABSENT)),
        created=when(known.get("createTime", ABSENT)),
        source=scope,
    )


def adk_versions(given: Raw) -> dict[tuple[str, str], dict[str, Raw]]:
    """``artifact_versions`` ({name: [{version, canonicalUri, …}]}) by name and version."""
    found = {}
    for name, entries in fields(given).items():
        for entry in items(entries):
            f = fields(entry)
            if (version := word(f.get("version", ABSENT))) is not None:
                found[name, version] = f
    return found


# ----------------------------------------------------------------------------------------------------- Claude
def claude(given: Raw) -> Said | None:
    """A message of a Claude export: {sender, text, content, created_at}. Artifacts in it are found where all are (`stages.artifacts`)."""
    f = fields(given)
    sender = text(f.pop("sender", ABSENT))
    if sender is None:
        return None
    said = Said(role=_ROLES.get(sender, sender), parts=[], calls=[], results=[], time=take_time(f, *TIMES))
    blocks, words = f.pop("content", ABSENT), f.pop("text", ABSENT)
    put_content(blocks, said)
    if not said.parts and not said.results:
        put_content(words, said)
    said.source = _told(f)
    return said


# -------------------------------------------------------------------------------------------------------- A2A
_KINDS: Final = {"artifact-update": "artifactUpdate", "status-update": "statusUpdate", "task": "task", "message": "message"}


def a2a_items(given: Raw) -> Iterator[tuple[str, dict[str, Raw]]]:
    """What an A2A stream item is, and its fields: ``task``, ``artifactUpdate``, ``statusUpdate`` or ``message``; 1.0 wraps it in a
    member of that name, 0.3 states ``kind``, JSON-RPC puts either into ``result``."""
    f = fields(given)
    if "jsonrpc" in f and "result" in f:
        f = fields(f["result"])
    kind = _KINDS.get(text(f.get("kind", ABSENT)) or "")
    if kind is not None:
        yield kind, f
        return
    for name in _KINDS.values():
        if name in f:
            yield name, fields(f[name])


class A2AArtifact:
    """The parts of one artifact, as chunks join them."""

    def __init__(self, task: str | None, context: str | None) -> None:
        self.task, self.context = task, context
        self.parts: list[Raw] = []
        self.f: dict[str, Raw] = {}
        self.complete = False

    def add(self, given: Raw, append: bool, last: bool) -> None:
        """One chunk; without ``append`` it begins anew."""
        f = fields(given)
        new = items(f.pop("parts", ABSENT))
        self.parts = self.parts + new if append else new
        self.f = {**self.f, **f}
        self.complete = last

    def artifact(self) -> Artifact:
        """The whole: one text or data part is the payload itself; text chunks are joined; else the payload is the list of parts."""
        f = dict(self.f)
        parts = [fields(p) for p in self.parts]
        words = [text(p.get("text", ABSENT)) for p in parts]
        payload = ABSENT
        if parts and all(w is not None for w in words):
            payload = raw("".join(w or "" for w in words))
        elif len(parts) == 1 and "data" in parts[0]:
            payload = parts[0]["data"]
        elif parts:
            payload = Raw(b"[" + b",".join(bytes(p) for p in self.parts) + b"]")
        mime = next(
            (m for p in parts if (m := text(p.get("mediaType", ABSENT)) or text(fields(p.get("file", ABSENT)).get("mimeType", ABSENT)))),
            None,
        )
        source: dict[str, Raw] = {"taskId": raw(self.task)} if self.task is not None else {}
        return Artifact(
            id=word(f.pop("artifactId", ABSENT)) or "",
            title=text(f.pop("name", ABSENT)),
            thread=self.context,
            mime_type=mime,
            status=None if self.complete else "incomplete",
            payload=payload,
            source=source | f,
        )


def a2a_message(f: dict[str, Raw]) -> Said:
    """A2A's Message: role user/agent (ROLE_USER/ROLE_AGENT in 1.0), parts."""
    role = (text(f.get("role", ABSENT)) or "").lower().removeprefix("role_")
    said = Said(role="assistant" if role == "agent" else role or "user", parts=[], calls=[], results=[])
    for part in items(f.get("parts", ABSENT)):
        words = text(fields(part).get("text", ABSENT))
        if words is not None:
            said.parts.append(TextPart(words))
        else:
            put_content(part, said)
    said.source = {k: v for k, v in f.items() if k not in ("role", "parts", "kind")}
    return said
