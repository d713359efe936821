"""``release/report.html`` of the DHC, from its published counts. Nothing here can see the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from das.accounting.document import Document
from das.files import atomic
from das.files.release import own_bytes
from das.model.error_rows import ErrorRow, FigureRow, ImpossibleRow
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.names import level_words
from das.model.not_private import Private
from das.model.query import Grouping, Query
from das.model.solution import Certificate, Certificates
from das.model.spine import Spine
from das.publications.dhc import figures
from das.publications.dhc.agreement.identities import agreement
from das.publications.dhc.agreement.tables import agreement_counts
from das.publications.dhc.figures import (
    LISTED,
    AgedPlace,
    HeadlineCounts,
    PlaceProfiles,
    aged,
    dhc_lookup,
    drawn,
    looked_up,
    share,
)
from das.publications.dhc.files.official import IMPOSSIBLE, UNITS
from das.publications.dhc.model.figures import FIGURES, SCHEMAS
from das.publications.dhc.model.households import (
    DHCH,
    HHTYPE,
    TENURES,
    TENVACGQ,
    TYPES,
    HouseholdType,
)
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.release_files import DhcCounts, check
from das.publications.dhc.spec import DhcUniverse
from das.report.chart import Chart
from das.report.facts import SERIES, Facts, facts, titles
from das.report.panel import INK, MarkStyle
from das.report.template import PublicFrame, place_of, public_page, render
from das.version import __version__

# ``release/report.html`` of the DHC: who lives where and how, at a glance; what is guaranteed, how
# sure the estimation was, and what to be careful about.
#
# A function of published values alone.

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
    lives alone."""
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
    could be: in words."""

    says: str
    units: int
    of: int

    @property
    def percent(self) -> float:
        return 100 * self.units / self.of if self.of else 0.0


@dataclass(frozen=True)
class NoiseMargins:
    """One query and its margins: the ``records`` that it counts, the query in words, and how many
    ``answers`` it has. For each level there is the margin at 95 % of the noise of one answer."""

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


def worst(certificates: Iterable[Certificates]) -> Certificate:
    """The certificate of some levels together: the worst estimation, and the number of widened
    roundings."""
    out = Certificates()
    for c in certificates:
        out = out.merge(c)
    return replace(out.estimation, widened=out.rounding.widened)


NAME = "report.html"
#: What is published, in words; and what the page leads to.
WHAT = "Demographic and Housing Characteristics (DHC)"
FILES = {
    "tables": "the published tables, a CSV file for each table and level",
    "microdata": "one row for each person, household or housing unit; rows add up to the tables",
    "nmf": "every noisy measurement made on demand, with its variance",
    "dictionary.csv": "what every file, column and code means",
    "spec.toml": "the configuration",
    "prior.json": "what was assumed of the lowest units besides their measurements",
}
#: The level that places are shown of, where the tree has it; else that below the root.
SHOWN = "County"
#: Answers of the largest query whose noise is told.
FEW = 100
#: The types of household that a reader tells apart; alone is the last but one.
KINDS = (
    "Married, own children",
    "Married, no own children",
    "Cohabiting couple",
    "One parent, own children",
    "Living alone",
    "Others",
)
#: Classes of age in the look-up, by their first years.
AGES = {
    "Under 5 years": 0,
    "5 to 17 years": 5,
    "18 to 24 years": 18,
    "25 to 34 years": 25,
    "35 to 44 years": 35,
    "45 to 54 years": 45,
    "55 to 64 years": 55,
    "65 to 74 years": 65,
    "75 to 84 years": 75,
    "85 years and over": 85,
}
TENURE_WORDS = ("Owned, with a mortgage", "Owned, free and clear", "Rented", "No cash rent")

Ints = NDArray[np.int64]


def write(
    out: Path,
    name: str,
    spine: Spine,
    counts: DhcCounts,
    certificates: Mapping[str, Mapping[str, Certificates]],
    privacy: Document | None,
    private: Private,
    universes: Sequence[DhcUniverse] = (),
    *,
    own_spine: bool = False,
    shares: bool = False,
) -> None:
    """Write the page under ``out``.

    ``certificates`` are those of the estimation by universe and level, empty if unknown.
    ``privacy`` is the statement of the release, if there is one. ``universes``, if given, say how
    everything was measured, and the page shows the noise; ``own_spine``: over other units than the
    published ones. ``shares``: whether the lowest units were assumed to have their parents' shares.
    Raises :class:`InputError` for counts of another tree."""
    check(spine, counts)
    root, lowest = spine.levels[0], spine.levels[-1]
    levels = [(level, spine.units(level)) for level in spine.levels]
    page = dhc_html(
        {**_facts(name, privacy, private, own_spine), "shares": shares},
        PublicFrame(
            place_of(spine, name), WHAT, name, __version__, (), own_bytes.listed(out, FILES)
        ),
        levels,
        profiles(spine, counts),
        odd(counts, lowest),
        dhc_lookup(
            spine, {lv: headlines(counts, lv) for lv in looked_up(spine)}, shown_level(spine)
        ),
        certificates=certificates,
        householders=int(counts["persons"][root].answer(DHCP.query("relgq_4_groups"))[0, 0]),
        privacy_page=privacy is not None,
        noise=[line for u in universes for line in margins(u)],
    )
    atomic.write_text(out / NAME, page)


def margins(universe: DhcUniverse) -> Iterator[NoiseMargins]:
    """The margins of each query of a universe that has few answers, level by level."""
    for query in (
        universe.schema.query(name) for p in universe.strategy.outer for name in p.queries
    ):
        if query.answers <= FEW:
            yield NoiseMargins(
                universe.name,
                query.title,
                query.answers,
                tuple(d.margin() for d in universe.plan.measurements if d.query == query.name),
            )


def _facts(name: str, privacy: Document | None, private: Private, own_spine: bool) -> Facts:
    words = (
        "relationship, sex, age, origin and race of persons; types of households; tenure and"
        " vacancy of units"
    )
    if privacy is None:
        return {"name": name, "schema": words, "private": private, "own_spine": own_spine}
    return facts(name, DHCP, privacy, own_spine=own_spine) | {"schema": words, "private": private}


def profiles(spine: Spine, counts: DhcCounts) -> PlaceProfiles:
    """Profiles of the root, and of the units of the level that is shown, the largest first. Without
    households and units if only persons were counted."""
    root, level = spine.levels[0], shown_level(spine)
    shown = [root, level] if level != root else [root]
    of = {u: Histogram.concatenate([levels[lv] for lv in shown]) for u, levels in counts.items()}
    names = [name for lv in shown for name in called(spine, lv)]
    ages = of["persons"].answer(DHCP.query("sex * age")).reshape(len(names), 2, -1)
    order = np.array(
        [0, *(1 + np.argsort(-ages[1:].sum(axis=(1, 2)), kind="stable"))], dtype=np.int64
    )
    titles = tuple(names[i] for i in order)
    away = of["persons"].answer(DHCP.query("relgq_4_groups"))[order, 2:].sum(axis=1)
    if len(of) == 1:  # persons alone
        none = np.zeros((len(names), 0), dtype=np.int64)
        nothing = none.sum(axis=1)
        return PlaceProfiles(level, titles, ages[order], away, none, (), none, (), nothing, nothing)
    units = of["units"].answer(TENVACGQ.query("detailed"))[order]
    vacant, facilities = len(TENURES), TENVACGQ.cells - 24
    return PlaceProfiles(
        level,
        titles,
        ages[order],
        away,
        units[:, :vacant],
        TENURE_WORDS,
        _types(of["households"])[order],
        KINDS,
        units[:, vacant:facilities].sum(axis=1),
        units[:, facilities:].sum(axis=1),
    )


def shown_level(spine: Spine) -> str:
    """The level that places are shown of."""
    return SHOWN if SHOWN in spine.levels[1:] else spine.levels[min(1, len(spine) - 1)]


def called(spine: Spine, level: str) -> list[str]:
    """The names of the units of a level, or their codes; a name that several have, with that of the
    unit above."""
    depth = spine.index(level)
    names = [str(n) or spine.code(level, i) for i, n in enumerate(spine.names[depth])]
    many = {name for name, n in Counter(names).items() if n > 1}
    above = [spine.title(spine.levels[depth - 1], u) for u in spine.parent[depth].tolist()]
    return [f"{n}, {a}" if n in many else n for n, a in zip(names, above, strict=True)]


def headlines(counts: DhcCounts, level: str) -> list[HeadlineCounts]:
    """What the look-up has of the places of a level."""
    persons, households = counts["persons"][level], counts["households"][level]
    units = counts["units"][level].answer(TENVACGQ.query("detailed"))
    lived, vacant = len(TENURES), TENVACGQ.cells - 24
    homes = np.stack([units[:, :lived].sum(axis=1), units[:, lived:vacant].sum(axis=1)], axis=1)
    of = [
        ("households", "total", "Total", ("total",), households.totals()[:, None]),
        ("households", "tenure", "Tenure", TENURE_WORDS, units[:, :lived]),
        ("households", "type", "Household type", KINDS, _types(households)),
        ("housing", "total", "Total", ("total",), homes.sum(axis=1, keepdims=True)),
        ("housing", "occupancy", "Occupancy", ("Occupied", "Vacant"), homes),
    ]
    return [*person_headlines(persons), *(HeadlineCounts(*x) for x in of)]


def person_headlines(persons: Histogram) -> Iterator[HeadlineCounts]:
    """What the look-up has of persons."""
    sex = DHCP.query("sex")
    yield HeadlineCounts("persons", "total", "Total", ("total",), persons.totals()[:, None])
    yield HeadlineCounts("persons", "sex", sex.title, tuple(sex.captions()), persons.answer(sex))
    yield HeadlineCounts("persons", "age", "Age", tuple(AGES), persons.answer(_ages()))


def _ages() -> Query:
    """Persons by classes of age."""
    single = DHCP.attribute("age").levels
    first = list(AGES.values())
    index = np.searchsorted(first, np.arange(len(single)), side="right") - 1
    classes = Grouping("ages", "age", tuple(AGES), tuple(index.tolist()), "Age", tuple(AGES))
    total = DHCP.query("total").groupings
    return Query("ages", tuple(classes if g.attribute == "age" else g for g in total))


def _kind(t: HouseholdType) -> int:
    if t.married:
        return int(not t.own)
    if t.cohabiting:
        return 2
    return 3 if t.own else 4 if t.alone else 5


def _types(h: Histogram) -> Ints:
    kind = np.array([_kind(t) for t in TYPES])
    return h.answer(DHCH.query(HHTYPE.name)) @ (kind[:, None] == np.arange(len(KINDS)))


#: Identities that the page names where they are violated.
_DISAGREEMENTS = {
    "E5": "other numbers of householders than of households",
    "E2": "other numbers of spouses and partners than of couples",
    "any": "persons and households that contradict each other in anything"
    " (das evaluate --agreement)",
}


def _level(counts: DhcCounts, level: str) -> dict[str, Histogram]:
    return {name: of[level] for name, of in counts.items()}


def odd(counts: DhcCounts, lowest: str) -> list[OddUnits]:
    """What hardly is so, of how many units of the ``lowest`` level it is published. Of persons
    those in households count."""
    persons, households = counts["persons"][lowest], counts["households"][lowest].totals()
    of = persons.answer(
        DHCP.query("relgq_4_groups")
    )  # householders, others with them, two classes of group quarters
    home, away = of[:, :2].sum(axis=1), of[:, 2:].sum(axis=1)
    adult, lived = persons.answer(DHCP.query("votingage"))[:, 1], home + away > 0
    found = {r.identity: r for r in agreement(agreement_counts(_level(counts, lowest)), lowest)}
    return [
        OddUnits(
            "persons in households, and no household",
            int(((home > 0) & (households == 0)).sum()),
            int((home > 0).sum()),
        ),
        OddUnits(
            "households, and nobody in them",
            int(((home == 0) & (households > 0)).sum()),
            int((households > 0).sum()),
        ),
        OddUnits(
            "fewer persons in households than households",
            int(((home > 0) & (home < households)).sum()),
            int((households > 0).sum()),
        ),
        OddUnits(
            "nobody of 18 years and over, and no group quarters",
            int((lived & (adult == 0) & (away == 0)).sum()),
            int(lived.sum()),
        ),
        *(
            OddUnits(says, found[name].violated, found[name].units)
            for name, says in _DISAGREEMENTS.items()
        ),
    ]


# ``confidential/report.html`` of the DHC: its errors next to those that the Bureau found in its
# own run.


@dataclass(frozen=True, repr=False)
class LevelSummary(NoRepr):
    """A summary of the lines of a level for which the Bureau has numbers.

    It has their number, the median ratio of our MAE to the Bureau's, and how many ratios exceed
    two. ``n`` units here, ``official_n`` there."""

    level: str
    n: int
    official_n: int
    lines: int
    ratio: float
    beyond: int


@dataclass(frozen=True, repr=False)
class FigureTable(NoRepr):
    """A figure: ``levels`` with whether the Bureau has numbers of it there; by label, the row of
    each level."""

    title: str
    universe: str
    levels: Sequence[tuple[str, bool]]
    lines: Mapping[str, Sequence[FigureRow]]


def dhc_errors_html(
    rows: Sequence[FigureRow],
    facts: Facts,
    odd: Sequence[ImpossibleRow] = (),
    queries: Mapping[str, Sequence[ErrorRow]] | None = None,
) -> str:
    """The page. :func:`das.publications.dhc.truth.evaluation.figures` gives ``rows`` and
    :func:`das.publications.dhc.truth.assessment.dhc_impossible` gives ``odd``; ``queries``: errors of the
    measured queries, by universe. It needs neither network nor other files; the same arguments give
    the same page."""
    small = {
        u: [r for r in of if r.bin == "all" and r.query != "total"]
        for u, of in (queries or {}).items()
    }
    beside = [r for r in rows if r.official_mae]
    return render(
        "dhc_errors.html",
        confidential=True,
        private=facts["private"],
        facts=facts,
        summaries=summaries(rows),
        figures=_tables(rows),
        picture=Markup(against_official(beside)) if any(r.mae for r in beside) else None,
        hidden=sum(not r.mae for r in beside),
        ratio=ratio,
        odd=[(r, IMPOSSIBLE.get((r.condition, r.level))) for r in odd],
        queries=small,
        titles={u: titles(SCHEMAS[u], {r.query for r in of}) for u, of in small.items()},
    )


def ratio(row: FigureRow) -> float | None:
    """Our MAE over the Bureau's."""
    return row.mae / row.official_mae if row.official_mae else None


