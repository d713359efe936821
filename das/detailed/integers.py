r"""Whole numbers that are not negative and add up, near given estimates.

From the top down: the children of a region get the whole numbers with its sum that are nearest to
their estimates, :math:`\max(0, x_c - \lambda)` rounded by the largest remainders; a regional group
that is a sum is added up. Then cells, to the totals. Where a family adds up in cells, children are
served one after the other: each gets what is nearest to its estimate and its share of what rounding
has left in each cell so far, within what is left; any such numbers leave enough for the others, so
that no search is needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def nearest(values: Floats, total: Ints) -> Ints:
    """Whole numbers ``(n, columns)`` of 0 or more whose columns sum to ``total``, the nearest to
    ``values`` in the sum of squares.

    >>> nearest(np.array([[2.4, 0.0], [-3.0, 1.5], [2.4, 1.5]]), np.array([5, 3])).T.tolist()
    [[3, 0, 2], [0, 2, 1]]
    """
    n, columns = values.shape
    if not n or not columns:
        return np.zeros((n, columns), dtype=np.int64)
    falling = -np.sort(-values, axis=0)
    over = (np.cumsum(falling, axis=0) - total) / np.arange(1, n + 1)[:, None]
    last = np.maximum((falling > over).sum(axis=0) - 1, 0)
    real = np.maximum(values - over[last, np.arange(columns)], 0.0) * (total > 0)
    out = np.floor(real + 1e-9).astype(np.int64)
    short = total - out.sum(axis=0)
    rank = np.empty((n, columns), dtype=np.int64)
    np.put_along_axis(
        rank, np.argsort(out - real, axis=0, kind="stable"), np.arange(n)[:, None], axis=0
    )
    return out + (rank < short)


def capped_integers(values: Floats, most: Ints, total: int) -> Ints:
    """Whole numbers with the sum ``total`` for one column, none above ``most``. The sum of ``most``
    must be at least ``total``."""
    low, high = float((values - most).min()) - 1, float(values.max()) + 1
    for _ in range(60):
        middle = (low + high) / 2
        held = np.clip(values - middle, 0, most).sum()
        low, high = (middle, high) if held > total else (low, middle)
    real = np.clip(values - high, 0, most)
    out = np.minimum(np.floor(real + 1e-9).astype(np.int64), most)
    while (short := total - int(out.sum())) != 0:
        room = np.flatnonzero(out < most) if short > 0 else np.flatnonzero(out > 0)
        order = room[np.argsort((out - real)[room] * np.sign(short), kind="stable")]
        out[order[: abs(short)]] += int(np.sign(short))
    return out


def families(values: Floats, totals: Ints, cells: Ints) -> Ints:
    """Whole numbers ``(children, cells)`` near ``values``, whose rows sum to ``totals`` and whose
    columns to ``cells``: these sum to the same."""
    out, left = np.zeros(values.shape, dtype=np.int64), cells.copy()
    for i in range(len(values)):
        rest = len(values) - i
        wanted = values[i] + (left - values[i:].sum(axis=0)) / rest
        out[i] = capped_integers(wanted, left, int(totals[i]))
        left = left - out[i]
    return out


def refined(values: Floats, of: NDArray[np.int64], coarse: Ints) -> Ints:
    """Whole numbers near ``values``, of cells ``of`` coarser ones that are known."""
    out = np.zeros(len(values), dtype=np.int64)
    for c, total in enumerate(coarse.tolist()):
        here = of == c
        out[here] = nearest(values[here][:, None], np.array([total]))[:, 0]
    return out
