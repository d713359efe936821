"""Results that cannot be, or hardly: how often in the truth, and how often as published.

Conditions and universes are those of the Bureau's *Impossible & Improbable* tables (numbers in
brackets: its Inconsistency Tables of 2023-04-03). Persons and housing units are measured and solved
apart, so nothing but chance keeps them together; what it costs is shown here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from das.evaluate.errors import grouped
from das.model.error_rows import ImpossibleRow
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.universe import Universe

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class LowestCounts(NoRepr):
    """What is counted of each lowest unit, ``(units,)``: all persons, those of 18 and over, those
    in households; occupied housing units and all of them. ``None`` where the run does not say."""

    persons: Ints
    adults: Ints | None
    household: Ints | None
    occupied: Ints | None
    housing: Ints | None


def impossible(
    truth: Mapping[str, Histogram],
    published: Mapping[str, Histogram],
    universes: Sequence[Universe],
    level: str,
) -> list[ImpossibleRow]:
    """Rows of ``impossible.csv``, for the lowest level; by universe, persons first. Conditions that
    their schemas do not speak of are left out."""
    return of_counts(_counted(truth, universes), _counted(published, universes), level)


def of_counts(true: LowestCounts, out: LowestCounts, level: str) -> list[ImpossibleRow]:
    """The rows from counts that are made already, in the truth and as published."""
    before, after = _conditions(true, true), _conditions(out, true)
    return [row_of(name, level, *before[name], *after[name]) for name in before]


def row_of(
    name: str, level: str, flags: Flags, met: Flags, of_out: Flags, met_out: Flags
) -> ImpossibleRow:
    """A row of a condition: the number of units in its universe, and of those that meet it, in the
    truth and as published."""
    return ImpossibleRow(
        name,
        level,
        *(int(np.count_nonzero(x)) for x in (flags, flags & met, of_out, of_out & met_out)),
    )


def merged(rows: Iterable[ImpossibleRow]) -> list[ImpossibleRow]:
    """The rows for the units of several parts: for each condition, the sums."""
    out = []
    for same in grouped(rows, attrgetter("condition")):
        sums = (
            sum(getattr(r, name) for r in same)
            for name in ("of_true", "true", "of_published", "published")
        )
        out.append(ImpossibleRow(same[0].condition, same[0].level, *sums))
    return out


def _counted(histograms: Mapping[str, Histogram], universes: Sequence[Universe]) -> LowestCounts:
    h, schema = histograms[universes[0].name], universes[0].schema
    names = [a.name for a in schema.attributes]
    adults = h.answer(schema.query("votingage"))[:, 1] if "votingage" in names else None
    household = h.answer(schema.query(schema.dwelling))[:, 0] if schema.dwelling else None
    occupied = housing = None
    for u in universes:
        if u.kind.dwellings:
            homes = histograms[u.name]
            housing, occupied = homes.totals(), homes.answer(u.schema.query("h1"))[:, 1]
    return LowestCounts(h.totals(), adults, household, occupied, housing)


def _conditions(x: LowestCounts, true: LowestCounts) -> dict[str, tuple[Flags, Flags]]:
    """For each condition, which units are in its universe, and which meet it."""
    found: dict[str, tuple[Flags, Flags]] = {}
    if x.adults is not None:
        somebody = x.persons > 0
        if x.household is not None:
            somebody &= x.household == x.persons
        found["children only (18)"] = somebody, x.adults == 0
    if x.occupied is None or x.housing is None or true.housing is None or true.occupied is None:
        return found
    found["more occupied than housing units"] = true.housing >= 0, x.occupied > true.housing
    found["all housing units occupied, not so in truth (22)"] = (
        x.housing >= 0,
        (x.housing > 0) & (x.occupied == x.housing) & (true.occupied < true.housing),
    )
    found["all housing units vacant, not so in truth (23)"] = (
        x.housing >= 0,
        (x.housing > 0) & (x.occupied == 0) & (true.occupied > 0),
    )
    if x.household is not None:
        lived_in = x.occupied > 0
        found["fewer persons in households than occupied units (3)"] = (
            lived_in,
            x.household < x.occupied,
        )
        found["persons in households, no occupied unit (4)"] = x.household > 0, x.occupied == 0
        found["occupied units, nobody in households (5)"] = lived_in, x.household == 0
        found["more than 10 persons a household (19)"] = lived_in, x.household > 10 * x.occupied
    return found
