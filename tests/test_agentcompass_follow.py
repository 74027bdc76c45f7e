"""A run that is still going: its stream is written and its results move while it is followed, and the spans are those of the finished run."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spanport
from spanport.converters.agentcompass import follow
from spanport.converters.errors import Report
from spanport.converters.model import AnySpan, Attempt, Item, Run, TraceHeader
from spanport.converters.registry import ReadOptions

FIXTURES = Path(__file__).parent.parent / "fixtures" / "agentcompass"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "POLL", 0.002)
    monkeypatch.setattr(follow, "SETTLE", 0.05)
    monkeypatch.setattr(follow, "Tail", Watched)
    Watched.at = 0


def spans_of(items: Iterator[Item]) -> dict[str, AnySpan]:
    found: dict[str, AnySpan] = {}
    for item in items:
        if not isinstance(item, TraceHeader):
            assert item.id not in found, "a span came twice"
            found[item.id] = item
    return found


def whole(path: Path) -> dict[str, AnySpan]:
    return spans_of(spanport.stream(path))


def live(path: Path, report: Report | None = None, **options: Any) -> dict[str, AnySpan]:
    return spans_of(spanport.stream(path, format="agentcompass", report=report, options=ReadOptions(follow=True, **options)))


def put(source: Path, target: Path) -> None:
    """A copy that is there whole or not at all, as AgentCompass writes its files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp")
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, temporary)
    temporary.rename(target)


class Watched(follow.Tail):
    """A tail that tells how far it has read: what is cut off before it was read is lost, which is not what is tested here."""

    at = 0

    def read(self) -> Iterator[Any]:
        yield from super().read()
        Watched.at = self._offset + len(self._rest)


class Player(threading.Thread):
    """Plays a run: its events in pieces that tear lines, each result into ``running`` late, and each task to its state when it has finished."""

    def __init__(self, source: Path, target: Path, rotate: int = 0, truncate: int = 0) -> None:
        super().__init__(daemon=True)
        self.source, self.target, self.rotate, self.truncate = source, target, rotate, truncate
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.play()
        except BaseException as error:
            self.error = error

    def play(self) -> None:
        time.sleep(0.01)
        put(self.source / "run_info.json", self.target / "run_info.json")
        folders = {json.loads((d / "task.json").read_text())["task_id"]: d for d in self.source.glob("details/*/*") if d.is_dir()}
        stream = self.target / "progress.jsonl"
        late: list[tuple[Path, Path]] = []
        for n, line in enumerate((self.source / "progress.jsonl").read_bytes().splitlines(True), 1):
            event = json.loads(line)
            task = event["task_id"]
            if task in folders:
                state, folder = folders[task].parent.name, folders[task]
                running = self.target / "details" / "running" / folder.name
                if event["event"] == "task_started":
                    running.mkdir(parents=True)
                    put(folder / "task.json", running / "task.json")
                elif event["event"] == "attempt_finished":
                    late.append((folder / f"attempt-{event['attempt']}", running / f"attempt-{event['attempt']}"))
                elif event["event"] in ("partial_saved", "task_finished") and running.is_dir():
                    for source, target in late:
                        put(source, target)
                    late.clear()
                    (self.target / "details" / state).mkdir(exist_ok=True)
                    running.rename(self.target / "details" / state / folder.name)
            if n in (self.rotate, self.truncate):
                while stream.stat().st_size != Watched.at:
                    time.sleep(0.002)
            if n == self.rotate:
                stream.rename(self.target / "progress.jsonl.1")
            if n == self.truncate:
                stream.write_bytes(b"")
            middle = len(line) // 2
            for piece in (line[:middle], line[middle:]):
                with stream.open("ab") as file:
                    file.write(piece)
                time.sleep(0.002)
        for name in ("progress.json", "metrics.json", "params.json", "analysis_summary.json"):
            if (self.source / name).is_file():
                put(self.source / name, self.target / name)


@pytest.mark.parametrize("case", ["sdk-direct", "multi-agent", "artifacts-collect-fail"])
@pytest.mark.parametrize("change", ["", "rotate", "truncate"])
def test_following_gives_the_spans_of_the_finished_run(case: str, change: str, tmp_path: Path) -> None:
    player = Player(FIXTURES / case, tmp_path, rotate=12 if change == "rotate" else 0, truncate=12 if change == "truncate" else 0)
    player.start()
    report = Report()
    found = live(tmp_path, report)
    player.join(10)
    assert player.error is None
    expected = whole(FIXTURES / case)
    assert found.keys() == expected.keys()
    for id, span in expected.items():
        if not isinstance(span, Run):  # what the top files say comes after the last event
            assert found[id] == span
    assert not report.lost, [n for n in report.notices if n.severity == "lost"]
    # Started again, after the run has ended.
    shutil.copyfile(FIXTURES / case / "progress.jsonl", tmp_path / "progress.jsonl")
    assert live(tmp_path).keys() == expected.keys()


