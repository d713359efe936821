r"""What the errors of noisy measurements must be: the moments of their noise.

A published variance determines the noise of a mechanism (:mod:`das.model.mechanisms`), so units of
one query may have different ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

from das.model.mechanism import Mechanism


@dataclass(frozen=True)
class Moments:
    """E|X| and the variance of one answer's noise."""

    mean_abs: float
    variance: float

    @property
    def deviation_abs(self) -> float:
        """The standard deviation of \\|X\\|. Divided by sqrt(n) it is that of a mean absolute error
        of n answers.
        """
        return sqrt(max(0.0, self.variance - self.mean_abs**2))


@lru_cache(maxsize=4096)
def moments(mechanism: Mechanism, variance: float) -> Moments:
    """The noise whose published variance is ``variance`` (finite, > 0).

    >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
    >>> m = moments(DISCRETE_GAUSSIAN, 25.0)
    >>> round(m.mean_abs, 4), round(5 * sqrt(2 / 3.14159265), 4)
    (3.9761, 3.9894)
    """
    return Moments(mechanism.mean_abs(variance), variance)


def expected(mechanism: Mechanism, units: dict[float, int]) -> Moments:
    """Over units of several variances (``units`` of each): the moments of an answer of a random one
    of them.
    """
    n = sum(units.values())
    each = [(moments(mechanism, v), k / n) for v, k in units.items()]
    return Moments(sum(m.mean_abs * w for m, w in each), sum(m.variance * w for m, w in each))
