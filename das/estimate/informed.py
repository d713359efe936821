r"""The constrained descent with full information.

As :mod:`das.estimate.topdown`, with one difference: a child is not represented by its own measurements but by
what its whole subtree says (:mod:`das.estimate.information`), the precision :math:`J_c` and right-hand side
:math:`h_c`:

.. math:: \min_{x \ge 0} \sum_c \tfrac12 x_c' J_c x_c - h_c' x_c \quad\text{subject to the same constraints.}

There are two passes, as in production and for the same reason (non-negativity must not leak into the totals):
first the children's totals, measured by :math:`1'\mu_c` with variance :math:`1'C_c 1`; then everything, with the
totals held to within the tolerance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from das.estimate.family import Array, Family, Method, NoisyAnswers, sum_to
from das.estimate.information import Information, posterior
from das.estimate.modes import Modes
from das.model.constraint import Bounds
from das.model.estimate import Estimate
from das.model.histogram import Histogram
from das.model.solution import Certificate


def estimate_children(
    modes: Modes,
    information: Information,
    method: Method,
    parents: Histogram,
    starts: NDArray[np.int64],
    bounds: Bounds,
) -> list[Estimate]:
    """The families of a batch, as in :func:`das.estimate.topdown.estimate_children`; ``information`` is that of
    the children."""
    out = []
    for i in range(parents.units):
        a, b = int(starts[i] - starts[0]), int(starts[i + 1] - starts[0])
        row = parents.rows(i, i + 1)
        family = _Informed(modes, information.rows(slice(a, b)), row.cell, row.count, bounds.rows(a, b))
        out.append(Estimate(int(starts[i]), row.cell, row.count, *family.solve(method)))
    return out


def estimate_root(modes: Modes, information: Information, method: Method, bounds: Bounds) -> Estimate:
    """The root, from everything below it."""
    cell = np.flatnonzero(bounds.possible & (bounds.upper[0, bounds.group] > 0))
    family = _Informed(modes, information, cell, None, bounds)
    return Estimate(0, cell, None, *family.solve(method))


#: How much of what is known of the total is taken out of the second pass, which holds the totals anyway: nearly
#: all, or the solver would chase a stiff direction that the constraints have settled (Rhode Island's root then takes
#: more than 20,000 iterations in place of 220); not all, to stay definite.
_HELD = 0.999
#: Beyond so many entries (children x cells^2) the children share their mean precision. What it decides is how
#: the difference between the parent and the sum of its children is shared out; among many children a share is small.
_LARGE = 1 << 22


class _Informed(Family):
    def __init__(
        self,
        modes: Modes,
        information: Information,
        cell: NDArray[np.int64],
        parent: NDArray[np.int64] | None,
        bounds: Bounds,
    ) -> None:
        super().__init__(cell, parent, bounds, {}, Certificate())
        self.modes, self.information = modes, information

    def _restricted(self, able: NDArray[np.bool_], bounds: Bounds) -> Family:
        return _Informed(self.modes, self.information.rows(able), self.cell, self.parent, bounds)

    def _passes(self, method: Method) -> Array:
        carried = []
        if self.parent is not None and self.bounds.total is None:
            total = self.modes.schema.query("total")
            c, mu = posterior(self.modes, self.information)
            flat = tuple(range(1, mu.ndim))
            variance = _variance_of_total(self.modes, c)
            answers = NoisyAnswers(total, mu.sum(axis=flat)[:, None], variance)
            x = self._solve([answers], [], method)
            carried.append((total, sum_to(x, total.index[self.cell], 1)))
        if self.parent is None and self.bounds.total is None:
            # no parent and no known total: the total is what everything below says it is
            mu = posterior(self.modes, self.information)[1]
            known = np.maximum(mu.sum(axis=tuple(range(1, mu.ndim))), self.bounds.lower.sum(axis=1))
            carried.append((self.modes.schema.query("total"), known[:, None]))
        group = self.bounds.group[self.cell]
        rows, lower, upper = self._group_rows(group)
        for _, target in carried:
            rows.append(np.ones((1, len(group))))
            lower.append(target - method.tolerance)
            upper.append(target + method.tolerance)
        gram, rhs = self._objective()
        return self._least_squares(gram, rhs, self.parent, group, rows, lower, upper, method)

    def _objective(self) -> tuple[Array, Array]:
        """Precision and right-hand side on the parent's cells, given the totals."""
        alone = replace(self.information, total=None)
        c, mu = posterior(self.modes, alone)
        inside = alone.support[:, None, :, None] & alone.support[:, None, None, :]
        precision = np.where(inside, alone.precision - _HELD * _total_part(self.modes, c), 0.0)
        # what a child cannot hold is 0 by constraint: any definite block will do there
        precision += np.eye(self.modes.d) * ~alone.support[:, None, None, :] * alone.precision[:, -1:].max()
        if len(c) * len(self.cell) ** 2 > _LARGE:
            precision = precision.mean(axis=0)
        rhs = self.modes.apply(precision, mu).reshape(len(c), -1)
        return self.modes.on_cells(precision, self.cell), rhs[:, self.modes.place[self.cell]]


def _total_part(modes: Modes, covariance: Array) -> Array:
    """11' / (1'C1): what J knows of the total. Taking it away leaves the precision given the total."""
    return modes.query(modes.schema.query("total"))[None] / _variance_of_total(modes, covariance)[:, None, None, None]


def _variance_of_total(modes: Modes, covariance: Array) -> Array:
    """1'C1: only the constant mode sums to something, n_1 ... n_m times its matrix."""
    return np.maximum(covariance[:, 0].sum(axis=(1, 2)) * float(np.prod(modes.sizes)), 1e-9)
