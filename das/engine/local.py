"""Work in this process, or in processes of their own on this machine."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from importlib import import_module
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class InProcess(Executor):
    """Runs each call when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            with threadpool_limits(1):  # one order of floating-point sums, whatever the number of workers
                future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def _load() -> None:
    """Load what brings threads of its own: only what is loaded can be limited."""
    for library in ("numpy", "scipy.linalg"):
        import_module(library)


def _one_thread() -> None:
    _load()
    threadpool_limits(1)


def executor(workers: int) -> Executor:
    """Processes are spawned, not forked: a worker has never had the truth in its memory."""
    if workers <= 1:
        _load()
        return InProcess()
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_one_thread)


def in_order(
    pool: Executor, work: Callable[[Item], Answer], items: Iterable[Item], ahead: int = 16
) -> Iterator[Answer]:
    """The answers in the order of the items, with at most ``ahead`` of them under way."""
    waiting: deque[Future[Answer]] = deque()
    ahead = 1 if isinstance(pool, InProcess) else ahead
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
