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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from math import ceil, exp, fsum, inf, log, pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from das.accounting import zcdp
from das.accounting.contour import UNIT, period
from das.accounting.draws import Composition, Differing, Moves, composed, costliest_of, count
from das.accounting.peaks import Band, Saddle, nodes, saddle, short, turns, work
from das.accounting.tilted_gaussian import SMALL, TiltedGaussian
from das.accounting.zcdp import bun_steinke, no_more
from das.threads import one_thread

# Nodes that serve very many compositions at once, and the sums of all these compositions on a
# line: see :mod:`das.accounting.worst`.
#
# A node is dropped if no composition has a modulus above :math:`e^{-\tau}` there. Let :math:`b_i \le
# 0` bound the logarithm of path i's modulus. A path is *fine* if few nodes have :math:`b_i > -\tau`.
# As :math:`b_i + b_j \le b_i`, the nodes of all fine paths serve every pair with a fine path. The
# other pairs have their own :math:`\rho_s`, large enough for few nodes. With records of several
# kinds, nodes that serve one kind serve all. The dropped terms sum to at most :math:`e^{-\tau} \sum_j
# 1/|z_j|^2 \le e^{-\tau} (1/c^2 + T/2c)`, times the scale of the costliest composition. All terms of
# the periodic sum except one are positive and need no bound.
#
# **Rows alike.** Very many compositions differ by less than rounding. One row stands for all rows
# that agree to :data:`ALIKE`, and the bounds include the largest possible difference.

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]
Ints = NDArray[np.int64]
#: The number of the move of each part.
At = tuple[int, ...]

#: The cost of the one more draw, as a part of rho. It is multiplied by :data:`MORE`, repeatedly,
#: while there would be too many nodes.
SMOOTH, MORE = Fraction(1, 10**9), 4
#: The most nodes of a fine path, and of compositions without one.
FINE, ROUGH = 600, 2_500
#: The number of a path's widest draws that the peak search intersects. All draws are evaluated at
#: the remaining nodes.
BANDS = 8
#: With more combinations than :data:`MANY`, rows alike count as one. :data:`ALIKE` is how much they
#: can differ, relative to the sum; :data:`COMBINATIONS` limits the remaining combinations.
MANY, ALIKE, COMBINATIONS = 5_000, 1e-15, 1_000_000

#: Among compositions nearer to the worst than this, the first is named, because rounding would
#: decide which is larger.
NEAR = 1e-7


