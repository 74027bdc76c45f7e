"""The format ``toylog``: one JSON object a line, a step of a job with its times in Unix seconds."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec
from spanport.converters import clock, ids
from spanport.converters.errors import ReadError, Report
from spanport.converters.jsonio import decode
from spanport.converters.model import Attempt, Item, Run, ToolCall, TraceHeader
from spanport.converters.registry import Format, Match, Probe, ReadOptions, WriteOptions
from spanport.converters.source import Source


class Step(msgspec.Struct, rename={"start": "from", "end": "to"}):
    """One line."""

    job: str
    step: str
    start: msgspec.Raw
    end: msgspec.Raw


_step = msgspec.json.Decoder(Step)


def detect(look: Probe) -> Match | None:
    if look.shape in ("lines", "object") and {"job", "step", "from", "to"} <= look.keys:
        return Match(90, "lines with job, step, from and to")
    return None


def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """Each job is a run with one attempt; each of its steps a tool call. A broken line is reported, and the rest is read."""
    jobs: dict[str, tuple[str, int, int]] = {}
    for line in source.lines():
        try:
            step = decode(line.data, _step.decode, report, line=line.number, offset=line.offset)
            start, end = clock.from_seconds(bytes(step.start)), clock.from_seconds(bytes(step.end))
        except (ReadError, ValueError) as error:
            report.note("bad-line", getattr(error, "message", str(error)), "lost", line=line.number, path=getattr(error, "path", None))
            continue
        trace = ids.trace_id("toylog", step.job)
        if step.job not in jobs:
            yield TraceHeader(id=trace, family="toylog", format="toylog", run_key=[step.job])
        attempt, first, last = jobs.get(step.job, (ids.span_id(trace, "run", "1"), start, end))
        jobs[step.job] = (attempt, min(first, start), max(last, end))
        yield ToolCall(
            id=ids.span_id(trace, "run", "1", step.step),
            trace_id=trace,
            parent_id=attempt,
            key=step.step,
            name=step.step,
            start=start,
            end=end,
        )
    if not jobs:
        raise ReadError("no step in it", input=source.name)
    for job, (attempt, first, last) in jobs.items():
        trace = ids.trace_id("toylog", job)
        run = ids.span_id(trace, "run")
        times = {"start": first, "end": last, "clock": "derived"}
        yield Attempt(id=attempt, trace_id=trace, parent_id=run, key="1", name="attempt 1", number=1, **times)
        yield Run(id=run, trace_id=trace, key="run", name=job, **times)


def write(items: Iterable[Item], out: BinaryIO, report: Report, options: WriteOptions) -> None:
    """A line for each tool call; all else is told as dropped."""
    names: dict[str, str] = {}
    for item in items:
        if isinstance(item, TraceHeader):
            names[item.id] = item.name or item.run_key[0]
        elif isinstance(item, ToolCall) and item.start is not None and item.end is not None:
            times = {"from": clock.to_seconds(item.start), "to": clock.to_seconds(item.end)}
            line = {"job": names[item.trace_id], "step": item.name, **{k: msgspec.Raw(v.encode()) for k, v in times.items()}}
            out.write(msgspec.json.encode(line) + b"\n")
        else:
            report.loss(item.__struct_config__.tag, "dropped", reason="toylog has only steps")


FORMAT = Format(
    name="toylog",
    title="Toy log, JSON Lines",
    example="job.toylog",
    recognised="lines with job, step, from and to",
    suffix=".toylog",
    detect=detect,
    reader="toylog:read",
    writer="toylog:write",
    schema="toylog:Step",
)
