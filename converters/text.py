"""Strings that UTF-8 can hold."""

from __future__ import annotations


def safe_text(value: str) -> str:
    """``value`` with lone surrogates as U+FFFD; pairs of surrogates become the character they stand for."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
