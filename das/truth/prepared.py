"""What measuring needs from an input: its counts and its public structure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.geography.invariants import lowest_level_for
from das.model.areas import Areas
from das.model.confidential import Confidential
from das.model.constraint import Constraint
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.measured_spine import LARGEST, Ints, MeasuredSpine, Subtrees
from das.model.records import Records
from das.model.source import Source
from das.model.spine import Spine

# Records to histograms, level by level, inside the confidential boundary.


def lowest_histogram(
    records: Confidential[Records], unit_of_block: NDArray[np.int64], spine: Spine
) -> Confidential[Histogram]:
    """Counts at the lowest level; ``unit_of_block`` gives each block's unit there. It sorts the
    records once. The result is sparse: memory grows with the number of positive cells."""
    r = records.open("to count records by unit and cell")
    units = spine.units(spine.levels[-1])
    return Confidential(
        Histogram.from_triplets(units, r.schema.cells, unit_of_block[r.block], r.cell, r.count)
    )


def histograms(
    records: Confidential[Records], unit_of_block: NDArray[np.int64], spine: Spine
) -> dict[str, Confidential[Histogram]]:
    """Counts at every level, root first: each level adds up the one below it."""
    return upward(lowest_histogram(records, unit_of_block, spine), spine)


def upward(lowest: Confidential[Histogram], spine: Spine) -> dict[str, Confidential[Histogram]]:
    """The histograms of all levels, root first, from the histogram of the lowest level."""
    levels = lowest.open("to add it up the spine").upward(spine)
    return {level: Confidential(h) for level, h in levels.items()} | {spine.levels[-1]: lowest}


def over(
    tree: MeasuredSpine, lowest: Confidential[Histogram]
) -> dict[str, Confidential[Histogram]]:
    """The histograms of all levels of a measured spine, root first, from the histogram of the
    lowest published level. Raises :class:`InputError` if somebody is outside the tree."""
    return upward(
        Confidential(tree.of_published(lowest.open("to count it over the measured spine"))),
        tree.spine,
    )


TrueHistograms = Mapping[str, Confidential[Histogram]]


@dataclass(frozen=True, eq=False, repr=False)
class PreparedParts(NoRepr):
    """The counts of several parts of an input that is too large to copy. ``lowest`` has, by
    universe, the counts of each part's lowest units, in order. ``constraints`` has what is
    published exactly of each part. ``at`` maps each part's units to those of the whole measured
    tree, level by level."""

    lowest: Mapping[str, tuple[Confidential[Histogram], ...]]
    constraints: Mapping[str, tuple[tuple[Constraint, ...], ...]]
    at: Mapping[str, Sequence[Sequence[Ints]]]

    def rows(self, universe: str, start: int, stop: int) -> Confidential[Histogram]:
        """The counts of the lowest units ``start:stop``."""
        first, found = 0, []
        for counts in self.lowest[universe]:
            h = counts.open("a part of what was counted")
            a, b = max(start - first, 0), min(stop - first, h.units)
            if a < b:
                found.append(h.rows(a, b))
            first += h.units
        return Confidential(found[0] if len(found) == 1 else Histogram.concatenate(found))

    def stated(
        self, universe: str, tree: Spine, kept: Sequence[Ints], levels: Collection[str]
    ) -> list[Constraint]:
        """What is published exactly of some units of the whole measured tree. ``kept`` lists the
        units by level."""
        depths = {level: tree.index(level) for level in levels}
        return [
            _constraint(
                same,
                kept[depths[same[0].level]],
                [at[depths[same[0].level]] for at in self.at[universe]],
            )
            for same in zip(*self.constraints[universe], strict=True)
            if same[0].level in levels
        ]


@dataclass(frozen=True, repr=False)
class Prepared(NoRepr):
    """The input as histograms, with its public structure: all that measuring needs, at any budget.

    ``spine`` is the published spine, and ``lowest`` has the counts of its lowest units, by
    universe. ``trees`` are the measured trees, by universe: the same, unless the spine is
    optimized. ``assigned``, by universe: see ``Extract.assigned``. If the counts are ``in_parts``,
    ``lowest`` and the bounds of ``constraints`` are empty; use :meth:`rows`, :meth:`stated` and
    :meth:`stated_of`."""

    spine: Spine
    lowest: Mapping[str, Confidential[Histogram]]
    trees: Mapping[str, MeasuredSpine]
    constraints: Mapping[str, tuple[Constraint, ...]]
    sources: tuple[Source, ...]
    areas: tuple[Areas, ...] = ()  #: off the spine
    assigned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    in_parts: PreparedParts | None = None

    def rows(self, universe: str, start: int, stop: int) -> Confidential[Histogram]:
        """The counts of the published lowest units ``start:stop``."""
        if self.in_parts is not None:
            return self.in_parts.rows(universe, start, stop)
        return Confidential(
            self.lowest[universe].open("a part of what was counted").rows(start, stop)
        )

    def stated(self, universe: str, levels: Collection[str]) -> list[Constraint]:
        """What is published exactly of all units of some levels."""
        spine = self.trees[universe].spine
        return self.stated_of(universe, [np.arange(len(codes)) for codes in spine.codes], levels)

    def stated_of(
        self, universe: str, kept: Sequence[Ints], levels: Collection[str]
    ) -> list[Constraint]:
        """What is published exactly of some units of the measured tree: ``kept``, by level."""
        spine = self.trees[universe].spine
        if self.in_parts is not None:
            return self.in_parts.stated(universe, spine, kept, levels)
        return [
            replace(c, bound=c.bound[kept[spine.index(c.level)]])
            for c in self.constraints[universe]
            if c.level in levels
        ]

    def whole(self) -> Prepared:
        """The same input with all parts joined."""
        if self.in_parts is None:
            return self
        units = len(self.spine.codes[-1])
        counts = {u: self.rows(u, 0, units) for u in self.trees}
        stated = {u: tuple(self.stated(u, self.spine.levels)) for u in self.trees}
        return replace(self, lowest=counts, constraints=stated, in_parts=None)

    @cached_property
    def subtrees(self) -> Subtrees:
        """How the tree is cut. It is not cut where totals are exact below the level of the cut and
        dwellings have bounds: then sums do not tell the upper tree enough
        (:mod:`das.geography.invariants`)."""
        subtrees = Subtrees.from_spine(self.spine, self.trees.values(), largest=LARGEST)
        levels = self.spine.levels
        for known in self.constraints.values():
            totals = [c.level for c in known if c.query == "total" and c.sign == "="]
            limited = any(c.sign != "=" for c in known)
            if lowest_level_for(levels, subtrees.level, totals, limited=limited) != subtrees.level:
                return Subtrees.none(self.spine)
        return subtrees

    @cached_property
    def truth(self) -> Mapping[str, TrueHistograms]:
        """The counts of every level of the published spine."""
        return {name: upward(h, self.spine) for name, h in self.lowest.items()}

    @cached_property
    def measured(self) -> Mapping[str, TrueHistograms]:
        """The counts of every level of what is measured."""
        return {
            name: self.truth[name] if tree.alike else over(tree, self.lowest[name])
            for name, tree in self.trees.items()
        }


def joined(parts: list[Prepared]) -> Prepared:
    """Joins parts of one input, such as states, that share only the root of their trees. It empties
    the list ``parts``, so that memory does not hold the counts twice.

    It finds again which units are only children, because the root now has more than one child.
    Raises :class:`InputError` if a place is in two parts."""
    given = sorted(parts, key=lambda p: bytes(p.spine.codes[min(1, len(p.spine) - 1)][0]))
    parts.clear()
    first = given[0]
    sources = tuple(s for p in given for s in p.sources)
    universes, assigned = tuple(first.trees), first.assigned
    counts = {u: tuple(p.lowest[u] for p in given) for u in universes}
    known = {u: tuple(p.constraints[u] for p in given) for u in universes}
    areas, spines = [p.areas for p in given], [p.spine for p in given]
    of_parts = {u: None if first.trees[u].alike else [p.trees[u] for p in given] for u in universes}
    del given, first
    spine, at = Spine.joined(spines)
    spines.clear()
    lowest = [places[-1] for places in at]
    _check_disjoint(lowest)
    trees, at_tree = {}, {}
    for u in universes:
        trees[u], at_tree[u] = (
            (MeasuredSpine.from_published(spine), at)
            if (own := of_parts.pop(u)) is None
            else _tree(own, lowest)
        )
    apart = PreparedParts(counts, known, at_tree)
    kinds = Areas.joined(areas, lowest)
    whole = Prepared(
        spine,
        {},
        trees,
        {u: tuple(_unbound(same) for same in zip(*known[u], strict=True)) for u in universes},
        sources,
        kinds,
        assigned,
        apart,
    )
    return whole if len(spine.codes[-1]) > LARGEST else whole.whole()


def _tree(
    parts: list[MeasuredSpine], lowest: Sequence[Ints]
) -> tuple[MeasuredSpine, list[list[Ints]]]:
    tree, at = Spine.joined([t.spine for t in parts])
    place = np.empty(len(tree.codes[-1]), dtype=np.int64)
    for t, here, there in zip(parts, at, lowest, strict=True):
        place[here[-1]] = there[t.place]
    return MeasuredSpine.bypassed(tree, place), at


def _check_disjoint(at: Sequence[Ints]) -> None:
    """Check that the lowest units of each part are consecutive."""
    if any(len(here) and here[-1] - here[0] + 1 != len(here) for here in at):
        raise InputError(
            "the places of one part of the input lie among those of another",
            where="data.path",
            remedy="give both in one file",
        )


def _unbound(same: Sequence[Constraint]) -> Constraint:
    """The joint form of one constraint of several parts, without any unit."""
    names = {c.name for c in same}
    if len(names) > 1 and names != {"total", "joint_total"}:
        raise InputError("the parts of the input have other constraints", where="constraints")
    name = "joint_total" if "joint_total" in names else same[0].name
    return replace(same[0], name=name, bound=same[0].bound[:0])


def _constraint(same: Sequence[Constraint], kept: Ints, at: Sequence[Ints]) -> Constraint:
    """One constraint of several parts, for the units ``kept`` of its level; ``at`` lists the units
    of each part. The root is a unit of every part: its bound is the sum of theirs."""
    bound = np.zeros((len(kept), same[0].bound.shape[1]), dtype=np.int64)
    for c, here in zip(same, at, strict=True):
        own = np.minimum(np.searchsorted(here, kept), len(here) - 1)
        there = here[own] == kept
        bound[there] += c.bound[own[there]]
    return replace(_unbound(same), bound=bound)
