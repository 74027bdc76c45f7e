"""Where Agno's runs lie: databases of every version with any table names, JsonDb folders, sessions, answers of AgentOS; and choosing among them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spanport
from spanport.converters.errors import ReadError, Report
from spanport.converters.model import ModelRequest, Run, ToolCall
from spanport.converters.registry import ReadOptions

AGNO = Path(__file__).parent.parent / "fixtures" / "agno" / "corpus" / "agno"
PLAIN = json.loads((AGNO / "tools/plain.run_output.json").read_text())
TEAM = json.loads((AGNO / "team/plain.run_output.json").read_text())


def spans(source: Any, **options: Any) -> list[Any]:
    return [s for t in spanport.read(source, options=ReadOptions(**options)) for s in t.spans]


def runs(found: list[Any]) -> list[str]:
    return sorted(s.native_id for s in found if isinstance(s, Run))


def database(path: Path, script: str, rows: list[tuple[str, tuple[Any, ...]]]) -> Path:
    with sqlite3.connect(path) as db:
        db.executescript(script)
        for sql, values in rows:
            db.execute(sql, values)
    db.close()
    return path


def test_runs_of_3x_in_tables_of_any_name(tmp_path: Path) -> None:
    rows = [
        ("insert into my_runs values (?,?,?,?)", (r["run_id"], r["session_id"], i, json.dumps(r)))
        for i, r in enumerate([PLAIN, *TEAM["member_responses"], TEAM])
    ]
    path = database(
        tmp_path / "x.db", "create table other (a); create table my_runs (run_id text, session_id text, run_index int, run_data text)", rows
    )
    found = spans(path)
    assert runs(found) == sorted([PLAIN["run_id"], TEAM["run_id"], *(m["run_id"] for m in TEAM["member_responses"])])
    assert sum(s.parent_id is None for s in found) == 2  # members stand in their team, though they have rows of their own
    assert sum(isinstance(s, ToolCall) for s in found) == 6


def test_members_that_only_have_rows(tmp_path: Path) -> None:
    bare = {**TEAM, "member_responses": []}
    rows = [
        ("insert into agno_runs values (?,?,?,?)", (r["run_id"], r["session_id"], i, json.dumps(r)))
        for i, r in enumerate([*TEAM["member_responses"], bare])
    ]
    path = database(tmp_path / "x.db", "create table agno_runs (run_id text, session_id text, run_index int, run_data text)", rows)
    found = spans(path)
    assert sum(s.parent_id is None for s in found) == 1
    assert sum(isinstance(s, Run) for s in found) == 3


def test_double_encoded_runs_of_2x(tmp_path: Path) -> None:
    twice = json.dumps(json.dumps([PLAIN]))
    path = database(
        tmp_path / "x.db",
        "create table sessions (session_id text, session_data text, runs text)",
        [("insert into sessions values (?,?,?)", ("s", json.dumps("{}"), twice))],
    )
    assert runs(spans(path)) == [PLAIN["run_id"]]


def test_memory_of_1x(tmp_path: Path) -> None:
    old = json.loads((AGNO / "versions/1.1.17/plain.run_output.json").read_text())
    memory = {"messages": [], "runs": [{"message": {"role": "user"}, "response": old}]}
    path = database(
        tmp_path / "x.db",
        "create table agent_sessions (session_id text, memory text)",
        [("insert into agent_sessions values (?,?)", ("s", json.dumps(memory)))],
    )
    found = spans(path)
    assert runs(found) == [old["run_id"]]
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "s.json").write_text(json.dumps({"session_id": "s", "memory": memory, "session_data": {}}))
    assert {s.id for s in spans(folder)} == {s.id for s in found}


def test_the_table_and_the_old_blob_are_merged(tmp_path: Path) -> None:
    half = {**PLAIN, "status": "RUNNING", "messages": PLAIN["messages"][:2], "tools": None}
    other = {**PLAIN, "run_id": "only-in-the-blob"}
    script = "create table agno_runs (run_id text, session_id text, run_data text); create table agno_sessions (session_id text, runs text)"
    rows = [
        ("insert into agno_runs values (?,?,?)", (PLAIN["run_id"], "s", json.dumps(PLAIN))),
        ("insert into agno_sessions values (?,?)", ("s", json.dumps([half, other]))),
    ]
    found = spans(database(tmp_path / "x.db", script, rows))
    assert runs(found) == sorted([PLAIN["run_id"], "only-in-the-blob"])
    assert sum(isinstance(s, ToolCall) for s in found) == 6


def test_a_write_ahead_log_is_read_and_nothing_appears_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "wal.db"
    writer = sqlite3.connect(path)
    writer.execute("pragma journal_mode=wal")
    writer.execute("create table agno_runs (run_id text, session_id text, run_data text)")
    writer.execute("insert into agno_runs values (?,?,?)", (PLAIN["run_id"], "s", json.dumps(PLAIN)))
    writer.commit()
    before = sorted((p.name, p.stat().st_size) for p in tmp_path.iterdir())
    assert runs(spans(path)) == [PLAIN["run_id"]]
    assert sorted((p.name, p.stat().st_size) for p in tmp_path.iterdir()) == before
    writer.close()


def test_a_file_without_runs_says_so(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="no table with runs"):
        spanport.read(database(tmp_path / "x.db", "create table a (b)", []), format="agno")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(ReadError, match="database"):
        spanport.read(broken, format="agno")


def test_a_broken_row_costs_a_row(tmp_path: Path) -> None:
    rows = [
        ("insert into agno_runs values (?,?,?)", ("x", "s", "{broken")),
        ("insert into agno_runs values (?,?,?)", (PLAIN["run_id"], "s", json.dumps(PLAIN))),
    ]
    path = database(tmp_path / "x.db", "create table agno_runs (run_id text, session_id text, run_data text)", rows)
    report = Report()
    assert runs([s for t in spanport.read(path, report=report) for s in t.spans]) == [PLAIN["run_id"]]
    assert (report.lost, report.notices[0].code, report.notices[0].record) == (1, "bad-row", "{broken")


def test_sessions_are_read_one_at_a_time(tmp_path: Path) -> None:
    rows = [
        ("insert into agno_runs values (?,?,?,?,?)", (r["run_id"], "a", i, r.get("parent_run_id"), json.dumps(r)))
        for i, r in enumerate([*TEAM["member_responses"], {**TEAM, "member_responses": []}])
    ]
    script = "create table agno_runs (run_id text, session_id text, run_index int, parent_run_id text, run_data text);"
    script += "create table agno_sessions (session_id text, runs text); insert into agno_sessions values ('a', 'null'), ('b', null);"
    path = database(tmp_path / "x.db", script, [*rows, ("insert into agno_runs values (?,?,?,?,?)", ("x", "b", 0, None, "{broken"))])
    report = Report()
    found = spanport.stream(path, report=report)
    next(found)
    assert report.lost == 0  # the second session is not read yet
    assert sum(isinstance(s, Run) for s in found) == 3
    assert report.lost == 1


def test_a_member_whose_team_has_another_session(tmp_path: Path) -> None:
    """Then nothing is given before everything is read."""
    rows = [
        ("insert into agno_runs values (?,?,?,?,?)", (r["run_id"], str(i), i, r.get("parent_run_id"), json.dumps(r)))
        for i, r in enumerate([*TEAM["member_responses"], {**TEAM, "member_responses": []}])
    ]
    script = "create table agno_runs (run_id text, session_id text, run_index int, parent_run_id text, run_data text)"
    assert sum(s.parent_id is None for s in spans(database(tmp_path / "x.db", script, rows))) == 1


def test_jsondb_and_sessions_and_answers() -> None:
    assert len(runs(spans(AGNO / "versions/2.5.17/jsondb"))) == 1
    session = {"session_id": "s", "session_type": "agent", "user_id": "u", "runs": [{k: v for k, v in PLAIN.items() if k != "session_id"}]}
    (run,) = [s for s in spans(session) if isinstance(s, Run)]
    assert (run.conversation_id, run.user_id) == ("s", "u")
    page = {"data": [session["runs"][0]], "meta": {"page": 1}}
    assert runs([s for t in spanport.read(page, format="agno") for s in t.spans]) == [PLAIN["run_id"]]
    found = spans(AGNO / "agentos-sse/GET-session-os-s1-runs.json")
    assert all(s.parent_id is None for s in found if isinstance(s, Run))  # parent_run_id is "" there
    assert sum(isinstance(s, ModelRequest) for s in found) >= 3
    (first,) = [s for s in found if isinstance(s, Run) and s.input and b"weather" in bytes(s.input)]
    assert first.start is not None


def test_choosing(tmp_path: Path) -> None:
    two = {**PLAIN, "run_id": "two", "session_id": "t", "created_at": PLAIN["created_at"] + 3600}
    two["messages"] = [{**m, "created_at": m["created_at"] + 3600} for m in PLAIN["messages"]]
    both = [PLAIN, two, TEAM]
    assert runs(spans(both, run="two")) == ["two"]
    member = TEAM["member_responses"][0]["run_id"]
    assert TEAM["run_id"] in runs(spans(both, run=member))
    assert runs(spans(both, session="t")) == ["two"]
    later = (PLAIN["created_at"] + 1800) * 1_000_000_000
    assert runs(spans(both, since=later)) == ["two"]
    assert "two" not in runs(spans(both, until=later))


def test_runs_interleaved_in_one_file() -> None:
    one = (AGNO / "tools/stream.events.jsonl").read_bytes().splitlines()
    two = (AGNO / "simple/stream.events.jsonl").read_bytes().splitlines()
    mixed = [line for pair in zip(one, two, strict=False) for line in pair] + one[len(two) :]
    found = spans(b"\n".join(mixed))
    apart = spans(b"\n".join(one)) + spans(b"\n".join(two))
    assert {s.id for s in found} == {s.id for s in apart}


def test_line_separators_inside_text_do_not_tear_lines() -> None:
    data = (AGNO / "odd-content/stream.events.jsonl").read_bytes()
    assert "\u2028".encode() in data
    report = Report()
    spanport.read(data, report=report)
    assert report.lost == 0


def test_the_command_chooses(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([PLAIN, TEAM]))

    def stats(*options: str) -> Any:
        done = subprocess.run([sys.executable, "-m", "spanport", "stats", "--json", str(path), *options], capture_output=True, check=True)
        return json.loads(done.stdout)["spans"]["run"]

    assert stats() == 4
    assert stats("--run", PLAIN["run_id"]) == 1
    assert stats("--session", TEAM["session_id"]) == 3
    assert stats("--since", str(TEAM["created_at"] - 60)) == 3
    assert stats("--until", "2026-11-30T20:00:00Z") == 1
