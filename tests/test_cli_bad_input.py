"""Bad input, for every format that is read: no traceback, at most three lines on standard error that name the file, the right exit status, no hang.

The good samples are the smallest fixtures that are recognised as each format, so a new format is tried as soon as it has a fixture.
"""

import gzip
import io
import json
import os
import random
import re
import shutil
import socket
import time
from functools import lru_cache
from pathlib import Path

import pytest
from spanport.cli import run
from spanport.converters import registry
from spanport.converters.errors import ReadError, Report
from spanport.converters.source import is_url, source_of, split_lines

FIXTURES = Path(__file__).parent.parent / "fixtures"
DEEP = 200_000


@lru_cache(maxsize=1)
def samples() -> dict[str, Path]:
    """Format → its smallest fixture file, of those that can be read as a whole."""
    found: dict[str, Path] = {}
    roots = [FIXTURES, *(Path(p) for p in [os.environ.get("SPANPORT_CORPUS")] if p)]
    for path in sorted((p for root in roots for p in root.rglob("*") if p.is_file()), key=lambda p: (p.stat().st_size, str(p))):
        if path.stat().st_size > 300_000 or path.suffix in (".md", ".py") or "bad" in path.parts or "trunc" in str(path):
            continue
        try:
            name = registry.detect(source_of(path)).name
        except ReadError:
            continue
        if name not in found and path.stat().st_size > 300:
            found[name] = path
    return found


NAMES = sorted(samples())


def tried(capfd, path: Path, *more: str) -> tuple[int, str, list[str]]:
    """Exit status, standard output and the lines of standard error of ``spanport check``; what no run may do is asserted."""
    capfd.readouterr()
    start = time.monotonic()
    status = run(["check", "-j1", *more, str(path)])
    took = time.monotonic() - start
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert status in (0, 1, 3), (status, err)
    assert "Traceback" not in err, err
    assert "internal error" not in err, err
    assert len(lines) <= 3, err
    assert max(map(len, lines), default=0) < 1000, err
    assert took < 20, f"{took:.0f} s"
    if status == 1:
        assert lines, "an error without a word"
        assert path.name in err, err
    if status == 0:
        assert not [x for x in lines if x.startswith("error")], err
    return status, out, lines


COMMANDS = (["show"], ["check", "-j1", "--json"], ["convert", "-j1", "--to", "spanport", "-o", "out", "--errors", "errors"])


def by_every_command(monkeypatch, capfd, path: Path, *more: str) -> int:
    """What `show`, `check` and `convert` have in common: status, at most three lines that name file and place, what was lost in the errors file. Gives the status."""
    monkeypatch.chdir(path.parent)
    statuses = {}
    for command in COMMANDS:
        capfd.readouterr()
        status = statuses[command[0]] = run([*command, *more, path.name])
        _, err = capfd.readouterr()
        lines = err.splitlines()
        assert status in (0, 1, 3), (command, status, err)
        assert "Traceback" not in err, (command, err)
        assert len(lines) <= 3, (command, err)
        if status == 1 or (status == 3 and command[0] != "check"):
            assert path.name in err, (command, err)
        if status == 3 and command[0] != "check":
            assert re.search(r"line \d|byte \d|\$", err), (command, err)
    assert len(set(statuses.values())) == 1, statuses
    kept = [json.loads(x) for x in Path("errors").read_text().splitlines()]
    assert bool(kept) == (status != 0)
    for one in kept:
        assert one["input"] == path.name
        assert one["message"]
    if status == 3:
        assert Path("out").read_bytes().strip(), "a part was read, and nothing written"
    Path("out").unlink(missing_ok=True)
    return status


