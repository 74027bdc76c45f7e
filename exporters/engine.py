"""Where the work of a batch is done: one interface, `submit` and `as_completed`, over this machine's processors (``local``) or a cluster.

An engine knows nothing of spans: it is given a function and items, both picklable, and gives back each item's result or exception.
Nothing is lost with a worker: what it had not finished is done again.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from types import FrameType, ModuleType
from typing import Any, Generic, Protocol, TypeVar

from ..converters.errors import SpanportError

_ENDING = (signal.SIGINT, signal.SIGTERM)
_IN_VAIN = 20
"""So many items in a row that killed their worker are not the items' doing."""

T = TypeVar("T")
R = TypeVar("R")


class WorkerDied(SpanportError):
    """An item killed the process that worked on it twice, the second time alone."""


@dataclass
class Done(Generic[R]):
    """One finished item: its ticket (0, 1, 2 … in the order of `submit`), and its result or what it raised."""

    ticket: int
    result: R | None = None
    error: BaseException | None = None


class Engine(Protocol):
    """``window``: how many items it is worth to have submitted and not yet taken back. More is only memory. ``width``: how many are worked on at once."""

    window: int
    width: int

    def submit(self, work: Callable[[Any], Any], item: Any) -> int:
        """Take on one item; its ticket."""
        ...

    def as_completed(self) -> Iterator[Done[Any]]:
        """Each item as it ends, in any order, until none is left. More may be submitted meanwhile."""
        ...

    def close(self) -> None:
        """Give everything back. What is not finished is stopped."""
        ...


def in_order(engine: Engine, work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, Done[R]]]:
    """Each item with its result, in the order of ``items``, which are taken as there is room for them."""
    source = iter(items)
    held: dict[int, tuple[T, Done[R] | None]] = {}
    turn: deque[int] = deque()

    def fill() -> None:
        while len(turn) < engine.window:
            try:
                item = next(source)
            except StopIteration:
                return
            ticket = engine.submit(work, item)
            held[ticket] = (item, None)
            turn.append(ticket)

    fill()
    for done in engine.as_completed():
        held[done.ticket] = (held[done.ticket][0], done)
        while turn and (first := held[turn[0]])[1] is not None:
            del held[turn.popleft()]
            yield first[0], first[1]
        fill()


class Local:
    """Processes of this machine; with one job, this process itself.

    When a worker process dies, the pool is made anew and the unfinished items run again one by one, since any of them may be the
    cause. One that kills its worker a second time ends in WorkerDied."""

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = self.width = max(1, jobs)
        self.window = 1 if self.jobs == 1 else 8 * self.jobs
        self._tickets = 0
        self._waiting: deque[tuple[int, Callable[[Any], Any], Any]] = deque()
        self._running: dict[Future[Any], tuple[int, Callable[[Any], Any], Any]] = {}
        self._pool: ProcessPoolExecutor | None = None
        self._in_vain = 0  # items in a row that died
        if self.jobs > 1:
            self._put(_nothing, None)  # now, while this process may still have one thread (`_context`)

    def submit(self, work: Callable[[Any], Any], item: Any) -> int:
        ticket = self._tickets
        self._tickets += 1
        self._waiting.append((ticket, work, item))
        return ticket

    def as_completed(self) -> Iterator[Done[Any]]:
        if self.jobs == 1:
            while self._waiting:
                ticket, work, item = self._waiting.popleft()
                yield _here(ticket, work, item)
            return
        while self._waiting or self._running:
            broken = not self._feed()
            if not broken:
                finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
                for future in finished:
                    if isinstance(future.exception(), BrokenProcessPool):
                        broken = True
                        continue
                    yield _taken(self._running.pop(future)[0], future)
            if broken:
                yield from self._again()

    def close(self) -> None:
        self._waiting.clear()
        self._running.clear()
        self._drop()

    def _feed(self) -> bool:
        """Put what waits into the pool, as far as it keeps the workers busy; False when the pool is broken."""
        while self._waiting and len(self._running) < 2 * self.jobs:
            task = self._waiting[0]
            try:
                future = self._put(task[1], task[2])
            except BrokenProcessPool:
                return False
            self._running[future] = self._waiting.popleft()
        return True

    def _again(self) -> Iterator[Done[Any]]:
        """What ran when a worker died, one by one in the order of the tickets."""
        for future in [f for f in self._running if f.done() and not f.cancelled() and not isinstance(f.exception(), BrokenProcessPool)]:
            yield _taken(self._running.pop(future)[0], future)  # finished just before
        suspects = sorted(self._running.values(), key=lambda task: task[0])
        self._running.clear()
        self._drop()
        for ticket, work, item in suspects:
            future = self._put(work, item)
            wait([future])
            if isinstance(future.exception(), BrokenProcessPool):
                self._drop()
                self._in_vain += 1
                if self._in_vain >= _IN_VAIN:
                    raise SpanportError("worker processes die whatever they are given; --jobs 1 does without them")
                yield Done(ticket, error=WorkerDied("the process that worked on it died, twice (killed, or out of memory)"))
            else:
                self._in_vain = 0
                yield _taken(ticket, future)

    def _put(self, work: Callable[[Any], Any], item: Any) -> Future[Any]:
        """Submit, which may start a process. A new process would import the main script, which need not be made for that (a script without
        ``if __name__``); what we run lies in modules, so it gets an empty one."""
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        held = (
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING) if sys.platform != "win32" else None
        )  # until `_worker` knows what to do with them
        try:
            return self._started().submit(_guarded, work, item)
        finally:
            if held is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)
            sys.modules["__main__"] = main

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.jobs, mp_context=_context(), initializer=_worker, initargs=(gc.get_threshold(),))
        return self._pool

    def _drop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        # Before 3.14 the executor has no public way to stop a worker in the middle of its item.
        processes = list((getattr(pool, "_processes", None) or {}).values())
        manager = getattr(pool, "_executor_manager_thread", None)
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            with contextlib.suppress(Exception):
                process.terminate()
        for process in processes:
            with contextlib.suppress(Exception):
                process.join(5)
                if process.is_alive():  # its item swallowed the signal: nothing may be left behind, least of all one that holds our pipes
                    process.kill()
        if manager is not None:  # it closes a pipe that the end of this process would write to
            manager.join(5)


