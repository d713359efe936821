"""A tree cut into an upper tree and subtrees, so that each part fits a small machine.

The *upper tree* is the tree from its root down to one level. A *subtree* is some consecutive units
of that level with one parent, and everything below them. It is responsible for the levels below the
upper tree. Subtrees depend only on the geography. So everything made subtree by subtree (files,
sums, noise) is the same for any number of workers and any sharing of the work. A tree that is small
enough has no subtrees: it is all upper tree.

A subtree by itself is an ordinary tree, with one root. It also has the units above it, which
contain only the subtree (:meth:`das.model.spine.Spine.restricted`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.measured_spine import NOWHERE, MeasuredSpine
from das.model.spine import Spine

Ints = NDArray[np.int64]

#: A tree or subtree with at most this many lowest units is not cut: all of the largest county,
#: the nation's 8 million blocks in a few hundred subtrees.
LARGEST = 1 << 17
#: Smaller neighboring units are put together up to this many lowest units.
TARGET_SIZE = 1 << 15


@dataclass(frozen=True, eq=False)
class Subtrees(Frozen):
    """Subtree ``i``, from 1, is the units ``starts[i - 1]:starts[i]`` of ``level`` of the published
    tree, and all below. Number 0 is the upper tree: the levels down to ``level``. Without a subtree
    (``starts`` is ``[0]``) that is the whole tree."""

    level: str
    starts: Ints

    def __post_init__(self) -> None:
        if not len(self.starts) or self.starts[0] != 0 or (np.diff(self.starts) <= 0).any():
            raise InputError("subtrees do not follow each other", where="subtrees")

    @staticmethod
    def of(
        spine: Spine, trees: Iterable[MeasuredSpine] = (), *, largest: int = LARGEST
    ) -> Subtrees:
        """The subtrees of a published tree, and of the measured ``trees`` over it.

        The cut is at the highest level whose units all have at most ``largest`` lowest units. If no
        level has that, it is at the level above the lowest. It stays above any level where a unit
        of a measured tree lies in several published units."""
        whole = Subtrees.none(spine)
        if len(spine.codes[-1]) <= largest:
            return whole
        found, trees = whole, tuple(trees)
        for level in spine.levels[1:-1]:
            if any((tree.home_units(level, spine) == NOWHERE).any() for tree in trees):
                break
            sizes = _lowest_units(spine, level)
            starts = _cuts(
                spine.parent[spine.index(level)], sizes, largest // (LARGEST // TARGET_SIZE)
            )
            found = Subtrees(
                level, _inhabited(starts, [tree.home_units(level, spine) for tree in trees])
            )
            if sizes.max() <= largest:
                break
        return found

    @staticmethod
    def none(spine: Spine) -> Subtrees:
        """A tree that is all upper tree."""
        return Subtrees(spine.levels[-1], np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def levels(self, spine: Spine, subtree: int) -> tuple[str, ...]:
        """The levels that the upper tree (0) or a subtree is responsible for."""
        depth = spine.index(self.level) + 1
        return spine.levels[depth:] if subtree else spine.levels[:depth]

    def units(self, subtree: int) -> slice:
        """The units of ``level`` in a subtree."""
        return slice(int(self.starts[subtree - 1]), int(self.starts[subtree]))

    def lowest(self, spine: Spine) -> Ints:
        """Where the lowest units of the subtrees begin, ``(subtrees + 1,)``."""
        below = np.concatenate([[0], np.cumsum(_lowest_units(spine, self.level))])
        return np.asarray(below[self.starts], dtype=np.int64)

    def parts(self, spine: Spine) -> Iterator[tuple[int, Spine]]:
        """The upper tree, and the subtrees, each with its number."""
        yield 0, self.upper_tree(spine)
        for subtree in range(1, len(self) + 1):
            yield subtree, self.subtree(spine, subtree)

    def upper_tree(self, spine: Spine) -> Spine:
        return spine.truncated(self.level)

    def subtree(self, spine: Spine, subtree: int) -> Spine:
        units = self.units(subtree)
        return spine.restricted(self.level, np.arange(units.start, units.stop))

    def upper_tree_of(self, tree: MeasuredSpine, spine: Spine) -> MeasuredSpine:
        """The upper tree of a measured tree over the published ``spine``; all of it where there is
        no subtree."""
        return tree.truncated(self.level, spine) if len(self) else tree

    def subtree_of(self, tree: MeasuredSpine, spine: Spine, subtree: int) -> MeasuredSpine:
        """A measured tree's part over a subtree of the published ``spine``."""
        a, b = self.lowest(spine)[[subtree - 1, subtree]]
        home, units = tree.home_units(self.level, spine), self.units(subtree)
        return tree.restricted(
            self.level, np.flatnonzero((home >= units.start) & (home < units.stop)), int(a), int(b)
        )


def _lowest_units(spine: Spine, level: str) -> Ints:
    """How many lowest units each unit of a level has."""
    starts = np.arange(spine.units(level) + 1)
    for below in spine.levels[spine.index(level) + 1 :]:
        starts = spine.children(below)[starts]
    return np.diff(starts)


def _cuts(parent: Ints, sizes: Ints, together: int) -> Ints:
    """Where runs of units begin, and where the last ends: of one parent, and of ``together`` lowest
    units at most if there are two or more."""
    out, held, above = [0], 0, int(parent[0])
    for unit, (home, size) in enumerate(zip(parent.tolist(), sizes.tolist(), strict=True)):
        if held and (home != above or held + size > together):
            out.append(unit)
            held = 0
        held, above = held + size, home
    return np.array([*out, len(sizes)], dtype=np.int64)


def _inhabited(starts: Ints, homes: Sequence[Ints]) -> Ints:
    """The cuts without those of subtrees in which some tree has no unit: these join the one before,
    the first the one behind. ``homes`` are the published units that the units of each tree lie
    in."""
    for home in homes:
        there = (
            np.bincount(np.searchsorted(starts, home, side="right") - 1, minlength=len(starts) - 1)
            > 0
        )
        kept = np.flatnonzero(there)
        starts = np.concatenate([[0], starts[kept[1:]], starts[-1:]])
    return np.asarray(starts, dtype=np.int64)
