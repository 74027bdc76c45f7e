"""Trace and span ids, derived from what the source says (DESIGN §2), so that reading the same run twice, or a longer
copy of it, gives the same ids to the same spans.

``trace_id = blake2b(family, run key)``, ``span_id = blake2b(trace id, path of stable source keys)``, parts joined with
NUL, never zero. The family is the producer, never the format name. Paths use native ids and the attempt (call ids repeat over
attempts), and an ordinal only where the source has no id.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

_HEX: Final = "0123456789abcdefABCDEF"
_ZERO: Final = "0" * 16


def _digest(size: int, parts: tuple[str, ...]) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    found = blake2b(data, digest_size=size).hexdigest()
    while not found.strip("0"):  # an all-zero id is invalid in OTLP
        data += b"\0"
        found = blake2b(data, digest_size=size).hexdigest()
    return found


def trace_id(family: str, *run_key: str) -> str:
    """32 hex digits for the run that ``run_key`` names within the producer ``family``."""
    return _digest(16, (family, *run_key))


def span_id(trace: str, *path: str) -> str:
    """16 hex digits for the span at ``path`` (stable source keys from the run down) of the trace with id ``trace``."""
    parts = (trace, *path)
    found = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return found if found.strip("0") else _digest(8, parts)


def is_id(text: str, length: int) -> bool:
    """Whether ``text`` is the id of a trace (``length`` 32) or of a span (16): hex digits, not all of them zero."""
    return len(text) == length and not text.strip(_HEX) and text.strip("0") != ""


class Below:
    """Span ids of one trace whose paths begin alike: what they have in common is digested once."""

    def __init__(self, trace: str, *path: str) -> None:
        self._path = (trace, *path)
        self._common = blake2b("\0".join(self._path).encode("utf-8", "surrogatepass") + b"\0", digest_size=8)

    def span_id(self, *path: str) -> str:
        """The id of the span at ``path`` below what these have in common."""
        digest = self._common.copy()
        digest.update("\0".join(path).encode("utf-8", "surrogatepass"))
        found = digest.hexdigest()
        return found if found != _ZERO else _digest(8, (*self._path, *path))


def salted(native: str, salt: str) -> str:
    """Another id of the same length, for a second copy on purpose (``--id-salt``)."""
    return _digest(len(native) // 2, ("salt", salt, native))
