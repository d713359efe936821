r"""The least and the most that a sum of cells can be, given the public facts about a unit.

A unit's histogram consists of whole numbers :math:`x_k \ge 0`, with 0 at structural zeros. The
groups g of one partition have :math:`l_g \le \sum_{k \in g} x_k \le h_g`. If the total is known,
:math:`\sum_k x_k = t`. Let c be a sum of cells. Let A be the groups with some possible cell in c,
and W the groups with all possible cells in c. Then the sum is at least, and at most,

.. math:: \max\Bigl(\sum_{g \in W} l_g,\; t - \sum_{g \notin W} h_g\Bigr), \qquad
          \min\Bigl(\sum_{g \in A} h_g,\; t - \sum_{g \notin A} l_g\Bigr),

and both are reached. *Proof* for the most: if g is in A, the cells of g in c can hold all of g;
otherwise they hold nothing. So the sum is :math:`\sum_{g \in A} y_g` with any :math:`l \le y \le
h`, :math:`\sum y = t`. It is largest when the other groups are at their least, unless the groups in
A are full before. The least is t minus the most of the other cells, whose A is the complement of W.
∎

If both are equal, the count is *certain*: an impossible combination, an invariant, a place where
nobody can be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.model.areas import Areas
from das.model.level_bounds import LevelBounds
from das.model.spine import Spine

Ints = NDArray[np.int64]


def count_range(
    bounds: LevelBounds, columns: NDArray[np.bool_], start: int, stop: int
) -> tuple[Ints, Ints]:
    """Least and most of sums of cells ``columns`` ``(columns, cells)`` in units ``start:stop``,
    ``(units, columns)`` both. Of units whose total is known together with that of others, the total
    of all is the most."""
    here = slice(start, stop)
    some, whole = _touched(bounds, columns), ~_touched(bounds, ~columns)
    lower, upper = bounds.limits.some(here)
    empty = ~_touched(bounds, np.ones_like(columns[:1]))[0]  # groups of structural zeros alone
    upper = np.where(empty, 0, upper)
    lower = np.minimum(lower, upper)
    least, most = lower @ whole.T.astype(np.int64), upper @ some.T.astype(np.int64)
    if bounds.total is not None:
        total = bounds.total[here, None]
        others = total - upper @ (~whole).T.astype(np.int64)
        least, most = (
            np.maximum(least, others),
            np.minimum(most, total - lower @ (~some).T.astype(np.int64)),
        )
    if bounds.joint is not None:
        most = np.minimum(most, bounds.joint.total[bounds.joint.part[here], None])
    return least, most


def range_of_areas(
    lowest: LevelBounds, spine: Spine, areas: Areas, columns: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """The least and the most of each column in areas of lowest units, ``(areas, columns)`` both:
    sums over the areas' units.
    """
    ends = np.zeros((2, len(areas), len(columns)), dtype=np.int64)
    for start, stop in spine.batches(spine.levels[-1], len(columns)):
        here = np.flatnonzero((areas.unit >= start) & (areas.unit < stop))
        if len(here):
            for out, of_units in zip(ends, count_range(lowest, columns, start, stop), strict=True):
                np.add.at(out, areas.area[here], of_units[areas.unit[here] - start])
    return ends[0], ends[1]


def _touched(bounds: LevelBounds, columns: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which groups have a possible cell in each column, ``(columns, groups)``."""
    out = np.zeros((len(columns), bounds.groups), dtype=bool)
    column, cell = np.nonzero(columns & bounds.possible)
    out[column, bounds.group[cell]] = True
    return out
