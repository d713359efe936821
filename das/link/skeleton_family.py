r"""The skeleton of the children of one unit: least squares, then integers that their blocks can
hold.

Let :math:`y_f` be the householders that file f publishes for child c. The file estimated them from
measurements of queries q; :math:`q'` is what these say about the skeleton, with the variance
:math:`v_{fq}` (:mod:`das.link.skeleton_measured`). So :math:`\sum_q \|Q_q'(x - y_f)\|^2 / v_{fq}`
is how unlikely x is, by all that f measured. The skeleton is

.. math:: \min_{x \ge 0} \sum_c \sum_{f, q} \frac1{v_{fq}} \|Q_q' (x_c - y_{fc})\|^2
          \quad\text{with}\quad \sum_c x_c = p, \quad 1'x_c = o_c, \quad
          \sum_{k \in S} x_{ck} \le \sum_{b \in c} \min(o_b, s_b(S)).

Here p are the parent's integers, and o are occupied units. For each set S of classes the last
constraint is that of theorem 2 (:mod:`das.link.skeleton`): blocks cannot have more householders.
There are far too many sets. The first solution has none of them. Then the sets that a solution
violates most are added, one for each child by a minimum cut, until none is violated.

Published tenures of c count as a measurement with a small variance, because three families of sums
that cross are no network (counterexample C1). Integers are repaired afterwards (:func:`exchanged`).

*Integers* are a flow from the parent's cells to classes of each child, and on to its blocks. A
block takes :math:`o_b` householders, and no more of a class than it has persons. So all sets of
classes keep their bounds together, and the next level has a split again (theorem 2). Prices keep
the sums that both files know well (:mod:`das.rounding.prices`). A unit of very many blocks has units
of a lower level instead, whose bounds are the sums of those of blocks. These are necessary and not
sufficient. Where no integers exist, the children are free of the parent's cells, and say so."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from das.errors import InfeasibleError, InputError
from das.link.fields import Floats, Ints
from das.link.skeleton import SplitProblem
from das.link.skeleton_cells import SKELETON, TENURES, WIDTH, class_of
from das.link.skeleton_measured import SkeletonEvidence
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.solution import Certificate, Solution
from das.rounding.prices import Marginal, priced
from das.solve import children_qp, round_children
from das.solve.chain import Drains, Link

_TOLERANCE = 1e-5
#: Parts of a householder in flows that test bounds, and what is no violation.
_PARTS, _LITTLE = 1 << 10, 0.02
#: The most times that bounds are added.
_ROUNDS = 12
#: Sums of at most this many answers are kept by the rounding.
_FEW = 64


@dataclass(frozen=True, eq=False)
class Holders(Frozen):
    """Units that take householders, below children or the children themselves: the ``child`` of
    each, their ``total``, ``(units,)``, and the ``most`` of each class, ``(units, 252)``."""

    child: Ints
    total: Ints
    most: Ints

    def __post_init__(self) -> None:
        if not len(self.child) == len(self.total) == len(self.most):
            raise InputError("units differ in number", where="skeleton")

    def bounds(self, used: Ints, inside: np.ndarray) -> Ints:
        """The most householders that each child can have of a set of the classes ``used``."""
        there = np.minimum(self.total, self.most[:, used[inside]].sum(axis=1))
        return np.bincount(self.child, there, int(self.child.max(initial=-1)) + 1).astype(np.int64)

    def violated(self, used: Ints, sums: Floats) -> np.ndarray:
        """Sets of classes that have more householders than their bounds, ``(sets, classes)``: of
        each child the one that is violated most. ``sums``: by class, ``(children, classes)``."""
        found = []
        for child, wanted in enumerate(sums):
            here = self.child == child
            whole = np.rint(_PARTS * wanted).astype(np.int64)
            able, total = (_PARTS * x[here] for x in (self.most[:, used], self.total))
            odd = SplitProblem(whole, total, able).violated()
            if odd is not None and wanted[odd].sum() > self.bounds(used, odd)[child] + _LITTLE:
                found.append(odd)
        return np.unique(np.array(found, dtype=bool).reshape(-1, len(used)), axis=0)

    def drains(self, used: Ints) -> Drains:
        """For the classes ``used``."""
        most = self.most[:, used]
        return Drains(self.child, np.zeros_like(most), most, self.total)


@dataclass(frozen=True, eq=False)
class SolvedSkeleton(Frozen):
    """The children's ``counts``, ``(children, 1512)``, and whether they are ``free`` of the
    parent's."""

    counts: Histogram
    certificate: Certificate
    free: bool


