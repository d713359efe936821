"""A tree of regions, level by level: what all measurements say together of each group, and how well
it is then known.

Most groups have a total alone that they share with others, and are numbers
(:mod:`das.publications.detailed.estimation.layers`). Where every member of a family has a table of an iteration, the family
adds up in the coarsest cells that all of them have; and regional groups of ethnicity are sums of
detailed ones: there states (:mod:`das.publications.detailed.estimation.layers`) take the place of numbers, family by family.

A nation is done in two parts, so that no more than a state is in memory: the tree of each state
says what it knows of the state (:meth:`Forest.above`); states meet in the nation; and what comes of
them goes down again (``top``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.fold import down, up
from das.publications.detailed.estimation import layers as joint
from das.publications.detailed.estimation import layers as tree
from das.publications.detailed.estimation.layers import Belief, KnownTotals, coarser
from das.publications.detailed.model.tables import AdaptiveTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: Columns that are one state: an iteration, or those of a sum.
Bundle = tuple[int, ...]


class Tier(Protocol):
    """Regions of one type, as a tree sees them (:class:`das.publications.detailed.estimation.layers.Layer`)."""

    @property
    def measured(self) -> NDArray[np.bool_]: ...
    @property
    def node_size(self) -> NDArray[np.int8]: ...
    @property
    def several(self) -> NDArray[np.bool_]: ...
    @property
    def total(self) -> KnownTotals: ...
    @property
    def table(self) -> AdaptiveTable: ...
    def state(self, row: int, column: int) -> Belief: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Above:
    """What a tree says of its roots: of each iteration, and of the ``states`` that are asked for,
    by root and bundle."""

    known: KnownTotals
    states: Mapping[tuple[int, Bundle], Belief] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Outline:
    """The lowest regions of a tree if only other trees have measurements of them
    (:class:`Above`)."""

    measured: NDArray[np.bool_]
    node_size: NDArray[np.int8]
    table: AdaptiveTable
    said: Above

    @property
    def several(self) -> NDArray[np.bool_]:
        return np.zeros(self.node_size.shape, dtype=bool)

    @property
    def total(self) -> KnownTotals:
        return self.said.known

    def state(self, row: int, column: int) -> Belief:
        raise KeyError(f"nothing was said of {row}, {column}")

    def __len__(self) -> int:
        return len(self.node_size)


class Forest:
    """``layers`` from the roots down; ``parents[i]`` of each region of layer i + 1 in layer i, in
    order. ``sums`` are the columns of a whole and of its parts, and ``bundles`` those of sums that
    have some in common."""

    def __init__(
        self,
        layers: Sequence[Tier],
        parents: Sequence[Ints],
        sums: Sequence[tuple[int, tuple[int, ...]]] = (),
        bundles: Sequence[Bundle] = (),
    ) -> None:
        self.layers, self.parents, self.sums, self.bundles = layers, parents, sums, bundles
        self._bundled = np.zeros(layers[0].node_size.shape[1], dtype=bool)
        for bundle in bundles:
            self._bundled[list(bundle)] = True
        self._up: dict[tuple[int, int, Bundle], Belief] = {}
        self._down: dict[tuple[int, int, Bundle], Belief] = {}
        self._sums: dict[tuple[int, int, Bundle], Belief] = {}
        self.family = [
            _common(layers[i], layers[i + 1], parent) for i, parent in enumerate(parents)
        ]
        self._rise()

    # --- up

    def _rise(self) -> None:
        lowest = len(self.layers) - 1
        if isinstance(said := self.layers[lowest], Outline):
            self._up |= {(lowest, r, b): s for (r, b), s in said.said.states.items()}
        self.up: dict[int, KnownTotals] = {}
        self.under: dict[int, KnownTotals] = {}
        for at, known, _ in up(self, None, lowest):
            self.up[at] = known

    def condition(self, tier: int, told: KnownTotals | None) -> KnownTotals:
        """The totals of a layer, with what its children say (:class:`das.fold.Up`)."""
        if told is None:
            return self.layers[tier].total
        self.under[tier] = told
        known = tree.met(self.layers[tier].total, told)
        states = [(r, b, self.state(tier, r, b)) for r, b in self._jointly(tier)]
        return self._overruled(known, tier, states)

    def combine(self, tier: int, known: KnownTotals) -> KnownTotals:
        return tree.added(known, self.parents[tier - 1], len(self.layers[tier - 1]))

    def _jointly(self, at: int) -> Iterator[tuple[int, Bundle]]:
        """The families of a layer that are states: the parent, and the columns."""
        yield from ((row, bundle) for row in range(len(self.layers[at])) for bundle in self.bundles)
        rows, columns = np.nonzero((self.family[at] > 0) & ~self._bundled)
        yield from ((r, (c,)) for r, c in zip(rows.tolist(), columns.tolist(), strict=True))

    def state(self, at: int, row: int, bundle: Bundle) -> Belief:
        """What a region and all below it say of it."""
        key = at, row, bundle
        if key not in self._up:
            layer = self.layers[at]
            own = joint.beside([layer.state(row, c) for c in self._there(at, bundle)])
            whole = self._wholes(at, row, bundle)
            own = joint.condition(own, whole, joint.exactly(len(whole)))
            if at in self.under:
                own = self._with_children(own, key, self.under[at])
            self._up[key] = own
        return self._up[key]

    def _with_children(
        self, own: Belief, key: tuple[int, int, Bundle], under: KnownTotals
    ) -> Belief:
        at, row, bundle = key
        if len(bundle) > 1 or self.family[at][row, bundle[0]] > 0:
            return joint.condition(
                own, self._shared(at, row, bundle, at, row), self._children(at, row, bundle)
            )
        work = under.work[row, bundle[0]]
        if not np.isfinite(work) or not work:  # there is nothing below, or nothing was measured
            return own
        return joint.condition(own, np.ones((1, len(own))), _number(under, row, bundle[0]))

    def _children(self, at: int, row: int, bundle: Bundle) -> Belief:
        """What the children of a region say of it together."""
        key = at, row, bundle
        if key not in self._sums:
            self._sums[key] = joint.added_cells(
                [
                    self.state(at + 1, c, bundle).seen(self._shared(at, row, bundle, at + 1, c))
                    for c in self._members(at, row)
                ]
            )
        return self._sums[key]

    def _members(self, at: int, row: int) -> list[int]:
        first, last = np.searchsorted(self.parents[at], [row, row + 1])
        return list(range(int(first), int(last)))

    # --- what a state is made of

    def _there(self, at: int, bundle: Bundle) -> list[int]:
        return [c for c in bundle if self.layers[at].measured[c]]

    def places(self, at: int, row: int, bundle: Bundle) -> tuple[dict[int, slice], int]:
        """Where the cells of each column are in the state of a region, and how many there are."""
        layer, start = self.layers[at], 0
        out = {}
        for c in self._there(at, bundle):
            width = layer.table.answers[layer.node_size[row, c]]
            out[c] = slice(start, start + width)
            start += width
        return out, start

    def _shared(self, at: int, row: int, bundle: Bundle, below: int, member: int) -> Floats:
        """What the family of a region adds up, as linear forms of the state of one of its
        members."""
        layer, (where, width) = self.layers[below], self.places(below, member, bundle)
        out = [np.zeros((0, width))]
        for c in bundle:
            if self.layers[at].measured[c] and self.layers[at + 1].measured[c]:
                size = max(int(self.family[at][row, c]), 0)
                rows = np.zeros((layer.table.answers[size], width))
                rows[:, where[c]] = coarser(layer.table, int(layer.node_size[member, c]), size)
                out.append(rows)
        return np.concatenate(out)

    def _wholes(self, at: int, row: int, bundle: Bundle) -> Floats:
        """The sums of detailed groups, less the regional ones: forms that are 0."""
        where, width = self.places(at, row, bundle)
        out = [np.zeros((0, width))]
        for whole, parts in self.sums:
            if {whole, *parts} <= set(where):
                form = np.zeros((1, width))
                form[0, where[whole]] = -1
                for part in parts:
                    form[0, where[part]] = 1
                out.append(form)
        return np.concatenate(out)

    def above(self, bundles: Iterable[Bundle] = ()) -> Above:
        """What is known of the roots, and their states of some bundles."""
        roots = range(len(self.layers[0]))
        return Above(self.up[0], {(r, b): self.state(0, r, b) for b in bundles for r in roots})

    # --- down

    def fall(self, top: Above | None = None) -> None:
        """With what is known of the roots in the end (of all there is, if nothing is said)."""
        at_top = self.above(self.bundles) if top is None else top
        self.final = [at_top.known]
        self._down |= {(0, r, b): s for (r, b), s in at_top.states.items()}
        self.final[0] = self._overruled(
            at_top.known, 0, [(r, b, s) for (r, b), s in at_top.states.items()]
        )
        for _, found in down(self, self.final[0], 1, len(self.parents)):
            self.final.append(found)
        for at, layer in enumerate(self.layers):
            for row, c in np.argwhere(layer.several & ~self._bundled).tolist():
                self.joint(at, row, (c,))

    def restrict(self, tier: int, above: KnownTotals) -> KnownTotals:
        """The totals of a layer in the end (:class:`das.fold.Down`)."""
        at = tier - 1
        known = tree.shared(self.up[tier], self.under[at], above, self.parents[at])
        told = [(c, b, s) for row, b in self._jointly(at) for c, s in self._fallen(at, row, b)]
        return self._overruled(known, tier, told)

    def _fallen(self, at: int, row: int, bundle: Bundle) -> Iterator[tuple[int, Belief]]:
        sums = self._children(at, row, bundle)
        final = self.joint(at, row, bundle).seen(self._shared(at, row, bundle, at, row))
        for c in self._members(at, row):
            out = joint.shared_cells(
                self.state(at + 1, c, bundle), self._shared(at, row, bundle, at + 1, c), sums, final
            )
            self._down[at + 1, c, bundle] = out
            yield c, out

    def joint(self, at: int, row: int, bundle: Bundle) -> Belief:
        """The state of a region in the end."""
        key = at, row, bundle
        if key not in self._down:
            own = self.state(at, row, bundle)
            ones = np.ones((1, len(own)))
            self._down[key] = joint.shared_cells(
                own, ones, own.seen(ones), _number(self.final[at], row, bundle[0])
            )
        return self._down[key]

    def joints(self, at: int) -> Iterator[tuple[int, int, Belief]]:
        """The row, the column, and the cells of the node's table, wherever they are not what the
        total makes of the region's own."""
        layer = self.layers[at]
        for level, row, bundle in list(self._down):
            if level == at:
                where, _ = self.places(at, row, bundle)
                state = self._down[level, row, bundle]
                for c, here in where.items():
                    if layer.node_size[row, c] > 0:
                        yield (
                            row,
                            c,
                            Belief(
                                state.mean[here], state.work[here, here], state.true[here, here]
                            ),
                        )

    def fallen(self, at: int) -> Iterator[tuple[tuple[int, Bundle], Belief]]:
        """The states of a layer in the end, by row and bundle."""
        yield from (
            ((row, bundle), state)
            for (level, row, bundle), state in self._down.items()
            if level == at
        )

    def _overruled(
        self, known: KnownTotals, at: int, told: Sequence[tuple[int, Bundle, Belief]]
    ) -> KnownTotals:
        """Totals, where states know better."""
        if not told:
            return known
        value, work, true = (np.array(x) for x in (known.value, known.work, known.true))
        for row, bundle, state in told:
            for c, here in self.places(at, row, bundle)[0].items():
                value[row, c], work[row, c], true[row, c] = (
                    state.mean[here].sum(),
                    state.work[here, here].sum(),
                    state.true[here, here].sum(),
                )
        return KnownTotals(value, work, true)


def _number(known: KnownTotals, row: int, column: int) -> Belief:
    value, work, true = (x[row, column] for x in (known.value, known.work, known.true))
    return Belief(np.array([value]), np.array([[work]]), np.array([[true]]))


def _common(parents: Tier, children: Tier, parent: Ints) -> NDArray[np.int8]:
    """The coarsest size of a table in each family, -1 where somebody is not measured."""
    first = np.flatnonzero(np.diff(parent, prepend=-1))
    out = np.full(parents.node_size.shape, -1, dtype=np.int8)
    out[parent[first]] = np.minimum.reduceat(children.node_size, first, axis=0)
    return np.minimum(out, parents.node_size)
