r"""Exact accounting of discrete Gaussian draws: certified intervals for delta(epsilon) and
epsilon(delta).

.. math:: \delta(\varepsilon) = \sup_S P(S) - e^{\varepsilon} Q(S) = E_P (1 - e^{\varepsilon - L})_+, \qquad
          \varepsilon(\delta) = \inf\{\varepsilon \ge 0: \delta(\varepsilon) \le \delta\}.

P and Q, the outputs for two neighbors, are mirror images of each other, so both directions agree.
The method is that of :mod:`das.accounting.contour`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import ceil, exp, inf, log, nextafter, prod, sqrt
from typing import Literal, overload

import numpy as np

from das.accounting import worst, zcdp
from das.accounting.certificate import WithNegligible, split
from das.accounting.contour import NODES, UNIT, Contour, LogDelta
from das.accounting.draws import (
    Composition,
    Differing,
    Draws,
    Exactly,
    changed,
    compositions,
    count,
    exact,
)
from das.accounting.peaks import SLACK, Saddle, is_worst, saddle
from das.accounting.roots import crossing
from das.accounting.tilted_gaussian import Array
from das.accounting.worst import Interval, WorstLoss, all_of
from das.accounting.zcdp import (
    all_pure,
    bun_steinke,
    bun_steinke_delta,
    no_more,
    pure,
    tight,
    tight_delta,
)
from das.model.ledger import Event, Ledger
from das.model.plan import Plan

# The privacy profile of very few draws, from every combination of their values.
#
# .. math:: \delta(\varepsilon) = \sum_x P(x) \, (1 - e^{\varepsilon - L(x)})_+
#
# has only positive terms, so nothing cancels. It serves where the losses lie on no useful lattice and
# the sum of :mod:`das.accounting.contour` hardly converges. That happens if the draws are too few to
# be small together.
#
# Values beyond :math:`r_i` are left out. Their probability is at most :math:`2 \sum_i n_i e^{-p_i
# (r_i + 1)^2/2}`, which is added to the upper end. (:math:`E\, e^{c p X} \le e^{c^2 p/2}`, so
# :math:`P[X \ge k] \le e^{-p k^2/2}`.)

#: The most combinations to list.
MOST = 1_000_000
#: The most products to compute for the distributions of sums of equal draws.
WORK = 1e9
#: With fewer nodes than this, the sum over nodes is better.
FEW_NODES = 1e5


class Atoms:
    """Everything that matters at epsilons near ``center``: the losses minus rho, and their
    probabilities. ``reaches`` are the r."""

    lattice = False

    @staticmethod
    def from_composition(composition: Composition, center: Fraction) -> Atoms | None:
        """The atoms, or ``None``. They serve if there are few combinations and many nodes, and no
        probability is too small for a float."""
        at = saddle(composition, float(center))
        least = at.log_size - at.c * at.width  # about ln delta, at every epsilon covered
        draws = composition.every
        reaches = [ceil(sqrt(2 * (45 - least) / float(p))) for p, _, _ in draws]
        combinations = prod(2 * n * r + 1 for (_, _, n), r in zip(draws, reaches, strict=True))
        nodes = (38 - least) / at.c / float(composition.step)
        work = sum((n * r) ** 2 for (_, _, n), r in zip(draws, reaches, strict=True) if n > 1)
        if combinations > MOST or work > WORK or nodes < FEW_NODES or least < -500:
            return None
        return Atoms(composition, center, at, reaches)

    def __init__(
        self, composition: Composition, center: Fraction, at: Saddle, reaches: Sequence[int]
    ) -> None:
        self.composition, self.center, self.c, self.width = composition, center, at.c, at.width
        self.losses, self.masses = np.zeros(1), np.ones(1)
        self.outside, self._off = 1e-290, 64.0  # floats below 1e-308 are lost
        for (p, k, n), r in zip(composition.every, reaches, strict=True):
            x = np.arange(-r, r + 1)
            one = np.exp(-float(p) * x * x / 2)
            one /= one.sum()
            whole: Array = one
            for _ in range(n - 1):
                whole = np.convolve(whole, one)
            step = float(k * p)
            self.losses = np.add.outer(self.losses, step * np.arange(-n * r, n * r + 1)).ravel()
            self.masses = np.multiply.outer(self.masses, whole).ravel()
            self.outside += 1.01 * 2 * n * exp(-float(p) * (r + 1) ** 2 / 2)
            self._off += n * (2 * float(p) * r * r + 8 + 2 * r)  # of exponents, of sums

    def covers(self, eps: Fraction) -> bool:
        return abs(float(eps - self.center)) <= self.width

    def log_delta(self, eps: Fraction) -> LogDelta:
        """Bounds of ln delta(eps), with a first-order allowance for rounding: ``_off`` units for
        each probability, and the rounding of the loss, which counts where 1 - e^(eps - L) is
        small."""
        start = float(self.composition.rho - eps)
        off_loss = (
            UNIT * (len(self.composition.every) + 3) * (np.abs(self.losses).max() + abs(start))
        )
        over = start + self.losses
        near = over > -off_loss
        part = -np.expm1(-np.maximum(over[near], 0.0))
        middle = float((self.masses[near] * part).sum())
        rounding = UNIT * self._off * middle + off_loss * float(self.masses[near].sum())
        return LogDelta(
            _log(middle - rounding, 4), _log(middle, 0), _log(middle + rounding + self.outside, -4)
        )


def _log(x: float, units: int) -> float:
    """ln x, lowered by ``units`` units of its rounding."""
    return min(0.0, log(x) * (1 + units * UNIT)) if x > 0 else -inf


Conversion = Literal["zcdp-tight", "zcdp-bun-steinke"]
EpsilonMethod = Literal["pld"] | Conversion
METHODS = ("pld", "zcdp-tight", "zcdp-bun-steinke")
#: Beyond this rho, losses are too far apart for the sums here, and no epsilon protects anybody.
#: Intervals then run from 0 to the tight conversion.
MOST_RHO = 5000
#: No smaller delta is sought.
LEAST = 1e-300
#: How much farther a step of Newton's method goes, so that the sign changes.
BEYOND = 1.01
#: If an end is farther from the root than this part of the root, the search also tries nearer
#: points.
FAR = 1e-11


class PrivacyProfile:
    """The privacy profile of one composition. Nodes once found serve all epsilons near them."""

    def __init__(self, composition: Composition, certify: bool = False) -> None:
        self.composition = composition
        self._rho = float(composition.rho)
        self._contours: list[Contour | Atoms | WithNegligible] = []
        self._certify = certify

    def log_delta(self, eps: Fraction) -> LogDelta:
        """Bounds of ln delta(eps), eps >= 0."""
        return self._contour(eps).log_delta(eps)

    def proved(self, eps: Fraction) -> LogDelta:
        """Bounds of ln delta(eps), by ball arithmetic if the profile is certified."""
        if not self._certify:
            return self.log_delta(eps)
        from das.accounting.certificate import log_delta

        contour = self._contour(eps)
        assert isinstance(contour, Contour)
        return log_delta(contour, eps)

    def on_lattice(self, eps: Fraction) -> bool:
        """Whether the losses near eps count as on a lattice
        (:data:`das.accounting.contour.MANY`)."""
        return self._contour(abs(eps)).lattice

    def epsilon(self, delta: Fraction) -> tuple[float, float]:
        """An interval that contains epsilon(delta). Bounds show that delta(low) >= delta >=
        delta(high)."""
        goal = log_of(delta)
        slack = 4 * UNIT * (1 + log(delta.numerator) + log(delta.denominator))
        root = self._root(goal, bun_steinke(self.composition.rho, delta))
        if root == 0 and self.proved(Fraction(0)).high <= goal - slack:
            return 0.0, 0.0
        at = self.proved(Fraction(root))
        step = (at.high - at.low + 2 * slack) / max(self._contour(Fraction(root)).c, 1e-3)
        step = max(step if step < 1 else 1e-9, 4 * UNIT * root, 1e-300)
        low = self._outwards(root, -step, goal + slack)
        high = self._outwards(root, step, goal - slack)
        return low, min(high, no_more(self.composition.rho, delta))

    def _contour(self, eps: Fraction) -> Contour | Atoms | WithNegligible:
        near = [c for c in self._contours if c.covers(eps)]
        if not near:
            near = [self._made(eps)]
            self._contours.append(near[0])
        return min(near, key=lambda c: abs(c.center - eps))

    def _made(self, eps: Fraction) -> Contour | Atoms | WithNegligible:
        """The cheapest method near ``eps``. A proof always uses the sum along the line."""
        if self._certify:
            return Contour(self.composition, eps)
        if atoms := Atoms.from_composition(self.composition, eps):
            return atoms
        contour = Contour(self.composition, eps, NODES // 4 if self._negligible.parts else NODES)
        return (
            WithNegligible(contour, self._others, self._negligible)
            if contour.cut and self._negligible.parts
            else contour
        )

    @cached_property
    def _others(self) -> PrivacyProfile:
        return PrivacyProfile(split(self.composition)[0])

    @cached_property
    def _negligible(self) -> Composition:
        return split(self.composition)[1]

    def _root(self, goal: float, most: float) -> float:
        """Epsilon, from estimates of delta. It starts from the epsilon of continuous noise, and
        steps a little farther than the slope says until the sign has changed. Then
        :func:`~das.accounting.roots.crossing` takes over, which never leaves the bracket: profiles
        of one or two draws have corners."""

        def excess(eps: float) -> float:
            return max(self.log_delta(Fraction(eps)).middle, -1e5) - goal

        at = zcdp.epsilon(self._rho, goal, most)
        near = far = (at, excess(at))
        step = max(BEYOND * abs(near[1]) / self._contour(Fraction(at)).c, 1e-12 * most)
        side = 1 if near[1] > 0 else -1
        while far[1] * side > 0 or far is near:
            if side < 0 and far[0] == 0:
                return 0.0  # delta is less at every epsilon
            at = max(0.0, far[0] + side * step)
            near, far, step = far, (at, excess(at)), 2 * step
        return crossing(excess, near, far, absolute=1e-15 * most)

    def _outwards(self, root: float, step: float, goal: float) -> float:
        """The first of root + step, root + 2 step, root + 4 step, ... (wider after ten) where delta
        is certainly on the side of the goal that ``step`` leads to. If the first already is, and is
        far from the root, nearer points are tried. At a corner delta falls much faster than the
        slope behind ``step``."""

        def beyond(eps: float) -> bool:
            at = self.proved(Fraction(eps))
            return (eps == 0 and step < 0) or (at.low >= goal if step < 0 else at.high <= goal)

        tried, eps = 0, max(0.0, root + step)
        while not beyond(eps):
            tried += 1
            step *= 2 if tried < 10 else 16
            eps = max(0.0, root + step)
        while not tried and abs(step) > FAR * root and beyond(nearer := max(0.0, root + step / 16)):
            step, eps = step / 16, nearer
        return eps


@overload
def epsilon(
    draws: Draws | Composition, delta: Exactly, method: Literal["pld"] = ..., *, certify: bool = ...
) -> tuple[float, float]: ...
@overload
def epsilon(draws: Draws | Composition, delta: Exactly, method: Conversion) -> float: ...


def epsilon(
    draws: Draws | Composition,
    delta: Exactly,
    method: EpsilonMethod = "pld",
    *,
    certify: bool = False,
) -> float | tuple[float, float]:
    r"""Epsilon at ``delta``: the smallest for which the draws are (epsilon, delta)-differentially
    private.

    ``draws`` are a plan, a ledger, events, or pairs (sigma^2, number of draws) as in
    :class:`~das.accounting.draws.Composition`; of a plan with several paths, the worst pair counts.
    ``method`` is

    * ``pld``: the exact value, as an interval (lower, upper) that holds it; a few 1e-12 wide where
      the losses lie on a lattice that can be listed, some 1e-11 otherwise; some 1e-8 to 1e-4 where
      draws of less than a millionth of rho are bounded (:mod:`das.accounting.certificate`); beyond a
      rho of 5000, (0, the tight conversion). Every error of the method is bounded, that of rounding
      by a first-order allowance; with ``certify=True`` by ball arithmetic, a proof (needs
      python-flint).
    * ``zcdp-tight``, ``zcdp-bun-steinke``: conversions of rho alone, :mod:`das.accounting.zcdp`.

    If all draws are of pure differential privacy, the interval holds their
    ``das.accounting.pure``, whatever delta. A smaller epsilon that a delta may allow is not
    sought.

    Raises ``TypeError`` for floats, ``ValueError`` for a delta outside (0, 1).

    >>> low, high = epsilon([(Fraction(20), 40)], "1e-10")
    >>> round(low, 6), round(high, 6), high - low < 1e-10
    (9.618602, 9.618602, True)"""
    d = checked_delta(delta)
    if method == "zcdp-tight":
        return max(tight(c.rho, d) for c in compositions(draws))
    if method == "zcdp-bun-steinke":
        return max(bun_steinke(c.rho, d) for c in compositions(draws))
    return curve(draws, [d], method, certify=certify)[0]


def curve(
    draws: Draws | Composition,
    deltas: Iterable[Exactly],
    method: EpsilonMethod = "pld",
    *,
    certify: bool = False,
) -> list[tuple[float, float]]:
    """The intervals of :func:`epsilon` at several deltas, in the given order: each as if it were
    asked alone."""
    if method != "pld":
        raise ValueError(f"there is no method {method!r}: {', '.join(METHODS)}")
    ds = [checked_delta(d) for d in deltas]
    draws = draws if isinstance(draws, Plan | Ledger | Composition) else _lines(draws)
    if all_pure(draws):
        return [_around(pure(draws))] * len(ds)
    found = changed(draws)
    if count(found) == 1:
        return _curve(compositions(draws)[0], ds, certify)
    return [(at.low, at.high) for at in (worst_epsilon(found, d, certify) for d in ds)]


def worst_epsilon(differing: Differing, delta: Fraction, certify: bool = False) -> WorstLoss:
    """The interval of :func:`epsilon`, of the worst of several changes, and which that is. To
    ``certify`` it, each is. Where answers may differ by k in sum, one that differs by k is the worst
    if :mod:`das.accounting.peaks` proves it. If not, it gives the lower end, and rho alone
    the upper."""

    def exactly(composition: Composition) -> Interval:
        return _curve(composition, [delta], certify)[0]

    if (rho := sum((part.rho for part in differing), Fraction(0))) > MOST_RHO:
        return WorstLoss(0.0, tight(rho, delta), (0,) * len(differing))
    at = (
        all_of(differing, exactly)
        if certify or rho == 0
        else worst.epsilon(differing, delta, exactly)
    )
    shifts = {shift for part in differing for shift in part.shifts}
    if not shifts:
        return at
    proved = all(is_worst(sigma_sq, k) for sigma_sq, k in shifts)
    high = no_more(rho, delta)
    return replace(at, high=min(at.high + SLACK, high) if proved else high)


def _lines(
    draws: Iterable[Event | tuple[Fraction, int]],
) -> tuple[Event | tuple[Fraction, int], ...]:
    if not isinstance(draws, Iterable):
        raise TypeError(
            f"this is a {type(draws).__name__}: give a plan, a ledger, or events, such as"
            " noisy.plan"
        )
    return tuple(draws)


def _around(value: Fraction) -> tuple[float, float]:
    """The floats next to a number, below and above; the number itself if it is a float."""
    near = float(value)
    return (nextafter(near, -inf) if near > value else near), (
        nextafter(near, inf) if near < value else near
    )


def _curve(
    composition: Composition, ds: Sequence[Fraction], certify: bool
) -> list[tuple[float, float]]:
    if not composition.every:
        return [(0.0, 0.0) for _ in ds]
    if composition.rho > MOST_RHO:
        return [(0.0, tight(composition.rho, d)) for d in ds]
    return [PrivacyProfile(composition, certify).epsilon(d) for d in ds]  # whatever else is asked


@overload
def delta(
    draws: Draws | Composition,
    epsilon: Exactly,
    method: Literal["pld"] = ...,
    *,
    certify: bool = ...,
) -> tuple[float, float]: ...
@overload
def delta(draws: Draws | Composition, epsilon: Exactly, method: Conversion) -> float: ...


def delta(
    draws: Draws | Composition,
    epsilon: Exactly,
    method: EpsilonMethod = "pld",
    *,
    certify: bool = False,
) -> float | tuple[float, float]:
    """Delta at ``epsilon`` >= 0, by the methods of :func:`epsilon`. Give an epsilon on the lattice
    of the losses as an exact fraction. For a delta below 1e-300 the interval is 0 to 1e-300.

    >>> low, high = delta([(Fraction(20), 40)], Fraction(10))
    >>> 0 < high - low < 1e-12 * high
    True"""
    eps = exact(epsilon, "epsilon")
    if eps < 0:
        raise ValueError(f"epsilon is {eps}, not >= 0")
    if method == "zcdp-tight":
        return max(tight_delta(c.rho, eps) for c in compositions(draws))
    if method == "zcdp-bun-steinke":
        return max(bun_steinke_delta(c.rho, eps) for c in compositions(draws))
    if method != "pld":
        raise ValueError(f"there is no method {method!r}: {', '.join(METHODS)}")
    found = changed(draws)
    rho = sum((part.rho for part in found), Fraction(0))
    most = tight_delta(rho, eps)
    if rho > MOST_RHO or rho == 0:
        return 0.0, most
    if most < LEAST / 10:
        return 0.0, LEAST

    def exactly(composition: Composition) -> Interval:
        at = PrivacyProfile(composition, certify).proved(eps)
        return at.low, at.high

    at = all_of(found, exactly) if certify else worst.log_delta(found, eps, exactly)
    return _floats(at.low, at.high)


def log_of(x: Fraction) -> float:
    return log(x.numerator) - log(x.denominator)


def _floats(low: float, high: float) -> tuple[float, float]:
    """The numbers with these logarithms, rounded outwards. The error of exp is less than two units,
    plus the rounding of its argument."""
    slack = 8 * UNIT
    least = exp(low - slack * (1 - low)) if low > -690 else 0.0
    return least, min(1.0, exp(max(high, -690.0) + slack * (1 - max(high, -690.0))))


def checked_delta(value: Exactly) -> Fraction:
    d = exact(value, "delta")
    if not 0 < d < 1:
        raise ValueError(f"delta is {value}, not between 0 and 1")
    return d
