"""OTLP over HTTP through the official exporter: it resolves address, headers, certificates and timeout, and calls our session once for each request.

The session puts the encoded batch in, sends it in a thread of its own so that nothing (a name that does not resolve, a server that sends a byte a
second) can hold it beyond the deadline, and keeps what came back; the exporter is told that all is well, since its own retries must not
happen. What the answer means is said in `answer`, retries are made in `sender`.
"""

from __future__ import annotations

import io
import re
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from requests.structures import CaseInsensitiveDict

from ...converters.errors import UsageError
from .answer import Answer, of_http
from .settings import Destination, request_timeout

MAX_BODY: Final = 64 << 10
"""Bytes of an answer that are read; the rest is cut off."""
_ATTEMPT = "spanport-attempt"
_OBJECT: Final = re.compile(r"^(?:<[^>]*>|HTTPS?Connection(?:Pool)?\([^)]*\)): |\[Errno -?\d+\] ")
"""What urllib3 puts before a reason."""


@dataclass
class _Reply:
    """What came back: a status with headers and body, or an error. ``cut``: the body broke off before its stated end."""

    status: int = 0
    headers: Any = None
    body: bytes = b""
    cut: bool = False
    error: Exception | None = None


class OneRequest(requests.Session):
    """What the official exporter takes for its session. `body` and `content_type` are sent in place of what the exporter gives; `reply` is what
    came back."""

    def __init__(self, content_type: str, compression: str, inner: requests.Session | None, over: Callable[[], bool]) -> None:
        super().__init__()
        self._over = over
        self.content_type, self.compression = content_type, compression
        self.body = b""
        self.reply = _Reply(error=RuntimeError("no request was made"))
        self.sent_to = ""
        self._own = inner is None
        self._inner = inner or requests.Session()

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **given: Any) -> requests.Response:
        headers = CaseInsensitiveDict[Any](self.headers)
        headers.update(given.get("headers") or {})
        headers["Content-Type"] = self.content_type
        headers["Accept-Encoding"] = "identity"
        body = compressed(self.body, self.compression)
        if self.compression == "none":
            headers.pop("Content-Encoding", None)
        else:
            headers["Content-Encoding"] = self.compression
        timeout = given.get("timeout") or 10.0
        # Given with each request: a session's own setting loses to REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE.
        verify = given["verify"] if given.get("verify") is not None else self.verify
        cert = given.get("cert") or self.cert
        self.sent_to = url if isinstance(url, str) else url.decode()
        self.reply = self._within(float(timeout), {"headers": dict(headers), "data": body, "verify": verify, "cert": cert})
        done = requests.Response()
        done.status_code = 200  # the exporter's own retries are not wanted, whatever came back
        done.raw = io.BytesIO()
        return done

    def _within(self, seconds: float, given: dict[str, Any]) -> _Reply:
        """The reply, or a Timeout after ``seconds`` of wall-clock time, whatever the server does meanwhile."""
        found = _Reply(error=requests.Timeout(f"no answer within {seconds:.3g} s"))
        over = threading.Event()
        until = time.monotonic() + seconds

        def attempt() -> None:
            nonlocal found
            reply = _ask(self._inner, self.sent_to, until, seconds, given)
            if not over.is_set():
                found = reply
            over.set()

        thread = threading.Thread(target=attempt, name=_ATTEMPT, daemon=True)
        thread.start()
        while not over.wait(min(max(until - time.monotonic(), 0.0), 0.2)):
            if time.monotonic() < until and not self._over():
                continue
            if self._over():
                found = _Reply(error=requests.Timeout("given up"))
            over.set()
            if self._own:  # its connection is in use by a request that is given up
                self._inner = requests.Session()
        return found

    def close(self) -> None:
        self._inner.close()
        super().close()


def _ask(session: requests.Session, url: str, until: float, seconds: float, given: dict[str, Any]) -> _Reply:
    try:
        with session.post(url, timeout=seconds, stream=True, allow_redirects=False, **given) as response:
            held = bytearray()
            read = getattr(response.raw, "read1", response.raw.read)
            while len(held) < MAX_BODY and time.monotonic() < until and (block := read(8192)):
                held += block
            reply = _Reply(response.status_code, response.headers, bytes(held[:MAX_BODY]))
            stated = response.headers.get("Content-Length", "")
            reply.cut = stated.isdigit() and len(held) < min(int(stated), MAX_BODY) and "Content-Encoding" not in response.headers
            return reply
    except requests.ReadTimeout:
        return _Reply(error=requests.Timeout(f"no answer within {seconds:.3g} s"))
    except Exception as error:  # whatever requests, urllib3 or a proxy's support raise is an answer too
        return _Reply(error=error)


