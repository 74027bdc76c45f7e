"""One test for each row of what a gRPC server may do, and the variables of the gRPC channel against the official exporter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from spanport.exporters.export import Plan, send
from spanport.exporters.otlp.account import Account
from spanport.exporters.otlp.batch import Limits
from spanport.exporters.otlp.grpc import METHOD
from spanport.exporters.otlp.sender import Retry
from spanport.exporters.otlp.settings import destination

SPANS = 8


@dataclass
class GrpcFake:
    """``act(context, number of the call)`` aborts or gives an answer."""

    port: int = 0
    act: Callable[[Any, int], Any] = lambda context, call: None
    got: list[ExportTraceServiceRequest] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def server() -> Iterator[GrpcFake]:
    fake = GrpcFake()

    def export(body: bytes, context: Any) -> bytes:
        fake.got.append(ExportTraceServiceRequest.FromString(body))
        fake.metadata.append({m.key: m.value for m in context.invocation_metadata()})
        answer = fake.act(context, len(fake.got))
        return answer if answer is not None else ExportTraceServiceResponse().SerializeToString()

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(export) if details.method == METHOD else None

    running = grpc.server(ThreadPoolExecutor(4), handlers=[Handler()])
    fake.port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    yield fake
    running.stop(0)


def sent(make: Any, url: str, total: float = 0.5, turns: int = 3, plan: Plan | None = None, **more: Any) -> Account:
    to = destination(url, "grpc", **more)
    assert to is not None
    account = send(make(turns=turns), to, plan, retry=Retry(total=total, first=0.01, floor=0.02))
    assert account.balanced, account
    return account


def aborts(
    code: grpc.StatusCode, details: str = "because", times: int = 10_000, trailing: tuple[tuple[str, bytes], ...] = ()
) -> Callable[[Any, int], Any]:
    def act(context: Any, call: int) -> Any:
        if call <= times:
            if trailing:
                context.set_trailing_metadata(trailing)
            context.abort(code, details)

    return act


def partial(rejected: int, message: str) -> bytes:
    found = ExportTraceServiceResponse()
    found.partial_success.rejected_spans = rejected
    found.partial_success.error_message = message
    body: bytes = found.SerializeToString()
    return body


def test_ok(server: GrpcFake, make: Any) -> None:
    account = sent(make, server.url, headers={"X-Project-Name": "mine"})
    assert (account.accepted, account.requests, account.status()) == (SPANS, 1, 0)
    assert server.metadata[0]["x-project-name"] == "mine", "an upper-case header is no invalid metadata"
    spans = [s for r in server.got[0].resource_spans for c in r.scope_spans for s in c.spans]
    assert {s.span_id.hex() for s in spans} == {i.id for i in make(turns=3)[1:]}


def test_partial_success(server: GrpcFake, make: Any) -> None:
    server.act = lambda context, call: partial(3, "quota")
    account = sent(make, server.url)
    assert (account.accepted, account.rejected, account.status()) == (5, 3, 3)


RETRIED = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "ABORTED", "OUT_OF_RANGE", "DATA_LOSS")


@pytest.mark.parametrize("code", RETRIED)
def test_codes_that_are_retried(server: GrpcFake, make: Any, code: str) -> None:
    server.act = aborts(grpc.StatusCode[code])
    account = sent(make, server.url, total=0.1)
    assert account.failed == SPANS
    assert account.retries >= 1
    server.got.clear()
    server.act = aborts(grpc.StatusCode[code], times=1)
    account = sent(make, server.url, total=5)
    assert (account.accepted, account.requests) == (SPANS, 2)


def test_resource_exhausted_is_retried_only_when_the_server_says_when(server: GrpcFake, make: Any) -> None:
    server.act = aborts(grpc.StatusCode.RESOURCE_EXHAUSTED, "quota")
    account = sent(make, server.url)
    assert (account.failed, account.requests) == (SPANS, 1)


def retry_details(seconds: int) -> bytes:
    info = RetryInfo(retry_delay=Duration(seconds=seconds))
    held = AnyProto()
    held.Pack(info)
    body: bytes = Status(code=8, message="slow down", details=[held]).SerializeToString()
    return body


@pytest.mark.parametrize("form", ["grpc-status-details-bin", "google.rpc.retryinfo-bin"])
def test_retry_info_in_both_forms(server: GrpcFake, make: Any, form: str) -> None:
    value = retry_details(1) if form.startswith("grpc") else RetryInfo(retry_delay=Duration(seconds=1)).SerializeToString()
    server.act = aborts(grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down", 1, ((form, value),))
    began = time.monotonic()
    account = sent(make, server.url, total=5)
    assert (account.accepted, account.requests) == (SPANS, 2)
    assert time.monotonic() - began >= 1


def test_retry_info_beyond_the_budget(server: GrpcFake, make: Any) -> None:
    server.act = aborts(grpc.StatusCode.RESOURCE_EXHAUSTED, "slow", 9, (("grpc-status-details-bin", retry_details(600)),))
    account = sent(make, server.url)
    assert (account.failed, account.requests) == (SPANS, 1)
    assert "600 s" in next(iter(account.reasons))


@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "NOT_FOUND"])
def test_codes_that_stop(server: GrpcFake, make: Any, code: str) -> None:
    server.act = aborts(grpc.StatusCode[code])
    account = sent(make, server.url, plan=Plan(limits=Limits(spans=2)))
    assert (account.failed, account.requests) == (SPANS, 1)


@pytest.mark.parametrize("code", ["INTERNAL", "UNKNOWN", "FAILED_PRECONDITION", "ALREADY_EXISTS"])
def test_codes_that_fail_one_request(server: GrpcFake, make: Any, code: str) -> None:
    server.act = aborts(grpc.StatusCode[code])
    account = sent(make, server.url, plan=Plan(limits=Limits(spans=4)))
    assert (account.failed, account.requests, account.retries) == (SPANS, 2, 0)


def test_invalid_argument_is_bisected(server: GrpcFake, make: Any) -> None:
    def act(context: Any, call: int) -> Any:
        spans = [s for r in server.got[-1].resource_spans for c in r.scope_spans for s in c.spans]
        if any(s.status.code == 2 for s in spans):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bad span")

    server.act = act
    account = sent(make, server.url)
    assert (account.accepted, account.rejected) == (7, 1)
    assert account.rejected_spans == [make(turns=3)[4].id]


def test_a_hang_ends_at_the_deadline(server: GrpcFake, make: Any) -> None:
    server.act = lambda context, call: time.sleep(1.5)
    began = time.monotonic()
    account = sent(make, server.url, total=0, timeout=0.3)
    assert time.monotonic() - began < 1.4
    assert (account.failed, account.ambiguous) == (SPANS, 1)


def test_nobody_there(make: Any) -> None:
    account = sent(make, "http://127.0.0.1:1", total=0.1)
    assert (account.failed, account.status()) == (SPANS, 1)


def test_a_message_over_the_server_s_4_mib_is_halved_not_retried(server: GrpcFake, make: Any) -> None:
    account = sent(make, server.url, turns=120, total=0.5, plan=Plan(limits=Limits(bytes=64 << 20)), compression="none")
    assert account.accepted == 242
    server.got.clear()
    items = make(turns=60, text="x" * 100_000)
    to = destination(server.url, "grpc")
    assert to is not None
    account = send(items, to, Plan(limits=Limits(bytes=64 << 20)), retry=Retry(total=0.5))
    assert account.balanced
    assert (account.accepted, account.retries) == (122, 0)
    assert account.requests > 2


@pytest.mark.parametrize("text", ["Error, decoded message length too large: found 5000000 bytes, the limit is: 4194304 bytes"])
def test_the_size_error_of_other_servers_is_known(server: GrpcFake, make: Any, text: str) -> None:
    def act(context: Any, call: int) -> Any:
        if call == 1:
            context.abort(grpc.StatusCode.OUT_OF_RANGE, text)

    server.act = act
    account = sent(make, server.url)
    assert (account.accepted, account.requests, account.retries) == (SPANS, 3, 0)


def test_an_http_1_port_is_named_as_such(receiver: Any, make: Any) -> None:
    account = sent(make, receiver.url, total=0.2)
    assert account.failed == SPANS


def test_tls_to_a_plain_port_is_not_retried(server: GrpcFake, make: Any) -> None:
    account = sent(make, server.url.replace("http", "https"), total=3)
    assert (account.failed, account.requests) == (SPANS, 1)
    assert "TLS" in next(iter(account.reasons))


def test_a_certificate_of_its_own_making(make: Any, certificate: tuple[Path, Path]) -> None:
    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(lambda body, context: b"")

    running = grpc.server(ThreadPoolExecutor(2), handlers=[Handler()])
    cert, key = certificate
    port = running.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())]))
    running.start()
    try:
        account = sent(make, f"https://localhost:{port}", total=3)
        assert (account.failed, account.requests) == (SPANS, 1)
        assert "TLS" in next(iter(account.reasons))
        assert sent(make, f"https://localhost:{port}", certificate=str(cert)).accepted == SPANS
    finally:
        running.stop(0)


def test_a_host_that_does_not_exist(make: Any) -> None:
    account = sent(make, "http://no-such-host.invalid:4317", total=0.2, timeout=2)
    assert (account.failed, account.status()) == (SPANS, 1)


def test_an_address_without_a_scheme_needs_insecure(
    server: GrpcFake, make: Any, spanport: Any, document: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = spanport("export", document(), "--protocol", "grpc", "--endpoint", f"127.0.0.1:{server.port}")
    assert result.exit_code == 2
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_INSECURE", "true")
    assert spanport("export", document(), "--protocol", "grpc", "--endpoint", f"127.0.0.1:{server.port}").exit_code == 0


# Each variable in both forms: what the official exporter makes of it, and ours.
@pytest.mark.parametrize("middle", ["", "TRACES_"])
def test_the_variables_are_read_as_the_official_exporter_does(
    server: GrpcFake, make: Any, document: Any, spanport: Any, monkeypatch: pytest.MonkeyPatch, middle: str
) -> None:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    for name, value in {
        "ENDPOINT": server.url,
        "HEADERS": "authorization=Basic%20abc,X-Upper=1",
        "COMPRESSION": "gzip",
        "TIMEOUT": "3.5",
        "PROTOCOL": "grpc",
    }.items():
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{middle}{name}", value)
    assert spanport("export", document()).exit_code == 0
    official = OTLPSpanExporter()
    official.export(())
    official.shutdown()
    ours, theirs = server.metadata
    for key in ("authorization", "x-upper"):
        assert ours[key] == theirs[key]

    from spanport.exporters.otlp.settings import request_timeout

    found = destination()
    assert found is not None
    assert found.url.removeprefix("http://") == official._endpoint
    assert found.insecure is official._insecure
    assert request_timeout(None) == official._timeout
    assert (found.compression == "gzip") == (official._compression == grpc.Compression.Gzip)


@pytest.mark.parametrize(
    ("endpoint", "insecure", "secure"),
    [
        ("http://h:1", None, False),
        ("https://h:1", None, True),
        ("http://h:1", "false", True),
        ("https://h:1", "true", True),
        ("h:1", "true", False),
    ],
)
def test_when_tls_is_used_is_decided_as_the_official_exporter_does(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, insecure: str | None, secure: bool
) -> None:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    if insecure is not None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_INSECURE", insecure)
    official = OTLPSpanExporter()
    found = destination(protocol="grpc")
    assert found is not None
    assert found.insecure is official._insecure
    assert found.insecure is not secure
    official.shutdown()
