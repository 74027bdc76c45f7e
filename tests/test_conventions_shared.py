"""Dresses that are made once for many spans: the same as made for each, and nothing of a span is forgotten in what they depend on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from spanport.converters import conventions
from spanport.converters.conventions import flatten
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
