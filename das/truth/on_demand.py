r"""Answers on demand: the truth and its noise at the coordinates that are asked for, and at no
other.

:class:`OnDemandMeasurement` is the measurement of :mod:`das.truth.measure` for schemas whose
answers are too many to be drawn: the same plan, at the same cost, and the same law
(:mod:`das.noise.coordinates` has the proofs). A level is paid for in full before its first answer:
that few answers are looked at makes none of them cheaper.

A chunk is a run of consecutive units of which no query has more than
:data:`das.noise.coordinates.LIMIT` answers. Where chunks begin follows from the tree and the plan,
so a part of a larger tree has its own. A level is measured by one tree then, and in one way: asked
of another cut, or drawn whole as well, it is drawn a second time, and must be paid a second time.

The truth of an answer is read off the sparse histogram. Nothing has the length of units x answers,
and what is asked twice is computed twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from das.errors import PrivacyError
from das.model.answers import SparseAnswers
from das.model.budget import PlannedMeasurement
from das.model.closed import Closed
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.plan import Plan
from das.model.schema import Schema
from das.model.sparse_measurement import not_measured, places
from das.noise.coordinates import LIMIT, CoordinateNoise
from das.noise.entropy import CipherBlocks, Entropy
from das.noise.label import ChunkLabel, CoordinateLabel
from das.noise.samplers import SAMPLERS
from das.truth.measure import LevelMeasurements, check_fits, events

Ints = NDArray[np.int64]
#: What sees to it, given a level, that all its draws are in the ledger.
Pay = Callable[[str], None]


def paying(ledger: Ledger, universe: str, schema: Schema, tree: MeasuredSpine, plan: Plan) -> Pay:
    """Every draw of a level of a whole tree at its full cost, each time it is called. So another
    oracle pays again: that it makes the same draw is known to who keeps the budget book of a run
    (:mod:`das.truth.bookkeeping`), and has seen that truth, plan and key are the same. Raises
    :class:`PrivacyError` as :func:`das.truth.measure.measure` does."""

    def pay(level: str) -> None:
        units = {c: int(here.sum()) for c, here in tree.classes(level).items()}
        for event in events(level, universe, schema, units, plan):
            ledger.append(event)

    return pay


class OnDemandMeasurement(Closed):
    """A :class:`das.model.sparse_measurement.SparseSource` on the truth of a universe, level by
    level. It has the key of the noise: it stays in the process that may see the truth.

    ``pay`` is called with a level before its first answer (:func:`paying`; of a part of a tree,
    whoever keeps the budget book of all of it). ``number``: how often a level is drawn, this time
    included (:class:`das.noise.label.ChunkLabel`)."""

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
        """True answers and their noise, ``(n,)``.

        Raises, before anything is paid or drawn:
            InputError: the level is not measured by the query, or units or answers are none of
            theirs. PrivacyError: a unit is not measured, no true counts of the level are here or
            they are of another one, the budget does not
                cover the level, or the source of the noise keeps nothing that it could be found
                again by.
        """
        held = self._level(level)
        at = held.places(query, units, cells)
        if level not in self._paid:
            self._pay(level)
            self._paid.add(level)
        return held.truth(query).open("to add noise to it").read(at) + held.noise(query, at)

    def mark(self, level: str) -> str:
        """What the ledger calls the streams of a level: equal where it is measured again, different
        in any other draw.
        """
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
            due = LevelMeasurements.of(
                level, self._universe, self._schema, self._tree, self._plan, self._number(level)
            )
            self._levels[level] = _OnDemandLevel(due, self._truth[level], self._entropy)
        return self._levels[level]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "whoever has the truth and the key of its noise is in no pickle, and in no task"
        )


class _OnDemandLevel(Closed):
    """One level: its chunks, their streams, and the true answers to each query that was asked."""

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
        """Where coordinates are among all answers, ``(n,)``, if each of them is measured."""
        where = f"{self.due.universe}, {self.due.level}, {query}"
        at, measured = (
            places(units, cells, self.shape(query), where),
            self._measurements(query)[1][units] >= 0,
        )
        if not measured.all():
            unit = units[np.argmin(measured)]
            raise PrivacyError(
                f"{self.due.codes[unit].decode()} is not measured by this query",
                where=where,
                remedy="ask of units whose variance is finite",
            )
        return at

    def _measurements(self, query: str) -> tuple[list[PlannedMeasurement], Ints]:
        """The draws that ask it, and which of them each unit has, ``(units,)``: -1 for none."""
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
        """At some places that are measured, ``(n,)``: each unit's of its own class."""
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
