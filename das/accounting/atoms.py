r"""The privacy profile of very few draws, from every combination of their values.

.. math:: \delta(\varepsilon) = \sum_x P(x) \, (1 - e^{\varepsilon - L(x)})_+

has only positive terms, so nothing cancels. It serves where the losses lie on no useful lattice and
the sum of :mod:`das.accounting.contour` hardly converges. That happens if the draws are too few to
be small together.

Values beyond :math:`r_i` are left out. Their probability is at most :math:`2 \sum_i n_i e^{-p_i
(r_i + 1)^2/2}`, which is added to the upper end. (:math:`E\, e^{c p X} \le e^{c^2 p/2}`, so
:math:`P[X \ge k] \le e^{-p k^2/2}`.)"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, exp, inf, log, prod, sqrt

import numpy as np

from das.accounting.contour import UNIT, LogDelta
from das.accounting.draws import Composition
from das.accounting.peaks import Saddle, saddle
from das.accounting.tilted_gaussian import Array

#: The most combinations to list.
MOST = 1_000_000
#: The most products to compute for the distributions of sums of equal draws.
WORK = 1e9
#: With fewer nodes than this, the sum over nodes is better.
NODES = 1e5


class Atoms:
    """Everything that matters at epsilons near ``centre``: the losses minus rho, and their
    probabilities. ``reaches`` are the r.
    """

    lattice = False

    @staticmethod
    def from_composition(composition: Composition, centre: Fraction) -> Atoms | None:
        """The atoms, or ``None``. They serve if there are few combinations and many nodes, and no
        probability is too small for a float.
        """
        at = saddle(composition, float(centre))
        least = at.log_size - at.c * at.width  # about ln delta, at every epsilon covered
        draws = composition.every
        reaches = [ceil(sqrt(2 * (45 - least) / float(p))) for p, _, _ in draws]
        combinations = prod(2 * n * r + 1 for (_, _, n), r in zip(draws, reaches, strict=True))
        nodes = (38 - least) / at.c / float(composition.step)
        work = sum((n * r) ** 2 for (_, _, n), r in zip(draws, reaches, strict=True) if n > 1)
        if combinations > MOST or work > WORK or nodes < NODES or least < -500:
            return None
        return Atoms(composition, centre, at, reaches)

    def __init__(
        self, composition: Composition, centre: Fraction, at: Saddle, reaches: Sequence[int]
    ) -> None:
        self.composition, self.centre, self.c, self.width = composition, centre, at.c, at.width
        self.losses, self.masses = np.zeros(1), np.ones(1)
        self.outside, self._off = 1e-290, 64.0  # floats below 1e-308 are lost
        for (p, k, n), r in zip(composition.every, reaches, strict=True):
            x = np.arange(-r, r + 1)
            one = np.exp(-float(p) * x * x / 2)
            one /= one.sum()
            whole: Array = one
            for _ in range(n - 1):
                whole = np.convolve(whole, one)
            step = float(k * p)
            self.losses = np.add.outer(self.losses, step * np.arange(-n * r, n * r + 1)).ravel()
            self.masses = np.multiply.outer(self.masses, whole).ravel()
            self.outside += 1.01 * 2 * n * exp(-float(p) * (r + 1) ** 2 / 2)
            self._off += n * (2 * float(p) * r * r + 8 + 2 * r)  # of exponents, of sums

    def covers(self, eps: Fraction) -> bool:
        return abs(float(eps - self.centre)) <= self.width

    def log_delta(self, eps: Fraction) -> LogDelta:
        """Bounds of ln delta(eps), with a first-order allowance for rounding: ``_off`` units for
        each probability, and the rounding of the loss, which counts where 1 - e^(eps - L) is
        small."""
        start = float(self.composition.rho - eps)
        off_loss = (
            UNIT * (len(self.composition.every) + 3) * (np.abs(self.losses).max() + abs(start))
        )
        over = start + self.losses
        near = over > -off_loss
        part = -np.expm1(-np.maximum(over[near], 0.0))
        middle = float((self.masses[near] * part).sum())
        rounding = UNIT * self._off * middle + off_loss * float(self.masses[near].sum())
        return LogDelta(
            _log(middle - rounding, 4), _log(middle, 0), _log(middle + rounding + self.outside, -4)
        )


def _log(x: float, units: int) -> float:
    """ln x, lowered by ``units`` units of its rounding."""
    return min(0.0, log(x) * (1 + units * UNIT)) if x > 0 else -inf
