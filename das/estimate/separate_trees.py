"""Several trees that share no measurement, estimated one by one from sparse measurements.

Published files can hold some states, or some counties, without a unit above them that is measured.
What is exact of each unit is known of the roots too. So nothing that is measured of one root says
anything of another: each tree has its own least squares, and together they have the same estimates
as one by one. Units of a level stand in the order of their parents, so those of one tree are
consecutive at every level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress
from das.estimate.fixed_counts import FixedCounts
from das.estimate.outer import OuterEstimates, refined
from das.estimate.upward import Upward
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.solution import Certificates
from das.model.sparse_measurement import SparseSource
from das.model.spine import Spine
from das.model.strategy import OuterPass

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SeparateTree(Frozen):
    """One tree: its ``spine``, and at each of its levels the number that its first unit has among
    all."""

    spine: Spine
    first: tuple[int, ...]

    @property
    def lowest(self) -> slice:
        """Its lowest units among all."""
        return slice(self.first[-1], self.first[-1] + len(self.spine.codes[-1]))


def separate_trees(spine: Spine, depth: int) -> Iterator[SeparateTree]:
    """The trees whose roots are the units at some ``depth``; at 0 the whole."""
    levels = spine.levels[depth:]
    homes = [spine.up(level, levels[0]) for level in levels]
    for root in range(spine.units(levels[0])):
        here = [(np.searchsorted(h, root), np.searchsorted(h, root, "right")) for h in homes]
        first = tuple(int(a) for a, _ in here)
        codes = [c[a:b] for c, (a, b) in zip(spine.codes[depth:], here, strict=True)]
        parents = [np.zeros(1, dtype=np.int64)]
        parents += [
            spine.parent[depth + i][a:b] - first[i - 1] for i, (a, b) in enumerate(here) if i
        ]
        yield SeparateTree(Spine(levels, tuple(codes), tuple(parents)), first)


class TreeAnswers:
    """A :class:`das.model.sparse_measurement.SparseSource` of one tree, from that of all."""

    def __init__(self, source: SparseSource, tree: SeparateTree) -> None:
        self._source, self._tree, self.queries = source, tree, source.queries

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return self._tree.spine.units(level), self._source.shape(level, query)[1]

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        first = self._first(level)
        return self._source.variance(level, query)[first : first + self._tree.spine.units(level)]

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        return self._source.answers(level, query, units + self._first(level), cells)

    def _first(self, level: str) -> int:
        return self._tree.first[self._tree.spine.index(level)]


@dataclass(frozen=True, eq=False)
class ExactCounts(Frozen):
    """What is exact of the lowest units of all trees: the ``counts`` that answer ``query``, and
    where somebody can live, ``able`` ``(units, levels)`` of the schema's first attribute."""

    query: str
    counts: Histogram
    able: NDArray[np.bool_]


def estimated(
    source: SparseSource,
    tree: SeparateTree,
    schema: Schema,
    outer: Sequence[OuterPass],
    exact: ExactCounts,
    pool: Executor | None = None,
    progress: Progress | None = None,
) -> OuterEstimates:
    """One tree, from a source of its own units (:func:`das.estimate.outer.refined`); an only
    child's measurements are its parent's. ``exact`` is of all trees. Raises as ``refined`` does."""
    here = tree.lowest
    counts = exact.counts.rows(here.start, here.stop)
    fixed = FixedCounts.of(schema, exact.query, counts, tree.spine, exact.able[here])
    return refined(Upward(source, tree.spine), tree.spine, schema, outer, fixed, pool, progress)


def joined(parts: Sequence[OuterEstimates]) -> OuterEstimates:
    """The estimates of all trees, level by level."""
    counts, worst = {}, {}
    for level in parts[0].counts:
        counts[level] = Histogram.concatenate([p.counts[level] for p in parts])
        every = Certificates()
        for p in parts:
            every = every.merge(p.certificates[level])
        worst[level] = every
    return OuterEstimates(counts, worst)
