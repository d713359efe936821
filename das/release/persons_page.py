"""``release/report.html`` of the DHC's persons alone, from published counts. Nothing here can see
the truth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from das.accounting.document import ForeignStatement
from das.estimate.outer import OuterEstimates
from das.files import atomic
from das.files.release import listing
from das.model.dhc.persons import DHCP
from das.model.histogram import Histogram
from das.release.dhc_page import FILES, NAME, called, margins, person_headlines, shown_level
from das.release.published_dhc import OpenedPublishedDhc
from das.report.dhc_lookup import dhc_lookup, looked_up
from das.report.dhc_page import NoiseMargins
from das.report.dhc_places import PlaceProfiles
from das.report.facts import facts
from das.report.persons_page import persons_html
from das.report.public import PublicFrame, place_of
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
    page = persons_html(
        facts(spec.run.name, DHCP, privacy, own_spine=False),
        PublicFrame(
            place_of(spine, spec.run.name),
            WHAT,
            spec.run.name,
            __version__,
            (),
            listing.listed(out, FILES),
        ),
        [(level, spine.units(level)) for level in spine.levels],
        profiles(opened, done),
        look_up,
        certificates=done.certificates,
        noise=list(noise(opened)),
        notes=[*privacy.says, *notes],
        measured=spec.measured,
    )
    atomic.write_text(out / NAME, page)


def noise(opened: OpenedPublishedDhc) -> Iterator[NoiseMargins]:
    """The margins of queries with few answers, by level that is measured."""
    return margins(opened.universe)


def profiles(opened: OpenedPublishedDhc, done: OuterEstimates) -> PlaceProfiles:
    """Ages of the root, and of the units of the level that is shown, the largest first; nothing of
    households and units."""
    spine = opened.spine
    root, level = spine.levels[0], shown_level(spine)
    every = (root, *([level] if level != root else []))
    h = Histogram.concatenate([done.counts[lv] for lv in every])
    names = [name for lv in every for name in called(spine, lv)]
    ages = h.answer(DHCP.query("sex * age")).reshape(len(names), 2, -1)
    order = np.array([0, *(1 + np.argsort(-ages[1:].sum(axis=(1, 2)), kind="stable"))])
    away = h.answer(DHCP.query("relgq_4_groups"))[order, 2:].sum(axis=1)
    none = np.zeros((len(names), 0), dtype=np.int64)
    nothing = np.zeros(len(names), dtype=np.int64)
    return PlaceProfiles(
        level,
        tuple(names[i] for i in order),
        ages[order],
        away,
        none,
        (),
        none,
        (),
        nothing,
        nothing,
    )
