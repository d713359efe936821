r"""The constrained descent with full information.

As :mod:`das.estimate.passes`, with one difference: a child is not represented by its own measurements but by
what its whole subtree says (:mod:`das.estimate.information`), the precision :math:`J_c` and right-hand side
:math:`h_c`:

.. math:: \min_{x \ge 0} \sum_c \tfrac12 x_c' J_c x_c - h_c' x_c \quad\text{subject to the same constraints.}

There are two passes, as in production and for the same reason (non-negativity must not leak into the totals):
first the children's totals, measured by :math:`1'\mu_c` with variance :math:`1'C_c 1`; then everything, with the
totals held to within the tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.estimate.estimator import Array, Estimator, answer
from das.estimate.family import Family, NoisyAnswers
from das.estimate.information import Information, posterior
from das.estimate.least_squares import LeastSquares, sum_to
from das.estimate.modes import Modes
from das.model.query import Query
from das.model.solution import Certificate

#: How much of what is known of the total is taken out of the second pass, which holds the totals anyway: nearly
#: all, or the solver would chase a stiff direction that the constraints have settled (Rhode Island's root then takes
#: more than 20,000 iterations in place of 220); not all, to stay definite.
_HELD = 0.999
#: Beyond so many entries (children x cells^2) the children share their mean precision. What it decides is how
#: the difference between the parent and the sum of its children is shared out; among many children a share is small.
_LARGE = 1 << 22


@dataclass(frozen=True, eq=False)
class Informed(Estimator):
    """``information`` of the subtrees of units ``start, start + 1, ...`` of some levels; at others, the ``own``
    measurements of each unit are all there is, and the estimator that takes them is asked."""

    modes: Modes
    information: Mapping[str, Information]
    own: Estimator
    start: int = 0
    tolerance: float = 0.1
    accuracy: float = 1e-6

    def estimate(self, family: Family) -> tuple[Array, Certificate]:
        if family.level not in self.information:
            return answer(self.own, family)
        problem = LeastSquares(family, self.tolerance, self.accuracy)
        known = self.information[family.level].rows(family.unit - self.start)
        return _solved(problem, self.modes, known), problem.certificate

    def part(self, level: str, start: int, stop: int) -> Estimator:
        if level not in self.information:
            return self.own.part(level, start, stop)
        here = {level: self.information[level].rows(slice(start - self.start, stop - self.start))}
        return replace(self, information=here, start=start)


def _solved(problem: LeastSquares, modes: Modes, information: Information) -> Array:
    """The two passes."""
    bounds, parent, cell = problem.bounds, problem.parent, problem.cell
    carried: list[tuple[Query, Array]] = []
    total = modes.schema.query("total")
    if bounds.total is None:
        c, mu = posterior(modes, information)
        sums = mu.sum(axis=tuple(range(1, mu.ndim)))
        if parent is not None:
            answers = NoisyAnswers(total, sums[:, None], _variance_of_total(modes, c))
            x = problem.one_pass([answers], [])
            carried.append((total, sum_to(x, total.index[cell], 1)))
        else:  # no parent and no known total: the total is what everything below says it is
            carried.append((total, np.maximum(sums, bounds.lower.sum(axis=1))[:, None]))
    gram, rhs = _objective(modes, information, cell)
    return problem.solve(gram, rhs, parent, bounds.group[cell], problem.rows(cell, carried))


def _objective(modes: Modes, information: Information, cell: NDArray[np.int64]) -> tuple[Array, Array]:
    """Precision and right-hand side on the parent's cells, given the totals."""
    alone = replace(information, total=None)
    c, mu = posterior(modes, alone)
    inside = alone.support[:, None, :, None] & alone.support[:, None, None, :]
    precision = np.where(inside, alone.precision - _HELD * _total_part(modes, c), 0.0)
    # what a child cannot hold is 0 by constraint: any definite block will do there
    precision += np.eye(modes.d) * ~alone.support[:, None, None, :] * alone.precision[:, -1:].max()
    if len(c) * len(cell) ** 2 > _LARGE:
        precision = precision.mean(axis=0)
    rhs = modes.apply(precision, mu).reshape(len(c), -1)
    return modes.on_cells(precision, cell), rhs[:, modes.place[cell]]


def _total_part(modes: Modes, covariance: Array) -> Array:
    """11' / (1'C1): what J knows of the total. Taking it away leaves the precision given the total."""
    return modes.query(modes.schema.query("total"))[None] / _variance_of_total(modes, covariance)[:, None, None, None]


def _variance_of_total(modes: Modes, covariance: Array) -> Array:
    """1'C1: only the constant mode sums to something, n_1 ... n_m times its matrix."""
    return np.maximum(covariance[:, 0].sum(axis=(1, 2)) * float(np.prod(modes.sizes)), 1e-9)
