"""What worker processes write, on its way to the output: each share of an input, or each input of one output, is a part, and parts are put one after the other."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from typing import BinaryIO, cast

Part = tuple[str | None, bytes]
"""A file on this machine, or (None) the bytes themselves."""


def keep(folder: str | None, write: Callable[[BinaryIO], None]) -> Part:
    """What ``write`` writes: in a file of ``folder``, so that no process holds it; without one (another machine) as bytes."""
    if folder is None:
        out = io.BytesIO()
        write(out)
        return None, out.getvalue()
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
        write(cast(BinaryIO, part))
    return part.name, b""


def join(parts: Iterable[Part], out: BinaryIO) -> None:
    """Put ``parts`` into ``out`` one after the other; their files go."""
    for name, data in parts:
        if name is None:
            out.write(data)
            continue
        with open(name, "rb") as part:
            shutil.copyfileobj(part, out, 1 << 20)
        os.unlink(name)


__all__ = ["Part", "join", "keep"]
