"""Real backends: what was sent is there, as their own APIs tell it: spans, parents, times, kinds, tokens, messages, errors, scores."""

from __future__ import annotations

import base64
import json
import os
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import spanport
from spanport.converters.conventions.openinference import span_kind
from spanport.converters.history import full
from spanport.converters.ids import salted
from spanport.converters.model import Message, ModelRequest, Span, TextPart

pytestmark = pytest.mark.backends
FIXTURES = Path(os.environ.get("SPANPORT_FIXTURES") or Path(__file__).parents[2] / "fixtures")
RECORDS = {
    "runartifacts": "runartifacts/failed_verifier",
    "agno": "agno/corpus/agno/peer-openinference/runs/tool-error-plain/plain.run_output.json",
    "agentcompass": "agentcompass/sdk-direct",
    "atif": "atif/subagents_1_8.json",
}
PROFILES = ("generic", "phoenix", "mlflow", "langfuse")


@dataclass
class Found:
    """A span as a backend gives it back. Times in µs, since Phoenix keeps no more."""

    id: str
    parent: str | None
    name: str
    start: int
    end: int
    status: str
    message: str
    kind: str
    tokens: tuple[int, int] | None = None
    texts: list[str] = field(default_factory=list)
    events: int = 0


def call(url: str, body: Any = None, **query: Any) -> Any:
    if query:
        url += "?" + urllib.parse.urlencode(query)
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, {"content-type": "application/json"}), timeout=60) as answer:
        return json.load(answer)


def micros(text: str) -> int:
    from datetime import UTC, datetime, timedelta

    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def phoenix_spans(base: str, project: str) -> Iterator[Found]:
    cursor = None
    while True:
        page = call(f"{base}/v1/projects/{project}/spans", limit=1000, **({"cursor": cursor} if cursor else {}))
        for s in page["data"]:
            a = s["attributes"]
            count = a.get("llm.token_count.prompt"), a.get("llm.token_count.completion")
            yield Found(
                s["context"]["span_id"],
                s["parent_id"],
                s["name"],
                micros(s["start_time"]),
                micros(s["end_time"]),
                s["status_code"],
                s["status_message"],
                s["span_kind"],
                None if None in count else count,  # type: ignore[arg-type]
                sorted(
                    v
                    for k, v in a.items()
                    if k.startswith("llm.input_messages") and k.endswith("message.content") and a.get(k[:-7] + "role") != "tool"
                ),
                len(s["events"]),
            )
        cursor = page.get("next_cursor")
        if not cursor:
            return


def plain(value: dict[str, Any]) -> Any:
    for kind, held in value.items():
        match kind:
            case "array_value":
                return [plain(v) for v in held.get("values", ())]
            case "kvlist_value":
                return {p["key"]: plain(p.get("value", {})) for p in held.get("values", ())}
            case "int_value":
                return int(held)
            case _:
                return held
    return None


def mlflow_spans(base: str, traces: set[str]) -> Iterator[Found]:
    for trace in sorted(traces):
        for s in call(f"{base}/api/3.0/mlflow/traces/get", trace_id=f"tr-{trace}")["trace"]["spans"]:
            a = {p["key"]: plain(p["value"]) for p in s.get("attributes", ())}
            usage = a.get("mlflow.chat.tokenUsage") or {}
            count = usage.get("input_tokens"), usage.get("output_tokens")
            yield Found(
                base64.b64decode(s["span_id"]).hex(),
                base64.b64decode(s["parent_span_id"]).hex() if s.get("parent_span_id") else None,
                s["name"],
                int(s["start_time_unix_nano"]) // 1000,
                int(s["end_time_unix_nano"]) // 1000,
                (s["status"].get("code") or "STATUS_CODE_UNSET").removeprefix("STATUS_CODE_"),
                s["status"].get("message", ""),
                a.get("openinference.span.kind", ""),
                None if None in count else count,
                sorted(
                    part["content"]
                    for m in a.get("gen_ai.input.messages") or ()
                    if m["role"] != "tool"
                    for part in m["parts"]
                    if part["type"] == "text"
                ),
                len(s.get("events", ())),
            )


