"""Tasks on a cluster of Dask: an extra, ``pip install 'topdown-das[dask]'``.

Only tasks (paths and names) and answers (paths, digests, counts) go over the network, by TLS with
certificates on both sides. Tasks that see the truth run only on workers that were started with the
resource ``das-confidential``. These workers are restarted before they do anything else. If a worker
dies, Dask repeats its task, and even a finished task if its answer had not been fetched. That is
harmless, and answers are released as soon as they arrive."""

from __future__ import annotations

import pickle
import platform
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any
from uuid import uuid4

from das.engine.choice import TLS
from das.engine.local import load
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
    refused,
)
from das.errors import DasError, UserError
from das.threads import stay_in_one_thread
from das.version import __version__

try:
    from distributed import Client, KilledWorker, Security
except ImportError:
    raise UserError(
        "the library distributed is not installed",
        where="--engine dask",
        remedy="pip install 'topdown-das[dask]'",
    ) from None

#: What a worker is started with that may see the truth: ``dask worker --resources
#: "das-confidential=1"``.
RESOURCE = "das-confidential"
#: On these the last digit of a result can depend.
LIBRARIES = ("numpy", "scipy", "ortools", "pyarrow", "cryptography")
#: What to do about a task that is lost again and again.
_MEMORY = "perhaps for want of memory: give workers more of it, and look into their logs"
#: Seconds to connect, and between two looks at a cluster that is silent.
CONNECT, LOOK = 30.0, 2.0
#: Seconds without any worker; and with workers of which none may see the truth, but one may be
#: starting anew.
PATIENCE, UNMARKED = 600.0, 60.0
_START = (
    "see docs/how-to/engines.md; a worker is started by: dask worker ADDRESS --nthreads 1 --resources"
    f' "{RESOURCE}=1"'
)


