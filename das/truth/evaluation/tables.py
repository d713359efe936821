r"""Errors of the published tables, column by column, in the measures of the Bureau's Detailed
Summary Metrics.

Take one column and all geographies of a kind, with true :math:`t_i`, published :math:`p_i` and
:math:`e_i = p_i - t_i`. The measures are

* N, MAE :math:`\overline{|e|}`, RMSE :math:`(\overline{e^2})^{1/2}`, CV
  :math:`100\,\mathrm{RMSE}/\bar t`, mean error :math:`\bar e`;
* MAPE and MALPE, the means of :math:`|r_i|` and :math:`r_i`. The percent difference :math:`r_i` is
  :math:`100\, e_i/t_i`; it is 0 where both are 0, and :math:`100\, e_i/\tfrac12(t_i + p_i) = 200`
  where only :math:`t_i` is;
* the numbers of geographies with :math:`2 \le |r_i| \le 5`, :math:`|r_i| > 5`, :math:`|e_i| > 200`.

Source: the Bureau's release of the program that made its tables (recon_replication,
``metrics/metrics.py``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.evaluate.errors import grouped
from das.model.areas import Areas
from das.model.confidential import Confidential
from das.model.error_rows import TableRow
from das.model.frozen import Closed
from das.model.histogram import Histogram
from das.model.names import Codes
from das.tables import Table

Ints = NDArray[np.int64]

REASON = "the published tables are compared with those of the truth, for confidential/ only"
#: Size classes of a characteristic: by its own true count.
SIZES = ("0-9", "10-99", "100+")
_SIZE_FIRST = np.array([0, 10, 100])
#: Size classes of the total: the Bureau's for counties and minor civil divisions, and one cut more
#: for places.
_POPULATION = (0, 1000, 5000, 10000, 50000, 100000)
_PLACE = (0, 500, 1000, 5000, 10000, 50000, 100000)
#: Values of a table held at once.
BATCH = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class TableSums(Closed):
    """Sums over ``n`` geographies of a kind for a table.

    ``sums`` is by column and size class of the count, ``by_population`` for the first column by
    size class of the total. Both are ``(measures, columns, classes)`` in the order of
    :func:`_summed`. ``shares`` is that of each column, not a number where nobody is in it. Whole
    numbers are exact up to 2^53."""

    geography: str
    table: str
    n: int
    sums: NDArray[np.float64]
    by_population: NDArray[np.float64]
    shares: NDArray[np.float64]

    @staticmethod
    def merged(parts: Sequence[TableSums]) -> TableSums:
        """Over the geographies of all parts, added up in their order."""
        first, *others = parts
        sums, by_population, shares = (
            sum((getattr(p, name) for p in others), getattr(first, name))
            for name in ("sums", "by_population", "shares")
        )
        return TableSums(
            first.geography, first.table, sum(p.n for p in parts), sums, by_population, shares
        )

    @staticmethod
    def of(
        table: Table, geography: str, true: Histogram, out: Histogram, whole: Whole
    ) -> TableSums:
        first = np.array(_low(geography))
        everything, everybody = (
            table.values(h)[0] for h in (whole.truth.open(REASON), whole.published)
        )
        sums = np.zeros((MEASURES, len(table.columns), len(SIZES)))
        by_population, shares = np.zeros((MEASURES, 1, len(first))), np.zeros(len(table.columns))
        for t, p in _batches(table, true, out):
            sums += _summed_of_all(t, p)
            total = np.zeros(len(t), dtype=np.int64)
            by_population += _summed(total, t[:, 0], (p - t)[:, 0], first, 1)
            with np.errstate(
                divide="ignore", invalid="ignore"
            ):  # a column that nobody is in has no shares
                shares += np.abs(p / everybody - t / everything).sum(axis=0)
        return TableSums(geography, table.name, true.units, sums, by_population, shares)

    def rows(self, table: Table) -> Iterator[TableRow]:
        sums = self.sums.copy()
        sums[0, :, 0] = self.n - sums[0, :, 1:].sum(axis=1)  # of class 0-9, not all were seen
        each, every = (
            sums.transpose(1, 2, 0).tolist(),
            sums.sum(axis=2).T.tolist(),
        )  # Python's numbers: rows are many
        for j in range(len(table.columns)):
            shares = float(self.shares[j]) if np.isfinite(self.shares[j]) else None
            yield self._row(table, j, "all", every[j], shares)
            yield from (
                self._row(table, j, size, each[j][i])
                for i, size in enumerate(SIZES)
                if each[j][i][0]
            )
            if j == 0:  # the total
                low = _low(self.geography)
                names = [*(f"{a}-{b - 1}" for a, b in pairwise(low)), f"{low[-1]}+"]
                found = self.by_population[:, 0].T.tolist()
                yield from (
                    self._row(table, 0, f"total {s}", found[i])
                    for i, s in enumerate(names)
                    if found[i][0]
                )

    def _row(
        self, table: Table, j: int, size: str, sums: Sequence[float], shares: float | None = None
    ) -> TableRow:
        n = sums[0]
        absolute, square, percent, algebraic, true, error = (x / n for x in sums[1:7])
        two_to_five, over_five, over_200 = map(int, sums[7:])
        return TableRow(
            self.geography,
            table.name,
            table.columns[j],
            table.full_label(j),
            size,
            int(n),
            absolute,
            square**0.5,
            percent,
            100 * square**0.5 / true if true else None,
            algebraic,
            error,
            two_to_five,
            over_five,
            over_200,
            shares,
        )


@dataclass(frozen=True, repr=False)
class Whole(Closed):
    """All that was counted, as one unit each; shares are taken of it."""

    truth: Confidential[Histogram]
    published: Histogram


@dataclass(frozen=True, eq=False, repr=False)
class AreaHistograms(Closed):
    """What the units of a tree, or of a part of it, hold of the areas of one kind that contain
    them, by code.
    """

    kind: str
    codes: Codes
    truth: Histogram
    published: Histogram

    @staticmethod
    def of(areas: Areas, truth: Confidential[Histogram], published: Histogram) -> AreaHistograms:
        """Histograms of areas; ``truth`` and ``published`` are those of the lowest units."""
        return AreaHistograms(
            areas.kind, areas.codes, areas.histogram(truth.open(REASON)), areas.histogram(published)
        )

    @staticmethod
    def merged(parts: Sequence[AreaHistograms]) -> AreaHistograms:
        """Added up by code; in the order of the codes."""
        codes = np.unique(np.concatenate([p.codes for p in parts]))
        place = [np.searchsorted(codes, p.codes) for p in parts]
        counts = (
            _added([(at, getattr(p, name)) for at, p in zip(place, parts, strict=True)], len(codes))
            for name in ("truth", "published")
        )
        return AreaHistograms(parts[0].kind, codes, *counts)


@dataclass(frozen=True, repr=False)
class TableTallies(Closed):
    """The tables of a universe: by table and level, and the counts of areas."""

    levels: tuple[TableSums, ...]
    areas: tuple[AreaHistograms, ...]

    @staticmethod
    def merged(parts: Sequence[TableTallies]) -> TableTallies:
        """The tallies of all parts."""
        levels = grouped((x for p in parts for x in p.levels), lambda x: (x.geography, x.table))
        areas = grouped((x for p in parts for x in p.areas), lambda x: x.kind)
        return TableTallies(
            tuple(map(TableSums.merged, levels)), tuple(map(AreaHistograms.merged, areas))
        )

    def rows(
        self, tabulated: Sequence[Table], kinds: Sequence[str], whole: Whole
    ) -> Iterator[TableRow]:
        """Rows of ``tables.csv``: every column of the tables ``tabulated``, for each level of the
        spine and each of the ``kinds`` of areas."""
        areas = {a.kind: a for a in self.areas}
        for table in tabulated:
            for sums in self.levels:
                if sums.table == table.name:
                    yield from sums.rows(table)
            for kind in kinds:
                a = areas[kind]
                yield from TableSums.of(table, kind, a.truth, a.published, whole).rows(table)


def tally_tables(
    truth: Mapping[str, Confidential[Histogram]],
    published: Mapping[str, Histogram],
    levels: Sequence[str],
    tabulated: Sequence[Table],
    whole: Whole,
    areas: Sequence[Areas] = (),
) -> TableTallies:
    """Tallies of each of the ``levels``, and of areas of units of the last level."""
    sums = [
        TableSums.of(table, level, truth[level].open(REASON), published[level], whole)
        for level in levels
        for table in tabulated
    ]
    counts = [AreaHistograms.of(a, truth[levels[-1]], published[levels[-1]]) for a in areas]
    return TableTallies(tuple(sums), tuple(counts))


def _added(parts: Sequence[tuple[Ints, Histogram]], units: int) -> Histogram:
    unit, cell, count = (
        np.concatenate(x)
        for x in zip(*((at[h.unit], h.cell, h.count) for at, h in parts), strict=True)
    )
    return Histogram.of(units, parts[0][1].cells, unit, cell, count)


def _low(geography: str) -> tuple[int, ...]:
    return _PLACE if geography == "Place" else _POPULATION


def _batches(table: Table, true: Histogram, out: Histogram) -> Iterator[tuple[Ints, Ints]]:
    step = max(1, BATCH // len(table.columns))
    for a in range(0, true.units, step):
        b = min(a + step, true.units)
        yield table.values(true.rows(a, b)), table.values(out.rows(a, b))


#: How many sums :func:`_summed` makes.
MEASURES = 10


def _summed_of_all(true: Ints, out: Ints) -> NDArray[np.float64]:
    """Sums for arrays ``(geographies, columns)``; where both are 0, nothing is counted."""
    at = np.flatnonzero((true != 0) | (out != 0))
    columns = true.shape[1]
    return _summed(at % columns, true.ravel()[at], (out - true).ravel()[at], _SIZE_FIRST, columns)


def _summed(column: Ints, t: Ints, e: Ints, first: Ints, columns: int) -> NDArray[np.float64]:
    """By column and class of ``t``: N; sums of |e|, e^2, |r|, r, t, e; how many r are from 2 to 5
    percent, how many beyond 5, how many e beyond 200."""
    key = column * len(first) + np.searchsorted(first, t, side="right") - 1
    r = np.where(t > 0, 100 * e / np.maximum(t, 1), 200.0 * (e > 0))
    size = np.abs(r)
    weights = (
        None,
        np.abs(e),
        e.astype(np.float64) ** 2,
        size,
        r,
        t,
        e,
        (size >= 2) & (size <= 5),
        size > 5,
        np.abs(e) > 200,
    )
    sums = [np.bincount(key, weights=w, minlength=columns * len(first)) for w in weights]
    return np.array(sums, dtype=np.float64).reshape(MEASURES, columns, len(first))
