r"""The working prior of :mod:`das.model.prior` in the least squares of a family of the lowest
level.

*The model.* Take nested queries, from the total to the cells. Each group A of a child's cells has
the mean :math:`\mu_A = w\,p_A` and a variance :math:`V_A = a\,\mu_A + b\,\mu_A^2`. The number of
people in a child and their groups are separate: a block is not smaller because all its people are
in one group. So the prior puts the total near :math:`\mu_T`, and the rest near the expected
*proportions*, for any total:

.. math:: \frac{(1'x - \mu_T)^2}{V_T} + \min_t\,(x - t\mu)'R\,(x - t\mu), \qquad
          \text{precision } P = \frac{11'}{V_T} + R - \frac{R\mu\mu'R}{\mu'R\mu},

and the right-hand side is :math:`P\mu = 1\,\mu_T/V_T`. R is the inverse of

.. math:: \Sigma = \mathrm{diag}(V_k) + \sum_A s_A\,u_A u_A', \qquad u_{A,k} = \mu_k / \mu_A\ (k \in A), \qquad
          s_A = \max\Bigl(0,\; V_A - \sum_{B \subset A} V_B\Bigr)

over the groups A of all queries except the first and the last, with B the groups of the next finer
query. The parts of a group may explain less than its whole spread. They share the rest, in
proportion to their expected counts. (If they explain more, :math:`V_A` is their sum.) The formula
of Sherman and Morrison is applied group by group, from fine to coarse. So R takes no more work than
writing it down. P is added to the child's own precision.

*Caution.* Groups and cells are assumed to vary four times as much as estimated. To pull a place
towards others does harm that a random error does not.

*Surprises.* Places differ by more than any variance says: a block of one group among others, or one
with a barracks that counts as housing. Let r be the distance of a child's own measurements from
:math:`\mu_A`, and :math:`\sigma_A^2` the variance of their noise. If r exceeds what the two
variances explain,

.. math:: V_A := V_A + \max\bigl(0,\; r^2 - c\,(V_A + \sigma_A^2)\bigr),

so that a large deviation is believed (the estimate returns to its own measurements as r grows). c
is 9 for the total and the cells, and 4 for the groups between.

*No prior* is used for cells of group quarters, because a facility can have five people or five
thousand. The same holds for children that were not measured in detail or have no housing unit. It
also holds for families that are too large to be solved with a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.estimate.family import Family
from das.model.grouping import DETAILED
from das.model.prior import HousingPrior
from das.solve import Kinds, Partitions

Array = NDArray[np.float64]

#: The level of a dwelling attribute that is no facility.
HOUSEHOLDS = 0
#: How many times its variance the square of a difference must be to surprise: of the total and of
#: cells; of groups between.
_SURPRISING, _SURPRISING_GROUP = 9.0, 4.0
#: How many times the variance that was found groups and cells are taken to have.
_CAUTION = 4.0
#: Beyond so many entries (children x cells^2) children of about as many expected inhabitants share
#: their mean precision.
LARGE = 1 << 22


@dataclass(frozen=True, eq=False)
class Households:
    """The households of a family, over the household cells where its parent has somebody. ``cell``
    ``(n,)`` are their places among the family's cells.

    ``share`` ``(children,)`` is each child's share of the parent's housing units, and ``mean``
    ``(children, n)`` the expected count. For each of some nested queries, ``answer`` has the
    numbers of its answers, ``(groups,)``, and ``group`` each cell's group, ``(n,)``."""

    cell: NDArray[np.intp]
    share: Array
    mean: Array
    answer: tuple[NDArray[np.intp], ...]
    group: tuple[NDArray[np.intp], ...]

    @staticmethod
    def of(family: Family, queries: Sequence[str]) -> Households | None:
        """The households of a family. ``None`` if there is nothing to share out among several
        children. The upper bound on a child's persons in households is the same for every housing
        unit. So shares of it are shares of the units (:mod:`das.geography.bounds`)."""
        cell = np.flatnonzero(family.bounds.group[family.cell] == HOUSEHOLDS)
        most = family.bounds.upper[:, HOUSEHOLDS].astype(float)
        if family.parent is None or not len(cell) or (most > 0).sum() < 2:
            return None
        share = most / most.sum()
        at = [
            np.unique(family.schema.query(q).index[family.cell[cell]], return_inverse=True)
            for q in queries
        ]
        return Households(cell, share, share[:, None] * family.parent[cell], *zip(*at, strict=True))

    def sums(self, x: Array, query: int) -> Array:
        """``(children, n)`` added up to the groups of a query."""
        return _sums(x, self.group[query])

    def measured(
        self, gram: Kinds, rhs: Array, known: NDArray[np.bool_]
    ) -> tuple[Array, list[Array]]:
        """What the children's own measurements say, ``(children, n)``, and the variance of its
        noise in the groups of each query, ``(children, groups)``: the mean, and infinite, where a
        child is not ``known`` in detail."""
        used = np.unique(gram.kind[known])
        inverse = np.zeros_like(gram.matrices)
        inverse[used] = np.linalg.inv(gram.matrices[used])
        own = np.stack([inverse[k] @ b for k, b in zip(gram.kind, rhs, strict=True)])[:, self.cell]
        inner = inverse[:, self.cell[:, None], self.cell]
        noise = []
        for group in self.group:
            variance = _sums((inner * (group[:, None] == group)).sum(axis=2), group)[gram.kind]
            noise.append(np.where(known[:, None], variance, np.inf))
        return np.where(known[:, None], own, self.mean), noise


