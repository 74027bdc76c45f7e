"""`spanport export` over OTLP/HTTP to a real receiver in this process: what arrives, and every OTEL_EXPORTER_OTLP_* variable."""

from __future__ import annotations

from typing import Any

import pytest
from spanport.converters.model import Span, TraceHeader


def attributes(given: Any) -> dict[str, Any]:
    return {p.key: getattr(p.value, p.value.WhichOneof("value")) for p in given}


def test_what_arrives_is_what_was_read(receiver: Any, document: Any, make: Any, spanport: Any) -> None:
    result = spanport("export", document(turns=3), "--endpoint", receiver.url)
    assert result.exit_code == 0, result.stderr
    assert "8 accepted" in result.stderr
    sent = {s.span_id.hex(): s for s in receiver.spans}
    read = [i for i in make(turns=3) if not isinstance(i, TraceHeader)]
    assert len(sent) == len(read) == 8
    for span in read:
        assert isinstance(span, Span)
        got = sent[span.id]
        assert got.trace_id.hex() == span.trace_id
        assert got.parent_span_id.hex() == (span.parent_id or "")
        assert (got.start_time_unix_nano, got.end_time_unix_nano) == (span.start, span.end)
    failed = next(s for s in sent.values() if s.status.code == 2)
    assert failed.status.message == "boom"
    assert failed.name == "execute_tool bash"
    chat = next(s for s in sent.values() if s.name == "chat gpt-x")
    assert chat.kind == 3
    assert attributes(chat.attributes)["gen_ai.usage.input_tokens"] == 100
    assert receiver.got[0].headers["content-encoding"] == "gzip"
    assert receiver.got[0].path == "/v1/traces"
    assert receiver.spans[0].parent_span_id == b"", "a trace that is held whole goes root first"
    resource = attributes(receiver.got[0].request.resource_spans[0].resource.attributes)
    assert resource["service.name"] == "simlab"


@pytest.mark.parametrize(
    ("option", "path"),
    [
        ("", "/v1/traces"),
        ("/", "/v1/traces"),
        ("/v1/traces", "/v1/traces"),
        ("/otlp", "/otlp/v1/traces"),
        ("/otlp/v1/traces/", "/otlp/v1/traces"),
    ],
)
def test_a_base_address_gets_the_path_of_traces_once(receiver: Any, document: Any, spanport: Any, option: str, path: str) -> None:
    assert spanport("export", document(), "--endpoint", receiver.url + option).exit_code == 0
    assert receiver.got[0].path == path


@pytest.mark.parametrize(
    ("name", "end", "path"), [("ENDPOINT", "/base", "/base/v1/traces"), ("TRACES_ENDPOINT", "/exactly/this", "/exactly/this")]
)
def test_the_endpoint_of_the_environment(
    receiver: Any, document: Any, spanport: Any, monkeypatch: pytest.MonkeyPatch, name: str, end: str, path: str
) -> None:
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", receiver.url + end)
    result = spanport("export", document())
    assert result.exit_code == 0
    assert receiver.got[0].path == path
    assert f"OTEL_EXPORTER_OTLP_{name}" in result.stderr, "it says which one it used"


@pytest.mark.parametrize("middle", ["", "TRACES_"])
def test_headers_compression_and_protocol_of_the_environment(
    receiver: Any, document: Any, spanport: Any, monkeypatch: pytest.MonkeyPatch, middle: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url + "/json")
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{middle}HEADERS", "authorization=Basic%20abc,x-project-name=mine")
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{middle}COMPRESSION", "deflate")
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{middle}PROTOCOL", "http/json")
    assert spanport("export", document()).exit_code == 0
    got = receiver.got[0]
    assert got.headers["authorization"] == "Basic abc"
    assert got.headers["x-project-name"] == "mine"
    assert got.headers["content-encoding"] == "deflate"
    assert got.headers["content-type"] == "application/json"
    span = got.request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert len(span["traceId"]) == 32
    assert isinstance(span["startTimeUnixNano"], str)


def test_the_timeout_of_the_environment(receiver: Any, document: Any, spanport: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0.3")
    result = spanport("export", document(), "--endpoint", receiver.url + "/never", "--retry-for", "0")
    assert result.exit_code == 1
    assert "0.3 s" in result.stderr


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://localhost", "http://", "http://[", "/v1/traces", "http://host:port"])
def test_an_address_that_can_not_work_is_wrong_usage(document: Any, spanport: Any, endpoint: str) -> None:
    result = spanport("export", document(), "--endpoint", endpoint)
    assert result.exit_code == 2
    assert "http://" in result.stderr
