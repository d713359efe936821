r"""Least squares over the children of one parent, by its multipliers. This suits large families and
needs no matrix over the cells.

The problem of :mod:`das.solve.children` with :math:`G_c = D_c + \sum_r w_{rc} a_r a_r'`
(:class:`das.solve.partitions.LayeredGram`): answers of one cell are the diagonal :math:`D_c`, all
others 0/1 rows :math:`a_r`. With the sums :math:`t_{rc} = a_r'x_c` as variables of their own, let
:math:`y` be the multipliers of all sums: of the measured rows, of the parent, of groups and of
parts. Given these, every variable is by itself,

.. math:: s = b + R'y, \qquad x(y) = [s]_+ / D, \qquad
          F(y) = \tfrac12 \sum D\,x(y)^2 + \tfrac12 y'Vy - e'y \;\to\; \min_y,

where :math:`R` has the rows of all sums. :math:`V = \mathrm{diag}(1/w)` on measured rows and 0 on
exact ones, whose values are :math:`e`. :math:`F` is convex and piecewise quadratic and has no
constraint. Minus its minimum is the minimum of the problem. Its gradient :math:`Rx + Vy - e` shows
which sums do not hold. Its second derivatives are :math:`R_S D_S^{-1} R_S' + V`, with :math:`S` the
positive variables. These are a tenth of all, because parents' cells hold fewer persons than there
are children.

*Newton's method*, with the generalized second derivatives (Qi & Sun 1993; Li, Sun & Toh 2020), ends
in a few steps. But far from the end every step misjudges which variables will be positive. So
:math:`[s]_+` is smoothed over a width :math:`h` (:mod:`das.solve.smoothing`), as if an entropy were
added to the squares. For large :math:`h` this is the scaling of transport problems (Cuturi 2013),
for :math:`h = 0` the problem itself. After every good step :math:`h` shrinks, and the multipliers
of the parent are set to make its cells add up (Newton's method cell by cell). The width grows with
a cell's expected count up to the standard deviation of one measured cell, and no further. Larger
counts are not near 0, and smoothing them slows the first steps down.

A sum between bounds :math:`l, u` is a variable with a proximal term:
:math:`e = [v - y/\delta]_l^u`, whose center v follows it (Rockafellar 1976). Its corners are
smoothed as well. Where bounded sums overlap or leave little room, centers can go round in a circle.
The status is then ``INACCURATE``, and :mod:`das.solve.children` solves the problem another way,
unless it is large.

*Steps* solve :math:`(R D^{-1} R' + V + \tau I_E) z = -\nabla F` by conjugate gradients;
:math:`\tau`, on exact sums alone, keeps z small while steps come out short. The preconditioner is
the diagonal and, child by child, the inverse for the coarse queries, :math:`V + A D^{-1} A'` with
some hundred rows. As far as there is room, the largest exact sums are among these rows: they are
nearly sums of coarse queries, and with their diagonal alone the root of a tree takes hundreds of
steps. The multipliers begin at the noisy answers, if these are given, and then exact sums and the
parent are met in turn. Far from there :math:`[s]_+` bends too much for a step. One product with R
takes one addition for each query and variable. Where few variables are positive, it uses these
alone. A line search finds a point where the derivative along
z is small. F itself is not needed, so smoothing needs no integral. No step is much larger than the
multipliers: along directions that change no variable, F is nearly flat.

Every variable needs a curvature of its own, :math:`D > 0`: where nothing measures all cells, a weak
pull to even shares provides it. *Certificate.* See :mod:`das.solve.dual`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import _sparsetools, csr_array

from das.model.solution import Solution, Status
from das.solve.dual_problem import FEASIBLE, DualProblem, repaired, started
from das.solve.layout import added
from das.solve.problem import ChildrenQP
from das.solve.smoothing import PositivePart

# How far an answer of :mod:`das.solve.dual` can be from the optimum.
#
# For any multipliers y, :math:`-F(y)` bounds the optimum from below. With :math:`s = b + R'y`, the
# value of an answer x that meets all exact sums is above it by
#
# .. math:: P(x) + F(y) = \sum_{s > 0} \tfrac12 D (x - s/D)^2 + \sum_{s \le 0} \bigl(\tfrac12 D x^2 - s x\bigr)
# + \sum_r \tfrac12 w_r (a_r'x + y_r/w_r)^2 + \sum_r y_r^+ (a_r'x - l_r) + y_r^- (u_r -
# a_r'x),
#
# terms that are none negative, the first two of the variables, the third of measured sums, the last
# of sums between bounds: no digits are lost. Violations of exact sums, which are within the stated
# residual, are counted with their sign and the absolute value is reported, as in
# :mod:`das.solve.certificate`.
#
# *Relative to what.* To :math:`\max(1, g, \min(|P|, E))` as there, with g the median of D and
# :math:`E = \tfrac12 r'G^{-1}r`, :math:`r = Gx - b`. A medium row of n cells has :math:`w\,aa'
# \preceq w n I` on these, so with D' the diagonal that has these added, and the coarse rows A,
#
# .. math:: G \preceq D' + A'WA, \qquad E \ge \tfrac12 r'(D' + A'WA)^{-1} r,
#
# by Woodbury's identity with as many rows as A has. This bound is taken: the stated gap is the larger
# for it, never the smaller.

Array = NDArray[np.float64]


class Gap:
    """The gap of one problem."""

    def __init__(self, p: DualProblem) -> None:
        self.p = p

    def at(self, x: Array, y: Array, tol: float = np.inf) -> tuple[float, float]:
        """The relative gap at ``x`` and the largest violation. A gap that is above ``tol`` of
        ``|P|`` is not put against E."""
        p = self.p
        low, high = p.lower, p.upper
        sums, t = p.groups @ x, p.queries @ x
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
        gx = p.curvature * x + p.back[0] @ (weight * t)
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
        most: Array = p.groups @ p.most
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
        are."""
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
            d = p.curvature[:, j] + p.back[0] @ medium
            some = np.flatnonzero(w[: p.core] > 0)
            a = p.queries[some]
            factor = None
            if len(some):
                factor = cho_factor(((a / d[None, :]) @ a.T).toarray() + np.diag(1 / w[some]))
            out.append((d, a, factor, np.flatnonzero(kind == k)))
        return out


