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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse.csgraph import connected_components

from das.tools.protection.attack.result import AttackLines
from das.tools.protection.published import UNBOUNDED

# The program of a unit, pruned before any solver sees it.
#
# A line whose upper bound is zero empties its cells. Cells that the same lines count are
# interchangeable, and become one class. A unit that shows only its number of persons has a single
# class, not 9,576 cells. Lines that count the same classes become one row with the tightest
# bounds. What is left: integers :math:`x \ge 0`, one for each class, with
# :math:`l \le A x \le u`.

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class UnitLines:
    """What is published about one unit: the arrays of ``LevelLines``, ``(lines,)``, and prices."""

    lower: Ints
    upper: Ints
    value: Ints
    price: tuple[float, ...]

    @property
    def priced(self) -> bool:
        """Whether some truths are likelier than others."""
        return len(self.price) > 1 and self.price[-1] > 0

    @property
    def informative(self) -> Bools:
        """Lines that say something."""
        return (self.lower > 0) | (self.upper < UNBOUNDED)


@dataclass(frozen=True, eq=False)
class ReducedProgram:
    """``cells``: those that can have records, and ``of_class`` the class of each; ``matrix``
    ``(rows, classes)`` ones; ``lower`` and ``upper`` ``(rows,)``; ``most`` ``(classes,)`` the
    largest count of each. ``priced_row`` and ``priced_value``: for each price to pay, its row and
    the printed value. The same persons printed alike in two lines pay once: that was one draw."""

    cells: Ints
    of_class: Ints
    matrix: sparse.csr_array
    lower: Ints
    upper: Ints
    most: Ints
    priced_row: Ints
    priced_value: Ints
    total_row: int

    @property
    def classes(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def exact(self) -> Bools:
        """Rows that are known exactly."""
        return self.lower == self.upper

    def obeyed(self, x: Ints) -> bool:
        """Whether integers obey every row, exactly."""
        y = self.matrix @ x
        return bool((x >= 0).all() and (y >= self.lower).all() and (y <= self.upper).all())

    @property
    def first(self) -> Ints:
        """A cell of each class, ``(classes,)``."""
        return self.cells[np.unique(self.of_class, return_index=True)[1]]

    def with_rows(self, matrix: sparse.csr_array, lower: Ints, upper: Ints) -> ReducedProgram:
        """The program with more rows, except those that say nothing."""
        most = matrix @ self.most
        says = (lower > 0) | (upper < most)
        matrix, lower, upper = matrix[says], lower[says], upper[says]
        return replace(
            self,
            matrix=sparse.csr_array(sparse.vstack([self.matrix, matrix])),
            lower=np.concatenate([self.lower, lower]),
            upper=np.concatenate([self.upper, upper]),
            most=np.minimum(self.most, largest(matrix, upper)),
        )


def largest(matrix: sparse.csr_array, upper: Ints) -> Ints:
    """The least upper bound of a row with each class, ``(classes,)``."""
    out = np.full(matrix.shape[1], UNBOUNDED, dtype=np.int64)
    row, column = matrix.nonzero()
    np.minimum.at(out, column, upper[row])
    return out


def reduced(
    lines: AttackLines, said: UnitLines, among: Bools | None = None, apart: Ints | None = None
) -> ReducedProgram | None:
    """The program of a unit, of the cells ``among`` which its records are; ``None`` where a line
    with records has no cell for them. Cells with different numbers in ``apart`` ``(cells,)`` are
    not in one class."""
    zero = (said.upper == 0).astype(np.int64)
    alive = lines.possible & (lines.by_cell @ zero == 0)
    if among is not None:
        alive &= among
    cells = np.flatnonzero(alive)
    rows = np.flatnonzero(said.informative & (said.upper > 0))
    by_cell = lines.by_cell[cells]
    code = np.zeros(len(lines), dtype=np.int64)
    code[rows] = lines.line_code[rows]
    fingerprint = by_cell @ code + (0 if apart is None else apart[cells])
    _, first, of_class = np.unique(fingerprint, return_index=True, return_inverse=True)
    matrix = sparse.csr_array(by_cell[first].T)[rows]
    return _merged(lines, said, cells, of_class, first, matrix, rows)


def _merged(
    lines: AttackLines,
    said: UnitLines,
    cells: Ints,
    of_class: Ints,
    first: Ints,
    matrix: sparse.csr_array,
    rows: Ints,
) -> ReducedProgram | None:
    """Rows that count the same classes become one."""
    print_of, at, row = np.unique(
        matrix @ lines.cell_code[cells[first]], return_index=True, return_inverse=True
    )
    lower = np.zeros(len(print_of), dtype=np.int64)
    upper = np.full(len(print_of), UNBOUNDED, dtype=np.int64)
    np.maximum.at(lower, row, said.lower[rows])
    np.minimum.at(upper, row, said.upper[rows])
    empty = print_of == 0
    if (lower > upper).any() or (lower[empty] > 0).any():
        return None
    matrix, keep = matrix[at[~empty]], np.cumsum(~empty) - 1
    priced = (said.value[rows] >= 0) & ~empty[row] if said.priced else np.zeros(len(rows), bool)
    terms = np.unique(np.stack([keep[row[priced]], said.value[rows[priced]]]), axis=1)
    total = np.flatnonzero(rows == lines.total)
    here = keep[row[total]] if len(total) and not empty[row[total[0]]] else [-1]
    return ReducedProgram(
        cells,
        of_class,
        matrix,
        lower[~empty],
        upper[~empty],
        largest(matrix, upper[~empty]),
        terms[0],
        terms[1],
        int(here[0]),
    )


#: The most exact rows and classes whose differences are taken. A solver is faster above.
_MOST_ROWS, _MOST_CLASSES = 800, 10_000
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
    if 0 < exact.sum() <= _MOST_ROWS and program.classes <= _MOST_CLASSES:
        found_rows = _differences(program.matrix[exact].toarray() > 0, program.lower[exact])
        if found_rows is None:
            return Propagated(found.least, found.most, feasible=False)
        rows, y = found_rows
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


def _differences(rows: Bools, y: Ints) -> tuple[Bools, Ints] | None:
    """Equivalent rows, none inside another; ``None`` where a count is negative. The last is a row
    of zero with all classes that are empty, which have left the other rows."""
    masks, counts = _bits(rows), y.tolist()
    empty, changed = 0, True
    while changed:
        changed = False
        for mask, count in zip(masks, counts, strict=True):
            empty |= 0 if count else mask
        live: dict[int, int] = {}
        for mask, count in zip(masks, counts, strict=True):
            if live.setdefault(mask & ~empty, count) != count:
                return None
        if live.pop(0, 0):
            return None
        masks, counts = [], []
        for row in sorted(live, key=int.bit_count):
            rest, count = row, live[row]
            for inside, n in zip(reversed(masks), reversed(counts), strict=True):
                if inside & rest == inside:
                    rest, count = rest ^ inside, count - n
            if count < 0 or (count and not rest):
                return None
            if rest:
                masks.append(rest)
                counts.append(count)
            changed |= rest != row
    width = rows.shape[1]
    return _rows([*masks, empty], width), np.array([*counts, 0], dtype=np.int64)


def _bits(rows: Bools) -> list[int]:
    """Each row as the bits of a number."""
    packed = np.packbits(rows, axis=1)
    return [int.from_bytes(r.tobytes()) for r in packed]


def _rows(masks: list[int], width: int) -> Bools:
    size = -(-width // 8)
    packed = np.frombuffer(b"".join(m.to_bytes(size) for m in masks), dtype=np.uint8)
    return np.unpackbits(packed.reshape(len(masks), size), axis=1, count=width).astype(bool)


def _bounded(
    matrix: sparse.csr_array, lower: Ints, upper: Ints, propagated: Propagated
) -> Propagated:
    """Bounds from bounds, until nothing changes."""
    row, column = matrix.nonzero()
    least, most = propagated.least.copy(), propagated.most.copy()
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


def _several(rows: Bools, y: Ints, propagated: Propagated) -> bool:
    """Whether some part that is not settled is a full two-way table with both its margins, and
    each margin has two positive entries."""
    open_ = propagated.least < propagated.most
    rest = (
        y
        - rows[:, propagated.least == propagated.most]
        @ propagated.least[propagated.least == propagated.most]
    )
    rows = rows[:, open_]
    rows, rest = rows[rows.any(axis=1)], rest[rows.any(axis=1)]
    rows, at = np.unique(rows, axis=0, return_index=True)
    rest = rest[at]
    if not len(rows) or propagated.least[open_].any():
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


# How far the records of a unit can differ from a guess at them, all lines obeyed.
#
# *Solution variability* of a guess :math:`x^0` with :math:`N` records, in percent:
#
# .. math:: v = 100 \max_x |x - x^0|_1 / 2 N ,
#
# over all records :math:`x` that obey the lines. Zero is a certificate: the guess is the only
# solution, and so it is the truth if the lines are exact. From any other solution the answer is between
# half of this and twice this, at most 100 where the number of records is known.
#
# *The program.* With :math:`|x - x^0|_1 = \sum x + N - 2 \sum_k \min(x_k, a_k)`, minimize
# :math:`\sum_k m_k - \sum_k x_k / 2` where a binary :math:`z_k` tells the two cases of a minimum
# apart:
#
# .. math:: x_k \le a_k - 1 + (u_k - a_k + 1) z_k, \quad m_k \ge a_k z_k, \quad m_k \ge x_k - u_k z_k .
#
# A class can have several cells. The other solution can put all its records into the cell
# with the fewest of the guess. So :math:`a_k` is the least count of a cell.
#
# Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
# Census: Full Technical Report (2025), sections 4.5 and 4.6; the program is ours.

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
    pick = sparse.csr_array((np.ones(k), (np.arange(k), near)), shape=(k, n))
    eye, at = sparse.eye_array(k), a[near].astype(float)
    apart = [
        [pick, -sparse.diags_array(cap - at + 1), None],
        [None, -sparse.diags_array(at), eye],
        [-pick, sparse.diags_array(cap), eye],
    ]
    matrix = sparse.block_array([[program.matrix, None, None], *apart] if k else [[program.matrix]])
    most = np.where(known.most >= UNBOUNDED, np.inf, known.most)
    lower, upper = program.lower.astype(float), program.upper.astype(float)
    upper[program.upper >= UNBOUNDED] = np.inf
    answer = milp(
        np.concatenate([-0.5 * inside, np.zeros(k), np.ones(k)]),
        integrality=np.repeat([1, 1, 0], [n, k, k]),
        bounds=Bounds(
            np.concatenate([known.least, np.zeros(2 * k)]), np.concatenate([most, np.ones(k), at])
        ),
        constraints=LinearConstraint(
            matrix,
            np.concatenate([lower, np.full(k, -np.inf), np.zeros(2 * k)]),
            np.concatenate([upper, at - 1, np.full(2 * k, np.inf)]),
        ),
        options={"time_limit": seconds, "mip_rel_gap": 0.0, "disp": False},
    )
    if answer.x is None:
        return None, False
    return np.rint(answer.x[:n]).astype(np.int64), bool(answer.status == _OPTIMAL)
