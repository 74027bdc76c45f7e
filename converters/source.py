"""Where bytes come from: a file, a directory, a stream, a URL, bytes in memory, or an object in memory. Readers see only this.

gzip and Zstandard are undone on the way, told by their first bytes. Nothing here knows a format. Paths and URLs found inside a record are
never opened: a reader of a directory asks for the fixed names of its layout.
"""

from __future__ import annotations

import io
import mmap
import os
import re
import select
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from msgspec import Struct

from .errors import ReadError
from .jsonio import MAX_LINE, largest, too_large

HEAD = 1 << 16
"""Bytes that recognition looks at."""
_BLOCK = 1 << 20
_LINES = 1 << 18
"""Bytes that are split into lines at once: of lines of one byte each, the pieces take twenty times as much."""
_EMPTY_LINES = 1000
_FEW = 1 << 14
_IN_MEMORY = 8 << 20
"""A document that has no file of its own (compressed, a pipe, a URL) is held in memory up to here, then in a temporary file."""
_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_MAGIC = len(_ZSTD)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]++(?:::[A-Za-z][A-Za-z0-9+.\-]++)*+://")


class Line(Struct, frozen=True, gc=False):
    """One line of a stream: its number from 1, the byte offset of its start, its bytes without the ``\\n``, and whether a
    ``\\n`` ended it (a last line without one may be cut)."""

    number: int
    offset: int
    data: bytes
    ended: bool


class Block(Struct, frozen=True, gc=False):
    """Lines of a stream that stand one after the other, whole, each with its ``\\n`` (a last one without may be cut). ``number``: how many come before
    them; ``offset``: of the first byte; ``count``: of lines that have an end."""

    number: int
    offset: int
    data: bytes
    count: int

    def lines(self) -> Iterator[Line]:
        """One by one."""
        number, offset = self.number, self.offset
        pieces = self.data.split(b"\n")
        last = pieces.pop()
        for piece in pieces:
            number += 1
            yield Line(number, offset, piece, True)
            offset += len(piece) + 1
        if last:
            yield Line(number + 1, offset, last, False)


