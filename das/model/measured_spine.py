r"""The tree that the units of one universe are measured over, and how each of them is.

What is published stands on the tabulation spine (:class:`das.model.spine.Spine`). What is measured
may stand on another tree of the same lowest units, or of some of them: an optimized spine, whose
block groups keep together what people ask about, and which leaves out blocks without a structure.
Persons and housing units each have their own. They meet the published spine at its lowest units,
and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model import tabulation
from das.model.budget import ALL, UnitPath
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.names import characters
from das.model.spine import Spine

# Places as the fewest units of a tree that make them up.

Ints = NDArray[np.int64]
#: The place of units that lie in none, or in several.
NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Cover(Frozen):
    """Unit ``unit[i]`` of level number ``depth[i]`` lies in place ``place[i]``, as does nothing
    above it that counts. In the order of the places; each place is the disjoint union of its
    units."""

    place: Ints
    depth: Ints
    unit: Ints

    @staticmethod
    def from_places(
        spine: Spine, home: Ints, counts: Callable[[str], NDArray[np.bool_]] | None = None
    ) -> Cover:
        """``home`` ``(lowest units,)``: the place that each lies in, or :data:`NOWHERE`. One pass
        up the tree: a unit lies in a place if all its children do. ``counts``: by level, which
        units can be taken, such as those that are measured, ``(units,)``; the lowest ones always
        can. Without it all can."""
        homes = [np.asarray(home, dtype=np.int64)]
        for depth in range(len(spine) - 1, 0, -1):
            starts = spine.children(spine.levels[depth])[:-1]
            low, high = np.minimum.reduceat(homes[0], starts), np.maximum.reduceat(homes[0], starts)
            homes.insert(0, np.where(low == high, low, NOWHERE))
        parts, taken = [], np.zeros(1, dtype=bool)
        for depth, (here, parent) in enumerate(zip(homes, spine.parent, strict=True)):
            above = taken[parent]
            whole = (here >= 0) & ~above
            if counts is not None and depth + 1 < len(spine):
                whole &= counts(spine.levels[depth])
            unit, taken = np.flatnonzero(whole), whole | above
            parts.append((here[unit], np.full(len(unit), depth), unit))
        place, level, unit = (np.concatenate(x) for x in zip(*parts, strict=True))
        order = np.argsort(place, kind="stable")
        return Cover(place[order], level[order], unit[order])

    def some(self, places: Ints) -> Cover:
        """The cover of some places, renumbered in the given order."""
        first, last = (np.searchsorted(self.place, places, side) for side in ("left", "right"))
        count = last - first
        here = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
        number = np.repeat(np.arange(len(places)), count)
        return Cover(number, self.depth[here], self.unit[here])

    def first(self, places: int) -> tuple[Ints, Ints]:
        """The level and the number of the first unit of each of ``places`` places, ``(places,)``
        each; -1 for a place without units."""
        there, at = np.unique(self.place, return_index=True)
        depth, unit = np.full(places, NOWHERE), np.full(places, NOWHERE)
        depth[there], unit[there] = self.depth[at], self.unit[at]
        return depth, unit


#: The fan-out of production: of n blocks of a tract that lie in the same areas at most isqrt(n) +
#: FANOUT + 1 are in one block group of an optimized spine.
FANOUT = 12


@dataclass(frozen=True, eq=False, repr=False)
class MeasuredSpine(Frozen):
    """``spine`` is the tree. ``place`` ``(lowest units,)``: of each of its lowest units the number
    of the lowest unit of the published spine that it is. ``last`` has for each level, root first,
    an array ``(units,)``: a unit at depth i is measured with the shares of the levels i to
    ``last``, and with none where that is -1 (:mod:`das.model.tabulation`); or it is empty, and all
    units of a level are measured alike. ``shares``: false where nobody says with which shares, of
    another publisher's measurements: then ``last`` is the unit's own depth, or less.
    ``regrouped``: whether a tree that is measured alike is not the published spine."""

    spine: Spine
    place: Ints
    last: tuple[NDArray[np.int8], ...] = ()
    shares: bool = True
    regrouped: bool = False

    def __post_init__(self) -> None:
        if len(self.place) != len(self.spine.codes[-1]):
            raise InputError(
                "lowest units and their places differ in number", where="measured spine"
            )
        if np.bincount(self.place).max(initial=0) > 1:
            raise InputError("two lowest units are one place", where="measured spine")
        if self.last and list(map(len, self.last)) != list(map(len, self.spine.codes)):
            raise InputError("units and their classes differ in number", where="measured spine")
        if self.shares:
            self._check_chains()

    def _check_chains(self) -> None:
        """A unit without a share is the only child of one whose chain goes on to it; any other
        begins a chain."""
        for depth, (above, here) in enumerate(pairwise(self.last), 1):
            parent = self.spine.parent[depth]
            reached = np.maximum(above, self._reached[depth - 1])[parent] >= depth
            single = np.bincount(parent)[parent] == 1
            strange = (here >= len(self.last)) | ((here >= 0) & (here < depth))
            if (reached != (here < depth)).any() or (reached & ~single).any() or strange.any():
                raise InputError(
                    "shares do not add up to 1 on every path",
                    where=f"measured spine, {self.spine.levels[depth]}",
                    remedy="only those of an only child go to its parent",
                )
        if self.last and (self.last[0] < 0).any():
            raise InputError("the root is not measured", where="measured spine")

    @cached_property
    def _reached(self) -> tuple[NDArray[np.int8], ...]:
        """How far down the chain goes that each unit is in."""
        out = [self.last[0]]
        for depth in range(1, len(self.last)):
            above = out[-1][self.spine.parent[depth]]
            out.append(np.where(above >= depth, above, self.last[depth]).astype(np.int8))
        return tuple(out)

    @staticmethod
    def from_published(spine: Spine) -> MeasuredSpine:
        """The published spine itself: each level is measured with its own share."""
        return MeasuredSpine(spine, np.arange(len(spine.codes[-1])))

    @staticmethod
    def of_measured(
        spine: Spine, measured: Sequence[NDArray[np.bool_]], place: Ints | None = None
    ) -> MeasuredSpine:
        """A tree of another publisher: ``measured`` says which units are measured, ``(units,)`` for
        each level, but not with what share. Without ``place`` it is the published spine itself."""
        if place is None and all(here.all() for here in measured):
            return MeasuredSpine.from_published(spine)
        last = tuple(
            np.where(here, depth, -1).astype(np.int8) for depth, here in enumerate(measured)
        )
        place = np.arange(len(spine.codes[-1])) if place is None else place
        return MeasuredSpine(spine, place, last, shares=False)

    @staticmethod
    def bypassed(spine: Spine, place: Ints) -> MeasuredSpine:
        """Each only child bypassed: from the lowest level up, its shares go to its parent."""
        last = [np.full(len(c), depth, dtype=np.int8) for depth, c in enumerate(spine.codes)]
        for depth in range(len(spine) - 1, 0, -1):
            parent = spine.parent[depth]
            only = np.flatnonzero(np.bincount(parent)[parent] == 1)
            last[depth - 1][parent[only]] = last[depth][only]
            last[depth][only] = -1
        return MeasuredSpine(spine, place, tuple(last))

    def without_bypass(self) -> MeasuredSpine:
        """The same tree, with every unit measured with its own level's share."""
        return MeasuredSpine(self.spine, self.place, regrouped=True)

    @property
    def ends(self) -> tuple[NDArray[np.int8], ...]:
        """``last``, also of a tree whose units are measured alike."""
        alike = (np.full(len(c), depth, dtype=np.int8) for depth, c in enumerate(self.spine.codes))
        return self.last or tuple(alike)

    def __repr__(self) -> str:
        some = [
            f"{level} {int(self.measured(level).sum()):,} of {self.spine.units(level):,}"
            for level in self.spine.levels
        ]
        return f"<MeasuredSpine: {', '.join(some)}>"

    def level_names(self) -> tuple[str, ...]:
        """The names of all levels, even of those that are cut off."""
        return self.spine.levels

    @property
    def alike(self) -> bool:
        """Whether all units of a level are measured alike."""
        return not self.last

    @property
    def is_published(self) -> bool:
        """Whether it is the published spine itself."""
        return self.alike and not self.regrouped

    def measured(self, level: str) -> NDArray[np.bool_]:
        """The units of a level that are measured, ``(units,)``."""
        depth = self.spine.index(level)
        return (
            np.ones(len(self.spine.codes[depth]), dtype=bool)
            if self.alike
            else self.last[depth] >= depth
        )

    def classes(self, level: str) -> Mapping[str, NDArray[np.bool_]]:
        """The classes of a level's units, each with a mask of its units ``(units,)``. The class of
        units that are not measured is last."""
        depth = self.spine.index(level)
        if self.alike:
            return {ALL: np.ones(len(self.spine.codes[depth]), dtype=bool)}
        if not self.shares:
            both = {
                tabulation.MEASURED: self.last[depth] == depth,
                tabulation.UNMEASURED: self.last[depth] != depth,
            }
            return {name: units for name, units in both.items() if units.any()}
        found = sorted(np.unique(self.last[depth]).tolist(), key=lambda end: (end < depth, end))
        return {
            tabulation.name(self.level_names(), depth, end): self.last[depth] == end
            for end in found
        }

    def home_units(self, level: str, published: Spine) -> Ints:
        """The published unit of a level that each unit of the tree's lies in, ``(units,)``;
        :data:`das.model.measured_spine.NOWHERE` where it lies in several."""
        if self.is_published:
            return np.arange(published.units(level))
        below = self.spine.up(self.spine.levels[-1], level)
        home = published.up(published.levels[-1], level)[self.place]
        first = np.searchsorted(below, np.arange(self.spine.units(level)))
        low, high = np.minimum.reduceat(home, first), np.maximum.reduceat(home, first)
        return np.where(low == high, low, NOWHERE)

    def truncated(self, level: str, published: Spine) -> MeasuredUpperTree:
        """The levels down to ``level``."""
        spine = self.spine.truncated(level)
        return MeasuredUpperTree(
            spine,
            self.home_units(level, published),
            self.last[: len(spine)],
            self.shares,
            self.regrouped,
            self.spine.levels,
        )

    def restricted(self, level: str, units: Ints, start: int, stop: int) -> MeasuredSpine:
        """Some units of ``level``, which increase, with what is above them and everything below:
        the part of this tree over the published lowest units ``start:stop``, which are numbered
        from there."""
        kept, spine = self.spine.kept(level, units), self.spine.restricted(level, units)
        place = self.place[kept[-1]] - start
        if len(place) and not (place.min() >= 0 and place.max() < stop - start):
            raise InputError(
                "a lowest unit lies outside of the part", where=f"measured spine, {level}"
            )
        last = tuple(x[here] for x, here in zip(self.last, kept, strict=False))
        return MeasuredSpine(spine, place, last, self.shares, self.regrouped)

    @cached_property
    def usual(self) -> UnitPath:
        """The most common class of measured units at each level that has any. If two are equally
        common, the plainer one."""
        out = []
        for level in self.spine.levels:
            sizes = {
                name: int(where.sum())
                for name, where in self.classes(level).items()
                if name != tabulation.UNMEASURED
            }
            out += [(level, max(sizes, key=sizes.__getitem__))] if sizes else []
        return tuple(out)

    @cached_property
    def places_on(self) -> Mapping[UnitPath, int]:
        """How many lowest units there are on each of the paths."""
        return dict(self._unit_classes)

    @cached_property
    def split(self) -> tuple[str, ...]:
        """The levels at which two units may be parts of one place: their codes differ in the first
        digit alone (:meth:`das.model.constraint.JointTotals.of_places`)."""
        if self.is_published:
            return ()
        return tuple(
            lv
            for lv, codes in zip(self.spine.levels[1:], self.spine.codes[1:], strict=True)
            if _alike(codes)
        )

    @cached_property
    def paths(self) -> tuple[UnitPath, ...]:
        """The classes on the way to a lowest unit: each way that there is, once."""
        return tuple(path for path, _ in self._unit_classes)

    @cached_property
    def _unit_classes(self) -> tuple[tuple[UnitPath, int], ...]:
        levels = self.spine.levels
        if self.alike:
            return ((tuple((level, ALL) for level in levels), len(self.place)),)
        key, base = (
            np.zeros(len(self.place), dtype=np.int64),
            len(levels) + 1,
        )  # a number a path, in its ends' order
        for depth, level in enumerate(levels):
            if key.max(initial=0) > np.iinfo(np.int64).max // base - 1:
                key = np.unique(key, return_inverse=True)[1]
            key = key * base + self.last[depth][self.spine.up(levels[-1], level)] + 1
        _, some, counts = np.unique(key, return_index=True, return_counts=True)
        rows = np.stack(
            [self.last[d][self.spine.up(levels[-1], lv)[some]] for d, lv in enumerate(levels)],
            axis=1,
        )
        return tuple(
            (tabulation.path(levels, row), n)
            for row, n in zip(rows.tolist(), counts.tolist(), strict=True)
        )

    def whole(self, level: str, published_level: str, published: Spine) -> NDArray[np.bool_]:
        """The units of a level that are made up of whole units of ``published_level``, ``(units,)``:
        a county in two branches makes up neither of its two units."""
        out = np.ones(self.spine.units(level), dtype=bool)
        if self.is_published:
            return out
        here = self.spine.up(self.spine.levels[-1], level)
        home = published.up(published.levels[-1], published_level)[self.place]
        places = published.units(published_level)
        unit, place = np.divmod(np.unique(here * places + home), places)
        out[unit[np.bincount(place)[place] > 1]] = False
        return out

    def numbers(self, places: Ints) -> Ints:
        """Which of the tree's lowest units each of some places is, -1 where it is none: the inverse
        of ``place``."""
        at = np.full(
            max(places.max(initial=-1), self.place.max(initial=-1)) + 1, -1, dtype=np.int64
        )
        at[self.place] = np.arange(len(self.place))
        return at[places]

    def published(self, lowest: Histogram, places: int) -> Histogram:
        """A histogram of the lowest units as one of the ``places`` of the published spine: nobody
        is where the tree has no unit."""
        return lowest.up(self.place, places)

    def of_published(self, lowest: Histogram) -> Histogram:
        """A histogram of the published lowest units as one of the tree's. Raises
        :class:`InputError` where somebody is outside of it."""
        unit = self.numbers(lowest.unit)
        if (unit < 0).any():
            raise InputError(
                "there are records in places without a housing unit or a facility, which the"
                " optimized spine leaves out",
                where="geography.spine",
                remedy='fix the input, or set geography.spine = "tabulation"',
            )
        return Histogram.from_triplets(
            len(self.place), lowest.cells, unit, lowest.cell, lowest.count
        )


