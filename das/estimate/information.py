r"""Full information: what every measurement below a unit says about it.

Measurements of one unit are linear in its histogram :math:`x_u`, with known variances. Their
information form has the precision :math:`\Lambda_u = \sum_q Q'Q / \mathrm{Var}_q` and the
right-hand side :math:`b_u = \sum_q Q'm_q / \mathrm{Var}_q`. A parent is the sum of its children.
Generalized least squares over the whole tree is then one fold (:mod:`das.fold`), here in
precisions.

*Up.* Let the children's subtrees give :math:`x_c \sim (\mu_c, C_c)`. Then the children give, for
their parent, :math:`x_u \sim (s_u, S_u)` with :math:`s_u = \sum_c \mu_c`, :math:`S_u = \sum_c C_c`.
Together with its own measurements

.. math:: J_u = \Lambda_u + K_u,\quad h_u = b_u + k_u,\quad C_u = J_u^{-1},\quad \mu_u = C_u h_u,
          \qquad K_u = S_u^{-1},\ k_u = K_u s_u.

*Down.* With the parent's estimate :math:`\hat x_u` and variance :math:`V_u`, given everything,

.. math:: \hat x_c = \mu_c + C_c (K_u \hat x_u - k_u),\qquad
          V_c = C_c - C_c K_u C_c + C_c K_u V_u K_u C_c .

*An only child* is its parent: :math:`K_u = J_c`, :math:`k_u = h_c`, and on the way down :math:`\hat
x_c = \hat x_u`, :math:`V_c = V_u`. So its precision is not inverted and can be zero: an only child
need not be measured.

*A known total*, :math:`1'x_c = t_c`, takes :math:`C11'C/1'C1` off :math:`C_c`, and moves
:math:`\mu_c` along :math:`C1`. If the totals of all children are known, :math:`S_u 1 = 0`, and
there is no inverse. But then the total of the parent is also known, and :math:`K_u` matters only
for vectors that sum to zero. For these :math:`K_u = (S_u + a11')^{-1}` is the inverse of
:math:`S_u`, for any :math:`a > 0`: if :math:`\delta = Sw` and :math:`(S + a11')y = \delta`, then
:math:`1'y = 0` (multiply by :math:`1'`), so :math:`Sy = Sw` and :math:`\delta'y = w'Sw`.

*A joint total* covers several siblings, a part :math:`s` of the children: :math:`1'\sum_{c \in s}
x_c = t_s`. The part is a unit between them and their parent, without measurements and with a known
total.

These are the best linear unbiased estimates from all measurements, before non-negativity. All
matrices are in the algebra of :mod:`das.estimate.information`, restricted to the dense levels that a
unit's bounds allow. A block without group quarters has nobody in them, which is public and worth a
great deal of precision.

The release contains these estimates (``estimates/``). The constrained descent uses them instead of
each child's own measurements (:mod:`das.estimate.informed`): a child's objective is :math:`(x_c -
\mu_c)'J_c(x_c - \mu_c)`, which stands for its whole subtree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from das.estimate.family import Message
from das.estimate.least_squares import LEAST_VARIANCE
from das.fold import only
from das.model.constraint import Bounds
from das.model.measurement import MeasurementSource
from das.model.query import Query
from das.model.schema import Schema

# The algebra that contains all precisions of a schema.
#
# Order the attributes as *dense* and *plain* axes. Dense axes have a grouping that is neither total
# nor detailed, or they are the dwelling axis or an axis of structural zeros. Together they have
# :math:`d` combinations of levels. On plain axes, of sizes :math:`n_1, \dots, n_m`, every query
# either sums everything or keeps everything apart. A query is then :math:`Q'Q = B \otimes F_1 \otimes
# \dots \otimes F_m` with :math:`F_i \in \{11', I\}`. With the projections :math:`P = \tfrac{1}{n}
# 11'` and :math:`I - P`,
#
# .. math:: 11' = n P + 0\,(I - P), \qquad I = P + (I - P),
#
# so every sum of queries is block diagonal over the :math:`2^m` *contrasts* (constant or contrast
# along each plain axis). Each has one :math:`d \times d` matrix. The redistricting schema has 4
# matrices of 16 x 16 instead of one of 2,016 x 2,016. Sums, products, inverses and restrictions of
# the dense axes to a subset stay in this form.
#
# An operator is an array ``(..., contrasts, d, d)``; a vector over the cells an array ``(..., d, n_1,
# ..., n_m)``.

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Contrasts:
    """The dense and plain axes of a schema, for some queries."""

    schema: Schema
    dense: tuple[int, ...]
    plain: tuple[int, ...]

    @staticmethod
    def for_queries(schema: Schema, queries: Iterable[Query]) -> Contrasts:
        """Axes are plain where every query allows it."""
        bound = set(schema.restricted)
        if schema.dwelling is not None:
            bound.add(schema.axis(schema.dwelling))
        for q in queries:
            bound |= {i for i, g in enumerate(q.groupings) if not (g.is_total or g.is_detailed)}
        axes = range(len(schema.shape))
        return Contrasts(
            schema, tuple(i for i in axes if i in bound), tuple(i for i in axes if i not in bound)
        )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """n_1, ..., n_m."""
        return tuple(self.schema.shape[i] for i in self.plain)

    @cached_property
    def d(self) -> int:
        return int(np.prod([self.schema.shape[i] for i in self.dense], dtype=int))

    @cached_property
    def kinds(self) -> tuple[tuple[bool, ...], ...]:
        """For each contrast and plain axis: True for contrast, False for constant."""
        return tuple(product((False, True), repeat=len(self.plain)))

    @cached_property
    def multiplicity(self) -> Array:
        """How many dimensions of the plain axes each contrast has, ``(contrasts,)``: the weight of
        its trace."""
        return np.array(
            [
                float(np.prod([n - 1 for n, c in zip(self.sizes, k, strict=True) if c]))
                for k in self.kinds
            ]
        )

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The cell (of the schema's C order) at each place of the tensor, ``(d * n_1 * ... *
        n_m,)``."""
        cells = np.arange(self.schema.cells).reshape(self.schema.shape)
        return np.transpose(cells, (*self.dense, *self.plain)).ravel()

    @cached_property
    def place(self) -> NDArray[np.intp]:
        """The place in the tensor of each cell: the inverse of ``order``."""
        out = np.empty_like(self.order)
        out[self.order] = np.arange(len(out))
        return out

    def dense_of(self, per_cell: NDArray[np.generic]) -> NDArray[np.generic]:
        """A property of the cells that depends on the dense axes alone, on these: ``(..., cells) ->
        (..., d)``."""
        moved = per_cell[..., self.order]
        return moved.reshape(*per_cell.shape[:-1], self.d, -1)[..., 0]

    def query(self, query: Query) -> Array:
        """Q'Q as an operator, ``(contrasts, d, d)``."""
        index = np.zeros(1, dtype=np.intp)
        for axis in self.dense:
            g = query.groupings[axis]
            index = (index[:, None] * len(g.groups) + g.group_of[None, :]).ravel()
        same = (index[:, None] == index[None, :]).astype(float)
        factor = np.ones(len(self.kinds))
        for i, axis in enumerate(self.plain):
            total = query.groupings[axis].is_total and self.sizes[i] > 1
            for m, kind in enumerate(self.kinds):
                if total:
                    factor[m] *= 0.0 if kind[i] else self.sizes[i]
        return factor[:, None, None] * same

    def answers(self, query: Query) -> NDArray[np.intp]:
        """The answer of each place of the tensor, ``(d, n_1 * ... * n_m)``."""
        return query.index[self.order].reshape(self.d, -1)

    def sums(self, query: Query, x: Array) -> Array:
        """``Q x`` of a tensor, axis by axis: ``(..., d, n_1, ..., n_m) -> (..., answers)``. A plain
        axis of length 1 stands for one where x is constant; where the query keeps its levels apart,
        all have the one answer that is given."""
        axes, before = (*self.dense, *self.plain), x.shape[: x.ndim - 1 - len(self.plain)]
        dense = (self.schema.shape[a] for a in self.dense)
        x = x.reshape(*before, *dense, *x.shape[len(before) + 1 :])
        for k in reversed(range(len(axes))):
            grouping, at = query.groupings[axes[k]], len(before) + k
            if grouping.is_detailed:
                continue
            if grouping.is_total:
                times = len(grouping.index) // x.shape[at]
                x = x.sum(axis=at, keepdims=True) * times
                continue
            index = grouping.group_of
            order = np.argsort(index, kind="stable")
            starts = np.searchsorted(index[order], np.arange(len(grouping.groups)))
            x = np.add.reduceat(np.take(x, order, axis=at), starts, axis=at)
        kept = len(before)
        moved = np.transpose(x, (*range(kept), *(kept + np.argsort(axes))))
        return moved.reshape(*before, -1)

    def apply(self, operator: Array, x: Array) -> Array:
        """``operator @ x``: ``(..., contrasts, d', d) x (..., d, n_1, ..., n_m) -> (..., d', n_1,
        ..., n_m)``."""
        return self.applied(operator, self.parts(x))

    def applied(self, operator: Array, parts: Iterable[Array]) -> Array:
        """The operator applied to x, given the component of x in each contrast (:meth:`parts`)."""
        out: Array | None = None
        for m, part in enumerate(parts):
            flat = part.reshape(*part.shape[: part.ndim - len(self.plain)], -1)
            done = operator[..., m, :, :] @ flat
            done = done.reshape(*done.shape[:-1], *part.shape[part.ndim - len(self.plain) :])
            out = done if out is None else out + done
        assert out is not None
        return out

    def parts(self, x: Array) -> list[Array]:
        """The component of x in each contrast; constant axes have length 1."""
        parts = [x]
        for i in range(len(self.plain)):
            axis = x.ndim - len(self.plain) + i
            split = []
            for p in parts:
                mean = p.mean(axis=axis, keepdims=True)
                split += [mean, p - mean]
            parts = split
        return parts

    def inverse(self, operator: Array, support: NDArray[np.bool_]) -> Array:
        """Inverse on the dense levels of ``support`` ``(..., d)``, zero elsewhere."""
        keep = support[..., None, :, None] & support[..., None, None, :]
        eye = np.eye(self.d)
        inner = np.where(keep, operator, 0.0) + eye * ~support[..., None, None, :]
        return np.where(keep, np.linalg.inv(inner), 0.0)

    def on_cells(self, operator: Array, cell: NDArray[np.int64]) -> Array:
        """The matrix of an operator on some cells: ``(..., contrasts, d, d) -> (..., m, m)``.

        Along a plain axis an operator with values c (constant) and e (contrast) has entries
        :math:`e [i = j] + (c - e)/n`."""
        place = self.place[cell]
        level = np.unravel_index(place, (self.d, *self.sizes))
        coefficients = self._coefficients(operator)
        out = np.zeros((*operator.shape[:-3], len(cell), len(cell)))
        for m, kind in enumerate(self.kinds):
            entry = coefficients[..., m, :, :][..., level[0][:, None], level[0][None, :]]
            for i, contrast in enumerate(kind):
                if contrast:
                    entry = entry * (level[1 + i][:, None] == level[1 + i][None, :])
            out += entry
        return out

    def _coefficients(self, operator: Array) -> Array:
        """From values on contrasts to coefficients of products of 1 (constant kind) and [i = j]
        (contrast kind)."""
        out = operator.copy()
        for i, n in enumerate(self.sizes):
            for m, kind in enumerate(self.kinds):
                if not kind[i]:
                    other = self.kinds.index((*kind[:i], True, *kind[i + 1 :]))
                    out[..., m, :, :] = (out[..., m, :, :] - out[..., other, :, :]) / n
        return out


