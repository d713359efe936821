"""The noise that each column of a published table carries as it was measured, from the plan alone.

One number for all units of a level, so that an area is a sum over its parts, however many: for ``das tables --noise`` and
areas. The best linear estimate of a unit has no more (:mod:`das.estimate.margins`; a test holds one to the other): where a
unit's own count and interval are asked for, that is right, and it reads the measurements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from das.model.query import Query
from das.model.universe import Universe
from das.tables import Table


def variances(
    universe: Universe, table: Table, levels: Sequence[str], exact: Mapping[str, Sequence[str]]
) -> NDArray[np.float64]:
    r"""By level and column, ``(levels, columns)``: the variance of one unit's count, from the unit's own measurements.

    A query tells a column if the column is the sum of some of its answers, :math:`n_q` of them, with variance
    :math:`n_q \sigma_q^2`. Noise of different queries is independent, so the mean of these sums, weighted by precision, has

    .. math:: 1 / \sum_q (n_q \sigma_q^2)^{-1} .

    Where the total is exact, the total less the other answers tells the column a second time. 0 where the column follows from
    ``exact`` queries (by level); infinite where no query tells it.
    """
    names = {n.query for n in universe.noise} | {q for level in levels for q in exact[level]}
    told = {name: _answers(table, universe.schema.query(name)) for name in names}
    precision = np.zeros((len(levels), len(table.columns)))
    with np.errstate(divide="ignore"):
        for depth, level in enumerate(levels):
            for noise in (n for n in universe.noise if n.level == level):
                inside, outside = told[noise.query]
                precision[depth] += 1 / (inside * noise.variance)
                if "total" in exact[level]:
                    precision[depth] += 1 / (outside * noise.variance)
            for name in exact[level]:
                precision[depth, np.isfinite(told[name][0])] = np.inf
        return 1 / precision


def _answers(table: Table, query: Query) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By column, how many answers lie inside it, and how many outside; infinite where one lies across."""
    size = np.bincount(query.index, minlength=query.answers)
    number = np.empty(len(table.columns))
    for j, column in enumerate(table.columns):
        inside = np.bincount(query.index[table.members(column)], minlength=query.answers)
        whole = inside == size
        number[j] = whole.sum() if (whole | (inside == 0)).all() else np.inf
    return number, np.where(np.isfinite(number), query.answers - number, np.inf)
