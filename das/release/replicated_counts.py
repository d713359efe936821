"""Counts of one table, of the release and of its replicates, and the intervals that follow from them. Like ``das.release.post``, nothing
here can see the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.level_bounds import LevelBounds
from das.model.spine import Spine
from das.release.replicated import BY_TRUTH
from das.replicates import ReplicateErrors, ReplicateInterval, interval
from das.replicates.by_truth import ShownCounts, regions
from das.tables import Table

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: Values of a table that are held at once, of each sum.
BATCH = 1 << 22
#: From which unit on, published values, the errors of the replicates and the intervals, ``(units, columns)`` each.
CountedIntervals = tuple[int, Ints, ReplicateErrors, ReplicateInterval]


@dataclass(frozen=True, eq=False)
class ReplicatedCounts(Frozen):
    """Of units of one level that follow each other: the release, the first of ``found``, and its replicates; of the level ``above``, if
    there is one, the same, and the ``parent`` there of each unit. Where ``bounds`` forbid a unit to have any, a count is none by
    structure. Walked some units at a time."""

    table: Table
    found: Sequence[Histogram]
    above: Sequence[Histogram] | None
    parent: Ints
    bounds: LevelBounds | None = None

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
        return ReplicatedCounts(table, [of[level] for of in levels], above, spine.parent[depth], bounds)

    def intervals(self, coverage: float, rule: str) -> Iterator[CountedIntervals]:
        """In the order of the units. By the rule that holds by true value, the units must be all of their level."""
        by_truth = regions(self, len(self.table.columns), coverage) if rule == BY_TRUTH else None
        for start, stop in self._slices():
            value = self._values(self.found[0], start, stop)
            spread = ReplicateErrors.over(value, (self._values(h, start, stop) for h in self.found[1:]))
            made = interval(value, spread, coverage, "ct" if by_truth else rule)
            if by_truth:
                made = by_truth.widened(made, self._shown(0, start, stop), self._able(start, stop))
            yield start, value, spread, made

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
            above = self.table.values(self.above[number].rows(first, int(parent[-1]) + 1))[parent - first]
        return ShownCounts(value, above, here.totals())

    def _able(self, start: int, stop: int) -> Mask:
        """Where a count may be positive by the bounds, ``(units, columns)``."""
        if self.bounds is None:
            return np.ones((stop - start, len(self.table.columns)), dtype=bool)
        _, upper = self.bounds.limits.some(slice(start, stop))
        able: Mask = ((upper > 0).astype(np.int64) @ self._room) > 0
        return able if self.bounds.total is None else able & (self.bounds.total[start:stop, None] > 0)

    @cached_property
    def _room(self) -> Ints:
        """How often each column counts the cells of each group of the bounds, ``(groups, columns)``."""
        assert self.bounds is not None
        cell = np.flatnonzero(self.bounds.possible)
        each = Histogram.of(
            self.bounds.groups, len(self.bounds.possible), self.bounds.group[cell], cell, np.ones_like(cell)
        )
        return self.table.values(each)
