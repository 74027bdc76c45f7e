"""Dresses that are made once for many spans: what is written with one is what is written without, and nothing of a span is forgotten in what they depend on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from spanport.converters.conventions import flatten, shared
from spanport.converters.conventions.flat import Profile
from spanport.converters.model import (
    ABSENT,
    AnySpan,
    Attempt,
    Chunk,
    Event,
    History,
    Link,
    Message,
    ModelRequest,
    Phase,
    Task,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolCallResponsePart,
    Usage,
    raw,
)
from spanport.converters.otlp import jsontext, wire

IDS = {"id": "00000000000000a1", "trace_id": "b" * 32}
times = st.none() | st.integers(0, 1 << 62)
words = st.none() | st.sampled_from(["", "a", "plan", "verify", "é"])
names = st.sampled_from(["", "a", "b", "attempt 1", "é", "\ud800"])
values = (
    st.sampled_from(
        ["", "text", "é", "\ud800", True, None, 1 << 63, -(1 << 63), float("nan"), float("inf"), 0.5, [1, "a"], {"a": 1}, [{"a": 1}]]
    )
    | st.integers(-(1 << 64), 1 << 64)
    | st.text(max_size=300)
)
attributes = st.dictionaries(
    st.sampled_from(["", "a", "é", "spanport.key", "spanport.name", "spanport.clock", "agentcompass.queue_seconds"]), values, max_size=3
)
events = st.lists(st.builds(Event, name=names, time=st.none() | st.integers(-2, 1 << 64), attributes=attributes), max_size=2)
both = {
    "name": names,
    "key": names,
    "start": times,
    "end": times,
    "clock": st.sampled_from(["recorded", "derived"]),
    "uncertainty": st.integers(0, 2),
    "unfinished": st.booleans(),
    "reused": st.booleans(),
    "status": st.sampled_from(["unset", "ok", "error"]),
    "attributes": st.just({}) | attributes,
    "events": st.just([]) | events,
    "links": st.just([]) | st.just([Link(trace_id="c" * 32, span_id="d" * 16, type="follows")]),
    "parent_id": st.none() | st.just("00000000000000a2"),
}
jsons = st.sampled_from(
    [
        ABSENT,
        Raw(b'{ "a": [1, "x y"] }'),
        Raw(b'"arguments"'),
        Raw(b'"\xc3\xa9"'),
        Raw(b'"\xff"'),
        Raw(b"null"),
        Raw(b'"' + b"x" * 20_000 + b'"'),
    ]
)
parts = st.lists(
    st.sampled_from(
        [
            TextPart("é"),
            TextPart("arguments"),
            ToolCallPart("t", "c", Raw(b'{ "a": 1}')),
            ToolCallResponsePart(Raw(b'"\xff"')),
            ToolCallResponsePart(Raw(b"null"), "c"),
        ]
    ),
    max_size=2,
)
messages = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "input", "output", "é"]),
        parts=parts,
        name=words,
        finish_reason=words,
        time=st.none() | st.just(4),
        source=st.just({}) | st.just({"x": Raw(b"[ ]")}),
    ),
    max_size=2,
)
ending = {"ending": words, "verdict": st.none() | st.just("pass")}
spans = st.one_of(
    st.fixed_dictionaries({**both, "type": words, "operation": words, "conversation_id": words, "retry": st.integers(0, 2)}).map(
        lambda d: Phase(**IDS, **d)
    ),
    st.fixed_dictionaries({**both, **ending, "conversation_id": words, "agent": words, "number": st.integers(0, 2)}).map(
        lambda d: Attempt(**IDS, **d)
    ),
    st.fixed_dictionaries({**both, **ending, "native_id": names, "category": words, "index": st.none() | st.integers(0, 1 << 65)}).map(
        lambda d: Task(**IDS, **d)
    ),
    st.fixed_dictionaries(
        {
            **both,
            "name": st.sampled_from(["", "a", "é", "\ud800"]),
            "call_id": words,
            "server": words,
            "type": words,
            "description": words,
            "arguments": jsons,
            "result": jsons,
            "outcome": st.sampled_from(["ok", "rejected"]),
            "requested_by": st.none() | st.just("00000000000000a4"),
            "reasoning": words,
            "conversation_id": words,
            "agent": words,
            "retry": st.integers(0, 1),
        }
    ).map(lambda d: ToolCall(**IDS, **d)),
    st.fixed_dictionaries(
        {
            **both,
            "provider": words,
            "model": words,
            "response_model": words,
            "response_id": words,
            "finish_reasons": st.just([]) | st.just(["stop"]),
            "system_instructions": st.just([]) | st.just([TextPart("s")]),
            "input_messages": messages,
            "output_messages": messages,
            "history": st.none() | st.builds(History, base=st.just("00000000000000a4"), count=st.integers(0, 1 << 64), hash=names),
            "chunks": st.just([]) | st.just([Chunk(time=1, length=2)]),
            "tool_definitions": jsons,
            "parameters": st.just({}) | st.just({"temperature": 0.5}),
            "conversation_id": words,
            "agent": words,
            "operation": st.sampled_from(["chat", "embeddings", "é"]),
            "usage": st.none() | st.just(Usage(input=3)),
            "time_to_first_token": st.none() | st.just(5),
            "inferred": st.booleans(),
            "retry": st.integers(0, 1),
        }
    ).map(lambda d: ModelRequest(**IDS, **d)),
)


@settings(max_examples=400)
@given(st.lists(spans, min_size=1, max_size=6), st.sampled_from(["1.41", "0.1"]))
def test_written_in_a_shared_dress_it_is_the_same(several: list[AnySpan], dialect: str) -> None:
    profile = Profile(dialect=dialect)  # type: ignore[arg-type]
    for span in [*several, *several]:
        dress = shared(span, profile)
        if dress is None:
            continue
        for codec in (wire, jsontext):
            found = codec.plain(span, dress)
            assert found is None or found == codec.span(flatten(span, profile))


@pytest.mark.parametrize("codec", [wire, jsontext])
def test_what_is_usual_is_written_in_one(codec: Any) -> None:
    """So that the test above compares something."""
    usual = {**IDS, "start": 1, "end": 2, "key": "k", "parent_id": "00000000000000a2"}
    event = Event(name="e", time=1, attributes={"n": 1, "t": "é"})
    own: list[AnySpan] = [
        Phase(**usual, name="n", attributes={"a": 0.5, "b": True, "c": -1, "d": "x" * 500}, events=[event, event]),  # type: ignore[arg-type]
        Attempt(**usual, name="q attempt 1", number=1, agent="a"),  # type: ignore[arg-type]
        Task(**usual, name="q", native_id="q", index=3, category="c", events=[event]),  # type: ignore[arg-type]
        ToolCall(**usual, name="t", arguments=Raw(b'{"a": 1}')),  # type: ignore[arg-type]
        ToolCall(
            **usual,  # type: ignore[arg-type]
            name="t",
            call_id="c",
            server="s",
            arguments=Raw(b'"arguments"'),
            result=Raw('{"é": [1, 2]}'.encode()),
            requested_by="00000000000000a4",
            conversation_id="é",
            attributes={"n": 1},
        ),
        ModelRequest(**usual, name="m"),  # type: ignore[arg-type]
        ModelRequest(
            **usual,  # type: ignore[arg-type]
            name="m",
            model="m",
            conversation_id="c",
            input_messages=[Message(role="user", parts=[TextPart("é")], time=1, source={"a": Raw(b"1")})],
            output_messages=[Message(role="assistant", parts=[ToolCallPart("t", "c", Raw(b'{"a": 1}'))])],
            history=History(base="00000000000000a4", count=3, hash="ab"),
        ),
    ]
    for span in (Phase(**usual, name="n"), *own):  # type: ignore[arg-type]
        dress = shared(span)
        assert dress is not None
        assert dress is shared(replace(span, id="00000000000000a3", start=5, end=6))
        found = codec.plain(span, dress)
        if codec is wire or span not in own:
            assert found == codec.span(flatten(span))
        else:
            assert found is None


@pytest.mark.parametrize("codec", [wire, jsontext])
@pytest.mark.parametrize("field", ["id", "trace_id", "parent_id"])
@pytest.mark.parametrize("odd", ["", "0" * 16, "0" * 32, "x" * 16, "a" * 15, "ab" * 9, " " * 16, "ab  " * 4, "ab  " * 8, "é" * 16])
def test_odd_ids_take_the_long_way(codec: Any, field: str, odd: str) -> None:
    span = replace(Phase(id="00000000000000a1", trace_id="b" * 32, name="n", key="k", start=1, end=2), **{field: odd})
    dress = shared(span)
    assert dress is not None
    assert codec.plain(span, dress) is None
    assert codec.plain(span, dress) is None, "also when it was seen before"


@pytest.mark.parametrize(
    "own",
    [
        {"attributes": {"a": "\ud800"}},
        {"attributes": {"a": 1 << 63}},
        {"attributes": {"a": float("nan")}},
        {"attributes": {"": 1}},
        {"attributes": {"spanport.key": 1}},
        {"attributes": {"a": {"b": 1}}},
        {"events": [Event(name="e")]},
        {"events": [Event(name="\ud800", time=1)]},
        {"start": 3},
        {"end": None},
    ],
)
def test_what_has_to_be_changed_takes_the_long_way(own: dict[str, Any]) -> None:
    """There it is counted, and told."""
    span = replace(Phase(**IDS, name="n", key="k", start=1, end=2), **own)  # type: ignore[arg-type]
    dress = shared(span)
    assert dress is not None
    assert wire.plain(span, dress) is None
    assert jsontext.plain(span, dress) is None


def test_what_says_more_gets_its_own() -> None:
    base = {"id": "00000000000000a1", "trace_id": "b" * 32, "name": "n", "key": "k"}
    plain = Phase(**base)  # type: ignore[arg-type]
    assert shared(plain) is not None
    assert shared(plain, Profile(carry=True)) is None
    assert shared(plain, Profile(name="langfuse")) is None
    assert shared(replace(plain, name="\ud800")) is None
    assert shared(replace(plain, input=raw(1))) is None
    assert shared(ToolCall(**base, reasoning="why")) is None  # type: ignore[arg-type]
    assert shared(ToolCall(**base, uncertainty=5)) is None  # type: ignore[arg-type]
    assert shared(ModelRequest(**base, parameters={"a": 1})) is None  # type: ignore[arg-type]
    assert shared(Attempt(**{**base, "name": "attempt 1"}, number=1)) is None, "its name goes without saying"  # type: ignore[arg-type]


def test_the_id_of_a_trace_is_none_of_a_span() -> None:
    span = Phase(id="00000000000000a1", trace_id="b" * 32, name="n", key="k", start=1, end=2)
    dress = shared(span)
    assert dress is not None
    for codec in (wire, jsontext):
        assert codec.plain(span, dress) is not None
        assert codec.plain(replace(span, parent_id=span.trace_id), dress) is None
        assert codec.plain(replace(span, trace_id=span.id), dress) is None
