"""What peers do with their own input format, as whole processes, in a virtual environment of their own (``--peers PYTHON``): ``pip install agentpile
harbor-atif2otel 'agent-session-otel[otel]' atif-make``. A peer that is not installed there is left out, and the table says so.

Each is run the way its documentation shows. Two read ATIF, as spanport does, so that they are compared on the very same file.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_AGENTPILE = "import sys, agentpile\nfor n, r in enumerate(agentpile.load(sys.argv[1])): r.to_otlp(sys.argv[2])"
_HARBOR = (
    "import sys, json, harbor_atif2otel as h\n"
    "spans = h.convert_trajectory(json.load(open(sys.argv[1])))\n"
    "spans = spans if isinstance(spans, list) else [spans]\n"
    "open(sys.argv[2], 'wb').write(b''.join(s.SerializeToString() for s in spans))"
)


@dataclass(frozen=True)
class Peer:
    """``command`` with ``{python}``, ``{bin}``, ``{input}``, ``{folder}``, ``{output}``; ``package`` tells whether it is there. ``like``: which of our own
    jobs does the like, and on which input."""

    name: str
    package: str
    input: str
    command: tuple[str, ...]
    like: str


PEERS = (
    Peer("agentpile: ATIF → OTLP JSON", "agentpile", "atif", ("{python}", "-c", _AGENTPILE, "{input}", "{output}"), "atif → otlp-json"),
    Peer(
        "harbor-atif2otel: ATIF → OTLP protobuf",
        "harbor_atif2otel",
        "atif",
        ("{python}", "-c", _HARBOR, "{input}", "{output}"),
        "atif → otlp-proto",
    ),
    Peer(
        "agent-session-otel: Claude Code → spans as JSON",
        "agent_session_otel",
        "claude",
        (
            "{bin}/agent-session-otel",
            "export",
            "--vendor",
            "claude-code",
            "--claude-code-root",
            "{folder}",
            "--include-content",
            "--format",
            "json",
            "--output",
            "{output}",
        ),
        "agno-events → otlp-json",
    ),
    Peer(
        "atif-make: Claude Code → ATIF",
        "atif",
        "claude",
        ("{bin}/atif-make", "convert", "-q", "-o", "{output}", "{input}"),
        "agno-events → atif",
    ),
)


def installed(python: Path, peer: Peer) -> bool:
    """Whether ``python`` can import the peer (or has its command)."""
    if peer.command[0].startswith("{bin}"):
        return (python.parent / peer.command[0].removeprefix("{bin}/")).exists()
    return subprocess.run([python, "-c", f"import {peer.package}"], capture_output=True, check=False).returncode == 0


def command(python: Path, peer: Peer, given: Path, output: Path) -> list[str]:
    """The words of the peer's command."""
    places = {"python": str(python), "bin": str(python.parent), "input": str(given), "folder": str(given.parent), "output": str(output)}
    return [places[w[1:-1]] if w[:1] == "{" and w[-1:] == "}" else w.replace("{bin}", places["bin"]) for w in peer.command]
