r"""The variance of one additive count of areas, from the precisions of the units alone: before
anything is measured.

Let each unit u tell the count with precision :math:`p_u`, and let :math:`v_u` be the variance of
what is known of it from itself and from below: with full information :math:`1/(p_u + 1/\sum_c v_c)`
over its children c; for the top-down descent, before non-negativity, :math:`1/p_u`; 0 where the
count is known. Given the count of a unit, its children deviate from the split :math:`v_c/\sum v` by
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

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate.areas.pieces import Pieces
from das.fold import Tiers

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    v = _known_of(tiers, precision, full_information)
    slope, rest = np.ones(len(cut[-1])), np.zeros(len(cut[-1]))
    for depth in range(len(tiers) - 1, 0, -1):
        here, above = cut[depth], cut[depth - 1]
        one = v[depth][here.unit]
        family = np.bincount(
            tiers.parents[depth], weights=v[depth], minlength=len(tiers.parents[depth - 1])
        )[above.unit]
        moved = np.bincount(here.up, weights=slope * one, minlength=len(above))
        spread = np.bincount(here.up, weights=rest + slope**2 * one, minlength=len(above))
        slope = np.where(
            above.whole, 1.0, np.divide(moved, family, out=np.zeros(len(above)), where=family > 0)
        )
        rest = np.where(above.whole, 0.0, spread - moved * slope)
    out = np.zeros(areas)
    out[cut[0].area] = rest + np.where(slope > 0, slope**2 * v[0], 0.0)
    return np.maximum(out, 0.0)


def _known_of(tiers: Tiers, precision: Sequence[Array], full_information: bool) -> list[Array]:
    """v of each unit, tier by tier. That of an only child without a measurement is 1: it counts for
    nothing.
    """
    out: list[Array] = []
    below = np.full(len(tiers.parents[-1]), np.inf)
    for depth in range(len(tiers) - 1, -1, -1):
        parent = tiers.parents[depth]
        with np.errstate(divide="ignore"):
            v = 1.0 / (precision[depth] + (1.0 / below if full_information else 0.0))
        if tiers.total[depth] is not None:
            v = np.zeros_like(v)
        if depth:
            number = np.bincount(parent)
            if (np.isinf(v) & (number[parent] > 1)).any():
                raise InputError(
                    f"a unit of {tiers.level[depth] or 'a part'!r} with siblings is not measured",
                    where="precisions of units",
                )
            below = np.bincount(parent, weights=v)
        out.append(np.where(np.isinf(v), 1.0, v) if depth else v)
    return out[::-1]
