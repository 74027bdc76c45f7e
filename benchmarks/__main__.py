"""``python -m benchmarks``: spanport against the usual way, against peers and against the floor, interleaved in one run, as ratios.

Every contestant is a whole process. They run in turn, A B C A B C …, so that a machine whose speed drifts slows all alike; a figure is the median of its runs, a
ratio is the median of the pairwise ratios. No test depends on these numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import peers
from .inputs import make, run_directory
from .measure import Sample, median, run

SPANPORT = [sys.executable, "-m", "spanport"]
CONVERSIONS = {"runartifacts": ("agno",), "agno": ("runartifacts",), "agno-events": ("agno", "atif"), "progress": ("runartifacts",)}


@dataclass
class Contestant:
    """One job: what it is, on which input, the command, and what it is to be compared with."""

    name: str
    command: list[str]
    megabytes: float
    spans: int
    against: str | None = None


@contextmanager
def sink() -> Iterator[str]:
    """A receiver on loopback; its traces URL."""
    with tempfile.TemporaryDirectory() as folder:
        port = Path(folder) / "port"
        process = subprocess.Popen([sys.executable, "-m", "benchmarks.sink", str(port)])
        try:
            while not (port.exists() and port.read_text()):
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port.read_text()}"
        finally:
            process.kill()
            process.wait()


def contestants(folder: Path, out: Path, size: int, endpoint: str, python: Path | None) -> list[Contestant]:
    """What is run for one input size."""
    found: list[Contestant] = []

    def add(name: str, command: list[str], path: Path, spans: int, against: str | None = None) -> None:
        found.append(Contestant(name, command, path.stat().st_size / 1e6, spans, against))

    for kind in ("progress", "runartifacts", "agno-events", "agno", "atif"):
        path, spans = make(folder, kind, size)
        given = str(path)
        convert = [*SPANPORT, "convert", given, "--no-carry", "-o"]
        add(f"{kind} → otlp-proto", [*convert, str(out / "a.pb"), "--to", "otlp-proto"], path, spans)
        add(f"{kind} → otlp-json", [*convert, str(out / "a.jsonl"), "--to", "otlp-json"], path, spans)
        send = [*SPANPORT, "export", given, "--endpoint", endpoint, "--compression"]
        add(f"{kind} → receiver", [*send, "none"], path, spans)
        add(f"{kind} → receiver, gzip", [*send, "gzip"], path, spans)
        for target in CONVERSIONS.get(kind, ()):
            add(f"{kind} → {target}", [*convert, str(out / "b"), "--to", target], path, spans)
        if kind in ("progress", "runartifacts"):
            usual = [sys.executable, "-m", "benchmarks.usual"]
            for route, words in (("tracer", "SDK tracer"), ("readable", "ReadableSpan")):
                add(f"{kind}: json + {words}", [*usual, route, given, f"{endpoint}/v1/traces"], path, spans, f"{kind} → receiver")
    if python is not None:
        for peer in peers.PEERS:
            if peers.installed(python, peer):
                path, spans = make(folder, peer.input, size)
                add(peer.name, peers.command(python, peer, path, out / "peer"), path, spans, peer.like)
            else:
                print(f"left out, not installed: {peer.name}", file=sys.stderr)
    return found


def compare(jobs: list[Contestant], runs: int) -> dict[str, list[Sample]]:
    """The samples of each job by name, taken in turn."""
    samples: dict[str, list[Sample]] = {job.name: [] for job in jobs}
    for turn in range(runs):
        for job in jobs:
            print(f"\r{turn + 1}/{runs} {job.name:60}", end="", file=sys.stderr)
            samples[job.name].append(run(job.command))
    print("\r" + " " * 70, file=sys.stderr)
    return samples


def startup(runs: int) -> dict[str, float]:
    """``spanport --help`` against the ``--help`` of an empty click group, pairwise."""
    empty = [sys.executable, "-c", "import click\nclick.group()(lambda: None)(['--help'])"]
    ours = [str(Path(sys.executable).with_name("spanport")), "--help"]
    pairs = [(run(ours).wall, run(empty).wall) for _ in range(runs)]
    return {"spanport": median([a for a, _ in pairs]), "click": median([b for _, b in pairs]), "ratio": median([a / b for a, b in pairs])}


def jobs_speedup(folder: Path, out: Path, runs: int) -> dict[str, dict[str, float]]:
    """``--jobs 2`` against ``--jobs 1``: over eight files of 10 MB, and over one large input of each kind that can be divided."""
    path, _ = make(folder, "progress", 10)
    many = [path.parent.with_name(f"progress-10-{n}") / "progress.jsonl" for n in range(8)]
    for one in many:
        one.parent.mkdir(exist_ok=True)
        if not one.exists():
            os.link(path, one)
    cases: dict[str, list[Path]] = {
        "8 files of 10 MB": many,
        "progress.jsonl, 100 MB": [make(folder, "progress", 100)[0]],
        "Agno events, 100 MB": [make(folder, "agno-events", 100)[0]],
        "run directory, 2,000 tasks": [run_directory(folder, 2000)],
    }
    found: dict[str, dict[str, float]] = {}
    for name, inputs in cases.items():
        target = str(out / "jobs") + ("/" if len(inputs) > 1 else ".pb")
        command = [*SPANPORT, "convert", *map(str, inputs), "--to", "otlp-proto", "--no-carry", "-o", target, "--jobs"]
        pairs = [(run([*command, "1"]), run([*command, "2"])) for _ in range(runs)]
        found[name] = {
            "one": median([a.wall for a, _ in pairs]),
            "two": median([b.wall for _, b in pairs]),
            "ratio": median([a.wall / b.wall for a, b in pairs]),
            "cpu": median([b.cpu / a.cpu for a, b in pairs]),  # what it costs to share the work out
        }
    return found


def table(jobs: list[Contestant], samples: dict[str, list[Sample]], size: int) -> tuple[Table, list[dict[str, object]]]:
    """The figures of one size, to look at and to keep."""
    shown = Table("job", "MB/s", "µs/span", "wall s", "cpu s", "peak MB", "anon MB", "times ours", title=f"{size} MB")
    rows: list[dict[str, object]] = []
    spans = {job.name: job.spans for job in jobs}
    for job in jobs:
        got = samples[job.name]
        wall = median([s.wall for s in got])
        bad = [s.status for s in got if s.status]
        ratio = None
        if job.against in samples:
            share = spans[job.against] / job.spans  # where the inputs differ, by span
            ratio = median([share * a.wall / b.wall for a, b in zip(got, samples[job.against], strict=True)])
        row = {
            "job": job.name,
            "mb_per_second": job.megabytes / wall,
            "us_per_span": wall / job.spans * 1e6,
            "wall": wall,
            "cpu": median([s.cpu for s in got]),
            "peak_mb": max(s.peak for s in got),
            "anon_mb": max(s.anon for s in got),
            "against": job.against,
            "ratio": ratio,
            "failed": bad,
            "samples": [asdict(s) for s in got],
        }
        rows.append(row)
        cells = [
            f"{row['mb_per_second']:.1f}",
            f"{row['us_per_span']:.1f}",
            f"{wall:.2f}",
            f"{row['cpu']:.2f}",
            f"{row['peak_mb']:.0f}",
            f"{row['anon_mb']:.0f}",
        ]
        shown.add_row(job.name + (f" (exit {bad[0]})" if bad else ""), *cells, "" if ratio is None else f"{ratio:.1f}")
    return shown, rows


def main() -> None:
    """Parse the options, run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--sizes", default="10", help="megabytes of the inputs, comma separated (10)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each job, in turn")
    parser.add_argument("--only", default="", help="only jobs whose name holds one of these words, comma separated")
    parser.add_argument("--peers", type=Path, help="a Python that has the peers installed (see benchmarks/peers.py)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "spanport-benchmarks", help="where inputs are kept")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args()
    console = Console(width=140)
    kept: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as temporary, sink() as endpoint:
        out = Path(temporary)
        walls: dict[str, dict[int, float]] = {}
        for size in map(int, given.sizes.split(",")):
            jobs = [
                j
                for j in contestants(given.folder, out, size, endpoint, given.peers)
                if any(word in j.name for word in given.only.split(","))
            ]
            samples = compare(jobs, given.runs)
            shown, rows = table(jobs, samples, size)
            console.print(shown)
            kept[f"{size} MB"] = rows
            for job in jobs:
                walls.setdefault(job.name, {})[size] = median([s.wall for s in samples[job.name]]) / job.megabytes
        growth = {name: [round(w[s] / w[min(w)], 3) for s in sorted(w)] for name, w in walls.items() if len(w) > 1}
        if growth:
            console.print("seconds per MB, against the smallest size:", growth)
            kept["growth"] = growth
        kept["floor"] = {}
        for kind in ("progress", "runartifacts", "agno-events", "agno"):
            if any(word in kind for word in given.only.split(",")):
                path, _ = make(given.folder, kind, min(100, max(map(int, given.sizes.split(",")))))
                printed = subprocess.run(
                    [sys.executable, "-m", "benchmarks.floor", str(path)], capture_output=True, text=True, check=True
                ).stdout
                kept["floor"][kind] = json.loads(printed)  # type: ignore[index]
                console.print(f"floor, {kind}:", json.loads(printed))
        if not given.only:
            kept["help"], kept["jobs"] = startup(15), jobs_speedup(given.folder, out, given.runs)
            console.print("--help against an empty click group:", kept["help"])
            for name, figures in kept["jobs"].items():  # type: ignore[attr-defined]
                console.print(f"--jobs 2 against --jobs 1, {name}:", figures)
    if given.json:
        given.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
