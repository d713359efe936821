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
    of the row."""

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
    def from_indices(
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
        weight, just I.)"""
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
    """What :class:`das.solve.problem.Curvature` is for a matrix, for :class:`Partitions`:
    definite, and shared."""

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


# Matrices of children. Many are alike, so one of each kind is kept.


@dataclass(frozen=True, eq=False)
class Kinds:
    """``matrices`` ``(kinds, cells, cells)``, and which of them is each child's, ``kind``
    ``(children,)``."""

    matrices: Array
    kind: NDArray[np.intp]

    def __post_init__(self) -> None:
        if self.matrices.ndim != 3 or not np.array_equal(
            np.unique(self.kind), np.arange(len(self.matrices))
        ):
            raise ValueError(
                "matrices must be (kinds, cells, cells), and each kind that of a child"
            )


# Matrices of children that are weighted sums of partitions of the cells, each child with weights
# of its own.
#
# .. math:: G_c = \sum_q w_{qc} Q_q'Q_q,
#
# with 0/1 matrices :math:`Q_q` of at most one 1 in each column, given by the answer that contains
# each cell.
# No matrix is formed, and the queries need no property: none must separate all cells, or have answers
# that contain all. A child without an answer to a query has the weight 0 there. :mod:`das.solve.dual` solves with them. Memory
# is that of the index, ``queries x cells``.

Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class LayeredGram:
    """``index`` of each query is the number of each cell's answer, ``(cells,)``, or -1 where it is
    in none; ``weight`` ``(queries, children)``. ``answers``, if they are known, are what each query
    should be, ``(children, answers)``: where to begin. The solution does not depend on them."""

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


# Children whose totals are known only together: :math:`\sum_{c \in s} 1'x_c = T_s` for each part
# :math:`s` of them.


@dataclass(frozen=True, eq=False)
class Parts:
    """``part`` ``(children,)``: the part that each child is in, -1 for none; ``total``
    ``(parts,)``."""

    part: NDArray[np.intp]
    total: NDArray[Any]

    @staticmethod
    def checked(part: NDArray[Any] | None, total: NDArray[Any] | None, children: int) -> Parts:
        """Checked; without ``part``, no child is in any."""
        if (part is None) != (total is None):
            raise ValueError("parts and totals go together")
        if part is None or total is None:
            return Parts(np.full(children, -1), np.zeros(0))
        number, totals = np.asarray(part), np.asarray(total)
        inside = number.shape == (children,) and totals.ndim == 1 and number.dtype.kind in "iu"
        if not inside or not np.array_equal(np.unique(number[number >= 0]), np.arange(len(totals))):
            raise ValueError(
                "parts must be (children,) of numbers from 0 or -1, and each number have a total"
                " and a child"
            )
        return Parts(number.astype(np.intp), totals)

    def __len__(self) -> int:
        return len(self.total)

    @property
    def bound(self) -> NDArray[np.bool_]:
        """The children that are in a part."""
        return self.part >= 0

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """``(children,)`` to ``(parts,)``."""
        out = np.zeros(len(self), dtype=values.dtype)
        np.add.at(out, self.part[self.bound], values[self.bound])
        return out

    def spread(self, values: Array, elsewhere: float) -> Array:
        """``(parts,)`` to ``(children,)``, evenly: a part's value over its number of children."""
        out = np.full(len(self.part), elsewhere)
        out[self.bound] = (values / np.bincount(self.part[self.bound], minlength=len(self)))[
            self.part[self.bound]
        ]
        return out

    def projected(self, held: Array) -> Array:
        """The nearest child totals ``(children,)`` that meet those of the parts: each child of a
        part is shifted alike."""
        return np.asarray(held + self.spread(self.total - self.sums(held), 0.0))
