r"""Variances of areas that cut across a tree, and their gradients.

An area has some of the leaves. From a node u that it contains wholly it takes all of u. From a node
that it cuts it takes :math:`B_u x_u`, given :math:`x_u`, and a rest that is independent of
everything outside u. Let the sums below go over the children that it contains wholly (W) and over
those that it cuts (B). With C and K of :mod:`das.design.recursion`

.. math:: P_u = \sum_W C_c + \sum_B B_c C_c, \qquad B_u = P_u K_u,

and the variance of the area is the sum, over the nodes that it cuts including the root, of

.. math:: L_u = \sum_W C_c - P_u K_u P_u' + B_u C_u B_u' .

*Proof.* Given :math:`x_u` the children are :math:`\mu_c + C_c K_u(x_u - s_u)` with covariance
:math:`C_c [c = d] - C_c K_u C_d`. So the area's part of u has the slope
:math:`\sum_W C_c K_u + \sum_B B_c C_c K_u`. Besides the rests of the children, its covariance is
:math:`\sum_W C_c + \sum_B B_c C_c B_c' - P_u K_u P_u'`. Each term :math:`B_c C_c B_c'` is counted
at c; at the root :math:`V = C`.

*Gradient.* The pass goes from the root down. Let :math:`\bar E_u` be the parent's :math:`\bar P` on
the coordinates of u. Then :math:`\bar B = \bar E C + 2 \bar L B C`,
:math:`\bar C \mathrel{+}= B'(\bar E + \bar L B)`,
:math:`\bar K \mathrel{+}= P'(\bar B - \bar L P)`, :math:`\bar P = \bar B K - 2 \bar L B`. For the
children that the area contains wholly, :math:`\bar C \mathrel{+}= \bar P + \bar L`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.design.problem import Coordinates, Grams
from das.design.tree import NOBODY, Placement, Stack, Tree
from das.fold import Tiers
from das.model.query import Query

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scatter:
    """Entries that are added up: ``source`` to ``target``, ``times`` each; in the order of the
    sources or of the targets."""

    source: Ints
    target: Ints
    times: Array

    def some(self, sources: slice) -> Scatter:
        """The part for some sources, if these are in order."""
        a, b = np.searchsorted(self.source, [sources.start, sources.stop])
        return Scatter(self.source[a:b], self.target[a:b], self.times[a:b])

    def add(self, out: Array, values: Array) -> None:
        """``out[target] += times * values[source]``, ``(contrasts, entries)`` both."""
        for m in range(len(out)):
            out[m] += np.bincount(
                self.target, weights=self.times * values[m, self.source], minlength=out.shape[1]
            )

    def back(self, out: Array, values: Array) -> None:
        """The adjoint: ``out[source] += times * values[target]``."""
        for m in range(len(out)):
            out[m] += np.bincount(
                self.source, weights=self.times * values[m, self.target], minlength=out.shape[1]
            )


@dataclass(frozen=True, eq=False)
class CutNodes:
    """What areas have of the nodes that they cut: ``area`` and ``node`` ``(pieces,)``, in the order
    of the nodes, so parents first. ``leaves``, ``inner``: how the C of wholly contained kinds and
    inner nodes are added up; ``up``: how matrices of pieces are added to those of the pieces that
    they are in. ``everywhere``: areas that have all there is."""

    area: Ints
    node: Ints
    start: Ints
    leaves: Scatter
    inner: Scatter
    up: Scatter
    everywhere: Ints
    areas: int

    def pieces(self, group: Stack) -> slice:
        a, b = np.searchsorted(self.node, [group.first, group.stop])
        return slice(int(a), int(b))

    def view(self, group: Stack, flat: Array) -> Array:
        """The matrices of a group's pieces, ``(contrasts, pieces, size, size)``."""
        here = self.pieces(group)
        part = flat[:, self.start[here.start] : self.start[here.stop]]
        return part.reshape(len(flat), here.stop - here.start, group.size, group.size)

    def entries_of(self, group: Stack) -> slice:
        here = self.pieces(group)
        return slice(int(self.start[here.start]), int(self.start[here.stop]))


