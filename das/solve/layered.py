r"""Matrices of children that are weighted sums of partitions of the cells, each child with weights
of its own.

.. math:: G_c = \sum_q w_{qc} Q_q'Q_q,

with 0/1 matrices :math:`Q_q` of at most one 1 in each column, given by the answer that contains
each cell.
No matrix is formed, and the queries need no property: none must separate all cells, or have answers
that contain all. A child without an answer to a query has the weight 0 there. :mod:`das.solve.dual` solves with them. Memory
is that of the index, ``queries x cells``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class LayeredGram:
    """``index`` of each query is the number of each cell's answer, ``(cells,)``, or -1 where it is
    in none; ``weight`` ``(queries, children)``. ``answers``, if they are known, are what each query
    should be, ``(children, answers)``: where to begin. The solution does not depend on them.
    """

    index: Sequence[Index]
    weight: Array
    answers: Sequence[Array] = ()

    def __post_init__(self) -> None:
        weight = np.asarray(self.weight, dtype=float)
        if not np.isfinite(weight).all():
            raise ValueError("gram and rhs must be finite")
        if (
            weight.ndim != 2
            or len(weight) != len(self.index)
            or not len(weight)
            or (weight < 0).any()
        ):
            raise ValueError(
                "weights must be (queries, children), none negative, and there must be some query"
            )
        if len(self.answers) not in (0, len(self.index)):
            raise ValueError("answers must be those of every query, or none")
        if any(
            np.ndim(i) != 1 or len(i) != self.cells or np.min(i, initial=0) < -1 for i in self.index
        ):
            raise ValueError("the index of each query must be (cells,) of numbers from 0, or -1")

    @property
    def cells(self) -> int:
        return len(self.index[0])

    def dense(self) -> Array:
        """The matrices themselves, ``(children, cells, cells)``."""
        same = np.stack([(i[:, None] == i[None, :]) & (i >= 0) for i in self.index])
        return np.einsum("qc,qkl->ckl", self.weight, same)