@dataclass
class Source:
    """One input. ``name`` is how the user calls it, for messages. Exactly one of path, stream, content, object and url is set.

    ``damage``: what is wrong with the container (a gzip file that breaks off), known once it was read; what came before is given as it is."""

    name: str
    path: Path | None = None
    stream: BinaryIO | None = None
    content: bytes | None = None
    object: Any = None
    url: str | None = None
    damage: str | None = None
    _head: bytes = field(default=b"", repr=False)
    _unpacked: bool = field(default=False, repr=False)
    _packed: bool = field(default=False, repr=False)
    _keep: Any = field(default=None, repr=False)

    @property
    def is_dir(self) -> bool:
        try:
            return self.path is not None and self.path.is_dir()
        except OSError:
            return False

    def head(self, size: int = HEAD) -> bytes:
        """The first bytes, without consuming a stream."""
        if self.stream is not None:
            self._unpack_stream()
            read = getattr(self.stream, "read1", self.stream.read)  # what is there: a full read would wait for more of a live stream
            while len(self._head) < size and (block := read(size - len(self._head))):
                self._head += block
                if b"\n" in block:  # a live stream may not have more for a long time
                    break
            return self._head[:size]
        if self.object is not None or self.is_dir:
            return b""
        with self.open() as file:
            held = b""
            while len(held) < size and (block := file.read(size - len(held))):
                held += block
            return held

    def open(self) -> BinaryIO:
        """The bytes from the start, unpacked. OSError becomes ReadError."""
        if self.stream is not None:
            self._unpack_stream()
            return cast(BinaryIO, _Joined(self._head, self.stream))
        return self._unpack(self._stored())

    def data(self) -> bytes | memoryview:
        """All bytes: a memory map for a file. The map lives as long as something refers to it."""
        if self.path is not None:
            with self._stored() as file:
                if os.fstat(file.fileno()).st_size == 0:
                    return b""
                if not _packed(file.read(_MAGIC)):
                    return _mapped(file)
        elif self.content is not None and not _packed(self.content[:_MAGIC]):
            return self.content
        with self.open() as file:
            held = bytearray()
            while block := file.read(_BLOCK):
                held += block
                if len(held) > _IN_MEMORY:
                    break
            else:
                return bytes(held)
            with tempfile.TemporaryFile() as spool:
                self._spool(file, spool, bytes(held))
                return _mapped(spool)

    def lines(self) -> Iterator[Line]:
        """Lines split at ``\\n`` on bytes, in memory bounded by the longest line. A longer line than MAX_LINE is a ReadError. Of empty lines by the thousand only the
        last ones come."""
        with self.open() as file:
            yield from split_lines(file)

    def blocks(self) -> Iterator[Block]:
        """The same lines, some at a time, for a reader that is quicker with many at once: no more than stay in the processor's caches together with what
        becomes of them."""
        with self.open() as file:
            yield from split_blocks(file, size=_FEW)

    def stretch(self, start: int, end: int, number: int) -> Iterator[Line]:
        """The lines between two bytes of a file on disk that is not `packed`; ``number`` lines come before them."""
        with self._stored() as file:
            file.seek(start)
            yield from split_lines(cast(BinaryIO, _Stretch(file, end - start)), number, start)

    def size(self) -> int:
        """Bytes of the file as it is stored, 0 for anything that is not a file on disk: that may not be there a second time."""
        try:
            return self.path.stat().st_size if self.path is not None and self.path.is_file() else 0
        except OSError:
            return 0

    def packed(self) -> bool:
        """Whether the bytes as they are stored are compressed."""
        with self._stored() as file:
            return _packed(file.read(_MAGIC))

    def local(self) -> Path:
        """A file on disk with the unpacked bytes, for what needs one (SQLite): the file itself, or a temporary copy that lives as long
        as this Source."""
        if self.path is not None:
            with self._stored() as file:
                if not _packed(file.read(_MAGIC)):
                    return self.path
        folder = tempfile.TemporaryDirectory(prefix="spanport-")
        self._keep = folder
        copy = Path(folder.name) / "input"
        with self.open() as file, copy.open("wb") as out:
            self._spool(file, out, b"")
        return copy

    def _spool(self, file: BinaryIO, out: IO[bytes], first: bytes) -> None:
        limit = largest(self._packed)
        size = len(first)
        out.write(first)
        while block := file.read(_BLOCK):
            size += len(block)
            if size > limit:
                raise too_large(self._packed, self.name)
            out.write(block)
        out.flush()

    def _stored(self) -> BinaryIO:
        """The bytes as they are stored."""
        if self.content is not None:
            return io.BytesIO(self.content)
        if self.url is not None:
            return open_url(self.url)
        assert self.path is not None, "an object in memory has no bytes"
        try:
            if not stat.S_ISREG(
                self.path.stat().st_mode
            ):  # a pipe in a folder would be waited for; one that the user names is a stream (`_local`)
                raise ReadError("no regular file", input=self.name)
            return self.path.open("rb")
        except OSError as error:
            raise ReadError(error.strerror or str(error), input=self.name) from error

    def _unpack(self, file: BinaryIO) -> BinaryIO:
        first = file.read(_MAGIC)
        if file.seekable():
            file.seek(0)
            return self._through(file, first)
        return self._through(cast(BinaryIO, _Joined(first, file)), first)

    def _unpack_stream(self) -> None:
        """Put the unpacking around a stream, once."""
        if self._unpacked:
            return
        assert self.stream is not None
        self._unpacked = True
        while len(self._head) < _MAGIC and (block := self.stream.read(_MAGIC - len(self._head))):
            self._head += block
        if _packed(self._head):
            self.stream, self._head = self._through(cast(BinaryIO, _Joined(self._head, self.stream)), self._head), b""

    def _through(self, file: BinaryIO, first: bytes) -> BinaryIO:
        if not _packed(first):
            return file
        self._packed = True
        return cast(BinaryIO, _Unpacked(file, self, zstd=first == _ZSTD))


def _packed(first: bytes) -> bool:
    return first.startswith((_GZIP, _ZSTD))


def _mapped(file: IO[bytes]) -> memoryview:
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def split_blocks(file: BinaryIO, number: int = 0, offset: int = 0, size: int = _LINES) -> Iterator[Block]:
    """See `Source.blocks`. Reads what is there (``read1``), so that a pipe gives each line as it comes."""
    read = getattr(file, "read1", file.read)
    rest: list[bytes] = []
    held = 0
    while data := read(size):
        if end := data.rfind(b"\n") + 1:
            whole = b"".join((*rest, data[:end]))
            count = whole.count(b"\n")
            if count == len(whole) > _EMPTY_LINES:  # a kilobyte of gzip is a megabyte of these
                number += count - 1
                offset += count - 1
                whole, count = b"\n", 1
            yield Block(number, offset, whole, count)
            number += count
            offset += len(whole)
            data, rest, held = data[end:], [], 0
        if data:
            rest.append(data)
            held += len(data)
            if held > MAX_LINE:
                raise ReadError(f"a line of more than {MAX_LINE:,} bytes", line=number + 1, byte=offset)
    if rest:
        yield Block(number, offset, b"".join(rest), 0)


