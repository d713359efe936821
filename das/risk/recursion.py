r"""The posterior of a hierarchy of counts, summed exactly (Kazan and Reiter 2022, equation 25, at
any number of levels).

Level 1 is the lowest. At level i the count :math:`X_i` of the target's unit is seen as
:math:`X_i^*` with noise of rate :math:`r_i`. The :math:`d_i` other units of that level in the same
unit above have :math:`X_{i+1} - X_i` together, which is seen as :math:`Y_i^*`. Its noise is
approximated by a discrete Gaussian of rate :math:`r_i / d_i` (``studies.kazan_reiter.sums`` shows
how well). Given :math:`X_1`,

.. math:: P[X_2, \dots, X_h \mid X_1, D] \propto \prod_{i \ge 2} e^{-r_i (x_i^* - x_i)^2}
          \prod_{i < h} \pi_i(x_{i+1} \mid x_i)\, 1[x_{i+1} \ge x_i]\, e^{-(r_i/d_i)(y_i^* - x_{i+1}
          + x_i)^2}.

This is a recursion over levels: summing from the top down, one level at a time, costs (window)^2 a
level. No Markov chain is needed.

*Why it can be cut, and how much is lost.* Each factor is at most 1. Let :math:`\delta_i` be the
distance of :math:`x_i^*` from the values that level i can take, an interval. For a value j beyond
the nearest end, :math:`(\delta_i + j)^2 \ge \delta_i^2 + j^2`, so
:math:`e^{-r_i(x_i^* - x_i)^2} \le e^{-r_i\delta_i^2} e^{-r_i j^2}` with j the distance from the
clipped :math:`x_i^*`. We keep :math:`|j| \le W_i`; outside there is at most

.. math:: t_i = \frac{2 e^{-r_i (W_i+1)^2}}{1 - e^{-r_i(2W_i+3)}}, \qquad
          \text{and over all } j \text{ at most } Z_i = 1 + \sqrt{\pi / r_i}.

So the loss from the whole sum is at most
:math:`E = e^{-\sum_i r_i\delta_i^2} \sum_i t_i \prod_{l \ne i} Z_l`. The windows are doubled until
E is below :data:`BOUND` times the computed sum, for :math:`X_1 = k` and for :math:`X_1 = k + 1`.
So, apart from rounding, the ratio of the two sums is known to a relative error of 2e-13, and the
posterior to less than 1e-13."""

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

# The noise as an intruder weighs it: the probability of each value, and what a noisy count says.
#
# With the *rate* :math:`r` of a noise, the discrete Gaussian is :math:`P[Z = z] \propto e^{-r z^2}`
# with :math:`r = 1/(2\sigma^2)`, the two-sided geometric :math:`P[Z = z] \propto e^{-r|z|}` with
# :math:`r = 1/b`. In both
#
# .. math:: r = \text{cost} / s,
#
# where the cost is :math:`\rho` or :math:`\varepsilon`, and :math:`s` the sensitivity: 1 when
# neighbors differ by one record added or removed, 2 when one is replaced. Kazan and Reiter (2022)
# take the former (:math:`\sigma^2 = 1/2\rho`), the 2020 production system the latter
# (:math:`\sigma^2 = 1/\rho`).
#
# Nothing is released here, so floats are good enough.

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
        value."""
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
        e^-far``."""
        return _pmf(self, far)

    def survival(self, threshold: ArrayLike) -> Floats:
        """``P[Z >= threshold]`` for integers, precise in relative terms down to 1e-300; 0
        beyond."""
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
    everywhere."""

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


BOUND = 1e-13
MOST_VALUES = 1 << 24
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Levels:
    """The public side: rates of levels 1..h, the other units of levels 1..h-1, and a prior for each
    count above."""

    rates: Sequence[float]
    others: Sequence[int]
    priors: Sequence[UpperPrior]

    def __post_init__(self) -> None:
        if not len(self.rates) - 1 == len(self.others) == len(self.priors) >= 1:
            raise InputError(
                "h levels need h costs, and h - 1 numbers of other units and priors", where="risk"
            )
        if any(d < 1 or d != int(d) for d in self.others):
            raise InputError(
                f"the other units of a level are at least one, not {list(self.others)}",
                where="risk",
                remedy="leave a level out that has the same units as the one below",
            )


@dataclass(frozen=True, eq=False)
class LogWeights:
    """``log[n, a, j]``: log weight of :math:`X_1 = k + a` with :math:`X_2 =` ``first[n] + j``,
    without what
    :math:`X_1^*` says; ``bound``: the part of each sum that is left out, at most."""

    first: Ints
    log: Floats
    bound: float

    @property
    def values(self) -> Ints:
        """The values of X_2, shape ``(data, window)``."""
        return self.first[:, None] + np.arange(self.log.shape[2])

    def totals(self) -> Floats:
        """``log P[rest of D | X_1 = k + a]`` up to a constant, shape ``(data, 2)``."""
        return _log_sum(self.log)


def log_weights(levels: Levels, x: Sequence[Ints], y: Sequence[Ints], known: int) -> LogWeights:
    """``x``: the noisy counts of levels 2..h; ``y``: of the other units of levels 1..h-1; each of
    shape ``(data,)``.

    Raises :class:`InputError` where the data cannot come from the prior, or are too wide to sum."""
    reach = [int((60 / r) ** 0.5) + 1 for r in levels.rates[1:]]
    while True:
        first, size = zip(
            *(_window(levels, i, x[i], known, w) for i, w in enumerate(reach)), strict=True
        )
        log = _downwards(levels, x, y, known, first, size)
        left_out = _left_out(levels, x, known, reach, size, _log_sum(log))
        if left_out <= BOUND:
            return LogWeights(first[0], log, left_out)
        reach = [2 * w for w in reach]
        if max(reach) > _LARGEST:
            raise InputError(
                "these counts contradict the prior, or each other, beyond what can be summed",
                where="risk",
                remedy="check the noisy counts, the costs and the prior of the upper count",
            )


def _limits(levels: Levels, i: int, known: int) -> tuple[int, int | None]:
    """The values that the count of level i + 2 may take."""
    low = max([known, *(p.low for p in levels.priors[: i + 1])])
    high = [p.high for p in levels.priors[i:] if p.high is not None]
    if high and min(high) < low:
        raise InputError(
            f"the prior of the upper count ends at {min(high)}, below {low}", where="risk"
        )
    return low, min(high) if high else None


def _window(levels: Levels, i: int, x: Ints, known: int, reach: int) -> tuple[Ints, int]:
    """The first value of each datum's window, and how many there are."""
    low, high = _limits(levels, i, known)
    size = 2 * reach + 1 if high is None else min(2 * reach + 1, high - low + 1)
    last = None if high is None else high + 1 - size
    return np.clip(x - reach, low, last).astype(np.int64), size


