r"""Constraints on the published counts.

All constraints that the pipeline enforces bound sums over the groups of one partition of the cells, the
*dwelling* groups (household and each type of group quarters), child by child:

.. math:: l_{ug} \le \sum_{k \in g} x_{uk} \le h_{ug}, \qquad \sum_k x_{uk} = t_u \text{ at the levels with known totals.}

Facility counts give ``lower`` (each facility holds somebody; a housing unit may be empty) and ``upper``
(nobody lives where there is no building); known totals are the invariants of the publication.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from das.errors import InfeasibleError, InputError


class Kind(Enum):
    STRUCTURAL = "structural"  #: public knowledge
    INVARIANT = "invariant"  #: true values published exactly: outside the guarantee


@dataclass(frozen=True)
class Constraint:
    """One constraint as the privacy statement and the noisy measurement files list it.

    ``bound`` has shape ``(units of level, answers of query)``; ``sign`` is ``=``, ``<=`` or ``>=``.
    """

    name: str
    level: str
    query: str
    sign: str
    kind: Kind
    bound: NDArray[np.int64]
    says: str = ""  #: what it tells a reader of the release, in words

    def __post_init__(self) -> None:
        if self.sign not in ("=", "<=", ">="):
            raise InputError(f"unknown sign {self.sign!r}", where=f"constraint {self.name!r}")
        if self.bound.ndim != 2:
            raise InputError("bounds must be (units, answers)", where=f"constraint {self.name!r}")


@dataclass(frozen=True)
class Bounds:
    """All constraints of one level, resolved to arrays.

    ``group``: the dwelling group of each cell, ``(cells,)``. ``lower``, ``upper``: ``(units, groups)``.
    ``total``: ``(units,)`` where the level's totals are known, else ``None``. ``possible``: ``(cells,)``,
    False at structural zeros. ``reach``: at levels above that of the known totals, where it matters,
    ``(units, 2^groups)``: the most that all descendants with known totals can hold of each *subset* of
    groups (bit ``g`` of the column number says that group ``g`` is in it). A unit's histogram can be shared
    out among these descendants if and only if no subset exceeds its reach (max-flow min-cut).
    """

    group: NDArray[np.intp]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    total: NDArray[np.int64] | None
    possible: NDArray[np.bool_]
    reach: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.lower.shape != self.upper.shape or self.group.shape != self.possible.shape:
            raise InputError("bounds of different shapes", where="bounds")
        bad = (self.lower > self.upper).any(axis=1)
        if self.total is not None:
            bad |= (self.lower.sum(axis=1) > self.total) | (self.upper.sum(axis=1) < self.total)
        if bad.any():
            unit = int(np.flatnonzero(bad)[0])
            raise InfeasibleError(
                f"no histogram meets the constraints of unit number {unit} ({int(bad.sum())} such units)",
                where="constraints",
                remedy="compare its total with its facilities and housing units",
            )

    @property
    def groups(self) -> int:
        return self.lower.shape[1]

    def rows(self, start: int, stop: int) -> Bounds:
        total = None if self.total is None else self.total[start:stop]
        reach = None if self.reach is None else self.reach[start:stop]
        return Bounds(self.group, self.lower[start:stop], self.upper[start:stop], total, self.possible, reach)
