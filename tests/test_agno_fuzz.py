"""Agno's files spoilt in every way: lines lost, doubled, mixed, cut, values of other types. Whatever is read, ids are unique, parents exist, and nothing crashes."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import spanport
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spanport.converters.errors import ReadError, Report

AGNO = Path(__file__).parent.parent / "fixtures" / "agno" / "corpus" / "agno"
STREAMS = sorted(p for p in AGNO.rglob("*.events.jsonl") if p.stat().st_size < 20_000)
RECORDS = sorted(p for p in AGNO.rglob("*.run_output*.json") if p.stat().st_size < 20_000)
ODD: tuple[Any, ...] = (None, 1, "x", [], {}, [1], True, -5, 1e300, "2026-01-01T00:00:00")
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def whole(data: bytes, format: str, live: bool = False) -> None:
    try:
        traces = spanport.read(io.BytesIO(data) if live else data, format=format, report=Report())
    except ReadError:
        return
    for trace in traces:
        known = {s.id for s in trace.spans}
        assert len(known) == len(trace.spans)
        assert all(s.parent_id is None or s.parent_id in known for s in trace.spans)
        assert all(s.start is None or s.end is None or s.end >= s.start for s in trace.spans)
    for target in ("agno", "agno-events"):
        spanport.write(traces, io.BytesIO(), format=target)


def spoilt(value: Any, rnd: random.Random) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if rnd.random() > 0.02}
        return {k: rnd.choice(ODD) if rnd.random() < 0.02 else spoilt(v, rnd) for k, v in kept.items()}
    if isinstance(value, list):
        return [spoilt(v, rnd) for v in value if rnd.random() > 0.03]
    return value


@QUICK
@given(st.sampled_from(STREAMS), st.integers(0, 2**32), st.booleans())
def test_lines_that_are_lost_doubled_or_moved(path: Path, seed: int, live: bool) -> None:
    rnd = random.Random(seed)
    lines = [x for x in path.read_bytes().split(b"\n") if rnd.random() > 0.1]
    lines = rnd.choice([lines, lines + lines, lines[: rnd.randrange(len(lines) + 1)], lines[rnd.randrange(len(lines) + 1) :]])
    if len(lines) > 2 and rnd.random() < 0.5:
        i, j = rnd.randrange(len(lines)), rnd.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]
    whole(b"\n".join(lines), "agno-events", live)


@QUICK
@given(st.sampled_from(STREAMS), st.sampled_from(STREAMS), st.integers(0, 2**32))
def test_streams_that_are_mixed(one: Path, two: Path, seed: int) -> None:
    rnd = random.Random(seed)
    left, right, mixed = one.read_bytes().split(b"\n"), two.read_bytes().split(b"\n"), []
    while left or right:
        mixed.append((left if left and (not right or rnd.random() < 0.5) else right).pop(0))
    whole(b"\n".join(mixed), "agno-events")


@QUICK
@given(st.sampled_from(STREAMS), st.integers(0, 2**32))
def test_events_with_odd_values(path: Path, seed: int) -> None:
    rnd = random.Random(seed)
    lines = [json.dumps(spoilt(json.loads(x), rnd)).encode() for x in path.read_bytes().split(b"\n") if x]
    whole(b"\n".join(lines), "agno-events")


@QUICK
@given(st.sampled_from(RECORDS), st.integers(0, 2**32))
def test_records_with_odd_values(path: Path, seed: int) -> None:
    whole(json.dumps(spoilt(json.loads(path.read_text()), random.Random(seed))).encode(), "agno")