def _downwards(
    levels: Levels,
    x: Sequence[Ints],
    y: Sequence[Ints],
    known: int,
    first: Sequence[Ints],
    size: Sequence[int],
) -> Floats:
    """Messages from the top; the last step, on X_1 and X_2, is left unsummed."""
    values = [np.broadcast_to(known + np.arange(2), (len(x[0]), 2))]
    values += [f[:, None] + np.arange(n) for f, n in zip(first, size, strict=True)]
    message = np.zeros(values[-1].shape)
    for i in range(len(x) - 1, -1, -1):
        lower, upper = values[i][:, :, None], values[i + 1][:, None, :]
        if np.broadcast(lower, upper).size > MOST_VALUES:
            raise InputError(
                "too much data, or too wide, at once",
                where="risk",
                remedy="give fewer data at a time",
            )
        message = message - levels.rates[i + 1] * (x[i][:, None] - values[i + 1]) ** 2
        log = (y[i][:, None, None] - upper + lower).astype(np.float64)
        log *= log
        log *= -levels.rates[i] / levels.others[i]
        log += message[:, None, :]
        log += levels.priors[i].log_weight(lower, upper)
        log[upper < lower] = -np.inf
        message = _log_sum(log)
    return log


def _left_out(
    levels: Levels,
    x: Sequence[Ints],
    known: int,
    reach: Sequence[int],
    size: Sequence[int],
    totals: Floats,
) -> float:
    """E over the computed sums, at its largest; in logarithms, since both may be below what a float
    holds."""
    nearest, tails, whole = np.zeros(len(x[0])), [], []
    for i, (rate, w, n) in enumerate(zip(levels.rates[1:], reach, size, strict=True)):
        low, high = _limits(levels, i, known)
        nearest += rate * (x[i] - np.clip(x[i], low, high)) ** 2
        complete = high is not None and n == high - low + 1
        tails.append(
            -np.inf
            if complete
            else np.log(2 / -np.expm1(-rate * (2 * w + 3))) - rate * (w + 1) ** 2
        )
        whole.append(np.log1p(np.sqrt(np.pi / rate)))
    lost = _log_sum(np.array(tails) + sum(whole) - np.array(whole))
    if lost == -np.inf:
        return 0.0
    possible = np.isfinite(totals)
    if not possible.any(axis=1).all():
        return np.inf
    with np.errstate(over="ignore"):
        return float(np.exp(lost - nearest[:, None] - np.where(possible, totals, np.inf)).max())


def _log_sum(log: Floats) -> Floats:
    """``log sum exp`` over the last axis; ``-inf`` of nothing."""
    top = log.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(log - top).sum(axis=-1)) + top[..., 0]
