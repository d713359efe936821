"""``release/report.html`` of the DHC's persons alone, from published counts: ages of every place, a
look-up, and how large the noise is. Nothing here can see the truth."""

from __future__ import annotations

from markupsafe import Markup

from das.accounting.document import ForeignStatement
from das.estimate.outer import OuterEstimates
from das.files import atomic
from das.files.release import plain
from das.publications.dhc.figures import LISTED, aged, dhc_lookup, drawn, looked_up
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.page import (
    FILES,
    NAME,
    margins,
    person_headlines,
    profiles,
    shown_level,
    worst,
)
from das.publications.published.dhc import OpenedPublishedDhc
from das.report.facts import facts
from das.report.template import PublicFrame, place_of, public_page
from das.version import __version__

__all__ = ["NAME", "write"]

WHAT = "Demographic and Housing Characteristics (DHC), persons"


def write(
    opened: OpenedPublishedDhc,
    done: OuterEstimates,
    privacy: ForeignStatement,
    notes: tuple[str, ...],
) -> None:
    """Write the page into the folder of the release. ``notes``: what was done that a reader should
    know, besides what the statement says."""
    spine, spec, out = opened.spine, opened.spec, opened.folder
    shown = shown_level(spine)
    look_up = dhc_lookup(
        spine, {lv: list(person_headlines(done.counts[lv])) for lv in looked_up(spine)}, shown
    )
    places = profiles(spine, {"persons": done.counts})
    listed = aged(places.first(LISTED))
    name = spec.run.name
    page = public_page(
        "persons.html",
        facts(name, DHCP, privacy, own_spine=False),
        PublicFrame(place_of(spine, name), WHAT, name, __version__, (), plain.listed(out, FILES)),
        levels=[(level, spine.units(level)) for level in spine.levels],
        privacy_page=True,
        noise=list(margins(opened.universe)),
        notes=[*privacy.says, *notes],
        measured=spec.measured,
        worst=worst(done.certificates.values()),
        lookup=Markup(look_up[0]),
        left_out=look_up[1],
        listed=listed,
        root=listed[0],
        **drawn(places),
    )
    atomic.write_text(out / NAME, page)
