"""``release/report.html`` of the DHC's persons alone: ages of every place, a look-up, and how large
the noise is.

A function of published values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from das.model.solution import Certificates
from das.report import dhc_figures
from das.report.dhc_page import LISTED, PYRAMIDS, NoiseMargins, worst
from das.report.dhc_places import PlaceProfiles, median_age
from das.report.facts import Facts
from das.report.public import PublicFrame
from das.report.template import environment


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
        young, old = (float(x.sum()) / persons if persons else None for x in (ages[:18], ages[65:]))
        out.append(AgedPlace(name, persons, median_age(ages), young, old, away))
    return out


def persons_html(
    facts: Facts,
    frame: PublicFrame,
    levels: Sequence[tuple[str, int]],
    places: PlaceProfiles,
    look_up: tuple[str, Sequence[str]],
    *,
    certificates: Mapping[str, Certificates],
    noise: Sequence[NoiseMargins],
    notes: Sequence[str],
    measured: Sequence[str],
) -> str:
    """``levels`` with their numbers of units; ``look_up``: its data, and the levels that it leaves
    out; ``noise``: margins at the ``measured`` levels; ``notes``: what a reader should know of the
    files. The same arguments give the same page."""
    return (
        environment()
        .get_template("persons.html")
        .render(
            confidential=False,
            private=facts["private"],
            facts=facts,
            frame=frame,
            levels=levels,
            privacy_page=True,
            noise=noise,
            notes=notes,
            measured=measured,
            worst=worst(certificates.values()),
            lookup=Markup(look_up[0]),
            left_out=look_up[1],
            **_drawn(places),
        )
    )


def _drawn(places: PlaceProfiles) -> dict[str, Any]:
    """The table of the places, and their pyramids."""
    listed, some = aged(places.first(LISTED)), places.first(PYRAMIDS)
    return {
        "listed": listed,
        "root": listed[0],
        "left_out_places": len(places.names) - len(listed),
        "level": places.level,
        "pyramid": Markup(dhc_figures.pyramid(places)),
        "pyramids": Markup(dhc_figures.pyramids(some)) if len(places.names) > 1 else "",
        "pyramids_drawn": len(some.names) - 1,
    }
