"""The model through OTLP and back: every typed field, every source field, every attribute, whatever the values."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spanport.converters import model as M
from spanport.converters import registry
from spanport.converters.api import read, write
from spanport.converters.errors import Report
from spanport.converters.patch import same

word = st.text('abcé-_ ."\\\n\u2028😀', max_size=12)
name = st.text("abc._", min_size=1, max_size=8)
hex8 = st.integers(1, (1 << 64) - 1).map(lambda n: f"{n:016x}")
big = st.integers(-(1 << 62), 1 << 62)
number = st.one_of(st.integers(-5, 1 << 40), st.floats(allow_nan=False, allow_infinity=False, width=32))
value = st.recursive(
    st.one_of(word, st.booleans(), big, st.floats(allow_nan=False, allow_infinity=False), st.none()),
    lambda v: st.one_of(st.lists(v, max_size=3), st.dictionaries(name, v, max_size=3)),
    max_leaves=6,
)
raws = st.one_of(st.just(M.ABSENT), value.map(M.raw), st.just(M.raw('{"a": 1}')), st.just(M.raw("[1")))
source = st.dictionaries(name, value.map(M.raw), max_size=3)
attributes = st.dictionaries(
    st.one_of(
        name, st.sampled_from(["session.id", "gen_ai.agent.name", "gen_ai.request.seed", "input.value", "tag.tags", "spanport.rest"])
    ),
    value,
    max_size=3,
)
time = st.one_of(st.none(), st.integers(0, 1 << 62))

PRIMITIVE = {str: word, int: st.integers(0, 1 << 40), float: st.floats(0, 10, width=32), bool: st.booleans()}
BY_NAME: dict[str, Any] = {
    "parent_id": st.one_of(st.none(), hex8),
    "start": time,
    "end": time,
    "time": time,
    "created": time,
    "attributes": attributes,
    "parameters": attributes,
    "source": source,
    "time_to_first_token": st.one_of(st.none(), st.integers(0, 1 << 45)),
    "uncertainty": st.integers(0, 1 << 40),
}
TRACE = "0123456789abcdef0123456789abcdef"


def of(kind: Any) -> st.SearchStrategy[Any]:
    """A strategy for a type of the model, from its own annotations: a field that is added later is tested at once."""
    info = kind
    if isinstance(info, msgspec.inspect.StructType):
        return structs(info.cls)
    if isinstance(info, msgspec.inspect.UnionType):
        return st.one_of(*map(of, info.types))
    if isinstance(info, msgspec.inspect.ListType):
        return st.lists(of(info.item_type), max_size=2)
    if isinstance(info, msgspec.inspect.LiteralType):
        return st.sampled_from(info.values)
    if isinstance(info, msgspec.inspect.NoneType):
        return st.none()
    if isinstance(info, msgspec.inspect.RawType):
        return raws
    return {
        msgspec.inspect.StrType: word,
        msgspec.inspect.IntType: st.integers(0, 1 << 40),
        msgspec.inspect.FloatType: st.floats(0, 10, width=32),
        msgspec.inspect.BoolType: st.booleans(),
    }[type(info)]


def structs(cls: Any) -> st.SearchStrategy[Any]:
    info = msgspec.inspect.type_info(cls)
    assert isinstance(info, msgspec.inspect.StructType)
    fields = {}
    for f in info.fields:
        if f.name in ("id", "span_id") and cls in (*M.Span.__subclasses__(), M.Link):
            fields[f.name] = hex8
        elif f.name == "trace_id":
            fields[f.name] = st.just(TRACE)
        elif f.name in ("response", "content") and cls is M.ToolCallResponsePart:
            fields[f.name] = value.map(M.raw)
        else:
            fields[f.name] = BY_NAME[f.name] if f.name in BY_NAME else of(f.type)
    optional = {f.name: fields.pop(f.name) for f in info.fields if not f.required}
    return st.fixed_dictionaries(fields, optional=optional).map(lambda d: cls(**d))


spans = st.one_of(*map(structs, (M.Run, M.Task, M.Attempt, M.Phase, M.ModelRequest, M.ToolCall)))
headers = st.builds(
    M.TraceHeader,
    id=st.just(TRACE),
    family=word,
    format=name,
    run_key=st.lists(word, max_size=2),
    name=st.one_of(st.none(), word),
    resource=st.dictionaries(st.one_of(name, st.just("service.name")), value, max_size=3),
    source=source,
    repairs=st.lists(st.builds(M.Repair, st.integers(0, 99), st.just("NaN")), max_size=1),
)


def plain(item: Any) -> Any:
    return json.loads(msgspec.json.encode(item))


@pytest.mark.parametrize("format", ["otlp-json", "otlp-proto"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(header=headers, given_spans=st.lists(spans, min_size=1, max_size=3, unique_by=lambda s: s.id))
def test_whole_model_through_otlp(format: str, header: M.TraceHeader, given_spans: list[Any]) -> None:
    out = io.BytesIO()
    write([header, *given_spans], out, format=format)
    assert registry.detect(_source(out)).name == format
    report = Report()
    (trace,) = read(out.getvalue(), format=format, report=report)
    assert not report.notices
    for before, after in zip([header, *given_spans], [trace.header, *trace.spans], strict=True):
        assert same(plain(before), plain(after))


def _source(out: io.BytesIO) -> Any:
    from spanport.converters.source import source_of

    return source_of(out.getvalue())
