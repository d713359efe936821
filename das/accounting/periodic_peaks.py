r"""Where on the line of integration every draw of a composition is near a whole number of turns at
once.

The bumps of a draw come back every :math:`2\pi\sigma^2`, and those of all draws together hardly
ever. Which nodes of a sum are near such a place depends on its step, the places do not, and hardly
on the line: they are sought once for a composition, as far as any sum of it has asked, whatever its
epsilon and period.

They are sought on a grid of step s, with every reach s/2 wider: then the point of the grid that is
nearest to a place is found. How far one step of the search goes, and where it is given up, follows
from the composition alone, not from who asked before."""

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
#: One piece goes to here at first, and then to four times where it begins: the peak search allows
#: for the rounding of its last number.
EARLY = 1 << 20
#: Places are sought for this tau, and for its doubles where more is asked for.
TAU = 48.0


def periodic_peaks(composition: Composition, tau: float, most: int) -> PeriodicPeaks:
    """The places where the product of bounds is above :math:`e^{-\tau}` on some line, and perhaps
    others.
    """
    return _known(composition, TAU * 2.0 ** max(0, ceil(log2(tau / TAU))), most)


@lru_cache(maxsize=64)
def _known(composition: Composition, tau: float, most: int) -> PeriodicPeaks:
    return PeriodicPeaks(composition, tau, most)


class PeriodicPeaks:
    """The search is given up after ``most`` points of the grid, or :data:`PIECES` of work."""

    def __init__(self, composition: Composition, tau: float, most: int) -> None:
        self._draws = sorted(
            (TiltedGaussian(p, n, 0.5 / k, k) for p, k, n in composition.every),
            key=lambda x: x.rate,
        )  # at the tilt where the bounds are widest
        self._tau, self._most = tau, most
        self._grid = Fraction(
            short(8 * pi * sqrt(float(composition.rho)))
        )  # its period: all bumps are many steps wide
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
        """The j of 0..``last`` near a place, and perhaps others, in a sum of ``period``; and how
        far they are complete.
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
                self._pieces -= 1  # the last says no more than that it is the last

    @property
    def _given_up(self) -> bool:
        return self._seen > self._most or self._pieces > PIECES
