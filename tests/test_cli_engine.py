"""The local engine: order, back-pressure, and workers that die. Work is given as expressions, since a worker can't import a test module."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from builtins import eval as run_text  # a worker imports it by name
from pathlib import Path

import pytest
from spanport.converters.errors import SpanportError, UsageError
from spanport.exporters.engine import Local, WorkerDied, in_order
from spanport.exporters.engines import open_engine

KILL = "__import__('os').kill(__import__('os').getpid(), 9)"
BENCH = Path(__file__).parent.parent / "fixtures" / "cli" / "bench.spanport.jsonl"


def kill_once(marker: Path) -> str:
    """An expression that kills its process the first time, and is 7 afterwards."""
    return f"7 if __import__('os').path.exists({str(marker)!r}) else (open({str(marker)!r}, 'w').close(), {KILL})"


@pytest.fixture(params=[1, 2])
def engine(request):
    engine = Local(request.param)
    yield engine
    engine.close()


def test_results_keep_the_order_of_the_items(engine):
    slow_first = [f"__import__('time').sleep({0.2 if i == 0 else 0}) or {i}" for i in range(30)]
    found = list(in_order(engine, run_text, slow_first))
    assert [done.result for _, done in found] == list(range(30))
    assert [item for item, _ in found] == slow_first


def test_items_are_taken_as_there_is_room(engine):
    taken = 0

    def items():
        nonlocal taken
        for i in range(200):
            taken += 1
            yield str(i)

    for n, (_, done) in enumerate(in_order(engine, run_text, items())):
        assert done.result == n
        assert taken <= n + 2 + engine.window


def test_an_exception_is_the_items_own(engine):
    found = [done for _, done in in_order(engine, run_text, ["1", "1 / 0", "3"])]
    assert [d.result for d in found] == [1, None, 3]
    assert isinstance(found[1].error, ZeroDivisionError)


def test_a_worker_that_dies_costs_nothing(tmp_path):
    engine = Local(2)
    try:
        items = [*(str(i) for i in range(10)), kill_once(tmp_path / "once"), *(str(i) for i in range(10, 20))]
        found = [done.result for _, done in in_order(engine, run_text, items)]
    finally:
        engine.close()
    assert found == [*range(10), 7, *range(10, 20)]


def test_an_item_that_kills_twice_is_given_up(tmp_path):
    engine = Local(2)
    try:
        items = [*(str(i) for i in range(10)), KILL, *(str(i) for i in range(10, 20))]
        found = [done for _, done in in_order(engine, run_text, items)]
    finally:
        engine.close()
    assert [d.result for d in found if d.error is None] == list(range(20))
    assert isinstance(found[10].error, WorkerDied)


def test_workers_that_die_whatever_they_are_given_are_no_items_fault():
    engine = Local(2)
    try:
        with pytest.raises(SpanportError, match="--jobs 1"):
            list(in_order(engine, run_text, [KILL] * 100))
    finally:
        engine.close()


def test_names():
    assert isinstance(open_engine("local", 2), Local)
    with pytest.raises(UsageError, match="no engine"):
        open_engine("colour://x")


def test_a_script_without_a_main_guard_can_use_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from spanport.exporters.engine import Local, in_order\nfrom builtins import eval as e\n"
        "engine = Local(2)\nprint([d.result for _, d in in_order(engine, e, ['1', '2', '3'])])\nengine.close()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[1, 2, 3]\n", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("threads", [0, 1])
def test_workers_end_with_a_process_that_is_killed(threads):
    """Forked (one thread), and started by a server of processes (several)."""
    script = (
        "import threading, time\nfrom spanport.exporters.engine import Local, in_order\nfrom builtins import eval as e\n"
        f"[threading.Thread(target=time.sleep, args=(60,), daemon=True).start() for _ in range({threads})]\n"
        'item = \'(os := __import__("os"), os.write(1, b"%d\\\\n" % os.getpid()), __import__("time").sleep(60))\'\n'
        "list(in_order(Local(2), e, [item] * 4))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 10
    while (left := [w for w in workers if Path(f"/proc/{w}").exists()]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


# A named pipe among the inputs holds the worker that reads it up for as long as the test likes.
@pytest.fixture
def held(tmp_path):
    """`convert -j 2` of six files and a pipe: (the process, the pipe, the outputs)."""
    (tmp_path / "in").mkdir()
    for i in range(6):
        shutil.copy(BENCH, tmp_path / "in" / f"r{i}.jsonl")
    os.mkfifo(pipe := tmp_path / "in" / "pipe.jsonl")
    names = [f"r{i}.jsonl" for i in range(3)] + ["pipe.jsonl"] + [f"r{i}.jsonl" for i in range(3, 6)]
    command = [sys.executable, "-m", "spanport", "convert", *names, "--to", "otlp-json", "-o", tmp_path / "out", "-j", "2"]
    process = subprocess.Popen(
        [*command, "--errors", tmp_path / "errors.jsonl"], cwd=tmp_path / "in", stderr=subprocess.PIPE, start_new_session=True
    )
    yield process, pipe, tmp_path / "out"
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()


def reader_of(pipe, but=0):
    """The worker that has the pipe open, and waits for what comes; another one than ``but``."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            with contextlib.suppress(OSError):
                if os.readlink(link) == str(pipe) and (pid := int(link.parts[2])) not in (os.getpid(), but):
                    return pid
    raise AssertionError("nobody reads it")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_worker_of_a_command_is_killed(held):
    process, pipe, out = held
    with open(pipe, "wb") as file:
        os.kill(first := reader_of(pipe), signal.SIGKILL)
        reader_of(pipe, but=first)
        file.write(BENCH.read_bytes())
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err.decode()
    written = [p.read_bytes() for p in out.glob("[!.]*")]  # the dead one has left its temporary file
    assert written == [(out / "r0.otlp.jsonl").read_bytes()] * 7


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_an_input_that_kills_two_workers_is_told_of(held):
    process, pipe, out = held
    with open(pipe, "wb"):
        os.kill(first := reader_of(pipe), signal.SIGKILL)
        os.kill(reader_of(pipe, but=first), signal.SIGKILL)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 3
    assert b"pipe.jsonl: the process that worked on it died, twice" in err
    assert sorted(p.name for p in out.glob("[!.]*")) == [f"r{i}.otlp.jsonl" for i in range(6)]
    told = [json.loads(line) for line in (out.parent / "errors.jsonl").read_text().splitlines()]
    assert [(t["input"], t["code"]) for t in told] == [("pipe.jsonl", "failed")]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_was_finished_before_a_signal_is_kept(held, number, status):
    process, pipe, out = held
    with open(pipe, "wb"):
        worker = reader_of(pipe)
        until = time.monotonic() + 20
        while len(list(out.glob("[!.]*"))) < 6 and time.monotonic() < until:
            time.sleep(0.02)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == status, err.decode()
    assert b"Traceback" not in err
    assert sorted(p.name for p in out.iterdir()) == [f"r{i}.otlp.jsonl" for i in range(6)]
    assert not Path(f"/proc/{worker}").exists()
