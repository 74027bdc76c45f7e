"""Large payloads of artifacts into a folder of the user's choice, by SHA-256: the item keeps size, hash and reference.

`converters.artifacts.get_artifact` finds them there again. A stage from items to items; it writes nothing else and reads no path from a record.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from ..jsonio import minify
from ..model import ABSENT, Artifact, Item, TraceHeader

LARGE = 64 * 1024


def spill(items: Iterable[Item], folder: Path, over: int = LARGE) -> Iterator[Item]:
    """Items whose artifacts' payloads of more than ``over`` bytes lie in ``folder`` as ``<sha256>.json`` (minified JSON)."""
    for item in items:
        if not isinstance(item, TraceHeader) and any(len(memoryview(a.payload)) > over for a in item.artifacts if a.payload):
            item = msgspec.structs.replace(item, artifacts=[_stored(a, folder, over) for a in item.artifacts])
        yield item


def _stored(a: Artifact, folder: Path, over: int) -> Artifact:
    if not a.payload or len(memoryview(a.payload)) <= over:
        return a
    data = minify(a.payload)
    if len(data) <= over:
        return a
    digest = sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{digest}.json"
    if not path.exists():
        part = folder / f"{digest}.{os.getpid()}.part"
        part.write_bytes(data)
        part.replace(path)
    return msgspec.structs.replace(a, payload=ABSENT, size=len(data), sha256=digest, ref=f"sha256:{digest}")
