r"""Errors of noisy measurements, published counts and unbiased estimates, by level, query and size
of the true count.

The error of a (unit, answer) pair is :math:`e = \text{published} - \text{true}`. The measures of a
level and query are MAE, RMSE, bias :math:`\bar e` with an interval (:mod:`das.evaluate.comparison`), and
quantiles of :math:`|e|`. Over all pairs there is also :math:`1 - \sum |e| / 2N`, with :math:`N` the
true total of the level (JASON JSR-19-2F, section 6.1). Percent errors are the Bureau's
(docs/evaluation.md): :math:`100 e/t` where the true count :math:`t > 0`, 0 where both are 0, and :math:`\pm 200` where
only the true one is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.evaluate.errors import Errors, expected
from das.evaluate.tally import ErrorTally
from das.model.confidential import Confidential
from das.model.error_rows import DifferenceRow, ErrorRow, TwoErrorsRow
from das.model.frozen import Closed
from das.model.histogram import Histogram, SparseAnswers
from das.model.measurement import MeasurementSource
from das.model.mechanisms import Mechanism
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine

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
class QueryTally(Closed):
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
        here, units = (
            (self.level, self.query),
            dict(zip(self.variance.tolist(), self.units.tolist(), strict=True)),
        )
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
            spine.
    """
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
            tally.add(other, SparseAnswers.of(one), start)
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
            of_a.add(one, SparseAnswers.of(wanted), start)
            of_b.add(other, SparseAnswers.of(wanted), start)
            apart.add(np.abs(other - wanted), SparseAnswers.of(np.abs(one - wanted)), start)
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
