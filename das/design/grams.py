"""Weighted sums of queries as matrices of every node, and the adjoint: what each query has of given
matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.design.tree import Placement
from das.estimate.contrasts import Contrasts
from das.model.query import Query
from das.model.schema import Schema

# In which coordinates the histogram of a unit is described, and which of them each unit has.
#
# Over all that structures allow, the coordinates are the dense levels of
# :mod:`das.estimate.contrasts`, once for each contrast. Over the cells that a unit was published
# with, they are these cells, and there is one contrast.

Array = NDArray[np.float64]


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
    ``factor`` ``(queries, contrasts)``.
    """

    same: NDArray[np.bool_]
    factor: Array
    node: NDArray[np.intp]
    nodes: int

    @staticmethod
    def of(layout: Placement, coordinates: Coordinates, queries: Sequence[Query]) -> Grams:
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
