"""OTLP over gRPC: a channel of our own, one request a call with a real deadline, the bytes as they are. Its variables are resolved in
`settings`, in the way of the official exporter (a test compares)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from .answer import Answer, Verdict, excerpt, of_partial
from .settings import Destination, environment_headers, request_timeout

METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_VERDICTS: Final[dict[grpc.StatusCode, Verdict]] = {
    grpc.StatusCode.CANCELLED: "retry",
    grpc.StatusCode.DEADLINE_EXCEEDED: "retry",
    grpc.StatusCode.ABORTED: "retry",
    grpc.StatusCode.OUT_OF_RANGE: "retry",
    grpc.StatusCode.UNAVAILABLE: "retry",
    grpc.StatusCode.DATA_LOSS: "retry",
    grpc.StatusCode.INVALID_ARGUMENT: "invalid",
    grpc.StatusCode.UNAUTHENTICATED: "stop",
    grpc.StatusCode.PERMISSION_DENIED: "stop",
    grpc.StatusCode.UNIMPLEMENTED: "stop",
    grpc.StatusCode.NOT_FOUND: "stop",
}
_HINTS: Final = {
    grpc.StatusCode.UNAUTHENTICATED: "credentials are missing or wrong (--header, OTEL_EXPORTER_OTLP_HEADERS)",
    grpc.StatusCode.PERMISSION_DENIED: "not allowed with these credentials",
    grpc.StatusCode.UNIMPLEMENTED: "nothing takes traces there; is the address right?",
    grpc.StatusCode.NOT_FOUND: "nothing takes traces there; is the address right?",
}
# What servers say of a message over their limit: grpc (RESOURCE_EXHAUSTED) and tonic (OUT_OF_RANGE).
_SIZE = ("larger than max", "message too large", "message length too large", "message larger", "exceeds the limit", "max message size")
_TLS = ("ssl", "tls", "certificate", "handshake", "wrong_version_number")
_NOT_GRPC = ("http1", "http/1", "http2", "settings frame", "not a grpc", "connection closed by peer before")
_NO_HOST = ("name or service not known", "domain name not found", "name resolution", "no such host", "dns resolution failed")


class GrpcChannel:
    """One destination over gRPC. `send` makes one request; when ``over`` turns true it is given up."""

    def __init__(self, to: Destination, over: Callable[[], bool] = lambda: False) -> None:
        self.to, self._over = to, over
        self._timeout = request_timeout(to.timeout)
        metadata = {**environment_headers(), **to.headers}
        self._metadata = tuple((k.lower(), v) for k, v in metadata.items())
        target = urlsplit(to.url).netloc.rpartition("@")[2]
        compression = grpc.Compression.Gzip if to.compression == "gzip" else grpc.Compression.NoCompression
        options = [
            ("grpc.enable_retries", 0),  # retries are ours, with an account
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.primary_user_agent", "spanport"),
        ]
        if to.insecure:
            self._channel = grpc.insecure_channel(target, options=options, compression=compression)
        else:
            self._channel = grpc.secure_channel(target, _credentials(to), options=options, compression=compression)
        self._call = self._channel.unary_unary(METHOD)

    def send(self, body: bytes, spans: int) -> Answer:
        """One request with ``body``, which holds ``spans`` spans."""
        try:
            reply = self._call.future(body, timeout=self._timeout, metadata=self._metadata)
            while True:  # in steps, so that a signal is seen
                try:
                    answer: bytes = reply.result(timeout=0.2)
                    break
                except grpc.FutureTimeoutError:
                    if self._over():
                        reply.cancel()
                        return Answer("retry", f"{self.to.name}: given up", ambiguous=True)
        except grpc.RpcError as error:
            return of_status(error, self.to.name)
        except (grpc.FutureCancelledError, ValueError) as error:
            return Answer("failed", f"{self.to.name}: {error}")
        try:
            partial = ExportTraceServiceResponse.FromString(answer).partial_success
        except DecodeError:
            return Answer("stop", f"{self.to.name} answered with something that is no OTLP answer: {excerpt(answer)}")
        return of_partial(partial.rejected_spans, partial.error_message, spans)

    def close(self) -> None:
        self._channel.close()


def _credentials(to: Destination) -> grpc.ChannelCredentials:
    def read(path: str | None) -> bytes | None:
        return Path(path).read_bytes() if path else None

    return grpc.ssl_channel_credentials(read(to.certificate), read(to.client_key), read(to.client_certificate))


def of_status(error: Any, url: str) -> Answer:
    """The meaning of a gRPC status that is not OK."""
    code, details = error.code(), error.details() or ""
    shown = excerpt(details.encode("utf-8", "replace"))
    said = f"{code.name} from {url}" + (f": {shown}" if shown else "")
    low = details.lower()
    if code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE) and any(w in low for w in _SIZE):
        return Answer("too_large", said)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        asked = retry_info(error.trailing_metadata() or ())
        if asked is None:  # the specification: only a server that says when may be asked again
            return Answer("failed", said)
        return Answer("retry", said, retry_after=asked)
    if code is grpc.StatusCode.UNAVAILABLE:
        if any(w in low for w in _TLS):
            return Answer("stop", f"TLS with {url} failed: {shown}", unreachable=True)
        if any(w in low for w in _NOT_GRPC):
            return Answer("stop", f"{url} does not speak gRPC: {shown}; try --protocol http/protobuf", unreachable=True)
        if any(w in low for w in _NO_HOST) and "temporary" not in low and "timeout" not in low:
            return Answer("stop", f"{url}: no such host ({shown})", unreachable=True)
        return Answer(
            "retry", said, retry_after=retry_info(error.trailing_metadata() or ()), ambiguous="connect" not in low, unreachable=True
        )
    verdict = _VERDICTS.get(code, "failed")
    if verdict == "stop":
        return Answer("stop", f"{said}; {_HINTS[code]}")
    hanging = code in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
    asked = retry_info(error.trailing_metadata() or ()) if verdict == "retry" else None
    return Answer(verdict, said, retry_after=asked, ambiguous=hanging, unreachable=code is grpc.StatusCode.DEADLINE_EXCEEDED)


def retry_info(metadata: Any) -> float | None:
    """Seconds of a RetryInfo: in ``grpc-status-details-bin`` (a google.rpc.Status, the usual form), or alone."""
    for key, value in metadata:
        try:
            if key == "google.rpc.retryinfo-bin":
                return _seconds(RetryInfo.FromString(value).retry_delay)
            if key == "grpc-status-details-bin":
                for detail in Status.FromString(value).details:
                    if detail.Is(RetryInfo.DESCRIPTOR):
                        return _seconds(RetryInfo.FromString(detail.value).retry_delay)
        except (DecodeError, TypeError):
            continue
    return None


def _seconds(delay: Duration) -> float:
    return max(delay.seconds + delay.nanos / 1e9, 0.0)
