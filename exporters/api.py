"""Sending as a library: `export` is what the command does, in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..converters.errors import Report, UsageError
from ..converters.inputs import inputs_of
from .batch import Tally, alone
from .exported import Exported
from .options import Options
from .otlp.sender import Stop
from .sending import to_backend
from .writing import to_files


def export(
    source: Any,
    endpoint: str | None = None,
    *,
    options: Options | None = None,
    tally: Tally | None = None,
    report: Report | None = None,
    stop: Stop | None = None,
    **more: Any,
) -> Exported:
    """Send ``source`` to ``endpoint``, or to where the environment says, or write it to ``output``.

    ``source``: a name or several (paths, folders, globs, URLs, ``-``), anything else that `spanport.stream` takes, traces, or items in memory (also an iterator of
    them). ``more``: fields of `Options` by their names (``profile="phoenix"``). The account says of every span whether it was accepted, rejected, failed or left out;
    its ``status()`` is what the command exits with. Nothing is kept of what fails unless ``spool`` names a folder.

    ``tally``: counts the inputs and goes on after one that can't be read; without one that raises ReadError, after what was read before was sent. ``report``
    takes over what readers have to say. ``stop`` ends it early (set it from another thread, or in a signal's handler). UsageError for options that can't be,
    or when there is no place to send to."""
    given = replace(options or Options(), **more)
    if endpoint is not None:
        given = replace(given, endpoint=endpoint)
    found = Exported(options=given, inputs=tally or alone(report), stop=stop if stop is not None else Stop())
    given.check(found.inputs.batch)
    inputs = inputs_of(source, given.format)
    if given.output is not None:
        to_files(inputs, given.output, found)
    elif (to := given.where()) is not None:
        to_backend(inputs, to, found)
    else:
        raise UsageError("no endpoint: give one (--endpoint), set OTEL_EXPORTER_OTLP_ENDPOINT, or name an output")
    return found


__all__ = ["Options", "export"]
