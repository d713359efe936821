"""Exact sums over disjoint groups of variables, child by child: the shifts with which they hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from das.solve.smoothing import PositivePart

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

_STEPS, _EXACT = 40, 1e-9  # of Newton's method for each sum, and the relative error at its end


@dataclass(frozen=True, eq=False)
class ExactSums:
    """``cells`` of the groups, one group after the other; where each ``starts``, and its number
    ``group`` among ``groups``; the ``total`` of each and child, if it is ``exact``, ``(groups with
    cells, children)``."""

    cells: Index
    starts: Index
    group: Index
    groups: int
    total: Array
    exact: Mask

    @staticmethod
    def of(rows: csr_array, total: Array, exact: Mask) -> ExactSums | None:
        """Of groups as 0/1 ``rows`` ``(groups, cells)``; None where they overlap, or no sum is
        exact."""
        if not exact.any() or (np.asarray(rows.sum(axis=0)) > 1).any():
            return None
        group = np.flatnonzero(np.diff(rows.indptr))
        known = total[group]
        return ExactSums(
            rows.indices.astype(np.intp),
            rows.indptr[:-1][group].astype(np.intp),
            group,
            rows.shape[0],
            known,
            exact[group] & (known > 0),
        )

    def level(self, answer: PositivePart, s: Array) -> Array:
        """What to add to the potentials ``s`` of each group for its variables to have their sum,
        ``(groups, children)``; as :meth:`das.solve.smoothing.PositivePart.level` for cells."""
        curvature, width = (
            np.broadcast_to(x, s.shape)[self.cells] for x in (answer.curvature, answer.width)
        )
        many, s = PositivePart(curvature, width, answer.smoothing), s[self.cells]
        sizes = np.diff(np.append(self.starts, len(s)))
        high = np.maximum.reduceat(s, self.starts, axis=0)
        here = self.exact & np.isfinite(high)
        most = np.maximum.reduceat(curvature, self.starts, axis=0)
        shift = np.where(here, self.total * most - np.where(here, high, 0.0), 0.0)
        enough = self._sums(many.of(s)) >= self.total
        shift = np.where(enough, np.minimum(shift, 0.0), shift)
        for _ in range(_STEPS):
            at = s + np.repeat(shift, sizes, axis=0)
            over = np.where(here, self._sums(many.of(at)) - self.total, 0.0)
            if (over <= _EXACT * self.total).all():
                break
            slope = np.maximum(self._sums(many.slope(at, -np.inf)), 1e-300)
            shift = shift - np.maximum(over, 0.0) / slope
        out = np.zeros((self.groups, s.shape[1]))
        out[self.group] = shift
        return out

    def _sums(self, x: Array) -> Array:
        return np.asarray(np.add.reduceat(x, self.starts, axis=0))
