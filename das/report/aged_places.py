"""The ages of places on a page of the DHC: lines of its table, and pyramids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from das.report import dhc_figures
from das.report.dhc_places import PlaceProfiles, median_age

#: Units with a pyramid of their own, and in the table, the largest first.
PYRAMIDS, LISTED = 8, 120


@dataclass(frozen=True)
class AgedPlace:
    """A unit in the table; shares are of 1, and there is none of nothing."""

    name: str
    persons: int
    median: float | None
    young: float | None
    old: float | None
    away: int


def aged(p: PlaceProfiles) -> list[AgedPlace]:
    """One for each unit."""
    out = []
    for name, ages, away in zip(p.names, p.ages.sum(axis=1), p.away.tolist(), strict=True):
        persons = int(ages.sum())
        young, old = (share(x.sum(), persons) for x in (ages[:18], ages[65:]))
        out.append(AgedPlace(name, persons, median_age(ages), young, old, away))
    return out


def share(part: float, of: int) -> float | None:
    """A share of 1, where there is something to share."""
    return float(part) / of if of else None


def drawn(places: PlaceProfiles) -> dict[str, Any]:
    """What ``pyramids.html`` and the table of the places need, besides the lines of the table."""
    some = places.first(PYRAMIDS)
    return {
        "left_out_places": max(0, len(places.names) - 1 - LISTED),
        "level": places.level,
        "pyramid": Markup(dhc_figures.pyramid(places)),
        "pyramids": Markup(dhc_figures.pyramids(some)) if len(places.names) > 1 else "",
        "pyramids_drawn": len(some.names) - 1,
    }
