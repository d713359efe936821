"""The matrices of one problem's children, factored once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.solve.kinds import Kinds

Array = NDArray[np.float64]

_SMALL = 64  #: cells of matrices that are inverted by a stack at once
_SINGULAR = 1e-11  # eigenvalues below this part of the largest count as zero


def inverse(matrices: Array, factors: Array | None = None) -> Array:
    """The inverses of positive definite matrices, ``(matrices, n, n)``; large ones by their
    Cholesky ``factors``.
    """
    if matrices.shape[1] <= _SMALL:
        return np.asarray(np.linalg.inv(matrices), dtype=np.float64)
    return np.stack(
        [_inverse(m, None if factors is None else factors[i]) for i, m in enumerate(matrices)]
    )


def _inverse(matrix: Array, factor: Array | None) -> Array:
    if factor is None:
        try:
            factor = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        except np.linalg.LinAlgError:  # rounding, of one that is all but singular
            return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    from scipy.linalg.lapack import dpotri  # slow to load

    half = dpotri(factor, lower=True)[0]
    return np.where(np.tri(len(half), dtype=bool), half, half.T)


class Curvature:
    """One matrix G of each kind of children, ``(kinds, cells, cells)``, and its inverse; where some
    G is singular, their pseudo-inverses and the projections on what they do not see, ``null``.
    ``typical`` is the geometric mean of the (positive) eigenvalues; ``diagonal`` ``(kinds,
    cells)``."""

    def __init__(self, given: Array | Kinds, children: int) -> None:
        if isinstance(given, Kinds):
            self.gram, self.kind = np.asarray(given.matrices, dtype=float), given.kind
        elif given.ndim == 2:
            self.gram, self.kind = given[None], np.zeros(children, dtype=np.intp)
        else:
            self.gram, self.kind = given, np.arange(children)
        if not np.isfinite(self.gram).all():
            raise ValueError("gram and rhs must be finite")
        self.diagonal = np.diagonal(self.gram, axis1=1, axis2=2)
        self.null: Array | None = None
        if (factors := self._factors()) is not None:
            self.inverse = inverse(self.gram, factors)
            pivots = np.diagonal(factors, axis1=1, axis2=2)
            self.typical = float(np.exp(2 * np.log(pivots).mean())) if pivots.size else 1.0
            return
        value, vector = np.linalg.eigh(self.gram)
        keep = value > _SINGULAR * np.maximum(value[:, -1:], 1e-300)
        self.typical = float(np.exp(np.log(value[keep]).mean())) if keep.any() else 1.0
        scaled = vector * np.where(keep, 1 / np.where(keep, value, 1.0), 0.0)[:, None, :]
        self.inverse = scaled @ np.swapaxes(vector, 1, 2)
        rest = np.where(keep[:, None, :], 0.0, vector)
        self.null = rest @ np.swapaxes(rest, 1, 2)

    def _factors(self) -> Array | None:
        """The Cholesky factors, ``None`` where some G is singular to working precision."""
        try:
            factors = np.linalg.cholesky(self.gram)
        except np.linalg.LinAlgError:
            return None
        pivots = np.diagonal(factors, axis1=1, axis2=2)
        definite = (
            pivots.min(axis=1, initial=np.inf) > 1e-5 * pivots.max(axis=1, initial=0.0)
        ).all()
        return factors if definite else None

    def variances(self, rows: Array) -> Array:
        """The diagonal of B G^-1 B', with the mean inverse where children differ: ``(rows,)``."""
        inverse = self.inverse[0] if len(self.inverse) == 1 else self.inverse.mean(axis=0)
        return np.asarray(np.sum(rows @ inverse * rows, axis=1))
