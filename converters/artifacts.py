"""The artifacts of a conversation: an index over spans, and the two operations ``list`` and ``get`` word for word.

Scoping is by thread (the conversation): an id of another thread is not found, whatever trace or run it shares. Sources, best first: artifacts on
spans, then what the reading tools printed (`stages.reading`). Reads only; makes and changes no span.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from .clock import SECOND, from_iso, to_iso
from .errors import SpanportError, UsageError
from .jsonio import fields, text, value
from .model import ABSENT, AnySpan, Artifact, Attempt, Run, ToolCall, Trace, raw
from .stages.reading import EMPTY, listing, operation, wrapped

_BREAKS: Final = re.compile(r"[ \t]*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+[ \t]*")
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class PayloadMissing(SpanportError):
    """The artifact is known, but what it holds is not in the record."""


def iso(ns: int) -> str:
    """A time as Python's ``isoformat`` writes it: without a fraction when there is none."""
    try:
        if ns % SECOND:
            return to_iso(ns)
        return datetime.fromtimestamp(ns // SECOND, UTC).isoformat()
    except (OverflowError, ValueError, OSError):  # beyond the year 9999
        return f"{ns / SECOND:.3f}"


def native(id: str) -> Raw:
    """An id as JSON: a whole number when it is written as one, else a string."""
    return Raw(id.encode()) if _WHOLE.fullmatch(id) else raw(id)


class Entry(Struct, kw_only=True):
    """An artifact of a thread in its latest version. ``number`` is its id where that is a whole number, else one of ours, in creation order over
    the whole index. ``span_id``: the span that made it; None when only a reading call told of it."""

    artifact: Artifact
    number: int = -1
    trace_id: str | None = None
    span_id: str | None = None
    time: int | None = None
    versions: int = 1


class Thread(Struct, kw_only=True):
    """A conversation's artifacts by id, oldest first. ``about`` says what it is, where it has no id of its own."""

    name: str
    about: str = ""
    stated: bool = True
    entries: dict[str, Entry] = {}


class Index:
    """Artifacts by thread. ``threads`` holds every conversation of the record, also those without artifacts."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        self.threads: dict[str, Thread] = {}
        for trace in traces:
            self._trace(trace)
        self._sort()

    # ------------------------------------------------------------------------------------------------- building
    def _trace(self, trace: Trace) -> None:
        spans = {s.id: s for s in trace.spans}
        attempts = sum(isinstance(s, Attempt) for s in trace.spans)
        homes: dict[str, tuple[str, str, bool]] = {}

        def home(span: AnySpan) -> tuple[str, str, bool]:
            """(name, about, stated) of the span's thread: its conversation, else its attempt where there are several, else the run."""
            path: list[str] = []
            at: AnySpan | None = span
            attempt: AnySpan | None = None
            run: AnySpan = span
            found: tuple[str, str, bool] | None = None
            while at is not None and at.id not in path:
                if at.id in homes and attempt is None:
                    found = homes[at.id]
                    break
                if (id := getattr(at, "conversation_id", None)) is not None:
                    found = (id, "", True)
                    break
                if isinstance(at, Attempt) and attempt is None and attempts > 1:
                    attempt = at
                if isinstance(at, Run):
                    run = at
                path.append(at.id)
                at = spans.get(at.parent_id) if at.parent_id is not None else None
            if found is None:
                above = spans.get(attempt.parent_id or "") if attempt is not None else None
                if attempt is not None:
                    found = (
                        attempt.id,
                        f"attempt {attempt.key}" + (f" of {above.name}" if above is not None and above.name else ""),
                        False,
                    )
                else:
                    found = (trace.header.id, (run.name if isinstance(run, Run) else "") or trace.header.name or "the run", False)
            if attempt is None:
                homes.update(dict.fromkeys(path, found))
            return found

        for span in trace.spans:
            cut = str(span.attributes.get("spanport.cut") or "")  # what an attribute limit shortened: JSON still, but not the payload
            for artifact in span.artifacts:
                if "spanport.artifact.payload" in cut and b"[cut]" in bytes(artifact.payload):
                    artifact = msgspec.structs.replace(artifact, payload=ABSENT)
                thread = self._thread(*((artifact.thread, "", True) if artifact.thread is not None else home(span)))
                self._made(thread, artifact, span)
            if isinstance(span, ToolCall) and (reads := operation(span.name)) is not None:
                self._told(self._thread(*home(span)), span, reads, "gen_ai.tool.call.result" in cut)
            elif (id := getattr(span, "conversation_id", None)) is not None:
                self._thread(id, "", True)

    def _thread(self, name: str, about: str, stated: bool) -> Thread:
        if name not in self.threads:
            self.threads[name] = Thread(name=name, about=about, stated=stated, entries={})
        return self.threads[name]

    def _made(self, thread: Thread, artifact: Artifact, span: AnySpan) -> None:
        """An artifact that stands on a span. The same id from another span is a new version."""
        if artifact.operation == "delete":
            thread.entries.pop(artifact.id, None)
            return
        known = thread.entries.get(artifact.id)
        time = artifact.created
        if time is None and span.clock != "synthetic":
            time = span.end if span.end is not None else span.start
        if known is None or known.span_id is None:
            merged = artifact if known is None else _filled(artifact, known.artifact)
            thread.entries.pop(artifact.id, None)
            thread.entries[artifact.id] = Entry(artifact=merged, trace_id=span.trace_id, span_id=span.id, time=time)
        elif known.span_id == span.id and artifact.version == known.artifact.version and artifact.operation == known.artifact.operation:
            known.artifact = _filled(known.artifact, artifact)
        else:
            del thread.entries[artifact.id]
            thread.entries[artifact.id] = Entry(
                artifact=_next(known.artifact, artifact), trace_id=span.trace_id, span_id=span.id, time=time, versions=known.versions + 1
            )

    def _told(self, thread: Thread, span: ToolCall, reads: str, cut: bool) -> None:
        """What a reading call printed: it fills in what is not known, and makes nothing new where the maker is known. Of a result that is
        not whole only what the span says of it counts."""
        if reads == "list":
            lines = None if cut else listing(span.result)
            if lines:
                self._learn(
                    thread, [Artifact(id=x.id, type=x.type, title=x.title, turn=x.turn, found_in="listing") for x in reversed(lines)]
                )
            return
        got = None if cut else wrapped(span.result)
        id = span.attributes.get("spanport.artifact.id")
        if got is not None and got.artifact is not None:
            self._learn(thread, [_timed(got.artifact)])
        elif got is None and span.attributes.get("spanport.artifact.found") is True and isinstance(id, str):
            self._learn(thread, [Artifact(id=id, found_in="listing")])

    def _learn(self, thread: Thread, told: list[Artifact]) -> None:
        """Artifacts told of, oldest first. New ones take the place that the printed order gives them."""
        order = list(thread.entries)
        at = next((order.index(a.id) for a in told if a.id in thread.entries), 0 if len(told) == 1 else len(order))
        changed = False
        for a in told:
            if a.id in thread.entries:
                entry = thread.entries[a.id]
                entry.artifact = _filled(entry.artifact, a)
                at = order.index(a.id) + 1
            else:
                thread.entries[a.id] = Entry(artifact=a)
                order.insert(at, a.id)
                at, changed = at + 1, True
        if changed:
            thread.entries = {id: thread.entries[id] for id in order}

    def _sort(self) -> None:
        """Creation order, by time where every artifact of the thread has one (equal times: the lower id first), else as found; and
        a number for each id that is none."""
        for thread in self.threads.values():
            for entry in thread.entries.values():
                if entry.artifact.created is not None:
                    entry.time = entry.artifact.created
            if all(e.time is not None for e in thread.entries.values()):
                ordered = sorted(thread.entries.items(), key=lambda pair: (pair[1].time or 0, _order(pair[0])))
                thread.entries = dict(ordered)
        taken = {int(id) for t in self.threads.values() for id in t.entries if _WHOLE.fullmatch(id)}
        free = 1
        for thread in self.threads.values():
            for id, entry in thread.entries.items():
                if _WHOLE.fullmatch(id):
                    entry.number = int(id)
                    continue
                while free in taken:
                    free += 1
                entry.number = free
                taken.add(free)

    # -------------------------------------------------------------------------------------------------- asking
    def thread(self, name: str | None) -> Thread:
        """The thread ``name``; without a name the only one. UsageError says which there are when there are several. A name that is not in the
        record is a thread without artifacts."""
        if name is not None:
            return self.threads.get(name) or Thread(name=name, entries={})
        choices = [t for t in self.threads.values() if t.stated or t.entries]
        if len(choices) > 1:
            shown = [f"{t.name} ({f'{t.about}, ' if t.about else ''}{_counted(len(t.entries))})" for t in choices[:20]]
            more = f" and {len(choices) - 20} more" if len(choices) > 20 else ""
            raise UsageError(f"there are {len(choices)} threads, choose one with --thread: {', '.join(shown)}{more}")
        return choices[0] if choices else Thread(name="", entries={})

    def entries(self, thread: str | None = None, *, type: str | None = None, limit: int | None = None) -> list[Entry]:
        """Artifacts of a thread, newest first."""
        found = [e for e in reversed(self.thread(thread).entries.values()) if type is None or e.artifact.type == type]
        return found if limit is None else found[: max(limit, 0)]


def _counted(count: int) -> str:
    return f"{count} artifact{'' if count == 1 else 's'}"


def _order(id: str) -> tuple[int, str]:
    return (int(id), "") if _WHOLE.fullmatch(id) else (0, "")


def _timed(told: Artifact) -> Artifact:
    """The creation time that a get printed, typed where it can be read."""
    stated = text(told.source.get("created_at", ABSENT))
    try:
        return msgspec.structs.replace(told, created=from_iso(stated)) if stated is not None else told
    except ValueError:
        return told


def _filled(known: Artifact, told: Artifact) -> Artifact:
    """``known`` with what only ``told`` states."""
    changes: dict[str, Any] = {}
    for field in ("type", "title", "turn", "created", "version", "mime_type", "uri", "path", "size", "sha256", "ref"):
        if getattr(known, field) is None and getattr(told, field) is not None:
            changes[field] = getattr(told, field)
    if not known.payload and told.payload:
        changes["payload"] = told.payload
    for field in ("created_at", "id"):
        if (
            field in told.source
            and field not in known.source
            and (field != "created_at" or known.created is None or known.created == told.created)
        ):
            changes["source"] = {**known.source, **changes.get("source", {}), field: told.source[field]}
    return msgspec.structs.replace(known, **changes) if changes else known


def _next(known: Artifact, new: Artifact) -> Artifact:
    """A later version over an earlier one: what it leaves out stays; an update replaces text in the text, an append adds to it."""
    payload = new.payload
    before = text(known.payload)
    if new.operation == "update" and before is not None:
        patch = fields(new.payload)
        old, put = text(patch.get("old_str", ABSENT)), text(patch.get("new_str", ABSENT))
        if old is not None and put is not None:
            payload = raw(before.replace(old, put, 1))
    elif new.operation == "append" and before is not None and (added := text(new.payload)) is not None:
        payload = raw(before + added)
    return _filled(msgspec.structs.replace(new, payload=payload), msgspec.structs.replace(known, version=None, created=None, source={}))


# ------------------------------------------------------------------------------------------------ the two operations
def _indexed(given: Index | Iterable[Trace]) -> Index:
    return given if isinstance(given, Index) else Index(given)


def line(entry: Entry) -> str:
    """``#<id> [turn <n>] <type> — <title>``; without a title the line ends after the type. A line break in a title becomes a space."""
    a = entry.artifact
    turn = a.turn if a.turn is not None else "?"
    head = f"#{entry.number} [turn {turn}] {a.type or a.mime_type or 'artifact'}"
    return f"{head} — {_BREAKS.sub(' ', a.title)}" if a.title and not a.title.isspace() else head


def list_artifacts(
    traces: Index | Iterable[Trace], thread: str | None = None, *, artifact_type: str | None = None, limit: int | None = None
) -> str:
    """The listing of a thread, newest first, or the message that there are none (also when none is of the type).

    ``traces``: as `spanport.read` gives them, or an `Index` of them (for more than one question). Without ``thread`` the only one;
    UsageError says which there are."""
    return "\n".join(map(line, _indexed(traces).entries(thread, type=artifact_type, limit=limit))) or EMPTY


def get_artifact(traces: Index | Iterable[Trace], artifact_id: int | str, thread: str | None = None, *, store: Path | None = None) -> str:
    """The artifact as JSON with its metadata, or the message that it is not in this conversation (whether or not another has it).

    ``store``: the folder of payloads that lie beside the record. `PayloadMissing` when the artifact is known but not what it holds."""
    wanted = str(artifact_id).removeprefix("#")
    entries = _indexed(traces).thread(thread).entries
    entry = entries.get(wanted) or next((e for e in entries.values() if str(e.number) == wanted), None)
    if entry is None:
        return f"artifact #{wanted} not found in this conversation"
    a = entry.artifact
    found = _payload(a, store)
    if found is None:
        where = f" (SHA-256 {a.sha256}: name its folder with --store)" if a.sha256 else ""
        raise PayloadMissing(f"artifact #{wanted} is known, but its payload is not in this record{where}")
    stated = value(a.source.get("created_at", ABSENT))
    created = stated if stated is not None else iso(a.created) if a.created is not None else None
    kept = value(a.source.get("id", ABSENT))
    id: Any = kept if isinstance(kept, str) and kept == a.id else entry.number
    body = {"id": id, "type": a.type, "title": a.title, "turn": a.turn, "created_at": created, "payload": found[0]}
    if id == entry.number and str(entry.number) != a.id:
        body["original_id"] = a.id
    return json.dumps(body, default=str)


def _payload(a: Artifact, store: Path | None) -> tuple[Any] | None:
    """The payload as Python's json reads it (so that numbers are printed as it prints them), from the record or the store."""
    data = bytes(a.payload)
    if not data and store is not None and a.sha256 is not None and _SHA256.fullmatch(a.sha256):
        try:
            data = (store / f"{a.sha256}.json").read_bytes()
        except OSError:
            return None
    if not data:
        return None
    try:
        return (json.loads(data),)
    except (ValueError, RecursionError):  # cut by an attribute limit, or nested too deep
        return None


__all__ = [
    "EMPTY",
    "Entry",
    "Index",
    "PayloadMissing",
    "Thread",
    "get_artifact",
    "iso",
    "line",
    "list_artifacts",
    "native",
]
