r"""How far the records of a unit can differ from a guess at them, all lines obeyed.

*Solution variability* of a guess :math:`x^0` with :math:`N` records, in percent:

.. math:: v = 100 \max_x |x - x^0|_1 / 2 N ,

over all records :math:`x` that obey the lines. Zero is a certificate: the guess is the only
solution, and so it is the truth if the lines are exact. From any other solution the answer is between
half of this and twice this, at most 100 where the number of records is known.

*The program.* With :math:`|x - x^0|_1 = \sum x + N - 2 \sum_k \min(x_k, a_k)`, minimise
:math:`\sum_k m_k - \sum_k x_k / 2` where a binary :math:`z_k` tells the two cases of a minimum
apart:

.. math:: x_k \le a_k - 1 + (u_k - a_k + 1) z_k, \quad m_k \ge a_k z_k, \quad m_k \ge x_k - u_k z_k .

A class can have several cells. The other solution can put all its records into the cell
with the fewest of the guess. So :math:`a_k` is the least count of a cell.

Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
Census: Full Technical Report (2025), sections 4.5 and 4.6; the program is ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from das.tools.protection.attack.propagation import Propagated, ReducedProgram
from das.tools.protection.published import UNBOUNDED

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_OPTIMAL = 0


@dataclass(frozen=True)
class Variability:
    """``percent``, the largest that was found; ``proved``: no other is larger. nan where the solver
    found nothing in its time."""

    percent: float
    proved: bool

    @property
    def unique(self) -> bool:
        """Whether the guess is proved to be the only solution."""
        return self.proved and self.percent == 0


def least_of_class(program: ReducedProgram, count: Ints) -> Ints:
    """The least count that a cell of each class has, ``(classes,)``. ``count`` is ``(cells,)``."""
    out = np.full(program.classes, UNBOUNDED, dtype=np.int64)
    np.minimum.at(out, program.of_class, count)
    return out


def variability(
    program: ReducedProgram, known: Propagated, count: Ints, seconds: float
) -> Variability:
    """The variability of a guess with ``count`` ``(cells,)`` records in the cells of a program."""
    a, persons = least_of_class(program, count), int(count.sum())
    x, proved = farthest(program, known, a, seconds)
    if x is None or not program.obeyed(x):
        return Variability(float("nan"), False)
    far = int(x.sum()) + persons - 2 * int(np.minimum(x, a).sum())
    return Variability(100 * far / (2 * persons) if persons else 100.0 * bool(far), proved)


def farthest(
    program: ReducedProgram, known: Propagated, a: Ints, seconds: float, among: Bools | None = None
) -> tuple[Ints | None, bool]:
    """A solution as far as possible from a guess with least counts ``a``, and whether that is
    proved. With ``among`` only these classes count for the distance."""
    n = program.classes
    inside = np.ones(n, dtype=bool) if among is None else among
    near = np.flatnonzero(inside & (a > 0) & (known.least < known.most))
    k = len(near)
    cap = np.minimum(known.most, max(int(program.upper.max(initial=0)), 1))[near].astype(float)
    pick, eye = sparse.csr_array((np.ones(k), (np.arange(k), near)), shape=(k, n)), sparse.eye(k)
    none = sparse.csr_array((k, k))
    at = a[near].astype(float)
    room = sparse.diags(cap - at + 1)
    most = np.where(known.most >= UNBOUNDED, np.inf, known.most)
    lower, upper = program.lower.astype(float), program.upper.astype(float)
    upper[program.upper >= UNBOUNDED] = np.inf
    answer = milp(
        np.concatenate([-0.5 * inside, np.zeros(k), np.ones(k)]),
        integrality=np.repeat([1, 1, 0], [n, k, k]),
        bounds=Bounds(
            np.concatenate([known.least, np.zeros(2 * k)]), np.concatenate([most, np.ones(k), at])
        ),
        constraints=[
            LinearConstraint(
                sparse.hstack([program.matrix, sparse.csr_array((len(lower), 2 * k))]), lower, upper
            ),
            LinearConstraint(sparse.hstack([pick, -room, none]), -np.inf, at - 1),
            LinearConstraint(
                sparse.hstack([sparse.csr_array((k, n)), -sparse.diags(at), eye]), 0, np.inf
            ),
            LinearConstraint(sparse.hstack([-pick, sparse.diags(cap), eye]), 0, np.inf),
        ],
        options={"time_limit": seconds, "mip_rel_gap": 0.0, "disp": False},
    )
    if answer.x is None:
        return None, False
    return np.rint(answer.x[:n]).astype(np.int64), bool(answer.status == _OPTIMAL)
