r"""How far a point can be from the optimum: the duality gap of the problem of :mod:`das.solve.children`.

For any multipliers :math:`\lambda \ge 0` (of :math:`x \ge 0`), :math:`\mu` (of the bounds) and :math:`\nu` (of the
parent), with :math:`s_c = b_c + \nu + \lambda_c + B'\mu_c`, weak duality bounds the optimum from below by

.. math:: D = \nu'p + \sum_c \Bigl(-\tfrac12 s_c'G_c^{-1}s_c + l_c'\mu_c^+ - u_c'\mu_c^-\Bigr) .

With the residual of stationarity :math:`e_c = s_c - G_c x_c` the difference to the value of a point that sums to the
parent is

.. math:: P - D = \sum_c \tfrac12 e_c'G_c^{-1}e_c + \lambda_c'x_c + (Bx_c - l_c)'\mu_c^+ + (u_c - Bx_c)'\mu_c^- ,

a sum of small terms (a total :math:`T_s` of several children is a bound from both sides, with one multiplier for all
of them: :math:`\mu_s(\sum_{c \in s} 1'x_c - T_s)`). P and D themselves may have twelve equal digits. As :math:`P - P^* \ge \tfrac12\|x - x^*\|_G^2`,
the gap also bounds the distance to the optimum, in standard deviations of the measurements. (For a point within the
bounds: one that is outside by the stated residual can have negative terms, so the absolute value is reported.)

*Relative to what.* P lacks the constant of a least-squares problem, so :math:`|P|` grows with the square of the
population and says nothing of the misfit. The gap is divided by :math:`\max(1, \min(|P|, E))`, where
:math:`E = \sum_c \tfrac12 r_c'G_c^{-1}r_c`, :math:`r = Gx - b`, is how far P is above its minimum without
constraints: no constant added to the problem changes it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from das.solve.kinds import Kinds
from das.solve.partitions import PartitionsCurvature

Array = NDArray[np.float64]

_ROUNDING = 4 * np.finfo(float).eps
_SINGULAR = 1e-11  # eigenvalues below this part of the largest count as zero


class Curvature:
    """The matrices G, factored once: ``(cells, cells)``, shared; ``(children, cells, cells)``; or those of a few kinds of
    children."""

    def __init__(self, given: Array | Kinds) -> None:
        gram, kind = (given.matrices, given.kind) if isinstance(given, Kinds) else (given, None)
        self.gram, self.shared, self.kind = gram, gram.ndim == 2, kind
        diagonal = np.diagonal(gram, axis1=-2, axis2=-1)
        self.diagonal = diagonal if kind is None else diagonal[kind]
        self.null: Array | None = None
        if (pivots := self._pivots()) is not None:
            self.inverse: Array = np.linalg.inv(gram).astype(float)
            self.typical = float(np.exp(2 * np.log(pivots).mean())) if pivots.size else 1.0
            return
        value, vector = np.linalg.eigh(gram)
        keep = value > _SINGULAR * np.maximum(value[..., -1:], 1e-300)
        self.typical = float(np.exp(np.log(value[keep]).mean())) if keep.any() else 1.0
        scaled = vector * np.where(keep, 1 / np.where(keep, value, 1.0), 0.0)[..., None, :]
        self.inverse = scaled @ np.swapaxes(vector, -1, -2)
        rest = np.where(keep[..., None, :], 0.0, vector)
        self.null = rest @ np.swapaxes(rest, -1, -2)

    def _pivots(self) -> Array | None:
        """The diagonal of the Cholesky factor, ``None`` where G is singular to working precision."""
        try:
            pivots = np.diagonal(np.linalg.cholesky(self.gram), axis1=-2, axis2=-1)
        except np.linalg.LinAlgError:
            return None
        definite = (pivots.min(axis=-1, initial=np.inf) > 1e-5 * pivots.max(axis=-1, initial=0.0)).all()
        return pivots if definite else None

    def times(self, x: Array, matrix: Array | None = None) -> Array:
        """``M_c x_c`` for each child: G, or another matrix of its shape. ``(children, cells)``."""
        m = self.gram if matrix is None else matrix
        if self.shared:
            return x @ m
        if self.kind is None:
            return np.asarray((m @ x[:, :, None])[:, :, 0])
        out = np.empty_like(x)
        for k, one in enumerate(m):
            here = self.kind == k
            out[here] = x[here] @ one
        return out

    def added_up(self, matrix: Array) -> Array:
        """The sum over the children of their ``matrix``, one of each or of each kind: ``(cells, cells)``."""
        if self.kind is None:
            return np.asarray(matrix.sum(axis=0))
        return np.tensordot(np.bincount(self.kind, minlength=len(matrix)).astype(float), matrix, 1)

    def alike(self, x: Array, matrix: Array) -> Array:
        """``M_c x`` of one ``x`` ``(cells,)``, ``(children, cells)``."""
        out = np.asarray(matrix @ x)
        return out if self.kind is None else out[self.kind]

    def over(self, x: Array) -> Array:
        """``G_c^+ x_c`` for each child, ``(children, cells)``."""
        return self.times(x, self.inverse)

    def variances(self, rows: Array) -> Array:
        """The diagonal of B G^-1 B', with the mean inverse where children differ: ``(rows,)``."""
        inverse = self.inverse if self.shared else self.inverse.mean(axis=0)
        return np.asarray(np.sum(rows @ inverse * rows, axis=1))

    def shared_out(self, rest: Array, children: int) -> Array:
        """What each child takes of ``rest`` at the least cost: ``G_c^-1 (sum G_c^-1)^-1 rest``; evenly where G is
        singular. ``(children, cells)``, or ``(cells,)`` for all."""
        if self.shared or self.null is not None:
            return rest / children
        return self.alike(
            np.asarray(np.linalg.solve(self.added_up(self.inverse), rest), dtype=np.float64), self.inverse
        )

    def half_norm(self, e: Array) -> Array:
        """``1/2 e_c'G_c^+ e_c`` of each child, ``(children,)``."""
        return np.asarray(0.5 * np.sum(e * self.over(e), axis=1))

    def balance(self, primal: Array, dual: Array) -> float:
        """The size of a residual in persons over that of one in gradients, both in the norm of G. Where G is
        singular, its missing curvatures count as typical ones."""
        above, below = float(np.sum(primal * self.times(primal))), 2 * float(self.half_norm(dual).sum())
        if self.null is not None:
            above += self.typical * float(np.sum(self.times(primal, self.null) ** 2))
            below += float(np.sum(self.times(dual, self.null) ** 2)) / self.typical
        return float(np.sqrt(above / max(below, 1e-300)))

    def cost(self, e: Array, x: Array, parent: Array | None, noise: float) -> float:
        """The least cost found, in P - D, of a residual of stationarity ``e``; infinite where there is no bound.

        Where G is singular, ``e`` must first be moved into its range. Raising ``e`` is raising lambda, at the
        cost x; lowering it is a multiplier of the bound x <= parent, which the other constraints imply, at the
        cost parent - x. Where the vector of ones is in the range (the queries sum to the total), raising by a
        constant besides will do alone. The cheaper is taken. A move below ``noise`` is no move, but what rounding
        makes of zero.
        """
        if self.null is None:
            return float(self.half_norm(e).sum())
        move = -self.times(e, self.null)
        move = np.where(np.abs(move) <= noise, 0.0, move)
        best = np.full(len(e), np.inf)
        if parent is not None:
            best = np.sum(np.maximum(move, 0) * x + np.maximum(-move, 0) * (parent - x), axis=1)
            best = best + self.half_norm(e + move)
        spans = np.abs(self.times(np.ones_like(e), self.null)).max(axis=1, initial=0.0) < 1e-6
        up = move + np.maximum((-move).max(axis=1, initial=0.0), 0.0)[:, None]
        raised = np.sum(up * x, axis=1) + self.half_norm(e + up)
        return float(np.where(spans, np.minimum(best, raised), best).sum())


