r"""Full information: what every measurement below a unit says about it.

Measurements of one unit are linear in its histogram :math:`x_u` with known variances: in information form,
precision :math:`\Lambda_u = \sum_q Q'Q / \mathrm{Var}_q` and right-hand side
:math:`b_u = \sum_q Q'm_q / \mathrm{Var}_q`. A parent is the sum of its children. Generalised least squares
over the whole tree is then two passes (the tree is a Gaussian graphical model without cycles).

*Up.* If the subtrees of the children say :math:`x_c \sim (\mu_c, C_c)`, then the children say of their
parent :math:`x_u \sim (s_u, S_u)`, :math:`s_u = \sum_c \mu_c`, :math:`S_u = \sum_c C_c`, and together with its
own measurements

.. math:: J_u = \Lambda_u + S_u^{-1},\quad h_u = b_u + S_u^{-1} s_u,\quad C_u = J_u^{-1},\quad \mu_u = C_u h_u.

*Down.* With :math:`\hat x_u` and variance :math:`V_u` of the parent given everything,

.. math:: \hat x_c = \mu_c + C_c S_u^{-1} (\hat x_u - s_u),\qquad
          V_c = C_c - C_c S_u^{-1} C_c + C_c S_u^{-1} V_u S_u^{-1} C_c .

These are the best linear unbiased estimates from all measurements, before non-negativity. All matrices live in
the algebra of :mod:`das.estimate.modes`, restricted to the dense levels that a unit's bounds allow: a block
without group quarters has nobody in them, which is public and worth a great deal of precision.

Published with the release (``estimates/``), and used in place of each child's own measurements by the
constrained descent (:mod:`das.estimate.informed`): a child's objective is
:math:`(x_c - \mu_c)'J_c(x_c - \mu_c)`, which now speaks for its whole subtree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.estimate.least_squares import LEAST_VARIANCE
from das.estimate.modes import Modes
from das.model.constraint import Bounds
from das.model.measurement import MeasurementSource
from das.model.query import Query

Array = NDArray[np.float64]

#: The variance that a known total keeps, for every matrix to have an inverse (much less would cost digits).
RESIDUAL = 1e-4
#: A precision for what nothing measures, so that every matrix has an inverse. It is a prior centred on zero, so it
#: must not touch units whose every cell is measured: at a national cell it would weigh hundreds of persons.
VAGUE = 1e-9


@dataclass(frozen=True, eq=False)
class Information:
    """What the subtrees of some units say: ``precision`` J ``(units, modes, d, d)``, ``rhs`` h ``(units, d, n..)``,
    on the dense levels ``support`` ``(units, d)``. ``total``: the known totals, not counted in J and h."""

    precision: Array
    rhs: Array
    support: NDArray[np.bool_]
    total: NDArray[np.int64] | None = None

    def rows(self, keep: slice | NDArray[np.int64]) -> Information:
        total = None if self.total is None else self.total[keep]
        return Information(self.precision[keep], self.rhs[keep], self.support[keep], total)


@dataclass(frozen=True, eq=False)
class FromBelow:
    """What the children of some units say of them: ``covariance`` S ``(units, modes, d, d)`` and ``mean`` s."""

    covariance: Array
    mean: Array

    @staticmethod
    def concatenate(parts: Sequence[FromBelow]) -> FromBelow:
        return FromBelow(np.concatenate([p.covariance for p in parts]), np.concatenate([p.mean for p in parts]))


def support(modes: Modes, bounds: Bounds) -> NDArray[np.bool_]:
    """Dense levels that each unit may hold: ``(units, d)``."""
    possible = modes.dense_of(bounds.possible).astype(bool)
    if bounds.exact:  # groups of any query, which need not follow the dense axes
        return np.broadcast_to(possible, (len(bounds.upper), modes.d)).copy()
    group = modes.dense_of(bounds.group).astype(np.intp)
    return (bounds.upper[:, group] > 0) & possible[None, :]


def own(
    source: MeasurementSource, level: str, modes: Modes, queries: Mapping[str, Query], bounds: Bounds,
    start: int, stop: int, below: FromBelow | None = None,
) -> Information:  # fmt: skip
    """The information of units ``start:stop``: their own measurements, known totals, and their children's."""
    units = stop - start
    allowed = support(modes, bounds)
    precision = np.zeros((units, len(modes.kinds), modes.d, modes.d))
    whole = np.full(units, below is not None)  # something tells every cell apart
    rhs = np.zeros((units, modes.d, int(np.prod(modes.sizes, dtype=int))))
    for name, query in queries.items():
        m = source.read(level, name, start, stop)
        weight = 1.0 / np.maximum(m.variance, LEAST_VARIANCE)
        whole |= (weight > 0) & all(g.is_detailed for g in query.groupings)
        precision += weight[:, None, None, None] * modes.query(query)
        rhs += (weight[:, None] * np.where(weight[:, None] > 0, m.values, 0))[:, modes.answers(query)]
    rhs = rhs.reshape(units, modes.d, *modes.sizes)
    precision += VAGUE * np.eye(modes.d) * ~whole[:, None, None, None]
    if below is not None:
        k = modes.inverse(below.covariance, allowed)
        precision += k
        rhs += modes.apply(k, below.mean)
    rhs[~allowed] = 0.0
    return Information(precision, rhs, allowed, bounds.total)


def posterior(modes: Modes, information: Information) -> tuple[Array, Array]:
    """Covariance C and mean mu of each unit given its own subtree and, where it is known, its total."""
    covariance = modes.inverse(information.precision, information.support)
    mean = modes.apply(covariance, information.rhs)
    if information.total is None:
        return covariance, mean
    share, variance = _share_of_total(modes, covariance)
    return _given_total(modes, covariance, share, variance), _moved(mean, share, information.total)


