"""The command as a whole: files, standard output, dry run, profiles, follow, several inputs, the summary, an independent receiver."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from spanport.exporters.export import Encoder, Plan
from spanport.exporters.otlp.account import Account
from spanport.exporters.otlp.batch import Batcher, Limits
from spanport.exporters.otlp.codec import JSON, PROTOBUF, Codec
from spanport.exporters.otlp.files import read_delimited


def span_ids(traces: Any) -> list[str]:
    return [s.span_id.hex() for r in traces.resource_spans for c in r.scope_spans for s in c.spans]


# -------------------------------------------------------------------------------------------------------------- files
def test_without_an_endpoint_a_file_is_written_and_named(document: Any, spanport: Any, make: Any) -> None:
    result = spanport("export", document("mine"))
    assert result.exit_code == 0
    assert "mine.otlp.jsonl" in result.stderr
    lines = [json.loads(x) for x in Path("mine.otlp.jsonl").read_text().splitlines()]
    spans = [s for x in lines for r in x["resourceSpans"] for c in r["scopeSpans"] for s in c["spans"]]
    assert {s["spanId"] for s in spans} == {i.id for i in make()[1:]}
    assert "parentSpanId" not in spans[0], "root first"


def test_protobuf_with_lengths(document: Any, spanport: Any, make: Any) -> None:
    assert spanport("export", document(turns=50), "-o", "run.binpb", "--max-batch-spans", "20").exit_code == 0
    with open("run.binpb", "rb") as file:
        messages = list(read_delimited(file))
    assert len(messages) == 6
    assert {i for m in messages for i in span_ids(m)} == {i.id for i in make(turns=50)[1:]}


def test_standard_output(document: Any, spanport: Any) -> None:
    result = spanport("export", document(), "-o", "-")
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["resourceSpans"]) == 1
    assert spanport("export", document(), "-o", "x.unknown").exit_code == 2


def test_a_file_that_can_not_be_finished_is_not_there(document: Any) -> None:
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
        "from spanport.cli import main; main()"
    )
    args = [sys.executable, "-c", code, "export", str(document(turns=400)), "-o", "out.jsonl"]
    done = subprocess.run(args, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert [p.name for p in Path().iterdir() if "out" in p.name] == []


# ------------------------------------------------------------------------------------------------------------ dry run
def test_a_dry_run_sends_nothing_and_tells_what_would_leave(receiver: Any, document: Any, spanport: Any) -> None:
    result = spanport("export", document(), "--endpoint", receiver.url, "--dry-run")
    assert result.exit_code == 0
    assert receiver.got == []
    assert f"{receiver.url}/v1/traces" in result.stdout
    assert re.search(r"spans: +8 of 1 trace in 1 request", result.stdout)
    assert "gen_ai.input.messages" in result.stdout
    result = spanport("export", document(), "--endpoint", receiver.url, "--dry-run", "--content", "none")
    assert re.search(r"content: +none", result.stdout)
    assert "gen_ai.input.messages" in spanport("export", document(), "--dry-run").stdout
    assert not list(Path().glob("*.otlp.jsonl"))


# ----------------------------------------------------------------------------------------------------------- profiles
def attributes(receiver: Any, name: str) -> dict[str, Any]:
    span = next(s for s in receiver.spans if s.name == name)
    return {p.key: getattr(p.value, p.value.WhichOneof("value")) for p in span.attributes}


def test_the_dialects_differ_in_the_names_that_changed(receiver: Any, make: Any, spanport: Any, tmp_path: Path) -> None:
    from msgspec.structs import replace
    from spanport.converters.model import ModelRequest, Run, Usage

    items = [replace(i, usage=Usage(input=9, output=1, cache_write=4)) if isinstance(i, ModelRequest) else i for i in make()]
    items = [replace(i, type="workflow") if isinstance(i, Run) else i for i in items]
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(i) + b"\n" for i in items))
    spanport("export", path, "--endpoint", receiver.url)
    old, root = attributes(receiver, "chat gpt-x"), attributes(receiver, "invoke_workflow agent")
    assert old["gen_ai.usage.cache_creation.input_tokens"] == 4
    assert root["gen_ai.workflow.name"] == "agent"
    receiver.got.clear()
    spanport("export", path, "--endpoint", receiver.url, "--dialect", "0.1")
    new, root = attributes(receiver, "chat gpt-x"), attributes(receiver, "invoke_workflow agent")
    assert new["gen_ai.usage.cache_write.input_tokens"] == 4
    assert "gen_ai.usage.cache_creation.input_tokens" not in new
    assert root["gen_ai.agent.name"] == "agent"
    assert receiver.got[0].request.resource_spans[0].scope_spans[0].schema_url == ""


def test_the_langfuse_profile_has_usage_that_does_not_overlap(receiver: Any, make: Any, spanport: Any, tmp_path: Path) -> None:
    from msgspec.structs import replace
    from spanport.converters.model import ModelRequest, Usage

    usage = Usage(input=100, output=50, cache_read=60, cache_write=10, reasoning=20)
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(replace(i, usage=usage) if isinstance(i, ModelRequest) else i) + b"\n" for i in make()))
    spanport("export", path, "--endpoint", receiver.url, "--profile", "langfuse")
    found = json.loads(attributes(receiver, "chat gpt-x")["langfuse.observation.usage_details"])
    assert found == {"input": 30, "input_cached_tokens": 60, "input_cache_creation": 10, "output": 30, "output_reasoning_tokens": 20}
    assert attributes(receiver, "chat gpt-x")["langfuse.observation.type"] == "generation"
    assert attributes(receiver, "invoke_agent agent")["langfuse.session.id"] == "conv"
    assert not any("usage" in k for k in attributes(receiver, "invoke_agent agent"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--profile", "phoenix", "--protocol", "http/json"], "phoenix does not take http/json"),
        (["--profile", "mlflow", "--protocol", "grpc"], "mlflow does not take grpc"),
        (["--project", "x"], "--project means nothing"),
        (["--verify"], "--profile phoenix or mlflow"),
        (["--scores", "--profile", "langfuse"], "--profile phoenix or mlflow"),
        (["--follow", "--select", "status=error"], "exclude each other"),
        (["--header", "novalue"], "KEY=VALUE"),
        (["--max-attribute-bytes", "lots"], "bytes"),
        (["--shift-time", "yesterday"], "now"),
        (["--redact", "("], "regular expression"),
        (["--certificate", "nowhere.pem"], "no file"),
    ],
)
def test_wrong_usage_is_said_in_one_line(receiver: Any, document: Any, spanport: Any, options: list[str], says: str) -> None:
    result = spanport("export", document(), "--endpoint", receiver.url, *options)
    assert result.exit_code == 2, result.stderr
    assert says in result.stderr
    assert receiver.got == []


def test_resource_and_service_name(receiver: Any, document: Any, spanport: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def resource() -> dict[str, str]:
        held = receiver.got[-1].request.resource_spans[0].resource.attributes
        return {p.key: p.value.string_value for p in held}

    spanport("export", document(), "--endpoint", receiver.url)
    assert resource()["service.name"] == "simlab"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab%201,team=red")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-environment")
    spanport("export", document(), "--endpoint", receiver.url)
    assert resource()["service.name"] == "from-environment"
    assert resource()["deployment.environment.name"] == "lab 1"
    spanport("export", document(), "--endpoint", receiver.url, "--service-name", "mine", "--resource", "team=blue")
    assert (resource()["service.name"], resource()["team"]) == ("mine", "blue")


def test_nothing_is_carried_unless_asked(receiver: Any, make: Any, spanport: Any, tmp_path: Path) -> None:
    from msgspec.structs import replace
    from spanport.converters.model import Run, raw

    path = tmp_path / "r.jsonl"
    path.write_bytes(
        b"".join(msgspec.json.encode(replace(i, source={"odd": raw("UNTYPED")}) if isinstance(i, Run) else i) + b"\n" for i in make())
    )
    spanport("export", path, "--endpoint", receiver.url)
    assert b"UNTYPED" not in receiver.got[0].body
    spanport("export", path, "--endpoint", receiver.url, "--carry")
    assert b"UNTYPED" in receiver.got[1].body


def test_old_spans_are_warned_about_before_they_are_sent(receiver: Any, document: Any, spanport: Any) -> None:
    result = spanport("export", document(start=1_600_000_000_000_000_000), "--endpoint", receiver.url)
    assert "days old" in result.stderr.splitlines()[0]
    result = spanport("export", document(start=1_600_000_000_000_000_000), "--endpoint", receiver.url, "--shift-time", "now")
    assert "old" not in result.stderr


# --------------------------------------------------------------------------------------------------------- many inputs
def test_several_inputs_are_one_export_and_a_bad_one_stops_nothing(receiver: Any, document: Any, spanport: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    result = spanport(
        "export", document("a", key="a"), "bad.json", document("b", key="b"), "--endpoint", receiver.url, "--summary-json", "-"
    )
    assert result.exit_code == 3
    assert "bad.json" in result.stderr
    found = json.loads(result.stdout)
    assert (found["accepted"], found["traces"], found["requests"], found["inputs"]) == (16, 2, 1, {"done": 2, "failed": 1, "skipped": 0})


def test_the_same_record_twice_is_sent_once(receiver: Any, document: Any, spanport: Any) -> None:
    result = spanport("export", document("a"), document("b"), "--endpoint", receiver.url, "--summary-json", "-")
    found = json.loads(result.stdout)
    assert (found["read"], found["accepted"], found["left_out"]) == (16, 8, {"twice": 8})


def test_resume_skips_what_was_sent_and_not_what_failed(receiver: Any, document: Any, spanport: Any) -> None:
    runs = [document(k, key=k) for k in "abc"]

    def one_fails(handler: Any, got: Any) -> None:
        bad = any(s.trace_id.hex() == failing for s in got.spans)
        handler.send(500 if bad else 200, b"", {"Content-Length": "0"})

    from spanport.converters import ids

    failing = ids.trace_id("simlab", "b")
    receiver.respond = one_fails
    assert spanport("export", *runs, "--endpoint", receiver.url, "--resume", "--no-spool").exit_code == 3
    receiver.respond = None
    receiver.got.clear()
    result = spanport("export", *runs, "--endpoint", receiver.url, "--resume")
    assert result.exit_code == 0
    assert {s.trace_id.hex() for s in receiver.spans} == {failing}
    assert "2 inputs were sent there before" in result.stderr
    receiver.got.clear()
    spanport("export", *runs, "--endpoint", receiver.url, "--resume", "--content", "none")
    assert len(receiver.spans) == 24, "other options, another output"


def test_a_large_trace_is_warned_about(receiver: Any, make: Any, spanport: Any, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(i) + b"\n" for i in make(turns=60, text="words " * 20_000)))
    result = spanport("export", path, "--endpoint", receiver.url)
    assert "--trace-per" in result.stderr
    assert result.exit_code == 0


def test_a_stream_is_sent_as_it_comes(receiver: Any, make: Any) -> None:
    """Standard input, followed: each span goes as soon as it is complete, the root last."""
    encoder = msgspec.json.Encoder()
    running = subprocess.Popen(
        [sys.executable, "-m", "spanport", "export", "-", "--follow", "--endpoint", receiver.url],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ.copy(),
    )
    assert running.stdin is not None
    items = make()
    for n, item in enumerate(items):
        running.stdin.write(encoder.encode(item) + b"\n")
        running.stdin.flush()
        if n in (0, 1):
            continue
        until = time.monotonic() + 20
        while len(receiver.spans) < n and time.monotonic() < until:
            time.sleep(0.02)
        assert len(receiver.spans) == n, "it is there while the stream is still open"
    running.stdin.close()
    assert running.wait(20) == 0
    assert [s.span_id.hex() for s in receiver.spans] == [i.id for i in items[1:]]
    assert receiver.spans[-1].parent_span_id == b""


# ---------------------------------------------------------------------------------------------------------- batching
def test_memory_is_bounded_and_a_trace_is_whole_where_it_fits(make: Any) -> None:
    plan = Plan(limits=Limits(bytes=50_000, spans=1000, hold=200_000))
    encoder, batcher = Encoder(PROTOBUF, plan, Account()), Batcher(PROTOBUF, plan.limits)
    out: list[Any] = []
    for n in range(60):
        for item in make(str(n), turns=4):
            if (made := encoder.encode(item)) is not None:
                out.extend(batcher.add(*made))
    out.extend(batcher.flush())
    assert sum(map(len, out)) == 600
    for request in out:
        body = PROTOBUF.request(request)
        assert len(body) <= 50_000
        found = ExportTraceServiceRequest.FromString(body)
        for group in found.resource_spans:
            assert len(group.scope_spans[0].spans) == 10, "no trace is torn"
            assert group.scope_spans[0].spans[0].parent_span_id == b"", "root first"


def test_a_trace_larger_than_what_is_held_streams_root_last(make: Any) -> None:
    plan = Plan(limits=Limits(bytes=20_000, hold=60_000))
    encoder, batcher = Encoder(PROTOBUF, plan, Account()), Batcher(PROTOBUF, plan.limits)
    out: list[Any] = []
    for item in make(turns=400):
        if (made := encoder.encode(item)) is not None:
            out.extend(batcher.add(*made))
    early = sum(map(len, out))
    out.extend(batcher.flush())
    assert early > 600, "most of it went before the end came"
    pieces = [p for request in out for p in request]
    assert len(pieces) == 802
    assert pieces[-1].root


@pytest.mark.parametrize("codec", [PROTOBUF, JSON])
def test_the_size_of_a_request_is_known_before_it_is_made(make: Any, codec: Codec) -> None:
    from spanport.exporters.otlp.codec import PIECE_ROOM

    encoder = Encoder(codec, Plan(), Account())
    pieces = [made[0] for item in make(turns=20) if (made := encoder.encode(item)) is not None]
    counted = sum(len(p.data) + PIECE_ROOM for p in pieces) + codec.room(pieces[0].envelope)
    assert len(codec.request(pieces)) <= counted <= len(codec.request(pieces)) * 1.05 + 100
    assert codec.span(codec.flat(pieces[3].data)) == pieces[3].data, "there and back"


def test_one_oversize_span_is_shortened_before_it_is_sent(receiver: Any, make: Any, spanport: Any, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(i) + b"\n" for i in make(turns=1, text="words " * 50_000)))
    result = spanport("export", path, "--endpoint", receiver.url, "--max-batch-bytes", "64KiB", "--summary-json", "-")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["shortened_spans"] == 1
    assert all(len(r.body) <= 64 << 10 for r in receiver.got)


# ------------------------------------------------------------------------------------------- an independent receiver
@pytest.fixture
def rotel(tmp_path: Path) -> Any:
    """rotel: a receiver written in Rust by others, strict about JSON; it says in its log what it took. Skipped where its wheel is not installed."""
    rotel_package = pytest.importorskip("rotel", reason="pip install rotel==0.0.1a15")
    agent = Path(rotel_package.__file__).with_name("rotel-agent")
    ports = []
    for _ in range(2):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
    log = tmp_path / "rotel.log"
    args = [str(agent), "start", "--exporter", "blackhole", "--debug-log", "traces", "--debug-log-verbosity", "detailed"]
    args += ["--otlp-grpc-endpoint", f"127.0.0.1:{ports[0]}", "--otlp-http-endpoint", f"127.0.0.1:{ports[1]}"]
    with log.open("wb") as out:
        running = subprocess.Popen(args, stdout=out, stderr=out)
    until = time.monotonic() + 20
    for port in ports:
        while time.monotonic() < until:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
    yield {"grpc": f"http://127.0.0.1:{ports[0]}", "http": f"http://127.0.0.1:{ports[1]}", "log": log}
    running.terminate()
    running.wait(10)


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf", "http/json"])
@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_an_independent_receiver_takes_every_encoding(
    rotel: Any, document: Any, spanport: Any, make: Any, protocol: str, compression: str
) -> None:
    endpoint = rotel["grpc" if protocol == "grpc" else "http"]
    result = spanport("export", document(), "--endpoint", endpoint, "--protocol", protocol, "--compression", compression)
    assert result.exit_code == 0, result.stderr
    wanted = {i.id for i in make()[1:]}
    until = time.monotonic() + 10
    while time.monotonic() < until:
        text = rotel["log"].read_text(errors="replace")
        if all(i in text for i in wanted):
            break
        time.sleep(0.1)
    assert all(i in text for i in wanted)


def test_files_are_read_by_the_official_classes(document: Any, spanport: Any) -> None:
    from google.protobuf import json_format

    spanport("export", document(), "-o", "a.jsonl")
    line = json.loads(Path("a.jsonl").read_text())
    for group in line["resourceSpans"]:
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:  # the official JSON mapping has base64 where OTLP has hex
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        import base64

                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    parsed = json_format.ParseDict(line, TracesData())
    assert len(span_ids(parsed)) == 8


# ----------------------------------------------------------------------------------------------------------- a library
def test_export_as_a_library(receiver: Any, document: Any, make: Any) -> None:
    import spanport
    from spanport.converters.errors import UsageError

    account = spanport.export(document(), receiver.url)
    assert (account.accepted, account.status()) == (8, 0)
    assert spanport.export(make(), receiver.url, select=["status=error"]).accepted == 3
    assert spanport.export(spanport.read(document()), receiver.url, profile="phoenix", project="p").accepted == 8
    failed = spanport.export(document(), receiver.url + "/status/500", spool="spool")
    assert (failed.failed, failed.spooled) == (8, 8)
    with pytest.raises(UsageError):
        spanport.export(document())


# ------------------------------------------------------------------------------------------------------------- batches
@pytest.mark.parametrize("jobs", [[], ["-j", "2"]])
def test_progress_and_on_error(spanport: Any, receiver: Any, document: Any, jobs: list[str], tmp_path: Path) -> None:
    bad = tmp_path / "b.jsonl"
    bad.write_text("no run\n")
    runs = [document("a"), bad, document("c", key="2")]
    done = spanport("export", *runs, "--endpoint", receiver.url, "--progress", "plain", *jobs)
    assert done.exit_code == 3
    assert "3 of 3 inputs" in done.output
    assert sum(len(got.spans) for got in receiver.got) == 16
    receiver.got.clear()
    done = spanport("export", *runs, "--endpoint", receiver.url, "--on-error", "stop", "-j", "1")
    assert done.exit_code == 3
    assert sum(len(got.spans) for got in receiver.got) == 8


def test_a_folder_gets_a_file_for_each_input(spanport: Any, document: Any, tmp_path: Path) -> None:
    import spanport as library

    done = spanport("export", document("a"), document("b", key="2"), "-o", f"{tmp_path}/out/", "--encoding", "protobuf")
    assert done.exit_code == 0
    written = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in written] == ["a.otlp.pb", "b.otlp.pb"]
    assert library.stats(written).spans == library.stats([document("a"), document("b", key="2")]).spans


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_spans_of_a_file_that_is_not_written_are_not_accepted(spanport: Any, document: Any, tmp_path: Path, jobs: str) -> None:
    """Two inputs of one name, and one that ends badly: what has no file has not arrived."""
    first, other = document("a"), tmp_path / "b" / "a.spanport.jsonl"
    other.parent.mkdir()
    other.write_bytes(document("c", key="2").read_bytes())
    broken = tmp_path / "d.spanport.jsonl"
    broken.write_bytes(document("e", key="3").read_bytes() + b"{broken")
    done = spanport("export", first, other, broken, "--strict", "-o", f"{tmp_path}/out/", "-j", jobs, "--summary-json", "s.json")
    summary = json.loads(Path("s.json").read_text())
    assert done.exit_code == 3
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.otlp.jsonl"]
    assert summary["accepted"] == 8
    assert summary["read"] == summary["accepted"] + summary["failed"]
    assert "its file was not written" in done.output
    again = spanport("export", tmp_path / "out" / "a.otlp.jsonl", "-o", f"{tmp_path}/out/", "-j", jobs)
    assert again.exit_code == 1
