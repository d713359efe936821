r"""The integer program of a unit, solved by HiGHS through SciPy.

Where lines are perturbed, the likeliest records have the least sum of prices. A price is convex in
the distance :math:`d` between a row and its printed value, so steps :math:`0 \le s_j \le 1` whose
costs rise are enough, without integers:

.. math:: A_i x - \sum_j s_j + \sum_j t_j = y_i, \qquad
   \text{cost } \sum_j (p_j - p_{j-1})(s_j + t_j) .

The solver computes with floating-point numbers. What it finds is rounded, and then counts only if
it obeys every row exactly, in integers."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from das.tools.protection.attack.propagation import Propagated, ReducedProgram
from das.tools.protection.attack.result import AttackStatus
from das.tools.protection.published import UNBOUNDED

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

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
    (array([1., 3.]), array([2, 1]))
    """
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
