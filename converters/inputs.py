"""What a user names, as inputs: files, folders, globs, URLs, standard input; and what a program holds. `items` reads one.

A folder that a format recognises is one run and is not looked into; any other folder stands for the runs in it, at any depth.
Files of such a folder that no format recognises are passed over, while a file that was named itself must be readable.
"""

from __future__ import annotations

import glob
import os
import posixpath
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from . import registry
from .api import items_of
from .errors import ReadError, Report, SpanportError, UsageError
from .model import Item, Trace, TraceHeader
from .source import Source, fetched, file_system, is_url, shown_url, source_of, until
from .stages.choose import ALL, Choice, choose

_NOT_RUNS = ("-wal", "-shm", "-journal")
"""Ends of names of files that belong to another file (SQLite)."""

_REMOTE_FILES = 200_000


class NotARun(SpanportError):
    """A file that was found in a folder and that no format recognises: passed over."""


@dataclass(frozen=True)
class Input:
    """One input. ``name``: a path, a URL, or ``-``. ``relative``: its place in the tree of everything that was named, for outputs.
    ``found``: it was found in a folder (``argument``) and not named itself. ``folder``: a URL of a whole folder that is one run.
    ``problem``: why it could not even be listed."""

    name: str
    relative: str
    argument: str = ""
    found: bool = False
    folder: bool = False
    problem: ReadError | None = None
    choice: Choice = ALL
    """Which of the runs in it."""
    share: registry.Share | None = None
    """Only this share of it (`ReadOptions.share`)."""
    whole: bool = False
    """Its output keeps its own ending too, since another input differs in nothing else."""
    held: Any = None
    """What a program holds, instead of a place: what `spanport.stream` takes, traces, or items."""

    def __str__(self) -> str:
        return "standard input" if self.name == "-" else shown_url(self.name) if is_url(self.name) else self.name

    def output(self, suffix: str) -> PurePosixPath:
        """Where its output goes in a folder: its own place with ``suffix`` (".otlp.jsonl") for its endings."""
        place = PurePosixPath(self.relative)
        if self.whole:
            return place.with_name(place.name + suffix)
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


class Arguments(tuple[str, ...]):
    """What the user named, and which of the runs in it."""

    choice: Choice = ALL


