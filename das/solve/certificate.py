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
square of the population and says nothing of the misfit. The gap is divided by :math:`\max(1,
\min(|P|, E))`, where :math:`E = \sum_c \tfrac12 r_c'G_c^{-1}r_c`, :math:`r = Gx - b`, is how far P
is above its minimum without constraints: no constant added to the problem changes it."""

from __future__ import annotations

import numpy as np

from das.solve.company import Company
from das.solve.layout import Array, added

_ROUNDING = 32 * np.finfo(float).eps  # of some dozens of operations


def relative_gap(
    company: Company, x: Array, slack: tuple[Array, Array], multipliers: tuple[Array, Array]
) -> Array:
    """The gap of each problem at ``x``. ``slack`` is ``B x - lower`` and ``upper - B x``;
    ``multipliers`` are first guesses of lambda and mu, made admissible here."""
    lam, mu = multipliers
    variables, sums = company.layout.entries, company.layout.sums
    mu = np.where(np.isfinite(slack[0]), mu, np.minimum(mu, 0.0))
    mu = np.where(np.isfinite(slack[1]), mu, np.maximum(mu, 0.0))
    misfit = company.gram(x) - company.rhs
    t = company.back(mu) - misfit
    if company.coupled:
        sign = np.maximum(lam, 0.0)
        whole = company.over_children(
            t + (sign if company.support is None else np.where(company.support, sign, lam))
        )
        t -= company.to_children(whole / company.layout.children_of_cell)
    lam = np.maximum(
        -t - company.diagonal * x, 0.0
    )  # less stationarity against more complementarity
    e = t + lam
    if company.support is not None:
        e = np.where(
            company.support, e, 0.0
        )  # an equality there: lambda of either sign, at no cost
    loss = sums.total(np.where(mu > 0, slack[0], 0.0) * np.maximum(mu, 0.0))
    loss += sums.total(np.where(mu < 0, slack[1], 0.0) * np.maximum(-mu, 0.0))
    loss += variables.total(lam * x) + _cost(company, e, x)
    value = variables.total(x * (0.5 * (misfit + company.rhs) - company.rhs))
    above = half_norm(company, misfit)
    return np.asarray(np.abs(loss) / np.maximum(1.0, np.minimum(np.abs(value), above)))


def half_norm(company: Company, e: Array) -> Array:
    """``1/2 e'G^+ e`` of each problem."""
    return 0.5 * company.layout.entries.total(e * company.inverse(e))


def balance(company: Company, primal: Array, dual: Array) -> Array:
    """Of each problem, the size of a residual in persons over that of one in gradients, both in the
    norm of G. Where G is singular, its missing curvatures count as typical ones."""
    total = company.layout.entries.total
    above, below = total(primal * company.gram(primal)), 2 * half_norm(company, dual)
    if company.null is not None:
        above += company.typical * total(company.null(primal) ** 2)
        below += total(company.null(dual) ** 2) / company.typical
    return np.asarray(np.sqrt(np.maximum(above, 0.0) / np.maximum(below, 1e-300)))


def _cost(company: Company, e: Array, x: Array) -> Array:
    """The least cost found, in P - D, of a residual of stationarity ``e``; infinite where there is
    no bound.

    Where G is singular, ``e`` must first be moved into its range. Raising ``e`` is raising lambda,
    at the cost x; lowering it is a multiplier of the bound x <= parent, which the other constraints
    imply, at the cost parent - x. Where the vector of ones is in the range (the queries sum to the
    total), raising by a constant besides will do alone. The cheaper is taken, child by child. A
    move that rounding makes of zero is no move: of a singular problem the gap leaves out as much as
    such moves cost, 7e-15 of the largest gradient for each person at most (1e-4 of a county of five
    million, whose own scale is 1 where all its measurements fit)."""
    if company.null is None:
        return half_norm(company, e)
    child, variables = company.layout.child_of, company.layout.entries
    children = int(company.layout.children.sum())

    def each(values: Array) -> Array:
        return added(child, values, children)

    def largest(values: Array) -> Array:
        out = np.zeros(children)
        np.maximum.at(out, child, values)
        return out

    move = -company.null(e)
    noise = _ROUNDING * variables.largest(np.abs(company.rhs))
    move = np.where(np.abs(move) <= noise[variables.problem_of], 0.0, move)
    best = np.full(children, np.inf)
    if company.coupled:
        parent = company.to_children(company.parent)
        best = each(np.maximum(move, 0) * x + np.maximum(-move, 0) * (parent - x))
        best = best + each(0.5 * (e + move) * company.inverse(e + move))
    spans = largest(np.abs(company.null(np.ones_like(e)))) < 1e-6
    up = move + largest(-move)[child]
    raised = each(up * x) + each(0.5 * (e + up) * company.inverse(e + up))
    problem = np.repeat(company.layout.problem, company.layout.children)
    return added(problem, np.where(spans, np.minimum(best, raised), best), company.layout.problems)