@dataclass(frozen=True, eq=False)
class Slopes:
    """W, P, B and L of the pieces, flat; ``size``: the sum of the absolute values of the terms of
    L."""

    w: Array
    p: Array
    b: Array
    rest: Array
    size: Array


@dataclass(frozen=True, eq=False)
class AreaTargets:
    """The areas of one kind, and the queries that targets ask for them. Arrays of inner nodes and
    kinds are those of :mod:`das.design.recursion`."""

    tree: Tree
    cut: CutNodes
    grams: Grams
    root: Grams

    @staticmethod
    def for_queries(
        tree: Tree, cut: CutNodes, coordinates: Coordinates, queries: Sequence[Query]
    ) -> AreaTargets:
        inner = tree.inner
        length = inner.size[cut.node]
        first = np.repeat(
            inner.indptr[cut.node] - np.concatenate([[0], np.cumsum(length)])[:-1], length
        )
        none = np.zeros((len(cut.node), 0), dtype=bool)
        layout = Placement(
            np.concatenate([[0], np.cumsum(length)]),
            inner.coordinate[first + np.arange(length.sum())],
            none,
            none,
            np.zeros(len(none), bool),
            (),
        )
        root = Placement(
            inner.indptr[:2],
            inner.coordinate[: inner.indptr[1]],
            none[:1],
            none[:1],
            np.zeros(1, bool),
            (),
        )
        return AreaTargets(
            tree,
            cut,
            Grams.for_queries(layout, coordinates, queries),
            Grams.for_queries(root, coordinates, queries),
        )

    def part(self, contrasts: slice) -> AreaTargets:
        """The targets for some contrasts alone."""
        return replace(self, grams=self.grams.part(contrasts), root=self.root.part(contrasts))

    def slopes(self, leaf: Array, c: Array, k: Array) -> Slopes:
        cut = self.cut
        w = np.zeros((len(c), int(cut.start[-1])))
        cut.leaves.add(w, leaf)
        cut.inner.add(w, c)
        p, b, rest, size, inward = w.copy(), *(np.empty_like(w) for _ in range(4))
        for g in reversed(self.tree.inner.groups):
            one_c, one_k = self._of(g, c), self._of(g, k)
            one_p = cut.view(g, p)
            one_b = one_p @ one_k
            cut.view(g, b)[:] = one_b
            turned = one_b @ one_c
            cut.view(g, inward)[:] = turned
            parts = cut.view(g, w), -one_b @ _turned(one_p), turned @ _turned(one_b)
            cut.view(g, rest)[:] = sum(parts)
            cut.view(g, size)[:] = sum(map(np.abs, parts))
            if g.depth:
                cut.up.some(cut.entries_of(g)).add(p, inward)
        return Slopes(w, p, b, rest, size)

    def variances(self, slopes: Slopes, c: Array, scale: Array) -> tuple[Array, Array]:
        """Summed over the answers of each query, ``(areas, queries)``; and what of that size is
        rounding error."""
        root = c[:, : len(self.root.node)]
        found, most = (
            self._summed(rest, whole, scale)
            for rest, whole in ((slopes.rest, root), (slopes.size, np.abs(root)))
        )
        return found, most

    def _summed(self, rest: Array, root: Array, scale: Array) -> Array:
        each = self.grams.adjoint(rest, scale)
        out = np.zeros((self.cut.areas, each.shape[1]))
        np.add.at(out, self.cut.area, each)
        if len(self.cut.everywhere):
            out[self.cut.everywhere] = self.root.adjoint(root, scale)
        return out

    def adjoint(
        self,
        slopes: Slopes,
        weight: Array,
        scale: Array,
        c: Array,
        k: Array,
        bar: tuple[Array, Array, Array],
    ) -> None:
        """Adds the derivatives by C of inner nodes, by K and by C of kinds, ``bar``, of ``weight *
        variances``."""
        bar_c, bar_k, bar_leaf = bar
        cut = self.cut
        if len(cut.everywhere):
            bar_c[:, : len(self.root.node)] += self.root.apply(
                weight[cut.everywhere].sum(axis=0)[None], scale
            )
        rest = self.grams.apply(weight[cut.area], scale)
        bar_e, bar_w = np.zeros_like(rest), np.empty_like(rest)
        for g in self.tree.inner.groups:
            here = cut.pieces(g)
            if here.start == here.stop:
                continue
            e, low, b, p = (cut.view(g, x) for x in (bar_e, rest, slopes.b, slopes.p))
            if g.depth:
                mine = cut.up.some(cut.entries_of(g))
                mine.back(bar_e, bar_w)
                e = cut.view(g, bar_e)
            one_c, one_k = self._of(g, c), self._of(g, k)
            half = e + low @ b
            of_b = (half + low @ b) @ one_c
            node = cut.node[here] - g.first
            for m in range(len(bar_c)):
                np.add.at(g.view(bar_c)[m], node, (_turned(b) @ half)[m])
                np.add.at(g.view(bar_k)[m], node, (_turned(p) @ (of_b - low @ p))[m])
            # the children's sum is in P, and the parent hears of it by P alone
            cut.view(g, bar_w)[:] = of_b @ one_k - 2 * low @ b
        total = bar_w + rest
        cut.leaves.back(bar_leaf, total)
        cut.inner.back(bar_c, total)

    def _of(self, g: Stack, flat: Array) -> Array:
        """The matrices of the nodes that a group's pieces are of."""
        return np.asarray(g.view(flat)[:, self.cut.node[self.cut.pieces(g)] - g.first])


