r"""Least squares over the children of one parent.

.. math::
   \min_{x} \sum_{c=1}^{C} \tfrac12 x_c' G_c x_c - b_c' x_c
   \quad\text{subject to}\quad \sum_c x_c = p,\quad x \ge 0,\quad l_c \le B x_c \le u_c .

*Method.* Alternating directions (Boyd et al. 2011; the splitting of OSQP, Stellato et al. 2020) with
copies :math:`z = x` and :math:`v = Bx`. All children share :math:`G` and :math:`B`, so the step in
:math:`x` is one matrix product with :math:`A = (G + \rho(I + B'B))^{-1}`; the coupling
:math:`\sum_c x_c = p` shifts every child by the same vector, because with one :math:`A`

.. math:: x_c = A r_c + A\nu,\quad \sum_c x_c = p \;\Rightarrow\; A\nu = \tfrac1C\bigl(p - \sum_c A r_c\bigr),

which needs no further solve. Cost: one factorisation of ``cells^3 / 3`` and ``2 C cells^2`` for each
iteration. :math:`\rho` follows the ratio of the residuals.

*Certificate.* From the multipliers :math:`\lambda \ge 0, \mu, \nu` the dual value

.. math::
   D = \nu'p + \sum_c \Bigl(-\tfrac12 s_c'G_c^{-1}s_c + l_c'\mu_c^+ - u_c'\mu_c^-\Bigr),\qquad
   s_c = b_c + \nu + \lambda_c + B'\mu_c,

bounds the optimum from below for *any* such multipliers; ``gap`` is :math:`(P - D)/\max(1, |P|)`.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from das.errors import InfeasibleError
from das.model.solution import Solution, Status

Array = NDArray[np.float64]

_RELAX = 1.6  # over-relaxation
_FEASIBLE = 1e-5  # largest disagreement of the copies, in persons
_CHECK = 10  # iterations between looks at the residuals


def children_qp(
    gram: Array,
    rhs: Array,
    parent: Array | None,
    *,
    groups: NDArray[np.generic] | None = None,
    lower: Array | None = None,
    upper: Array | None = None,
    support: NDArray[np.bool_] | None = None,
    tol: float = 1e-6,
    max_iterations: int = 20_000,
) -> Solution:
    """Solve the problem of the module.

    ``gram`` is ``(cells, cells)``, shared, or ``(children, cells, cells)``; ``rhs`` ``(children, cells)``;
    ``parent`` ``(cells,)``, or ``None`` for no coupling. ``groups`` is a partition of the cells (``(cells,)``
    of group numbers) or, for rows that overlap, a 0/1 matrix ``(groups, cells)``; ``lower`` and ``upper``
    bound their sums, ``(children, groups)``. Where ``support`` ``(children, cells)`` is False, x is 0.

    ``x`` sums to ``parent`` and is >= 0 to rounding error; ``residual`` is its largest violation of a group
    bound. Raises :class:`InfeasibleError` when sums of bounds contradict the parent.
    """
    began = perf_counter()
    problem = _Problem(gram, rhs, parent, groups, lower, upper, support)
    problem.check()
    iterations = problem.iterate(tol, max_iterations)
    x = problem.repaired()
    gap, residual = problem.certificate(x)
    # The reported status rests on the certificate alone, not on the iteration's own stopping rule.
    status = Status.OPTIMAL if gap <= 10 * tol and residual <= 1e-3 else Status.INACCURATE
    return Solution(x, status, gap, residual, iterations, perf_counter() - began)


class _Problem:
    def __init__(
        self,
        gram: Array,
        rhs: Array,
        parent: Array | None,
        groups: NDArray[np.generic] | None,
        lower: Array | None,
        upper: Array | None,
        support: NDArray[np.bool_] | None,
    ) -> None:
        self.rhs = np.asarray(rhs, dtype=float)
        self.children, self.cells = self.rhs.shape
        self.gram = np.asarray(gram, dtype=float)
        self.parent = None if parent is None else np.asarray(parent, dtype=float)
        self.support = support
        rows = _rows(groups, self.cells)
        size = np.sqrt(np.maximum(rows.sum(axis=1), 1.0))
        self.size, self.rows = size, rows / size[:, None]
        shape = (self.children, len(rows))
        self.lower = np.full(shape, -np.inf) if lower is None else np.asarray(lower, dtype=float) / size
        self.upper = np.full(shape, np.inf) if upper is None else np.asarray(upper, dtype=float) / size
        if self.lower.shape != shape or self.upper.shape != shape:
            raise ValueError(f"lower and upper must have shape {shape}")
        self.z, self.y = np.zeros_like(self.rhs), np.zeros_like(self.rhs)
        self.v, self.w = np.zeros(shape), np.zeros(shape)

    def check(self) -> None:
        if (self.lower > self.upper + 1e-9).any():
            c, g = np.argwhere(self.lower > self.upper + 1e-9)[0]
            raise InfeasibleError(
                f"child {c}, group {g}: the lower bound is above the upper bound", where="children_qp"
            )
        if self.parent is None:
            return
        if (self.parent < 0).any():
            raise InfeasibleError("a cell of the parent is negative", where="children_qp")
        if self.support is not None and (self.parent[~self.support.any(axis=0)] > 0).any():
            k = int(np.flatnonzero((self.parent > 0) & ~self.support.any(axis=0))[0])
            raise InfeasibleError(f"cell {k} of the parent is positive, but no child may hold it", where="children_qp")
        held = self.rows @ self.parent
        slack = 1e-6 * (1 + np.abs(held))
        bad = (self.lower.sum(axis=0) > held + slack) | (self.upper.sum(axis=0) < held - slack)
        if bad.any():
            g = int(np.flatnonzero(bad)[0])
            raise InfeasibleError(
                f"group {g}: the parent holds {held[g] * self.size[g]:.6g}, the children together may hold "
                f"{self.lower[:, g].sum() * self.size[g]:.6g} to {self.upper[:, g].sum() * self.size[g]:.6g}",
                where="children_qp",
            )

    # --- iteration ---------------------------------------------------------------------------------------

    def iterate(self, tol: float, limit: int) -> int:
        gradient = max(float(np.abs(self.rhs).max(initial=0.0)), 1e-12)
        scale = 1.0
        if self.parent is not None:
            self.z[:] = self.parent / self.children
            scale = max(1.0, float(self.z.max(initial=0.0)))
        rho = self._first_rho()
        step = self._factor(rho)
        for k in range(1, limit + 1):
            look = k % _CHECK == 0
            primal, dual = self._advance(step, rho, look)
            if not look:
                continue
            if primal <= _FEASIBLE and dual <= tol * gradient:
                break
            ratio = (primal / scale) / max(dual / gradient, 1e-300)
            if k % (5 * _CHECK) == 0 and not 1 / 9 < ratio < 9:
                new = float(np.clip(rho * np.sqrt(ratio), rho / 30, rho * 30))
                self.y *= rho / new
                self.w *= rho / new
                rho = new
                step = self._factor(rho)
        self.rho = rho
        return k

    def _first_rho(self) -> float:
        """The geometric mean of the extreme curvatures: optimal for a strongly convex quadratic."""
        g = self.gram if self.gram.ndim == 2 else self.gram.mean(axis=0)
        largest = float(np.abs(g).sum(axis=1).max(initial=0.0)) or 1.0
        return float(np.sqrt(largest * max(float(np.diag(g).min()), 1e-3 * largest)))

    def _factor(self, rho: float) -> Array:
        """A, shared ``(cells, cells)`` or stacked ``(children, cells, cells)``."""
        add = rho * (np.eye(self.cells) + self.rows.T @ self.rows)
        if self.gram.ndim == 2:
            return cho_solve(cho_factor(self.gram + add), np.eye(self.cells))
        a = np.linalg.inv(self.gram + add)
        self._share = np.linalg.inv(a.sum(axis=0)) if self.parent is not None else None
        return a

    def _advance(self, a: Array, rho: float, look: bool) -> tuple[float, float]:
        r = self.rhs + rho * (self.z - self.y + (self.v - self.w) @ self.rows)
        if a.ndim == 2:
            x = r @ a
            if self.parent is not None:
                x += (self.parent - x.sum(axis=0)) / self.children
        else:
            x = np.einsum("cij,cj->ci", a, r)
            if self.parent is not None:
                x += a @ (self._share @ (self.parent - x.sum(axis=0)))
        bx = x @ self.rows.T
        old_z, old_v = self.z, self.v
        relaxed = _RELAX * x + (1 - _RELAX) * self.z + self.y
        self.z = np.maximum(relaxed, 0.0)
        if self.support is not None:
            self.z[~self.support] = 0.0
        self.y = relaxed - self.z
        relaxed = _RELAX * bx + (1 - _RELAX) * self.v + self.w
        self.v = np.clip(relaxed, self.lower, self.upper)
        self.w = relaxed - self.v
        if not look:
            return 0.0, 0.0
        primal = max(float(np.abs(x - self.z).max(initial=0.0)), float(np.abs(bx - self.v).max(initial=0.0)))
        moved = (self.z - old_z) + (self.v - old_v) @ self.rows
        return primal, rho * float(np.abs(moved).max(initial=0.0))

    # --- answer and certificate ---------------------------------------------------------------------------

    def repaired(self) -> Array:
        """The non-negative copy, each cell scaled so that its children sum to the parent exactly."""
        if self.parent is None:
            return self.z
        total = self.z.sum(axis=0)
        x = self.z * np.divide(self.parent, total, out=np.zeros_like(total), where=total > 0)
        if (lost := (total <= 0) & (self.parent > 0)).any():
            able = np.ones(self.rhs.shape, dtype=bool) if self.support is None else self.support
            x[:, lost] = able[:, lost] * (self.parent[lost] / able[:, lost].sum(axis=0))
        return x

    def certificate(self, x: Array) -> tuple[float, float]:
        bx = x @ self.rows.T
        off = np.maximum(np.maximum(self.lower - bx, bx - self.upper), 0.0) * self.size
        gx = x @ self.gram if self.gram.ndim == 2 else np.einsum("cij,cj->ci", self.gram, x)
        primal = float(0.5 * np.sum(x * gx) - np.sum(self.rhs * x))
        lam = np.maximum(-self.rho * self.y, 0.0)
        if self.support is not None:
            lam = np.where(self.support, lam, -self.rho * self.y)  # an equality there: either sign
        mu = -self.rho * self.w
        mu = np.where(np.isfinite(self.lower), mu, np.minimum(mu, 0.0))
        mu = np.where(np.isfinite(self.upper), mu, np.maximum(mu, 0.0))
        s = self.rhs + lam + mu @ self.rows
        dual = float(np.sum(np.where(mu > 0, self.lower, 0.0) * np.maximum(mu, 0.0)))
        dual -= float(np.sum(np.where(mu < 0, self.upper, 0.0) * np.maximum(-mu, 0.0)))
        if self.parent is not None:
            nu = (gx - s).mean(axis=0)
            s = s + nu
            dual += float(nu @ self.parent)
        dual -= 0.5 * self._quadratic_conjugate(s)
        return max(0.0, (primal - dual) / max(1.0, abs(primal))), float(off.max(initial=0.0))

    def _quadratic_conjugate(self, s: Array) -> float:
        """Sum over children of s' G^-1 s, after moving ``s`` into the range of G where that is singular."""
        grams = self.gram[None] if self.gram.ndim == 2 else self.gram
        total = 0.0
        for i, g in enumerate(grams):
            rows = s if self.gram.ndim == 2 else s[i : i + 1]
            factor = _definite(g)
            if factor is None:
                total += _on_range(g, rows)
            else:
                total += float(np.sum(rows * cho_solve(factor, rows.T).T))
        return total


