r"""The problem of the best allocation, and the proof of how good any other could be.

Precisions p are those of the class measurements, :math:`f_a(p)` the variances of the estimands
(:mod:`das.design.model`). :math:`f_a = c'X(p)^{-1}c` with X linear in p. On a line, with
:math:`X = LL'` and a step of eigenvalues d, :math:`f = \sum_i y_i^2/(1 + t d_i)`: every term is
log-convex in t, and so are sums of such terms. Hence every :math:`\log f_a` is convex in p. And
:math:`f(cp) = f(p)/c`.

*The problems.* The weights w sum to 1, and the limits :math:`t_a` are infinite where there is none.
A part k of the allocation stays fixed, as do all draws that are held. The unknowns are
:math:`\rho = k + x`, :math:`x \ge 0`:

* *best*: :math:`\min \sum_a w_a \log f_a` subject to :math:`f_a \le t_a` and :math:`\sum x = X`;
* *least*: :math:`\min \sum \rho` subject to :math:`f_a \le t_a`.

*Certificate.* Let :math:`\lambda_a \ge 0` be multipliers of the limits, and
:math:`h = -\partial/\partial p \sum_a (w_a + \lambda_a) \log f_a`. Let :math:`\rho'` be any
allocation that meets the limits, with precisions p', and c as in :mod:`das.design.model`. By
convexity, then by :math:`h'p' \le c'\rho'`,

.. math:: \sum w \log f(p') \;\ge\; \sum_a w_a \log f_a + \sum_a \lambda_a \log(f_a/t_a) + h'p - h'p'
          \;\ge\; L + h'p - c'k - X \max_j c_j

with L the first two sums. For the least total, with the multipliers scaled so that :math:`\max c =
1`,

.. math:: \sum \rho' \;\ge\; \sum \rho' + \sum_a \lambda_a \log(f_a/t_a) + h'p - c'\rho'
          \;\ge\; \sum_a \lambda_a \log(f_a/t_a) + h'p + \sum_j (1 - c_j)\,k_j .

Both hold at every allocation and for all multipliers, so the best of all bounds computed is kept.

*Limits on privacy loss.* What a change of one record can see of the measurements is a sum of some
of their :math:`\rho` (:mod:`das.accounting.changes`). So a limit on it is linear:
:math:`R_g x \le r_g` (:class:`LossLimits`). With such limits, the total is one of them and need not
be spent. Let :math:`\nu_g \ge 0` be multipliers of :math:`R_g x/r_g \le 1`. Let s be the least
number with :math:`s \sum_g \nu_g R_{gj}/r_g \ge c_j` for all j. Then every :math:`x' \ge 0` within
the limits has :math:`c'x' \le s \sum_g \nu_g`, which replaces :math:`X \max_j c_j`.

*Prices.* f is homogeneous, so the multipliers give the share of the allocation that each
estimand costs: :math:`\sum_j \rho_j \sum_i h^{(a)}_i = w_a + \lambda_a`. They are those of the
best bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.design.model import Model
from das.design.tree import Placement
from das.estimate.information import Contrasts
from das.model.query import Query
from das.model.schema import Schema

Array = NDArray[np.float64]

#: By how much, in logs, a limit may be exceeded before exact shares are made, which are brought
#: within it.
MET = 1e-3
#: The same for the least total, which rests on it.
_MET_WELL = 1e-6
#: Logs of what is no number any more are cut off here.
_MANY = 500.0


@dataclass(frozen=True, eq=False)
class LossLimits:
    """``rows`` ``(limits, measurements)``: how much of the rho of each measurement counts; their
    sums over the free parts are at most ``room`` ``(limits,)``. The last limit is on the total."""

    rows: Array
    room: Array

    def over(self, x: Array) -> Array:
        """By how much, relatively, the free parts ``(measurements,)`` exceed each limit."""
        return self.rows @ x / self.room - 1

    def costliest(self, c: Array, multiplier: Array) -> float:
        """What c'x is at most, by the multipliers (see the module)."""
        price = (multiplier / self.room) @ self.rows
        return float((c / np.maximum(price, 1e-300)).max() * multiplier.sum())


