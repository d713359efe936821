r"""Constraints on the published counts.

All constraints of the pipeline are bounds on sums over groups of cells, child by child. The groups
are those of one partition of the cells, the *dwelling* groups (household and each type of group
quarters):

.. math:: l_{ug} \le \sum_{k \in g} x_{uk} \le h_{ug}, \qquad \sum_k x_{uk} = t_u \text{ at the levels with known totals.}

Facility counts give ``lower`` (each facility holds somebody; a housing unit can be empty) and
``upper`` (nobody lives where there is no building). Known totals are the invariants of the
publication. The spine can have several units for one place (a state's American Indian areas, and
the rest of the state). Then the total is known only for these units together: a *joint* total.

Instead of dwelling groups, the partition can be the answers to a query that is known exactly, with
equal bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InfeasibleError, InputError
from das.model.areas import Areas
from das.model.frozen import Frozen
from das.model.names import Codes, characters, of_characters, text
from das.model.spine import Spine

# Lower and upper bounds of many units in little room: each distinct row once, and for each unit
# which it has.

Ints = NDArray[np.int64]
Keep = slice | NDArray[np.bool_] | NDArray[np.intp]

#: More than everybody; small enough that its sum over ten million blocks and all groups fits 64
#: bits.
NO_LIMIT = 1 << 34
#: Values held at once where a level is walked in pieces: 32 MB.
_MOST_VALUES = 1 << 22
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False, repr=False)
class Limits(Frozen):
    """Bounds ``(units, groups)`` of all units of a level, packed: unit ``u`` has ``lower[row[u]]``
    and ``upper[row[u]]``.

    ``lower``, ``upper``: ``(distinct rows, groups)``; ``row``: ``(units,)`` int32. Bounds of blocks
    repeat, because a block has some number of housing units and hardly ever a facility. Eight
    million blocks have some tens of thousands of distinct rows. They take 32 MB, plus 2 MB of rows
    for eight groups (6 MB for thirty). Two arrays ``(units, groups)`` would take 1 GB (4 GB)."""

    lower: Ints
    upper: Ints
    row: NDArray[np.int32]

    def __post_init__(self) -> None:
        if self.lower.shape != self.upper.shape:
            raise InputError("bounds of different shapes", where="bounds")
        if len(self.row) and not 0 <= self.row.min() <= self.row.max() < len(self.lower):
            raise InputError("a unit has bounds that are not there", where="bounds")

    @staticmethod
    def from_bounds(lower: Ints, upper: Ints) -> Limits:
        """From ``(units, groups)`` both. The rows are in the order in which units first have them,
        so that equal bounds are equal values."""
        if lower.shape != upper.shape:
            raise InputError("bounds of different shapes", where="bounds")
        rows, row = packed(lower, upper)
        low, high = np.hsplit(rows, 2)
        return Limits(np.ascontiguousarray(low), np.ascontiguousarray(high), row)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def groups(self) -> int:
        return self.lower.shape[1]

    def some(self, keep: Keep) -> tuple[Ints, Ints]:
        """Lower and upper bounds of some units, ``(units, groups)``."""
        row = self.row[keep]
        return self.lower[row], self.upper[row]

    def part(self, start: int, stop: int) -> Limits:
        """The limits of the units ``start:stop``, still packed."""
        used, row = packed(self.row[start:stop, None])
        return Limits(self.lower[used[:, 0]], self.upper[used[:, 0]], row)

    def add_up(self, home: NDArray[np.integer[Any]], homes: int) -> Limits:
        """Sums over the units of each home. ``home`` ``(units,)`` gives each unit's home, and each
        of the ``homes`` must have a unit."""

        def summed(bound: Ints) -> Ints:
            return add_up(lambda keep: bound[self.row[keep]], self.groups, home, homes)

        return Limits.from_bounds(summed(self.lower), summed(self.upper))


def packed(*columns: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The distinct rows of arrays ``(units, columns)`` side by side, as units first have them, and
    each unit's number."""
    found, row = [], np.empty(len(columns[0]), dtype=np.int32)
    number = 0
    for here in pieces(len(row), sum(c.shape[1] for c in columns)):
        rows, at = _distinct(np.hstack([c[here] for c in columns]))
        row[here] = at + number
        number += len(rows)
        found.append(rows)
    rows, at = _distinct(np.concatenate(found))
    for here in pieces(len(row), 1):
        row[here] = at[row[here]]
    return rows, row


