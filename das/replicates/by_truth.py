r"""Intervals of counts that hold by *true* value, of every size, as narrow as can be.

The Bureau's rule holds by published value. Most true counts of 1 to 4 in blocks are published as 0,
like nearly all true zeros. By that rule a 0 without a positive replicate is 0 to 0. Its
surroundings show which zeros can be small counts: the parent's count in the same column, how many
persons the unit has, how common the column is. Call that the context, c.

**Tests of small counts.** Let :math:`P_t(v, c)` be the distribution of published value and context
over the cells whose true count is t, and m that over all cells. A confidence set that holds by true
value is :math:`S(v, c) = \{t: (v, c) \in A_t\}` with regions of acceptance :math:`P_t(A_t) \ge
\gamma` for each t, where :math:`\gamma` is the coverage. Its mean size over all cells is

.. math:: \mathrm{E}_m |S| = \sum_{v, c} m(v, c) \sum_t [(v, c) \in A_t] = \sum_t m(A_t),

So the narrowest has, for each t by itself, the region of least m among those with
:math:`P_t(A_t) \ge \gamma`. By the lemma of Neyman and Pearson that is the region of the largest
:math:`P_t(v, c) / m(v, c)` (Pratt, 1961). Where a share :math:`\pi_t` of the cells has the true
count t, :math:`\pi_t P_t / m` is the share of t among the cells that show (v, c): each t accepts
the strongest evidence for it. ∎

**An interval about the published count.** Let e be its error, the published value v less the true
t. Let :math:`\hat\beta` be the mean error of the replicates, over the cells of its column with a
published count of its size. Suppose that the bias of the release is in the same direction, and up
to three times as large: :math:`e = \theta\hat\beta + x` with :math:`0 \le \theta \le 3`. Then

.. math:: v - \max(3\hat\beta, 0) - k \le t \le v + \max(-3\hat\beta, 0) + k

wherever :math:`|x| \le k`, because :math:`t = v - \theta\hat\beta - x`. k is :math:`t_s
\sqrt{\mathrm{mse}}` of the count's own s replicates, which holds with the coverage for normal x of
that mean square (:mod:`das.replicates.rules`). t is whole, so both ends are rounded to the nearest
whole number: if x is a rounded normal error, :math:`|x| \le k + 1/2` loses nothing. ∎

Replicates show only a part of the bias. The release that they are made from has come nearer to what
the algorithm pulls it to. Large blocks lose persons, and their replicates about a third as many. The 3 was chosen by trial, as the Bureau chose its five degrees of freedom.

*What is estimated, and what holds.* What was published stands for the truth, t, and each replicate
shows the (v, c) of each of its cells. All units of a level and columns of a table together make up
:math:`P_t` and m. So all this is about a truth that is like the publication, over the cells of one
table and level together. It does not cover each column, or a truth that is less smooth than its
publication. Real truth is less smooth. Coverage is measured (``docs/intervals.md``, ``python -m
benchmarks.intervals``).

*The interval* includes both: that about the published count, and every t up to :data:`LARGEST` that
accepts what is shown. The tests alone are narrower. But some values are accepted by zero alone, so
that most counts published as 1 to 4 would be outside their intervals. Every interval has its
published count in it, so a true count t is held at least as often as it is published exactly. True
zeros nearly always are: no such rule can hold them only as often as asked for.

Structural zeros and invariants have no width, and say nothing about other cells.

Source: Pratt (1961), *Length of confidence intervals*, J. Amer. Statist. Assoc. 56, 549-567.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.replicates.rules import ReplicateErrors, ReplicateInterval, student

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: True counts up to this one are tested here.
LARGEST = 24
#: How many times the bias that replicates show that of the release may be: it was chosen by trial.
UNSEEN = 3
#: Published counts from this one on are one class.
MANY = 61
#: Where the classes of context begin: what the parent has of the column, and the persons (or
#: records) of the unit.
OF_PARENT = np.array([1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 200, 500])
OF_UNIT = np.array([1, 3, 6, 11, 25, 60, 150])
#: Where those of size begin, within which biases are averaged.
OF_VALUE = 4 ** np.arange(31)
#: And those of the mean of a column over the units of the level, from 1/256 on.
OF_COLUMN = 4.0 ** np.arange(-4, 2)
_CONTEXTS = (len(OF_PARENT) + 1) * (len(OF_UNIT) + 1) * (len(OF_COLUMN) + 1)


@dataclass(frozen=True, eq=False)
class ShownCounts(Frozen):
    """What one publication shows of some units: ``value`` and, of each unit's parent, ``above``,
    both ``(units, columns)``; ``population`` ``(units,)``, how many records the unit has."""

    value: Ints
    above: Ints
    population: Ints


@dataclass(frozen=True, eq=False)
class TrueValueRule(Frozen):
    """Of each class of what is shown, ``(classes,)``: the least and the largest true count that
    accepts it, and whether any does; of each column, ``(columns,)``, how common it is, and whether
    some replicate has moved it; and the mean error of the replicates ``(sizes, columns)``."""

    coverage: float
    least: Ints
    largest: Ints
    accepted: Mask
    common: Ints
    moved: Mask
    bias: NDArray[np.float64]

    def interval(
        self, shown: ShownCounts, errors: ReplicateErrors, able: Mask
    ) -> ReplicateInterval:
        """Of published counts with these ``errors`` of their replicates. ``able`` ``(units,
        columns)``: where a count is not certain; elsewhere it is its own interval."""
        value, of = shown.value, _classes(shown, self.common)
        bias = UNSEEN * self.bias[_size(value), np.arange(value.shape[1])]
        margin = student(self.coverage, errors.replicates) * errors.rmse
        lower = np.floor(value - margin - np.maximum(bias, 0) + 0.5).astype(np.int64)
        upper = np.ceil(value + margin - np.minimum(bias, 0) - 0.5).astype(np.int64)
        wider = self.moved & self.accepted[of]
        lower = np.maximum(np.where(wider, np.minimum(lower, self.least[of]), lower), 0)
        upper = np.where(wider, np.maximum(upper, self.largest[of]), upper)
        lower, upper = (np.where(able, end, value) for end in (lower, upper))
        margin = np.where(able, np.maximum(margin, (upper - lower) / 2), 0.0)
        return ReplicateInterval(lower, upper, margin, np.zeros(value.shape, dtype=bool))


def rule_of(
    shown: Iterable[tuple[Ints, Mask, Iterable[ShownCounts]]], columns: int, coverage: float
) -> TrueValueRule:
    """From some units at a time: the published counts, which stand for the truth, and where they
    are not certain, both ``(units, columns)``; and what each replicate shows of the units.
    ``shown`` is gone through twice, and so no iterator."""
    units, total, moved = 0, np.zeros(columns, dtype=np.int64), np.zeros(columns, dtype=bool)
    sizes, bias = (len(OF_VALUE) + 1, columns), np.zeros((2, (len(OF_VALUE) + 1) * columns))
    for true, able, replicates in shown:
        units, total = units + len(true), total + true.sum(axis=0)
        error, number = np.zeros_like(true), 0
        for one in replicates:
            moved |= (one.value != true).any(axis=0)
            error, number = error + (one.value - true), number + 1
        at = (_size(true) * columns + np.arange(columns))[able]
        for i, of_cells in enumerate((error, np.full_like(true, number))):
            bias[i] += np.bincount(at, of_cells[able], len(bias[i]))
    common = np.searchsorted(OF_COLUMN, total / max(units, 1), side="right")
    seen = np.zeros((LARGEST + 1, (MANY + 1) * _CONTEXTS), dtype=np.int64)
    every = np.zeros(seen.shape[1], dtype=np.int64)
    for true, able, replicates in shown:
        counted = able & moved
        tested = counted & (true <= LARGEST)
        for one in replicates:
            of = _classes(one, common)
            np.add.at(every, of[counted], 1)
            np.add.at(seen, (true[tested], of[tested]), 1)
    there = np.flatnonzero(every)  # few of the classes
    accepts = np.array([_accepts(row, every[there], coverage) for row in seen[:, there]])
    least, largest = np.zeros((2, len(every)), dtype=np.int64)
    accepted = np.zeros(len(every), dtype=bool)
    accepted[there], least[there] = accepts.any(axis=0), accepts.argmax(axis=0)
    largest[there] = LARGEST - accepts[::-1].argmax(axis=0)
    mean = (bias[0] / np.maximum(bias[1], 1)).reshape(sizes)
    return TrueValueRule(coverage, least, largest, accepted, common, moved, mean)


def _size(value: Ints) -> Ints:
    """The class of each count in which biases are averaged."""
    return np.searchsorted(OF_VALUE, value, side="right").astype(np.int64)


def _accepts(seen: Ints, every: Ints, coverage: float) -> Mask:
    """The classes with the largest share of one true count, until they hold the ``coverage`` of its
    cells; those of equal share together.
    """
    out, there = np.zeros(len(seen), dtype=bool), np.flatnonzero(seen)
    share = seen[there] / every[there]
    order = np.argsort(-share, kind="stable")
    held = np.cumsum(seen[there[order]])
    if len(held):
        last = share[order[np.searchsorted(held, coverage * held[-1])]]
        out[there[share >= last]] = True
    return out


def _classes(shown: ShownCounts, common: Ints) -> Ints:
    """The class of each cell, ``(units, columns)``, from 0: of its value and its context."""
    out = np.minimum(shown.value, MANY) * (len(OF_PARENT) + 1) + np.searchsorted(
        OF_PARENT, shown.above, side="right"
    )
    out = (
        out * (len(OF_UNIT) + 1) + np.searchsorted(OF_UNIT, shown.population, side="right")[:, None]
    )
    return out * (len(OF_COLUMN) + 1) + common
