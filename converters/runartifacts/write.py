"""Write RunArtifacts: one record into a file, or several attempts below a folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from ..errors import Report, UsageError
from ..model import Item
from ..registry import WriteOptions
from ..units import traces, units
from .record import dump
from .rollouts import write_folder


def write(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions) -> None:
    """Write one record to ``out``, or, with the folder in ``options.extra["folder"]``, each attempt into its own folder."""
    folder = options.extra.get("folder")
    if folder is not None:
        write_folder(items, folder, report, options)
        return
    found = [u for header, spans in traces(items) for u in units(header, spans)]
    if not found:
        report.note("nothing", "no run in it", "lost")
        return
    if len(found) > 1:
        raise UsageError(f"{len(found)} runs or attempts, and a RunArtifacts file holds one: give a folder to write to")
    dump(found[0], out, report, options)