def pieces(units: int, width: int) -> Iterator[slice]:
    """Small slices of ``units`` rows of ``width`` values, in order; one if there is no unit."""
    size = max(1, _MOST_VALUES // max(1, width))
    for start in range(0, max(1, units), size):
        yield slice(start, min(start + size, units))


def add_up(
    rows: Callable[[Keep], Ints], width: int, home: NDArray[np.integer[Any]], homes: int
) -> Ints:
    """Sums ``(homes, width)`` of what ``rows`` gives of some units, ``(units, width)``, asked for
    piece by piece."""
    order = None if (np.diff(home) >= 0).all() else np.argsort(home, kind="stable")
    out = np.zeros((homes, width), dtype=np.int64)
    for here in pieces(len(home), width):
        keep: Keep = here if order is None else order[here]
        at = home[keep]
        first = np.flatnonzero(np.diff(at, prepend=-1))
        out[at[first]] += np.add.reduceat(rows(keep), first, axis=0)
    return out


def _distinct(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """By a key of each row, which sorts faster than rows do; should two rows have the same key, by
    the rows themselves."""
    factors = np.cumprod(np.full(rows.shape[1], _ODD))
    _, first, number = np.unique(
        rows.astype(np.uint64) @ factors, return_index=True, return_inverse=True
    )
    if not np.array_equal(rows[first][number], rows):
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))
    return rows[np.sort(first)], place[number.ravel()]


#: Subsets of the groups are listed up to this many groups.
MOST_GROUPS = 10


@dataclass(frozen=True, eq=False)
class Constraint(Frozen):
    """An invariant, outside the guarantee, as the privacy statement and the noisy measurement files
    list it.

    ``bound`` has shape ``(units of level, answers of query)``; ``sign`` is ``=``, ``<=`` or ``>=``.
    """

    name: str
    level: str
    query: str
    sign: str
    bound: NDArray[np.int64]
    says: str = ""  #: the constraint in words, for a reader of the release

    def __post_init__(self) -> None:
        if self.sign not in ("=", "<=", ">="):
            raise InputError(f"unknown sign {self.sign!r}", where=f"constraint {self.name!r}")
        if self.bound.ndim != 2:
            raise InputError("bounds must be (units, answers)", where=f"constraint {self.name!r}")


def summed(constraints: Iterable[Constraint], spine: Spine) -> Iterator[Constraint]:
    """The sums of each constraint of the lowest level, at every level above. They say nothing new;
    if a unit is not measured, they are all that is known about it."""
    for given in (c for c in constraints if c.level == spine.levels[-1]):
        bound = given.bound
        for depth in range(len(spine) - 1, 0, -1):
            bound = np.add.reduceat(bound, spine.children(spine.levels[depth])[:-1], axis=0)
            yield replace(given, level=spine.levels[depth - 1], bound=bound)


