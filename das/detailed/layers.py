"""What is measured of the regions of one type, as estimation takes it: totals from both stages, and
tables.

Several regions of the same blocks are one region that was measured several times: the first of
them, in the tree, is the *host*, and others are its *guests*. Their totals meet by the inverse of
variances, and their tables in the coarsest cells that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from das.detailed import joint
from das.detailed.combine import CombinedEstimate, combined
from das.detailed.joint import Belief
from das.detailed.tree import KnownTotals, met
from das.model.adaptive import FIRST, ONLY, AdaptiveTable, LevelPlan
from das.model.budget import PlannedMeasurement
from das.model.group_measurement import GroupMeasurement
from das.model.population import Iterations

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: The size of a group's table where the group is not measured.
NOT_THERE = -1


@dataclass(frozen=True, eq=False)
class LevelSource:
    """One level's measurements of some regions, and their plan."""

    plan: LevelPlan
    measured: GroupMeasurement

    @cached_property
    def sums(self) -> Ints:
        """The sum of each group's answers."""
        return np.add.reduceat(self.measured.values, self.measured.indptr[:-1])

    @cached_property
    def v2(self) -> float:
        return max(self.plan.measurement(self.plan.table.name).variance, 1e-12)

    @cached_property
    def v1(self) -> float:
        """The variance of the first stage; infinite if it is not used
        (:mod:`das.detailed.combine`)."""
        draw = self.plan.measurement(FIRST)
        return max(draw.variance, 1e-12) if draw.mechanism.power == 2 else np.inf

    @cached_property
    def windows(self) -> tuple[Floats, Floats]:
        """Between which numbers the first stage of each size is."""
        ends = np.array([-np.inf, *self.plan.thresholds, np.inf])
        return ends[:-1], ends[1:]


@dataclass(eq=False)
class Layer:
    """Regions ``(regions,)`` of a type and the iterations ``columns``. ``of`` says which source
    each column is of, or -1, and ``place`` where it is there."""

    kind: str
    table: AdaptiveTable
    regions: NDArray[np.bytes_]
    columns: NDArray[np.int32]
    sources: tuple[LevelSource, ...]
    of: NDArray[np.int8]
    place: Ints
    rows: Ints
    guests: list[tuple[Layer, Ints, Ints]] = field(default_factory=list)

    @staticmethod
    def made(
        kind: str,
        table: AdaptiveTable,
        regions: NDArray[np.bytes_],
        sources: Sequence[LevelSource],
        iterations: Iterations,
        columns: NDArray[np.int32],
        rows: Ints | None = None,
    ) -> Layer:
        """The layer of all ``regions`` of the ``sources``, or of some ``rows`` of them."""
        of, place = np.full(len(columns), -1, dtype=np.int8), np.zeros(len(columns), dtype=np.int64)
        for i, source in enumerate(sources):
            members = iterations.of(source.plan.at)
            here = np.isin(columns, members)
            of[here], place[here] = i, np.searchsorted(members, columns[here])
        rows = np.arange(len(regions)) if rows is None else rows
        return Layer(kind, table, regions[rows], columns, tuple(sources), of, place, rows)

    def __len__(self) -> int:
        return len(self.regions)

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        """Which columns are."""
        return self.of >= 0

    def parts(self) -> Iterator[tuple[LevelSource, Ints, Ints]]:
        """Each source, its columns here, and its groups ``(regions, columns)``."""
        for i, source in enumerate(self.sources):
            here = np.flatnonzero(self.of == i)
            if len(here):
                yield (
                    source,
                    here,
                    self.rows[:, None] * source.measured.iterations + self.place[here],
                )

    @cached_property
    def size(self) -> NDArray[np.int8]:
        """The size of each group's own table."""
        out = np.full((len(self), len(self.columns)), NOT_THERE, dtype=np.int8)
        for source, here, group in self.parts():
            out[:, here] = source.measured.size[group]
        return out

    @cached_property
    def own(self) -> tuple[KnownTotals, NDArray[np.bool_]]:
        """The estimate of each total from both stages, and where a threshold matters."""
        shape = len(self), len(self.columns)
        out, matters = KnownTotals.nothing(shape), np.zeros(shape, dtype=bool)
        value, work, true = (x.copy() for x in (out.value, out.work, out.true))
        for source, here, group in self.parts():
            found = _totals(source, group, self.place[here])
            value[:, here], work[:, here], true[:, here], matters[:, here] = (
                found.value,
                found.work,
                found.true,
                found.matters,
            )
        return KnownTotals(value, work, true), matters

    @cached_property
    def total(self) -> KnownTotals:
        """The estimates of totals, combined with those of the regions' guests."""
        out, _ = self.own
        value, work, true = (np.array(x) for x in (out.value, out.work, out.true))
        for guest, host, theirs in self.guests:
            at = np.ix_(host, np.flatnonzero(self.measured))
            both = met(
                KnownTotals(value[at], work[at], true[at]),
                guest.own[0].rows(np.ix_(theirs, at[1][0])),
            )
            value[at], work[at], true[at] = both.value, both.work, both.true
        return KnownTotals(value, work, true)

    @cached_property
    def node_size(self) -> NDArray[np.int8]:
        """The size of the largest table of each region, including its guests' tables."""
        out = self.size.copy()
        for guest, host, theirs in self.guests:
            out[host] = np.where(
                self.measured, np.maximum(out[host], guest.size[theirs]), out[host]
            )
        return out

    @cached_property
    def several(self) -> NDArray[np.bool_]:
        """Where a region has two tables of an iteration, under two names."""
        out = (self.size > 0).astype(np.int8)
        for guest, host, theirs in self.guests:
            out[host] += (guest.size[theirs] > 0) & self.measured
        return out > 1

    def group(self, row: int, column: int) -> tuple[LevelSource, int]:
        source = self.sources[self.of[column]]
        return source, int(self.rows[row]) * source.measured.iterations + int(self.place[column])

    def members(self, row: int, column: int) -> Iterator[tuple[Layer, int]]:
        """The region under each name that it is measured under, with this iteration."""
        if self.measured[column]:
            yield self, row
        for guest, host, theirs in self.guests:
            if guest.measured[column] and len(found := np.flatnonzero(host == row)):
                yield guest, int(theirs[found[0]])

    def state(self, row: int, column: int) -> Belief:
        """All tables and totals of one region and iteration, in the cells of its largest table."""
        found = sorted(self.members(row, column), key=lambda m: -m[0].size[m[1], column])
        first, *others = (_alone(layer, at, column) for layer, at in found)
        sizes = [int(layer.size[at, column]) for layer, at in found]
        for size, other in zip(sizes[1:], others, strict=True):
            first = joint.condition(first, coarser(self.table, sizes[0], size), other)
        return first


