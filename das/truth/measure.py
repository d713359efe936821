r"""Measurement: the last stage that sees the truth.

For each level, query and unit, the release contains the noisy answers :math:`Qh + Z` instead of the
true answers :math:`Qh`. Every answer has independent integer noise :math:`Z`, with the mechanism
and the parameter that the plan gives.

*Privacy.* Queries partition the cells, so between neighbors one level's answers to one query differ
in at most ``sensitivity`` places, by 1 each (:mod:`das.model.query`): one draw costs what
:mod:`das.model.budget` says. Units of a level are disjoint, so a level costs no more than a unit.
A record that moves between units (bounded neighbors) changes one answer in each, which the same
sensitivity of 2 covers. Costs of queries and levels add up along the path of units that contain a
record. The ledger's total is the cost of the costliest path (:mod:`das.model.budget`), and it never
exceeds the budget. The ledger has an event before its noise is drawn.

Noise is drawn chunk by chunk. A chunk is a batch of units (:meth:`das.model.spine.Spine.batches`).
It takes its bits from its own source, by a label that says what is measured
(:mod:`das.noise.entropy`). So :func:`draw` is a function of the truth, the tree, the plan and the
run key: every call gives the same numbers. Payment comes first and covers the whole level
(:func:`events`); the tree given to :func:`draw` may be a part of the whole tree.

Units of a level may be measured differently. The tree, which is public, says which class a unit
has. A unit has only the noise of its own class. A unit whose class has no draws is not measured:
its values are 0 and its variance is infinite."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from das.errors import PrivacyError
from das.model.budget import PlannedMeasurement
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Event, Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.names import Codes
from das.model.plan import Plan
from das.model.query import Query
from das.model.schema import Schema
from das.noise.entropy import ChunkLabel, Entropy, encoded
from das.noise.samplers import SAMPLERS, VERSION, noisy_answers

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class DrawnChunk:
    """The measurements of some units of a level, and the name of the stream of their noise. The
    measurements are made query by query, as they are read."""

    mark: str
    measurements: Iterable[Measurement]


def measure(
    truth: Confidential[Histogram],
    level: str,
    universe: str,
    schema: Schema,
    tree: MeasuredSpine,
    plan: Plan,
    entropy: Entropy,
    ledger: Ledger,
) -> Iterator[Measurement]:
    """All measurements of one level: batch by batch of units, and query by query in a batch.

    Raises :class:`PrivacyError` before the first draw if the ledger's budget does not cover the
    level. Raises it before the first event if the histogram does not fit the level, or the plan
    lacks a class of units in the tree: what was not drawn is not spent."""
    due = events(
        level,
        universe,
        schema,
        {c: int(here.sum()) for c, here in tree.classes(level).items()},
        plan,
    )
    check_fits(truth, level, universe, schema, tree)
    for event in due:
        ledger.append(event)
    for chunk in draw(truth, level, universe, schema, tree, plan, entropy):
        yield from chunk.measurements


def events(
    level: str, universe: str, schema: Schema, units: Mapping[str, int], plan: Plan
) -> tuple[Event, ...]:
    """The events of measuring one level of a whole tree; the ledger must have them before any noise
    is drawn. ``units`` is the number of units in each class.

    Raises :class:`PrivacyError` if there are units of a class that the plan lacks, and
    :class:`SpecError` for noise that cannot be drawn."""
    known = plan.classes(level)
    if strange := [c for c in units if known and c not in known]:
        raise PrivacyError(
            f"the plan has no class {strange[0]!r}, but the tree has units of that class",
            where=f"{universe}, {level}",
        )
    measurements = [d for d in plan.at(level) if d.unit_class in units]
    for d in measurements:
        SAMPLERS[d.mechanism.name].refuse(d.parameter)
    return tuple(
        Event.from_measurement(d, universe, units[d.unit_class], schema.query(d.query).answers)
        for d in measurements
    )


def check_fits(
    truth: Confidential[Histogram], level: str, universe: str, schema: Schema, tree: MeasuredSpine
) -> None:
    """Raises :class:`PrivacyError` if the histogram does not fit the level. Call it before anything
    is paid for."""
    h = truth.open("to see whether it is one of the level")
    if h.units != tree.spine.units(level) or h.cells != schema.cells:
        raise PrivacyError(
            "the histogram is not one of this level and schema", where=f"{universe}, {level}"
        )


def draw(
    truth: Confidential[Histogram],
    level: str,
    universe: str,
    schema: Schema,
    tree: MeasuredSpine,
    plan: Plan,
    entropy: Entropy,
    number: int = 1,
) -> Iterator[DrawnChunk]:
    """The chunks of one level of a tree, which may be a part of a larger tree. The caller has
    already paid for them. ``number``: how often the level is drawn, this time included
    (:class:`das.noise.entropy.ChunkLabel`).

    Raises :class:`PrivacyError` before the first draw if the histogram does not fit this level."""
    check_fits(truth, level, universe, schema, tree)
    histogram = truth.open("to add noise to it")
    due = LevelMeasurements.for_level(level, universe, schema, tree, plan, number)
    for start, stop in tree.spine.batches(level, sum(q.answers for q in due.queries.values()) or 1):
        rows = histogram.rows(start, stop)
        label = due.label(start, stop, rows)
        answers = noisy_answers(
            level, start, rows, due.queries, due.of_units(start, stop), entropy.chunk(label)
        )
        yield DrawnChunk(entropy.mark(label), answers)


@dataclass(frozen=True, eq=False)
class LevelMeasurements:
    """What is drawn for one level of a tree: each planned measurement with the mask ``(units,)`` of
    its units, and the queries."""

    level: str
    universe: str
    number: int
    codes: Codes
    queries: Mapping[str, Query]
    measurements: tuple[tuple[PlannedMeasurement, Mask], ...]

    @staticmethod
    def for_level(
        level: str, universe: str, schema: Schema, tree: MeasuredSpine, plan: Plan, number: int
    ) -> LevelMeasurements:
        classes, codes = tree.classes(level), tree.spine.codes[tree.spine.index(level)]
        measurements = tuple(
            (d, classes[d.unit_class]) for d in plan.at(level) if d.unit_class in classes
        )
        return LevelMeasurements(
            level,
            universe,
            number,
            codes,
            {d.query: schema.query(d.query) for d, _ in measurements},
            measurements,
        )

    def of_units(self, start: int, stop: int) -> list[tuple[PlannedMeasurement, Mask]]:
        """The measurements, with their masks cut to the units ``start:stop``."""
        return [(d, where[start:stop]) for d, where in self.measurements]

    def label(self, start: int, stop: int, rows: Histogram) -> ChunkLabel:
        """The label of the chunk with the units ``start:stop``, whose true counts are ``rows``."""
        return ChunkLabel(
            self.universe,
            self.level,
            self.number,
            bytes(self.codes[start]),
            bytes(self.codes[stop - 1]),
            _plan_digest(self.queries, self.of_units(start, stop)),
            VERSION,
            _digest(rows),
        )


def _plan_digest(
    queries: Mapping[str, Query], measurements: list[tuple[PlannedMeasurement, Mask]]
) -> bytes:
    """SHA-256 of everything except the truth that decides what is drawn for some units. It covers
    each draw's query, noise and units, in the order in which draws take their bits. It covers a
    query's groupings, not only its name."""
    parts: list[bytes] = []
    for name, query in queries.items():
        parts += [
            encoded(
                name,
                _asked(query),
                d.mechanism.name,
                str(d.parameter),
                d.unit_class,
                len(where),
                np.packbits(where).tobytes(),
            )
            for d, where in measurements
            if d.query == name and where.any()
        ]
    return hashlib.sha256(encoded(*parts)).digest()


@lru_cache(maxsize=256)
def _asked(query: Query) -> bytes:
    return encoded(*(encoded(*g.index) for g in query.groupings))


def truth_digest(truth: Confidential[Histogram]) -> str:
    """A digest that identifies the true counts. It is as confidential as the counts, because anyone
    who guesses them can confirm the guess with it."""
    return _digest(truth.open("to know it again")).hex()


def _digest(h: Histogram) -> bytes:
    """SHA-256 of the number of cells, the row pointers, and the cell and the value of each count,
    all as 64-bit integers."""
    total = hashlib.sha256()
    for values in (np.array([h.cells]), h.indptr, h.cell, h.count):
        raw = np.ascontiguousarray(values, dtype="<i8")
        total.update(len(raw).to_bytes(8, "big"))
        total.update(raw.data)
    return total.digest()


def invariant_counts(truth: Confidential[Histogram], query: Query) -> NDArray[np.int64]:
    """The exact answers to a query that is published as an invariant, ``(units, answers)``."""
    return truth.open("these counts are invariant").answer(query)