@dataclass(frozen=True, eq=False, repr=False)
class MeasuredUpperTree(MeasuredSpine):
    """The upper levels of a measured tree, of whose levels ``every`` has the names. ``place`` is
    the published unit of the lowest of them that each of its units lies in; several may be in one,
    as the two branches of a county are."""

    every: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.place) != len(self.spine.codes[-1]):
            raise InputError(
                "lowest units and their places differ in number", where="measured upper tree"
            )

    def level_names(self) -> tuple[str, ...]:
        return self.every


def _alike(codes: NDArray[np.bytes_]) -> bool:
    """Whether two of these distinct codes differ only in the first digit."""
    digits = characters(codes)
    if digits.shape[1] == 1:
        return len(codes) > 1
    rest = np.ascontiguousarray(digits[:, 1:]).view(f"S{digits.shape[1] - 1}").ravel()
    most = digits[:, 0] == np.bincount(digits[:, 0]).argmax()
    few, many = np.sort(rest[~most]), rest[most]
    if (few[1:] == few[:-1]).any():
        return True
    if (many[1:] < many[:-1]).any():
        many = np.sort(many)
    return bool((many[np.minimum(np.searchsorted(many, few), len(many) - 1)] == few).any())


# What a plan and its account need from a measured tree: its classes of units, not the units.


