"""Where the files of a run lie: run directories in a tree, task directories in every layout there was, the files of an attempt.

Only fixed names of the layouts are opened, never a path that a record holds, and no symbolic link is followed. Temporaries (names that begin with a dot) are
passed over (fixture: write-failure has one that ends in ``.json``). This module reads no result and makes no spans.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final
from zlib import crc32

from msgspec import Raw

from .. import cutoff
from ..errors import ReadError, Report
from ..jsonio import fields, text
from ..model import ABSENT
from ..registry import Share, evenly
from ..source import Source
from .schema import absent, decode_object, items, kind, words

MARKS: Final = ("run_info.json", "progress.jsonl", "progress.json", "details")
STATES: Final = ("normal", "error", "fatal", "running")
"""Folders of ``details``, the final ones first: a task that is in two (while it moves) is read from its final one."""
MAX_DEPTH: Final = 12
_RESULT: Final = r"(trajectory(\[|\{(steps\[)?)|artifacts\{([^\[{]*(\[|\{messages\[))?)?"
_MAY: Final = re.compile(
    rf"\{{(attempts\{{([0-9]+\{{{_RESULT})?|evaluation\{{(run_result\{{{_RESULT})?|discarded_result\{{{_RESULT}|{_RESULT})"
)
"""What of a file that breaks off may be given in part: a result, its trajectory and the lists that hold its messages; never half a step or message."""
_ATTEMPT = re.compile(r"attempt-([0-9]{1,9})")
_RETRY = re.compile(r"(?P<task>.+)\.attempt(?P<attempt>[0-9]{1,9})\.retry(?P<retry>[0-9]{1,9})\.(?P<stage>[a-z_]+)\.json")


def subfolders(path: Path) -> list[Path]:
    """Folders in ``path`` by name, no links and nothing hidden; [] when there is no such folder."""
    try:
        with os.scandir(path) as found:
            return sorted(Path(e.path) for e in found if not e.name.startswith(".") and e.is_dir(follow_symlinks=False))
    except OSError:
        return []


def names(path: Path, suffix: str = ".json") -> list[Path]:
    """Files in ``path`` that end in ``suffix``, no links and nothing hidden."""
    try:
        with os.scandir(path) as found:
            return sorted(Path(e.path) for e in found if e.name.endswith(suffix) and e.name[0] != "." and e.is_file(follow_symlinks=False))
    except OSError:
        return []


def is_run(path: Path) -> bool:
    """A run directory has run_info.json, a progress file or details/."""
    return any((path / m).exists() for m in MARKS)


def is_details(path: Path) -> bool:
    """The ``details`` folder of a run, given by itself."""
    found = subfolders(path)
    return bool(found) and (all(p.name in STATES for p in found) or any((p / "task.json").is_file() for p in found))


def run_directories(root: Path, depth: int = 0) -> Iterator[Path]:
    """The run directories in a results tree, by name; a run directory is not looked into."""
    if is_run(root):
        yield root
    elif depth < MAX_DEPTH:
        for below in subfolders(root):
            yield from run_directories(below, depth + 1)


def shares(source: Source, most: int, least: int) -> list[Share]:
    """See `Format.divide`: a run by tasks, if its stream says that it is over (then its last span depends on no other); a tree of runs by runs."""
    root = source.path
    if root is None or not source.is_dir:
        return []
    if not is_run(root):
        runs = [] if is_details(root) else list(run_directories(root))
        enough = len(runs) > 1 and (least <= len(runs) or least <= sum(map(_tasks, runs)))
        return evenly(min(4 * most, len(runs))) if enough and most > 1 else []  # several for each process, since runs are not of one size
    stream = root / "progress.jsonl"
    try:
        if stream.is_symlink() or not stream.is_file():  # a pipe would be waited for
            return []
        with stream.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - (1 << 16)))
            if b'"run_finished"' not in file.read():
                return []
    except OSError:
        return []
    tasks = _tasks(root)
    return [] if tasks < least else evenly(min(most, tasks))


def part(source: Source, share: Share) -> Callable[[str], bool]:
    """See `Format.needs`: the runs of this share, and of the others what names them for links."""
    root = source.path
    runs = [] if root is None or is_run(root) else list(run_directories(root))
    others = tuple(f"{r.relative_to(root)}/" for n, r in enumerate(runs) if root is not None and not in_stretch(n, len(runs), share))

    def needed(name: str) -> bool:
        return not name.startswith(others) or name.rpartition("/")[2] in ("progress.jsonl", "run_info.json")

    return needed


def _tasks(root: Path) -> int:
    """How many tasks have results in a run directory."""
    details = root / "details"
    return sum(len(subfolders(p)) if p.name in STATES else 1 for p in subfolders(details)) + len(names(details))


def in_stretch(place: int, of: int, share: Share | None) -> bool:
    """Whether the run at this place of so many belongs to this share of a tree: neighbours do, so that the order stays."""
    return share is None or place * share[1] // of == share[0]


def in_share(task: str, share: Share | None) -> bool:
    """Whether a task belongs to this share. The last one gets five tasks for six of the others, since it builds the run as well."""
    if share is None:
        return True
    k, count = share[:2]
    return min(crc32(task.encode("utf-8", "surrogatepass")) % (6 * count - 1) // 6, count - 1) == k


@contextmanager
def within(report: Report, name: str) -> Iterator[None]:
    """Notices inside name this file of the input."""
    before = report.input
    report.input = f"{before}/{name}" if before else name
    try:
        yield
    finally:
        report.input = before


def load(path: Path, report: Report, root: Path | None = None) -> dict[str, Raw] | None:
    """The members of the JSON object in a file, of one that breaks off those that are whole; None when it is not there or not readable. What is lost is noted."""
    return load_part(path, report, root)[0]


def load_part(path: Path, report: Report, root: Path | None = None) -> tuple[dict[str, Raw] | None, str | None]:
    """`load`, and of a file that breaks off what was open in it (`cutoff.Part.open`)."""
    try:
        name = str(path.relative_to(root)) if root is not None else path.name
    except ValueError:
        name = path.name
    with within(report, name):
        try:
            if path.is_symlink() or not path.is_file():
                return None, None
            return cutoff.decode(Source(name, path=path).data(), decode_object, report, _MAY)
        except (ReadError, OSError) as error:
            message = error.message if isinstance(error, ReadError) else error.strerror or str(error)
            byte, place = (error.byte, error.path) if isinstance(error, ReadError) else (None, None)
            report.note("bad-file", message, "lost", byte=byte, path=place)
            return None, None


def _apart(path: Path, report: Report, root: Path) -> tuple[dict[str, Raw] | None, str | None, Report]:
    """`load_part` of a file that is loaded more than once, with what it has to say: that it breaks off is to be said once."""
    inner = Report(input=report.input, strict=report.strict)
    members, open_ = load_part(path, inner, root)
    if open_ is None:
        report.merge(inner)
        inner = Report()
    return members, open_, inner


@dataclass(slots=True)
class AttemptFiles:
    """What there is of one attempt. ``flat``: the result itself, where one file holds all attempts of a task; ``cut``: that file breaks off in it."""

    folder: Path | None = None
    retries: list[tuple[int, str, Path]] = field(default_factory=list)
    flat: Raw = field(default_factory=absent)
    cut: bool = False

    @property
    def result(self) -> Path | None:
        return self.folder / "result.json" if self.folder is not None else None

    @property
    def checkpoint(self) -> Path | None:
        return self.folder / "checkpoint.json" if self.folder is not None else None


@dataclass(slots=True)
class TaskFiles:
    """One task on disk: its folder (or its one file, in the flat layout) and the state it is filed under."""

    task: str
    path: Path
    state: str | None = None
    flat: bool = False
    old_retries: list[Path] = field(default_factory=list)
    open: str | None = None
    told: bool = False

    def members(self, report: Report, root: Path) -> dict[str, Raw]:
        """task.json, or the task's own fields of a flat file."""
        found, self.open, said = _apart(self.path if self.flat else self.path / "task.json", report, root)
        if not self.told:
            report.merge(said)
        self.told = self.told or self.open is not None
        return found or {}

    def attempts(self, members: dict[str, Raw]) -> dict[int, AttemptFiles]:
        """Attempts by number. Names in task.json count only as ``attempt-<n>``; what is on disk counts too."""
        found: dict[int, AttemptFiles] = {}
        if self.flat:
            for digits, raw in fields(members.get("attempts", ABSENT)).items():
                if digits.isascii() and digits.isdigit() and len(digits) < 10:
                    found[int(digits)] = AttemptFiles(flat=raw)
            if found and (self.open or "").startswith("{attempts{"):  # the last one is what breaks off
                found[list(found)[-1]].cut = True
            return dict(sorted(found.items()))
        for folder in subfolders(self.path):
            if (m := _ATTEMPT.fullmatch(folder.name)) is not None:
                found[int(m[1])] = AttemptFiles(folder)
        for path in self.old_retries:
            if (m := _RETRY.fullmatch(path.name)) is not None:
                found.setdefault(int(m["attempt"]), AttemptFiles()).retries.append((int(m["retry"]), m["stage"], path))
        for number, files in found.items():
            for path in names(files.folder / "retries") if files.folder is not None else []:
                if (m := _RETRY.fullmatch(path.name)) is not None and int(m["attempt"]) == number:
                    files.retries.append((int(m["retry"]), m["stage"], path))
            files.retries.sort()
        return dict(sorted(found.items()))


