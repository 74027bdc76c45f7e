"""A Dask cluster of two worker processes on loopback, one of them killed in the middle; inputs and outputs on S3, as moto's server plays it."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from builtins import eval as run_text  # a worker imports it by name
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

distributed = pytest.importorskip("distributed")

from spanport.cli import run  # noqa: E402
from spanport.converters.errors import SpanportError  # noqa: E402
from spanport.converters.inputs import Inputs, open_input, shares  # noqa: E402
from spanport.exporters.engine import WorkerDied, in_order  # noqa: E402
from spanport.exporters.engines import open_engine  # noqa: E402

FIXTURES = Path(__file__).parent.parent / "fixtures"
BENCH = FIXTURES / "cli" / "bench.spanport.jsonl"
SPANS = 17  # in BENCH, counted by hand: fixtures/cli/README.md


@pytest.fixture(scope="module")
def bucket():
    """An S3 server on loopback, which this process, its children and the workers find by their environment."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        kind = pytest.importorskip("s3fs").S3FileSystem
        kind.clear_instance_cache()  # fsspec keeps file systems, and one that an earlier test made knows no credentials
        files = kind()
        files.mkdir("runs")
        yield files
    server.stop()


@pytest.fixture(scope="module")
def cluster(bucket):
    """Two processes of one thread each, which the cluster starts again when they die."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture
def address(cluster):
    return "dask://" + cluster.scheduler_address.removeprefix("tcp://")


def spanport(*args, cwd=None, **more):
    done = subprocess.run([sys.executable, "-m", "spanport", *map(str, args)], capture_output=True, cwd=cwd, timeout=60, **more)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


@pytest.fixture
def here(capfd):
    """The command in this process, where the libraries are loaded already: (exit status, standard error)."""

    def call(*args):
        capfd.readouterr()
        status = run([str(a) for a in args])
        return status, capfd.readouterr().err

    return call


def test_results_keep_the_order(address):
    engine = open_engine(address)
    try:
        items = [f"__import__('time').sleep({0.1 if i == 0 else 0}) or {i}" for i in range(100)]
        assert [done.result for _, done in in_order(engine, run_text, items)] == list(range(100))
        assert isinstance(next(in_order(engine, run_text, ["1 / 0"]))[1].error, ZeroDivisionError)
    finally:
        engine.close()


def test_what_a_killed_worker_had_is_done_again(cluster, address, tmp_path):
    started = tmp_path / "started"
    started.mkdir()
    engine = open_engine(address)
    begun = f"(open({str(started)!r} + '/' + str(__import__('os').getpid()), 'w').close(), __import__('time').sleep(0.05))"

    def kill_one():
        while not list(started.iterdir()):
            time.sleep(0.01)
        os.kill(int(next(started.iterdir()).name), signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        items = [f"{begun} and {i}" for i in range(40)]
        found = [done for _, done in in_order(engine, run_text, items)]
    finally:
        engine.close()
    killer.join()
    assert [done.result for done in found] == list(range(40))
    assert len(list(started.iterdir())) >= 2


def test_a_scheduler_without_spanport(bucket, tmp_path, here):
    """It passes the work on; only workers need the package."""
    (tmp_path / "none" / "spanport").mkdir(parents=True)
    (tmp_path / "none" / "spanport" / "__init__.py").write_text("raise ImportError('it is not installed here')")
    started = []

    def start(*command, **more):
        log = (tmp_path / f"{len(started)}.log").open("w")
        started.append(
            subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_" + command[0], *command[1:]], stdout=log, stderr=log, **more)
        )
        log.close()

    try:
        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", env={**os.environ, "PYTHONPATH": str(tmp_path / "none")})
        until = time.monotonic() + 30
        while not (found := re.search(r"Scheduler at: +tcp://(\S+)", (tmp_path / "0.log").read_text())) and time.monotonic() < until:
            time.sleep(0.05)
        start("worker", f"tcp://{found[1]}", "--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--no-nanny")
        (tmp_path / "bad.jsonl").write_text("{}")
        status, err = here(
            "convert", BENCH, tmp_path / "bad.jsonl", "--to", "otlp-json", "-o", tmp_path / "out/", "--engine", f"dask://{found[1]}"
        )
        assert status == 3, err
        assert "bad.jsonl: no format recognised" in err
        assert len(list((tmp_path / "out").rglob("*.jsonl"))) == 1
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(20)


def test_no_scheduler(monkeypatch):
    monkeypatch.setattr("spanport.exporters.dask.CONNECT", 0.5)
    with pytest.raises(SpanportError, match=r"no Dask scheduler answers at 127\.0\.0\.1:9"):
        open_engine("dask://127.0.0.1:9")


def test_convert_on_a_cluster(cluster, address, tmp_path):
    for i in range(12):
        (tmp_path / "in" / str(i % 3)).mkdir(parents=True, exist_ok=True)
        shutil.copy(BENCH, tmp_path / "in" / str(i % 3) / f"r{i}.jsonl")
    (tmp_path / "in" / "0" / "bad.jsonl").write_bytes(BENCH.read_bytes()[:1500] + b"\n{]\n")
    command = ["convert", "in", "--to", "otlp-json", "--errors", "errors.jsonl", "-o"]
    there = spanport(*command, "there/", "--engine", address, cwd=tmp_path)
    here = spanport(*command, "here/", "--jobs", 1, cwd=tmp_path)
    assert there.returncode == here.returncode == 3

    def tree(name):
        return {str(p.relative_to(tmp_path / name)): p.read_bytes() for p in (tmp_path / name).rglob("*.jsonl")}

    assert len(tree("there")) == 13
    assert tree("there") == tree("here")
    assert json.loads((tmp_path / "errors.jsonl").read_text().splitlines()[0])["code"]
    one = spanport("convert", "in/1/r1.jsonl", "--to", "otlp-json", "--no-carry", "--engine", address, cwd=tmp_path)
    assert one.stdout.count(b'"spanId"') >= SPANS  # standard output is here, not on the worker


@pytest.fixture
def receiver():
    """An OTLP receiver on loopback: its address, the span ids that it got, and what it is told to do at each request."""
    got, hooks = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportTraceServiceRequest.FromString(gzip.decompress(body) if self.headers["Content-Encoding"] else body)
            got.extend(s.span_id.hex() for r in request.resource_spans for c in r.scope_spans for s in c.spans)
            for hook in hooks:
                hook()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", got, hooks
    server.shutdown()
    server.server_close()


def test_workers_send_and_one_dies(cluster, address, bucket, receiver, here, tmp_path):
    url, got, hooks = receiver
    lines = BENCH.read_bytes()
    for i in range(20):  # 20 runs with ids of their own
        trace = f"{i:032x}".encode()
        bucket.pipe_file(f"runs/many/r{i:02}.jsonl", lines.replace(json.loads(lines.splitlines()[0])["id"].encode(), trace))
    dead = []

    def kill():
        if len(got) > 3 * SPANS and not dead:
            dead.append(next(nanny.pid for nanny in cluster.workers.values() if nanny.pid))
            os.kill(dead[0], signal.SIGKILL)

    hooks.append(kill)
    status, err = here(
        "export", "s3://runs/many/", "--engine", address, "--endpoint", url, "--summary-json", tmp_path / "s.json", "--no-spool"
    )
    assert (status, len(dead)) == (0, 1), err
    account = json.loads((tmp_path / "s.json").read_text())
    assert account["read"] == account["accepted"] == 20 * SPANS
    assert (account["rejected"], account["failed"], account["traces"]) == (0, 0, 20)
    assert len(got) >= 20 * SPANS  # what the dead worker had sent came again, with the same ids
    assert set(got) == {json.loads(line)["id"] for line in lines.splitlines()[1:]}


def test_ctrl_c_takes_back_what_was_not_begun(cluster, address, tmp_path):
    """Named pipes among the inputs hold both workers up."""
    (tmp_path / "in").mkdir()
    names = [tmp_path / "in" / f"r{i:02}.jsonl" for i in range(30)]
    for i, name in enumerate(names):
        os.mkfifo(name) if i > 3 else shutil.copy(BENCH, name)
    pipes = [os.open(name, os.O_RDWR) for name in names[4:]]
    out = tmp_path / "out"
    command = ["convert", *map(str, names), "--to", "otlp-json", "-o", str(out), "--engine", address]
    process = subprocess.Popen([sys.executable, "-m", "spanport", *command], stderr=subprocess.PIPE, start_new_session=True)
    try:
        until = time.monotonic() + 30
        while len(list(out.glob("[!.]*"))) < 4 and time.monotonic() < until:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err.decode()
        assert b"Traceback" not in err
        assert b"is kept" in err
        with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
            while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
                assert time.monotonic() < until
                time.sleep(0.05)
        assert [p.name for p in sorted(out.glob("[!.]*"))] == [f"r{i:02}.otlp.jsonl" for i in range(4)]
    finally:
        process.kill()
        for pipe in pipes:
            os.close(pipe)  # the workers are free again


def test_an_item_that_kills_its_workers_is_given_up(address):
    engine = open_engine(address)
    try:
        kill = "__import__('os').kill(__import__('os').getpid(), 9)"
        found = [done for _, done in in_order(engine, run_text, ["1", kill, "3"])]
    finally:
        engine.close()
    assert [d.result for d in found if d.error is None] == [1, 3]
    assert isinstance(found[1].error, WorkerDied)


def test_another_release_on_a_worker_is_told():
    from spanport.exporters.dask import _checked

    with pytest.raises(SpanportError, match="a worker has spanport"):
        _checked("0.0.0", (700, 10, 10), b"")


# ------------------------------------------------------------------------------------------------------------------ S3
def test_inputs_and_outputs_on_s3(bucket, address, tmp_path, here):
    for i in range(4):
        bucket.pipe_file(f"runs/in/{i % 2}/r{i}.jsonl", BENCH.read_bytes())
    (tmp_path / "r.jsonl").write_bytes(BENCH.read_bytes())
    here("convert", tmp_path / "r.jsonl", "--to", "otlp-json", "-o", tmp_path / "here.jsonl")
    want = (tmp_path / "here.jsonl").read_bytes()
    for engine, out in (("local", "a"), (address, "b")):
        status, err = here("convert", "s3://runs/in/", "--to", "otlp-json", "--engine", engine, "--jobs", 1, "-o", f"s3://runs/{out}/")
        assert status == 0, err
        found = sorted(bucket.find(f"runs/{out}"))
        assert found == [f"runs/{out}/{i % 2}/r{i}.otlp.jsonl" for i in (0, 2, 1, 3)]
        assert all(bucket.cat_file(name) == want for name in found)


def test_a_tree_of_runs_on_s3_is_divided(bucket, address, tmp_path, here, monkeypatch):
    """Each worker copies the runs of its share, and of the others what links need."""
    tree = tmp_path / "tree"
    for n, name in enumerate(("mini-swe-agent", "terminus2", "severity", "reused")):
        shutil.copytree(FIXTURES / "agentcompass" / name, tree / str(n) / name)
    shutil.copytree(FIXTURES / "agentcompass" / "launch", tree / "launch")
    bucket.put(f"{tree}/", "runs/tree/", recursive=True)
    status, err = here("convert", tree, "--to", "otlp-json", "--no-carry", "--jobs", 1, "-o", tmp_path / "here.jsonl")
    assert status == 0, err

    def spans(path):
        found = [
            s
            for line in path.read_bytes().splitlines()
            for r in json.loads(line)["resourceSpans"]
            for c in r["scopeSpans"]
            for s in c["spans"]
        ]
        return sorted(json.dumps(s, sort_keys=True) for s in found)

    one = next(iter(Inputs(["s3://runs/tree/"])))
    divided = shares(None, one, 2, 2)
    assert len(divided) > 3
    source = open_input(replace(one, share=divided[0]))
    copied = [p for p in source.path.rglob("*") if p.is_file()]
    assert {p.name for p in copied if "mini-swe-agent" not in p.parts} == {"progress.jsonl", "run_info.json"}
    assert len([p for p in copied if "mini-swe-agent" in p.parts]) == len([p for p in (tree / "0").rglob("*") if p.is_file()])
    to = ["convert", "s3://runs/tree/", "--to", "otlp-json", "--no-carry", "-o", str(tmp_path / "there.jsonl")]
    # A process of its own: the workers of this one may have been started before the environment held the credentials.
    done = subprocess.run([sys.executable, "-m", "spanport", *to, "--jobs", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert spans(tmp_path / "there.jsonl") == spans(tmp_path / "here.jsonl")
    status, err = here(*to, "--engine", address, "--jobs", 1)
    assert status == 0, err
    assert spans(tmp_path / "there.jsonl") == spans(tmp_path / "here.jsonl")


def test_what_s3_says_is_one_line(bucket, here):
    status, err = here("convert", "s3://runs/absent.jsonl", "--to", "otlp-json")
    assert (status, len(err.splitlines())) == (1, 1), err
    status, err = here("convert", BENCH, "--to", "otlp-json", "-o", "s3://no-such-bucket/out.jsonl")
    assert status == 1
    assert "s3://no-such-bucket/out.jsonl can't be written" in err
