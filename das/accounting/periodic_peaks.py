r"""Where on the line of integration every draw of a composition is near a whole number of turns at
once.

The bumps of one draw come back every :math:`2\pi\sigma^2`; those of all draws come back together
hardly ever. The places where they do depend hardly on the line, and not on the step of a sum; only
the nodes near them do. So one search serves a composition at all epsilons and periods. It goes as
far as any sum has needed.

The search uses a grid of step s, with every reach s/2 wider, so it finds the grid point nearest to
each place. How far one step of the search goes, and where it gives up, depends only on the
composition, not on earlier requests."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, log2, pi, sqrt
from threading import Lock

import numpy as np

from das.accounting.draws import Composition
from das.accounting.peak_search import MOST, SIZE, Band, Integers, nodes, rank_in_group
from das.accounting.saddle import short
from das.accounting.tilted_gaussian import TiltedGaussian

#: The most pieces of work.
PIECES = 400
#: The first piece ends here, and a later piece at four times its beginning, because the peak search
#: allows for the rounding of its last number.
EARLY = 1 << 20
#: Places are sought for this tau, or for a power of two times it if a sum needs more.
TAU = 48.0


def periodic_peaks(composition: Composition, tau: float, most: int) -> PeriodicPeaks:
    """The places where the product of bounds exceeds :math:`e^{-\tau}` on some line, and perhaps
    others.
    """
    return _known(composition, TAU * 2.0 ** max(0, ceil(log2(tau / TAU))), most)


@lru_cache(maxsize=64)
def _known(composition: Composition, tau: float, most: int) -> PeriodicPeaks:
    return PeriodicPeaks(composition, tau, most)


class PeriodicPeaks:
    """The places of one composition, searched on demand. The search gives up after ``most`` points
    of the grid, or :data:`PIECES` of work."""

    def __init__(self, composition: Composition, tau: float, most: int) -> None:
        self._draws = sorted(
            (TiltedGaussian(p, n, 0.5 / k, k) for p, k, n in composition.every),
            key=lambda x: x.rate,
        )  # at the tilt where the bounds are widest
        self._tau, self._most = tau, most
        self._grid = Fraction(
            short(8 * pi * sqrt(float(composition.rho)))
        )  # the grid's period: all bumps are many steps wide
        self._found: list[Integers] = []
        self._reached, self._pieces, self._seen, self._lock = -1, 0, 0, Lock()

    @cached_property
    def _bands(self) -> list[Band]:
        rates = [float(x.rate / self._grid) for x in self._draws]
        return [
            Band(r, x.reach(self._tau) / (2 * pi) + r / 2)
            for r, x in zip(rates, self._draws, strict=True)
        ]

    def nodes(self, period: Fraction, last: int) -> tuple[Integers, int]:
        """The j of 0..``last`` near a place, and perhaps others, in a sum with this ``period``; and
        up to which j the list is complete.
        """
        scale = float(period / self._grid)
        goal = ceil((last + 1) / scale) + 1
        with self._lock:
            self._seek(goal)
            if self._reached < goal:
                last = max(0, min(last, int((self._reached - 1) * scale)))
            at = np.concatenate(self._found)
        at = at[at <= goal]
        off = 1e-6 + 2.0**-50 * last  # of floats
        low, high = np.ceil((at - 0.5) * scale - off), np.floor((at + 0.5) * scale + off)
        count = np.maximum(high - low + 1, 0).astype(np.int64)
        j = np.unique(np.repeat(low.astype(np.int64), count) + rank_in_group(count))
        return j[(j >= 0) & (j <= last)], last

    def _seek(self, goal: int) -> None:
        span = max(
            1, int(min(0.95 * SIZE / self._bands[0].rate, MOST))
        )  # one piece of work, where the draws are wide
        while self._reached < min(goal, MOST) and not self._given_up:
            first = self._reached + 1
            last = min(first + span - 1, max(EARLY, 4 * first), MOST)
            for found, reached in nodes(self._bands, last, first):
                self._found.append(found)
                self._seen, self._pieces, self._reached = (
                    self._seen + len(found),
                    self._pieces + 1,
                    reached,
                )
                if self._given_up:
                    break
            else:
                self._pieces -= 1  # the last piece is empty: it only marks the end

    @property
    def _given_up(self) -> bool:
        return self._seen > self._most or self._pieces > PIECES
