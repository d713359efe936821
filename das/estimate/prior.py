r"""The working prior of :mod:`das.model.post_processing` in the least squares of a family of the lowest
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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate.family import Family
from das.model.frozen import Frozen
from das.model.post_processing import HousingPrior, SharesPrior
from das.model.query import DETAILED
from das.model.spine import Spine
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
    def from_family(family: Family, queries: Sequence[str]) -> Households | None:
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
    lives = Households.from_family(family, prior.queries)
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
    prior: HousingPrior, lives: Households, measured: tuple[Array, list[Array]], some: slice
) -> Array:
    """P for ``some`` children, ``(some, n, n)``; zero without a housing unit."""
    own, noise = measured
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


# Sums of children that are shared out as their parent's are, and the prior of shares
# (:class:`das.model.post_processing.SharesPrior`).
#
# *The model.* In a pass of :mod:`das.estimate.outer` a child c has the sum :math:`n_{cg}` of the cells
# of a group g. The parent has the share :math:`p_k` of the group's people in cell k, and the children
# together :math:`N_g` people. The prior expects :math:`s_{ck} = n_{cg} p_k`. Its covariance within a
# group is a times the multinomial one, so a cell has the variance :math:`a\,s_{ck}(1 - p_k)`, and
# :math:`a (1 - n_{cg}/N_g)\,s_{ck}(1 - p_k)` if the parent is given. Without the prior a block's cells
# of 0 to 3 persons have measurements with a standard deviation of 30. Least squares then puts its
# people into the cells with the largest noise.
#
# *Its weight.* The term :math:`\lambda \|x_c - s_c\|^2` has one weight for all children of a parent, so
# they stay alike, and the solver needs one certificate for all. Where sums are known, a group of m
# cells has m - 1 degrees of freedom. With this weight the variances of a child add up to
# :math:`\sum_g (m_g - 1)/\lambda`. So
#
# .. math:: \frac{1}{\lambda} = a\, v, \qquad
# v = \frac{\sum_c \sum_k s_{ck} (1 - p_k)}{\sum_c \sum_g (m_g - 1)}
#
# over the cells and groups where a child has somebody. As a goes to 0 the estimate goes to s; as a
# goes to infinity the prior says nothing.
#
# *The spread a* is estimated one level higher, where measurements say something: block groups about
# their tract. Let m be a noisy answer of one cell with variance :math:`\sigma^2`,
# :math:`x = (1 - n_{cg}/N_g)\, s_{ck} (1 - p_k)` and :math:`r = m - s_{ck}`. Then :math:`E\,r^2 -
# \sigma^2 = a x`. Weighted least squares with :math:`T = x + \sigma^2`, a square's variance being
# :math:`2T^2` at a = 1, give
#
# .. math:: \hat a = \frac{\sum x (r^2 - \sigma^2) / T^2 + I_0}{\sum x^2 / T^2 + I_0}, \qquad
# \text{standard error } \sqrt{\frac{2}{\sum x^2 / T^2 + I_0}},
#
# with :math:`I_0 = 2`: one more observation of a = 1, with standard error 1, for places that are too
# small. a is not below 1: persons do not vary less than if they settled alone. Outliers count in
# full, so places with enclaves have a larger a, and a weaker prior. The parent's own errors raise a,
# too. The sums are two numbers for each parent, so the estimate needs no further measurements, and
# costs nothing. Each unit of :func:`scope` has its own a: by county, in the tree of the census.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: What is known of the spread before anything is seen, as a sum of squares over variances.
_BEFORE = 2.0
#: Persons that settle alone.
_LEAST = 1.0
#: Levels below the units that have a spread of their own: parents of parents of the lowest units.
_BELOW = 3


@dataclass(frozen=True, eq=False)
class SharedOut(Frozen):
    """Sums ``known`` ``(children, groups)``, and for each variable its ``group`` and the ``part``
    that it has of the parent's sum, ``(variables,)``."""

    known: Ints
    group: Ints
    part: Floats

    @staticmethod
    def from_parent(known: Ints, group: Ints, parent: Ints | None) -> SharedOut:
        """By the counts of the parent ``(variables,)``, or evenly where there is none."""
        of = np.ones(len(group)) if parent is None else parent.astype(float)
        return SharedOut(known, group, of / np.bincount(group, of)[group])

    @property
    def expected(self) -> Floats:
        """``(children, variables)``."""
        return self.known[:, self.group] * self.part

    @property
    def alone(self) -> Floats:
        """The variance of each count if everybody settled alone, ``(children, variables)``."""
        return self.expected * (1 - self.part)

    def mean_alone(self) -> float:
        """That of a degree of freedom; 0 where nobody is."""
        degrees = (self.known[:, self.group] > 0) @ (1 - 1 / np.bincount(self.group)[self.group])
        return float(self.alone.sum() / degrees.sum()) if degrees.any() else 0.0

    def weight(self, prior: SharesPrior, number: int, unit: int) -> Floats:
        """That of the prior, ``(children,)``: the same for all."""
        mean = self.mean_alone()
        return np.full(len(self.known), prior.weight(number, unit, mean) if mean else 0.0)

    def deviations(self, value: Floats, precision: Floats) -> Floats:
        """What noisy answers say about the spread: the two sums of the estimate, and the number of
        answers. ``precision`` ``(children, variables)``: the inverse variances; ``value``: these
        times the answers."""
        able = (precision > 0) & (self.known[:, self.group] > 0)
        noise = 1 / precision[able]
        off = value[able] * noise - self.expected[able]
        rest = 1 - self.known / np.maximum(self.known.sum(axis=0), 1)
        x = (self.alone * rest[:, self.group])[able]
        total = (x + noise) ** 2
        return np.array([(x * (off**2 - noise) / total).sum(), (x**2 / total).sum(), able.sum()])


def scope(spine: Spine) -> str:
    """The level whose units have spreads of their own.

    Raises:
        InputError: the tree has fewer than three levels.
    """
    if len(spine.levels) < _BELOW:
        raise InputError(
            f"a tree of the levels {', '.join(spine.levels)}",
            where="prior = 'shares'",
            remedy="its weight is estimated from the level above the lowest and its parents:"
            " name three levels, or do without a prior",
        )
    return spine.levels[max(0, len(spine.levels) - _BELOW - 1)]


def shares_prior(spine: Spine, seen: Sequence[Floats]) -> SharesPrior:
    """The prior from the sums of each pass (:meth:`SharedOut.deviations`), ``(parents, 3)`` over the
    parents of the parents of the lowest units."""
    level = scope(spine)
    home = spine.up(spine.levels[-_BELOW], level)
    sums = np.zeros((len(seen), spine.units(level), 3))
    for number, each in enumerate(seen):
        np.add.at(sums[number], home, each)
    information = sums[:, :, 1] + _BEFORE
    spread = np.maximum((sums[:, :, 0] + _BEFORE) / information, _LEAST)
    return SharesPrior(level, spread, np.sqrt(2 / information), sums[:, :, 2].astype(np.int64))


def joined_prior(spine: Spine, parts: Sequence[Mapping[str, NDArray[Any]]]) -> SharesPrior:
    """Of a tree, from those of its subtrees (:meth:`SharesPrior.to_arrays`), each with the ``code``
    of every unit."""
    order = np.argsort(np.concatenate([p["code"] for p in parts]))
    names = [name for name in parts[0] if name != "code"]
    together = {n: np.concatenate([p[n] for p in parts], axis=1)[:, order] for n in names}
    return SharesPrior(scope(spine), **together)
