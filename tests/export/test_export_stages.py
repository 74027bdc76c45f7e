"""What is done to spans before they leave: secrets, content, selection, time, ids, history, limits, safe values."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spanport
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from spanport.converters import ids
from spanport.converters.conventions import flatten
from spanport.converters.conventions.flat import FlatEvent, FlatLink, FlatSpan
from spanport.converters.errors import ReadError, UsageError
from spanport.converters.history import Chain
from spanport.converters.model import (
    Event,
    Item,
    Message,
    ModelRequest,
    ReasoningPart,
    Run,
    Task,
    TextPart,
    ToolCall,
    TraceHeader,
    raw,
)
from spanport.converters.otlp import wire
from spanport.converters.stages.content import content
from spanport.converters.stages.history import history, remember
from spanport.converters.stages.limits import limit, shorten
from spanport.converters.stages.redact import MARK, Redactor
from spanport.converters.stages.safe import safe
from spanport.converters.stages.salt import salt
from spanport.converters.stages.select import parse, select
from spanport.converters.stages.shift import shift
from spanport.exporters.pipeline import BLOCK, in_blocks

# ------------------------------------------------------------------------------------------------------------ secrets
SECRET = "Zx9Qk3Lm7Pw2Rt5Vn8Bc4Df6Gh1Jk0Sa"  # no real key of anybody


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"bearer {SECRET}",
        f"the key is sk-{SECRET}, keep it",
        f"sk-ant-api03-{SECRET}",
        f"ghp_{SECRET}abcd",
        "AKIAABCDEFGHIJKLMNOP is the id",
        f"AIza{SECRET}abc",
        f"xoxb-{SECRET}",
        f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{SECRET}",
        f"postgres://user:{SECRET}@db/x",
        f"export OPENAI_API_KEY={SECRET}",
        f'{{"api_key": "{SECRET}"}}',
        f"password: {SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"hf_{SECRET}",
    ],
)
def test_secrets_in_texts_are_taken_out_wherever_they_stand(make: Any, text: str) -> None:
    base = next(i for i in make() if isinstance(i, ToolCall))
    request = next(i for i in make() if isinstance(i, ModelRequest))
    hidden: list[Item] = [
        replace(base, result=raw(text)),
        replace(base, arguments=raw({"deep": [{"er": text}]})),
        replace(base, source={"x": raw({"y": text})}),
        replace(base, attributes={"note": text}),
        replace(base, events=[Event(name="log", attributes={"body": text})]),
        replace(request, input_messages=[Message(role="user", parts=[TextPart(content=text), ReasoningPart(content=text)])]),
    ]
    redactor = Redactor()
    for item in hidden:
        before = redactor.count
        data = msgspec.json.encode(redactor.item(item))
        assert redactor.count > before
        for leaked in (SECRET, "AKIAABCDEFGHIJKLMNOP"):
            assert leaked.encode() not in data
        assert MARK.encode() in data


@pytest.mark.parametrize(
    "name", ["api_key", "API_KEY", "api_keys", "x-api-key", "openai_api_key", "Authorization", "password", "client_secret", "access_token"]
)
def test_members_that_are_called_like_a_secret(make: Any, name: str) -> None:
    base = next(i for i in make() if isinstance(i, ToolCall))
    value: Any = ["short"] if name.endswith("s") else "short"
    found = Redactor().item(replace(base, arguments=raw({"config": {name: value, "model": "m"}})))
    assert isinstance(found, ToolCall)
    assert json.loads(bytes(found.arguments)) == {"config": {name: MARK, "model": "m"}}


def test_startup_diagnostic_goes_as_a_whole(make: Any) -> None:
    base = next(i for i in make() if isinstance(i, ToolCall))
    found = Redactor().item(replace(base, source={"startup_diagnostic": raw({"env": [{"a": '}"'}], "n": 1}), "kept": raw([1, 2.50])}))
    assert {k: bytes(v) for k, v in found.source.items()} == {"startup_diagnostic": b'"[redacted]"', "kept": b"[1,2.5]"}


@pytest.mark.parametrize(
    "given",
    [
        {"token": "hello", "input_tokens": 5, "logprobs": [{"token": "the"}]},
        {"properties": {"password": {"type": "string"}, "api_key": {"type": "string"}}},
        {"text": "the password: required. Ask for a token, a secret or a key."},
        {"text": "see https://example.com/a@b and mail me@example.com"},
        {"api_key": None, "api_key_set": True, "password": ""},
        {"id": "call_0123456789abcdef0123456789abcdef", "sha256": "0" * 64},
        {"task": "basic arithmetic skills", "sk": "risk-averse", "text": "task-specific"},
    ],
)
def test_what_is_no_secret_stays_to_the_byte(make: Any, given: Any) -> None:
    base = next(i for i in make() if isinstance(i, ToolCall))
    item = replace(base, arguments=Raw(json.dumps(given, indent=1).encode()))
    redactor = Redactor()
    assert redactor.item(item) is item or msgspec.json.encode(redactor.item(item)) == msgspec.json.encode(item)
    assert redactor.count == 0


@given(
    st.sampled_from(
        [
            "api_key",
            "apikey",
            "api-key",
            "access_key",
            "accessKey",
            "secret_key",
            "private-key",
            "client_secret",
            "password",
            "passphrase",
            "Authorization",
            "cookie",
            "session_token",
            "credentials",
            "startup_diagnostic",
            "openai-key",
        ]
    ),
    st.text(max_size=20),
)
def test_the_quick_look_passes_over_nothing_that_a_rule_touches(name: str, around: str) -> None:
    redactor = Redactor()
    for given_ in ({name: "value"}, {name.upper(): "value"}, {"a": [around, {name: "value"}]}, {around: 1, name: "value"}):
        data = msgspec.json.encode(given_)
        if redactor.json(data) is not data:
            assert redactor.suspect(data), data


def test_own_patterns_and_the_list_turned_off(make: Any) -> None:
    base = next(i for i in make() if isinstance(i, ToolCall))
    item = replace(base, result=raw(f"customer-4711 and sk-{SECRET}"))
    found = Redactor([r"customer-\d+"]).item(item)
    assert isinstance(found, ToolCall)
    assert bytes(found.result) == f'"{MARK} and {MARK}"'.encode()
    found = Redactor([r"customer-\d+"], builtin=False).item(item)
    assert isinstance(found, ToolCall)
    assert bytes(found.result) == f'"{MARK} and sk-{SECRET}"'.encode()
    with pytest.raises(UsageError):
        Redactor(["("])


def test_export_redacts_by_default_and_says_how_much(receiver: Any, make: Any, spanport: Any, tmp_path: Any) -> None:
    items = make(text=f"use sk-{SECRET} for")
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(i) + b"\n" for i in items))
    result = spanport("export", path, "--endpoint", receiver.url)
    assert "3 secrets redacted" in result.stderr
    assert SECRET.encode() not in receiver.got[0].body
    spanport("export", path, "--endpoint", receiver.url, "--no-redact")
    assert SECRET.encode() in receiver.got[1].body


# ------------------------------------------------------------------------------------------------------------ content
def words(items: list[Item]) -> bytes:
    return b"".join(wire.span(flatten(i)) for i in content(items, "none") if not isinstance(i, TraceHeader))


def full_of_words(make: Any) -> list[Item]:
    """A run with a word of its own in every place that holds content."""
    out: list[Item] = []
    for n, item in enumerate(make()):
        if isinstance(item, ToolCall):
            item = replace(item, arguments=raw({"a": f"WORDa{n}"}), result=raw(f"WORDr{n}"), reasoning=f"WORDt{n}", description=f"WORDd{n}")
        if isinstance(item, ModelRequest):
            system, deep = [TextPart(content=f"WORDs{n}")], [ReasoningPart(content=f"WORDq{n}")]
            item = replace(
                item,
                system_instructions=system,
                tool_definitions=raw([{"d": f"WORDf{n}"}]),
                output_messages=[Message(role="assistant", parts=deep)],
            )
        if not isinstance(item, TraceHeader):
            item = replace(
                item,
                attributes={"x": f"WORDx{n}", "n": n},
                events=[Event(name="e", attributes={"b": f"WORDe{n}"})],
                source={"s": raw(f"WORDz{n}")},
            )
            if item.error is not None:
                item = replace(item, error=replace(item.error, message=f"WORDm{n}"))
            if item.scores:
                item = replace(item, scores=[replace(item.scores[0], explanation=f"WORDp{n}")])
        if isinstance(item, Run):
            item = replace(item, input=raw(f"WORDi{n}"), output=raw({"o": f"WORDo{n}"}))
        out.append(item)
    return out


@pytest.mark.parametrize("level", ["metadata", "none"])
def test_no_content_leaves_unless_it_is_full(make: Any, level: Any) -> None:
    from spanport.converters.conventions.flat import Profile

    items = full_of_words(make)
    for profile in ("generic", "phoenix", "mlflow", "langfuse"):
        dress = Profile(profile, carry=True)
        full = b"".join(wire.span(flatten(i, dress)) for i in items if not isinstance(i, TraceHeader))
        assert full.count(b"WORD") > 40
        left = b"".join(wire.span(flatten(i, dress)) for i in content(items, level) if not isinstance(i, TraceHeader))
        assert b"WORD" not in left
        assert b"gpt-x" in left
        assert b"execute_tool bash" in left
        assert b"gen_ai.usage.input_tokens" in left
    assert (b"left out" in left) == (level == "metadata")


def test_metadata_keeps_the_shape_of_the_chat(make: Any) -> None:
    request = next(i for i in content(make(text="four"), "metadata") if isinstance(i, ModelRequest))
    assert request.input_messages == [Message(role="user", parts=[TextPart(content="[6 characters left out]")])]
    assert request.output_messages[0].parts[0].name == "bash"  # type: ignore[union-attr]


# ---------------------------------------------------------------------------------------------------------- selection
def chosen(items: list[Item], *texts: str) -> list[str]:
    return [i.key for i in select(items, [parse(t) for t in texts]) if not isinstance(i, TraceHeader)]


@pytest.mark.parametrize(
    ("selection", "keys"),
    [
        (["status=error"], ["c1", "a1", "run"]),
        (["kind=tool_call"], ["c0", "c1", "c2", "a1", "run"]),
        (["kind=tool_call,status=ok"], ["c0", "c2", "a1", "run"]),
        (["tool=ba*", "model=none"], ["c0", "c1", "c2", "a1", "run"]),
        (["model=gpt-x"], ["r0", "r1", "r2", "a1", "run"]),
        (["attempt=1"], ["r0", "c0", "r1", "c1", "r2", "c2", "a1", "run"]),
        (["attempt=2"], []),
        (["outcome=error"], ["c1", "a1", "run"]),
        (["kind!=tool_call,kind!=model_request"], ["a1", "run"]),
        (["kind=run"], ["run"]),
        (["kind=tool"], ["c0", "c1", "c2", "a1", "run"]),
        (["kind!=tool,kind!=request"], ["a1", "run"]),
    ],
)
def test_select(make: Any, selection: list[str], keys: list[str]) -> None:
    assert chosen(make(), *selection) == keys
    assert sorted(chosen([make()[0], *reversed(make()[1:])], *selection)) == sorted(keys), "in whatever order they come"


def test_select_a_task_means_everything_in_it(make: Any) -> None:
    items = make()
    run = items[-1]
    tasks = [
        Task(id=ids.span_id(run.trace_id, "t", n), trace_id=run.trace_id, name=n, key=n, parent_id=run.id, native_id=f"id-{n}")
        for n in ("geo", "law")
    ]
    moved = [replace(i, parent_id=tasks[0].id) if not isinstance(i, TraceHeader) and i.key == "a1" else i for i in items]
    assert chosen([*moved, *tasks], "task=geo") == ["r0", "c0", "r1", "c1", "r2", "c2", "a1", "run", "geo"]
    assert chosen([*moved, *tasks], "task=id-law") == ["run", "law"]


@pytest.mark.parametrize("text", ["", "status", "status=bad", "color=red", "kind=spam", "=x"])
def test_a_selection_that_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


def test_selected_spans_are_in_the_account(receiver: Any, document: Any, spanport: Any) -> None:
    result = spanport("export", document(), "--endpoint", receiver.url, "--select", "status=error", "--summary-json", "-")
    found = json.loads(result.stdout)
    assert (found["read"], found["accepted"], found["left_out"]) == (8, 3, {"not_selected": 5})
    assert spanport("export", document(), "--endpoint", receiver.url, "--select", "status=bad").exit_code == 2


# ------------------------------------------------------------------------------------------------------- time and ids
def test_shift_moves_everything_by_the_same_amount_and_says_so(make: Any) -> None:
    items = make()
    moved = list(shift(items, start=1_000))
    for before, after in zip(items[1:], moved[1:], strict=True):
        by = after.attributes["spanport.shifted_ns"]
        assert after.start == before.start + by
        assert after.end == before.end + by
    assert min(m.start for m in moved[1:]) == 1_000
    assert max(m.end for m in shift(items, end=5_000) if not isinstance(m, TraceHeader)) == 5_000


def test_salt_gives_other_ids_that_fit_together(make: Any) -> None:
    items = make()
    other = list(salt(items, "copy"))
    again = list(salt(items, "copy"))
    assert other == again
    mine, theirs = {i.id for i in items}, {i.id for i in other}
    assert not mine & theirs
    by_key = {o.key: o for o in other if not isinstance(o, TraceHeader)}
    assert all(o.trace_id == other[0].id for o in other[1:])
    assert by_key["a1"].parent_id == by_key["run"].id
    assert by_key["c0"].parent_id == by_key["a1"].id
    assert by_key["c0"].requested_by == by_key["r0"].id


# ------------------------------------------------------------------------------------------------------------ history
def chat(make: Any, turns: int, size: int = 200) -> list[Item]:
    """A run whose requests build on each other, as readers give it: only new messages on each."""
    chain, out = Chain(), []
    for item in make(turns=turns, text="x" * size):
        if isinstance(item, ModelRequest):
            item = replace(item, history=chain.history())
            chain.close(item.id, item.input_messages, item.output_messages)
        out.append(item)
    return out


def requests(items: list[Item]) -> list[ModelRequest]:
    return [i for i in items if isinstance(i, ModelRequest)]


def test_history_full_rebuilds_the_whole_chat(make: Any) -> None:
    given_ = chat(make, 4)
    found = requests(list(history(given_, "full")))
    assert [len(r.input_messages) for r in found] == [1, 3, 5, 7]
    first = requests(given_)[0]
    assert found[3].input_messages[:2] == first.input_messages + first.output_messages
    assert all(r.history is None for r in found)


def test_history_full_does_not_depend_on_the_order_in_which_requests_come(make: Any) -> None:
    """An event stream gives a request when it is complete, and that may be after one that builds on it (Agno: fixture peer-openinference tools-stream)."""
    items = chat(make, 6)
    straight = {r.id: r for r in requests(list(history(items, "full")))}
    for order in (list(reversed(items)), sorted(items, key=lambda i: i.id)):
        found = list(history(order, "full"))
        assert len(found) == len(items)
        assert {r.id: r for r in requests(found)} == straight
        whole: dict[str, list[Message]] = {}
        list(remember(order, whole))
        assert whole == {r.id: r.input_messages for r in straight.values()}


def test_history_none_sends_no_input(make: Any) -> None:
    assert all(not r.input_messages and r.output_messages for r in history(chat(make, 3), "none") if isinstance(r, ModelRequest))


def test_history_delta_grows_linearly_and_full_does_not(make: Any) -> None:
    """The record of 1000 calls."""
    sizes = {}
    for turns in (500, 1000):
        items = chat(make, turns)
        for mode in ("delta", "full"):
            if mode == "full" and turns == 1000:
                continue
            sizes[mode, turns] = sum(len(wire.span(flatten(i))) for i in history(items, mode) if not isinstance(i, TraceHeader))  # type: ignore[arg-type]
    assert sizes["delta", 1000] == pytest.approx(2 * sizes["delta", 500], rel=0.02)
    assert sizes["full", 500] > 20 * sizes["delta", 500]


@pytest.mark.skipif("SPANPORT_CORPUS" not in os.environ, reason="the record of 1000 calls is in the corpus only (SPANPORT_CORPUS)")
def test_history_delta_of_the_real_record_of_1000_calls_is_linear() -> None:
    (trace,) = spanport.read(Path(os.environ["SPANPORT_CORPUS"]) / "simlab" / "large_1000_calls")
    sizes = [
        sum(len(wire.span(flatten(i))) for i in history(trace.spans, mode) if isinstance(i, ModelRequest)) for mode in ("delta", "full")
    ]  # type: ignore[arg-type]
    each = [len(wire.span(flatten(i))) for i in requests(list(history(trace.spans, "delta")))][1:-1]
    assert len(each) > 40
    assert max(each) < 1.3 * min(each), "a late request is no larger than an early one"
    assert sizes[1] > 10 * sizes[0]


def test_a_request_whose_base_is_not_selected_gets_the_whole_chat_and_says_so(make: Any) -> None:
    items = chat(make, 3)
    items = [replace(i, status="error") if isinstance(i, ModelRequest) and i.key == "r2" else i for i in items]
    whole: dict[str, list[Message]] = {}
    kept = select(remember(items, whole), [parse("kind=model_request,status=error")])
    (found,) = requests(list(history(kept, "delta", whole)))
    assert len(found.input_messages) == 5
    assert found.attributes["spanport.history.whole"] is True


def test_a_history_that_is_not_known_is_said_to_be_missing(make: Any) -> None:
    items = [i for i in chat(make, 3) if getattr(i, "key", "") != "r0"]
    found = requests(list(history(items, "full")))
    assert found[0].attributes["spanport.history.missing"] == 2
    assert len(found[0].input_messages) == 1


# ------------------------------------------------------------------------------------------------- limits, safe values
def flat(**more: Any) -> FlatSpan:
    given_: dict[str, Any] = {"trace_id": "a" * 32, "span_id": "b" * 16, "name": "n", "start": 1, "end": 2, "attributes": []}
    return FlatSpan(**{**given_, **more})


def test_attribute_limits_are_marked() -> None:
    long = flat(
        attributes=[("a", "é" * 100), ("b", b'[{"t":"' + b"x" * 500 + b'"}]'), ("c", 1)], events=[FlatEvent("e", 1, [("body", "y" * 300)])]
    )
    found = limit(long, max_bytes=100)
    held = dict(found.attributes)
    assert len(held["a"].encode()) <= 100
    assert held["a"].endswith("[cut]")
    assert json.loads(held["b"])[0]["t"].startswith("xxx"), "JSON stays JSON"
    assert len(held["b"]) <= 100
    assert len(found.events[0].attributes[0][1].encode()) <= 100
    assert held["spanport.cut"] == ["a (200 bytes)", "b (510 bytes)", "event.body (300 bytes)"]
    assert limit(long, max_bytes=1000) is long
    few = limit(flat(attributes=[(f"k{i}", i) for i in range(30)]), max_attributes=10)
    assert len(few.attributes) == 10
    assert dict(few.attributes)["spanport.dropped_attributes"] == 21
    assert few.attributes[0] == ("k0", 0)


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=10), st.one_of(st.text(max_size=400), st.integers(0, 9), st.lists(st.text(max_size=50)))),
        max_size=12,
    ),
    st.integers(600, 5000),
)
def test_a_shortened_span_fits_and_says_what_was_cut(given_: list[tuple[str, Any]], size: int) -> None:
    span = flat(attributes=given_)
    found = shorten(span, size)
    if len(wire.span(span)) > size + 200:
        assert any(k in ("spanport.cut", "spanport.dropped_attributes") for k, _ in found.attributes)
    assert len(wire.span(found)) <= max(size + 200, len(wire.span(span)))


@pytest.mark.parametrize(
    ("value", "made", "kind"),
    [
        (float("nan"), "NaN", "NaN"),
        (float("-inf"), "-Infinity", "NaN"),
        (2**63, str(2**63), "integer"),
        (-(2**63) - 1, str(-(2**63) - 1), "integer"),
        (b"\x00\xff", "AP8=", "bytes"),
        ("a\ud800b", "a�b", "surrogate"),
        ({"x": [2**70]}, {"x": [str(2**70)]}, "integer"),
        ({"": 1}, {"spanport.empty_key": 1}, None),
        ({1, 2}, "[1,2]", "type"),
    ],
)
def test_values_are_made_safe_and_counted(value: Any, made: Any, kind: str | None) -> None:
    changed: Counter[str] = Counter()
    found = safe(flat(attributes=[("ok", "x"), ("k", value), ("z", 1)]), changed)
    assert found.attributes == [("ok", "x"), ("k", made), ("z", 1)]
    if kind:
        assert changed == {kind: 1}
    wire.span(found)


def test_keys_and_ids_are_made_safe() -> None:
    changed: Counter[str] = Counter()
    found = safe(
        flat(
            span_id="",
            trace_id="xyz",
            parent_id="",
            attributes=[("", 1), ("a", 1), ("a", 2)],
            links=[FlatLink("", "")],
            start=-5,
            end=1 << 80,
        ),
        changed,
    )
    assert found.attributes == [("spanport.empty_key", 1), ("a", 1)]
    assert len(bytes.fromhex(found.span_id)) == 8
    assert len(bytes.fromhex(found.trace_id)) == 16
    assert found.parent_id is None
    assert found.links == []
    assert (found.start, found.end) == (0, (1 << 63) - 1)
    assert changed == {"empty key": 1, "key twice": 1, "id": 3, "link": 1, "time": 2}
    good = flat(attributes=[("a", "ü"), ("f", 1.5), ("n", None), ("l", ["x"])])
    assert safe(good, changed) is good


def test_a_deeply_nested_value_does_not_end_the_export() -> None:
    value: Any = "x"
    for _ in range(300):
        value = [value]
    changed: Counter[str] = Counter()
    wire.span(safe(flat(attributes=[("deep", value)]), changed))
    assert changed == {"depth": 1}


def test_items_in_blocks_are_the_same_and_come_before_what_went_wrong() -> None:
    def source(count: int, error: BaseException | None) -> Iterator[int]:
        yield from range(count)
        if error is not None:
            raise error

    for count in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK):
        assert list(in_blocks(source(count, None))) == list(range(count))  # type: ignore[arg-type]
        got: list[Any] = []
        with pytest.raises(ReadError):
            got.extend(in_blocks(source(count, ReadError("broken"))))  # type: ignore[arg-type]
        assert got == list(range(count))
