"""The interval that a release gives for every count: one, in every command and on every page.

A unit of the tree has it from the unit's own measurements
(:mod:`das.estimate.margins_of_error`). Sums that are in ``estimates/`` (full information) have it
from the measurements of all levels. A total of a lowest unit that was corrected for its size bias
has it about the published count (:mod:`das.estimate.size_bias`). An area that is a unit has the unit's. Any other area has
it from all measurements (:mod:`das.estimate.areas.estimates`).

What is certain, by invariants, structures and impossible combinations
(:mod:`das.model.constraint`), is its own interval. No interval reaches below zero, nor above a known
total. Like ``das.release.post_processing``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.estimate import margins_of_error
from das.estimate.areas.estimates import estimates
from das.estimate.margins_of_error import UNKNOWN, LevelMargins
from das.estimate.summed import SummedSource
from das.files.measurements.nmf_reader import NmfReader
from das.files.release.estimates import EstimateReader
from das.model.areas import Areas
from das.model.constraint import NO_LIMIT, LevelBounds, count_range, range_of_areas
from das.model.measurement import MeasurementSource
from das.model.mechanisms import COVERAGE
from das.model.query import Query
from das.model.schema import Schema
from das.model.universe import Universe
from das.release.opened import OpenedRelease
from das.release.replicate_source import wide
from das.threads import one_thread

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CountIntervals:
    """Intervals of counts, arrays ``(rows, columns)``: the unbiased ``estimate`` (or the published
    total that was corrected) and its standard ``error``, NaN where nothing determines the count; what the count is at the ``least``
    and at the ``most``; and the ends ``low`` and ``high`` of its interval, ``high`` negative
    where there is none. What is certain is its own estimate and interval, without error."""

    estimate: Floats
    error: Floats
    least: Ints
    most: Ints
    low: Ints
    high: Ints

    @staticmethod
    def unknown(rows: int, columns: int) -> CountIntervals:
        """Nothing is known of any count."""
        nothing, least = np.full((rows, columns), np.nan), np.zeros((rows, columns), np.int64)
        return CountIntervals(
            nothing, nothing, least, np.full_like(least, NO_LIMIT), least, least + UNKNOWN
        )

    def rows(self, rows: Ints) -> CountIntervals:
        """Some of the rows."""
        return CountIntervals(*(values[rows] for values in vars(self).values()))

    def filled(self, rows: Ints, known: CountIntervals) -> CountIntervals:
        """With what is ``known`` of some ``rows``, where nothing is yet."""
        unknown, out = np.isnan(self.error[rows]), []
        for name, values in vars(self).items():
            out.append(values.copy())
            out[-1][rows] = np.where(unknown, getattr(known, name), values[rows])
        return CountIntervals(*out)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of the counts of one universe of a release."""

    release: OpenedRelease
    universe: Universe
    coverage: float = COVERAGE
    _levels: dict[str, LevelMargins] = field(default_factory=dict, repr=False)

    def read(
        self,
        level: str,
        columns: Masks,
        start: int = 0,
        stop: int | None = None,
        wanted: Masks | None = None,
    ) -> tuple[Ints, Ints]:
        """Estimates of sums of cells ``(columns, cells)`` in units ``start:stop``, rounded and
        moved into the public range; and margins; both ``(units, columns)``. A margin is 0 for a
        certain count. It is ``UNKNOWN`` where nothing determines the sum, and in batches without
        a ``wanted`` unit, ``(units of the level,)``."""
        estimate, error, least, most = self._estimated(level, columns, start, stop, wanted)
        return self._rounded(estimate, error, least, most)

    @one_thread()
    def _estimated(
        self,
        level: str,
        columns: Masks,
        start: int = 0,
        stop: int | None = None,
        wanted: Masks | None = None,
    ) -> tuple[Floats, Floats, Ints, Ints]:
        """Estimates, their standard errors, and the least and the most of the counts."""
        spine = self.release.spine
        stop = spine.units(level) if stop is None else stop
        estimate = np.full((stop - start, len(columns)), np.nan)
        error, least = np.full_like(estimate, np.nan), np.zeros(estimate.shape, dtype=np.int64)
        most = np.full_like(least, NO_LIMIT)
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
                estimate[at], error[at] = found
        for a, b in batches:
            here = slice(a - start, b - start)
            for j, (query, answer) in informed.items():
                v, e = self._estimates.read(level, query, a, b)
                estimate[here, j], error[here, j] = v[:, answer], e[:, answer]
            least[here], most[here] = count_range(self._bounds[level], columns, a, b)
        if level == spine.levels[-1] and self._corrected is not None:
            total, spread = (x[start:stop, None] for x in self._corrected)
            whole = columns[:, self.universe.schema.possible].all(axis=1) & ~np.isnan(spread)
            estimate, error = np.where(whole, total, estimate), np.where(whole, spread, error)
        certain = least == most
        return np.where(certain, least, estimate), np.where(certain, 0.0, error), least, most

    @cached_property
    def _corrected(self) -> tuple[Floats, Floats] | None:
        """Totals of the lowest units, if they were corrected for their size bias, and their standard
        errors; not a number where none is known."""
        release, universe = self.release, self.universe
        persons = release.after.bias != "none" and universe.name == release.after.persons.name
        if not persons or release.part is not None:
            return None
        from das.release.prior_document import expected_size_bias  # few need it

        return release.published(universe).totals().astype(float), expected_size_bias(release)[1]

    def of_units(
        self,
        level: str,
        columns: Masks,
        start: int = 0,
        stop: int | None = None,
        wanted: Masks | None = None,
    ) -> CountIntervals:
        """Of the same sums in the same units as :meth:`read`, with both ends of their intervals."""
        most = self.most(level, start, stop)
        limit = np.array([NO_LIMIT]) if most is None else most
        return self._ended(
            *self._estimated(level, columns, start, stop, wanted), low=0, high=limit[:, None]
        )

    def of_areas(self, areas: Areas, columns: Masks) -> CountIntervals:
        """Of sums of cells ``(columns, cells)`` in areas of the lowest units, rows of the result:
        an area that is a unit of the tree has what its unit has. Any other, and what the
        measurements of the unit do not determine, has what all measurements say.

        Raises:
            InputError: axes with too many levels to be decomposed."""
        out, spine = CountIntervals.unknown(len(areas), len(columns)), self.release.spine
        depth, unit = areas.whole_units(spine)
        for at in np.unique(depth[depth >= 0]).tolist():
            here, level = np.flatnonzero(depth == at), spine.levels[at]
            wanted = np.zeros(spine.units(level), dtype=bool)
            wanted[unit[here]] = True
            out = out.filled(here, self.of_units(level, columns, wanted=wanted).rows(unit[here]))
        rest = np.asarray(np.isnan(out.error).any(axis=1))
        if rest.any():
            found = self._of_tree(areas.some(rest), columns)
            out = out.filled(np.flatnonzero(rest), found)
        return out

    def _of_tree(self, areas: Areas, columns: Masks) -> CountIntervals:
        """From all measurements of the measured tree; units that are not on it have nobody."""
        release, universe = self.release, self.universe
        source = release.source(universe)
        bounds = release.bounds(universe)
        tree = release.tree(universe)
        exact = known_queries(source, universe.schema, bounds)
        told = (tree.spine, bounds, universe.schema, columns, *areas.over(tree), len(areas), exact)
        found = estimates(source, *told)
        lowest = self._bounds[release.spine.levels[-1]]
        least, most = range_of_areas(lowest, release.spine, areas, columns)
        certain = least == most
        estimate = np.where(certain, least, found.value)
        error = np.where(certain, 0.0, np.sqrt(found.variance))
        return self._ended(estimate, error, least, most, low=least, high=most)

    def _ended(
        self, estimate: Floats, error: Floats, least: Ints, most: Ints, low: Ints | int, high: Ints
    ) -> CountIntervals:
        """With intervals, cut at ``low`` and ``high``."""
        value, margin = self._rounded(estimate, error, least, most)
        cut = (np.broadcast_to(x, value.shape) for x in (low, high))
        ends = margins_of_error.ends(value, margin, *cut)
        return CountIntervals(estimate, error, least, most, *ends)

    def _rounded(
        self, estimate: Floats, error: Floats, least: Ints, most: Ints
    ) -> tuple[Ints, Ints]:
        """Whole numbers, in the public range, and their margins."""
        width = wide(self.coverage, self.universe.wide)
        value, margin = margins_of_error.whole(width, estimate, error)
        return np.clip(value, least, most), margin

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
