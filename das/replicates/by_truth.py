r"""Intervals of small counts that hold by *true* value as well, as narrow as such intervals can be.

By published value the Bureau's rule holds. By true value it cannot. Most true counts of 1 to 4 in
blocks are published as 0, like nearly all true zeros. The interval of a 0 without a positive
replicate is 0 to 0. Its surroundings show which zeros can be small counts: the parent's count in
the same column, how many persons the unit has, how common the column is. Call that the context, c.

**Derivation.** Let :math:`P_t(v, c)` be the distribution of published value and context over the
cells whose true count is t, and m that over all cells. A confidence set that holds by true value is
:math:`S(v, c) = \{t: (v, c) \in A_t\}` with regions of acceptance :math:`P_t(A_t) \ge \gamma` for
each t. Its mean size over all cells is

.. math:: \mathrm{E}_m |S| = \sum_{v, c} m(v, c) \sum_t [(v, c) \in A_t] = \sum_t m(A_t),

So the narrowest has, for each t by itself, the region of least m among those with
:math:`P_t(A_t) \ge \gamma`. By the lemma of Neyman and Pearson that is the region of the largest
:math:`P_t(v, c) / m(v, c)` (Pratt, 1961). Where a share :math:`\pi_t` of the cells has the true
count t, :math:`\pi_t P_t / m` is the share of t among the cells that show (v, c): each t accepts
the strongest evidence for it. ∎

*What is estimated, and what holds.* The distributions are estimated from replicates. What was
published stands for the truth, t, and each replicate shows the (v, c) of each of its cells. All
units of a level and columns of a table together make up :math:`P_t` and m. So the theorem is about
a truth that is like the publication, over the cells of one table and level together. It does not
cover each column, or a truth that is less smooth than its publication. Real truth is less smooth. A
block of five people is often published as empty; a block published with five is less often found
empty again. With :math:`\gamma = c`, the requested coverage, P1 held .79 of the true fives of
blocks instead of .90. So a cell can be missed only a fifth as often as requested:

.. math:: \gamma = 1 - (1 - c) / 5,

That was chosen by trial, as the Bureau chose its five degrees of freedom. Its coverage by table and
by true count is measured (``docs/intervals.md``, ``python -m benchmarks.intervals``). Regions are
of whole classes, so they hold somewhat more than :math:`\gamma`.

*The interval.* Tests of t up to :data:`LARGEST` are these, and those of larger counts are the
rule's own. The interval runs from the least to the largest t that is accepted, and includes the
rule's own interval. So it holds by published value wherever the rule does. Cells that public bounds
hold at 0, and columns that no replicate has moved, are unchanged. Structural zeros and invariants
have no width, and say nothing about other cells.

Source: Pratt (1961), *Length of confidence intervals*, J. Amer. Statist. Assoc. 56, 549-567.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.replicates.rules import ReplicateInterval

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: True counts up to this one are tested here.
LARGEST = 24
#: How many times less than asked for a true count may be missed over the replicates: what is
#: published is smoother than the truth.
CAUTION = 5
#: Published counts from this one on are one class.
MANY = 61
#: Where the classes of context begin: what the parent has of the column, and the persons (or
#: records) of the unit.
OF_PARENT = np.array([1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 200, 500])
OF_UNIT = np.array([1, 3, 6, 11, 25, 60, 150])
#: And those of the mean of a column over the units of the level: powers of four from 1/256 on.
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
class TrueValueRegions(Frozen):
    """Of each class of what is shown, ``(classes,)``: the least and the largest true count that
    accepts it, and whether any does; how common each column is, ``(columns,)``; and which columns
    some replicate has moved."""

    least: Ints
    largest: Ints
    accepted: Mask
    common: Ints
    moved: Mask

    def widened(self, made: ReplicateInterval, shown: ShownCounts, able: Mask) -> ReplicateInterval:
        """The intervals ``made`` by a rule, widened where ``able`` ``(units, columns)``: where the
        count may be positive at all.
        """
        of = _classes(shown, self.common)
        wider = able & self.moved & self.accepted[of]
        lower = np.where(wider, np.minimum(made.lower, self.least[of]), made.lower)
        upper = np.where(wider, np.maximum(made.upper, self.largest[of]), made.upper)
        margin = np.where(wider, np.maximum(made.margin, (upper - lower) / 2), made.margin)
        return replace(made, lower=lower, upper=upper, margin=margin)


def regions(
    shown: Iterable[tuple[Ints, Mask, Iterable[ShownCounts]]], columns: int, coverage: float
) -> TrueValueRegions:
    """From some units at a time: the published counts, which stand for the truth, and where they
    may be positive, both ``(units, columns)``; and what each replicate shows of the units.
    ``shown`` is gone through twice, and so no iterator."""
    units, total, moved = 0, np.zeros(columns, dtype=np.int64), np.zeros(columns, dtype=bool)
    for true, _, replicates in shown:
        units, total = units + len(true), total + true.sum(axis=0)
        for one in replicates:
            moved |= (one.value != true).any(axis=0)
    common = np.searchsorted(OF_COLUMN, total / max(units, 1), side="right")
    seen = np.zeros((LARGEST + 1, (MANY + 1) * _CONTEXTS), dtype=np.int64)
    every = np.zeros(seen.shape[1], dtype=np.int64)
    for true, able, replicates in shown:
        counted = able & moved
        tested = counted & (true <= LARGEST)
        for one in replicates:
            of = _classes(one, common)
            every += np.bincount(of[counted], minlength=len(every))
            pairs = np.bincount(true[tested] * len(every) + of[tested], minlength=seen.size)
            seen += pairs.reshape(seen.shape)
    accepts = np.array([_accepts(row, every, 1 - (1 - coverage) / CAUTION) for row in seen])
    accepted = np.asarray(accepts.any(axis=0))
    return TrueValueRegions(
        accepts.argmax(axis=0), LARGEST - accepts[::-1].argmax(axis=0), accepted, common, moved
    )


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
