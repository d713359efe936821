r"""How far a point can be from the optimum: the duality gap of the problem of
:mod:`das.solve.children`.

For any multipliers :math:`\lambda \ge 0` (of :math:`x \ge 0`), :math:`\mu` (of the bounds) and
:math:`\nu` (of the parent), with :math:`s_c = b_c + \nu + \lambda_c + B'\mu_c`, weak duality bounds
the optimum from below by

.. math:: D = \nu'p + \sum_c \Bigl(-\tfrac12 s_c'G_c^{-1}s_c + l_c'\mu_c^+ - u_c'\mu_c^-\Bigr) .

With the residual of stationarity :math:`e_c = s_c - G_c x_c` the difference to the value of a point
that sums to the parent is

.. math:: P - D = \sum_c \tfrac12 e_c'G_c^{-1}e_c + \lambda_c'x_c + (Bx_c - l_c)'\mu_c^+ + (u_c - Bx_c)'\mu_c^- ,

a sum of small terms (a total :math:`T_s` of several children is a bound from both sides, with one
multiplier for all of them: :math:`\mu_s(\sum_{c \in s} 1'x_c - T_s)`). P and D themselves may have
twelve equal digits. As :math:`P - P^* \ge \tfrac12\|x - x^*\|_G^2`, the gap also bounds the
distance to the optimum, in standard deviations of the measurements. (For a point within the bounds:
one that is outside by the stated residual can have negative terms, so the absolute value is
reported.)

*Relative to what.* P lacks the constant of a least-squares problem, so :math:`|P|` grows with the
square of the population and says nothing of the misfit. The gap is divided by :math:`\max(1, g,
\min(|P|, E))`, where :math:`E = \sum_c \tfrac12 r_c'G_c^{-1}r_c`, :math:`r = Gx - b`, is how far P
is above its minimum without constraints: no constant added to the problem changes it. g is the
typical curvature of a cell, in effect the cost of a person. It counts where noise is much less than
a person: there all of P - D is rounding error long before it is small next to 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from das.solve.layout import added
from das.solve.problem import ProblemBatch
from das.solve.smoothing import PositivePart

_FAR = 1e12  # a ratio that is as good as infinite
_ROUNDING = 32 * np.finfo(float).eps  # of some dozens of operations


def relative_gap(
    batch: ProblemBatch, x: Array, slack: tuple[Array, Array], multipliers: tuple[Array, Array]
) -> Array:
    """The gap of each problem at ``x``. ``slack`` is ``B x - lower`` and ``upper - B x``;
    ``multipliers`` are first guesses of lambda and mu, made admissible here."""
    lam, mu = multipliers
    variables, sums = batch.layout.entries, batch.layout.sums
    mu = np.where(np.isfinite(slack[0]), mu, np.minimum(mu, 0.0))
    mu = np.where(np.isfinite(slack[1]), mu, np.maximum(mu, 0.0))
    misfit = batch.gram(x) - batch.rhs
    t = batch.back(mu) - misfit
    if batch.coupled:
        sign = np.maximum(lam, 0.0)
        whole = batch.over_children(
            t + (sign if batch.support is None else np.where(batch.support, sign, lam))
        )
        t -= batch.to_children(whole / batch.layout.children_of_cell)
    lam = np.maximum(-t - batch.diagonal * x, 0.0)  # less stationarity against more complementarity
    e = t + lam
    if batch.support is not None:
        e = np.where(batch.support, e, 0.0)  # an equality there: lambda of either sign, at no cost
    loss = sums.total(np.where(mu > 0, slack[0], 0.0) * np.maximum(mu, 0.0))
    loss += sums.total(np.where(mu < 0, slack[1], 0.0) * np.maximum(-mu, 0.0))
    loss += variables.total(lam * x) + _cost(batch, e, x)
    value = variables.total(x * (0.5 * (misfit + batch.rhs) - batch.rhs))
    above = half_norm(batch, misfit)
    least = np.maximum(1.0, batch.typical)
    return np.asarray(np.abs(loss) / np.maximum(least, np.minimum(np.abs(value), above)))


def half_norm(batch: ProblemBatch, e: Array) -> Array:
    """``1/2 e'G^+ e`` of each problem."""
    return 0.5 * batch.layout.entries.total(e * batch.inverse(e))


def balance(batch: ProblemBatch, primal: Array, dual: Array) -> Array:
    """For each problem, the size of a residual in persons over that of one in gradients, both in
    the norm of G. Where G is singular, its missing curvatures count as typical ones."""
    total = batch.layout.entries.total
    above, below = total(primal * batch.gram(primal)), 2 * half_norm(batch, dual)
    if batch.null is not None:
        above += batch.typical * total(batch.null(primal) ** 2)
        below += total(batch.null(dual) ** 2) / batch.typical
    return np.asarray(np.sqrt(quotient(np.maximum(above, 0.0), below)))


