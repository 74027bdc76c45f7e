"""Agno live: each span as soon as it is complete, from lines as they come, from a pipe, from a file that grows; in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
import spanport
from spanport.converters.agno.events import Engine
from spanport.converters.agno.schema import Event, loosely
from spanport.converters.errors import Report
from spanport.converters.model import ModelRequest, Run, ToolCall, TraceHeader
from spanport.converters.registry import ReadOptions

AGNO = Path(__file__).parent.parent / "fixtures" / "agno" / "corpus" / "agno"
STREAM = (AGNO / "tools/stream.events.jsonl").read_bytes()


def test_each_span_comes_with_the_event_that_completes_it() -> None:
    engine = Engine(Report(), live=True)
    came: list[tuple[str, str]] = []
    for line in STREAM.splitlines():
        event, odd = loosely(Event, line)
        engine.event(event, odd)
        came += [(event.event, type(x).__name__) for x in engine.out]
        engine.out = []
    assert not engine.runs
    assert came == [
        ("ToolCallCompleted", "TraceHeader"),
        ("ToolCallCompleted", "ToolCall"),
        ("ModelRequestStarted", "ModelRequest"),  # its calls are part of what it said: it is complete when the next one begins
        ("ToolCallCompleted", "ToolCall"),
        ("ToolCallCompleted", "ToolCall"),
        ("ModelRequestStarted", "ModelRequest"),
        ("RunCompleted", "ModelRequest"),
        ("RunCompleted", "Attempt"),
        ("RunCompleted", "Run"),
    ]


def test_live_and_whole_give_the_same_spans_but_for_the_first_clock() -> None:
    live = spanport.read(cast(Any, __import__("io").BytesIO(STREAM)))
    whole = spanport.read(STREAM)
    assert {s.id for t in live for s in t.spans} == {s.id for t in whole for s in t.spans}
    assert [(s.name, s.start) for t in live for s in t.spans if isinstance(s, ToolCall)] == [
        (s.name, s.start) for t in whole for s in t.spans if isinstance(s, ToolCall)
    ]


def test_the_end_of_the_input_closes_what_is_open() -> None:
    cut = b"\n".join(STREAM.split(b"\n")[:6])
    report = Report()
    spans = [s for t in spanport.read(cut, report=report) for s in t.spans]
    (run,) = [s for s in spans if isinstance(s, Run)]
    assert (run.unfinished, run.end, run.ending) == (True, None, None)
    assert any(isinstance(s, ModelRequest) and s.unfinished for s in spans)


def test_a_pipe_is_read_as_it_comes() -> None:
    """Spans of the first turn are there while the run goes on."""
    script = "import sys, spanport\nfor x in spanport.stream(sys.stdin.buffer): print(type(x).__name__, flush=True)"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = STREAM.splitlines(keepends=True)
        process.stdin.write(b"".join(lines[:6]))
        process.stdin.flush()
        first = [process.stdout.readline().decode().strip() for _ in range(3)]
        assert first == ["TraceHeader", "ToolCall", "ModelRequest"]
        process.stdin.write(b"".join(lines[6:]))
        process.stdin.close()
        assert process.stdout.read().split()[-1] == b"Run"


def test_a_growing_file_is_followed_to_the_end_of_its_run(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines = STREAM.splitlines(keepends=True)
    path.write_bytes(lines[0])

    def write() -> None:
        for line in lines[1:]:
            with path.open("ab") as file:
                file.write(line[: len(line) // 2])
                file.flush()
                file.write(line[len(line) // 2 :])
            time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    items = list(spanport.stream(path, options=ReadOptions(follow=True)))
    writer.join()
    assert isinstance(items[0], TraceHeader)
    assert isinstance(items[-1], Run)
    assert {s.id for s in items[1:]} == {s.id for t in spanport.read(STREAM) for s in t.spans}


def test_following_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(STREAM.splitlines(keepends=True)[:6]))
    asked = iter([False, True])
    items = list(spanport.stream(path, options=ReadOptions(follow=True, stop=lambda: next(asked, True))))
    assert isinstance(items[-1], Run)
    assert items[-1].unfinished


class Endless:
    """Many runs, one after the other, as a stream that is never whole in memory."""

    def __init__(self, runs: int) -> None:
        self.lines = STREAM
        self.left = runs
        self.size = 0

    def read1(self, size: int = -1) -> bytes:
        if not self.left:
            return b""
        self.left -= 1
        data = self.lines.replace(b"44377b8e-2d2c-4168-aa68-248a15ef8476", b"run-%d" % self.left)
        self.size += len(data)
        return data

    read = read1


def test_memory_holds_what_is_open() -> None:
    stream = Endless(1500)  # 18 MB
    tracemalloc.start()
    count = 0
    for _ in spanport.stream(cast(BinaryIO, stream), format="agno-events"):
        count += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1500 * 9
    assert stream.size > 15_000_000
    assert peak < 8_000_000


def test_one_long_run_in_bounded_memory() -> None:
    def lines() -> Any:
        base = {"run_id": "r", "agent_id": "a", "nested_depth": 0}
        yield {**base, "event": "RunStarted", "created_at": 1000}
        for i in range(3000):
            t = 1000 + i
            tool = {"tool_call_id": f"c{i}", "tool_name": "t", "tool_args": {"x": "y" * 500}}
            yield {**base, "event": "ModelRequestStarted", "created_at": t}
            yield {**base, "event": "ModelRequestCompleted", "created_at": t, "input_tokens": 1, "output_tokens": 1}
            yield {**base, "event": "ToolCallStarted", "created_at": t, "tool": tool}
            done = {
                **tool,
                "result": "z" * 2000,
                "tool_call_error": False,
                "metrics": {"start_time": t + 0.25, "end_time": t + 0.5, "duration": 0.25},
            }
            yield {**base, "event": "ToolCallCompleted", "created_at": t, "tool": done}
        yield {**base, "event": "RunCompleted", "created_at": 5000}

    class Pipe:
        def __init__(self) -> None:
            self.lines = lines()

        def read1(self, size: int = -1) -> bytes:
            return next((json.dumps(x).encode() + b"\n" for x in self.lines), b"")

        read = read1

    tracemalloc.start()
    count = sum(1 for _ in spanport.stream(cast(BinaryIO, Pipe()), format="agno-events"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1 + 3000 * 2 + 2
    assert peak < 6_000_000


def _long_record(events: bool) -> dict[str, Any]:
    """A run of 1,500 turns with a call each; with or without the events that Agno stores beside its messages."""
    base = {"run_id": "r", "agent_id": "a", "nested_depth": 0}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go", "created_at": 1000}]
    tools: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = [{**base, "event": "RunStarted", "created_at": 1000}]
    for i in range(1500):
        t = 1000 + i
        call = {"id": f"c{i}", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        counts = {"input_tokens": i + 1, "output_tokens": 1, "duration": 0.2}
        messages.append({"role": "assistant", "content": "x" * 1500, "tool_calls": [call], "metrics": counts, "created_at": t})
        messages.append({"role": "tool", "content": "z" * 2000, "tool_call_id": f"c{i}", "created_at": t})
        times = {"start_time": t + 0.25, "end_time": t + 0.5, "duration": 0.25}
        tools.append({"tool_call_id": f"c{i}", "tool_name": "t", "tool_args": {}, "result": "z" * 2000, "metrics": times})
        told.append({**base, "event": "ModelRequestStarted", "created_at": t})
        told.append({**base, "event": "ModelRequestCompleted", "created_at": t, "input_tokens": i + 1, "output_tokens": 1})
        told.append({**base, "event": "ToolCallStarted", "created_at": t, "tool": {"tool_call_id": f"c{i}", "tool_name": "t"}})
        told.append({**base, "event": "ToolCallCompleted", "created_at": t, "tool": tools[-1]})
    messages.append({"role": "assistant", "content": "done", "metrics": {"input_tokens": 9, "duration": 0.2}, "created_at": 2500})
    told.append({**base, "event": "ModelRequestStarted", "created_at": 2500})
    told.append({**base, "event": "ModelRequestCompleted", "created_at": 2500, "input_tokens": 9})
    found = {
        "run_id": "r",
        "agent_id": "a",
        "session_id": "s",
        "status": "COMPLETED",
        "created_at": 1000,
        "content": "done",
        "messages": messages,
    }
    return {**found, "tools": tools, **({"events": told} if events else {})}


@pytest.mark.parametrize("events", [False, True])
def test_a_long_record_in_bounded_memory(tmp_path: Path, events: bool) -> None:
    """Its file is mapped, and of what is in it only the turn in hand is taken apart."""
    path = tmp_path / "run.json"
    path.write_text(json.dumps(_long_record(events)))
    assert path.stat().st_size > 8_000_000
    spanport.read(AGNO / "tools/plain.run_output.json")  # what is imported at the first use does not count
    tracemalloc.start()
    count = sum(1 for _ in spanport.stream(path, format="agno"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1 + 1500 * 2 + 1 + 2
    assert peak < 4_000_000
