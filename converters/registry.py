"""Which formats exist, how one is recognised, and how one is added.

A format is a folder with a light ``__init__.py`` that holds one `Format`; its reader and writer are dotted names that are imported
when they are used. Somebody else's package adds one through the entry point group ``spanport.formats`` (each entry point
loads a `Format`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Protocol

from .errors import ReadError, Report, UsageError
from .model import Carry, Item
from .named import load
from .source import HEAD, Source

BUILTIN = ("runartifacts", "agno", "agentcompass", "atif", "chat", "otlp", "spanjson", "table")
"""Folders of `spanport.converters` that hold formats, in the order in which they are listed."""

Shape = Literal["directory", "object", "array", "lines", "sse", "sqlite", "empty", "binary", "other"]


ONE_RUN = 50
"""See `Match`."""


Share = tuple[int, ...]
"""(k, n, …): share k of n, counted from 0; what follows is the format's own."""
WORTH: Final = 20_000_000
"""Bytes of a stream from which several processes are quicker than one."""


def evenly(count: int) -> list[Share]:
    """``count`` shares that need to know nothing but that; none for one."""
    return [(k, count) for k in range(count)] if count > 1 else []


@dataclass(frozen=True)
class ReadOptions:
    """What a reader may be told. Times in ns. ``follow``: keep waiting for more (a growing file or directory) until the run in it ends;
    ``stop`` is asked now and then while it waits, and true ends it early: what is open is then given out, marked unfinished."""

    run: str | None = None
    session: str | None = None
    since: int | None = None
    until: int | None = None
    follow: bool = False
    stop: Callable[[], bool] | None = None
    media: bool = False
    trace_per: Literal["run", "task", "attempt"] = "run"
    share: Share | None = None
    """Only this share of an input that the format's ``shares`` divides. All shares together give each span once, with the ids that the whole has; what belongs
    to all of them (the run, what the stream has to tell) comes with the last one, a header with each that needs it."""
    artifact_store: str | None = None
    """A folder for payloads of artifacts of more than `stages.payloads.LARGE` bytes; spans then hold size, SHA-256 and reference."""


@dataclass(frozen=True)
class WriteOptions:
    """What a writer may be told. ``carry``: put what the target can't say into its open field."""

    carry: bool = True
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Probe:
    """What recognition may look at: the shape of the input, the names in a directory (and its ``path``, to look whether a fixed name lies one
    folder down), the head of a file, the top-level keys of its first JSON object (of the first element, if it is an array)."""

    name: str
    shape: Shape
    head: bytes = b""
    keys: frozenset[str] = frozenset()
    entries: frozenset[str] = frozenset()
    path: Path | None = None


@dataclass(frozen=True)
class Match:
    """How sure a format is (1 to 100) that an input is its own, and why, for `spanport formats` and for error messages. Of a directory, less
    than `ONE_RUN` says that it is no run itself but holds some: among other things, perhaps, so the command line looks into it."""

    certainty: int
    why: str


class Reader(Protocol):
    def __call__(self, source: Source, report: Report, options: ReadOptions) -> Iterator[Item]: ...


class Writer(Protocol):
    def __call__(self, items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions) -> None: ...


