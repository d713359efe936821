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
from scipy.optimize import Bounds, LinearConstraint, milp

from das.protect.published import UNBOUNDED
from das.risk.reconstruction.propagation import Propagated
from das.risk.reconstruction.reduced import ReducedProgram
from das.risk.reconstruction.result import AttackStatus

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Statuses of ``scipy.optimize.milp``.
_OPTIMAL, _LIMIT, _INFEASIBLE = 0, 1, 2


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


def solved(
    program: ReducedProgram,
    known: Propagated,
    cost: Floats,
    prices: tuple[PriceSteps, ...],
    seconds: float,
    gap: float,
) -> ProgramAnswer:
    """The cheapest integers: ``cost`` ``(classes,)`` for each record, and ``prices``."""
    began = perf_counter()
    width = sum(len(p.cost) for p in prices)
    n = program.classes
    rows = [LinearConstraint(_wide(program.matrix, width), *_ends(program))]
    before = 0
    for p in prices:
        after = width - before - len(p.cost)
        tied = [program.matrix[p.row], _empty(p, before), p.matrix, _empty(p, after)]
        rows.append(LinearConstraint(sparse.hstack(tied, format="csr"), p.value, p.value))
        before += len(p.cost)
    most = np.where(known.most >= UNBOUNDED, np.inf, known.most)
    answer = milp(
        np.concatenate([cost, *(p.cost for p in prices)]),
        integrality=np.repeat([1, 0], [n, width]),
        bounds=Bounds(
            np.concatenate([known.least, np.zeros(width)]),
            np.concatenate([most, *(p.most for p in prices)]),
        ),
        constraints=rows,
        options={"time_limit": seconds, "mip_rel_gap": gap, "disp": False},
    )
    took = perf_counter() - began
    if answer.x is None:
        nothing = AttackStatus.INFEASIBLE if answer.status == _INFEASIBLE else AttackStatus.TIME_OUT
        return ProgramAnswer(nothing, None, took)
    x = np.rint(answer.x[:n]).astype(np.int64)
    if not program.obeyed(x):
        return ProgramAnswer(AttackStatus.REFUSED, None, took)
    return ProgramAnswer(
        AttackStatus.SOLVED if answer.status == _OPTIMAL else AttackStatus.GAP, x, took
    )


def _ends(program: ReducedProgram) -> tuple[Floats, Floats]:
    upper = np.where(program.upper >= UNBOUNDED, np.inf, program.upper)
    return program.lower.astype(float), upper


def _wide(matrix: sparse.csr_array, width: int) -> sparse.csr_array:
    rows = matrix.shape[0]
    return sparse.hstack([matrix, sparse.csr_array((rows, width))], format="csr")


def _empty(p: PriceSteps, width: int) -> sparse.csr_array:
    return sparse.csr_array((len(p.row), width))