def test_a_span_goes_out_as_soon_as_it_is_complete(tmp_path: Path) -> None:
    lines = (FIXTURES / "sdk-direct" / "progress.jsonl").read_bytes().splitlines(True)
    at = next(i for i, x in enumerate(lines) if b'"attempt_finished"' in x)
    (tmp_path / "progress.jsonl").write_bytes(b"".join(lines[: at + 1]))
    asked: list[int] = []
    items = spanport.stream(
        tmp_path, format="agentcompass", options=ReadOptions(follow=True, stop=lambda: len(asked) > 3 or asked.append(1) is not None)
    )  # type: ignore[func-returns-value]
    first = next(items)
    assert isinstance(first, TraceHeader)
    names = []
    for item in items:
        names.append((item.name, item.unfinished))  # type: ignore[union-attr]
    assert names[0] == ("plan", False)
    # The finished attempt has no result yet: it came only when following was ended.
    attempt = f"{json.loads(lines[at])['task_id']} attempt 1"
    assert names.index((attempt, False)) > names.index(("plan", False))


def test_an_attempt_waits_for_its_result(tmp_path: Path) -> None:
    source = FIXTURES / "sdk-direct"
    lines = (source / "progress.jsonl").read_bytes().splitlines(True)
    at = next(i for i, x in enumerate(lines) if b'"attempt_finished"' in x)
    task = json.loads(lines[at])["task_id"]
    (tmp_path / "progress.jsonl").write_bytes(b"".join(lines[: at + 1]))
    folder = next(d for d in source.glob("details/*/*") if json.loads((d / "task.json").read_text())["task_id"] == task)
    looks = 0

    def stop() -> bool:
        nonlocal looks
        looks += 1
        if looks == 3:
            put(folder, tmp_path / "details" / "running" / folder.name)
        return looks > 6

    seen: list[tuple[int, AnySpan]] = []
    for item in spanport.stream(tmp_path, format="agentcompass", options=ReadOptions(follow=True, stop=stop)):
        if not isinstance(item, TraceHeader):
            seen.append((looks, item))
    when, attempt = next((n, s) for n, s in seen if isinstance(s, Attempt) and not s.unfinished)
    assert 3 <= when <= 6
    assert attempt.output
    assert attempt.ending == "completed"


def test_what_is_open_is_given_out_when_asked_to_end(tmp_path: Path) -> None:
    lines = (FIXTURES / "sdk-direct" / "progress.jsonl").read_bytes().splitlines(True)
    (tmp_path / "progress.jsonl").write_bytes(b"".join(lines[:15]) + lines[15][:40])
    report = Report()
    found = live(tmp_path, report, stop=lambda: True)
    assert any(isinstance(s, Run) and s.unfinished for s in found.values())
    assert found.keys() <= whole(FIXTURES / "sdk-direct").keys()
    assert [n.code for n in report.notices if n.severity == "lost"] == ["truncated"]


def test_an_interrupt_ends_it_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copyfile(FIXTURES / "killed" / "progress.jsonl", tmp_path / "progress.jsonl")

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(follow.time, "sleep", interrupt)
    found = live(tmp_path)
    assert any(isinstance(s, Run) and s.unfinished for s in found.values())
    assert found.keys() == whole(FIXTURES / "killed" / "progress.jsonl").keys()


def test_a_stream_alone_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    data = (FIXTURES / "sdk-direct" / "progress.jsonl").read_bytes()
    path.write_bytes(data[:5000])

    def more() -> None:
        time.sleep(0.02)
        with path.open("ab") as file:
            file.write(data[5000:])

    writer = threading.Thread(target=more)
    writer.start()
    found = spans_of(spanport.stream(path, options=ReadOptions(follow=True)))
    writer.join()
    assert found == whole(FIXTURES / "sdk-direct" / "progress.jsonl")


def test_the_command_sends_what_is_open_when_it_is_interrupted(tmp_path: Path) -> None:
    """One signal ends the reading; the file holds what was complete and what was open."""
    import signal
    import subprocess
    import sys

    shutil.copyfile(FIXTURES / "killed" / "progress.jsonl", tmp_path / "progress.jsonl")
    command = [sys.executable, "-m", "spanport", "export", str(tmp_path), "--follow", "-o", str(tmp_path / "out.jsonl")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        time.sleep(2.5)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 130, told
    assert len(spanport.read(tmp_path / "out.jsonl")[0].spans) == len(whole(FIXTURES / "killed" / "progress.jsonl"))
