"""Strings that UTF-8 can hold, and that a terminal can show."""

from __future__ import annotations


def safe_text(value: str) -> str:
    """``value`` with lone surrogates as U+FFFD; pairs of surrogates become the character they stand for."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def printable(value: str) -> str:
    """One line without control characters: these are shown escaped."""
    return value if value.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def volume(count: int) -> str:
    """Bytes for people."""
    return f"{count:,} B" if count < 10_000 else f"{count / 1000:,.1f} kB" if count < 10_000_000 else f"{count / 1e6:,.1f} MB"
