r"""Constraints on the published counts.

All constraints that the pipeline enforces bound sums over the groups of one partition of the cells,
the *dwelling* groups (household and each type of group quarters), child by child:

.. math:: l_{ug} \le \sum_{k \in g} x_{uk} \le h_{ug}, \qquad \sum_k x_{uk} = t_u \text{ at the levels with known totals.}

Facility counts give ``lower`` (each facility holds somebody; a housing unit may be empty) and
``upper`` (nobody lives where there is no building); known totals are the invariants of the
publication. Where the spine has several units for one place (a state's American Indian areas, and
the rest of it), the total is known for these units together only: a *joint* total.

In place of dwelling groups the partition may be the answers of a query that is known exactly, with
equal bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InfeasibleError, InputError
from das.model.codes import Codes, characters, of_characters, text
from das.model.frozen import Frozen
from das.model.limits import Ints, Keep
from das.model.spine import Spine

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
    says: str = ""  #: what it tells a reader of the release, in words

    def __post_init__(self) -> None:
        if self.sign not in ("=", "<=", ">="):
            raise InputError(f"unknown sign {self.sign!r}", where=f"constraint {self.name!r}")
        if self.bound.ndim != 2:
            raise InputError("bounds must be (units, answers)", where=f"constraint {self.name!r}")


def summed(constraints: Iterable[Constraint], spine: Spine) -> Iterator[Constraint]:
    """Of each constraint of the lowest level what it says of every level above, as sums: nothing
    new, and all that there is of units that are not measured."""
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
        """From what each unit states of its whole place. A code is a digit for the part of the
        place (1 in American Indian areas, 0 elsewhere) and then the place's own, as in the geocodes
        of the Bureau's spine."""
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
        """The parent of each part ``(parts,)``, from those of the units. Raises :class:`InputError`
        if the units of a part have several."""
        home = np.zeros(len(self.total), dtype=np.int64)
        home[self.part] = parent
        if (home[self.part] != parent).any():
            raise InputError("the units of a part are not siblings", where="joint totals")
        return home

    def check_whole(self, start: int, stop: int) -> None:
        """Raises :class:`ValueError` if units ``start:stop`` and others are in one part."""
        if np.isin(self.part, self.part[start:stop]).sum() != stop - start:
            raise ValueError(f"units {start} to {stop} split a part with a joint total")

    def some(self, keep: Keep) -> JointTotals:
        """The parts of some of the units: of whole parts, or of parts whose other units hold
        nobody.
        """
        number, part = np.unique(self.part[keep], return_inverse=True)
        return JointTotals(part, self.total[number])


@dataclass(frozen=True, eq=False, repr=False)
class Bounds(Frozen):
    """All constraints of some units of one level, resolved to arrays: what estimation and rounding
    compute with. Those of a whole level are :class:`das.model.level_bounds.LevelBounds`.

    ``group``: the dwelling group of each cell, ``(cells,)``. ``lower``, ``upper``: ``(units,
    groups)``. ``total``: ``(units,)`` where the total of each unit is known, else ``None``;
    ``joint``: where those of several together are. ``possible``: ``(cells,)``, False at structural
    zeros. ``reach``: at levels above that of the known totals, where it matters, ``(units,
    2^groups)``: the most that all descendants with known totals can hold of each *subset* of groups
    (bit ``g`` of the column number says that group ``g`` is in it). A unit's histogram can be
    shared out among these descendants if and only if no subset exceeds its reach (max-flow
    min-cut). It is not listed for more than ``MOST_GROUPS`` groups. ``exact``: the sums of all
    groups are known, and all that is known below follows from them
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
        """Those of the units ``start:stop``, which split no part."""
        if self.joint is not None:
            self.joint.check_whole(start, stop)
        return self.some(slice(start, stop))

    def some(self, keep: Keep) -> Bounds:
        """Those of some units; the others of a part with a joint total, if any, must hold
        nobody.
        """
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
        """How far sums ``held`` ``(units, groups)`` over each subset of the groups exceed its
        reach, ``(units, 2^groups)``.
        """
        subset = np.arange(1 << self.groups)
        reach = np.full(len(subset), np.inf) if self.reach is None else self.reach
        return np.asarray(
            held @ ((subset >> np.arange(self.groups)[:, None]) & 1) - reach, dtype=np.float64
        )

    def by_part(self) -> Bounds:
        r"""The same with each part with a joint total as one unit.

        Among units of which nothing but the total of all is known, any group sums :math:`y_g` with
        :math:`\sum_u l_{ug} \le y_g \le \sum_u h_{ug}` can be shared out, each group for itself.
        """
        if self.joint is None:
            return self
        low, high = self.joint.sums(self.lower), self.joint.sums(self.upper)
        return Bounds(self.group, low, high, self.joint.total, self.possible)


def check_feasible(
    bad: NDArray[np.bool_], low: Ints, high: Ints, total: Ints | None, joint: JointTotals | None
) -> None:
    """Of units ``(units,)``: where a lower bound is above the upper one, the sums of the lower
    bounds of all groups and of the upper ones, and the totals. Raises :class:`InfeasibleError` that
    names the first unit with no way to meet them."""
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
