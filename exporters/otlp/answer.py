"""What a server's answer to one request means. Pure functions over what came back: a status and a body (HTTP), a status code and details (gRPC), or
an error of the transport. Success is only what says so.
"""

from __future__ import annotations

import math
import time
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

import msgspec
from google.protobuf.message import DecodeError
from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

Verdict = Literal["accepted", "retry", "too_large", "invalid", "failed", "stop"]
"""``accepted``: all but `Answer.rejected` were taken; ``retry``: worth another try; ``too_large``: halve it; ``invalid``: some span in it is not wanted
(400, 422): bisect; ``failed``: not this request, but others may go; ``stop``: no request of this export can succeed (credentials, address, TLS)."""


class Answer(Struct, frozen=True):
    """``text``: one line for the user. ``retry_after``: seconds the server asks for. ``ambiguous``: the server may have the spans
    all the same (a reset or a timeout after the request was sent); ``unreachable``: nobody answered at all."""

    verdict: Verdict
    text: str = ""
    rejected: int = 0
    warning: str = ""
    retry_after: float | None = None
    ambiguous: bool = False
    unreachable: bool = False


RETRY_STATUS: Final = frozenset({429, 502, 503, 504})
_STOP_STATUS: Final = {
    401: "credentials are missing or wrong (--header, OTEL_EXPORTER_OTLP_HEADERS)",
    403: "not allowed with these credentials",
    404: "nothing takes traces there; is the URL right?",
    405: "nothing takes traces there; is the URL right?",
    406: "it does not speak this protocol; try another --protocol",
    415: "it does not take this encoding; try --protocol http/protobuf",
    501: "it does not take traces",
}
EXCERPT: Final = 150
"""Bytes of an error's body that are shown."""


def excerpt(body: bytes) -> str:
    """The first bytes of a body as one printable line; the message of an OTLP Status or a JSON error when it is one."""
    text = body[:EXCERPT].decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _html(content_type: str, body: bytes) -> bool:
    return "html" in content_type or body[:64].lstrip().lower().startswith((b"<!doctype", b"<html", b"<head"))


def _response(content_type: str, body: bytes) -> tuple[int, str] | None:
    """(rejected spans, message) of an ExportTraceServiceResponse in either encoding; None when it is none. Servers are found that
    answer JSON requests in protobuf, so the content type is only tried first."""

    def proto() -> tuple[int, str]:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
        return partial.rejected_spans, partial.error_message

    def text() -> tuple[int, str]:
        found = msgspec.json.decode(body)
        if not isinstance(found, dict):
            raise ValueError
        partial = found.get("partialSuccess") or found.get("partial_success") or {}
        if not isinstance(partial, dict):
            raise ValueError
        return int(partial.get("rejectedSpans") or partial.get("rejected_spans") or 0), str(
            partial.get("errorMessage") or partial.get("error_message") or ""
        )

    ways = (text, proto) if "json" in content_type else (proto, text)
    for way in ways:
        try:
            return way()
        except (DecodeError, msgspec.DecodeError, ValueError, TypeError, RecursionError):
            continue
    return None


def retry_after(value: str | None, now: float | None = None) -> float | None:
    """Seconds that a Retry-After header asks for, in either form (a number, an HTTP date); None when there is none or it says nothing."""
    if value is None:
        return None
    try:
        seconds = float(value.strip())
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
        except (TypeError, ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def of_http(status: int, headers: Any, body: bytes, url: str, spans: int) -> Answer:
    """The meaning of an HTTP answer to a request of ``spans`` spans. ``headers`` is a mapping without regard to case."""
    kind = (headers.get("Content-Type") or "").lower()
    shown = excerpt(body) if body and not _html(kind, body) else "a web page" if body else ""
    said = f"{status} from {url}" + (f": {shown}" if shown else "")
    if 200 <= status < 300:
        if not body:
            return Answer("accepted")
        if _html(kind, body):
            return Answer(
                "stop", f"{url} answered {status} with a web page, not as OTLP does: is this the right URL, and are the credentials right?"
            )
        found = _response(kind, body)
        if found is None:
            return Answer("stop", f"{url} answered {status} with something that is no OTLP answer: {shown}")
        return of_partial(*found, spans)
    if 300 <= status < 400:
        where = headers.get("Location") or "an unnamed place"
        return Answer("stop", f"{url} redirects ({status}) to {where}: give that URL, redirects are not followed")
    if status == 413:
        return Answer("too_large", said)
    if status in (400, 422):
        return Answer("invalid", said)
    if status in RETRY_STATUS:
        return Answer("retry", said, retry_after=retry_after(headers.get("Retry-After")))
    if status in _STOP_STATUS:
        return Answer("stop", f"{said}; {_STOP_STATUS[status]}")
    return Answer("failed", said)


def of_partial(rejected: int, message: str, spans: int) -> Answer:
    """A partial_success (all zero when there is none): a message without rejected spans is a warning."""
    rejected = min(max(rejected, 0), spans)
    message = excerpt(message.encode("utf-8", "replace"))
    if rejected:
        return Answer(
            "accepted", f"{rejected} of {spans} spans were rejected by the server: {message or 'no reason given'}", rejected=rejected
        )
    return Answer("accepted", warning=message)