@dataclass(frozen=True, eq=False)
class PathDraws:
    """One of :class:`Moves`, as arrays. ``draws`` ``(paths, precisions)`` has the number of draws
    of each of the ``precisions``, smallest first; their answers differ by ``shifts``. ``moves``
    ``(moves, paths to a move)`` are the moves with these ``numbers``. ``each`` has the rho of each
    path; ``rho`` is that of the costliest move, whose number is ``costliest``. Draws whose answers
    differ by more in every move are one more path, which is on every move."""

    precisions: tuple[Fraction, ...]
    shifts: tuple[int, ...]
    draws: Floats
    each: tuple[Fraction, ...]
    moves: Ints
    numbers: Ints
    rho: Fraction
    costliest: int

    @staticmethod
    def from_moves(part: Moves) -> PathDraws:
        paths = [[(1 / parameter, part.by, n) for (_, parameter), n in path] for path in part.paths]
        moves = part.moves
        if part.shifted:
            paths.append(list(part.shifted))
            moves = tuple((*move, len(paths) - 1) for move in moves)
        distinct = {(p, k) for path in paths for p, k, _ in path}
        columns = sorted(distinct, key=lambda column: (float(column[0]), *column))
        number = {column: i for i, column in enumerate(columns)}
        draws = np.zeros((len(paths), len(columns)))
        for i, path in enumerate(paths):
            for p, k, n in path:
                draws[i, number[p, k]] += n
        each = tuple(sum((n * k * k * p for p, k, n in path), Fraction(0)) / 2 for path in paths)
        rho, costliest = costliest_of(each, moves)
        precisions, shifts = tuple(p for p, _ in columns), tuple(k for _, k in columns)
        numbers = np.arange(len(moves))
        return PathDraws(precisions, shifts, draws, each, np.array(moves), numbers, rho, costliest)

    def some(self, moves: NDArray[np.bool_]) -> PathDraws:
        return replace(self, moves=self.moves[moves], numbers=self.numbers[moves])

    @property
    def times(self) -> int:
        """The number of paths of a move."""
        return self.moves.shape[1]

    @cached_property
    def sigma_sq(self) -> Floats:
        """The variances, ``(precisions, 1)``; 1 for those that are ``small``, which
        :class:`TiltedGaussian` sums in another way."""
        return np.array(
            [1.0 if i in self.small else float(1 / p) for i, p in enumerate(self.precisions)]
        )[:, None]

    @cached_property
    def small(self) -> list[int]:
        """The draws with so little noise that their bound is 1."""
        return [i for i, p in enumerate(self.precisions) if 1 / p < SMALL]

    @cached_property
    def terms(self) -> range:
        """The k > 0 to sum over for all draws (:class:`TiltedGaussian`)."""
        wide = [p for i, p in enumerate(self.precisions) if i not in self.small]
        return range(1, TiltedGaussian(max(wide, default=Fraction(1)), 1, 0.0)._terms.stop)

    def angles(self, j: Ints, period: Fraction) -> Floats:
        return (
            2
            * pi
            * np.array(
                [
                    turns(j, k * p / period)
                    for p, k in zip(self.precisions, self.shifts, strict=True)
                ]
            ).reshape(-1, len(j))
        )

    def tilts(self, c: float) -> Floats:
        """``(precisions, 1)``, on the line at ``c``."""
        return c * np.array(self.shifts, dtype=float)[:, None]

    def dual(self, tilt: Floats | float) -> Floats:
        """The denominators of :class:`TiltedGaussian`; least at a tilt of 1/2."""
        out = np.ones_like(self.sigma_sq)
        for k in self.terms:
            turned = np.cos(2 * pi * k * np.mod(tilt, 1.0))
            out += 2 * np.exp(-2 * pi * pi * self.sigma_sq * k * k) * turned
        return out

    def _whole(self, t: Floats, tilt: Floats) -> Complex:
        """The sum over k of :meth:`TiltedGaussian.log_phi`, without terms below e^-45."""
        out = np.ones(t.shape, dtype=np.complex128)
        for k in (sign * k for k in self.terms for sign in (1, -1)):
            exponent = -2 * pi * self.sigma_sq * k * (t + pi * k)
            there = exponent > -45
            turned = np.broadcast_to(np.exp(2j * pi * k * np.mod(tilt, 1.0)), t.shape)
            out[there] += np.exp(exponent[there]) * turned[there]
        return out

    def log_bound(self, t: Floats) -> Floats:
        """Of every path ``(paths, nodes)``, from :meth:`TiltedGaussian.log_bound` of its draws, at
        any c."""
        whole = self._whole(t, self.tilts(0.0)).real + 1e-18
        one = np.minimum(0.0, -self.sigma_sq * t * t / 2 + np.log(whole) - np.log(self.dual(0.5)))
        one[self.small] = 0.0
        return np.asarray(self.draws @ one)

    def log_phi(self, t: Floats, c: float) -> tuple[Complex, Floats]:
        """ln of every path's characteristic function times its moment, and its error in units of
        2^-53."""
        s, tilt = self.sigma_sq, self.tilts(c)
        with np.errstate(divide="ignore"):
            one = np.asarray(
                -s * t * t / 2 - np.log(self.dual(0.0)) + 1j * tilt * t, dtype=np.complex128
            )
            whole = self._whole(t, tilt)
            rest = whole != 1
            one[rest] += np.log(whole[rest])
        off = 8 + 2 * s * t * t + 4 * tilt * np.abs(t) + (s * np.abs(t) + tilt) / 64
        for i in self.small:
            theta = TiltedGaussian(self.precisions[i], 1, c, self.shifts[i])
            one[i], off[i] = theta.log_phi(t[i]) + theta.log_moment, theta.roundings(t[i])
        one.real = np.maximum(one.real, -1e4)  # where it is 0
        return self.draws @ one, np.asarray(self.draws @ off)

    def bands(self, path: int, times: int, tau: float, period: Fraction) -> tuple[Band, ...]:
        r"""The bands of the widest draws, each with its reach. On :math:`|t| \le \pi` no :math:`|t
        + 2\pi k|` is less than :math:`|t|`. So :math:`W(t) \le 2.02\, e^{-\sigma^2 t^2/2}`, and the
        denominator is above 0.98."""
        out = []
        for i in [i for i in np.flatnonzero(self.draws[path]).tolist() if i not in self.small][
            :BANDS
        ]:
            reach = sqrt(2 * (tau / (times * self.draws[path, i]) + 0.73) / self.sigma_sq[i, 0])
            rate = self.precisions[i] * self.shifts[i] / period
            out.append(Band(float(rate), reach / (2 * pi)))
        return tuple(sorted(out, key=lambda band: band.rate))