class Inputs:
    """The inputs that ``arguments`` stand for, found anew at each iteration, so that no list of them need be held."""

    def __init__(self, arguments: Sequence[str], from_: str | None = None) -> None:
        self.arguments, self.from_ = arguments, from_
        self.choice = getattr(arguments, "choice", ALL)
        self._output: str | None = None
        self._clashes: Callable[[Input], bool] = lambda one: False

    def into(self, folder: str, suffix: str) -> Inputs:
        """The same inputs for outputs in ``folder``: what lies there is no input, and no two outputs have one name (``run.json`` and ``run.jsonl`` keep
        their endings). UsageError where that can't be."""
        found = Inputs(self.arguments, self.from_)
        found._output = os.path.realpath(folder)
        for argument in self.arguments:
            if os.path.isdir(argument) and os.path.realpath(argument) == found._output and not self._one_run(source_of(argument)):
                raise UsageError(f"{folder} is a folder of inputs; the outputs need one of their own")
        names: dict[PurePosixPath, str] = {}
        clashes: set[PurePosixPath] = set()
        for one in found:
            place = one.output(suffix)
            if names.setdefault(place, one.name) != one.name:
                clashes.add(place)
        found._clashes = lambda one: one.output(suffix) in clashes
        names.clear()
        for one in found if clashes else ():
            if one.whole and names.setdefault(one.output(suffix), one.name) != one.name:
                raise UsageError(f"{names[one.output(suffix)]} and {one.name} would both be written to {folder}/{one.output(suffix)}")
        return found

    def __iter__(self) -> Iterator[Input]:
        for one in self._found():
            if self._clashes(one):
                one = replace(one, whole=True)
            yield replace(one, choice=self.choice) if self.choice else one

    def _found(self) -> Iterator[Input]:
        named = [(argument, name) for argument in self.arguments for name in _globbed(argument)]
        base = _base([name for _, name in named])
        for argument, name in named:
            try:
                yield from self._expanded(argument, name, base)
            except ReadError as error:  # said where it is opened, so that it fails like any other input
                yield Input(name, "input", argument, problem=error)

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
        return any(self.from_ in (None, f.name) for f, m in registry.candidates(registry.probe(source)) if m.certainty >= registry.ONE_RUN)

    def _walk(self, folder: str) -> Iterator[tuple[str, bool]]:
        """What lies in the folder at any depth, in the order of names, each with whether it is a folder that is one run. Not by recursion: folders may
        be deeper than calls."""
        open_ = [_entries(folder)]
        while open_:
            entry = next(open_[-1], None)
            if entry is None:
                open_.pop()
            elif entry.name.startswith(".") or (
                self._output is not None and entry.is_dir() and os.path.realpath(entry.path) == self._output
            ):
                continue
            elif entry.is_dir(follow_symlinks=False):
                try:
                    whole = self._one_run(source_of(entry.path))
                    if not whole:
                        open_.append(_entries(entry.path))
                except ReadError:  # it can't be listed: said when it is read
                    whole = True
                if whole:
                    yield entry.path, True
            elif entry.is_file() and not entry.name.endswith(_NOT_RUNS):
                yield entry.path, False

    def _remote(self, argument: str, url: str) -> Iterator[Input]:
        scheme = url.split("://", 1)[0].rpartition("::")[2]
        if scheme in ("http", "https"):  # a page is no folder
            yield Input(url, posixpath.basename(url.split("?", 1)[0].rstrip("/")) or "input", argument)
            return
        system, path = file_system(url)
        path = path.rstrip("/")

        def address(place: str) -> str:
            return url.replace(path, place) if "::" in url else str(system.unstrip_protocol(place))

        try:
            if any(c in path for c in "*?["):
                found = [f for f in sorted(system.glob(path)) if not system.isdir(f)]
                if not found:
                    raise ReadError("no file fits", input=shown_url(url))
                base = _base(found)
                for file in found:
                    yield Input(address(file), _relative(file, base) if base else posixpath.basename(file), argument)
            elif system.isdir(path):
                with tempfile.TemporaryDirectory(prefix="spanport-") as names:
                    yield from self._remote_folder(argument, path, _skeleton(system, path, names), address)
            else:
                yield Input(url, posixpath.basename(path), argument)
        except (SpanportError, GeneratorExit):
            raise
        except Exception as error:  # each file system raises its own
            said = str(error).split("\n", 1)[0]
            if said in ("", url):  # of HTTP, for whatever went wrong
                said = "not found, or the server can't be reached" if isinstance(error, FileNotFoundError) else type(error).__name__
            raise ReadError(said, input=shown_url(url)) from error

    def _remote_folder(self, argument: str, path: str, names: str, address: Callable[[str], str]) -> Iterator[Input]:
        if self._one_run(source_of(names)):
            yield Input(address(path), posixpath.basename(path), argument, folder=True)
            return
        for copy, whole in self._walk(names):
            relative = _relative(copy, names)
            yield Input(address(f"{path}/{relative}"), relative, argument, found=True, folder=whole)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        return iter(sorted(os.scandir(folder), key=lambda e: e.name))
    except OSError as error:
        raise ReadError(error.strerror or str(error), input=folder) from error


def _skeleton(system: Any, path: str, target: str) -> str:
    """The folder behind a URL as a folder of empty files, whose names tell what is a run; where it lies."""
    top = os.path.join(target, posixpath.basename(path) or "input")
    for n, file in enumerate(system.find(path)):
        if n >= _REMOTE_FILES:
            raise ReadError(f"more than {_REMOTE_FILES:,} files", input=path, hint="name a folder in it")
        parts = posixpath.relpath(file, path).split("/")
        if ".." in parts:
            continue
        place = os.path.join(top, *parts)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        open(place, "wb").close()
    os.makedirs(top, exist_ok=True)
    return top


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


def inputs_of(given: Any, format: str | None = None) -> Iterable[Input]:
    """What a caller gives, as inputs: a name or several (paths, folders, globs, URLs, ``-``); else what the program holds, as one."""
    if isinstance(given, Inputs):
        return given
    if isinstance(given, str | os.PathLike):
        given = [given]
    if isinstance(given, Arguments):
        return Inputs(given, format)
    if isinstance(given, list | tuple) and given and all(isinstance(one, str | os.PathLike) for one in given):
        return Inputs([os.fspath(one) for one in given], format)
    return [Input(getattr(given, "name", None) or "input", "input", held=given)]


def items(
    run: str | Input | Source, report: Report, format: str | None = None, options: registry.ReadOptions | None = None
) -> Iterator[Item]:
    """What a reader yields for ``run``: of the runs in it those that were chosen. NotARun for a file of a folder that is of no known format."""
    if isinstance(run, Input) and (held := ready(run)) is not None:
        return held
    return _read(run, report, format, options)


