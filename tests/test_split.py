"""One trace per task or attempt: nothing is lost, parts point back, ids are stable."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import spanport
from spanport.converters.api import collect
from spanport.converters.model import Item, Trace, TraceHeader, kind_of
from spanport.converters.stages.split import Per, split

FIXTURES = Path(__file__).parent.parent / "fixtures" / "agentcompass"


def parts(case: str, per: Per) -> list[Trace]:
    return collect(split(spanport.stream(FIXTURES / case), per))


@pytest.mark.parametrize("case", ["multi-agent", "artifacts-collect-fail", "killed", "launch"])
@pytest.mark.parametrize("per", ["task", "attempt"])
def test_nothing_is_lost_and_parts_point_back(case: str, per: Per) -> None:
    whole = spanport.read(FIXTURES / case)
    found = parts(case, per)
    before = {s.id: s for t in whole for s in t.spans}
    after = [s for t in found for s in t.spans]
    assert sorted(s.id for s in after) == sorted(before)
    top = [s for s in before.values() if kind_of(s) == per and kind_of(before[s.parent_id or ""]) in ("run", "task")]
    top = [s for s in top if kind_of(before[s.parent_id or ""]) == "task" or before[s.parent_id or ""].parent_id is None]
    assert len(found) == len(whole) + len(top)
    for trace in found:
        ids = {s.id for s in trace.spans}
        roots = [s for s in trace.spans if s.parent_id is None]
        assert len(roots) == 1
        assert all(s.parent_id in ids for s in trace.spans if s.parent_id is not None)
        assert {s.trace_id for s in trace.spans} == {trace.header.id}
        if kind_of(roots[0]) == per:
            (back,) = [x for x in roots[0].links if x.type == "part_of"]
            old = before[roots[0].id]
            assert (back.trace_id, back.span_id) == (old.trace_id, old.parent_id)
        # History still finds its base.
        assert all(s.history.base in ids for s in trace.spans if kind_of(s) == "model_request" and s.history is not None)  # type: ignore[union-attr]


def test_a_second_time_gives_the_same_ids() -> None:
    assert [t.header.id for t in parts("multi-agent", "task")] == [t.header.id for t in parts("multi-agent", "task")]
    assert {t.header.id for t in parts("multi-agent", "task")} & {t.header.id for t in parts("multi-agent", "attempt")} == {
        t.header.id for t in spanport.read(FIXTURES / "multi-agent")
    }


def test_sub_agents_stay_with_the_attempt_that_made_them() -> None:
    for trace in parts("multi-agent", "attempt")[1:]:
        assert Counter(kind_of(s) for s in trace.spans)["run"] >= 2


def test_a_task_goes_out_when_it_is_over() -> None:
    """A live run: a part does not wait for the end of the run."""
    seen: list[str] = []

    def items() -> list[Item]:
        return list(spanport.stream(FIXTURES / "multi-agent"))

    def watched() -> object:
        for item in items():
            seen.append(kind_of(item) if not isinstance(item, TraceHeader) else "header")
            yield item

    for item in split(watched(), "task"):  # type: ignore[arg-type]
        if not isinstance(item, TraceHeader) and kind_of(item) == "task":
            break
    assert "run" not in seen[-1:]
    assert seen.count("task") == 1


def test_per_run_changes_nothing() -> None:
    assert parts("killed", "run") == spanport.read(FIXTURES / "killed")
