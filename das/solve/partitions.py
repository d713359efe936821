r"""A matrix that is a weighted sum of partitions of the cells. One of the partitions separates all
cells.

.. math:: G = \delta I + U W U', \qquad U = (Q_1', \dots, Q_m'), \quad W = \mathrm{diag}(w),

with 0/1 matrices :math:`Q_q` that have one 1 in each column: the normal matrix of queries including
the detailed one. It is never formed. Let :math:`K = W^{-1} + U'U/\delta`, which has as many rows as
the queries have answers, not as many as there are cells. Then

.. math:: G^{-1} = \tfrac1\delta I - \tfrac1{\delta^2} U K^{-1} U', \qquad
          \log\det G = n \log\delta + \log\det K + \log\det W,

by Woodbury's identity and the matrix determinant lemma. The step of :mod:`das.solve.children` adds
a multiple of I and rows of bounds to G, and stays in this form. Memory is that of the queries: a
matrix of 13,000 x 13,000 would be 1.3 GB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, vstack

Array = NDArray[np.float64]

#: The largest K that is factored as a dense matrix (130 MB); beyond, as a sparse one.
_DENSE = 4096


@dataclass(frozen=True, eq=False)
class Partitions:
    """``diagonal`` I plus, for each of ``rows`` ``(answers, cells)``, ``weight`` times the square
    of the row.
    """

    diagonal: float
    rows: csr_array
    weight: Array

    def __post_init__(self) -> None:
        finite = np.isfinite(self.weight).all() and np.isfinite(self.diagonal)
        if (
            not finite
            or self.diagonal <= 0
            or (self.weight <= 0).any()
            or self.weight.shape != self.rows.shape[:1]
        ):
            raise ValueError(
                "a diagonal and weights must be positive and finite, one weight for each row"
            )

    @staticmethod
    def of(
        index: Sequence[NDArray[np.intp]], weight: Sequence[float], cells: int
    ) -> Partitions | None:
        """The sum over partitions ``index`` (the number of each cell's answer, ``(cells,)``) of
        ``weight`` times Q'Q. ``None`` where no partition tells all cells apart."""
        diagonal, rows, weights = 0.0, [csr_array((0, cells))], [np.zeros(0)]
        for i, w in zip(index, weight, strict=True):
            at, position = np.unique(i, return_inverse=True)
            if w <= 0:
                continue
            if len(at) == cells:
                diagonal += w
                continue
            rows.append(
                csr_array((np.ones(cells), (position, np.arange(cells))), shape=(len(at), cells))
            )
            weights.append(np.full(len(at), float(w)))
        return (
            None
            if diagonal <= 0
            else Partitions(diagonal, vstack(rows, format="csr"), np.concatenate(weights))
        )

    @property
    def cells(self) -> int:
        return int(self.rows.shape[1])

    @cached_property
    def back(self) -> Any:
        """U, made once: each ``x @ rows`` would make it again, thousands of times in a solve."""
        return self.rows.T

    @cached_property
    def cross(self) -> Any:
        """U'U, sparse: how many cells two answers share."""
        return (self.rows @ self.rows.T).tocsc()

    @cached_property
    def k(self) -> _Positive:
        return _Positive(self.cross * (1 / self.diagonal) + diags_array(1 / self.weight))

    def plus(self, diagonal: float, rows: csr_array, weight: float) -> Partitions:
        """This, ``diagonal`` I and ``weight`` times B'B. (Where there are no rows or nothing of a
        weight, just I.)
        """
        both = vstack([self.rows, rows], format="csr")
        return Partitions(
            self.diagonal + diagonal,
            both,
            np.concatenate([self.weight, np.full(rows.shape[0], weight)]),
        )

    def times(self, x: Array) -> Array:
        """``G x_c``, ``(children, cells)``."""
        answers = (self.rows @ x.T) * self.weight[:, None]
        return self.diagonal * x + (self.back @ answers).T

    def solve(self, x: Array) -> Array:
        """``G^-1 x_c``, ``(children, cells)``."""
        if not len(self.weight):
            return x / self.diagonal
        inner = self.k.solve((self.rows @ x.T) / self.diagonal)
        return (x - (self.back @ inner).T) / self.diagonal

    def dense(self) -> Array:
        """The matrix itself, for tests."""
        return self.times(np.eye(self.cells))


class PartitionsCurvature:
    """What :class:`das.solve.curvature.Curvature` is for a matrix, for :class:`Partitions`:
    definite, and shared.
    """

    null = None

    def __init__(self, gram: Partitions) -> None:
        self.gram = gram
        self.diagonal = (
            gram.diagonal + np.asarray((gram.rows * gram.weight[:, None]).sum(axis=0)).ravel()
        )
        log_det = gram.cells * np.log(gram.diagonal) + np.log(gram.weight).sum()
        if len(gram.weight):
            log_det += gram.k.log_determinant
        self.typical = float(np.exp(log_det / gram.cells)) if gram.cells else 1.0

    def variances(self, rows: csr_array) -> Array:
        """The diagonal of B G^-1 B', ``(rows,)``."""
        out = np.zeros(rows.shape[0])
        for a in range(0, len(out), 64):  # a few at a time: each is as long as the cells
            some = rows[a : a + 64].toarray()
            out[a : a + 64] = np.sum(some * self.gram.solve(some), axis=1)
        return out


class _Positive:
    """A symmetric positive definite matrix, factored once."""

    def __init__(self, matrix: Any) -> None:
        self._small = matrix.shape[0] <= _DENSE
        if self._small:
            from scipy.linalg import cho_factor  # slow to load

            self._factor = cho_factor(matrix.toarray())
            self.log_determinant = 2 * float(np.log(np.diag(self._factor[0])).sum())
        else:
            from scipy.sparse.linalg import splu  # slow to load, and hardly ever needed

            self._lu = splu(matrix.tocsc())
            self.log_determinant = float(np.log(np.abs(self._lu.U.diagonal())).sum())

    def solve(self, b: Array) -> Array:
        if not self._small:
            return np.asarray(self._lu.solve(np.ascontiguousarray(b)))
        from scipy.linalg import cho_solve  # slow to load

        return np.asarray(cho_solve(self._factor, b))
