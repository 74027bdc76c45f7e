"""`spanport schema`: the fixtures of each format fit what it says, and what is not of the format does not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spanport
from spanport.cli import run
from spanport.converters.registry import formats
from spanport.converters.schema import json_schema

jsonschema = pytest.importorskip("jsonschema")
FIXTURES = Path(__file__).parent.parent / "fixtures"


def validator(format: str, file: str | None = None) -> Any:
    schema = json_schema(format)
    if file is not None:  # one document of a folder
        part = next(one for one in schema["anyOf"] if one["title"] == file)
        schema = {**part, "$defs": schema["$defs"]}
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def documents(format: str, pattern: str) -> Iterator[tuple[Path, Any]]:
    """What of the fixtures is strict JSON and of the format: the whole, or each line."""
    for path in sorted(FIXTURES.glob(pattern)):
        try:
            if spanport.detect(path) != format:
                continue
            text = path.read_text()
            for one in text.splitlines() if path.suffix == ".jsonl" else [text]:
                yield path, json.loads(one)
        except (spanport.SpanportError, ValueError):
            continue  # broken on purpose


@pytest.mark.parametrize("format", [f.name for f in formats().values()])
def test_each_format_has_one_or_says_why_not(format, capfd):
    status = run(["schema", format])
    out, err = capfd.readouterr()
    if formats()[format].schema is None:
        assert status == 2
        assert {"otlp-proto": "spanport schema otlp-json", "table": "first line"}[format] in err
        return
    assert status == 0
    assert json.loads(out)["title"] == formats()[format].title


@pytest.mark.parametrize(
    ("format", "pattern", "least", "other"),
    [
        ("spanport", "cli/*.spanport.jsonl", 30, {"kind": "run", "id": 5}),
        ("otlp-json", "cli/*.otlp.jsonl", 1, {"resourceSpans": [{"scopeSpans": 1}]}),
        ("agno", "agno/**/*.json", 10, {"run_id": "r", "messages": [{"role": 1}]}),
        ("agno-events", "agno/**/*.jsonl", 100, {"event": "RunStarted", "tool": {"tool_name": []}}),
        ("agentcompass-progress", "agentcompass/*/progress.jsonl", 100, {"run_id": "r"}),
        ("atif", "atif/**/*.json", 3, {"schema_version": "ATIF-v1.4", "steps": [{"step_id": "first"}]}),
        ("chat", "artifacts/threads/**/*.json", 3, {"messages": [{"content": "no role"}]}),
        ("artifact-table", "artifacts/**/*.json", 1, [{"id": {}}]),
    ],
)
def test_the_fixtures_fit(format, pattern, least, other):
    check, count = validator(format), 0
    for path, one in documents(format, pattern):
        if isinstance(one, list) and format == "agno":
            continue  # a session's runs, or a list of records: the schema is that of one
        if format == "agno" and "run_id" not in one:
            continue
        count += 1
        error = next(check.iter_errors(one), None)
        assert error is None, f"{path}: {error.json_path}: {error.message}"
    assert count >= least
    assert not check.is_valid(other)


def test_todays_spelling_of_a_runartifacts_record():
    check, fits = validator("runartifacts"), 0
    for _, one in documents("runartifacts", "runartifacts/**/*.json"):
        fits += check.is_valid(one)  # the older spelling is read too and does not fit
    assert fits >= 5
    assert not check.is_valid({"task_id": "t", "messages": [{"role": "tool", "content": "text"}], "tool_calls": [], "tool_results": []})


@pytest.mark.parametrize("file", [one["title"] for one in json_schema("agentcompass")["anyOf"] if one["title"] != "progress.jsonl"])
def test_the_documents_of_a_run_directory(file):
    check, count = validator("agentcompass", file), 0
    for path in sorted((FIXTURES / "agentcompass").glob(f"**/{file}")):
        try:
            one = json.loads(path.read_text())
        except ValueError:
            continue
        count += 1
        error = next(check.iter_errors(one), None)
        assert error is None, f"{path}: {error.json_path}: {error.message}"
    assert count
    assert not check.is_valid({"task_id": 5, "run_id": 5})
