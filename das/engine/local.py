"""Work in this process, or in processes of their own on this machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from das.engine.workers import load, processes

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


@contextmanager
def executor(workers: int) -> Iterator[Executor]:
    """This process for one worker, else processes of their own (:mod:`das.engine.workers`)."""
    if workers <= 1:
        load()
        yield InProcess()
        return
    with processes(workers) as pool:
        yield pool


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
