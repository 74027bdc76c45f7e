"""What the user names, as inputs: files, folders, globs, URLs, standard input.

A folder that a format recognises is one run and is not looked into; any other folder stands for the runs in it, at any depth.
Files of such a folder that no format recognises are passed over, while a file that was named itself must be readable.
"""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..converters import registry
from ..converters.errors import ReadError, SpanportError
from ..converters.source import Source, fetched, file_system, is_url, shown_url, source_of

_NOT_RUNS = ("-wal", "-shm", "-journal")
"""Ends of names of files that belong to another file (SQLite)."""


class NotARun(SpanportError):
    """A file that was found in a folder and that no format recognises: passed over."""


@dataclass(frozen=True)
class Input:
    """One input. ``name``: a path, a URL, or ``-``. ``relative``: its place in the tree of everything that was named, for outputs.
    ``found``: it was found in a folder (``argument``) and not named itself. ``folder``: a URL of a whole folder that is one run."""

    name: str
    relative: str
    argument: str = ""
    found: bool = False
    folder: bool = False

    def __str__(self) -> str:
        return "standard input" if self.name == "-" else shown_url(self.name) if is_url(self.name) else self.name

    def output(self, suffix: str) -> PurePosixPath:
        """Where its output goes in a folder: its own place with ``suffix`` (".otlp.jsonl") for its endings."""
        place = PurePosixPath(self.relative)
        stem = place.name
        for ending in (".gz", ".zst", ".zstd"):
            stem = stem.removesuffix(ending)
        for ending in sorted((f.suffix for f in registry.formats().values()), key=len, reverse=True):
            if stem.endswith(ending) and stem != ending:
                stem = stem.removesuffix(ending)
                break
        else:
            stem = PurePosixPath(stem).stem
        return place.with_name(stem + suffix)


class Inputs:
    """The inputs that ``arguments`` stand for, found anew at each iteration, so that no list of them need be held."""

    def __init__(self, arguments: Sequence[str], from_: str | None = None) -> None:
        self.arguments, self.from_ = arguments, from_

    def __iter__(self) -> Iterator[Input]:
        named = [(argument, name) for argument in self.arguments for name in _globbed(argument)]
        base = _base([name for _, name in named])
        for argument, name in named:
            yield from self._expanded(argument, name, base)

    def _expanded(self, argument: str, name: str, base: str | None) -> Iterator[Input]:
        if name == "-":
            yield Input("-", "stdin", argument)
        elif is_url(name):
            yield from self._remote(argument, name)
        elif os.path.isdir(name) and not self._one_run(source_of(name)):
            start = base if base is not None else name
            for path, _is_run in self._walk(name):
                yield Input(path, _relative(path, start), argument, found=True)
        else:
            yield Input(name, _relative(name, base if base is not None else os.path.dirname(name)), argument)

    def _one_run(self, source: Source) -> bool:
        """Whether a format takes the whole folder as one run."""
        return any(self.from_ in (None, f.name) for f, _ in registry.candidates(registry.probe(source)))

    def _walk(self, folder: str) -> Iterator[tuple[str, bool]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError as error:
            raise ReadError(error.strerror or str(error), input=folder) from error
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                try:
                    whole = self._one_run(source_of(entry.path))
                except ReadError:  # it can't be listed: said when it is read
                    whole = True
                if whole:
                    yield entry.path, True
                else:
                    yield from self._walk(entry.path)
            elif entry.is_file() and not entry.name.endswith(_NOT_RUNS):
                yield entry.path, False

    def _remote(self, argument: str, url: str) -> Iterator[Input]:
        scheme = url.split("://", 1)[0].rpartition("::")[2]
        if scheme in ("http", "https"):  # a page is no folder
            yield Input(url, posixpath.basename(url.split("?", 1)[0].rstrip("/")) or "input", argument)
            return
        system, path = file_system(url)
        try:
            yield from self._remote_in(system, path, url, argument)
        except (ReadError, GeneratorExit):
            raise
        except Exception as error:  # each file system raises its own
            raise ReadError(str(error).split("\n", 1)[0] or type(error).__name__, input=shown_url(url)) from error

    def _remote_in(self, system: object, path: str, url: str, argument: str) -> Iterator[Input]:
        list_, is_dir = system.ls, system.isdir  # type: ignore[attr-defined]

        def named(place: str) -> str:
            return str(system.unstrip_protocol(place)) if "::" not in url else url.replace(path, place)  # type: ignore[attr-defined]

        def walk(place: str, top: str) -> Iterator[Input]:
            entries = sorted(list_(place, detail=True), key=lambda e: str(e["name"]))
            names = frozenset(posixpath.basename(str(e["name"]).rstrip("/")) for e in entries)
            look = registry.Probe(named(place), "directory", entries=names)
            if any(self.from_ in (None, f.name) for f, _ in registry.candidates(look)):
                relative = posixpath.relpath(place, top) if place != top else posixpath.basename(place)
                yield Input(named(place), relative, argument, found=place != top, folder=True)
                return
            for entry in entries:
                name = str(entry["name"]).rstrip("/")
                if posixpath.basename(name).startswith(".") or name == place:
                    continue
                if entry["type"] == "directory":
                    yield from walk(name, top)
                elif not name.endswith(_NOT_RUNS):
                    yield Input(named(name), posixpath.relpath(name, top), argument, found=True)

        if any(c in path for c in "*?["):
            for found in sorted(system.glob(path)):  # type: ignore[attr-defined]
                if not is_dir(found):
                    yield Input(named(found), posixpath.basename(found), argument)
        elif is_dir(path):
            yield from walk(path.rstrip("/"), path.rstrip("/"))
        else:
            yield Input(url, posixpath.basename(path), argument)


def _globbed(argument: str) -> list[str]:
    """The paths that a glob fits, sorted; anything else as it is."""
    if argument == "-" or is_url(argument) or os.path.lexists(argument) or not glob.has_magic(argument):
        return [argument]
    return sorted(glob.glob(argument, recursive=True)) or [argument]


def _base(names: Sequence[str]) -> str | None:
    """The folder that all local names have in common, so that two files of one name in different folders stay apart in the output. None
    for a single folder, whose own tree it is."""
    local = [os.path.abspath(n) for n in names if n != "-" and not is_url(n)]
    if len(local) == 1:
        return None
    try:
        common = os.path.commonpath([os.path.dirname(n) for n in local]) if local else None
    except ValueError:  # different drives
        return None
    return common


def _relative(name: str, base: str) -> str:
    return PurePosixPath(Path(os.path.relpath(os.path.abspath(name), os.path.abspath(base)))).as_posix()


def open_input(given: str | Input) -> Source:
    """The source behind an input."""
    one = given if isinstance(given, Input) else Input(given, given)
    if one.name == "-":
        import sys

        return Source("standard input", stream=sys.stdin.buffer)
    return fetched(one.name) if one.folder else source_of(one.name)
