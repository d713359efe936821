"""Counts of one table, of the release and of its replicates, and the intervals that follow from
them. Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.files.release.interval_rows import CountedIntervals
from das.model.count_range import count_range
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.level_bounds import LevelBounds
from das.model.query import Query
from das.model.schema import Schema
from das.release.replicate_source import BY_TABLE, BY_TRUTH
from das.replicates import ReplicateErrors, bases, interval
from das.replicates.by_table import factors
from das.replicates.by_truth import ShownCounts, rule_of
from das.tables import Table

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: Values of a table that are held at once, of each sum.
BATCH = 1 << 22


@dataclass(frozen=True, eq=False)
class ReplicatedCounts(Frozen):
    """Counts of consecutive units of one level: those of the release, which are the first of
    ``found``, and those of its replicates.

    If there is a level ``above``, it has the same counts and each unit's ``parent`` there.
    ``bounds`` of the units show which counts are certain, and where a count cannot be. Iteration
    takes some units at a time."""

    table: Table
    found: Sequence[Histogram]
    above: Sequence[Histogram] | None
    parent: Ints
    bounds: LevelBounds | None = None
    exact: Mask | None = None  #: columns that are known exactly where there are no bounds
    keeps_earlier_counts: bool = False  #: whether counts of an earlier release are the same in all

    def intervals(self, coverage: float, rule: str) -> Iterator[tuple[int, CountedIntervals]]:
        """In the order of the units, from which one on. By the rule that holds by true value, the
        units must be all of their level.
        """
        by_truth = rule_of(self, len(self.table.columns), coverage) if rule == BY_TRUTH else None
        for start, stop in self._slices():
            value, limits = self._values(self.found[0], start, stop), self.limits(start, stop)
            spread = ReplicateErrors.over(
                value, (self._values(h, start, stop) for h in self.found[1:])
            )
            able = self._able(start, stop)
            if by_truth:
                made = by_truth.interval(self._shown(0, start, stop), spread, able)
                made = made if limits is None else made.clipped(*limits)
            else:
                factor = factors(spread, able, coverage) if rule == BY_TABLE else None
                made = interval(value, spread, coverage, factor, within=limits)
            basis = bases(spread, ~able, earlier=self.keeps_earlier_counts)
            yield start, CountedIntervals(value, spread, made, basis)

    def limits(self, start: int, stop: int) -> tuple[Ints, Ints] | None:
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
        """What :func:`das.replicates.by_truth.rule_of` asks for."""
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
        limits, shape = self.limits(start, stop), (stop - start, len(self.table.columns))
        if limits is not None:
            return np.asarray(limits[0] < limits[1])
        return (
            np.ones(shape, dtype=bool)
            if self.exact is None
            else np.broadcast_to(~self.exact, shape)
        )


def exact_columns(table: Table, schema: Schema, queries: Sequence[Query]) -> Mask:
    """Which columns are sums of exact answers to one of the ``queries``, or of impossible cells
    alone, ``(columns,)``.
    """
    possible = schema.possible
    out = np.zeros(len(table.columns), dtype=bool)
    for q in queries or (schema.query("total"),):
        mine, theirs = _pairs(table.query, q, possible)
        every = np.bincount(theirs, minlength=q.answers)
        for j in range(len(out)):
            times = table.times(j)[mine]
            counted = np.bincount(theirs, weights=times > 0, minlength=q.answers)
            whole = ((counted == 0) | (counted == every)).all() and not table.repeats(j)
            out[j] |= bool(not times.any() or (queries and whole))
    return out


def _pairs(one: Query, other: Query, possible: Mask) -> tuple[Ints, Ints]:
    """The answers to both queries that some possible cell is in, in order."""
    pair = one.index.astype(np.int64) * other.answers + other.index
    if one.answers * other.answers <= len(pair):  # sorting them takes longer
        there = np.zeros(one.answers * other.answers, dtype=bool)
        there[pair[possible]] = True
        pairs = np.flatnonzero(there)
    else:
        pairs = np.unique(pair[possible])
    mine, theirs = np.divmod(pairs, other.answers)
    return mine, theirs
