"""Where things lie in SimLab's output folders, by fixed names. Only names are looked at here, no content; links to folders are not followed.

A folder with ``artifacts.json`` or ``agent/trajectory.json`` is a rollout, one with ``summary.json`` or ``rollout_<i>`` a set of them, one with
``run.toml`` and ``baseline`` or ``iterations`` an autoresearch run; any other is looked through for these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..clock import from_iso

MAX_DEPTH: Final = 8
_STAMP = re.compile(r"(?:agent|parallel)_run_(.*)_(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)\Z", re.DOTALL)
_ROLLOUT = re.compile(r"rollout_(\d{1,9})\Z")
_ITERATION = re.compile(r"iter_(\d{1,9})\Z")
_KNOWN = re.compile(r"(?:agent_run|parallel_run|autoresearch_run)_|rollout_\d|iter_\d|iterations\Z|baseline\Z")
_DIGITS = re.compile(r"(\d+)")
PASSED_OVER: Final = ("best", "harbor_runs")


@dataclass
class Group:
    """Folders of rollouts that are one run. ``kind``: ``single``, ``set`` or ``iteration``; ``rollouts``: (number, folder), ``folder`` the one they lie in;
    ``label`` and ``number`` of an iteration, ``home`` the autoresearch folder."""

    kind: str
    folder: Path
    rollouts: list[tuple[int, Path]] = field(default_factory=list)
    sets: list[Path] = field(default_factory=list)
    label: str | None = None
    number: int | None = None
    home: Path | None = None
    last: bool = False


def stamp_of(name: str) -> tuple[str | None, int | None]:
    """(task id, time in ns) that a folder's name states; the last two parts are the stamp, since task ids may hold underscores."""
    found = _STAMP.match(name)
    if found is None:
        return None, None
    task, *digits = found.groups()
    year, month, day, hour, minute, second = digits
    try:
        return task, from_iso(f"{year}-{month}-{day}T{hour}:{minute}:{second}+00:00")
    except ValueError:
        return task, None


def natural(path: Path) -> list[tuple[int, str]]:
    """A key that puts rollout_10 after rollout_9."""
    return [(int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in _DIGITS.split(path.name)]


def folders(path: Path) -> list[Path]:
    """The folders in ``path`` in natural order, without hidden ones, those that begin with an underscore, and those that hold no runs."""
    try:
        with os.scandir(path) as entries:
            found = [
                Path(e.path) for e in entries if e.is_dir(follow_symlinks=False) and e.name[:1] not in "._" and e.name not in PASSED_OVER
            ]
    except OSError:
        return []
    return sorted(found, key=natural)


def is_rollout(path: Path) -> bool:
    """Whether ``path`` holds one rollout's record."""
    return (path / "artifacts.json").is_file() or (path / "agent" / "trajectory.json").is_file()


def _numbered(path: Path) -> list[tuple[int, Path]]:
    return [(int(m[1]), p) for p in folders(path) if (m := _ROLLOUT.match(p.name))]


def is_set(path: Path) -> bool:
    """Whether ``path`` holds a set of rollouts."""
    return ((path / "summary.json").is_file() and (path.name.startswith("parallel_run_") or bool(_numbered(path)))) or bool(_numbered(path))


def is_research(path: Path) -> bool:
    """Whether ``path`` is an autoresearch run."""
    inside = (path / "baseline").is_dir() or (path / "iterations").is_dir()
    return inside and (path.name.startswith("autoresearch_run_") or (path / "run.toml").is_file())


def groups(path: Path, depth: int = 0) -> Iterator[Group]:
    """All runs in ``path``, in natural order."""
    if is_research(path):
        yield from _research(path)
    elif is_rollout(path):
        number = int(m[1]) if (m := _ROLLOUT.match(path.name)) else 0
        yield Group("single", path, [(number, path)])
    elif is_set(path):
        yield Group("set", path, _numbered(path), [path])
    elif depth < MAX_DEPTH:
        for child in folders(path):
            yield from groups(child, depth + 1)


def _research(path: Path) -> Iterator[Group]:
    steps = [(0, path / "baseline")] if (path / "baseline").is_dir() else []
    steps += [(int(m[1]), p) for p in folders(path / "iterations") if (m := _ITERATION.match(p.name))]
    for place, (number, folder) in enumerate(steps):
        group = Group("iteration", folder, label=folder.name, number=number, home=path, last=place == len(steps) - 1)
        for found in groups(folder / "output", 1):
            group.rollouts.extend((0, p) for _, p in found.rollouts)
            group.sets.extend(found.sets)
        if len(group.rollouts) > 1 or group.sets:
            group.rollouts = [(i, p) for i, (_, p) in enumerate(group.rollouts)]
        yield group


def recognise(path: Path, entries: frozenset[str]) -> str | None:
    """Why ``path`` is a folder of SimLab's, or None. Looks four folders down at most, and at no more than 400 folders."""
    if is_rollout(path):
        return "holds artifacts.json or agent/trajectory.json"
    budget = [400]

    def search(folder: Path, depth: int) -> str | None:
        for child in folders(folder):
            budget[0] -= 1
            if budget[0] < 0:
                return None
            if _KNOWN.match(child.name) and (is_rollout(child) or is_set(child) or is_research(child)):
                return f"holds {child.name}"
            if is_rollout(child):
                return f"holds {child.name} with a rollout's record"
            if depth < 4 and (found := search(child, depth + 1)) is not None:
                return found
        return None

    if is_research(path):
        return "holds run.toml with baseline or iterations"
    return search(path, 1)


def is_sole(path: Path) -> bool:
    """Whether ``path`` holds one run (a rollout, a set, an autoresearch run, maybe some folders down) and no other visible file: then it is
    that run. A folder of several is looked into instead, so that they can be read side by side."""
    for _ in range(MAX_DEPTH):
        if is_rollout(path) or is_set(path) or is_research(path):
            return True
        try:
            with os.scandir(path) as entries:
                if any(e.is_file() and e.name[:1] not in "._" for e in entries):
                    return False
        except OSError:
            return False
        below = folders(path)
        if len(below) != 1:
            return False
        path = below[0]
    return False
