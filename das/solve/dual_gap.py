r"""How far an answer of :mod:`das.solve.dual` can be from the optimum.

For any multipliers y, :math:`-F(y)` bounds the optimum from below. With :math:`s = b + R'y`, the
value of an answer x that meets all exact sums is above it by

.. math:: P(x) + F(y) = \sum_{s > 0} \tfrac12 D (x - s/D)^2 + \sum_{s \le 0} \bigl(\tfrac12 D x^2 - s x\bigr)
          + \sum_r \tfrac12 w_r (a_r'x + y_r/w_r)^2 + \sum_r y_r^+ (a_r'x - l_r) + y_r^- (u_r -
            a_r'x),

terms that are none negative, the first two of the variables, the third of measured sums, the last
of sums between bounds: no digits are lost. Violations of exact sums, which are within the stated
residual, are counted with their sign and the absolute value is reported, as in
:mod:`das.solve.certificate`.

*Relative to what.* To :math:`\max(1, g, \min(|P|, E))` as there, with g the median of D and
:math:`E = \tfrac12 r'G^{-1}r`, :math:`r = Gx - b`. A medium row of n cells has :math:`w\,aa'
\preceq w n I` on these, so with D' the diagonal that has these added, and the coarse rows A,

.. math:: G \preceq D' + A'WA, \qquad E \ge \tfrac12 r'(D' + A'WA)^{-1} r,

by Woodbury's identity with as many rows as A has. This bound is taken: the stated gap is the larger
for it, never the smaller."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.solve.dual_problem import DualProblem

Array = NDArray[np.float64]


class Gap:
    """The gap of one problem."""

    def __init__(self, p: DualProblem) -> None:
        self.p = p

    def of(self, x: Array, y: Array, tol: float = np.inf) -> tuple[float, float]:
        """The relative gap at ``x`` and the largest violation. A gap that is above ``tol`` of
        ``|P|`` is not put against E.
        """
        p = self.p
        groups = p.rows.rows[p.measured :]
        low, high = p.bounds()
        sums, t = groups @ x, p.queries @ x
        mu, y = self._admissible(y)
        s = p.rows.spread(y) + p.rhs
        loss = self._variables(x, s)
        kappa = p.rows.of_rows(y)[: p.measured]
        weight = np.broadcast_to(p.weight, t.shape)
        asked = weight > 0
        loss += 0.5 * float(
            (weight * (t + np.divide(kappa, weight, out=np.zeros(t.shape), where=asked)) ** 2).sum()
        )
        up, down = np.maximum(mu, 0.0), np.maximum(-mu, 0.0)
        loss += float((up * (sums - np.where(up > 0, np.maximum(low, 0.0), 0.0))).sum())
        loss += float(
            (down * (np.where(down > 0, self._upper, 0.0) - np.where(down > 0, sums, 0.0))).sum()
        )
        residual = float(np.maximum(np.maximum(low - sums, sums - high), 0.0).max(initial=0.0))
        if len(p.parts):
            short = p.parts.sums(x.sum(axis=0)) - p.parts.total
            residual = max(residual, float(np.abs(short).max()))
            loss += float(p.rows.of_parts(y) @ short)
        gx = p.curvature * x + p.queries.T @ (weight * t)
        misfit = gx - p.rhs
        value = abs(0.5 * float((x * (misfit - p.rhs)).sum()))
        loss = abs(loss)
        least = max(1.0, p.typical)
        if loss > tol * max(least, value):
            return max(loss / max(least, value), np.nextafter(tol, 1.0)), residual
        return loss / max(least, min(value, self._above(misfit))), residual

    def _admissible(self, y: Array) -> tuple[Array, Array]:
        """The multipliers of groups, and all multipliers, without those of infinite bounds."""
        p = self.p
        y = np.where(p.free, y, 0.0)
        mu = p.rows.of_rows(y)[p.measured :]
        mu[:] = np.where(np.isfinite(self._upper), mu, np.maximum(mu, 0.0))
        return mu, y

    @cached_property
    def _upper(self) -> Array:
        p = self.p
        most: Array = p.rows.rows[p.measured :] @ p.most
        return np.minimum(p.upper, np.where(np.isfinite(most), most, np.inf))

    def _variables(self, x: Array, s: Array) -> float:
        s = np.where(self.p.able, s, 0.0)
        d = self.p.curvature
        return float((0.5 * d * (x - np.maximum(s, 0.0) / d) ** 2 - np.minimum(s, 0.0) * x).sum())

    def _above(self, misfit: Array) -> float:
        """The bound on E."""
        from scipy.linalg import cho_solve  # slow to load

        total = 0.0
        for d, a, factor, children in self._factors:
            r = misfit[:, children]
            u = r / d[:, None]
            total += 0.5 * float((r * u).sum())
            if factor is not None:
                v = a @ u
                total -= 0.5 * float((v * cho_solve(factor, v)).sum())
        return max(total, 0.0)

    @cached_property
    def _factors(self) -> list[tuple[Array, Any, Any, NDArray[np.intp]]]:
        """For each kind of children: D', coarse rows, the factor of W^-1 + A D'^-1 A', and who they
        are.
        """
        from scipy.linalg import cho_factor  # slow to load

        p = self.p
        weight = p.weight if p.weight.shape[1] > 1 else p.weight[:, :1]
        key = np.concatenate([weight, p.curvature], axis=0) if weight.shape[1] > 1 else weight
        _, first, kind = np.unique(key, axis=1, return_index=True, return_inverse=True)
        kind = np.broadcast_to(kind.ravel(), (p.children,)) if len(first) == 1 else kind.ravel()
        out = []
        for k, j in enumerate(first.tolist()):
            w = weight[:, j]
            size = np.asarray(p.queries.sum(axis=1)).ravel()
            medium = np.where(np.arange(p.measured) >= p.core, w * size, 0.0)
            d = p.curvature[:, j] + p.queries.T @ medium
            some = np.flatnonzero(w[: p.core] > 0)
            a = p.queries[some]
            factor = None
            if len(some):
                factor = cho_factor(((a / d[None, :]) @ a.T).toarray() + np.diag(1 / w[some]))
            out.append((d, a, factor, np.flatnonzero(kind == k)))
        return out
