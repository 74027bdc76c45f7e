"""Shares of one input: together they give what the whole gives, span by span, whoever reads them."""

import json
import random
import re
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest
from spanport.cli import run
from spanport.converters import registry
from spanport.converters.errors import Report
from spanport.converters.model import TraceHeader
from spanport.converters.registry import ReadOptions
from spanport.converters.source import source_of

FIXTURES = Path(__file__).parent.parent / "fixtures"
RUNS = sorted(p.parent for p in (FIXTURES / "agentcompass").rglob("run_info.json") if (p.parent / "details").is_dir())
DATABASES = sorted((FIXTURES / "agno").rglob("*.db"))


def read(path, share=None):
    """(spans by id as JSON, how many spans, notices by kind)."""
    source, report = source_of(str(path)), Report()
    found = [i for i in registry.detect(source).read(source, report, ReadOptions(share=share)) if i.__class__ is not TraceHeader]
    return {i.id: msgspec.json.encode(i) for i in found}, len(found), report.counts


def check(path, shares):
    whole, spans, notices = read(path)
    together, total, told = {}, 0, Report().counts
    for share in shares:
        part, n, counts = read(path, share)
        together |= part
        total += n
        told.update(counts)
    assert together == whole
    assert (total, told) == (spans, notices)


def divide(path, most=3):
    source = source_of(str(path))
    return registry.detect(source).divide(source, most, 2)


@pytest.mark.parametrize("path", RUNS, ids=lambda p: p.name)
def test_runs(path):
    if shares := divide(path):
        check(path, shares)  # else a run that is not over, or has one task


STREAMS = sorted((FIXTURES / "agentcompass").rglob("progress.jsonl"))


@pytest.fixture
def small(monkeypatch):
    """Streams of any size are worth it."""
    for module in ("agentcompass.stream", "agno.cut"):
        monkeypatch.setattr(f"spanport.converters.{module}.WORTH", 0)


@pytest.mark.parametrize("path", STREAMS, ids=lambda p: p.parent.name)
def test_streams(path, small):
    check(path, divide(path))


