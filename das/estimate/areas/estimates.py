r"""Unbiased estimates of sums of cells over areas, from all measurements of a tree, with their
exact variances: one pass up.

Let :math:`f` be the sum over the part of an area that is in unit u. Given :math:`x_u` it has mean
:math:`g_u'x_u + m_u` and variance :math:`v_u`. At a lowest unit inside, g is the sum's weights and
m = v = 0. Given their sum, children have covariances :math:`[c = d]\,C_c - C_c S^{+} C_d` and means
:math:`\mu_c + C_c S^{+} (x_u - s_u)` (:mod:`das.estimate.areas.subtrees`). Hence, with :math:`y_c =
C_c g_c` and :math:`y = \sum y_c`, over the children with a part of the area,

.. math:: g_u = S^{+} y,\quad v_u = \sum (v_c + g_c'y_c) - y'g_u,\quad m_u = \sum (m_c + g_c'\mu_c) - g_u's_u,

and in the end :math:`\hat f = m + g'\mu`, :math:`\mathrm{Var} \hat f = v + g'Cg` of the root. These
are the best linear unbiased estimate and its variance: dense generalized least squares, without its
matrix. A unit wholly inside has the weights and nothing else, so only units that a border cuts cost
anything. All of it happens on the few directions of the cells that the sums need
(:mod:`das.estimate.areas.directions`). It is a function of the measurements, whatever a release was
made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate.areas.directions import Directions
from das.estimate.areas.subtrees import AreaAlgebra, Below, Lowest, SubtreeMoments, pseudo_inverse
from das.estimate.information import Contrasts
from das.estimate.margins_of_error import MOST
from das.fold import Tiers, top
from das.model.constraint import LevelBounds
from das.model.measurement import MeasurementSource
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine

# What areas have of the units of each level: only units that a border cuts are taken apart.

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Of one level, arrays ``(pieces,)``: piece i is what area ``area[i]`` has of unit ``unit[i]``,
    all of it where ``whole[i]``. ``up[i]``: the piece of the level above that it is in. A whole
    piece is the last on its way down: what is below it is not listed. Those of the root have ``up``
    0, and mean nothing by it."""

    area: Ints
    unit: Ints
    whole: NDArray[np.bool_]
    up: Ints

    def __len__(self) -> int:
        return len(self.area)


def pieces(parents: Sequence[Ints], area: Ints, unit: Ints) -> list[Pieces]:
    """Of each level, root first, where lowest unit ``unit[i]`` is in area ``area[i]``, no pair
    twice. ``parents``: of each level, root first, the number of each unit's parent."""
    out: list[Pieces] = []
    whole = np.ones(len(unit), dtype=bool)
    for depth in range(len(parents) - 1, 0, -1):
        n = len(parents[depth - 1])
        children = np.bincount(parents[depth], minlength=n)
        pairs, at = np.unique(area * n + parents[depth][unit], return_inverse=True)
        inside = np.bincount(at, weights=whole, minlength=len(pairs)) == children[pairs % n]
        _keep(out, ~inside[at], area, unit, whole, at)
        area, unit, whole = pairs // n, pairs % n, inside
    _keep(
        out, np.ones(len(unit), dtype=bool), area, unit, whole, np.zeros(len(unit), dtype=np.int64)
    )
    return out[::-1]


def _keep(
    out: list[Pieces],
    keep: NDArray[np.bool_],
    area: Ints,
    unit: Ints,
    whole: NDArray[np.bool_],
    up: Ints,
) -> None:
    """Add a level; the one below it, if any, now knows the numbers of its pieces."""
    if out:
        low = out[-1]
        out[-1] = Pieces(low.area, low.unit, low.whole, (np.cumsum(keep) - 1)[low.up])
    out.append(Pieces(area[keep], unit[keep], whole[keep], up[keep].astype(np.int64)))


@dataclass(frozen=True, eq=False)
class AreaEstimates:
    """Of areas and columns, ``(areas, columns)``: the unbiased ``value`` and its ``variance``; both
    NaN where nothing measured at the lowest level tells the column."""

    value: Array
    variance: Array


def estimates(
    source: MeasurementSource,
    spine: Spine,
    bounds: Mapping[str, LevelBounds],
    schema: Schema,
    columns: NDArray[np.bool_],
    area: Ints,
    unit: Ints,
    areas: int,
    exact: Mapping[str, Query] | None = None,
) -> AreaEstimates:
    """Of sums of cells ``columns`` ``(columns, cells)`` over areas: lowest unit ``unit[i]`` of
    ``spine`` is in area ``area[i]`` of ``areas``, no pair twice. ``exact``: at levels whose bounds
    are exact, the query whose answers these are.

    Raises:
        InputError: axes with too many levels to be decomposed."""
    subtrees = _subtrees(source, spine, bounds, schema, columns, exact or {})
    to, cut = subtrees.directions, pieces(subtrees.tiers.parents, area, unit)
    root, parts = _root(subtrees, cut)
    value, variance = np.zeros((areas, len(columns))), np.zeros((areas, len(columns)))
    value[cut[0].area] = parts.mean + to.dot(parts.slope, root.mean)
    spread = np.einsum("npi,npi->np", parts.slope, to.weigh(root.covariance, parts.slope))
    variance[cut[0].area] = np.maximum(parts.rest + to.add_up(spread), 0.0)
    value[:, subtrees.unseen], variance[:, subtrees.unseen] = np.nan, np.nan
    return AreaEstimates(value, variance)


