"""Processes that work for this one: started before anything is measured, and ended with it, whatever ends it.

A worker is spawned, not forked, so it has never had the truth in its memory. Spawning imports the main module of the
program again, under the name ``__mp_main__``; a script that runs at import would there begin everything a second time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from das.errors import DasError, UserError

Given = TypeVar("Given")

_NAME = "worker of das"
_REMEDY = 'in a script, put what you run under `if __name__ == "__main__":`'


class _Worker(SpawnProcess):
    """A spawned process that is known by its name even while it imports the main module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = _NAME

    def start(self) -> None:
        """A program that was read from standard input has a main module of no file: there is nothing to import."""
        main = sys.modules["__main__"]
        path = getattr(main, "__file__", None)
        if path is None or os.path.exists(path):
            super().start()
            return
        del main.__file__
        try:
            super().start()
        finally:
            main.__file__ = path


def refuse_within_import() -> None:
    """In a process that multiprocessing has spawned, and that is still importing the main module: end it, for what
    is run here is being run by the program that spawned it. Nothing is to be read or measured a second time.

    The mark is the one by which multiprocessing itself refuses to start processes there. A worker of ours ends
    quietly, for the pool that waits for it says what is wrong (:func:`processes`); another is told.

    Raises:
        UserError: in a process of somebody else's pool.
    """
    here = multiprocessing.current_process()
    if not getattr(here, "_inheriting", False):
        return
    if here.name == _NAME:
        sys.exit(UserError.exit_code)
    raise UserError("this is a worker process that imports the main script, and the script would run everything again",
                    where="multiprocessing", remedy=_REMEDY)  # fmt: skip


@contextmanager
def processes(workers: int) -> Iterator[Executor]:
    """A pool of ``workers`` processes, of which one has been proven to start. Left by an exception, the pool ends at
    once: work under way is given up.

    Raises:
        UserError: processes end before they begin.
        DasError: one is ended from outside.
    """
    context = _Context()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)
    try:
        _prove(pool)
        try:
            yield pool
        except BrokenProcessPool:
            raise DasError("a worker process was ended in the midst of its work, perhaps for want of memory",
                           where=f"{workers} workers", remedy="use fewer workers") from None  # fmt: skip
    except BaseException:
        context.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _prove(pool: Executor) -> None:
    """Wait until a worker of a new pool has begun. Raises :class:`UserError` where it does not."""
    try:
        pool.submit(_nothing).result()
    except BrokenProcessPool:
        raise UserError("the worker processes ended before they began", where="workers",
                        remedy=f"{_REMEDY}, so that workers can import it without running it; or use one worker") from None  # fmt: skip


class Seat:
    """One worker process, which can be lost without the others."""

    def __init__(self) -> None:
        self._context = _Context()
        self._pool = ProcessPoolExecutor(1, mp_context=self._context, initializer=_begin)

    def prove(self) -> None:
        """Raises :class:`UserError` where the process cannot be started."""
        try:
            _prove(self._pool)
        except BaseException:
            self.leave()
            raise

    def submit(self, work: Callable[..., Given], *args: object) -> Future[Given] | None:
        """``None`` where the process has ended."""
        try:
            return self._pool.submit(work, *args)
        except BrokenProcessPool:
            return None

    @property
    def ending(self) -> str:
        """How the process has ended, in words."""
        codes = [p.exitcode for p in self._context.made if p.exitcode]
        if not codes:
            return "it ended"
        return f"signal {-codes[0]}" if codes[0] < 0 else f"exit code {codes[0]}"

    def leave(self) -> None:
        """End the process, also in the midst of its work, and wait for its end."""
        self._context.terminate()
        self._pool.shutdown(cancel_futures=True)


class _Context(SpawnContext):
    """Spawns workers, and keeps a list of them."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[_Worker] = []

    def Process(self, *args: Any, **kwargs: Any) -> _Worker:  # type: ignore[override]
        self.made.append(_Worker(*args, **kwargs))
        return self.made[-1]

    def terminate(self) -> None:
        for process in self.made:
            if process.is_alive():
                process.terminate()


def load() -> None:
    """Load what brings threads of its own: only what is loaded can be limited."""
    for library in ("numpy", "scipy.linalg"):
        import_module(library)


def _begin() -> None:
    """In a worker: one thread for each library; Ctrl-C is the parent's to answer; the end of the parent is the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load()
    threadpool_limits(1)


def _end_with_parent() -> None:
    """The sentinel is a pipe that the system closes when the parent ends, killed or not."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _nothing() -> None:
    """What a new pool is tried with."""
