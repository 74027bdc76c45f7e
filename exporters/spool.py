"""What could not be delivered, kept on disk as OTLP JSON Lines until `spanport resend` has sent it.

One export that fails writes one pair of files: ``NAME.otlp.jsonl``, which any reader of OTLP takes, and ``NAME.json``, which says where it was meant
for and why it failed. Credentials are never written: they come from the options or the environment again. A resend holds a lock on the pair, so that
two do not send the same.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

from ..converters.clock import to_iso
from ..converters.conventions.flat import FlatSpan
from ..converters.errors import SpanportError
from ..converters.otlp import jsontext
from .otlp.codec import Codec, Envelope, Piece, attributes_of_json, flat_of_json, json_group
from .otlp.settings import Destination

SUFFIX: Final = ".otlp.jsonl"
PER_LINE: Final = 128
"""Spans of one line."""
KEPT_HEADERS: Final = ("x-project-name", "x-mlflow-experiment-id", "x-mlflow-run-id", "x-langfuse-ingestion-version")
"""Headers that route and hold no secret: only these are written down."""
_encode = msgspec.json.Encoder().encode


class Meant(Struct, kw_only=True, omit_defaults=True):
    """Where the spans of a spool file were meant for, and what was known when they were put away."""

    endpoint: str
    protocol: str
    profile: str = "generic"
    headers: dict[str, str] = {}
    other_headers: list[str] = []
    """Names of headers that have to be given again."""
    ledger: bool = False
    """The export kept a ledger: what is delivered goes into it, and what was delivered since is not sent again."""
    reasons: dict[str, int] = {}
    spans: int = 0
    at: str = ""


def default_folder() -> Path:
    """The spool of the user: ``spanport/spool`` in the state directory (XDG_STATE_HOME)."""
    return state_folder() / "spool"


def state_folder() -> Path:
    """``spanport`` in the user's state directory (XDG_STATE_HOME where it is set, on every system)."""
    if base := os.environ.get("XDG_STATE_HOME"):
        return Path(base) / "spanport"
    from platformdirs import user_state_path

    return Path(user_state_path("spanport", appauthor=False))


class Spool:
    """The spool of one export: nothing is written until something fails. An error of the disk is kept in `error` and never raised: the spans
    count as failed and not as spooled, and the command says so."""

    def __init__(self, folder: Path, to: Destination, codec: Codec, profile: str = "generic", ledger: bool = False) -> None:
        self.folder, self._codec = folder, codec
        others = sorted(h for h in to.headers if h not in KEPT_HEADERS)
        self.meant = Meant(
            endpoint=to.name,
            protocol=to.protocol,
            profile=profile,
            headers={k: v for k, v in to.headers.items() if k in KEPT_HEADERS},
            other_headers=others,
            ledger=ledger,
        )
        self.path: Path | None = None
        self.error: str | None = None
        self._file: BinaryIO | None = None

    def keep(self, pieces: list[Piece], why: str) -> int:
        """Put ``pieces`` away; how many were written. What is written is on the disk when this returns."""
        kept = 0
        self.meant.reasons[why[:500]] = self.meant.reasons.get(why[:500], 0) + len(pieces)
        for at in range(0, len(pieces), PER_LINE):
            part = pieces[at : at + PER_LINE]
            if self.error is None and self._write(part):
                kept += len(part)
        self.meant.spans += kept
        return kept

    def _write(self, pieces: list[Piece]) -> bool:
        start = 0
        try:
            if self._file is None:
                self._open()
            assert self._file is not None
            start = self._file.tell()
            left = memoryview(line_of(pieces, self._codec))
            while left:  # a disk that is nearly full takes a part, and says so only of the next one
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self.error = f"{self.folder}: {error.strerror or error}"
            if self._file is not None:
                with contextlib.suppress(OSError, ValueError):  # no half of a line stays
                    self._file.truncate(start)
            return False
        return True

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}-{secrets.token_hex(3)}"
        self.meant.at = to_iso(time.time_ns())
        path = self.folder / (name + SUFFIX)
        write_meant(path, self.meant)
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)  # it holds what the traces hold
        self._file = os.fdopen(handle, "r+b", buffering=0)
        self.path = path
        with contextlib.suppress(ImportError, OSError):  # no resend takes it while it grows
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """The last word on why, and how many. Nothing is left when nothing was kept."""
        if self._file is None:
            if self.error is not None:
                self._sweep()
            return
        with contextlib.suppress(OSError):
            self._file.close()
        self._file = None
        assert self.path is not None
        if not self.meant.spans:
            with contextlib.suppress(OSError):
                remove(self.path)
            self.path = None
            return
        try:
            write_meant(self.path, self.meant)
        except OSError as error:  # the first version of it stays
            self.error = self.error or f"{self.folder}: {error.strerror or error}"

    def _sweep(self) -> None:
        """A description without spans is no use."""
        with contextlib.suppress(OSError):
            for left in self.folder.glob(f"*-{os.getpid()}-*.json"):
                if not left.with_name(left.name.removesuffix(".json") + SUFFIX).exists():
                    left.unlink()


