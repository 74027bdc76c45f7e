"""A format from another package, found by its entry point: listed, recognised, read, written and described like one of ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent / "plugin_example"
LINES = b'{"job":"nightly","step":"fetch","from":1780000000,"to":1780000002.5}\n{"job":"nightly","step":"load","from":1780000002.5,"to":1780000004}\n'


@pytest.fixture
def spanport(tmp_path):
    """The command with the example on the path, as an installed package is: its module and what an installer writes beside it."""
    place = tmp_path / "site"
    info = place / "spanport_toylog-1.0.dist-info"
    info.mkdir(parents=True)
    (place / "toylog.py").write_bytes((EXAMPLE / "toylog.py").read_bytes())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: spanport-toylog\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[spanport.formats]\ntoylog = toylog:FORMAT\n")

    def call(*args: object, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])}
        return subprocess.run([sys.executable, "-m", "spanport", *map(str, args)], input=input, capture_output=True, env=env, cwd=tmp_path)

    return call


def test_the_entry_point_is_that_of_the_package():
    import tomllib

    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["spanport.formats"] == {"toylog": "toylog:FORMAT"}


def test_it_is_a_format_like_any_other(spanport, tmp_path):
    path = tmp_path / "job.log"
    path.write_bytes(LINES)
    listed = {f["name"]: f for f in json.loads(spanport("formats", "--json").stdout)}
    assert listed["toylog"]["read"]
    assert listed["toylog"]["write"]
    found = json.loads(spanport("stats", "--json", path).stdout)
    assert (found["spans"]["run"], found["spans"]["attempt"], found["spans"]["tool_call"], found["duration_seconds"]) == (1, 1, 2, 4.0)
    done = spanport("convert", path, "--to", "otlp-json", "-o", "there.otlp.jsonl")
    assert done.returncode == 0, done.stderr
    done = spanport("convert", "there.otlp.jsonl", "--to", "toylog", "--no-carry", "-o", "-")
    assert [json.loads(x) for x in done.stdout.splitlines()] == [json.loads(x) for x in LINES.splitlines()], done.stderr
    assert set(json.loads(spanport("schema", "toylog").stdout)["$defs"]["Step"]["properties"]) == {"job", "step", "from", "to"}


def test_its_bad_lines_are_told_like_ours(spanport):
    done = spanport("stats", "--json", "-", input=LINES + b'{"job":5}\n')
    assert done.returncode == 3
    assert b"standard input: line 3, $.job" in done.stderr


def test_it_can_use_several_processes(spanport, tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.log").write_bytes(LINES)
    assert json.loads(spanport("stats", "--json", "-j2", tmp_path).stdout)["spans"]["tool_call"] == 6