@pytest.mark.parametrize("format", NAMES)
def test_every_command_says_the_same(tmp_path, monkeypatch, capfd, format):
    data = samples()[format].read_bytes()
    path = tmp_path / samples()[format].name
    cuts = random.Random(5).sample(range(len(data)), 6)
    for word, changed in {
        **variants(data),
        **{f"cut {n}": data[:n] for n in cuts},
        "empty": b"",
        "space": b" \n" * 50,
        "null": b"null",
    }.items():
        path.write_bytes(changed)
        try:
            status = by_every_command(monkeypatch, capfd, path, "--from", format)
        except AssertionError as error:
            raise AssertionError(f"{word}: {error}") from error
        if word in ("empty", "space", "null"):
            assert status == 1, word
        if word in ("crlf", "bom") and format != "otlp-proto":
            assert status == 0, word
        if word in ("bad-line", "binary-line", "deep-line") and len(data.splitlines()) > 3 and registry.get(format).lines:
            assert status == 3, word


def variants(data: bytes) -> dict[str, bytes]:
    """What may happen to a file, by name."""
    lines = data.split(b"\n")
    middle = len(lines) // 2
    chance = random.Random(7)
    return {
        "bom": b"\xef\xbb\xbf" + data,
        "crlf": data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
        "bad-line": b"\n".join([*lines[:middle], b'{"broken": ', *lines[middle:]]),
        "binary-line": b"\n".join([*lines[:middle], bytes(chance.randrange(256) for _ in range(300)), *lines[middle:]]),
        "deep-line": b"\n".join([*lines[:middle], b"[" * DEEP, *lines[middle:]]),
        "nul": data[: len(data) // 2] + b"\0" * 50 + data[len(data) // 2 :],
        "twice": data + data,
        "not-utf8": data.replace(b"a", b"\xff", 7),
        "surrogate": data.replace(b'": "', b'": "\\ud800', 5),
        "nan": data.replace(b": null", b": NaN"),
        "long-number": data.replace(b": 1", b": " + b"1" * 5000, 3),
        "utf16": data.decode("utf-8", "replace").encode("utf-16"),
    }


def retyped(data: bytes, line: int) -> dict[str, bytes]:
    """The first object (or that of line ``line``) with each member in turn as something else."""
    lines = data.split(b"\n")
    try:
        top = json.loads(data)
        if line:
            return {}  # one document: done as line 0
        put = lambda value: json.dumps(value).encode()  # noqa: E731
    except ValueError:
        try:
            top = json.loads(lines[line])
        except (ValueError, IndexError):
            return {}
        put = lambda value: b"\n".join([*lines[:line], json.dumps(value).encode(), *lines[line + 1 :]])  # noqa: E731
    one = top[0] if isinstance(top, list) and top else top
    if not isinstance(one, dict):
        return {}
    found = {}
    for key in one:
        for word, value in (("null", None), ("number", -1.5), ("text", "x"), ("list", [[1], None, {}]), ("object", {"": []})):
            changed = {**one, key: value}
            found[f"{key}={word}"] = put([changed, *top[1:]] if isinstance(top, list) else changed)
        deep = put({**one, key: "\0deep"}).replace(b'"\\u0000deep"', b"[" * 20_000 + b"]" * 20_000)
        found[f"{key}=deep"] = deep
    return found


@pytest.mark.parametrize("name", ["json", "jsonl", "pb", "txt"])
@pytest.mark.parametrize(
    "data",
    [
        b"", b" \n\t\r\n ", b"null", b"\xef\xbb\xbf", b"[]", b"{}", b"5", b'"x"', b"[[[1]]]", b"\n\n\n", b"{", b'{"a"', b"\0" * 5000,
        b"[" * DEEP, b'{"a":' * DEEP, b"[" * DEEP + b"]" * DEEP, b'{"messages":' + b"[" * DEEP, bytes(random.Random(3).randrange(256) for _ in range(5000)),
        b"\x1f\x8b\x08\x00garbage that is no gzip", b"\x28\xb5\x2f\xfdgarbage that is no zstd", b"SQLite format 3\0" + b"\0" * 100,
        b"data: \nevent: x\n\n", b"\xff\xfe{\0}\0",
    ],
    ids=lambda data: repr(data[:12]) + f"-{len(data)}",
)  # fmt: skip
def test_not_a_run(tmp_path, capfd, data, name):
    path = tmp_path / f"input.{name}"
    path.write_bytes(data)
    status, _, lines = tried(capfd, path)
    assert status == 1, lines


@pytest.mark.parametrize("format", sorted(f.name for f in registry.formats().values() if f.reader))
@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"5", b"\0\1\2\3" * 100, b"[" * DEEP, b'{"a":1}\n{"b":2}\n', b"\xff" * 2000], ids=repr
)
def test_not_a_run_though_a_format_is_named(tmp_path, capfd, data, format):
    path = tmp_path / "input"
    path.write_bytes(data)
    tried(capfd, path, "--from", format)


