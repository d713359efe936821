r"""Which nodes of a long sum matter: the integers j where all bump trains are high at once.

Each draw is small at node j unless :math:`j r`, its angle in turns, is within a reach :math:`w` of
an integer. The j of one train are short intervals around :math:`k/r`. To find the j of all trains,
the search intersects the intervals of one with the bumps of the next. It takes the longest periods
(the largest variances) first, so the intervals are always few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
#: IntervalEnds of intervals: whole numbers up to :data:`MOST`, which floats hold exactly.
IntervalEnds = NDArray[np.float64]

#: About how many bumps, or nodes, are processed together.
SIZE = 1 << 14
#: Where intervals have at most this many nodes on average, nodes are examined one by one.
LONG = 4
#: Nodes are below this number: floats hold them exactly, and :func:`turns` is accurate.
MOST = 1 << 52


@dataclass(frozen=True)
class Band:
    """The j whose angle, ``rate`` turns per step, is within ``width`` turns of a whole turn."""

    rate: float
    width: float


def work(bands: Sequence[Band], last: int) -> float:
    """About how many intervals :func:`nodes` handles at most, or nodes at its end, if the angles
    were independent."""
    share, most = 1.0, 1.0
    for b in bands:
        most = max(most, last * b.rate * share)
        share *= min(1.0, 2 * b.width)
    return max(most, last * share)


def nodes(bands: Sequence[Band], last: int, first: int = 0) -> Iterator[tuple[Integers, int]]:
    """The j of ``first``..``last`` inside all ``bands`` (by rising rate), and perhaps a few more.
    Yields ascending pieces, each with the j up to which the list is complete. A piece takes the
    work of some :data:`SIZE` bumps of a band, or nodes, and can be empty: the number of pieces
    measures the work.

    Bounds of intervals are computed in floating point. The widths include an allowance for its
    errors."""
    guard = 1e-11 + 2.0**-50 * last * max((b.rate for b in bands), default=0.0)
    useful = [Band(b.rate, b.width + guard) for b in bands if b.width + guard < 0.49]
    yield from _inside(np.array([first], dtype=float), np.array([last], dtype=float), useful)
    yield np.array([], dtype=np.int64), last


def _inside(
    low: IntervalEnds, high: IntervalEnds, bands: Sequence[Band]
) -> Iterator[tuple[Integers, int]]:
    """The j of the intervals that are inside all bands, depth first: a run of bumps of the first
    band, then the bumps of the next band within them, until few nodes are left."""
    if (high - low + 1).sum() <= SIZE:
        yield _listed(low, high, bands), int(high[-1])
        return
    for a, b in _runs(low, high, bands[0].rate if bands else 1.0):
        if not bands:
            yield _listed(a, b, bands), int(b[-1])
            continue
        inner = _meet(a, b, bands[0])
        if len(inner[0]):
            yield from _inside(*inner, bands[1:])
        else:
            yield np.array([], dtype=np.int64), int(b[-1])


def _listed(low: IntervalEnds, high: IntervalEnds, bands: Sequence[Band]) -> Integers:
    """The j of the intervals that are inside all bands. Long intervals are cut to bumps first."""
    while bands and (high - low + 1).sum() > LONG * len(low):
        low, high = _meet(low, high, bands[0])
        bands = bands[1:]
    count = (high - low + 1).astype(np.int64)
    j = np.repeat(low.astype(np.int64), count) + rank_in_group(count)
    for band in bands:
        if not len(j):
            break
        at = j * band.rate
        j = j[np.abs(at - np.rint(at)) <= band.width]
    return j


def _runs(
    low: IntervalEnds, high: IntervalEnds, rate: float
) -> Iterator[tuple[IntervalEnds, IntervalEnds]]:
    """The intervals, in runs with about :data:`SIZE` bumps of ``rate`` each. Longer intervals are
    cut.
    """
    bumps, span = (high - low) * rate + 1, max(1, int(min(SIZE / rate, MOST)))
    if bumps.sum() < SIZE:
        yield low, high
        return
    long = bumps > SIZE
    cut = np.flatnonzero((np.diff(np.cumsum(bumps) // SIZE) > 0) | long[1:] | long[:-1]) + 1
    for a, b in zip(np.split(low, cut), np.split(high, cut), strict=True):
        if len(a) > 1:
            yield a, b
            continue
        for first in range(int(a[0]), int(b[0]) + 1, span):
            last = min(first + span - 1, int(b[0]))
            yield np.array([first], dtype=float), np.array([last], dtype=float)


def turns(j: Integers, rate: Fraction) -> NDArray[np.float64]:
    r"""``j * rate`` modulo 1, in [-1/2, 1/2), to :math:`2^{-62}` and the rounding of the result,
    for j < 2^53.

    The rate is taken to 128 bits. Its upper 64 multiply j modulo 2^64 exactly, in the arithmetic of
    unsigned integers; the lower 64 add at most j 2^-64, which a float holds to one unit."""
    whole = rate.denominator
    upper, lower = divmod((rate.numerator % whole << 128) // whole, 2**64)
    carry = (j.astype(np.float64) * (lower / 2**64)).astype(np.uint64)
    return (j.astype(np.uint64) * np.uint64(upper) + carry).view(np.int64) / 2.0**64


def _meet(low: IntervalEnds, high: IntervalEnds, band: Band) -> tuple[IntervalEnds, IntervalEnds]:
    """The parts of the intervals inside the bumps of ``band``. IntervalEnds of bumps are floats, and can be
    larger than any integer type holds. The ends of the intervals then limit them: those are at most
    :data:`MOST`, and floats hold them exactly. Nothing is copied that need not be: this is most of
    the time of a search."""
    first, more = low * band.rate, high * band.rate
    first -= band.width
    more += band.width
    np.ceil(first, out=first)
    np.floor(more, out=more)
    more -= first  # bumps after the first
    if len(low) == 1:
        k = first + np.arange(max(0, int(more[0]) + 1))
    elif more.max(initial=0) <= 0:  # short intervals, as most are: one bump or none
        one = np.flatnonzero(more >= 0)
        k, low, high = first[one], low[one], high[one]
    else:
        times = np.maximum(more + 1, 0).astype(np.int64)
        k = np.repeat(first, times) + rank_in_group(times)
        low, high = np.repeat(low, times), np.repeat(high, times)
    a, b = k - band.width, k + band.width
    a /= band.rate
    b /= band.rate
    np.maximum(np.ceil(a, out=a), low, out=a)
    np.minimum(np.floor(b, out=b), high, out=b)
    there = a <= b
    return (a, b) if there.all() else (a[there], b[there])


def rank_in_group(count: Integers) -> Integers:
    """0..n-1 for each n of ``count``, one after another."""
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
