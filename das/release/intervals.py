"""The interval that a release gives for every count, from all that it says about the count's own
unit.

At the levels of ``estimates/`` (full information) from the measurements of all levels together, for
the sums that are there; otherwise from the unit's own measurements
(:mod:`das.estimate.margins_of_error`). What is certain, by invariants, structures and impossible
combinations (:mod:`das.model.constraint`), is its own interval; no interval reaches below zero,
nor above a known total. Like ``das.release.post_processing``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.estimate import margins_of_error
from das.estimate.margins_of_error import UNKNOWN, LevelMargins
from das.estimate.summed import SummedSource
from das.files.measurements.nmf_reader import NmfReader
from das.files.release.estimates import EstimateReader
from das.model.constraint import NO_LIMIT, LevelBounds, count_range
from das.model.measurement import MeasurementSource
from das.model.mechanisms import COVERAGE
from das.model.query import Query
from das.model.schema import Schema
from das.model.universe import Universe
from das.release.opened import OpenedRelease
from das.release.replicate_source import wide
from das.threads import one_thread

Ints = NDArray[np.int64]
Masks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of the counts of one universe of a release."""

    release: OpenedRelease
    universe: Universe
    coverage: float = COVERAGE
    _levels: dict[str, LevelMargins] = field(default_factory=dict, repr=False)

    @one_thread()
    def read(
        self,
        level: str,
        columns: Masks,
        start: int = 0,
        stop: int | None = None,
        wanted: NDArray[np.bool_] | None = None,
    ) -> tuple[Ints, Ints]:
        """Estimates of sums of cells ``(columns, cells)`` in units ``start:stop``, rounded and
        moved into the public range; and margins; both ``(units, columns)``. A margin is 0 for a
        certain count. It is ``UNKNOWN`` where nothing determines the sum, and in batches without
        a ``wanted`` unit, ``(units of the level,)``."""
        spine = self.release.spine
        stop = spine.units(level) if stop is None else stop
        value = np.zeros((stop - start, len(columns)), dtype=np.int64)
        margin = np.full_like(value, UNKNOWN)
        informed = self._informed(level, columns)
        own = np.array([j for j in range(len(columns)) if j not in informed], dtype=np.intp)
        answers = max(self.universe.schema.cells, len(columns))
        batches = [
            (max(first, start), min(last, stop))
            for first, last in spine.batches(level, answers)
            if first < stop and last > start
        ]
        batches = [(a, b) for a, b in batches if wanted is None or wanted[a:b].any()]
        if len(own):
            for units, found in self._own(level, columns[own], batches, answers):
                at = np.ix_(units - start, own)
                value[at], margin[at] = self._whole(*found)
        for a, b in batches:
            here = slice(a - start, b - start)
            for j, (query, answer) in informed.items():
                v, e = self._estimates.read(level, query, a, b)
                value[here, j], margin[here, j] = self._whole(
                    v[:, answer], e[:, answer].astype(np.float64)
                )
            least, most = count_range(self._bounds[level], columns, a, b)
            margin[here][least == most] = 0
            value[here] = np.clip(value[here], least, most)
        return value, margin

    def _own(
        self, level: str, columns: Masks, batches: Sequence[tuple[int, int]], answers: int
    ) -> Iterator[tuple[Ints, tuple[NDArray[np.float64], NDArray[np.float64]]]]:
        """From the measurements of each unit: units, and what we know about them. Where they are
        sums, all units of a level are taken in the order of the tree."""
        told, source = self._level(level), self.measured
        if not isinstance(source, SummedSource) or len(batches) < 2 or self._joint(level):
            for a, b in batches:
                yield np.arange(a, b), told.read(source, columns, a, b)
            return
        spine = self.release.spine
        here = spine.levels[: spine.index(level) + 1]
        source.add_up(here)
        inside = np.zeros(spine.units(level), dtype=bool)
        for a, b in batches:
            inside[a:b] = True
        for piece in source.batches(level, answers):
            if len(units := piece[inside[piece]]):
                held = {name: source.some(level, name, units) for name in told.queries}
                found = told.from_measurements(held, columns, units)
                del held  # before the next piece is read
                yield units, found

    def _joint(self, level: str) -> bool:
        """Whether totals of several units together are known, which no batch may part."""
        return self._bounds[level].joint is not None

    def most(self, level: str, start: int = 0, stop: int | None = None) -> Ints | None:
        """The known totals of units, ``(units,)``: no count of theirs is more. Nothing where none
        is known."""
        total = self._bounds[level].total
        return None if total is None else total[start:stop]

    def ends(
        self,
        level: str,
        columns: Masks,
        start: int = 0,
        stop: int | None = None,
        wanted: NDArray[np.bool_] | None = None,
    ) -> tuple[Ints, Ints]:
        """Both ends of the intervals of :meth:`read`, ``(units, columns)``; ``UNKNOWN`` at the
        upper end where there is none."""
        value, margin = self.read(level, columns, start, stop, wanted)
        most = self.most(level, start, stop)
        limit = np.full(len(value), NO_LIMIT) if most is None else most
        return margins_of_error.ends(value, margin, np.zeros_like(value), limit[:, None])

    def _whole(self, value: NDArray[np.float64], error: NDArray[np.float64]) -> tuple[Ints, Ints]:
        return margins_of_error.whole(wide(self.coverage, self.universe.wide), value, error)

    def _informed(self, level: str, columns: Masks) -> dict[int, tuple[str, int]]:
        """The columns whose sum is in ``estimates/``, as an answer to a query."""
        schema = self.universe.schema
        out: dict[int, tuple[str, int]] = {}
        if not self.release.tree(self.universe).alike:  # they are of the units that were measured
            return out
        for name in self._estimates.queries(level):
            index = schema.query(name).index
            first = index[columns.argmax(axis=1)]
            same = ((index[None, :] == first[:, None]) == columns)[:, schema.possible].all(axis=1)
            out |= {int(j): (name, int(first[j])) for j in np.flatnonzero(same)}
        return out

    def _level(self, level: str) -> LevelMargins:
        if level not in self._levels:
            bounds = self._bounds[level]
            exact = known_queries(
                self.release.source(self.universe), self.universe.schema, {level: bounds}
            )
            self._levels[level] = LevelMargins.for_level(
                level, self.universe.schema, self.measured, bounds, exact.get(level)
            )
        return self._levels[level]

    @cached_property
    def measured(self) -> MeasurementSource:
        """The measurements of published units."""
        return self.release.noisy(self.universe)

    @cached_property
    def _bounds(self) -> Mapping[str, LevelBounds]:
        return self.release.published_bounds(self.universe)

    @cached_property
    def _estimates(self) -> EstimateReader:
        return self.release.estimates(self.universe)


def known_queries(
    measured: NmfReader, schema: Schema, bounds: Mapping[str, LevelBounds]
) -> dict[str, Query]:
    """At levels whose bounds are exact, the query that is known exactly: the bounds' groups are its
    answers."""
    exact = {level: b for level, b in bounds.items() if b.exact}
    if not exact:
        return {}
    names = {n for level in measured.spine.levels for n in measured.constraints(level)}
    every = [schema.query(n) for n in sorted(names)]
    return {
        level: next(q for q in every if np.array_equal(q.index, b.group))
        for level, b in exact.items()
    }
