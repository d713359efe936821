r"""The way down of full information: what all measurements of a tree say of its units. The algebra
is told in :mod:`das.estimate.information`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.estimate.contrasts import Contrasts
from das.estimate.information import Information, moved, posterior, share_of_total
from das.estimate.message import Message
from das.fold import only
from das.model.query import Query

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Unbiased(Message):
    """Estimates of some units given every measurement: ``mean`` ``(units, d, n..)``, ``variance``
    an operator.
    """

    mean: Array
    variance: Array

    def rows(self, keep: slice | NDArray[np.int64]) -> Unbiased:
        return Unbiased(self.mean[keep], self.variance[keep])


def root(contrasts: Contrasts, information: Information) -> Unbiased:
    covariance, mean = posterior(contrasts, information)
    return Unbiased(mean, covariance)


def descend(
    contrasts: Contrasts,
    information: Information,
    parent: NDArray[np.intp],
    above: Unbiased,
    below: Information,
) -> Unbiased:
    """The children's estimates from those of their parents (``above``) and what the children had
    said of these (``below``). ``parent`` numbers both from 0."""
    mean, variance = above.mean[parent], above.variance[parent]
    some = np.flatnonzero(~only(parent))
    if not len(some):
        return Unbiased(mean, variance)
    known, up = information.rows(some), parent[some]
    c, mu = posterior(contrasts, known)
    gain = c @ below.precision[up]
    mean[some] = mu + contrasts.apply(
        c, (contrasts.apply(below.precision, above.mean) - below.rhs)[up]
    )
    if known.total is not None:
        free = contrasts.inverse(known.precision, known.support)
        mean[some] = moved(mean[some], share_of_total(contrasts, free)[0], known.total)
    variance[some] = c - gain @ c + gain @ variance[some] @ np.swapaxes(gain, -1, -2)
    return Unbiased(mean, variance)


def answers(contrasts: Contrasts, unbiased: Unbiased, query: Query) -> tuple[Array, Array]:
    """Value and standard error of a query's answers, ``(units, answers)`` both."""
    index = contrasts.answers(query)
    flat = unbiased.mean.reshape(len(unbiased.mean), -1)
    value = np.zeros((query.answers, len(flat)))
    np.add.at(value, index.ravel(), flat.T)
    factor = np.array(
        [
            [_factor(query, contrasts, i, contrast) for i, contrast in enumerate(kind)]
            for kind in contrasts.kinds
        ]
    )
    weight = factor.prod(axis=1) if contrasts.plain else np.ones(1)
    inner = np.einsum("m,umij->uij", weight, unbiased.variance)
    group = np.unique(index[:, 0], return_inverse=True)[
        1
    ]  # answers differ on dense levels as their first plain cell does
    member = (group[None, :] == np.arange(group.max() + 1)[:, None]).astype(float)
    variance = np.einsum("gi,uij,gj->ug", member, inner, member)
    error = np.zeros((query.answers, len(flat)))
    error[index] = np.sqrt(np.maximum(variance, 0.0)).T[group][:, None, :]
    return value.T, error.T


def _factor(query: Query, contrasts: Contrasts, axis: int, contrast: bool) -> float:
    """What a contrast's value counts for in the variance of one answer, along one plain axis."""
    n = contrasts.sizes[axis]
    if query.groupings[contrasts.plain[axis]].is_total:
        return 0.0 if contrast else float(n)
    return 1 - 1 / n if contrast else 1 / n