def _turned(matrices: Array) -> Array:
    return np.swapaxes(matrices, -1, -2)


def cut_nodes(tree: Tree, tiers: Tiers, area: Ints, unit: Ints, areas: int) -> CutNodes:
    """The nodes that areas cut; lowest unit ``unit[i]`` is in ``area[i]``."""
    n = len(tree.parent)
    leaf, home = _leaves(tree, tiers)
    some = leaf[unit] != NOBODY
    area, unit = area[some], unit[some]
    (at, kind), member = _pairs(area * n + home[unit], -1 - leaf[unit], len(tree.leaves.size))
    children = np.bincount(tree.parent[1:], minlength=n) + np.bincount(
        tree.home, weights=tree.count, minlength=n
    ).astype(int)
    depth = np.zeros(n, dtype=np.int64)
    for g in tree.inner.groups:
        depth[g.first : g.stop] = g.depth
    keys, inside = np.unique(at, return_inverse=True)
    held = np.bincount(inside, weights=member).astype(np.int64)
    cut: list[Ints] = []
    whole: list[Ints] = []
    for d in range(int(depth.max()), -1, -1):
        here = depth[keys % n] == d
        now, has = keys[here], held[here]
        full = has == children[now % n]
        cut.append(now[~full])
        whole.append(now[full])
        if not d:
            break
        up = now // n * n + tree.parent[now % n]
        both, back = np.unique(np.concatenate([keys[~here], up]), return_inverse=True)
        held = np.bincount(back, weights=np.concatenate([held[~here], full])).astype(np.int64)
        keys = both
    return _spreads(tree, np.concatenate(cut), np.concatenate(whole), at, kind, member, areas)


def _leaves(tree: Tree, tiers: Tiers) -> tuple[Ints, Ints]:
    """For each lowest unit -1 - its kind, or NOBODY; and the inner node above it."""
    leaf = tree.node[-1]
    home = np.full(len(leaf), -1, dtype=np.int64)
    unit = np.arange(len(leaf))
    for tier in range(len(tiers) - 1, 0, -1):
        unit = tiers.parents[tier][unit]
        above = tree.node[tier - 1][unit]
        home = np.where((home < 0) & (above >= 0), above, home)
    return leaf, home


