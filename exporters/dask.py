"""The engine of a Dask cluster that is there already: the same work items, by the cluster's executor interface.

The scheduler does a lost worker's items again by itself, and gives an item up when too many workers died while they had it
(``distributed.scheduler.allowed-failures`` of the cluster). Since another item may have been the cause, one that was given up runs once more, alone. This module starts no cluster and moves no data: an item names its input, and the
worker reads, sends and writes.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from distributed import Client
from distributed.scheduler import KilledWorker

from ..converters.errors import SpanportError
from .engine import Done, WorkerDied

CONNECT: Final = 10
"""Seconds that the scheduler may take to answer."""
WINDOW: Final = 64
"""Items in hand at the least, also while the cluster has few workers yet."""


_Task = tuple[int, Callable[[Any], Any], Any]


class Cluster:
    """See `engine.Engine`. SpanportError when the scheduler can't be reached, or is lost."""

    def __init__(self, address: str) -> None:
        self.address = address
        connect: Any = Client  # it has no types
        try:
            self._client = connect(f"tcp://{address}", timeout=CONNECT, set_as_default=False)
            threads = sum(self._client.nthreads().values())
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise SpanportError(f"no Dask scheduler answers at {address}: {str(error) or type(error).__name__}"[:300]) from error
        self._executor = self._client.get_executor(pure=False)
        self.width = max(1, threads)
        self.window = max(WINDOW, 4 * threads)
        self._tickets = 0
        self._running: dict[Future[Any], _Task] = {}
        self._suspects: list[_Task] = []

    def submit(self, work: Callable[[Any], Any], item: Any) -> int:
        ticket = self._tickets
        self._tickets += 1
        self._put((ticket, work, item))
        return ticket

    def as_completed(self) -> Iterator[Done[Any]]:
        while self._running or self._suspects:
            if not self._running:  # alone, so that nothing else on its worker can be the cause
                suspect = self._suspects.pop(0)
                future = self._put(suspect)
                wait([future])
                yield self._done(self._running.pop(future)[0], future)
                continue
            finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
            for future in finished:
                task = self._running.pop(future)
                if not future.cancelled() and isinstance(future.exception(), KilledWorker):
                    self._suspects.append(task)
                else:
                    yield self._done(task[0], future)

    def _put(self, task: _Task) -> Future[Any]:
        future: Future[Any] = self._executor.submit(
            _opened(), pickle.dumps((_checked, (_version(), gc.get_threshold(), pickle.dumps(task[1:]))))
        )
        self._running[future] = task
        return future

    def _done(self, ticket: int, future: Future[Any]) -> Done[Any]:
        if future.cancelled():
            raise SpanportError(f"the Dask scheduler at {self.address} was lost")
        error = future.exception()
        if error is None:
            return Done(ticket, future.result())
        if isinstance(error, KilledWorker):
            return Done(ticket, error=WorkerDied(f"{error.allowed_failures + 1} workers that worked on it died (killed, or out of memory)"))
        if isinstance(error, ImportError):
            raise SpanportError(
                f"a worker of {self.address} lacks something: {error}; install the same spanport with the same extras there"
            )
        return Done(ticket, error=error)

    def close(self) -> None:
        """What has not begun is taken back; what a worker has begun it finishes."""
        self._executor.shutdown(wait=False)
        self._running.clear()
        self._suspects.clear()
        self._client.close(timeout=5)


def _version() -> str:
    try:
        return version("spanport")
    except PackageNotFoundError:
        return ""


def _opened() -> Callable[[bytes], Any]:
    """What a worker calls. A function within a function travels with its code, and its argument as bytes: so the scheduler, which looks into what it passes
    on, needs no spanport."""

    def opened(data: bytes) -> Any:
        import pickle

        function, arguments = pickle.loads(data)  # noqa: S301  # from the command, by way of Dask, which does the same
        return function(*arguments)

    return opened


def _checked(wanted: str, threshold: tuple[int, int, int], data: bytes) -> Any:
    """The work on a worker of the same release: another one may map fields, and so make ids, in another way. ``threshold``: that of the garbage collector,
    which the command sets for itself."""
    if (mine := _version()) != wanted:
        raise SpanportError(f"a worker has spanport {mine}, this is {wanted}")
    work, item = pickle.loads(data)  # noqa: S301
    before = gc.get_threshold()
    gc.set_threshold(*threshold)
    try:
        return work(item)
    finally:
        gc.set_threshold(*before)


__all__ = ["Cluster"]
