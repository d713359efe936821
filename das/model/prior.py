r"""Working priors for the lowest units: assumptions about places besides their measurements, in a
few numbers.

*Housing.* Let a parent have :math:`p_A` persons of a group A in households. A child with the share w of the
parent's housing units is expected to hold :math:`\mu_A = w\,p_A` of them, with variance
:math:`a\,\mu_A + b\,\mu_A^2`. If everybody settled alone, a would be 1 and b 0. Families that live
together raise a, and b is the square of the relative spread from place to place.
:mod:`das.estimate.dispersion` estimates the numbers; :mod:`das.estimate.prior` uses them.

*Shares.* Some sums of a unit are known, such as its adults of one race. The cells of a sum are
expected to have the parent's shares of it. If everybody settled alone, a cell with the share p of a
sum n would have the variance :math:`n p (1 - p)`. It has a times that.
:mod:`das.estimate.shares` estimates a and uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
    """How widely the answers of ``query`` spread among households. Answers about which enough is
    known have their ``own`` spread, by their numbers; the others have the ``common`` one. ``seen``
    is the number of noisy answers behind the estimates."""

    query: str
    common: Dispersion
    own: Mapping[int, Dispersion] = field(default_factory=dict)
    seen: int = 0

    def variance(self, answer: NDArray[np.intp], mean: Array) -> Array:
        """The variance of answers ``(n,)`` with the expected values ``mean`` ``(units, n)``."""
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


@dataclass(frozen=True, eq=False)
class SharesPrior(Frozen):
    r"""People of a known sum are as in the parent. By pass and unit of ``level``, ``(passes,
    units)``: the ``spread`` a, the standard ``error`` of its estimate, and the number of noisy
    answers ``seen``."""

    level: str
    spread: Array
    error: Array
    seen: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.spread) & (self.spread > 0)).all():
            raise InputError("a spread is not positive", where="prior of shares")

    def weight(self, number: int, unit: int, alone: float) -> float:
        r"""The weight of the distance of children from their shares in pass ``number``, below the
        given unit. ``alone``: the mean variance of a cell if everybody settled alone."""
        return float(1 / (self.spread[number, unit] * alone))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """For a file; without the level, which follows from the tree."""
        return {"spread": self.spread, "error": self.error, "seen": self.seen}