@dataclass(frozen=True, eq=False)
class Problem:
    """``weight`` ``(estimands,)`` sums to 1, or is 0 for the least total; ``limit``
    ``(estimands,)`` variances, infinite where there is none; ``kept`` ``(measurements,)`` stays,
    and of those that are ``held`` it is all; ``start`` ``(measurements,)``, at least that, is where
    the search begins and, except for the least total, how much there is in all. ``loss``: what
    limits the free parts besides the total."""

    model: Model
    weight: Array
    limit: Array
    kept: Array
    held: NDArray[np.bool_]
    start: Array
    loss: LossLimits | None = None

    @property
    def spends_all(self) -> bool:
        """Whether the sum of the allocation is given."""
        return not self.least and self.loss is None

    @property
    def least(self) -> bool:
        return not self.weight.any()

    @property
    def limited(self) -> NDArray[np.bool_]:
        return np.isfinite(self.limit)

    @property
    def room(self) -> float:
        """X: how much is free at the start; for the least total, where that is nothing, as much as
        there is, to grow from."""
        free = float((self.start - self.kept).sum())
        return float(self.start.sum()) if self.least and free <= 0 else free

    def variances(self, rho: Array) -> Array:
        return self.model.variances(self.model.measurements.precision(rho))

    def value(self, rho: Array, f: Array) -> float:
        """What is minimized."""
        if self.least:
            return float(rho.sum())
        some = self.weight > 0
        return float(self.weight[some] @ np.log(f[some]))

    def over(self, f: Array) -> Array:
        """For each estimand log(f/t); minus infinity where it has no limit or is known exactly."""
        out = np.full(len(f), -np.inf)
        some = self.limited & (f > 0)
        out[some] = np.log(f[some] / self.limit[some])
        return out

    def exceeded(self, rho: Array, f: Array) -> float:
        """By how much the worst limit is exceeded: in logs, or relatively, which is as much."""
        worst = float(self.over(f).max())
        if self.loss is not None:
            worst = max(worst, float(self.loss.over(rho - self.kept).max()))
        return max(worst, 0.0)

    def spread(self, part: float) -> Array:
        """The free part of the start, with ``part`` of it even over all free draws: what has
        nothing could never grow."""
        x = np.where(self.held, 0.0, np.maximum(self.start - self.kept, 0.0))
        free = ~self.held
        if not free.any():
            return x
        return self.room * ((1 - part) * x / max(x.sum(), 1e-300) + part * free / free.sum())


@dataclass(frozen=True, eq=False)
class View:
    """One allocation: variances ``f`` and what exceeds the limits, precisions ``p``, and their
    worth ``h``. It has the multipliers of the limits, and of the limits on privacy loss."""

    rho: Array
    f: Array
    over: Array
    p: Array
    h: Array
    multiplier: Array
    of_loss: Array | None = None


@dataclass(frozen=True, eq=False)
class CertifiedAllocation:
    """``rho`` of each measurement; ``variances`` of each estimand; ``price``: the share of the
    allocation that each estimand costs. ``value`` is what was minimized, and nothing is less than
    ``bound``; ``over``: by how much, in logs, a limit is exceeded."""

    rho: Array
    variances: Array
    price: Array
    value: float
    bound: float
    over: float
    steps: int
    least: bool

    @property
    def gap(self) -> float:
        """By how much the geometric mean of the variances, or the total, could be less at most,
        relatively."""
        return (
            1 - self.bound / self.value
            if self.least
            else float(-np.expm1(min(self.bound - self.value, _MANY)))
        )

    @property
    def _tolerance(self) -> float:
        """By how much limits may be exceeded: little for the least total, which may hang on that
        little."""
        return _MET_WELL if self.least else MET

    @property
    def missing(self) -> float:
        """What is left to do: the gap, once limits are met."""
        return self.gap if self.over <= self._tolerance else np.inf

    @property
    def rank(self) -> tuple[float, float]:
        """The less, the better: how far limits are exceeded, then what is minimized."""
        return max(self.over, self._tolerance), self.nearly

    @property
    def nearly(self) -> float:
        """What is minimized; for the least total with what it takes, about, to meet the limits:
        none is worse for having started further off."""
        return self.value * float(np.exp(self.over)) if self.least else self.value


