"""Documents that break off: what is whole before the break is read, and nothing is made up, in every format that is one document.

The witness is the document itself, decoded with the standard library, and for the spans the reading of the whole document.
"""

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spanport.converters import registry
from spanport.converters.cutoff import whole_part
from spanport.converters.errors import ReadError, Report
from spanport.converters.jsonio import finite
from spanport.converters.model import Attempt, ModelRequest, Run, Task, ToolCall, TraceHeader
from spanport.converters.source import Source

FIXTURES = Path(__file__).parent.parent / "fixtures"
ANY = re.compile(".*", re.DOTALL)
TOP = re.compile(r"\{([^\[{]*\[)?")

_leaf = st.none() | st.booleans() | st.integers(-99, 99) | st.sampled_from(["", '"', "\\", "[{", "}],", '\\"', "é", "\n", ": "])
_values = st.recursive(
    _leaf,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "]", '"', "é[", "k,"]), inner, max_size=4),
    max_leaves=25,
)


def is_start(part: object, whole: object, open_: list[str]) -> bool:
    """Whether ``part`` is the beginning of ``whole``: equal but for the end of the containers that are open."""
    if not open_:
        return part == whole
    if isinstance(part, list) and isinstance(whole, list):
        below = open_[1:]
        if not below:
            return part == whole[: len(part)]
        return bool(part) and part[:-1] == whole[: len(part) - 1] and is_start(part[-1], whole[len(part) - 1], below)
    if isinstance(part, dict) and isinstance(whole, dict):
        names = list(whole)[: len(part)]
        if list(part) != names:
            return False
        below = open_[1:]
        full = names[:-1] if below else names
        return all(part[n] == whole[n] for n in full) and (not below or is_start(part[names[-1]], whole[names[-1]], below))
    return False


@settings(max_examples=150, deadline=None)
@given(_values, st.sampled_from([None, 1]), st.data())
def test_the_part_is_a_beginning_of_the_whole(value, indent, data):
    text = json.dumps({"x": value}, indent=indent, ensure_ascii=False).encode()
    cut = data.draw(st.integers(1, len(text)))
    part = whole_part(text[:cut], ANY)
    assert part is not None
    brackets = re.sub(r"[^\[{]", "", re.sub(r"(é\[|\])(?=[\[{])", "", part.open))
    assert is_start(json.loads(part.data), {"x": value}, list(brackets))


def test_only_what_may_be_given_in_part_is():
    text = b'{"id": 1, "list": [{"a": [1, 2]}, {"a": [3, 4]}, {"a": [5, 6'
    assert whole_part(text, TOP) == (b'{"id": 1, "list": [{"a": [1, 2]}, {"a": [3, 4]}]}', "{list[")
    assert whole_part(text, ANY) == (b'{"id": 1, "list": [{"a": [1, 2]}, {"a": [3, 4]}, {"a": [5]}]}', "{list[{a[")
    assert whole_part(text, re.compile(r"\{")) == (b'{"id": 1}', "{")
    assert whole_part(text, re.compile("x")) is None
    assert whole_part(b'{"id": 1}', TOP) == (b'{"id": 1}', "")
    assert whole_part(b"", TOP) is None
    assert whole_part(b"]", TOP) is None