def test_every_format_that_is_read_has_a_sample():
    readable = {f.name for f in registry.formats().values() if f.reader and not f.folder}
    assert readable - set(NAMES) <= set(), f"no fixture is recognised as {sorted(readable - set(NAMES))}"


@pytest.mark.parametrize("format", NAMES)
def test_truncated_anywhere(tmp_path, capfd, format):
    data = samples()[format].read_bytes()
    path = tmp_path / samples()[format].name
    cuts = {0, 1, 2, len(data) - 1, len(data) - 2} | set(random.Random(1).sample(range(len(data)), min(25, len(data))))
    for i, cut in enumerate(sorted(c for c in cuts if c >= 0)):
        path.write_bytes(data[:cut])
        tried(capfd, path, *(["--from", format] if i % 2 else []))


@pytest.mark.parametrize("format", NAMES)
def test_damaged(tmp_path, capfd, format):
    data = samples()[format].read_bytes()
    path = tmp_path / samples()[format].name
    for word, changed in variants(data).items():
        path.write_bytes(changed)
        try:
            status, _, _ = tried(capfd, path)
        except AssertionError as error:
            raise AssertionError(f"{word}: {error}") from error
        if word == "bom" and not data.startswith(b"SQLite") and format != "otlp-proto":
            assert status in (0, 3), "a byte-order mark made it unreadable"


@pytest.mark.parametrize("line", [0, -2])
@pytest.mark.parametrize("format", NAMES)
def test_wrong_types(tmp_path, capfd, format, line):
    path = tmp_path / samples()[format].name
    for word, changed in retyped(samples()[format].read_bytes(), line).items():
        path.write_bytes(changed)
        try:
            tried(capfd, path, "--from", format)
        except AssertionError as error:
            raise AssertionError(f"{word}: {error}") from error


@pytest.mark.parametrize("format", NAMES)
def test_flipped_bytes(tmp_path, capfd, format):
    data = samples()[format].read_bytes()
    path = tmp_path / samples()[format].name
    chance = random.Random(11)
    for _ in range(12):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 3, 20))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        path.write_bytes(changed)
        tried(capfd, path, "--from", format)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
@pytest.mark.parametrize("name", ["progress.jsonl", "run_info.json", "progress.json", "details"])
def test_a_pipe_in_a_run_directory_is_not_waited_for(tmp_path, capfd, name):
    run = tmp_path / "run"
    shutil.copytree(FIXTURES / "agentcompass" / "terminus2", run)
    if (run / name).is_dir():
        shutil.rmtree(run / name)
    else:
        (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    tried(capfd, run)
    tried(capfd, run, "-j2")
    shutil.copytree(FIXTURES / "agentcompass" / "killed", tmp_path / "other")  # a tree of two runs
    tried(capfd, tmp_path, "--from", "agentcompass")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("nowhere", path)], ids=["pipe", "folder", "dead-link"])
def test_what_only_has_the_name_of_a_file_is_not_opened(tmp_path, capfd, make):
    folder = tmp_path / "sessions"
    folder.mkdir()
    make(folder / "a.json")
    (folder / "b.json").write_text("{}")
    status, _, _ = tried(capfd, folder)
    assert status == 1
    for format in ("agno", "agentcompass", "runartifacts"):
        tried(capfd, folder, "--from", format)