def relative_gap(
    curvature: Curvature | PartitionsCurvature,
    rhs: Array,
    x: Array,
    parent: Array | None,
    support: NDArray[np.bool_] | None,
    rows: Array | csr_array,
    slack: tuple[Array, Array],
    multipliers: tuple[Array, Array],
) -> float:
    """The gap at ``x``. ``slack`` is ``B x - lower`` and ``upper - B x``; ``multipliers`` are first guesses of
    lambda and mu, made admissible here."""
    lam, mu = multipliers
    mu = np.where(np.isfinite(slack[0]), mu, np.minimum(mu, 0.0))
    mu = np.where(np.isfinite(slack[1]), mu, np.maximum(mu, 0.0))
    misfit = curvature.times(x) - rhs
    t = mu @ rows - misfit
    if parent is not None:
        sign = np.maximum(lam, 0.0)
        t = t - (t + (sign if support is None else np.where(support, sign, lam))).mean(axis=0)
    lam = np.maximum(-t - curvature.diagonal * x, 0.0)  # less stationarity against more complementarity
    e = t + lam
    if support is not None:
        e = np.where(support, e, 0.0)  # an equality there: lambda of either sign, at no cost
    loss = float(np.sum(np.where(mu > 0, slack[0], 0.0) * np.maximum(mu, 0.0)))
    loss += float(np.sum(np.where(mu < 0, slack[1], 0.0) * np.maximum(-mu, 0.0)))
    loss += float(np.sum(lam * x)) + curvature.cost(e, x, parent, _ROUNDING * float(np.abs(rhs).max(initial=0.0)))
    value = float(np.sum(x * (0.5 * (misfit + rhs) - rhs)))
    above = float(curvature.half_norm(misfit).sum())
    return abs(loss) / max(1.0, min(abs(value), above))
