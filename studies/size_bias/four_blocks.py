"""Four blocks whose estimates are drawn many times: the closed form of their bias against its mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.estimate.size_bias import PossibleCells

Floats = NDArray[np.float64]
#: People of the block group by cell, housing units of its blocks, and the variance of the noise.
COUNTS = np.array([300.0, 90.0, 30.0, 8.0, 2.0])
UNITS = np.array([130.0, 22.0, 15.0, 5.0])
VARIANCE = 10.0


@dataclass(frozen=True)
class Compared:
    """Of a block the expected people, the bias of the closed form, and the mean of the draws."""

    people: float
    formula: float
    drawn: float


def compared(draws: int, rng: np.random.Generator) -> list[Compared]:
    """For each block."""
    people, part = UNITS / UNITS.sum() * COUNTS.sum(), COUNTS / COUNTS.sum()
    child, at = np.nonzero(np.ones((len(people), len(COUNTS))))
    cells = PossibleCells(
        child,
        at,
        part[at],
        np.full(len(child), VARIANCE**0.5),
        np.zeros(len(people), dtype=np.intp),
    )
    mean = np.outer(people, part)
    noisy = mean + rng.normal(0, VARIANCE**0.5, (draws, *mean.shape))
    drawn = (nonnegative(noisy, COUNTS) - mean).sum(axis=2).mean(axis=0)
    return [Compared(*map(float, each)) for each in zip(people, cells.bias(people)[1], drawn)]


def nonnegative(noisy: Floats, sums: Floats) -> Floats:
    """The least squares of ``(draws, children, cells)`` with columns that sum to ``sums``: each is
    projected onto its simplex, by sorting."""
    low = np.sort(noisy, axis=1)[:, ::-1]
    over = (np.cumsum(low, axis=1) - sums) / np.arange(1, noisy.shape[1] + 1)[:, None]
    last = (low > over).sum(axis=1, keepdims=True) - 1
    return np.maximum(noisy - np.take_along_axis(over, last, axis=1), 0.0)
