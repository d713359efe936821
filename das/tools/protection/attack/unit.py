"""The attack on one unit: its likeliest records, by what is published about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from das.tools.protection.attack.prior import costs, dealt
from das.tools.protection.attack.propagation import (
    Propagated,
    ReducedProgram,
    UnitLines,
    propagated,
    reduced,
    variability,
)
from das.tools.protection.attack.result import AttackLines, AttackOptions, AttackStatus
from das.tools.protection.published import UNBOUNDED

# The integer program of a unit, solved by HiGHS through SciPy.
#
# Where lines are perturbed, the likeliest records have the least sum of prices. A price is convex in
# the distance :math:`d` between a row and its printed value, so steps :math:`0 \le s_j \le 1` whose
# costs rise are enough, without integers:
#
# .. math:: A_i x - \sum_j s_j + \sum_j t_j = y_i, \qquad
#    \text{cost } \sum_j (p_j - p_{j-1})(s_j + t_j) .
#
# The solver computes with floating-point numbers. What it finds is rounded, and then counts only if
# it obeys every row exactly, in integers.


#: Statuses of ``scipy.optimize.milp``.
_OPTIMAL, _INFEASIBLE = 0, 2
_TINY = 1e-6


@dataclass(frozen=True, eq=False)
class ProgramAnswer:
    """``x`` ``(classes,)``, integers that obey every row, or ``None``."""

    status: AttackStatus
    x: Ints | None
    seconds: float


@dataclass(frozen=True, eq=False)
class PriceSteps:
    """The steps of prices as columns: ``matrix`` ``(rows, steps)`` of the constraints that tie them
    to the rows ``row`` with values ``value``; ``cost`` and ``most`` ``(steps,)``."""

    row: Ints
    value: Ints
    matrix: sparse.csr_array
    cost: Floats
    most: Floats


def steps(program: ReducedProgram, row: Ints, value: Ints, price: Floats) -> PriceSteps:
    """The steps for rows with printed values; equal steps are one column."""
    slope, width = _slopes(price)
    up = np.minimum(program.upper[row] - value, len(price) - 1)
    down = np.minimum(value - program.lower[row], len(price) - 1)
    begin = np.concatenate([[0], np.cumsum(width)[:-1]])
    most = [np.clip(far[:, None] - begin, 0, width) for far in (up, down)]
    at, step = zip(*(np.nonzero(m) for m in most), strict=True)
    tie = np.concatenate(at)
    sign = np.repeat([-1.0, 1.0], [len(a) for a in at])
    matrix = sparse.csr_array((sign, (tie, np.arange(len(tie)))), shape=(len(row), len(tie)))
    room = np.concatenate([m[a, s] for m, a, s in zip(most, at, step, strict=True)])
    return PriceSteps(row, value, matrix, slope[np.concatenate(step)], room.astype(float))


def _slopes(price: Floats) -> tuple[Floats, Ints]:
    """The steps of a price, and how many equal ones follow each other.

    >>> _slopes(np.array([0.0, 1, 2, 5]))
    (array([1., 3.]), array([2, 1]))"""
    rise = np.diff(price)
    new = np.flatnonzero(np.diff(rise, prepend=-1.0) > 1e-12)
    return rise[new], np.diff(np.append(new, len(rise)))


@dataclass(frozen=True, eq=False)
class _Columns:
    """A program in columns, classes first and then steps, as the solver takes it."""

    cost: Floats
    least: Floats
    most: Floats
    matrix: sparse.csc_array
    lower: Floats
    upper: Floats
    classes: int

    def solve(self, keep: Bools, whole: bool, seconds: float, gap: float) -> OptimizeResult:
        """The cheapest with the columns to ``keep``, the others at zero; in integers if whole."""
        integral = np.zeros(len(self.cost))
        integral[: self.classes] = whole
        return milp(
            self.cost[keep],
            integrality=integral[keep],
            bounds=Bounds(self.least[keep], self.most[keep]),
            constraints=LinearConstraint(self.matrix[:, keep], self.lower, self.upper),
            options={"time_limit": seconds, "mip_rel_gap": gap, "disp": False},
        )

    def cells(self, answer: OptimizeResult, keep: Bools) -> Floats:
        """The classes in an answer, ``(classes,)``."""
        out = np.zeros(len(self.cost))
        out[keep] = answer.x
        return out[: self.classes]


def _columns(
    program: ReducedProgram, known: Propagated, cost: Floats, prices: tuple[PriceSteps, ...]
) -> _Columns:
    width = sum(len(p.cost) for p in prices)
    parts = [_wide(program.matrix, width)]
    before = 0
    for p in prices:
        after = width - before - len(p.cost)
        row_blocks = [program.matrix[p.row], _empty(p, before), p.matrix, _empty(p, after)]
        parts.append(sparse.hstack(row_blocks, format="csr"))
        before += len(p.cost)
    values = [p.value.astype(float) for p in prices]
    upper = np.where(program.upper >= UNBOUNDED, np.inf, program.upper)
    return _Columns(
        np.concatenate([cost, *(p.cost for p in prices)]),
        np.concatenate([known.least, np.zeros(width)]),
        np.concatenate(
            [np.where(known.most >= UNBOUNDED, np.inf, known.most), *(p.most for p in prices)]
        ),
        sparse.csc_array(sparse.vstack(parts)),
        np.concatenate([program.lower.astype(float), *values]),
        np.concatenate([upper, *values]),
        program.classes,
    )


def solved(
    program: ReducedProgram,
    known: Propagated,
    cost: Floats,
    prices: tuple[PriceSteps, ...],
    seconds: float,
    gap: float,
) -> ProgramAnswer:
    """The cheapest integers: ``cost`` ``(classes,)`` for each record, and ``prices``.

    First without integers, which mostly gives integers all the same. If not, in integers with the
    classes that are positive there: with the same cost these are the answer, and otherwise what is
    left if the whole program takes too long."""
    began = perf_counter()
    columns = _columns(program, known, cost, prices)
    every = np.ones(len(columns.cost), dtype=bool)
    relaxed = columns.solve(every, False, seconds, gap)
    if relaxed.x is None:
        nothing = relaxed.status == _INFEASIBLE
        status = AttackStatus.INFEASIBLE if nothing else AttackStatus.TIME_OUT
        return ProgramAnswer(status, None, perf_counter() - began)
    point = columns.cells(relaxed, every)
    x = np.rint(point).astype(np.int64)
    if np.abs(point - x).max(initial=0) < _TINY and program.obeyed(x):
        return ProgramAnswer(AttackStatus.SOLVED, x, perf_counter() - began)
    keep = every.copy()
    keep[: program.classes] = (point > _TINY) | (known.least > 0)
    few = _in_integers(program, columns, keep, seconds, gap)
    if few.x is not None and few.cost <= relaxed.fun + gap * abs(relaxed.fun) + _TINY:
        return ProgramAnswer(AttackStatus.SOLVED, few.x, perf_counter() - began)
    whole = _in_integers(program, columns, every, seconds, gap)
    if few.x is not None and (whole.x is None or few.cost < whole.cost):
        whole = _IntegerAnswer(AttackStatus.GAP, few.x, few.cost)
    return ProgramAnswer(whole.status, whole.x, perf_counter() - began)


@dataclass(frozen=True, eq=False)
class _IntegerAnswer:
    status: AttackStatus
    x: Ints | None
    cost: float


def _in_integers(
    program: ReducedProgram, columns: _Columns, keep: Bools, seconds: float, gap: float
) -> _IntegerAnswer:
    """What the solver finds in integers, if it obeys every row."""
    answer = columns.solve(keep, True, seconds, gap)
    if answer.x is None:
        nothing = answer.status == _INFEASIBLE
        status = AttackStatus.INFEASIBLE if nothing else AttackStatus.TIME_OUT
        return _IntegerAnswer(status, None, np.inf)
    x = np.rint(columns.cells(answer, keep)).astype(np.int64)
    if not program.obeyed(x):
        return _IntegerAnswer(AttackStatus.REFUSED, None, np.inf)
    status = AttackStatus.SOLVED if answer.status == _OPTIMAL else AttackStatus.GAP
    return _IntegerAnswer(status, x, float(answer.fun))


def _wide(matrix: sparse.csr_array, width: int) -> sparse.csr_array:
    rows = matrix.shape[0]
    return sparse.hstack([matrix, sparse.csr_array((rows, width))], format="csr")


def _empty(p: PriceSteps, width: int) -> sparse.csr_array:
    return sparse.csr_array((len(p.row), width))


Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: How many of the likeliest cells an attack on perturbed lines adds to its candidates, where the
#: candidates alone have no solution.
_MORE_CELLS = (500, 4000)
#: The largest program whose variability is measured.
_MOST_CLASSES = 5000


@dataclass(frozen=True, eq=False)
class UnitGuess:
    """Records of a unit: ``count`` of ``cell``, both ``(k,)``. ``several``: proved that other
    records have the same lines, too. ``among``: only some cells were tried. ``program`` and what is
    ``known`` of its classes: where there is a guess."""

    status: AttackStatus
    cell: Ints
    count: Ints
    seconds: float
    several: bool = False
    variability: float = float("nan")
    among: bool = False
    program: ReducedProgram | None = None
    known: Propagated | None = None


_NOTHING = np.zeros(0, dtype=np.int64)


def only_total(lines: AttackLines, said: UnitLines) -> bool:
    """Whether nothing is known about a unit except, at most, its number of records."""
    rows = np.flatnonzero(said.informative)
    return not len(rows) or (len(rows) == 1 and rows[0] == lines.total and said.upper[rows[0]] > 0)


def guess_unit(
    lines: AttackLines, said: UnitLines, share: Floats, options: AttackOptions
) -> UnitGuess:
    """The cheapest records. ``share`` ``(cells,)``: the prior."""
    if lines.total >= 0 and said.upper[lines.total] == 0:
        return UnitGuess(AttackStatus.UNIQUE, _NOTHING, _NOTHING, 0.0, variability=0.0)
    began, found = perf_counter(), UnitGuess(AttackStatus.INFEASIBLE, _NOTHING, _NOTHING, 0.0)
    for among in _candidates(lines, said, share, options):
        if (program := reduced(lines, said, among)) is None:
            continue
        known = propagated(program)
        if known.feasible:
            found = _solved(lines, said, program, known, share, options, among is None)
        if found.status.guessed or found.status == AttackStatus.TIME_OUT:
            break
    if options.variability and not said.priced:
        found = _certified(lines, said, found, options)
    return replace(found, seconds=perf_counter() - began)


def _certified(
    lines: AttackLines, said: UnitLines, guess: UnitGuess, options: AttackOptions
) -> UnitGuess:
    """The guess with its variability; unique where that is zero."""
    if guess.program is None or guess.status not in (AttackStatus.SOLVED, AttackStatus.GAP):
        return guess
    program: ReducedProgram | None = guess.program
    known = guess.known
    if guess.among:
        program = reduced(lines, said)
        known = None if program is None else propagated(program)
    if program is None or known is None or program.classes > _MOST_CLASSES:
        return guess
    count = np.zeros(lines.cells, dtype=np.int64)
    count[guess.cell] = guess.count
    v = variability(program, known, count[program.cells], options.seconds)
    status = AttackStatus.UNIQUE if v.unique else guess.status
    return replace(guess, variability=v.percent, status=status)


def _solved(
    lines: AttackLines,
    said: UnitLines,
    program: ReducedProgram,
    known: Propagated,
    share: Floats,
    options: AttackOptions,
    every: bool,
) -> UnitGuess:
    part = share[program.cells]
    alone = np.bincount(program.of_class, minlength=program.classes) == 1
    if known.settled and program.obeyed(known.least):
        certain = every and bool((alone | (known.least == 0)).all())
        answer = ProgramAnswer(
            AttackStatus.UNIQUE if certain else AttackStatus.SOLVED, known.least, 0.0
        )
    else:
        prices = _prices(lines, said, program)
        weight = options.prior_weight if prices else 1.0
        cost = weight * costs(lines, program, share)
        answer = solved(program, known, cost, prices, options.seconds, options.gap)
    if answer.x is None:
        return UnitGuess(answer.status, _NOTHING, _NOTHING, answer.seconds)
    count = dealt(answer.x, program.of_class, part)
    several = known.several or bool((known.least[~alone] > 0).any())
    some = count > 0
    return UnitGuess(
        answer.status,
        program.cells[some],
        count[some],
        0.0,
        several,
        0.0 if answer.status == AttackStatus.UNIQUE else float("nan"),
        not every,
        program,
        known,
    )


def _prices(lines: AttackLines, said: UnitLines, program: ReducedProgram) -> tuple[PriceSteps, ...]:
    """The prices of perturbed lines. Without any, an uncertain total costs what it is off the
    printed one: nothing else keeps records that each cost something from being left out."""
    if said.priced:
        price = np.asarray(said.price)
        return (steps(program, program.priced_row, program.priced_value, price),)
    total = lines.total
    if total < 0 or said.lower[total] == said.upper[total] or said.value[total] < 0:
        return ()
    if program.total_row < 0:
        return ()
    far = max(said.upper[total] - said.value[total], said.value[total] - said.lower[total])
    price = 1e3 * np.arange(int(min(far, 1000)) + 1.0)
    row, value = np.array([program.total_row]), np.array([said.value[total]])
    return (steps(program, row, value, price),)


def _candidates(
    lines: AttackLines, said: UnitLines, share: Floats, options: AttackOptions
) -> Iterator[Bools | None]:
    """The cells to try, fewest first; at last all, ``None``."""
    bounds = (said.upper > 0) & (said.lower < said.upper) & (said.value == 0)
    if bounds.any():
        zero = (said.upper == 0).astype(np.int64)
        alive = lines.possible & (lines.by_cell @ zero == 0)
        shown = _shown(lines, said)
        if alive.sum() > options.few:
            yield shown
            likeliest = np.argsort(-np.where(alive, share, -1.0), kind="stable")
            for more in _MORE_CELLS:
                if alive.sum() > more:
                    among = shown.copy()
                    among[likeliest[:more]] = True
                    yield among
    yield None


def _shown(lines: AttackLines, said: UnitLines) -> Bools:
    """Cells that some line of each family of tables shows."""
    out = np.ones(lines.cells, dtype=bool)
    for f in range(int(lines.family.max(initial=-1)) + 1):
        of = (lines.family == f) & (said.value >= 0)
        if of.any():
            out &= lines.by_cell @ (of & (said.value > 0)).astype(np.int64) > 0
    return out
