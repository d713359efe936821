"""Two sets of published counts over one tree: against each other, or each against the truth, side
by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from das.evaluate.accuracy import REASON, chunks
from das.evaluate.tally import ErrorTally
from das.model.answers import SparseAnswers
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
    |a - true| on average, with its interval over clusters (:mod:`das.evaluate.bias`)."""
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