class Incumbent:
    """The best allocation and the best bound so far. ``progress`` is called at every evaluation,
    and during slow work between two."""

    def __init__(
        self, problem: Problem, progress: Callable[[CertifiedAllocation], None] | None
    ) -> None:
        self._problem, self._progress = problem, progress
        self._best: CertifiedAllocation | None = None
        self._nearest: CertifiedAllocation | None = None
        self._bound, self._price, self.looks = -np.inf, problem.weight, 0
        self._settled = np.inf

    @property
    def best(self) -> CertifiedAllocation:
        assert self._best is not None
        return replace(self._best, bound=self._bound, price=self._price, steps=self.looks)

    @property
    def nearest(self) -> CertifiedAllocation:
        """The least of all, limits met or nearly."""
        assert self._nearest is not None
        return replace(self._nearest, bound=self._bound, price=self._price, steps=self.looks)

    def see(self, view: View) -> CertifiedAllocation:
        self.looks += 1
        measurements = self._problem.model.measurements
        bound = _bound(self._problem, view, measurements.most(view.h))
        if bound > self._bound or self.looks == 1:
            price = self._problem.weight + view.multiplier
            self._bound, self._price = bound, price / max(float(price.sum()), 1e-300)
        here = self._reached(view)
        if self._best is None or here.rank < self._best.rank:
            self._best = here
        if self._nearest is None or here.nearly < self._nearest.nearly:
            self._nearest = here
        if not measurements.separate and here.over <= MET:
            near = _bound(self._problem, view, view.h @ measurements.slope(view.rho))
            self._settled = replace(here, bound=near).missing
        self.tick()
        return self.best

    def done(self, gap: float) -> bool:
        """Whether the gap is reached; or, where only children share their parents' queries and the
        bound need not be reached, no small change would bring more than it."""
        return self.best.missing <= gap or self._settled <= gap

    def tick(self) -> None:
        if self._progress is not None and self._best is not None:
            self._progress(self.best)

    def _reached(self, view: View) -> CertifiedAllocation:
        """What this allocation is; for the least total, made just large enough, where variances
        fall with the whole: a part that stays does not grow with it."""
        problem, rho, f = self._problem, view.rho, view.f
        over = problem.exceeded(rho, f)
        if problem.least and (not over or not problem.kept.any()):
            factor = float(np.exp(view.over.max()))
            rho, f, over = problem.kept + (view.rho - problem.kept) * factor, f / factor, 0.0
        return CertifiedAllocation(
            rho, f, self._price, problem.value(rho, f), -np.inf, over, 0, problem.least
        )


def _bound(problem: Problem, view: View, c: Array) -> float:
    """What no allocation that meets the limits can be below; with the slopes of the worth for ``c``
    none that is near."""
    kept, multiplier, some = problem.kept, view.multiplier, view.multiplier > 0
    limits = float(multiplier[some] @ view.over[some])
    worth, most = float(view.h @ view.p), float(c[~problem.held].max(initial=1e-300))
    if not problem.least:
        room = float((view.rho - kept).sum()) * most
        if problem.loss is not None:
            total = np.eye(len(problem.loss.room))[-1]
            room = problem.loss.costliest(
                np.where(problem.held, 0.0, c), total if view.of_loss is None else view.of_loss
            )
        return problem.value(view.rho, view.f) + limits + worth - float(c @ kept) - room
    below = (limits + worth - float(c @ kept)) / most + float(kept.sum())
    if kept.any():
        return below
    return max(
        below, worth / most * float(np.exp(limits / multiplier.sum()))
    )  # said at the best multiple


# Weighted sums of queries as matrices of every node, and the adjoint: what each query has of given
# matrices.

