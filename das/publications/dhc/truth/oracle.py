"""The wall of a run that measures on demand: one process estimates, another answers.

The estimator (:mod:`das.estimate.estimator_process`) is an enclosed process (:mod:`das.engine.enclosed`). The
process of this module has the truth and the key. All that it gives the estimator are public values
of the release, and answers to its questions: true counts plus noise.

*Why that is all.* A question is a level, a query and coordinates. It is refused unless they are
those of the part that the estimator works on, before anything is drawn. Its answer is the one that
the source gives, which is noisy and recorded before it leaves. So whatever the estimator computes
is a function of public values and of the recorded answers, and these are published. Its answers
to us are numbers and words, which are never run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from das.engine.enclosed import EnclosedProcess, enclosed, pickled
from das.engine.tasks import SILENT, Progress
from das.errors import PrivacyError, UserError
from das.estimate.estimator_process import EstimationJob, PartOutline, UpwardJob, of_message
from das.estimate.outer import OuterProblem, RefinedEstimates
from das.model.budget import PlannedMeasurement
from das.model.confidential import Confidential
from das.model.frozen import NoRepr
from das.model.histogram import Histogram, SparseAnswers
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import SparseSource, not_measured, places
from das.model.plan import Plan
from das.model.schema import Schema
from das.noise.coordinates import LIMIT, CoordinateNoise
from das.noise.entropy import ChunkLabel, CipherBlocks, CoordinateLabel, Entropy
from das.noise.samplers import SAMPLERS
from das.release.prior_document import Messages
from das.truth.measure import LevelMeasurements, check_fits


@dataclass(frozen=True, eq=False, repr=False)
class AnsweredPart(NoRepr):
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
class Oracle(NoRepr):
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
            DasError: what estimation raised."""
        own = AnsweredPart(PartOutline.from_source(source, problem.spine, problem.levels), source)
        return of_message(*self._done(EstimationJob(problem, own.outline), own, parts))

    def known_below(self, part: AnsweredPart, most: int, level: str) -> Messages:
        """:func:`das.estimate.outer.known_below`, by the estimating process."""
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


# Answers on demand: the truth plus noise, only at the requested coordinates.
#
# :class:`OnDemandMeasurement` does what :mod:`das.truth.measure` does, for schemas with too many
# answers to draw. It has the same plan, the same cost and the same distribution
# (:mod:`das.noise.coordinates` has the proofs). A level is paid for in full before its first answer.
# Requests for few answers cost as much as requests for all.
#
# A chunk is a run of consecutive units. It is short enough that no query has more than
# :data:`das.noise.coordinates.LIMIT` answers in it. Where chunks begin follows from the tree and the
# plan, so a part of a larger tree has its own chunks. So a level must be measured over one tree, and
# in one way. Over another cut of the tree, or drawn whole as well, it would be a second draw and must
# be paid for a second time.
#
# True answers are read off the sparse histogram. No array has the length of units x answers, and a
# repeated request is computed again.

Ints = NDArray[np.int64]
#: A function that, given a level, makes sure that all its draws are in the ledger.
Pay = Callable[[str], None]


class OnDemandMeasurement(NoRepr):
    """A :class:`das.model.measurement.SparseSource` over the truth of a universe, level by
    level. It has the key of the noise, so it stays in the process that may see the truth.

    ``pay`` is called with a level before its first answer (in a run the budget book of the whole
    tree pays). ``number``: how often a level is drawn, this time included
    (:class:`das.noise.entropy.ChunkLabel`)."""

    def __init__(
        self,
        truth: Mapping[str, Confidential[Histogram]],
        universe: str,
        schema: Schema,
        tree: MeasuredSpine,
        plan: Plan,
        entropy: Entropy,
        pay: Pay,
        number: Callable[[str], int] = lambda _: 1,
    ) -> None:
        self._truth, self._universe, self._schema, self._tree, self._plan = (
            truth,
            universe,
            schema,
            tree,
            plan,
        )
        self._entropy, self._pay, self._number = entropy, pay, number
        self._levels: dict[str, _OnDemandLevel] = {}
        self._paid: set[str] = set()

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(self._level(level).due.queries)

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return self._level(level).shape(query)

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        return self._level(level).variance(query)

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        """True answers plus noise, ``(n,)``.

        Raises, before anything is paid or drawn:
            InputError: the query does not measure the level, or has no such units or answers.
            PrivacyError: a unit is not measured; the true counts of the level are not here, or are
                those of another level; the budget does not cover the level; or the source of the
                noise has no key from which to compute it again."""
        held = self._level(level)
        at = held.places(query, units, cells)
        if level not in self._paid:
            self._pay(level)
            self._paid.add(level)
        return held.truth(query).open("to add noise to it").read(at) + held.noise(query, at)

    def mark(self, level: str) -> str:
        """The ledger's name for the streams of a level. A replay of the same draw has the same
        mark; any other draw has a different one."""
        return self._level(level).mark()

    def _level(self, level: str) -> _OnDemandLevel:
        if level not in self._levels:
            where = f"{self._universe}, {level}"
            if level not in self._truth or level not in self._plan.levels:
                raise PrivacyError("no such level is measured here", where=where)
            check_fits(self._truth[level], level, self._universe, self._schema, self._tree)
            if self._entropy.key_mark is None:
                raise PrivacyError(
                    f"what is asked again must be the same, and {self._entropy.name} keeps nothing"
                    " that it follows from",
                    where=where,
                    remedy='measure with run.entropy = "keyed"',
                )
            due = LevelMeasurements.for_level(
                level, self._universe, self._schema, self._tree, self._plan, self._number(level)
            )
            self._levels[level] = _OnDemandLevel(due, self._truth[level], self._entropy)
        return self._levels[level]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an object with the truth and the key of its noise is in no pickle, and in no task"
        )


