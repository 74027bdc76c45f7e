"""Where bytes come from: a file, a directory, a stream, bytes in memory, or an object in memory. Readers see only this.

Nothing here knows a format. Paths found inside a record are never opened: a reader of a directory asks for the fixed names of its layout.
"""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from .errors import ReadError
from .jsonio import MAX_LINE

HEAD = 1 << 16
"""Bytes that recognition looks at."""
_BLOCK = 1 << 20


class Line(NamedTuple):
    """One line of a stream: its number from 1, the byte offset of its start, its bytes without the ``\\n``, and whether a
    ``\\n`` ended it (a last line without one may be cut)."""

    number: int
    offset: int
    data: bytes
    ended: bool


@dataclass
class Source:
    """One input. ``name`` is how the user calls it, for messages. Exactly one of the other fields is set."""

    name: str
    path: Path | None = None
    stream: BinaryIO | None = None
    content: bytes | None = None
    object: Any = None
    _head: bytes = field(default=b"", repr=False)

    @property
    def is_dir(self) -> bool:
        return self.path is not None and self.path.is_dir()

    def head(self, size: int = HEAD) -> bytes:
        """The first bytes, without consuming a stream."""
        if self.content is not None:
            return self.content[:size]
        if self.stream is not None:
            while len(self._head) < size and (block := self.stream.read(size - len(self._head))):
                self._head += block
                if b"\n" in block:  # a live stream may not have more for a long time
                    break
            return self._head[:size]
        if self.path is not None and not self.is_dir:
            with self.open() as file:
                return file.read(size)
        return b""

    def open(self) -> BinaryIO:
        """The bytes from the start. OSError becomes ReadError."""
        if self.content is not None:
            return io.BytesIO(self.content)
        if self.stream is not None:
            return cast(BinaryIO, _Joined(self._head, self.stream))
        assert self.path is not None, "an object in memory has no bytes"
        try:
            return self.path.open("rb")
        except OSError as error:
            raise ReadError(error.strerror or str(error), input=self.name) from error

    def data(self) -> bytes | memoryview:
        """All bytes: a memory map for a file. The map lives as long as something refers to it."""
        if self.content is not None:
            return self.content
        if self.path is not None:
            with self.open() as file:
                if os.fstat(file.fileno()).st_size == 0:
                    return b""
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        with self.open() as file:
            return file.read()

    def lines(self) -> Iterator[Line]:
        """Lines split at ``\\n`` on bytes, in memory bounded by the longest line. A longer line than MAX_LINE is a ReadError."""
        with self.open() as file:
            yield from split_lines(file)


def split_lines(file: BinaryIO, number: int = 0, offset: int = 0) -> Iterator[Line]:
    """See `Source.lines`. Reads what is there (``read1``), so that a pipe gives each line as it comes."""
    read = getattr(file, "read1", file.read)
    rest: list[bytes] = []
    held = 0
    while block := read(_BLOCK):
        start = 0
        while (end := block.find(b"\n", start)) >= 0:
            piece = block[start:end]
            if rest:
                piece = b"".join(rest) + piece
                rest, held = [], 0
            number += 1
            yield Line(number, offset, piece, True)
            offset += len(piece) + 1
            start = end + 1
        if start < len(block):
            rest.append(block[start:])
            held += len(block) - start
            if held > MAX_LINE:
                raise ReadError(f"a line of more than {MAX_LINE:,} bytes", line=number + 1, byte=offset)
    if rest:
        yield Line(number + 1, offset, b"".join(rest), False)


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


def source_of(given: Any, name: str | None = None) -> Source:
    """A Source for a path, a ``Source``, bytes, a binary file object, a dict or list, or anything with ``to_dict()``."""
    if isinstance(given, Source):
        return given
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        if not path.exists():
            raise ReadError("no such file or directory", input=name or str(given))
        return Source(name or str(given), path=path)
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
