"""Read a conversation: a list of messages, an object that holds one (with artifact rows), or its event stream.

Which spelling it is in is told by shape (`said`, `foreign`); spans are made in `build`. A conversation is one trace; several in one
input (a list of conversations, lines of conversations, a stream of several threads) are several.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Raw

from .. import cutoff, ids
from ..errors import ReadError, Report
from ..jsonio import decode, fields, text, value
from ..model import ABSENT, Artifact, Event, Item, TraceHeader, raw
from ..registry import ReadOptions, shape_of
from ..source import Source
from . import foreign
from .build import Conversation
from .rows import artifact_of
from .said import Call, Result, Said, call_of, openai
from .sse import Sent, events
from .words import TIMES, items, take_time, turn_of, word

FAMILY: Final = "chat"
THREADS: Final = ("thread_id", "conversation_id", "threadId", "session_id", "contextId", "uuid", "id")
_MAY: Final = re.compile(
    r"\[(\{(messages|chat_messages)\[)?|\{((messages|chat_messages|events|stream|artifacts)\[)?"
    r"|\{(threads|conversations)[\[{]([^\[{]*(\[|\{(messages|chat_messages|artifacts)\[))?"
)
"""What of a document that breaks off may be given in part: the object, a list of messages, events or rows, in one conversation or in several."""
_SEVERAL: Final = re.compile(r"\A\{(threads|conversations)[\[{][^\[{]*")
_any = msgspec.json.Decoder(Raw)
_object = msgspec.json.Decoder(dict[str, Raw])
Rows = list[tuple[Artifact, str | None]]


def header_of(family: str, format: str, thread: str | None, first: Iterable[Raw], name: str | None = None) -> TraceHeader:
    """The trace of the conversation ``thread``. One without an id is known by its messages up to the first answer, so that a longer copy
    of it has the same ids."""
    if thread is None:
        digest = blake2b(digest_size=16)
        for message in first:
            f = fields(message)
            digest.update(msgspec.json.format(bytes(message), indent=-1))
            if (text(f.get("role", f.get("type", f.get("sender", ABSENT)))) or "") in ("assistant", "ai"):
                break
        key = ["messages", digest.hexdigest()]
    else:
        key = [thread]
    return TraceHeader(id=ids.trace_id(family, *key), family=family, format=format, run_key=key, name=name)


# -------------------------------------------------------------------------------------------------- documents
def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """Conversations of ``source``. ReadError when there is none in it, saying what was looked for."""
    if source.object is not None:
        yield from _document(_given(source, report), report, None)
        return
    shape = shape_of(source.head())
    if shape == "sse":
        yield from _stream(source, report)
    elif shape == "lines":
        yield from _lines(source, report)
    elif shape == "empty":
        raise ReadError("no conversation in it: it is empty", input=source.name)
    else:
        whole, open_ = _whole(source, report)
        yield from _document(whole, report, open_)


def _whole(source: Source, report: Report) -> tuple[Raw, str | None]:
    """The document; of one that breaks off, what is whole of it, and where that was (`cutoff.Part.open`)."""
    return cutoff.decode(source.data(), _any.decode, report, _MAY)


def _given(source: Source, report: Report) -> Raw:
    """An object in memory as JSON; what JSON can't hold is text, as the tools' own ``default=str`` has it."""
    return decode(json.dumps(source.object, default=str).encode(), _any.decode, report)


_NOTHING: Final = "no conversation in it: neither messages, nor events, nor artifact rows"


def _document(given: Raw, report: Report, open_: str | None) -> Iterator[Item]:
    if bytes(memoryview(given)[:1]) == b"{":
        yield from _one(fields(given), report, open_)
        return
    entries = items(given)
    first = fields(entries[0]) if entries else {}
    if "messages" in first or "chat_messages" in first:
        for n, entry in enumerate(entries):
            try:
                yield from _one(fields(entry), report, open_[1:] if open_ and n + 1 == len(entries) else None)
            except ReadError as error:
                report.note("bad-item", error.message, "lost", path=f"$[{n}]", record=entry)
        return
    yield from _one({"messages" if _speller(entries) is not None else "stream": given}, report, open_)


def _speller(entries: list[Raw]) -> tuple[str, Callable[[Raw], list[Said]]] | None:
    """How these messages are spelled (family, function), by the shape of the first that says it."""
    for entry in entries[:5]:
        f = fields(entry)
        if "role" in f and "kind" not in f:
            return FAMILY, lambda m: _listed(openai(m))
        if ("type" in f and "data" in f) or "lc" in f:
            return "langchain", lambda m: _listed(foreign.langchain(m))
        if "sender" in f:
            return "claude", lambda m: _listed(foreign.claude(m))
        if "invocationId" in f or ("author" in f and ("content" in f or "actions" in f)):
            return "adk", lambda m: foreign.adk(m, {})
    return None


def _listed(said: Said | None) -> list[Said]:
    return [said] if said is not None else []


def _one(f: dict[str, Raw], report: Report, open_: str | None = None) -> Iterator[Item]:
    """One conversation in an object, or several by name or in a list. ``open_``: what of it the end of the file cut, None (or nothing) for a whole one."""
    for field in ("threads", "conversations"):
        if field in f and "messages" not in f:
            several: list[tuple[str | None, Raw]] = [*fields(f[field]).items()] or [(None, entry) for entry in items(f[field])]
            for n, (name, entry) in enumerate(several):
                held = fields(entry) or {"messages": entry}
                if name is not None and not held.keys() & set(THREADS):
                    held["thread_id"] = raw(name)
                inner = _SEVERAL.sub("", open_) if open_ and n + 1 == len(several) else None
                try:
                    yield from _one(held, report, inner)
                except ReadError as error:
                    report.note("bad-item", error.message, "lost", path=f"$.{field}[{n}]", record=entry)
            if several:
                return
    for field in ("messages", "chat_messages", "events"):
        entries = items(f.get(field, ABSENT))
        found = _speller(entries)
        if found is None:
            continue
        family, spell = found
        del f[field]
        if family == "adk":
            versions = foreign.adk_versions(f.pop("artifact_versions", ABSENT))
            spell = _with_versions(versions)
        yield from _conversation(f, entries, family, spell, report, field, bool(open_))
        return
    if "artifacts" in f and "thread_id" in f and items(f.get("messages", Raw(b"[]"))) == []:
        yield from _conversation(f, [], FAMILY, lambda m: [], report, "messages", bool(open_))
        return
    stream = items(f.get("stream", ABSENT))
    if "task" in f:
        stream.append(Raw(b'{"task":' + bytes(f["task"]) + b"}"))
    if not stream and ({"artifacts", "contextId"} <= f.keys() or "jsonrpc" in f or "artifactUpdate" in f):
        stream = [Raw(b'{"task":' + msgspec.json.encode(f) + b"}") if "contextId" in f else Raw(msgspec.json.encode(f))]
    if any(True for entry in stream for _ in foreign.a2a_items(entry)):
        yield from _a2a(stream, report)
        return
    hint = "an MCP result is read where it stands: in the tool calls of a run" if {"content", "contents"} & f.keys() else None
    raise ReadError(_NOTHING, input=report.input, hint=hint)


def _with_versions(versions: dict[tuple[str, str], dict[str, Raw]]) -> Callable[[Raw], list[Said]]:
    return lambda m: foreign.adk(m, versions)


def _conversation(
    f: dict[str, Raw], entries: list[Raw], family: str, spell: Callable[[Raw], list[Said]], report: Report, field: str, cut: bool
) -> Iterator[Item]:
    thread = next((w for n in THREADS if n in f and (w := word(f[n])) is not None), None)
    named = next((n for n in THREADS if n in f and word(f[n]) is not None), None)
    if named is not None:
        del f[named]
    rows: Rows = []
    if "artifacts" in f:
        for n, row in enumerate(items(f.pop("artifacts"))):
            made = artifact_of(row)
            if made is None:
                report.note("bad-item", "an artifact row without id", "lost", path=f"$.artifacts[{n}]", record=row)
            else:
                rows.append(made)
    model = text(f.get("model", ABSENT))
    header = header_of(family, "chat", thread, entries, text(f.get("name", f.get("title", ABSENT))))
    yield header
    talk = Conversation(header, report, thread=thread, rows=rows)
    talk.cut = cut
    talk.run_source = f
    for n, entry in enumerate(entries):
        said = spell(entry)
        if not said and family != "adk":
            report.note("bad-item", "no message: it has no role", "lost", path=f"$.{field}[{n}]", record=entry)
        for one in said:
            if one.model is None and one.role == "assistant":
                one.model = model
            if family == "adk" and one.role == "assistant" and one.name:
                talk.agent = talk.agent or one.name
            yield from talk.say(one)
    yield from talk.close()


# ------------------------------------------------------------------------------------------------------ lines
def _lines(source: Source, report: Report) -> Iterator[Item]:
    """JSON Lines: a conversation a line, or a message (an event) a line, which are one conversation."""
    spell: Callable[[Raw], list[Said]] | None = None
    talk: Conversation | None = None
    early: list[Raw] = []
    a2a: list[Raw] = []
    family = FAMILY
    good = False
    for line in source.lines():
        if not line.data.strip():
            continue
        try:
            given = decode(line.data, _any.decode, report, line=line.number, offset=line.offset)
            f = fields(given)
            if "messages" in f or "chat_messages" in f:
                yield from _one(f, report)
                good = True
                continue
        except ReadError as error:
            report.note("bad-line", error.message, "lost", line=line.number, byte=error.byte, path=error.path)
            continue
        if any(True for _ in foreign.a2a_items(given)) and "role" not in f:
            a2a.append(given)
            continue
        if spell is None:
            if (found := _speller([given])) is None:
                report.note("bad-line", "no message: it has no role", "lost", line=line.number, byte=line.offset)
                continue
            family, spell = found
        said = spell(given)
        if talk is None:
            early.append(given)
            if not any(s.role == "assistant" for s in said):
                continue
            talk, spans = _begun(family, early, spell, report)
            yield talk.header
            yield from spans
        else:
            for one in said:
                yield from talk.say(one)
    if talk is None and early and spell is not None:
        talk, spans = _begun(family, early, spell, report)
        yield talk.header
        yield from spans
    if talk is not None:
        yield from talk.close()
    if a2a:
        yield from _a2a(a2a, report)
    elif talk is None and not good:
        raise ReadError(_NOTHING, input=report.input)


def _begun(family: str, early: list[Raw], spell: Callable[[Raw], list[Said]], report: Report) -> tuple[Conversation, list[Item]]:
    """A conversation of lines, known by its messages up to the first answer."""
    talk = Conversation(header_of(family, "chat", None, early), report, thread=None)
    return talk, [span for message in early for one in spell(message) for span in talk.say(one)]


# --------------------------------------------------------------------------------------------- event streams
def _stream(source: Source, report: Report) -> Iterator[Item]:
    """Server-sent events: turn_start, tool_call, artifact, tool_result, message, in one or several threads."""
    talks: dict[str | None, Conversation] = {}
    current: str | None = None
    a2a: list[Raw] = []
    for sent in events(source.lines()):
        if sent.data.strip() == b"[DONE]":
            continue
        try:
            given = decode(sent.data, _any.decode, report, line=sent.line, offset=sent.offset)
            f = _object.decode(given)
        except (ReadError, msgspec.DecodeError) as error:
            message = error.message if isinstance(error, ReadError) else "not an object"
            report.note("truncated" if not sent.ended else "bad-line", message, "lost", line=sent.line, byte=sent.offset)
            continue
        name = sent.name or text(f.get("event", f.get("type", ABSENT))) or "message"
        if "role" not in f and name == "message" and any(True for _ in foreign.a2a_items(given)):
            a2a.append(given)
            continue
        thread = word(f["thread_id"]) if "thread_id" in f else _thread(talks, current, name, f)
        if name != "artifact":  # tells of its own thread, and not of whose events follow
            current = thread
        talk = talks.get(thread)
        if talk is None:
            header = header_of(FAMILY, "chat", thread, [given])
            talk = talks[thread] = Conversation(header, report, thread=thread)
            yield header
        yield from _event(talk, name, given, f, sent, report)
    for talk in talks.values():
        yield from talk.close()
    if a2a:
        yield from _a2a(a2a, report)
    elif not talks:
        raise ReadError(_NOTHING, input=source.name)


def _thread(talks: dict[str | None, Conversation], current: str | None, name: str, f: dict[str, Raw]) -> str | None:
    """The thread of an event that names none: that of the call it answers, else the one before."""
    if name == "tool_result" and len(talks) > 1:
        call = word(f.get("tool_call_id", f.get("id", ABSENT)))
        if current not in talks or not talks[current].waits(call):
            return next((t for t, talk in talks.items() if talk.waits(call)), current)
    return current


def _event(talk: Conversation, name: str, given: Raw, f: dict[str, Raw], sent: Sent, report: Report) -> Iterator[Item]:
    """One event of a chat's stream. Unknown ones are kept as events of the turn."""
    if name == "artifact":
        made = artifact_of(given)
        if made is not None:
            yield from talk.flush()
            talk.artifact(*made)
            return
        report.note("bad-item", "an artifact without id", "lost", line=sent.line, byte=sent.offset)
        return
    f.pop("thread_id", None)
    if name == "turn_start":
        number = turn_of(f.pop("turn", ABSENT))
        time = take_time(f, *TIMES)
        yield from talk.turn(number, f)
        talk.see(time)
    elif name == "tool_call" and (call := call_of(given)) is not None:
        talk.call(Call(name=call.name, id=call.id, arguments=call.arguments), take_time(f, *TIMES))
    elif name == "tool_result" and {"id", "tool_call_id", "name"} & f.keys():
        call_id = word(f.pop("tool_call_id", f.get("id", ABSENT)))
        f.pop("id", None)
        time = take_time(f, *TIMES)
        error = value(f.pop("is_error", ABSENT)) is True or text(f.get("status", ABSENT)) == "error"
        content = next((f.pop(n) for n in ("content", "result", "output") if n in f), ABSENT)
        result = Result(content=content, call_id=call_id, name=text(f.pop("name", ABSENT)), error=error, source=f)
        yield from talk.result(result, time)
    elif name == "message" and (said := openai(given)) is not None:
        said.source.pop("thread_id", None)
        yield from talk.say(said)
    else:
        time = take_time(f, *TIMES)
        yield from talk.flush()
        talk.event(Event(name=name, time=time, source=f))
        report.note("unknown-event", f"the event {name!r} is kept as an event of its turn", "info", line=sent.line)


