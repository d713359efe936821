r"""Errors of noisy measurements, published counts and unbiased estimates, by level, query and size
of the true count.

The error of a (unit, answer) pair is :math:`e = \text{published} - \text{true}`. The measures of a
level and query are MAE, RMSE, bias :math:`\bar e` with an interval (:mod:`das.evaluate.comparison`), and
quantiles of :math:`|e|`. Over all pairs there is also :math:`1 - \sum |e| / 2N`, with :math:`N` the
true total of the level (JASON JSR-19-2F, section 6.1). Percent errors are the Bureau's
(docs/explanation/evaluation.md): :math:`100 e/t` where the true count :math:`t > 0`, 0 where both are 0, and :math:`\pm 200` where
only the true one is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.evaluate.errors import Errors, expected, grouped
from das.evaluate.impossible import merged
from das.evaluate.tally import ErrorTally
from das.model.areas import Areas
from das.model.confidential import Confidential
from das.model.error_rows import DifferenceRow, ErrorRow, ImpossibleRow, TableRow, TwoErrorsRow
from das.model.frozen import NoRepr
from das.model.histogram import Histogram, SparseAnswers
from das.model.measurement import MeasurementSource
from das.model.mechanisms import Mechanism
from das.model.names import Codes
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.tables import Table

#: Values handled at once: small enough to stay near the processor.
CHUNK = 1 << 19
REASON = "errors of the published counts are measured against the truth, for confidential/ only"
#: Estimates have normal intervals at 90 %; with a standard error below the least, an answer counts
#: as known.
WIDTH = NormalDist().inv_cdf(0.95)
LEAST = 0.05


class EstimateSource(Protocol):
    """Where unbiased estimates are read from."""

    def queries(self, level: str) -> tuple[str, ...]:
        """Names of the queries that are estimated at ``level``; none where the level is not."""
        ...

    def read(
        self, level: str, query: str, start: int, stop: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Estimates and standard errors of units ``start:stop``, each ``(units, answers)``."""
        ...


@dataclass(frozen=True)
class Published:
    """What is compared with the truth: noisy measurements, published histograms, and unbiased
    estimates if there are any. ``queries``: the measured queries of each level; for a part of a
    tree, including those that none of its own units has."""

    noisy: MeasurementSource
    histograms: Mapping[str, Histogram]
    queries: Mapping[str, Sequence[str]]
    estimates: EstimateSource | None = None


@dataclass(frozen=True, eq=False, repr=False)
class QueryTally(NoRepr):
    """The errors of one query at one level, by source. ``persons`` is the true total there.
    ``units[i]`` units were measured with noise of variance ``variance[i]``."""

    level: str
    query: str
    persons: int
    noisy: Errors
    published: Errors
    estimates: Errors
    variance: NDArray[np.float64]
    units: NDArray[np.int64]

    @staticmethod
    def merged(parts: Sequence[QueryTally]) -> QueryTally:
        """The tally of several parts of a tree that share no family of siblings."""
        first = parts[0]
        variances: dict[float, int] = {}
        for p in parts:
            for v, n in zip(p.variance.tolist(), p.units.tolist(), strict=True):
                variances[v] = variances.get(v, 0) + n
        noisy, published, estimates = (
            Errors.merged([getattr(p, source) for p in parts])
            for source in ("noisy", "published", "estimates")
        )
        return QueryTally(
            first.level,
            first.query,
            sum(p.persons for p in parts),
            noisy,
            published,
            estimates,
            *_listed(variances),
        )

    def rows(self, mechanism: Mechanism) -> Iterator[ErrorRow]:
        """Rows of ``errors.csv``. Source ``nmf`` counts the units that were measured (finite
        variance); where none was, the row is absent. Only classes of the true count that occur have
        rows."""
        here = (self.level, self.query)
        units = dict(zip(self.variance.tolist(), self.units.tolist(), strict=True))
        theory = expected(mechanism, units) if units else None
        yield from self.noisy.rows(*here, "nmf", self.persons, theory)
        yield from self.published.rows(*here, "postprocessed", self.persons, None)
        yield from self.estimates.rows(*here, "estimates", self.persons, None)