@dataclass(frozen=True, eq=False)
class SharedQuadrature:
    """The nodes ``j`` of a period that serve some compositions, with the angles of each part's
    draws and a bound of the moduli. ``rho`` is that of the costliest composition; ``noise`` is the
    rho of the one more draw."""

    parts: list[PathDraws]
    period: Fraction
    tau: float
    rho: Fraction
    noise: float
    j: Ints
    angles: list[Floats]
    bound: Floats

    @staticmethod
    def for_paths(
        parts: list[PathDraws],
        period: Fraction,
        tau: float,
        rho: Fraction,
        smooth: Fraction,
        near: Sequence[Ints],
    ) -> SharedQuadrature:
        """Keeps those of the ``near`` nodes at which some composition matters."""
        j = np.unique(np.concatenate(near))
        angles = [part.angles(j, period) for part in parts]
        bound = np.zeros(len(j))
        for part, t in zip(parts, angles, strict=True):
            bound += part.log_bound(t)[part.moves].sum(axis=1).max(axis=0)
        kept = bound > -tau
        return SharedQuadrature(
            parts,
            period,
            tau,
            rho,
            float(rho * smooth),
            j[kept],
            [t[:, kept] for t in angles],
            np.exp(bound[kept]),
        )


def of_all(parts: list[PathDraws], period: Fraction, tau: float) -> list[SharedQuadrature]:
    """The nodes of the compositions with a fine path, and of the others. The part with the most rho
    decides which are fine."""
    rho = sum((part.rho for part in parts), Fraction(0))
    first = max(range(len(parts)), key=lambda u: parts[u].rho)
    part = parts[first]

    def sieved(path: int, times: int, smooth: Fraction, most: int) -> Ints | None:
        last = int(sqrt(tau / float(rho * smooth)) * float(period) / (2 * pi)) + 1
        return _near(part.bands(path, times, tau, period), last, most)

    def made(moves: NDArray[np.bool_], smooth: Fraction, near: Sequence[Ints]) -> SharedQuadrature:
        return SharedQuadrature.for_paths(
            [*parts[:first], part.some(moves), *parts[first + 1 :]], period, tau, rho, smooth, near
        )

    near = {path: sieved(path, 1, SMOOTH, FINE) for path in range(len(part.draws))}
    fine = np.any(np.array([j is not None for j in near.values()])[part.moves], axis=1)
    out = [made(fine, SMOOTH, [j for j in near.values() if j is not None])] if fine.any() else []
    if not fine.all():
        paths, smooth = np.unique(part.moves[~fine]).tolist(), SMOOTH
        found: list[Ints | None] = [None]
        while any(j is None for j in found):
            smooth *= MORE
            found = []
            for path in paths:
                found.append(sieved(path, part.times, smooth, ROUGH))
                if found[-1] is None:
                    break
        out.append(made(~fine, smooth, [j for j in found if j is not None]))
    return out


def _near(bands: tuple[Band, ...], last: int, most: int) -> Ints | None:
    """The nodes inside all bands; ``None`` if there are more than ``most``, or seem to be."""
    if work(bands, last) > 100 * most:
        return None
    found, seen = [np.arange(1)], 0
    for j, _ in nodes(bands, last):
        found.append(j)
        if (seen := seen + len(j)) > most:
            return None
    return np.concatenate(found)


