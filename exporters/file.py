"""Files written whole or not at all: to a temporary file beside the target, then renamed; or, behind a URL, put there when they are whole."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ..converters.errors import SpanportError
from ..converters.source import file_system, is_url, shown_url


@contextmanager
def replacing(target: Path | str) -> Iterator[BinaryIO]:
    """A binary file that becomes ``target`` (a path, or a URL for fsspec) when the block ends well, and is removed when it raises. SpanportError when it
    can't be written."""
    if isinstance(target, str):
        if is_url(target):
            with _put(target) as remote:
                yield remote
            return
        target = Path(target)
    if target.exists() and not target.is_file() and not target.is_dir():  # a device or a named pipe is written to, not replaced
        with _writing(target), target.open("wb") as file:
            yield file
        return
    final = Path(os.path.realpath(target))  # what a link points to, not the link
    name = None
    try:
        with _writing(target, all=True):
            final.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{final.name[:40]}.", suffix=".tmp", dir=final.parent)
        with _writing(target), os.fdopen(handle, "wb") as file:
            yield file
        with _writing(target, all=True):
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
            os.replace(name, final)
    except BaseException:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        raise


class Spared:
    """Files that are read from: ``target in spared`` says that an output would take the place of one, which would be lost. They are only listed when an
    output is there already."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = names
        self._paths: set[str] | None = None

    def __contains__(self, target: Path | str) -> bool:
        if is_url(str(target)) or not os.path.isfile(target):
            return False
        if self._paths is None:
            self._paths = {os.path.realpath(name) for name in self._names if name != "-" and not is_url(name)}
        return os.path.realpath(target) in self._paths


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What only writing can fail with."""


@contextmanager
def _writing(target: Path, all: bool = False) -> Iterator[None]:
    """An error that is about the target says so; within ``all``, any is. Others, such as those of reading meanwhile, pass."""
    try:
        yield
    except OSError as error:
        if not all and error.errno not in FULL:
            raise
        raise SpanportError(f"{target} can't be written: {error.strerror}") from error


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
