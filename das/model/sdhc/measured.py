"""Noisy answers of some regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.budget import PlannedMeasurement
from das.model.frozen import Frozen
from das.model.sdhc.tables import answers, columns


@dataclass(frozen=True, eq=False)
class MeasuredRegions(Frozen):
    """The ``regions`` of a ``level`` (``usa`` or ``state``): their noisy ``values`` ``(regions,
    answers)``, and the ``variance`` of the noise ``(answers,)``, infinite of what is not
    measured."""

    level: str
    regions: tuple[str, ...]
    values: NDArray[np.int64]
    variance: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FurtherSums(Frozen):
    """What other measurements say of the ``regions`` of a ``level``: their noisy ``values``
    ``(regions, sums)``, each a sum of answers with these ``weights`` ``(sums, answers)``, and the
    ``covariance`` of the noise ``(sums, sums)``, the same in each region."""

    level: str
    weights: NDArray[np.float64]
    values: NDArray[np.float64]
    covariance: NDArray[np.float64]


def variances(draws: Sequence[PlannedMeasurement]) -> NDArray[np.float64]:
    """Of the answers of a region, by the draws of its level. Of Gaussian noise this is sigma^2, as
    PHSafe states it: the variance is a little less where it is below 10."""
    out = np.full(len(answers()), np.inf)
    for d in draws:
        out[list(columns(*d.query.split(" ")))] = (
            d.variance if d.mechanism.pure else float(d.parameter)
        )
    return out
