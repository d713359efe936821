r"""The privacy profile of a composition, as a sum along a line of the complex plane, with a bound
on each error.

For the loss :math:`L` of :class:`~das.accounting.draws.Composition`, :math:`M(z) = E\, e^{zL}` and
any :math:`c > 0`,

.. math:: \delta(\varepsilon) = E (1 - e^{\varepsilon - L})_+
          = \frac{1}{2\pi} \int \frac{M(c + iy)\, e^{-\varepsilon (c + iy)}}{(c + iy)(c + iy + 1)}
          \, dy,

as :math:`1/z(z+1)` is the Laplace transform of :math:`(1 - e^{-u})_+`. At the saddlepoint c the
terms have the size of the answer. So nothing cancels, and floating point suffices for every delta.
The sum over :math:`y_j = 2\pi j/T` equals :math:`\sum_m \delta(\varepsilon + mT) e^{cmT}`. All
terms except m = 0 are positive and have known bounds; they fall below any tolerance as T grows.
Where the losses lie on :math:`\rho + h\mathbb{Z}` the same sum has :math:`N = T/h` distinct nodes,
and the kernel is the geometric series instead:

.. math:: K(z) = h \left( \frac{1}{1 - e^{-zh}} - \frac{e^{-g}}{1 - e^{-zh-h}} \right), \qquad
          s_0 = \lfloor(\varepsilon - \rho)/h\rfloor + 1, \quad g = \rho + h s_0 - \varepsilon.

Some h are so fine that the recurrences of N nodes cannot be listed. Then the continuous kernel is
summed up to a largest y, with a bound on the rest. Derivations and proofs:
``docs/explanation/accounting.md``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, exp, floor, fsum, inf, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from das.accounting.draws import Composition
from das.accounting.peaks import (
    MOST,
    PIECES,
    Band,
    Saddle,
    nodes,
    periodic_peaks,
    saddle,
    short,
    turns,
    work,
)
from das.accounting.tilted_gaussian import TiltedGaussian

#: Beyond this many intervals in the peak search, losses count as not on a lattice.
MANY = 6e5
#: The most nodes to look at. Without a lattice a part of it, because more nodes would only narrow
#: the bound on the tail.
NODES = 300_000
#: The goal for the part of the sum beyond the largest y, relative to the whole.
TAIL = 1e-12
#: One unit of rounding.
UNIT = 2.0**-53


@dataclass(frozen=True)
class LogDelta:
    """Natural logarithms of a lower bound, an estimate and an upper bound of delta."""

    low: float
    middle: float
    high: float


def period(rho: float, center: float, at: Saddle) -> Fraction:
    """The T with which aliases are below e^-38 of delta, at every epsilon within the saddle's width
    of the center."""
    goal = at.log_size - at.c * at.width - 38
    t = -goal / at.c
    while aliases(rho, at.c, center - at.width, t) > goal + 1:
        t *= 1.1
    return Fraction(short(t))


def aliases(rho: float, c: float, eps: float, t: float) -> float:
    r"""A bound of ln of the sum over m != 0 of :math:`\delta(\varepsilon + mT) e^{cmT}`; all its
    terms are positive.

    m < 0: delta <= 1, a geometric series. m > 0: :math:`P[L \ge x] \le e^{-(x-\rho)^2/4\rho}` for x
    >= rho; the logarithms of these terms are concave in m, so from the first ratio on they fall at
    least geometrically."""
    if eps + t <= rho:
        return inf

    def later(m: int) -> float:
        return c * m * t - (eps + m * t - rho) ** 2 / (4 * rho)

    ratio = later(2) - later(1)
    if ratio > -log(2):
        return inf
    return float(np.logaddexp(-c * t - log(-np.expm1(-c * t)), later(1) + log(2)))


@dataclass(frozen=True, eq=False)
class NodeValues:
    """The nodes that matter: j, the angle of each draw apart from e^{-eps z} and the kernel."""

    j: NDArray[np.int64]
    log_phi: NDArray[np.complex128]  #: sum over draws of n ln phi
    bound: NDArray[np.float64]  #: the product of the bounds of |phi|^n
    off: NDArray[np.float64]  #: rounding errors, as a multiple of the bound


class Contour:
    """The line, the step and the nodes for one composition and epsilons about ``center``."""

    def __init__(self, composition: Composition, center: Fraction, most: int = NODES) -> None:
        self.composition, self.center, self.most = composition, center, most
        self.rho = float(composition.rho)
        self.saddle = saddle(composition, float(center))
        self.c, self.width = self.saddle.c, self.saddle.width
        self.thetas = [TiltedGaussian(p, n, self.c, k) for p, k, n in composition.every]
        self._log_moments = sum(t.log_moment for t in self.thetas)
        whole = self._period()
        self.count = -(-whole // composition.step)
        self.lattice, self.period, self.last = True, composition.step * self.count, self.count // 2
        self.cut = False  #: whether the sum was ended early: then the bound of the tail is wide
        few = self.last < MOST and work(self._bands(), self.last) < MANY
        j = self._sieved() if few else None
        if j is None:
            self.lattice, self.period, wanted = False, whole, self._last(whole)
            j, self.last = periodic_peaks(composition, self.tau, NODES // 6).nodes(whole, wanted)
            self.cut = self.last < wanted
        self.kept = self._kept(j)
        self._last_gap: tuple[Fraction, NDArray[np.complex128], float] | None = None

    # --- the line and its step

    def covers(self, eps: Fraction) -> bool:
        """Whether ``eps`` is at most one standard deviation from the center. Then the terms are
        hardly larger than their sum."""
        return abs(float(eps - self.center)) <= self.width

    def _period(self) -> Fraction:
        return period(self.rho, float(self.center), self.saddle)

    def log_alias(self, eps: Fraction) -> float:
        """A bound of ln of the other terms of the periodic sum; all of them are positive."""
        return aliases(self.rho, self.c, float(eps), float(self.period))

    # --- the nodes

    @property
    def tau(self) -> float:
        """Nodes whose product of bounds is below e^-tau are dropped: together about e^-38 of the
        answer."""
        times = 1 / float(self.composition.step) if self.lattice else self.c + 1
        return 39 + max(0.0, log(sqrt(2 * pi) * self.width * times))

    def _bands(self) -> list[Band]:
        bands = [
            Band(float(t.rate / self.period), t.reach(self.tau) / (2 * pi)) for t in self.thetas
        ]
        return sorted(bands, key=lambda band: band.rate)

    def _last(self, period: Fraction) -> int:
        """The last node to look for if the lattice is too fine. It lies after as many recurrences
        as :data:`TAIL` needs, of the draw that bounds the tail best."""
        goal = TAIL / (self.c * (self.c + 1) * self.width)  # of about the integral
        t = float(period)

        def edge(x: TiltedGaussian) -> float:
            each = 2 * (x.mass / (2 * pi) + 1 / t) / x.recurrence**2
            return (
                ceil(each / goal) if each * pi**2 / 2 > goal else 0
            ) * x.recurrence + x.reach_in_y(self.tau)

        return max(1, ceil(min(MOST - 1.0, min(edge(x) for x in self.thetas) * t / (2 * pi))))

    def _sieved(self) -> NDArray[np.int64] | None:
        """The nodes of a lattice. ``None`` if there are more than ``most``, or if the peak search
        takes more than :data:`PIECES`."""
        pieces, seen = [], 0
        for count, (j, reached) in enumerate(nodes(self._bands(), self.last), 1):
            pieces.append(j)
            seen += len(j)
            if (seen > self.most or count > PIECES) and reached < self.last:
                return None
        return np.concatenate(pieces)

    def _kept(self, j: NDArray[np.int64]) -> NodeValues:
        bound, tau = np.zeros(len(j)), -self.tau
        for theta in self.thetas:
            bound += theta.log_bound(self.angles(theta, j))
            high = bound > tau
            j, bound = j[high], bound[high]
        log_phi, off = np.zeros(len(j), dtype=np.complex128), np.full(len(j), 64.0)
        for theta in self.thetas:
            t = self.angles(theta, j)
            log_phi += theta.log_phi(t)
            off += theta.roundings(t)
        return NodeValues(j, log_phi, np.exp(bound), off)

    def angles(self, theta: TiltedGaussian, j: NDArray[np.int64]) -> NDArray[np.float64]:
        return 2 * pi * turns(j, theta.rate / self.period)

    # --- the sum

    def gap(self, eps: Fraction) -> Fraction:
        """The distance from eps up to the next loss of the lattice, in (0, h]; 0 without a
        lattice."""
        if not self.lattice:
            return Fraction(0)
        h = self.composition.step
        return h * (floor((eps - self.composition.rho) / h) + 1) - (eps - self.composition.rho)

    def exponent(self, eps: Fraction) -> Fraction:
        """rho (c^2 + c) - c (eps + g), exactly: the scale of the terms, without
        :meth:`TiltedGaussian.log_moment`."""
        c = Fraction(self.c)
        return self.composition.rho * (c * c + c) - c * (eps + self.gap(eps))

    def kernel(self, gap: Fraction, j: NDArray[np.int64]) -> NDArray[np.complex128]:
        """1/z(z+1), or K(z) over a common denominator, where its terms are positive at y = 0."""
        z = np.asarray(self.c + 2j * pi * j / float(self.period), dtype=np.complex128)
        if not self.lattice:
            return np.reciprocal(z * (z + 1))
        h, g, rest = (float(x) for x in (self.composition.step, gap, self.composition.step - gap))
        zh = self.c * h + 2j * pi * (j / float(self.count))
        above = -np.expm1(-g) - np.exp(-zh - g) * np.expm1(-rest)
        below: NDArray[np.complex128] = np.expm1(-zh) * np.expm1(-zh - h)
        return h * above / below

    def weights(self, j: NDArray[np.int64]) -> NDArray[np.float64]:
        """2 for a node that stands for its conjugate, too; 1 for a node that is its own
        conjugate."""
        own = (j == 0) | (2 * j == self.count) if self.lattice else j == 0
        return np.where(own, 1.0, 2.0)

    def log_delta(self, eps: Fraction) -> LogDelta:
        """Bounds of ln delta(eps). They are proved except for rounding. The allowance for rounding
        is a first-order count of each term's errors, relative to the bound of its modulus."""
        k, gap = self.kept, self.gap(eps)
        kernel, rounding = self._weighted(gap)
        turn = turns(k.j, (self.composition.rho - eps - gap) / self.period)
        phi = np.exp(k.log_phi + 2j * pi * turn)
        terms = phi.real * kernel.real - phi.imag * kernel.imag
        return self._interval(eps, fsum(terms.tolist()) / float(self.period), rounding)

    def _weighted(self, gap: Fraction) -> tuple[NDArray[np.complex128], float]:
        """The kernel of each node times its weight (exact: 1 or 2), and the allowance for rounding.
        They are kept for the last gap. Without a lattice there is only one gap; on a lattice, all
        epsilons that are losses have the same gap."""
        if self._last_gap is None or self._last_gap[0] != gap:
            k = self.kept
            kernel = self.weights(k.j) * self.kernel(gap, k.j)
            rounding = (
                UNIT * float((k.bound * np.abs(kernel) * k.off).sum()) / float(self.period)
            )  # of a first order itself
            self._last_gap = gap, kernel, rounding
        return self._last_gap[1:]

    def _interval(self, eps: Fraction, middle: float, rounding: float) -> LogDelta:
        scale = float(self.exponent(eps)) + self._log_moments
        outside = self.dropped + self.beyond
        alias = exp(min(700.0, self.log_alias(eps) - scale))
        low, high = middle - rounding - outside - alias, middle + rounding + outside
        slack = UNIT * (8 + 4 * (abs(scale) + abs(self._log_moments)))

        def bound(x: float, slack: float) -> float:
            return min(0.0, scale + log(x) + slack) if x > 0 else -inf

        return LogDelta(bound(low, -slack), bound(middle, 0.0), bound(high, slack))

    @cached_property
    def dropped(self) -> float:
        """A bound of the terms left out up to the last node. On a lattice (count N) each kernel is
        at most the one at y = 0 and g = h. Without a lattice, sum_j 1/|z_j|^2 <= 1/c^2 + T/2c."""
        t = float(self.period)
        if self.lattice:
            most = float(self.count) * abs(self.kernel(self.composition.step, np.array([0]))[0])
        else:
            most = 1 / self.c**2 + t / (2 * self.c)
        return 1.01 * exp(-self.tau) * most / t

    @cached_property
    def beyond(self) -> float:
        r"""A bound of the terms after the last node, where the lattice is too fine.

        Let B be one draw's bound, with period P. It is negligible (dropped) farther than its reach
        from multiples of P. Let K recurrences lie inside, and let I be its integral over a period.
        B rises and falls once in a period. So its values at the nodes of one period sum to at most
        I/step + 1. These are divided by :math:`y^2`, and :math:`\sum_{k > K} (k - 1/2)^{-2} \le
        1/K`, or :math:`\pi^2/2` for K = 0."""
        if self.lattice:
            return 0.0
        t, edge = float(self.period), 2 * pi * self.last / float(self.period)
        found = 2 * t / (4 * pi * pi * self.last) if self.last else inf  # |phi| <= 1
        for x in self.thetas:
            whole = floor((edge - x.reach_in_y(self.tau)) / x.recurrence * (1 - 1e-9))
            if whole >= 0:
                each = 2 * (x.mass / (2 * pi) + 1 / t) / x.recurrence**2
                found = min(found, each * (1 / whole if whole else pi**2 / 2))
        return 1.01 * found
