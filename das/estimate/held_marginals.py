r"""The marginals that a plan measures well, estimated before the cells and then held fixed.

Non-negativity biases sums over cells that are mostly empty. The estimates of these cells are the
positive parts of their noise, and they pull a marginal away from its measurement
(:mod:`das.model.post_processing`). So a pass between the totals and everything else estimates the marginals
by themselves. A marginal is a query :math:`Q` that is measured at the level. :math:`M` are the sums
over the coarsest product of groupings that separates all answers of all such queries and the groups
of the bounds. For dwellings and voting age there are 16. Let the subtree of child :math:`c` give
:math:`x_c \sim (\mu_c, C_c)`. The pass is

.. math:: \min_{y \ge 0} \sum_c (y_c - M\mu_c)'(MC_cM')^{-1}(y_c - M\mu_c), \qquad \sum_c y_c = Mp,

with the bounds and totals. Every such :math:`y` has a table of cells: :math:`x_{ck} =
y_{ca}\,p_k/p_a` for the cells :math:`k` of sum :math:`a`. So the last pass can hold the answers to
the queries.

*Which.* A marginal should be held if it is known better than from its cells. Holding it loses the
information in the cells. Let :math:`V` be the variance of the marginal, and :math:`U` that of the
sum of its cells. Then the variance grows by a factor :math:`1 + V/U`. Not holding it costs the
bias. Only
occupied cells count for :math:`U`: the others are known to be near zero. So a marginal is *precise*
if

.. math:: \operatorname{tr}_{K}(C_c) \ge 8 \operatorname{tr}(QC_cQ'),

with :math:`C_c` given the total. In :math:`\operatorname{tr}_K` a cell counts by the probability
that it is occupied, given the parent's count in it. Then at most 6 % of a standard error can be
lost. (:mod:`das.model.post_processing` requires a factor of sixteen, over all cells.) The test is made child
by child, from public variances and the published parent alone.

Rounding also keeps the answers that are held (:mod:`das.rounding.controlled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.estimate.information import Contrasts
from das.model.query import Query

Array = NDArray[np.float64]

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
    one of these.
    """

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
        ``group`` ``(cells,)``.
        """
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
