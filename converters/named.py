"""Objects by name, so that what is rarely needed is imported when it is."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(name: str) -> Any:
    """The object that ``module:attribute`` names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


__all__ = ["load"]
