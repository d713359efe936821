r"""A working prior of the lowest units: what is assumed of places beside their measurements, in a
few numbers.

A child with the share w of its parent's housing units is expected to hold :math:`\mu_A = w\,p_A` of
the :math:`p_A` persons of a group A that its parent has in households, with variance
:math:`a\,\mu_A + b\,\mu_A^2`. Were everybody to settle by himself, a would be 1 and b 0; a grows
with the families that come together, and b is the square of the relative spread from place to
place. How the numbers are found: :mod:`das.estimate.dispersion`; what is made of them:
:mod:`das.estimate.prior`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Dispersion:
    """Variance ``linear`` times the mean plus ``quadratic`` times its square."""

    linear: float
    quadratic: float

    def __post_init__(self) -> None:
        if (
            not (0 <= self.linear < np.inf and 0 <= self.quadratic < np.inf)
            or self.linear + self.quadratic == 0
        ):
            raise InputError(
                f"no variances come of {self.linear} and {self.quadratic}", where="dispersion"
            )


@dataclass(frozen=True, eq=False)
class QuerySpreads(Frozen):
    """How widely the answers of ``query`` spread among households: by its number each answer of
    which enough is known to have a spread of its ``own``, the others by the ``common`` one.
    ``seen``: from how many noisy answers they were found."""

    query: str
    common: Dispersion
    own: Mapping[int, Dispersion] = field(default_factory=dict)
    seen: int = 0

    def variance(self, answer: NDArray[np.intp], mean: Array) -> Array:
        """Of answers ``(n,)`` that are expected to be ``mean`` ``(units, n)``."""
        each = [self.own.get(a, self.common) for a in answer.tolist()]
        linear, quadratic = (
            np.array([s.linear for s in each]),
            np.array([s.quadratic for s in each]),
        )
        return np.asarray(linear * mean + quadratic * mean**2)


@dataclass(frozen=True, eq=False)
class HousingPrior(Frozen):
    """People live where the housing units are. ``spreads`` are of nested queries, coarse to fine:
    the total first, and last one that tells every cell apart."""

    spreads: tuple[QuerySpreads, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(s.query for s in self.spreads)
