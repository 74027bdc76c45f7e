"""The engine of a Dask cluster that is there already: the same work items, by the cluster's executor interface.

The scheduler does a lost worker's items again by itself, and gives an item up when it has seen too many workers die with it
(``distributed.scheduler.allowed-failures`` of the cluster). This module starts no cluster and moves no data: an item names its input, and the
worker reads, sends and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from distributed import Client
from distributed.scheduler import KilledWorker

from ..converters.errors import SpanportError
from .engine import Done, WorkerDied

CONNECT: Final = 15
"""Seconds that the scheduler may take to answer."""
WINDOW: Final = 64
"""Items in hand at the least, also while the cluster has few workers yet."""


class Cluster:
    """See `engine.Engine`. SpanportError when the scheduler can't be reached, or is lost."""

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            self._client = Client(f"tcp://{address}", timeout=CONNECT, set_as_default=False)
            threads = sum(self._client.nthreads().values())
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise SpanportError(f"no Dask scheduler answers at {address}: {str(error) or type(error).__name__}"[:300]) from error
        self._executor = self._client.get_executor(pure=False)
        self.window = max(WINDOW, 4 * threads)
        self._tickets = 0
        self._running: dict[Future[Any], int] = {}

    def submit(self, work: Callable[[Any], Any], item: Any) -> int:
        ticket = self._tickets
        self._tickets += 1
        self._running[self._executor.submit(_checked, _version(), work, item)] = ticket
        return ticket

    def as_completed(self) -> Iterator[Done[Any]]:
        while self._running:
            finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield self._done(self._running.pop(future), future)

    def _done(self, ticket: int, future: Future[Any]) -> Done[Any]:
        if future.cancelled():
            raise SpanportError(f"the Dask scheduler at {self.address} was lost")
        error = future.exception()
        if error is None:
            return Done(ticket, future.result())
        if isinstance(error, KilledWorker):
            return Done(ticket, error=WorkerDied(f"{error.allowed_failures + 1} workers that worked on it died (killed, or out of memory)"))
        if isinstance(error, ImportError):
            raise SpanportError(f"a worker of {self.address} lacks something: {error}; install the same spanport with the same extras there")
        return Done(ticket, error=error)

    def close(self) -> None:
        """What has not begun is taken back; what a worker has begun it finishes."""
        self._executor.shutdown(wait=False)
        self._running.clear()
        self._client.close(timeout=5)


def _version() -> str:
    try:
        return version("spanport")
    except PackageNotFoundError:
        return ""


def _checked(wanted: str, work: Callable[[Any], Any], item: Any) -> Any:
    """``work`` on a worker of the same release: another one may map fields, and so make ids, in another way."""
    if (mine := _version()) != wanted:
        raise SpanportError(f"a worker has spanport {mine}, this is {wanted}")
    return work(item)


__all__ = ["Cluster"]
