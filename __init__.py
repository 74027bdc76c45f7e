"""spanport: records of AI-agent runs as spans, into any tracing backend and from any format to any other.

The names below are imported when they are used, since every command pays for what is imported here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .converters.api import detect, read, stream, write
    from .converters.artifacts import get_artifact, list_artifacts
    from .converters.convert import convert, losses
    from .converters.errors import ReadError, Report, SpanportError
    from .converters.model import Attempt, ModelRequest, Phase, Run, Span, Task, ToolCall, Trace, TraceHeader
    from .exporters.api import export

_HOMES = {
    "converters.artifacts": ("get_artifact", "list_artifacts"),
    "converters.api": ("detect", "read", "stream", "write"),
    "converters.convert": ("convert", "losses"),
    "converters.errors": ("ReadError", "Report", "SpanportError"),
    "converters.model": ("Attempt", "ModelRequest", "Phase", "Run", "Span", "Task", "ToolCall", "Trace", "TraceHeader"),
    "exporters.api": ("export",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Attempt",
    "ModelRequest",
    "Phase",
    "ReadError",
    "Report",
    "Run",
    "Span",
    "SpanportError",
    "Task",
    "ToolCall",
    "Trace",
    "TraceHeader",
    "convert",
    "detect",
    "export",
    "get_artifact",
    "list_artifacts",
    "losses",
    "read",
    "stream",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("spanport")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
