"""`spanport.converters.patch`: applying a difference gives the other value, whatever the two are."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spanport.converters.patch import PatchError, apply, diff, same

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=40),
    st.just("a text that is long enough to be copied"),
    st.just("\ud800 lone"),
)
values = st.recursive(
    scalars,
    lambda v: st.one_of(
        st.lists(v, max_size=5),
        st.dictionaries(st.sampled_from(["id", "type", "name", "text", "x", "\udc00"]), v, max_size=5),
    ),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None)
@given(values, values)
def test_apply_undoes_diff(a: object, b: object) -> None:
    patch = diff(a, b)
    text = json.dumps(patch, allow_nan=False)  # strict JSON, also for NaN and lone surrogates
    text.encode("utf-8")
    assert same(apply(a, json.loads(text)), b)


def test_numbers_keep_their_type() -> None:
    assert diff({"n": 1}, {"n": 1.0}) is not None
    assert diff({"n": True}, {"n": 1}) is not None
    assert diff({"n": math.nan}, {"n": math.nan}) is None
    assert diff({"a": 1, "b": 2}, {"b": 2, "a": 1}) is None


def test_a_changed_item_is_found_by_its_id_not_its_place() -> None:
    base = [{"id": str(n), "text": f"the long text of item number {n}"} for n in range(50)]
    other = [{"id": "new", "text": "x"}, *base[:20], {**base[20], "ok": True}, *base[22:]]
    patch = diff(base, other)
    assert len(json.dumps(patch)) < 120
    assert apply(base, patch) == other


def test_what_the_base_holds_is_copied_not_written_again() -> None:
    message = {"role": "user", "content": "x" * 5000}
    patch = diff({"messages": [message]}, {"messages": [message], "input": {"first": message, "n": 3}})
    assert len(json.dumps(patch)) < 100


def test_a_long_text_changed_in_one_place_is_spliced() -> None:
    a = "a" * 3000 + "1" + "b" * 3000
    b = "a" * 3000 + "22" + "b" * 3000
    assert len(json.dumps(diff([a], [b]))) < 60
    assert apply([a], diff([a], [b])) == [b]


def test_a_patch_of_another_base_is_an_error() -> None:
    patch = diff([1, 2, 3], [1, 2, 4])
    with pytest.raises(PatchError):
        apply([1], patch)
    with pytest.raises(PatchError):
        apply({}, [99])
