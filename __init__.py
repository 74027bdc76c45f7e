"""spanport: records of AI-agent runs as spans, into any tracing backend and from any format to any other.

The names below are imported when they are used, since every command pays for what is imported here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .converters.api import detect, read, stream, write
    from .converters.artifacts import get_artifact, list_artifacts
    from .converters.convert import convert, losses
    from .converters.errors import ReadError, Report, SpanportError, UsageError
    from .converters.model import Attempt, ModelRequest, Phase, Run, Span, Task, ToolCall, Trace, TraceHeader
    from .converters.registry import formats
    from .converters.schema import json_schema
    from .exporters.api import export
    from .exporters.batch import Batch, Tally
    from .exporters.check import check
    from .exporters.converting import convert_all
    from .exporters.diff import diff
    from .exporters.options import Options
    from .exporters.page import view
    from .exporters.resend import resend
    from .exporters.stats import stats
    from .exporters.terminal import show
    from .exporters.voice import Voice

_HOMES = {
    "converters.api": ("detect", "read", "stream", "write"),
    "converters.artifacts": ("get_artifact", "list_artifacts"),
    "converters.convert": ("convert", "losses"),
    "converters.errors": ("ReadError", "Report", "SpanportError", "UsageError"),
    "converters.model": ("Attempt", "ModelRequest", "Phase", "Run", "Span", "Task", "ToolCall", "Trace", "TraceHeader"),
    "converters.registry": ("formats",),
    "converters.schema": ("json_schema",),
    "exporters.api": ("export",),
    "exporters.batch": ("Batch", "Tally"),
    "exporters.check": ("check",),
    "exporters.converting": ("convert_all",),
    "exporters.diff": ("diff",),
    "exporters.options": ("Options",),
    "exporters.page": ("view",),
    "exporters.resend": ("resend",),
    "exporters.stats": ("stats",),
    "exporters.terminal": ("show",),
    "exporters.voice": ("Voice",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Attempt",
    "Batch",
    "ModelRequest",
    "Options",
    "Phase",
    "ReadError",
    "Report",
    "Run",
    "Span",
    "SpanportError",
    "Tally",
    "Task",
    "ToolCall",
    "Trace",
    "TraceHeader",
    "UsageError",
    "Voice",
    "check",
    "convert",
    "convert_all",
    "detect",
    "diff",
    "export",
    "formats",
    "get_artifact",
    "json_schema",
    "list_artifacts",
    "losses",
    "read",
    "resend",
    "show",
    "stats",
    "stream",
    "view",
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
