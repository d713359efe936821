"""Units cut into runs, which are the units of a level above them, and the order that these stand
in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def changes(column: NDArray[np.generic]) -> Flags:
    """Where a value differs from the one before it, ``(n,)``; the first does not."""
    out = np.zeros(len(column), dtype=bool)
    out[1:] = column[1:] != column[:-1]
    return out


def parents(above: Ints, here: Ints) -> Ints:
    """For each of the units that begin ``here`` the one of those that begin ``above`` that it is
    in.
    """
    return np.searchsorted(above, here, side="right") - 1


def spread(starts: Ints, number: int) -> Ints:
    """For each of that many lowest units the one that it is in, of those that begin at
    ``starts``.
    """
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=number))


def begin(first: Flags, home: Ints, fanout: int | None, *, even: bool = False) -> Flags:
    r"""Where runs of units begin, ``(units,)``.

    ``first`` marks where units of another kind begin; ``home`` is the parent of each. In a parent
    of n units, those of a kind are cut into runs of :math:`s = \lfloor\sqrt n\rfloor + f + 1`, the
    remainder last. Without a fan-out f they are not cut.

    ``even``: if c units of a kind would leave a remainder of two or more, they are cut into
    :math:`\lceil c/s\rceil` runs. Their lengths differ by at most one, the shorter first."""
    if fanout is None:
        return first
    at, kind = np.arange(len(first)), np.cumsum(first) - 1
    place = at - np.flatnonzero(first)[kind]
    size = (np.sqrt(np.bincount(home)).astype(np.int64) + fanout + 1)[home]
    if not even:
        return first | (place % size == 0)
    count = np.bincount(kind)[kind]
    number = np.where((count <= size) | (count % size <= 1), 0, -(-count // size))
    short = count // np.maximum(number, 1)
    of_short = short * (
        number - count % np.maximum(number, 1)
    )  # units that are in the shorter runs
    in_even = np.where(place < of_short, place % short == 0, (place - of_short) % (short + 1) == 0)
    return first | np.where(number == 0, place % size == 0, in_even)


def behind(starts: Sequence[Ints], depths: Sequence[int]) -> tuple[list[Ints], Ints]:
    """``starts[d]`` is where units at depth d begin among the lowest, which are the last of them.
    At each of the ``depths`` units with one child move behind their siblings, and keep their order
    among themselves. Returns where units begin then, and the lowest units in their new order."""
    at = starts[-1]
    keys = [spread(starts[depths[0] - 1], len(at))]
    for depth in depths:
        unit = spread(starts[depth], len(at))
        only = np.bincount(parents(starts[depth], starts[depth + 1])) == 1
        keys += [only[unit], unit]
    order = np.lexsort((at, *reversed(keys)))
    moved = [
        np.flatnonzero((at == 0) | changes(spread(s, len(at))[order]))
        for s in starts[depths[0] : -1]
    ]
    return [*starts[: depths[0]], *moved, at], order


def tree(starts: Sequence[Ints]) -> tuple[Ints, ...]:
    """The parent of each unit of each level, from where units begin among the lowest."""
    return (
        np.zeros(1, dtype=np.int64),
        *(parents(above, here) for above, here in pairwise(starts)),
    )
