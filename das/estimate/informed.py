r"""The constrained descent with full information.

It works as :mod:`das.estimate.passes`, with one difference. A child is represented by the estimate
of its whole subtree instead of its own measurements (:mod:`das.estimate.information`). This
estimate has the precision :math:`J_c` and the right-hand side :math:`h_c`:

.. math:: \min_{x \ge 0} \sum_c \tfrac12 x_c' J_c x_c - h_c' x_c \quad\text{subject to the same constraints.}

Three passes keep non-negativity from affecting what is known well. The first estimates the
children's totals, measured by :math:`1'\mu_c` with variance :math:`1'C_c 1`. The second estimates
the marginals that are known better than from their cells, with
the totals held to within the tolerance. The third estimates everything, with both held.

Siblings whose subtrees are measured alike have the same :math:`J`, and differ only in :math:`h`. So
the solver gets one matrix for each kind of children, not one for each child."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.estimate.batch import LeastSquaresEstimator, Steps
from das.estimate.family import Array, Estimator, Family, NoisyAnswers
from das.estimate.information import Contrasts, Information, alike, given_total, posterior
from das.estimate.least_squares import Asking, LeastSquares, Targets
from das.model.query import Query
from das.model.solution import Certificate, Solution
from das.rounding import Marginal
from das.solve import ChildrenQP, Kinds, grouped

# The marginals that a plan measures well, estimated before the cells and then held fixed.
#
# Non-negativity biases sums over cells that are mostly empty. The estimates of these cells are the
# positive parts of their noise, and they pull a marginal away from its measurement
# (:mod:`das.model.post_processing`). So a pass between the totals and everything else estimates the marginals
# by themselves. A marginal is a query :math:`Q` that is measured at the level. :math:`M` are the sums
# over the coarsest product of groupings that separates all answers of all such queries and the groups
# of the bounds. For dwellings and voting age there are 16. Let the subtree of child :math:`c` give
# :math:`x_c \sim (\mu_c, C_c)`. The pass is
#
# .. math:: \min_{y \ge 0} \sum_c (y_c - M\mu_c)'(MC_cM')^{-1}(y_c - M\mu_c), \qquad \sum_c y_c = Mp,
#
# with the bounds and totals. Every such :math:`y` has a table of cells: :math:`x_{ck} =
# y_{ca}\,p_k/p_a` for the cells :math:`k` of sum :math:`a`. So the last pass can hold the answers to
# the queries.
#
# *Which.* A marginal should be held if it is known better than from its cells. Holding it loses the
# information in the cells. Let :math:`V` be the variance of the marginal, and :math:`U` that of the
# sum of its cells. Then the variance grows by a factor :math:`1 + V/U`. Not holding it costs the
# bias. Only
# occupied cells count for :math:`U`: the others are known to be near zero. So a marginal is *precise*
# if
#
# .. math:: \operatorname{tr}_{K}(C_c) \ge 8 \operatorname{tr}(QC_cQ'),
#
# with :math:`C_c` given the total. In :math:`\operatorname{tr}_K` a cell counts by the probability
# that it is occupied, given the parent's count in it. Then at most 6 % of a standard error can be
# lost. (:mod:`das.model.post_processing` requires a factor of sixteen, over all cells.) The test is made child
# by child, from public variances and the published parent alone.
#
# Rounding also keeps the answers that are held (:mod:`das.rounding.controlled`).


#: How many times the variance of a marginal its cells must have together.
PRECISE = 8
#: The pass is for marginals: of more sums than this a child, those of the least precise queries are
#: not held.
MOST = 64
#: What is relative to the largest is rounding error.
_NONE = 1e-10


@dataclass(frozen=True, eq=False)
class HeldQuery:
    """A query, the children that hold its answers, ``(children,)``, and the standard deviation of
    one of these."""

    query: Query
    by: NDArray[np.bool_]
    deviation: float

    def follows(self, other: HeldQuery) -> bool:
        """Whether its answers are sums of those of another, for every child that holds them."""
        return self.query.sums(other.query) and not (self.by & ~other.by).any()


def precise(
    contrasts: Contrasts,
    queries: Sequence[Query],
    covariance: Array,
    likely: Array,
    group: NDArray[np.intp],
) -> list[HeldQuery]:
    """The precise queries, the most precise first, as far as the pass has room for them and the
    groups ``group`` of the bounds. ``covariance`` is given the total; ``likely`` ``(d,)``: how many
    cells of each dense level are likely occupied."""
    spread = _each(contrasts, covariance) @ likely
    found = []
    for q in queries:
        variance = np.einsum(
            "m,mij,umji->u", contrasts.multiplicity, contrasts.query(q), covariance
        )
        by = (variance > _NONE * spread) & (spread >= PRECISE * variance)
        if by.any():
            found.append(
                (
                    float((variance[by] / spread[by]).max()),
                    HeldQuery(q, by, float(np.median(variance[by]) / q.answers) ** 0.5),
                )
            )
    held: list[HeldQuery] = []
    for _, one in sorted(found, key=lambda f: f[0]):
        if CellSums.coarsest(contrasts, [one.query, *(h.query for h in held)], group).size <= MOST:
            held.append(one)
    return [
        h
        for i, h in enumerate(held)
        if not any(h.follows(o) for o in held[i + 1 :] + held[:i] if not o.follows(h))
    ]


def _each(contrasts: Contrasts, covariance: Array) -> Array:
    """The variance of a cell of each dense level, ``(units, d)``."""
    diagonal = np.diagonal(covariance, axis1=-2, axis2=-1)
    return np.einsum("m,umi->ui", contrasts.multiplicity, diagonal) / float(
        np.prod(contrasts.sizes)
    )


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums of cells: ``dense`` ``(d,)`` numbers the groups of the dense levels, ``plain`` those of
    each plain axis, and a sum is one of each."""

    contrasts: Contrasts
    dense: NDArray[np.intp]
    plain: tuple[NDArray[np.intp], ...]

    @staticmethod
    def coarsest(
        contrasts: Contrasts, queries: Sequence[Query], group: NDArray[np.intp]
    ) -> CellSums:
        """The coarsest that tells apart the answers of all ``queries``, and cells of different
        ``group`` ``(cells,)``."""
        told = [q.index[contrasts.order].reshape(contrasts.d, *contrasts.sizes) for q in queries]
        told.append(group[contrasts.order].reshape(contrasts.d, *contrasts.sizes))
        parts = [_alike(told, axis) for axis in range(1 + len(contrasts.sizes))]
        return CellSums(contrasts, parts[0], tuple(parts[1:]))

    @property
    def size(self) -> int:
        return int(np.prod([int(part.max()) + 1 for part in (self.dense, *self.plain)]))

    @cached_property
    def of_cell(self) -> NDArray[np.intp]:
        """The sum that each cell of the schema is in, ``(cells,)``."""
        out = self.dense
        for part in self.plain:
            out = (out[..., None] * (int(part.max()) + 1)) + part
        return out.ravel()[self.contrasts.place]

    def mean(self, mu: Array) -> Array:
        r""":math:`M\mu`, ``(units, d, n_1, ...) -> (units, sums)``."""
        return mu.reshape(len(mu), -1)[:, self.contrasts.place] @ _indicator(self.of_cell).T

    def covariance(self, covariance: Array) -> Array:
        r""":math:`MCM'`, ``(units, contrasts, d, d) -> (units, sums, sums)``: of each contrast the
        matrix between groups of dense levels, times its projection between groups along each plain
        axis."""
        dense = _indicator(self.dense)
        out = np.zeros((len(covariance), self.size, self.size))
        for m, kind in enumerate(self.contrasts.kinds):
            along: Array = np.ones((1, 1))
            for part, contrast in zip(self.plain, kind, strict=True):
                size = np.bincount(part).astype(float)
                constant = np.outer(size, size) / len(part)
                step: Array = np.diag(size) - constant if contrast else constant
                along = np.asarray(np.kron(along, step), dtype=np.float64)
            inner = dense @ covariance[:, m] @ dense.T
            out += np.einsum("uij,kl->uikjl", inner, along).reshape(out.shape)
        return out


