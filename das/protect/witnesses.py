"""Witnesses that a hidden row can have another count: histograms with all that is shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from das.errors import SolverError
from das.model.frozen import Frozen
from das.protect.unit_lines import DistinctLines

#: How far a row may be from its count without a change.
_NOTHING = 1e-6


@dataclass(frozen=True, eq=False)
class Witnesses(Frozen):
    """``value``: the rows of each witness, ``(witnesses, rows)``; ``count``: the true ones."""

    value: NDArray[np.float64]
    count: NDArray[np.float64]

    @staticmethod
    def of(unit: DistinctLines) -> Witnesses:
        """The truth alone."""
        return Witnesses(unit.lower[None], unit.lower)

    @property
    def differs(self) -> NDArray[np.bool_]:
        """Whether each row is elsewhere than its count, ``(witnesses, rows)``."""
        return abs(self.value - self.count) > _NOTHING

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest value of each row."""
        return self.value.min(axis=0) - _NOTHING, self.value.max(axis=0) + _NOTHING

    def joined(self, more: Witnesses) -> Witnesses:
        return Witnesses(np.concatenate([self.value, more.value]), self.count)

    def without(self, row: int) -> Witnesses:
        """Those that have this row at its count."""
        return Witnesses(self.value[~self.differs[:, row]], self.count)

    def moved(
        self,
        unit: DistinctLines,
        hidden: NDArray[np.bool_],
        sign: int,
        rows: NDArray[np.int64],
        by: NDArray[np.float64],
    ) -> Witnesses:
        """One more, in which these rows together move as far as they can, each as far as ``by`` at
        most: up (``sign`` 1) or down (-1)."""
        cells, n = unit.rows.shape[1], len(rows)
        shown = unit.rows[~hidden]
        fixed = sparse.hstack(
            [sparse.csr_array(shown), sparse.csr_array((len(shown), n))], format="csr"
        )
        ahead = sparse.hstack(
            [sparse.csr_array(sign * unit.rows[rows]), -sparse.identity(n)], format="csr"
        )
        limits = [LinearConstraint(ahead, sign * self.count[rows], np.inf)]
        if len(shown):
            limits.append(LinearConstraint(fixed, self.count[~hidden], self.count[~hidden]))
        most = np.concatenate([np.full(cells, np.inf), by])
        objective = np.concatenate([np.zeros(cells), -1 / by])
        return Witnesses(_solved(objective, limits, most, unit), self.count)


def changed(
    unit: DistinctLines,
    hidden: NDArray[np.bool_],
    sign: int,
    row: int,
    by: float,
    cost: NDArray[np.float64],
) -> Witnesses:
    """The histogram in which a row moves so far at the least cost of changes in the shown rows."""
    shown = np.flatnonzero(~hidden)
    n, one = len(shown), sparse.identity(len(shown), format="csr")
    balance = sparse.hstack([sparse.csr_array(unit.rows[shown]), -one, one], format="csr")
    move = np.concatenate([sign * unit.rows[row], np.zeros(2 * n)])[None]
    limits = [LinearConstraint(move, sign * unit.lower[row] + by, np.inf)]
    if n:
        limits.append(LinearConstraint(balance, unit.lower[shown], unit.lower[shown]))
    objective = np.concatenate([np.zeros(unit.rows.shape[1]), cost[shown], cost[shown]])
    return Witnesses(_solved(objective, limits, np.inf, unit), unit.lower)


def _solved(
    objective: NDArray[np.float64],
    limits: list[LinearConstraint],
    most: NDArray[np.float64] | float,
    unit: DistinctLines,
) -> NDArray[np.float64]:
    """The rows of the best histogram, ``(1, rows)``."""
    found = milp(objective, constraints=limits, bounds=Bounds(0, most))
    if found.x is None:
        raise SolverError(f"a linear program ended with: {found.message}", where="suppression")
    out: NDArray[np.float64] = (unit.rows @ found.x[: unit.rows.shape[1]])[None]
    return out
