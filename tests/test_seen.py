"""Names that have come: told exactly, however many there are, in few bytes."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from spanport.converters import seen


@pytest.mark.parametrize("few", [0, 1000, seen.FEW])
def test_it_tells_as_a_set_does(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "FEW", few)
    monkeypatch.setattr(seen, "_SLOTS", 64)
    rng = random.Random(3)
    found, known = seen.Seen(), set()
    for _ in range(100_000):
        name = f"{rng.randrange(50_000):x}"
        assert (name in found) == (name in known)
        assert found.add(name) == (name not in known)
        known.add(name)
    assert len(found) == len(known)


def test_a_name_takes_few_bytes() -> None:
    found = seen.Seen()
    count = seen.FEW * 3
    tracemalloc.start()
    try:
        for i in range(count):
            assert found.add(f"{i:032x}")
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < 18 * count, "few are kept in another way than many"
