r"""The lines of one unit without what repeats: the linear programs of an audit are about these.

A line that is known to be 0 makes each of its cells 0. Cells that the same lines count are added
up to one. Lines with the same cells are one row. What remains is small: a block of 50 persons has
some 30 cells and 100 rows of the 9,576 and 773 that its tables have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import InputError
from das.model.frozen import Frozen


@dataclass(frozen=True, eq=False)
class DistinctLines(Frozen):
    """``rows``: which cells each row counts, ``(rows, cells)``, 0 or 1; ``row``: the row of each
    line, ``(lines,)``, -1 for a line that is 0; ``lower`` and ``upper``: what is known of each
    row, ``(rows,)``, floats, the latter infinite where nothing is known."""

    rows: NDArray[np.float64]
    row: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @staticmethod
    def of(
        matrix: sparse.csr_array, lower: NDArray[np.int64], upper: NDArray[np.int64], unbounded: int
    ) -> DistinctLines:
        """From the bounds of a unit's lines, ``(lines,)``; ``unbounded`` is the upper bound of a
        line that is unknown. Raises :class:`InputError` where the lines of one row
        contradict each other."""
        zero = upper == 0
        dead = np.asarray(matrix[zero].sum(axis=0)).ravel() > 0
        kept = np.flatnonzero(~dead)
        part = matrix[:, kept]
        alive = np.flatnonzero(np.diff(part.indptr) > 0)
        dense = part[alive].toarray().astype(np.float64)
        if dense.size:
            dense = np.unique(dense, axis=1)
            dense = dense[:, dense.any(axis=0)]
        rows, at = np.unique(dense, axis=0, return_inverse=True)
        row = np.full(len(lower), -1)
        row[alive] = at.ravel()
        low, high = np.zeros(len(rows)), np.full(len(rows), np.inf)
        np.maximum.at(low, row[alive], lower[alive])
        np.minimum.at(high, row[alive], np.where(upper < unbounded, upper, np.inf)[alive])
        if (low > high).any() or (lower[row < 0] > 0).any():
            raise InputError("lines of the same cells contradict each other", where="unit's lines")
        return DistinctLines(rows, row, low, high)

    @property
    def exact(self) -> NDArray[np.bool_]:
        """The rows that are known, ``(rows,)``."""
        return self.lower == self.upper
