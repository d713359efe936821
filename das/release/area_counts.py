"""Counts of any areas of blocks: as published, and as all measurements say, with standard errors and intervals.

Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.errors import InputError, UserError
from das.estimate import margins
from das.estimate.areas.estimates import Estimated, estimates
from das.files.microdata import reading as microdata
from das.model.area_rows import AreaRow
from das.model.areas import Areas
from das.model.spelling import key, near, query
from das.model.universe import Universe
from das.release.intervals import known_queries
from das.release.post import Opened

#: What intervals hold, where nobody says otherwise: as the Bureau states its margins.
COVERAGE = 0.9
#: Of the redistricting tables, what a page shows unasked: the voting-age population, by Hispanic origin and race.
VOTING_AGE = tuple(f"P004{number:04d}" for number in (1, 2, 5, 6, 7, 8, 9, 10, 11))
#: Standard errors that the margin of a normal estimate has at 95 %, of which ``Universe.wide`` may be a little more.
_NORMAL = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, eq=False)
class Statistic:
    """A sum of cells ``(cells,)`` of one universe; ``field`` is that of a table's column, or a query's name and answer."""

    universe: Universe
    field: str
    label: str
    cells: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AreaColumn:
    """A statistic of each area, arrays ``(areas,)``: ``value`` as published; ``estimate`` and ``error`` its unbiased estimate from all
    measurements and the standard error of that, NaN where nothing at the lowest level tells it; the estimate rounded, and the
    ``margin`` of the interval about it, negative where there is none."""

    statistic: Statistic
    value: NDArray[np.int64]
    estimate: NDArray[np.float64]
    error: NDArray[np.float64]
    rounded: NDArray[np.int64]
    margin: NDArray[np.int64]

    def row(self, i: int, areas: Areas, blocks: int) -> AreaRow:
        """That of area i."""
        told: tuple[Any, ...] = (None,) * 4
        if self.margin[i] >= 0:
            ends = int(self.rounded[i] - self.margin[i]), int(self.rounded[i] + self.margin[i])
            told = round(float(self.estimate[i]), 2) + 0.0, round(float(self.error[i]), 2), *ends
        s = self.statistic
        place = areas.code(i), str(areas.called[i]), blocks
        return AreaRow(*place, s.universe.name, s.field, s.label, int(self.value[i]), *told)

    @property
    def outside(self) -> NDArray[np.bool_]:
        """Where the published count is outside the interval."""
        return (self.margin >= 0) & (np.abs(self.value - self.rounded) > self.margin)


@dataclass(frozen=True, eq=False)
class AreaCounts:
    """Of some areas of a release; intervals hold the true count with probability ``coverage``, each by itself. ``published``:
    of each universe that is asked for, how many records the release has in all."""

    areas: Areas
    coverage: float
    columns: tuple[AreaColumn, ...]
    published: Mapping[str, int]

    def rows(self) -> list[AreaRow]:
        """A row for each area and statistic."""
        units = np.bincount(self.areas.area)
        return [c.row(i, self.areas, int(units[i])) for i in range(len(self.areas)) for c in self.columns]


def counts(release: Opened, areas: Areas, asked: Sequence[Statistic], coverage: float = COVERAGE) -> AreaCounts:
    """The statistics of areas of the lowest units of ``release.spine``. Raises :class:`InputError` for a coverage that is
    none."""
    if not 0 < coverage < 1:
        raise InputError(
            f"a coverage of {coverage}", where="coverage", remedy="give a number between 0 and 1, such as 0.9"
        )
    found: dict[int, AreaColumn] = {}
    everybody: dict[str, int] = {}
    for u in release.after.universes:
        at = [i for i, s in enumerate(asked) if s.universe.name == u.name]
        if not at:
            continue
        cells = np.array([asked[i].cells for i in at])
        with ThreadPoolExecutor(1) as other:  # both read files for most of their time
            published = other.submit(_published, release, u, areas, cells)
            estimated = _estimated(release, u, areas, cells)
        value, everybody[u.name] = published.result()
        error = np.sqrt(estimated.variance)
        rounded, margin = margins.whole(wide(coverage, u.wide), estimated.value, error)
        for j, i in enumerate(at):
            found[i] = AreaColumn(asked[i], value[:, j], estimated.value[:, j], error[:, j], rounded[:, j],
                                  margin[:, j])  # fmt: skip
    return AreaCounts(areas, coverage, tuple(found[i] for i in range(len(asked))), everybody)


def wide(coverage: float, at_95: float) -> float:
    """Standard errors that an interval of ``coverage`` has to either side: of a normal estimate, or as many more as noise of
    a longer tail has at 95 %, where it has ``at_95`` (:attr:`das.model.universe.Universe.wide`)."""
    return NormalDist().inv_cdf((1 + coverage) / 2) * max(1.0, at_95 / _NORMAL)


def _published(release: Opened, u: Universe, areas: Areas, cells: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """Sums of the published counts, ``(areas, columns)``, and how many records there are in all."""
    h = microdata.read(release.folder / "microdata" / u.kind.folder, u, release.spine.codes[-1])
    inside = areas.histogram(h)
    rows = np.repeat(np.arange(inside.units), np.diff(inside.indptr))
    sums = [np.bincount(rows, weights=inside.count * c[inside.cell], minlength=inside.units) for c in cells]
    return np.stack(sums, axis=1).astype(np.int64), int(h.count.sum())


def _estimated(release: Opened, u: Universe, areas: Areas, cells: NDArray[np.bool_]) -> Estimated:
    """Of the lowest units of the tree that was measured; nobody is in those that are not on it."""
    source, bounds, tree = release.source(u), release.bounds(u), release.tree(u)
    area, unit = areas.over(tree)
    exact = known_queries(source, u.schema, bounds)
    return estimates(source, tree.spine, bounds, u.schema, cells, area, unit, len(areas), exact)


# --- what is asked for ---------------------------------------------------------------------------------------


def statistics(release: Opened, asked: Sequence[str]) -> list[Statistic]:
    """Statistics by what a person types: a table (``P2``), a column of one (``P0020002``), or a query (``votingage * hispanic``),
    after the name of its universe and a colon where it is not of persons. Without any: the total of each universe.

    Raises:
        UserError: none that there is.
    """
    every = release.after.universes
    if not asked:
        return [s for u in every for s in _of_query(u, "total")]
    out = [s for text in asked for s in _statistics(release, text)]
    return list({(s.universe.name, s.field): s for s in out}.values())


def unasked(release: Opened) -> list[str]:
    """What a page shows where nothing is asked for: totals and, where there is a table P4, the voting-age population."""
    there = {f for t in tables.of(release.after.persons) for f in t.columns}
    others = (f"{u.name}:total" for u in release.after.universes[1:])
    return ["total", *(f for f in VOTING_AGE if f in there), *others]


def _statistics(release: Opened, text: str) -> list[Statistic]:
    where, every = f"--statistics {text}", release.after.universes
    head, colon, wanted = text.rpartition(":")
    if colon and head.strip() not in [u.name for u in every]:
        raise UserError(f"no universe {head.strip()!r}", where=where,
                        remedy=near(head.strip(), [u.name for u in every], "universes"))  # fmt: skip
    among = [u for u in every if not colon or u.name == head.strip()]
    known: list[str] = []
    for u in among:
        for t in tables.of(u, release.assigned(u.name)):
            fields = [(f, t.said(j), mask) for j, (f, mask) in enumerate(zip(t.columns, t.masks, strict=True))]
            chosen = fields if key(t.name) == key(wanted) else [f for f in fields if key(f[0]) == key(wanted)]
            if chosen:
                return [Statistic(u, *f) for f in chosen]
            known.append(t.name)
    try:
        return _of_query(among[0], query(wanted.strip(), among[0].schema, (), where))
    except UserError as error:
        raise UserError(f"no table, column or query {wanted.strip()!r}", where=where,
                        remedy=f"the tables are {', '.join(known) or 'none'}; as a query: {error.remedy}") from None  # fmt: skip


def _of_query(u: Universe, name: str) -> list[Statistic]:
    """Each answer that can be other than 0."""
    q = u.schema.query(name)
    there = np.unique(q.index[u.schema.possible]).tolist()
    words = q.captions()
    return [Statistic(u, name if q.answers == 1 else f"{name}[{i}]", words[i], q.index == i) for i in there]
