"""``release/report.html`` of the DHC's persons alone: ages of every place, a look-up, and how large
the noise is.

A function of published values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from das.model.solution import Certificates
from das.report.aged_places import LISTED, aged, drawn
from das.report.dhc_page import NoiseMargins, worst
from das.report.dhc_places import PlaceProfiles
from das.report.facts import Facts
from das.report.public import PublicFrame
from das.report.template import environment


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
    listed = aged(places.first(LISTED))
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
            listed=listed,
            root=listed[0],
            **drawn(places),
        )
    )
