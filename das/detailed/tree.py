r"""Counts that add up, region by region: least squares over a tree, up and down.

A parent is the sum of its children, for each iteration by itself. Independent unbiased estimates go
up and down the tree once (Kalman, Rauch, Tung and Striebel), with one number for each region and
iteration:

*up*, :math:`u = \alpha\,\sum_c u_c + (1-\alpha)\,y` for a parent that was itself measured as y,
weighted by inverse variances; *down*, :math:`\hat x_c = u_c + \kappa_c(\hat x - \sum_c u_c)`,
:math:`\kappa_c = p_c / \sum_c p_c`. So children add up to their parent.

Weights come from *working* variances. These are functions of the sizes of tables, which are public
before any noise is used; with weights that depend on the noise, estimates would be biased. The
*true* variance of the same weighted sum is computed, too (:mod:`das.detailed.combine`). The two
differ only near thresholds. The true variance is exact, because the combined estimates are
independent.

All arrays are ``(regions, iterations)``. :mod:`das.detailed.joint` does the same where the regions
of a family share more than a total."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KnownTotals(Frozen):
    """Estimates, the variances that they are weighted by (infinite where nothing is known), and
    those that they have.
    """

    value: Floats
    work: Floats
    true: Floats

    def rows(self, some: slice | NDArray[np.int64] | tuple[NDArray[np.int64], ...]) -> KnownTotals:
        return KnownTotals(self.value[some], self.work[some], self.true[some])

    @staticmethod
    def nothing(shape: tuple[int, ...]) -> KnownTotals:
        return KnownTotals(np.zeros(shape), np.full(shape, np.inf), np.zeros(shape))


def met(one: KnownTotals, other: KnownTotals) -> KnownTotals:
    """Two estimates of the same, which are independent, as one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        a = 1 / (1 + one.work / other.work)  # the weight of the one
    a = np.where(np.isinf(one.work), 0.0, np.where(np.isinf(other.work), 1.0, a))
    work = np.where(a > 0, a * np.where(a > 0, one.work, 0.0), other.work)
    return KnownTotals(
        other.value + a * (one.value - other.value),
        work,
        a**2 * one.true + (1 - a) ** 2 * other.true,
    )


def added(children: KnownTotals, parent: NDArray[np.int64], parents: int) -> KnownTotals:
    """The sums of children, ``parent`` of each in order, ``(parents, iterations)``; 0 of a parent
    without children.
    """
    first = np.flatnonzero(np.diff(parent, prepend=-1))
    out = []
    for x in (children.value, children.work, children.true):
        sums = np.zeros((parents, x.shape[1]))
        if len(first):
            sums[parent[first]] = np.add.reduceat(x, first, axis=0)
        out.append(sums)
    return KnownTotals(*out)


def shared(
    children: KnownTotals, sums: KnownTotals, final: KnownTotals, parent: NDArray[np.int64]
) -> KnownTotals:
    """The final estimates of children, given the estimates ``children`` from their own subtrees and
    the ``final`` estimates of their parents.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(sums.work > 0, 1 / sums.work, 0.0)
        alpha = final.work * part  # how far the sum of the children is in the parent
        kappa = children.work * part[parent]
        value = children.value + kappa * (final.value - sums.value)[parent]
        work = children.work - kappa**2 * (sums.work - final.work)[parent]
        both = (1 - 2 * alpha) * sums.true + final.true
        true = (
            children.true
            - 2 * kappa * (1 - alpha)[parent] * children.true
            + kappa**2 * both[parent]
        )
    return KnownTotals(value, np.maximum(work, 0.0), np.maximum(true, 0.0))
