r"""Least squares over the children of one parent.

.. math::
   \min_{x} \sum_{c=1}^{C} \tfrac12 x_c' G_c x_c - b_c' x_c
   \quad\text{subject to}\quad \sum_c x_c = p,\quad x \ge 0,\quad l_c \le B x_c \le u_c,\quad
   \sum_{c \in s} 1'x_c = T_s .

*Method.* Alternating directions (Boyd et al. 2011; the splitting of OSQP, Stellato et al. 2020) with
copies :math:`z = x` and :math:`v = Bx`. All children share :math:`G` and :math:`B`, so the step in
:math:`x` is one matrix product with :math:`A = (G + \rho(I + B'B))^{-1}`; the coupling
:math:`\sum_c x_c = p` shifts every child by the same vector, because with one :math:`A`

.. math:: x_c = A r_c + A\nu,\quad \sum_c x_c = p \;\Rightarrow\; A\nu = \tfrac1C\bigl(p - \sum_c A r_c\bigr),

which needs no further solve. (Of several kinds of children each has an A of its own, and :math:`\nu` is found from the sum of
all children's.) Cost: one factorisation of ``cells^3 / 3`` and ``2 C cells^2`` for each
iteration; where G is a sum of partitions (:mod:`das.solve.partitions`), with the number of their answers for that of the cells. Each copy has its own :math:`\rho`, which follows the ratio of its residuals. Where totals of several
children together are known (the parts :math:`s`), one more row of :math:`B` holds :math:`1'x_c`; its copy is projected by
shifting all children of a part by :math:`(T_s - \sum_{c \in s} 1'x_c)/|s|`, so its multiplier is constant on a part.

*Start.* The minimum without bounds, clipped at 0. From an even split of the parent instead, the multipliers
must first be built up, :math:`\rho` times a violation at a time: fifty times the iterations for a state's counties.

*Certificate.* See :mod:`das.solve.certificate`. The iteration ends when the gap of the repaired point is within
the tolerance and the copies agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from das.model.solution import Solution, Status
from das.solve.certificate import Curvature, relative_gap
from das.solve.contradictions import refuse_contradictions
from das.solve.kinds import Kinds
from das.solve.partitions import Partitions, PartitionsCurvature
from das.solve.parts import Parts

Array = NDArray[np.float64]

FEASIBLE = 1e-3  #: the largest violation of a bound by an answer that passes for feasible, in persons
_RELAX = 1.6  # over-relaxation
_AGREE = 1e-3  # largest disagreement of the copies at which the certificate is looked at, in persons
_SMALL = 1e-5  # and above which a weight is raised
_CHECK = 10  # iterations between looks at the residuals
_FIRST = 2.5  # the first rho, in curvatures of one cell
_BALANCE = 5.0  # a weight moves when its residuals differ by more than this,
_ADAPT, _GROW = 30, 0.2  # at most every so many iterations, and ever more seldom, so that they settle
_WIDEST = 1e8  # they stay within this factor of the typical curvature
_FINITE = "gram and rhs must be finite"
_SKEW = 10.0  # the measure of a row stays within this factor of its squared length


def children_qp(
    gram: Array | Partitions | Kinds,
    rhs: Array,
    parent: Array | None,
    *,
    groups: NDArray[np.generic] | None = None,
    lower: Array | None = None,
    upper: Array | None = None,
    support: NDArray[np.bool_] | None = None,
    parts: NDArray[np.intp] | None = None,
    totals: NDArray[Any] | None = None,
    tol: float = 1e-6,
    max_iterations: int = 20_000,
) -> Solution:
    """Solve the problem of the module.

    ``gram`` is ``(cells, cells)``, shared, or ``(children, cells, cells)``, or shared :class:`Partitions`, or :class:`Kinds` of
    children; ``rhs`` ``(children, cells)``;
    ``parent`` ``(cells,)``, or ``None`` for no coupling. ``groups`` is a partition of the cells (``(cells,)``
    of group numbers) or, for rows that overlap, a 0/1 matrix ``(groups, cells)``; ``lower`` and ``upper``
    bound their sums, ``(children, groups)``. Where ``support`` ``(children, cells)`` is False, x is 0. ``parts``
    ``(children,)`` numbers the part of each child (-1: none), and ``totals`` ``(parts,)`` is what each part holds.

    ``x`` sums to ``parent`` and is >= 0 to rounding error; ``residual`` is its largest violation of a group
    bound or a part's total. Raises :class:`das.errors.InfeasibleError` where bounds contradict the parent, the support or each other
    one by one; where they do only together, the status is ``INACCURATE`` and the residual large.
    """
    began = perf_counter()
    problem = _Problem(gram, rhs, parent, groups, lower, upper, support, Parts.of(parts, totals, len(rhs)))
    iterations = problem.iterate(tol, max_iterations)
    x = problem.repaired()
    gap, residual = problem.certificate(x)
    # The reported status rests on the certificate alone, not on the iteration's own stopping rule.
    status = Status.OPTIMAL if _good(gap, residual, tol) else Status.INACCURATE
    return Solution(x, status, gap, residual, iterations, perf_counter() - began)


def _good(gap: float, residual: float, tol: float) -> bool:
    return gap <= tol and residual <= FEASIBLE


@dataclass
class _Copy:
    """A copy of x, or of its sums, that keeps the bounds; ``dual`` is its multiplier over its ``weight``, rho."""

    value: Array
    dual: Array
    weight: float
    off: float = np.inf  #: the largest disagreement with the original, in persons
    ratio: float = 1.0  #: of the disagreement to the change of the copy

    def pull(self) -> Array:
        return self.weight * (self.value - self.dual)

    @property
    def multiplier(self) -> Array:
        return -self.weight * self.dual

    def relaxed(self, original: Array) -> Array:
        return _RELAX * original + (1 - _RELAX) * self.value + self.dual

    def follow(self, relaxed: Array, value: Array) -> None:
        self.value, self.dual = value, relaxed - value

    def look(self, original: Array, ratio: float) -> None:
        self.off, self.ratio = float(np.abs(original - self.value).max(initial=0.0)), ratio

    def reweigh(self, typical: float) -> bool:
        """Move the weight to where the residuals call it, up only if persons are off. True if it moved."""
        if 1 / _BALANCE <= self.ratio <= _BALANCE or (self.ratio > 1 and self.off <= _SMALL):
            return False
        new = self.weight * float(np.sqrt(np.clip(self.ratio, 1e-3, 1e3)))
        new = float(np.clip(new, typical / _WIDEST, typical * _WIDEST))
        self.dual *= self.weight / new
        self.weight = new
        return True


class _Problem:
    def __init__(
        self,
        gram: Array | Partitions | Kinds,
        rhs: Array,
        parent: Array | None,
        groups: NDArray[np.generic] | None,
        lower: Array | None,
        upper: Array | None,
        support: NDArray[np.bool_] | None,
        parts: Parts,
    ) -> None:
        self.rhs = np.asarray(rhs, dtype=float)
        self.children, self.cells = self.rhs.shape
        if not np.isfinite(self.rhs).all():
            raise ValueError(_FINITE)
        self.curvature = _curvature(gram)
        self.gram = self.curvature.gram
        self.parent = None if parent is None else np.asarray(parent, dtype=float)
        self.support = support
        rows = _rows(groups, self.cells)
        shape = (self.children, len(rows))
        if any(b is not None and np.shape(b) != shape for b in (lower, upper)):
            raise ValueError(f"lower and upper must have shape {shape}")
        low = np.full(shape, -np.inf) if lower is None else np.asarray(lower, dtype=float)
        high = np.full(shape, np.inf) if upper is None else np.asarray(upper, dtype=float)
        refuse_contradictions(self.parent, rows, low, high, support, parts)
        self.parts = parts
        if len(parts):  # the last row
            rows = np.concatenate([rows, np.ones((1, self.cells))])
            low, high = (
                np.pad(b, ((0, 0), (0, 1)), constant_values=inf) for b, inf in ((low, -np.inf), (high, np.inf))
            )
        held: Any = csr_array(rows) if isinstance(self.gram, Partitions) else rows
        self.size = self._sizes(held)
        self.rows: Any = held / self.size[:, None]
        self.lower, self.upper = low / self.size, high / self.size

    def _sizes(self, rows: Any) -> Array:
        """What the rows are divided by, so that one weight serves all: the standard deviation of a row's sum in those
        of a typical cell, sqrt(b'G^-1 b), but not far from its length."""
        variance = self.curvature.typical * self.curvature.variances(rows)
        length = np.maximum(rows.sum(axis=1), 1.0)
        return np.asarray(np.sqrt(np.clip(variance, length / _SKEW, length * _SKEW)))

    # --- iteration ---------------------------------------------------------------------------------------

    def iterate(self, tol: float, limit: int) -> int:
        self._start()
        step = self._factor()
        due = _ADAPT
        for k in range(1, limit + 1):
            look = k % _CHECK == 0
            self._advance(step, look)
            if not look:
                continue
            if max(self.z.off, self.v.off) <= _AGREE and _good(*self.certificate(self.repaired()), tol):
                break
            if k >= due:
                due = k + max(_ADAPT, int(_GROW * k))
                moved = [copy.reweigh(self.curvature.typical) for copy in (self.z, self.v)]
                if any(moved):
                    step = self._factor()
        return k

    def _start(self) -> None:
        c = self.curvature
        x = c.over(self.rhs)
        if self.parent is not None:
            x += c.shared_out(self.parent - x.sum(axis=0), self.children)
        x = self._allowed(x)
        sums = self._within(x @ self.rows.T)
        self.z = _Copy(x, np.zeros_like(x), _FIRST * c.typical)
        self.v = _Copy(sums, np.zeros_like(sums), _FIRST * c.typical)

    def _allowed(self, x: Array) -> Array:
        x = np.maximum(x, 0.0)
        if self.support is not None:
            x[~self.support] = 0.0
        return x

    def _within(self, sums: Array) -> Array:
        out = np.clip(sums, self.lower, self.upper)
        if len(self.parts):
            out[:, -1] = self.parts.projected(sums[:, -1], self.size[-1])
        return out

    def _factor(self) -> Array | Partitions:
        """A, of the shape of G; of partitions, its inverse."""
        if isinstance(self.gram, Partitions):
            return self.gram.plus(self.z.weight, self.rows, self.v.weight)
        add = self.z.weight * np.eye(self.cells) + self.v.weight * (self.rows.T @ self.rows)
        if self.gram.ndim == 2:
            return cho_solve(cho_factor(self.gram + add), np.eye(self.cells))
        a: Array = np.asarray(np.linalg.inv(self.gram + add), dtype=np.float64)
        assert isinstance(self.curvature, Curvature)
        self._share = np.linalg.inv(self.curvature.added_up(a)) if self.parent is not None else None
        return a

    def _advance(self, a: Array | Partitions, look: bool) -> None:
        """One iteration; on a ``look``, the residuals besides."""
        z, v = self.z, self.v
        r = self.rhs + z.pull() + v.pull() @ self.rows
        if isinstance(a, Partitions) or a.ndim == 2:
            x = a.solve(r) if isinstance(a, Partitions) else r @ a
            if self.parent is not None:
                x += (self.parent - x.sum(axis=0)) / self.children
        else:
            assert isinstance(self.curvature, Curvature)
            x = self.curvature.times(r, a)
            if self.parent is not None:
                x += self.curvature.alike(self._share @ (self.parent - x.sum(axis=0)), a)
        bx = x @ self.rows.T
        old_z, old_v = z.value, v.value
        z.follow(relaxed := z.relaxed(x), self._allowed(relaxed))
        v.follow(relaxed := v.relaxed(bx), self._within(relaxed))
        if look:
            z.look(x, self.curvature.balance(x - z.value, z.weight * (z.value - old_z)))
            change = v.weight * float(np.linalg.norm(v.value - old_v))
            v.look(bx, self.curvature.typical * float(np.linalg.norm(bx - v.value)) / max(change, 1e-300))

    # --- answer and certificate ---------------------------------------------------------------------------

    def repaired(self) -> Array:
        """The non-negative copy, each cell scaled so that its children sum to the parent exactly."""
        if self.parent is None:
            return self.z.value
        total = self.z.value.sum(axis=0)
        x = self.z.value * np.divide(self.parent, total, out=np.zeros_like(total), where=total > 0)
        if (lost := (total <= 0) & (self.parent > 0)).any():
            able = np.ones(self.rhs.shape, dtype=bool) if self.support is None else self.support
            x[:, lost] = able[:, lost] * (self.parent[lost] / able[:, lost].sum(axis=0))
        return x

    def certificate(self, x: Array) -> tuple[float, float]:
        """The relative gap at ``x``, and its largest violation of a group bound or of a part's total."""
        bx = x @ self.rows.T
        above, below = bx - self.lower, self.upper - bx
        off = float((np.maximum(-np.minimum(above, below), 0.0) * self.size).max(initial=0.0))
        mu = self.v.multiplier
        if len(self.parts):  # an equality for each part: one multiplier, of either sign, shared by its children
            short = self.parts.sums(bx[:, -1]) - self.parts.total / self.size[-1]
            off = max(off, float(np.abs(short).max()) * self.size[-1])
            above[:, -1], below[:, -1] = self.parts.spread(short, np.inf), self.parts.spread(-short, np.inf)
            mu[:, -1] = self.parts.spread(self.parts.sums(mu[:, -1]), 0.0)
        gap = relative_gap(self.curvature, self.rhs, x, self.parent, self.support, self.rows, (above, below),
                           (self.z.multiplier, mu))  # fmt: skip
        return gap, off


def _curvature(gram: Array | Partitions | Kinds) -> Curvature | PartitionsCurvature:
    if isinstance(gram, Partitions):
        return PartitionsCurvature(gram)
    given = gram if isinstance(gram, Kinds) else np.asarray(gram, dtype=float)
    if not np.isfinite(given.matrices if isinstance(given, Kinds) else given).all():
        raise ValueError(_FINITE)
    return Curvature(given)


def _rows(groups: NDArray[np.generic] | None, cells: int) -> Array:
    if groups is None:
        return np.zeros((0, cells))
    g = np.asarray(groups)
    if g.ndim == 2:
        return g.astype(float)
    return (g[None, :] == np.arange(int(g.max(initial=-1)) + 1)[:, None]).astype(float)
