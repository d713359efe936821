"""The sampler of each mechanism, by the name that :mod:`das.model.mechanisms` gives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.model.budget import PlannedMeasurement
from das.model.histogram import Histogram
from das.model.measurement import Measurement
from das.model.query import Query
from das.noise import discrete_gaussian, discrete_laplace
from das.noise.entropy import Entropy
from das.noise.rejection import InverseCdf


class Sampler(Protocol):
    """A module that draws one kind of noise, exactly, for every rational parameter."""

    def refuse(self, parameter: Fraction, /) -> None:
        """Raises where noise of this parameter cannot be drawn."""

    def sample(self, parameter: Fraction, size: int, entropy: Entropy, /) -> NDArray[np.int64]:
        """``size`` independent draws."""
        ...

    def inverse(self, parameter: Fraction, /) -> InverseCdf | None:
        """The table that turns bits into a draw, or ``None`` where a table does not pay."""
        ...

    def one(self, parameter: Fraction, entropy: Entropy, /) -> int:
        """One draw without a table; it reads bits until it accepts."""
        ...


#: The version of all samplers together, that is, of the numbers that they make of given bits. Any
#: change of a number needs a new version: two releases would publish two functions of one noise.
VERSION = "1"

SAMPLERS: Mapping[str, Sampler] = {
    "discrete-gaussian": discrete_gaussian,
    "geometric": discrete_laplace,
}


# Noisy answers for some units of a level. It does not matter which process counted the units.


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
    ``(units,)``. The order of the draws is part of the noise scheme (:mod:`das.noise.entropy`)."""
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
