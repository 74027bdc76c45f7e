"""The account over any behaviour of a server, the spool, the ledger, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spanport.converters.model import Phase, TraceHeader
from spanport.converters.otlp.encode import resource_attributes
from spanport.exporters import export
from spanport.exporters.export import Plan, send
from spanport.exporters.otlp.account import Account
from spanport.exporters.otlp.answer import Answer
from spanport.exporters.otlp.batch import Limits
from spanport.exporters.otlp.codec import PROTOBUF
from spanport.exporters.otlp.sender import Retry, Stop
from spanport.exporters.otlp.settings import Destination

NOWHERE = Destination(url="http://127.0.0.1:1/v1/traces")


class Scripted:
    """A channel that answers from a list, then with the last of it. ``accepted`` are the requests it took."""

    def __init__(self, answers: list[Answer], stop: Stop | None = None, stop_at: int = -1) -> None:
        self.answers, self.calls = answers, 0
        self.stop, self.stop_at = stop, stop_at
        self.taken = 0

    def send(self, body: bytes, spans: int) -> Answer:
        if self.stop is not None and self.calls == self.stop_at:
            self.stop.set(signal.SIGINT)
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        self.calls += 1
        if answer.verdict == "accepted":
            rejected = min(answer.rejected, spans)
            self.taken += spans - rejected
            return msgspec.structs.replace(answer, rejected=rejected)
        return answer

    def close(self) -> None:
        pass


answers = st.builds(
    Answer,
    verdict=st.sampled_from(["accepted", "accepted", "retry", "too_large", "invalid", "failed", "stop"]),
    text=st.sampled_from(["a", "b"]),
    rejected=st.sampled_from([0, 0, 0, 1, 3, 1000]),
    retry_after=st.sampled_from([None, None, 0.0, 5.0, 1000.0]),
    ambiguous=st.booleans(),
    unreachable=st.booleans(),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    script=st.lists(answers, min_size=1, max_size=12),
    turns=st.integers(0, 12),
    spans=st.integers(1, 9),
    stop_at=st.one_of(st.none(), st.integers(0, 6)),
    spool=st.sampled_from(["all", "none", "half"]),
)
def test_read_is_accepted_and_rejected_and_failed_whatever_the_server_does(
    make: Any, script: list[Answer], turns: int, spans: int, stop_at: int | None, spool: str
) -> None:
    kept: list[str] = []

    def keep(pieces: list[Any], why: str) -> int:
        held = pieces if spool == "all" else [] if spool == "none" else pieces[::2]
        kept.extend(p.span_id for p in held)
        return len(held)

    stop, now = Stop(), [0.0]

    def clock() -> float:
        now[0] += 0.5
        return now[0]

    stop.wait = lambda seconds: bool(stop)  # type: ignore[method-assign]
    channel = Scripted(script, stop, -1 if stop_at is None else stop_at)
    items = [*make("1", turns=turns), *make("2", turns=2)]
    account = send(
        items, NOWHERE, Plan(limits=Limits(spans=spans)), retry=Retry(total=20, clock=clock), stop=stop, keep=keep, channel=channel
    )
    read = sum(not isinstance(i, TraceHeader) for i in items)
    assert account.read == read
    assert account.accepted + account.rejected + account.failed == read
    assert account.accepted == channel.taken, "nothing counts as accepted that the server did not take"
    assert account.spooled == len(kept) <= account.failed
    assert len(set(kept)) == len(kept)
    assert (account.status() == 0) == (account.accepted == read)
    assert (account.status() == 1) == (account.accepted == 0)


# -------------------------------------------------------------------------------------------------------------- spool
def test_what_fails_is_spooled_and_resent_and_removed(receiver: Any, document: Any, spanport: Any, tmp_path: Path) -> None:
    down = True

    def respond(handler: Any, got: Any) -> None:
        handler.send(500 if down else 200, b"", {"Content-Length": "0"})

    receiver.respond = respond
    run = document(turns=3)
    result = spanport(
        "export", run, "--endpoint", receiver.url, "--spool", "spool", "--header", "Authorization=secret", "--header", "x-project-name=p"
    )
    assert result.exit_code == 1
    assert "8 spans kept in" in result.stderr
    (lines,) = Path("spool").glob("*.otlp.jsonl")
    (meant,) = Path("spool").glob("*.json")
    assert "secret" not in lines.read_text() + meant.read_text(), "credentials are never written"
    assert json.loads(meant.read_text())["endpoint"] == receiver.url + "/v1/traces"
    assert json.loads(meant.read_text())["headers"] == {"x-project-name": "p"}
    assert lines.stat().st_mode & 0o077 == 0
    failed = sorted(s.SerializeToString() for s in receiver.got[0].spans)

    result = spanport("resend", "spool")
    assert result.exit_code == 1
    assert len(list(Path("spool").iterdir())) == 2, "it stays as it is"
    down = False
    receiver.got.clear()
    result = spanport("resend", "spool", "--header", "authorization=secret")
    assert result.exit_code == 0, result.stderr
    assert sorted(s.SerializeToString() for s in receiver.spans) == failed, "the same spans to the byte"
    assert receiver.got[0].headers["authorization"] == "secret"
    assert receiver.got[0].headers["x-project-name"] == "p"
    assert list(Path("spool").iterdir()) == []
    assert "nothing to send" in spanport("resend", "spool").stderr


def test_a_resend_that_goes_in_part_keeps_the_rest(receiver: Any, make: Any, spanport: Any, tmp_path: Path, document: Any) -> None:
    receiver.respond = lambda handler, got: handler.send(500, b"", {"Content-Length": "0"})
    spanport("export", document(turns=30), "--endpoint", receiver.url, "--spool", "spool")

    def half(handler: Any, got: Any) -> None:
        # Two requests: the resend's own batches hold everything, so the server takes those without the root.
        handler.send(
            413 if len(got.spans) > 31 else 500 if any(not s.parent_span_id for s in got.spans) else 200, b"", {"Content-Length": "0"}
        )

    receiver.respond = half
    result = spanport("resend", "spool")
    assert result.exit_code == 3, result.stderr
    receiver.got.clear()
    receiver.respond = None
    assert spanport("resend", "spool").exit_code == 0
    assert len(receiver.spans) == 31
    assert list(Path("spool").iterdir()) == []


def test_two_resends_do_not_send_the_same(receiver: Any, document: Any, spanport: Any) -> None:
    import fcntl

    receiver.respond = lambda handler, got: handler.send(500, b"", {"Content-Length": "0"})
    spanport("export", document(), "--endpoint", receiver.url, "--spool", "spool")
    receiver.respond = None
    receiver.got.clear()
    (path,) = Path("spool").glob("*.otlp.jsonl")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = spanport("resend", "spool")
    assert "another process" in result.stderr
    assert receiver.got == []


def test_a_spool_file_that_a_crash_cut_is_sent_as_far_as_it_goes_and_stays(receiver: Any, document: Any, spanport: Any) -> None:
    receiver.respond = lambda handler, got: handler.send(500, b"", {"Content-Length": "0"})
    spanport("export", document(turns=300), "--endpoint", receiver.url, "--spool", "spool")
    receiver.respond = None
    receiver.got.clear()
    (path,) = Path("spool").glob("*.otlp.jsonl")
    path.write_bytes(path.read_bytes()[:-1000])
    result = spanport("resend", "spool")
    assert result.exit_code == 3
    assert len(receiver.spans) == 512  # whole lines of 128; the last one, of 90, is cut
    assert path.exists()
    assert "can't be read" in result.stderr


def test_the_default_spool_is_in_the_state_directory(receiver: Any, document: Any, spanport: Any, tmp_path: Path) -> None:
    spanport("export", document(), "--endpoint", receiver.url + "/status/500")
    assert len(list((tmp_path / "state" / "spanport" / "spool").glob("*.otlp.jsonl"))) == 1
    assert "8 spans" in spanport("resend", "--list").stdout


def test_a_full_disk_is_told_and_nothing_counts_as_kept(
    receiver: Any, make: Any, monkeypatch: pytest.MonkeyPatch, spanport: Any, document: Any
) -> None:
    """A limit on the size of files, which fails as a full disk does, in a process of its own."""
    run = document(turns=400)
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000));"
        "from spanport.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "export", run, "--endpoint", receiver.url + "/status/500", "--spool", "spool", "--summary-json", "-"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    found = json.loads(done.stdout)
    assert found["failed"] == 802
    assert 0 < found["spooled"] < 802
    assert "could not be kept" in done.stderr
    lines = [json.loads(x) for p in Path("spool").glob("*.otlp.jsonl") for x in p.read_text().splitlines()]
    kept = sum(len(s["spans"]) for x in lines for r in x["resourceSpans"] for s in r["scopeSpans"])
    assert kept == found["spooled"], "whole lines only"


def test_a_spool_that_can_not_be_made_is_told(receiver: Any, document: Any, spanport: Any) -> None:
    Path("file").write_text("")
    result = spanport("export", document(), "--endpoint", receiver.url + "/status/500", "--spool", "file/spool")
    assert result.exit_code == 1
    assert "8 failed spans could not be kept" in result.stderr


# ------------------------------------------------------------------------------------------------------------- ledger
def summary(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("summary.json").read_text())
    return found


def test_a_second_export_sends_nothing_and_a_grown_run_only_what_is_new(receiver: Any, document: Any, spanport: Any) -> None:
    options = ("--endpoint", receiver.url, "--ledger", "--summary-json", "summary.json")
    assert spanport("export", document(turns=3), *options).exit_code == 0
    result = spanport("export", document(turns=3), *options)
    assert result.exit_code == 0
    assert (len(receiver.got), summary(result)["left_out"]) == (1, {"delivered_before": 8})
    assert "nothing was sent" in result.stderr
    result = spanport("export", document(turns=5), *options)
    assert summary(result)["accepted"] == 4
    assert len(receiver.spans) == 12
    assert "have changed since" in result.stderr, "the run and its attempt end later now"
    result = spanport("export", document(turns=5), *options, "--force")
    assert summary(result)["accepted"] == 12
    other = spanport("export", document(turns=5), "--ledger", "--endpoint", receiver.url + "/other", "--summary-json", "summary.json")
    assert summary(other)["accepted"] == 12, "another destination"


def test_langfuse_has_the_ledger_on(receiver: Any, document: Any, spanport: Any) -> None:
    for _ in range(2):
        assert spanport("export", document(), "--endpoint", receiver.url, "--profile", "langfuse").exit_code == 0
    assert len(receiver.got) == 1
    assert receiver.got[0].headers["x-langfuse-ingestion-version"] == "4"


def test_what_failed_is_not_in_the_ledger(receiver: Any, document: Any, spanport: Any) -> None:
    receiver.respond = lambda handler, got: handler.send(500, b"", {"Content-Length": "0"})
    assert spanport("export", document(), "--endpoint", receiver.url, "--ledger").exit_code == 1
    receiver.respond = None
    assert spanport("export", document(), "--endpoint", receiver.url, "--ledger").exit_code == 0
    assert len(receiver.got) == 2


def test_a_resend_keeps_the_ledger_too(receiver: Any, document: Any, spanport: Any) -> None:
    """Delivered by a resend is delivered; and what an export delivered meanwhile is not sent again by a resend."""
    options = ("--endpoint", receiver.url, "--profile", "langfuse")
    receiver.respond = lambda handler, got: handler.send(500, b"", {"Content-Length": "0"})
    spanport("export", document("a", key="a"), *options)
    spanport("export", document("b", key="b"), *options)
    receiver.respond = None
    receiver.got.clear()
    spanport("export", document("a", key="a"), *options)
    assert len(receiver.spans) == 8
    assert spanport("resend").exit_code == 0
    assert len(receiver.spans) == 16, "only b: a was delivered since"
    assert "nothing to send" in spanport("resend").stderr
    spanport("export", document("a", key="a"), document("b", key="b"), *options)
    assert len(receiver.spans) == 16


def command(*args: Any) -> list[str]:
    return [sys.executable, "-m", "spanport", *map(str, args)]


def test_two_processes_with_one_ledger_send_every_span_once(receiver: Any, document: Any) -> None:
    def slowly(handler: Any, got: Any) -> None:
        time.sleep(0.1)
        handler.send(200, b"", {"Content-Length": "0"})

    receiver.respond = slowly
    run = document(turns=60)
    args = command("export", run, "--endpoint", receiver.url, "--ledger", "--max-batch-spans", "20", "--summary-json")
    both = [subprocess.Popen([*args, f"s{i}.json"], stderr=subprocess.PIPE, env=os.environ.copy()) for i in range(2)]
    for one in both:
        _, err = one.communicate(timeout=60)
        assert one.returncode == 0, err
    sent = [s.span_id for s in receiver.spans]
    assert len(sent) == len(set(sent)) == 122
    found = [json.loads(Path(f"s{i}.json").read_text()) for i in range(2)]
    assert sum(f["accepted"] for f in found) == 122
    assert sum(f["left_out"].get("delivered_before", 0) for f in found) == 122


def test_a_claim_of_a_process_that_died_is_void(receiver: Any, document: Any, make: Any, tmp_path: Path) -> None:
    from spanport.exporters.ledger import Ledger

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger._owner = ledger._owner.rpartition(":")[0] + f":{dead.pid}"
        accepted: list[Any] = []
        send(make(), NOWHERE, channel=Scripted([Answer("accepted")]), ledger=_Claiming(ledger))  # type: ignore[arg-type]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        account = send(make(), NOWHERE, channel=Scripted([Answer("accepted")]), ledger=ledger, delivered=accepted.extend)
    assert account.accepted == len(accepted) == 8


class _Claiming:
    """Claims, and dies before it has sent."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def deliver(self, destination: str, pieces: Any, account: Account, send: Any, *, force: bool, stop: Stop) -> tuple[list[Any], str]:
        self._ledger._claim(self._ledger._destination(destination), pieces, account, force)
        return [], ""


