r"""Unbiased estimates of sums of cells over areas, from all measurements of a tree, with their
exact variances: one pass up.

Let :math:`f` be the sum over the part of an area that is in unit u. Given :math:`x_u` it has mean
:math:`g_u'x_u + m_u` and variance :math:`v_u`. At a lowest unit inside, g is the sum's weights and
m = v = 0. Given their sum, children have covariances :math:`[c = d]\,C_c - C_c S^{+} C_d` and means
:math:`\mu_c + C_c S^{+} (x_u - s_u)` (:mod:`das.estimate.areas.subtrees`). Hence, with :math:`y_c =
C_c g_c` and :math:`y = \sum y_c`, over the children with a part of the area,

.. math:: g_u = S^{+} y,\quad v_u = \sum (v_c + g_c'y_c) - y'g_u,\quad m_u = \sum (m_c + g_c'\mu_c) - g_u's_u,

and in the end :math:`\hat f = m + g'\mu`, :math:`\mathrm{Var} \hat f = v + g'Cg` of the root. These
are the best linear unbiased estimate and its variance: dense generalised least squares, without its
matrix. A unit wholly inside has the weights and nothing else, so only units that a border cuts cost
anything. All of it happens on the few directions of the cells that the sums need
(:mod:`das.estimate.areas.directions`). It is a function of the measurements, whatever a release was
made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate.areas.directions import Array, Directions, Ints
from das.estimate.areas.pieces import Pieces, pieces
from das.estimate.areas.subtrees import AreaAlgebra, Below, Lowest, SubtreeMoments, pseudo_inverse
from das.estimate.contrasts import Contrasts
from das.estimate.margins_of_error import MOST
from das.fold import Tiers, top
from das.model.level_bounds import LevelBounds
from das.model.measurement import MeasurementSource
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine


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
        InputError: axes with too many levels to be decomposed.
    """
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
    contrasts = Contrasts.of(schema, every)
    if contrasts.d > MOST:
        raise InputError(
            f"queries of this schema tell {contrasts.d:,} combinations of levels apart",
            where=f"schema {schema.name}",
            remedy=f"areas are estimated for up to {MOST}",
        )
    to, tiers = Directions.of(contrasts, columns), Tiers.of_bounds(spine, bounds)
    return AreaAlgebra(source, spine, bounds, queries, known, to, tiers)


@dataclass(frozen=True, eq=False)
class _OfPieces:
    """What is known of the pieces of a tier: ``slope`` g ``(pieces, products, d)``; ``rest`` v,
    ``mean`` m ``(pieces, columns)``.
    """

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
    y, v, m = (
        np.zeros((len(above), *to.weight.shape)),
        np.zeros((len(above), to.columns)),
        np.zeros((len(above), to.columns)),
    )
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
    y, v, m = (
        np.zeros((len(above), *to.weight.shape)),
        np.zeros((len(above), to.columns)),
        np.zeros((len(above), to.columns)),
    )
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
