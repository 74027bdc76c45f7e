"""The account of an export: every span that was read is accepted, rejected, failed or left out, and nothing is two of these."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

MAX_NAMED = 20
"""Spans, traces and reasons that are named in full; the rest is counted."""
_SUMS = (
    *("read", "accepted", "rejected", "failed", "spooled", "traces", "requests", "retries", "bytes", "sent_bytes"),
    *("shortened", "redacted", "cut", "scores", "scores_failed", "ambiguous"),
)
_COUNTERS = ("left_out", "changed", "reasons", "warnings")
_NAMED = ("rejected_spans", "failed_traces", "links")


@dataclass
class Account:
    """Counts are of spans. ``rejected``: the server said no to them; ``failed``: not delivered (``spooled`` of them are kept for
    `spanport resend`); ``left_out``: not sent on purpose, by reason (``not_selected``, ``delivered_before``, ``twice``). ``accepted`` is what the
    server said; ``stored`` what was read back (None: nobody asked)."""

    read: int = 0
    accepted: int = 0
    rejected: int = 0
    failed: int = 0
    spooled: int = 0
    stored: int | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    traces: int = 0
    requests: int = 0
    retries: int = 0
    bytes: int = 0
    sent_bytes: int = 0
    shortened: int = 0
    redacted: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    first: int | None = None
    last: int | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    rejected_spans: list[str] = field(default_factory=list)
    failed_traces: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    scores: int = 0
    scores_failed: int = 0
    ambiguous: int = 0
    unread: bool = False
    spool: str | None = None
    spool_error: str | None = None

    @property
    def balanced(self) -> bool:
        """read = accepted + rejected + failed + left out."""
        return self.read == self.accepted + self.rejected + self.failed + self.left_out.total()

    def reject(self, spans: list[str], reason: str, count: int | None = None) -> None:
        """``count`` spans (all of ``spans``) were refused. ``spans`` names those that are known."""
        self.rejected += len(spans) if count is None else count
        self.reasons[reason] += len(spans) if count is None else count
        self.rejected_spans.extend(spans[: max(0, MAX_NAMED - len(self.rejected_spans))])

    def fail(self, traces: list[str], count: int, reason: str) -> None:
        """``count`` spans of ``traces`` were not delivered."""
        self.failed += count
        self.reasons[reason] += count
        for trace in traces:
            if trace not in self.failed_traces and len(self.failed_traces) < MAX_NAMED:
                self.failed_traces.append(trace)

    def merge(self, other: Account) -> None:
        """Take over what another part of the same export (a thread, a process, a worker) counted. ``stored`` is left: who reads back does it for all."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _COUNTERS:
            getattr(self, name).update(getattr(other, name))
        for name in _NAMED:
            mine = getattr(self, name)
            mine.extend([x for x in getattr(other, name) if x not in mine][: max(0, MAX_NAMED - len(mine))])
        times = [t for t in (self.first, other.first) if t is not None]
        self.first = min(times, default=None)
        times = [t for t in (self.last, other.last) if t is not None]
        self.last = max(times, default=None)
        self.unread |= other.unread
        if self.spool and other.spool and self.spool != other.spool:
            self.spool = os.path.commonpath([self.spool, other.spool])
        else:
            self.spool = self.spool or other.spool
        self.spool_error = self.spool_error or other.spool_error

    def status(self) -> int:
        """0 nothing was rejected or failed; 3 a part was; 1 nothing arrived. A span that was accepted and could not be read back is not stored:
        3 (1 when none could)."""
        arrived = self.accepted if self.stored is None else self.stored
        bad = self.rejected + self.failed + (self.accepted - self.stored if self.stored is not None else 0)
        if not bad:
            return 3 if self.scores_failed or self.unread else 0
        return 3 if arrived or self.left_out["delivered_before"] else 1

    def as_dict(self, **more: Any) -> dict[str, Any]:
        """The object of ``--summary-json``. Keys stay stable."""
        found: dict[str, Any] = {
            "read": self.read,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "failed": self.failed,
            "left_out": dict(self.left_out),
            "spooled": self.spooled,
            "stored": self.stored,
            "traces": self.traces,
            "requests": self.requests,
            "retries": self.retries,
            "bytes": self.bytes,
            "sent_bytes": self.sent_bytes,
            "redacted": self.redacted,
            "changed_values": dict(self.changed),
            "cut_values": self.cut,
            "shortened_spans": self.shortened,
            "first_time_ns": self.first,
            "last_time_ns": self.last,
            "reasons": dict(self.reasons.most_common(MAX_NAMED)),
            "warnings": dict(self.warnings.most_common(MAX_NAMED)),
            "rejected_spans": self.rejected_spans,
            "failed_traces": self.failed_traces,
            "links": self.links,
            "scores": {"sent": self.scores, "failed": self.scores_failed},
            "maybe_delivered_twice": self.ambiguous,
            "interrupted_reading": self.unread,
            "spool": self.spool,
            "spool_error": self.spool_error,
        }
        found.update(more)
        return found
