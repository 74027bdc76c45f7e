"""Artifact rows (a table of artifacts, or one explicit artifact record) to the model's `Artifact`. Makes no spans.

A row's own text of a time, an id or a turn is kept in ``source`` only where the typed field could not give it back.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from ..artifacts import iso, native
from ..jsonio import fields, is_null, text, value
from ..model import ABSENT, Artifact
from .words import TIMES, take_time, turn_of, word

MAKERS: Final = ("tool_call_id", "call_id", "toolCallId")


def artifact_of(given: Raw, found_in: str = "channel") -> tuple[Artifact, str | None] | None:
    """The row's artifact and the id of the call that made it (where the row states one). None when it has no id."""
    f = fields(given)
    known = word(f.get("id", f.get("artifact_id", ABSENT)))
    if known is None:
        return None
    id_ = f.pop("id", f.get("artifact_id", ABSENT))
    source: dict[str, Raw] = {} if bytes(id_) == bytes(native(known)) else {"id": id_}
    f.pop("artifact_id", None)
    stated = next((f[n] for n in TIMES if n in f), ABSENT)
    stated_name = next((n for n in TIMES if n in f), "")
    created = take_time(f, *TIMES)
    if created is not None and text(stated) != iso(created):
        source[stated_name] = stated
    call = next((word(f.pop(n)) for n in MAKERS if n in f and not is_null(f[n])), None)
    mime = next((text(f.pop(n)) for n in ("mime_type", "mimeType", "media_type") if n in f), None)
    thread = word(f.pop("thread_id", ABSENT))
    turn = turn_of(f.pop("turn", ABSENT))
    type_ = text(f.pop("type", ABSENT)) or text(f.pop("artifact_type", ABSENT))
    title = text(f.pop("title", ABSENT))
    payload = f.pop("payload", f.pop("content", ABSENT)) if "payload" in f or "content" in f else ABSENT
    version = word(f.pop("version", ABSENT))
    artifact = Artifact(
        id=known,
        type=type_,
        title=title,
        turn=turn,
        thread=thread,
        created=created,
        version=version,
        mime_type=mime,
        uri=text(f.pop("uri", ABSENT)),
        payload=payload,
        found_in=found_in,
        source=source | f,
    )
    return artifact, call


def beside(given: Raw, call_id: str | None) -> Artifact:
    """What a tool gave beside its text (LangChain's ``ToolMessage.artifact``: any value). An object with a type and a payload is
    read as one; else the value is the payload. Without an id of its own it is known by its call's."""
    f = fields(given)
    if "payload" in f and isinstance(value(f.get("type", ABSENT)), str):
        whole = artifact_of(given, "tool_result")
        if whole is not None:
            return whole[0]
        payload = f.pop("payload")
        return Artifact(
            id=call_id or "artifact",
            type=text(f.pop("type")),
            title=text(f.pop("title", ABSENT)),
            payload=payload,
            found_in="tool_result",
            source=f,
        )
    return Artifact(id=call_id or "artifact", payload=given, found_in="tool_result")
