r"""The worst of very many compositions, without composing each exactly.

Between places on P paths there are P (P + 1)/2 compositions. A record of another kind combines each
of these with each of its own. All consist of few parts, the draws on a path. The characteristic
functions of these parts multiply. So the sum of :mod:`das.accounting.contour`, on one line of the
complex plane and at nodes that serve all compositions, is a product of matrices.

**One more draw.** To make few nodes serve all, a tiny continuous Gaussian of :math:`\rho_s` is
composed with each. Its loss :math:`\eta \sim N(\rho_s, 2\rho_s)` has :math:`E\, e^{z\eta} =
e^{\rho_s (z^2 + z)}`. This ends the sum at :math:`y^2 = \tau/\rho_s`, and no tail needs a bound.
Leaving a draw out is post-processing, so the sum is an upper bound on every composition's delta.
Where the profile is smooth, it exceeds delta by about :math:`\rho_s c^2` of delta.

*What holds.* The composition with the largest bound is composed exactly; the largest epsilon is not
less than its epsilon. If at some epsilon the bounds of all others are at most delta, no epsilon is
larger than that. Some bounds may still exceed delta at the largest epsilon so far. Then these
compositions are composed exactly, too, one after the other, or epsilon is raised until the bounds
are at most delta. Epsilon is never raised above the tight conversion of the largest rho, which
bounds every epsilon.

*One value for one question.* The nodes that serve a line follow from a period and a tau that are
rounded up to a coarse grid, and from nothing else. So they can be kept for other questions. Lines,
which follow from the epsilons that a search has met, are not kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf, log, pi, sqrt

from das.accounting import zcdp
from das.accounting.contour import UNIT, period
from das.accounting.draws import Composition, Differing, composed, count
from das.accounting.peaks import Saddle, saddle, short
from das.accounting.shared_quadrature import NEAR, At, LineSums, PathDraws, SharedQuadrature, of_all
from das.accounting.zcdp import bun_steinke, no_more
from das.threads import one_thread

Interval = tuple[float, float]

#: The most compositions to compose exactly, and how far epsilon is raised instead.
SOLVED, RAISED = 12, 1e-7
#: A raised epsilon is a multiple of this. It hides the last digits of the bounds' slope, which
#: depend on where arrays lie in memory.
GRAIN = 2.0**-32
#: Periods are rounded up to this many bits, and taus to a multiple.
PERIOD_BITS, TAUS = 3, 4
#: Up to this many compositions are all composed exactly at once.
FEW = 3


@dataclass(frozen=True)
class WorstLoss:
    """An interval that contains the largest epsilon (or delta), and the composition that has it."""

    low: float
    high: float
    at: At


@one_thread()
def epsilon(
    found: Differing, delta: Fraction, exactly: Callable[[Composition], Interval]
) -> WorstLoss:
    """The largest epsilon at ``delta`` over all combinations of one change of each part.
    ``exactly`` gives the interval of one composition.
    """
    if count(found) <= FEW:
        return all_of(found, exactly)
    bounds, goal = _Bounds(found), log(delta.numerator) - log(delta.denominator)
    slack = 4 * UNIT * (1 + log(delta.numerator) + log(delta.denominator))
    most = no_more(bounds.rho, delta)
    start = zcdp.epsilon(float(bounds.rho), goal, bun_steinke(bounds.rho, delta))
    best = _Solved(found, exactly)
    best.solve(bounds.highest(Fraction(start))[1])
    if (top := best.high) >= most:
        return WorstLoss(best.low, most, best.at)
    for _ in range(SOLVED):
        excess, at = bounds.highest(Fraction(top), best.done)
        if (
            at in best.done
            or excess <= goal - slack
            or (excess - goal) / bounds.slope(Fraction(top)) < RAISED * max(top, 1e-3)
        ):
            break
        if len(best.done) == FEW and bounds.highest(Fraction(most), best.done)[0] > goal - slack:
            return WorstLoss(best.low, most, best.at)  # the bounds never come down
        best.solve(at)
        top = best.high
    step = 4 * UNIT * top
    while (excess := bounds.highest(Fraction(top), best.done)[0]) > goal - slack:
        step = max(2 * step, (excess - goal + 2 * slack) / bounds.slope(Fraction(top)), 1e-300)
        top = ceil((top + step) / GRAIN) * GRAIN
        if top >= most:
            return WorstLoss(best.low, most, best.at)
    return WorstLoss(best.low, top, best.at)


@one_thread()
def log_delta(
    found: Differing, eps: Fraction, exactly: Callable[[Composition], Interval]
) -> WorstLoss:
    """The natural logarithm of the largest delta at ``eps``. ``exactly`` gives the interval of one
    composition.
    """
    if count(found) <= FEW:
        return all_of(found, exactly)
    bounds, best = _Bounds(found), _Solved(found, exactly)
    best.solve(bounds.highest(eps)[1])
    for _ in range(SOLVED):
        high, at = bounds.highest(eps, best.done)
        if at in best.done or high <= best.high + RAISED:
            break
        best.solve(at)
    return WorstLoss(best.low, max(best.high, bounds.highest(eps, best.done)[0]), best.at)


def all_of(found: Differing, exactly: Callable[[Composition], Interval]) -> WorstLoss:
    """The largest value, with every composition composed exactly."""
    best, known = _Solved(found, exactly), {}
    for at, composition in composed(found):
        if composition not in known:
            known[composition] = exactly(composition)
            best.take(at, known[composition])
    return WorstLoss(best.low, best.high, best.at)


class _Solved:
    """The compositions that were composed exactly, and the largest of them."""

    def __init__(self, found: Differing, exactly: Callable[[Composition], Interval]) -> None:
        self._found, self._exactly = found, exactly
        self.done: list[At] = []
        self.low, self.high = -inf, -inf
        self.at: At = ()

    def solve(self, at: At) -> None:
        self.take(at, self._exactly(_composition(self._found, at)))
        self.done.append(at)

    def take(self, at: At, interval: Interval) -> None:
        low, high = interval
        if not self.at or low > self.low + NEAR * abs(self.low):
            self.at = at
        self.low, self.high = max(self.low, low), max(self.high, high)


def _composition(found: Differing, at: At) -> Composition:
    parts = (part.composition(part.moves[i]) for part, i in zip(found, at, strict=True))
    return sum(parts, Composition(()))


@dataclass(frozen=True)
class _SharedParts:
    """What all questions about the same changes share. Nodes are those of their key, a period and a
    tau, for any question."""

    draws: list[PathDraws]
    rho: Fraction
    dearest: Composition
    nodes: dict[tuple[Fraction, int], list[SharedQuadrature]]


@lru_cache(maxsize=16)
def _parts(found: Differing) -> _SharedParts:
    draws = [PathDraws.of(part) for part in found]
    rho = sum((part.rho for part in draws), Fraction(0))
    return _SharedParts(draws, rho, _composition(found, tuple(part.dearest for part in draws)), {})


class _Bounds:
    """Upper bounds on delta for all compositions: for those with a fine path, and for the
    others. They serve one question."""

    def __init__(self, found: Differing) -> None:
        self._parts = _parts(found)
        self.rho = self._parts.rho
        self._lines: list[_Line] = []

    def highest(self, eps: Fraction, but: Sequence[At] = ()) -> tuple[float, At]:
        """The largest bound of ln delta(eps), and the first composition that has it, or nearly has
        it. Leaves out the compositions ``but``.
        """
        line = self._line(eps)
        return max((group.highest(eps, but) for group in line.groups), key=lambda found: found[0])

    def slope(self, eps: Fraction) -> float:
        """The approximate slope of ln delta, as a positive number."""
        return self._line(eps).at.c

    def _line(self, eps: Fraction) -> _Line:
        near = [line for line in self._lines if abs(float(eps - line.centre)) <= line.at.width]
        if not near:
            near = [self._made(eps)]
            self._lines.append(near[0])
        return min(near, key=lambda line: abs(line.centre - eps))

    def _made(self, eps: Fraction) -> _Line:
        """A new line, with the nodes of its period and its tau, both rounded up."""
        at, known = saddle(self._parts.dearest, float(eps)), self._parts.nodes
        least = period(float(self.rho), float(eps), at)
        tau = 39 + max(0.0, log(sqrt(2 * pi) * at.width * (at.c + 1)))
        key = Fraction(short(float(least), PERIOD_BITS)), TAUS * ceil(tau / TAUS)
        if key not in known:
            known[key] = of_all(self._parts.draws, *key)
        return _Line(eps, at, [LineSums(at.c, nodes) for nodes in known[key]])


@dataclass(frozen=True)
class _Line:
    """A line across the saddlepoint of an epsilon."""

    centre: Fraction
    at: Saddle
    groups: list[LineSums]
