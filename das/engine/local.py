"""Work in this process, or in separate processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor
from concurrent.futures import wait as futures_wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Pipe, wait
from types import FrameType
from typing import Any, TypeVar

from das.engine import server
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
from das.errors import DasError, UserError
from das.model import core_dumps
from das.threads import one_thread, stay_in_one_thread

# Worker processes of this process. They start before anything is measured, and end when it ends,
# for any reason.
#
# A worker is not forked from this process, so it has never had the truth in its memory. On Linux it
# is forked from a server that has only code (:mod:`das.engine.server`). Elsewhere, where system
# libraries do not allow forks, it starts as a fresh process.
#
# Either way a worker imports the main module of the program again, under the name ``__mp_main__``. A
# script that runs at import would begin everything there a second time.

if sys.platform == "linux":
    from multiprocessing.context import ForkServerContext as StartContext
    from multiprocessing.context import ForkServerProcess as StartProcess
else:
    from multiprocessing.context import SpawnContext as StartContext
    from multiprocessing.context import SpawnProcess as StartProcess

Given = TypeVar("Given")

_NAME = "worker of das"
_TRIES = 3
_REMEDY = 'in a script, put what you run under `if __name__ == "__main__":`'


@contextmanager
def _whole() -> Iterator[None]:
    """Defers signals to the end of the block. If a start were cut short, nobody would know the new
    process and end it. It would look for semaphores of a parent that is gone, and print a
    traceback. (Blocking signals is not an option: a server that starts in the block would have them
    blocked forever.)"""
    if threading.current_thread() is not threading.main_thread():  # no other thread gets signals
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    ours = {
        n: handler for n, handler in before.items() if callable(handler)
    }  # others are the system's to answer, at once
    for n in ours:
        signal.signal(n, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        for n, handler in ours.items():
            signal.signal(n, handler)
        for number, frame in came[:1]:
            ours[signal.Signals(number)](number, frame)


class _Worker(StartProcess):
    """A process that is known by its name even while it imports the main module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = _NAME

    def start(self) -> None:
        """Start the process. If the program was read from standard input, its main module has no
        file and nothing to import."""
        main = sys.modules["__main__"]
        path = getattr(main, "__file__", None)
        if path is None or os.path.exists(path):
            self._started()
            return
        del main.__file__
        try:
            self._started()
        finally:
            main.__file__ = path

    def _started(self) -> None:
        """A server that was killed is started again."""
        for left in reversed(range(_TRIES)):
            try:
                with _whole():
                    super().start()
                break
            except (EOFError, ConnectionError):
                if not left:
                    raise

    if sys.platform == "linux":
        _Popen = staticmethod(server.Popen)


def refuse_within_import() -> None:
    """Ends a process that multiprocessing has started and that is still importing the main module.
    The program that started it is already running this code, and nothing must be read or measured a
    second time.

    The check uses the mark by which multiprocessing itself refuses to start processes there. A
    worker of ours ends quietly, because the pool that waits for it reports the error
    (:func:`processes`).

    Raises:
        UserError: in a process of another pool."""
    here = multiprocessing.current_process()
    if not getattr(here, "_inheriting", False):
        return
    if here.name == _NAME:
        sys.exit(UserError.exit_code)
    raise UserError(
        "this is a worker process that imports the main script, and the script would run everything"
        " again",
        where="multiprocessing",
        remedy=_REMEDY,
    )


@contextmanager
def processes(workers: int) -> Iterator[Executor]:
    """A pool of ``workers`` processes, after a test that a process can start. If the block raises
    an exception, the pool ends at once, and unfinished work is given up.

    Raises:
        UserError: processes end before they begin.
        DasError: something outside ended a process."""
    context = _Context()
    pool = context.pool(workers)
    try:
        _prove(pool)
        try:
            yield pool
        except BrokenProcessPool:
            raise DasError(
                "a worker process was ended in the midst of its work, perhaps for want of memory",
                where=f"{workers} workers",
                remedy="use fewer workers",
            ) from None
    except BaseException:
        context.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _prove(pool: Executor) -> None:
    """Wait until a worker of a new pool has begun. Raises :class:`UserError` if it does not."""
    try:
        pool.submit(_nothing).result()
    except (BrokenProcessPool, EOFError, ConnectionError):
        raise UserError(
            "the worker processes ended before they began",
            where="workers",
            remedy=(
                f"{_REMEDY}, so that workers can import it without running it; or use one worker"
            ),
        ) from None


