r"""The fold of the optimizer over a real tree, without a measurement, and its derivative.

With precision :math:`\Lambda_u` of each node's own measurements, from the leaves to the root

.. math:: S_u = \sum_c C_c,\quad K_u = S_u^{-1},\quad J_u = \Lambda_u + K_u,\quad C_u = J_u^{-1},

at the leaves :math:`C = \Lambda^{-1}`; and from the root, where :math:`V = C`, to the leaves

.. math:: M_u = K_u - K_u V_u K_u, \qquad V_c = C_c - C_c M_u C_c .

It is :mod:`das.estimate.information` without the means, in the steps of :mod:`das.fold`: S
combines, J conditions, V restricts. A known total leaves from C the part on vectors that sum to
zero, :math:`C - C11'C/1'C1`. If the totals of all children are known, :math:`S_u 1 = 0`. The
inverse is then that of :math:`S_u + a11'`, which is the same on such vectors
(:func:`das.estimate.information.invertible`).

The walk is one of its own, over stacks of nodes of one depth and size in flat arrays: nodes have
fewer coordinates than their parents, so that a message is entries added to the parent's; and each
step lies next to its derivative.

*Gradient.* With a bar for the derivative of :math:`F = \sum_a w_a \log f_a`, from the leaves to the
root

.. math:: \bar M_u = -\sum_c C_c \bar V_c C_c, \quad \bar C_c = \bar V_c - \bar V_c C_c M_u - M_u C_c \bar V_c, \quad
          \bar V_u \mathrel{+}= -K_u \bar M_u K_u, \quad
          \bar K_u = \bar M_u - \bar M_u K_u V_u - V_u K_u \bar M_u,

and from the root to the leaves :math:`\bar J = -C\bar C C`, :math:`\bar S = -K(\bar K + \bar J)K`,
:math:`\bar C_c \mathrel{+}= \bar S`, :math:`\bar\Lambda = \bar J`. That is as much work as the
value, for any number of measurements and estimands. :math:`dC = -C\,dJ\,C` holds with a known
total, too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.design.model import check_told, given_total, inverse
from das.design.tree import Stack, Tree
from das.estimate.information import invertible

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pass:
    """What the two passes find, flat: ``c`` of kinds, and of inner nodes ``c``, ``k``, ``m`` and
    ``v``.
    """

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
    # ------------------------------------------------------------------------------------------

    def of(self, inner: Array, leaves: Array) -> Pass:
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

    def of_kinds(self, found: Pass) -> Array:
        """V of each kind, summed over its units, flat."""
        c, m = self._on_edges(found.leaf), found.m[:, self.tree.edge_into]
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
    # ---------------------------------------------------------------------------------------

    def back(
        self, found: Pass, bar: tuple[Array, Array, Array], bar_kinds: Array, bar_leaf: Array
    ) -> tuple[Array, Array]:
        """The derivatives by the precisions of inner nodes and of kinds. ``bar``: those by V, C and
        K of inner nodes, which are used up; ``bar_kinds``: by V of each unit of a kind;
        ``bar_leaf``: by C of kinds."""
        tree, (bar_v, bar_c, bar_k) = self.tree, bar
        bar_m = np.zeros_like(bar_v)
        edges_c = self._leaves_up(found, bar_kinds, bar_m)
        for g in reversed(tree.inner.groups):
            self._up(found, g, bar_v, bar_m, bar_c, bar_k)
        bar_j = np.empty_like(bar_v)
        for g in tree.inner.groups:
            if g.depth:
                g.view(bar_c)[:] += self._gathered(bar_m, g)  # now that of S
            c, k = g.view(found.c), g.view(found.k)
            one = -c @ g.view(bar_c) @ c
            g.view(bar_j)[:] = one
            g.view(bar_m)[:] = -k @ (g.view(bar_k) + one) @ k
        kinds = bar_leaf + self._to_kinds((edges_c + bar_m[:, tree.edge_into]) * tree.counts)
        leaves = np.empty_like(kinds)
        for g in tree.leaves.groups:
            c = g.view(found.leaf)
            g.view(leaves)[:] = -c @ g.view(kinds) @ c
        return bar_j, leaves

    def _leaves_up(self, found: Pass, of_kinds: Array, bar_m: Array) -> Array:
        """Add the leaves' part to the derivatives by M. Return the derivative by C of a unit of
        each edge, from its V.
        """
        tree = self.tree
        c, v, m = self._on_edges(found.leaf), self._on_edges(of_kinds), found.m[:, tree.edge_into]
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
        self, found: Pass, g: Stack, bar_v: Array, bar_m: Array, bar_c: Array, bar_k: Array
    ) -> None:
        """One group, whose children are done: to those of V, then of C and of its parents' M."""
        k, v, c, m = g.view(found.k), g.view(found.v), g.view(found.c), g.view(bar_m)
        g.view(bar_v)[:] -= k @ m @ k
        cross = m @ k @ v
        g.view(bar_k)[:] += m - cross - np.swapaxes(cross, -1, -2)
        one = g.view(bar_v)
        if not g.depth:
            g.view(bar_c)[:] += one
            return
        turned = one @ c @ self._gathered(found.m, g)
        g.view(bar_c)[:] += one - turned - np.swapaxes(turned, -1, -2)
        self._add(bar_m, self._into(g), -(c @ one @ c).reshape(len(c), -1))

    # --- between the flat arrays
    # ------------------------------------------------------------------------------

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