# ------------------------------------------------------------------------------------------------------------ signals
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("hanging", [False, True])
def test_a_signal_in_the_middle(receiver: Any, document: Any, number: int, code: int, hanging: bool) -> None:
    def slowly(handler: Any, got: Any) -> None:
        time.sleep(30 if hanging and len(receiver.got) > 2 else 0.3)
        handler.send(200, b"", {"Content-Length": "0"})

    receiver.respond = slowly
    args = command(
        "export", document(turns=100), "--endpoint", receiver.url, "--max-batch-spans", "10", "--spool", "spool", "--summary-json", "s.json"
    )
    running = subprocess.Popen(args, stderr=subprocess.PIPE, text=True, env=os.environ.copy())
    until = time.monotonic() + 30
    while len(receiver.got) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    began = time.monotonic()
    running.send_signal(number)
    _, err = running.communicate(timeout=30)
    assert time.monotonic() - began < 10, "the request in hand is finished, or given up"
    assert running.returncode == code, err
    assert "Traceback" not in err
    found = json.loads(Path("s.json").read_text())
    assert found["read"] == 202 == found["accepted"] + found["failed"]
    assert 0 < found["accepted"] < 202
    assert found["spooled"] == found["failed"]
    assert "read 202 spans" in err
    receiver.respond = None
    receiver.got.clear()
    again = subprocess.run(command("resend", "spool"), capture_output=True, text=True, timeout=60, env=os.environ.copy())
    assert again.returncode == 0, again.stderr
    assert len(receiver.spans) == found["failed"]


def test_a_trace_of_which_nothing_came_for_long_keeps_its_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many traces, only the envelopes of the last ones are kept as they are."""
    monkeypatch.setattr(export, "_AT_HAND", 2)
    encoder = export.Encoder(PROTOBUF, export.Plan(), Account())
    names = [f"{n:032x}" for n in range(1, 6)]
    headers = [
        TraceHeader(id=name, family="agno", format="agno", run_key=[name, "ä"], resource={"a": 1.5, "large": 1 << (70 if n == 2 else 9)})
        for n, name in enumerate(names)
    ]
    for header in headers:
        encoder.encode(header)
    for n, header in enumerate([*headers, *reversed(headers)]):
        encoder.encode(header)  # once more: it says nothing new
        made = encoder.encode(Phase(id=f"{n + 1:016x}", trace_id=header.id, name="p", key=str(n)))
        assert made is not None
        assert (made[0].envelope.trace_id, made[0].envelope.resource) == (header.id, resource_attributes(header))
    assert encoder.account.traces == 5
