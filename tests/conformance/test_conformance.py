"""The conformance kit over the formats of this package, and over one of another package when it is named (``--format``, ``--probe``)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the kit's own modules, which are no package
from conformance_kit import CHECKS, Call, Probe
from conformance_probes import PROBES


@pytest.mark.parametrize("check", CHECKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("probe", PROBES, ids=lambda f: f.__name__)
def test_format(probe: Callable[[], Probe], check: Callable[[Probe], None]) -> None:
    check(probe())


def test_the_readme_has_the_levels_of_today() -> None:
    import levels

    readme = (levels.ROOT / "README.md").read_text()
    assert levels.BEGIN in readme
    assert levels.put(readme) == readme, "python tests/conformance/levels.py writes the table anew"


@pytest.mark.parametrize("check", CHECKS, ids=lambda f: f.__name__)
def test_plug_in(request: pytest.FixtureRequest, check: Callable[[Probe], None]) -> None:
    name, path = (request.config.getoption(f"--{n}", default=None) for n in ("format", "probe"))
    if name is None or path is None:
        pytest.skip("no --format and --probe given")
    probe = Probe(name, Path(path).read_bytes())
    expect = request.config.getoption("--expect", default=None)
    if expect is None and check.__name__ in ("calls", "tokens"):
        pytest.skip("no --expect given")
    if expect is not None:
        said = json.loads(Path(expect).read_text())
        probe.calls = [Call(**c) for c in said.get("calls", [])]
        probe.tokens = tuple(said["tokens"]) if said.get("tokens") else None
        probe.times, probe.texts = said.get("times", []), said.get("texts", [])
    check(probe)
