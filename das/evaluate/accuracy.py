r"""Errors of noisy measurements, published counts and unbiased estimates, by level, query and size
of the true count.

The error of a (unit, answer) pair is :math:`e = \text{published} - \text{true}`. The measures of a
level and query are MAE, RMSE, bias :math:`\bar e` with an interval (:mod:`das.evaluate.bias`), and
quantiles of :math:`|e|`. Over all pairs there is also :math:`1 - \sum |e| / 2N`, with :math:`N` the
true total of the level (JASON JSR-19-2F, section 6.1). Percent errors are the Bureau's
(docs/evaluation.md): :math:`100 e/t` where the true count :math:`t > 0`, 0 where both are 0, and :math:`\pm 200` where
only the true one is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.evaluate.errors import Errors
from das.evaluate.tally import ErrorTally
from das.evaluate.theory import expected
from das.model.closed import Closed
from das.model.confidential import Confidential
from das.model.error_rows import ErrorRow
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.mechanism import Mechanism
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