#: A precision for what nothing measures, so that every matrix has an inverse. It is a prior centered
#: on zero, so it must not touch units whose every cell is measured: at a national cell it would
#: weigh hundreds of persons.
VAGUE = 1e-9
#: The variance that is kept by sums that known totals settle: those of some dense levels (much less
#: would cost digits).
RESIDUAL = 1e-4
#: What is below this is rounding error, in eigenvalues relative to their sum.
_NONE = 1e-10


@dataclass(frozen=True, eq=False)
class Information(Message):
    """What is said of some units: precision J ``(units, contrasts, d, d)``, ``rhs`` h ``(units, d,
    n..)``, on the dense levels ``support`` ``(units, d)``; ``whole`` ``(units,)``, whether J has an
    inverse there. ``total``: the known totals, not counted in J and h. Units that are measured
    alike have one J: where there is a ``kind`` ``(units,)``, that of a unit is ``precision[kind]``,
    and units of one kind have one support."""

    precision: Array
    rhs: Array
    support: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    total: NDArray[np.int64] | None = None
    kind: NDArray[np.intp] | None = None

    def rows(self, keep: slice | NDArray[np.int64]) -> Information:
        """Some of the units, each with a J of its own."""
        total = None if self.total is None else self.total[keep]
        kind = keep if self.kind is None else self.kind[keep]
        return Information(
            self.precision[kind], self.rhs[keep], self.support[keep], self.whole[keep], total
        )

    def settled(self, only: NDArray[np.bool_]) -> Information:
        """The same, with a tiny precision where nothing is known, except for units that are
        ``only`` children."""
        open_ = ~self.whole & ~only
        vague = VAGUE * np.eye(self.precision.shape[-1])
        if self.kind is None:
            return replace(
                self,
                precision=self.precision + vague * open_[:, None, None, None],
                whole=self.whole | open_,
            )
        twice = np.concatenate([self.precision, self.precision + vague])
        kind = self.kind + len(self.precision) * open_
        return replace(self, precision=twice, kind=kind, whole=self.whole | open_)

    @staticmethod
    def concatenate(parts: Sequence[Information]) -> Information:
        """Joins the information of units whose totals are not known."""
        names = ("precision", "rhs", "support", "whole")
        return Information(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def support(contrasts: Contrasts, bounds: Bounds) -> NDArray[np.bool_]:
    """Dense levels that each unit may hold: ``(units, d)``."""
    possible = contrasts.dense_of(bounds.possible).astype(bool)
    if bounds.exact:  # groups of any query, which need not follow the dense axes
        return np.broadcast_to(possible, (len(bounds.upper), contrasts.d)).copy()
    group = contrasts.dense_of(bounds.group).astype(np.intp)
    return (bounds.upper[:, group] > 0) & possible[None, :]


def inhabited(contrasts: Contrasts, bounds: Bounds) -> NDArray[np.bool_]:
    """:func:`support`, and nothing where the total is known to be 0: a known sum of nobody leaves
    nobody in any cell."""
    allowed = support(contrasts, bounds)
    return allowed if bounds.total is None else allowed & (bounds.total[:, None] > 0)


def own(
    source: MeasurementSource,
    level: str,
    contrasts: Contrasts,
    queries: Mapping[str, Query],
    bounds: Bounds,
    start: int,
    stop: int,
    below: Information | None = None,
) -> Information:
    """The information of units ``start:stop``: their own measurements, known totals, and what their
    children say."""
    allowed, weights = support(contrasts, bounds), np.zeros((stop - start, len(queries)))
    held = _groups(allowed)
    sums = [
        np.zeros((len(unit), len(inside), int(np.prod(contrasts.sizes, dtype=int))))
        for unit, inside in held
    ]
    whole = np.zeros(stop - start, dtype=bool) if below is None else below.whole
    for weight, (name, query) in zip(weights.T, queries.items(), strict=True):
        m = source.read(level, name, start, stop)
        weight[:] = 1.0 / np.maximum(m.variance, LEAST_VARIANCE)
        whole = whole | ((weight > 0) & all(g.is_detailed for g in query.groupings))
        told = weight[:, None] * np.where(weight[:, None] > 0, m.values, 0)
        for (unit, inside), of_these in zip(held, sums, strict=True):
            of_these += told[unit[:, None, None], contrasts.answers(query)[inside]]
    rhs = np.zeros((len(allowed), *allowed.shape[1:], *contrasts.sizes))
    for (unit, inside), of_these in zip(held, sums, strict=True):
        rhs[np.ix_(unit, inside)] = of_these.reshape(*of_these.shape[:2], *contrasts.sizes)
    kind, first = alike(allowed, weights)
    precision = np.zeros((len(first), len(contrasts.kinds), contrasts.d, contrasts.d))
    for weight, query in zip(weights.T, queries.values(), strict=True):
        precision += weight[first, None, None, None] * contrasts.query(query)
    if below is None:
        return Information(precision, rhs, allowed, whole, bounds.total, kind)
    rhs += below.rhs
    rhs[~allowed] = 0.0
    return Information(precision[kind] + below.precision, rhs, allowed, whole, bounds.total)


def alike(support: NDArray[np.bool_], known: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The kind of each unit, and the first unit of each kind. Units of one kind have the same
    ``support`` ``(units, d)`` and the same numbers ``known`` ``(units, any)``, to the last bit. If
    every unit is its own kind, kinds are numbered in the order of the units."""
    row = np.ascontiguousarray(np.concatenate([support, known], axis=1, dtype=np.float64))
    of_bytes = row.view(np.dtype((np.void, row.itemsize * row.shape[1])))[:, 0]
    _, first, kind = np.unique(of_bytes, return_index=True, return_inverse=True)
    return (kind, first) if len(first) < len(row) else (np.arange(len(row)), np.arange(len(row)))


def _groups(support: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The units that may hold the same dense levels, and these: what is said of others would be
    thrown away."""
    kind, first = alike(support, np.zeros((len(support), 0)))
    return [(np.flatnonzero(kind == k), np.flatnonzero(support[f])) for k, f in enumerate(first)]


def posterior(contrasts: Contrasts, information: Information) -> tuple[Array, Array]:
    """Covariance C and mean mu of each unit given its own subtree and, where it is known, its
    total."""
    covariance = contrasts.inverse(information.precision, information.support)
    mean = contrasts.apply(covariance, information.rhs)
    if information.total is None:
        return covariance, mean
    share, variance = share_of_total(contrasts, covariance)
    return _less(contrasts, covariance, share, variance), moved(mean, share, information.total)


def share_of_total(contrasts: Contrasts, covariance: Array) -> tuple[Array, Array]:
    """How one more person in a unit's total is shared among the cells of each dense level,
    :math:`C1/1'C1` with shape ``(units, d)``; and the variance :math:`1'C1` of each unit's total.
    Only the constant contrast has a sum that is not 0."""
    product = covariance[..., 0, :, :].sum(axis=-1)
    variance = product.sum(axis=-1) * float(np.prod(contrasts.sizes))
    known = np.where(variance > 0, variance, 1.0)  # nobody can live there: 0 is nothing's share
    return product / known[..., None], np.where(variance > 0, variance, 0.0)


def given_total(contrasts: Contrasts, covariance: Array) -> Array:
    r"""The covariance given the total, :math:`C - C11'C/1'C1`."""
    return _less(contrasts, covariance, *share_of_total(contrasts, covariance))


def _less(contrasts: Contrasts, covariance: Array, share: Array, variance: Array) -> Array:
    cells = float(np.prod(contrasts.sizes))
    out = covariance.copy()
    out[..., 0, :, :] -= (
        (cells * variance)[..., None, None] * share[..., :, None] * share[..., None, :]
    )
    return out


def moved(mean: Array, share: Array, total: NDArray[np.int64]) -> Array:
    r"""The mean given the total, :math:`\mu + (t - 1'\mu)\,C1/1'C1`. As a difference, so that it
    comes out as it is known: a measurement of great weight would lose a quarter of a person of 300
    million."""
    axes = tuple(range(1, mean.ndim))
    off = total - mean.sum(axis=axes)
    return mean + (share * off[:, None]).reshape(*mean.shape[:2], *(1,) * (mean.ndim - 2))


def sum_up(
    contrasts: Contrasts, information: Information, parent: NDArray[np.intp], parents: int
) -> Information:
    """What units say of their parents, K and k; ``parent`` numbers them from 0."""
    allowed = np.zeros((parents, contrasts.d), dtype=bool)
    np.logical_or.at(allowed, parent, information.support)
    alone = only(parent)
    several = ~np.isin(np.arange(parents), parent[alone])
    precision = np.zeros((parents, *information.precision.shape[1:]))
    rhs = np.zeros((parents, *information.rhs.shape[1:]))
    one, inside = information.rows(np.flatnonzero(alone)), information.support[alone]
    precision[parent[alone]] = one.precision * (inside[:, None, :, None] & inside[:, None, None, :])
    rhs[parent[alone]] = one.rhs
    if several.any():
        covariance, mean = (
            x[several]
            for x in _sums(contrasts, information, np.flatnonzero(~alone), parent, parents)
        )
        if information.total is not None:
            covariance[:, 0] = invertible(covariance[:, 0], allowed[several])
        k = contrasts.inverse(covariance, allowed[several])
        precision[several], rhs[several] = k, contrasts.apply(k, mean)
    whole = several.copy()
    whole[parent[alone]] = information.whole[alone]
    return Information(precision, rhs, allowed, whole)


def invertible(covariance: Array, allowed: NDArray[np.bool_] | None = None) -> Array:
    """S + a11' on the constant contrast, ``(units, d, d)``, if the totals of all children are
    known; 0 outside the dense levels ``allowed`` ``(units, d)``. If children have different dense
    levels, the totals can decide more sums than the total. These keep a little variance."""
    size = np.maximum(np.trace(covariance, axis1=1, axis2=2), 1.0)
    out = covariance + size[:, None, None]
    if allowed is not None:
        out = np.where(allowed[:, :, None] & allowed[:, None, :], out, 0.0)
    value, vector = np.linalg.eigh(out)
    settled = vector * (value <= _NONE * size[:, None])[:, None, :]
    return out + RESIDUAL * settled @ np.swapaxes(settled, -1, -2)


def _sums(
    contrasts: Contrasts,
    information: Information,
    some: NDArray[np.intp],
    parent: NDArray[np.intp],
    parents: int,
) -> tuple[Array, Array]:
    """S and s of the parents, from some units. Those of one support and precision
    (the blocks of a level, nearly all) share one inverse."""
    number = some if information.kind is None else information.kind[some]
    known, first, kind = np.unique(number, return_index=True, return_inverse=True)
    first = some[first]
    key = np.concatenate(
        [information.support[first], information.precision[known].reshape(len(known), -1)], axis=1
    )
    _, unit, same = np.unique(key, axis=0, return_index=True, return_inverse=True)
    kind = same.ravel()[kind.ravel()]
    covariance = np.zeros((parents, *information.precision.shape[1:]))
    mean = np.zeros((parents, *information.rhs.shape[1:]))
    for t, (f, k) in enumerate(zip(first[unit], known[unit], strict=True)):
        units = some[kind == t]
        level = np.flatnonzero(information.support[f])
        if not len(level):
            continue
        c = contrasts.inverse(information.precision[k], information.support[f])
        inner = c[:, level[:, None], level[None, :]]
        mu = contrasts.apply(inner, information.rhs[np.ix_(units, level)])
        if information.total is not None:
            share, variance = share_of_total(contrasts, c)
            c = _less(contrasts, c, share, variance)
            mu = moved(mu, share[None, level], information.total[units])
        at, count = np.unique(parent[units], return_counts=True)
        covariance[at] += count[:, None, None, None] * c
        np.add.at(mean, (parent[units][:, None], level[None, :]), mu)
    return covariance, mean