class DaskEngine:
    """A client of the scheduler at an address ``tls://HOST:PORT``, with the certificates in
    ``tls``; or at ``tcp://`` on this machine (:class:`das.engine.choice.EngineChoice` sees to
    that).

    Raises:
        UserError: nobody answers there, or not to these certificates."""

    def __init__(
        self, scheduler: str, tls: Path | None = None, *, patience: float = PATIENCE
    ) -> None:
        self.scheduler, self.tls, self.patience = scheduler, tls, patience
        self._client: Any = None
        #: Whether workers may have the truth in their memory: who knows what they did for a main
        #: process that was killed?
        self._stained = True
        self._beside = ThreadPoolExecutor(1, "start anew")
        self._cleansing: Future[None] | None = None

    def __enter__(self) -> DaskEngine:
        try:
            self._client = Client(
                self.scheduler, security=_security(self.tls), timeout=CONNECT, set_as_default=False
            )
        except (OSError, TimeoutError) as error:
            raise UserError(
                f"no scheduler answers to this client ({error})",
                where=f"--scheduler {self.scheduler}",
                remedy=f"check that it runs, its address and the certificates; {_START}",
            ) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                self._cleanse()
        finally:
            self._client.close()
            self._beside.shutdown(wait=False)

    def answers(
        self, work: Work, tasks: Iterable[Task], *, confidential: bool = False
    ) -> Iterator[tuple[Task, Answer]]:
        """See :class:`das.engine.tasks.Engine`."""
        if not confidential or self._cleansing is not None:
            self._cleanse()
        self._stained |= confidential
        done: SimpleQueue[Any] = SimpleQueue()
        waiting = deque(largest_first(tasks))
        under_way: dict[str, tuple[Task, Any]] = {}
        losses: Counter[Task] = Counter()
        room, seen, looked = 0, monotonic(), -LOOK
        try:
            while waiting or under_way:
                if monotonic() - looked >= LOOK:
                    room, looked = self._room(confidential, monotonic() - seen), monotonic()
                    seen = looked if room else seen
                while waiting and len(under_way) < room:
                    future = self._submit(work, waiting[0], confidential)
                    under_way[future.key] = waiting.popleft(), future
                    future.add_done_callback(done.put)
                try:
                    future = done.get(timeout=LOOK)
                except Empty:
                    continue
                task, _ = under_way.pop(future.key)
                found = self._result(future, task, confidential)
                future.release()
                if found is None:
                    losses[task] += 1
                    if losses[task] > AGAIN:
                        raise lost(task, losses[task], "on several workers, each time", _MEMORY)
                    waiting.appendleft(task)
                else:
                    yield task, answer_of(task, found)
        finally:
            if under_way and self._client.status == "running":
                self._client.cancel([f for _, f in under_way.values()], force=True)
        if confidential:  # the main process goes on with what it has to do meanwhile
            self._cleansing = self._beside.submit(self._start_anew)

    def _submit(self, work: Work, task: Task, confidential: bool) -> Any:
        call = Call(work, replace(task, run=task.run.resolve()), confidential, versions())
        return self._client.submit(
            pickle.loads,
            pickle.dumps(call),
            key=f"das-{task.stage}-{task.partition}-{uuid4().hex}",
            pure=False,
            resources={RESOURCE: 1} if confidential else None,
        )

    def _room(self, confidential: bool, without: float) -> int:
        """How many tasks can run at once. No more are sent, because Dask blames the death of a
        worker on all its waiting tasks. ``without``: for how many seconds there was no worker."""
        workers = self._workers().values()
        room = int(
            sum(w["resources"].get(RESOURCE, 0) if confidential else w["nthreads"] for w in workers)
        )
        if not room and without >= (min(UNMARKED, self.patience) if workers else self.patience):
            some = (
                f"{len(workers)} workers, and none has the resource {RESOURCE}"
                if workers
                else "no worker"
            )
            raise UserError(
                f"there is {some}",
                where=self.scheduler,
                remedy=f"{_START}; then go on with --resume",
            )
        return room

    def _workers(self) -> Mapping[str, Mapping[str, Any]]:
        """All workers that the scheduler knows, by address."""
        try:
            found: Mapping[str, Mapping[str, Any]] = self._client.scheduler_info(n_workers=-1)[
                "workers"
            ]
            return found
        except (
            OSError,
            TimeoutError,
            RuntimeError,
            KeyError,
        ):  # the last: the client has closed itself
            raise self._gone() from None

    def _result(self, future: Any, task: Task, confidential: bool) -> Answer | Fault | None:
        """The result of a task; ``None`` if every worker that had it died."""
        try:
            found: Answer | Fault = future.result()
            return found
        except KilledWorker:
            return None
        except CancelledError:
            raise self._gone() from None
        except Exception as error:  # a task raises nothing: the worker could not take it
            said = type(error).__name__ + ("" if confidential else f": {error}")
            return refused(
                f"a worker could not take the task ({said})",
                task,
                "install the same das on all workers",
            )

    def _gone(self) -> DasError:
        return DasError(
            "the scheduler is gone, or lost its tasks",
            where=self.scheduler,
            remedy="finished tasks are kept: start the scheduler again, and continue with --resume",
        )

    def _cleanse(self) -> None:
        """Restart the workers that had the truth in their memory, so that none has it when this
        returns."""
        if self._stained:
            begun, self._cleansing = self._cleansing or self._beside.submit(self._start_anew), None
            begun.result()
            self._stained = False

    def _start_anew(self) -> None:
        marked = {address for address, w in self._workers().items() if w["resources"].get(RESOURCE)}
        for _ in range(3):  # one can be killed while it is started anew
            marked &= self._workers().keys()
            if not marked:
                break
            try:
                said = self._client.restart_workers(
                    [*marked], timeout=CONNECT, raise_for_error=False
                )
            except ValueError:
                raise UserError(
                    "a worker that has seen the truth cannot be started anew, for it has no nanny",
                    where=self.scheduler,
                    remedy="start workers without --no-nanny, then go on with --resume",
                ) from None
            marked -= {address for address, how in said.items() if how in ("OK", "removed")}
        if marked:
            raise DasError(
                f"{len(marked)} workers that have seen the truth did not start anew",
                where=self.scheduler,
                remedy="end them, then go on with --resume",
            )


def _security(tls: Path | None) -> Any:
    if tls is None:
        return None
    ca, certificate, key = (str(tls / name) for name in TLS)
    return Security(
        tls_ca_file=ca, tls_client_cert=certificate, tls_client_key=key, require_encryption=True
    )


@cache
def versions() -> dict[str, str]:
    """The versions that client and workers must have in common, so that results are the same."""
    return {"das": __version__, "python": platform.python_version()} | {
        name: version(name) for name in LIBRARIES
    }


@cache
def _begin() -> None:
    """Once in a worker: one thread for each library, so that sums have one order."""
    load()
    stay_in_one_thread()


class Call:
    """A call of :func:`perform` that happens where it is unpickled: within a task. So the scheduler
    needs none of our code. A worker that lacks our code reports it, while a task that it cannot
    unpickle would end the worker."""

    def __init__(
        self, work: Work, task: Task, confidential: bool, expected: Mapping[str, str]
    ) -> None:
        self.arguments = work, task, confidential, dict(expected)

    def __reduce__(self) -> tuple[Any, ...]:
        return perform, self.arguments


def perform(
    work: Work, task: Task, confidential: bool, expected: Mapping[str, str]
) -> Answer | Fault:
    """In a worker: perform the task, or say why this worker cannot do it."""
    here = platform.node()
    if differs := [
        f"{k} {v} (not {expected[k]})" for k, v in versions().items() if v != expected[k]
    ]:
        return refused(
            f"this worker has {', '.join(differs)}", here, "install the same versions everywhere"
        )
    if not task.run.is_dir():
        return refused(
            f"this worker does not see the folder {task.run}",
            here,
            "mount one file system on all machines, under one path, or name a --store",
        )
    _begin()
    return outcome(work, task, confidential)
