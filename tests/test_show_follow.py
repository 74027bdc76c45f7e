"""`show --follow`: a run that goes on, as it comes; every span once, and what is open when the reading is ended."""

import signal
import subprocess
import sys
import time
from pathlib import Path

STREAM = Path(__file__).parent.parent / "fixtures" / "agentcompass" / "sdk-direct" / "progress.jsonl"
SPANS = 1 + 2 + 2 + 18  # run, tasks, attempts, phases: counted from the events without spanport (fixtures/agentcompass/expected.jsonl)


def follow(path, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "spanport", "show", "--follow", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def ended(process):
    """What is left of both outputs. Not ``communicate``, which passes over what ``readline`` has in its buffer."""
    rest, err = process.stdout.read(), process.stderr.read()
    process.wait(60)
    return rest, err


def test_each_span_as_it_comes_and_an_end_with_the_run(tmp_path):
    data = STREAM.read_bytes()
    growing = tmp_path / "progress.jsonl"
    growing.write_bytes(data[: len(data) // 2])
    process = follow(growing)
    head = [process.stdout.readline() for _ in range(4)]
    assert head[0].startswith("trace ")
    with growing.open("ab") as file:
        file.write(data[len(data) // 2 :])
    rest, err = ended(process)
    assert (process.returncode, err) == (0, "")
    assert len(head) + len(rest.splitlines()) == 1 + SPANS


def test_what_is_open_is_shown_when_the_reading_is_ended(tmp_path):
    growing = tmp_path / "progress.jsonl"
    lines = STREAM.read_bytes().splitlines(keepends=True)
    growing.write_bytes(b"".join(lines[: len(lines) // 2]))
    process = follow(growing)
    assert process.stdout.readline().startswith("trace ")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    rest, err = ended(process)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert any(" run " in line for line in rest.splitlines())
