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

import numpy as np

from das.errors import InputError
from das.risk.noise import Floats, Ints, UpperPrior

BOUND = 1e-13
MOST_VALUES = 1 << 24
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Levels:
    """The public side: rates of levels 1..h, the other units of levels 1..h-1, and a prior for each
    count above.
    """

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

    Raises :class:`InputError` where the data cannot come from the prior, or are too wide to sum.
    """
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
    holds.
    """
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
