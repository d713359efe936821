r"""The available mechanisms.

*Discrete Gaussian*, zCDP: answers with noise :math:`N_Z(0, \sigma^2)` cost, if s of them differ by
1, :math:`\rho = s/(2\sigma^2)` (Canonne, Kamath and Steinke 2020, theorem 4).

*Two-sided geometric*, pure differential privacy: noise :math:`P[X = x] = \frac{1-q}{1+q} q^{|x|}`,
:math:`q = e^{-1/b}`. Let one answer differ by 1. As :math:`|x + 1| - |x| \le 1`, the probability of
a value changes by a factor of at most :math:`e^{1/b}`. Answers are independent, so s of them cost
:math:`\varepsilon = s/b`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import acosh, ceil, exp, expm1, log, pi, sqrt
from statistics import NormalDist
from typing import ClassVar

import numpy as np

# What a mechanism is: integer noise on each answer, and what an answer costs.
#
# Each mechanism has three entries: its object in ``das.model.mechanisms.MECHANISMS``, with the exact
# algebra of what it costs and the facts of its distribution; its sampler in
# ``das.noise.samplers.SAMPLERS``, which draws it; and its forms in ``das.accounting.document.FORMS``,
# for its ledger lines in a privacy statement have names of their own. With these a configuration may
# name it. All other code is generic in the mechanism, with these exceptions. Exact composition
# (``das.accounting.draws``) and its figures are for discrete Gaussian noise, and so are the Census
# Bureau's published measurements. A bare number, ``rho`` or ``epsilon`` (``Plan.of_rho``,
# ``Plan.of_epsilon``, ``das.risk``), means the discrete Gaussian or the two-sided geometric.
# ``tests/test_architecture.py`` lists them.
#
# The *parameter* of a noise is the exact number that says how wide it is: :math:`\sigma^2` or the
# Laplace scale b. A mechanism is paid for in one *currency*, ``rho`` (zero-concentrated differential
# privacy) or ``epsilon`` (pure); costs in one currency add up, costs in two do not.

#: How often a margin of error or an interval holds, where nobody says otherwise.
COVERAGE = 0.95
#: The unit of budgets.
RHO, EPSILON = "rho", "epsilon"


@dataclass(frozen=True, repr=False)
class Mechanism(ABC):
    """A mechanism for one kind of noise. Two with the same name are equal; ``str`` is the name, as
    in a configuration.

    ``says`` is the name in words; ``symbol`` is what files call the parameter, ``title`` what
    people do. The noise of an answer that costs :math:`r` has :math:`P[X = x] \\propto e^{-r
    |x|^k}``, k the ``power`. ``wide`` is the largest 95 % margin of error of a sum of such
    noise, in standard errors."""

    name: ClassVar[str]
    says: ClassVar[str]
    currency: ClassVar[str]
    symbol: ClassVar[str]
    title: ClassVar[str]
    power: ClassVar[int]
    wide: ClassVar[float]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def pure(self) -> bool:
        """Whether it is differentially private with a delta of 0."""
        return self.currency == EPSILON

    @abstractmethod
    def parameter(self, cost: Fraction, answers: int) -> Fraction:
        """The parameter that ``cost`` buys if ``answers`` answers differ by 1 between two data
        sets."""

    @abstractmethod
    def cost(self, parameter: Fraction, answers: int) -> Fraction:
        """The cost if ``answers`` answers with this noise differ by 1 between two data sets: the
        inverse of :meth:`parameter`."""

    @abstractmethod
    def variance(self, parameter: Fraction) -> float:
        """The variance of one answer's noise, as published with it. Nothing private depends on
        it."""

    @abstractmethod
    def continuous_variance(self, parameter: Fraction) -> Fraction:
        """The variance of the continuous noise of this parameter, exactly: to choose by, not to
        publish."""

    @abstractmethod
    def with_variance(self, variance: float) -> Fraction:
        """A parameter whose noise has this variance, nearly."""

    @abstractmethod
    def mean_abs(self, variance: float) -> float:
        """The mean of the absolute value of noise of this variance."""

    @abstractmethod
    def margin(self, parameter: Fraction, coverage: float = COVERAGE) -> int:
        r"""The smallest m with :math:`P[|X| \le m] \ge` ``coverage``."""


#: From this standard deviation the first two terms of Euler and Maclaurin do: the next is p(0)/(120
#: sigma^2).
_WIDE = 100.0


@dataclass(frozen=True, repr=False)
class _DiscreteGaussian(Mechanism):
    name: ClassVar[str] = "discrete-gaussian"
    says: ClassVar[str] = "discrete Gaussian"
    currency: ClassVar[str] = RHO
    symbol: ClassVar[str] = "sigma_sq"
    title: ClassVar[str] = "σ²"
    power: ClassVar[int] = 2
    wide: ClassVar[float] = 1.959964  # sums are normal, nearly

    def parameter(self, cost: Fraction, answers: int) -> Fraction:
        return Fraction(answers) / (2 * cost)

    def cost(self, parameter: Fraction, answers: int) -> Fraction:
        return answers / (2 * parameter)

    def variance(self, parameter: Fraction) -> float:
        """A little below sigma^2 where that is small, equal for practical purposes above 2."""
        s = float(
            max(parameter, Fraction(1, 1000))
        )  # below, it is less than 1e-200: no noise, but still positive
        if s > 100:
            return s
        k = range(1, int(14 * s**0.5) + 3)
        w = [exp(-x * x / (2 * s)) for x in k]
        return 2 * sum(x * x * g for x, g in zip(k, w, strict=True)) / (1 + 2 * sum(w))

    def continuous_variance(self, parameter: Fraction) -> Fraction:
        return parameter

    def with_variance(self, variance: float) -> Fraction:
        return Fraction(variance)

    def mean_abs(self, variance: float) -> float:
        r""":math:`\sum_x |x| p(x)`, which tends to :math:`\sigma\sqrt{2/\pi}` from below: by Euler
        and Maclaurin, the kink of \|x\| costs :math:`p(0)/6`. From a variance of 1, it is
        :math:`\sigma^2` to seven digits; below,
        :math:`\sigma^2` is solved for."""
        if variance >= _WIDE**2:
            return sqrt(2 * variance / pi) - 1 / (6 * sqrt(2 * pi * variance))
        return _sums(variance if variance >= 1 else _solve(variance))[0]

    def margin(self, parameter: Fraction, coverage: float = COVERAGE) -> int:
        r"""Summed term by term, up to the margin: from a variance of 1 all terms together are
        :math:`\sqrt{2\pi s}(1 + 2 e^{-2\pi^2 s})` to sixteen digits, by Poisson's formula. Beyond a
        variance of 10^6 the continuous quantile, rounded up: the two agree there to less than
        one."""
        s = float(max(parameter, Fraction(1, 1000)))
        if s > 1e6:
            return ceil(NormalDist().inv_cdf((1 + coverage) / 2) * s**0.5)
        if s >= 1:
            whole = sqrt(2 * pi * s) * (1 + 2 * exp(-2 * pi * pi * s))
        else:
            whole = 1 + 2 * sum(exp(-k * k / (2 * s)) for k in range(1, 20))
        held, m = 1.0, 0
        while held < coverage * whole:
            m += 1
            held += 2 * exp(-m * m / (2 * s))
        return m


@dataclass(frozen=True, repr=False)
class _TwoSidedGeometric(Mechanism):
    name: ClassVar[str] = "geometric"
    says: ClassVar[str] = "two-sided geometric"
    currency: ClassVar[str] = EPSILON
    symbol: ClassVar[str] = "scale"
    title: ClassVar[str] = "scale"
    power: ClassVar[int] = 1
    wide: ClassVar[float] = log(20) / sqrt(2)  # of a single one: the longest tail of any sum

    def parameter(self, cost: Fraction, answers: int) -> Fraction:
        return answers / cost

    def cost(self, parameter: Fraction, answers: int) -> Fraction:
        return answers / parameter

    def variance(self, parameter: Fraction) -> float:
        """2 q / (1 - q)^2."""
        x = -1 / float(
            max(parameter, Fraction(1, 500))
        )  # below, it is less than 1e-200: no noise, but still positive
        return 2 * exp(x) / expm1(x) ** 2

    def continuous_variance(self, parameter: Fraction) -> Fraction:
        return 2 * parameter**2

    def with_variance(self, variance: float) -> Fraction:
        """The variance is 1 / (cosh(1/b) - 1)."""
        return Fraction(1 / acosh(1 + 1 / variance))

    def mean_abs(self, variance: float) -> float:
        """2 q / (1 - q^2), with q the root below 1 of v q^2 - (2v + 2) q + v."""
        q = variance / (variance + 1 + sqrt(2 * variance + 1))
        return 2 * q / (1 - q * q)

    def margin(self, parameter: Fraction, coverage: float = COVERAGE) -> int:
        """P[|X| > m] = 2 q^(m + 1) / (1 + q)."""
        q = exp(-1 / float(max(parameter, Fraction(1, 500))))
        return max(0, ceil(log((1 - coverage) * (1 + q) / 2) / log(q) - 1 - 1e-12))


DISCRETE_GAUSSIAN: Mechanism = _DiscreteGaussian()
GEOMETRIC: Mechanism = _TwoSidedGeometric()
#: By name.
MECHANISMS: Mapping[str, Mechanism] = {m.name: m for m in (DISCRETE_GAUSSIAN, GEOMETRIC)}


def _sums(sigma_sq: float) -> tuple[float, float]:
    """E|X| and E[X^2] of the discrete Gaussian, term by term: the terms beyond 14 sigma are below
    1e-40."""
    x = np.arange(1, ceil(14 * sqrt(sigma_sq)) + 2, dtype=np.float64)
    p = 2 * np.exp(-(x**2) / (2 * sigma_sq))
    whole = 1 + p.sum()
    return float(x @ p / whole), float(x**2 @ p / whole)


def _solve(variance: float) -> float:
    """The parameter of a discrete Gaussian of a small variance, by bisection: the variance grows
    with it."""
    low, high = 1e-3, 1.1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _sums(middle)[1] < variance else (low, middle)
    return high