def _share_of_total(modes: Modes, covariance: Array) -> tuple[Array, Array]:
    """Of each unit, what a person more in total is of each dense level's cells, :math:`C1/1'C1` of shape
    ``(units, d)``, and the variance :math:`1'C1` of its total. Only the constant mode sums to something."""
    product = covariance[..., 0, :, :].sum(axis=-1)
    variance = product.sum(axis=-1) * float(np.prod(modes.sizes))
    known = np.where(variance > 0, variance, 1.0)  # nobody can live there: 0 is nothing's share
    return product / known[..., None], np.where(variance > 0, variance, 0.0)


def _given_total(modes: Modes, covariance: Array, share: Array, variance: Array) -> Array:
    r"""The covariance given the total, :math:`C - C11'C/(1'C1 + r)`: r, next to nothing, keeps it definite."""
    cells = float(np.prod(modes.sizes))
    out = covariance.copy()
    scale = cells * variance**2 / (variance + RESIDUAL)
    out[..., 0, :, :] -= scale[..., None, None] * share[..., :, None] * share[..., None, :]
    return out


def _moved(mean: Array, share: Array, total: NDArray[np.int64]) -> Array:
    r"""The mean given the total, :math:`\mu + (t - 1'\mu)\,C1/1'C1`. As a difference, so that it comes out as it is known:
    a measurement of great weight would lose a quarter of a person of 300 million."""
    axes = tuple(range(1, mean.ndim))
    off = total - mean.sum(axis=axes)
    return mean + (share * off[:, None]).reshape(*mean.shape[:2], *(1,) * (mean.ndim - 2))


def sum_up(modes: Modes, information: Information, parent: NDArray[np.int64], parents: int) -> FromBelow:
    """What units say of their parents; ``parent`` numbers them from 0. Units of one support and precision
    (the blocks of a level, nearly all) share one inverse."""
    n = len(parent)
    key = np.concatenate([information.support.astype(float), information.precision.reshape(n, -1)], axis=1)
    _, first, kind = np.unique(key, axis=0, return_index=True, return_inverse=True)
    kind = kind.ravel()
    covariance = np.zeros((parents, *information.precision.shape[1:]))
    mean = np.zeros((parents, *information.rhs.shape[1:]))
    for t, f in enumerate(first):
        units = np.flatnonzero(kind == t)
        level = np.flatnonzero(information.support[f])
        if not len(level):
            continue
        c = modes.inverse(information.precision[f], information.support[f])
        inner = c[:, level[:, None], level[None, :]]
        mu = modes.apply(inner, information.rhs[np.ix_(units, level)])
        if information.total is not None:
            share, variance = _share_of_total(modes, c)
            c = _given_total(modes, c, share, variance)
            mu = _moved(mu, share[None, level], information.total[units])
        covariance += np.bincount(parent[units], minlength=parents)[:, None, None, None] * c
        np.add.at(mean, (parent[units][:, None], level[None, :]), mu)
    return FromBelow(covariance, mean)


@dataclass(frozen=True, eq=False)
class Unbiased:
    """Estimates of some units given every measurement: ``mean`` ``(units, d, n..)``, ``variance`` an operator."""

    mean: Array
    variance: Array


def root(modes: Modes, information: Information) -> Unbiased:
    covariance, mean = posterior(modes, information)
    return Unbiased(mean, covariance)


def descend(
    modes: Modes, information: Information, parent: NDArray[np.int64], above: Unbiased, below: FromBelow,
    parents_support: NDArray[np.bool_],
) -> Unbiased:  # fmt: skip
    """The children's estimates from those of their parents (``above``) and what the children had said of these
    (``below``). ``parent`` numbers both from 0."""
    c, mu = posterior(modes, information)
    k = modes.inverse(below.covariance, parents_support)
    gain = c @ k[parent]
    mean = mu + modes.apply(gain, (above.mean - below.mean)[parent])
    if information.total is not None:
        free = modes.inverse(information.precision, information.support)
        mean = _moved(mean, _share_of_total(modes, free)[0], information.total)
    back = np.swapaxes(gain, -1, -2)
    variance = c - gain @ c + gain @ above.variance[parent] @ back
    return Unbiased(mean, variance)


def answers(modes: Modes, unbiased: Unbiased, query: Query) -> tuple[Array, Array]:
    """Value and standard error of a query's answers, ``(units, answers)`` both."""
    index = modes.answers(query)
    flat = unbiased.mean.reshape(len(unbiased.mean), -1)
    value = np.zeros((query.answers, len(flat)))
    np.add.at(value, index.ravel(), flat.T)
    factor = np.array([[_factor(query, modes, i, contrast) for i, contrast in enumerate(kind)] for kind in modes.kinds])
    weight = factor.prod(axis=1) if modes.plain else np.ones(1)
    inner = np.einsum("m,umij->uij", weight, unbiased.variance)
    group = np.unique(index[:, 0], return_inverse=True)[
        1
    ]  # answers differ on dense levels as their first plain cell does
    member = (group[None, :] == np.arange(group.max() + 1)[:, None]).astype(float)
    variance = np.einsum("gi,uij,gj->ug", member, inner, member)
    error = np.zeros((query.answers, len(flat)))
    error[index] = np.sqrt(np.maximum(variance, 0.0)).T[group][:, None, :]
    return value.T, error.T


def _factor(query: Query, modes: Modes, axis: int, contrast: bool) -> float:
    """What a mode's value counts for in the variance of one answer, along one plain axis."""
    n = modes.sizes[axis]
    if query.groupings[modes.plain[axis]].is_total:
        return 0.0 if contrast else float(n)
    return 1 - 1 / n if contrast else 1 / n