def _pairs(a: Ints, b: Ints, size: int) -> tuple[tuple[Ints, Ints], Ints]:
    """The distinct pairs, and how often each is there."""
    both, count = np.unique(a * size + b, return_counts=True)
    return (both // size, both % size), count


def _spreads(
    tree: Tree, cut: Ints, whole: Ints, at: Ints, kind: Ints, member: Ints, areas: int
) -> CutNodes:
    n = len(tree.parent)
    cut = cut[np.lexsort((cut // n, cut % n))]
    start = np.concatenate([[0], np.cumsum(tree.inner.size[cut % n] ** 2)])
    found = _CutKeys(tree, cut, start)
    return CutNodes(
        cut // n,
        cut % n,
        start,
        found.leaves(at, kind, member),
        found.wholes(whole[whole % n > 0]),
        found.up(),
        whole[whole % n == 0] // n,
        areas,
    )


@dataclass(frozen=True, eq=False)
class _CutKeys:
    """Pieces by their keys, area and node in one number, in the order of the nodes; the entries of
    piece i begin at ``start[i]``."""

    tree: Tree
    cut: Ints
    start: Ints

    def piece(self, keys: Ints) -> Ints:
        """The piece of each key, -1 where the node is not cut."""
        if not len(self.cut):
            return np.full(len(keys), -1)
        order = np.argsort(self.cut, kind="stable")
        known = self.cut[order]
        found = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[found] == keys, order[found], -1)

    def above(self, keys: Ints) -> Ints:
        """The piece that each key is in."""
        n = len(self.tree.parent)
        return self.piece(keys // n * n + self.tree.parent[keys % n])

    def leaves(self, at: Ints, kind: Ints, member: Ints) -> Scatter:
        """``member`` leaves of a ``kind`` into the pieces with the keys ``at``."""
        tree, into = self.tree, self.piece(at)
        keep = into >= 0
        kind, home = kind[keep], at[keep] % len(tree.parent)
        starts = np.concatenate([[0], np.cumsum(tree.leaves.size[tree.kind] ** 2)])
        return _spread(
            tree.leaves.start[kind],
            tree.edge_into,
            starts[_edge_of(tree, kind, home)],
            tree.leaves.size[kind] ** 2,
            self.start[into[keep]] - tree.inner.start[home],
            member[keep],
        )

    def wholes(self, keys: Ints) -> Scatter:
        """Whole nodes, other than the root, into the pieces that they are in."""
        above = self.above(keys)
        child = keys[above >= 0] % len(self.tree.parent)
        return self._nodes(self.tree.inner.start[child], child, above[above >= 0])

    def up(self) -> Scatter:
        """Pieces into those that they are in."""
        node = self.cut % len(self.tree.parent)
        low = np.flatnonzero(node > 0)
        return self._nodes(self.start[low], node[low], self.above(self.cut[low]))

    def _nodes(self, source: Ints, node: Ints, above: Ints) -> Scatter:
        tree, start = self.tree, self.tree.inner.start
        shift = self.start[above] - start[tree.parent[node]]
        length = tree.inner.size[node] ** 2
        return _spread(source, tree.into, start[node], length, shift, np.ones(len(node)))


def _edge_of(tree: Tree, kind: Ints, home: Ints) -> Ints:
    """The edge from a kind to a node."""
    n = len(tree.parent)
    return np.searchsorted(tree.kind * n + tree.home, kind * n + home)


def _spread(
    source: Ints, into: Ints, into_start: Ints, length: Ints, shift: Ints, times: Array | Ints
) -> Scatter:
    """Blocks of ``length`` entries from ``source`` on, to where ``into`` says from ``into_start``
    on, moved by ``shift``."""
    block = np.repeat(np.arange(len(length)), length)
    within = np.arange(int(length.sum())) - np.repeat(
        np.concatenate([[0], np.cumsum(length)])[:-1], length
    )
    return Scatter(
        source[block] + within,
        into[into_start[block] + within] + shift[block],
        times[block].astype(float),
    )
