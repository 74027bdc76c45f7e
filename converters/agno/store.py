"""Where records lie: JSON documents, sessions, JsonDb folders, SQLite databases of every version, answers of AgentOS. Gives each root run as a node,
with the members and executors that lie elsewhere put inside it.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
from msgspec import Raw

from .. import cutoff, jsonio, model
from ..errors import ReadError, Report
from ..model import ABSENT
from ..registry import Share, evenly
from ..source import Line, Source
from .records import Node, better, mark_cut, node
from .schema import array

_raw = msgspec.json.Decoder(Raw)
_MAY: Final = re.compile(
    r"((data|runs|member_responses|step_executor_runs)?\[|(data|memory|response|run_data|workflow_agent_run)?\{)*+"
    r"((messages|tools|events|step_results|step_responses)\[)?"
)
"""What of a document that breaks off may be given in part: runs, what they lie in, and their lists. Never a message, a call or an event."""
_AROUND: Final = re.compile(r"(\[|\{(runs|memory\{runs|data)\[|\{(data|run_data)(?=\{)|\{response(?=\{))*")
"""The part of `cutoff.Part.open` that a run lies in."""
_HEADS = ("session_id", "user_id", "agent_id", "team_id", "workflow_id")
_RUNS = ("run_id", "agent_id", "team_id", "workflow_id", "content", "messages", "session_id")


def unwrap(raw: Raw) -> Raw:
    """JSON that a database encoded twice (2.x), or three times, as itself."""
    for _ in range(3):
        text = jsonio.text(raw)
        if text is None or text[:1] not in '[{"':
            return raw
        raw = jsonio.inner(text)
    return raw


def nodes(data: bytes | memoryview, report: Report) -> Iterator[Node]:
    """The root runs of a JSON document."""
    raw, open_ = cutoff.decode(data, _raw.decode, report, _MAY)
    yield from roots(_found(raw, open_))


def _found(raw: Raw, open_: str | None, head: dict[str, Raw] | None = None) -> list[Node]:
    """`runs_of` a document, of which the end may be missing: then its last run is marked where it is that one that breaks off."""
    try:
        found = list(runs_of(raw, head))
    except RecursionError:
        raise ReadError(jsonio.TOO_DEEP) from None
    if open_ and found and (where := _AROUND.match(open_)) is not None:
        inside = open_[where.end() :]
        if inside.startswith("{") and (where.end() or found[-1].raw == raw):
            mark_cut(found[-1], inside)
    return found


def lines(given: Iterable[Line], report: Report) -> Iterator[Node]:
    """Root runs of a file with a record (or session) a line."""
    found: list[Node] = []
    for line in given:
        if not line.data.strip():
            continue
        try:
            raw, open_ = cutoff.decode(line.data, _raw.decode, report, _MAY, line=line.number, offset=line.offset)
            found += _found(raw.copy(), open_)
        except ReadError as error:
            report.note("bad-line", error.message, "lost", line=line.number, byte=error.byte, path=error.path)
    yield from roots(found)


def runs_of(raw: Raw, head: dict[str, Raw] | None = None, depth: int = 0) -> Iterator[Node]:
    """Every run in a JSON value: a record, a session, a row, an answer, or an array of these. ``head``: what the session around it says."""
    raw = unwrap(raw)
    if depth > 8:
        return
    if bytes(memoryview(raw)[:1]) == b"[":
        for item in array(raw):
            yield from runs_of(item, head, depth + 1)
        return
    m = jsonio.fields(raw)
    if not m:
        return
    data = m.get("run_data", ABSENT)
    if data and not jsonio.is_null(data):
        yield from runs_of(data, {**(head or {}), **{k: m[k] for k in ("session_id", "user_id") if k in m}}, depth + 1)
        return
    memory = jsonio.fields(unwrap(m["memory"])) if "memory" in m and not jsonio.is_null(m["memory"]) else {}
    listed = [x for x in (m.get("runs", ABSENT), memory.get("runs", ABSENT)) if not jsonio.is_null(x)]
    if listed and "session_id" in m:
        around = {k: m[k] for k in _HEADS if not jsonio.is_null(m.get(k, ABSENT))}
        for one in listed:
            for item in array(unwrap(one)):
                inside = jsonio.fields(unwrap(item))
                response = inside.get("response", ABSENT)  # 1.1: {message, response}
                yield from runs_of(response if jsonio.fields(response) else item, around, depth + 1)
        return
    if "data" in m and ("meta" in m or len(m) == 1) and not m.get("run_id"):
        yield from runs_of(m["data"], head, depth + 1)
        return
    if not ({"run_id", "messages", "content"} & set(m)) or (
        sum(k in m for k in _RUNS) < 3 and "run_input" not in m and not ("run_id" in m and "content_type" in m)
    ):
        return
    found = node(raw)
    if found is None:
        return
    found.fields = m
    if head:
        r = found.rec
        if r.session_id is None and (session := jsonio.text(head.get("session_id", ABSENT))):
            r.session_id = session
        if r.user_id is None and (user := jsonio.text(head.get("user_id", ABSENT))):
            r.user_id = user
        if not any((r.agent_id, r.agent_name, r.team_id, r.team_name, r.workflow_id, r.workflow_name)):
            for key in ("agent_id", "team_id", "workflow_id"):
                if (owner := jsonio.text(head.get(key, ABSENT))) is not None:
                    setattr(r, key, owner)
                    break
    yield found


def roots(found: list[Node]) -> list[Node]:
    """Each run once (the fuller one), and those that have a parent here put inside it, where they are not yet."""
    known: dict[str, Node] = {}
    for one in found:
        if one.run_id not in known or better(one, known[one.run_id]):
            known[one.run_id] = one
    inside: dict[str, Node] = {}
    for one in known.values():
        for deep in one.walk():
            if deep is not one:
                inside.setdefault(deep.run_id, deep)
    top = []
    for one in known.values():
        parent = one.rec.parent_run_id
        if one.run_id in inside:
            continue
        above = known.get(parent or "") or inside.get(parent or "")
        if above is not None and above is not one and all(d is not above for d in one.walk()):
            above.children.append(one)
        else:
            top.append(one)
    return top


def folder(source: Source, report: Report) -> Iterator[Node]:
    """A JsonDb folder: ``agno_sessions.json`` and (3.x) ``agno_runs.json``; in 1.x one file a session."""
    assert source.path is not None
    found: list[Node] = []
    fixed = [source.path / name for name in ("agno_runs.json", "agno_sessions.json") if (source.path / name).is_file()]
    for path in fixed or sorted(p for p in source.path.glob("*.json") if p.is_file()):
        inner = Source(f"{source.name}/{path.name}", path=path)
        try:
            found += _found(*cutoff.decode(inner.data(), _raw.decode, report, _MAY))
        except ReadError as error:
            report.note("bad-file", f"{path.name}: {error.message}", "lost", byte=error.byte, path=error.path)
    yield from roots(found)


# --------------------------------------------------------------------------------------------------------- SQLite
def sqlite(source: Source, report: Report, share: Share | None = None) -> Iterator[Node]:
    """A database of any version: tables are known by their columns, since their names can be set. ``share``: only the sessions of this share.

    Where sessions have nothing to do with each other, only one of them is in memory at a time."""
    any_ = share is not None
    with _opened(source) as database:
        try:
            tables = _tables(database)
            rows = _rows(database, tables, share)
            groups: Iterable[Iterable[Row]] = (group for _, group in groupby(rows, key=_session)) if _in_turn(database, tables) else [rows]
            for group in groups:
                found = [one for table, row in group for one in _row(row, table, report)]
                any_ = any_ or bool(found)
                yield from roots(found)
        except sqlite3.Error as error:
            raise ReadError(f"can't read the database: {error}", input=source.name) from error
    if not any_:
        raise ReadError("no table with runs of Agno", input=source.name, hint="it needs a column run_data, runs or memory")


SHARE: Final = 128 << 20
"""Bytes of a database that one share may hold in memory."""


def shares(source: Source, most: int, least: int) -> list[Share]:
    """See `Format.divide`: by sessions, as long as no run has its parent in another session."""
    if source.path is None or source.is_dir or not source.head(16).startswith(b"SQLite format 3\0"):
        return []
    sessions = set[bytes]()
    try:
        with _opened(source) as database:
            tables = _tables(database)
            if not _apart(database, tables):
                return []
            for table in tables:
                listed = database.execute(f"select distinct session_id from {_quoted(table.name)}")
                sessions.update(x for (x,) in listed if isinstance(x, bytes))
    except (sqlite3.Error, ReadError, OSError):
        return []  # said when it is read
    return [] if len(sessions) < least else evenly(min(len(sessions), max(most, source.path.stat().st_size // SHARE + 1)))


@contextmanager
def _opened(source: Source) -> Iterator[sqlite3.Connection]:
    """The database, opened so that nothing in its folder changes."""
    with tempfile.TemporaryDirectory(prefix="spanport-") as place:
        path = source.path
        if path is None:
            path = Path(place) / "copy.db"
            path.write_bytes(bytes(source.data()))
        elif path.with_name(path.name + "-wal").exists():  # a write-ahead log: read a copy, so that no file appears beside the original
            for end in ("", "-wal"):
                shutil.copyfile(path.with_name(path.name + end), Path(place) / f"copy.db{end}")
            path = Path(place) / "copy.db"
        immutable = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
        try:
            with_ = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{immutable}", uri=True)
        except sqlite3.Error as error:
            raise ReadError(f"can't open the database: {error}", input=source.name) from error
        try:
            with_.text_factory = bytes
            yield with_
        finally:
            with_.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Table(NamedTuple):
    """A table with runs: one a row, or a session a row."""

    sessions: bool
    name: str
    columns: frozenset[str]


Row = tuple[str, dict[str, Any]]
"""The name of its table, and what it says by column."""


def _tables(database: sqlite3.Connection) -> list[Table]:
    """Tables with runs, those with a run a row first."""
    names = [n.decode() for (n,) in database.execute("select name from sqlite_master where type='table' order by name")]
    kinds: list[Table] = []
    for name in names:
        columns = frozenset(c[1].decode() for c in database.execute(f"pragma table_info({_quoted(name)})"))
        if {"run_id", "run_data"} <= columns:
            kinds.append(Table(False, name, columns))
        elif "session_id" in columns and {"runs", "memory"} & columns:
            kinds.append(Table(True, name, columns))
    return sorted(kinds, key=lambda t: (t.sessions, t.name))


def _apart(database: sqlite3.Connection, tables: list[Table]) -> bool:
    """Whether no run has its parent in another session."""
    for _, name, columns in tables:
        if "session_id" not in columns:
            return False
        table = _quoted(name)
        if "team_session_id" in columns and _any(database, f"{table} where team_session_id is not null"):
            return False  # agno 1.8: sessions of members beside that of their team
        if {"parent_run_id", "run_id"} <= columns and _any(
            database, f"{table} a join {table} b on a.parent_run_id = b.run_id where a.session_id is not b.session_id"
        ):
            return False
    return True


def _in_turn(database: sqlite3.Connection, tables: list[Table]) -> bool:
    """Whether the rows come session by session, each session whole, and none has to do with another."""
    if not all(t.sessions or {"run_index", "parent_run_id"} <= t.columns for t in tables) or not _apart(database, tables):
        return False
    if any(t.sessions and _any(database, f"{_quoted(t.name)} group by session_id having count(*) > 1") for t in tables):
        return False
    return not any(
        _any(database, f"({_telling(a)}) a join ({_telling(b)}) b on a.session_id is b.session_id") for a, b in combinations(tables, 2)
    )


def _telling(table: Table) -> str:
    """The sessions of a table with runs in them: 3.x keeps the column in which 2.x had them, empty."""
    held = {"runs", "memory"} & table.columns if table.sessions else {"run_data"}
    said = " or ".join(f"ifnull({column}, 'null') not in ('null', '[]')" for column in sorted(held))
    return f"select session_id from {_quoted(table.name)} where {said}"


def _any(database: sqlite3.Connection, what: str) -> bool:
    return database.execute(f"select 1 from {what} limit 1").fetchone() is not None


def _session(row: Row) -> Any:
    return row[1]["session_id"]


def _rows(database: sqlite3.Connection, tables: list[Table], share: Share | None) -> Iterator[Row]:
    for _, name, columns in tables:
        wanted = [
            c
            for c in ("run_id", "session_id", "user_id", "run_data", "runs", "memory", "agent_id", "team_id", "workflow_id")
            if c in columns
        ]
        order = "session_id, run_index" if {"session_id", "run_index"} <= columns else "rowid"
        for row in database.execute(f"select {', '.join(map(_quoted, wanted))} from {_quoted(name)} order by {order}"):
            found = dict(zip(wanted, row, strict=True))
            if share is None or crc32(found["session_id"] if isinstance(found["session_id"], bytes) else b"") % share[1] == share[0]:
                yield name, found


def _row(row: dict[str, Any], table: str, report: Report) -> Iterator[Node]:
    head = {k: model.raw(v.decode("utf-8", "replace")) for k, v in row.items() if k in _HEADS and isinstance(v, bytes)}
    for column in ("run_data", "runs", "memory"):
        value = row.get(column)
        if value is None:
            continue
        data = value if isinstance(value, bytes) else str(value).encode()
        try:
            given, open_ = cutoff.decode(data, _raw.decode, report, _MAY)
        except ReadError as error:
            report.note("bad-row", f"{table}.{column}: {error.message}", "lost", record=data)
            continue
        raw = unwrap(given.copy())
        if column == "run_data":
            yield from _found(raw, open_, head)
        elif not jsonio.is_null(raw):
            yield from _found(model.raw({**head, column: raw}), "{" + column + open_ if open_ else None, head)


__all__ = ["folder", "lines", "nodes", "roots", "runs_of", "sqlite", "unwrap"]