def _here(ticket: int, work: Callable[[Any], Any], item: Any) -> Done[Any]:
    try:
        return Done(ticket, work(item))
    except Exception as error:
        return Done(ticket, error=error)


def _taken(ticket: int, future: Future[Any]) -> Done[Any]:
    error = future.exception()
    return Done(ticket, error=error) if error is not None else Done(ticket, future.result())


def _context() -> BaseContext:
    """How a process is made. A fork costs nothing, and has all modules at once; but a lock that another thread holds at that moment is held in it for
    ever (a progress bar, an exporter), so only this process' one and only thread forks. Anything else takes a tenth of a second and imports anew."""
    ways = multiprocessing.get_all_start_methods()
    try:
        alone = sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1  # of libraries too, which `threading` knows nothing of
    except OSError:
        alone = False
    if alone and "fork" in ways:
        return multiprocessing.get_context("fork")
    context = multiprocessing.get_context("forkserver" if "forkserver" in ways else "spawn")
    if "forkserver" in ways:
        context.set_forkserver_preload([__name__, "spanport.converters.api"])
    return context


def _nothing(_: None) -> None:
    """An item that starts the processes."""


def _worker(threshold: tuple[int, int, int]) -> None:
    """``threshold``: that of the garbage collector, which the command sets for itself. Ctrl-C goes to the whole group of processes: only the first one acts on it, and ends its workers so that temporary files go too. When that
    one is killed, no worker stays behind."""
    gc.set_threshold(*threshold)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    threading.Thread(target=_orphaned, daemon=True).start()


def _orphaned() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


_busy = False  # whether this worker is in the middle of an item


def _leave(number: int, frame: FrameType | None) -> None:
    """In an item, unwind, so that temporary files go (`_guarded` then ends the process); anywhere else end at once: between items the executor
    would take the exception for a result, or hold a lock for ever."""
    if _busy:
        raise SystemExit(128 + number)
    os._exit(128 + number)


def _guarded(work: Callable[[Any], Any], item: Any) -> Any:
    """``work`` on ``item`` in a worker, which ends when it is told to: the executor itself would send the exit back and go on."""
    global _busy
    _busy = True
    try:
        return work(item)
    except SystemExit as leaving:
        os._exit(leaving.code if isinstance(leaving.code, int) else 1)
    finally:
        _busy = False


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
