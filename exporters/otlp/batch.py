"""Encoded spans into requests: bounded by bytes and count, a trace kept in one request where it fits.

A trace that is held whole goes parents first, the root at the head; one that is larger than what may be held goes as its spans complete, the root
last. Memory is bounded by `Limits.hold`, whatever the input is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from .codec import PIECE_ROOM, Codec, Envelope, Piece

MIB: Final = 1 << 20
_OBJECTS: Final = 256
"""Bytes of memory that a piece takes beside its data: of a small span, as much again."""


@dataclass(frozen=True)
class Limits:
    """``bytes`` of one request before compression (servers take 4 MiB over gRPC by default), ``spans`` of one request, ``hold``: bytes of
    memory that encoded spans may take while they wait for the rest of their traces."""

    bytes: int = 3 * MIB
    spans: int = 2048
    hold: int = 6 * MIB


@dataclass
class _Open:
    """Spans of one trace that wait. ``order``: parent ids, to put parents before children. ``whole``: none of it has gone yet."""

    pieces: list[Piece] = field(default_factory=list)
    parents: list[str | None] = field(default_factory=list)
    bytes: int = 0
    rooted: bool = False
    whole: bool = True


class Batcher:
    """Pieces in, requests (lists of pieces) out. ``at_once``: nothing is held back for the rest of its trace (a stream that is followed)."""

    def __init__(self, codec: Codec, limits: Limits, at_once: bool = False) -> None:
        self._codec, self._limits, self._at_once = codec, limits, at_once
        self._open: dict[str, _Open] = {}
        self._held = 0
        self._full: list[Piece] = []
        self._room = 0
        self._envelopes: set[int] = set()
        self._before = ""  # the trace of the last piece

    def add(self, piece: Piece, parent: str | None) -> Iterable[list[Piece]]:
        """One more span; requests that are full by it."""
        if self._at_once:
            return self._pack([piece])
        if (trace := self._open.get(piece.envelope.trace_id)) is None:
            trace = self._open[piece.envelope.trace_id] = _Open()
        trace.pieces.append(piece)
        trace.parents.append(parent)
        size = len(piece.data) + _OBJECTS
        trace.bytes += size
        if piece.root:
            trace.rooted = True
        self._held += size
        before, self._before = self._before, piece.envelope.trace_id
        if before != self._before and self._held > self._limits.bytes and (done := self._open.get(before)) and done.rooted and done.whole:
            # Its root is there and another trace has begun: it goes, so that sending overlaps with reading.
            return chain(self._release(before), self._over())
        return self._over() if self._held > self._limits.hold else ()

    def _over(self) -> Iterator[list[Piece]]:
        while self._held > self._limits.hold:
            yield from self._release(self._next())

    def _next(self) -> str:
        """The trace to let go first: the oldest whose root is there (it is most likely complete), else the largest."""
        for trace, held in self._open.items():
            if held.rooted and held.whole:
                return trace
        return max(self._open, key=lambda t: self._open[t].bytes)

    def _release(self, trace: str) -> Iterator[list[Piece]]:
        held = self._open.pop(trace)
        self._held -= held.bytes
        if held.rooted and held.whole:
            pieces = parents_first(held.pieces, held.parents)
        else:  # a part of it: more comes, and the root goes last
            pieces = sorted(held.pieces, key=lambda p: p.root)
        if not held.rooted:
            self._open[trace] = _Open(whole=False)
        yield from self._pack(pieces)

    def _pack(self, pieces: list[Piece]) -> Iterator[list[Piece]]:
        """Add the pieces of one trace to the request that is being filled; a trace that does not fit in what is left of it starts a new one."""
        total = sum(len(p.data) + PIECE_ROOM for p in pieces) + self._envelope_room(pieces[0].envelope) if pieces else 0
        fits = self._room + total <= self._limits.bytes and len(self._full) + len(pieces) <= self._limits.spans
        if self._full and not fits:
            yield self._take()
        around: Envelope | None = None
        for piece in pieces:
            need = len(piece.data) + PIECE_ROOM
            if piece.envelope is not around:
                need += self._envelope_room(piece.envelope)
            if self._full and (self._room + need > self._limits.bytes or len(self._full) >= self._limits.spans):
                yield self._take()
                need = len(piece.data) + PIECE_ROOM + self._envelope_room(piece.envelope)
                around = None
            if piece.envelope is not around:
                around = piece.envelope
                self._envelopes.add(id(around))
            self._full.append(piece)
            self._room += need

    def _envelope_room(self, envelope: Envelope) -> int:
        return 0 if id(envelope) in self._envelopes else self._codec.room(envelope)

    def _take(self) -> list[Piece]:
        full, self._full, self._room = self._full, [], 0
        self._envelopes.clear()
        return full

    def flush(self) -> Iterator[list[Piece]]:
        """Everything that is left: the input is at its end, or it is quiet for a while (a stream that is followed)."""
        for trace in list(self._open):
            if self._open[trace].pieces:
                held = self._open[trace]
                self._held -= held.bytes
                del self._open[trace]
                ordered = parents_first(held.pieces, held.parents) if held.whole else sorted(held.pieces, key=lambda p: p.root)
                yield from self._pack(ordered)
        self._open.clear()
        if self._full:
            yield self._take()


def parents_first(pieces: list[Piece], parents: Iterable[str | None]) -> list[Piece]:
    """The pieces with each parent before its children, otherwise in their order: root first."""
    ids = {p.span_id: i for i, p in enumerate(pieces)}
    depth: dict[int, int] = {}
    above = [ids.get(parent) if parent is not None else None for parent in parents]
    for i in range(len(pieces) - 1, -1, -1):  # parents mostly complete after their children
        if (over := above[i]) is None or over in depth:
            depth.setdefault(i, 0 if over is None else depth[over] + 1)
            continue
        chain: list[int] = []
        at: int | None = i
        while at is not None and at not in depth:
            depth[at] = 0  # a circle ends here
            chain.append(at)
            at = above[at]
        base = depth[at] + 1 if at is not None and at not in chain else 0
        for j, one in enumerate(reversed(chain)):
            depth[one] = base + j
    return [pieces[i] for i in sorted(range(len(pieces)), key=depth.__getitem__)]