def _alike(told: Sequence[NDArray[np.intp]], axis: int) -> NDArray[np.intp]:
    """Which places along an axis no array tells apart: a number for each."""
    rows = [np.moveaxis(t, axis, 0).reshape(t.shape[axis], -1) for t in told]
    number: dict[tuple[bytes, ...], int] = {}
    keys = [tuple(r[i].tobytes() for r in rows) for i in range(told[0].shape[axis])]
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.intp)


def _indicator(part: NDArray[np.intp]) -> Array:
    """``(groups, members)``: 1 where the member is in the group."""
    return (part[None, :] == np.arange(int(part.max()) + 1)[:, None]).astype(float)


#: What a pass asks, and what a later one holds on to.
_Carrying = Generator[ChildrenQP, Solution, list[tuple[Query, Array]]]
#: The kind of each child, of one precision, and the first child of each.
_OfChildren = tuple[NDArray[np.intp], NDArray[np.intp]]

#: How much of what is known of the total is taken out of the later passes, which hold the totals
#: anyway: nearly all, or the solver would chase a stiff direction that the constraints have settled
#: (Rhode Island's root then takes more than 20,000 iterations in place of 220); not all, to stay
#: definite.
_HELD = 0.999
#: The least variance of a total.
_LEAST = 1e-9
#: Beyond so many entries (children x cells^2) the children share their mean precision. What it
#: decides is how the difference between the parent and the sum of its children is shared out; among
#: many children a share is small.
_LARGE = 1 << 22


