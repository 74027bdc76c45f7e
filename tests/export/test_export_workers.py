"""Export by several processes: each sends what it reads, and the account is one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
RUN = FIXTURES / "agentcompass" / "mini-swe-agent"


def account(done):
    found = json.loads(Path("summary.json").read_text())
    assert found["read"] == found["accepted"] + found["rejected"] + found["failed"] + sum(found["left_out"].values()), found
    return found


def sent(receiver):
    """What arrived, by trace and span."""
    return {(s.trace_id, s.span_id): s.SerializeToString() for s in receiver.spans}


def test_inputs_are_shared_out_and_the_account_is_one(spanport, receiver, document, tmp_path):
    for i in range(6):
        document(f"run{i}", key=str(i), turns=2 + i)
    (tmp_path / "bad.jsonl").write_text('{"kind": "trace"\n')
    runs = sorted(tmp_path.glob("*.jsonl"))
    here = spanport("export", *runs, "--endpoint", receiver.url, "--summary-json", "summary.json")
    one, first = account(here), sent(receiver)
    receiver.got.clear()
    both = spanport("export", *runs, "--endpoint", receiver.url, "--summary-json", "summary.json", "-j", "2")
    assert both.exit_code == here.exit_code == 3
    two = account(both)
    assert two["read"] == sum(2 * (2 + i) + 2 for i in range(6)) == len(first)
    assert sent(receiver) == first
    for name in ("read", "accepted", "traces", "first_time_ns", "last_time_ns", "inputs", "bytes", "redacted"):
        assert two[name] == one[name], name


def test_the_tasks_of_one_run_are_shared_out(spanport, receiver):
    spanport("export", RUN, "--endpoint", receiver.url, "--summary-json", "summary.json")
    one, first = account(None), sent(receiver)
    receiver.got.clear()
    done = spanport("export", RUN, "--endpoint", receiver.url, "--summary-json", "summary.json", "-j", "2")
    assert done.exit_code == 0, done.output
    two = account(done)
    assert sent(receiver) == first
    assert len(receiver.got) == 2  # one request of each process
    assert (two["read"], two["traces"], two["accepted"]) == (one["read"], 1, one["read"])


def test_what_is_refused_is_counted_in_all_processes(spanport, receiver, document):
    runs = [document(f"run{i}", key=str(i)) for i in range(4)]
    done = spanport("export", *runs, "--endpoint", f"{receiver.url}/status/401", "--summary-json", "summary.json", "-j", "2")
    assert done.exit_code == 1
    found = account(done)
    assert (found["read"], found["failed"], found["spooled"], found["accepted"]) == (32, 32, 32, 0)
    again = spanport("resend", "--endpoint", receiver.url)
    assert again.exit_code == 0, again.output
    assert {p for p in receiver.tries if "status" not in p} == {"/v1/traces"}


def test_resume_comes_back_to_what_was_refused(spanport, receiver, document):
    runs = [document(f"run{i}", key=str(i)) for i in range(3)]
    where = ("--endpoint", f"{receiver.url}/then-ok/400/1", "--resume", "--no-spool", "--summary-json", "summary.json", "-j", "2")
    spanport("export", *runs, *where)
    done = account(None)["accepted"]
    spanport("export", *runs, *where)
    assert done + account(None)["accepted"] >= 24 - 8
    receiver.got.clear()
    spanport("export", *runs, *where)
    assert not receiver.got


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals of POSIX")
def test_a_signal_ends_all_processes_in_order(receiver, document, tmp_path):
    runs = [document(f"run{i}", key=str(i)) for i in range(8)]
    command = [sys.executable, "-m", "spanport", "export", *map(str, runs), "--endpoint", f"{receiver.url}/slow/1", "-j", "2"]
    process = subprocess.Popen([*command, "--summary-json", "summary.json"], stderr=subprocess.PIPE, start_new_session=True, env=os.environ)
    until = time.monotonic() + 20
    while not receiver.got and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err.decode()
    assert b"Traceback" not in err
    found = account(None)
    assert found["read"] == 64
    assert found["failed"] == found["spooled"] > 0


def test_what_needs_one_process_says_so(spanport, document):
    run = document("run")
    assert spanport("export", run, "-j", "2", "--follow", "--endpoint", "http://127.0.0.1:1").exit_code == 2
    ledger = ("--engine", "dask://127.0.0.1:1", "--endpoint", "http://127.0.0.1:1", "--ledger")
    done = spanport("export", run, *ledger)
    assert done.exit_code == 2
    assert "--no-ledger" in done.output


def test_sending_overlaps_with_reading(receiver, make):
    from spanport.exporters.export import Plan, send
    from spanport.exporters.otlp.batch import Limits
    from spanport.exporters.otlp.settings import Destination

    def runs():
        for i in range(6):
            yield from make(key=str(i))
        until = time.monotonic() + 10
        while not receiver.got and time.monotonic() < until:  # what was read goes while this still reads
            time.sleep(0.01)
        assert receiver.got
        yield from make(key="last")

    found = send(runs(), Destination(url=f"{receiver.url}/v1/traces"), Plan(limits=Limits(bytes=8000)))
    assert (found.read, found.accepted, found.traces) == (56, 56, 7)
    assert all(r.spans[0].parent_span_id == b"" for r in receiver.got)  # each trace whole, its root first


def test_a_slow_receiver_holds_the_reading_back(receiver, make):
    from spanport.exporters.export import Plan, send
    from spanport.exporters.otlp.batch import Limits
    from spanport.exporters.otlp.settings import Destination

    ahead = 0

    def runs():
        nonlocal ahead
        for i in range(12):
            ahead = max(ahead, i - len(receiver.got))
            yield from make(key=str(i))

    send(runs(), Destination(url=f"{receiver.url}/slow/0.1/v1/traces"), Plan(limits=Limits(bytes=8000)))
    assert len(receiver.got) >= 4
    assert ahead <= 8  # one request under way, one that waits, one that is filled: not all twelve


def test_one_large_file_is_worth_several_processes(spanport, receiver, monkeypatch):
    """Without being asked: the tasks are shared out, and the account is that of one process."""
    monkeypatch.setattr("spanport.converters.registry.WORTH", 1000)
    monkeypatch.setattr("spanport.converters.agentcompass.stream.WORTH", 1000)
    monkeypatch.setattr("spanport.exporters.engine.processors", lambda: 2)
    monkeypatch.setattr("spanport.exporters.batch.MANY", 2)
    run = RUN / "progress.jsonl"
    spanport("export", run, "--endpoint", receiver.url, "--summary-json", "summary.json", "-j", "1")
    one, first, requests = account(None), sent(receiver), len(receiver.got)
    receiver.got.clear()
    done = spanport("export", run, "--endpoint", receiver.url, "--summary-json", "summary.json")
    assert done.exit_code == 0, done.output
    two = account(done)
    assert sent(receiver) == first
    assert (requests, len(receiver.got)) == (1, 2)
    assert (two["read"], two["traces"], two["accepted"]) == (one["read"], 1, one["read"])