@dataclass(frozen=True)
class Format:
    """One format. ``detect`` gets a Probe and says how sure it is; ``reader`` and ``writer`` are ``module:function`` names, None when it can't.
    ``schema`` names the Struct that its JSON Schema is made from. ``suffix`` is what `convert -o FOLDER` names files with.
    ``lines``: JSON Lines, also when there is only one. ``open_field``: the object of the record (of the first line) that takes what is not the format's own, "" for
    the record itself; a carry is put there (`converters.carry`), and taken away again before the reader sees it. ``carrier``: ``module:object`` of a
    `converters.carry.Carrier`, for a format that has another place for carries, which its own reader and writer know. ``shares``: ``module:function`` that says in
    which shares an input can be read, each in a process of its own (`divide`)."""

    name: str
    title: str
    example: str
    recognised: str
    suffix: str = ".json"
    detect: Callable[[Probe], Match | None] | None = None
    reader: str | None = None
    writer: str | None = None
    schema: str | None = None
    folder: bool = False
    lines: bool = False
    open_field: str | None = None
    carrier: str | None = None
    shares: str | None = None
    part: str | None = None
    """``module:function`` that says which files of a folder a share needs: where the folder lies behind a URL, only those are copied."""
    no_schema: str | None = None
    """Why there is no ``schema``, and what to do."""

    def divide(self, source: Source, most: int, least: int) -> list[Share]:
        """The shares in which ``source`` is worth to be read (`ReadOptions.share`): none when it can't be divided. ``most``: processes that wait for work; ``least``:
        things of its own (tasks, sessions) below which it is not worth it; a stream of less than `WORTH` bytes never is. More than ``most`` where that
        bounds memory."""
        if self.shares is None:
            return []
        if self.lines and not source.is_dir:
            from .carry import unpacked

            if unpacked(source, self, []) is not source:
                return []  # all of it is told by the carry in the first line
        found: list[Share] = load(self.shares)(source, most, least)
        return found

    def needs(self, source: Source, share: Share) -> Callable[[str], bool]:
        """Which files of a folder, by their path in it, ``share`` needs. Of ``source`` only the names count."""
        if self.part is None:
            return lambda name: True
        found: Callable[[str], bool] = load(self.part)(source, share)
        return found

    def read(self, source: Source, report: Report, options: ReadOptions | None = None) -> Iterator[Item]:
        """Items of ``source``, their artifacts found; ReadError when it is not of this format at all."""
        if self.reader is None:
            raise UsageError(f"{self.name} can't be read")
        read: Reader = load(self.reader)
        from .stages.artifacts import find

        options = options or ReadOptions()
        carries: list[Carry] = []
        given = source
        if self.open_field is not None and not options.follow:
            from .carry import unpacked

            given = unpacked(source, self, carries)
        items = find(read(given, report, options))
        if given is not source or carries:
            from .carry import restored

            items = restored(items, carries)
        if options.artifact_store is not None:
            from .stages.payloads import spill

            items = spill(items, Path(options.artifact_store))
        return _told(items, source, report)

    def write(self, items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions | None = None) -> None:
        """Write ``items`` to the binary file ``out``."""
        if self.writer is None:
            raise UsageError(f"{self.name} can't be written")
        write: Writer = load(self.writer)
        write(items, out, report, options or WriteOptions())


def _told(items: Iterator[Item], source: Source, report: Report) -> Iterator[Item]:
    """The items of any reader, with what is the same for all of them said in the same way."""
    try:
        yield from items
    except RecursionError:
        raise ReadError("nested too deep", input=source.name) from None
    except OSError as error:
        raise ReadError(error.strerror or str(error), input=source.name) from error
    if source.damage is not None:
        report.note("damaged", f"{source.damage}; what came before it was read", "lost")


@lru_cache(maxsize=1)
def formats() -> dict[str, Format]:
    """All formats by name: ours first, then those of entry points (which can't take the name of one of ours)."""
    found: dict[str, Format] = {}
    for folder in BUILTIN:
        module = import_module(f"{__package__}.{folder}")
        for item in module.FORMATS:
            found[item.name] = item
    for entry in entry_points(group="spanport.formats"):
        item = entry.load()
        if isinstance(item, Format):
            found.setdefault(item.name, item)
    return found


def get(name: str) -> Format:
    """The format called ``name``; UsageError lists the names there are."""
    try:
        return formats()[name]
    except KeyError:
        raise UsageError(f"no format {name!r}; there are {', '.join(formats())}") from None


# A JSON string, as bytes; then the depth-1 keys can be told by a walk over the brackets between strings.
# A string that the end cuts off is matched to there (see `jsonio.repair`).
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRUCTURE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"(\s*:)?|\\?\Z)|[\[\]{}]', re.DOTALL)