@dataclass(frozen=True, eq=False)
class JointTotals(Frozen):
    r"""Totals known for several siblings together, :math:`\sum_{u \in s} \sum_k x_{uk} = t_s`.

    ``part`` ``(units,)``: the part that each unit belongs to, numbered from 0; ``total``
    ``(parts,)``."""

    part: NDArray[np.intp]
    total: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not np.array_equal(np.unique(self.part), np.arange(len(self.total))):
            raise InputError(
                "every part needs a unit, and every unit a part with a total", where="joint totals"
            )

    @staticmethod
    def of_places(codes: Codes, stated: NDArray[np.int64]) -> JointTotals:
        """Joint totals, if each unit states the total of its whole place. A code begins with a
        digit for the part of the place: 1 in American Indian areas, 0 elsewhere. The place's own
        code follows, as in the geocodes of the Bureau's spine."""
        place = characters(codes).copy()
        place[:, 0] = 0
        part = np.unique(of_characters(place), return_inverse=True)[1]
        total = np.zeros(part.max() + 1, dtype=np.int64)
        total[part] = stated
        if (bad := total[part] != stated).any():
            raise InputError(
                f"unit {text(codes[bad])[0]} and another of its place state different totals of it",
                where="joint totals",
            )
        return JointTotals(part, total)

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """``(units, ...)`` added up to ``(parts, ...)``."""
        out = np.zeros((len(self.total), *values.shape[1:]), dtype=np.int64)
        np.add.at(out, self.part, values)
        return out

    def homes(self, parent: NDArray[np.int64]) -> NDArray[np.int64]:
        """The parent of each part ``(parts,)``, from the parents of the units. Raises
        :class:`InputError` if the units of a part have several parents."""
        home = np.zeros(len(self.total), dtype=np.int64)
        home[self.part] = parent
        if (home[self.part] != parent).any():
            raise InputError("the units of a part are not siblings", where="joint totals")
        return home

    def check_whole(self, start: int, stop: int) -> None:
        """Raises :class:`ValueError` if units ``start:stop`` share a part with other units."""
        if np.isin(self.part, self.part[start:stop]).sum() != stop - start:
            raise ValueError(f"units {start} to {stop} split a part with a joint total")

    def some(self, keep: Keep) -> JointTotals:
        """The parts of some of the units: of whole parts, or of parts whose other units hold
        nobody."""
        number, part = np.unique(self.part[keep], return_inverse=True)
        return JointTotals(part, self.total[number])


@dataclass(frozen=True, eq=False, repr=False)
class Bounds(Frozen):
    """All constraints of some units of one level, as arrays for estimation and rounding. Those of a
    whole level are :class:`das.model.constraint.LevelBounds`.

    - ``group``: the dwelling group of each cell, ``(cells,)``.
    - ``lower``, ``upper``: ``(units, groups)``.
    - ``total``: ``(units,)`` if the total of each unit is known, else ``None``.
    - ``joint``: totals of several units together, if these are known.
    - ``possible``: ``(cells,)``, False at structural zeros.
    - ``reach``: ``(units, 2^groups)``, at levels above that of the known totals, where it matters.
      It is the most that all descendants with known totals can hold of each *subset* of groups. Bit
      ``g`` of the column number says that group ``g`` is in the subset. A unit's histogram can be
      shared out among these descendants if and only if no subset exceeds its reach (max-flow
      min-cut). It is not listed for more than ``MOST_GROUPS`` groups.
    - ``exact``: whether the sums of all groups are known, and decide everything known below
      (:mod:`das.geography.invariants`)."""

    group: NDArray[np.intp]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    total: NDArray[np.int64] | None
    possible: NDArray[np.bool_]
    reach: NDArray[np.int64] | None = None
    joint: JointTotals | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        if self.lower.shape != self.upper.shape or self.group.shape != self.possible.shape:
            raise InputError("bounds of different shapes", where="bounds")
        bad: NDArray[np.bool_] = np.any(self.lower > self.upper, axis=1)
        check_feasible(bad, self.lower.sum(axis=1), self.upper.sum(axis=1), self.total, self.joint)

    def __repr__(self) -> str:
        return (
            f"<Bounds: {len(self.lower):,} units, {self.groups} groups,"
            f" {known_in_words(self.total, self.joint)}>"
        )

    @property
    def groups(self) -> int:
        return self.lower.shape[1]

    def rows(self, start: int, stop: int) -> Bounds:
        """The bounds of the units ``start:stop``, which must not split a part."""
        if self.joint is not None:
            self.joint.check_whole(start, stop)
        return self.some(slice(start, stop))

    def some(self, keep: Keep) -> Bounds:
        """The bounds of some units. If they split a part with a joint total, its other units must
        hold nobody."""
        return Bounds(
            self.group,
            self.lower[keep],
            self.upper[keep],
            None if self.total is None else self.total[keep],
            self.possible,
            None if self.reach is None else self.reach[keep],
            None if self.joint is None else self.joint.some(keep),
            self.exact,
        )

    def excess(self, held: NDArray[Any]) -> NDArray[np.float64]:
        """How far the sums of ``held`` ``(units, groups)`` over each subset of the groups exceed
        its reach, ``(units, 2^groups)``."""
        subset = np.arange(1 << self.groups)
        reach = np.full(len(subset), np.inf) if self.reach is None else self.reach
        return np.asarray(
            held @ ((subset >> np.arange(self.groups)[:, None]) & 1) - reach, dtype=np.float64
        )

    def by_part(self) -> Bounds:
        r"""The bounds with each part with a joint total as one unit.

        If only the total of all units of a part is known, each group can be shared out by itself.
        Any sums :math:`y_g` with :math:`\sum_u l_{ug} \le y_g \le \sum_u h_{ug}` can be."""
        if self.joint is None:
            return self
        low, high = self.joint.sums(self.lower), self.joint.sums(self.upper)
        return Bounds(self.group, low, high, self.joint.total, self.possible)


