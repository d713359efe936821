"""What the page of the DHC shows of some units, as numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlaceProfiles(Frozen):
    """What the page shows of some units, the root first and then those of a ``level``, the largest
    first.

    ``ages`` are persons by sex (male first) and year of age, ``(units, 2, ages)``; ``away`` those
    of them in group quarters, ``(units,)``; ``tenure`` and ``types`` households, ``(units,
    classes)``, by classes that have ``*_labels``; ``vacant`` units and ``facilities`` of group
    quarters, ``(units,)``."""

    level: str
    names: tuple[str, ...]
    ages: Ints
    away: Ints
    tenure: Ints
    tenure_labels: tuple[str, ...]
    types: Ints
    type_labels: tuple[str, ...]
    vacant: Ints
    facilities: Ints

    @property
    def persons(self) -> Ints:
        return self.ages.sum(axis=(1, 2))

    @property
    def households(self) -> Ints:
        return self.tenure.sum(axis=1)

    def first(self, units: int) -> PlaceProfiles:
        """The root and the first ``units`` units."""
        n = units + 1
        return PlaceProfiles(
            self.level,
            self.names[:n],
            self.ages[:n],
            self.away[:n],
            self.tenure[:n],
            self.tenure_labels,
            self.types[:n],
            self.type_labels,
            self.vacant[:n],
            self.facilities[:n],
        )


def median_age(by_age: Ints) -> float | None:
    """Of persons by year of age ``(ages,)``, the ages of a year spread evenly over it: half are
    younger. Of nobody, none.

    >>> (
    ...     median_age(np.array([0, 2, 2])),
    ...     median_age(np.array([0, 0, 4])),
    ...     median_age(np.zeros(3, dtype=int)),
    ... )
    (2.0, 2.5, None)
    """
    total = int(by_age.sum())
    if not total:
        return None
    upto = np.cumsum(by_age)
    year = int(np.searchsorted(2 * upto, total))
    return float(year + (total / 2 - (upto[year] - by_age[year])) / by_age[year])
