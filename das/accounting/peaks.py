r"""Which nodes of a long sum matter: the integers j where all bump trains are high at once.

Each draw is small at node j unless :math:`j r`, its angle in turns, is within a reach :math:`w` of
an integer. The j of one train are short intervals around :math:`k/r`. To find the j of all trains,
the search intersects the intervals of one with the bumps of the next. It takes the longest periods
(the largest variances) first, so the intervals are always few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, exp, floor, log, log2, pi, sqrt
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from das.accounting.draws import Composition
from das.accounting.tilted_gaussian import SMALL, TiltedGaussian

Integers = NDArray[np.int64]
#: IntervalEnds of intervals: whole numbers up to :data:`MOST`, which floats hold exactly.
IntervalEnds = NDArray[np.float64]

#: About how many bumps, or nodes, are processed together.
SIZE = 1 << 14
#: Where intervals have at most this many nodes on average, nodes are examined one by one.
LONG = 4
#: Nodes are below this number: floats hold them exactly, and :func:`turns` is accurate.
MOST = 1 << 52


@dataclass(frozen=True)
class Band:
    """The j whose angle, ``rate`` turns per step, is within ``width`` turns of a whole turn."""

    rate: float
    width: float


def work(bands: Sequence[Band], last: int) -> float:
    """About how many intervals :func:`nodes` handles at most, or nodes at its end, if the angles
    were independent."""
    share, most = 1.0, 1.0
    for b in bands:
        most = max(most, last * b.rate * share)
        share *= min(1.0, 2 * b.width)
    return max(most, last * share)


def nodes(bands: Sequence[Band], last: int, first: int = 0) -> Iterator[tuple[Integers, int]]:
    """The j of ``first``..``last`` inside all ``bands`` (by rising rate), and perhaps a few more.
    Yields ascending pieces, each with the j up to which the list is complete. A piece takes the
    work of some :data:`SIZE` bumps of a band, or nodes, and can be empty: the number of pieces
    measures the work.

    Bounds of intervals are computed in floating point. The widths include an allowance for its
    errors."""
    guard = 1e-11 + 2.0**-50 * last * max((b.rate for b in bands), default=0.0)
    useful = [Band(b.rate, b.width + guard) for b in bands if b.width + guard < 0.49]
    yield from _inside(np.array([first], dtype=float), np.array([last], dtype=float), useful)
    yield np.array([], dtype=np.int64), last


def _inside(
    low: IntervalEnds, high: IntervalEnds, bands: Sequence[Band]
) -> Iterator[tuple[Integers, int]]:
    """The j of the intervals that are inside all bands, depth first: a run of bumps of the first
    band, then the bumps of the next band within them, until few nodes are left."""
    if (high - low + 1).sum() <= SIZE:
        yield _listed(low, high, bands), int(high[-1])
        return
    for a, b in _runs(low, high, bands[0].rate if bands else 1.0):
        if not bands:
            yield _listed(a, b, bands), int(b[-1])
            continue
        inner = _meet(a, b, bands[0])
        if len(inner[0]):
            yield from _inside(*inner, bands[1:])
        else:
            yield np.array([], dtype=np.int64), int(b[-1])


def _listed(low: IntervalEnds, high: IntervalEnds, bands: Sequence[Band]) -> Integers:
    """The j of the intervals that are inside all bands. Long intervals are cut to bumps first."""
    while bands and (high - low + 1).sum() > LONG * len(low):
        low, high = _meet(low, high, bands[0])
        bands = bands[1:]
    count = (high - low + 1).astype(np.int64)
    j = np.repeat(low.astype(np.int64), count) + rank_in_group(count)
    for band in bands:
        if not len(j):
            break
        at = j * band.rate
        j = j[np.abs(at - np.rint(at)) <= band.width]
    return j


def _runs(
    low: IntervalEnds, high: IntervalEnds, rate: float
) -> Iterator[tuple[IntervalEnds, IntervalEnds]]:
    """The intervals, in runs with about :data:`SIZE` bumps of ``rate`` each. Longer intervals are
    cut."""
    bumps, span = (high - low) * rate + 1, max(1, int(min(SIZE / rate, MOST)))
    if bumps.sum() < SIZE:
        yield low, high
        return
    long = bumps > SIZE
    cut = np.flatnonzero((np.diff(np.cumsum(bumps) // SIZE) > 0) | long[1:] | long[:-1]) + 1
    for a, b in zip(np.split(low, cut), np.split(high, cut), strict=True):
        if len(a) > 1:
            yield a, b
            continue
        for first in range(int(a[0]), int(b[0]) + 1, span):
            last = min(first + span - 1, int(b[0]))
            yield np.array([first], dtype=float), np.array([last], dtype=float)


def turns(j: Integers, rate: Fraction) -> NDArray[np.float64]:
    r"""``j * rate`` modulo 1, in [-1/2, 1/2), to :math:`2^{-62}` and the rounding of the result,
    for j < 2^53.

    The rate is taken to 128 bits. Its upper 64 multiply j modulo 2^64 exactly, in the arithmetic of
    unsigned integers; the lower 64 add at most j 2^-64, which a float holds to one unit."""
    whole = rate.denominator
    upper, lower = divmod((rate.numerator % whole << 128) // whole, 2**64)
    carry = (j.astype(np.float64) * (lower / 2**64)).astype(np.uint64)
    return (j.astype(np.uint64) * np.uint64(upper) + carry).view(np.int64) / 2.0**64


def _meet(low: IntervalEnds, high: IntervalEnds, band: Band) -> tuple[IntervalEnds, IntervalEnds]:
    """The parts of the intervals inside the bumps of ``band``. IntervalEnds of bumps are floats, and can be
    larger than any integer type holds. The ends of the intervals then limit them: those are at most
    :data:`MOST`, and floats hold them exactly. Nothing is copied that need not be: this is most of
    the time of a search."""
    first, more = low * band.rate, high * band.rate
    first -= band.width
    more += band.width
    np.ceil(first, out=first)
    np.floor(more, out=more)
    more -= first  # bumps after the first
    if len(low) == 1:
        k = first + np.arange(max(0, int(more[0]) + 1))
    elif more.max(initial=0) <= 0:  # short intervals, as most are: one bump or none
        one = np.flatnonzero(more >= 0)
        k, low, high = first[one], low[one], high[one]
    else:
        times = np.maximum(more + 1, 0).astype(np.int64)
        k = np.repeat(first, times) + rank_in_group(times)
        low, high = np.repeat(low, times), np.repeat(high, times)
    a, b = k - band.width, k + band.width
    a /= band.rate
    b /= band.rate
    np.maximum(np.ceil(a, out=a), low, out=a)
    np.minimum(np.floor(b, out=b), high, out=b)
    there = a <= b
    return (a, b) if there.all() else (a[there], b[there])


def rank_in_group(count: Integers) -> Integers:
    """0..n-1 for each n of ``count``, one after another."""
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)


# Which of many changes of an answer is the worst: the one that changes a single answer by all.
#
# Several records that change together, such as the persons of one address, can change one answer by
# k, or several answers by less. Let the changes of the answers be any integer vector v with
# :math:`\|v\|_1 \le k`. The noise of each answer is :math:`N_{\mathbb Z}(0, \sigma^2)`. A pair of
# distributions *dominates* another if its delta is at least as large at every epsilon; then it does
# so next to any independent draws, too.
#
# **Claim.** Let :math:`k \ge 2`, :math:`\sigma^2 > 3`, :math:`s^2 = 3\sigma^2/(\sigma^2 - 3)` and
#
# .. math:: (k^2 - 2k + 2)\,(\sigma^2 + s^2) \le k^2\,(\sigma^2 - s^2).
#
# Then :math:`v = k e_j` dominates every v, apart from a factor of at most :math:`e^{\pm\eta}` in all
# densities, with :math:`\eta < 10^{-22} k`.
#
# *Proof.* A vector with one entry is at most k. A larger shift in one answer dominates: the ratio
# :math:`p(x)/p(x - a)` falls in x, so :math:`\delta_a = \max_t F(t) - e^\varepsilon F(t - a)`, which
# rises with a. With two entries or more, :math:`\|v\|_2^2 \le (k-1)^2 + 1 = k^2 - 2k + 2`. Write
# :math:`\zeta(r^2) = 2 \sum_{m \ge 1} e^{-2\pi^2 r^2 m^2}`. By Poisson's formula a sum of
# :math:`e^{-(x - y)^2/2r^2}` over the integers x is :math:`\sqrt{2\pi}\, r\, (1 \pm \zeta(r^2))` for
# every real y.
#
# 1. *Discrete from continuous.* Draw y from :math:`N(v_j, \sigma^2 - s^2)`, then an integer x with
# probability proportional to :math:`e^{-(x - y)^2/2s^2}`. Its probability is that of
# :math:`N_{\mathbb Z}(v_j, \sigma^2)`, up to a factor of :math:`(1 \pm \zeta(s^2))^{-1} (1 \pm
# \zeta(\sigma^2))`.
# 2. *Continuous from discrete.* Draw x from :math:`N_{\mathbb Z}(v_j, \sigma^2)` and add :math:`N(0,
# s^2)`. The density is that of :math:`N(v_j, \sigma^2 + s^2)`, up to a factor of :math:`(1 \pm
# \zeta(r^2))(1 \pm \zeta(\sigma^2))^{-1}`, with :math:`r^2 = \sigma^2 s^2/(\sigma^2 + s^2) = 3`.
#
# So v is post-processing of a Gaussian of :math:`\rho = \|v\|^2/2(\sigma^2 - s^2)`. By the condition
# that is no more than :math:`k^2/2(\sigma^2 + s^2)`, the Gaussian that post-processing makes of
# :math:`k e_j`; and of two Gaussians the larger shift dominates. At most k answers change, each with
# four factors of :math:`1 \pm \zeta(3)`, and :math:`\zeta(3) < 4 \cdot 10^{-26}`. ∎
#
# A factor of :math:`e^{\pm\eta}` in both densities moves epsilon by :math:`2\eta`, and delta by a
# part :math:`\eta` of it: :data:`SLACK`, added to the upper end, is far more.
#
# Two groups of answers that change at once (one loses what the other gains) have a vector each, and
# the claim holds for each.

#: The parameter of the proof: the r^2 of its second step.
WIDTH = 3
#: What the upper end of an epsilon is raised by, for all draws together.
SLACK = 1e-12


def is_worst(sigma_sq: Fraction, k: int) -> bool:
    """Whether the change of one answer by ``k`` dominates all that change answers by ``k`` in sum.

    >>> is_worst(Fraction(1709), 22), is_worst(Fraction(12), 2), is_worst(Fraction(5), 2)
    (True, True, False)"""
    if k == 1:
        return True
    if sigma_sq <= WIDTH:
        return False
    s_sq = WIDTH * sigma_sq / (sigma_sq - WIDTH)
    return (k * k - 2 * k + 2) * (sigma_sq + s_sq) <= k * k * (sigma_sq - s_sq)


# Where the line of integration crosses the real axis.
#
# Any c > 0 is correct. At the minimum of :math:`\ln M(c) - \varepsilon c - \ln c (c + 1)` the terms
# have the size of the answer. Variances above 1/4 are Gaussian enough for :math:`\ln M(c) = \rho(c^2
# + c)`. Below 1/4, moments are staircases.


@dataclass(frozen=True)
class Saddle:
    """``c``; ``width``, the square root of the second derivative at c; and ``log_size``, about ln
    delta."""

    c: float
    width: float
    log_size: float


def saddle(composition: Composition, eps: float) -> Saddle:
    rho = float(composition.rho)
    small = [(p, k, n) for p, k, n in composition.every if 1 / p < SMALL]

    def log_moment(c: float) -> float:
        return rho * (c * c + c) + sum(TiltedGaussian(p, n, c, k).log_moment for p, k, n in small)

    def exponent(log_c: float) -> float:
        c = exp(log_c)
        return log_moment(c) - eps * c - log(c * (c + 1))

    c = _gaussian(rho, eps)
    bend = 2 * rho
    if small:
        import scipy  # hardly ever needed, and slow to load

        c = exp(
            float(
                scipy.optimize.minimize_scalar(
                    exponent, bounds=(log(c) - 8, log(c) + 8), method="bounded"
                ).x
            )
        )
        d = 1e-2 * c
        bend = max(0.0, (log_moment(c + d) - 2 * log_moment(c) + log_moment(c - d)) / d**2)
    c = short(c)
    width = sqrt(bend + 1 / c**2 + 1 / (c + 1) ** 2)
    return Saddle(c, width, min(0.0, exponent(log(c)) - log(width * sqrt(2 * pi))))


def _gaussian(rho: float, eps: float) -> float:
    """Newton's method. The slope rises and bends down, so steps from the left stay on the left;
    steps from the right are held to half of c."""
    c = max((eps - rho) / (2 * rho), 0.0) + 1 / sqrt(2 * rho)
    for _ in range(60):
        slope = rho * (2 * c + 1) - eps - 1 / c - 1 / (c + 1)
        new = max(c - slope / (2 * rho + 1 / c**2 + 1 / (c + 1) ** 2), c / 2)
        done, c = abs(new - c) < 1e-5 * c, new
        if done:
            break
    return c


def short(x: float, bits: int = 12) -> float:
    """``x`` rounded up to a few bits, so that exact rationals made of it stay small."""
    unit = Fraction(2) ** (floor(log2(x)) + 1 - bits)
    return float(ceil(Fraction(x) / unit) * unit)


# Where on the line of integration every draw of a composition is near a whole number of turns at
# once.
#
# The bumps of one draw come back every :math:`2\pi\sigma^2`; those of all draws come back together
# hardly ever. The places where they do depend hardly on the line, and not on the step of a sum; only
# the nodes near them do. So one search serves a composition at all epsilons and periods. It goes as
# far as any sum has needed.
#
# The search uses a grid of step s, with every reach s/2 wider, so it finds the grid point nearest to
# each place. How far one step of the search goes, and where it gives up, depends only on the
# composition, not on earlier requests.

#: The most pieces of work.
PIECES = 400
#: The first piece ends here, and a later piece at four times its beginning, because the peak search
#: allows for the rounding of its last number.
EARLY = 1 << 20
#: Places are sought for this tau, or for a power of two times it if a sum needs more.
TAU = 48.0


def periodic_peaks(composition: Composition, tau: float, most: int) -> PeriodicPeaks:
    """The places where the product of bounds exceeds :math:`e^{-\tau}` on some line, and perhaps
    others."""
    return _known(composition, TAU * 2.0 ** max(0, ceil(log2(tau / TAU))), most)


@lru_cache(maxsize=64)
def _known(composition: Composition, tau: float, most: int) -> PeriodicPeaks:
    return PeriodicPeaks(composition, tau, most)


class PeriodicPeaks:
    """The places of one composition, searched on demand. The search gives up after ``most`` points
    of the grid, or :data:`PIECES` of work."""

    def __init__(self, composition: Composition, tau: float, most: int) -> None:
        self._draws = sorted(
            (TiltedGaussian(p, n, 0.5 / k, k) for p, k, n in composition.every),
            key=lambda x: x.rate,
        )  # at the tilt where the bounds are widest
        self._tau, self._most = tau, most
        self._grid = Fraction(
            short(8 * pi * sqrt(float(composition.rho)))
        )  # the grid's period: all bumps are many steps wide
        self._found: list[Integers] = []
        self._reached, self._pieces, self._seen, self._lock = -1, 0, 0, Lock()

    @cached_property
    def _bands(self) -> list[Band]:
        rates = [float(x.rate / self._grid) for x in self._draws]
        return [
            Band(r, x.reach(self._tau) / (2 * pi) + r / 2)
            for r, x in zip(rates, self._draws, strict=True)
        ]

    def nodes(self, period: Fraction, last: int) -> tuple[Integers, int]:
        """The j of 0..``last`` near a place, and perhaps others, in a sum with this ``period``; and
        up to which j the list is complete."""
        scale = float(period / self._grid)
        goal = ceil((last + 1) / scale) + 1
        with self._lock:
            self._seek(goal)
            if self._reached < goal:
                last = max(0, min(last, int((self._reached - 1) * scale)))
            at = np.concatenate(self._found)
        at = at[at <= goal]
        off = 1e-6 + 2.0**-50 * last  # of floats
        low, high = np.ceil((at - 0.5) * scale - off), np.floor((at + 0.5) * scale + off)
        count = np.maximum(high - low + 1, 0).astype(np.int64)
        j = np.unique(np.repeat(low.astype(np.int64), count) + rank_in_group(count))
        return j[(j >= 0) & (j <= last)], last

    def _seek(self, goal: int) -> None:
        span = max(
            1, int(min(0.95 * SIZE / self._bands[0].rate, MOST))
        )  # one piece of work, where the draws are wide
        while self._reached < min(goal, MOST) and not self._given_up:
            first = self._reached + 1
            last = min(first + span - 1, max(EARLY, 4 * first), MOST)
            for found, reached in nodes(self._bands, last, first):
                self._found.append(found)
                self._seen, self._pieces, self._reached = (
                    self._seen + len(found),
                    self._pieces + 1,
                    reached,
                )
                if self._given_up:
                    break
            else:
                self._pieces -= 1  # the last piece is empty: it only marks the end

    @property
    def _given_up(self) -> bool:
        return self._seen > self._most or self._pieces > PIECES
