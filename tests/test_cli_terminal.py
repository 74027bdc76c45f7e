"""What commands look like on a terminal, of whatever width, and in the shells that complete them."""

import os
import pty
import re
import shutil
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest
from rich.cells import cell_len

ROOT = Path(__file__).parent.parent
SHAPE_D = "fixtures/runartifacts/shape_d"
UNKNOWN_TOOL = "fixtures/runartifacts/unknown_tool"


def on_terminal(width: int, *words: str) -> list[str]:
    """The lines that a command draws on a terminal of ``width`` columns, without colours."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "spanport", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**env, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    drawn = b""
    try:
        while piece := os.read(ours, 65536):
            drawn += piece
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(ours)
    process.communicate()
    return [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line) for line in drawn.decode().split("\r\n")]


def words_of(lines: list[str]) -> list[str]:
    return " ".join(lines).split()


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize(
    "command",
    [
        ("formats",),
        ("check", "fixtures/agentcompass/glued-lines", "--to", "runartifacts"),
        ("diff", SHAPE_D, UNKNOWN_TOOL, "--no-content"),
    ],
    ids=lambda c: c[0],
)
def test_long_lines_break_between_words_and_hang(command, width):
    lines = on_terminal(width, *command)
    piped = subprocess.run([sys.executable, "-m", "spanport", *command], cwd=ROOT, capture_output=True, text=True)
    assert words_of(lines) == words_of(piped.stdout.split("\n"))
    long = [line for line in lines if cell_len(line) > width]
    assert all(max(map(len, line.split())) > width - 14 for line in long), long  # a word for which there is no room is not broken
    assert len(lines) > len(piped.stdout.split("\n"))


@pytest.mark.parametrize("width", [40, 100])
def test_values_that_differ_are_cut_to_the_width(width):
    lines = on_terminal(width, "diff", SHAPE_D, UNKNOWN_TOOL)
    assert any("→" in line and "…" in line for line in lines)
    assert width < 60 or max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("width", [60, 200])
def test_the_line_above_a_tree_is_whole(width):
    """Of SimLab the tokens are known of an attempt only: they are there, and in the line above."""
    lines = on_terminal(width, "show", SHAPE_D)
    assert max(map(cell_len, lines)) <= width
    above = " ".join(lines[: next(i for i, line in enumerate(lines) if line.startswith("run "))])
    assert "720→140 tokens" in above
    assert "$0.000192" in above
    if width == 200:
        assert "720→140" in next(line for line in lines if "attempt 0" in line)


def test_a_table_that_is_too_wide_breaks_its_headings():
    words = ("stats", "--by", "task", "fixtures/agentcompass/severity")
    wide, narrow = on_terminal(160, *words), on_terminal(100, *words)
    assert max(map(cell_len, narrow)) <= 100
    assert any("output tokens" in line for line in wide)
    assert not any("output tokens" in line for line in narrow)
    numbers = [re.findall(r"\d+(?:[.,]\d+)*", line) for line in wide[-12:]]
    assert [re.findall(r"\d+(?:[.,]\d+)*", line) for line in narrow[-12:]] == numbers


def completed(shell: str, line: str) -> str:
    """What a shell makes of ``line`` and a Tab: the script itself, in the shell itself."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if shutil.which("spanport", path=path) is None:
        pytest.skip("no spanport in the PATH")
    if shell == "fish":
        script = f"spanport completion fish | source; complete -C {line!r}"
        command = ["fish", "--no-config", "-c", script]
    elif shell == "bash":
        *before, last = line.split(" ")
        script = f"""eval "$(spanport completion bash)"; COMP_WORDS=({" ".join(before)} {last!r}); COMP_CWORD={len(before)}
            _spanport_completion spanport; printf '%s\\n' "${{COMPREPLY[@]}}" """
        command = ["bash", "--norc", "-c", script]
    else:
        *before, last = line.split(" ")
        # Outside of the line editor nothing is inserted: what would be is printed.
        script = f"""HOME=$(mktemp -d); eval "$(spanport completion zsh)"; (( $+functions[compdef] )) || print no compdef
            compadd() {{ print -l -- $completions }}; _describe() {{ print -l -- $completions_with_descriptions }}
            words=({" ".join(before)} {last!r}); CURRENT={len(before) + 1}; _spanport_completion; print $_comps[spanport]"""
        command = ["zsh", "-f", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("spanport ex", {"export"}),
        ("spanport export --pro", {"--protocol", "--profile", "--project"}),
        ("spanport convert --to ag", {"agno", "agno-events", "agentcompass", "agentcompass-progress"}),
        ("spanport show --kind tool,r", {"tool,run", "tool,request"}),
    ],
)
def test_a_shell_completes(shell, line, wanted):
    out = completed(shell, line)
    found = {re.split(r"[\t:]", entry)[0] for entry in out.splitlines()}
    assert wanted <= found
    assert all(one.startswith(line.split(" ")[-1]) for one in found - {"_spanport_completion"})
    if shell == "fish" and "--project" in wanted:
        assert "or MLflow experiment" in out  # a comma ends no description
