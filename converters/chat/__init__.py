"""Conversations (messages of the chat APIs, with artifacts) and tables of artifact rows. Both are read only: no producer
writes them in one way that its own tools would read again.
"""

import re

from ..registry import Format, Match, Probe

# Keys that say that an object with messages is a run record of another format (or of a product with one of its own).
_OTHERS = frozenset({"run_id", "task_id", "tool_results", "schema_version", "steps", "runs", "trajectory", "kind", "resourceSpans"})
_EVENT = re.compile(rb"^event:[ ]?(turn_start|tool_call|tool_result|artifact|message)\r?$", re.MULTILINE)
_LIST = re.compile(rb'"messages"\s*:\s*\[')
_ROWS = re.compile(rb'"artifacts"\s*:\s*\[\s*\{')


def _detect(look: Probe) -> Match | None:
    keys = look.keys
    if look.shape == "sse":
        names = {m[1] for m in _EVENT.finditer(look.head)}
        if names & {b"turn_start", b"artifact", b"tool_result"}:
            return Match(80, "events of a chat")
        if b"artifactUpdate" in look.head or b"artifact-update" in look.head:
            return Match(60, "events of an A2A task")
        return Match(30, "message events") if names == {b"message"} else None
    if look.shape == "object" and (keys in ({"content", "isError"}, {"contents"}) or {"content", "isError", "structuredContent"} == keys):
        return Match(10, "an MCP result")  # so that the reader can say what it is
    if keys & _OTHERS and not (look.shape in ("lines", "array") and "kind" in keys and "contextId" in keys):
        return None
    if look.shape in ("object", "lines", "array") and "messages" in keys and (not look.head or _LIST.search(look.head)):
        return Match(80 if keys & {"thread_id", "conversation_id"} else 50, "has messages")
    if look.shape == "object" and keys & {"threads", "conversations"} and _LIST.search(look.head):
        return Match(50, "threads with messages")
    if look.shape in ("object", "lines", "array") and "chat_messages" in keys:
        return Match(70, "has chat_messages")
    if look.shape == "object" and ("events" in keys or "stream" in keys) and keys & {"artifact_versions", "task", "appName", "app_name"}:
        return Match(50, "has events and artifacts")
    if keys & {"artifactUpdate"} or {"contextId", "artifacts"} <= keys or {"contextId", "artifact"} <= keys:
        return Match(60, "an A2A task or update")
    if look.shape in ("array", "lines"):
        if {"role", "content"} <= keys or {"role", "tool_calls"} <= keys:
            return Match(60, "messages with a role")
        if {"type", "data"} == keys & {"type", "data", "event"} or {"lc", "kwargs"} <= keys:
            return Match(50, "LangChain messages")
        if {"invocationId", "author"} <= keys:
            return Match(60, "ADK events")
    return None


def _detect_table(look: Probe) -> Match | None:
    if look.shape in ("array", "lines") and {"id", "type", "payload"} <= look.keys and look.keys & {"thread_id", "turn"}:
        return Match(80, "rows with id, type and payload")
    rows = "artifacts" in look.keys and (not look.head or (_ROWS.search(look.head) is not None and b'"payload"' in look.head))
    if look.shape == "object" and rows and not look.keys & (_OTHERS | {"messages", "contextId", "stream"}):
        return Match(40, "has artifacts")
    return None


FORMATS = (
    Format(
        name="chat",
        title="a conversation: messages of the chat APIs, with artifacts, or its event stream",
        example="thread.json",
        recognised="a list of messages with a role, an object with messages, or events turn_start, tool_call, artifact …",
        detect=_detect,
        reader=f"{__name__}.read:read",
        schema=f"{__name__}.described:Conversation",
    ),
    Format(
        name="artifact-table",
        title="a table of artifact rows",
        example="rows.json",
        recognised="rows with id, type, payload and thread_id or turn",
        detect=_detect_table,
        reader=f"{__name__}.read:read_table",
        schema=f"{__name__}.described:Rows",
    ),
)
