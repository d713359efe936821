"""A step of :mod:`das.solve.dual`: one linear system, by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from das.solve.dual_problem import DualProblem

Array = NDArray[np.float64]

_FEW = 0.25  # where no more than this share of the variables has a slope, they are taken out
_MOST = 300  # steps for one system


class NewtonSystem:
    """The second derivatives, R diag(``slope``) R' + diag(``bend``), and what is near their
    inverse.
    """

    def __init__(self, p: DualProblem, slope: Array, bend: Array) -> None:
        self.p, self.bend = p, bend
        flat = np.flatnonzero(slope)
        self.cell, self.child = np.divmod(flat, p.children)
        self.slope = slope.ravel()[flat]
        self.product: Callable[[Array], Array]
        if len(flat) <= _FEW * slope.size:
            some = p.rows.of(self.cell, self.child)
            back, each = some.T, self.slope
            self.product = lambda v: back @ (each * (some @ v))
            diagonal = back @ each
        else:
            self.product = lambda v: p.rows.sums(slope * p.rows.spread(v))
            diagonal = p.rows.sums(slope)
        diagonal = diagonal + bend
        nothing = diagonal <= 0  # no variable moves with it: as if one did
        self.bend = np.where(nothing, 1 / p.typical, bend)
        self.diagonal = np.where(nothing, 1 / p.typical, diagonal)
        variables = float((slope * p.curvature).sum()) / p.children
        self.core = self._core() if 0 < p.core < variables else None

    def solve(self, right: Array, accuracy: float, limit: int) -> tuple[Array, int]:
        """The solution, to a relative error of ``accuracy``, and the number of steps."""
        z, r = np.zeros_like(right), right.copy()
        q = self._near(r)
        s, now = q, float(r @ q)
        enough = accuracy**2 * now
        n = 1
        while n < max(1, min(_MOST, limit)) and now > 0:
            n += 1
            m = self._times(s)
            a = now / float(s @ m)
            z += a * s
            r -= a * m
            q = self._near(r)
            old, now = now, float(r @ q)
            if now <= enough:
                break
            s = q + (now / old) * s
        return z, n

    def _times(self, v: Array) -> Array:
        return np.where(self.p.free, self.product(v) + self.bend * v, 0.0)

    def _near(self, r: Array) -> Array:
        out = r / self.diagonal
        if self.core is not None:
            rows = self.p.rows.of_rows(r)[self.p.near]
            both = np.matmul(self.core, rows.T[:, :, None])[:, :, 0].T
            self.p.rows.of_rows(out)[self.p.near] = both
        out[~self.p.free] = 0.0
        return out

    def _core(self) -> Array:
        """For each child, the inverse for the coarse queries: ``(children, core, core)``."""
        p, n = self.p, len(self.p.near)
        rows = p.near_of_cell[self.cell]
        columns = rows.indices + np.repeat(self.child * n, np.diff(rows.indptr))
        some = csr_array((rows.data, columns, rows.indptr), shape=(len(self.cell), n * p.children))
        both = (some.T @ (some * self.slope[:, None])).tocoo()
        row, column = both.coords
        blocks = np.zeros((p.children, n, n))
        blocks[row // n, row % n, column % n] = both.data
        bend = p.rows.of_rows(self.bend)[p.near].T
        blocks[:, np.arange(n), np.arange(n)] += bend
        return np.asarray(np.linalg.inv(blocks), dtype=np.float64)