def top_keys(head: bytes) -> frozenset[str]:
    """Keys of the first JSON object in ``head`` (at its top, or the first element of a top-level array), as far as ``head`` goes."""
    keys: set[str] = set()
    depth, wanted = 0, 1
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"["):
        wanted = 2
    elif not text.startswith(b"{"):
        return frozenset()
    for token in _STRUCTURE.finditer(text):
        mark = token.group()[:1]
        if mark == b'"':
            if depth == wanted and token.group(1) is not None:
                name = _STRING.match(token.group())
                assert name is not None
                keys.add(name.group()[1:-1].decode("utf-8", "replace"))
        elif mark in b"{[":
            depth += 1
        else:
            depth -= 1
            if depth < wanted and mark == b"}":
                break
    return frozenset(keys)


def probe(source: Source) -> Probe:
    """Look at the source, without consuming a stream."""
    if source.object is not None:
        first = source.object[0] if isinstance(source.object, list) and source.object else source.object
        keys = frozenset(map(str, first)) if isinstance(first, dict) else frozenset[str]()
        return Probe(source.name, "array" if isinstance(source.object, list) else "object", keys=keys)
    if source.is_dir:
        assert source.path is not None
        try:
            return Probe(source.name, "directory", entries=frozenset(os.listdir(source.path)), path=source.path)
        except OSError as error:
            raise ReadError(error.strerror or str(error), input=source.name) from error
    head = source.head(HEAD)
    return Probe(source.name, shape_of(head), head, top_keys(head))


def shape_of(head: bytes) -> Shape:
    """What the first bytes look like."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if not text:
        return "empty"
    if head.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if text.startswith(b"["):
        return "array"
    if text.startswith(b"{"):
        first, newline, rest = text.partition(b"\n")
        one_line = first.rstrip().endswith(b"}") and first.count(b'"') > 1
        return "lines" if newline and one_line and rest.lstrip()[:1] == b"{" else "object"
    if re.match(rb"(event|data|id|retry)\s*:|:", text):
        return "sse"
    if b"\0" in head[:4096] or (not head[:4096].decode("utf-8", "ignore").isprintable() and head[:64].count(b"\xff")):
        return "binary"
    return "other"


def candidates(look: Probe) -> list[tuple[Format, Match]]:
    """Formats that claim the probe, the surest first."""
    found = [(f, m) for f in formats().values() if f.detect is not None and (m := f.detect(look)) is not None]
    return sorted(found, key=lambda pair: -pair[1].certainty)


def detect(source: Source) -> Format:
    """The format of ``source`` by its content. ReadError says what it looks like when none fits, and which fit when two are equally sure."""
    look = probe(source)
    found = candidates(look)
    if not found and source.damage is not None:
        raise ReadError(f"{source.damage}; no format recognised in what came before", input=source.name)
    if not found:
        raise ReadError(
            f"no format recognised in {_describe(look)}", input=source.name, hint="name one with --from (spanport formats lists them)"
        )
    if len(found) > 1 and found[0][1].certainty == found[1][1].certainty:
        both = " and ".join(f"{f.name} ({m.why})" for f, m in found[:2])
        raise ReadError(f"two formats fit: {both}", input=source.name, hint="choose with --from")
    return found[0][0]


def _describe(look: Probe) -> str:
    if look.shape == "directory":
        names = sorted(look.entries)
        return f"a directory with {', '.join(names[:4]) or 'nothing in it'}{' …' if len(names) > 4 else ''}"
    if look.keys:
        keys = sorted(look.keys)
        return f"JSON with the keys {', '.join(keys[:6])}{' …' if len(keys) > 6 else ''}"
    words = {"empty": "an empty input", "binary": "binary data", "sqlite": "a SQLite file", "sse": "an event stream"}
    return words.get(look.shape, "this input")
