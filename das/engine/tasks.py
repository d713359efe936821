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

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None: ...

    def answers(
        self, work: Work, tasks: Iterable[Task], *, confidential: bool = False
    ) -> Iterator[tuple[Task, Answer]]:
        """Yields each task with its answer when it is ready; the largest begins first. A task can
        be done more than once.

        With ``confidential`` a task runs only where the truth may be, and its process does nothing
        else afterwards.

        Raises:
            DasError: immediately, if a task raised it; or if a task was lost more than ``AGAIN``
                times."""
        ...


class HandedOver(DasError):
    """Not an error: the run has stopped until others have done its tasks. It resumes when these are
    done."""

    exit_code = 0


@dataclass(frozen=True)
class Fault:
    """What a task raised: the name of its class, the name of its base class in :mod:`das.errors`,
    and its message."""

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
            f"`das run status {task.run}` shows its words, which can tell of the truth",
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
    as JSON would."""
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


def answer_of(task: Task, answer: Answer | Fault) -> Answer:
    """The answer, or the error raised."""
    if isinstance(answer, Fault):
        raise answer.error(task)
    return answer


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


# How long work reports its progress.


class Progress(Protocol):
    def stage(self, name: str, total: int | None) -> None:
        """Begin a new stage with ``total`` units of work, or an unknown number."""
        ...

    def advance(self, n: int = 1) -> None: ...


class Silent:
    """Says nothing."""

    def stage(self, name: str, total: int | None) -> None:
        del name, total

    def advance(self, n: int = 1) -> None:
        del n


#: What is told where nobody asks.
SILENT = Silent()


@dataclass(frozen=True)
class Pace:
    """``done`` of ``total`` units of work, in ``seconds``.

    >>> str(Pace(30, 120, 60.0)), str(Pace(0, 120, 60.0)), str(Pace(7, None, 60.0))
    ('25 %, 0.5/s, 3 min left', '0 %', '7')"""

    done: float
    total: float | None
    seconds: float

    @property
    def rate(self) -> float | None:
        """Units a second; not known before the first is done."""
        return self.done / self.seconds if self.done > 0 and self.seconds > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds until the end, at the present rate."""
        return (
            None
            if self.total is None or self.rate is None
            else max(self.total - self.done, 0.0) / self.rate
        )

    def __str__(self) -> str:
        if self.total is None:
            return f"{self.done:,.10g}"
        out = [f"{100 * self.done / self.total if self.total else 100:.0f} %"]
        if self.rate is not None and self.left is not None:
            out += [
                f"{self.rate:,.3g}/s" if self.rate < 100 else f"{self.rate:,.0f}/s",
                f"{duration(self.left)} left",
            ]
        return ", ".join(out)


def duration(seconds: float) -> str:
    """A duration in words. Two digits are enough for somebody who waits.

    >>> [duration(s) for s in (0.4, 89, 91, 5400, 7260, 200_000)]
    ['0 s', '89 s', '2 min', '1 h 30 min', '2 h 01 min', '56 h']"""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return (
        f"{minutes // 60} h {minutes % 60:02d} min"
        if minutes < 24 * 60
        else f"{minutes / 60:.0f} h"
    )
