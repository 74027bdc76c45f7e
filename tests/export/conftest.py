"""Receivers in the test process that misbehave on demand: the mode is in the path (HTTP) or the metadata (gRPC)."""

from __future__ import annotations

import gzip
import json
import os
import socket
import socketserver
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from spanport.cli import group
from spanport.converters import ids
from spanport.converters.model import (
    Attempt,
    Error,
    Item,
    Message,
    ModelRequest,
    Run,
    Score,
    TextPart,
    ToolCall,
    ToolCallPart,
    TraceHeader,
    Usage,
    raw,
)

SECOND = 1_000_000_000
START = 1_790_000_000_000_000_000


def items(key: str = "1", turns: int = 3, start: int = START, text: str = "question") -> list[Item]:
    """A run with one attempt and ``turns`` times a request and a tool call: 2 * turns + 2 spans, the root last."""
    trace = ids.trace_id("simlab", key)
    run, attempt = ids.span_id(trace, "run"), ids.span_id(trace, "run", "a1")
    out: list[Item] = [TraceHeader(id=trace, family="simlab", format="spanport", run_key=[key])]
    for i in range(turns):
        request, call, at = ids.span_id(trace, f"r{i}"), ids.span_id(trace, f"c{i}"), start + i * SECOND
        failed = i == 1
        out.append(
            ModelRequest(
                id=request,
                trace_id=trace,
                name="gpt-x",
                model="gpt-x",
                provider="openai",
                key=f"r{i}",
                parent_id=attempt,
                start=at,
                end=at + SECOND // 2,
                input_messages=[Message(role="user", parts=[TextPart(content=f"{text} {i}")])],
                output_messages=[
                    Message(
                        role="assistant",
                        parts=[ToolCallPart(name="bash", id=f"c{i}", arguments=raw({"cmd": "ls"}))],
                        finish_reason="tool_call",
                    )
                ],
                usage=Usage(input=100, output=10),
                conversation_id="conv",
            )
        )
        out.append(
            ToolCall(
                id=call,
                trace_id=trace,
                name="bash",
                key=f"c{i}",
                parent_id=attempt,
                start=at + SECOND // 2,
                end=at + SECOND,
                call_id=f"c{i}",
                arguments=raw({"cmd": "ls"}),
                result=raw("ok"),
                requested_by=request,
                status="error" if failed else "ok",
                outcome="error" if failed else "ok",
                error=Error(type="tool", message="boom") if failed else None,
            )
        )
    out.append(
        Attempt(
            id=attempt,
            trace_id=trace,
            name="a",
            key="a1",
            parent_id=run,
            number=1,
            start=start,
            end=start + turns * SECOND,
            scores=[Score(name="reward", value=1.0, label="pass")],
        )
    )
    out.append(
        Run(
            id=run,
            trace_id=trace,
            name="agent",
            key="run",
            start=start,
            end=start + turns * SECOND,
            input=raw("do it"),
            output=raw({"done": True}),
            conversation_id="conv",
        )
    )
    return out


def write_items(path: Path, given: list[Item]) -> Path:
    encoder = msgspec.json.Encoder()
    path.write_bytes(b"".join(encoder.encode(i) + b"\n" for i in given))
    return path


@pytest.fixture
def make() -> Callable[..., list[Item]]:
    return items


@pytest.fixture
def document(tmp_path: Path) -> Callable[..., Path]:
    """A model document on disk: `document(name, key=…, turns=…)`."""

    def written(name: str = "run", **given: Any) -> Path:
        return write_items(tmp_path / f"{name}.spanport.jsonl", items(**given))

    return written


@dataclass
class Received:
    """One request as it came: path, headers (names in lower case), decoded spans."""

    path: str
    headers: dict[str, str]
    body: bytes
    request: Any

    @property
    def spans(self) -> list[Span]:
        return [s for r in self.request.resource_spans for c in r.scope_spans for s in c.spans]


@dataclass
class Fake:
    """A receiver. ``modes``: what the next requests are answered with, then `then`. A mode is a function of (handler, received)."""

    url: str = ""
    port: int = 0
    got: list[Received] = field(default_factory=list)
    tries: dict[str, int] = field(default_factory=dict)
    respond: Callable[[Any, Received], None] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def spans(self) -> list[Span]:
        return [s for r in self.got for s in r.spans]


def answer(handler: Any, status: int = 200, body: bytes = b"", content_type: str = "application/x-protobuf", **headers: str) -> None:
    """A whole HTTP answer."""
    handler.send(
        status,
        body,
        {"Content-Type": content_type, "Content-Length": str(len(body)), **{k.replace("_", "-"): v for k, v in headers.items()}},
    )


