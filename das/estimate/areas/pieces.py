"""What areas have of the units of each level: only units that a border cuts are taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Of one level, arrays ``(pieces,)``: piece i is what area ``area[i]`` has of unit ``unit[i]``,
    all of it where ``whole[i]``. ``up[i]``: the piece of the level above that it is in. A whole
    piece is the last on its way down: what is below it is not listed. Those of the root have ``up``
    0, and mean nothing by it."""

    area: Ints
    unit: Ints
    whole: NDArray[np.bool_]
    up: Ints

    def __len__(self) -> int:
        return len(self.area)


def pieces(parents: Sequence[Ints], area: Ints, unit: Ints) -> list[Pieces]:
    """Of each level, root first, where lowest unit ``unit[i]`` is in area ``area[i]``, no pair
    twice. ``parents``: of each level, root first, the number of each unit's parent."""
    out: list[Pieces] = []
    whole = np.ones(len(unit), dtype=bool)
    for depth in range(len(parents) - 1, 0, -1):
        n = len(parents[depth - 1])
        children = np.bincount(parents[depth], minlength=n)
        pairs, at = np.unique(area * n + parents[depth][unit], return_inverse=True)
        inside = np.bincount(at, weights=whole, minlength=len(pairs)) == children[pairs % n]
        _keep(out, ~inside[at], area, unit, whole, at)
        area, unit, whole = pairs // n, pairs % n, inside
    _keep(
        out, np.ones(len(unit), dtype=bool), area, unit, whole, np.zeros(len(unit), dtype=np.int64)
    )
    return out[::-1]


def _keep(
    out: list[Pieces],
    keep: NDArray[np.bool_],
    area: Ints,
    unit: Ints,
    whole: NDArray[np.bool_],
    up: Ints,
) -> None:
    """Add a level; the one below it, if any, now knows the numbers of its pieces."""
    if out:
        low = out[-1]
        out[-1] = Pieces(low.area, low.unit, low.whole, (np.cumsum(keep) - 1)[low.up])
    out.append(Pieces(area[keep], unit[keep], whole[keep], up[keep].astype(np.int64)))
