"""The commands, driven through their entry point. Expected numbers are counted by hand in fixtures/cli/README.md."""

import contextlib
import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import spanport
from spanport.cli import COMMANDS, run

FIXTURES = Path(__file__).parent.parent / "fixtures"
BENCH = FIXTURES / "cli" / "bench.spanport.jsonl"
NEXT_DAY = FIXTURES / "cli" / "bench-next-day.spanport.jsonl"
SPANS = {"run": 1, "task": 2, "attempt": 3, "phase": 3, "model_request": 5, "tool_call": 3}


@pytest.fixture
def cli(capfd):
    """Run a command line: (exit status, standard output, standard error)."""

    def call(*args: object) -> tuple[int, str, str]:
        capfd.readouterr()
        status = run([str(a) for a in args])
        out, err = capfd.readouterr()
        return status, out, err

    return call


def spawn(*args: object, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "spanport", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        **more,
    )


def copies(folder: Path, n: int) -> list[Path]:
    """``n`` runs in a tree of folders."""
    data = BENCH.read_bytes()
    found = []
    for i in range(n):
        path = folder / f"d{i % 3}" / f"run{i}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        found.append(path)
    return found


# ---------------------------------------------------------------------------------------------------------- inputs
def stats(cli, *args):
    status, out, err = cli("stats", "--json", *args)
    return status, json.loads(out), err


def test_stats_json(cli):
    status, found, err = stats(cli, BENCH)
    assert (status, err) == (0, "")
    assert found == {
        "inputs": 1,
        "traces": 1,
        "spans": SPANS,
        "errors": {"run": 0, "task": 0, "attempt": 1, "phase": 0, "model_request": 0, "tool_call": 1},
        "tokens": {"input": 580, "output": 70, "cache_read": 180},
        "duration_seconds": 16.0,
        "clock": {"recorded": 14, "derived": 3, "synthetic": 0},
        "warnings": 0,
    }


def test_several_inputs_folders_and_globs(cli, tmp_path):
    copies(tmp_path, 4)
    (tmp_path / "README.md").write_text("not a run")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "run.jsonl").write_bytes(BENCH.read_bytes())
    for args, inputs in (
        ((tmp_path,), 4),
        ((BENCH, NEXT_DAY), 2),
        ((tmp_path / "d0", BENCH), 3),
        ((f"{tmp_path}/*/run?.jsonl",), 4),
        ((f"{tmp_path}/**/*.jsonl",), 4),
    ):
        status, found, err = stats(cli, *args)
        assert (status, found["inputs"], err) == (0, inputs, ""), args


def test_a_folder_that_is_a_run_is_one_input(cli):
    folder = next((FIXTURES / "runartifacts").rglob("parallel_run_*"))
    status, found, _ = stats(cli, folder)
    assert (status, found["inputs"]) == (0, 1)


def test_what_was_named_must_be_readable_and_what_was_found_need_not(cli, tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    status, _, err = cli("stats", tmp_path / "notes.txt", BENCH)
    assert status == 3
    assert "notes.txt: no format recognised" in err
    status, _, err = cli("stats", tmp_path)
    assert status == 1
    assert f"{tmp_path}: no run in it" in err
    status, _, err = cli("stats", tmp_path / "absent")
    assert status == 1
    assert "no such file" in err


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_compressed(cli, tmp_path, ending):
    data = BENCH.read_bytes()
    if ending == "gz":
        packed = gzip.compress(data[:3000]) + gzip.compress(data[3000:])  # members, as `cat a.gz b.gz` makes them
    else:
        import zstandard

        packed = zstandard.compress(data)
    path = tmp_path / f"run.jsonl.{ending}"
    path.write_bytes(packed)
    assert stats(cli, path)[1]["spans"] == SPANS
    path.write_bytes(packed[:-60])
    status, _, err = stats(cli, path)
    assert status in (1, 3)
    assert "breaks off" in err


def test_standard_input_and_pipes():
    for packed in (BENCH.read_bytes(), gzip.compress(BENCH.read_bytes())):
        done = subprocess.run([sys.executable, "-m", "spanport", "stats", "--json", "-"], input=packed, capture_output=True)
        assert json.loads(done.stdout)["spans"] == SPANS, done.stderr


def test_a_named_pipe(cli, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, "-c", f"import shutil; shutil.copyfileobj(open({str(BENCH)!r},'rb'), open({str(pipe)!r},'wb'))"]
    ):
        assert stats(cli, pipe)[1]["spans"] == SPANS