_FEW = 0.25  # where no more than this share of the variables has a slope, they are taken out
_MOST = 300  # steps for one system


class NewtonSystem:
    """The second derivatives, R diag(``slope``) R' + diag(``bend``), and what is near their
    inverse."""

    def __init__(self, p: DualProblem, slope: Array, bend: Array) -> None:
        self.p = p
        flat = np.flatnonzero(slope)
        self.cell, self.child = np.divmod(flat, p.children)
        self.slope = slope.ravel()[flat]
        self.product: Callable[[Array, Array], None]
        if len(flat) <= _FEW * slope.size:
            self.product, diagonal = self._few()
        else:
            self.product = self._many(slope)
            diagonal = p.rows.sums(slope)
        diagonal = diagonal + bend
        nothing = diagonal <= 0  # no variable moves with it: as if one did
        self.bend = np.where(nothing, 1 / p.typical, bend)
        self.diagonal = np.where(nothing, 1 / p.typical, diagonal)
        self.held = ~p.free
        variables = float((slope * p.curvature).sum()) / p.children
        self.core = self._core() if 0 < p.core < variables else None

    def _few(self) -> tuple[Callable[[Array, Array], None], Array]:
        """What puts ``R_S diag(slope) R_S' v`` into an array of zeros, and its diagonal."""
        end, columns = self.p.rows.matrix(self.cell, self.child)
        shape, ones = (len(self.cell), self.p.rows.size), np.ones(len(columns))
        held = np.empty(shape[0])

        def product(v: Array, out: Array) -> None:
            held[:] = 0.0
            _sparsetools.csr_matvec(*shape, end, columns, ones, v, held)
            np.multiply(self.slope, held, out=held)
            _sparsetools.csc_matvec(*shape[::-1], end, columns, ones, held, out)

        return product, added(columns, np.repeat(self.slope, np.diff(end)), shape[1])

    def _many(self, slope: Array) -> Callable[[Array, Array], None]:
        rows = self.p.rows

        def product(v: Array, out: Array) -> None:
            out[:] = rows.sums(slope * rows.spread(v))

        return product

    def solve(self, right: Array, accuracy: float, limit: int) -> tuple[Array, int]:
        """The solution, to a relative error of ``accuracy``, and the number of steps."""
        z, r = np.zeros_like(right), right.copy()
        q = self._near(r)
        s, now = q, float(r @ q)
        enough = accuracy**2 * now
        n, m = 1, np.empty_like(right)
        while n < max(1, min(_MOST, limit)) and now > 0:
            n += 1
            m[:] = 0.0
            self.product(s, m)
            m += self.bend * s
            m[self.held] = 0.0
            a = now / float(s @ m)
            z += a * s
            m *= a
            r -= m
            q = self._near(r)
            old, now = now, float(r @ q)
            if now <= enough:
                break
            s *= now / old
            s += q
        return z, n

    def _near(self, r: Array) -> Array:
        out = r / self.diagonal
        if self.core is not None:
            rows = self.p.rows.of_rows(r)[self.p.near]
            both = np.matmul(self.core, rows.T[:, :, None])[:, :, 0].T
            self.p.rows.of_rows(out)[self.p.near] = both
        out[self.held] = 0.0
        return out

    def _core(self) -> Array:
        """For each child, the inverse for the coarse queries: ``(children, core, core)``."""
        p, n = self.p, len(self.p.near)
        rows = p.near_of_cell[self.cell]
        columns = rows.indices + np.repeat(self.child * n, np.diff(rows.indptr))
        some = csr_array((rows.data, columns, rows.indptr), shape=(len(self.cell), n * p.children))
        both = (some.T @ (some * self.slope[:, None])).tocoo()
        row, column = both.coords
        blocks = np.zeros((p.children, n, n))
        blocks[row // n, row % n, column % n] = both.data
        bend = p.rows.of_rows(self.bend)[p.near].T
        blocks[:, np.arange(n), np.arange(n)] += bend
        return np.asarray(np.linalg.inv(blocks), dtype=np.float64)


_BALANCED = 3  # rounds in which exact sums and the parent are met in turn, to begin with
_WIDEST = 3.0  # the first smoothing, in persons of a cell of few
_SHRINK = 0.3  # what it is multiplied by after a good step,
_STEADY = 0.01  # where tau is no more than this,
_SHARP = 1e-3  # until it is less than this
_LOOK = 10.0  # the smoothing from which on certificates are looked at, in roots of the tolerance
_TAU, _LEAST_TAU = 1.0, 1e-3  # of one variable's second derivative
_GOOD = 0.7  # the length of a good step, at least
_WEAK = 0.3  # a length is fine where the derivative is less than this share of the first one
_TRIES, _DOUBLE = 10, 2
_ROUNDING = 1e-11  # a gradient of no more, relative to the sums, is none
_ROUNDS = (0, 8, 24)  # by which an answer is moved into the bounds, if the gap is small


def solved(p: ChildrenQP, tol: float, limit: int) -> Solution:
    """The solution of one problem; ``limit`` bounds the steps of conjugate gradients, which are its
    ``iterations``."""
    began = perf_counter()
    x, gap, residual, iterations = _Newton(DualProblem(p)).run(tol, limit)
    status = Status.OPTIMAL if gap <= tol and residual <= FEASIBLE else Status.INACCURATE
    return Solution(
        np.ascontiguousarray(x.T), status, gap, residual, iterations, perf_counter() - began
    )


class _Newton:
    """The state: multipliers ``y``, potentials ``s`` (-inf where x is 0), the smoothness
    (``answer``), and the values near which sums between bounds are held (``center``)."""

    def __init__(self, p: DualProblem) -> None:
        self.p, self.gap = p, Gap(p)
        start = started(p)
        most = np.maximum(1.0, 1 / np.sqrt(p.curvature))
        self.answer = PositivePart(p.curvature, p.curvature * np.clip(start, 1.0, most), _WIDEST)
        self.center = np.clip(p.rows.sums(start)[p.box], p.low, p.high)
        self.tau = _TAU
        self.y = np.zeros(p.rows.size)
        measured = p.rows.of_rows(self.y)[: p.measured]
        measured[:] = -p.weight * (p.queries @ start if p.answers is None else p.answers)
        self.y[~p.free] = 0.0
        self._settle()
        self._balance(_BALANCED)

    def run(self, tol: float, limit: int) -> tuple[Array, float, float, int]:
        spent = 0
        while True:
            x = self.answer.at(self.s)
            if self.answer.smoothing <= _LOOK * tol**0.5 or spent >= limit:
                found = self._answer(x, tol)
                if found is not None or spent >= limit:
                    whole = repaired(self.p, x)
                    return *(found or (whole, *self.gap.at(whole, self.y))), spent
            spent += self._advance(x, limit - spent)

    def _answer(self, x: Array, tol: float) -> tuple[Array, float, float] | None:
        """The variables made feasible, their gap and residual, if these are small enough."""
        for rounds in _ROUNDS:
            x = repaired(self.p, x, rounds)
            gap, residual = self.gap.at(x, self.y, tol)
            if gap > tol:
                return None
            if residual <= FEASIBLE:
                return x, gap, residual
        return None

    def _advance(self, x: Array, limit: int) -> int:
        """One step; how many of conjugate gradients it took."""
        p = self.p
        wanted, bend = p.sums_wanted(self.y, self.center, self.answer.smoothing)
        sums = p.rows.sums(x)
        gradient = np.where(p.free, sums - wanted, 0.0)
        if np.abs(gradient).max(initial=0.0) <= _ROUNDING * (1 + np.abs(sums).max(initial=0.0)):
            self._follow(1.0)
            self._settle()
            return 1
        damping = np.where(p.exact, self.tau / p.typical, 0.0)
        step = NewtonSystem(p, self.answer.slope(self.s), bend + damping)
        z, spent = step.solve(-gradient, 0.1 if self.answer.smoothing > 1e-2 else 0.01, limit)
        share = self._bounded(z, wanted)
        z *= share
        direction = p.rows.spread(z)
        length = _length(lambda a: self._derivative(a, z, direction), float(gradient @ z))
        self.y = self.y + length * z
        self._follow(length * share)
        self._settle()
        return spent

    def _bounded(self, z: Array, wanted: Array) -> float:
        """The share of a step that at most doubles the multipliers, or is as large as they are
        expected to be.

        Suppose bounds hold all sums of a partition and the total is exact. Then a shift of their
        multipliers changes no variable and costs next to nothing. Without this limit a step goes a
        thousand times too far, and the next ones come back only slowly."""
        largest = float(np.abs(z).max(initial=0.0))
        expected = self.p.typical * np.abs(wanted).max(initial=1.0)
        most = float(max(expected, np.abs(self.y).max(initial=0.0)))
        return min(1.0, most / largest) if largest else 1.0

    def _derivative(self, length: float, z: Array, direction: Array) -> float:
        s = self.s + length * direction
        wanted, _ = self.p.sums_wanted(self.y + length * z, self.center, self.answer.smoothing)
        return float(np.vdot(self.answer.at(s), direction) - wanted @ z)

    def _follow(self, length: float) -> None:
        """Less or more smoothing, and damping, after a step of some length."""
        steady = self.tau <= _STEADY
        self.tau = max(
            _LEAST_TAU,
            self.tau
            * (10 if length < 0.1 else 3 if length < 0.3 else 1 if length < _GOOD else 0.1),
        )
        if length < _GOOD or not steady:
            return
        smoothing = self.answer.smoothing * _SHRINK
        self.center = self.p.centered(self.y, self.center)
        self.answer = PositivePart(
            self.answer.curvature, self.answer.width, smoothing if smoothing > _SHARP else 0.0
        )

    def _balance(self, rounds: int) -> None:
        """Set the multipliers of exact sums to where these hold, and those of the parent, in turn:
        each the best there is while the others stay."""
        p = self.p
        if p.sums is None or p.parent is None:
            return
        for _ in range(rounds):
            p.rows.of_rows(self.y)[p.measured :] += p.sums.level(self.answer, self.s)
            self._settle()

    def _settle(self) -> None:
        """The potentials, after the multipliers of the parent have been set to where its cells add
        up."""
        p = self.p
        s = p.rows.spread(self.y)
        s += p.rhs
        s[~p.able] = -np.inf
        if p.parent is not None:
            shift = self.answer.level(s, p.parent)
            p.rows.of_cells(self.y)[:] += shift
            s += shift[:, None]
        self.s = s


def _length(derivative: Callable[[float], float], first: float) -> float:
    """How far to go: to where the derivative is small relative to the ``first``, at 0, by false
    position."""
    low, below, high = 0.0, first, 1.0
    above = derivative(high)
    if abs(above) <= _WEAK * abs(first):
        return high
    for _ in range(_DOUBLE):
        if above > 0:
            break
        low, below, high = high, above, 2 * high
        above = derivative(high)
    if above <= 0:
        return high
    length = high
    for _ in range(_TRIES):
        length = (
            low - below * (high - low) / (above - below) if above > below else 0.5 * (low + high)
        )
        length = min(max(length, low + 0.1 * (high - low)), high - 0.1 * (high - low))
        here = derivative(length)
        if abs(here) <= _WEAK * abs(first):
            break
        if here < 0:
            low, below = length, here
        else:
            high, above = length, here
    return length
