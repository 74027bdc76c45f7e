"""Requests out, answers in: retries within a budget, halving, bisecting, early stop, and the account of every span.

The channel makes one request a call and knows no retry; the clock and the waiting are given, so that tests take no time.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from ...converters.stages.limits import shorten
from .account import Account
from .answer import Answer
from .batch import Limits
from .codec import Codec, Piece

BISECT_GIVE_UP: Final = 8
"""Spans refused one by one, and none accepted by this server, after which the fault is taken to be in all of them."""
MIN_SPAN: Final = 4096
"""Bytes that a span is shortened to at the least."""


class Channel(Protocol):
    def send(self, body: bytes, spans: int) -> Answer: ...
    def close(self) -> None: ...


@dataclass
class Retry:
    """``total``: seconds that retrying may take in one export, waiting and trying; refilled by success in a stream that is followed
    (``refill``). ``floor``: least seconds that a Retry-After is taken for, so that a 0 does not end in a storm."""

    total: float = 60.0
    first: float = 0.5
    most: float = 15.0
    jitter: float = 0.2
    floor: float = 1.0
    refill: bool = False
    clock: Callable[[], float] = time.monotonic
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.total

    def wait_for(self, tries: int, asked: float | None) -> float:
        """Seconds to wait after try number ``tries`` (from 1)."""
        if asked is not None:
            return max(asked, self.floor) * random.uniform(1, 1 + self.jitter / 2)
        return min(self.first * 2.0 ** (tries - 1), self.most) * random.uniform(1 - self.jitter, 1 + self.jitter)


class Stop:
    """The wish to end, set by a signal: `wait` returns at once when it is there. ``signal`` is its number. A request in hand may take
    ``grace`` seconds more; then `over` is true and it is given up. ``enough``: the number of a signal that only ends the reading of an input that
    is followed. ``file``: one that is made then, where worker processes look for it."""

    def __init__(self, grace: float = 2.0) -> None:
        self._event = threading.Event()
        self.file: Path | None = None
        self.signal = self.enough = 0
        self._until = 0.0
        self._grace = grace

    def set(self, signal: int) -> None:
        self.signal = signal
        self._until = time.monotonic() + self._grace
        self._event.set()
        if self.file is not None:
            self.file.touch()

    @property
    def over(self) -> bool:
        return bool(self) and time.monotonic() >= self._until

    def __bool__(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)


Keep = Callable[[list[Piece], str], int]
"""Puts pieces that were not delivered away (the spool), with why; gives back how many were kept."""


class Sender:
    """Delivers requests over one channel and writes the account. ``keep``: what becomes of spans that fail. ``delivered``: told of the
    pieces of each request that was accepted whole."""

    def __init__(
        self,
        channel: Channel,
        codec: Codec,
        account: Account,
        *,
        retry: Retry | None = None,
        limits: Limits | None = None,
        stop: Stop | None = None,
        keep: Keep | None = None,
        delivered: Callable[[list[Piece]], None] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._channel, self._codec, self.account = channel, codec, account
        self._retry, self._limits, self._stop = retry or Retry(), limits or Limits(), stop if stop is not None else Stop()
        self._keep, self._delivered, self._say = keep, delivered, say or (lambda _: None)
        self.dead: str | None = None
        """Why no further request is made; None while it goes well."""
        self._unreachable = 0

    def deliver(self, pieces: list[Piece]) -> None:
        """Send the pieces of one request; every one of them is in the account afterwards."""
        waiting = [pieces]
        refused: list[tuple[Piece, str]] = []
        while waiting:
            part = waiting.pop()
            if (why := self._no_more()) is not None:
                self.fail(part, why)
                continue
            answer = self._try(part)
            match answer.verdict:
                case "accepted":
                    self._accepted(part, answer)
                case "too_large":
                    waiting.extend(self._smaller(part, answer))
                case "invalid" if len(part) > 1:
                    middle = len(part) // 2
                    waiting += [part[middle:], part[:middle]]
                case "invalid":
                    refused.append((part[0], answer.text))
                    if len(refused) >= BISECT_GIVE_UP and not self.account.accepted:
                        self._stop_for(answer.text)
                case "stop":
                    self._stop_for(answer.text)
                    self.fail(part, answer.text)
                case _:
                    self.fail(part, answer.text)
        if self.dead is not None and not self.account.accepted:
            self.fail([piece for piece, _ in refused], self.dead)
        else:
            for piece, text in refused:
                self.account.reject([piece.span_id], text)

    def _no_more(self) -> str | None:
        if self.dead is not None:
            return self.dead
        return "interrupted" if self._stop else None

    def _stop_for(self, why: str) -> None:
        self.dead = why
        self._say(f"error: {why}")

    def _try(self, pieces: list[Piece]) -> Answer:
        """One request, tried again while that makes sense and the budget lasts."""
        body = self._codec.request(pieces)
        account, retry = self.account, self._retry
        began: float | None = None
        tries = 0
        while True:
            tries += 1
            account.requests += 1
            account.sent_bytes += len(body)
            answer = self._channel.send(body, len(pieces))
            now = retry.clock()
            if began is not None:
                retry.left -= now - began
            began = now
            if answer.verdict != "retry":
                self._unreachable = 0
                if retry.refill and answer.verdict == "accepted":
                    retry.left = retry.total
                return answer
            account.ambiguous += answer.ambiguous
            pause = retry.wait_for(tries, answer.retry_after)
            if self._stop or pause > retry.left:
                return self._gave_up(answer, pause)
            self._say(f"{answer.text}; trying again in {pause:.1f} s")
            account.retries += 1
            self._stop.wait(pause)
            if self._stop:
                return self._gave_up(answer, pause)

    def _gave_up(self, answer: Answer, pause: float) -> Answer:
        text = answer.text
        if not self._stop:
            if answer.retry_after is not None and answer.retry_after > self._retry.total:
                text += f"; it asks to wait {answer.retry_after:.0f} s, more than --retry-for {self._retry.total:g} allows"
            else:
                text += f"; given up after --retry-for {self._retry.total:g} s"
        self._unreachable += 1
        if self._unreachable >= 2 or (answer.unreachable and not self.account.accepted):
            self._stop_for(text)
        return replace(answer, verdict="failed", text=text)

    def _accepted(self, pieces: list[Piece], answer: Answer) -> None:
        account = self.account
        account.accepted += len(pieces) - answer.rejected
        if answer.rejected:
            # The server does not say which; a request of one span, or one refused whole, leaves no doubt.
            known = [p.span_id for p in pieces] if answer.rejected == len(pieces) else []
            account.reject(known, answer.text, answer.rejected)
            self._say(f"error: {answer.text}")
        elif self._delivered is not None:
            self._delivered(pieces)
        if answer.warning:
            if answer.warning not in account.warnings:
                self._say(f"warning: the server says: {answer.warning}")
            account.warnings[answer.warning] += 1

    def _smaller(self, pieces: list[Piece], answer: Answer) -> list[list[Piece]]:
        """Halves, the first one last (it is taken first); a single span is shortened until it is refused at its smallest."""
        if len(pieces) > 1:
            middle = len(pieces) // 2
            return [pieces[middle:], pieces[:middle]]
        piece = pieces[0]
        if len(piece.data) // 2 >= MIN_SPAN:
            shorter = shortened(piece, self._codec, len(piece.data) // 2)
            if len(shorter.data) < len(piece.data):
                self.account.shortened += not piece.shortened
                return [[shorter]]
        self.account.reject([piece.span_id], f"too large: {answer.text}")
        return []

    def fail(self, pieces: list[Piece], why: str) -> None:
        """``pieces`` are not delivered: into the account, and put away."""
        if not pieces:
            return
        self.account.fail([p.envelope.trace_id for p in pieces], len(pieces), why)
        if self._keep is not None:
            self.account.spooled += self._keep(pieces, why)


def shortened(piece: Piece, codec: Codec, size: int) -> Piece:
    """The piece with its largest values cut, so that it takes no more than ``size`` bytes where that can be had."""
    flat = codec.flat(piece.data)
    data = piece.data
    budget = size
    for _ in range(12):
        data = codec.span(shorten(flat, budget))
        if len(data) <= size or budget < 256:
            break
        budget = budget * 3 // 4 if len(data) < 2 * size else budget // 2
    return replace(piece, data=data, shortened=True)
