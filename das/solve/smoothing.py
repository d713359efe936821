r"""The positive part, and a smooth function in its place.

Variables answer potentials by :math:`x = [s]_+ / d`. The smooth answer of width :math:`h` is
:math:`x = h \log(1 + e^{s/h}) / d`: convex, increasing, at most :math:`h \log 2 / d` larger, with
the slope :math:`1/(d (1 + e^{-s/h}))`. A width of 0 is the positive part itself, with the slope
:math:`1/d` where s > 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NOTHING = -36.0  # exp(-36) is below the last digit of 1
_TAIL = (
    -8.0
)  #: widths below 0 beyond which a slope is left out of the second derivatives (it is 3e-4 of 1/d)
_STEPS = 40  # of Newton's method for each cell
_EXACT = 1e-11  # relative error at which they end


@dataclass(frozen=True, eq=False)
class PositivePart:
    """``curvature`` d, and the ``width`` where the smoothing is 1, each ``(cells, children)`` or
    ``(cells, 1)``; ``smoothing`` multiplies it."""

    curvature: Array
    width: Array
    smoothing: float

    def at(self, s: Array) -> Array:
        """x at the potentials ``s``, ``(cells, children)``; -inf where x must be 0."""
        if not self.smoothing:
            return np.maximum(s, 0.0) / self.curvature
        h = self.smoothing * self.width
        u = np.maximum(s / h, 10 * _NOTHING)
        out = np.log1p(np.exp(-np.abs(u)))
        out += np.maximum(u, 0.0)
        out[u < _NOTHING] = 0.0
        out *= h
        out /= self.curvature
        return out

    def slope(self, s: Array, tail: float = _TAIL) -> Array:
        """dx/ds, 0 below ``tail`` widths."""
        if not self.smoothing:
            return (s > 0) / self.curvature
        u = np.maximum(s / (self.smoothing * self.width), 10 * _NOTHING)
        return np.where(u > tail, 1 / ((1 + np.exp(-np.maximum(u, tail))) * self.curvature), 0.0)

    def level(self, s: Array, total: Array) -> Array:
        r"""What to add to the potentials of each cell for its variables to sum to ``total``:
        ``(cells,)``.

        The sum is convex and increasing. From a level where it is too large (one variable alone
        holds the total) Newton's method comes down to the root and never passes it. Cells without a
        variable or a total stay."""
        here = np.flatnonzero((total > 0) & np.isfinite(s).any(axis=1))
        out = np.zeros(len(total))
        s, total = s[here], total[here]
        many = PositivePart(self.curvature[here], self.width[here], self.smoothing)
        high = np.where(np.isfinite(s), s, -np.inf).max(axis=1)
        shift = total * many.curvature.max(axis=1) - high
        now = many.at(s).sum(axis=1) >= total
        shift[now] = np.minimum(shift[now], 0.0)
        for _ in range(_STEPS):
            at = s + shift[:, None]
            over = many.at(at).sum(axis=1) - total
            if (over <= _EXACT * total).all():
                break
            slope = many.slope(at, -np.inf).sum(axis=1)
            shift -= np.where(over > 0, over / np.maximum(slope, 1e-300), 0.0)
        out[here] = shift
        return out
