r"""The variance of one additive count of areas, from the precisions of the units alone: before
anything is measured.

Each unit u measures the count with precision :math:`p_u`. Let :math:`v_u` be the variance of the
count from the measurements of u and of the units below it. With full information it is
:math:`1/(p_u + 1/\sum_c v_c)` over its children c. For the top-down descent, before
non-negativity, it is :math:`1/p_u`. It is 0 where the count is known. Given the count of a unit, its children deviate from the split :math:`v_c/\sum v` by
noise that is independent of all other families. So what an area has of u is linear in the count of
u, with a slope :math:`b_u` and a rest of variance :math:`r_u`. For lowest units :math:`b = 1`
inside, 0 outside, and :math:`r = 0`;

.. math:: b_u = \frac{\sum_c b_c v_c}{\sum_c v_c}, \qquad
          r_u = \sum_c \bigl(r_c + b_c^2 v_c\bigr) - \frac{(\sum_c b_c v_c)^2}{\sum_c v_c},

and the variance of the area's count is :math:`r + b^2 v` of the root. A unit inside has :math:`b =
1, r = 0`, one outside 0 and 0: only those that the border cuts cost anything
(:mod:`das.estimate.areas.pieces`). An only child is its parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate.areas.pieces import Pieces
from das.fold import Tiers, top

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


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


def _sums(home: Ints, of: Array, homes: int) -> Array:
    return np.bincount(home, weights=of, minlength=homes).astype(np.float64, copy=False)


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
        InputError: a unit with siblings of which nothing is measured.
    """
    last = len(tiers) - 1
    units, pieces = np.full(tiers.units(last), np.inf), np.zeros(len(cut[last]))
    way = _OneCount(tiers, precision, cut, full_information)
    v, slope, rest = top(way, (units, units, pieces, pieces), last)
    out = np.zeros(areas)
    out[cut[0].area] = rest + np.where(slope > 0, slope**2 * v[0], 0.0)
    return np.maximum(out, 0.0)
