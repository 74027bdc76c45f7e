"""Options of the conformance kit, for formats of other packages."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("spanport conformance")
    group.addoption("--format", help="The name of the format that --probe is a record of.")
    group.addoption("--probe", help="A record of it.")
    group.addoption("--expect", help="What a person reads in it, as JSON (tests/conformance/README.md).")
