"""Counts of one table, of the release and of its replicates, and the intervals that follow from
them; and what each interval rests on: a word for each row of ``intervals/``.

Replicates of a release hold what is public: invariants, and the counts of an earlier release that
this one rests on. What they hold, no replicate moves. Where that is an invariant the count is
*exact*. Where it is a published count of an earlier release it has an error that nothing here
knows: the interval would be a point, and holds the truth only if that release happens to be right.
Such a count is *not covered*, and gets no interval. All other counts of such a release have
intervals *given* those earlier counts, which hold less often than they say.

Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.count_range import count_range
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.level_bounds import LevelBounds
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.release.replicate_source import BY_TRUTH
from das.replicates import ReplicateErrors, ReplicateInterval, interval
from das.replicates.by_truth import ShownCounts, regions
from das.tables import Table

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: Values of a table that are held at once, of each sum.
BATCH = 1 << 22
#: By number, as rows have them; and what each means.
BASES = {
    "exact": "the count is known exactly: an invariant, or a combination that cannot be",
    "replicates": "the interval is from the replicates",
    "given earlier counts": (
        "the interval is from the replicates, which all have the counts of an earlier release: the"
        " errors of these are not in it, and it holds less often than it says"
    ),
    "not covered": (
        "there is no interval: an earlier release determines the count, which is the same in all"
        " replicates, and nothing here knows the errors of that release"
    ),
}
EXACT, REPLICATES, GIVEN, NOT_COVERED = range(len(BASES))
#: From which unit on, published values, the errors of the replicates and the intervals, and what
#: they rest on (:data:`BASES`), ``(units, columns)`` each.
CountedIntervals = tuple[int, Ints, ReplicateErrors, ReplicateInterval, NDArray[np.int8]]


@dataclass(frozen=True, eq=False)
class ReplicatedCounts(Frozen):
    """Of units of one level that follow each other: the release, the first of ``found``, and its
    replicates; of the level ``above``, if there is one, the same, and the ``parent`` there of each
    unit. ``bounds`` of the units say what is certain, and where a count cannot be. Walked some
    units at a time."""

    table: Table
    found: Sequence[Histogram]
    above: Sequence[Histogram] | None
    parent: Ints
    bounds: LevelBounds | None = None
    exact: Mask | None = None  #: columns that are known exactly where there are no bounds
    rests: bool = False  #: whether counts of an earlier release are the same in all

    @staticmethod
    def of(
        spine: Spine,
        table: Table,
        level: str,
        levels: Sequence[Mapping[str, Histogram]],
        bounds: LevelBounds | None = None,
    ) -> ReplicatedCounts:
        """Of all units of a ``level`` of a tree."""
        depth = spine.index(level)
        above = [of[spine.levels[depth - 1]] for of in levels] if depth else None
        return ReplicatedCounts(
            table, [of[level] for of in levels], above, spine.parent[depth], bounds
        )

    def intervals(self, coverage: float, rule: str) -> Iterator[CountedIntervals]:
        """In the order of the units. By the rule that holds by true value, the units must be all of
        their level.
        """
        by_truth = regions(self, len(self.table.columns), coverage) if rule == BY_TRUTH else None
        for start, stop in self._slices():
            value, within = self._values(self.found[0], start, stop), self.within(start, stop)
            spread = ReplicateErrors.over(
                value, (self._values(h, start, stop) for h in self.found[1:])
            )
            made = interval(value, spread, coverage, "ct" if by_truth else rule, within=within)
            if by_truth:
                made = by_truth.widened(made, self._shown(0, start, stop), self._able(start, stop))
                made = made if within is None else made.clipped(*within)
            yield (
                start,
                value,
                spread,
                made,
                bases(spread, ~self._able(start, stop), rests=self.rests),
            )

    def within(self, start: int, stop: int) -> tuple[Ints, Ints] | None:
        """The least and the most that each count can be, ``(units, columns)`` both; nothing where
        nothing is known.
        """
        if self.bounds is None:
            return None
        columns = range(len(self.table.columns))
        least, most = count_range(
            self.bounds, np.stack([self.table.mask(j) for j in columns]), start, stop
        )
        return least, most * np.array(
            [self.table.times(j).max() for j in columns]
        )  # a record may be counted several times

    def __iter__(self) -> Iterator[tuple[Ints, Mask, Iterator[ShownCounts]]]:
        """What :func:`das.replicates.by_truth.regions` asks for."""
        for start, stop in self._slices():
            shown = (self._shown(n, start, stop) for n in range(1, len(self.found)))
            yield self._values(self.found[0], start, stop), self._able(start, stop), shown

    def _slices(self) -> Iterator[tuple[int, int]]:
        units = self.found[0].units
        step = max(1, BATCH // len(self.table.columns))
        return ((start, min(start + step, units)) for start in range(0, units, step))

    def _values(self, h: Histogram, start: int, stop: int) -> Ints:
        return self.table.values(h.rows(start, stop))

    def _shown(self, number: int, start: int, stop: int) -> ShownCounts:
        here = self.found[number].rows(start, stop)
        value = self.table.values(here)
        above = np.zeros_like(value)
        if self.above is not None:
            parent = self.parent[start:stop]
            first = int(parent[0])
            above = self.table.values(self.above[number].rows(first, int(parent[-1]) + 1))[
                parent - first
            ]
        return ShownCounts(value, above, here.totals())

    def _able(self, start: int, stop: int) -> Mask:
        """Where a count is not certain, ``(units, columns)``."""
        within, shape = self.within(start, stop), (stop - start, len(self.table.columns))
        if within is not None:
            return np.asarray(within[0] < within[1])
        return (
            np.ones(shape, dtype=bool)
            if self.exact is None
            else np.broadcast_to(~self.exact, shape)
        )


def bases(errors: ReplicateErrors, certain: Mask, *, rests: bool) -> NDArray[np.int8]:
    """Of counts with these errors. ``certain``: where a count is known exactly; ``rests``: the
    release rests on counts of an earlier one.
    """
    if not rests:
        return np.where(certain, EXACT, REPLICATES).astype(np.int8)
    return np.select([certain, errors.second == 0], [EXACT, NOT_COVERED], GIVEN).astype(np.int8)


def exact_columns(table: Table, schema: Schema, queries: Sequence[Query]) -> Mask:
    """Which columns are sums of exact answers to one of the ``queries``, or of impossible cells
    alone, ``(columns,)``.
    """
    possible = schema.possible
    out = np.zeros(len(table.columns), dtype=bool)
    for q in queries or (schema.query("total"),):
        pairs = np.unique(
            table.query.index[possible].astype(np.int64) * q.answers + q.index[possible]
        )
        mine, theirs = np.divmod(pairs, q.answers)
        every = np.bincount(theirs, minlength=q.answers)
        for j in range(len(out)):
            times = table.times(j)[mine]
            counted = np.bincount(theirs, weights=times > 0, minlength=q.answers)
            whole = ((counted == 0) | (counted == every)).all() and not table.repeats(j)
            out[j] |= bool(not times.any() or (queries and whole))
    return out