class LineSums:
    """The values of compositions at the nodes that serve them, on a line."""

    def __init__(self, c: float, quadrature: SharedQuadrature) -> None:
        self.c, self.of = c, quadrature
        t, z = float(quadrature.period), c + 2j * pi * quadrature.j / float(quadrature.period)
        kernel = np.exp(quadrature.noise * (z * z + z - c**2 - c)) / (z * (z + 1))
        self.kernel = np.where(quadrature.j == 0, 1.0, 2.0) * kernel / t
        rows, off = [], np.full(len(quadrature.j), 64.0 + len(quadrature.j))
        for part, angles in zip(quadrature.parts, quadrature.angles, strict=True):
            values, wrong = self._values(part, angles)
            rows.append(values)
            off += wrong
        size = np.abs(self.kernel)
        self.error = 1.01 * exp(-quadrature.tau) * (1 / c**2 + t / (2 * c)) / t + UNIT * fsum(
            size * quadrature.bound * off
        )
        self._thin(rows, size)

    def _values(self, part: PathDraws, angles: Floats) -> tuple[Complex, Floats]:
        """The values of every move ``(moves, nodes)``, relative to the scale of the costliest, and
        their errors in units of rounding."""
        c = Fraction(self.c)
        log_phi, off = part.log_phi(angles, self.c)
        less = np.array(
            [float((each - part.rho / part.times) * (c * c + c)) for each in part.each]
        )[:, None]
        turn = np.array([turns(self.of.j, each / self.of.period) for each in part.each]).reshape(
            -1, len(self.of.j)
        )
        path = np.exp(log_phi + less + 2j * pi * turn)
        return reduce(np.multiply, (path[numbers] for numbers in part.moves.T)), part.times * (
            16 + off.max(axis=0) + 4 * np.abs(less).max()
        )

    def _thin(self, rows: list[Complex], size: Floats) -> None:
        """Keep the first of each set of rows alike."""
        first = [np.arange(len(values)) for values in rows]
        alike, self._thinned = ALIKE * fsum(size), prod(map(len, rows)) > MANY
        while self._thinned:
            first = [_distinct(values * size, alike) for values in rows]
            if prod(map(len, first)) <= COMBINATIONS:
                self.error += len(rows) * 2 * len(self.of.j) * alike
                break
            alike *= 10
        self._rows = [values[at] for values, at in zip(rows, first, strict=True)]
        self._numbers = [part.numbers[at] for part, at in zip(self.of.parts, first, strict=True)]

    def highest(self, eps: Fraction, but: Sequence[At]) -> tuple[float, At]:
        values = self._every(eps)
        for at in () if self._thinned else but:  # never leave out a row that stands for others
            if all(i in numbers for i, numbers in zip(at, self._numbers, strict=True)):
                values[
                    tuple(
                        int(np.flatnonzero(n == i)[0])
                        for i, n in zip(at, self._numbers, strict=True)
                    )
                ] = -inf
        top = float(values.max())
        near = np.unravel_index(int(np.argmax(values >= top - NEAR * abs(top))), values.shape)
        first = tuple(int(numbers[i]) for i, numbers in zip(near, self._numbers, strict=True))
        return self._log(eps, top + self.error), first

    def _every(self, eps: Fraction) -> Floats:
        """The sum for each combination of rows, without the scale."""
        shape = [len(rows) for rows in self._rows]
        turn = turns(self.of.j, -eps / self.of.period)
        head = self._rows[0] * (self.kernel * np.exp(2j * pi * turn))
        if len(shape) == 1:
            return np.asarray(head.real.sum(axis=1))
        for rows in self._rows[1:-1]:
            head = (head[:, None, :] * rows[None, :, :]).reshape(-1, head.shape[1])
        last = self._rows[-1]
        return np.asarray(head.real @ last.real.T - head.imag @ last.imag.T).reshape(shape)

    def _log(self, eps: Fraction, x: float) -> float:
        c = Fraction(self.c)
        scale = float(self.of.rho * (c * c + c) - c * eps) + self.of.noise * (self.c**2 + self.c)
        return min(0.0, scale + log(x) + UNIT * (16 + 4 * abs(scale))) if x > 0 else -inf