@dataclass(frozen=True, eq=False)
class SkeletonFamily(Frozen):
    """The children of one unit. ``parent``: its cells, ``(1512,)``, ``None`` for the root.
    ``known``: what was measured of them, and ``value`` the published answers, each ``(children,
    answers)``. ``tenure``: households by tenure, ``(children, 3)``. ``holders``: what they can
    hold."""

    parent: Ints | None
    known: tuple[SkeletonEvidence, ...]
    value: tuple[Floats, ...]
    tenure: Ints
    holders: Holders

    def __post_init__(self) -> None:
        if any(len(x) != len(self.tenure) for x in self.value):
            raise InputError("children differ in number", where="skeleton")

    @property
    def total(self) -> Ints:
        """Occupied units, ``(children,)``."""
        return np.asarray(self.tenure.sum(axis=1))

    def solved(self) -> SolvedSkeleton:
        """The children's cells. Raises :class:`InfeasibleError` where their blocks contradict
        themselves."""
        if (self.holders.most.sum(axis=1) < self.holders.total).any():
            raise InfeasibleError(
                "a block has more occupied units than persons of 15 and over", where="skeleton"
            )
        if self.parent is None or not self._fits(self.parent):
            found = replace(self, parent=None)._solved()
            return replace(found, free=self.parent is not None)
        try:
            return self._solved()
        except InfeasibleError:  # of units with bounds of blocks that are not sufficient
            return replace(replace(self, parent=None)._solved(), free=True)

    def _fits(self, parent: Ints) -> bool:
        """Whether the holders can have the householders of a parent (theorem 2)."""
        classes = np.bincount(class_of(np.arange(SKELETON.cells)), parent, WIDTH).astype(np.int64)
        held = SplitProblem(classes, self.holders.total, self.holders.most)
        return bool(classes.sum() == self.holders.total.sum()) and held.violated() is None

    def _solved(self) -> SolvedSkeleton:
        cell, out = self._cells(), np.zeros((len(self.total), SKELETON.cells), dtype=np.int64)
        worst = Certificate()
        if len(cell):
            estimate = self._estimate(cell)
            x = np.zeros(out.shape)
            x[:, cell] = estimate.x
            rounded = self._integers(cell, x[:, cell])
            worst = worst.add(estimate)
            out[:, cell] = rounded.x
            exchanged(out, x, self.tenure, alone=self.parent is None)
        return SolvedSkeleton(_rows(out), worst, False)

    def _cells(self) -> Ints:
        """The cells that can have householders."""
        if self.parent is not None:
            return np.flatnonzero(self.parent)
        most = self.holders.most.sum(axis=0)
        return np.flatnonzero(most[class_of(np.arange(SKELETON.cells))])

    def _estimate(self, cell: Ints) -> Solution:
        """Least squares with more and more bounds of sets of classes, until none is violated."""
        used, group = np.unique(class_of(cell), return_inverse=True)
        sets = np.zeros((0, len(used)), dtype=bool)
        for _ in range(_ROUNDS):
            found = self._least_squares(cell, group, used, sets)
            sums = np.zeros((len(self.total), len(used)))
            np.add.at(sums.T, group, found.x.T)
            new = self.holders.violated(used, sums)
            if not len(new):
                break
            sets = np.concatenate([sets, new])
        return found

    def _least_squares(self, cell: Ints, group: Ints, used: Ints, sets: np.ndarray) -> Solution:
        index = [np.unique(e.query.at(cell), return_inverse=True) for e in self.known]
        gram, rhs = np.zeros((len(cell), len(cell))), np.zeros((len(self.total), len(cell)))
        for (answer, of), e, value in zip(index, self.known, self.value, strict=True):
            gram += (of[:, None] == of) / e.variance
            rhs += value[:, answer][:, of] / e.variance
        most = np.zeros((len(self.total), len(sets)))
        for i, inside in enumerate(sets):
            most[:, i] = self.holders.bounds(used, inside)
        every = np.ones((1, len(cell)))
        return children_qp(
            gram,
            rhs,
            None if self.parent is None else self.parent[cell].astype(float),
            groups=np.concatenate([every, sets[:, group]]),
            lower=np.column_stack([self.total, np.zeros_like(most)]).astype(float),
            upper=np.column_stack([self.total, most]).astype(float),
            support=self._most()[:, class_of(cell)] > 0,
            tol=_TOLERANCE,
        )

    def _most(self) -> Ints:
        """The most householders of each class, ``(children, 252)``."""
        out = np.zeros((len(self.total), WIDTH), dtype=np.int64)
        np.add.at(out, self.holders.child, self.holders.most)
        return out

    def _integers(self, cell: Ints, x: Floats) -> Solution:
        used, group = np.unique(class_of(cell), return_inverse=True)
        link = Link(group, upper=np.minimum(self._most()[:, used], self.total[:, None]))
        drains, total = self.holders.drains(used), int(self.total.sum())
        parent = None if self.parent is None else self.parent[cell]

        def rounded(price: Floats | None) -> Solution:
            return round_children(x, parent, chain=[link], drains=drains, total=total, price=price)

        small = [e for e in self.known if e.query.answers <= _FEW]
        marginals = [Marginal(e.query, e.variance**0.5) for e in small]
        return priced(rounded, x, cell, marginals)


