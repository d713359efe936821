"""The noise that each column of a published table carries as it was measured, from the plan alone.

There is a number for each kind of measured unit, so published noise can be added up over any number
of parts: for ``das tables --noise`` and areas. The best linear estimate of a unit has at most this
variance (:mod:`das.estimate.margins_of_error`; a test compares the two). For a unit's own count and
interval, that estimate is right; it reads the measurements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from das.model import tabulation
from das.model.areas import Areas
from das.model.budget import ALL, QueryNoise
from das.model.frozen import Frozen
from das.model.measured_spine import Cover, MeasuredSpine
from das.model.query import Grouping, Query
from das.model.spine import Spine
from das.model.universe import Universe
from das.tables import Table

Floats = NDArray[np.float64]
#: By level the queries that are published exactly.
KnownQueries = Mapping[str, Sequence[str]]


@dataclass(frozen=True, eq=False)
class TableNoise(Frozen):
    """The noise of the columns of a table, as the units of ``tree`` were measured.

    By level, root first, ``kind`` ``(units,)`` numbers the rows of ``variance``
    ``(kinds, columns)``. ``exact`` ``(columns,)``: by level of the ``published`` spine, the columns
    that are known for its units."""

    tree: MeasuredSpine
    published: Spine
    kind: tuple[NDArray[np.int64], ...]
    variance: tuple[Floats, ...]
    exact: tuple[NDArray[np.bool_], ...]

    @staticmethod
    def of(
        universe: Universe, table: Table, tree: MeasuredSpine, published: Spine, exact: KnownQueries
    ) -> TableNoise:
        r"""A query tells a column if the column is the sum of some of its answers, :math:`n_q` of
        them, with variance :math:`n_q \sigma_q^2`. Noise of different queries is independent, so
        the mean of these sums, weighted by precision, has

        .. math:: 1 / \sum_q (n_q \sigma_q^2)^{-1} .

        Where the total is exact, the total less the other answers tells the column a second time. 0
        where the column follows from ``exact`` queries; infinite where no query tells it."""
        names = {n.query for n in universe.measurements} | {
            q for queries in exact.values() for q in queries
        }
        told = {name: _answers(table, universe.schema.query(name)) for name in names}
        kind, variance = [], []
        for level in tree.spine.levels:
            found = list(_kinds(universe, tree, published, exact, level))
            kind.append(np.argmax([units for units, _, _ in found], axis=0))
            variance.append(np.stack([_variance(told, noise, known) for _, noise, known in found]))
        sure = (
            (
                np.any([np.isfinite(told[name][0]) for name in exact[level]], axis=0)
                if exact[level]
                else np.zeros(len(table.columns), dtype=bool)
            )
            for level in published.levels
        )
        return TableNoise(tree, published, tuple(kind), tuple(variance), tuple(sure))

    def of_level(self, level: str) -> Floats:
        """Variances of the published units of a level, ``(units, columns)``: of each unit's own
        measurements or, where the units that were measured are others, of the sum over the fewest
        that make it up."""
        depth = self.published.index(level)
        if self.tree.alike:
            return self.variance[depth][self.kind[depth]]
        out = np.zeros((self.published.units(level), self.variance[0].shape[1]))
        cover = Cover.of(
            self.tree.spine,
            self.published.up(self.published.levels[-1], level)[self.tree.place],
            self.tree.measured,
        )
        for at, (kind, variance) in enumerate(zip(self.kind, self.variance, strict=True)):
            here = cover.depth == at
            np.add.at(out, cover.place[here], variance[kind[cover.unit[here]]])
        out[:, self.exact[depth]] = 0
        return out

    def of_areas(self, areas: Areas, columns: int) -> Floats:
        """Variances of the first ``columns`` of areas, ``(areas, columns)``: of the sums with the
        least noise.
        """
        each = (
            areas.noise(self.tree, [v[k, j] for k, v in zip(self.kind, self.variance, strict=True)])
            for j in range(columns)
        )
        return np.stack(list(each), axis=1)


def _kinds(
    universe: Universe, tree: MeasuredSpine, published: Spine, exact: KnownQueries, level: str
) -> Iterator[tuple[NDArray[np.bool_], list[QueryNoise], list[str]]]:
    """The units of a level that were measured alike and have the same exact counts: which units,
    their noise, exact queries.
    """
    lowest = {
        q: next(lv for lv in reversed(published.levels) if q in exact[lv]) for q in exact[level]
    }
    known = {q: tree.whole(level, of, published) for q, of in lowest.items()}
    for unit_class, units in tree.classes(level).items():
        asked = (ALL, unit_class) if unit_class != tabulation.UNMEASURED else (unit_class,)
        noise = [n for n in universe.measurements if n.level == level and n.unit_class in asked]
        for sure in (
            sorted(set(zip(*(k[units].tolist() for k in known.values()), strict=True)))
            if known
            else [()]
        ):
            same = np.all(
                [units, *(k == s for k, s in zip(known.values(), sure, strict=True))], axis=0
            )
            yield same, noise, [q for q, s in zip(known, sure, strict=True) if s]


def _variance(
    told: Mapping[str, tuple[Floats, Floats]], noise: Iterable[QueryNoise], exact: Sequence[str]
) -> Floats:
    """The variances of one unit's columns, ``(columns,)``."""
    precision = np.zeros(len(next(iter(told.values()))[0]))
    with np.errstate(divide="ignore"):
        for n in noise:
            inside, outside = told[n.query]
            precision += 1 / (inside * n.variance)
            if "total" in exact:
                precision += 1 / (outside * n.variance)
        for name in exact:
            precision[np.isfinite(told[name][0])] = np.inf
        return 1 / precision


def _answers(table: Table, query: Query) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By column, how many answers lie inside it, and how many outside; infinite where one lies
    across, or where the column counts records more than once.

    A cell of either query is a product of groups. So the overlap of an answer with the table's
    answers is the product of the overlaps of its groups with the table's groups. Groups with equal
    overlaps are computed once."""
    touched, alike = zip(*map(_touched, query.groupings, table.query.groupings), strict=True)
    size = reduce(np.multiply.outer, alike)
    number = np.empty(len(table.columns))
    for j in range(len(table.columns)):
        inside = table.times(j).reshape(table.query.shape)
        some, other = _any(inside > 0, touched), _any(inside == 0, touched)
        number[j] = np.inf if (some & other).any() or table.repeats(j) else size[some].sum()
    return number, np.where(np.isfinite(number), query.answers - number, np.inf)


def _touched(groups: Grouping, other: Grouping) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which groups of ``other`` have a level of a group, ``(patterns, groups of other)``, and how
    many groups have each pattern.
    """
    out = np.zeros((len(groups.groups), len(other.groups)), dtype=bool)
    out[list(groups.index), list(other.index)] = True
    patterns, number = np.unique(out, axis=0, return_counts=True)
    return patterns, number


def _any(inside: NDArray[np.bool_], touched: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Whether a product of patterns has anything inside: axis by axis."""
    for axis, patterns in enumerate(touched):
        inside = np.moveaxis(np.tensordot(inside, patterns, axes=(axis, 1)), -1, axis)
    return inside
