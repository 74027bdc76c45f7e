"""Dresses that are made once for many spans: the same as made for each, and nothing of a span is forgotten in what they depend on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from spanport.converters import conventions
from spanport.converters.conventions import flatten, shared
from spanport.converters.conventions.flat import Profile, Shared
from spanport.converters.model import Attempt, Event, Phase
from spanport.converters.otlp import jsontext, wire


def test_every_field_is_accounted_for() -> None:
    """Ids and times stand beside a dress, the source is sent only in a carry."""
    known = [*conventions._DRESS, *conventions._RARE, "id", "trace_id", "parent_id", "start", "end", "source"]
    assert sorted(known) == sorted(Phase.__struct_fields__)


times = st.none() | st.integers(0, 1 << 62)
words = st.none() | st.sampled_from(["", "a", "plan", "verify", "é"])
both = {
    "name": st.sampled_from(["", "a", "b"]),
    "key": st.sampled_from(["a", "b"]),
    "start": times,
    "end": times,
    "clock": st.sampled_from(["recorded", "derived"]),
    "uncertainty": st.integers(0, 2),
    "unfinished": st.booleans(),
    "reused": st.booleans(),
    "status": st.sampled_from(["unset", "ok", "error"]),
    "conversation_id": words,
}
phases = st.fixed_dictionaries({**both, "type": words, "operation": words, "retry": st.integers(0, 2)}).map(
    lambda d: Phase(id="00000000000000a1", trace_id="b" * 32, **d)
)


@given(st.lists(phases, min_size=1, max_size=6), st.sampled_from(["1.41", "0.1"]))
def test_a_shared_dress_is_what_each_span_would_get(spans: list[Phase], dialect: str) -> None:
    profile = Profile(dialect=dialect)  # type: ignore[arg-type]
    for span in [*spans, *spans]:
        flat = flatten(span, profile)
        assert isinstance(flat.attributes, Shared)
        own = conventions._attributes(span, profile)
        assert list(flat.attributes) == own
        assert [type(v) for _, v in flat.attributes] == [type(v) for _, v in own]
        told = [wire.span(flat), jsontext.span(flat), wire.span(flat), jsontext.span(flat)]
        flat.attributes = own
        assert told == [wire.span(flat), jsontext.span(flat)] * 2


@given(phases, st.sampled_from(["1.41", "0.1"]))
def test_written_without_a_flat_span_it_is_the_same(span: Phase, dialect: str) -> None:
    profile = Profile(dialect=dialect)  # type: ignore[arg-type]
    dress = shared(span, profile)
    assert dress is not None
    usual = span.start is not None and span.end is not None and 0 < span.start <= span.end
    for codec in (wire, jsontext):
        for child in (span, replace(span, parent_id="00000000000000a2")):
            for _ in range(2):
                assert codec.plain(child, dress) == (codec.span(flatten(child, profile)) if usual else None)


@pytest.mark.parametrize("codec", [wire, jsontext])
@pytest.mark.parametrize("field", ["id", "trace_id", "parent_id"])
@pytest.mark.parametrize("odd", ["", "0" * 16, "0" * 32, "x" * 16, "a" * 15, "ab" * 9, " " * 16, "ab  " * 4, "ab  " * 8, "é" * 16])
def test_odd_ids_take_the_long_way(codec: Any, field: str, odd: str) -> None:
    span = replace(Phase(id="00000000000000a1", trace_id="b" * 32, name="n", key="k", start=1, end=2), **{field: odd})
    dress = shared(span)
    assert dress is not None
    assert codec.plain(span, dress) is None
    assert codec.plain(span, dress) is None, "also when it was seen before"


def test_what_says_more_gets_its_own() -> None:
    base = {"id": "00000000000000a1", "trace_id": "b" * 32, "name": "n", "key": "k"}
    for span in (
        Phase(**base, attributes={"a": 1}),
        Phase(**base, events=[Event(name="e")]),
        Attempt(**base, number=1),
    ):  # type: ignore[arg-type]
        assert not isinstance(flatten(span).attributes, Shared)
    plain = Phase(**base)  # type: ignore[arg-type]
    assert not isinstance(flatten(plain, Profile(carry=True)).attributes, Shared)
    assert not isinstance(flatten(plain, Profile(name="langfuse")).attributes, Shared)


def test_the_id_of_a_trace_is_none_of_a_span() -> None:
    span = Phase(id="00000000000000a1", trace_id="b" * 32, name="n", key="k", start=1, end=2)
    dress = shared(span)
    assert dress is not None
    for codec in (wire, jsontext):
        assert codec.plain(span, dress) is not None
        assert codec.plain(replace(span, parent_id=span.trace_id), dress) is None
        assert codec.plain(replace(span, trace_id=span.id), dress) is None
