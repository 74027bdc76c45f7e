"""One test for each row of what a server may do over HTTP: what the exporter says of it, how often it asks, and that every span is in the account."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from spanport.exporters.export import Plan, send
from spanport.exporters.otlp.account import Account
from spanport.exporters.otlp.sender import Retry
from spanport.exporters.otlp.settings import Destination, destination

SPANS = 8


def quick(total: float = 0.5, floor: float = 0.02, **more: Any) -> Retry:
    return Retry(total=total, first=0.01, floor=floor, **more)


def to(url: str, **more: Any) -> Destination:
    found = destination(url, **more)
    assert found is not None
    return found


def sent(make: Any, url: str, retry: Retry | None = None, plan: Plan | None = None, said: list[str] | None = None, **more: Any) -> Account:
    """The account of one export, which has to balance."""
    account = send(make(turns=3), to(url, **more), plan, retry=retry or quick(), say=said.append if said is not None else None)
    assert account.balanced, account
    assert account.read == SPANS
    return account


@pytest.mark.parametrize("status", [200, 202, 204])
def test_2xx_without_a_body_is_accepted(receiver: Any, make: Any, status: int) -> None:
    account = sent(make, f"{receiver.url}/status/{status}" if status != 200 else receiver.url)
    assert (account.accepted, account.requests, account.status()) == (SPANS, 1, 0)


def test_partial_success_is_rejected_and_never_counted_as_sent(receiver: Any, make: Any) -> None:
    account = sent(make, receiver.url + "/partial/3")
    assert (account.accepted, account.rejected, account.requests, account.status()) == (5, 3, 1, 3)
    assert "quota" in next(iter(account.reasons))


def test_partial_success_with_more_than_was_sent_does_not_break_the_account(receiver: Any, make: Any) -> None:
    account = sent(make, receiver.url + "/partial/99")
    assert (account.accepted, account.rejected, account.status()) == (0, SPANS, 1)


def test_partial_success_in_json(receiver: Any, make: Any) -> None:
    account = sent(make, receiver.url + "/json-partial", protocol="http/json")
    assert (account.accepted, account.rejected) == (6, 2)


def test_a_warning_is_shown_and_nothing_is_rejected(receiver: Any, make: Any) -> None:
    said: list[str] = []
    account = sent(make, receiver.url + "/warning", said=said)
    assert (account.accepted, account.status()) == (SPANS, 0)
    assert any("be careful" in s for s in said)


def test_a_web_page_is_an_error_that_names_the_url(receiver: Any, make: Any) -> None:
    account = sent(make, receiver.url + "/html")
    assert (account.failed, account.requests, account.status()) == (SPANS, 1, 1)
    assert f"{receiver.url}/html/v1/traces" in next(iter(account.reasons))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_an_error_that_names_where_it_points(receiver: Any, make: Any, status: int) -> None:
    account = sent(make, f"{receiver.url}/redirect/{status}")
    assert (account.failed, account.requests) == (SPANS, 1)
    assert "http://elsewhere.example/v1/traces" in next(iter(account.reasons))


@pytest.mark.parametrize("status", [401, 403, 404, 415, 501])
def test_what_no_request_can_pass_stops_early(receiver: Any, make: Any, status: int) -> None:
    account = sent(make, f"{receiver.url}/status/{status}", plan=None)
    assert (account.failed, account.requests, account.retries, account.status()) == (SPANS, 1, 0, 1)
    reason = next(iter(account.reasons))
    assert f"code {status}: why" in reason
    assert reason.count("why") <= 150 // 4, "only the head of the body is shown"


@pytest.mark.parametrize("status", [408, 500])
def test_other_errors_fail_at_once_and_the_next_batch_is_tried(receiver: Any, make: Any, status: int) -> None:
    from spanport.exporters.otlp.batch import Limits

    account = sent(make, f"{receiver.url}/status/{status}", plan=Plan(limits=Limits(spans=4)))
    assert (account.failed, account.requests, account.retries) == (SPANS, 2, 0)


@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_of_everything_is_not_asked_for_each_span(receiver: Any, make: Any, status: int) -> None:
    account = send(make(turns=200), to(f"{receiver.url}/status/{status}"), retry=quick())
    assert account.balanced
    assert account.failed == account.read == 402
    assert account.requests < 40


@pytest.mark.parametrize("status", [400, 422])
def test_a_bad_span_is_found_and_named(receiver: Any, make: Any, status: int) -> None:
    from msgspec.structs import replace

    items = make(turns=50)
    items[36] = replace(items[36], name="bad")
    account = send(items, to(f"{receiver.url}/bad/{status}"), retry=quick())
    assert account.balanced
    assert (account.accepted, account.rejected) == (101, 1)
    assert account.rejected_spans == [items[36].id]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_retryable_for_ever_is_given_up_after_the_budget(receiver: Any, make: Any, status: int) -> None:
    began = time.monotonic()
    account = sent(make, f"{receiver.url}/status/{status}", quick(total=0.3))
    assert time.monotonic() - began < 2
    assert (account.failed, account.status()) == (SPANS, 1)
    assert account.retries >= 2


@pytest.mark.parametrize(("status", "times"), [(503, 1), (503, 5), (429, 2)])
def test_retryable_for_a_while_succeeds(receiver: Any, make: Any, status: int, times: int) -> None:
    account = sent(make, f"{receiver.url}/then-ok/{status}/{times}", quick(total=5))
    assert (account.accepted, account.requests) == (SPANS, times + 1)


def test_retry_after_in_seconds_is_waited_for(receiver: Any, make: Any) -> None:
    began = time.monotonic()
    account = sent(make, receiver.url + "/after/1/429/1", quick(total=5))
    assert account.accepted == SPANS
    assert time.monotonic() - began >= 1


def test_retry_after_as_a_date_is_waited_for(receiver: Any, make: Any) -> None:
    began = time.monotonic()
    account = sent(make, receiver.url + "/date/2", quick(total=5))
    assert account.accepted == SPANS
    assert time.monotonic() - began >= 0.9, "the date has a resolution of a second"


def test_retry_after_beyond_the_budget_fails_at_once_and_says_so(receiver: Any, make: Any) -> None:
    began = time.monotonic()
    account = sent(make, receiver.url + "/after/600/429/9", quick(total=5))
    assert time.monotonic() - began < 1
    assert account.failed == SPANS
    assert "600 s" in next(iter(account.reasons))


def test_retry_after_zero_has_a_floor(receiver: Any, make: Any) -> None:
    account = sent(make, receiver.url + "/after/0/429/99", quick(total=0.5, floor=0.1))
    assert account.failed == SPANS
    assert account.requests <= 6


def test_a_slow_answer_is_an_answer(receiver: Any, make: Any) -> None:
    account = sent(make, receiver.url + "/slow/0.5", timeout=3)
    assert (account.accepted, account.requests) == (SPANS, 1)


@pytest.mark.parametrize("mode", ["never", "trickle", "trickle-head"])
def test_the_deadline_is_wall_clock_time(receiver: Any, make: Any, mode: str) -> None:
    began = time.monotonic()
    account = sent(make, f"{receiver.url}/{mode}", quick(total=0), timeout=0.4)
    assert time.monotonic() - began < 1.5
    assert account.failed == SPANS
    assert account.ambiguous == 1, "the server may have them"


@pytest.mark.parametrize("mode", ["reset", "close", "garbage", "cut"])
def test_broken_connections_are_tried_again_and_then_fail(receiver: Any, make: Any, mode: str) -> None:
    account = sent(make, f"{receiver.url}/{mode}", quick(total=0.2))
    assert account.failed == SPANS
    assert account.requests >= 2


@pytest.mark.parametrize("mode", ["reset-once", "cut-once"])
def test_broken_once_ends_well_and_is_called_ambiguous(receiver: Any, make: Any, mode: str) -> None:
    account = sent(make, f"{receiver.url}/{mode}", quick(total=5))
    assert (account.accepted, account.requests, account.ambiguous) == (SPANS, 2, 1)
    first, second = (sorted(s.span_id for s in r.spans) for r in receiver.got)
    assert first == second, "the same ids: a second copy is the same span"


def test_nobody_there(make: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    account = sent(make, f"http://127.0.0.1:{port}", quick(total=0.1))
    assert (account.failed, account.status(), account.ambiguous) == (SPANS, 1, 0)


def test_a_host_that_does_not_exist(make: Any) -> None:
    began = time.monotonic()
    account = sent(make, "http://no-such-host.invalid:4318", quick(total=0.2), timeout=2)
    assert time.monotonic() - began < 8
    assert (account.failed, account.status()) == (SPANS, 1)


def test_a_server_that_comes_back_gets_the_spans(make: Any, receiver: Any) -> None:
    tries = []

    def respond(handler: Any, got: Any) -> None:
        tries.append(1)
        if len(tries) < 3:
            handler.reset()
        else:
            handler.send(200, b"", {"Content-Length": "0"})

    receiver.respond = respond
    assert sent(make, receiver.url, quick(total=5)).accepted == SPANS


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> Any:
    """An HTTPS receiver with a certificate of its own making."""
    import http.server
    import ssl

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_certificate_that_nobody_vouches_for_is_not_retried(tls: str, make: Any) -> None:
    account = sent(make, tls, quick(total=5))
    assert (account.failed, account.requests) == (SPANS, 1)
    assert "TLS" in next(iter(account.reasons))


def test_the_given_certificate_wins_over_the_machine_s(tls: str, make: Any, certificate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import certifi

    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certifi.where())
    monkeypatch.setenv("CURL_CA_BUNDLE", certifi.where())
    assert sent(make, tls, certificate=str(certificate[0])).accepted == SPANS
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(certificate[0]))
    assert sent(make, tls).accepted == SPANS


def test_https_to_a_plain_port_and_the_other_way(receiver: Any, tls: str, make: Any) -> None:
    account = sent(make, receiver.url.replace("http:", "https:"), quick(total=0.3))
    assert (account.failed, account.requests) == (SPANS, 1)
    account = sent(make, tls.replace("https:", "http:"), quick(total=0.3))
    assert account.failed == SPANS


def test_a_413_is_halved_until_it_fits(receiver: Any, make: Any) -> None:
    account = sent(make, receiver.url + "/larger/3000")
    assert (account.accepted, account.status()) == (SPANS, 0)
    assert account.requests > 2
    assert {s.span_id for s in receiver.spans} >= {s.span_id for s in receiver.got[0].spans}


def test_one_span_too_large_is_shortened_with_a_mark(receiver: Any, make: Any) -> None:
    account = send(make(turns=3, text="long " * 20_000), to(receiver.url + "/larger/30000"), retry=quick())
    assert account.balanced
    assert (account.accepted, account.shortened) == (SPANS, 3)
    passed = [r for r in receiver.got if len(r.body) <= 30000]
    marked = [s for r in passed for s in r.spans if any(a.key == "spanport.cut" for a in s.attributes)]
    assert len(marked) == 3
    for span in marked:
        held = next(a.value.string_value for a in span.attributes if a.key == "gen_ai.input.messages")
        assert held.startswith('[{"role":"user"'), "JSON stays JSON"
        assert "[cut]" in held


def test_a_span_that_stays_too_large_is_rejected(receiver: Any, make: Any) -> None:
    account = sent(make, receiver.url + "/larger/10")
    assert (account.rejected, account.status()) == (SPANS, 1)


def test_large_traces_are_cut_by_bytes_with_the_root_first(receiver: Any, make: Any) -> None:
    from spanport.exporters.otlp.batch import Limits

    account = send(make(turns=300, text="some text " * 40), to(receiver.url), Plan(limits=Limits(bytes=100_000)), retry=quick())
    assert account.accepted == 602
    assert len(receiver.got) > 3
    assert all(len(r.body) <= 100_000 for r in receiver.got)
    assert receiver.got[0].spans[0].name == "invoke_agent agent"
    assert len({s.span_id for s in receiver.spans}) == 602
