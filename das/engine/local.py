"""Work in this process, or in separate processes on this machine."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from das.engine.tasks import (
    AGAIN,
    Answer,
    Fault,
    Task,
    Work,
    answer_of,
    largest_first,
    lost,
    outcome,
)
from das.engine.workers import WorkerSlot, load, processes
from das.threads import one_thread

Item = TypeVar("Item")
Given = TypeVar("Given")


class InProcess(Executor):
    """Runs each call when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            with one_thread():  # one order of floating-point sums, whatever the number of workers
                future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


@contextmanager
def executor(workers: int) -> Iterator[Executor]:
    """This process for one worker, otherwise separate processes (:mod:`das.engine.workers`)."""
    if workers <= 1:
        _load_what_work_needs()
        yield InProcess()
        return
    with processes(workers) as pool:
        yield pool


def _load_what_work_needs() -> None:
    """Load SciPy, if the work needs it, before its threads are limited. Modules that need it import
    it at the top, so if it is not loaded, nothing here will use its threads.
    """
    if "scipy" in sys.modules:
        load()


def in_order(
    pool: Executor, work: Callable[[Item], Given], items: Iterable[Item], ahead: int = 16
) -> Iterator[Given]:
    """The answers in the order of the items, with at most ``ahead`` of them under way."""
    waiting: deque[Future[Given]] = deque()
    ahead = 1 if isinstance(pool, InProcess) else ahead
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


class LocalEngine:
    """Tasks in this process for one worker, otherwise in separate processes. These exist for one
    call of :meth:`answers`. They end with it, and so does everything in their memory."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._slots: set[WorkerSlot] = set()
        self._proven = False

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def answers(
        self, work: Work, tasks: Iterable[Task], *, confidential: bool = False
    ) -> Iterator[tuple[Task, Answer]]:
        """See :class:`das.engine.tasks.Engine`."""
        waiting = deque(largest_first(tasks))
        if self.workers <= 1:
            _load_what_work_needs()
            for task in waiting:
                with one_thread():
                    found = outcome(work, task, confidential)
                yield task, answer_of(task, found)
            return
        try:
            yield from self._spread(work, waiting, confidential)
        finally:
            self._leave()

    def _spread(
        self, work: Work, waiting: deque[Task], confidential: bool
    ) -> Iterator[tuple[Task, Answer]]:
        """Perform the waiting tasks, one at a time in each worker slot. So a lost worker loses
        exactly one task, and it is known which."""
        idle: list[WorkerSlot] = []
        under_way: dict[Future[Answer | Fault], tuple[Task, WorkerSlot]] = {}
        losses: Counter[Task] = Counter()
        while waiting or under_way:
            while waiting and len(under_way) < self.workers:
                slot = idle.pop() if idle else self._slot()
                if (future := slot.submit(outcome, work, waiting[0], confidential)) is None:
                    self._give_up(slot)  # killed while it was idle
                else:
                    under_way[future] = waiting.popleft(), slot
            ready: list[tuple[Task, Answer | Fault]] = []
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                task, slot = under_way.pop(future)
                try:
                    ready.append((task, future.result()))
                    idle.append(slot)
                except BrokenProcessPool:
                    losses[task] += 1
                    why = self._give_up(slot)
                    if losses[task] > AGAIN:
                        raise lost(
                            task, losses[task], why, "perhaps for want of memory: use fewer workers"
                        ) from None
                    waiting.appendleft(task)
            for task, found in ready:
                yield task, answer_of(task, found)

    def _slot(self) -> WorkerSlot:
        """A new worker slot. The first one proves that processes can be started at all. Later ones
        can be killed while they begin, as any process can.
        """
        slot = WorkerSlot()
        if not self._proven:
            slot.prove()
            self._proven = True
        self._slots.add(slot)
        return slot

    def _give_up(self, slot: WorkerSlot) -> str:
        self._slots.discard(slot)
        return slot.lost()

    def _leave(self) -> None:
        """End all processes, even those that are working."""
        while self._slots:
            self._slots.pop().leave()
