"""The problem of the outer passes as a value: all that :func:`das.estimate.outer.refined` needs,
except measured answers.

A tree that is not cut is one problem. Of a cut tree (:mod:`das.model.subtrees`) the upper tree is
one, and each subtree. A subtree tells the upper tree the sums of its answers
(:func:`known_below`). The upper tree also requests answers in subtrees, where a unit has one
child."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress
from das.estimate.fixed_counts import FixedCounts
from das.estimate.outer import RefinedEstimates, refined
from das.estimate.upward import FromBelow, Upward
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.sparse_measurement import SparseSource
from das.model.spine import Spine
from das.model.strategy import OuterPass

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: Measurements of a subtree, by its number.
OfSubtree = Callable[[int], Upward]


@dataclass(frozen=True, eq=False)
class FromSubtrees(Frozen):
    """What the subtrees of a tree know about the upper tree's lowest units (:class:`FromBelow`).
    ``home`` has the subtree of each of these, ``(units,)``."""

    home: Ints
    only: NDArray[np.bool_]
    variance: Mapping[str, Floats]
    sums: Mapping[str, Floats]

    def members(self, subtree: int) -> Ints:
        """The units that lie in a subtree, in its order."""
        return np.flatnonzero(self.home == subtree)

    def below(self, level: str, of: OfSubtree) -> FromBelow:
        """The same, with answers for only children; ``level`` is that of their parents."""

        def answers(query: str, units: Ints, cells: Ints) -> NDArray[Any]:
            home, out = self.home[units], np.zeros(len(units))
            for subtree in np.unique(home).tolist():
                here = home == subtree
                own = np.searchsorted(self.members(subtree), units[here])
                out[here] = of(subtree).answers_of_only(level, query, own, cells[here])
            return out

        return FromBelow(self.only, self.variance, self.sums, answers)


@dataclass(frozen=True, eq=False)
class OuterProblem(Frozen):
    """One tree, upper tree or subtree. ``most``: see :class:`Upward`. ``above``: of a subtree, the
    upper tree's lowest level and its histogram by kind. ``from_subtrees``: of an upper tree.
    ``shares``: whether the lowest level has the prior of shares."""

    spine: Spine
    schema: Schema
    outer: tuple[OuterPass, ...]
    fixed: FixedCounts
    most: int = 0
    above: tuple[str, Histogram] | None = None
    shares: bool = False
    from_subtrees: FromSubtrees | None = field(default=None, kw_only=True)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels to estimate."""
        first = 0 if self.above is None else self.spine.index(self.above[0]) + 1
        return self.spine.levels[first:]

    def estimated(
        self,
        source: SparseSource,
        pool: Executor | None = None,
        progress: Progress | None = None,
        of: OfSubtree | None = None,
    ) -> RefinedEstimates:
        """Raises as :func:`refined` does. A subtree requests again what the upper tree was told of
        it, so that its own source has recorded that, too."""
        told = None
        if self.from_subtrees is not None and of is not None:
            told = self.from_subtrees.below(self.spine.levels[-1], of)
        upward = Upward(source, self.spine, self.most, told)
        if self.above is not None:
            known_below(upward, self.spine, self.above[0])
        return refined(
            upward,
            self.spine,
            self.schema,
            self.outer,
            self.fixed,
            pool,
            progress,
            self.above,
            self.shares,
        )


def known_below(upward: Upward, spine: Spine, level: str) -> dict[str, NDArray[Any]]:
    """What a subtree knows about its units of ``level``, the lowest of the upper tree: arrays
    ``only``, and ``variance:QUERY`` and ``sums:QUERY`` (:class:`FromBelow`)."""
    below = spine.levels[spine.index(level) + 1]
    queries = upward.queries(below)
    return (
        {"only": upward.only(level)}
        | {f"variance:{q}": upward.variance_below(level, q) for q in queries}
        | {f"sums:{q}": upward.sums_below(level, q) for q in queries if upward.sums_all(below, q)}
    )