# -------------------------------------------------------------------------------------------------------- A2A
def _a2a(stream: list[Raw], report: Report) -> Iterator[Item]:
    """Tasks and updates of A2A: a conversation is a context; an artifact is known by task and id, its chunks are joined."""
    found: dict[str | None, tuple[list[Said], dict[tuple[str | None, str | None], foreign.A2AArtifact]]] = {}
    for entry in stream:
        for kind, f in foreign.a2a_items(entry):
            context = word(f.get("contextId", ABSENT))
            task = word(f.get("taskId", f.get("id", ABSENT) if kind == "task" else ABSENT))
            said, made = found.setdefault(context, ([], {}))
            if kind == "artifactUpdate":
                artifact = f.get("artifact", ABSENT)
                key = (task, word(fields(artifact).get("artifactId", ABSENT)))
                append = value(f.get("append", ABSENT)) is True
                if append and key not in made:
                    report.note("append-without-start", f"artifact {key[1]!r}: its first chunk is not in the record")
                made.setdefault(key, foreign.A2AArtifact(task, context)).add(artifact, append, value(f.get("lastChunk", ABSENT)) is True)
            elif kind == "task":
                if (history := items(f.get("history", ABSENT))) and not said:
                    said.extend(foreign.a2a_message(fields(m)) for m in history)
                for artifact in items(f.get("artifacts", ABSENT)):
                    key = (task, word(fields(artifact).get("artifactId", ABSENT)))
                    made.setdefault(key, foreign.A2AArtifact(task, context)).add(artifact, False, True)
            elif kind == "message":
                said.append(foreign.a2a_message(f))
    for context, (said, made) in found.items():
        named = context or next((t for t, _ in made if t is not None), None)
        header = header_of("a2a", "chat", named, stream)
        yield header
        talk = Conversation(header, report, thread=context)
        for one in said:
            yield from talk.say(one)
        for whole in made.values():
            talk.artifact(whole.artifact(), None)
        yield from talk.close()


