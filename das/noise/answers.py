"""Noisy answers for some units of a level. It does not matter which process counted the units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from das.model.budget import PlannedMeasurement
from das.model.histogram import Histogram
from das.model.measurement import Measurement
from das.model.query import Query
from das.noise.entropy import Entropy
from das.noise.samplers import SAMPLERS


def noisy_answers(
    level: str,
    start: int,
    rows: Histogram,
    queries: Mapping[str, Query],
    draws: Sequence[tuple[PlannedMeasurement, NDArray[np.bool_]]],
    entropy: Entropy,
) -> Iterator[Measurement]:
    """Yields each query's noisy answers for the units ``rows``, which start at unit ``start`` of
    their level. Each of the ``draws`` adds independent noise to the units in its own mask
    ``(units,)``. The order of the draws is part of the noise scheme (:mod:`das.noise.label`)."""
    for name, query in queries.items():
        values, variance = rows.answer(query), np.full(rows.units, np.inf)
        kept = np.zeros(rows.units, dtype=bool)
        for d, of_class in draws:
            if d.query == name:
                here = np.flatnonzero(of_class)
                values[here] += _noise(d, len(here) * query.answers, entropy).reshape(
                    len(here), query.answers
                )
                variance[here], kept[here] = d.variance, True
        values[~kept] = 0  # not measured: their true answers must not leave this function
        yield Measurement(level, name, start, values, variance)


def _noise(draw: PlannedMeasurement, size: int, entropy: Entropy) -> NDArray[np.int64]:
    return SAMPLERS[draw.mechanism.name].sample(draw.parameter, size, entropy)