def test_urls_through_fsspec(cli, tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/a/run.jsonl", BENCH.read_bytes())
    memory.pipe("/bucket/b/run.jsonl.gz", gzip.compress(BENCH.read_bytes()))
    memory.pipe("/bucket/notes.txt", b"hello")
    for url, inputs in (("memory://bucket/a/run.jsonl", 1), ("memory://bucket", 2), ("memory://bucket/*/run*", 2)):
        status, found, err = stats(cli, "-j1", url)
        assert (status, found["inputs"], found["spans"]["run"]) == (0, inputs, inputs), (url, err)
    whole = next((FIXTURES / "runartifacts").rglob("parallel_run_*"))
    for path in whole.rglob("*"):
        if path.is_file():
            memory.pipe(f"/runs/{path.relative_to(whole.parent)}", path.read_bytes())
    status, found, err = stats(cli, "-j1", "memory://runs")
    assert (status, found["inputs"]) == (0, 1), err
    assert found["spans"] == stats(cli, whole)[1]["spans"]
    status, _, err = cli("stats", "memory://bucket/absent?X-Signature=secret")
    assert status == 1
    assert "secret" not in err


@pytest.mark.parametrize(
    "words",
    [
        ("convert", "x.json", "--to", "atif", "-o", "x.json"),
        ("convert", "x.otlp.jsonl", "--to", "otlp-json", "-o", "."),
        ("export", "x.otlp.jsonl"),
        ("export", "x.otlp.jsonl", "-o", "."),
        ("export", "x.json", "x.otlp.jsonl"),
        ("export", "x.json", "x.otlp.jsonl", "--jobs", "2"),
        ("export", "link", "-o", "x.otlp.jsonl"),
        ("view", "x.json", "-o", "x.json"),
    ],
    ids=" ".join,
)
def test_an_output_never_takes_the_place_of_an_input(cli, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    given = {
        "x.json": (FIXTURES / "runartifacts" / "shape_d" / "artifacts.json").read_bytes(),
        "x.otlp.jsonl": (FIXTURES / "cli" / "bench.otlp.jsonl").read_bytes(),
    }
    for name, data in given.items():
        Path(name).write_bytes(data)
    Path("link").symlink_to("x.otlp.jsonl")
    status, _, err = cli(*words)
    assert status in (1, 2, 3)
    assert re.search("input|its own output", err)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if not p.is_symlink()} == given


def test_a_pattern_that_nothing_fits_is_called_so(cli, tmp_path):
    assert cli("show", tmp_path / "*.json") == (1, "", f"error: {tmp_path / '*.json'}: no file fits this pattern\n")
    assert "no such file or directory" in cli("show", tmp_path / "x.json")[2]


def test_what_only_speaks_of_a_format_is_none_of_it():
    """The sources and the pages of this repository name the members that readers look for, and are no runs."""
    root = FIXTURES.parent
    taken = []
    for file in sorted([*root.rglob("*.py"), *root.rglob("*.md"), *root.rglob("*.toml")]):
        with contextlib.suppress(spanport.SpanportError):
            taken.append((file.name, spanport.detect(file)))
    assert taken == []


def test_otlp_behind_a_damaged_line_is_found(tmp_path):
    line = (FIXTURES / "cli" / "bench.otlp.jsonl").read_bytes().strip()
    for before in (b'est"}}]}]}\n', b'est"}}]}]}', b"\x1e"):
        (tmp_path / "run").write_bytes(before + line + b"\n")
        assert spanport.detect(tmp_path / "run") == "otlp-json", before


def test_detection_says_what_is_wrong(cli, tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"colour": 1}')
    status, _, err = cli("show", path)
    assert status == 1
    assert "JSON with the keys colour" in err
    assert "--from" in err
    status, _, err = cli("show", "--from", "nonsense", path)
    assert status == 2
    assert "no format 'nonsense'" in err


# --------------------------------------------------------------------------------------------------------- batches
def test_jobs_give_the_same_as_one(cli, tmp_path):
    copies(tmp_path, 9)
    (tmp_path / "bad.spanport.jsonl").write_bytes(BENCH.read_bytes() + b'{"kind": "run"}\n')
    one, two = stats(cli, "-j1", tmp_path), stats(cli, "-j2", tmp_path)
    assert one == two
    assert one[0] == 3


def test_errors_file(cli, tmp_path):
    lines = BENCH.read_bytes().split(b"\n")
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b"\n".join([*lines[:3], b'{"kind": "run", "broken', *lines[3:]]))
    gone = tmp_path / "gone.jsonl"
    gone.write_bytes(b"\0\1\2")
    errors = tmp_path / "errors.jsonl"
    status, found, err = stats(cli, "--errors", errors, bad, gone, BENCH)
    assert status == 3
    assert found["spans"]["tool_call"] == 6
    rows = [json.loads(line) for line in errors.read_text().splitlines()]
    assert [(r["input"], r["line"], r.get("record")) for r in rows] == [(str(bad), 4, '{"kind": "run", "broken'), (str(gone), None, None)]
    assert all(r["message"] for r in rows)
    assert f"{bad}: line 4" in err


