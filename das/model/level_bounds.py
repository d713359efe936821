"""All constraints of one level, of however many units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.areas import Areas
from das.model.constraint import Bounds, JointTotals, Keep, Limits, check_feasible, known_in_words
from das.model.frozen import Frozen
from das.model.spine import Spine


@dataclass(frozen=True, eq=False, repr=False)
class LevelBounds(Frozen):
    """:class:`das.model.constraint.Bounds` of a whole level, with the same attributes, except that
    ``limits`` replaces ``lower`` and ``upper``. They are packed, because a level can have millions
    of units. Computations take :meth:`rows`, batch by batch. ``reach`` exists only above the known
    totals, and is dense: 2 kB a unit for eight groups.

    Raises :class:`InfeasibleError` if no histogram meets the constraints of some unit.
    """

    group: NDArray[np.intp]
    limits: Limits
    total: Ints | None
    possible: NDArray[np.bool_]
    reach: Ints | None = None
    joint: JointTotals | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        part = None if self.joint is None else self.joint.part
        of_units = [x for x in (self.total, self.reach, part) if x is not None]
        if self.group.shape != self.possible.shape or any(len(x) != len(self) for x in of_units):
            raise InputError("bounds of different shapes", where="bounds")
        low, high, row = self.limits.lower, self.limits.upper, self.limits.row
        bad: NDArray[np.bool_] = np.any(low > high, axis=1)
        check_feasible(
            bad[row], low.sum(axis=1)[row], high.sum(axis=1)[row], self.total, self.joint
        )

    @staticmethod
    def of(b: Bounds) -> LevelBounds:
        return LevelBounds(
            b.group, Limits.of(b.lower, b.upper), b.total, b.possible, b.reach, b.joint, b.exact
        )

    def __len__(self) -> int:
        return len(self.limits)

    def __repr__(self) -> str:
        return (
            f"<LevelBounds: {len(self):,} units, {self.groups} groups,"
            f" {known_in_words(self.total, self.joint)}>"
        )

    @property
    def groups(self) -> int:
        return self.limits.groups

    @property
    def known(self) -> bool:
        """Whether totals are known, of each unit or of several together."""
        return self.total is not None or self.joint is not None

    @property
    def able(self) -> NDArray[np.bool_]:
        """Which units can hold somebody, ``(units,)``."""
        rows: NDArray[np.bool_] = np.any(
            self.limits.upper[:, np.unique(self.group[self.possible])] > 0, axis=1
        )
        able = rows[self.limits.row]
        if self.joint is not None:
            able &= self.joint.total[self.joint.part] > 0
        return able if self.total is None else able & (self.total > 0)

    def rows(self, start: int, stop: int) -> Bounds:
        """The bounds of the units ``start:stop``, which must not split a part."""
        if self.joint is not None:
            self.joint.check_whole(start, stop)
        return self.some(slice(start, stop))

    def some(self, keep: Keep) -> Bounds:
        """The bounds of some units. If they split a part with a joint total, its other units must
        hold nobody.
        """
        return Bounds(
            self.group,
            *self.limits.some(keep),
            None if self.total is None else self.total[keep],
            self.possible,
            None if self.reach is None else self.reach[keep],
            None if self.joint is None else self.joint.some(keep),
            self.exact,
        )

    def dense(self) -> Bounds:
        """The bounds of all units; for levels above the lowest."""
        return self.rows(0, len(self))

    def part(self, start: int, stop: int) -> LevelBounds:
        """The same as :meth:`rows`, but still packed."""
        if self.joint is not None:
            self.joint.check_whole(start, stop)
        here = slice(start, stop)
        return LevelBounds(
            self.group,
            self.limits.part(start, stop),
            None if self.total is None else self.total[here],
            self.possible,
            None if self.reach is None else self.reach[here],
            None if self.joint is None else self.joint.some(here),
            self.exact,
        )

    @staticmethod
    def subtree(
        bounds: Mapping[str, LevelBounds], spine: Spine, level: str, unit: int
    ) -> dict[str, LevelBounds]:
        """The bounds of a unit of ``level`` and of everything below it, numbered as in
        :meth:`das.model.spine.Spine.subtree`.
        """
        return {here: bounds[here].part(*ends) for here, ends in spine.extent(level, unit).items()}

    def by_part(self) -> LevelBounds:
        """The bounds with each part with a joint total as one unit
        (:meth:`das.model.constraint.Bounds.by_part`).
        """
        if self.joint is None:
            return self
        whole = self.limits.add_up(self.joint.part, len(self.joint.total))
        return LevelBounds(self.group, whole, self.joint.total, self.possible)


# The least and the most that a sum of cells can be, given the public facts about a unit.
#
# A unit's histogram consists of whole numbers :math:`x_k \ge 0`, with 0 at structural zeros. The
# groups g of one partition have :math:`l_g \le \sum_{k \in g} x_k \le h_g`. If the total is known,
# :math:`\sum_k x_k = t`. Let c be a sum of cells. Let A be the groups with some possible cell in c,
# and W the groups with all possible cells in c. Then the sum is at least, and at most,
#
# .. math:: \max\Bigl(\sum_{g \in W} l_g,\; t - \sum_{g \notin W} h_g\Bigr), \qquad
# \min\Bigl(\sum_{g \in A} h_g,\; t - \sum_{g \notin A} l_g\Bigr),
#
# and both are reached. *Proof* for the most: if g is in A, the cells of g in c can hold all of g;
# otherwise they hold nothing. So the sum is :math:`\sum_{g \in A} y_g` with any :math:`l \le y \le
# h`, :math:`\sum y = t`. It is largest when the other groups are at their least, unless the groups in
# A are full before. The least is t minus the most of the other cells, whose A is the complement of W.
# ∎
#
# If both are equal, the count is *certain*: an impossible combination, an invariant, a place where
# nobody can be.

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
