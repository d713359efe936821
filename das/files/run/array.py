"""An engine that does no tasks itself: others do them with ``das task``, and it reads the task
store.

The others can be an array job of Slurm, a Job of Kubernetes, or a loop in a shell. They can run on
any machine that has the folder of the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from time import sleep
from types import TracebackType

from das.engine.tasks import Answer, HandedOver, Task, Work
from das.files.run.task_store import TaskStore

#: Seconds between two looks at the task store.
POLL = 5.0


class ArrayEngine:
    """With ``wait`` it waits until all tasks of a stage are answered; else it ends the run where
    the first is to be done.
    """

    def __init__(self, wait: bool = False, poll: float = POLL) -> None:
        self.wait, self.poll = wait, poll

    def __enter__(self) -> ArrayEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def answers(
        self, work: Work, tasks: Iterable[Task], *, confidential: bool = False
    ) -> Iterator[tuple[Task, Answer]]:
        """See :class:`das.engine.tasks.Engine`. What a task has raised is raised here once; then it
        can be done again.

        Raises:
            HandedOver: tasks are to be done, and nobody waits for them.
        """
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
        remedy=f"das tasks {run} | xargs -L 1 das task {run}",
    )