def add_prior(
    prior: HousingPrior, family: Family, gram: Array | Partitions | Kinds, rhs: Array
) -> tuple[Array | Partitions | Kinds, Array]:
    """The normal equations of a family over all its cells, with those of the prior."""
    lives = Households.of(family, prior.queries)
    if lives is None or isinstance(gram, Partitions):
        return gram, rhs
    own = as_kinds(gram, len(rhs))
    found = lives.measured(own, rhs, in_detail(family))
    bucket = _buckets(own.kind, lives.mean.sum(axis=1), len(family.cell))
    inner, out = np.ix_(lives.cell, lives.cell), rhs.copy()
    if bucket is None:
        matrices, precision = own.matrices[own.kind], _precision(prior, lives, found, slice(None))
        matrices[:, inner[0], inner[1]] += precision
        out[:, lives.cell] += (precision @ lives.mean[:, :, None])[:, :, 0]
        return matrices, out
    first = np.unique(bucket, return_index=True)[1]
    matrices = own.matrices[own.kind[first]]
    for matrix, some in zip(matrices, map(bucket.__eq__, range(len(first))), strict=True):
        precision = np.mean(
            [
                _precision(prior, lives, found, slice(i, i + 1))[0]
                for i in np.flatnonzero(some).tolist()
            ],
            axis=0,
        )
        matrix[inner] += precision
        out[np.ix_(some, lives.cell)] += lives.mean[some] @ precision
    return Kinds(matrices, bucket), out


def as_kinds(gram: Array | Kinds, children: int) -> Kinds:
    """A matrix of all, one of each child, or such of some kinds, as the last."""
    if isinstance(gram, Kinds):
        return gram
    if gram.ndim == 2:
        return Kinds(gram[None], np.zeros(children, dtype=np.intp))
    return Kinds(gram, np.arange(children))


def in_detail(family: Family) -> NDArray[np.bool_]:
    """Which children have a measurement of every cell, ``(children,)``."""
    return np.isfinite(family.answers(DETAILED).variance)


def _buckets(kind: NDArray[np.intp], expected: Array, cells: int) -> NDArray[np.intp] | None:
    """For each child the number of those that it shares a matrix with, which are of one kind and of
    about one size; ``None`` where there is room for a matrix of each."""
    room = max(1, LARGE // cells**2)
    if len(kind) <= room:
        return None
    order = np.lexsort((expected, kind))
    alike = np.split(order, np.flatnonzero(np.diff(kind[order])) + 1)
    out = np.zeros(len(kind), dtype=np.intp)
    for number, some in enumerate(
        part for same in alike for part in np.array_split(same, min(len(same), room))
    ):
        out[some] = number
    return out


def _precision(
    prior: HousingPrior, lives: Households, found: tuple[Array, list[Array]], some: slice
) -> Array:
    """P for ``some`` children, ``(some, n, n)``; zero without a housing unit."""
    own, noise = found
    mean = lives.mean[some]
    off = own[some] - mean
    variance = []
    for i, (spread, answer, group) in enumerate(
        zip(prior.spreads, lives.answer, lives.group, strict=True)
    ):
        expected = spread.variance(answer, _sums(mean, group))
        if i:
            expected = _CAUTION * expected
        c = _SURPRISING_GROUP if 0 < i < len(prior.spreads) - 1 else _SURPRISING
        surprise = _sums(off, group) ** 2 - c * (expected + noise[i][some])
        variance.append(expected + np.maximum(surprise, 0.0))
    lived_in = lives.share[some] > 0
    mean, variance = mean[lived_in], [v[lived_in] for v in variance]
    out = np.zeros((*lives.mean[some].shape, lives.mean.shape[1]))
    out[lived_in] = (
        _of_proportions(mean, _inverse(mean, variance[1:], lives.group[1:]))
        + 1.0 / variance[0][:, :, None]
    )
    return out


def _of_proportions(mean: Array, precision: Array) -> Array:
    """What of a precision ``(children, n, n)`` is left where multiples of the mean are all
    alike.
    """
    w = (precision @ mean[:, :, None])[:, :, 0]
    return np.asarray(
        precision - w[:, :, None] * w[:, None, :] / (w * mean).sum(axis=1)[:, None, None]
    )


def _inverse(mean: Array, variance: Sequence[Array], groups: Sequence[NDArray[np.intp]]) -> Array:
    """R ``(children, n, n)``, from the means of the cells and the variances of the groups of each
    query but the total, coarse to fine."""
    explained, finer = variance[-1], np.arange(mean.shape[1])
    out = np.zeros((*mean.shape, mean.shape[1]))
    out[:, finer, finer] = 1.0 / explained
    for v, group in zip(variance[-2::-1], groups[-2::-1], strict=True):
        home = np.zeros(explained.shape[1], dtype=np.intp)
        home[finer] = group
        parts = _sums(explained, home)
        together = np.maximum(v - parts, 0.0)
        u = mean / _sums(mean, group)[:, group]
        same = group[:, None] == group
        w = ((out * same) @ u[:, :, None])[:, :, 0]
        factor = together / (1.0 + together * _sums(u * w, group))
        out -= (factor[:, group] * w)[:, :, None] * w[:, None, :] * same
        explained, finer = np.maximum(v, parts), group
    return out


def _sums(x: Array, group: NDArray[np.intp]) -> Array:
    """``(children, n)`` added up to ``(children, groups)``."""
    out = np.zeros((int(group.max()) + 1, len(x)))
    np.add.at(out, group, x.T)
    return np.ascontiguousarray(out.T)
