r"""The noise as an intruder weighs it: the probability of each value, and what a noisy count says.

With the *rate* :math:`r` of a noise, the discrete Gaussian is :math:`P[Z = z] \propto e^{-r z^2}`
with :math:`r = 1/(2\sigma^2)`, the two-sided geometric :math:`P[Z = z] \propto e^{-r|z|}` with
:math:`r = 1/b`. In both

.. math:: r = \text{cost} / s,

where the cost is :math:`\rho` or :math:`\varepsilon`, and :math:`s` the sensitivity: 1 when
neighbors differ by one record added or removed, 2 when one is replaced. Kazan and Reiter (2022)
take the former (:math:`\sigma^2 = 1/2\rho`), the 2020 production system the latter
(:math:`\sigma^2 = 1/\rho`).

Nothing is released here, so floats are good enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das.errors import InputError
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, Mechanism

Number = Fraction | int | float
#: One number or many, exact or not.
Numbers = ArrayLike | Fraction | Sequence[Fraction | int | float]
Floats = NDArray[np.float64]
#: Values are summed as far as their probability is above e^-FAR times the largest: relative
#: precision in any tail.
FAR = 700.0
#: The same where absolute precision is enough: what is left out is below 1e-15.
NEAR = 40.0
_MOST = 1 << 20
#: Log-odds this close to 0 are a tie, so that rounding does not decide it; a tie is decided for
#: "not there".
TIE = 1e-12


def floats(x: Numbers) -> Floats:
    return np.asarray(cast(ArrayLike, x), dtype=np.float64)


def rates(
    rho: Numbers | None, epsilon: Numbers | None, neighbours: Neighbours
) -> tuple[Mechanism, NDArray[np.float64]]:
    """The mechanism and rate of a cost: ``rho`` (discrete Gaussian) or ``epsilon`` (geometric), a
    number or an array.

    Raises :class:`InputError` for both or neither, and for a cost that is not positive and finite.
    """
    if (rho is None) == (epsilon is None):
        raise InputError("give either rho (discrete Gaussian) or epsilon (geometric)", where="risk")
    mechanism = GEOMETRIC if rho is None else DISCRETE_GAUSSIAN
    cost = floats(cast(Numbers, epsilon if rho is None else rho))
    if not ((cost > 0) & np.isfinite(cost)).all():
        raise InputError(f"{mechanism.currency} must be positive, not {cost}", where="risk")
    return mechanism, cost / neighbours.sensitivity


def log_odds(prior: Numbers) -> Floats:
    """``log(p / (1 - p))``; infinite at 0 and 1. Raises :class:`InputError` outside [0, 1]."""
    p = floats(prior)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"a prior probability is between 0 and 1, not {p}", where="risk")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p))


def evidence(above: Numbers, mechanism: Mechanism, rate: float | Floats) -> Floats:
    r"""What a noisy count says for :math:`X = k + 1` against :math:`X = k`, with ``above`` :math:`=
    u = x^* - k`:

    .. math:: \log\frac{P[Z = u - 1]}{P[Z = u]} = r(2u - 1) \text{ (Gaussian)}, \quad r(|u| - |u - 1|) \text{ (geometric)}.
    """
    u = floats(above)
    here, next_ = np.abs(u), np.abs(u - 1)
    return np.asarray(rate * (here - next_) * (here + next_) ** (mechanism.power - 1))


@dataclass(frozen=True)
class Noise:
    """One noise, its values summed out. ``rate`` as above."""

    mechanism: Mechanism
    rate: float

    def half_width(self, far: float) -> int:
        """The least K with every ``|z| > K`` less likely than ``e^-far`` times the likeliest
        value.
        """
        width = (far / self.rate) ** (1 / self.mechanism.power)
        if not width < _MOST:
            raise InputError(
                f"noise as wide as this (rate {self.rate:.3g}) is not summed",
                where="risk",
                remedy="such a measurement says next to nothing: the posterior is the prior",
            )
        return int(width)

    def pmf(self, far: float = FAR) -> tuple[NDArray[np.int64], Floats]:
        """The values ``-K..K`` and their probabilities. What is left out is below ``(2 + K / far)
        e^-far``.
        """
        return _pmf(self, far)

    def survival(self, threshold: ArrayLike) -> Floats:
        """``P[Z >= threshold]`` for integers, precise in relative terms down to 1e-300; 0
        beyond.
        """
        z, p = self.pmf()
        above = np.append(np.cumsum(p[::-1])[::-1], 0.0)
        at = np.clip(np.asarray(threshold) - z[0], 0, len(z)).astype(np.int64)
        return np.asarray(above[at])


@lru_cache(maxsize=64)
def _pmf(noise: Noise, far: float) -> tuple[NDArray[np.int64], Floats]:
    k = noise.half_width(far)
    z = np.arange(-k, k + 1)
    p = np.exp(-noise.rate * np.abs(z).astype(np.float64) ** noise.mechanism.power)
    p /= p.sum()
    for a in (z, p):
        a.setflags(write=False)
    return z, p


# What an intruder believes of the count one level up, given the count below (Kazan and Reiter
# 2022, S4).
#
# A prior gives ``log P[X' = x' | X = x]`` for the count ``X'`` of the larger unit, and the least and
# the largest ``x'`` that it allows. Any object with these three does; nothing in it may be above 0.

Ints = NDArray[np.int64]


class UpperPrior(Protocol):
    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int | None:
        """``None``: without end."""
        ...

    def log_weight(self, x: Ints, upper: Ints) -> Floats:
        """``log P[X' = upper | X = x]``, broadcast, for ``upper >= x``; ``-inf`` where it is 0."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Uniform on ``x, x + 1, ..., high``; without ``high`` the improper prior of the paper, 1
    everywhere.
    """

    high: int | None = None
    low: int = 0

    def log_weight(self, x: Ints, upper: Ints) -> Floats:
        if self.high is None:
            return np.zeros(())  # broadcasts
        choices = self.high + 1 - np.maximum(np.asarray(x, dtype=np.float64), self.low)
        with np.errstate(divide="ignore", invalid="ignore"):
            here = -np.log(choices)
        return np.where((upper <= self.high) & (upper >= self.low) & (choices > 0), here, -np.inf)


@dataclass(frozen=True)
class Point:
    """All on one value: the intruder is certain of it, rightly or wrongly."""

    at: int

    @property
    def low(self) -> int:
        return self.at

    @property
    def high(self) -> int:
        return self.at

    def log_weight(self, x: Ints, upper: Ints) -> Floats:
        return np.where(np.broadcast_arrays(x, upper)[1] == self.at, 0.0, -np.inf)


@dataclass(frozen=True)
class WeightedPrior:
    """A user's own: ``P[X' = j] ∝ weights[j]``, cut to ``j >= x`` and scaled to sum to 1 there."""

    weights: Sequence[float]

    def __post_init__(self) -> None:
        w = np.asarray(self.weights, dtype=np.float64)
        if w.ndim != 1 or not len(w) or not (np.isfinite(w) & (w >= 0)).all() or not w.sum() > 0:
            raise InputError(
                "weights are a list of numbers >= 0, not all 0", where="prior of the upper count"
            )

    @property
    def low(self) -> int:
        return int(np.flatnonzero(self.weights)[0])

    @property
    def high(self) -> int:
        return int(np.flatnonzero(self.weights)[-1])

    @cached_property
    def _log(self) -> tuple[Floats, Floats]:
        w = np.asarray(self.weights, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.log(w), np.log(np.cumsum(w[::-1])[::-1])

    def log_weight(self, x: Ints, upper: Ints) -> Floats:
        x, upper = np.broadcast_arrays(x, upper)
        inside = (upper >= np.maximum(x, 0)) & (upper <= self.high) & (x <= self.high)
        j, i = np.where(inside, upper, self.high), np.where(inside, np.maximum(x, 0), 0)
        return np.where(inside, self._log[0][j] - self._log[1][i], -np.inf)
