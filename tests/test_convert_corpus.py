"""There and back over real records: ``A → A``, ``A → otlp-json → A``, ``A → otlp-proto → A``, and from format to format, are equal JSON; and nothing is kept twice.

Records are those below ``SPANPORT_CORPUS``, or the copies in ``fixtures/``. A sample is tried by default, all of them with ``-m corpus``.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from spanport.converters import carry, patch, registry
from spanport.converters.convert import convert
from spanport.converters.errors import Report, SpanportError, UsageError
from spanport.converters.registry import Format
from spanport.converters.source import source_of

HERE = Path(__file__).resolve().parent.parent
FOLDERS = [Path(os.environ["SPANPORT_CORPUS"])] if os.environ.get("SPANPORT_CORPUS") else [HERE / "fixtures"]
SAMPLE = 8
"""Records a format in the sample."""
OUTSIDE = {
    "runartifacts": ["agno", "atif"],
    "agno": ["runartifacts"],
    "agentcompass-progress": ["runartifacts"],
    "atif": ["runartifacts"],
}


@pytest.fixture(autouse=True)
def _all_on_request(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("corpus") is not None and "corpus" not in (request.config.option.markexpr or ""):
        pytest.skip("all records are tried with -m corpus")


@lru_cache(maxsize=1)
def records() -> list[tuple[str, Path]]:
    """(format, path) of every file that is one record of a format with a reader and a writer."""
    found = []
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in (".json", ".jsonl", ".pb", ".sse") or not path.is_file() or not path.stat().st_size:
                continue
            try:
                format = registry.detect(source_of(path))
            except SpanportError:
                continue
            if format.writer is not None and format.reader is not None and format.name != "spanport":
                found.append((format.name, path))
    return found


def sample() -> list[tuple[str, Path]]:
    """Small records first, then a spread over all."""
    taken = []
    for name in sorted({n for n, _ in records()}):
        own = [p for n, p in records() if n == name and p.stat().st_size < 120_000]
        step = max(1, len(own) // SAMPLE)
        taken += [(name, p) for p in own[::step][:SAMPLE]]
    return taken


def _id(value: Any) -> str:
    return "/".join(value.parts[-3:]) if isinstance(value, Path) else str(value)


both = pytest.mark.parametrize(
    ("name", "path"),
    [*[pytest.param(n, p, id=f"{n}-{_id(p)}") for n, p in sample()], pytest.param("all", None, marks=pytest.mark.corpus, id="all")],
)


def value_of(format: Format, data: bytes) -> dict[str, Any]:
    return carry.load_as(format, data).value()


def over(path: Path, name: str, via: str) -> tuple[bytes, Report]:
    """The record back from ``via``; a target of several files goes over a folder."""
    held, back, report = io.BytesIO(), io.BytesIO(), Report()
    with tempfile.TemporaryDirectory() as folder:
        between: Any
        try:
            convert(path, held, to=via)
            between = held.getvalue()
        except UsageError as error:
            if "folder" not in str(error):
                raise
            convert(path, io.BytesIO(), to=via, folder=Path(folder))
            between = Path(folder)
        if via == name:
            return between, report
        convert(between, back, to=name, from_=via, report=report)
    return back.getvalue(), report


@lru_cache(maxsize=4096)
def spans_in(name: str, path: Path) -> int:
    """How many spans are read; -1 for a file that can't be read at all (broken ones, a session without a run)."""
    try:
        return sum(1 for item in registry.get(name).read(source_of(path), Report()) if hasattr(item, "trace_id"))
    except SpanportError:
        return -1


def check(name: str, path: Path, via: str) -> str | None:
    format = registry.get(name)
    if spans_in(name, path) < 1 or carry.load_as(format, path.read_bytes()).form == "text":
        return None  # it can't be read, or is no JSON (an event stream of a server, a document that breaks off)
    try:
        got, report = over(path, name, via)
    except SpanportError as error:
        return f"{path} over {via}: {error}"
    if report.counts["carry-mismatch", "lost"]:
        return f"{path}: {report.notices}"
    if not patch.same(value_of(format, path.read_bytes()), value_of(format, got)):
        return f"{path} over {via} is another record"
    return None


@both
@pytest.mark.parametrize("via", ["itself", "otlp-json", "otlp-proto"])
def test_there_and_back(name: str, path: Path | None, via: str) -> None:
    chosen = [(name, path)] if path is not None else records()
    wrong = [why for n, p in chosen if (why := check(n, p, n if via == "itself" else via)) is not None]
    assert not wrong, "\n".join(wrong[:20])


@both
def test_from_format_to_format_and_back(name: str, path: Path | None) -> None:
    chosen = [(name, path)] if path is not None else records()
    wrong = []
    for n, p in chosen:
        for via in OUTSIDE.get(n, []):
            if registry.get(via).writer is None:
                pytest.skip(f"{via} has no writer")
            if (why := check(n, p, via)) is not None:
                wrong.append(why)
    assert not wrong, "\n".join(wrong[:20])


def minified(format: Format, data: bytes) -> int:
    record = carry.load_as(format, data)
    return len(carry.dump(record))


def size_over(name: str, path: Path, keep: bool) -> tuple[float, int]:
    format = registry.get(name)
    data = path.read_bytes()
    spans = spans_in(name, path)
    if spans < 0:
        return 0.0, 0
    held = io.BytesIO()
    convert(path, held, to="otlp-json", carry=keep)
    # The resource, which every trace has once, is counted as a span.
    bound = (2.5 if keep else 1.4) * minified(format, data) + 1000 * (spans + 1)
    return len(held.getvalue()) / bound, len(data)


@both
@pytest.mark.parametrize("keep", [False, True], ids=["generic", "carried"])
def test_nothing_is_kept_twice(name: str, path: Path | None, keep: bool) -> None:
    """In OTLP JSON: at most 1.4 times the minified source and 1 kB a span; with everything carried 2.5 times."""
    chosen = [(name, path)] if path is not None else records()
    wrong = [f"{p}: {share:.2f} of the bound" for n, p in chosen if (share := size_over(n, p, keep)[0]) > 1]
    assert not wrong, "\n".join(wrong[:20])


LIMITS = {"runartifacts": 0.05, "agentcompass-progress": 0.05, "agno": 0.15, "agno-events": 0.25}


@pytest.mark.parametrize("name", list(LIMITS))
def test_the_residue_stays_small(name: str) -> None:
    """The share of the bytes that the model does not hold, over the records of one format."""
    if registry.get(name).writer is None:
        pytest.skip(f"{name} has no writer")
    total = left = 0
    for n, path in records():
        if n != name or path.stat().st_size > 300_000 or path.suffix == ".sse" or spans_in(n, path) < 0:
            continue
        format, data = registry.get(n), path.read_bytes()
        record = carry.load(data, format.lines)
        if record.form == "text":
            continue
        held = io.BytesIO()
        format.write(list(format.read(source_of(path), Report())), held, Report())
        difference = patch.diff(carry.load(held.getvalue(), format.lines).value(), record.value())
        total += len(data)
        left += len(json.dumps(difference, separators=(",", ":"), ensure_ascii=False)) if difference is not None else 0
    assert total
    assert left / total < LIMITS[name]


def test_how_many_were_tried(record_property: Any) -> None:
    """Says how many records there are and how many of them the sample leaves out."""
    counts = Counter(n for n, _ in records())
    record_property("records", dict(counts))
    record_property("not in the sample", len(records()) - len(sample()))
    assert counts["runartifacts"] > 3
    assert counts["agentcompass-progress"] > 3
