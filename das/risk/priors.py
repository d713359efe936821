"""What an intruder believes of the count one level up, given the count below (Kazan and Reiter
2022, S4).

A prior gives ``log P[X' = x' | X = x]`` for the count ``X'`` of the larger unit, and the least and
the largest ``x'`` that it allows. Any object with these three does; nothing in it may be above 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.risk.noise import Floats

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
