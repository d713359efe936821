"""Lower and upper bounds of many units in little room: each distinct row once, and for each unit
which it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen

Ints = NDArray[np.int64]
Keep = slice | NDArray[np.bool_] | NDArray[np.intp]

#: More than everybody; small enough that its sum over ten million blocks and all groups fits 64
#: bits.
NO_LIMIT = 1 << 34
#: Values held at once where a level is walked in pieces: 32 MB.
_MOST_VALUES = 1 << 22
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False, repr=False)
class Limits(Frozen):
    """Bounds ``(units, groups)`` of all units of a level, packed: unit ``u`` has ``lower[row[u]]``
    and ``upper[row[u]]``.

    ``lower``, ``upper``: ``(distinct rows, groups)``; ``row``: ``(units,)`` int32. Bounds of blocks
    repeat, because a block has some number of housing units and hardly ever a facility. Eight
    million blocks have some tens of thousands of distinct rows. They take 32 MB, plus 2 MB of rows
    for eight groups (6 MB for thirty). Two arrays ``(units, groups)`` would take 1 GB (4 GB)."""

    lower: Ints
    upper: Ints
    row: NDArray[np.int32]

    def __post_init__(self) -> None:
        if self.lower.shape != self.upper.shape:
            raise InputError("bounds of different shapes", where="bounds")
        if len(self.row) and not 0 <= self.row.min() <= self.row.max() < len(self.lower):
            raise InputError("a unit has bounds that are not there", where="bounds")

    @staticmethod
    def of(lower: Ints, upper: Ints) -> Limits:
        """From ``(units, groups)`` both. The rows are in the order in which units first have them,
        so that equal bounds are equal values."""
        if lower.shape != upper.shape:
            raise InputError("bounds of different shapes", where="bounds")
        rows, row = packed(lower, upper)
        low, high = np.hsplit(rows, 2)
        return Limits(np.ascontiguousarray(low), np.ascontiguousarray(high), row)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def groups(self) -> int:
        return self.lower.shape[1]

    def some(self, keep: Keep) -> tuple[Ints, Ints]:
        """Lower and upper bounds of some units, ``(units, groups)``."""
        row = self.row[keep]
        return self.lower[row], self.upper[row]

    def part(self, start: int, stop: int) -> Limits:
        """The limits of the units ``start:stop``, still packed."""
        used, row = packed(self.row[start:stop, None])
        return Limits(self.lower[used[:, 0]], self.upper[used[:, 0]], row)

    def add_up(self, home: NDArray[np.integer[Any]], homes: int) -> Limits:
        """Sums over the units of each home. ``home`` ``(units,)`` gives each unit's home, and each
        of the ``homes`` must have a unit.
        """

        def summed(bound: Ints) -> Ints:
            return add_up(lambda keep: bound[self.row[keep]], self.groups, home, homes)

        return Limits.of(summed(self.lower), summed(self.upper))


def packed(*columns: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The distinct rows of arrays ``(units, columns)`` side by side, as units first have them, and
    each unit's number.
    """
    found, row = [], np.empty(len(columns[0]), dtype=np.int32)
    number = 0
    for here in pieces(len(row), sum(c.shape[1] for c in columns)):
        rows, at = _distinct(np.hstack([c[here] for c in columns]))
        row[here] = at + number
        number += len(rows)
        found.append(rows)
    rows, at = _distinct(np.concatenate(found))
    for here in pieces(len(row), 1):
        row[here] = at[row[here]]
    return rows, row


def pieces(units: int, width: int) -> Iterator[slice]:
    """Small slices of ``units`` rows of ``width`` values, in order; one if there is no unit."""
    size = max(1, _MOST_VALUES // max(1, width))
    for start in range(0, max(1, units), size):
        yield slice(start, min(start + size, units))


def add_up(
    rows: Callable[[Keep], Ints], width: int, home: NDArray[np.integer[Any]], homes: int
) -> Ints:
    """Sums ``(homes, width)`` of what ``rows`` gives of some units, ``(units, width)``, asked for
    piece by piece.
    """
    order = None if (np.diff(home) >= 0).all() else np.argsort(home, kind="stable")
    out = np.zeros((homes, width), dtype=np.int64)
    for here in pieces(len(home), width):
        keep: Keep = here if order is None else order[here]
        at = home[keep]
        first = np.flatnonzero(np.diff(at, prepend=-1))
        out[at[first]] += np.add.reduceat(rows(keep), first, axis=0)
    return out


def _distinct(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """By a key of each row, which sorts faster than rows do; should two rows have the same key, by
    the rows themselves.
    """
    factors = np.cumprod(np.full(rows.shape[1], _ODD))
    _, first, number = np.unique(
        rows.astype(np.uint64) @ factors, return_index=True, return_inverse=True
    )
    if not np.array_equal(rows[first][number], rows):
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))
    return rows[np.sort(first)], place[number.ravel()]
