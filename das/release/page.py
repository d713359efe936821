"""``release/report.html``, from the files of a release and the counts that were published from
them.

Like ``das.release.post_processing``, nothing here can see the truth; ``das estimate --from`` writes the same
page again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import Stated
from das.errors import InputError
from das.files import atomic
from das.files.release import own_bytes
from das.files.release import statement as privacy_statement
from das.model.areas import Areas
from das.model.histogram import Histogram
from das.model.post_processing import BiasCorrection
from das.model.universe import Universe
from das.release.intervals import CountIntervals, Intervals
from das.release.opened import OpenedRelease
from das.release.precision import achieved_precision
from das.report.answers import LookUp, PublishedUniverse, gather
from das.report.facts import ListedMeasurement, facts
from das.report.release_page import release_html
from das.report.template import PublicFrame, place_of
from das.tables import universe_tables
from das.version import __version__

NAME = "report.html"
#: What the records of a schema are published as, and which census a reader's files are of.
PUBLICATIONS = {"pl94": "redistricting data"}
CENSUSES = {"pl94-2010": "2010 Census", "pl94-2020": "2020 Census", "ext1940": "1940 Census"}
#: What the page leads to, besides tables.
FILES = {
    "microdata": "one row for each record, such as a person; rows add up to the tables",
    "nmf": "every noisy measurement, with its variance",
    "dictionary.csv": "what every file, column and code means",
    "spec.toml": "the configuration: das estimate --from this folder makes the counts again",
}


def shown(release: OpenedRelease, published: Mapping[str, Mapping[str, Histogram]]) -> LookUp:
    """What the pages show of a release; ``published`` are its counts by universe and level."""
    universes = [_published(release, u, published[u.name]) for u in release.after.universes]
    return gather(release.spine, universes, areas=release.areas())


def _published(
    release: OpenedRelease, universe: Universe, published: Mapping[str, Histogram]
) -> PublishedUniverse:
    exact = exact_queries(
        privacy_statement.read(release.folder), universe.name, release.spec.geography.levels
    )
    intervals = Intervals(release, universe)
    return PublishedUniverse(
        universe.name,
        universe.schema,
        universe.noise,
        published,
        intervals.measured,
        exact,
        intervals.read,
        partial(_area_ends, intervals),
        release.assigned(universe.name),
    )


def _area_ends(
    intervals: Intervals, areas: Areas, columns: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both ends of the intervals of areas."""
    try:
        found = intervals.of_areas(areas, columns)
    except InputError:  # too many levels: the page has the counts alone
        found = CountIntervals.unknown(len(areas), len(columns))
    return found.low, found.high


def write(
    release: OpenedRelease,
    what: LookUp,
    out: Path,
    worse: Sequence[Any] = (),
    correction: BiasCorrection | None = None,
) -> None:
    """Write the page under ``out``. ``worse``: what is published worse than it was measured, with
    the fields of :class:`das.release.precision.Misfit`; ``correction``: of the size
    bias of the lowest units."""
    privacy, after = privacy_statement.read(release.folder), release.after
    measurements = {u.name: _measurements(release, u) for u in after.universes}
    page = release_html(
        what,
        facts(after.name, after.persons.schema, privacy, own_spine=bool(release.own_spine)),
        measurements,
        _frame(release, out),
        assigned=[
            sentence for u in after.universes for sentence in release.assigned(u.name).values()
        ],
        privacy_page=(out / "privacy.html").is_file(),
        worse=worse,
        correction=correction,
    )
    atomic.write_text(out / NAME, page)


def _frame(release: OpenedRelease, out: Path) -> PublicFrame:
    """Whose numbers these are, and the files that the page links to."""
    after = release.after
    records = " and ".join(u.records for u in after.universes)
    what = PUBLICATIONS.get(after.persons.schema.name, f"counts of {records}")
    census = CENSUSES.get(release.spec.reader or "")
    named = [
        (t.name, t.title)
        for u in after.universes
        for t in universe_tables(u, release.assigned(u.name))
    ]
    return PublicFrame(
        place_of(release.spine, after.name),
        f"{what}, {census}" if census else what,
        after.name,
        __version__,
        own_bytes.tables(out, named, release.spine.levels),
        own_bytes.listed(out, FILES),
    )


def exact_queries(
    privacy: Stated, universe: str, levels: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """By level, the queries that are invariant: where the statement says so, and at all levels
    above, as sums."""
    said = [
        (levels.index(c.level), c.query)
        for c in privacy.outside
        if (c.universe, c.sign) == (universe, "=")
    ]
    return {level: tuple(q for depth, q in said if depth >= i) for i, level in enumerate(levels)}


def _measurements(release: OpenedRelease, universe: Universe) -> list[ListedMeasurement]:
    """The share of each is what its noise costs of all: of another publisher's measurements it is
    what variances imply."""
    costs = [n.mechanism.cost(n.parameter, 1) for n in universe.noise]
    buys, units = achieved_precision(release, universe), _units(release, universe)
    return [
        ListedMeasurement(
            universe.name,
            n.level,
            n.query,
            universe.schema.query(n.query).title,
            units[n.level],
            universe.schema.query(n.query).answers,
            float(cost / sum(costs)),
            n.margin(),
            buys[n.level, n.query].deviation if buys else None,
            bool(buys) and buys[n.level, n.query].nothing,
        )
        for n, cost in zip(universe.noise, costs, strict=True)
    ]


def _units(release: OpenedRelease, universe: Universe) -> dict[str, int]:
    """How many units of each level were measured: of a part of a release, as the ledger has it for
    the whole."""
    if release.part is None:
        return {
            level: int(release.tree(universe).measured(level).sum())
            for level in release.spine.levels
        }
    drawn = {(e.level, e.query, e.unit_class): e.units for e in release.events(universe)}
    first = {level: query for level, query, _ in reversed(drawn)}
    return {
        level: sum(n for (lv, q, _), n in drawn.items() if (lv, q) == (level, query))
        for level, query in first.items()
    }