def _definite(gram: Array) -> tuple[Array, bool] | None:
    """The Cholesky factor, or ``None`` where the matrix is singular to working precision."""
    try:
        factor = cho_factor(gram)
    except np.linalg.LinAlgError:
        return None
    pivot = np.diag(factor[0])
    return None if pivot.min() < 1e-6 * pivot.max() else factor


def _on_range(gram: Array, s: Array) -> float:
    """The least such sum over points of the range of a singular ``gram`` that are at or above ``s``.

    Raising ``s`` is raising lambda, which stays a valid multiplier. The projection of ``s`` is raised by a
    constant: the vector of ones is in the range of every Gram matrix of queries, which sum to the total.
    Where it is not, there is no bound, and the gap is infinite.
    """
    value, vector = np.linalg.eigh(gram)
    keep = value > 1e-10 * value[-1]
    basis, value = vector[:, keep], value[keep]
    ones = np.ones(len(gram))
    if np.abs(ones - basis @ (basis.T @ ones)).max() > 1e-6:
        return float("inf")
    inside = (s @ basis) @ basis.T
    raised = inside + np.maximum((s - inside).max(axis=1, keepdims=True), 0.0)
    return float(np.sum((raised @ basis) ** 2 / value))


def _rows(groups: NDArray[np.generic] | None, cells: int) -> Array:
    if groups is None:
        return np.zeros((0, cells))
    g = np.asarray(groups)
    if g.ndim == 2:
        return g.astype(float)
    return (g[None, :] == np.arange(int(g.max(initial=-1)) + 1)[:, None]).astype(float)
