r"""The part of households and persons that is a network: householders by class, over blocks.

Classes :math:`g` are of origin, race and voting age, say. A block :math:`b` has :math:`o_b`
occupied units. Of its persons at home, :math:`s_b(g)` may be householders. Given householders
:math:`H(g)` of all blocks together, can they be split over the blocks? That asks for :math:`0 \le
n_b(g) \le s_b(g)` with :math:`\sum_g n_b(g) = o_b`.

**Theorem 1.** *Let the integers of a parent satisfy that householders by class, with tenure, are
households by class. Let integers* :math:`n_b(k)` *of its children add up to the parent's for each
class* :math:`k`, *and to* :math:`o_b` *in each child. Let those within a class* :math:`g` *be no
more than* :math:`s_b(g)`. *Then there are integer children of both files, which keep that and all
redistricting counts.* Proof. They are three kinds of transportation problems, without a common
variable. (1) Householders of each :math:`k`: the parent's cells of persons to the children, which
need :math:`n_b(k)`. (2) Other persons of each :math:`g`: children need :math:`s_b(g)` less the
householders among them, which is not negative. (3) Households of each :math:`k`: the parent's cells
to the children, which need :math:`n_b(k)`. In each problem supply is demand, by assumption, and
there is no other constraint. Transportation polytopes with equal totals are not empty, and their
corners are integers. ∎ Today's passes stay within each of them.

**Theorem 2.** *The split exists if and only if* :math:`\sum_g H(g) = \sum_b o_b` *and for every
set* :math:`S` *of classes*

.. math:: \sum_{g \in S} H(g) \le \sum_b \min\Bigl(o_b, \sum_{g \in S} s_b(g)\Bigr).

Proof. :math:`f_b(S) = \min(o_b, s_b(S))` is submodular and integral, as the lesser of a constant
and a modular function that is not negative. Where :math:`o_b \le s_b(\text{all})`, its base
polytope is :math:`\{n \ge 0 : n \le s_b, \sum n = o_b\}`. Base polytopes of submodular functions
add, and an integer point of the sum is a sum of integer points (Edmonds). The sum of all
:math:`f_b` is the right-hand side. ∎ In the network, :math:`S` is the side of a cut. So one maximum
flow decides it, and a minimum cut is the set that violates it. If every block is split so at one
level, each part meets the theorem for its own blocks: it is enough to impose it from the root down.

One set at a time is not enough: each class can fit its own bound, and two together not. What lies
across these classes is no network. Tenure by class, sizes, couples and children can be impossible
below a parent that is fixed, although all sums agree; the tests have the counterexamples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from das.errors import InfeasibleError, InputError
from das.link.fields import Ints
from das.model.frozen import Frozen


@dataclass(frozen=True, eq=False)
class SplitProblem(Frozen):
    """``householders`` of each class, ``(classes,)``; ``occupied`` units of each block,
    ``(blocks,)``; and the persons of each block and class who may be householders, ``able``,
    ``(blocks, classes)``."""

    householders: Ints
    occupied: Ints
    able: Ints

    def __post_init__(self) -> None:
        if self.able.shape != (len(self.occupied), len(self.householders)):
            raise InputError("blocks or classes differ in number", where="split of householders")
        if min(x.min(initial=0) for x in (self.householders, self.occupied, self.able)) < 0:
            raise InputError("a negative count", where="split of householders")

    def bound(self, classes: np.ndarray) -> int:
        """The most householders that a set of classes can have, ``classes`` being its members."""
        there = self.able[:, classes].sum(axis=1)
        return int(np.minimum(self.occupied, there).sum())

    def violated(self) -> np.ndarray | None:
        """A set of classes that has more householders than its bound, ``(classes,)``; ``None``
        where there is none."""
        _, inside = self._flow()
        classes = inside[: len(self.householders)]
        if classes.any() and self.householders[classes].sum() > self.bound(classes):
            return np.asarray(classes)
        return None

    def split(self) -> Ints:
        """Householders of each block and class, ``(blocks, classes)``.

        Raises :class:`InfeasibleError` where there are none, with a set of classes that says why.
        """
        if self.householders.sum() != self.occupied.sum():
            raise InfeasibleError(
                f"{self.householders.sum():,} householders for {self.occupied.sum():,} units",
                where="split of householders",
            )
        sent, _ = self._flow()
        if sent.sum() < self.occupied.sum():
            odd = self.violated()
            assert odd is not None  # a minimum cut violates the bound (theorem 2)
            raise InfeasibleError(
                f"{int(self.householders[odd].sum()):,} householders of classes"
                f" {', '.join(map(str, np.flatnonzero(odd)))}, and blocks can have at most"
                f" {self.bound(odd):,} of them",
                where="split of householders",
            )
        return sent

    def _flow(self) -> tuple[Ints, np.ndarray]:
        """A maximum flow from classes to blocks, ``(blocks, classes)``, and the nodes on the
        source's side of a minimum cut: classes first, then blocks."""
        classes, blocks = len(self.householders), len(self.occupied)
        source, sink = classes + blocks, classes + blocks + 1
        block, cls = np.nonzero(self.able)
        tail = np.concatenate([np.full(classes, source), cls, classes + np.arange(blocks)])
        head = np.concatenate([np.arange(classes), classes + block, np.full(blocks, sink)])
        room = np.concatenate([self.householders, self.able[block, cls], self.occupied])
        shape = (sink + 1, sink + 1)
        graph = csr_array((room.astype(np.int32), (tail, head)), shape=shape)
        flow = maximum_flow(graph, source, sink).flow
        sent = np.zeros_like(self.able)
        sent[block, cls] = np.asarray(flow[cls, classes + block]).ravel()
        left = csr_array(graph - flow)
        left.data = np.maximum(left.data, 0)
        left.eliminate_zeros()
        reached = np.zeros(sink + 1, dtype=bool)
        reached[breadth_first_order(left, source, return_predecessors=False)] = True
        return sent, reached


def reachable_sizes(sizes: Ints, households: int) -> np.ndarray:
    """Which numbers of persons some households can have together, each of one of the ``sizes``;
    ``(households * largest + 1,)``. Members of a block are such a number, or its sizes are wrong.

    >>> np.flatnonzero(reachable_sizes(np.array([1, 3]), 2)).tolist()
    [2, 4, 6]
    """
    out = np.zeros(households * int(sizes.max(initial=0)) + 1, dtype=bool)
    out[0] = True
    for _ in range(households):
        step = np.zeros_like(out)
        for size in np.unique(sizes).tolist():
            step[size:] |= out[: len(out) - size]
        out = step
    return out
