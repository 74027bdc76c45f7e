"""Our tree beside the spans that the live OpenInference instrumentation recorded of the same run: each of its spans has a counterpart here, of the same kind,
tool, agent or model, and tokens; or the difference is on the list below."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import spanport
from spanport.converters.model import ModelRequest, Phase, Run, ToolCall

CORPUS = Path(os.environ.get("SPANPORT_CORPUS") or Path(__file__).parent.parent / "fixtures" / "agno" / "corpus")
PEERS = CORPUS / "agno" / "peer-openinference"
CASES = sorted(p.stem for p in PEERS.glob("*.json") if (PEERS / "runs" / p.stem).is_dir())

# What the instrumentation has and the record can't: case → (kind, name, tokens in, tokens out) → why.
MISSING: dict[str, dict[str, str]] = {
    "side-stream": {
        "LLM": "requests of the memory, summary and follow-up models leave no record of their own, only their sums in metrics.details",
        "TOOL": "add_memory is the memory model's own call",
    },
    "model-error-plain": {"LLM": "a request that failed leaves nothing in a record without events"},
}
# Spans of theirs whose counterpart is the same span here: a paused and a continued run are one.
JOINED = {"hitl-stream": {"AGENT": "two traces there, one run with two attempts here"}}
# Requests that failed have no tokens; those of a run that was retried stand in the record's events only.
KINDS = {"LLM": ModelRequest, "TOOL": ToolCall, "AGENT": Run}


def ours(case: str) -> list[Any]:
    folder = PEERS / "runs" / case
    records = (
        sorted(folder.glob("*.run_output.with_events.json"))
        or sorted(folder.glob("*.run_output.json"))
        or sorted(folder.glob("db-session*.json"))
    )
    streams = sorted(folder.glob("*.events.jsonl"))
    source: Any = records[-1] if records else b"".join(p.read_bytes() for p in streams)
    return [s for t in spanport.read(source) for s in t.spans]


def keys(spans: list[Any], kind: str) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for s in spans:
        if not isinstance(s, KINDS[kind]):
            continue
        if isinstance(s, ModelRequest):
            found[s.model, s.usage.input if s.usage else None, s.usage.output if s.usage else None] += 1
        elif isinstance(s, ToolCall) or s.type != "workflow":
            found[s.name,] += 1
    return found


def theirs(case: str, kind: str) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for s in json.loads((PEERS / f"{case}.json").read_text())["spans"]:
        a = s["attributes"]
        if a.get("openinference.span.kind") != kind:
            continue
        if kind == "LLM":
            found[a.get("llm.model_name"), a.get("llm.token_count.prompt"), a.get("llm.token_count.completion")] += 1
        elif kind == "TOOL":
            found[a.get("tool.name") or s["name"],] += 1
        else:
            found[a.get("agent.name") or a.get("agno.team") or s["name"].split(".")[0].replace("_", " "),] += 1
    return found


@pytest.mark.parametrize("kind", ["LLM", "TOOL", "AGENT"])
@pytest.mark.parametrize("case", CASES)
def test_each_of_their_spans_has_a_counterpart(case: str, kind: str) -> None:
    missing = theirs(case, kind) - keys(ours(case), kind)
    if kind in JOINED.get(case, {}):
        missing -= keys(ours(case), kind)
    if kind in MISSING.get(case, {}):
        assert missing, "the difference is gone: take it off the list"
        return
    assert not missing


@pytest.mark.parametrize("case", CASES)
def test_their_steps_are_phases_here(case: str) -> None:
    names = {p.name.replace(" ", "_") for p in ours(case) if isinstance(p, Phase)} | {
        r.name.replace(" ", "_") for r in ours(case) if isinstance(r, Run)
    }
    for s in json.loads((PEERS / f"{case}.json").read_text())["spans"]:
        if s["attributes"].get("openinference.span.kind") == "CHAIN":
            assert s["name"].split(".")[0] in names


def test_how_many_cases_were_tried() -> None:
    assert CASES
    print(f"{len(CASES)} of 14 cases")
