"""From counts to records: the histogram and its microdata hold the same information."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.model.histogram import Histogram


def expand(h: Histogram, start: int = 0, stop: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Unit and cell of each record, ordered by unit and then by cell.

    A count of ``c`` becomes ``c`` equal records. ``start`` and ``stop`` take a slice of the records, for a
    unit that is too large to be expanded at once.

    Returns:
        ``(unit, cell)``, two int64 arrays of shape ``(records,)``.

    Example:
        >>> h = Histogram.of(2, 3, np.array([1, 0]), np.array([2, 1]), np.array([2, 1]))
        >>> expand(h)
        (array([0, 1, 1]), array([1, 2, 2]))
    """
    end = np.cumsum(h.count)
    records = int(end[-1]) if len(end) else 0
    stop = records if stop is None else min(stop, records)
    first, last = np.searchsorted(end, [start, stop - 1], side="right") if stop > start else (0, -1)
    times = h.count[first : last + 1].copy()
    if len(times):
        times[-1] -= end[last] - stop
        times[0] -= start - (end[first] - h.count[first])
    unit = np.searchsorted(h.indptr, np.arange(first, last + 1), side="right") - 1
    return np.repeat(unit, times), np.repeat(h.cell[first : last + 1], times)
