"""How far the times that spanport derives for Agno's records lie from the wall clock, case by case.

    python benchmarks/agno_time_error.py CORPUS

CORPUS holds ``agno/<case>/truth.json`` (clocks taken outside Agno) and the records of the same runs. Prints, per record, the error of the run's start and end
and the worst error of a tool's, in ms, and by how much the run says that it may be off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import spanport
from spanport.converters.errors import Report
from spanport.converters.model import Run, ToolCall

ENDS = (".run_output.json", ".run_output.with_events.json", ".events.jsonl")


class Error(NamedTuple):
    """Errors in seconds; None where there is nothing to compare. ``streamed`` and ``tools``: whether the run was, and how many of its tools were logged."""

    path: Path
    start: float | None
    end: float | None
    tool: float | None
    uncertainty: float
    streamed: bool
    tools: int


def measure(path: Path, run: dict[str, Any]) -> Error | None:
    """One record against the log of its run; None when there is no one root run in it."""
    traces = spanport.read(path, report=Report())
    roots = [s for t in traces for s in t.spans if isinstance(s, Run) and s.parent_id is None]
    if len(roots) != 1 or roots[0].start is None:
        return None
    root = roots[0]
    start = (root.start or 0) / 1e9 - run["t_start"]
    end = root.end / 1e9 - run["t_end"] if root.end is not None and run.get("t_end") else None
    worst: float | None = None
    logged = [t for t in run.get("tools", ()) if t.get("t_end")]
    calls = [
        s
        for t in traces
        for s in t.spans
        if isinstance(s, ToolCall) and s.outcome != "rejected" and s.start is not None and s.end is not None
    ]
    for name in {t["tool"] for t in logged}:
        for want, have in zip(
            sorted((t for t in logged if t["tool"] == name), key=lambda t: float(t["t_start"])),
            sorted((c for c in calls if c.name == name), key=lambda c: c.start or 0),
            strict=False,
        ):
            off = max(abs((have.start or 0) / 1e9 - want["t_start"]), abs((have.end or 0) / 1e9 - want["t_end"]))
            worst = off if worst is None else max(worst, off)
    return Error(path, start, end, worst, root.uncertainty / 1e9, "stream" in run["label"], len(logged))


def cases(corpus: Path) -> Iterator[Error]:
    """Every record under ``corpus`` that a truth.json tells of."""
    for truth in sorted((corpus / "agno").glob("*/truth.json")):
        for run in json.loads(truth.read_text())["runs"]:
            if "t_start" not in run or "continued" in run["label"]:
                continue
            for end in ENDS:
                path = truth.parent / (run["label"] + end)
                if path.exists() and (found := measure(path, run)) is not None:
                    yield found


def main() -> None:
    corpus = Path(sys.argv[1])
    print(f"{'record':70} {'start':>9} {'end':>9} {'tools':>9} {'± run':>9}   (ms)")
    for e in cases(corpus):
        cells = [f"{x * 1000:9.1f}" if x is not None else f"{'-':>9}" for x in (e.start, e.end, e.tool, e.uncertainty)]
        print(f"{e.path.relative_to(corpus / 'agno')!s:70} {' '.join(cells)}")


if __name__ == "__main__":
    main()
