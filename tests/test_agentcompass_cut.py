"""Files of a run directory that break off: what is whole before the break is read, it is told once, and nothing is said of how it ended."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import spanport
from spanport.converters.agentcompass.result import result_of
from spanport.converters.errors import Report
from spanport.converters.model import AnySpan, Attempt, ModelRequest, ToolCall, raw

FIXTURES = Path(__file__).parent.parent / "fixtures" / "agentcompass"


def cut(tmp_path: Path, case: str, name: str, at: int) -> tuple[dict[str, AnySpan], Report]:
    """The spans by id when the first file ``name`` of a case ends after ``at`` bytes."""
    folder = tmp_path / f"{name}-{at}" / Path(case).name
    shutil.copytree(FIXTURES / case, folder)
    path = next(p for p in sorted(folder.rglob(name)) if "details" in p.parts)
    data = path.read_bytes()
    assert at < len(data)
    path.write_bytes(data[:at])
    report = Report(input="run")
    return {s.id: s for t in spanport.read(folder, report=report) for s in t.spans}, report


def whole(case: str) -> dict[str, AnySpan]:
    return {s.id: s for t in spanport.read(FIXTURES / case) for s in t.spans}


def place(case: str, name: str, words: str, after: int = 0) -> int:
    """Where ``words`` stand in that file."""
    data = next(p for p in sorted((FIXTURES / case).rglob(name)) if "details" in p.parts).read_bytes()
    return data.index(words.encode(), after)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("mini-swe-agent", '"analysis_result"'),
        ("mini-swe-agent", '"artifacts"'),
        ("openai-chat", '"analysis_result"'),
        ("terminus2", '"observation"'),
        ("claude-code", '"analysis_result"'),
    ],
)
def test_a_result_that_breaks_off_is_read_up_to_there(tmp_path: Path, case: str, words: str) -> None:
    before = whole(case)
    got, report = cut(tmp_path, case, "result.json", place(case, "result.json", words) + 30)
    (notice,) = [n for n in report.notices if n.severity == "lost"]
    assert notice.code == "truncated"
    assert notice.byte is not None
    assert notice.input is not None
    assert notice.input.endswith("/result.json")
    assert got.keys() <= before.keys()
    assert sum(isinstance(s, Attempt) for s in got.values()) == sum(isinstance(s, Attempt) for s in before.values())
    changed = {i for i in before if got.get(i) != before[i]}
    attempt = next(s for s in before.values() if isinstance(s, Attempt) and s.id in changed)
    # What comes before the break in the file: the status, the verdict, the answer.
    kept = got[attempt.id]
    assert isinstance(kept, Attempt)
    assert (kept.status, kept.ending, kept.verdict, kept.output) == (attempt.status, attempt.ending, attempt.verdict, attempt.output)
    assert (kept.start, kept.end) == (attempt.start, attempt.end)
    # No other attempt is touched.
    others = [s for s in before.values() if isinstance(s, Attempt) and s.id != attempt.id]
    assert all(got[s.id] == s for s in others)


def test_the_steps_before_the_break_are_there(tmp_path: Path) -> None:
    case = "terminus2"
    before = whole(case)
    count = {kind: sum(isinstance(s, kind) for s in before.values()) for kind in (ModelRequest, ToolCall)}
    third = place(case, "result.json", '"step_id": 3')
    got, _ = cut(tmp_path, case, "result.json", third + 200)
    kept = [s for s in got.values() if isinstance(s, ModelRequest)]
    assert 0 < len(kept) < count[ModelRequest]
    assert all(s.id in before for s in kept)


def test_a_call_whose_answer_may_be_behind_the_break_is_not_called_aborted() -> None:
    members = {"status": raw("run_error")}
    assert result_of(members).broken
    assert not result_of(members, cut=True).broken


def test_of_a_flat_file_the_attempts_before_the_break_are_whole(tmp_path: Path) -> None:
    case = "_synthetic/pre-1.0-flat"
    before = whole(case)
    second = place(case, "r-ok.json", '"2"')
    got, report = cut(tmp_path, case, "r-ok.json", place(case, "r-ok.json", '"artifacts"', second) + 20)
    assert [n.code for n in report.notices if n.severity == "lost"] == ["truncated"]  # once, though the file is opened more than once
    mine = [s for s in before.values() if isinstance(s, Attempt) and s.name.startswith("r-ok ")]
    assert len(mine) == 2
    first, last = sorted(mine, key=lambda s: s.number)
    assert got[first.id] == first
    kept = got[last.id]
    assert isinstance(kept, Attempt)
    assert (kept.status, kept.ending) == (last.status, last.ending)


def test_a_task_whose_name_is_behind_the_break_is_told(tmp_path: Path) -> None:
    _, report = cut(tmp_path, "terminus2", "task.json", 20)
    assert {n.code for n in report.notices if n.severity == "lost"} >= {"no-task-id"}
