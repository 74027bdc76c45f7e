"""What was delivered where, for backends that store a second copy: a SQLite file in the user's state directory.

It knows spans by destination, trace and span id, with a hash of what was sent and when. A second export of the same trace sends nothing; a run that
has grown sends only the spans that are new. A span that is known and has changed since (the end of a run that has grown) is not sent either,
since it would be a second copy, and is counted. Processes take turns span by span: what another one is sending is waited for.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from ..converters.errors import SpanportError
from .otlp.account import Account
from .otlp.codec import Piece
from .otlp.sender import Stop

STALE: Final = 3600.0
"""Seconds after which a claim of a process that can't be asked (another machine) is void."""
CHANGED: Final = "spans that were delivered before and have changed since (--force sends them again)"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS destination (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS span (
    destination INTEGER NOT NULL, trace BLOB NOT NULL, span BLOB NOT NULL, hash BLOB NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (destination, trace, span)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claim (
    destination INTEGER NOT NULL, trace BLOB NOT NULL, span BLOB NOT NULL, owner TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (destination, trace, span)) WITHOUT ROWID;
"""


class Deliver(Protocol):
    def __call__(self, pieces: list[Piece]) -> None: ...


class Ledger:
    """One ledger file. Also a context manager that closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = f"{os.uname().nodename if hasattr(os, 'uname') else os.environ.get('COMPUTERNAME', '')}:{os.getpid()}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)  # the thread that sends
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise SpanportError(f"the ledger {path} can't be opened: {error}") from error
        self._destinations: dict[str, int] = {}

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise SpanportError(f"the ledger {self.path} can't be written: {error}") from error

    def _destination(self, name: str) -> int:
        if (known := self._destinations.get(name)) is None:
            with self._locked() as db:
                db.execute("INSERT OR IGNORE INTO destination (name) VALUES (?)", (name,))
                known = self._destinations[name] = int(db.execute("SELECT id FROM destination WHERE name = ?", (name,)).fetchone()[0])
        return known

    def deliver(
        self, destination: str, pieces: list[Piece], account: Account, send: Deliver, *, force: bool, stop: Stop
    ) -> tuple[list[Piece], str]:
        """Send those of ``pieces`` that were not delivered before: ``send`` is called with each part that is this process's to send, and `mark`
        has to be called for what the server accepts of it. What another process is sending is waited for. Gives back what could not
        even be tried, and why."""
        left = pieces
        while left:
            try:
                mine, busy = self._claim(self._destination(destination), left, account, force)
            except SpanportError as error:
                return left, str(error)
            if mine:
                try:
                    send(mine)
                finally:
                    self._release(self._destination(destination), account)
            left = busy
            if busy and not mine and stop.wait(0.1):
                return busy, "interrupted"
        return [], ""

    def _claim(self, destination: int, pieces: list[Piece], account: Account, force: bool) -> tuple[list[Piece], list[Piece]]:
        """(mine to send, another process's just now). What was delivered before is counted as left out."""
        mine: list[Piece] = []
        busy: list[Piece] = []
        now = time.time()
        with self._locked() as db:
            for piece in pieces:
                key = (destination, bytes.fromhex(piece.envelope.trace_id), bytes.fromhex(piece.span_id))
                row = None if force else db.execute("SELECT hash FROM span WHERE destination=? AND trace=? AND span=?", key).fetchone()
                if row is not None:
                    account.left_out["delivered_before"] += 1
                    if row[0] != digest(piece):
                        account.warnings[CHANGED] += 1
                    continue
                held = db.execute("SELECT owner, at FROM claim WHERE destination=? AND trace=? AND span=?", key).fetchone()
                if held is not None and held[0] != self._owner and self._alive(held[0], now - held[1]):
                    busy.append(piece)
                    continue
                db.execute("INSERT OR REPLACE INTO claim VALUES (?,?,?,?,?)", (*key, self._owner, now))
                mine.append(piece)
        return mine, busy

    def mark(self, destination: str, pieces: list[Piece], account: Account) -> None:
        """``pieces`` were accepted. When that can't be written down, the account says so: they would be sent again."""
        number, now = self._destination(destination), time.time()
        rows = [(number, bytes.fromhex(p.envelope.trace_id), bytes.fromhex(p.span_id), digest(p), now) for p in pieces]
        try:
            with self._locked() as db:
                db.executemany("INSERT OR REPLACE INTO span VALUES (?,?,?,?,?)", rows)
        except SpanportError as error:
            account.warnings[str(error)] += 1

    def _release(self, destination: int, account: Account) -> None:
        try:
            with self._locked() as db:
                db.execute("DELETE FROM claim WHERE destination=? AND owner=?", (destination, self._owner))
        except SpanportError as error:  # it goes stale by itself
            account.warnings[str(error)] += 1

    def _alive(self, owner: str, age: float) -> bool:
        """Whether the process that holds a claim may still be sending."""
        host, _, pid = owner.rpartition(":")
        if age > STALE:
            return False
        if host != self._owner.rpartition(":")[0] or not hasattr(os, "kill") or os.name == "nt":
            return True
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
        except (PermissionError, ValueError):
            return True
        return True


def digest(piece: Piece) -> bytes:
    """The hash of what is sent of a span."""
    return blake2b(piece.data, digest_size=16).digest()


def default_path() -> Path:
    """The ledger of the user, in the state directory."""
    from .spool import state_folder

    return state_folder() / "ledger.sqlite"
