r"""How far replicates fall from what they were made of.

A release :math:`\hat x_0` stands in for the truth, and the algorithm is run s times on it, with
fresh noise: :math:`\tilde x_1, \dots, \tilde x_s`. Of a statistic q, with :math:`q_0 = q(\hat
x_0)`, :math:`d_i = q(\tilde x_i) - q_0`, :math:`D = \sum d_i` and
:math:`E = \sum d_i^2`,

.. math:: \mathrm{bias} = D/s, \quad \mathrm{mse} = E/s, \quad \mathrm{var} = \frac{E - D^2/s}{s - 1}.

The assumption: errors of :math:`\tilde x` about :math:`\hat x_0` are distributed as those of
:math:`\hat x_0` about the truth. Nothing confidential is touched, so it costs no privacy.

Source: Ashmead, Hawes, Pritts, Zhuravlev, Keller (2024), *An approximate Monte Carlo method*,
section 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReplicateErrors(Frozen):
    """Of ``replicates``, and of statistics of any shape: the sums ``first`` of their differences
    and ``second`` of the squares of these. Of counts both are integers, and every comparison of
    them is exact."""

    replicates: int
    first: NDArray[np.int64] | Floats
    second: NDArray[np.int64] | Floats

    def __post_init__(self) -> None:
        if self.replicates < 2 or self.first.shape != self.second.shape:
            raise InputError(
                f"{self.replicates} replicates, sums of {self.first.shape} and squares of"
                f" {self.second.shape}",
                where="replicates",
                remedy="two replicates at the least, and as many sums as squares",
            )

    @staticmethod
    def of(
        value: NDArray[np.int64] | Floats, replicates: NDArray[np.int64] | Floats
    ) -> ReplicateErrors:
        """Of published values and their ``replicates``, ``(s, *value.shape)``."""
        difference = replicates - value
        return ReplicateErrors(
            len(replicates), difference.sum(axis=0), (difference * difference).sum(axis=0)
        )

    @staticmethod
    def over(value: NDArray[np.int64], replicates: Iterable[NDArray[np.int64]]) -> ReplicateErrors:
        """The same of counts, of one replicate after the other."""
        first, second, number = np.zeros_like(value), np.zeros_like(value), 0
        for one in replicates:
            difference = one - value
            first += difference
            second += difference * difference
            number += 1
        return ReplicateErrors(number, first, second)

    @property
    def bias(self) -> Floats:
        return self.first / self.replicates

    @property
    def rmse(self) -> Floats:
        return np.sqrt(self.second / self.replicates)

    @property
    def sd(self) -> Floats:
        return np.sqrt(
            np.maximum(self.second - self.first * (self.first / self.replicates), 0)
            / (self.replicates - 1)
        )

    def leans(self) -> NDArray[np.bool_]:
        r"""Whether :math:`|\mathrm{bias}| \ge \mathrm{sd}/2`, and there is any: :math:`4(s-1)D^2
        \ge s(sE - D^2)`. Of counts, without rounding."""
        s, square = self.replicates, self.first * self.first
        return (self.first != 0) & (4 * (s - 1) * square >= s * (s * self.second - square))