def quotient(above: Array, below: Array) -> Array:
    """``above`` over ``below``, neither negative, up to what is as good as infinite: it overflows
    in no unit of weight. Nothing over nothing is 0."""
    far = np.where(above > 0, _FAR, 0.0)
    return np.asarray(np.divide(above, below, out=far, where=above < _FAR * below))


def _cost(batch: ProblemBatch, e: Array, x: Array) -> Array:
    """The least cost found, in P - D, of a residual of stationarity ``e``; infinite where there is
    no bound.

    Where G is singular, ``e`` must first be moved into its range. Raising ``e`` is raising lambda,
    at the cost x. Lowering it is a multiplier of the bound x <= parent, which the other constraints
    imply, at the cost parent - x. Where the vector of ones is in the range (the queries sum to the
    total), raising by a constant is also enough. The cheaper way is taken, child by child.

    A move that rounding makes of zero is no move. So the gap of a singular problem leaves out the
    cost of such moves. That is at most 7e-15 of the largest gradient for each person: 1e-4 for a
    county of five million, whose own scale is 1 where all its measurements fit."""
    if batch.null is None:
        return half_norm(batch, e)
    child, variables = batch.layout.child_of, batch.layout.entries
    children = int(batch.layout.children.sum())

    def each(values: Array) -> Array:
        return added(child, values, children)

    def largest(values: Array) -> Array:
        out = np.zeros(children)
        np.maximum.at(out, child, values)
        return out

    move = -batch.null(e)
    noise = _ROUNDING * variables.largest(np.abs(batch.rhs))
    move = np.where(np.abs(move) <= noise[variables.problem_of], 0.0, move)
    best = np.full(children, np.inf)
    if batch.coupled:
        parent = batch.to_children(batch.parent)
        best = each(np.maximum(move, 0) * x + np.maximum(-move, 0) * (parent - x))
        best = best + each(0.5 * (e + move) * batch.inverse(e + move))
    spans = largest(np.abs(batch.null(np.ones_like(e)))) < 1e-6
    up = move + largest(-move)[child]
    raised = each(up * x) + each(0.5 * (e + up) * batch.inverse(e + up))
    problem = np.repeat(batch.layout.problem, batch.layout.children)
    return added(problem, np.where(spans, np.minimum(best, raised), best), batch.layout.problems)


# Exact sums over disjoint groups of variables, child by child: the shifts with which they hold.

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

_STEPS, _EXACT = 40, 1e-9  # of Newton's method for each sum, and the relative error at its end


@dataclass(frozen=True, eq=False)
class ExactSums:
    """``cells`` of the groups, one group after the other; where each ``starts``, and its number
    ``group`` among ``groups``; the ``total`` of each and child, if it is ``exact``, ``(groups with
    cells, children)``."""

    cells: Index
    starts: Index
    group: Index
    groups: int
    total: Array
    exact: Mask

    @staticmethod
    def from_groups(rows: csr_array, total: Array, exact: Mask) -> ExactSums | None:
        """Of groups as 0/1 ``rows`` ``(groups, cells)``; None where they overlap, or no sum is
        exact."""
        if not exact.any() or (np.asarray(rows.sum(axis=0)) > 1).any():
            return None
        group = np.flatnonzero(np.diff(rows.indptr))
        known = total[group]
        return ExactSums(
            rows.indices.astype(np.intp),
            rows.indptr[:-1][group].astype(np.intp),
            group,
            rows.shape[0],
            known,
            exact[group] & (known > 0),
        )

    def level(self, answer: PositivePart, s: Array) -> Array:
        """What to add to the potentials ``s`` of each group for its variables to have their sum,
        ``(groups, children)``; as :meth:`das.solve.smoothing.PositivePart.level` for cells."""
        curvature, width = (
            np.broadcast_to(x, s.shape)[self.cells] for x in (answer.curvature, answer.width)
        )
        many, s = PositivePart(curvature, width, answer.smoothing), s[self.cells]
        sizes = np.diff(np.append(self.starts, len(s)))
        high = np.maximum.reduceat(s, self.starts, axis=0)
        here = self.exact & np.isfinite(high)
        most = np.maximum.reduceat(curvature, self.starts, axis=0)
        shift = np.where(here, self.total * most - np.where(here, high, 0.0), 0.0)
        enough = self._sums(many.at(s)) >= self.total
        shift = np.where(enough, np.minimum(shift, 0.0), shift)
        for _ in range(_STEPS):
            at = s + np.repeat(shift, sizes, axis=0)
            over = np.where(here, self._sums(many.at(at)) - self.total, 0.0)
            if (over <= _EXACT * self.total).all():
                break
            slope = np.maximum(self._sums(many.slope(at, -np.inf)), 1e-300)
            shift = shift - np.maximum(over, 0.0) / slope
        out = np.zeros((self.groups, s.shape[1]))
        out[self.group] = shift
        return out

    def _sums(self, x: Array) -> Array:
        return np.asarray(np.add.reduceat(x, self.starts, axis=0))
