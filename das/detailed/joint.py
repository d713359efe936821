r"""Tables that add up: least squares where the members of a family share the cells of a table, or
several groups of a region.

The *state* of a region, x, is all cells of its tables, for one iteration or for several that belong
together. It has a mean :math:`\mu` and two covariance matrices, the working C and the true
:math:`C_t` (:mod:`das.detailed.tree`). Let :math:`Ax = o` be observed with an independent error of
covariance O. Kalman's rules, in Joseph's form for the true covariance, give

.. math:: K = C A^\top (A C A^\top + O)^{-1}, \quad \mu + K(o - A\mu), \quad C - KAC, \quad (I - KA)\,C_t\,(I - KA)^\top + K O_t K^\top.

A family observes :math:`A_p x_p = \sum_c A_c x_c` in its coarsest common cells. A regional group
that is the sum of detailed ones observes :math:`x_R = \sum_d x_d` without error. The downward pass
is that of Rauch, Tung and Striebel. Inverses are those of Moore and Penrose, because some of these
equations follow from others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Below this share of the largest, an eigenvalue is rounding error.
NONE = 1e-11


@dataclass(frozen=True, eq=False)
class Belief:
    """The ``mean`` ``(cells,)``, and the ``work`` and ``true`` covariances ``(cells, cells)``."""

    mean: Floats
    work: Floats
    true: Floats

    def __len__(self) -> int:
        return len(self.mean)

    def seen(self, rows: Floats) -> Belief:
        """Linear forms of it."""
        return Belief(rows @ self.mean, rows @ self.work @ rows.T, rows @ self.true @ rows.T)


def of_group(cells: Floats, v2: float, total: float, work: float, true: float) -> Belief:
    r"""A table whose cells have errors of variance v2, and whose total is known better than by
    their sum: :math:`y_j + (t - S)/k`. The contrasts of the cells are independent of both stages'
    totals."""
    k = len(cells)
    contrast = v2 * (np.eye(k) - 1 / k)
    return Belief(cells + (total - cells.sum()) / k, contrast + work / k**2, contrast + true / k**2)


def beside(states: Sequence[Belief]) -> Belief:
    """Independent ones, one after the other."""
    mean = np.concatenate([np.zeros(0), *(s.mean for s in states)])
    work, true = np.zeros((len(mean),) * 2), np.zeros((len(mean),) * 2)
    start = 0
    for s in states:
        here = slice(start, start + len(s))
        work[here, here], true[here, here] = s.work, s.true
        start += len(s)
    return Belief(mean, work, true)


def added(states: Sequence[Belief]) -> Belief:
    return Belief(
        *(np.sum([getattr(s, of) for s in states], axis=0) for of in ("mean", "work", "true"))
    )


def condition(state: Belief, rows: Floats, seen: Belief) -> Belief:
    """With an observation of linear forms of it."""
    if not len(rows):
        return state
    gain = state.work @ rows.T @ _inverse(rows @ state.work @ rows.T + seen.work)
    left = np.eye(len(state)) - gain @ rows
    return Belief(
        state.mean + gain @ (seen.mean - rows @ state.mean),
        _even(left @ state.work),
        _even(left @ state.true @ left.T + gain @ seen.true @ gain.T),
    )


def exactly(rows: int) -> Belief:
    """That some linear forms are 0."""
    return Belief(np.zeros(rows), np.zeros((rows, rows)), np.zeros((rows, rows)))


def shared(child: Belief, rows: Floats, sums: Belief, final: Belief) -> Belief:
    """A child, given that the sum of the family's children is ``final``. ``rows`` map the child's
    cells into that sum. ``sums`` is the sum by the children's own measurements
    (:func:`das.detailed.tree.shared`)."""
    back = _inverse(sums.work)
    kappa, alpha = child.work @ rows.T @ back, final.work @ back
    rest = np.eye(len(alpha)) - alpha
    cross = kappa @ rest @ rows @ child.true
    both = rest @ sums.true @ rest.T + final.true - alpha @ sums.true @ alpha.T
    return Belief(
        child.mean + kappa @ (final.mean - sums.mean),
        _even(child.work - kappa @ (sums.work - final.work) @ kappa.T),
        _even(child.true - cross - cross.T + kappa @ both @ kappa.T),
    )


def _inverse(matrix: Floats) -> Floats:
    if len(matrix) == 1:
        return np.array([[1 / matrix[0, 0] if matrix[0, 0] > 0 else 0.0]])
    return np.asarray(np.linalg.pinv(matrix, rcond=NONE, hermitian=True), dtype=np.float64)


def _even(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2
