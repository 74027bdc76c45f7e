"""Run a command as a whole process and take what the operating system says of it: wall and CPU seconds, peak memory, peak anonymous memory."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread


@dataclass
class Sample:
    """One run. Memory in MB: ``peak`` resident (with file-backed pages), ``anon`` anonymous (sampled every 5 ms, all processes of the group)."""

    wall: float
    cpu: float
    peak: float
    anon: float
    status: int


def _anon(group: int) -> int:
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) != group:
                    continue
                for row in (entry / "status").read_text().splitlines():
                    if row.startswith("RssAnon:"):
                        total += int(row.split()[1])
            except (OSError, ProcessLookupError):
                continue
    return total


def run(command: list[str], env: dict[str, str] | None = None, cwd: Path | None = None, timeout: float = 1800) -> Sample:
    """Run ``command`` with its output thrown away."""
    best = 0
    stop = Event()

    def watch(group: int) -> None:
        nonlocal best
        while not stop.wait(0.02):
            best = max(best, _anon(group))

    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}, cwd=cwd, start_new_session=True
    )
    watcher = Thread(target=watch, args=(process.pid,), daemon=True)
    watcher.start()
    timer = Thread(target=lambda: (stop.wait(timeout), process.poll() is None and process.kill()), daemon=True)
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    stop.set()
    watcher.join()
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, best / 1024, process.returncode)


def median(values: list[float]) -> float:
    """The middle value."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
