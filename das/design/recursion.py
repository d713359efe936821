r"""A model of a real tree: variances of the best estimates of levels and areas as functions of the
plan, and their gradient.

Least squares of the tree is :mod:`das.design.recursion`; what is here is what each node is measured
with (:class:`das.design.problem.Grams`), and what each estimand is a mean of. Of :math:`F = \sum_a
w_a \log f_a` the derivatives by V of nodes and by slopes of areas go back through the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.design.areas import AreaTargets, Slopes
from das.design.model import Choices, Estimand, check_told, given_total, inverse
from das.design.problem import Coordinates, Grams
from das.design.tree import Placement, Stack, Tree
from das.estimate.information import invertible
from das.model.schema import Schema

# The fold of the optimizer over a real tree, without a measurement, and its derivative.
#
# With precision :math:`\Lambda_u` of each node's own measurements, from the leaves to the root
#
# .. math:: S_u = \sum_c C_c,\quad K_u = S_u^{-1},\quad J_u = \Lambda_u + K_u,\quad C_u = J_u^{-1},
#
# at the leaves :math:`C = \Lambda^{-1}`; and from the root, where :math:`V = C`, to the leaves
#
# .. math:: M_u = K_u - K_u V_u K_u, \qquad V_c = C_c - C_c M_u C_c .
#
# It is :mod:`das.estimate.information` without the means, in the steps of :mod:`das.fold`: S
# combines, J conditions, V restricts. A known total leaves from C the part on vectors that sum to
# zero, :math:`C - C11'C/1'C1`. If the totals of all children are known, :math:`S_u 1 = 0`. The
# inverse is then that of :math:`S_u + a11'`, which is the same on such vectors
# (:func:`das.estimate.information.invertible`).
#
# The walk is one of its own, over stacks of nodes of one depth and size in flat arrays: nodes have
# fewer coordinates than their parents, so that a message is entries added to the parent's; and each
# step lies next to its derivative.
#
# *Gradient.* With a bar for the derivative of :math:`F = \sum_a w_a \log f_a`, from the leaves to the
# root
#
# .. math:: \bar M_u = -\sum_c C_c \bar V_c C_c, \quad \bar C_c = \bar V_c - \bar V_c C_c M_u - M_u C_c \bar V_c, \quad
# \bar V_u \mathrel{+}= -K_u \bar M_u K_u, \quad
# \bar K_u = \bar M_u - \bar M_u K_u V_u - V_u K_u \bar M_u,
#
# and from the root to the leaves :math:`\bar J = -C\bar C C`, :math:`\bar S = -K(\bar K + \bar J)K`,
# :math:`\bar C_c \mathrel{+}= \bar S`, :math:`\bar\Lambda = \bar J`. That is as much work as the
# value, for any number of measurements and estimands. :math:`dC = -C\,dJ\,C` holds with a known
# total, too.

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pass:
    """What the two passes find, flat: ``c`` of kinds, and of inner nodes ``c``, ``k``, ``m`` and
    ``v``."""

    leaf: Array
    c: Array
    k: Array
    m: Array
    v: Array


@dataclass(frozen=True, eq=False)
class TreePasses:
    """Both ways over a tree, of matrices of the inner nodes and of the kinds, flat, ``(contrasts,
    entries)``. ``totals``: whether the first of the contrasts has a total."""

    tree: Tree
    totals: bool

    # --- up and down

    def passes(self, inner: Array, leaves: Array) -> Pass:
        """From the leaves to the root and back, with the precisions of their own measurements."""
        tree = self.tree
        leaf = np.empty_like(leaves)
        for g in tree.leaves.groups:
            g.view(leaf)[:] = self._inverse(
                g.view(leaves), tree.leaves.known[g.first : g.stop], leaves=True
            )
        s = np.zeros_like(inner)
        self._add(s, tree.edge_into, self._on_edges(leaf) * tree.counts)
        c, k = np.empty_like(inner), np.empty_like(inner)
        for g in reversed(tree.inner.groups):
            g.view(k)[:] = self._of_sum(g.view(s), tree.settled[g.first : g.stop])
            g.view(c)[:] = self._inverse(
                g.view(inner) + g.view(k), tree.inner.known[g.first : g.stop]
            )
            if g.depth:
                self._add(s, self._into(g), self._flat(g, c))
        return Pass(leaf, c, k, *self._down(c, k))

    def _down(self, c: Array, k: Array) -> tuple[Array, Array]:
        m, v = np.empty_like(c), np.empty_like(c)
        for g in self.tree.inner.groups:
            one = g.view(c)
            v_g = one - one @ self._gathered(m, g) @ one if g.depth else one
            g.view(v)[:] = v_g
            g.view(m)[:] = g.view(k) - g.view(k) @ v_g @ g.view(k)
        return m, v

    def of_kinds(self, tree_pass: Pass) -> Array:
        """V of each kind, summed over its units, flat."""
        c, m = self._on_edges(tree_pass.leaf), tree_pass.m[:, self.tree.edge_into]
        out = np.empty_like(c)
        for g, edges, at in self._edge_views():
            shape = (len(c), edges.stop - edges.start, g.size, g.size)
            one = c[:, at].reshape(shape)
            out[:, at] = (one - one @ m[:, at].reshape(shape) @ one).reshape(len(c), -1)
        return self._to_kinds(out * self.tree.counts)

    def _inverse(self, j: Array, known: NDArray[np.bool_], *, leaves: bool = False) -> Array:
        """C of J, ``(contrasts, nodes, size, size)``; given the total where it is ``known``."""
        c = inverse(j)
        if leaves:
            check_told(j, c)
        if self.totals and known.any():
            c[0, known] = given_total(c[0, known])
        return c

    def _of_sum(self, s: Array, settled: NDArray[np.bool_]) -> Array:
        """K of S; ``settled`` where the totals of all children are known."""
        if self.totals and settled.any():
            s = s.copy()
            s[0, settled] = invertible(s[0, settled])
        return np.asarray(np.linalg.inv(s))

    # --- the derivative

    def back(
        self, tree_pass: Pass, bar: tuple[Array, Array, Array], bar_kinds: Array, bar_leaf: Array
    ) -> tuple[Array, Array]:
        """The derivatives by the precisions of inner nodes and of kinds. ``bar``: those by V, C and
        K of inner nodes, which are used up; ``bar_kinds``: by V of each unit of a kind;
        ``bar_leaf``: by C of kinds."""
        tree, (bar_v, bar_c, bar_k) = self.tree, bar
        bar_m = np.zeros_like(bar_v)
        edges_c = self._leaves_up(tree_pass, bar_kinds, bar_m)
        for g in reversed(tree.inner.groups):
            self._up(tree_pass, g, bar_v, bar_m, bar_c, bar_k)
        bar_j = np.empty_like(bar_v)
        for g in tree.inner.groups:
            if g.depth:
                g.view(bar_c)[:] += self._gathered(bar_m, g)  # now that of S
            c, k = g.view(tree_pass.c), g.view(tree_pass.k)
            one = -c @ g.view(bar_c) @ c
            g.view(bar_j)[:] = one
            g.view(bar_m)[:] = -k @ (g.view(bar_k) + one) @ k
        kinds = bar_leaf + self._to_kinds((edges_c + bar_m[:, tree.edge_into]) * tree.counts)
        leaves = np.empty_like(kinds)
        for g in tree.leaves.groups:
            c = g.view(tree_pass.leaf)
            g.view(leaves)[:] = -c @ g.view(kinds) @ c
        return bar_j, leaves

    def _leaves_up(self, tree_pass: Pass, of_kinds: Array, bar_m: Array) -> Array:
        """Add the leaves' part to the derivatives by M. Return the derivative by C of a unit of
        each edge, from its V."""
        tree = self.tree
        c = self._on_edges(tree_pass.leaf)
        v = self._on_edges(of_kinds)
        m = tree_pass.m[:, tree.edge_into]
        out, up = np.empty_like(c), np.empty_like(c)
        for g, edges, at in self._edge_views():
            shape = (len(c), edges.stop - edges.start, g.size, g.size)
            c_g, v_g, m_g = (x[:, at].reshape(shape) for x in (c, v, m))
            cross = v_g @ c_g @ m_g
            out[:, at] = (v_g - cross - np.swapaxes(cross, -1, -2)).reshape(len(c), -1)
            up[:, at] = (c_g @ v_g @ c_g).reshape(len(c), -1)
        self._add(bar_m, tree.edge_into, -up * tree.counts)
        return out

    def _up(
        self, tree_pass: Pass, g: Stack, bar_v: Array, bar_m: Array, bar_c: Array, bar_k: Array
    ) -> None:
        """One group, whose children are done: to those of V, then of C and of its parents' M."""
        k, v, c, m = g.view(tree_pass.k), g.view(tree_pass.v), g.view(tree_pass.c), g.view(bar_m)
        g.view(bar_v)[:] -= k @ m @ k
        cross = m @ k @ v
        g.view(bar_k)[:] += m - cross - np.swapaxes(cross, -1, -2)
        one = g.view(bar_v)
        if not g.depth:
            g.view(bar_c)[:] += one
            return
        turned = one @ c @ self._gathered(tree_pass.m, g)
        g.view(bar_c)[:] += one - turned - np.swapaxes(turned, -1, -2)
        self._add(bar_m, self._into(g), -(c @ one @ c).reshape(len(c), -1))

    # --- between the flat arrays

    def _on_edges(self, leaf: Array) -> Array:
        return leaf[:, self.tree.edge_entries[0]]

    def _to_kinds(self, edges: Array) -> Array:
        """Sums over the edges of each kind."""
        out = np.zeros((len(edges), int(self.tree.leaves.start[-1])))
        self._add(out, self.tree.edge_entries[0], edges)
        return out

    @staticmethod
    def _add(out: Array, at: NDArray[np.int64], entries: Array) -> None:
        for m in range(len(out)):
            out[m] += np.bincount(at, weights=entries[m], minlength=out.shape[1])

    def _into(self, g: Stack) -> NDArray[np.int64]:
        return self.tree.into[g.start : g.start + (g.stop - g.first) * g.size**2]

    def _flat(self, g: Stack, flat: Array) -> Array:
        return flat[:, g.start : g.start + (g.stop - g.first) * g.size**2]

    def _gathered(self, flat: Array, g: Stack) -> Array:
        """What the parents of a group have on the coordinates of its nodes."""
        return flat[:, self._into(g)].reshape(len(flat), g.stop - g.first, g.size, g.size)

    def _edge_views(self) -> list[tuple[Stack, slice, slice]]:
        """For each group of kinds its edges, and their entries."""
        out, start = [], 0
        for g in self.tree.leaves.groups:
            edges = self.tree.edges(g)
            stop = start + (edges.stop - edges.start) * g.size**2
            out.append((g, edges, slice(start, stop)))
            start = stop
        return out


