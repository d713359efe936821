r"""Published counts held against what noisy measurements say about the same places.

All measurements together give an unbiased estimate :math:`\hat t` of each count :math:`t`, its
standard error :math:`s`, and an interval (:mod:`das.release.area_counts`). A published count is no truth: its publisher made it from the same
measurements, with constraints and rounding. So it can be nearer to the truth than the estimate, and
its :math:`z = (p - \hat t)/s` need not have mean square 1. A count far outside its interval is a
place whose published count the measurements do not support.

Units of the levels, and areas such as cities, are taken together as areas of blocks: one pass over
the measurements gives all of them. Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.model.areas import Areas
from das.model.codes import Codes, encoded, text
from das.model.counts_by_block import CountsByBlock
from das.model.frozen import Frozen
from das.model.names import blank, geoids
from das.model.published_rows import PublishedCountRow, PublishedShareRow
from das.release.area_counts import AreaColumn, counts
from das.release.area_statistics import Statistic, statistics
from das.release.coverage import COVERAGE
from das.release.replicate_source import ReleaseSource

Ints = NDArray[np.int64]

#: Kinds of areas that are compared unasked, besides the levels above the block.
KINDS = ("Place",)
#: What is counted unasked, as far as both have it, in a reader's words; columns of P1 to P5 and H1.
FIELDS = {
    "P0010001": "Population",
    "P0030001": "18 years and over",
    "P0020002": "Hispanic or Latino",
    **{f"P001{n:04d}": "" for n in range(3, 9)},  # races alone
    "P0050001": "In group quarters",
    "H0010001": "Housing units",
    "H0010002": "Occupied housing units",
    "H0010003": "Vacant housing units",
}


@dataclass(frozen=True, eq=False)
class ComparedPlaces(Frozen):
    """Places of one level or kind: which ``rows`` of all places they are, their ``codes``, GEOIDs
    and names."""

    level: str
    rows: slice
    codes: Codes
    geoids: Codes
    names: NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class PublishedComparison(Frozen):
    """``columns``: what the measurements say about each count of all places; ``published``
    ``(columns, places)``. ``elsewhere``: persons (or units) published in blocks that the
    measurements do not have."""

    coverage: float
    places: tuple[ComparedPlaces, ...]
    columns: tuple[AreaColumn, ...]
    published: Ints
    elsewhere: int

    def outside(self, column: int) -> NDArray[np.bool_]:
        """Where a published count is not in its interval, ``(places,)``."""
        c, p = self.columns[column], self.published[column]
        return c.known & ((p < c.low) | (p > c.high))

    def rows(self) -> list[PublishedCountRow]:
        """A row for each count of each place."""
        return [
            self._row(p, i, j)
            for p in self.places
            for i in range(p.rows.stop - p.rows.start)
            for j in range(len(self.columns))
            if self.columns[j].known[p.rows.start + i]
        ]

    def _row(self, p: ComparedPlaces, i: int, j: int) -> PublishedCountRow:
        c, at = self.columns[j], p.rows.start + i
        return PublishedCountRow(
            p.level,
            p.codes[i].decode(),
            p.geoids[i].decode(),
            str(p.names[i]),
            c.statistic.field,
            label(c.statistic),
            int(self.published[j, at]),
            round(float(c.estimate[at]), 2) + 0.0,
            round(float(c.error[at]), 2),
            int(c.low[at]),
            int(c.high[at]),
            int(self.outside(j)[at]),
        )

    def shares(self) -> list[PublishedShareRow]:
        """A row for each count of each level or kind."""
        return [self._share(p, j) for p in self.places for j in range(len(self.columns))]

    def _share(self, p: ComparedPlaces, j: int) -> PublishedShareRow:
        c = self.columns[j]
        known, error = c.known[p.rows], c.error[p.rows]
        exact = known & (c.low == c.high)[p.rows]
        outside, free = self.outside(j)[p.rows], known & ~exact
        off = self.published[j, p.rows][free] - c.estimate[p.rows][free]
        some = bool(free.any())
        return PublishedShareRow(
            p.level,
            c.statistic.field,
            label(c.statistic),
            int(known.sum()),
            int(exact.sum()),
            round(100 * float(outside.sum() / max(known.sum(), 1)), 2),
            round(float(np.abs(off).mean()), 3) if some else None,
            round(float(error[free].mean()), 3) if some else None,
            round(float(((off / error[free]) ** 2).mean()), 3) if some else None,
        )


def label(statistic: Statistic) -> str:
    """What a count is called: many tables have a column Total."""
    return FIELDS.get(statistic.field) or statistic.label


def compare(
    source: ReleaseSource,
    published: CountsByBlock,
    *,
    levels: Sequence[str] = (),
    fields: Sequence[str] = (),
    coverage: float = COVERAGE,
) -> PublishedComparison:
    """Hold ``published`` against the measurements of a release, for places of ``levels`` (or kinds
    of areas) and columns ``fields`` of tables; without these, the usual ones.

    Raises:
        UserError: no measurements that were drawn whole, no such level or column, or none of the
            release's blocks is published.
    """
    if source.measured is None:
        raise UserError(
            "its answers were measured on demand, and give no estimates of areas",
            where=source.folder,
            remedy="`das intervals` has intervals of its published counts",
        )
    areas, places = _places(source, levels)
    asked = _asked(source, published, fields)
    own, elsewhere = _at_units(source, published, asked)
    found = counts(source, areas, asked, coverage)
    sums = np.stack(
        [np.bincount(areas.area, weights=o[areas.unit], minlength=len(areas)) for o in own]
    ).astype(np.int64)
    return PublishedComparison(coverage, tuple(places), found.columns, sums, elsewhere)


def _at_units(
    source: ReleaseSource, published: CountsByBlock, asked: Sequence[Statistic]
) -> tuple[Ints, int]:
    """The published counts of the lowest units, ``(columns, units)``, and how many of the first
    column are in other blocks."""
    level = source.spine.levels[-1]
    blocks = published.fields["Block"]
    unit = source.spine.find(level, published.fields.get(level, blocks))
    if not (here := unit >= 0).any():
        raise UserError(
            f"none of the {source.spine.units(level):,} units of level {level} is in"
            f" {published.source}",
            where="--published",
            remedy="give the redistricting files of the same states",
        )
    values = published.values[[published.columns.index(s.field) for s in asked]]
    own = np.zeros((len(asked), source.spine.units(level)), dtype=np.int64)
    for into, counted in zip(own, values, strict=True):
        np.add.at(into, unit[here], counted[here])
    return own, int(values[0][~here].sum())


def _asked(
    source: ReleaseSource, published: CountsByBlock, fields: Sequence[str]
) -> list[Statistic]:
    """The columns that are asked for, or the usual ones that both have."""
    tables = {f for _, t in source.tables for f in t.columns}
    both = tables & set(published.columns)
    if lost := [f for f in fields if f not in both]:
        raise UserError(
            f"there is no column {lost[0]!r} in both the release's tables and the published files",
            where="--statistics",
            remedy=f"there are {', '.join(sorted(both)[:12])}, ...",
        )
    wanted = fields or [f for f in FIELDS if f in both]
    found = [s for s in statistics(source, wanted) if isinstance(s, Statistic)]
    if not found:
        raise UserError(
            "the release has no table that is published", where=source.folder, remedy="name columns"
        )
    return found


def _places(source: ReleaseSource, levels: Sequence[str]) -> tuple[Areas, list[ComparedPlaces]]:
    """All places as areas of one kind, whose codes begin with their level."""
    spine = source.spine
    kinds = {level: Areas.of_level(spine, level) for level in spine.levels}
    kinds |= {a.kind: a for a in source.areas()}
    usual = [
        level
        for level in spine.levels
        if level != "Block" and (spine.units(level) > 1 or level == "State")
    ]
    wanted = list(levels) or [*usual, *(k for k in KINDS if k in kinds)]
    if lost := [level for level in wanted if level not in kinds]:
        raise UserError(
            f"there is no level or kind of area {lost[0]!r}",
            where="--level",
            remedy=f"there are {', '.join(kinds)}",
        )
    area, unit, codes, places, start = [], [], [], [], 0
    for level in wanted:
        a = kinds[level]
        area.append(a.area + start)
        unit.append(a.unit)
        codes.append(encoded([f"{level}:{code}" for code in text(a.codes).tolist()]))
        known = geoids(level, a.codes) if level in spine.levels else a.geoids
        called = a.called if a.names is not None else blank(len(a))
        places.append(ComparedPlaces(level, slice(start, start + len(a)), a.codes, known, called))
        start += len(a)
    joined = Areas("places", np.concatenate(codes), np.concatenate(area), np.concatenate(unit))
    return joined, places
