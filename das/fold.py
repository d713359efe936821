r"""One fold over a tree. The upward pass estimates each unit from its subtree; the downward pass
estimates it from all measurements.

A parent is the sum of its children: :math:`x_u = \sum_c x_c`. Measurements of different units are
independent. So the tree is a graphical model without cycles, and least squares of all measurements
at once takes two passes over its tiers (Kalman; Rauch, Tung and Striebel). They need three steps.
The *algebra* decides the form of the messages between them:

*combine.* Add up the siblings' estimates, which gives one of their parent. With means :math:`\mu_c`
and covariances :math:`C_c`, :math:`s_u = \sum_c \mu_c` and :math:`S_u = \sum_c C_c`.

*condition.* Combine that with the unit's own measurements and known totals. With precision
:math:`\Lambda` and right-hand side b, :math:`C_u = (S_u^{-1} + \Lambda)^{-1}`, :math:`\mu_u =
C_u(S_u^{-1}s_u + b)`.

*restrict.* On the way down, given children whose sum is :math:`\hat x_u` with variance :math:`V_u`,

.. math:: \hat x_c = \mu_c + C_c S_u^{-1}(\hat x_u - s_u), \qquad
          V_c = C_c - C_c S_u^{-1}(S_u - V_u) S_u^{-1} C_c .

An algebra chooses the coordinates and the form of :math:`(\mu, C)`: a number, precisions, or
covariances that can be singular. The passes are the same. They go tier by tier: a message consists
of arrays for all units of a tier, never of an object for each unit.

``docs/reference/architecture.md`` lists the modules that use this fold, and those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from das.model.constraint import JointTotals, LevelBounds
from das.model.spine import Spine

Ints = NDArray[np.int64]
#: What is known of the units of a tier, what they say of those above, and what is so in the end.
Subtree = TypeVar("Subtree")
Told = TypeVar("Told")
Final = TypeVar("Final")


@dataclass(frozen=True, eq=False)
class Tiers:
    """The levels of a tree, root first. If siblings have a joint total, one more tier is above
    them, whose units are their parts. ``level[i]`` is the name of the level, empty for the parts.
    ``parents[i]`` ``(units,)`` is the parent of each unit. ``total[i]`` has the totals of its
    units, if these are known."""

    level: tuple[str, ...]
    parents: tuple[Ints, ...]
    total: tuple[Ints | None, ...]

    def __len__(self) -> int:
        return len(self.level)

    @staticmethod
    def from_spine(
        spine: Spine,
        totals: Mapping[str, Ints | None] | None = None,
        joint: tuple[str, JointTotals] | None = None,
    ) -> Tiers:
        """``totals``: known totals by level. ``joint``: the level whose units have joint totals."""
        level: list[str] = []
        parents: list[Ints] = []
        total: list[Ints | None] = []
        for name, parent in zip(spine.levels, spine.parent, strict=True):
            if joint is not None and joint[0] == name:
                level.append("")
                parents.append(joint[1].homes(parent))
                total.append(joint[1].total)
            level.append(name)
            parents.append(
                joint[1].part.astype(np.int64) if joint is not None and joint[0] == name else parent
            )
            total.append((totals or {}).get(name))
        return Tiers(tuple(level), tuple(parents), tuple(total))

    @staticmethod
    def of_bounds(spine: Spine, bounds: Mapping[str, LevelBounds]) -> Tiers:
        """The tiers with the totals in the bounds, by level. Levels without bounds have no known
        totals."""
        joint = next(((level, b.joint) for level, b in bounds.items() if b.joint is not None), None)
        return Tiers.from_spine(spine, {level: b.total for level, b in bounds.items()}, joint)

    def units(self, tier: int) -> int:
        return len(self.parents[tier])

    @cached_property
    def alone(self) -> tuple[NDArray[np.bool_], ...]:
        """Which units of each tier are only children, ``(units,)``, and so equal to their parents.
        The root is not one."""
        return (np.zeros(self.units(0), dtype=bool), *map(only, self.parents[1:]))

    def families(self, start: int, stop: int) -> Tiers:
        """The tiers of the lowest units ``start:stop``, which are whole families. Their parents are
        the first tier; parts, if there are any, are between. All are numbered from 0."""
        first = len(self) - (2 if self.level[-2] else 3)
        parents: list[Ints] = [self.parents[-1][start:stop]]
        total = [None if self.total[-1] is None else self.total[-1][start:stop]]
        for tier in range(len(self) - 2, first - 1, -1):
            number, parents[0] = np.unique(parents[0], return_inverse=True)
            parents.insert(0, self.parents[tier][number])
            known = self.total[tier]
            total.insert(0, None if known is None else known[number])
        parents[0] = np.zeros_like(parents[0])
        return Tiers(self.level[first:], tuple(parents), tuple(total))


def only(home: Ints) -> NDArray[np.bool_]:
    """Which units are alone in their ``home``, ``(units,)``."""
    alone: NDArray[np.bool_] = np.bincount(home)[home] == 1
    return alone


class Up(Protocol[Subtree, Told]):
    """The steps of the way up."""

    def condition(self, tier: int, told: Told) -> Subtree:
        """The estimates of the units of a tier, from their own measurements and from ``told``, the
        combined estimates from below."""
        ...

    def combine(self, tier: int, known: Subtree) -> Told:
        """The combined estimates of the tier above, from the units of a tier below the root."""
        ...


class Down(Protocol[Final]):
    """The step of the way down."""

    def restrict(self, tier: int, above: Final) -> Final:
        """The final estimates of a tier's units, given the final estimates ``above``."""
        ...


def up(
    algebra: Up[Subtree, Told], told: Told, last: int, first: int = 0
) -> Iterator[tuple[int, Subtree, Told | None]]:
    """Yields each tier from ``last`` up to ``first``: the estimates of its units, and the combined
    estimates of the tier above (``None`` at the root). ``told`` are the combined estimates of
    ``last`` from the tier below.

    >>> class Counted:  # how many units of the lowest tier there are in each
    ...     parents = np.array([0]), np.array([0, 0]), np.array([0, 0, 1])
    ...
    ...     def condition(self, tier, told):
    ...         return told
    ...
    ...     def combine(self, tier, known):
    ...         return np.bincount(self.parents[tier], known).astype(int)
    >>> for tier, known, _ in up(Counted(), np.ones(3, dtype=int), 2):
    ...     print(tier, known)
    2 [1 1 1]
    1 [2 1]
    0 [3]"""
    for tier in range(last, first - 1, -1):
        known = algebra.condition(tier, told)
        if not tier:
            yield tier, known, None
            return
        told = algebra.combine(tier, known)
        yield tier, known, told


def top(algebra: Up[Subtree, Told], told: Told, last: int) -> Subtree:
    """The root's estimate from :func:`up`; nothing else is kept."""
    for tier, known, _ in up(algebra, told, last):
        if not tier:
            return known
    raise ValueError(f"there is no tier {last}")


def down(algebra: Down[Final], above: Final, first: int, last: int) -> Iterator[tuple[int, Final]]:
    """Yields each tier from ``first`` down to ``last``, with the final values of its units.
    ``above`` are the final values of the tier above ``first``."""
    for tier in range(first, last + 1):
        above = algebra.restrict(tier, above)
        yield tier, above