class WorkerSlot:
    """One worker process, which can be lost without the others."""

    def __init__(self) -> None:
        self._context = _Context()
        self._pool = self._context.pool(1)

    def prove(self) -> None:
        """Raises :class:`UserError` where the process cannot be started."""
        try:
            _prove(self._pool)
        except BaseException:
            self.leave()
            raise

    def submit(self, work: Callable[..., Given], *args: object) -> Future[Given] | None:
        """Submit a call; ``None`` if the process has ended."""
        try:
            return self._pool.submit(work, *args)
        except BrokenProcessPool:
            return None

    def lost(self) -> str:
        """Leave the pool of a process that has ended, and say in words how it ended.

        The pool's own thread also asks for the exit status, and the system gives it only once: a
        second caller at the same time gets 255. So this asks after the pool's thread has ended."""
        self._pool.shutdown(cancel_futures=True)
        codes = [p.exitcode for p in self._context.made if p.exitcode]
        if not codes:
            return "it ended"
        return f"signal {-codes[0]}" if codes[0] < 0 else f"exit code {codes[0]}"

    def leave(self) -> None:
        """End the process, even if it is working, and wait for its end."""
        self._context.terminate()
        self._pool.shutdown(cancel_futures=True)


class Semaphore:
    """A semaphore without a name: a pipe that holds a byte for each time that it can be acquired. A
    named one would be a file that everybody sees, and that stays behind when its process is killed.
    """

    def __init__(self, number: int = 1) -> None:
        self._given, self._free = Pipe(duplex=False)
        os.set_blocking(self._given.fileno(), False)  # two may wait for one byte
        for _ in range(number):
            self.release()

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Whether it was acquired, within ``timeout`` seconds."""
        while True:
            try:
                os.read(self._given.fileno(), 1)
                return True
            except BlockingIOError:
                if not block or not wait([self._given], timeout):
                    return False

    @property
    def _semlock(self) -> Semaphore:  # where a queue of multiprocessing looks whether it is full
        return self

    def _is_zero(self) -> bool:
        return not wait([self._given], 0)

    def release(self) -> None:
        os.write(self._free.fileno(), b".")

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Context(StartContext):
    """Starts workers, and keeps a list of them."""

    Lock = BoundedSemaphore = staticmethod(Semaphore)  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.made: list[_Worker] = []

    def pool(self, workers: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            workers, mp_context=self, initializer=_begin, initargs=(dict(os.environ),)
        )

    def Process(self, *args: Any, **kwargs: Any) -> _Worker:  # type: ignore[override]
        self.made.append(_Worker(*args, **kwargs))
        return self.made[-1]

    def terminate(self) -> None:
        for process in self.made:
            if process.is_alive():
                process.terminate()


def load() -> None:
    """Load the libraries that have threads, because only loaded libraries can be limited."""
    for library in ("numpy", "scipy.linalg"):
        import_module(library)


def _begin(environment: Mapping[str, str]) -> None:
    """Prepare a worker: no core dump, because its tasks can read the truth and the key; the
    parent's environment; one thread for each library. It ignores Ctrl-C, which the parent handles.
    It ends when the parent or the server ends."""
    core_dumps.forbid()
    server.end_with_it()
    server.put(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load()
    stay_in_one_thread()


def _end_with_parent() -> None:
    """The sentinel is a pipe that the system closes when the parent ends, killed or not."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _nothing() -> None:
    """A task without work, to test a new pool."""


Item = TypeVar("Item")


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


def begin_loading(workers: int) -> None:
    """Have the code of later worker processes loaded while this process goes on (Linux)."""
    if workers > 1 and sys.platform == "linux":
        server.SERVER.begin()


@contextmanager
def executor(workers: int) -> Iterator[Executor]:
    """This process for one worker, otherwise separate processes (:mod:`das.engine.local`)."""
    if workers <= 1:
        _load_what_work_needs()
        yield InProcess()
        return
    with processes(workers) as pool:
        yield pool


def _load_what_work_needs() -> None:
    """Load SciPy, if the work needs it, before its threads are limited. Modules that need it import
    it at the top, so if it is not loaded, nothing here will use its threads."""
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

    def __exit__(self, *rest: object) -> None:
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
            for future in futures_wait(under_way, return_when=FIRST_COMPLETED).done:
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
        can be killed while they begin, as any process can."""
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