class _OnDemandLevel(NoRepr):
    """One level: its chunks, their streams, and the true answers to each query requested so far."""

    def __init__(
        self, due: LevelMeasurements, truth: Confidential[Histogram], entropy: Entropy
    ) -> None:
        self.due, self._histogram, self._entropy = due, truth, entropy
        self._units = max(
            1, LIMIT // max((q.answers for q in due.queries.values()), default=1)
        )  # of a chunk
        self._labels: dict[int, ChunkLabel] = {}
        self._streams: dict[tuple[str, int], CipherBlocks] = {}
        self._answers: dict[str, Confidential[SparseAnswers]] = {}

    def shape(self, query: str) -> tuple[int, int]:
        if query not in self.due.queries:
            raise not_measured(self.due.level, query, self.due.queries)
        return len(self.due.codes), self.due.queries[query].answers

    def variance(self, query: str) -> NDArray[np.float64]:
        draws, of_unit = self._measurements(query)
        return np.array([*(d.variance for d in draws), np.inf])[of_unit]

    def places(self, query: str, units: Ints, cells: Ints) -> Ints:
        """The indices of coordinates among all answers, ``(n,)``. Raises :class:`PrivacyError` if
        one of them is not measured."""
        where = f"{self.due.universe}, {self.due.level}, {query}"
        at = places(units, cells, self.shape(query), where)
        measured = self._measurements(query)[1][units] >= 0
        if not measured.all():
            unit = units[np.argmin(measured)]
            raise PrivacyError(
                f"{self.due.codes[unit].decode()} is not measured by this query",
                where=where,
                remedy="ask of units whose variance is finite",
            )
        return at

    def _measurements(self, query: str) -> tuple[list[PlannedMeasurement], Ints]:
        """The planned measurements of a query, and which of them each unit has, ``(units,)``: -1
        for none."""
        found = [(d, where) for d, where in self.due.measurements if d.query == query]
        of_unit = np.full(self.shape(query)[0], -1)
        for number, (_, where) in enumerate(found):
            of_unit[where] = number
        return [d for d, _ in found], of_unit

    def truth(self, query: str) -> Confidential[SparseAnswers]:
        if query not in self._answers:
            counted = self._histogram.open("to add noise to it").sparse(self.due.queries[query])
            self._answers[query] = Confidential(counted)
        return self._answers[query]

    def noise(self, query: str, at: Ints) -> Ints:
        """Noise at some measured indices, ``(n,)``. Each unit has the noise of its own class."""
        answers, (draws, of_unit) = self.shape(query)[1], self._measurements(query)
        unit, out = at // answers, np.empty(len(at), dtype=np.int64)
        chunk, draw = unit // self._units, of_unit[unit]
        for c in np.flatnonzero(np.bincount(chunk)).tolist():
            start, stop = self._bounds(c)
            for number, d in enumerate(draws):
                here = np.flatnonzero((chunk == c) & (draw == number))
                drawn = CoordinateNoise(
                    self._stream(query, c),
                    (stop - start) * answers,
                    SAMPLERS[d.mechanism.name],
                    d.parameter,
                )
                out[here] = drawn.at(at[here] - start * answers)
        return out

    def mark(self) -> str:
        chunks = range(-(-len(self.due.codes) // self._units))
        marks = [
            self._entropy.mark(CoordinateLabel(self._label(c), q))
            for q in self.due.queries
            for c in chunks
        ]
        return hashlib.sha256(bytes.fromhex("".join(marks))).hexdigest()[:32]

    def _stream(self, query: str, chunk: int) -> CipherBlocks:
        if (query, chunk) not in self._streams:
            self._streams[query, chunk] = self._entropy.blocks(
                CoordinateLabel(self._label(chunk), query)
            )
        return self._streams[query, chunk]

    def _label(self, chunk: int) -> ChunkLabel:
        if chunk not in self._labels:
            start, stop = self._bounds(chunk)
            rows = self._histogram.open("its digest tells it from any other").rows(start, stop)
            self._labels[chunk] = self.due.label(start, stop, rows)
        return self._labels[chunk]

    def _bounds(self, chunk: int) -> tuple[int, int]:
        return chunk * self._units, min((chunk + 1) * self._units, len(self.due.codes))
