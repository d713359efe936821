r"""Redistricting queries as margins of the DHC's queries of persons.

Let Q be a query of the DHC, and P one of the redistricting persons. P is a *margin* of Q if every
answer of Q falls into one answer of P. That is told by groupings, attribute by attribute: the cells
of :data:`das.model.dhc.strategy.PERSONS_FIXED` are those of the redistricting schema, and sex is
summed out. An answer of the margin is a sum of :math:`n_a` noisy answers, so its variance is
:math:`n_a \sigma_Q^2`. Answers of one query differ in :math:`n_a`. A measurement has one variance
for each unit, so the margin has that of the largest: :math:`n = \max_a n_a`. That is the variance
of the worst answer, and too much for the others. A pooled value that weighs by it stays unbiased,
and its error is at most the variance that is stated.

Margins of one query are not independent of each other. So each query of the DHC counts for one
redistricting query alone (:func:`finest`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.model.dhc.persons import DHCP
from das.model.dhc.strategy import PERSONS_FIXED
from das.model.frozen import Frozen
from das.model.grouping import Grouping
from das.model.query import Query
from das.model.redistricting import PL94

Ints = NDArray[np.int64]
#: A margin with a smaller gain takes less than a hundredth off a variance, and is left out.
LEAST = 0.01
#: The redistricting cell of each of the DHC's cells.
_FIXED = DHCP.query(PERSONS_FIXED)


@dataclass(frozen=True, eq=False)
class MarginOfQuery(Frozen):
    """``query`` of the redistricting persons as sums of answers of the DHC's query ``of``:
    ``answer`` is the one that each falls into, ``(answers of the DHC's query,)``."""

    query: Query
    of: Query
    answer: Ints

    @staticmethod
    def between(query: Query, of: Query) -> MarginOfQuery | None:
        """Nothing where some answer of ``of`` falls into two.

        >>> found = MarginOfQuery.between(PL94.query("hispanic"), DHCP.query("hispanic * sex"))
        >>> found.answer, found.terms
        (array([0, 1, 0, 1]), 2)
        >>> MarginOfQuery.between(PL94.query("cenrace"), DHCP.query("hispanic * sex")) is None
        True
        """
        coarse, answer = iter(query.groupings), np.zeros(1, dtype=np.int64)
        for cell, fine in zip(_FIXED.groupings, of.groupings, strict=True):
            level, groups = np.zeros(len(fine.index), dtype=np.int64), 1
            if not cell.is_total:
                grouping = next(coarse)
                level, groups = np.array(grouping.index)[list(cell.index)], len(grouping.groups)
            if (group := _by_group(level, fine)) is None:
                return None
            answer = (answer[:, None] * groups + group).ravel()
        return MarginOfQuery(query, of, answer)

    @cached_property
    def terms(self) -> int:
        """The most answers that are summed into one."""
        return int(np.bincount(self.answer).max())

    def sums(self, values: Ints) -> Ints:
        """The answers of the margin, ``(answers,)``, from those of ``of``. Sums of whole numbers up
        to 2^53 are exact."""
        found = np.bincount(self.answer, weights=values, minlength=self.query.answers)
        return np.rint(found).astype(np.int64)


def finest(measured: Mapping[str, float], of: Query, variance: float) -> MarginOfQuery | None:
    """The redistricting query that a query of the DHC counts for, of those that are ``measured``
    with the variances given: one such that no finer one is a margin, too. If there are several, that
    with the largest gain, the variance measured over the margin's. Nothing where that is small.

    >>> found = finest({"total": 1.0, "hispanic": 9.0}, DHCP.query("hispanic * sex"), 32.0)
    >>> found.query.name
    'hispanic'
    """
    found = [m for q in measured if (m := MarginOfQuery.between(PL94.query(q), of)) is not None]
    finer = [
        m
        for m in found
        if not any(o.query.answers > m.query.answers and m.query.sums(o.query) for o in found)
    ]
    gains = [measured[m.query.name] / (m.terms * variance) for m in finer]
    best = max(gains, default=0.0)
    return finer[gains.index(best)] if best >= LEAST else None


def _by_group(level: Ints, fine: Grouping) -> Ints | None:
    """What each group of ``fine`` is, if all of its levels are the same; ``level`` says it of each
    level of the attribute."""
    index = np.array(fine.index)
    out = np.zeros(len(fine.groups), dtype=np.int64)
    out[index] = level
    return out if (out[index] == level).all() else None