def _digest(task: str) -> str:
    return sha256(task.encode("utf-8", "surrogatepass")).hexdigest()


class Details:
    """The ``details`` of one run, in any layout: ``<state>/<task>/task.json``, ``<task>/task.json``, or one file a task."""

    def __init__(self, root: Path, report: Report) -> None:
        self.root, self.report = root, report
        self.known: dict[str, TaskFiles] = {}
        self._retries: list[Path] | None = None

    @property
    def folder(self) -> Path:
        """``details``, or the root itself when that is one; of a run that has just begun it may come later."""
        below = self.root / "details"
        return self.root if not below.is_dir() and is_details(self.root) else below

    def scan(self) -> dict[str, TaskFiles]:
        """All tasks, by id. The id is read from task.json, never from a name."""
        for state, folder in self._folders():
            self._add(state, folder)
        for path in names(self.folder):
            self._add_flat(path)
        return self.known

    def _folders(self) -> Iterator[tuple[str | None, Path]]:
        for state in STATES:
            for folder in subfolders(self.folder / state):
                yield state, folder
        for folder in subfolders(self.folder):
            if folder.name not in STATES and (folder / "task.json").is_file():
                yield None, folder

    def _add(self, state: str | None, folder: Path) -> None:
        members, _, said = _apart(folder / "task.json", self.report, self.root)
        task = words((members or {}).get("task_id", ABSENT))
        if task is None:
            self.report.merge(said)
            if members is not None or (folder / "task.json").exists() or subfolders(folder):
                with within(self.report, str(folder.relative_to(self.root))):
                    self.report.note("no-task-id", "a task folder whose task.json states no task_id is passed over", "lost")
            return
        if task not in self.known:
            self.known[task] = TaskFiles(
                task, folder, state, old_retries=[p for p in self._old_retries() if p.name.startswith(folder.name + ".")]
            )

    def _add_flat(self, path: Path) -> None:
        members, _, said = _apart(path, self.report, self.root)
        if members is None or kind(members.get("attempts", ABSENT)) != "object":
            self.report.merge(said)
            return
        task = words(members.get("task_id", ABSENT))
        if task is not None and task not in self.known:
            self.known[task] = TaskFiles(task, path, "error" if path.name.startswith("_error_") else None, flat=True)

    def _old_retries(self) -> list[Path]:
        """``retry_details/`` at the top of the run: where releases before 1.0 put retry files."""
        if self._retries is None:
            self._retries = names(self.root / "retry_details")
        return self._retries

    def find(self, task: str) -> TaskFiles | None:
        """One task of a run that is going on: folders move from ``running`` to their state, so a known place is looked at again."""
        known = self.known.get(task)
        if known is not None and (known.flat or known.path.is_dir()):
            return known
        self.known.pop(task, None)
        end = "--" + _digest(task)
        for state in ("running", *STATES[:3]):
            for folder in subfolders(self.folder / state):
                if folder.name.endswith(end):
                    found = self.known[task] = TaskFiles(task, folder, state)
                    return found
        return None

    def leftovers(self) -> list[str]:
        """Names of temporaries that a crash left behind."""
        try:
            return sorted(n for n in os.listdir(self.root) if n.startswith(".") and (".tmp" in n or n.endswith(".tmp")))
        except OSError:
            return []


__all__ = [
    "MARKS",
    "STATES",
    "AttemptFiles",
    "Details",
    "TaskFiles",
    "is_details",
    "is_run",
    "items",
    "load",
    "load_part",
    "run_directories",
    "text",
    "within",
]
