"""What an engine carries: tasks and answers. A task says where its input is and where its output
goes; an answer says what the result was.

Neither contains data. A task is a stage of a run and a partition of it. The worker that performs it
reads and writes files. An answer is a small JSON object of paths, digests and counts. So an engine
can lose a task, do it twice, or show it on a page for operators: a lost task is done again, and the
page reveals nothing.

An error is a value, too (:class:`Fault`), because an error raised in a worker would go through the
logs of the engine. A *confidential* task has the truth in its memory. It reports only the class of
an error, because messages can quote counts."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import das.errors
from das.errors import DasError, UserError
from das.model import core_dumps

#: How often a task is done again whose worker died.
AGAIN = 3
#: The most bytes of an answer: paths, digests and counts of a partition have room in it, data have
#: not.
LARGEST = 1 << 20
_NAME = re.compile(r"\w[\w.-]*")

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """A stage of a run and a partition of it. ``subtrees`` are the first and the last of the
    partition. ``weight`` measures its work, in blocks.

    Raises:
        ValueError: a name that cannot be a file name, impossible subtrees, or a weight below zero.
    """

    run: Path
    stage: str
    partition: str
    subtrees: tuple[int, int]
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not (_NAME.fullmatch(self.stage) and _NAME.fullmatch(self.partition)):
            raise ValueError(f"{self.stage!r} {self.partition!r} cannot name a file")
        if not 0 <= self.subtrees[0] <= self.subtrees[1]:
            raise ValueError(f"{self}: no subtrees")
        if not (isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"{self}: no weight")

    def __str__(self) -> str:
        return f"{self.stage} {self.partition}"


#: A function at the top of a module, so that it has a name in another process.
Work = Callable[[Task], Answer]


class Engine(Protocol):
    """Performs tasks, while its context lasts."""

    def __enter__(self) -> Engine: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def answers(
        self, work: Work, tasks: Iterable[Task], *, confidential: bool = False
    ) -> Iterator[tuple[Task, Answer]]:
        """Yields each task with its answer when it is ready; the largest begins first. A task can
        be done more than once.

        With ``confidential`` a task runs only where the truth may be, and its process does nothing
        else afterwards.

        Raises:
            DasError: immediately, if a task raised it; or if a task was lost more than ``AGAIN``
                times.
        """
        ...


class HandedOver(DasError):
    """Not an error: the run has stopped until others have done its tasks. It resumes when these are
    done.
    """

    exit_code = 0


@dataclass(frozen=True)
class Fault:
    """What a task raised: the name of its class, the name of its base class in :mod:`das.errors`,
    and its message.
    """

    kind: str
    of: str
    what: str
    where: str | None = None
    remedy: str | None = None
    trace: str | None = None

    @classmethod
    def from_error(cls, error: Exception) -> Fault:
        of = next(
            (c.__name__ for c in type(error).__mro__ if c.__module__ == das.errors.__name__),
            DasError.__name__,
        )
        if isinstance(error, DasError):
            return cls(type(error).__name__, of, error.what, error.where, error.remedy)
        kind = type(error).__name__
        return cls(kind, of, f"{kind}: {error}", trace="".join(traceback.format_exception(error)))

    def bare(self, task: Task) -> Fault:
        """The same fault without its message."""
        return Fault(
            self.kind,
            self.of,
            f"{self.kind} in a task that sees the truth",
            str(task),
            f"`das status {task.run}` shows its words, which can tell of the truth",
        )

    def error(self, task: object) -> DasError:
        """The error to raise in the process that sent the task."""
        error: DasError = getattr(das.errors, self.of)(
            self.what, where=self.where or task, remedy=self.remedy
        )
        if self.trace:
            error.add_note(self.trace)
        return error


def outcome(work: Work, task: Task, confidential: bool = False) -> Answer | Fault:
    """In the process that performs a task: its answer, or its fault. Every engine gives the answer
    as JSON would.
    """
    if confidential:
        core_dumps.forbid()
    try:
        text = json.dumps(work(task), allow_nan=False)
        if len(text) > LARGEST:
            raise ValueError(f"an answer of {len(text):,} bytes, where {LARGEST:,} are the most")
        answer: Answer = json.loads(text)
        return answer
    except Exception as error:
        fault = Fault.from_error(error)
        return fault.bare(task) if confidential else fault


def answer_of(task: Task, found: Answer | Fault) -> Answer:
    """The answer, or the error raised."""
    if isinstance(found, Fault):
        raise found.error(task)
    return found


def largest_first(tasks: Iterable[Task]) -> list[Task]:
    """The tasks by falling weight, so that the longest does not begin last."""
    return sorted(tasks, key=lambda t: -t.weight)


def lost(task: Task, times: int, why: str, remedy: str) -> DasError:
    """The error of a task whose workers died every time."""
    return DasError(
        f"its worker was ended in the midst of it, {times} times ({why})", where=task, remedy=remedy
    )


def refused(what: str, where: object, remedy: str) -> Fault:
    """The answer of a worker that cannot do the work."""
    return Fault(UserError.__name__, UserError.__name__, what, str(where), remedy)
