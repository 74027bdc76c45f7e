"""Every field that AgentCompass documents has a home: each gets a value of its own, and that value must be found in a span.

The names are data (fixtures/agentcompass/fields.json); a name added there without a home in the reader fails here."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spanport
from spanport.converters.agentcompass.events import EVENTS, PHASE_TYPES
from spanport.converters.agentcompass.schema import KEYS
from spanport.converters.errors import Report
from spanport.converters.model import AnySpan, Phase

FIELDS_FOLDER = Path(__file__).parent.parent / "fixtures" / "agentcompass"
FIELDS: dict[str, Any] = json.loads((FIELDS_FOLDER / "fields.json").read_text())
TASK = "the task"


def place(into: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split(".")
    for folder in folders:
        into = into.setdefault(folder, {})
    into[last] = value


def filled(section: str, fixed: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """An object with every field of ``section``, and what to look for by field."""
    whole: dict[str, Any] = {}
    wanted: dict[str, str] = {}
    for name in FIELDS[section]:
        if name in fixed:
            place(whole, name, fixed[name])
            continue
        mark = f"«{section}.{name}»"
        place(whole, name, mark)
        wanted[f"{section}.{name}"] = mark
    return whole, wanted


def event(name: str, time: float, payload: dict[str, Any], **more: Any) -> bytes:
    line: dict[str, Any] = dict.fromkeys(KEYS)
    line.update(run_id="the run", event=name, timestamp=time, payload=payload, orchestration_id="the orchestration")
    line.update(request_key="the key", request_name="the request", request_index=41, **more)
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def record(folder: Path) -> dict[str, str]:
    """A run directory with every field; what to look for."""
    wanted: dict[str, str] = {}

    def section(name: str, **fixed: Any) -> dict[str, Any]:
        whole, more = filled(name, fixed)
        wanted.update(more)
        return whole

    plans = section("run_info.resolved_execution_plans.<task-id>.attempts.<n>")
    info = section(
        "run_info",
        started_at="2026-12-01T04:00:00+08:00",
        finished_at="2026-12-01T05:00:00+08:00",
        run_id="the run",
        status="completed",
        request=section("run_info.request"),
        reused_from=section("run_info.reused_from"),
        metric_artifacts=section("run_info.metric_artifacts"),
        resolved_execution_plans={TASK: {"attempts": {"1": plans}}},
    )
    (folder / "run_info.json").write_text(json.dumps(info))
    (folder / "params.json").write_text(json.dumps(section("params")))
    active = section("progress.active_tasks.<task-id>")
    (folder / "progress.json").write_text(json.dumps(section("progress", active_tasks={TASK: active})))
    task = folder / "details" / "normal" / f"x--{sha256(TASK.encode()).hexdigest()}"
    (task / "attempt-1").mkdir(parents=True)
    (task / "task.json").write_text(json.dumps({"task_id": TASK, **section("task.json", category="the category")}))
    lines = []
    time = 1796068847.0
    for name in EVENTS:
        documented = [*FIELDS["payload"][name], *FIELDS["undocumented_payload"].get(name, [])]
        payload = {key: f"«{name}.{key}»" for key in documented}
        wanted.update((f"{name}.{key}", value) for key, value in payload.items())
        level: dict[str, Any] = {}
        if name.startswith(("task_", "partial", "attempt")) or name in ("phase_changed", "execution_plan_resolved"):
            level = {"task_id": TASK, "category": "the category"}
        if name in ("phase_changed", "execution_plan_resolved") or name.startswith("attempt"):
            level["attempt"] = 1
        if name == "phase_changed":
            for phase in [*FIELDS["phases"], *FIELDS["undocumented_phases"]]:
                time += 1
                lines.append(event(name, time, {}, phase=phase, status="error" if phase == "evaluate_environment" else None, **level))
            level["phase"] = "download_artifacts"
        if name == "execution_plan_resolved":
            level["phase"] = "plan"
            payload["evaluation_environment"] = {"id": payload["evaluation_environment"]}  # type: ignore[assignment]
        time += 1
        lines.append(event(name, time, payload, status="completed" if name.endswith("finished") else None, **level))
    (folder / "progress.jsonl").write_bytes(b"".join(lines))
    return wanted


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[AnySpan], dict[str, str], Report]:
    folder = tmp_path_factory.mktemp("fields")
    wanted = record(folder)
    report = Report()
    return [s for t in spanport.read(folder, report=report) for s in t.spans], wanted, report


def test_every_documented_field_has_a_home(read: tuple[list[AnySpan], dict[str, str], Report]) -> None:
    spans, wanted, report = read
    text = msgspec.json.decode(msgspec.json.encode(spans))
    found = json.dumps(text, ensure_ascii=False)
    assert [name for name, mark in wanted.items() if mark not in found] == []
    assert not report.lost
    for value in ("the run", "the orchestration", "the key", "the request", "41", TASK, "the category"):
        assert value in found


def test_every_event_is_known() -> None:
    assert set(FIELDS["payload"]) == set(EVENTS)
    assert FIELDS["event"] == list(KEYS)


def test_every_phase_is_a_span_of_a_known_type(read: tuple[list[AnySpan], dict[str, str], Report]) -> None:
    named = {s.name: s for s in read[0] if isinstance(s, Phase)}
    for name in [*FIELDS["phases"], *FIELDS["undocumented_phases"]]:
        assert named[name].type == PHASE_TYPES[name] is not None


def test_secrets_stay_redacted() -> None:
    """What AgentCompass masked is carried as it is."""
    run = next(s for t in spanport.read(FIELDS_FOLDER / "sdk-direct") for s in t.spans if s.parent_id is None)
    assert b'"api_key": "********"' in bytes(run.source["run_info.request"])
