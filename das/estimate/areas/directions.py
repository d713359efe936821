r"""The few directions that some sums of cells need, and the algebra of
:mod:`das.estimate.information` on them.

A sum of cells is a tensor :math:`a` ``(d, n_1, ..., n_m)``. Its component in each contrast is a sum
of products :math:`\alpha \otimes u`. Here :math:`\alpha` is over the dense levels, and :math:`u`
is a unit vector over the plain axes. The :math:`u` of one contrast are orthogonal: they are the
singular vectors of the component as a matrix. There is one if the sum is over a set of dense levels
times a set of plain ones. Every precision and covariance C acts on a contrast as :math:`C_m \otimes I`. So

.. math:: \mathrm{Var}(a'x) = \sum \alpha' C_m \alpha, \qquad a'x = \sum \alpha' (I \otimes u') x,

and what happens along any other direction never mixes with these. Projecting every measurement on
the directions :math:`u` is therefore exact: the total needs one of 126 directions in the
redistricting schema."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.estimate.information import Contrasts
from das.model.query import Query

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Singular values and differences of unit vectors below this are rounding error.
_NONE = 1e-9


@dataclass(frozen=True, eq=False)
class Directions:
    """Direction k: the unit vector ``vector[k]`` over the plain axes ``(directions, n_1 * ... *
    n_m)``, in contrast ``used[contrast[k]]``. Column j is the sum of the products p with
    ``column[p] == j`` of ``weight[p]`` ``(products, d)`` and direction ``at[p]``."""

    contrasts: Contrasts
    used: Ints
    contrast: Ints
    vector: Array
    columns: int
    column: Ints
    at: Ints
    weight: Array

    @staticmethod
    def for_columns(contrasts: Contrasts, columns: NDArray[np.bool_]) -> Directions:
        """For sums of cells ``(columns, cells)``."""
        size = int(np.prod(contrasts.sizes, dtype=int))
        c = columns[:, contrasts.order].reshape(-1, contrasts.d, *contrasts.sizes).astype(float)
        contrast, vector, column, weight = [], [], [], []
        for m, part in enumerate(contrasts.parts(c)):
            whole = np.broadcast_to(part, c.shape).reshape(len(c), contrasts.d, size)
            for j in np.flatnonzero(np.abs(whole).max(axis=(1, 2)) > _NONE).tolist():
                u, s, v = np.linalg.svd(whole[j], full_matrices=False)
                for r in np.flatnonzero(s > _NONE * s[0]).tolist():
                    sign = np.sign(v[r, np.abs(v[r]).argmax()])
                    contrast.append(m)
                    vector.append(sign * v[r])
                    column.append(j)
                    weight.append(sign * s[r] * u[:, r])
        found, at = _distinct(
            np.array(contrast, dtype=np.int64), np.array(vector).reshape(-1, size)
        )
        used, number = np.unique(np.array(contrast, dtype=np.int64)[found], return_inverse=True)
        return Directions(
            contrasts,
            used,
            number.astype(np.int64),
            np.array(vector).reshape(-1, size)[found],
            len(columns),
            np.array(column, dtype=np.int64),
            at,
            np.array(weight).reshape(-1, contrasts.d),
        )

    def __len__(self) -> int:
        return len(self.vector)

    def query(self, query: Query) -> Array:
        """Q'Q on the contrasts that are used, ``(used, d, d)``."""
        return self.contrasts.query(query)[self.used]

    def adjoint(self, query: Query, values: Array) -> Array:
        """Q'm on each direction: ``(units, answers) -> (units, d, directions)``."""
        answer = self.contrasts.answers(query)
        _, first, group = np.unique(answer[:, 0], return_index=True, return_inverse=True)
        _, place, plain = np.unique(answer[0], return_index=True, return_inverse=True)
        summed = np.zeros((len(place), len(self)))
        np.add.at(summed, plain.ravel(), self.vector.T)
        order = answer[np.ix_(first, place)].ravel()
        if not np.array_equal(
            order, np.arange(len(order))
        ):  # a copy of all values that most queries do without
            values = values[:, order]
        return np.asarray(values.reshape(len(values), len(first), len(place)) @ summed)[
            :, group.ravel()
        ]

    def apply(self, operator: Array, x: Array) -> Array:
        """``operator @ x``: ``(..., used, d, d) x (..., d, directions) -> (..., d,
        directions)``."""
        shape = np.broadcast_shapes(operator.shape[:-3], x.shape[:-2])
        out = np.empty((*shape, *x.shape[-2:]))
        for m in range(len(self.used)):
            here = np.flatnonzero(self.contrast == m)
            out[..., here] = operator[..., m, :, :] @ x[..., here]
        return out

    def weigh(self, operator: Array, g: Array) -> Array:
        """``operator @ g`` of each product: ``(..., used, d, d) x (..., products, d) -> (...,
        products, d)``."""
        shape = np.broadcast_shapes(operator.shape[:-3], g.shape[:-2])
        out = np.empty((*shape, *g.shape[-2:]))
        contrast = self.contrast[self.at]
        for m in range(len(self.used)):
            here = np.flatnonzero(contrast == m)
            out[..., here, :] = g[..., here, :] @ np.swapaxes(operator[..., m, :, :], -1, -2)
        return out

    def add_up(self, values: Array) -> Array:
        """Sums over the products of each column: ``(..., products) -> (..., columns)``."""
        member = (self.column[:, None] == np.arange(self.columns)).astype(float)
        return np.asarray(values @ member)

    def dot(self, g: Array, x: Array) -> Array:
        """Sums over each column of g'x: ``(..., products, d) x (..., d, directions) -> (...,
        columns)``."""
        return self.add_up(np.einsum("...pi,...ip->...p", g, x[..., self.at]))


def _distinct(contrast: Ints, vector: Array) -> tuple[Ints, Ints]:
    """The first of each direction that is there, and which of these each is."""
    found = np.zeros(0, dtype=np.int64)
    at = np.zeros(len(contrast), dtype=np.int64)
    for i in range(len(contrast)):
        like = np.abs(vector[found] - vector[i]).max(axis=1, initial=0.0) < _NONE
        same = np.flatnonzero((contrast[found] == contrast[i]) & like)
        at[i] = same[0] if len(same) else len(found)
        if not len(same):
            found = np.append(found, i)
    return found, at