def tally_queries(
    truth: Mapping[str, Confidential[Histogram]],
    published: Published,
    spine: Spine,
    schema: Schema,
    levels: Sequence[str],
) -> Iterator[QueryTally]:
    """For each of the ``levels``, each measured query, and ``total`` where it was not measured.
    Streams over batches of units.

    Raises:
        InputError: a level that is missing on one side, or histograms of other sizes than the
            spine."""
    for level in levels:
        if level not in truth or level not in published.histograms:
            raise InputError(
                f"level {level!r} has no true or no published histogram", where="evaluation"
            )
        true, out = truth[level].open(REASON), published.histograms[level]
        if (
            not true.units == out.units == spine.units(level)
            or not true.cells == out.cells == schema.cells
        ):
            raise InputError(
                f"the histograms of {level!r} do not fit its units and the schema",
                where="evaluation",
            )
        here = _Level(level, true, out, spine, published)
        for name in dict.fromkeys(
            ["total"] * ("total" not in published.queries[level]) + [*published.queries[level]]
        ):
            yield here.tally(schema.query(name))


@dataclass(frozen=True)
class _Level:
    """One level, to be walked once for each query."""

    level: str
    true: Histogram
    out: Histogram
    spine: Spine
    published: Published

    def tally(self, query: Query) -> QueryTally:
        level, parent = self.level, self.spine.parent[self.spine.index(self.level)]
        noisy, post = ErrorTally(parent), ErrorTally(parent)
        variances: dict[float, int] = {}
        measured = query.name in self.published.noisy.queries(level)
        for start, stop in self.spine.batches(level, query.answers):
            if measured:
                m = self.published.noisy.read(level, query.name, start, stop)
                found = np.isfinite(m.variance)
                for v, k in zip(*np.unique(m.variance[found], return_counts=True), strict=True):
                    variances[float(v)] = variances.get(float(v), 0) + int(k)
            for a, b in chunks(start, stop, query.answers):
                wanted = self.true.rows(a, b).sparse(query)
                post.add(self.out.rows(a, b).sparse(query), wanted, a)
                if measured:
                    here = found[a - start : b - start]
                    values = m.values[a - start : b - start]
                    noisy.add(values if here.all() else values[here], wanted, a, here)
        estimated = self._estimated(query, parent)
        return QueryTally(
            level,
            query.name,
            int(self.true.count.sum()),
            noisy.errors(),
            post.errors(),
            estimated,
            *_listed(variances),
        )

    def _estimated(self, query: Query, parent: NDArray[np.int64]) -> Errors:
        source, tally = self.published.estimates, ErrorTally(parent, real=True)
        if source is not None and query.name in source.queries(self.level):
            for a, b in chunks(0, self.true.units, query.answers):
                value, error = source.read(self.level, query.name, a, b)
                true = self.true.rows(a, b).sparse(query)
                tally.add(value, true, a)
                tally.cover(np.abs(value - true.dense()) <= WIDTH * error, error > LEAST)
        return tally.errors()


