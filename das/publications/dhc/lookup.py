"""The look-up of the DHC's page: headline counts of every place, of all that its tables have.

A function of published values alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.spine import Spine
from das.report import lookup
from das.report.answers import Answers, Shown

#: Units of the largest level that is looked up.
MOST_UNITS = 100_000

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeadlineCounts:
    """Counts of one level: of a ``universe`` in classes that have ``labels``, ``(units, classes)``.
    A total has the query ``total``."""

    universe: str
    query: str
    title: str
    labels: tuple[str, ...]
    counts: Ints


def looked_up(spine: Spine) -> tuple[str, ...]:
    """The levels that are looked up, from the root down."""
    small = [spine.units(level) <= MOST_UNITS for level in spine.levels]
    return spine.levels[: small.index(False) if False in small else len(small)]


def dhc_lookup(
    spine: Spine, counts: Mapping[str, list[HeadlineCounts]], example: str
) -> tuple[str, list[str]]:
    """The data of the look-up, opened at the largest unit of the level ``example``, and the levels
    that it leaves out. ``counts`` are those of each level of :func:`looked_up`."""
    n = len(counts)
    part = Spine(spine.levels[:n], spine.codes[:n], spine.parent[:n], spine.names[:n])
    answers = tuple(
        Answers(h.universe, level, h.query, h.title, h.labels, h.counts, None, None, False)
        for level, of in counts.items()
        for h in of
    )
    shown = Shown(part, answers, part.levels)
    first = example if example in part.levels else part.levels[0]
    most = int(shown.total(shown.universes[0], first).published[:, 0].argmax())
    data, left_out = lookup.brief(shown, (first, most))
    return data, [*left_out, *spine.levels[n:]]


# What the page of the DHC shows of some units, as numbers.


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