def _read(run: str | Input | Source, report: Report, format: str | None, options: registry.ReadOptions | None) -> Iterator[Item]:
    source = run if isinstance(run, Source) else open_input(run)
    report.input = source.name
    if options is not None and options.stop is not None and source.stream is not None:
        source.stream = until(source.stream, options.stop)
    if isinstance(run, Input) and run.found:
        recognised(run, source, format)
    chosen = registry.get(format) if format else registry.detect(source)
    if isinstance(run, Input) and run.share is not None:
        options = replace(options or registry.ReadOptions(), share=run.share)
    choice = run.choice if isinstance(run, Input) else Choice()
    if choice:
        options = replace(options or registry.ReadOptions(), run=choice.run, session=choice.session, since=choice.since, until=choice.until)
    read = chosen.read(source, report, options)
    yield from read if options is not None and options.follow else choose(read, choice)  # a followed run is not held back


def ready(one: Input) -> Iterator[Item] | None:
    """The items of traces or items that a program holds; None for what has to be read."""
    held = one.held
    if isinstance(held, Trace):
        return items_of([held])
    if isinstance(held, list | tuple) and held and isinstance(held[0], Trace | TraceHeader):
        return items_of(held)
    if isinstance(held, Iterator) and not hasattr(held, "read"):  # not a file, which is one of lines
        return items_of(held)
    return None


def recognised(one: Input, source: Source, format: str | None) -> list[tuple[registry.Format, registry.Match]]:
    """The formats that ``source`` fits, the likeliest first. NotARun when ``one`` was found in a folder and there are none."""
    fits = [(f, m) for f, m in registry.candidates(registry.probe(source)) if format in (None, f.name)]
    if one.found and not fits:
        raise NotARun(source.name)
    return fits


def open_input(given: str | Input) -> Source:
    """The source behind an input."""
    one = given if isinstance(given, Input) else Input(given, given)
    if one.problem is not None:
        raise one.problem
    if one.held is not None:
        return source_of(one.held)
    if one.name == "-":
        import sys

        return Source("standard input", stream=sys.stdin.buffer)
    if not one.folder:
        return source_of(one.name)
    if one.share is None:
        return fetched(one.name)
    with outline(one) as source:
        wanted = registry.detect(source).needs(source, one.share)
    return fetched(one.name, wanted)


@contextmanager
def outline(one: Input) -> Iterator[Source]:
    """A folder behind a URL as one of empty files: enough to tell what is in it."""
    system, path = file_system(one.name)
    with tempfile.TemporaryDirectory(prefix="spanport-") as names:
        try:
            yield source_of(_skeleton(system, path.rstrip("/"), names))
        except SpanportError:
            raise
        except Exception as error:  # each file system raises its own
            raise ReadError(str(error).split("\n", 1)[0] or type(error).__name__, input=shown_url(one.name)) from error


def shares(format: str | None, one: Input, most: int, least: int) -> list[registry.Share]:
    """The shares in which an input can be done (`Format.divide`); none where only runs of it were chosen, or it is one file behind a URL."""
    try:
        if one.held is not None:
            return []
        if one.folder and not one.choice:
            with outline(one) as source:
                return (registry.get(format) if format else registry.detect(source)).divide(source, most, least)
        if one.choice or is_url(one.name) or not (os.path.isfile(one.name) or os.path.isdir(one.name)):  # a pipe can be read once
            return []
        source = open_input(one)
        return (registry.get(format) if format else registry.detect(source)).divide(source, most, least)
    except (SpanportError, OSError):
        return []  # said when it is read


def divisible(one: Input) -> bool:
    """Whether an input is a folder or a large file."""
    try:
        return one.held is None and (os.path.isdir(one.name) or os.path.getsize(one.name) > registry.WORTH)
    except (OSError, ValueError):
        return False


def large(one: Input) -> bool:
    """Whether an input is a file that is worth several processes."""
    return divisible(one) and os.path.isfile(one.name)


def size(one: Input) -> int:
    """Bytes of an input; of a folder or URL, a guess that is enough to be worth a process."""
    try:
        return 1 << 20 if os.path.isdir(one.name) else os.path.getsize(one.name)
    except (OSError, ValueError):
        return 1 << 20


def absolute(name: str) -> str:
    """A path as another process has to be told it; a URL as it is."""
    return name if is_url(name) else os.path.abspath(name) + ("/" if name.endswith("/") else "")