def _listed(variances: Mapping[float, int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return np.array(list(variances), dtype=np.float64), np.array(
        list(variances.values()), dtype=np.int64
    )


def chunks(start: int, stop: int, answers: int) -> Iterator[tuple[int, int]]:
    """Slices of units ``start:stop`` with about :data:`CHUNK` answers each."""
    units = max(1, CHUNK // answers)
    for a in range(start, stop, units):
        yield a, min(a + units, stop)


# Two sets of published counts over one tree: against each other, or each against the truth, side
# by side.

Histograms = Mapping[str, Histogram]


def differences(
    a: Histograms, b: Histograms, spine: Spine, schema: Schema, queries: Mapping[str, Sequence[str]]
) -> Iterator[DifferenceRow]:
    """For each level and query, how the counts ``b`` differ from ``a``. Needs no truth."""
    for level, query in _each(spine, schema, queries):
        tally, differ = _tally(spine, level), 0
        for start, one, other in _answers(spine, level, query, a[level], b[level]):
            tally.add(other, SparseAnswers.from_dense(one), start)
            differ += int(np.count_nonzero(one != other))
        row = _all(tally, level, query)
        yield DifferenceRow(level, query.name, row.n, differ, row.mae, row.rmse, row.max, row.bias)


def errors_of_two(
    truth: Mapping[str, Confidential[Histogram]],
    a: Histograms,
    b: Histograms,
    spine: Spine,
    schema: Schema,
    queries: Mapping[str, Sequence[str]],
) -> Iterator[TwoErrorsRow]:
    """For each level and query, the errors of ``a`` and of ``b``; and their difference |b - true| -
    |a - true| on average, with its interval over clusters (:mod:`das.evaluate.comparison`)."""
    for level, query in _each(spine, schema, queries):
        of_a, of_b, apart = (_tally(spine, level) for _ in range(3))
        true = truth[level].open(REASON)
        for start, wanted, one, other in _answers(spine, level, query, true, a[level], b[level]):
            of_a.add(one, SparseAnswers.from_dense(wanted), start)
            of_b.add(other, SparseAnswers.from_dense(wanted), start)
            apart.add(np.abs(other - wanted), SparseAnswers.from_dense(np.abs(one - wanted)), start)
        x, y, d = (_all(t, level, query) for t in (of_a, of_b, apart))
        yield TwoErrorsRow(
            level,
            query.name,
            x.n,
            x.mae,
            y.mae,
            d.bias,
            d.bias_low,
            d.bias_high,
            x.rmse,
            y.rmse,
            x.bias,
            y.bias,
        )


def _each(
    spine: Spine, schema: Schema, queries: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, Query]]:
    for level in spine.levels:
        for name in dict.fromkeys(["total", *queries[level]]):
            yield level, schema.query(name)


def _answers(
    spine: Spine, level: str, query: Query, *counts: Histogram
) -> Iterator[tuple[Any, ...]]:
    """The first of some units, and their answers of each histogram, chunk by chunk."""
    for start, stop in chunks(0, spine.units(level), query.answers):
        yield start, *(h.rows(start, stop).answer(query) for h in counts)


def _tally(spine: Spine, level: str) -> ErrorTally:
    return ErrorTally(spine.parent[spine.index(level)])


def _all(tally: ErrorTally, level: str, query: Query) -> ErrorRow:
    return next(tally.errors().rows(level, query.name, "", 0, None))


# Errors of the published tables, column by column, in the measures of the Bureau's Detailed
# Summary Metrics.
#
# Take one column and all geographies of a kind, with true :math:`t_i`, published :math:`p_i` and
# :math:`e_i = p_i - t_i`. The measures are
#
# * N, MAE :math:`\overline{|e|}`, RMSE :math:`(\overline{e^2})^{1/2}`, CV
# :math:`100\,\mathrm{RMSE}/\bar t`, mean error :math:`\bar e`;
# * MAPE and MALPE, the means of :math:`|r_i|` and :math:`r_i`. The percent difference :math:`r_i` is
# :math:`100\, e_i/t_i`; it is 0 where both are 0, and :math:`100\, e_i/\tfrac12(t_i + p_i) = 200`
# where only :math:`t_i` is;
# * the numbers of geographies with :math:`2 \le |r_i| \le 5`, :math:`|r_i| > 5`, :math:`|e_i| > 200`.
#
# Source: the Bureau's release of the program that made its tables (recon_replication,
# ``metrics/metrics.py``).

Ints = NDArray[np.int64]

TABLES_REASON = "the published tables are compared with those of the truth, for confidential/ only"
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
class TableSums(NoRepr):
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
    def for_table(
        table: Table, geography: str, true: Histogram, out: Histogram, whole: Whole
    ) -> TableSums:
        first = np.array(_low(geography))
        everything, everybody = (
            table.values(h)[0] for h in (whole.truth.open(TABLES_REASON), whole.published)
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
class Whole(NoRepr):
    """All that was counted, as one unit each; shares are taken of it."""

    truth: Confidential[Histogram]
    published: Histogram


@dataclass(frozen=True, eq=False, repr=False)
class AreaHistograms(NoRepr):
    """What the units of a tree, or of a part of it, hold of the areas of one kind that contain
    them, by code."""

    kind: str
    codes: Codes
    truth: Histogram
    published: Histogram

    @staticmethod
    def from_blocks(
        areas: Areas, truth: Confidential[Histogram], published: Histogram
    ) -> AreaHistograms:
        """Histograms of areas; ``truth`` and ``published`` are those of the lowest units."""
        return AreaHistograms(
            areas.kind,
            areas.codes,
            areas.histogram(truth.open(TABLES_REASON)),
            areas.histogram(published),
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
class TableTallies(NoRepr):
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
                yield from TableSums.for_table(table, kind, a.truth, a.published, whole).rows(table)


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
        TableSums.for_table(table, level, truth[level].open(TABLES_REASON), published[level], whole)
        for level in levels
        for table in tabulated
    ]
    counts = [
        AreaHistograms.from_blocks(a, truth[levels[-1]], published[levels[-1]]) for a in areas
    ]
    return TableTallies(tuple(sums), tuple(counts))


def _added(parts: Sequence[tuple[Ints, Histogram]], units: int) -> Histogram:
    unit, cell, count = (
        np.concatenate(x)
        for x in zip(*((at[h.unit], h.cell, h.count) for at, h in parts), strict=True)
    )
    return Histogram.from_triplets(units, parts[0][1].cells, unit, cell, count)


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


# All counts of the errors of a run, or of a part of it: small values that add up.
#
# A run is counted in parts, each with some levels of some units: the upper levels of the whole
# tree, and the lower ones of a subtree (:mod:`das.model.measured_spine`). Families of siblings are in
# one part. Whole numbers are added up exactly, in any order. Sums of percent errors and of shares
# are added in the order of the parts, which is that of the subtrees. So the result does not depend
# on which process counted which part. It differs from the sums of a whole run only by
# floating-point rounding.

#: The number of parts that are added at once.
TOGETHER = 16


@dataclass(frozen=True, repr=False)
class UniverseTallies(NoRepr):
    """Tallies of one universe: queries, over the measured units; tables, over the published
    ones."""

    universe: str
    queries: tuple[QueryTally, ...]
    tables: TableTallies

    @staticmethod
    def merged(parts: list[UniverseTallies]) -> UniverseTallies:
        """The tallies of all parts."""
        queries = grouped((q for p in parts for q in p.queries), lambda q: (q.level, q.query))
        return UniverseTallies(
            parts[0].universe,
            tuple(map(QueryTally.merged, queries)),
            TableTallies.merged([p.tables for p in parts]),
        )


@dataclass(frozen=True, repr=False)
class Tallies(NoRepr):
    """By universe; and how many of the lowest units are as they cannot be."""

    universes: tuple[UniverseTallies, ...]
    impossible: tuple[ImpossibleRow, ...]

    @staticmethod
    def merged(parts: Iterable[Tallies]) -> Tallies:
        """The sum over all parts; memory holds a few parts at a time. The part of the upper levels
        must come first, then those of the subtrees in their order."""
        rest, total = iter(parts), list[Tallies]()
        while some := list(islice(rest, TOGETHER)):
            total = [Tallies._added([*total, *some])]
        return total[0]

    @staticmethod
    def _added(parts: list[Tallies]) -> Tallies:
        universes = grouped((u for p in parts for u in p.universes), lambda u: u.universe)
        odd = merged(row for p in parts for row in p.impossible)
        return Tallies(tuple(map(UniverseTallies.merged, universes)), tuple(odd))