#: What is below this is rounding error, in variances relative to the sum of what they are made of.
_LITTLE = 1e-13

#: Contrasts are gone through one by one where their matrices together take more bytes than this.
TOGETHER = 1e9


@dataclass(frozen=True, eq=False)
class Recursion:
    """A model (:class:`das.design.model.Model`) of a tree. ``every``: variances are means over all
    answers of all units, or over those that a unit may have somebody in. ``areas``: by kind, what
    is needed for aims at these. Contrasts are apart from each other: a model of some of them has
    ``part_of`` the matrices of all, and ``totals`` if the first contrast is among them."""

    schema: Schema
    tree: Tree
    coordinates: Coordinates
    measurements: Choices
    estimands: tuple[Estimand, ...]
    levels: tuple[str, ...]
    every: bool
    areas: Mapping[str, AreaTargets]
    part_of: tuple[Grams, Grams] | None = None
    totals: bool = True

    @cached_property
    def queries(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                (*(q for _, q in self.measurements.pairs), *(a.query for a in self.estimands))
            )
        )

    @cached_property
    def _grams(self) -> tuple[Grams, Grams]:
        """The matrices of the inner nodes and of the kinds."""
        if self.part_of is not None:
            return self.part_of
        queries = [self.schema.query(q) for q in self.queries]
        return (
            Grams.for_queries(self.tree.inner, self.coordinates, queries),
            Grams.for_queries(self.tree.leaves, self.coordinates, queries),
        )

    @cached_property
    def _ones(self) -> Array:
        return np.ones(len(self.coordinates.multiplicity))

    @cached_property
    def parts(self) -> tuple[Recursion, ...]:
        """This, or where its matrices are large one model for each contrast."""
        contrasts = len(self.coordinates.multiplicity)
        if contrasts == 1 or self.tree.bytes(contrasts) <= TOGETHER:
            return (self,)
        return tuple(self._part(slice(m, m + 1)) for m in range(contrasts))

    @property
    def modes_at_once(self) -> int:
        return 1 if len(self.parts) > 1 else len(self.coordinates.multiplicity)

    def _part(self, contrasts: slice) -> Recursion:
        inner, leaves = self._grams
        return replace(
            self,
            coordinates=self.coordinates.part(contrasts),
            areas={k: a.part(contrasts) for k, a in self.areas.items()},
            part_of=(inner.part(contrasts), leaves.part(contrasts)),
            totals=contrasts.start == 0,
        )

    # --- up and down

    @cached_property
    def _passes(self) -> TreePasses:
        return TreePasses(self.tree, self.totals)

    def passes(self, precision: Array) -> Pass:
        """Both ways over the tree."""
        return self._passes.passes(*self._own(precision))

    def _own(self, precision: Array) -> tuple[Array, Array]:
        """The precisions of their own measurements, of inner nodes and kinds."""
        of_class = np.zeros((len(self.measurements.places), len(self.queries)))
        for i, (k, q) in enumerate(self.measurements.members):
            of_class[k, self.queries.index(q)] += precision[i]
        layouts = (self.tree.inner, self.tree.leaves)
        inner, leaves = (
            g.apply(one.classes @ of_class, self._ones)
            for g, one in zip(self._grams, layouts, strict=True)
        )
        return inner, leaves

    # --- estimands

    @cached_property
    def _share(self) -> Array:
        """What one answer of one unit, or area, counts for in the mean that an estimand is,
        ``(estimands,)``."""
        return np.array([1.0 / max(self._counted(a), 1) for a in self.estimands])

    def _counted(self, estimand: Estimand) -> int:
        """The answers that an estimand is a mean over."""
        query = self.schema.query(estimand.query)
        if estimand.areas:
            return query.answers * (
                len(estimand.some) if estimand.some else self.areas[estimand.place].cut.areas
            )
        if self.every:
            return query.answers * self.tree.units[estimand.place]
        label, level = self.coordinates.label(query), self.levels.index(estimand.place)
        total = 0
        for layout, times in (
            (self.tree.inner, np.ones(len(self.tree.parent))),
            (self.tree.leaves, self.tree.children),
        ):
            node = np.repeat(np.arange(len(layout.size)), layout.size)
            pair = np.unique(node * len(label) + label[layout.coordinate]) // len(label)
            total += int(times[pair] @ layout.levels[pair, level])
        return total * query.answers // len(np.unique(label))

    def _level_weights(self, layout: Placement, each: Array) -> Array:
        """For each node and query, the weights of its levels:
        ``(estimands,) -> (nodes, queries)``."""
        by_level = np.zeros((len(self.levels), len(self.queries)))
        for a, w in zip(self.estimands, each, strict=True):
            if not a.areas:
                by_level[self.levels.index(a.place), self.queries.index(a.query)] += w
        return layout.levels @ by_level

    def _area_weights(self, kind: str, areas: int, each: Array) -> Array:
        """The weights of each area of a kind and query, ``(areas, queries)``."""
        out = np.zeros((areas, len(self.queries)))
        for a, w in zip(self.estimands, each, strict=True):
            if a.areas and a.place == kind:
                out[list(a.some) if a.some else slice(None), self.queries.index(a.query)] += w
        return out

    def variances(self, precision: Array) -> Array:
        value, size = np.zeros(len(self.estimands)), np.zeros(len(self.estimands))
        for part in self.parts:
            found = part.passes(precision)
            more = part._sums(found, part._slopes(found))
            value, size = value + more[0], size + more[1]
        return self._mean(value, size)

    def gradient(self, precision: Array, weight: Array) -> tuple[Array, Array]:
        f, rows = self.gradients(precision, weight[None], lambda: None)
        return f, rows[0]

    def gradients(
        self, precision: Array, weights: Array, tick: Callable[[], None]
    ) -> tuple[Array, Array]:
        f = self.variances(precision) if len(self.parts) > 1 else None
        rows = np.zeros((len(weights), len(precision)))
        for part in self.parts:
            found = part.passes(precision)
            slopes = part._slopes(found)
            if f is None:
                f = self._mean(*part._sums(found, slopes))
            for i in np.flatnonzero(weights.any(axis=1)):
                each = np.divide(weights[i], f, out=np.zeros_like(f), where=f > 0) * self._share
                rows[i] += part._of_measurements(*part._adjoint(found, slopes, each))
                tick()
        assert f is not None
        return f, rows

    def _slopes(self, tree_pass: Pass) -> dict[str, Slopes]:
        return {
            kind: areas.slopes(tree_pass.leaf, tree_pass.c, tree_pass.k)
            for kind, areas in self.areas.items()
        }

    def _sums(self, tree_pass: Pass, slopes: Mapping[str, Slopes]) -> tuple[Array, Array]:
        """The sum whose mean each estimand is; and the sizes of its terms."""
        tree, scale = self.tree, self.coordinates.multiplicity
        kinds = self._passes.of_kinds(tree_pass)
        by_level, most = (
            self._by((tree.inner.levels, tree.leaves.levels), both, scale, self._of_levels)
            for both in ((tree_pass.v, kinds), (np.abs(tree_pass.v), np.abs(kinds)))
        )
        by_area = {
            kind: areas.variances(slopes[kind], tree_pass.c, scale)
            for kind, areas in self.areas.items()
        }
        out = np.empty((2, len(self.estimands)))
        for i, a in enumerate(self.estimands):
            query = self.queries.index(a.query)
            if a.areas:
                here = list(a.some) if a.some else slice(None)
                out[:, i] = [x[here, query].sum() for x in by_area[a.place]]
            else:
                out[:, i] = [x[self.levels.index(a.place), query] for x in (by_level, most)]
        return out[0], out[1]

    def _mean(self, value: Array, size: Array) -> Array:
        """The means of sums; 0 where only rounding error is left."""
        return np.where(value > _LITTLE * size, value, 0.0) * self._share

    def _by(
        self,
        members: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        matrices: tuple[Array, Array],
        scale: Array,
        queries: Sequence[int] | None = None,
    ) -> Array:
        """What each query has of the matrices of inner nodes and kinds, summed over their levels or
        classes."""
        inner, leaves = (
            one.T.astype(float) @ g.adjoint(x, scale, queries)
            for one, g, x in zip(members, self._grams, matrices, strict=True)
        )
        return np.asarray(inner + leaves)

    @cached_property
    def _of_levels(self) -> list[int]:
        """The queries that targets ask for levels."""
        return sorted({self.queries.index(a.query) for a in self.estimands if not a.areas})

    def _of_measurements(self, inner: Array, leaves: Array) -> Array:
        """From what precisions of nodes are worth to that of class measurements, ``(I,)``."""
        worth = self._by(
            (self.tree.inner.classes, self.tree.leaves.classes), (inner, leaves), self._ones
        )
        return np.array([-worth[k, self.queries.index(q)] for k, q in self.measurements.members])

    def _adjoint(
        self, tree_pass: Pass, slopes: Mapping[str, Slopes], each: Array
    ) -> tuple[Array, Array]:
        """The derivatives by the precisions of inner nodes and of kinds of ``each`` times the sums
        that estimands are means of."""
        tree, scale = self.tree, self.coordinates.multiplicity
        bar_v = self._grams[0].apply(self._level_weights(tree.inner, each), scale)
        of_kinds = self._grams[1].apply(self._level_weights(tree.leaves, each), scale)
        bar_c, bar_k, bar_leaf = (np.zeros_like(x) for x in (bar_v, bar_v, of_kinds))
        for kind, areas in self.areas.items():
            weight = self._area_weights(kind, areas.cut.areas, each)
            areas.adjoint(
                slopes[kind], weight, scale, tree_pass.c, tree_pass.k, (bar_c, bar_k, bar_leaf)
            )
        return self._passes.back(tree_pass, (bar_v, bar_c, bar_k), of_kinds, bar_leaf)
