r"""What follows from the rows of a program without a solver.

*Differences.* Where an exact row counts every class of another, their difference is a row, too: of
a race, the records of Hispanic origin are all of that race less those who are not. A difference of
zero empties its classes. Repeated, the exact rows come apart into rows that are disjoint or cross.

*Bounds.* A class has at most what each of its rows leaves for it, and at least what the others
cannot hold:

.. math:: x_k \ge l_i - \sum_{j \ne k, j \in i} u_j .

*Closed form.* The rows of a part of the program can be the two margins of a full table. Such a part
has one solution if and only if one margin has a single positive entry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from das.risk.reconstruction.reduced import ReducedProgram

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Rows times classes up to which differences are taken: 32 MB.
_MOST_ENTRIES = 1 << 22
_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class Propagated:
    """``least`` and ``most`` ``(classes,)``: every solution lies between. ``several``: proved,
    if there is a solution, not to be the only one. ``feasible`` is false where none exists, proved.
    """

    least: Ints
    most: Ints
    several: bool = False
    feasible: bool = True

    @property
    def settled(self) -> bool:
        """Whether every class is known."""
        return bool((self.least == self.most).all())


def propagated(program: ReducedProgram) -> Propagated:
    """Bounds of every class of a program."""
    found = Propagated(np.zeros(program.classes, dtype=np.int64), program.most)
    exact = program.exact
    if program.matrix.shape[0] * program.classes <= _MOST_ENTRIES and exact.any():
        rows, y, ok = _differences(program.matrix[exact].toarray() > 0, program.lower[exact])
        if not ok:
            return Propagated(found.least, found.most, feasible=False)
        every = sparse.vstack([program.matrix[~exact], sparse.csr_array(rows.astype(np.int64))])
        lower = np.concatenate([program.lower[~exact], y])
        upper = np.concatenate([program.upper[~exact], y])
    else:
        every, lower, upper = program.matrix, program.lower, program.upper
    found = _bounded(sparse.csr_array(every), lower, upper, found)
    if found.feasible and not found.settled and exact.all() and every is not program.matrix:
        several = _several(rows, y, found)
        return Propagated(found.least, found.most, several)
    return found


def _differences(rows: Bools, y: Ints) -> tuple[Bools, Ints, bool]:
    """Equivalent rows, none inside another, and whether no count is negative. A row of zero is kept; it empties its classes, which leave the other rows."""
    while True:
        zero = y == 0
        dead = rows[zero].any(axis=0)
        live = rows & ~dead
        size = live.sum(axis=1)
        if (y[size == 0] != 0).any():
            return rows, y, False
        order = np.flatnonzero(size > 0)
        _, at = np.unique(np.packbits(live[order], axis=1), axis=0, return_index=True)
        first = order[at]
        small, of, n = live[first], y[first], size[first]
        overlap = small.astype(np.float32) @ small.T.astype(np.float32)
        inside = (overlap == n[None, :]) & (n[None, :] < n[:, None])  # [b, a]: a inside b
        if not inside.any():
            gone = np.zeros((1, rows.shape[1]), dtype=bool)
            gone[0] = dead
            return np.concatenate([small, gone]), np.append(of, 0), _agree(live, y, first)
        largest = np.where(inside, n[None, :], 0).argmax(axis=1)
        b = np.flatnonzero(inside.any(axis=1))
        small[b] &= ~small[largest[b]]
        of = of.copy()
        of[b] -= y[first][largest[b]]
        if (of < 0).any() or not _agree(live, y, first):
            return rows, y, False
        gone = dead[None, :]
        rows, y = np.concatenate([small, gone]), np.append(of, 0)


def _agree(live: Bools, y: Ints, first: Ints) -> bool:
    """Whether rows with the same classes have the same count."""
    known = {live[i].tobytes(): y[i] for i in first}
    return all(known.get(r.tobytes(), c) == c for r, c in zip(live, y, strict=True))


def _bounded(matrix: sparse.csr_array, lower: Ints, upper: Ints, found: Propagated) -> Propagated:
    """Bounds from bounds, until nothing changes."""
    row, column = matrix.nonzero()
    least, most = found.least.copy(), found.most.copy()
    for _ in range(_ROUNDS):
        room = upper - matrix @ least  # what each row can have besides what is certain
        need = lower - matrix @ most  # what it lacks when all are at their most
        if (room < 0).any() or (need > 0).any():
            return Propagated(least, most, feasible=False)
        up, low = most.copy(), least.copy()
        np.minimum.at(up, column, room[row] + least[column])
        np.maximum.at(low, column, need[row] + most[column])
        if np.array_equal(up, most) and np.array_equal(low, least):
            break
        if (low > up).any():
            return Propagated(least, most, feasible=False)
        least, most = low, up
    return Propagated(least, most)


def _several(rows: Bools, y: Ints, found: Propagated) -> bool:
    """Whether some part that is not settled is a full two-way table with both its margins, and
    each margin has two positive entries."""
    open_ = found.least < found.most
    rest = y - rows[:, found.least == found.most] @ found.least[found.least == found.most]
    rows = rows[:, open_]
    rows, rest = rows[rows.any(axis=1)], rest[rows.any(axis=1)]
    rows, at = np.unique(rows, axis=0, return_index=True)
    rest = rest[at]
    if not len(rows) or found.least[open_].any():
        return False
    touching = rows.astype(np.int64) @ rows.T
    number, part = connected_components(sparse.csr_array(touching), directed=False)
    return any(_two_way(rows[part == p], rest[part == p]) for p in range(number))


def _two_way(rows: Bools, y: Ints) -> bool:
    """Whether rows are the margins of a full table, and two entries of each are positive."""
    rows = rows[:, rows.any(axis=0)]
    crossing = (rows.astype(np.int64) @ rows.T) > 0
    np.fill_diagonal(crossing, False)
    one = ~crossing[0]  # those that do not cross the first, with it
    other = ~one
    if not other.any() or (rows.sum(axis=0) != 2).any():
        return False
    disjoint = not crossing[np.ix_(one, one)].any() and not crossing[np.ix_(other, other)].any()
    full = rows.shape[1] == one.sum() * other.sum()
    return bool(disjoint and full and min((y[one] > 0).sum(), (y[other] > 0).sum()) > 1)