def test_bad_lines_cost_no_more_than_good_ones(tmp_path):
    """A few times as much at most, whatever is wrong with them."""
    good = [x for x in samples()["agentcompass-progress"].read_bytes().split(b"\n") if x]
    path = tmp_path / "progress.jsonl"

    def took(line: bytes) -> float:
        path.write_bytes(b"\n".join([good[0], *[line] * 5_000, good[-1]]) + b"\n")
        start = time.process_time()
        list(registry.get("agentcompass-progress").read(source_of(path), Report(input="x")))
        return time.process_time() - start

    usual = took(good[1])
    for bad in (b"x", b"[1]", b"{}", b"\xff" * 300, good[1][:-20], b"[" * 300, good[1].replace(b"{", b"{,", 1)):
        assert took(bad) < 8 * usual + 0.2, bad


def test_a_long_name_is_told_from_a_url_at_once():
    start = time.monotonic()
    assert not is_url("a-name-of-many-words-and.dots.jsonl" * 100)
    assert time.monotonic() - start < 1
    assert [is_url(x) for x in ("s3://a/b", "https://h/x", "simplecache::s3://a", "aa::bb::gs://x", "a:b", "C:/x", "x.jsonl", "1s3://x")] == [
        True, True, True, True, False, False, False, False,
    ]  # fmt: skip


def test_a_url_that_cannot_be_opened_is_said_once_and_why(capfd):
    pytest.importorskip("aiohttp")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # nobody listens
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/run.json"
        assert run(["check", url]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line == f"error: {url}: Connection refused"
    assert run(["check", "memory://nowhere/run.json"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line == "error: memory://nowhere/run.json: no such file"


def test_of_empty_lines_by_the_thousand_only_the_last_ones_come():
    data = b"a\n" + b"\n" * 3_000_000 + b"b\n\nc"
    found = list(split_lines(io.BytesIO(data)))
    assert len(found) < 600_000
    assert [(x.number, x.offset, x.data) for x in found if x.data] == [
        (1, 0, b"a"), (3_000_002, 3_000_002, b"b"), (3_000_004, 3_000_005, b"c"),
    ]  # fmt: skip
    few = b"a\n" + b"\n" * 20 + b"b"
    assert [x.data for x in split_lines(io.BytesIO(few))] == few.split(b"\n")


def test_lines_have_their_numbers_behind_a_carry_and_empty_lines():
    """A stream of lines with a carry is written anew without it, for the reader: every line in its place."""
    path = samples()["agentcompass-progress"]
    lines = path.read_bytes().rstrip().split(b"\n")
    data = lines[0] + b"\n" + b"\n" * 1_000_000 + b"no JSON\n" + b"\n".join(lines[1:]) + b"\n"
    report = Report(input="x")
    list(registry.get("agentcompass-progress").read(source_of(io.BytesIO(data)), report))
    assert [n.line for n in report.notices if n.severity == "lost"] == [1_000_002]


def test_a_document_has_a_size_limit_that_can_be_set(tmp_path, capfd, monkeypatch):
    path = tmp_path / "artifacts.json.gz"
    data = samples()["runartifacts"].read_bytes()
    path.write_bytes(gzip.compress(data[:-1].rstrip() + b',"more":"' + b"x" * (9 << 20) + b'"}'))
    assert run(["check", str(path)]) == 0
    monkeypatch.setenv("SPANPORT_MAX_DOCUMENT", "8M")
    assert run(["check", str(path)]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert (
        line
        == f"error: {path}: more than 8,388,608 bytes once unpacked; SPANPORT_MAX_DOCUMENT sets the limit, such as SPANPORT_MAX_DOCUMENT=4G"
    )
    monkeypatch.setenv("SPANPORT_MAX_DOCUMENT", "0.5k")
    assert run(["check", str(path)]) == 1
    assert "no size" in capfd.readouterr().err
    monkeypatch.setenv("SPANPORT_MAX_DOCUMENT", "1200")
    assert run(["check", str(samples()["runartifacts"])]) == (1 if len(data) > 1200 else 0)