# In which coordinates the histogram of a unit is described, and which of them each unit has.
#
# Over all that structures allow, the coordinates are the dense levels of
# :mod:`das.estimate.information`, once for each contrast. Over the cells that a unit was published
# with, they are these cells, and there is one contrast.


@dataclass(frozen=True, eq=False)
class Coordinates:
    """``size`` coordinates in each of several contrasts.

    ``multiplicity`` ``(contrasts,)`` is the number of equal vectors in each. Only the first
    contrast has a total. ``contrasts``: those of a schema's algebra, or none for cells."""

    size: int
    multiplicity: Array
    contrasts: Contrasts | None = None

    @staticmethod
    def of_contrasts(contrasts: Contrasts) -> Coordinates:
        return Coordinates(contrasts.d, contrasts.multiplicity, contrasts)

    @staticmethod
    def of_cells(schema: Schema) -> Coordinates:
        return Coordinates(schema.cells, np.ones(1))

    def part(self, contrasts: slice) -> Coordinates:
        """The coordinates with the multiplicities of some contrasts alone."""
        return replace(self, multiplicity=self.multiplicity[contrasts])

    def label(self, query: Query) -> NDArray[np.intp]:
        """Which coordinates a query adds up: equal numbers, ``(size,)``."""
        if self.contrasts is None:
            return query.index
        return np.asarray(
            np.unique(self.contrasts.answers(query)[:, 0], return_inverse=True)[1], dtype=np.intp
        )

    def factor(self, query: Query) -> Array:
        """Q'Q in each contrast, as a multiple of one where labels are equal, ``(contrasts,)``."""
        if self.contrasts is None:
            return np.ones(1)
        return self.contrasts.query(query)[:, 0, 0]


@dataclass(frozen=True, eq=False)
class Grams:
    """``same`` ``(queries, entries)``: whether a query adds up row and column of an entry.
    ``factor`` ``(queries, contrasts)``."""

    same: NDArray[np.bool_]
    factor: Array
    node: NDArray[np.intp]
    nodes: int

    @staticmethod
    def for_queries(layout: Placement, coordinates: Coordinates, queries: Sequence[Query]) -> Grams:
        row, column = layout.rows()
        same = np.empty((len(queries), len(row)), dtype=bool)
        for i, q in enumerate(queries):
            label = coordinates.label(q)[layout.coordinate]
            same[i] = label[row] == label[column]
        node = np.repeat(np.arange(len(layout.size)), layout.size**2)
        return Grams(
            same, np.array([coordinates.factor(q) for q in queries]), node, len(layout.size)
        )

    def part(self, contrasts: slice) -> Grams:
        """The matrices of some contrasts alone."""
        return replace(self, factor=self.factor[:, contrasts])

    def apply(self, weight: Array, scale: Array) -> Array:
        """``sum_q weight[node, q] scale[contrast] factor[q, contrast] same[q]``: ``(nodes, queries)
        -> (contrasts, entries)``."""
        out = np.zeros((self.factor.shape[1], self.same.shape[1]))
        for q, same in enumerate(self.same):
            if weight[:, q].any():
                one = np.where(same, weight[self.node, q], 0.0)
                for m in np.flatnonzero(self.factor[q]):
                    out[m] += scale[m] * self.factor[q, m] * one
        return out

    def adjoint(self, matrices: Array, scale: Array, queries: Sequence[int] | None = None) -> Array:
        """``(contrasts, entries) -> (nodes, queries)``; those of ``queries`` alone, if it is given,
        and zeros for the others."""
        out = np.zeros((self.nodes, len(self.same)))
        known: dict[tuple[float, ...], Array] = {}
        for q in range(len(self.same)) if queries is None else queries:
            by_contrast = tuple((scale * self.factor[q]).tolist())
            if by_contrast not in known:
                known[by_contrast] = np.asarray(by_contrast) @ matrices
            out[:, q] = np.bincount(
                self.node,
                weights=np.where(self.same[q], known[by_contrast], 0.0),
                minlength=self.nodes,
            )
        return out
