"""Golden OTLP JSON files: one small record of a format each (the one for RunArtifacts is in test_runartifacts.py)."""

import io
import json
from pathlib import Path

import pytest
import spanport
from spanport.converters.registry import WriteOptions

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.mark.parametrize(
    ("record", "golden"),
    [
        ("agno/corpus/agno/simple/plain.run_output.json", "agno.otlp.jsonl"),
        ("agentcompass/sdk-direct/progress.jsonl", "agentcompass.otlp.jsonl"),
    ],
)
def test_the_record_gives_the_golden_file(record, golden):
    held = io.BytesIO()
    spanport.write(spanport.stream(FIXTURES / record), held, format="otlp-json", options=WriteOptions(carry=False))
    got, want = json.loads(held.getvalue()), json.loads((FIXTURES / "golden" / golden).read_bytes())
    for document in (got, want):  # the version of the package is not the record's
        for group in document["resourceSpans"]:
            for scope in group["scopeSpans"]:
                del scope["scope"]["version"]
    assert got == want