@dataclass(frozen=True, eq=False)
class UnitClasses(Frozen):
    """``units``: how many units of each class each level has. ``places_on``: how many lowest units
    there are on each path; ``usual``: of each level that has measured units the class that most of
    them have; ``split``: the levels at which two units may be parts of one place
    (:class:`das.model.measured_spine.MeasuredSpine` has them all)."""

    units: Mapping[str, Mapping[str, int]]
    places_on: Mapping[UnitPath, int]
    usual: UnitPath
    split: tuple[str, ...]

    @staticmethod
    def from_tree(tree: MeasuredSpine) -> UnitClasses:
        units = {
            level: {name: int(here.sum()) for name, here in tree.classes(level).items()}
            for level in tree.spine.levels
        }
        return UnitClasses(units, dict(tree.places_on), tree.usual, tree.split)

    @property
    def paths(self) -> tuple[UnitPath, ...]:
        return tuple(self.places_on)


# A tree cut into an upper tree and subtrees, so that each part fits a small machine.
#
# The *upper tree* is the tree from its root down to one level. A *subtree* is some consecutive units
# of that level with one parent, and everything below them. It is responsible for the levels below the
# upper tree. Subtrees depend only on the geography. So everything made subtree by subtree (files,
# sums, noise) is the same for any number of workers and any sharing of the work. A tree that is small
# enough has no subtrees: it is all upper tree.
#
# A subtree by itself is an ordinary tree, with one root. It also has the units above it, which
# contain only the subtree (:meth:`das.model.spine.Spine.restricted`).

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
    def from_spine(
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
