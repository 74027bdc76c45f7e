"""Mutated fixtures for every reader: looks for crashes, hangs and memory that grows out of proportion.

    python benchmarks/fuzz.py --seconds 600 [--format agno] [--seed 1] [--keep FOLDER] [FILE…]

The time is for each format. Every mutant is read as its format and as what it is recognised as, and what could be read is written as OTLP and as spanport
lines, as every command would. Allowed are SpanportErrors; anything else, more than 20 seconds, or more than 1 GiB more memory, is a finding: it is printed with
the file that shows it (kept in ``--keep``), and the exit status is 1.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spanport.converters import registry
from spanport.converters.errors import ReadError, Report, SpanportError
from spanport.converters.source import Source, source_of

ROOT = Path(__file__).resolve().parent.parent
LIMIT_SECONDS, LIMIT_MEMORY = 20, 1 << 30
WRITTEN = ("otlp-json", "spanport")

ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, -1e-320, 2**63, -(2**63) - 1, 2**64, 10**400, "", "x", "\0", "\ud800", "é" * 70000, "NaN", [], {}, [[]], [None], {"": ""},
    "2026-11-30T20:06:08.123456+00:00", "2026-13-45T99:99:99", "0000-00-00", 253402300800, -62135596801, 1e300, "1e999", "../../etc/passwd", "http://127.0.0.1:1/",
    {"type": "text", "text": "x"}, {"role": "assistant", "content": None}, {"id": {}, "kind": []}, "{\"a\": ", "[" * 50000,
]  # fmt: skip


def samples(files: list[Path], most: int = 12) -> dict[str, list[Path]]:
    """Format → its fixtures, small ones first."""
    found: dict[str, list[Path]] = {}
    given = files or [p for p in (ROOT / "fixtures").rglob("*") if p.is_file() and p.suffix not in (".md", ".py")]
    for path in sorted(given, key=lambda p: p.stat().st_size):
        if path.stat().st_size > 500_000:
            continue
        try:
            found.setdefault(registry.detect(source_of(path)).name, []).append(path)
        except ReadError:
            continue
    return {name: paths[:most] for name, paths in found.items()}


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
            box[key] = chance.choice(ODD_VALUES)
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
            box[key] = box[key] * chance.choice([-1, 0, 1000, 10**9, 1e-9])
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


def mutants(paths: list[Path], chance: random.Random) -> Iterator[bytes]:
    """Without end."""
    held = [p.read_bytes() for p in paths]
    while True:
        data = chance.choice(held)
        changed = structural(data, chance) if chance.random() < 0.6 else None
        yield bytewise(data, chance) if changed is None else changed


# -------------------------------------------------------------------------------------------------------------- trials
class Hang(BaseException):
    """Too slow."""


def alarm(number: int, frame: object) -> None:
    raise Hang


def trial(data: bytes, format: str | None) -> None:
    """Read, and write what was read."""
    report = Report(input="mutant")
    source = Source("mutant", content=data)
    try:
        chosen = registry.get(format) if format else registry.detect(source)
        items = list(chosen.read(source, report))
    except SpanportError as error:
        if "\n" in str(error):
            raise ValueError("a message of several lines") from error
        return
    for target in WRITTEN:
        registry.get(target).write(iter(items), io.BytesIO(), Report(input="mutant"))


def tried(data: bytes, format: str | None, run: Callable[[bytes, str | None], None] = trial) -> str | None:
    """What is wrong with it, or None."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS)
    try:
        run(data, format)
    except Hang:
        return f"more than {LIMIT_SECONDS} s"
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return f"{grown >> 20} MiB more memory for {len(data):,} bytes" if grown > LIMIT_MEMORY else None


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
                    kept.write_bytes(data)
                    print(f"{format}: {kept}\n{wrong}", flush=True)
            n += 1
            if time.monotonic() > end:
                break
        findings += len(seen)
        print(f"{format}: {n:,} mutants of {len(paths)} files, {len(seen)} findings", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
