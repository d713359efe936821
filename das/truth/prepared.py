"""What measuring needs of an input: its counts, and the public structure that they stand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from das.errors import InputError
from das.geography.known import told_to
from das.model.areas import Areas
from das.model.closed import Closed
from das.model.confidential import Confidential
from das.model.constraint import Constraint
from das.model.histogram import Histogram
from das.model.measured_spine import Ints, MeasuredSpine
from das.model.records import Source
from das.model.shards import LARGEST, Shards
from das.model.spine import Spine
from das.truth.histogram import over, upward

TrueHistograms = Mapping[str, Confidential[Histogram]]


@dataclass(frozen=True, repr=False)
class Prepared(Closed):
    """The input as histograms, with its public structure: all that measuring needs, at any budget.

    ``spine`` and ``lowest`` (the counts of its lowest units, by universe) are of what is published. ``trees`` are what is
    measured, by universe: the same, unless the spine is optimised. ``assigned``, by universe: see ``Extract.assigned``.
    """

    spine: Spine
    lowest: Mapping[str, Confidential[Histogram]]
    trees: Mapping[str, MeasuredSpine]
    constraints: Mapping[str, tuple[Constraint, ...]]
    sources: tuple[Source, ...]
    notes: tuple[str, ...]
    areas: tuple[Areas, ...] = ()  #: off the spine
    assigned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def shards(self) -> Shards:
        """None where totals are known further down than a tree would be cut, beside bounds on dwellings: of these no sum tells
        the trunk enough (:mod:`das.geography.known`)."""
        shards, levels = Shards.of(self.spine, self.trees.values(), largest=LARGEST), self.spine.levels
        for known in self.constraints.values():
            totals = [c.level for c in known if c.query == "total" and c.sign == "="]
            limited = any(c.sign != "=" for c in known)
            if told_to(levels, shards.level, totals, limited=limited) != shards.level:
                return Shards.none(self.spine)
        return shards

    @cached_property
    def truth(self) -> Mapping[str, TrueHistograms]:
        """The counts of every level of the published spine."""
        return {name: upward(h, self.spine) for name, h in self.lowest.items()}

    @cached_property
    def measured(self) -> Mapping[str, TrueHistograms]:
        """The counts of every level of what is measured."""
        return {name: self.truth[name] if tree.alike else over(tree, self.lowest[name])
                for name, tree in self.trees.items()}  # fmt: skip


def joined(parts: Sequence[Prepared]) -> Prepared:
    """Parts of one input that have nothing but the root of their trees in common: such as states.

    Which units are only children is found anew: the root has more than one child now. Raises :class:`InputError` where a
    place is in two parts."""
    parts = sorted(parts, key=lambda p: bytes(p.spine.codes[min(1, len(p.spine) - 1)][0]))
    spine, at = Spine.joined([p.spine for p in parts])
    lowest = [places[-1] for places in at]
    trees, at_tree = {}, {}
    for name in parts[0].trees:
        of_parts = [p.trees[name] for p in parts]
        if of_parts[0].alike:
            trees[name], at_tree[name] = MeasuredSpine.of(spine), at
        else:
            tree, at_tree[name] = Spine.joined([t.spine for t in of_parts])
            place = np.empty(len(tree.codes[-1]), dtype=np.int64)
            for t, here, there in zip(of_parts, at_tree[name], lowest, strict=True):
                place[here[-1]] = there[t.place]
            trees[name] = MeasuredSpine.bypassed(tree, place)
    first = parts[0]
    return Prepared(
        spine,
        {name: _together([p.lowest[name] for p in parts], lowest) for name in first.lowest},
        trees,
        {
            name: _constraints([p.constraints[name] for p in parts], trees[name], at_tree[name])
            for name in first.constraints
        },
        tuple(s for p in parts for s in p.sources),
        tuple(dict.fromkeys(note for p in parts for note in p.notes)),
        Areas.joined([p.areas for p in parts], lowest),
        first.assigned,
    )


def _together(parts: Sequence[Confidential[Histogram]], at: Sequence[Ints]) -> Confidential[Histogram]:
    """Counts of lowest units that follow each other."""
    if any(len(here) and here[-1] - here[0] + 1 != len(here) for here in at):
        raise InputError("the places of one part of the input lie among those of another", where="data.path",
                         remedy="give both in one file")  # fmt: skip
    return Confidential(Histogram.concatenate([p.open("to put the parts of the input together") for p in parts]))


def _constraints(
    parts: Sequence[Sequence[Constraint]], tree: MeasuredSpine, at: Sequence[Sequence[Ints]]
) -> tuple[Constraint, ...]:
    """Of a unit that is in several parts, the root, what is known is the sum."""
    out = []
    for same in zip(*parts, strict=True):
        depth = tree.spine.index(same[0].level)
        bound = np.zeros((len(tree.spine.codes[depth]), same[0].bound.shape[1]), dtype=np.int64)
        for c, places in zip(same, at, strict=True):
            bound[places[depth]] += c.bound
        names = {c.name for c in same}
        if len(names) > 1 and names != {"total", "joint_total"}:
            raise InputError("the parts of the input have other constraints", where="constraints")
        name = "joint_total" if "joint_total" in names else same[0].name
        out.append(Constraint(name, same[0].level, same[0].query, same[0].sign, bound, same[0].says))
    return tuple(out)
