"""Mutated fixtures for every reader: looks for crashes, hangs and memory that grows out of proportion.

    python benchmarks/fuzz.py --seconds 600 [--format agno] [--seed 1] [--keep FOLDER] [FILE…]

The time is for each format. Every mutant is read as its format and as what it is recognised as, and what could be read is written as OTLP and as spanport
lines, as every command would. Of a folder (a run directory) several files are changed at once: their content, or they are missing, empty, elsewhere, twice, a folder, a
link, a pipe; it is read whole and in shares. Allowed are SpanportErrors; anything else, more than 20 seconds, or more than 1 GiB more memory, is a finding: it is printed with
the file that shows it (kept in ``--keep``), and the exit status is 1.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from spanport.converters import registry
from spanport.converters.errors import ReadError, Report, SpanportError
from spanport.converters.registry import ReadOptions
from spanport.converters.source import Source, source_of

Tree = dict[str, bytes | str]
"""A folder: the content of each file by its path; of what is no file, what it is (`OTHER`, or where a link leads)."""

ROOT = Path(__file__).resolve().parent.parent
LIMIT_SECONDS, LIMIT_MEMORY = 20, 1 << 30
WRITTEN = ("otlp-json", "spanport")

OTHER = ("folder", "pipe")
LINKS = ("nowhere", ".", "..", "/etc/passwd", "/dev/zero")
ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, -1e-320, 2**63, -(2**63) - 1, 2**64, 10**400, "", "x", "\0", "\ud800", "é" * 70000, "NaN", [], {}, [[]], [None], {"": ""},
    "2026-11-30T20:06:08.123456+00:00", "2026-13-45T99:99:99", "0000-00-00", 253402300800, -62135596801, 1e300, "1e999", "../../etc/passwd", "http://127.0.0.1:1/",
    {"type": "text", "text": "x"}, {"role": "assistant", "content": None}, {"id": {}, "kind": []}, "{\"a\": ", "[" * 50000,
]  # fmt: skip


def size(path: Path) -> int:
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


def samples(given: list[Path], most: int = 12) -> dict[str, list[Path]]:
    """Format → its fixtures, files and folders, small ones first."""
    files, folders = dict[str, list[Path]](), dict[str, list[Path]]()
    every = given or [p for p in (ROOT / "fixtures").rglob("*") if p.is_dir() or p.suffix not in (".md", ".py")]
    for path in sorted((p for p in every if size(p) <= 500_000), key=size):
        try:
            found = registry.detect(source_of(path)).name
        except ReadError:
            continue
        (folders if path.is_dir() else files).setdefault(found, []).append(path)
    return {name: files.get(name, [])[:most] + folders.get(name, [])[:most] for name in {**files, **folders}}


def content(path: Path) -> bytes | Tree:
    if not path.is_dir():
        return path.read_bytes()
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


# ------------------------------------------------------------------------------------------------------------- mutants
def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    found, stack = [], [value]
    while stack:
        one = stack.pop()
        keys: Any = one.keys() if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            stack.append(one[key])
    return found


def change(value: Any, chance: random.Random) -> None:
    """One structural change of a JSON value, in place."""
    spots = places(value)
    if not spots:
        return
    box, key = chance.choice(spots)
    match chance.randrange(8):
        case 0:
            del box[key]
        case 1 | 2:
            box[key] = deepcopy(chance.choice(ODD_VALUES))
        case 3:  # something from elsewhere in the document
            other, name = chance.choice(spots)
            if (isinstance(other, dict) and name in other) or (isinstance(other, list) and name < len(other)):
                box[key] = json.loads(json.dumps(other[name]))
        case 4 if isinstance(box, list):
            box.insert(key, box[key])
        case 4 if isinstance(box, dict):
            box[chance.choice(["", "id", "type", "x" * 300, str(key) + "_"])] = box[key]
        case 5 if isinstance(box, list):
            chance.shuffle(box)
        case 6 if isinstance(box[key], int | float) and not isinstance(box[key], bool):
            box[key] = box[key] * chance.choice([-1, 0, 1000, 10**9, *([1e-9] if abs(box[key]) < 1e300 else [])])
        case 6 if isinstance(box[key], str):
            box[key] = chance.choice([box[key] * 50, box[key][: len(box[key]) // 2], box[key] + "\0", box[key].upper()])
        case 7:
            box[key] = [box[key]]
        case _:
            box[key] = None


def structural(data: bytes, chance: random.Random) -> bytes | None:
    """The document, or some of its lines, changed as JSON. None when it is none."""
    times = chance.choice([1, 1, 2, 5])
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        pass
    else:
        for _ in range(times):
            change(whole, chance)
        return json.dumps(whole).encode("utf-8", "surrogatepass")
    lines = data.split(b"\n")
    for _ in range(times):
        i = chance.randrange(len(lines))
        prefix, _, rest = lines[i].partition(b"data:") if lines[i].startswith(b"data:") else (b"", b"", lines[i])
        try:
            one = json.loads(rest)
        except (ValueError, RecursionError):
            continue
        change(one, chance)
        lines[i] = (b"data: " if lines[i].startswith(b"data:") else prefix) + json.dumps(one).encode("utf-8", "surrogatepass")
    match chance.randrange(6):
        case 0:
            chance.shuffle(lines)
        case 1:
            del lines[chance.randrange(len(lines))]
        case 2:
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return b"\n".join(lines)


def bytewise(data: bytes, chance: random.Random) -> bytes:
    """Bytes changed, cut, doubled, moved."""
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8, 50])):
        if not out:
            break
        at = chance.randrange(len(out))
        match chance.randrange(6):
            case 0:
                out[at] = chance.randrange(256)
            case 1:
                del out[at : at + chance.choice([1, 10, 1000])]
            case 2:
                out[at:at] = out[at : at + chance.choice([1, 10, 1000])]
            case 3:
                out[at:at] = chance.choice(
                    [b"\0", b"\xff", b"\n", b"{", b"[", b'"', b"\\", b"NaN", b"\xef\xbb\xbf", b"[" * 100_000, b'{"a":' * 50_000]
                )
            case 4:
                out = out[:at]
            case 5:
                out[at : at + 4] = chance.randrange(1 << 32).to_bytes(4, "little")
    return bytes(out)


def mutant(data: bytes, chance: random.Random) -> bytes:
    changed = structural(data, chance) if chance.random() < 0.6 else None
    return bytewise(data, chance) if changed is None else changed


def damaged(tree: Tree, chance: random.Random) -> Tree:
    """A folder with some of its files changed."""
    out = dict(tree)
    for _ in range(chance.choice([1, 1, 2, 4, 10])):
        if not out:
            break
        name, other = chance.choice(list(out)), chance.choice(list(out))
        held = out[name]
        match chance.randrange(13):
            case 0:
                del out[name]
            case 1:
                out[name] = chance.choice(OTHER)
            case 2:
                out[name] = chance.choice([*LINKS, os.path.relpath(other, os.path.dirname(name))])
            case 3:
                out[name] = chance.choice([b"", b"\n", b"null", b"[]", b"{}", b"\0" * 100])
            case 4:
                out[name], out[other] = out[other], held
            case 5:  # elsewhere
                out[os.path.join(os.path.dirname(other), os.path.basename(name))] = out.pop(name)
            case 6:  # twice, under a name like another
                out[chance.choice([name + "~", "." + name, name.replace("1", "2"), name.replace("normal", "error"), other + ".json"])] = (
                    held
                )
            case 7:
                for below in [n for n in out if n.startswith(os.path.dirname(name))]:
                    del out[below]
            case _ if isinstance(held, bytes):
                out[name] = mutant(held, chance)
    return out


def laid(tree: Tree, folder: Path) -> None:
    """The folder on disk. What can't stand beside something else (a file where a folder is) is left out."""
    for name, held in tree.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(held, bytes):
                path.write_bytes(held)
            elif held == "folder":
                (path / "inside").mkdir(parents=True)
            elif held == "pipe":
                os.mkfifo(path)
            else:
                path.symlink_to(held)
        except OSError:
            continue


