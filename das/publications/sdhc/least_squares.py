r"""Least squares of all answers of the nation and its states, under the identities that hold
exactly.

Tables that truncate once count the same persons, so that in each region

* each cell for all is the sum of those of A to G (``PH1_num`` for all counts everybody where
  nothing is left out of it: then ``excess`` of that age is in it, too);
* ``PH1_num`` and ``PH7`` have equal sums for each iteration, and ``PH2`` that of all;
* own children of ``PH3`` by type of family are sums of ``PH6`` over ages;
* where ``PH1_num`` for all counts everybody, its children are those of ``PH3`` and
  ``excess_children``;
* ``PH1_denom`` is the sum of ``PH8_denom``;

and the answers of the nation are sums over its states. Other unbiased measurements of sums of answers
(:class:`FurtherSums`, of the DHC) add their information. With N a basis of the answers that the
identities allow, :math:`y = N u`, a region says of u: precision :math:`J = N^T V^{-1} N` and
:math:`h = N^T V^{-1} z`, where what is not measured has :math:`V^{-1} = 0`.

All n states have the same noise, so the same J. The sum of n independent Gaussians of precision J
has precision J/n, and the potential :math:`\sum h / n` (also where J is singular). So the nation is

.. math:: (J_N + J/n)\, u_N = h_N + \tfrac1n \textstyle\sum_s h_s,

with covariance :math:`C_N`, and each state takes an equal part of what the sum changes by:
:math:`u_s + (u_N - \sum u)/n`, with covariance :math:`C - C/n + C_N/n^2`, as :math:`C (nC)^{-1} =
1/n`. The tests hold it against one dense system of all regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from das.model.frozen import Frozen
from das.publications.sdhc.model.published import CellEstimate, PublishedCell
from das.publications.sdhc.model.tables import (
    EXCESS,
    EXCESS_CHILDREN,
    GROUPS,
    ITERATIONS,
    STATE,
    TABLES,
    USA,
    FurtherSums,
    MeasuredRegions,
    answers,
    column,
)

Array = NDArray[np.float64]
#: Directions of less precision, of the largest, are not known.
_NOTHING = 1e-11
_SEEN = 1e-6


@dataclass(frozen=True, eq=False)
class RegionEstimates(Frozen):
    """The estimates for the ``regions`` of a ``level``: answers ``values`` ``(regions, answers)``,
    the ``covariance`` ``(answers, answers)`` that all regions share, and which answers are
    ``known``."""

    level: str
    regions: tuple[str, ...]
    values: Array
    covariance: Array
    known: NDArray[np.bool_]


def identities(whole: bool) -> Array:
    """Each row of answers whose sum is 0. ``whole``: ``PH1_num`` for all leaves nobody out."""
    rows: list[dict[int, int]] = []

    def row(plus: Sequence[int], minus: Sequence[int]) -> None:
        rows.append(dict.fromkeys(plus, 1) | dict.fromkeys(minus, -1))

    def cells(table: str, iteration: str) -> list[int]:
        return [column(table, iteration, c) for c in TABLES[table].cells]

    def beyond(table: str, cell: int) -> list[int]:
        return [column(EXCESS, "*", cell)] if whole and table == "PH1_num" else []

    for t in TABLES.values():
        for c in t.cells if t.grouped else ():
            races = [column(t.name, i, c) for i in GROUPS["A-G"]]
            row([column(t.name, "*", c)], [*races, *beyond(t.name, c)])
    for i in ITERATIONS:
        extra = cells(EXCESS, "*") if whole and i == "*" else []
        row(cells("PH1_num", i), [*cells("PH7", i), *extra])
        row(cells("PH1_denom", i), cells("PH8_denom", i))
    row(cells("PH2", "*"), cells("PH7", "*"))
    if whole:
        row([column("PH1_num", "*", 2)], [*cells("PH3", "*"), *cells(EXCESS_CHILDREN, "*")])
    for family in range(4):
        ages = [column("PH6", "*", 3 + 5 * family + band) for band in range(4)]
        row([column("PH3", "*", 4 + family)], ages)
    out = np.zeros((len(rows), len(answers())))
    for n, found in enumerate(rows):
        out[n, list(found)] = list(found.values())
    return out


@cache
def _basis(whole: bool) -> Array:
    """Columns that span what the identities allow, orthonormal."""
    constraints = identities(whole)
    _, singular, directions = np.linalg.svd(constraints)
    rank = int((singular > 1e-9).sum())
    out: Array = directions[rank:].T
    return out


def _information(
    m: MeasuredRegions, basis: Array, more: Sequence[FurtherSums]
) -> tuple[Array, Array]:
    """J, and h of each region ``(regions, directions)``."""
    weight = np.where(np.isfinite(m.variance), 1 / m.variance, 0.0)
    j, h = (basis.T * weight) @ basis, (m.values * weight) @ basis
    for sums in (s for s in more if s.level == m.level):
        seen = sums.weights @ basis
        precise = np.linalg.solve(sums.covariance, seen)
        j, h = j + seen.T @ precise, h + sums.values @ precise
    return j, h


def _solved(information: Array) -> tuple[Array, Array]:
    """The covariance of what is known, and a projection on it."""
    size, directions = np.linalg.eigh(information)
    kept = size > _NOTHING * size.max()
    q = directions[:, kept]
    return (q / size[kept]) @ q.T, q @ q.T


def estimated(
    levels: Sequence[MeasuredRegions], whole: bool, more: Sequence[FurtherSums] = ()
) -> tuple[RegionEstimates, ...]:
    """Estimates of the nation and of the states, from measurements of either or both, and from
    ``more`` sums of these. ``whole`` as in :func:`identities`."""
    basis, given = _basis(whole), {m.level: m for m in levels}
    nation, states = given.get(USA), given.get(STATE)
    if states is None:
        assert nation is not None
        return (alone(nation, whole, more),)
    j, h = _information(states, basis, more)
    n, (c, seen) = len(states.regions), _solved(j)
    u = h @ c
    j_n, h_n = j / n, h.sum(axis=0) / n
    if nation is not None:
        j_own, h_own = _information(nation, basis, more)
        j_n, h_n = j_n + j_own, h_n + h_own[0]
    c_n, seen_n = _solved(j_n)
    u_n = h_n @ c_n
    shift = seen @ (u_n - u.sum(axis=0)) / n
    within = seen @ c_n @ seen
    return (
        _estimates(USA, ("1",), u_n[None, :], c_n, seen_n, basis),
        _estimates(STATE, states.regions, u + shift, c - c / n + within / n**2, seen, basis),
    )


def alone(m: MeasuredRegions, whole: bool, more: Sequence[FurtherSums] = ()) -> RegionEstimates:
    """Each region by itself."""
    basis = _basis(whole)
    j, h = _information(m, basis, more)
    c, seen = _solved(j)
    return _estimates(m.level, m.regions, h @ c, c, seen, basis)


def _estimates(
    level: str, regions: tuple[str, ...], mean: Array, c: Array, seen: Array, basis: Array
) -> RegionEstimates:
    lost = basis - basis @ seen
    return RegionEstimates(
        level,
        regions,
        mean @ basis.T,
        basis @ c @ basis.T,
        np.asarray((lost**2).sum(axis=1) < _SEEN),
    )


def non_negative(e: RegionEstimates, most: int = 20_000) -> Array:
    r"""The nearest estimates without a negative answer, in the metric of their covariance C:
    :math:`x = z + C\lambda`, with :math:`\lambda \ge 0`, and :math:`x_i = 0` wherever
    :math:`\lambda_i > 0`. The method cycles through the negative answers (Hildreth). The estimates
    keep every identity in a region, but not the sum over states."""
    out = e.values.copy()
    c = e.covariance
    can = e.known & (np.diag(c) > 0)
    for x in out:
        lam = np.zeros(len(x))
        for _ in range(most):
            active = np.flatnonzero(can & ((x < -1e-7) | (lam > 0)))
            moved = 0.0
            for i in active:
                step = max(-lam[i], -x[i] / c[i, i])
                lam[i] += step
                x += c[:, i] * step
                moved = max(moved, abs(step) * c[i, i])
            if moved < 1e-7:
                break
    return np.where(e.known, np.maximum(out, 0.0), out)


# Intervals of published cells, at 90 %.
#
# *Counts.* With the estimate z and its standard error s, :math:`[\max(0, z - c), \max(0, z + c)]`, c =
# 1.645 s: a count is not negative, so that cutting at 0 loses no true value.
#
# *Ratios* (Fieller). With covariance v of the sums above and below the line, n and d,
#
# .. math:: \{\theta: (n - \theta d)^2 \le c^2 (v_{nn} - 2\theta v_{nd} + \theta^2 v_{dd})\},
#
# which contains the true ratio as often as n - theta d is within c of its standard errors, for any d.
# This set may not be an interval. Then the interval is its hull within the possible values of the
# ratio. If the hull is all of these values, nothing is known.

#: How often an interval holds the true value: as in the Census Bureau's S-DHC.
PUBLISHED_COVERAGE = 0.9
#: Standard errors of an interval.
WIDE = float(ndtri((1 + PUBLISHED_COVERAGE) / 2))


def combined(
    e: RegionEstimates, cells: Sequence[PublishedCell], most: float, fitted: Array
) -> list[CellEstimate]:
    """The estimate of each region and each of the ``cells`` that is known. ``most``: how many
    persons of a household are counted. ``fitted``: the estimates without a negative answer."""
    out = []
    for cell in cells:
        above = _weights(*cell.above, cell.iteration)
        below = None if cell.below is None else _weights(*cell.below, cell.iteration)
        used = above if below is None else above + below
        if not e.known[used > 0].all():
            continue
        for r, region in enumerate(e.regions):
            args = region, cell, e.values[r], fitted[r], e.covariance, above
            out.append(_count(*args) if below is None else _ratio(*args, below, most))
    return out


def _weights(table: str, cells: tuple[int, ...], iteration: str) -> Array:
    out = np.zeros(len(answers()))
    out[[column(table, iteration, c) for c in cells]] = 1
    return out


def _count(
    region: str, cell: PublishedCell, values: Array, fitted: Array, v: Array, above: Array
) -> CellEstimate:
    z, error = float(values @ above), sqrt(max(0.0, float(above @ v @ above)))
    low, high = max(0.0, z - WIDE * error), max(0.0, z + WIDE * error)
    return CellEstimate(region, cell, z, error, low, high, float(fitted @ above))


def _ratio(
    region: str,
    cell: PublishedCell,
    values: Array,
    fitted: Array,
    v: Array,
    above: Array,
    below: Array,
    most: float,
) -> CellEstimate:
    n, d = float(values @ above), float(values @ below)
    found = fieller(
        n,
        d,
        (float(above @ v @ above), float(above @ v @ below), float(below @ v @ below)),
        (cell.least, most),
    )
    low, high = found or (None, None)
    under = float(fitted @ below)
    shown = float(fitted @ above) / under if under > 0 else None
    return CellEstimate(region, cell, n / d if d > 0 else None, None, low, high, shown)


def fieller(
    n: float,
    d: float,
    v: tuple[float, float, float],
    within: tuple[float, float],
    wide: float = WIDE,
) -> tuple[float, float] | None:
    """The interval of n/d ``within`` two values, given variances and covariance ``v`` = (nn, nd,
    dd). ``None`` if it is the whole range, or empty."""
    c = wide**2
    a, b, e = d * d - c * v[2], n * d - c * v[1], n * n - c * v[0]
    # the ratios t with a t^2 - 2 b t + e <= 0
    root = sqrt(max(0.0, b * b - a * e))
    if a > 0:
        parts = [((b - root) / a, (b + root) / a)]
    elif a < 0 and b * b > a * e:
        parts = [(-inf, (b + root) / a), ((b - root) / a, inf)]
    else:
        parts = [(-inf, inf)]
    least, most = within
    inside = [(max(x, least), min(y, most)) for x, y in parts if max(x, least) <= min(y, most)]
    if not inside:
        return None
    low, high = min(x for x, _ in inside), max(y for _, y in inside)
    return None if (low, high) == (least, most) else (low, high)