def _totals(source: LevelSource, group: Ints, place: Ints) -> CombinedEstimate:
    m, (low, high) = source.measured, source.windows
    size = m.size[group]
    only = np.broadcast_to(m.only[place], group.shape)
    answers = np.array(source.plan.table.answers, dtype=np.float64)
    vs = answers[size] * source.v2
    v1 = np.full(group.shape, source.v1)
    if only.any():
        vs = np.where(only, max(source.plan.measurement(ONLY).variance, 1e-12), vs)
        v1 = np.where(only, np.inf, v1)
    return combined(m.first[group], source.sums[group], low[size], high[size], v1, vs)


def _alone(layer: Layer, row: int, column: int) -> Belief:
    known, source, group = layer.own[0], *layer.group(row, column)
    m = source.measured
    cells = m.values[m.indptr[group] : m.indptr[group + 1]].astype(np.float64)
    total, work, true = (float(x[row, column]) for x in (known.value, known.work, known.true))
    return joint.of_group(cells, source.v2, total, work, true)


@lru_cache(maxsize=64)
def _coarser(fine: bytes, coarse: bytes) -> Floats:
    of, to = (np.frombuffer(x, dtype=np.int16) for x in (fine, coarse))
    out = np.zeros((int(to.max()) + 1, int(of.max()) + 1))
    out[to, of] = 1.0
    return out


def coarser(table: AdaptiveTable, fine: int, coarse: int) -> Floats:
    """Which answers of one size each answer of a coarser one is the sum of, ``(coarse, fine)``.

    >>> from das.model.adaptive import TENURE
    >>> coarser(TENURE, 1, 0)
    array([[1., 1., 1.]])
    """
    return _coarser(table.sizes[fine].tobytes(), table.sizes[coarse].tobytes())


def draw_of(source: LevelSource, only: bool) -> PlannedMeasurement:
    """The noise of a group's second stage."""
    return source.plan.measurement(ONLY if only else source.plan.table.name)
