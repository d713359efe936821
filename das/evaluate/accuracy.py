r"""Errors of noisy measurements, published counts and unbiased estimates, by level, query and size of the true count.

For each level and query, over all (unit, answer) pairs with error :math:`e = \text{published} - \text{true}`:
MAE, RMSE, bias :math:`\bar e` with an interval (:mod:`das.evaluate.bias`), quantiles of :math:`|e|`, and over all
pairs :math:`1 - \sum |e| / 2N` with :math:`N` the true total of the level (JASON JSR-19-2F, section 6.1).
Percent errors are the Bureau's (docs/evaluation.md): :math:`100 e/t` where the true count :math:`t > 0`, 0 where
both are 0, and :math:`\pm 200` where only the true one is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.evaluate.bias import clusters
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
#: Estimates have normal intervals at 90 %; with a standard error below the least, an answer counts as known.
WIDTH = NormalDist().inv_cdf(0.95)
LEAST = 0.05


class EstimateSource(Protocol):
    """Where unbiased estimates are read from."""

    def queries(self, level: str) -> tuple[str, ...]:
        """Names of the queries that are estimated at ``level``; none where the level is not."""
        ...

    def read(self, level: str, query: str, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Estimates and standard errors of units ``start:stop``, each ``(units, answers)``."""
        ...


@dataclass(frozen=True)
class Published:
    """What is held against the truth: noisy measurements and how they were drawn, published histograms, and
    unbiased estimates where there are any."""

    noisy: MeasurementSource
    mechanism: Mechanism
    histograms: Mapping[str, Histogram]
    estimates: EstimateSource | None = None


def evaluate(
    truth: Mapping[str, Confidential[Histogram]], published: Published, spine: Spine, schema: Schema
) -> list[ErrorRow]:
    """Rows of ``errors.csv``: for each level, each measured query, and ``total`` where it was not measured.

    Source ``nmf`` counts the units that were measured (finite variance); where none was, the row is absent.
    Only classes of the true count that occur have rows. Streams over batches of units.

    Raises:
        InputError: a level that is missing on one side, or histograms of other sizes than the spine.
    """
    rows: list[ErrorRow] = []
    for level in spine.levels:
        if level not in truth or level not in published.histograms:
            raise InputError(f"level {level!r} has no true or no published histogram", where="evaluation")
        true, out = truth[level].open(REASON), published.histograms[level]
        if not true.units == out.units == spine.units(level) or not true.cells == out.cells == schema.cells:
            raise InputError(f"the histograms of {level!r} do not fit its units and the schema", where="evaluation")
        measured = published.noisy.queries(level)
        for name in measured if "total" in measured else ("total", *measured):
            here = _Level(level, true, out, spine, published)
            rows += here.rows(schema.query(name), name in measured)
    return rows


@dataclass(frozen=True)
class _Level:
    """One level, to be walked once for each query."""

    level: str
    true: Histogram
    out: Histogram
    spine: Spine
    published: Published

    def rows(self, query: Query, is_measured: bool) -> Iterator[ErrorRow]:
        level, home = self.level, clusters(self.spine, self.level)
        n = int(home[-1]) + 1
        persons = int(self.true.count.sum())
        noisy, post = ErrorTally(n), ErrorTally(n)
        variances: dict[float, int] = {}
        for start, stop in self.spine.batches(level, query.answers):
            if is_measured:
                m = self.published.noisy.read(level, query.name, start, stop)
                found = np.isfinite(m.variance)
                for v, k in zip(*np.unique(m.variance[found], return_counts=True), strict=True):
                    variances[float(v)] = variances.get(float(v), 0) + int(k)
            for a, b in chunks(start, stop, query.answers):
                wanted = self.true.rows(a, b).answer(query)
                post.add(self.out.rows(a, b).answer(query), wanted, home[a:b])
                if is_measured:
                    here = found[a - start : b - start]
                    seen = slice(None) if here.all() else here
                    noisy.add(m.values[a - start : b - start][seen], wanted[seen], home[a:b][seen])
        theory = expected(self.published.mechanism, variances) if variances else None
        yield from noisy.rows(level, query.name, "nmf", persons, theory)
        yield from post.rows(level, query.name, "postprocessed", persons, None)
        yield from self._estimated(query, home, persons)

    def _estimated(self, query: Query, home: NDArray[np.int64], persons: int) -> Iterator[ErrorRow]:
        source = self.published.estimates
        if source is None or query.name not in source.queries(self.level):
            return
        tally = ErrorTally(int(home[-1]) + 1, real=True)
        for a, b in chunks(0, self.true.units, query.answers):
            value, error = source.read(self.level, query.name, a, b)
            true = self.true.rows(a, b).answer(query)
            tally.add(value, true, home[a:b])
            tally.cover(np.abs(value - true) <= WIDTH * error, error > LEAST)
        yield from tally.rows(self.level, query.name, "estimates", persons, None)


def chunks(start: int, stop: int, answers: int) -> Iterator[tuple[int, int]]:
    """Slices of units ``start:stop`` with about :data:`CHUNK` answers each."""
    units = max(1, CHUNK // answers)
    for a in range(start, stop, units):
        yield a, min(a + units, stop)


@dataclass(frozen=True, repr=False)
class Headline(Closed):
    """Mean absolute error of the total at one level; ``nmf`` is ``None`` where it was not measured."""

    level: str
    units: int
    nmf: float | None
    postprocessed: float


def headline(rows: Sequence[ErrorRow]) -> tuple[Headline, ...]:
    """What the end of a run prints: the error of the total at each level, in the order of the rows."""
    totals = {(r.level, r.source): r for r in rows if r.query == "total" and r.bin == "all"}
    out = []
    for (level, source), row in totals.items():
        if source == "postprocessed":
            nmf = totals.get((level, "nmf"))
            out.append(Headline(level, row.n, nmf.mae if nmf else None, row.mae))
    return tuple(out)
