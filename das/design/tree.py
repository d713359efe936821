r"""A tree without its only children, each unit with the coordinates that it has.

A unit whose only sibling-less child holds the same people is one *node* with it: what is measured
of either is measured of both. So is a unit whose other children can hold nobody. Every inner node
then has two children or more. Nodes without children that have the same coordinates and are
measured alike are one *kind*: of 25,000 blocks there are dozens, over all that structures allow.

Square matrices of the nodes lie one after another in flat arrays ``(contrasts, entries)``, those of
one depth and size together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.fold import Tiers

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Stack:
    """Nodes ``first:stop`` of one depth with ``size`` coordinates each; their entries begin at
    ``start``."""

    depth: int
    size: int
    first: int
    stop: int
    start: int

    def view(self, flat: NDArray[Any]) -> NDArray[Any]:
        """Their matrices ``(..., nodes, size, size)`` of a flat array ``(..., entries)``."""
        n = self.stop - self.first
        return flat[..., self.start : self.start + n * self.size**2].reshape(
            *flat.shape[:-1], n, self.size, self.size
        )


@dataclass(frozen=True, eq=False)
class Placement:
    """Some nodes: their coordinates, those of node i from ``indptr[i]``; ``levels`` ``(nodes,
    levels)`` which they are units of; ``classes`` ``(nodes, classes)`` as what they are measured;
    ``known`` ``(nodes,)``, whether their totals are."""

    indptr: Ints
    coordinate: Ints
    levels: NDArray[np.bool_]
    classes: NDArray[np.bool_]
    known: NDArray[np.bool_]
    groups: tuple[Stack, ...]

    @cached_property
    def size(self) -> Ints:
        return np.diff(self.indptr)

    @cached_property
    def start(self) -> Ints:
        """Where the entries of each node begin, and where they end, ``(nodes + 1,)``."""
        return np.concatenate([[0], np.cumsum(self.size**2)])

    def rows(self) -> tuple[Ints, Ints]:
        """For each entry, the places in ``coordinate`` of its row and of its column."""
        size = np.repeat(self.size, self.size**2)
        within = np.arange(self.start[-1]) - np.repeat(self.start[:-1], self.size**2)
        base = np.repeat(self.indptr[:-1], self.size**2)
        row, column = np.divmod(within, size)
        return base + row, base + column


@dataclass(frozen=True, eq=False)
class Tree:
    """``inner`` nodes, the root first, and ``leaves``, one of each kind.

    ``parent`` ``(inner,)``; ``into`` ``(inner entries,)`` is the place of each entry in the
    parent's matrix. Edges go from kinds to inner nodes: ``kind``, ``home``, and ``count``, the
    number of the node's children of the kind, in the order of the kinds. ``edge_into`` is the place
    of their entries in the matrix of the home. ``node`` of each tier ``(units,)`` is the inner node
    of a unit, or -1 - its kind, or ``NOBODY``."""

    inner: Placement
    leaves: Placement
    parent: Ints
    into: Ints
    kind: Ints
    home: Ints
    count: Ints
    edge_into: Ints
    node: tuple[Ints, ...]
    units: Mapping[str, int]

    def bytes(self, contrasts: int) -> float:
        """The memory of a search over this many contrasts at once."""
        return held_bytes(int(self.inner.start[-1]), len(self.edge_into), contrasts)

    def edges(self, group: Stack) -> slice:
        """The edges from the kinds of a group."""
        a, b = np.searchsorted(self.kind, [group.first, group.stop])
        return slice(int(a), int(b))

    @cached_property
    def settled(self) -> NDArray[np.bool_]:
        """The inner nodes of all of whose children the totals are known."""
        out = np.ones(len(self.parent), dtype=bool)
        np.logical_and.at(out, self.parent[1:], self.inner.known[1:])
        np.logical_and.at(out, self.home, self.leaves.known[self.kind])
        return out

    @cached_property
    def edge_entries(self) -> tuple[Ints, Ints]:
        """For each entry of the edges, the entry of its kind, and the edge."""
        length = self.leaves.size[self.kind] ** 2
        edge = np.repeat(np.arange(len(self.kind)), length)
        first = np.concatenate([[0], np.cumsum(length)])[:-1]
        return self.leaves.start[self.kind][edge] + np.arange(length.sum()) - first[edge], edge

    @cached_property
    def counts(self) -> Array:
        """How many children each entry of the edges is of."""
        return self.count[self.edge_entries[1]].astype(float)

    @cached_property
    def children(self) -> Array:
        """How many leaves there are of each kind."""
        return np.bincount(self.kind, weights=self.count, minlength=len(self.leaves.size)).astype(
            float
        )


def held_bytes(inner: int, edges: int, contrasts: int) -> float:
    """The bytes for the entries of the matrices of inner nodes and of edges: indices, and the
    arrays of each contrast, as measured."""
    return inner * (_INDEX + 8.0 * _INNER * contrasts) + edges * (_INDEX + 8.0 * _EDGE * contrasts)


#: Bytes of the indices of an entry; and how many arrays of a contrast there are at once, of inner
#: nodes and of edges.
_INDEX, _INNER, _EDGE = 40.0, 10.0, 7.0

#: The node of a unit that can hold nobody.
NOBODY = np.iinfo(np.int64).min


@dataclass
class _Growing:
    """Nodes while the tree is built, each with its parent, depth, top (tier and unit), and what it
    is."""

    parent: Ints
    depth: Ints
    tier: Ints
    unit: Ints
    levels: NDArray[np.bool_]
    classes: NDArray[np.bool_]
    known: NDArray[np.bool_]

    @staticmethod
    def empty(levels: int, classes: int) -> _Growing:
        none = np.zeros(0, dtype=np.int64)
        return _Growing(
            none,
            none,
            none,
            none,
            np.zeros((0, levels), bool),
            np.zeros((0, classes), bool),
            np.zeros(0, bool),
        )

    def add(self, parent: Ints, tier: int, unit: Ints) -> Ints:
        """Nodes for some units; their numbers."""
        n, old = len(unit), len(self.parent)
        depth = self.depth[parent] + 1 if old else np.zeros(n, dtype=np.int64)
        self.parent, self.depth = (
            np.concatenate([self.parent, parent]),
            np.concatenate([self.depth, depth]),
        )
        self.tier, self.unit = (
            np.concatenate([self.tier, np.full(n, tier)]),
            np.concatenate([self.unit, unit]),
        )
        self.levels = np.concatenate([self.levels, np.zeros((n, self.levels.shape[1]), bool)])
        self.classes = np.concatenate([self.classes, np.zeros((n, self.classes.shape[1]), bool)])
        self.known = np.concatenate([self.known, np.zeros(n, bool)])
        return old + np.arange(n)


def grow(
    tiers: Tiers,
    of_class: Sequence[Ints],
    classes: int,
    unit: Ints,
    coordinate: Ints,
    size: int,
    room: float = np.inf,
) -> Tree:
    """``of_class``: of each tier the class of each unit, -1 where it is not measured. Lowest unit
    ``unit[i]`` has the ``coordinate[i]`` of ``size``. Raises :class:`InputError` where a search
    would hold more than ``room`` bytes."""
    keys = _upward(tiers, unit, coordinate, size)
    names = [name for name in tiers.level if name]
    found = _Growing.empty(len(names), classes)
    node: list[Ints] = []
    for tier, key in enumerate(keys):
        here = np.unique(key // size)
        at = np.full(len(tiers.parents[tier]), -1, dtype=np.int64)
        up = node[-1][tiers.parents[tier][here]] if tier else np.zeros(len(here), dtype=np.int64)
        siblings = (
            np.bincount(tiers.parents[tier][here], minlength=1) if tier else np.array([len(here)])
        )
        alone = (
            siblings[tiers.parents[tier][here]] == 1 if tier else np.zeros(len(here), dtype=bool)
        )
        at[here[alone]] = up[alone]
        at[here[~alone]] = found.add(up[~alone], tier, here[~alone])
        some = at[here]
        if tiers.level[tier]:
            found.levels[some, names.index(tiers.level[tier])] = True
        measured = of_class[tier][here] >= 0
        found.classes[some[measured], of_class[tier][here][measured]] = True
        if tiers.total[tier] is not None:
            found.known[some] = True
        node.append(at)
    units = {name: len(p) for name, p in zip(tiers.level, tiers.parents, strict=True) if name}
    return _laid_out(found, keys, size, node, units, room)


def _upward(tiers: Tiers, unit: Ints, coordinate: Ints, size: int) -> list[Ints]:
    """Tier, unit and coordinate in one sorted number, for each tier."""
    keys = [np.unique(unit * size + coordinate)]
    for parent in tiers.parents[:0:-1]:
        keys.append(np.unique(parent[keys[-1] // size] * size + keys[-1] % size))
    return keys[::-1]


def _laid_out(
    growing: _Growing,
    keys: Sequence[Ints],
    size: int,
    node: Sequence[Ints],
    units: Mapping[str, int],
    room: float,
) -> Tree:
    coordinates = _coordinates(growing, keys, size, node)
    inner, first, leaf, kind = _sorted(growing, coordinates)
    number = np.full(len(growing.parent), -1, dtype=np.int64)
    number[inner] = np.arange(len(inner))
    pair, count = np.unique(kind * len(inner) + number[growing.parent[leaf]], return_counts=True)
    edge_kind, home = np.divmod(pair, len(inner))
    _check_room([coordinates[n] for n in inner], [coordinates[first[k]] for k in edge_kind], room)
    upper = _layout(growing, inner, coordinates)
    lower = _layout(growing, first, coordinates, leaves=True)
    into = [_embedded(upper, number[growing.parent[n]], coordinates[n]) for n in inner[1:]]
    edge_into = [
        _embedded(upper, h, coordinates[first[k]]) for k, h in zip(edge_kind, home, strict=True)
    ]
    number[leaf] = -1 - kind
    places = tuple(np.where(at >= 0, number[at], NOBODY) for at in node)
    root = np.zeros(len(coordinates[inner[0]]) ** 2, dtype=np.int64)
    return Tree(
        upper,
        lower,
        number[growing.parent[inner]],
        np.concatenate([root, *into]),
        edge_kind,
        home,
        count,
        np.concatenate(edge_into),
        places,
        units,
    )


def _coordinates(
    growing: _Growing, keys: Sequence[Ints], size: int, node: Sequence[Ints]
) -> list[Ints]:
    """The coordinates of each node."""
    has = [
        (np.searchsorted(key, np.arange(len(at) + 1) * size), key % size)
        for key, at in zip(keys, node, strict=True)
    ]
    return [
        has[t][1][has[t][0][u] : has[t][0][u + 1]]
        for t, u in zip(growing.tier, growing.unit, strict=True)
    ]


def _sorted(growing: _Growing, coordinates: Sequence[Ints]) -> tuple[Ints, Ints, Ints, Ints]:
    """The inner nodes, by depth and then by size; the first leaf of each kind, by size; the leaves,
    and the kind of each."""
    children = np.bincount(growing.parent[1:], minlength=len(growing.parent))
    if not children[:1].any():
        raise InputError(
            "the tree is one unit, or none",
            where="geography",
            remedy="take an input with several units that somebody can be in",
        )
    length = np.array([len(c) for c in coordinates])
    inner, leaf = np.flatnonzero(children > 0), np.flatnonzero(children == 0)
    first, kind = _kinds(growing, coordinates, leaf)
    order = np.argsort(length[first], kind="stable")
    kind = np.argsort(order, kind="stable")[kind]
    return inner[np.lexsort((length[inner], growing.depth[inner]))], first[order], leaf, kind


def _check_room(inner: Sequence[Ints], edges: Sequence[Ints], room: float) -> None:
    """Check the memory for the coordinates of inner nodes and of edges."""
    need = held_bytes(sum(len(c) ** 2 for c in inner), sum(len(c) ** 2 for c in edges), 1)
    if need > room:
        most = max(len(c) for c in (*inner, *edges))
        raise InputError(
            f"the search over this tree takes {need / 1e9:.1f} GB, and this machine has"
            f" {room / 1e9:.1f}: {len(inner):,} units with matrices of up to {most:,} rows",
            where="geography",
            remedy=(
                "give --units instead of the real tree, fewer recoded queries, or a part of the"
                " data"
            ),
        )


def _kinds(growing: _Growing, coordinates: Sequence[Ints], leaf: Ints) -> tuple[Ints, Ints]:
    """The first leaf of each kind of equal leaves, and the kind of each leaf."""
    seen: dict[tuple[bytes, ...], int] = {}
    first: list[int] = []
    kind = np.empty(len(leaf), dtype=np.int64)
    for i, n in enumerate(leaf):
        is_ = (
            coordinates[n].tobytes(),
            growing.classes[n].tobytes(),
            growing.levels[n].tobytes(),
            growing.known[n].tobytes(),
        )
        kind[i] = seen.setdefault(is_, len(seen))
        if kind[i] == len(first):
            first.append(int(n))
    return np.array(first, dtype=np.int64), kind


def _layout(
    growing: _Growing, some: Ints, coordinates: Sequence[Ints], leaves: bool = False
) -> Placement:
    length = np.array([len(coordinates[n]) for n in some], dtype=np.int64)
    depth = np.zeros(len(some), dtype=np.int64) if leaves else growing.depth[some]
    cuts = np.flatnonzero(np.diff(depth) | np.diff(length)) + 1
    start = np.concatenate([[0], np.cumsum(length**2)])
    groups = tuple(
        Stack(int(depth[a]), int(length[a]), int(a), int(b), int(start[a]))
        for a, b in zip([0, *cuts], [*cuts, len(some)], strict=True)
    )
    return Placement(
        np.concatenate([[0], np.cumsum(length)]),
        np.concatenate([coordinates[n] for n in some]),
        growing.levels[some],
        growing.classes[some],
        growing.known[some],
        groups,
    )


def _embedded(upper: Placement, parent: int, coordinate: Ints) -> Ints:
    """The places of a child's entries in its parent's matrix."""
    a, b = upper.indptr[parent], upper.indptr[parent + 1]
    at = np.searchsorted(upper.coordinate[a:b], coordinate)
    return (upper.start[parent] + at[:, None] * (b - a) + at[None, :]).ravel()