def compressed(body: bytes, how: str) -> bytes:
    """``body`` in the named content encoding. Level 1: an order of magnitude faster than 9 for a fifth more bytes."""
    if how == "none":
        return body
    packer = zlib.compressobj(1, zlib.DEFLATED, 31 if how == "gzip" else 15)
    return packer.compress(body) + packer.flush()


class HttpChannel:
    """One destination over HTTP. `send` makes one request; when ``over`` turns true it is given up."""

    def __init__(self, to: Destination, over: Callable[[], bool] = lambda: False) -> None:
        self.to = to
        content_type = "application/json" if to.protocol == "http/json" else "application/x-protobuf"
        self._session = OneRequest(content_type, to.compression, _provided_session(), over)
        self._exporter = OTLPSpanExporter(
            endpoint=to.url,
            certificate_file=to.certificate,
            client_certificate_file=to.client_certificate,
            client_key_file=to.client_key,
            headers=to.headers or None,
            timeout=request_timeout(to.timeout),  # type: ignore[arg-type,unused-ignore]
            compression=Compression.NoCompression,
            session=self._session,
        )

    def send(self, body: bytes, spans: int) -> Answer:
        """One request with ``body``, which holds ``spans`` spans."""
        self._session.body = body
        self._exporter.export(())
        reply = self._session.reply
        if reply.error is not None:
            return of_error(reply.error, self.to.name)
        answer = of_http(reply.status, reply.headers, reply.body, self.to.name, spans)
        if reply.cut and answer.verdict in ("accepted", "stop") and 200 <= reply.status < 300:
            return Answer("retry", f"the answer of {self.to.name} broke off", ambiguous=True)
        return answer

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call,unused-ignore]


def of_error(error: Exception, url: str) -> Answer:
    """The meaning of a request without an answer. Only what may pass by itself is tried again: not TLS, not a wrong address."""
    text = _reason(error)
    if isinstance(error, requests.exceptions.SSLError):
        return Answer("stop", f"TLS with {url} failed: {text}", unreachable=True)
    if isinstance(error, requests.exceptions.Timeout):
        return Answer("retry", f"{url}: {text}", ambiguous=not isinstance(error, requests.ConnectTimeout), unreachable=True)
    if isinstance(
        error, requests.exceptions.ConnectionError | requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError
    ):
        never = ("Name or service not known", "No address associated", "nodename nor servname", "does not appear to be")
        if any(word in text for word in never):
            return Answer("stop", f"{url}: no such host ({text})", unreachable=True)
        before = "refused" in text or "Failed to resolve" in text or "unreachable" in text
        return Answer("retry", f"{url}: {text}", ambiguous=not before, unreachable=True)
    if isinstance(error, requests.exceptions.RequestException | ValueError | OSError):
        if "Protocol" in type(error).__name__ or "IncompleteRead" in text:
            return Answer("retry", f"{url}: {text}", ambiguous=True, unreachable=True)
        return Answer("stop", f"{url}: {text}")
    if type(error).__module__.startswith("urllib3"):
        return Answer("retry", f"{url}: {text}", ambiguous=True, unreachable=True)
    return Answer("failed", f"{url}: {text}")


def _reason(error: BaseException) -> str:
    """The innermost cause in one line: the chain of requests and urllib3 repeats itself and names objects."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        inner = getattr(error, "reason", None) or next((a for a in error.args if isinstance(a, BaseException)), None)
        if not isinstance(inner, BaseException):
            break
        error = inner
    text = next((str(a) for a in reversed(error.args) if isinstance(a, str)), str(error)) or type(error).__name__
    text = _OBJECT.sub("", text)
    return " ".join(text.split())[:200]


def _provided_session() -> requests.Session | None:
    """The session of a credential provider that the environment names, as the official exporter takes it: OTLP behind a cloud's own login."""
    import os
    from importlib.metadata import entry_points

    name = os.environ.get("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER") or os.environ.get(
        "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER"
    )
    if not name:
        return None
    for entry in entry_points(group="opentelemetry_otlp_credential_provider", name=name):
        session = entry.load()()
        if isinstance(session, requests.Session):
            return session
        raise UsageError(f"the credential provider {name!r} gives no requests.Session")
    raise UsageError(f"no credential provider {name!r} is installed")