def _subtrees(
    source: MeasurementSource,
    spine: Spine,
    bounds: Mapping[str, LevelBounds],
    schema: Schema,
    columns: NDArray[np.bool_],
    exact: Mapping[str, Query],
) -> AreaAlgebra:
    queries = {level: {q: schema.query(q) for q in source.queries(level)} for level in spine.levels}
    total = schema.query("total")
    known = {
        level: exact.get(level, total) if bounds[level].exact else total
        for level in spine.levels
        if bounds[level].total is not None
    }
    every = [*(q for some in queries.values() for q in some.values()), *known.values()]
    contrasts = Contrasts.for_queries(schema, every)
    if contrasts.d > MOST:
        raise InputError(
            f"queries of this schema tell {contrasts.d:,} combinations of levels apart",
            where=f"schema {schema.name}",
            remedy=f"areas are estimated for up to {MOST}",
        )
    to, tiers = Directions.for_columns(contrasts, columns), Tiers.of_bounds(spine, bounds)
    return AreaAlgebra(source, spine, bounds, queries, known, to, tiers)


@dataclass(frozen=True, eq=False)
class _OfPieces:
    """What is known of the pieces of a tier: ``slope`` g ``(pieces, products, d)``; ``rest`` v,
    ``mean`` m ``(pieces, columns)``."""

    slope: Array
    rest: Array
    mean: Array


@dataclass(frozen=True, eq=False)
class _Cut:
    """The steps of the way up (:mod:`das.fold`): of units, and of what areas have of them."""

    subtrees: AreaAlgebra
    pieces: list[Pieces]

    def condition(
        self, tier: int, told: tuple[Below, _OfPieces]
    ) -> tuple[SubtreeMoments, _OfPieces]:
        return self.subtrees.condition(tier, told[0]), told[1]

    def combine(
        self, tier: int, known: tuple[SubtreeMoments, _OfPieces]
    ) -> tuple[Below, _OfPieces]:
        below, here = self.subtrees.combine(tier, known[0]), self.pieces[tier]
        to, above = self.subtrees.directions, self.pieces[tier - 1]
        return below, _of_tier(to, *known, here, above, below)


def _root(subtrees: AreaAlgebra, cut: list[Pieces]) -> tuple[SubtreeMoments, _OfPieces]:
    """What the root says, and what is known of the areas given the root."""
    to, last = subtrees.directions, len(cut) - 1
    lowest, below = subtrees.lowest()
    if not last:
        said = subtrees.ended(0, SubtreeMoments(below.covariance, below.mean, below.chains))
        nothing = np.zeros((len(cut[0]), to.columns))
        return said, _OfPieces(
            np.broadcast_to(to.weight, (len(cut[0]), *to.weight.shape)), nothing, nothing
        )
    parts = _of_lowest(to, lowest, cut[last], cut[last - 1], below)
    return top(_Cut(subtrees, cut), (below, parts), last - 1)