def test_on_error_stop(cli, tmp_path):
    bad = tmp_path / "bad"
    bad.write_bytes(b"nothing")
    status, found, _ = stats(cli, "-j1", "--on-error", "stop", BENCH, bad, NEXT_DAY)
    assert (status, found["inputs"]) == (3, 1)
    assert cli("stats", "-j1", "--on-error", "stop", bad, NEXT_DAY)[0] == 1


def test_strict(cli, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(BENCH.read_bytes() + b"nothing\n")
    assert cli("stats", bad)[0] == 3
    assert cli("stats", "--strict", bad)[0] == 1


def test_progress(cli, tmp_path):
    paths = copies(tmp_path, 3)
    _, _, err = cli("stats", "--progress", "plain", *paths)
    assert "3 of 3 inputs" in err
    assert cli("stats", *paths)[2] == ""


def test_verbose_and_quiet(cli, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(BENCH.read_bytes() + b"one\ntwo\nthree\n")
    (tmp_path / "notes").write_text("hello")
    assert len(cli("stats", bad)[2].splitlines()) == 2
    assert len(cli("stats", "-v", bad)[2].splitlines()) == 3
    assert len(cli("-v", "stats", bad)[2].splitlines()) == 3
    assert cli("stats", "-q", bad)[2] == ""
    assert "passed over" in cli("stats", "-v", tmp_path)[2]


def test_a_broken_pipe_is_silent():
    process = spawn("show", "--content", *[BENCH] * 300)
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(30) == 141
    assert process.stderr.read() == b""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("jobs", [1, 2])
def test_signals(tmp_path, number, status, jobs):
    copies(tmp_path, 20)
    process = spawn("stats", f"-j{jobs}", "--progress", "plain", *[tmp_path] * 200, start_new_session=True)
    first = process.stderr.readline()
    assert b"inputs" in first
    os.killpg(process.pid, number)
    assert process.wait(30) == status
    rest = process.stderr.read()
    assert b"Traceback" not in rest, rest
    assert b"is kept" in rest
    for _ in range(100):
        if not running(process.pid):
            return
        time.sleep(0.1)
    raise AssertionError("a worker is left")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_signal_leaves_whole_files_only(tmp_path, number, status, jobs):
    copies(tmp_path / "runs", 300)
    process = spawn("export", "-v", f"-j{jobs}", tmp_path / "runs", "-o", f"{tmp_path / 'out'}/", start_new_session=True)
    while b"wrote" not in (line := process.stderr.readline()):
        assert line
    os.killpg(process.pid, number)
    assert process.wait(30) == status
    assert b"is kept" in process.stderr.read()
    sizes = [p.stat().st_size for p in (tmp_path / "out").iterdir()]
    assert 0 < len(sizes) < 300
    assert len(set(sizes)) == 1, "none is cut, none is left from writing"


def running(group):
    """Processes of the group that still run; one that has ended and waits for its parent to take note does not."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                found.append(stat.parent.name)
    return found


# ------------------------------------------------------------------------------------------------------------ show
def test_show_in_a_pipe_is_plain(cli):
    status, out, err = cli("show", BENCH)
    lines = out.splitlines()
    assert (status, err, len(lines)) == (0, "", 18)
    assert "\x1b" not in out
    assert lines[0].startswith("trace ")
    assert "580→70 tokens" in lines[0]
    assert "$0.008" in lines[0]
    assert lines[1].split() == ["run", "bench", "16.00", "s", "ok,", "completed"]
    assert "        tool weather  200.0 ms  error  TimeoutError: no answer ⏎ after 200 ms" in lines
    assert any(re.match(r" +phase solve  ~2.00 s", x) for x in lines)


@pytest.mark.parametrize("width", [20, 33, 50, 100, 250])
def test_show_at_any_width(cli, width):
    from rich.cells import cell_len

    status, out, err = cli("show", "--width", width, "--content", BENCH)
    assert (status, err) == (0, "")
    tree = [x for x in out.splitlines() if re.search("run|task|attempt|phase|request|tool", x)]
    assert max(map(cell_len, tree)) <= max(width, 30)
    assert ("━" in out) == (width >= 100)


def test_show_picks(cli):
    def kinds(*args):
        lines = cli("show", *args, BENCH)[1].splitlines()[1:]
        return [x.split()[0] for x in lines]

    assert kinds("--depth", 1) == ["run"]
    assert kinds("--depth", 2) == ["run", "task", "task"]
    assert kinds("--kind", "tool") == ["tool"] * 3
    assert kinds("--kind", "run,tool_call") == ["run", *["tool"] * 3]
    assert kinds("--errors-only") == ["run", "task", "attempt", "phase", "tool"]
    assert kinds("--task", "oslo") == ["run", "task", "attempt", "phase", "request", "tool", "request"]
    assert kinds("--task", "q*", "--attempt", 1) == ["run", "task", "attempt", "phase", "request", "tool"]
    assert kinds("--task", "nowhere") == []
    assert cli("show", "--kind", "colour", BENCH)[0] == 2


def test_show_content(cli):
    status, _, err = cli("show", "--task", "nowhere", BENCH)
    assert (status, err) == (1, "error: nothing fits --task nowhere\n")
    assert cli("show", "--attempt", 99, BENCH)[0] == 1
    out = cli("show", "--content", "--task", "oslo", BENCH)[1]
    for text in ("user: How warm is it in oslo?", 'arguments: {"city":"oslo"}', 'result: {"celsius":7}', "→ assistant: 7 degrees."):
        assert text in out
    assert "… (15 characters more)" in cli("show", "--content", "--max-chars", 8, BENCH)[1]


def test_show_escapes_control_characters(cli, tmp_path):
    path = tmp_path / "hostile.jsonl"
    path.write_bytes(BENCH.read_bytes().replace(b'"weather"', rb'"\u001b[31mweather\u0007"'))
    for more in ([], ["--width", "100"], ["--content"]):
        out = cli("show", *more, path)[1]
        assert "\x1b[31m" not in out
        assert "\x07" not in out
        assert r"\x1b[31mweather" in out


# ----------------------------------------------------------------------------------------------------------- stats
def test_stats_tables(cli):
    found = json.loads(cli("stats", "--json", "--by", "tool", "--by", "model", "--by", "task", "--by", "phase", "--by", "run", BENCH)[1])
    assert found["tool"] == [
        {
            "tool": "weather",
            "calls": 3,
            "errors": 1,
            "p50_seconds": 0.2,
            "p95_seconds": 0.2,
            "max_seconds": 0.2,
            "total_seconds": 0.6,
            "derived_times": 0,
        }
    ]
    (model,) = found["model"]
    assert (model["model"], model["requests"], model["input_tokens"], model["output_tokens"], model["cache_read_tokens"]) == (
        "large-1",
        5,
        580,
        70,
        180,
    )
    assert model["cost"] == pytest.approx(0.008)
    assert (model["p50_seconds"], model["max_seconds"], model["total_seconds"]) == (1.0, 1.0, 4.0)
    oslo, quito = sorted(found["task"], key=lambda r: r["task"])
    assert [oslo[k] for k in ("attempts", "passed", "failed", "errors", "requests", "calls", "input_tokens")] == [1, 1, 0, 0, 2, 1, 240]
    assert [quito[k] for k in ("attempts", "passed", "failed", "errors", "requests", "calls", "input_tokens")] == [2, 1, 1, 1, 3, 2, 340]
    assert (oslo["broken"], quito["broken"]) == (0, 1)
    assert found["phase"][0]["derived_times"] == 3
    (one,) = found["run"]
    assert (one["spans"], one["requests"], one["calls"], one["errors"], one["seconds"]) == (17, 5, 3, 1, 16.0)


def test_stats_csv(cli):
    rows = list(csv.DictReader(io.StringIO(cli("stats", "--csv", "--by", "task", BENCH, NEXT_DAY)[1])))
    assert {r["task"]: (r["attempts"], r["passed"]) for r in rows} == {"oslo": ("2", "2"), "quito": ("4", "3")}
    assert len(list(csv.DictReader(io.StringIO(cli("stats", "--csv", BENCH, NEXT_DAY)[1])))) == 2
    assert cli("stats", "--csv", "--json", BENCH)[0] == 2


def test_percentiles_of_many_are_close():
    from spanport.exporters.stats import Times

    many, other = Times(), Times()
    for ns in range(1, 20_001):
        (many if ns % 2 else other).add(ns * 1000, False)
    many.merge(other)
    assert many.longest == 20_000_000
    assert many.percentile(0.5) == pytest.approx(10_000_000, rel=0.02)
    assert many.percentile(0.95) == pytest.approx(19_000_000, rel=0.02)
    assert len(many.buckets) < 1000
    assert not many.exact


# ----------------------------------------------------------------------------------------------------------- check
def test_check_names_nothing_twice(cli):
    _, out, _ = cli("check", FIXTURES / "runartifacts" / "shape_a" / "artifacts.json")
    assert "2 spans have no end (attempt 0)" in out
    assert f"{FIXTURES / 'agentcompass' / 'severity'}: agentcompass: readable" in cli("check", FIXTURES / "agentcompass" / "severity")[1]


def test_check(cli, tmp_path):
    status, out, err = cli("check", "--json", BENCH)
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["format"], found["families"], found["versions"], found["spans"]) == (
        "spanport",
        ["handmade"],
        {"service.version": "1.4.0"},
        SPANS,
    )
    assert found["clocks"]["phase"] == {"derived": 3}
    assert found["odd"] == {}
    bad = tmp_path / "bad.jsonl"
    lines = BENCH.read_text().splitlines()
    (tool,) = [i for i, x in enumerate(lines) if '"kind":"phase"' in x][:1]
    lines[tool] = lines[tool].replace('"start":', '"start":"soon","x":')
    bad.write_text("\n".join(lines))
    status, out, _ = cli("check", bad)
    assert status == 3
    assert f"line {tool + 1}, $.start" in out
    assert "spans name a parent that is not there" in out


def test_check_exit_statuses(cli, tmp_path):
    assert cli("check", "--to", "spanport", "--fail-on-loss", BENCH)[0] == 0
    lines = [json.loads(x) for x in BENCH.read_text().splitlines()]
    lines[1]["source"] = {"unknown": 1}
    path = tmp_path / "with-source.jsonl"
    path.write_text("\n".join(json.dumps(x) for x in lines))
    status, out, _ = cli("check", "--to", "spanport", "--no-carry", "--fail-on-loss", path)
    assert status == 4
    assert "model_request.source.unknown" in out
    lines[-1]["end"] = 1
    path.write_text("\n".join(json.dumps(x) for x in lines))
    assert cli("check", path)[0] == 0
    assert cli("check", "--fail-on-odd", path)[0] == 4
    assert cli("check", "--to", "nonsense", path)[0] == 2


# ------------------------------------------------------------------------------------------------------------ diff
def test_diff(cli):
    assert cli("diff", BENCH, BENCH)[0] == 0
    assert cli("diff", BENCH, FIXTURES / "cli" / "bench.otlp.jsonl")[0] == 0
    status, out, err = cli("diff", "--json", BENCH, NEXT_DAY)
    found = json.loads(out)
    assert (status, err, found["same"]) == (1, "", False)
    assert [x["path"].rpartition("/")[2] for x in found["added"]] == ["tool clock", "request large-2[2]"]
    assert found["missing"] == []
    changed = {x["path"].replace("run bench/", ""): x["changes"] for x in found["changed"]}
    assert changed["task quito/attempt 1 solver"]["verdict"] == {"a": "fail", "b": "pass"}
    assert changed["task quito/attempt 1 solver/phase solve/tool weather"]["outcome"] == {"a": "error", "b": "ok"}
    assert changed["task oslo/attempt 1 solver/phase solve/request large-1[1]"] == {"model": {"a": "large-1", "b": "large-2"}}


def test_diff_of_attempts(cli):
    status, out, _ = cli("diff", f"{BENCH}#task=quito&attempt=1", f"{BENCH}#task=quito&attempt=2")
    assert status == 1
    assert re.search(r"^\+ attempt 1 solver/phase solve/request large-1", out, re.M)
    assert "verdict: fail → pass" in out
    status, _, err = cli("diff", f"{BENCH}#attempt=1", BENCH)
    assert status == 2
    assert "2 spans fit attempt 1" in err
    assert cli("diff", f"{BENCH}#task=nowhere", BENCH)[0] == 2
    assert cli("diff", f"{BENCH}#colour=1", BENCH)[0] == 2
    assert cli("diff", BENCH, "absent")[0] == 2


def test_diff_of_times(cli, tmp_path):
    slower = tmp_path / "slower.jsonl"
    lines = [json.loads(x) for x in BENCH.read_text().splitlines()]
    for x in lines:
        if x["kind"] == "tool_call":
            x["end"] += 50_000_000
    slower.write_text("\n".join(json.dumps(x) for x in lines))
    assert cli("diff", BENCH, slower)[0] == 0
    assert cli("diff", "--times", 30, BENCH, slower)[0] == 0
    assert cli("diff", "--times", 10, BENCH, slower)[0] == 1


# ------------------------------------------------------------------------------------- schema, formats, completion
def test_formats(cli):
    found = {x["name"]: x for x in json.loads(cli("formats", "--json")[1])}
    assert {"runartifacts", "agno", "agentcompass", "atif", "otlp-json", "spanport"} <= set(found)
    assert all(x["example"] and x["recognised"] for x in found.values())
    assert "recognised by:" in cli("formats")[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(cli, shell):
    status, out, _ = cli("completion", shell)
    assert status == 0
    assert "_SPANPORT_COMPLETE" in out
    env = {
        **os.environ,
        "_SPANPORT_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "spanport st",
        "COMP_CWORD": "st" if shell == "fish" else "1",
    }
    done = subprocess.run([sys.executable, "-c", "from spanport.cli import main; main()"], env=env, capture_output=True, text=True)
    assert "stats" in done.stdout


# ------------------------------------------------------------------------------------------------------------ help
def test_help_is_quick_and_light():
    heavy = "import sys; from spanport.cli import run; run(['--help']); print([m for m in ('rich','msgspec','opentelemetry','google.protobuf','asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli, command):
    status, out, err = cli(command, "--help")
    assert (status, err) == (0, "")
    assert "-v, --verbose" in out


def test_version_and_mistakes(cli):
    assert re.fullmatch(r"spanport \d+\.\d+\S*\n", cli("--version")[1])
    status, _, err = cli("stat")
    assert status == 2
    assert "Did you mean stats?" in err
    assert cli("show")[0] == 2
    assert cli()[0] == 2


# ---------------------------------------------------------------------------------------------------------- resume, outputs
def test_resume_skips_only_what_would_come_out_the_same(cli, tmp_path):
    copies(tmp_path / "in", 2)

    def convert(*more: object) -> tuple[int, str]:
        status, _, err = cli("convert", tmp_path / "in", "--to", "otlp-json", "-o", tmp_path / "out", "--resume", *more)
        return status, err

    assert "2 inputs done" in convert()[1]
    assert "0 inputs done, 2 done before" in convert()[1]
    for more in (["--content", "none"], ["--no-carry"], ["--redact", "oslo"], ["--redact-secrets"], ["--since", "1"], ["--strict"]):
        assert "2 inputs done" in convert(*more)[1], more
        assert "2 done before" in convert(*more)[1], more
    assert "2 inputs done" in convert()[1], "what another call wrote over is done again"
    (tmp_path / "in" / "d0" / "run0.jsonl").write_bytes(BENCH.read_bytes() + b'{"kind":')
    for _ in range(2):
        status, err = convert()
        assert (status, "1 done before" in err) == (3, True), "an input that was done in part is done and told again"


def test_resume_comes_back_to_a_loss_that_was_forbidden(cli, tmp_path):
    copies(tmp_path / "in", 2)
    for _ in range(2):
        assert cli("convert", tmp_path / "in", "--to", "table", "-o", tmp_path / "out", "--resume", "--fail-on-loss")[0] == 4


def test_a_choice_that_no_run_fits_fails(cli, tmp_path):
    for words in (
        ["show"],
        ["check"],
        ["stats"],
        ["convert", "--to", "spanport", "-o", tmp_path / "x"],
        ["export", "-o", tmp_path / "x.jsonl"],
    ):
        status, _, err = cli(*words, "--run", "nobody", BENCH)
        assert (status, err.count("\n"), "no run fits --run nobody" in err) == (1, 1, True), (words, err)
    assert not (tmp_path / "x").exists()


def test_inputs_of_one_stem_have_an_output_each(cli, tmp_path):
    for name in ("a.json", "a.jsonl", "b.jsonl"):
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(BENCH.read_bytes())
    assert cli("convert", tmp_path / "in", "--to", "otlp-json", "-o", tmp_path / "in" / "out")[0] == 0
    found = {"a.json.otlp.jsonl", "a.jsonl.otlp.jsonl", "b.otlp.jsonl"}
    assert set(os.listdir(tmp_path / "in" / "out")) == found
    assert cli("convert", tmp_path / "in", "--to", "otlp-json", "-o", tmp_path / "in" / "out")[0] == 0
    assert set(os.listdir(tmp_path / "in" / "out")) == found, "outputs are no inputs of the next call"
    assert cli("convert", tmp_path / "in", "--to", "otlp-json", "-o", tmp_path / "in")[0] == 2


def test_what_can_not_be_written_is_one_line(cli, tmp_path):
    for words in (["convert", "--to", "spanport"], ["view"]):
        status, _, err = cli(*words, BENCH, "-o", BENCH / "x")
        assert (status, err.count("\n"), "can't be written" in err) == (1, 1, True), err
    if Path("/dev/full").exists():
        status, _, err = cli("convert", "--to", "spanport", BENCH, "-o", "/dev/full")
        assert (status, err) == (1, "error: /dev/full can't be written: No space left on device\n")
        assert Path("/dev/full").is_char_device(), "a device is written to, not replaced"
        with open("/dev/full", "wb") as full:
            found = subprocess.run([sys.executable, "-m", "spanport", "stats", str(BENCH)], stdout=full, stderr=subprocess.PIPE)
        assert (found.returncode, found.stderr) == (1, b"error: standard output: No space left on device\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_console_of_any_encoding(encoding, tmp_path):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff\n.jsonl")
    Path(odd).write_bytes(BENCH.read_bytes())
    for words in (
        ["show", "--width", "30"],
        ["check", "--json"],
        ["diff", str(NEXT_DAY)],
        ["convert", "--to", "spanport", "--report-json", "r"],
    ):
        found = subprocess.run(
            [sys.executable, "-m", "spanport", *words, odd],
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        assert found.returncode in (0, 1)
        assert b"error" not in found.stderr, found.stderr


def test_names_that_stand_for_nothing(cli):
    for words in (["show", ""], ["stats", "-", "-"], ["convert", BENCH, "--to", "spanport", "-o", ""]):
        assert cli(*words)[0] == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("spanport con", "plain,convert"),
        ("spanport convert --to otlp-p", "plain,otlp-proto"),
        ("spanport schema ag", "plain,agno"),
        ("spanport show x", "file,x"),
    ],
)
def test_what_a_shell_is_told(words, expected):
    env = {**os.environ, "_SPANPORT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    code = "import sys; from spanport.cli import main; sys.argv[0] = 'spanport'; main()"
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert expected in found.stdout.splitlines(), found.stderr