@pytest.mark.parametrize(
    ("start", "repeated"),
    [
        (b'{"a":"', b'\\"'),
        (b'{"a":[', b"1,"),
        (b'{"a":[', b"[],"),
        (b"[" * 900, b'{"a":[[1]]},'),
        (b'{"a":[', b'"{",'),
        (b'{"a":', b'{"a":'),
    ],
)
def test_the_cost_is_linear(start, repeated):
    def took(size: int) -> float:
        text = start + repeated * (size // len(repeated))
        begin = time.perf_counter()
        whole_part(text, ANY)
        return time.perf_counter() - begin

    took(10_000)
    small, large = min(took(100_000) for _ in range(3)), took(1_600_000)
    assert large < 64 * max(small, 0.002)  # 16 times the size


DOCUMENTS = {
    "runartifacts": "runartifacts/shape_a/artifacts.json",
    "agno": "agno/corpus/agno/team/plain.run_output.json",
    "atif": "atif/subagents_1_8.json",
    "chat": "artifacts/threads/two_turns_compare/thread.json",
    "artifact-table": "artifacts/spec/rows.json",
    "otlp-json": "otlp/genai.otlp.jsonl",
}


def sample(format: str) -> bytes:
    data = (FIXTURES / DOCUMENTS[format]).read_bytes()
    return data.split(b"\n")[0] if format == "otlp-json" else data  # one document


def read(format: str, data: bytes) -> tuple[list, Report]:
    report = Report(input="cut")
    return list(registry.get(format).read(Source("cut", content=data), report)), report


def test_every_format_that_is_a_document_is_tried():
    lines = {f.name for f in registry.formats().values() if f.reader and f.lines}
    others = {"agentcompass", "otlp-proto"}  # a folder (test_agentcompass_*), and no JSON
    readable = {f.name for f in registry.formats().values() if f.reader and f.name in {*DOCUMENTS, *lines, *others}}
    assert {f.name for f in registry.formats().values() if f.reader} == readable


@pytest.mark.parametrize("format", DOCUMENTS)
def test_cut_anywhere_the_whole_things_before_are_read(format):
    data = sample(format).rstrip()
    whole, _ = read(format, data)
    known = {item.id for item in whole}
    counts = [0]
    for cut in range(2, len(data) - 1, max(1, len(data) // 120)):
        try:
            items, report = read(format, data[:cut])
        except ReadError as error:
            failed = str(error)
        else:
            failed = ""
        if failed:
            assert counts[-1] == 0, f"byte {cut}: {failed}"  # once there is something, more of the file can't make it less
            assert "\n" not in failed
            continue
        assert report.lost, cut
        notice = next(n for n in report.notices if n.severity == "lost")
        assert notice.code == "truncated"
        assert notice.byte == cut
        spans = [i for i in items if not isinstance(i, TraceHeader)]
        if format != "runartifacts":  # its ids are of members that come last
            assert {i.id for i in spans if isinstance(i, ModelRequest | ToolCall)} <= known
        counts.append(len(spans))
        above = {s.id for s in spans}
        if format != "otlp-json":
            assert {s.parent_id for s in spans} - {None} <= above
    assert counts[-1] >= 0.6 * sum(not isinstance(i, TraceHeader) for i in whole)
    if format not in ("agno", "artifact-table"):
        assert counts == sorted(counts)


@pytest.mark.parametrize("format", ["runartifacts", "agno", "atif", "chat"])
def test_of_a_cut_run_no_end_is_told(format):
    """Neither a status that is not in what was read, nor an answer, nor an end."""
    data = sample(format).rstrip()
    for cut in range(2, len(data) - 1, max(1, len(data) // 60)):
        try:
            items, _ = read(format, data[:cut])
        except ReadError:
            continue
        (root,) = [i for i in items if isinstance(i, Run) and i.parent_id is None] or [None]
        if root is None:
            assert any(isinstance(i, Task) for i in items)
            continue
        stated = (b'"status": "COMPLETED"' in data[:cut] and format == "agno") or b'"final_observation"' in data[:cut]
        assert root.ending in (None, "cut off") or stated, cut
        assert root.status == "unset" or stated
        (attempt,) = [i for i in items if isinstance(i, Attempt) and i.parent_id == root.id][-1:]
        assert attempt.unfinished
        assert attempt.ending in (None, "cut off") or (format == "runartifacts" and stated)
        assert root.unfinished or (format == "agno" and stated)


def test_garbage_in_a_document_ends_it_there():
    """What comes before is read; where the text goes on after it can't be known."""
    data = sample("agno")
    middle = data.index(b'"member_responses"')
    items, report = read("agno", data[:middle] + b"\0\0\0" + data[middle:])
    assert any(isinstance(i, ModelRequest) for i in items)
    (notice,) = [n for n in report.notices if n.severity == "lost"]
    assert notice.byte == middle
    assert "not JSON" in notice.message


@pytest.mark.parametrize("format", DOCUMENTS)
@pytest.mark.parametrize("deep", [b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 5000 + b"1" + b"}" * 5000])
def test_what_is_nested_too_deep_is_null_and_the_rest_is_read(format, deep):
    data = sample(format)
    whole, _ = read(format, data)
    member = re.compile(rb'"kind": |\n *"\w+": ').search(data, len(data) // 2)  # at the start of a line: not inside a text
    assert member is not None
    at = member.end()
    items, report = read(format, data[:at] + b"[" + deep + b", 1]," + b'"was": ' + data[at:])
    assert len(items) >= 0.6 * len(whole)  # a message or a call may be no longer what it was
    lost = [n for n in report.notices if n.code == "too-deep"]
    assert len(lost) == 1
    assert lost[0].byte > at


def test_deep_without_an_end_is_given_up():
    begin = time.perf_counter()
    with pytest.raises(ReadError, match="nested too deep"):
        read("agno", b'{"run_id": "r", "agent_id": "a", "content": ' + b"[" * 20_000_000)
    assert time.perf_counter() - begin < 30


def test_protobuf_that_breaks_off_keeps_its_whole_spans():
    """The witness counts spans with the protobuf library, by where each ends."""
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    data = (FIXTURES / "cli/bench.otlp.pb").read_bytes()
    spans = [s.SerializeToString() for g in TracesData.FromString(data).resource_spans for part in g.scope_spans for s in part.spans]
    ends, at = [], 0
    for span in spans:
        at = data.index(span, at) + len(span)
        ends.append(at)
    for cut in range(ends[0], len(data), max(1, len(data) // 60)):
        items, report = read("otlp-proto", data[:cut])
        assert sum(not isinstance(i, TraceHeader) for i in items) == sum(end <= cut for end in ends)
        assert report.lost
        assert any(n.byte == cut for n in report.notices)


def test_two_documents_in_one_file_are_told():
    data = sample("atif").rstrip()
    items, report = read("atif", data + data)
    assert len(items) == len(read("atif", data)[0])
    (notice,) = [n for n in report.notices if n.severity == "lost"]
    assert notice.byte == len(data)


def test_a_session_that_breaks_off_keeps_its_whole_runs():
    one, two = (
        json.loads((FIXTURES / "agno/corpus/agno" / p).read_bytes()) for p in ("simple/plain.run_output.json", "team/plain.run_output.json")
    )
    session = json.dumps({"session_id": "s", "session_data": {}, "runs": [one, two], "summary": None}).encode()
    whole, _ = read("agno", session)
    ended = [i for i in whole if isinstance(i, Run) and i.parent_id is None]
    assert [r.ending for r in ended] == ["completed", "completed"]
    inside = session.index(b'"member_responses"')
    runs = [i for i in read("agno", session[:inside])[0] if isinstance(i, Run) and i.parent_id is None]
    assert [(r.native_id, r.ending) for r in runs] == [(one["run_id"], "completed"), (two["run_id"], "completed")]
    (attempt,) = [i for i in read("agno", session[:inside])[0] if isinstance(i, Attempt) and i.parent_id == runs[1].id]
    assert attempt.unfinished
    assert attempt.end is None
    after = session.index(b'"summary"')
    assert {i.id for i in read("agno", session[:after])[0]} == {i.id for i in whole}
    assert not [i for i in read("agno", session[:after])[0] if isinstance(i, Run | Attempt) and i.unfinished]  # only the session is cut
    answer = json.dumps({"data": [one, two], "meta": {}}).encode()
    assert {i.id for i in read("agno", answer[: answer.index(b'"meta"')])[0]} == {i.id for i in read("agno", answer)[0]}


def test_lines_of_which_one_breaks_off_keep_their_whole_spans():
    first = sample("otlp-json")
    whole = len(read("otlp-json", first)[0])
    items, report = read("otlp-json", first + b"\n" + first[:-400] + b"\n" + first)
    assert len(items) > 2 * whole - 2
    assert report.lost == 1
    assert [n.line for n in report.notices if n.severity == "lost"] == [2]
    indented = json.dumps(json.loads(first), indent=1).encode()
    items, report = read("otlp-json", indented[:-400])
    assert 0 < len(items) <= whole
    assert report.lost == 1


def test_a_number_that_no_float_holds_is_not_told():
    """Found by the fuzzer: a cost of 400 digits."""
    for format, field in (
        ("runartifacts", b'"estimated_cost_usd": '),
        ("agno", b'"cost": '),
        ("atif", b'"cost_usd": '),
        ("atif", b'"total_cost_usd": '),
    ):
        data = sample(format)
        for text in (
            data,
            data.replace(b'"metrics": {', b'"metrics": {' + field + b"1" + b"0" * 400 + b","),
            data.replace(b'"metadata": {', b'"metadata": {' + field + b"1" + b"0" * 400 + b","),
        ):
            items, _ = read(format, text)
            assert items
    assert finite(10**400) is finite(True) is finite("1") is finite(float("inf")) is None
    assert finite(2) == 2.0


def test_lists_that_are_none():
    """Found by the fuzzer, and by looking for more of the kind."""
    output = json.dumps({"score": 1, "dimension_scores": 0.5})
    record = json.loads(sample("runartifacts")) | {"verifier_results": [{"module": "m", "success": True, "output": output}]}
    assert read("runartifacts", json.dumps(record).encode())[0]
    context = {"trace_id": "0x" + "1" * 32, "span_id": "0x" + "2" * 16}
    for events in ([{"name": "e", "attributes": [1]}], [{"name": "e", "attributes": 5}], [None], 7, {"a": 1}):
        items, report = read("otlp-json", json.dumps({"data": [{"context": context, "events": events}, {"context": context}]}).encode())
        assert len(items) >= 2
        assert report.lost <= 1
