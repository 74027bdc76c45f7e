"""What every format of spanport has to hold, as functions: ``check(probe)`` runs them all. For ours and for those of other packages (`README.md`).

A `Probe` is a record with every trap that its format has, and what a person reads in it. The expectations are written down beside the record, never
taken from what spanport makes of it.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spanport.converters import carry, patch, registry
from spanport.converters.api import collect
from spanport.converters.convert import convert
from spanport.converters.errors import ReadError, Report
from spanport.converters.model import AnySpan, Attempt, ModelRequest, ToolCall, Trace, TraceHeader
from spanport.converters.source import source_of

BAD_OUTCOMES = ("error", "rejected", "aborted")


@dataclass
class Call:
    """A call that the record tells of. ``result`` None: unanswered."""

    name: str
    id: str | None
    arguments: Any
    result: Any = None
    error: bool = False


@dataclass
class Probe:
    """``record``: the file. ``tokens``: input and output, over all requests together (None: the record has none). ``times``: ns that must be there as a
    start, an end, or the time of an event or a message. ``texts``: what must be somewhere in the output. ``shorter``: the same record as it was earlier."""

    format: str
    record: bytes
    calls: list[Call] = field(default_factory=list)
    tokens: tuple[int, int] | None = None
    times: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    shorter: bytes | None = None


def traces(probe: Probe, data: bytes | None = None, report: Report | None = None) -> list[Trace]:
    format = registry.get(probe.format)
    return collect(format.read(source_of(probe.record if data is None else data), report or Report()))


def spans(probe: Probe, data: bytes | None = None) -> list[AnySpan]:
    return [s for t in traces(probe, data) for s in t.spans]


def converted(data: bytes, to: str, from_: str, **more: Any) -> tuple[bytes, Report]:
    held = io.BytesIO()
    report = convert(data, held, to=to, from_=from_, **more)
    return held.getvalue(), report


def _value(raw: Any) -> Any:
    return json.loads(bytes(raw)) if raw else None


def _same_result(wanted: Any, got: Any) -> bool:
    """Equal, also when one of both is text that holds the other's JSON, or wraps it once."""
    forms = [got]
    if isinstance(got, dict):
        forms += [v for v in got.values() if isinstance(v, str | dict | list)]
    for form in forms:
        if form == wanted:
            return True
        for a, b in ((form, wanted), (wanted, form)):
            if isinstance(a, str):
                try:
                    if json.loads(a) == b:
                        return True
                except ValueError:
                    pass
    return False


# ------------------------------------------------------------------------------------------------------------ the checks
def recognised(probe: Probe) -> None:
    """By content alone."""
    assert registry.detect(source_of(probe.record)).name == probe.format


def tree(probe: Probe) -> None:
    """Ids are unique, parents exist, a header comes before its spans."""
    seen: set[str] = set()
    known: set[str] = set()
    for item in registry.get(probe.format).read(source_of(probe.record), Report()):
        if isinstance(item, TraceHeader):
            seen.add(item.id)
        else:
            assert item.trace_id in seen
            assert item.id not in known, "a span id repeats"
            known.add(item.id)
    for span in spans(probe):
        assert span.parent_id is None or span.parent_id in known


def calls(probe: Probe) -> None:
    """Each call with its whole arguments, its whole result and its error."""
    got = [s for s in spans(probe) if isinstance(s, ToolCall)]
    for wanted in probe.calls:
        found = [c for c in got if c.name == wanted.name and (wanted.id is None or c.call_id in (wanted.id, None))]
        found = [c for c in found if _value(c.arguments) == wanted.arguments]
        assert found, f"no call {wanted.name}({wanted.arguments})"
        if wanted.result is not None:
            found = [c for c in found if _same_result(wanted.result, _value(c.result))]
            assert found, f"{wanted.name}: the result is not whole"
        assert any((c.outcome in BAD_OUTCOMES or c.status == "error") == (wanted.error or wanted.result is None) for c in found), (
            wanted.name
        )
    assert len(got) == len(probe.calls)


def tokens(probe: Probe) -> None:
    """Tokens of requests add up to what the record states; what it repeats counts once. An attempt's roll-up stands where requests have none."""
    used = [s.usage for s in spans(probe) if isinstance(s, ModelRequest) and s.usage is not None and not s.reused]
    if not used:
        used = [s.usage for s in spans(probe) if isinstance(s, Attempt) and s.usage is not None]
    if probe.tokens is None:
        assert not used, "tokens that the record does not state"
        return
    assert (sum(u.input or 0 for u in used), sum(u.output or 0 for u in used)) == probe.tokens


