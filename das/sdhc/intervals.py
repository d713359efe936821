r"""Intervals of published cells, at 90 %.

*Counts.* With the estimate z and its standard error s, :math:`[\max(0, z - c), \max(0, z + c)]`, c =
1.645 s: a count is not negative, so that cutting at 0 loses no true value.

*Ratios* (Fieller). With covariance v of the sums above and below the line, n and d,

.. math:: \{\theta: (n - \theta d)^2 \le c^2 (v_{nn} - 2\theta v_{nd} + \theta^2 v_{dd})\},

which contains the true ratio as often as n - theta d is within c of its standard errors, for any d.
This set may not be an interval. Then the interval is its hull within the possible values of the
ratio. If the hull is all of these values, nothing is known."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from das.model.sdhc.published import CellEstimate, PublishedCell
from das.model.sdhc.tables import answers, column
from das.sdhc.least_squares import RegionEstimates

COVERAGE = 0.9
#: Standard errors of an interval.
WIDE = float(ndtri((1 + COVERAGE) / 2))
Array = NDArray[np.float64]


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
