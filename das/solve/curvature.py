"""The matrices of one problem's children, factored once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from das.solve.kinds import Kinds

Array = NDArray[np.float64]

_SMALL = 64  #: cells of matrices that are inverted by a stack at once
_SINGULAR = 1e-11  # eigenvalues below this part of the largest count as zero


def inverse(matrices: Array) -> Array:
    """Of positive definite matrices, ``(matrices, n, n)``; large ones by their Cholesky factors."""
    if matrices.shape[1] <= _SMALL:
        return np.asarray(np.linalg.inv(matrices), dtype=np.float64)
    out = np.empty_like(matrices)
    for each, found in zip(matrices, out, strict=True):
        factor, refused = dpotrf(each.T, lower=True, clean=False)
        half = dpotri(factor, lower=True, overwrite_c=True)[0]
        found[:] = np.linalg.inv(each) if refused else np.tril(half) + np.tril(half, -1).T
    return out


class Curvature:
    """One matrix G of each kind of children, ``(kinds, cells, cells)``, and its inverse; where some G is singular, their
    pseudo-inverses and the projections on what they do not see, ``null``. ``typical`` is the geometric mean of the (positive)
    eigenvalues; ``diagonal`` ``(kinds, cells)``."""

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
        if (pivots := self._pivots()) is not None:
            self.inverse = inverse(self.gram)
            self.typical = float(np.exp(2 * np.log(pivots).mean())) if pivots.size else 1.0
            return
        value, vector = np.linalg.eigh(self.gram)
        keep = value > _SINGULAR * np.maximum(value[:, -1:], 1e-300)
        self.typical = float(np.exp(np.log(value[keep]).mean())) if keep.any() else 1.0
        scaled = vector * np.where(keep, 1 / np.where(keep, value, 1.0), 0.0)[:, None, :]
        self.inverse = scaled @ np.swapaxes(vector, 1, 2)
        rest = np.where(keep[:, None, :], 0.0, vector)
        self.null = rest @ np.swapaxes(rest, 1, 2)

    def _pivots(self) -> Array | None:
        """The diagonal of the Cholesky factor, ``None`` where G is singular to working precision."""
        try:
            pivots = np.diagonal(np.linalg.cholesky(self.gram), axis1=1, axis2=2)
        except np.linalg.LinAlgError:
            return None
        definite = (pivots.min(axis=1, initial=np.inf) > 1e-5 * pivots.max(axis=1, initial=0.0)).all()
        return pivots if definite else None

    def variances(self, rows: Array) -> Array:
        """The diagonal of B G^-1 B', with the mean inverse where children differ: ``(rows,)``."""
        inverse = self.inverse[0] if len(self.inverse) == 1 else self.inverse.mean(axis=0)
        return np.asarray(np.sum(rows @ inverse * rows, axis=1))
