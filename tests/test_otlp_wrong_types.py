"""OTLP JSON in which something around the spans is of another type than it should be: only that is lost, with its path and its text."""

from __future__ import annotations

import json
from typing import Any

import pytest
import spanport
from spanport.converters.errors import MAX_RECORD, MAX_RECORDS, ReadError, Report

GOOD: dict[str, Any] = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}


def span(n: int) -> dict[str, Any]:
    return {"traceId": f"{n:032x}", "spanId": f"{n:016x}", "name": f"s{n}", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}


def group(n: int, resource: Any = GOOD, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "scopeSpans": [{"scope": {"name": "a"}, "spans": [span(n)], **more}]}


def read(*groups: Any, lines: bool = False) -> tuple[dict[str, str], Report]:
    """Names of the spans with the family of their trace, and the report."""
    data = json.dumps({"resourceSpans": list(groups)}).encode()
    if lines:
        data = json.dumps({"resourceSpans": [group(90)]}).encode() + b"\n" + data + b"\n"
    report = Report(input="x")
    return {s.name: t.header.family for t in spanport.read(data, format="otlp-json", report=report) for s in t.spans}, report


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize(
    ("bad", "path"),
    [
        (7, "$.resourceSpans[1].resource"),
        ([], "$.resourceSpans[1].resource"),
        ({"attributes": "x"}, "$.resourceSpans[1].resource.attributes"),
    ],
)
def test_a_resource_of_another_type_costs_only_itself(bad: Any, path: str, lines: bool) -> None:
    got, report = read(group(1), group(2, bad), group(3), lines=lines)
    assert {k: v for k, v in got.items() if k != "s90"} == {"s1": "shop", "s2": "otlp", "s3": "shop"}
    (notice,) = report.notices
    assert (notice.severity, notice.path, notice.line) == ("lost", path, 2 if lines else 1)
    assert notice.record is not None
    assert json.loads(notice.record) == (bad["attributes"] if isinstance(bad, dict) else bad)


def test_the_other_attributes_of_a_resource_stay() -> None:
    got, report = read(group(1, {"attributes": [{"key": 5}, *GOOD["attributes"]]}))
    assert got == {"s1": "shop"}
    assert [n.path for n in report.notices] == ["$.resourceSpans[0].resource.attributes[0].key"]


@pytest.mark.parametrize(
    ("wrong", "path", "left"),
    [
        (group(2, scope=[1]), "$.resourceSpans[1].scopeSpans[0].scope", {"s1", "s2", "s3"}),
        (group(2, schemaUrl=5), "$.resourceSpans[1].scopeSpans[0].schemaUrl", {"s1", "s2", "s3"}),
        (group(2, spans={"a": 1}), "$.resourceSpans[1].scopeSpans[0].spans", {"s1", "s3"}),
        ({"resource": GOOD, "scopeSpans": [5, group(2)["scopeSpans"][0]]}, "$.resourceSpans[1].scopeSpans[0]", {"s1", "s2", "s3"}),
        ({"resource": GOOD, "scopeSpans": "x"}, "$.resourceSpans[1].scopeSpans", {"s1", "s3"}),
        ("x", "$.resourceSpans[1]", {"s1", "s3"}),
    ],
)
def test_so_does_anything_else_around_spans(wrong: Any, path: str, left: set[str]) -> None:
    got, report = read(group(1), wrong, group(3))
    assert got.keys() == left
    assert [(n.severity, n.path) for n in report.notices] == [("lost", path)]


def test_what_is_no_list_of_groups_at_all_is_an_error() -> None:
    with pytest.raises(ReadError) as failed:
        spanport.read(b'{"resourceSpans": 5}', format="otlp-json")
    assert failed.value.path == "$.resourceSpans"


def test_a_bad_span_keeps_its_text_up_to_a_bound() -> None:
    bad = span(2) | {"traceId": "no id", "name": "x" * (2 * MAX_RECORD)}
    report = read({"resource": GOOD, "scopeSpans": [{"spans": [span(1), bad, *[bad] * 40]}]})[1]
    kept = [len(n.record or "") for n in report.notices]
    assert kept[0] == MAX_RECORD
    assert sum(kept) == MAX_RECORDS
    assert len(kept) == 41
    assert (report.notices[0].record or "").startswith('{"traceId": "no id"')


def test_items_of_a_document_keep_their_text() -> None:
    report = Report(input="x")
    chat = {"messages": [{"role": "user", "content": "a"}, {"content": "no role"}, {"role": "assistant", "content": "b"}]}
    spanport.read(json.dumps(chat).encode(), format="chat", report=report)
    assert [json.loads(n.record or "") for n in report.notices if n.severity == "lost"] == [{"content": "no role"}]