def split_lines(file: BinaryIO, number: int = 0, offset: int = 0) -> Iterator[Line]:
    """See `Source.lines`. Like `split_blocks`, it waits for no more than a line."""
    for block in split_blocks(file, number, offset):
        yield from block.lines()


def until(stream: BinaryIO, stop: Callable[[], bool], poll: float = 0.1) -> BinaryIO:
    """``stream``, ending also when ``stop`` turns true while it is waited for more (a live pipe whose writer goes on). A stream that can't be waited for
    (no file descriptor, Windows) is given as it is."""
    try:
        number = stream.fileno()
        select.select([number], [], [], 0)
    except (OSError, ValueError, AttributeError):
        return stream
    return cast(BinaryIO, _Until(number, stop, poll))


class _Until(io.RawIOBase):
    """See `until`. Reads past the stream's own buffer, which must be empty."""

    def __init__(self, number: int, stop: Callable[[], bool], poll: float) -> None:
        self._number, self._stop, self._poll = number, stop, poll

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(self.read1, b""))
        return self.read1(size)

    def read1(self, size: int = _BLOCK) -> bytes:
        while not self._stop():
            if select.select([self._number], [], [], self._poll)[0]:
                return os.read(self._number, size)
        return b""


class _Joined(io.RawIOBase):
    """A stream whose first bytes were looked at already."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size is None or size < 0:
            head, self._head = self._head, b""
            return head + self._rest.read()
        return self.read1(size)

    def read1(self, size: int = _BLOCK) -> bytes:
        if self._head:
            block, self._head = self._head[:size], self._head[size:]
            return block
        read = getattr(self._rest, "read1", self._rest.read)
        found: bytes = read(size)
        return found


class _Stretch:
    """The next ``left`` bytes of a file."""

    def __init__(self, file: BinaryIO, left: int) -> None:
        self._file, self._left = file, left

    def read(self, size: int) -> bytes:
        block = self._file.read(min(size, self._left))
        self._left -= len(block)
        return block


class _Unpacked(io.RawIOBase):
    """gzip (any number of members) or Zstandard (any number of frames) undone. Data that breaks off or is damaged ends the stream like
    a file that was cut, and is told to the source; memory does not grow with what is packed."""

    def __init__(self, file: BinaryIO, source: Source, *, zstd: bool) -> None:
        self._file, self._source, self._zstd = file, source, zstd
        self._new = _zstd_decompressor if zstd else lambda: zlib.decompressobj(wbits=31)
        self._inner: Any = self._new()
        self._input = b""
        self._ready: bytes | memoryview = b""
        self._fresh = True
        self._ended = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        block = self.read1(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def read(self, size: int = -1) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read1(_BLOCK), b""))
        return self.read1(size)

    def read1(self, size: int = _BLOCK) -> bytes:
        while not self._ready and not self._ended:
            self._ready = self._more()
        block, self._ready = bytes(self._ready[:size]), memoryview(self._ready)[size:]
        return block

    def _more(self) -> bytes:
        if not self._input:
            read = getattr(self._file, "read1", self._file.read)
            self._input = read(1 << 16)
            if not self._input:
                self._ended = True
                if not self._fresh:
                    self._source.damage = "the compressed data breaks off"
                return b""
        held = self._input
        try:
            if self._zstd:  # it gives all that its input holds, at worst 128 KiB for 4 bytes: so in small pieces
                self._input = held[1024:]
                out: bytes = self._inner.decompress(held[:1024])
            else:  # what a damaged block holds before the damage is lost: so in small pieces
                out = self._inner.decompress(held, 1 << 16)
                self._input = self._inner.unconsumed_tail
        except Exception as error:  # zlib.error, ZstdError: the library for the second is optional
            self._ended = True
            if self._fresh and not held.strip(b"\0"):  # padding after the last member
                return b""
            self._source.damage = f"the compressed data is damaged ({error})"
            return b""
        self._fresh = False
        if self._inner.eof:
            self._input = self._inner.unused_data + (self._input if self._zstd else b"")
            self._inner = self._new()
            self._fresh = True
        return out


def _zstd_decompressor() -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14

        return zstd.ZstdDecompressor()
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise ReadError("a Zstandard file", hint="pip install 'spanport[zst]' reads it") from None
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()


def is_url(text: str) -> bool:
    """Whether ``text`` is something for fsspec (``s3://…``, ``https://…``, ``simplecache::s3://…``)."""
    return _URL.match(text) is not None


def shown_url(url: str) -> str:
    """The URL for messages: without a password and without a query, which may hold a signature."""
    return re.sub(r"\?.*$", "?…", re.sub(r"//[^/@]*@", "//…@", url), flags=re.DOTALL)


def _fsspec() -> Any:
    try:
        return import_module("fsspec")
    except ImportError:
        raise ReadError("a URL", hint="pip install 'spanport[fsspec]' (and s3fs, gcsfs or aiohttp) reads it") from None


def open_url(url: str) -> BinaryIO:
    """The bytes behind a URL that the user gave."""
    module = _fsspec()
    try:
        return cast(BinaryIO, module.open(url, "rb").open())
    except ImportError as error:
        raise ReadError(_first_line(error, url), input=shown_url(url)) from None
    except Exception as error:  # each file system raises its own
        raise ReadError(_first_line(error, url), input=shown_url(url)) from error


def file_system(url: str) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path within it."""
    module = _fsspec()
    try:
        found: tuple[Any, str] = module.core.url_to_fs(url)
        return found
    except ImportError as error:
        raise ReadError(_first_line(error, url), input=shown_url(url)) from None
    except Exception as error:
        raise ReadError(_first_line(error, url), input=shown_url(url)) from error


def fetched(url: str, wanted: Callable[[str], bool] | None = None) -> Source:
    """A folder behind a URL as a Source: copied to a temporary directory, which lives as long as the Source. ``wanted``: only these files, by their path
    in the folder."""
    system, path = file_system(url)
    folder = tempfile.TemporaryDirectory(prefix="spanport-")
    target = Path(folder.name) / (path.rstrip("/").rpartition("/")[2] or "run")
    path = path.rstrip("/") + "/"
    try:
        if wanted is None:
            system.get(path, str(target) + "/", recursive=True)
        else:
            names = [n for n in (f.removeprefix(path) for f in system.find(path)) if ".." not in n.split("/") and wanted(n)]
            for name in names:
                (target / name).parent.mkdir(parents=True, exist_ok=True)
            system.get([path + n for n in names], [str(target / n) for n in names])
    except Exception as error:
        raise ReadError(_first_line(error, url), input=shown_url(url)) from error
    return Source(shown_url(url), path=target, _keep=folder)


def _first_line(error: Exception, url: str = "") -> str:
    """What went wrong, in one line. fsspec's own error may be the address alone; then what it came from says it, or its kind."""
    cause: BaseException | None = error
    while cause is not None and (text := _said(cause, url)) is None:
        cause = cause.__cause__ or cause.__context__
    if cause is None or not text:
        text = "no such file" if isinstance(error, FileNotFoundError) else type(error).__name__
    return text.split("\n", 1)[0][:200]


def _said(error: BaseException, url: str) -> str | None:
    """The words of an error; None where there are none but the address."""
    if isinstance(status := getattr(error, "status", None), int) and isinstance(reason := getattr(error, "message", None), str):  # HTTP
        return f"HTTP {status} {reason}".strip()
    if isinstance(system := getattr(error, "os_error", None), OSError) and (system.errno or 0) > 0:  # aiohttp: the host does not answer
        return os.strerror(system.errno or 0)
    text = error.strerror if isinstance(error, OSError) and isinstance(error.strerror, str) and error.strerror else str(error)
    return text if text and text.strip("/'\" ") not in url else None


def start_of(path: Path, size: int = HEAD) -> bytes:
    """The first bytes of a file, for recognition; nothing for what is no file (a pipe would be waited for) or can't be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(size)
    except (OSError, ValueError):
        return b""


def source_of(given: Any, name: str | None = None) -> Source:
    """A Source for a path, a URL, a ``Source``, bytes, a binary file object, a dict or list, or anything with ``to_dict()``."""
    if isinstance(given, Source):
        return given
    if isinstance(given, str) and is_url(given):
        return Source(name or shown_url(given), url=given)
    if isinstance(given, str | os.PathLike):
        return _local(Path(given), name or str(given))
    if isinstance(given, bytes | bytearray | memoryview):
        return Source(name or "bytes", content=bytes(given))
    if hasattr(given, "read"):
        return Source(name or str(getattr(given, "name", "stream")), stream=given)
    if hasattr(given, "to_dict"):
        given = given.to_dict()
    if isinstance(given, dict | list):
        return Source(name or "object", object=given)
    raise ReadError(
        f"can't read a {type(given).__name__}; give a path, bytes, a binary file, a dict or an object with to_dict()", input=name
    )


def _local(path: Path, name: str) -> Source:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # a pipe (<(command)), a device
            return Source(name, stream=path.open("rb"))
    except FileNotFoundError:
        pattern = any(c in name for c in "*?[")
        raise ReadError("no file fits this pattern" if pattern else "no such file or directory", input=name) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ReadError(getattr(error, "strerror", None) or str(error), input=name) from error
    return Source(name, path=path)
