"""OTLP in files: JSON Lines (one TracesData a line, as the Collector's file exporter and Jaeger's upload have it), or protobuf messages, each with its length
before it as a varint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from ...converters.errors import ReadError, UsageError
from .answer import Answer
from .codec import JSON, PROTOBUF, Codec

JSON_ENDINGS: Final = (".jsonl", ".json", ".ndjson")
PROTOBUF_ENDINGS: Final = (".binpb", ".pb", ".otlp", ".bin")


class FileChannel:
    """A file as a channel: each request is a line, or a message with its length."""

    def __init__(self, file: BinaryIO, codec: Codec) -> None:
        self._file, self._codec = file, codec

    def send(self, body: bytes, spans: int) -> Answer:
        """Write one batch. An error of the disk stops: a file is whole or not there."""
        try:
            self._file.write(body + b"\n" if self._codec is JSON else delimited(body))
        except OSError as error:
            return Answer("stop", f"{getattr(self._file, 'name', 'the output')}: {error.strerror or error}")
        return Answer("accepted")

    def close(self) -> None:
        self._file.flush()


class NoChannel:
    """Sends nothing (``--dry-run``) and says that it was accepted."""

    def send(self, body: bytes, spans: int) -> Answer:
        return Answer("accepted")

    def close(self) -> None:
        return


def delimited(message: bytes) -> bytes:
    """A message with its length as a varint before it."""
    out, n = bytearray(), len(message)
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out) + message


def read_delimited(file: BinaryIO) -> Iterator[TracesData]:
    """The messages of a file that `FileChannel` wrote. ReadError where it breaks off."""
    while True:
        size, shift, at = 0, 0, file.tell()
        while True:
            byte = file.read(1)
            if not byte:
                if shift:
                    raise ReadError("the length of a message breaks off", byte=at)
                return
            size |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                break
            if shift > 35:
                raise ReadError("no length of a message", byte=at)
        data = file.read(size)
        try:
            if len(data) < size:
                raise DecodeError
            yield TracesData.FromString(data)
        except DecodeError:
            raise ReadError("a message breaks off or is none", byte=at) from None


def codec_of(path: str, encoding: str | None) -> Codec:
    """The encoding of an output: as named (``json``, ``protobuf``), else by the ending of its name; standard output is JSON Lines."""
    if encoding is not None:
        return JSON if encoding == "json" else PROTOBUF
    ending = Path(path).suffix.lower()
    if path == "-" or ending in JSON_ENDINGS:
        return JSON
    if ending in PROTOBUF_ENDINGS:
        return PROTOBUF
    raise UsageError(f"-o {path}: say --encoding json or protobuf, or use an ending such as .jsonl or .binpb")


__all__ = ["FileChannel", "NoChannel", "codec_of", "delimited", "read_delimited"]
