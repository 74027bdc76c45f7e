"""How much of each record the model does not hold: the share of a record's bytes that the way ``A → model → A`` needs a patch for.

    python benchmarks/residue.py CORPUS [--format NAME] [--worst 10]

CORPUS is any folder with records. For every file that is one record of a format with a reader and a writer the record is read, written as its own
format, and compared; the bytes of the difference (`spanport.converters.patch`), uncompressed, are the residue. Content deltas that are kept as timed
chunks of their message are not in it. Prints a line a format: records, bytes, residue and its share; and the worst records.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from spanport.converters import carry, patch, registry
from spanport.converters.errors import Report, SpanportError
from spanport.converters.source import source_of


def records(folder: Path) -> Iterator[Path]:
    """Files that could be records, in order."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".json", ".jsonl", ".pb") and path.stat().st_size:
            yield path


def residue(path: Path) -> tuple[str, int, int] | None:
    """(format, bytes of the record, bytes of the residue); None for what is no record of a format that can be written."""
    source = source_of(path)
    try:
        found = registry.detect(source)
    except SpanportError:
        return None
    if found.writer is None or found.reader is None or found.name == "spanport":
        return None
    data = path.read_bytes()
    held = io.BytesIO()
    try:
        found.write(list(found.read(source, Report())), held, Report())
    except SpanportError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return None
    base, record = carry.load_as(found, held.getvalue()), carry.load_as(found, data)
    difference = patch.diff(base.value(), record.value())
    size = 0 if difference is None else len(json.dumps(difference, separators=(",", ":"), ensure_ascii=False).encode())
    if not patch.same(patch.apply(base.value(), difference), record.value()):
        raise AssertionError(f"{path}: the patch does not give the record")
    return found.name, len(data), size


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("corpus", type=Path)
    given.add_argument("--format")
    given.add_argument("--worst", type=int, default=5)
    options = given.parse_args()
    totals: dict[str, list[tuple[int, int, Path]]] = defaultdict(list)
    for path in records(options.corpus):
        try:
            found = residue(path)
        except (AssertionError, RecursionError) as error:
            print(f"{path}: {error!r}", file=sys.stderr)
            continue
        if found is not None and options.format in (None, found[0]):
            totals[found[0]].append((found[1], found[2], path))
    print(f"{'format':22} {'records':>7} {'bytes':>12} {'residue':>10} {'share':>7}")
    for name, rows in totals.items():
        size, off = sum(r[0] for r in rows), sum(r[1] for r in rows)
        print(f"{name:22} {len(rows):7,} {size:12,} {off:10,} {off / size:7.2%}")
        for n, left, path in sorted(rows, key=lambda r: -r[1])[: options.worst]:
            print(f"    {left:10,} of {n:12,} {left / n:7.2%}  {path.relative_to(options.corpus)}")


if __name__ == "__main__":
    main()
