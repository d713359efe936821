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

*Start.* The minimum without bounds, clipped at 0. From an even split of the parent instead, the multipliers
must first be built up, :math:`\rho` times a violation at a time: fifty times the iterations for a state's counties.

*Certificate.* See :mod:`das.solve.certificate`. The iteration ends when the gap of the repaired point is within
the tolerance and the copies agree.
"""

from __future__ import annotations

from time import perf_counter
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from das.errors import InfeasibleError
from das.model.solution import Solution, Status
from das.solve.certificate import Curvature, relative_gap

Array = NDArray[np.float64]

_RELAX = 1.6  # over-relaxation
_FEASIBLE = 1e-5  # largest disagreement of the copies, in persons
_CHECK = 10  # iterations between looks at the residuals
_FIRST = 2.5  # the first rho, in curvatures of one cell
_BALANCE = 25.0  # rho moves when the residuals differ by more than this
_SUMS = 10.0  # how much more a sum off its bounds weighs than a negative cell
_WIDEST = 1e8  # and stays within this factor of the typical curvature


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
        if not (np.isfinite(self.gram).all() and np.isfinite(self.rhs).all()):
            raise ValueError("gram and rhs must be finite")
        self.curvature = Curvature(self.gram)
        self.parent = None if parent is None else np.asarray(parent, dtype=float)
        self.support = support
        rows = _rows(groups, self.cells)
        size = np.sqrt(np.maximum(rows.sum(axis=1), 1.0)) / _SUMS
        self.size, self.rows = size, rows / size[:, None]
        shape = (self.children, len(rows))
        if any(b is not None and np.shape(b) != shape for b in (lower, upper)):
            raise ValueError(f"lower and upper must have shape {shape}")
        self.lower = np.full(shape, -np.inf) if lower is None else np.asarray(lower, dtype=float) / size
        self.upper = np.full(shape, np.inf) if upper is None else np.asarray(upper, dtype=float) / size
        self.z, self.y = np.zeros_like(self.rhs), np.zeros_like(self.rhs)
        self.v, self.w = np.zeros(shape), np.zeros(shape)

    def check(self) -> None:
        """Raises :class:`InfeasibleError`, naming the group or cell, where one bound, one cell or one group rules
        out every answer. Constraints that contradict each other only together are left to the certificate."""
        crossed = self.lower > self.upper + 1e-9
        if crossed.any():
            self._refuse(crossed, self.lower, "the lower bound", self.upper, "the upper bound is")
        if self.parent is not None:
            self._check_parent(self.parent)
        most = self._most()
        short = self.lower > most + 1e-6 * (1 + np.abs(most))
        if short.any():
            self._refuse(short, self.lower, "at least", most, "the cells that the child may use hold at most")
        if (self.upper < -1e-9).any():
            self._refuse(self.upper < -1e-9, np.zeros_like(self.upper), "at least", self.upper, "the upper bound is")

    def _refuse(self, bad: NDArray[np.bool_], wanted: Array, what: str, limit: Array, why: str) -> NoReturn:
        c, g = np.argwhere(bad)[0]
        raise InfeasibleError(
            f"child {c}, group {g}: {what} {wanted[c, g] * self.size[g]:.6g}, but {why} "
            f"{limit[c, g] * self.size[g]:.6g}",
            where="children_qp",
        )

    def _most(self) -> Array:
        """The most that each child can hold of each group: what the parent has in the cells of its support."""
        held = np.full(self.cells, np.inf) if self.parent is None else self.parent
        if self.support is None and self.parent is not None:
            return np.broadcast_to(self.rows @ held, self.lower.shape)
        able = np.ones(self.rhs.shape) if self.support is None else self.support.astype(float)
        if self.parent is None:
            return np.where(able @ self.rows.T > 0, np.inf, 0.0)
        return np.asarray((able * held) @ self.rows.T)

    def _check_parent(self, parent: Array) -> None:
        if (parent < 0).any():
            k = int(np.flatnonzero(parent < 0)[0])
            raise InfeasibleError(f"cell {k} of the parent is negative", where="children_qp")
        if self.support is not None and (parent[~self.support.any(axis=0)] > 0).any():
            k = int(np.flatnonzero((parent > 0) & ~self.support.any(axis=0))[0])
            raise InfeasibleError(f"cell {k} of the parent is positive, but no child may hold it", where="children_qp")
        held = self.rows @ parent
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
        self._start()
        typical = self.curvature.typical
        self.rho = _FIRST * typical
        step = self._factor(self.rho)
        for k in range(1, limit + 1):
            look = k % _CHECK == 0
            primal = self._advance(step, self.rho, look)
            if not look:
                continue
            if primal <= _FEASIBLE and self.certificate(self.repaired())[0] <= tol:
                break
            if k % (5 * _CHECK) == 0 and not 1 / _BALANCE < self.ratio < _BALANCE:
                new = self.rho * float(np.sqrt(np.clip(self.ratio, 1e-3, 1e3)))
                new = float(np.clip(new, typical / _WIDEST, typical * _WIDEST))
                self.y *= self.rho / new
                self.w *= self.rho / new
                self.rho = new
                step = self._factor(new)
        return k

    def _start(self) -> None:
        c = self.curvature
        x = c.times(self.rhs, c.inverse)
        if self.parent is not None:
            x += c.shared_out(self.parent - x.sum(axis=0), self.children)
        self.z = np.maximum(x, 0.0)
        if self.support is not None:
            self.z[~self.support] = 0.0
        self.v = np.clip(self.z @ self.rows.T, self.lower, self.upper)

    def _factor(self, rho: float) -> Array:
        """A, shared ``(cells, cells)`` or stacked ``(children, cells, cells)``."""
        add = rho * (np.eye(self.cells) + self.rows.T @ self.rows)
        if self.gram.ndim == 2:
            return cho_solve(cho_factor(self.gram + add), np.eye(self.cells))
        a = np.linalg.inv(self.gram + add)
        self._share = np.linalg.inv(a.sum(axis=0)) if self.parent is not None else None
        return a

    def _advance(self, a: Array, rho: float, look: bool) -> float:
        """One iteration. On a ``look``, the largest disagreement of the copies, in persons, and ``ratio``."""
        r = self.rhs + rho * (self.z - self.y + (self.v - self.w) @ self.rows)
        if a.ndim == 2:
            x = r @ a
            if self.parent is not None:
                x += (self.parent - x.sum(axis=0)) / self.children
        else:
            x = (a @ r[:, :, None])[:, :, 0]
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
            return 0.0
        primal = max(float(np.abs(x - self.z).max(initial=0.0)), float(np.abs(bx - self.v).max(initial=0.0)))
        moved = (self.z - old_z) + (self.v - old_v) @ self.rows
        self.ratio = self.curvature.balance((x - self.z, bx - self.v), rho * moved)
        return primal

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
        """The relative gap at ``x``, and its largest violation of a group bound."""
        bx = x @ self.rows.T
        slack = (bx - self.lower, self.upper - bx)
        off = np.maximum(-np.minimum(*slack), 0.0) * self.size
        gap = relative_gap(self.curvature, self.rhs, x, self.parent, self.support, self.rows, slack,
                           (-self.rho * self.y, -self.rho * self.w))  # fmt: skip
        return gap, float(off.max(initial=0.0))


def _rows(groups: NDArray[np.generic] | None, cells: int) -> Array:
    if groups is None:
        return np.zeros((0, cells))
    g = np.asarray(groups)
    if g.ndim == 2:
        return g.astype(float)
    return (g[None, :] == np.arange(int(g.max(initial=-1)) + 1)[:, None]).astype(float)
