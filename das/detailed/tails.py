r"""Tail probabilities of noise: sums of the exact probabilities, not of a density near them.

For any mechanism, the noise of an answer that costs r has :math:`P[X = x] \propto e^{-r|x|^k}` and
is symmetric. So everything follows from :math:`P[X > x]` at :math:`x \ge 0`. Summing from the far
end makes small tails as exact as large ones, with a relative error of some 1e-13. The terms left
out are below 1e-300."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.budget import QueryNoise
from das.model.frozen import Frozen
from das.model.mechanism import Mechanism

#: Terms below e to the minus this are left out; and the most terms.
SMALLEST, MOST = 700.0, 1 << 23


@dataclass(frozen=True, eq=False)
class Tails(Frozen):
    """The tails of one kind of noise: ``beyond[x]`` is P[X > x], and ``moment[x]`` the sum of k
    P[X = k] over k > x. Both run from x = 0 to where nothing is left."""

    beyond: NDArray[np.float64]
    moment: NDArray[np.float64]

    @staticmethod
    def of(noise: QueryNoise) -> Tails:
        """The tails of the noise of one answer. Raises :class:`SpecError` for noise so wide that a
        plan with it is meaningless.
        """
        return _tails(noise.mechanism, noise.parameter)

    def above(self, x: int) -> float:
        """P[X > x], for any whole number x.

        >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
        >>> noise = Tails.of(QueryNoise("", "", DISCRETE_GAUSSIAN, Fraction(625)))
        >>> f"{noise.above(93):.2e}", round(noise.above(-1) + noise.above(0), 12)
        ('9.19e-05', 1.0)
        """
        return 1 - self._at(-x - 1) if x < 0 else self._at(x)

    def probability_within(self, most: int) -> float:
        """P[|X| <= most]."""
        return 1 - 2 * self.above(most) if most >= 0 else 0.0

    def quantile(self, chance: Fraction | float) -> int:
        """The smallest x with P[X <= x] >= ``chance``, which is between 0 and 1."""
        if not 0 < chance < 1:
            raise ValueError(f"a chance of {chance} is not between 0 and 1")
        below = float(chance)
        if below <= self.beyond[0]:
            return -int(np.flatnonzero(self.beyond >= below)[-1]) - 1
        return int(np.argmax(self.beyond <= float(1 - chance)))

    def mean_above(self, x: int) -> float:
        """E[X | X > x]; infinite where there is nothing beyond x."""
        left = self.above(x)
        if x < 0:  # what is between x and -x has mean 0
            return self._at(-x - 1, moment=True) / left
        return self._at(x, moment=True) / left if left else inf

    def _at(self, x: int, moment: bool = False) -> float:
        found = self.moment if moment else self.beyond
        return float(found[min(x, len(found) - 1)])


def drowns(mechanism: Mechanism, parameter: Fraction) -> bool:
    """Whether noise is so wide that a plan with it means nothing."""
    return mechanism.cost(parameter, 1) * MOST**mechanism.power < Fraction(SMALLEST)


@lru_cache(maxsize=256)
def _tails(mechanism: Mechanism, parameter: Fraction) -> Tails:
    if drowns(mechanism, parameter):
        raise SpecError(
            f"noise of {mechanism.symbol} {float(parameter):.3g} drowns any count",
            where="planning",
            remedy="give this level a budget that buys something, or none",
        )
    cost = float(mechanism.cost(parameter, 1))
    last = (SMALLEST / cost) ** (1 / mechanism.power)
    k = np.arange(ceil(last) + 2, dtype=np.float64)
    weight = np.exp(-cost * k**mechanism.power)
    weight[-1] = 0.0
    weight /= weight[0] + 2 * weight[:0:-1].sum()
    return Tails(_after(weight), _after(k * weight))


def _after(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums of all terms after each, the smallest first."""
    sums = np.cumsum(terms[::-1])[::-1]
    return np.append(sums[1:], 0.0)