@pytest.mark.parametrize("seed", range(12))
def test_streams_with_everything_wrong(tmp_path, small, seed):
    """Lines of several runs mixed, lost, twice, late, torn, glued, without a time, back in time, of unknown events."""
    rng = random.Random(seed)
    lines = [line for path in rng.sample(STREAMS, 3) for line in path.read_bytes().splitlines()]
    wrong = [
        lambda n, line: lines.pop(n),
        lambda n, line: lines.append(line),
        lambda n, line: lines.insert(rng.randrange(len(lines)), line),
        lambda n, line: lines.__setitem__(n, line[: rng.randrange(1, 200)]),
        lambda n, line: lines.__setitem__(n, line[: rng.randrange(1, 200)] + lines[n - 1]),
        lambda n, line: lines.__setitem__(n, re.sub(rb'"timestamp": ?[^,]*', b'"timestamp": null', line)),
        lambda n, line: lines.__setitem__(n, re.sub(rb'"event": ?"[^"]*"', b'"event": "new"', line)),
        lambda n, line: lines.__setitem__(n, re.sub(rb'"phase": ?"[^"]*"', b'"phase": "analyze"', line)),
        lambda n, line: lines.__setitem__(n, re.sub(rb'"task_id": ?"', b'"odd": 1, "task_id": "', line)),
        lambda n, line: lines.__setitem__(n, re.sub(rb'"task_id": ?"[^"]*"', b'"task_id": 7', line)),
        lambda n, line: lines.__setitem__(n, re.sub(rb'"payload": ?[{]', b'"payload": {"x": "\xff", "y": NaN, ', line)),
    ]
    for _ in range(len(lines) // 4):
        n = rng.randrange(1, len(lines))
        rng.choice(wrong)(n, lines[n])
    (path := tmp_path / "progress.jsonl").write_bytes(b"\n".join(lines))
    check(path, divide(path))


EVENTS = [
    p
    for p in sorted((FIXTURES / "agno").rglob("*stream*.jsonl"))
    if not p.name.startswith(("stream-abandoned", "stream-content-only", "wagent"))
]
BROKEN = (FIXTURES / "agno" / "corpus" / "agno" / "tools" / "stream.events.jsonl").read_bytes().splitlines()
OPEN = BROKEN[: 1 + next(n for n, line in enumerate(BROKEN) if b"ToolCallStarted" in line)]
"""A run that breaks off within a call: the runs that come after it may be the call's own."""


def renamed(data: bytes, n: int) -> bytes:
    """Another run of the same: its ids end in other digits."""
    return re.sub(rb'("(?:[a-z]+_)*run_id": ?"[^"]*)"', rb'\1-%d"' % n, data)


@pytest.mark.parametrize("seed", range(12))
def test_event_streams(tmp_path, small, seed):
    """Captures one after the other, some of which end in the middle of a run, go on later, or come twice; lines that are torn, or lost."""
    rng = random.Random(seed)
    parts = [renamed(path.read_bytes().rstrip(b"\n"), n).splitlines() for n, path in enumerate(rng.choices(EVENTS, k=16))]
    if seed > 3:
        for _ in range(2):
            part = rng.choice(parts)
            rng.choice([lambda p: p.insert(len(p) // 2, p[-1][:50]), lambda p: parts.append(p[len(p) // 2 :])])(part)
    if seed > 7:
        parts.append(parts[8][:5])
        parts[5] = [line for pair in zip(parts[5], parts[6], strict=False) for line in pair]
    (path := tmp_path / "events.jsonl").write_bytes(b"\n".join(b"\n".join(p) for p in parts))
    shares = divide(path, 4)
    assert len(shares) > 2 or seed > 3
    if shares:  # else what goes on at the end began at the start
        check(path, shares)


def test_no_cut_after_a_run_that_breaks_off(tmp_path, small):
    parts = [renamed(b"\n".join(BROKEN), n) for n in range(6)]
    parts.insert(3, b"\n".join(OPEN))
    (path := tmp_path / "events.jsonl").write_bytes(b"\n".join(parts))
    shares = divide(path, 7)
    assert len(shares) == 4
    check(path, shares)


def test_a_run_that_is_open_all_the_time_keeps_events_whole(tmp_path, small):
    lines = [renamed(EVENTS[0].read_bytes().rstrip(b"\n"), n).splitlines() for n in range(3)]
    (path := tmp_path / "events.jsonl").write_bytes(b"\n".join([lines[0][0], *lines[1], *lines[2], *lines[0][1:]]))
    assert divide(path, 3) == []


def test_a_tree_of_runs(tmp_path):
    """By runs, in their order; links between runs are what they are in the whole."""
    for n, path in enumerate(RUNS[:9]):
        shutil.copytree(path, tmp_path / "tree" / f"model-{n % 3}" / path.name)
    shares = divide(tmp_path / "tree", 2)
    assert len(shares) == 8
    check(tmp_path / "tree", shares)
    items = [list(read(tmp_path / "tree", share)[0]) for share in (None, *shares)]
    assert items[0] == [i for part in items[1:] for i in part]


def test_enough_runs_are_divided():
    assert sum(len(divide(path)) > 1 for path in RUNS) >= 5
    assert not divide(FIXTURES / "agentcompass" / "killed")


@pytest.mark.parametrize("path", DATABASES, ids=lambda p: p.parent.name)
def test_databases(path):
    if shares := divide(path):
        check(path, shares)


def database(path: Path, sessions: int, parent: str | None = None) -> Path:
    """A database as agno 3.x has it: a run a session, of one user message and one answer."""
    with sqlite3.connect(path) as db:
        db.execute("create table agno_runs (run_id text primary key, session_id text, parent_run_id text, run_index int, run_data text)")
        for i in range(sessions):
            record = {
                "run_id": f"run-{i}",
                "session_id": f"s-{i}",
                "agent_id": "a",
                "agent_name": "Agent",
                "created_at": 1_796_068_000 + i,
                "status": "COMPLETED",
                "content": "done",
                "messages": [
                    {"id": f"m-{i}", "role": "user", "content": "do", "created_at": 1_796_068_000 + i},
                    {"id": f"n-{i}", "role": "assistant", "content": "done", "created_at": 1_796_068_001 + i},
                ],
            }
            db.execute("insert into agno_runs values (?,?,?,0,?)", (f"run-{i}", f"s-{i}", parent if i else None, json.dumps(record)))
    return path


def test_a_database_is_divided_by_sessions(tmp_path):
    path = database(tmp_path / "agno.db", 20)
    assert len(divide(path, 4)) == 4
    check(path, divide(path, 4))
    assert read(path)[1] >= 40


def test_a_run_with_its_parent_in_another_session_keeps_the_database_whole(tmp_path):
    assert divide(database(tmp_path / "agno.db", 20, parent="run-0")) == []


def large(folder: Path) -> list[Path]:
    """One of each that can be divided: a run directory, a tree of them, a stream of one run and one of many, a database."""
    for n, path in enumerate(RUNS[:5]):
        shutil.copytree(path, folder / "tree" / f"model-{n % 2}" / path.name)
    (events := folder / "events.jsonl").write_bytes(b"\n".join(renamed(b"\n".join(BROKEN), n) for n in range(6)))
    shutil.copy(FIXTURES / "agentcompass" / "mini-swe-agent" / "progress.jsonl", folder / "progress.jsonl")
    return [
        FIXTURES / "agentcompass" / "mini-swe-agent",
        folder / "tree",
        folder / "progress.jsonl",
        events,
        database(folder / "agno.db", 20),
    ]


@pytest.mark.parametrize("to", ["otlp-json", "otlp-proto"])
def test_convert_in_shares(tmp_path, small, to, capfd):
    for source in large(tmp_path):
        one, two = tmp_path / f"one-{source.stem}", tmp_path / f"two-{source.stem}"
        assert run(["convert", str(source), "--to", to, "-o", str(one), "-j", "1"]) == 0
        assert run(["convert", str(source), "--to", to, "-o", str(two), "-j", "2"]) == 0
        assert read(one)[:2] == read(two)[:2]
        assert len(divide(source, 2)) > 1
    capfd.readouterr()


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_export_to_a_file_in_shares(tmp_path, small, encoding, capfd):
    for sources in ([one] for one in large(tmp_path)):
        found = {}
        for jobs in ("1", "2"):
            out, told = tmp_path / f"out-{jobs}", tmp_path / "told.json"
            assert run(["export", *map(str, sources), "-o", str(out), "--encoding", encoding, "-j", jobs, "--summary-json", str(told)]) == 0
            account = json.loads(told.read_text())
            found[jobs] = *read(out)[:2], *(account[n] for n in ("read", "accepted", "traces", "first_time_ns", "last_time_ns"))
        assert found["1"] == found["2"]
    capfd.readouterr()


def test_export_to_files_by_several_processes(tmp_path, monkeypatch, capfd):
    """A file each, or all in one in the order of the inputs; of one that can't be read no file."""
    sources = [
        FIXTURES / "agentcompass" / "mini-swe-agent",
        tmp_path / "bad.jsonl",
        FIXTURES / "cli" / "bench.spanport.jsonl",
        FIXTURES / "agentcompass" / "killed",
    ]
    (tmp_path / "bad.jsonl").write_text("{}")
    shutil.copy(sources[2], same := tmp_path / "bench.jsonl")
    sources.append(same)
    for jobs in ("1", "2"):
        (tmp_path / jobs).mkdir()
        monkeypatch.chdir(tmp_path / jobs)
        assert run(["export", *map(str, sources), "-j", jobs]) == 3
        assert run(["export", *map(str, sources), "-j", jobs, "-o", "all.jsonl"]) == 3
        capfd.readouterr()
        assert run(["export", *map(str, sources[:1]), "-j", jobs, "-o", "-"]) == 0
        Path("out.jsonl").write_text(capfd.readouterr().out)
    names = {p.name for p in (tmp_path / "1").iterdir()}
    assert names == {"mini-swe-agent.otlp.jsonl", "bench.otlp.jsonl", "killed.otlp.jsonl", "all.jsonl", "out.jsonl"}
    assert names == {p.name for p in (tmp_path / "2").iterdir()}
    for name in names:
        one, two = read(tmp_path / "1" / name), read(tmp_path / "2" / name)
        assert one[0] == two[0]
        assert one[1] == two[1] or name == "all.jsonl"  # no process knows that another has the same run


def test_two_runs_of_it_write_the_same(tmp_path):
    path = database(tmp_path / "agno.db", 40)
    for name in ("a", "b"):
        assert run(["convert", str(path), "--to", "otlp-json", "--no-carry", "-o", str(tmp_path / name), "-j", "2"]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
