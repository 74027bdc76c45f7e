"""The commands in README.md, docs/ and the help texts work as they are printed.

In Markdown, each line of a ``bash`` block that begins with ``spanport`` is run, and each ``python`` block; in a ``shell-session`` block what is printed is compared; exports in an ``sh`` block,
which need a server, are run with ``--dry-run``; ``console`` blocks are not run. Each page has a folder of its own, in which the fixtures are, and ``RUN``, ``A``, ``B`` and ``runs/`` are
made from one. What stands behind a pipe or a redirection of the output is left out.
"""

import gzip
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from spanport.cli import COMMANDS, run

ROOT = Path(__file__).parent.parent
PAGES = sorted(p for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if p.exists())


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


def commands(text: str) -> list[list[str]]:
    """The spanport calls in a block, split as a shell would, ``< FILE`` with them."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip().startswith("spanport "):
            words = shlex.split(line.strip(), comments=True)
            end = next((i for i, w in enumerate(words) if w in ("|", ">", "||", "&&", ";")), len(words))
            found.append(words[1:end])
    return found


def sessions(text: str) -> list[tuple[list[str], str]]:
    """The spanport calls in a ``shell-session`` block, each with what is printed below it."""
    pieces = re.findall(r"^\$ spanport (.*)\n((?:(?!\$ ).*\n)*)", text, re.M)
    return [(shlex.split(line), printed.rstrip("\n")) for line, printed in pieces]


@pytest.fixture
def place(tmp_path, monkeypatch):
    bench = ROOT / "fixtures" / "cli" / "bench.spanport.jsonl"
    for name in ("RUN", "A", "B", "run.spanport.jsonl", "runs/a/one.jsonl", "runs/two.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(bench, tmp_path / name)
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    for name in ("SPOOL", "STATE"):
        monkeypatch.setenv(f"SPANPORT_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def works(capfd, words: list[str]) -> str:
    """Run it as a user would; what it printed."""
    if "<" in words:
        with open(words[-1], "rb") as given:
            done = subprocess.run([sys.executable, "-m", "spanport", *words[:-2]], stdin=given, capture_output=True, text=True)
        status, out, err = done.returncode, done.stdout, done.stderr
    else:
        status = run(words)
        out, err = capfd.readouterr()
    allowed = {0, 1} if words[0] == "diff" else {0, 4} if any(w.startswith("--fail-on") for w in words) else {0, 3}
    assert status in allowed, f"spanport {shlex.join(words)}: exit status {status}\n{err}"
    for defect in ("internal error", "no such file", "no file fits"):
        assert defect not in err, err
    return out


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "bash") or blocks(p, "sh")], ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_of_a_page(capfd, place, page):
    for words in commands("\n".join(blocks(page, "bash"))):
        if not words[-1].endswith(".parquet") or find_spec("pyarrow"):
            works(capfd, words)
    for words in commands("\n".join(blocks(page, "sh"))):
        works(capfd, [*words, "--dry-run"] if words[0] == "export" else words)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "shell-session")], ids=lambda p: str(p.relative_to(ROOT)))
def test_what_a_page_says_is_printed(capfd, place, page):
    found = sessions("".join(blocks(page, "shell-session")))
    assert found
    for words, printed in found:
        assert works(capfd, words).rstrip("\n") == printed, f"spanport {shlex.join(words)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_blocks_of_a_page_say_what_they_are(page):
    known = {"bash", "console", "python", "sh", "shell-session", "text", "toml"}
    opened = re.findall(r"^```(.*)\n", page.read_text(), re.M)[::2]
    assert set(opened) <= known, f"{page.name}: {set(opened) - known}"


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: str(p.relative_to(ROOT)))
def test_python_of_a_page(place, page):
    for block in blocks(page, "python"):
        done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=place)
        assert done.returncode == 0, f"{block}\n{done.stderr}"


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help(capfd, place, command):
    run([command, "--help"])
    text = capfd.readouterr().out.partition("Examples:")[2]
    if command == "convert":  # an example writes a format that holds one run
        shutil.copy(ROOT / "fixtures" / "runartifacts" / "shape_d" / "artifacts.json", place / "RUN")
    for words in commands(text):
        if any(w.startswith("--endpoint") for w in words) or words[0] == "resend":
            continue  # they need a server
        cut = words.index("to") if "to" in words else len(words)
        works(capfd, words[:cut] if words[0] == "export" else words)


def _symptoms() -> dict[str, bytes]:
    """Inputs that show what troubleshooting.md names, by its words."""
    whole = (ROOT / "fixtures" / "runartifacts" / "shape_d" / "artifacts.json").read_bytes().rstrip()
    return {
        "no format recognised in …": b'{"a": 1}',
        "two formats fit": b"",  # no two of ours do
        "the JSON breaks off here": whole[:3000],
        "not JSON: …; what is whole before it was read": whole[:3000] + b"\x00",
        "the compressed data breaks off": gzip.compress(whole)[:1000],
        "more than 1,073,741,824 bytes once unpacked": b"",  # test_cli_bad_input tries it with a lower limit
        "nested too deep; read as null": whole[:-1] + b', "x": ' + b"[" * 3000 + b"]" * 3000 + b"}",
        "'NaN' is no JSON; read as null": whole[:-1] + b', "x": NaN}',
        "internal error": b"",
    }


def test_symptoms_are_named_as_they_are_printed(capfd, place):
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    named = re.findall(r"^(?:\*\*)?`([^`\n]+)`(?:\*\*| is the same)", text, re.M)
    known = _symptoms()
    assert set(named) == set(known)
    for symptom, data in known.items():
        if data:
            Path("odd").write_bytes(data)
            run(["check", "-v", "odd"])
            out, err = capfd.readouterr()
            for piece in symptom.split("…"):
                assert piece.strip() in out + err, (symptom, out, err)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