@dataclass(frozen=True, eq=False)
class FullInformationEstimator(LeastSquaresEstimator):
    """``information`` of the subtrees of units ``start, start + 1, ...`` of some levels, and the
    ``queries`` that are measured there; at others, the ``own`` measurements of each unit are all
    there is, and the estimator that takes them is asked."""

    contrasts: Contrasts
    information: Mapping[str, Information]
    queries: Mapping[str, tuple[Query, ...]]
    own: Estimator
    start: int = 0
    tolerance: float = 0.1
    accuracy: float = 1e-6
    _answered: dict[tuple[str, int], tuple[NDArray[Any] | None, list[HeldQuery]]] = field(
        default_factory=dict, init=False, repr=False
    )  #: of the families that were estimated, by level and first child: the parent's counts, and what is held of it

    def estimates(self, families: Sequence[Family]) -> list[tuple[Array, Certificate]]:
        known = not families or families[0].level in self.information
        return super().estimates(families) if known else self.own.estimates(families)

    def steps(self, family: Family) -> Steps:
        problem = LeastSquares(family, self.tolerance)
        alone = self._alone(family)
        c, mu = posterior(self.contrasts, alone)
        held = _held(family, self.contrasts, c, self.queries[family.level])
        self._answered[family.level, int(family.unit[0])] = family.parent, held
        x = yield from _solved(problem, self.contrasts, alone, c, mu, held)
        return x, problem.certificate

    def marginals(self, family: Family) -> tuple[Marginal, ...]:
        """The marginals that are held. An only child is its parent and holds none."""
        if family.level not in self.information:
            return self.own.marginals(family)
        able = family.able
        if able.sum() < (1 if family.parent is None else 2):
            return ()
        family = family.some(able)
        parent, held = self._answered.pop((family.level, int(family.unit[0])), (None, []))
        if parent is None or parent is not family.parent:  # nothing was asked about it
            c, _ = posterior(self.contrasts, self._alone(family))
            held = _held(family, self.contrasts, c, self.queries[family.level])
        return tuple(Marginal(h.query, h.deviation) for h in held)

    def _alone(self, family: Family) -> Information:
        """The estimates of the children's subtrees, without known totals, so that they have an
        inverse."""
        return replace(self.information[family.level].rows(family.unit - self.start), total=None)

    def part(self, level: str, start: int, stop: int) -> Estimator:
        if level not in self.information:
            return self.own.part(level, start, stop)
        here = {level: self.information[level].rows(slice(start - self.start, stop - self.start))}
        return replace(self, information=here, queries={level: self.queries[level]}, start=start)


def _solved(
    problem: LeastSquares,
    contrasts: Contrasts,
    alone: Information,
    c: Array,
    mu: Array,
    held: Sequence[HeldQuery],
) -> Asking:
    """The three passes. A known total is a constraint in each."""
    kinds = alike(alone.support, alone.precision.reshape(len(c), -1))
    carried = yield from _totals(problem, contrasts, c, mu)
    carried += yield from _marginals(problem, contrasts, held, c, mu, kinds, carried)
    gram, rhs = _objective(contrasts, alone, c, mu, kinds, problem.cell)
    group = problem.bounds.group[problem.cell]
    return (
        yield from problem.solve(
            gram, rhs, problem.parent, group, problem.rows(problem.cell, carried)
        )
    )


def _held(
    family: Family, contrasts: Contrasts, c: Array, queries: Sequence[Query]
) -> list[HeldQuery]:
    return precise(
        contrasts,
        queries,
        given_total(contrasts, c),
        _likely(family, contrasts),
        family.bounds.group,
    )


def _totals(problem: LeastSquares, contrasts: Contrasts, c: Array, mu: Array) -> _Carrying:
    """What the first pass says, where the totals are not known."""
    total = contrasts.schema.query("total")
    if problem.bounds.total is not None:
        return []
    sums = mu.sum(axis=tuple(range(1, mu.ndim)))
    if problem.parent is None:  # the total is what everything below says it is
        return [(total, np.maximum(sums, problem.bounds.lower.sum(axis=1))[:, None])]
    x = yield from problem.one_pass(
        [NoisyAnswers(total, sums[:, None], _variance_of_total(contrasts, c))], []
    )
    return [(total, grouped(x, total.index[problem.cell], 1))]