def summaries(rows: Sequence[FigureRow]) -> list[LevelSummary]:
    """A summary of each level that the Bureau published numbers for."""
    out = []
    for level, official_n in UNITS.items():
        here = [r for r in rows if r.level == level]
        ratios = [x for r in here if (x := ratio(r)) is not None]
        if ratios:
            out.append(
                LevelSummary(
                    level,
                    here[0].n,
                    official_n,
                    len(ratios),
                    median(ratios),
                    sum(x > 2 for x in ratios),
                )
            )
    return out


def _tables(rows: Sequence[FigureRow]) -> list[FigureTable]:
    out = []
    for figure in FIGURES:
        mine = [r for r in rows if r.figure == figure.name]
        lines: dict[str, list[FigureRow]] = {}
        for r in mine:
            lines.setdefault(r.label, []).append(r)
        levels = {r.level: r.official_n is not None for r in mine}
        if mine:
            out.append(
                FigureTable(figure.tabulation.title, figure.universe, list(levels.items()), lines)
            )
    return out


def against_official(rows: Sequence[FigureRow]) -> str:
    """A mark for each line with errors on both sides: the Bureau's MAE, and ours above it; by
    level."""
    chart = Chart(5.6, 5.2)
    chart.x.log = chart.y.log = True
    for level, (color, marker, _) in zip(UNITS, SERIES, strict=True):
        here = [
            (r.official_mae, r.mae) for r in rows if r.level == level and r.official_mae and r.mae
        ]
        if here:
            xs, ys = zip(*here, strict=True)
            chart.plot(
                xs, ys, MarkStyle(color, mark=marker, face="none", size=5), level_words(level)
            )
    ends = [f(x for r in rows if r.mae for x in (r.official_mae or 0, r.mae)) for f in (min, max)]
    chart.plot(ends, ends, MarkStyle(INK, "-", width=0.8))
    chart.ends_at("mean absolute error of the Bureau’s run (log scale)")
    chart.y.label = "mean absolute error here (log scale)"
    chart.finish("Every line of every figure")
    return chart.svg("official", "Mean absolute errors of this run against those of the Bureau’s")