def mutants(paths: list[Path], chance: random.Random) -> Iterator[bytes | Tree]:
    """Without end."""
    held = [content(p) for p in paths]
    while True:
        data = chance.choice(held)
        yield mutant(data, chance) if isinstance(data, bytes) else damaged(data, chance)


# -------------------------------------------------------------------------------------------------------------- trials
class Hang(BaseException):
    """Too slow."""


def alarm(number: int, frame: object) -> None:
    raise Hang


def trial(data: bytes | Tree, format: str | None) -> None:
    """Read, and write what was read."""
    if isinstance(data, bytes):
        read(Source("mutant", content=data), format)
        return
    with tempfile.TemporaryDirectory(prefix="spanport-fuzz-") as folder:
        laid(data, Path(folder))
        read(Source("mutant", path=Path(folder)), format)


def read(source: Source, format: str | None) -> None:
    report = Report(input="mutant")
    try:
        chosen = registry.get(format) if format else registry.detect(source)
        for options in [None, *(ReadOptions(share=share) for share in (chosen.divide(source, 2, 1) if source.is_dir else ()))]:
            items = list(chosen.read(source, report, options))
            for target in WRITTEN:
                registry.get(target).write(iter(items), io.BytesIO(), Report(input="mutant"))
    except SpanportError as error:
        if "\n" in str(error):
            raise ValueError("a message of several lines") from error


def tried(data: bytes | Tree, format: str | None, run: Callable[[bytes | Tree, str | None], None] = trial) -> str | None:
    """What is wrong with it, or None."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS)
    try:
        run(data, format)
    except Hang:
        return f"more than {LIMIT_SECONDS} s\n{traceback.format_exc()}"
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    length = len(data) if isinstance(data, bytes) else sum(len(x) for x in data.values())
    return f"{grown >> 20} MiB more memory for {length:,} bytes" if grown > LIMIT_MEMORY else None


def place(wrong: str) -> str:
    """Where it went wrong, so that each place is told once."""
    lines = wrong.strip().splitlines()
    frames = [line for line in lines if line.startswith("  File ")]
    return f"{lines[-1].partition(':')[0]} {frames[-1]}" if frames else re.sub(r"[0-9,]+", "N", lines[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60, help="for each format")
    parser.add_argument("--format", action="append", help="only this one (may be repeated)")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="where files that show something are kept")
    parser.add_argument("files", nargs="*", type=Path, help="instead of the fixtures")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, alarm)
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    findings = 0
    for format, paths in samples(given.files).items():
        if given.format and format not in given.format:
            continue
        chance = random.Random(f"{seed}{format}")
        end, n, seen = time.monotonic() + given.seconds, 0, set()
        for data in mutants(paths, chance):
            for way in (format, None):
                if (wrong := tried(data, way)) is not None and (key := place(wrong)) not in seen:
                    seen.add(key)
                    given.keep.mkdir(parents=True, exist_ok=True)
                    kept = given.keep / f"{format}-{seed}-{n}"
                    if isinstance(data, bytes):
                        kept.write_bytes(data)
                    else:
                        laid(data, kept)
                    print(f"{format}: {kept}\n{wrong}", flush=True)
            n += 1
            if time.monotonic() > end:
                break
        findings += len(seen)
        print(f"{format}: {n:,} mutants of {len(paths)} files, {len(seen)} findings", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
