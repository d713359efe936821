"""``release/report.html`` of the DHC: who lives where and how, at a glance; what is guaranteed, how
sure the estimation was, and what to be careful about.

A function of published values alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from markupsafe import Markup

from das.model.solution import Certificate, Certificates
from das.publications.dhc import figures
from das.publications.dhc.figures import LISTED, AgedPlace, aged, drawn, share
from das.publications.dhc.lookup import PlaceProfiles
from das.report.facts import Facts
from das.report.template import PublicFrame, public_page

#: Units with a line in figures, the largest first.
LINES = 8


@dataclass(frozen=True)
class PlaceLine(AgedPlace):
    """With its households and housing units."""

    households: int
    size: float | None
    owned: float | None
    alone: float | None
    units: int
    vacant: float | None


def lines(p: PlaceProfiles) -> list[PlaceLine]:
    """One for each unit. The first two classes of tenure are the owners; the last type but one
    lives alone.
    """
    out = []
    for i, of in enumerate(aged(p)):
        homes = int(p.households[i])
        units = int(homes + p.vacant[i])
        size, owned, alone = (
            share(part, homes)
            for part in (of.persons - of.away, p.tenure[i, :2].sum(), p.types[i, -2])
        )
        vacant = share(p.vacant[i], units)
        out.append(
            PlaceLine(
                **asdict(of),
                households=homes,
                size=size,
                owned=owned,
                alone=alone,
                units=units,
                vacant=vacant,
            )
        )
    return out


@dataclass(frozen=True)
class OddUnits:
    """How many units of the lowest level are published as what is hardly so, ``of`` those that
    could be: in words.
    """

    says: str
    units: int
    of: int

    @property
    def percent(self) -> float:
        return 100 * self.units / self.of if self.of else 0.0


@dataclass(frozen=True)
class NoiseMargins:
    """One query and its margins: the ``records`` that it counts, the query in words, and how many
    ``answers`` it has. For each level there is the margin at 95 % of the noise of one answer.
    """

    records: str
    says: str
    answers: int
    margins: tuple[int, ...]


def dhc_html(
    facts: Facts,
    frame: PublicFrame,
    levels: Sequence[tuple[str, int]],
    places: PlaceProfiles,
    odd: Sequence[OddUnits],
    look_up: tuple[str, Sequence[str]],
    *,
    certificates: Mapping[str, Mapping[str, Certificates]],
    householders: int,
    privacy_page: bool = False,
    noise: Sequence[NoiseMargins] = (),
) -> str:
    """``levels`` with their numbers of units; ``look_up``: its data, and the levels that it leaves
    out; ``certificates`` by universe and level; ``householders`` of the root, as persons have them. The same arguments give the same page."""
    listed = lines(places.first(LISTED))
    some = places.first(LINES)
    return public_page(
        "dhc.html",
        facts,
        frame,
        levels=levels,
        privacy_page=privacy_page,
        noise=noise,
        root=listed[0],
        listed=listed,
        facilities=int(places.facilities[0]),
        tenure=Markup(
            figures.shares(some.names, some.tenure, some.tenure_labels, "Tenure", "tenure")
        ),
        types=Markup(
            figures.shares(some.names, some.types, some.type_labels, "Household types", "types")
        ),
        lines_drawn=len(some.names) - 1,
        odd=odd,
        lookup=Markup(look_up[0]),
        left_out=look_up[1],
        householders=householders,
        worst={universe: worst(of.values()) for universe, of in certificates.items()},
        certificates=certificates,
        **drawn(places),
    )


def worst(of: Iterable[Certificates]) -> Certificate:
    """The certificate of some levels together: the worst estimation, and the number of widened
    roundings."""
    out = Certificates()
    for c in of:
        out = out.merge(c)
    return replace(out.estimation, widened=out.rounding.widened)
