"""Two sets of published counts over one tree: against each other, or each against the truth, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from das.evaluate.accuracy import REASON, chunks
from das.evaluate.bias import clusters
from das.evaluate.tally import ErrorTally
from das.model.confidential import Confidential
from das.model.error_rows import DifferenceRow, ErrorRow, TwoErrorsRow
from das.model.histogram import Histogram
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine

Histograms = Mapping[str, Histogram]


def differences(
    a: Histograms, b: Histograms, spine: Spine, schema: Schema, queries: Mapping[str, Sequence[str]]
) -> Iterator[DifferenceRow]:
    """For each level and query, how the counts ``b`` differ from ``a``. Needs no truth."""
    for level, query in _each(spine, schema, queries):
        tally, differ = _tally(spine, level), 0
        for one, other, home in _answers(spine, level, query, a[level], b[level]):
            tally.add(other, one, home)
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
    """For each level and query, the errors of ``a`` and of ``b``; and their difference |b - true| - |a - true| on
    average, with its interval over clusters (:mod:`das.evaluate.bias`)."""
    for level, query in _each(spine, schema, queries):
        of_a, of_b, apart = (_tally(spine, level) for _ in range(3))
        true = truth[level].open(REASON)
        for wanted, one, other, home in _answers(spine, level, query, true, a[level], b[level]):
            of_a.add(one, wanted, home)
            of_b.add(other, wanted, home)
            apart.add(np.abs(other - wanted), np.abs(one - wanted), home)
        x, y, d = (_all(t, level, query) for t in (of_a, of_b, apart))
        yield TwoErrorsRow(
            level, query.name, x.n, x.mae, y.mae, d.bias, d.bias_low, d.bias_high, x.rmse, y.rmse, x.bias, y.bias
        )


def _each(spine: Spine, schema: Schema, queries: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Query]]:
    for level in spine.levels:
        for name in dict.fromkeys(["total", *queries[level]]):
            yield level, schema.query(name)


def _answers(spine: Spine, level: str, query: Query, *counts: Histogram) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Answers of each histogram, and the clusters of the units, chunk by chunk."""
    home = clusters(spine, level)
    for start, stop in chunks(0, spine.units(level), query.answers):
        yield *(h.rows(start, stop).answer(query) for h in counts), home[start:stop]


def _tally(spine: Spine, level: str) -> ErrorTally:
    return ErrorTally(int(clusters(spine, level)[-1]) + 1)


def _all(tally: ErrorTally, level: str, query: Query) -> ErrorRow:
    return next(tally.rows(level, query.name, "", 0, None))