class _Handler(socketserver.StreamRequestHandler):
    """A small HTTP/1.1 server with the socket at hand, so that it can break off anywhere."""

    fake: Fake

    def handle(self) -> None:
        while not self.rfile.closed:
            try:
                line = self.rfile.readline().decode("latin-1").split()
            except (OSError, ValueError):
                return
            if len(line) != 3 or not line[2].startswith("HTTP/"):
                if line:
                    self.send(400, b"", {"Content-Length": "0", "Connection": "close"})
                return
            headers: dict[str, str] = {}
            while (text := self.rfile.readline().decode("latin-1").strip()) != "":
                name, _, value = text.partition(":")
                headers[name.strip().lower()] = value.strip()
            body = self.rfile.read(int(headers.get("content-length", 0)))
            match headers.get("content-encoding"):
                case "gzip":
                    body = gzip.decompress(body)
                case "deflate":
                    body = zlib.decompress(body)
            request: Any = None
            if "json" in headers.get("content-type", ""):
                request = json.loads(body)
            elif line[0] == "POST":
                request = ExportTraceServiceRequest.FromString(body)
            got = Received(line[1], headers, body, request)
            with self.fake.lock:
                self.fake.got.append(got)
                self.fake.tries[line[1]] = self.fake.tries.get(line[1], 0) + 1
            try:
                (self.fake.respond or _by_path)(self, got)
            except (OSError, ConnectionError):
                return

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Status", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        self.wfile.write("\r\n".join(lines).encode("latin-1") + body)
        self.wfile.flush()

    def reset(self) -> None:
        """RST instead of an answer."""
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.close()
        self.rfile.close()


def partial(rejected: int, message: str = "") -> bytes:
    found = ExportTraceServiceResponse()
    found.partial_success.rejected_spans = rejected
    found.partial_success.error_message = message
    body: bytes = found.SerializeToString()
    return body


def _by_path(handler: Any, got: Received) -> None:
    """Modes: ``/status/N``, ``/partial/N``, ``/warning``, ``/html``, ``/redirect/N``, ``/then-ok/N/TIMES``, ``/after/S/N/TIMES`` (Retry-After),
    ``/date/S`` …; anything else is accepted."""
    mode, *rest = got.path.removesuffix("/v1/traces").strip("/").split("/")
    tries = handler.fake.tries[got.path]
    match mode:
        case "status":
            answer(handler, int(rest[0]), b"" if rest[0] in ("202", "204") else f"code {rest[0]}: {'why ' * 100}".encode(), "text/plain")
        case "partial":
            answer(handler, body=partial(int(rest[0]), "quota"))
        case "warning":
            answer(handler, body=partial(0, "be careful"))
        case "html":
            answer(handler, body=b"<!DOCTYPE html><title>Log in</title>", content_type="text/html")
        case "redirect":
            answer(handler, int(rest[0]), Location="http://elsewhere.example/v1/traces")
        case "then-ok" if tries <= int(rest[1]):
            answer(handler, int(rest[0]))
        case "after" if tries <= int(rest[2]):
            answer(handler, int(rest[1]), Retry_After=rest[0])
        case "date" if tries == 1:
            answer(handler, 429, Retry_After=time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + int(rest[0]))))
        case "slow":
            time.sleep(float(rest[0]))
            answer(handler)
        case "never":
            time.sleep(5)
            handler.reset()
        case "trickle":  # whole headers, then a byte now and then
            handler.send(200, b"", {"Content-Type": "application/x-protobuf", "Content-Length": "60"})
            for _ in range(60):
                handler.wfile.write(b"\0")
                handler.wfile.flush()
                time.sleep(0.1)
        case "trickle-head":
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 40:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                time.sleep(0.1)
        case "reset":
            handler.reset()
        case "reset-once" if tries == 1:
            handler.reset()
        case "close":
            handler.rfile.close()
            handler.request.shutdown(socket.SHUT_RDWR)
        case "garbage":
            handler.wfile.write(b"\x15\x03\x01\x00\x02\x02\n\n" * 4)
            handler.request.shutdown(socket.SHUT_RDWR)
            handler.rfile.close()
        case "cut":
            handler.send(200, partial(0, "x")[:3], {"Content-Type": "application/x-protobuf", "Content-Length": "500"})
            handler.request.shutdown(socket.SHUT_RDWR)
            handler.rfile.close()
        case "cut-once" if tries == 1:
            handler.send(200, b"\x0a", {"Content-Type": "application/x-protobuf", "Content-Length": "500"})
            handler.request.shutdown(socket.SHUT_RDWR)
            handler.rfile.close()
        case "larger" if len(got.body) > int(rest[0]):
            answer(handler, 413, b"too large", "text/plain")
        case "bad" if any(s.name == "execute_tool bad" for s in got.spans):
            answer(handler, int(rest[0]), b"span is bad", "text/plain")
        case "json":
            answer(handler, body=b'{"partialSuccess":{}}', content_type="application/json")
        case "json-partial":
            answer(handler, body=b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"quota"}}', content_type="application/json")
        case _:
            answer(handler)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@pytest.fixture
def receiver() -> Iterator[Fake]:
    """A receiver on 127.0.0.1."""
    fake = Fake()
    handler = type("Handler", (_Handler,), {"fake": fake})
    server = _Server(("127.0.0.1", 0), handler)
    fake.port = server.server_address[1]
    fake.url = f"http://127.0.0.1:{fake.port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield fake
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the machine, and a state directory of the test's own."""
    for name in list(os.environ):
        if name.startswith("OTEL_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def spanport() -> Callable[..., Result]:
    """The command in this process; standard output and error apart."""

    def run(*args: Any) -> Result:
        return CliRunner().invoke(group, [str(a) for a in args], prog_name="spanport")

    return run


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    import subprocess

    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-keyout",
            str(key),
            "-out",
            str(cert),
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )
    return cert, key