def sent(record: str, salt: str) -> tuple[dict[str, Span], set[str]]:
    """What a record holds, under the ids of this export."""
    traces = spanport.read(FIXTURES / RECORDS[record])
    return {salted(s.id, salt): s for t in traces for s in t.spans}, {salted(t.header.id, salt) for t in traces}


def texts(messages: list[Message]) -> list[str]:
    return sorted(p.content for m in messages if m.role != "tool" for p in m.parts if isinstance(p, TextPart))


def compare(found: list[Found], expected: dict[str, Span], salt: str, backend: str) -> None:
    off = 1 if backend == "phoenix" else 0  # it rounds to µs by way of a float
    assert {f.id for f in found} == set(expected)
    assert len(found) == len(expected)
    for f in found:
        span = expected[f.id]
        assert f.parent == (salted(span.parent_id, salt) if span.parent_id else None)
        start = span.start or 0
        end = span.end if span.end is not None else start
        assert abs(f.start - start // 1000) <= off
        assert abs(f.end - end // 1000) <= off
        assert f.status == span.status.upper()
        if span.status == "error":
            assert f.message == ((span.error.message if span.error else "") or "")
        assert f.kind == span_kind(span)  # type: ignore[arg-type]
        assert f.events == len(span.events) + len(span.scores) + len(span.artifacts)
        if isinstance(span, ModelRequest):
            if span.usage is not None and span.usage.input is not None and span.usage.output is not None:
                assert f.tokens == (span.usage.input, span.usage.output)
            wanted = texts(span.input_messages)
            if backend == "phoenix" and span.system_instructions:
                wanted = sorted(wanted + [p.content for p in span.system_instructions if isinstance(p, TextPart)])
            assert [t for t in wanted if t] == [t for t in f.texts if t] or any(len(m.parts) > 1 for m in span.input_messages)
        else:
            assert f.tokens is None, "no usage on runs and attempts: backends would add it twice"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("record", RECORDS)
def test_phoenix_holds_what_was_sent(phoenix: str, run: Any, record: str, profile: str) -> None:
    salt = f"{record}-{profile}"
    expected, _ = sent(record, salt)
    options = ["--endpoint", phoenix, "--profile", profile, "--id-salt", salt]
    options += ["--project", salt] if profile == "phoenix" else ["--header", f"x-project-name={salt}", "--no-ledger"]
    options += ["--verify"] if profile == "phoenix" else []
    done = run("export", FIXTURES / RECORDS[record], *options)
    wait_for_count(phoenix, salt, len(expected))
    compare(list(phoenix_spans(phoenix, salt)), expected, salt, "phoenix")
    if profile == "phoenix":
        assert f"{len(expected)} of {len(expected)} read back: stored" in done.stderr
        link = next(w for w in done.stderr.split() if w.startswith(f"{phoenix}/projects/"))
        with urllib.request.urlopen(link, timeout=30) as page:
            assert page.status == 200
    run("export", FIXTURES / RECORDS[record], *options)
    assert len(list(phoenix_spans(phoenix, salt))) == len(expected), "a second export changes nothing"


def wait_for_count(base: str, project: str, count: int) -> None:
    import time

    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if len(list(phoenix_spans(base, project))) >= count:
                return
        except urllib.error.HTTPError:  # the project is made with its first span
            pass
        time.sleep(0.3)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("record", RECORDS)
def test_mlflow_holds_what_was_sent(mlflow: str, run: Any, record: str, profile: str) -> None:
    salt = f"{record}-{profile}"
    expected, traces = sent(record, salt)
    options = ["--endpoint", mlflow, "--profile", profile, "--id-salt", salt]
    options += ["--project", salt, "--verify"] if profile == "mlflow" else ["--header", "x-mlflow-experiment-id=0", "--no-ledger"]
    done = run("export", FIXTURES / RECORDS[record], *options)
    compare(list(mlflow_spans(mlflow, traces)), expected, salt, "mlflow")
    for trace in traces:
        info = call(f"{mlflow}/api/3.0/mlflow/traces/get", trace_id=f"tr-{trace}")["trace"]["trace_info"]
        assert info["state"] in ("OK", "ERROR"), "the root is there"
        if usage := info.get("trace_metadata", {}).get("mlflow.trace.tokenUsage"):
            requests = [s.usage for s in expected.values() if isinstance(s, ModelRequest) and s.usage is not None]
            assert json.loads(usage)["input_tokens"] == sum(u.input or 0 for u in requests)
    if profile == "mlflow":
        assert f"{len(expected)} of {len(expected)} read back: stored" in done.stderr
    run("export", FIXTURES / RECORDS[record], *options)
    assert len(list(mlflow_spans(mlflow, traces))) == len(expected), "a second export changes nothing"


@pytest.mark.parametrize("backend", ["phoenix", "mlflow"])
def test_scores_go_after_the_spans_and_replace_themselves(request: pytest.FixtureRequest, run: Any, backend: str) -> None:
    base: str = request.getfixturevalue(backend)
    salt = f"scores-{backend}"
    expected, traces = sent("runartifacts", salt)
    scores = [(salted_id, s) for salted_id, span in expected.items() for s in span.scores]
    if not scores:
        pytest.skip("the record has no score")
    for _ in range(2):
        done = run(
            "export",
            FIXTURES / RECORDS["runartifacts"],
            "--endpoint",
            base,
            "--profile",
            backend,
            "--project",
            salt,
            "--id-salt",
            salt,
            "--scores",
        )
        assert f"{len(scores)} score" in done.stderr
    if backend == "phoenix":
        ids = [("span_ids", i) for i in expected]
        found = call(f"{base}/v1/projects/{salt}/span_annotations?" + urllib.parse.urlencode(ids))["data"]
        got = sorted((a["span_id"], a["name"], a["result"].get("score")) for a in found)
    else:
        got = sorted(
            (a["span_id"], a["assessment_name"], a["feedback"]["value"])
            for t in traces
            for a in call(f"{base}/api/3.0/mlflow/traces/get", trace_id=f"tr-{t}")["trace"]["trace_info"].get("assessments", ())
        )
    assert [g[:2] for g in got] == sorted((i, s.name) for i, s in scores)


@pytest.mark.parametrize("record", ["runartifacts", "agno"])
@pytest.mark.parametrize("backend", ["phoenix", "mlflow"])
def test_the_whole_chat_on_each_request_with_history_full(request: pytest.FixtureRequest, run: Any, backend: str, record: str) -> None:
    base: str = request.getfixturevalue(backend)
    salt = f"history-{record}"
    expected, traces = sent(record, salt)
    run(
        "export",
        FIXTURES / RECORDS[record],
        "--endpoint",
        base,
        "--profile",
        backend,
        "--project",
        salt,
        "--id-salt",
        salt,
        "--history",
        "full",
        "--verify",
    )
    found = list(phoenix_spans(base, salt)) if backend == "phoenix" else list(mlflow_spans(base, traces))
    known: dict[str, list[Message]] = {}
    whole = {i: full(s, known) for i, s in expected.items() if isinstance(s, ModelRequest)}
    assert any(s.history is not None for s in expected.values() if isinstance(s, ModelRequest)), "the record has more than one request"
    for f in found:
        if f.id in whole:
            span = expected[f.id]
            assert isinstance(span, ModelRequest)
            wanted = texts(whole[f.id] or [])
            if backend == "phoenix":
                wanted = sorted(wanted + [p.content for p in span.system_instructions if isinstance(p, TextPart)])
            assert [t for t in f.texts if t] == [t for t in wanted if t]


@pytest.mark.parametrize("backend", ["phoenix", "mlflow"])
def test_ten_thousand_spans_are_all_found(request: pytest.FixtureRequest, run: Any, backend: str, tmp_path: Path) -> None:
    import msgspec
    from spanport.converters import ids
    from spanport.converters.model import Run, ToolCall, TraceHeader, raw

    base: str = request.getfixturevalue(backend)
    encoder, start = msgspec.json.Encoder(), 1_795_000_000_000_000_000
    with (tmp_path / "many.spanport.jsonl").open("wb") as file:
        for t in range(10):
            trace = ids.trace_id("many", str(t))
            root = ids.span_id(trace, "run")
            file.write(encoder.encode(TraceHeader(id=trace, family="many", format="spanport", run_key=[str(t)])) + b"\n")
            for i in range(999):
                call_ = ToolCall(
                    id=ids.span_id(trace, "run", str(i)),
                    trace_id=trace,
                    name="bash",
                    key=str(i),
                    parent_id=root,
                    start=start + i,
                    end=start + i + 1,
                    arguments=raw({"n": i}),
                )
                file.write(encoder.encode(call_) + b"\n")
            file.write(encoder.encode(Run(id=root, trace_id=trace, name="many", key="run", start=start, end=start + 2000)) + b"\n")
    options = ["--endpoint", base, "--profile", backend, "--project", "many", "--verify", "--summary-json", "s.json"]
    run("export", tmp_path / "many.spanport.jsonl", *options)
    found = json.loads((tmp_path / "s.json").read_text())
    assert (found["read"], found["accepted"], found["stored"]) == (10_000, 10_000, 10_000)


def test_phoenix_over_grpc(phoenix: str, run: Any) -> None:
    salt = "grpc"
    expected, _ = sent("agno", salt)
    run(
        "export", FIXTURES / RECORDS["agno"], "--protocol", "grpc", "--endpoint", os.environ["SPANPORT_TEST_PHOENIX_GRPC"],
        "--profile", "phoenix", "--project", salt, "--id-salt", salt,
    )  # fmt: skip
    wait_for_count(phoenix, salt, len(expected))
    compare(list(phoenix_spans(phoenix, salt)), expected, salt, "phoenix")


def test_mlflow_without_an_experiment_says_which_header_is_missing(mlflow: str, run: Any) -> None:
    done = run("export", FIXTURES / RECORDS["agno"], "--endpoint", mlflow, "--no-spool", status=1)
    assert "x-mlflow-experiment-id" in done.stderr.lower()
    done = run("export", FIXTURES / RECORDS["agno"], "--endpoint", mlflow, "--header", "x-mlflow-experiment-id=999", "--no-spool", status=1)
    assert "404" in done.stderr


def test_one_bad_span_costs_no_other_with_mlflow(mlflow: str, run: Any) -> None:
    """MLflow refuses a whole request for one span; nothing that spanport sends is refused, so the fault is made at the wire."""
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
    from spanport.exporters.export import Encoder, Plan
    from spanport.exporters.otlp.account import Account
    from spanport.exporters.otlp.codec import PROTOBUF
    from spanport.exporters.otlp.http import HttpChannel
    from spanport.exporters.otlp.sender import Retry, Sender
    from spanport.exporters.otlp.settings import destination

    account = Account()
    encoder = Encoder(PROTOBUF, Plan(), account)
    (trace,) = spanport.read(FIXTURES / RECORDS["agno"])
    pieces = [made[0] for item in [trace.header, *trace.spans] if (made := encoder.encode(item)) is not None]
    broken = ProtoSpan.FromString(pieces[1].data)
    broken.span_id = b""
    pieces[1].data = broken.SerializeToString()
    to = destination(mlflow, headers={"x-mlflow-experiment-id": "0"})
    assert to is not None
    channel = HttpChannel(to)
    Sender(channel, PROTOBUF, account, retry=Retry(total=5)).deliver(pieces)
    channel.close()
    assert account.balanced
    assert (account.accepted, account.rejected) == (len(pieces) - 1, 1)
    assert account.rejected_spans == [pieces[1].span_id]