def times(probe: Probe) -> None:
    """Equal in integer nanoseconds."""
    found: set[int | None] = set()
    for s in spans(probe):
        found |= {s.start, s.end, *(e.time for e in s.events)}
        for name in ("messages", "input_messages", "output_messages"):
            found |= {m.time for m in getattr(s, name, [])}
    missing = [t for t in probe.times if t not in found]
    assert not missing, f"{missing} of {probe.times}"


def texts(probe: Probe) -> None:
    """Nothing is cut on the way to OTLP."""
    out, _ = converted(probe.record, "otlp-json", probe.format)
    shown = json.dumps([json.loads(line) for line in out.splitlines()], ensure_ascii=False)
    for text in probe.texts:
        inside = json.dumps(text, ensure_ascii=False)[1:-1]
        twice = json.dumps(inside, ensure_ascii=False)[1:-1]
        ascii_only = json.dumps(json.dumps(text)[1:-1])[1:-1]  # JSON in a string, as its writer escaped it
        assert any(form in shown for form in (text, inside, twice, ascii_only)), text[:60]


def same_bytes(probe: Probe) -> None:
    """A second run writes the same."""
    for to in ("otlp-json", "otlp-proto", "spanport"):
        assert converted(probe.record, to, probe.format)[0] == converted(probe.record, to, probe.format)[0]


def stable_ids(probe: Probe) -> None:
    """A longer copy of a record gives the same ids to the same spans."""
    if probe.shorter is None:
        return
    before = {(type(s), s.key, getattr(s, "call_id", None)): s.id for s in spans(probe, probe.shorter)}
    after = {(type(s), s.key, getattr(s, "call_id", None)): s.id for s in spans(probe)}
    both = set(before) & set(after)
    assert both
    assert [traces(probe, probe.shorter)[0].header.id] == [traces(probe)[0].header.id]
    assert {k: before[k] for k in both} == {k: after[k] for k in both}


def round_trips(probe: Probe) -> None:
    """``A → A``, and over OTLP and the model's own format."""
    format = registry.get(probe.format)
    if format.writer is None:
        return
    wanted = carry.load(probe.record, format.lines).value()
    for via in (probe.format, "otlp-json", "otlp-proto", "spanport"):
        there, _ = converted(probe.record, via, probe.format)
        back = there if via == probe.format else converted(there, probe.format, via)[0]
        assert patch.same(carry.load(back, format.lines).value(), wanted), via


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for n, item in enumerate(value):
            yield from _leaves(item, (*path, n))
    else:
        yield path, value


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + 1.5
    if isinstance(value, str):
        try:
            return json.dumps({"other": json.loads(value)}) if value[:1] in "{[" else value + "x"
        except ValueError:
            return value + "x"
    return "x"


def mutations(probe: Probe, most: int = 150) -> None:
    """Change one value of the record at a time: the output changes, or the loss report names the field. Without a carry, which would hold anything."""
    format = registry.get(probe.format)
    record = carry.load(probe.record, format.lines)
    before, _ = converted(probe.record, "otlp-json", probe.format, carry=False)
    leaves = list(_leaves(record.items))
    step = max(1, len(leaves) // most)
    for path, value in leaves[::step]:
        items = copy.deepcopy(record.items)
        at: Any = items
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = _other(value)
        data = carry.dump(carry.Record(record.form, items))
        report = Report()
        try:
            after, _ = converted(data, "otlp-json", probe.format, carry=False, report=report, account=format.writer is not None)
        except ReadError:
            continue  # it says that it can't be read
        if after != before or report.warnings:
            continue
        name = patch.path_of(["items", *("[]" if isinstance(k, int) else k for k in path)]).removeprefix("items[].")
        fates = {x.field: x.fate for x in report.losses.values() if x.fate != "mapped"}
        assert name in fates or format.writer is None, f"a change of {name} is neither in the output nor in the loss report"


def bad_inputs(probe: Probe) -> None:
    """One clear error, or what is left of the record and a notice; never another exception."""
    data = probe.record
    cases = [
        b"",
        b" \n",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe\x00" * 50,
        data[: len(data) // 2],
        data[:-1],
        data + b"\x00",
        b'{"a":' * 100_000,
    ]
    cases += [b"\xef\xbb\xbf" + data, data.replace(b"{", b"[", 1), data.replace(b":", b': NaN, "x":', 1), data.replace(b'"', b"'", 2)]
    for case in cases:
        said = ""
        try:
            for _ in registry.get(probe.format).read(source_of(case), Report()):
                pass
        except ReadError as error:
            said = str(error)
        assert "\n" not in said


CHECKS: tuple[Callable[[Probe], None], ...] = (
    recognised,
    tree,
    calls,
    tokens,
    times,
    texts,
    same_bytes,
    stable_ids,
    round_trips,
    mutations,
    bad_inputs,
)


def check(probe: Probe) -> None:
    """All of it."""
    for one in CHECKS:
        one(probe)
