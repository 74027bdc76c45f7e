"""Files written whole or not at all: to a temporary file beside the target, then renamed; or, behind a URL, put there when they are whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ..converters.errors import SpanportError
from ..converters.source import file_system, is_url, shown_url


@contextmanager
def replacing(target: Path | str) -> Iterator[BinaryIO]:
    """A binary file that becomes ``target`` (a path, or a URL for fsspec) when the block ends well, and is removed when it raises."""
    if isinstance(target, str):
        if is_url(target):
            with _put(target) as remote:
                yield remote
            return
        target = Path(target)
    if target.exists() and not target.is_file() and not target.is_dir():  # a device or a named pipe is written to, not replaced
        with target.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(target))  # what a link points to, not the link
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def _put(url: str) -> Iterator[BinaryIO]:
    with tempfile.NamedTemporaryFile(prefix="spanport-") as file:
        yield cast(BinaryIO, file)
        file.flush()
        system, path = file_system(url)
        try:
            system.put_file(file.name, path)
        except Exception as error:  # each file system raises its own
            raise SpanportError(
                f"{shown_url(url)} can't be written: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
            ) from error