def exchanged(n: Ints, x: Floats, tenure: Ints, *, alone: bool) -> None:
    """Give each child its households by ``tenure``, ``(children, 3)``, in the cells ``n``,
    ``(children, 1512)``: two children exchange the tenures of a householder each who differ in
    nothing else. So classes and the parent's cells stay. ``alone``: without a parent, a child
    changes tenures by itself. The exchange that is the nearest to ``x`` is made first; where none
    is left, a difference stays."""
    of, at = n.reshape(len(n), -1, TENURES), x.reshape(len(n), -1, TENURES)
    while True:
        over = of.sum(axis=1) - tenure
        child, t = (int(i) for i in np.unravel_index(np.argmax(over), over.shape))
        if over[child, t] <= 0:
            return
        others = [child] if alone else np.flatnonzero(over[:, t] < 0).tolist()
        tried = [
            _nearest_exchange(of, at, child, other, t, to)
            for to in np.flatnonzero(over[child] < 0).tolist()
            for other in others
        ]
        cost, other, kind, to = min(tried, default=(np.inf, 0, 0, 0))
        if not np.isfinite(cost):
            return
        of[child, kind, t] -= 1
        of[child, kind, to] += 1
        if other != child:
            of[other, kind, t] += 1
            of[other, kind, to] -= 1


def _nearest_exchange(
    n: Ints, x: Floats, child: int, other: int, t: int, to: int
) -> tuple[float, int, int, int]:
    """The best exchange of a householder of tenure ``t`` for one of another child: how much further
    from ``x`` it is, the other child, the kind of both, and the other tenure."""
    cost = _worse(n[child], x[child], t, to)
    if other != child:
        cost = cost + _worse(n[other], x[other], to, t)
    kind = int(np.argmin(cost))
    return float(cost[kind]), other, kind, to


def _worse(n: Ints, x: Floats, source: int, to: int) -> Floats:
    """How much further from ``x`` a householder of each kind is with another tenure; infinite where
    there is none, ``(kinds,)``."""
    off = n - x
    step = np.abs(off[:, source] - 1) - np.abs(off[:, source])
    step += np.abs(off[:, to] + 1) - np.abs(off[:, to])
    return np.where(n[:, source] > 0, step, np.inf)


def _rows(counts: Ints) -> Histogram:
    unit, cell = np.nonzero(counts)
    return Histogram.of(len(counts), SKELETON.cells, unit, cell, counts[unit, cell])
