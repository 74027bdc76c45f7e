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
    """One run. Memory in MB: ``peak`` resident (with file-backed pages), ``anon`` anonymous (sampled every 50 ms, all processes of the group)."""

    wall: float
    cpu: float
    peak: float
    anon: float
    status: int


_LOOK = 0.05
"""Seconds between two looks at the memory; who looks too often takes time from the two processes that are looked at."""
_AGAIN = 5
"""Looks between two searches for new processes."""


def _group(group: int) -> list[int]:
    """The processes of ``group``."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.getpgid(int(entry)) == group:
                    found.append(int(entry))
            except ProcessLookupError:
                continue
    return found


def _anon(processes: list[int]) -> int:
    """Anonymous memory of ``processes`` together, in KiB."""
    total = 0
    for process in processes:
        try:
            with open(f"/proc/{process}/status") as file:
                total += next((int(row.split()[1]) for row in file if row.startswith("RssAnon:")), 0)
        except (OSError, ProcessLookupError):
            continue
    return total


def run(command: list[str], env: dict[str, str] | None = None, cwd: Path | None = None, timeout: float = 1800) -> Sample:
    """Run ``command`` with its output thrown away."""
    best = 0
    stop = Event()

    def watch(group: int) -> None:
        nonlocal best
        turn, processes = 0, [group]
        while not stop.wait(_LOOK):
            if turn % _AGAIN == 0:
                processes = _group(group)
            turn += 1
            best = max(best, _anon(processes))

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
