r"""The algebra that contains all precisions of a schema.

Order the attributes as *dense* and *plain* axes. Dense axes have a grouping that is neither total
nor detailed, or they are the dwelling axis or an axis of structural zeros. Together they have
:math:`d` combinations of levels. On plain axes, of sizes :math:`n_1, \dots, n_m`, every query
either sums everything or keeps everything apart. A query is then :math:`Q'Q = B \otimes F_1 \otimes
\dots \otimes F_m` with :math:`F_i \in \{11', I\}`. With the projections :math:`P = \tfrac{1}{n}
11'` and :math:`I - P`,

.. math:: 11' = n P + 0\,(I - P), \qquad I = P + (I - P),

so every sum of queries is block diagonal over the :math:`2^m` *contrasts* (constant or contrast
along each plain axis). Each has one :math:`d \times d` matrix. The redistricting schema has 4
matrices of 16 x 16 instead of one of 2,016 x 2,016. Sums, products, inverses and restrictions of
the dense axes to a subset stay in this form.

An operator is an array ``(..., contrasts, d, d)``; a vector over the cells an array ``(..., d, n_1,
..., n_m)``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from das.model.query import Query
from das.model.schema import Schema

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Contrasts:
    """The dense and plain axes of a schema, for some queries."""

    schema: Schema
    dense: tuple[int, ...]
    plain: tuple[int, ...]

    @staticmethod
    def of(schema: Schema, queries: Iterable[Query]) -> Contrasts:
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
        n_m,)``.
        """
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
        (..., d)``.
        """
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
        :math:`e [i = j] + (c - e)/n`.
        """
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
        (contrast kind).
        """
        out = operator.copy()
        for i, n in enumerate(self.sizes):
            for m, kind in enumerate(self.kinds):
                if not kind[i]:
                    other = self.kinds.index((*kind[:i], True, *kind[i + 1 :]))
                    out[..., m, :, :] = (out[..., m, :, :] - out[..., other, :, :]) / n
        return out
