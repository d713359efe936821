"""The wall of a run that measures on demand: one process estimates, another answers.

The estimator (:mod:`das.estimate.asking`) is an enclosed process (:mod:`das.engine.enclosed`). The
process of this module has the truth and the key. All that it gives the estimator are public values
of the release, and answers to its questions: true counts plus noise.

*Why that is all.* A question is a level, a query and coordinates. It is refused unless they are
those of the part that the estimator works on, before anything is drawn. Its answer is the one that
the source gives, which is noisy and recorded before it leaves. So whatever the estimator computes
is a function of public values and of the recorded answers, and these are published. Its answers
to us are numbers and words, which are never run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine.enclosed import EnclosedProcess, enclosed, pickled
from das.engine.progress import SILENT, Progress
from das.errors import UserError
from das.estimate.asking import EstimationJob, PartOutline, UpwardJob, of_message
from das.estimate.outer import RefinedEstimates
from das.estimate.outer_problem import OuterProblem
from das.model.closed import Closed
from das.model.sparse_measurement import SparseSource
from das.release.work_files import Messages


@dataclass(frozen=True, eq=False, repr=False)
class AnsweredPart(Closed):
    """A part of a tree, and the source that answers questions about it."""

    outline: PartOutline
    source: SparseSource

    def answers(self, level: str, query: str, at: NDArray[Any]) -> NDArray[np.int64]:
        """Raises :class:`UserError`, before anything is drawn, for what is not in this part."""
        if not self.outline.has(level, query, at):
            raise refused(f"{query} at {level}")
        return self.source.answers(level, query, *np.divmod(at, self.outline.answers[level][query]))


PartsOf = Callable[[int], AnsweredPart]


@dataclass(frozen=True, eq=False, repr=False)
class Oracle(Closed):
    """Answers the questions of one estimating process at a time, which may use ``workers`` processes
    of its own."""

    workers: int = 1
    progress: Progress = SILENT

    def estimated(
        self, problem: OuterProblem, source: SparseSource, parts: PartsOf | None = None
    ) -> RefinedEstimates:
        """:meth:`OuterProblem.estimated`, by the estimating process. ``parts`` are those that an
        upper tree may ask besides.

        Raises:
            UserError: the process was ended, or asked for what is not in these parts.
            DasError: what estimation raised.
        """
        own = AnsweredPart(PartOutline.of(source, problem.spine, problem.levels), source)
        return of_message(*self._done(EstimationJob(problem, own.outline), own, parts))

    def known_below(self, part: AnsweredPart, most: int, level: str) -> Messages:
        """:func:`das.estimate.outer_problem.known_below`, by the estimating process."""
        return self._done(UpwardJob(part.outline, most, level), part)[1]

    def _done(
        self, job: EstimationJob | UpwardJob, own: AnsweredPart, parts: PartsOf | None = None
    ) -> tuple[Mapping[str, Any], Messages]:
        @cache
        def part(number: int) -> AnsweredPart:
            if number == own.outline.number:
                return own
            if parts is None:
                raise refused(f"part {number}")
            return parts(number)

        with enclosed() as process:
            process.begin(job, self.workers)
            return self._conversation(process, part)

    def _conversation(
        self, process: EnclosedProcess, part: PartsOf
    ) -> tuple[Mapping[str, Any], Messages]:
        while True:
            head, arrays = process.receive()
            if "question" in head:
                number, level, query = head["question"]
                process.send({}, {"answers": part(number).answers(level, query, arrays["at"])})
            elif "part" in head:
                process.send({}, {"part": pickled(part(head["part"]).outline)})
            elif "stage" in head:
                self.progress.stage(head["stage"], head["total"])
            elif "advance" in head:
                self.progress.advance(head["advance"])
            else:
                return head["done"], dict(arrays)


def refused(what: str) -> UserError:
    """The error of a question that is not one of the part at work."""
    return UserError(
        f"the process that estimates asked for {what}, which this part of the run does not measure",
        where="estimation",
        remedy="nothing was drawn for it: go on with --resume; if it comes again, please report it",
    )