# ------------------------------------------------------------------------------------------------------- rows
def read_table(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """A table of artifact rows: a JSON array, JSON Lines, or an object with ``artifacts``. Each thread is a conversation of which only the
    artifacts are known."""
    threads: dict[str | None, Rows] = {}
    count = 0
    for place, row in _rows(source, report):
        count += 1
        made = artifact_of(row)
        if made is None:
            report.note("bad-item", "an artifact row without id", "lost", path=place, record=row)
            continue
        threads.setdefault(made[0].thread, []).append(made)
    if not threads:
        raise ReadError("no artifact rows in it" if not count else "none of its rows has an id", input=source.name)
    for thread, rows in threads.items():
        header = header_of(FAMILY, "artifact-table", thread, [raw([a.id for a, _ in rows])])
        yield header
        yield from Conversation(header, report, thread=thread, rows=rows).close()


def _rows(source: Source, report: Report) -> Iterator[tuple[str, Raw]]:
    if source.object is None and shape_of(source.head()) == "lines":
        for line in source.lines():
            if line.data.strip():
                try:
                    yield f"line {line.number}", decode(line.data, _any.decode, report, line=line.number, offset=line.offset)
                except ReadError as error:
                    report.note("bad-line", error.message, "lost", line=line.number, byte=error.byte, path=error.path)
        return
    if source.object is not None:
        whole = _given(source, report)
    else:
        whole = _whole(source, report)[0]
    rows = items(whole) or items(fields(whole).get("artifacts", ABSENT)) or ([whole] if "payload" in fields(whole) else [])
    yield from ((f"$[{n}]", row) for n, row in enumerate(rows))