def line_of(pieces: Iterable[Piece], codec: Codec) -> bytes:
    """Pieces as one TracesData line, a ResourceSpans for each trace."""
    groups: dict[int, tuple[Envelope, list[bytes]]] = {}
    for piece in pieces:
        groups.setdefault(id(piece.envelope), (piece.envelope, []))[1].append(jsontext.span(codec.flat(piece.data)))
    return b'{"resourceSpans":[' + b",".join(json_group(e, spans) for e, spans in groups.values()) + b"]}\n"


def meant_path(path: Path) -> Path:
    """The description beside the spans."""
    return path.with_name(path.name.removesuffix(SUFFIX) + ".json")


def write_meant(path: Path, meant: Meant) -> None:
    """Write the description of ``path``, whole or not at all."""
    target = meant_path(path)
    part = target.with_suffix(".json.tmp")
    try:
        part.write_bytes(msgspec.json.format(_encode(meant), indent=2) + b"\n")
        os.replace(part, target)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def remove(path: Path) -> None:
    """Both files of a pair."""
    path.unlink(missing_ok=True)
    meant_path(path).unlink(missing_ok=True)
    path.with_suffix(".lock").unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------------- sending again
def pending(folder: Path) -> list[Path]:
    """The spool files of ``folder``, the oldest first."""
    return sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []


def meant_of(path: Path) -> Meant:
    """Where ``path`` was meant for. SpanportError when its description is missing or broken."""
    try:
        return msgspec.json.decode(meant_path(path).read_bytes(), type=Meant)
    except (OSError, msgspec.MsgspecError) as error:
        raise SpanportError(f"{path}: nothing says where it was meant for ({error}); name the place with --endpoint") from None


def lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Each line of a spool file with its byte offset; None for one that is no JSON (cut by a crash)."""
    with path.open("rb") as file:
        offset = 0
        for line in file:
            try:
                found = msgspec.json.decode(line)
                yield offset, found if isinstance(found, dict) else None
            except (msgspec.DecodeError, RecursionError):
                yield offset, None
            offset += len(line)


def spans_of(line: dict[str, Any]) -> Iterator[tuple[Envelope, FlatSpan]]:
    """The flat spans of one line with what stands around them. KeyError, TypeError or ValueError when it is no TracesData."""
    known: dict[str, Envelope] = {}
    for group in line["resourceSpans"]:
        resource = attributes_of_json(group.get("resource", {}).get("attributes", ()))
        for scoped in group.get("scopeSpans", ()):
            scope = scoped.get("scope", {})
            for one in scoped.get("spans", ()):
                flat = flat_of_json(one)
                key = flat.trace_id + str(id(scoped))
                around = known.get(key)
                if around is None:
                    around = known[key] = Envelope(
                        flat.trace_id, resource, scoped.get("schemaUrl", ""), scope.get("name", "spanport"), scope.get("version", "")
                    )
                yield around, flat


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold ``path`` for one resend; False when another process has it. Without fcntl (Windows) everybody gets it."""
    try:
        import fcntl
    except ImportError:
        yield True
        return
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield path.exists()  # another may have sent and removed it while we came
    except FileNotFoundError:
        yield False
