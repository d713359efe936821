"""A stage of a run as tasks: given to an engine, noted on the task store of the run, and gone on
with after a kill."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from functools import partial
from time import perf_counter, sleep

from das.engine.choice import ARRAY, DASK, EngineChoice
from das.engine.local import LocalEngine
from das.engine.tasks import Answer, Engine, Fault, HandedOver, Progress, Task, Work
from das.files import atomic
from das.files.run.task_store import TaskStore, is_whole

# An engine that does no tasks itself: others do them with ``das run task``, and it reads the task
# store.
#
# The others can be an array job of Slurm, a Job of Kubernetes, or a loop in a shell. They can run on
# any machine that has the folder of the run.

#: Seconds between two looks at the task store.
POLL = 5.0


class ArrayEngine:
    """With ``wait`` it waits until all tasks of a stage are answered; else it ends the run where
    the first is to be done."""

    def __init__(self, wait: bool = False, poll: float = POLL) -> None:
        self.wait, self.poll = wait, poll

    def __enter__(self) -> ArrayEngine:
        return self

    def __exit__(self, *rest: object) -> None:
        return None

    def answers(
        self, work: Work, tasks: Iterable[Task], *, confidential: bool = False
    ) -> Iterator[tuple[Task, Answer]]:
        """See :class:`das.engine.tasks.Engine`. What a task has raised is raised here once; then it
        can be done again.

        Raises:
            HandedOver: tasks are to be done, and nobody waits for them."""
        del work
        left = list(tasks)
        while True:
            for task in list(left):
                task_store = TaskStore(task.run)
                if (answer := task_store.answer(task)) is not None:
                    left.remove(task)
                    yield task, answer
                elif (fault := task_store.fault(task)) is not None:
                    task_store.forget_fault(task)
                    raise (fault.bare(task) if confidential else fault).error(task)
            if not left:
                return
            if not self.wait:
                raise handed_over(left)
            sleep(self.poll)


def handed_over(left: list[Task]) -> HandedOver:
    """What is to be done, and how."""
    run = shlex.quote(str(left[0].run))
    return HandedOver(
        f"{len(left)} tasks of the stage {left[0].stage!r} are to be done",
        where=left[0].run,
        remedy=f"das run tasks {run} | xargs -L 1 das run task {run}",
    )


def attempt(work: Work, task: Task) -> Answer:
    """In the process that performs a task: do it, and note the result in the task store of its run.
    After its stage, its answer is the earlier one.

    Raises:
        UserError: its run is over."""
    task_store, began = TaskStore(task.run), perf_counter()
    if task_store.is_over(task.stage) and (known := task_store.answer(task)) is not None:
        return known
    with atomic.attempt(partial(task_store.refuse_late, task)):
        task_store.begin(task)
        try:
            answer: Answer = json.loads(json.dumps(work(task), allow_nan=False))
            task_store.write(task, answer, perf_counter() - began)
        except Exception as error:
            task_store.fail(task, Fault.from_error(error))
            raise
    return answer


def perform(
    engine: Engine,
    work: Work,
    tasks: Iterable[Task],
    progress: Progress,
    *,
    confidential: bool = False,
) -> dict[str, Answer]:
    """Do the rest of a stage. Returns all its answers by partition, in the order of the plan.

    ``tasks`` are those of a new stage; a resumed stage keeps its partitions.

    An answer is gone on with if the files that it says were made are there
    (:mod:`das.files.run.task_store`); else the task is done again.

    Raises:
        DasError: what a task raised, or it was lost too often (:class:`das.engine.tasks.Engine`).
        PrivacyError: two attempts at a task gave different answers."""
    given = list(tasks)
    if not given:
        return {}
    task_store, stage = TaskStore(given[0].run), given[0].stage
    planned = task_store.plan(given, confidential=confidential)
    task_store.refuse_alarms()
    found = {
        partition: a
        for partition, a in task_store.answers(stage).items()
        if is_whole(task_store.root, a)
    }
    left = [t for t in planned if t.partition not in found]
    progress.stage(stage, round(sum(t.weight for t in left)))
    for task, answer in engine.answers(partial(attempt, work), left, confidential=confidential):
        found[task.partition] = answer
        progress.advance(round(task.weight))
    task_store.end(stage)
    task_store.refuse_alarms()
    atomic.clear_drafts(task_store.root)
    return {t.partition: found[t.partition] for t in planned}


def opened(choice: EngineChoice) -> Engine:
    """The engine that was chosen; it begins with its context."""
    if choice.name == ARRAY:
        return ArrayEngine(choice.wait)
    if choice.name == DASK:
        from das.engine.dask import DaskEngine  # loaded where it is asked for: it is an extra

        return DaskEngine(choice.scheduler or "", choice.tls)
    return LocalEngine(choice.workers)