def check_feasible(
    bad: NDArray[np.bool_], low: Ints, high: Ints, total: Ints | None, joint: JointTotals | None
) -> None:
    """Check that some histogram meets the constraints of every unit. All arrays are ``(units,)``.
    ``bad``: whether a lower bound exceeds an upper one. ``low``, ``high``: the sums of the bounds
    of all groups. Raises :class:`InfeasibleError` that names the first infeasible unit."""
    if total is not None:
        bad = bad | (low > total) | (high < total)
    if joint is not None:
        bad = bad | ((joint.sums(low) > joint.total) | (joint.sums(high) < joint.total))[joint.part]
    if bad.any():
        raise InfeasibleError(
            f"no histogram meets the constraints of unit number {int(np.argmax(bad))}"
            f" ({int(bad.sum())} such units)",
            where="constraints",
            remedy="compare its total with its facilities and housing units",
        )


def known_in_words(total: Ints | None, joint: JointTotals | None) -> str:
    return (
        "totals known"
        if total is not None
        else "joint totals known"
        if joint is not None
        else "no total known"
    )


# All constraints of one level, of however many units.


@dataclass(frozen=True, eq=False, repr=False)
class LevelBounds(Frozen):
    """:class:`das.model.constraint.Bounds` of a whole level, with the same attributes, except that
    ``limits`` replaces ``lower`` and ``upper``. They are packed, because a level can have millions
    of units. Computations take :meth:`rows`, batch by batch. ``reach`` exists only above the known
    totals, and is dense: 2 kB a unit for eight groups.

    Raises :class:`InfeasibleError` if no histogram meets the constraints of some unit."""

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
        hold nobody."""
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

    def by_part(self) -> LevelBounds:
        """The bounds with each part with a joint total as one unit
        (:meth:`das.model.constraint.Bounds.by_part`)."""
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
        least = np.maximum(least, others)
        most = np.minimum(most, total - lower @ (~some).T.astype(np.int64))
    if bounds.joint is not None:
        most = np.minimum(most, bounds.joint.total[bounds.joint.part[here], None])
    return least, most


def range_of_areas(
    lowest: LevelBounds, spine: Spine, areas: Areas, columns: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """The least and the most of each column in areas of lowest units, ``(areas, columns)`` both:
    sums over the areas' units."""
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