def _of_lowest(
    to: Directions, lowest: Lowest, here: Pieces, above: Pieces, below: Below
) -> _OfPieces:
    """The pieces above the lowest units: of ten thousand of these a dozen kinds."""
    kinds = max(len(lowest.covariance), 1)
    moved = to.weigh(
        lowest.covariance, np.broadcast_to(to.weight, (len(lowest.covariance), *to.weight.shape))
    )
    spread = to.add_up(np.einsum("pi,kpi->kp", to.weight, moved))
    pair, count = np.unique(here.up * kinds + lowest.kind[here.unit], return_counts=True)
    y = np.zeros((len(above), *to.weight.shape))
    v = np.zeros((len(above), to.columns))
    m = np.zeros((len(above), to.columns))
    np.add.at(y, pair // kinds, count[:, None, None] * moved[pair % kinds])
    np.add.at(v, pair // kinds, count[:, None] * spread[pair % kinds])
    np.add.at(m, here.up, lowest.told[here.unit])
    return _gathered(to, above, y, v, m, below)


def _of_tier(
    to: Directions,
    said: SubtreeMoments,
    parts: _OfPieces,
    here: Pieces,
    above: Pieces,
    below: Below,
) -> _OfPieces:
    moved = to.weigh(said.covariance[here.unit], parts.slope)
    y = np.zeros((len(above), *to.weight.shape))
    v = np.zeros((len(above), to.columns))
    m = np.zeros((len(above), to.columns))
    np.add.at(y, here.up, moved)
    np.add.at(v, here.up, parts.rest + to.add_up(np.einsum("npi,npi->np", parts.slope, moved)))
    np.add.at(m, here.up, parts.mean + to.dot(parts.slope, said.mean[here.unit]))
    return _gathered(to, above, y, v, m, below)


def _gathered(
    to: Directions, above: Pieces, y: Array, v: Array, m: Array, below: Below
) -> _OfPieces:
    """Of pieces, from sums over the pieces in them."""
    cut = np.flatnonzero(~above.whole)
    slope, rest, mean = np.empty_like(y), np.zeros_like(v), np.zeros_like(m)
    slope[above.whole] = to.weight
    units, at = np.unique(above.unit[cut], return_inverse=True)
    slope[cut] = to.weigh(pseudo_inverse(below.covariance[units])[at], y[cut])
    rest[cut] = v[cut] - to.add_up(np.einsum("npi,npi->np", slope[cut], y[cut]))
    mean[cut] = m[cut] - to.dot(slope[cut], below.mean[above.unit[cut]])
    return _OfPieces(slope, rest, mean)


# The variance of one additive count of areas, from the precisions of the units alone: before
# anything is measured.
#
# Each unit u measures the count with precision :math:`p_u`. Let :math:`v_u` be the variance of the
# count from the measurements of u and of the units below it. With full information it is
# :math:`1/(p_u + 1/\sum_c v_c)` over its children c. For the top-down descent, before
# non-negativity, it is :math:`1/p_u`. It is 0 where the count is known. Given the count of a unit, its children deviate from the split :math:`v_c/\sum v` by
# noise that is independent of all other families. So what an area has of u is linear in the count of
# u, with a slope :math:`b_u` and a rest of variance :math:`r_u`. For lowest units :math:`b = 1`
# inside, 0 outside, and :math:`r = 0`;
#
# .. math:: b_u = \frac{\sum_c b_c v_c}{\sum_c v_c}, \qquad
# r_u = \sum_c \bigl(r_c + b_c^2 v_c\bigr) - \frac{(\sum_c b_c v_c)^2}{\sum_c v_c},
#
# and the variance of the area's count is :math:`r + b^2 v` of the root. A unit inside has :math:`b =
# 1, r = 0`, one outside 0 and 0: only those that the border cuts cost anything
# (:mod:`das.estimate.areas.estimates`). An only child is its parent.

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _OneCount:
    """The steps of the way up (:mod:`das.fold`). What is known: v of units, infinite where that is
    nothing, and the slopes b and rests r of pieces. What is told: the sums of v; the same with 1
    for an only child without a measurement; and over the pieces in each piece the sums of b v and
    of r + b^2 v."""

    tiers: Tiers
    precision: Sequence[Array]
    cut: Sequence[Pieces]
    full_information: bool

    def condition(
        self, tier: int, told: tuple[Array, Array, Array, Array]
    ) -> tuple[Array, Array, Array]:
        below, family, moved, spread = told
        pieces = self.cut[tier]
        with np.errstate(divide="ignore"):
            v = 1.0 / (self.precision[tier] + (1.0 / below if self.full_information else 0.0))
        if self.tiers.total[tier] is not None:
            v = np.zeros_like(v)
        of, none = family[pieces.unit], np.zeros(len(pieces))
        part = np.divide(moved, of, out=none, where=of > 0)
        slope = np.where(pieces.whole, 1.0, part)
        return v, slope, np.where(pieces.whole, 0.0, spread - moved * slope)

    def combine(
        self, tier: int, known: tuple[Array, Array, Array]
    ) -> tuple[Array, Array, Array, Array]:
        parent, here, above = self.tiers.parents[tier], self.cut[tier], len(self.cut[tier - 1])
        v, slope, rest = known
        if (np.isinf(v) & ~self.tiers.alone[tier]).any():
            raise InputError(
                f"a unit of {self.tiers.level[tier] or 'a part'!r} with siblings is not measured",
                where="precisions of units",
            )
        counted = np.where(np.isinf(v), 1.0, v)
        one = counted[here.unit]
        return (
            _sums(parent, v, self.tiers.units(tier - 1)),
            _sums(parent, counted, self.tiers.units(tier - 1)),
            _sums(here.up, slope * one, above),
            _sums(here.up, rest + slope**2 * one, above),
        )


def _sums(home: Ints, weights: Array, homes: int) -> Array:
    return np.bincount(home, weights=weights, minlength=homes).astype(np.float64, copy=False)


def variances(
    tiers: Tiers,
    precision: Sequence[Array],
    cut: Sequence[Pieces],
    areas: int,
    *,
    full_information: bool,
) -> Array:
    """Of each of the ``areas``, ``(areas,)``. ``precision``: of each tier, root first, that of each
    unit, ``(units,)``, 0 where it is not measured. ``cut``: what the areas have of each tier.

    Raises:
        InputError: a unit with siblings of which nothing is measured."""
    last = len(tiers) - 1
    units, pieces = np.full(tiers.units(last), np.inf), np.zeros(len(cut[last]))
    way = _OneCount(tiers, precision, cut, full_information)
    v, slope, rest = top(way, (units, units, pieces, pieces), last)
    out = np.zeros(areas)
    out[cut[0].area] = rest + np.where(slope > 0, slope**2 * v[0], 0.0)
    return np.maximum(out, 0.0)