def _distinct(rows: Complex, alike: float) -> Ints:
    """The numbers of the first of each set of rows whose parts round to the same multiples of
    ``alike``."""
    grid = np.round(np.concatenate([rows.real, rows.imag], axis=1) / alike) + 0.0  # no -0
    first: dict[bytes, int] = {}
    for i, row in enumerate(grid):
        first.setdefault(row.tobytes(), i)
    return np.array(list(first.values()))


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
    differing: Differing, delta: Fraction, exactly: Callable[[Composition], Interval]
) -> WorstLoss:
    """The largest epsilon at ``delta`` over all combinations of one change of each part.
    ``exactly`` gives the interval of one composition."""
    if count(differing) <= FEW:
        return all_of(differing, exactly)
    bounds, goal = _Bounds(differing), log(delta.numerator) - log(delta.denominator)
    slack = 4 * UNIT * (1 + log(delta.numerator) + log(delta.denominator))
    most = no_more(bounds.rho, delta)
    start = zcdp.epsilon(float(bounds.rho), goal, bun_steinke(bounds.rho, delta))
    best = _Solved(differing, exactly)
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
    differing: Differing, eps: Fraction, exactly: Callable[[Composition], Interval]
) -> WorstLoss:
    """The natural logarithm of the largest delta at ``eps``. ``exactly`` gives the interval of one
    composition."""
    if count(differing) <= FEW:
        return all_of(differing, exactly)
    bounds, best = _Bounds(differing), _Solved(differing, exactly)
    best.solve(bounds.highest(eps)[1])
    for _ in range(SOLVED):
        high, at = bounds.highest(eps, best.done)
        if at in best.done or high <= best.high + RAISED:
            break
        best.solve(at)
    return WorstLoss(best.low, max(best.high, bounds.highest(eps, best.done)[0]), best.at)


def all_of(differing: Differing, exactly: Callable[[Composition], Interval]) -> WorstLoss:
    """The largest value, with every composition composed exactly."""
    best, known = _Solved(differing, exactly), {}
    for at, composition in composed(differing):
        if composition not in known:
            known[composition] = exactly(composition)
            best.take(at, known[composition])
    return WorstLoss(best.low, best.high, best.at)


class _Solved:
    """The compositions that were composed exactly, and the largest of them."""

    def __init__(self, differing: Differing, exactly: Callable[[Composition], Interval]) -> None:
        self._found, self._exactly = differing, exactly
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


def _composition(differing: Differing, at: At) -> Composition:
    parts = (part.composition(part.moves[i]) for part, i in zip(differing, at, strict=True))
    return sum(parts, Composition(()))


@dataclass(frozen=True)
class _SharedParts:
    """What all questions about the same changes share. Nodes are those of their key, a period and a
    tau, for any question."""

    draws: list[PathDraws]
    rho: Fraction
    costliest: Composition
    nodes: dict[tuple[Fraction, int], list[SharedQuadrature]]


@lru_cache(maxsize=16)
def _parts(differing: Differing) -> _SharedParts:
    draws = [PathDraws.from_moves(part) for part in differing]
    rho = sum((part.rho for part in draws), Fraction(0))
    return _SharedParts(
        draws, rho, _composition(differing, tuple(part.costliest for part in draws)), {}
    )


class _Bounds:
    """Upper bounds on delta for all compositions: for those with a fine path, and for the
    others. They serve one question."""

    def __init__(self, differing: Differing) -> None:
        self._parts = _parts(differing)
        self.rho = self._parts.rho
        self._lines: list[_Line] = []

    def highest(self, eps: Fraction, but: Sequence[At] = ()) -> tuple[float, At]:
        """The largest bound of ln delta(eps), and the first composition that has it, or nearly has
        it. Leaves out the compositions ``but``."""
        line = self._line(eps)
        return max((group.highest(eps, but) for group in line.groups), key=lambda found: found[0])

    def slope(self, eps: Fraction) -> float:
        """The approximate slope of ln delta, as a positive number."""
        return self._line(eps).at.c

    def _line(self, eps: Fraction) -> _Line:
        near = [line for line in self._lines if abs(float(eps - line.center)) <= line.at.width]
        if not near:
            near = [self._made(eps)]
            self._lines.append(near[0])
        return min(near, key=lambda line: abs(line.center - eps))

    def _made(self, eps: Fraction) -> _Line:
        """A new line, with the nodes of its period and its tau, both rounded up."""
        at, known = saddle(self._parts.costliest, float(eps)), self._parts.nodes
        least = period(float(self.rho), float(eps), at)
        tau = 39 + max(0.0, log(sqrt(2 * pi) * at.width * (at.c + 1)))
        key = Fraction(short(float(least), PERIOD_BITS)), TAUS * ceil(tau / TAUS)
        if key not in known:
            known[key] = of_all(self._parts.draws, *key)
        return _Line(eps, at, [LineSums(at.c, nodes) for nodes in known[key]])


@dataclass(frozen=True)
class _Line:
    """A line across the saddlepoint of an epsilon."""

    center: Fraction
    at: Saddle
    groups: list[LineSums]
