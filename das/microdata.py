"""From counts to records: the histogram and its microdata hold the same information."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from das.model.histogram import Histogram


def expand(
    h: Histogram, start: int = 0, stop: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Unit and cell of each record, ordered by unit and then by cell.

    A count of ``c`` becomes ``c`` equal records. ``start`` and ``stop`` take a slice of the
    records, for a unit that is too large to be expanded at once.

    Returns:
        ``(unit, cell)``, two int64 arrays of shape ``(records,)``.

    Example:
        >>> h = Histogram.from_triplets(2, 3, np.array([1, 0]), np.array([2, 1]), np.array([2, 1]))
        >>> expand(h)
        (array([0, 1, 1]), array([1, 2, 2]))"""
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


def slices(h: Histogram, records: int) -> Iterator[tuple[int, int]]:
    """Slices of units in order. Each has as many units as together hold at most ``records``
    records, or one unit that holds more."""
    end = np.cumsum(h.totals())
    first = 0
    while first < h.units:
        before = int(end[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(end, before + records, side="right")))
        yield first, last
        first = last


def drawn(
    h: Histogram, number: NDArray[np.int64], seed: bytes, records: int = 1 << 20
) -> Histogram:
    """``number[u]`` of the records of each unit ``u``, drawn at random without replacement, every
    choice as likely as any other.

    It depends on ``h``, ``number`` and ``seed`` alone: each record has a word of the raw stream of
    PCG64, in the order of :func:`expand`, and those of the smallest words are drawn. NumPy promises
    that stream, and not what it makes of it. No more than ``records`` are held at a time, or those
    of one unit.

    >>> h = Histogram.from_triplets(2, 3, np.array([1, 0]), np.array([2, 1]), np.array([2, 1]))
    >>> drawn(h, np.array([0, 1]), b"seed").totals()
    array([0, 1])
    >>> drawn(h, np.array([1, 2]), b"seed").same_as(h)
    True"""
    words = np.random.PCG64(int.from_bytes(seed, "big"))
    parts = []
    for first, last in slices(h, records):
        unit, cell = expand(h.rows(first, last))
        order = np.lexsort((words.random_raw(len(unit)), unit))
        place = np.arange(len(unit)) - np.searchsorted(unit, unit)
        chosen = order[place < number[first:last][unit]]
        ones = np.ones(len(chosen), dtype=np.int64)
        parts.append(
            Histogram.from_triplets(last - first, h.cells, unit[chosen], cell[chosen], ones)
        )
    return Histogram.concatenate(parts)