def _likely(family: Family, contrasts: Contrasts) -> Array:
    """The expected number of a child's occupied cells in each dense level, ``(d,)``. Each of the
    parent's persons is assumed to be in any child with equal probability. At the root, all possible
    cells count."""
    level = contrasts.place[family.cell] // int(np.prod(contrasts.sizes, dtype=int))
    likely = None if family.parent is None else 1.0 - (1.0 - 1.0 / len(family)) ** family.parent
    return np.bincount(level, weights=likely, minlength=contrasts.d).astype(float)


def _marginals(
    problem: LeastSquares,
    contrasts: Contrasts,
    held: Sequence[HeldQuery],
    c: Array,
    mu: Array,
    kinds: _OfChildren,
    carried: Targets,
) -> _Carrying:
    """What the second pass says: the problem on the sums of cells that the held queries tell
    apart."""
    if not held:
        return []
    marginal = CellSums.coarsest(contrasts, [h.query for h in held], problem.bounds.group)
    at, first, sum_of = np.unique(
        marginal.of_cell[problem.cell], return_index=True, return_inverse=True
    )
    one_cell = problem.cell[first]
    parent = None if problem.parent is None else np.bincount(sum_of, weights=problem.parent)
    kind, first = kinds
    gram = _given(marginal.covariance(c[first]))
    rhs = (gram[kind] @ marginal.mean(mu)[:, :, None])[:, at, 0]
    y = yield from problem.solve(
        _matrices(gram[:, at[:, None], at[None, :]], kind),
        rhs,
        parent,
        problem.bounds.group[one_cell],
        problem.rows(one_cell, carried),
    )
    answers = [(h, grouped(y, h.query.index[one_cell], h.query.answers)) for h in held]
    return [(h.query, np.where(h.by[:, None], a, np.nan)) for h, a in answers]


def _given(covariance: Array) -> Array:
    """The precision of some sums given the totals, ``(children, sums, sums)``. What a child cannot
    hold is 0 by constraint: any definite block will do there."""
    able = np.diagonal(covariance, axis1=1, axis2=2) > 0
    inside = able[:, :, None] & able[:, None, :]
    precision = np.linalg.inv(
        np.where(inside, covariance, 0.0) + np.eye(able.shape[1]) * ~able[:, None, :]
    )
    of_total = _HELD / np.maximum(covariance.sum(axis=(1, 2)), _LEAST)
    return np.asarray(precision - of_total[:, None, None] * inside)


def _objective(
    contrasts: Contrasts,
    alone: Information,
    c: Array,
    mu: Array,
    kinds: _OfChildren,
    cell: NDArray[np.int64],
) -> tuple[Array | Kinds, Array]:
    """Precision and right-hand side on the parent's cells, given the totals."""
    kind, first = kinds
    support = alone.support[first]
    inside = support[:, None, :, None] & support[:, None, None, :]
    precision = np.where(
        inside, alone.precision[first] - _HELD * _total_part(contrasts, c[first]), 0.0
    )
    # what a child cannot hold is 0 by constraint: any definite block will do there
    precision += np.eye(contrasts.d) * ~support[:, None, None, :] * alone.precision[:, -1:].max()
    if len(c) * len(cell) ** 2 > _LARGE:
        kind, precision = np.zeros_like(kind), precision[kind].mean(axis=0, keepdims=True)
    rhs = contrasts.apply(precision[kind], mu).reshape(len(c), -1)
    return _matrices(contrasts.on_cells(precision, cell), kind), rhs[:, contrasts.place[cell]]


def _matrices(gram: Array, kind: NDArray[np.intp]) -> Array | Kinds:
    """The matrices of some children, ``gram[kind]``, as the solver takes them."""
    if len(gram) == 1:
        return np.asarray(gram[0])
    return Kinds(gram, kind) if len(gram) < len(kind) else gram


def _total_part(contrasts: Contrasts, covariance: Array) -> Array:
    """11' / (1'C1): what J knows of the total. Taking it away leaves the precision given the
    total."""
    return (
        contrasts.query(contrasts.schema.query("total"))[None]
        / _variance_of_total(contrasts, covariance)[:, None, None, None]
    )


def _variance_of_total(contrasts: Contrasts, covariance: Array) -> Array:
    """1'C1: only the constant contrast sums to something, n_1 ... n_m times its matrix."""
    return np.maximum(covariance[:, 0].sum(axis=(1, 2)) * float(np.prod(contrasts.sizes)), _LEAST)
