"""What estimation answers for one family of siblings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import SolverError
from das.model.frozen import Frozen
from das.model.solution import Certificate


@dataclass(frozen=True, eq=False)
class Estimate(Frozen):
    """Non-negative real counts of the children of one parent, on the cells that can be positive.

    ``children`` are the units ``start : start + len(x)`` of their level; ``cell`` ``(m,)``
    increasing; ``x`` ``(children, m)``, finite, >= 0, with columns summing to the parent's counts
    (not at the root)."""

    start: int
    cell: NDArray[np.int64]
    parent: NDArray[np.int64] | None
    x: NDArray[np.float64]
    certificate: Certificate

    def __post_init__(self) -> None:
        if not np.isfinite(self.x).all() or (self.x < 0).any():
            raise SolverError(
                "an estimate is negative or not finite", where=f"children from number {self.start}"
            )
        if self.parent is not None and np.abs(self.x.sum(axis=0) - self.parent).max(
            initial=0.0
        ) > 1e-6 * (1 + self.parent.max(initial=0)):
            raise SolverError(
                "an estimate does not sum to its parent", where=f"children from number {self.start}"
            )
