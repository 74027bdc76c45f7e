"""Artifacts where they stand, in the items of any format: a stage from items to items.

It lifts ``action_and_reasoning`` out of the arguments of tool calls (the arguments stay as they are), finds artifacts in tool results (MCP
resource blocks and links, A2A artifacts, sentences such as ``created artifact #502 (chart)``), in calls of a tool ``artifacts`` and in
``<antArtifact>`` tags, and describes and links the calls that only read artifacts. It changes no id, no time and no order, gives every item
once, and a second pass changes nothing. Memory is bounded by `KNOWN` makers.

A call without a mark of an artifact in its bytes costs a few searches and is passed through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw

from ..jsonio import fields, inner, text, value
from ..model import ABSENT, Artifact, Item, Link, ModelRequest, Span, TextPart, ToolCall, ToolCallResponsePart, TraceHeader, Value, raw
from .reading import listing, operation, wrapped

KNOWN: Final = 16_384
"""Makers of artifacts that are remembered for links, the newest."""
LINKS: Final = 128
"""Links on one reading call: what OpenTelemetry allows by default."""
_DEPTH: Final = 4
_MOST: Final = 1000
"""Artifacts that one call can have made."""
_REASONING: Final = b'"action_and_reasoning"'
_MARKS: Final = (b'"resource', b'\\"resource', b"rtifact #", b"rtifactId", b'"artifact"')
_PATTERNS: Final = tuple(re.compile(re.escape(mark)) for mark in _MARKS)
_LARGE: Final = 1 << 20
# The sentence must be a whole line: a page that a tool fetched may hold such words too.
_MADE: Final = re.compile(
    r"^\s*(?:created|made|saved|stored|produced|generated|updated)\s+(?:(?:a|an|the|new)\s+)*artifact\s+#([\w.:/-]*\w)(?:\s+\(([^()\n]{1,80})\))?"
    r"(?:\s*(?:—|-|:)\s+(.{1,500}?))?\s*[.!]?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_TAG: Final = re.compile(r"<antArtifact\b([^>]{0,2000})>(.*?)</antArtifact>", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r'([\w-]+)="([^"]*)"')
_COMMANDS: Final = {"create": "create", "update": "update", "rewrite": "rewrite"}


class _State:
    """What is remembered: who made which artifact, and how many user messages each conversation has."""

    def __init__(self) -> None:
        self.makers: dict[tuple[str, str], tuple[str, str]] = {}
        self.turns: dict[tuple[str, str | None], tuple[int, str]] = {}

    def made(self, scope: str, id: str, span: Span) -> None:
        key = (scope, id)
        self.makers.pop(key, None)
        self.makers[key] = (span.trace_id, span.id)
        if len(self.makers) > KNOWN:
            del self.makers[next(iter(self.makers))]

    def asked(self, request: ModelRequest) -> None:
        """Count the user messages of a conversation: its turn."""
        users = 0
        for m in request.input_messages:
            if m.role == "user" and not (m.parts and all(p.__class__ is ToolCallResponsePart for p in m.parts)):
                users += 1
        key = (_scope(request), request.agent)
        before, trace = self.turns.get(key, (0, request.trace_id))
        if request.history is not None:
            users += before
        elif trace == request.trace_id:
            users = max(before, users)
        else:  # another trace of the same conversation: its first request holds the messages before it, or leaves them out
            users = max(before + 1, users)
        if users != before or trace != request.trace_id:
            self.turns.pop(key, None)
            self.turns[key] = (users, request.trace_id)
            if len(self.turns) > KNOWN:
                del self.turns[next(iter(self.turns))]

    def turn(self, span: ToolCall | ModelRequest) -> int | None:
        """The turn that ``span`` stands in: how many user messages its conversation has so far."""
        return self.turns.get((_scope(span), span.agent), (0, ""))[0] or None


def _scope(span: ToolCall | ModelRequest) -> str:
    """Within what ids of artifacts are known: the conversation, else the siblings (attempts of one trace are not each other's)."""
    return span.conversation_id if span.conversation_id is not None else f"{span.trace_id}/{span.parent_id}"


def find(items: Iterable[Item]) -> Iterator[Item]:
    """The items with their artifacts found, reading calls linked and ``action_and_reasoning`` lifted."""
    state = _State()
    for item in items:
        if item.__class__ is ToolCall:
            item = _call(item, state)
        elif item.__class__ is ModelRequest:
            item = _request(item, state)
        elif item.__class__ is not TraceHeader and item.artifacts:  # type: ignore[union-attr]
            for a in item.artifacts:  # type: ignore[union-attr]
                state.made(a.thread or getattr(item, "conversation_id", None) or "", a.id, item)  # type: ignore[arg-type]
        yield item


# ---------------------------------------------------------------------------------------------------- tool calls
def _call(span: ToolCall, state: _State) -> ToolCall:
    changes: dict[str, Any] = {}
    if span.reasoning is None and span.arguments and bytes(span.arguments).find(_REASONING) >= 0:
        words = text(fields(span.arguments).get("action_and_reasoning", ABSENT))
        if words is not None:
            changes["reasoning"] = words
    if (reads := operation(span.name)) is not None:
        _read(span, reads, state, changes)
    else:
        found = _found(span)
        if found:
            known = {(a.id, a.version) for a in span.artifacts} | {(a.id, None) for a in span.artifacts}
            turn = state.turn(span)
            new = [
                msgspec.structs.replace(a, thread=a.thread or span.conversation_id, turn=a.turn if a.turn is not None else turn)
                for a in found
                if (a.id, a.version) not in known
            ]
            if new:
                changes["artifacts"] = [*span.artifacts, *new]
        for a in changes.get("artifacts", span.artifacts):
            state.made(a.thread or _scope(span), a.id, span)
    return msgspec.structs.replace(span, **changes) if changes else span


def _read(span: ToolCall, reads: str, state: _State, changes: dict[str, Any]) -> None:
    """A call that reads artifacts: what it asked for, whether it was there, and links to the makers. It makes none."""
    attributes: dict[str, Value] = {"spanport.artifact.operation": reads}
    asked = fields(span.arguments)
    ids: list[str] = []
    if reads == "list":
        lines = listing(span.result)
        if lines is not None:
            ids = [line.id for line in lines]
            attributes["spanport.artifact.found"] = bool(lines)
            attributes["spanport.artifact.lines"] = len(lines)
    else:
        wanted = next((asked[n] for n in ("artifact_id", "id", "uri", "artifact_names") if n in asked), ABSENT)
        named = value(wanted)
        ids = [str(n) for n in (named if isinstance(named, list) else [named]) if isinstance(n, str | int)]
        if ids:
            attributes["spanport.artifact.id"] = ids[0] if len(ids) == 1 else ids
        found = wrapped(span.result)
        if found is not None:
            attributes["spanport.artifact.found"] = found.artifact is not None
            if found.artifact is None:
                ids = []
    if span.status == "unset" and span.outcome == "ok" and "spanport.artifact.found" in attributes:
        changes["status"] = "ok"  # "empty" and "not found" are answers
    if any(span.attributes.get(k) != v for k, v in attributes.items()):
        changes["attributes"] = {**span.attributes, **attributes}
    known = {(x.trace_id, x.span_id) for x in span.links if x.type == "read_from"}
    links: list[Link] = []
    scope = _scope(span)
    for id in ids[:LINKS]:
        maker = state.makers.get((scope, id))
        if maker is not None and maker not in known and maker[1] != span.id:
            known.add(maker)
            links.append(Link(trace_id=maker[0], span_id=maker[1], type="read_from", attributes={"spanport.artifact.id": id}))
    if links:
        changes["links"] = [*span.links, *links]


def _found(span: ToolCall) -> list[Artifact]:
    """The artifacts that the call's arguments or result show."""
    if span.name == "artifacts" and (made := _command(fields(span.arguments))) is not None:
        return [made]
    if not span.result:
        return []
    if not _marked(span.result):
        return []
    found: dict[str, Artifact] = {}
    _walk(span.result, found, 0)
    return list(found.values())


def _marked(result: Raw) -> bool:
    """Whether the bytes hold a mark of an artifact. A large result is looked through where it lies, without a copy."""
    view = memoryview(result)
    if len(view) > _LARGE:
        return any(mark.search(view) for mark in _PATTERNS)
    data = bytes(view)
    return (data.find(b"rtifact") >= 0 or data.find(b"resource") >= 0) and any(mark in data for mark in _MARKS)


def _command(f: dict[str, Raw]) -> Artifact | None:
    """A call of the tool ``artifacts``: create, update (a replacement in the text) or rewrite. The payload of an update is the
    replacement; `converters.artifacts` works out the text."""
    command, id = _COMMANDS.get(text(f.get("command", ABSENT)) or ""), text(f.get("id", ABSENT))
    if command is None or id is None:
        return None
    payload = f.get("content", ABSENT)
    if command == "update":
        payload = Raw(msgspec.json.encode({k: f[k] for k in ("old_str", "new_str") if k in f}))
    return Artifact(
        id=id,
        type=text(f.get("type", ABSENT)),
        title=text(f.get("title", ABSENT)),
        operation=command,
        payload=payload,
        source={"language": f["language"]} if "language" in f else {},
    )


def _walk(given: Raw, found: dict[str, Artifact], depth: int) -> None:
    """Artifacts in a result: a text, a list of blocks, or an envelope around one."""
    if depth > _DEPTH or len(found) >= _MOST:
        return
    data = memoryview(given)
    first = bytes(data[:1])
    if first == b'"':
        words = text(given)
        if words is None:
            return
        if words[:1] in ("{", "[") and depth < _DEPTH:
            _walk(inner(words), found, depth + 1)
        elif "rtifact #" in words and len(words) < 20_000:
            for hit in _MADE.finditer(words):
                _keep(found, Artifact(id=hit[1], type=hit[2], title=hit[3], found_in="tool_result"))
    elif first == b"[":
        for entry in _entries(given)[:_MOST]:
            _block(entry, found, depth)
    elif first == b"{":
        _block(given, found, depth)


def _block(given: Raw, found: dict[str, Artifact], depth: int) -> None:
    f = fields(given)
    kind = text(f.get("type", ABSENT))
    if kind == "resource" and "resource" in f:
        _keep(found, _resource(fields(f["resource"])))
        return
    if kind == "resource_link" and (uri := text(f.get("uri", ABSENT))) is not None:
        size = value(f.get("size", ABSENT))
        title = text(f.get("title", ABSENT)) or text(f.get("name", ABSENT))
        _keep(
            found,
            Artifact(
                id=uri,
                type="resource",
                title=title,
                uri=uri,
                mime_type=text(f.get("mimeType", ABSENT)),
                size=size if isinstance(size, int) and not isinstance(size, bool) else None,
                found_in="tool_result",
            ),
        )
        return
    if "artifactId" in f and "parts" in f:
        _keep(found, _parts(f))
        return
    held = fields(f.get("artifact", ABSENT))
    if held and "payload" in held and "id" in held:
        _keep(found, _record(held))
    for name in ("artifacts", "artifact"):
        if name in f and "artifactId" in bytes(f[name]).decode("utf-8", "replace"):
            _walk(f[name], found, depth + 1)
    for name in ("content", "contents", "observation", "result", "output", "data", "text", "message"):
        if name in f:
            before = len(found)
            _walk(f[name], found, depth + 1)
            if len(found) > before:  # the other members of an envelope say the same again
                return


def _entries(given: Raw) -> list[Raw]:
    try:
        return msgspec.json.decode(given, type=list[Raw])
    except (msgspec.DecodeError, RecursionError):
        return []


def _keep(found: dict[str, Artifact], artifact: Artifact | None) -> None:
    """A resource and the link to it are one artifact."""
    if artifact is None:
        return
    known = found.get(artifact.id)
    if known is not None:
        artifact = msgspec.structs.replace(
            known,
            title=known.title if known.title is not None else artifact.title,
            mime_type=known.mime_type or artifact.mime_type,
            payload=known.payload or artifact.payload,
            size=known.size if known.size is not None else artifact.size,
        )
    found[artifact.id] = artifact


def _resource(f: dict[str, Raw]) -> Artifact | None:
    """MCP's embedded resource: text (JSON of a JSON type as JSON), or a blob, which stays {"blob": base64}."""
    uri = text(f.get("uri", ABSENT))
    if uri is None:
        return None
    mime = text(f.get("mimeType", ABSENT))
    words = text(f.get("text", ABSENT))
    if words is not None:
        payload = inner(words) if mime is not None and mime.partition(";")[0].endswith("json") else f["text"]
    else:
        payload = Raw(msgspec.json.encode({"blob": f["blob"]})) if "blob" in f else ABSENT
    return Artifact(
        id=uri, type="resource", title=text(f.get("title", ABSENT)), uri=uri, mime_type=mime, payload=payload, found_in="tool_result"
    )


def _parts(f: dict[str, Raw]) -> Artifact | None:
    """A2A's artifact in the result of a remote agent."""
    id = text(f["artifactId"])
    if id is None:
        return None
    return Artifact(id=id, title=text(f.get("name", ABSENT)), payload=f["parts"], found_in="tool_result")


def _record(f: dict[str, Raw]) -> Artifact | None:
    """An artifact record in an envelope."""
    id = value(f["id"])
    if not isinstance(id, str | int):
        return None
    turn = value(f.get("turn", ABSENT))
    return Artifact(
        id=str(id),
        type=text(f.get("type", ABSENT)),
        title=text(f.get("title", ABSENT)),
        turn=turn if isinstance(turn, int | str) and not isinstance(turn, bool) else None,
        payload=f["payload"],
        found_in="tool_result",
    )


# ------------------------------------------------------------------------------------------------------ requests
def _request(span: ModelRequest, state: _State) -> ModelRequest:
    state.asked(span)
    new: list[Artifact] = []
    for message in span.output_messages:
        for part in message.parts:
            if isinstance(part, TextPart) and "<antArtifact" in part.content:
                new.extend(_tags(part.content, span, state))
    if not new and not span.artifacts:
        return span
    known = {a.id for a in span.artifacts}
    new = [a for a in new if a.id not in known]
    if new:
        span = msgspec.structs.replace(span, artifacts=[*span.artifacts, *new])
    for a in span.artifacts:
        state.made(a.thread or _scope(span), a.id, span)
    return span


def _tags(words: str, span: ModelRequest, state: _State) -> Iterator[Artifact]:
    """``<antArtifact identifier type title>``: the same identifier again is a new version."""
    for hit in _TAG.finditer(words):
        named = dict(_ATTRIBUTE.findall(hit[1]))
        if "identifier" not in named:
            continue
        id = named.pop("identifier")
        again = (span.conversation_id if span.conversation_id is not None else _scope(span), id) in state.makers
        yield Artifact(
            id=id,
            type=named.pop("type", None),
            title=named.pop("title", None),
            turn=state.turn(span),
            thread=span.conversation_id,
            operation="rewrite" if again else "create",
            payload=raw(hit[2]),
            source={k: raw(v) for k, v in named.items()},
        )
