"""Dummy stages: what a task does is said by the file of its partition in the folder of its run.

They are in a module of their own, so that worker processes can import them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from das.engine.tasks import Answer, Task
from das.errors import InfeasibleError, InputError
from das.model import core_dumps

#: What must never be told: a count of the truth.
SECRET = "271828182845"


def tasks(run: Path, names: Iterable[str], stage: str = "dummy") -> list[Task]:
    """One subtree each; the later, the lighter."""
    named = list(names)
    return [Task(run, stage, n, (i + 1, i + 1), float(len(named) - i)) for i, n in enumerate(named)]


def once(task: Task, what: str) -> bool:
    """Whether this is the first time, for any process, that ``what`` is asked of the task."""
    try:
        (task.run / f"{task.partition}.{what}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def note(task: Task) -> Answer:
    """Notes each time that it is done."""
    with (task.run / "done.txt").open("a") as file:
        file.write(f"{task.partition}\n")
    return {"partition": task.partition}


def count(task: Task) -> Answer:
    """Says who did it, and notes each time: not the same answer in another process."""
    return {**note(task), "pid": os.getpid()}


def brief(task: Task) -> Answer:
    """What depends on the task alone."""
    return {"subtrees": task.subtrees}


def die_once(task: Task) -> Answer:
    """The worker is killed at its first task of each of these names."""
    if task.partition.startswith("fatal") and once(task, "died"):
        os.kill(os.getpid(), signal.SIGKILL)
    return note(task)


def die(task: Task) -> Answer:
    """One partition kills every worker that takes it."""
    if task.partition == "fatal":
        os.kill(os.getpid(), signal.SIGKILL)
    return note(task)


def fail(task: Task) -> Answer:
    """Errors of each kind, with the secret in their words."""
    if task.partition == "input":
        raise InputError(f"the count is {SECRET}", where="line 3", remedy="repair it")
    if task.partition == "infeasible":
        raise InfeasibleError(SECRET)
    if task.partition == "bug":
        raise Peculiar(SECRET, more=1)
    if task.partition == "data":
        return {"counts": [0.5] * (1 << 20)}
    if task.partition == "object":
        return {"counts": {1, 2}}
    return note(task)


class Peculiar(Exception):
    """It cannot be unpickled."""

    def __init__(self, what: str, *, more: int) -> None:
        super().__init__(what, more)


def linger(task: Task) -> Answer:
    """Until a file says that it is enough."""
    count(task)
    (task.run / f"{task.partition}.pid").write_text(str(os.getpid()))
    deadline = time.monotonic() + 60
    while not (task.run / "enough").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return {"pid": os.getpid()}


def dumps(task: Task) -> Answer:
    """Whether a crash here would leave a copy of the memory."""
    return {"dumps": not core_dumps.forbidden()}


def unsure(task: Task) -> Answer:
    """It is not deterministic: another answer the second time."""
    return {"digest": "first" if once(task, "drawn") else "second"}
