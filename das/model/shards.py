"""A tree cut into a trunk and shards, each of which fits a small machine.

The *trunk* is the tree from its root down to one level. A *shard* is some units of that level,
which follow each other and have one parent, with everything below them; it is responsible for the
levels below the trunk. Shards are a function of the geography alone, so whatever is made shard by
shard (files, sums, noise) is the same for any number of workers and any way to share out the work.
A tree that is small enough has no shard: it is all trunk.

A shard by itself is an ordinary tree, with one root: what is above it is there, too, holding no
more than the shard (:meth:`das.model.spine.Spine.restricted`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.cover import NOWHERE
from das.model.frozen import Frozen
from das.model.measured_spine import MeasuredSpine
from das.model.spine import Spine

Ints = NDArray[np.int64]

#: A tree of no more lowest units than this is not cut, nor is a subtree: all of the largest county,
#: the nation's 8 million blocks in a few hundred shards.
LARGEST = 1 << 17
#: Smaller neighbours are put together up to so many lowest units.
TOGETHER = 1 << 15


@dataclass(frozen=True, eq=False)
class Shards(Frozen):
    """Shard ``i``, from 1, is the units ``starts[i - 1]:starts[i]`` of ``level`` of the published
    tree, and all below. Number 0 is the trunk: the levels down to ``level``. Without a shard
    (``starts`` is ``[0]``) that is the whole tree."""

    level: str
    starts: Ints

    def __post_init__(self) -> None:
        if not len(self.starts) or self.starts[0] != 0 or (np.diff(self.starts) <= 0).any():
            raise InputError("shards do not follow each other", where="shards")

    @staticmethod
    def of(spine: Spine, trees: Iterable[MeasuredSpine] = (), *, largest: int = LARGEST) -> Shards:
        """Those of a published tree and of the ``trees`` over it that are measured.

        They are cut at the highest level of which no unit has more than ``largest`` lowest units,
        or at the lowest level but one where there is none such; of trees whose units lie in several
        published ones there, at the lowest above that."""
        whole = Shards.none(spine)
        if len(spine.codes[-1]) <= largest:
            return whole
        found, trees = whole, tuple(trees)
        for level in spine.levels[1:-1]:
            if any((tree.within(level, spine) == NOWHERE).any() for tree in trees):
                break
            sizes = _lowest_units(spine, level)
            starts = _cuts(
                spine.parent[spine.index(level)], sizes, largest // (LARGEST // TOGETHER)
            )
            found = Shards(level, _inhabited(starts, [tree.within(level, spine) for tree in trees]))
            if sizes.max() <= largest:
                break
        return found

    @staticmethod
    def none(spine: Spine) -> Shards:
        """A tree that is all trunk."""
        return Shards(spine.levels[-1], np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def levels(self, spine: Spine, shard: int) -> tuple[str, ...]:
        """The levels that the trunk (0) or a shard is responsible for."""
        depth = spine.index(self.level) + 1
        return spine.levels[depth:] if shard else spine.levels[:depth]

    def units(self, shard: int) -> slice:
        """Those of ``level`` that a shard consists of."""
        return slice(int(self.starts[shard - 1]), int(self.starts[shard]))

    def lowest(self, spine: Spine) -> Ints:
        """Where the lowest units of the shards begin, ``(shards + 1,)``."""
        below = np.concatenate([[0], np.cumsum(_lowest_units(spine, self.level))])
        return np.asarray(below[self.starts], dtype=np.int64)

    def parts(self, spine: Spine) -> Iterator[tuple[int, Spine]]:
        """The trunk, and the shards, each with its number."""
        yield 0, self.trunk(spine)
        for shard in range(1, len(self) + 1):
            yield shard, self.shard(spine, shard)

    def trunk(self, spine: Spine) -> Spine:
        return spine.truncated(self.level)

    def shard(self, spine: Spine, shard: int) -> Spine:
        units = self.units(shard)
        return spine.restricted(self.level, np.arange(units.start, units.stop))

    def trunk_of(self, tree: MeasuredSpine, spine: Spine) -> MeasuredSpine:
        """The trunk of a measured tree over the published ``spine``; all of it where there is no
        shard.
        """
        return tree.truncated(self.level, spine) if len(self) else tree

    def shard_of(self, tree: MeasuredSpine, spine: Spine, shard: int) -> MeasuredSpine:
        """A measured tree's part over a shard of the published ``spine``."""
        a, b = self.lowest(spine)[[shard - 1, shard]]
        home, units = tree.within(self.level, spine), self.units(shard)
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
    """The cuts without those of shards in which some tree has no unit: these join the one before,
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
