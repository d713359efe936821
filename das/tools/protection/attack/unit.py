"""The attack on one unit: its likeliest records, by what is published about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from das.errors import InputError
from das.tools.protection.attack.propagation import (
    Propagated,
    ReducedProgram,
    UnitLines,
    propagated,
    reduced,
    variability,
)
from das.tools.protection.attack.result import (
    LARGEST_CODE,
    AttackLines,
    AttackOptions,
    AttackStatus,
)
from das.tools.protection.published import UNBOUNDED, WITHHELD, ProtectedTables

# What the lines of an area say about the records of each of its blocks, before one looks at the
# block: a tie-break among records that the block's own lines allow.
#
# Of all histograms with the area's lines, the one of greatest entropy, by iterative proportional
# fitting: each table that counts a record once scales its lines to what is published, again and
# again. Where an area publishes race by origin and sex by age it is their product. A line that the
# area itself publishes counts; otherwise the sum over its blocks. A table that some blocks withhold
# says less, and goes before the others, so that these have the last word.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_SWEEPS = 30
#: Costs of records this close are a tie. With both margins of a table known, all records cost alike.
_TIE = 1e-3
#: The part of the shares that every possible cell has alike, and records that each line has besides
#: those published.
_ALIKE, _MORE = 0.01, 0.01


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A table: for each cell its line, -1 where none counts it; what is published of each line."""

    line: Ints
    wanted: Floats
    complete: bool


def shares(sources: list[tuple[AttackLines, Ints]]) -> Floats:
    """The share of each cell, ``(cells,)``, positive where records are possible, sum 1.
    ``sources``: lines of a level, and values of units of that level which make up the area,
    ``(units, lines)``; later ones have the last word."""
    possible = sources[0][0].possible
    x = possible / possible.sum()
    tables = [t for lines, values in sources for t in _tables(lines, values)]
    tables.sort(key=lambda t: t.complete)  # stable: among equals, as given
    if persons := max((float(t.wanted.sum()) for t in tables), default=0.0):
        x = x * persons
    for _ in range(_SWEEPS if len(tables) > 1 else 1):
        for t in tables:
            _scale(x, t)
    x /= max(x.sum(), 1e-300)
    x = (1 - _ALIKE) * x + _ALIKE * possible / possible.sum()
    return np.asarray(x / x.sum())


def _tables(lines: AttackLines, values: Ints) -> list[_Fitted]:
    """Those whose lines count no record twice, where some unit shows them."""
    shown = values != WITHHELD
    out = []
    for t in range(int(lines.table.max()) + 1):
        rows = np.flatnonzero(lines.table == t)
        part = lines.matrix[rows]
        if not shown[:, rows].any() or part.sum(axis=0).max() > 1:
            continue
        line = np.full(lines.cells, -1, dtype=np.int64)
        row, cell = part.nonzero()
        line[cell] = row
        wanted = np.where(shown[:, rows], values[:, rows], 0).sum(axis=0) + _MORE
        out.append(_Fitted(line, wanted.astype(float), bool(shown[:, rows].all())))
    return out


def _scale(x: Floats, t: _Fitted) -> None:
    """Scale lines to what is published; where that is incomplete, without changing their sum."""
    inside = t.line >= 0
    line = t.line[inside]
    now = np.bincount(line, weights=x[inside], minlength=len(t.wanted))
    wanted = t.wanted if t.complete else t.wanted * (now.sum() / t.wanted.sum())
    x[inside] *= (wanted / np.maximum(now, 1e-300))[line]


def costs(lines: AttackLines, program: ReducedProgram, share: Floats) -> Floats:
    """What a record of each class costs: minus the logarithm of its share, ``(classes,)``.

    A tie is broken by the code of a cell, whatever is published. So of two sets of records, one
    inside the other, the larger one's cheapest is the smaller one's, too, where it is in it. A line
    shown or hidden, and the order of the solver, move no tie."""
    part = np.bincount(program.of_class, weights=share[program.cells], minlength=program.classes)
    return np.asarray(_TIE * lines.cell_code[program.first] / LARGEST_CODE - np.log(part))


def dealt(counts: Ints, of_class: Ints, share: Floats) -> Ints:
    """The counts of classes dealt out to their cells by ``share``: each the floor of its part, and
    what is left to the largest remainders. ``of_class`` and ``share`` are ``(cells,)``.

    >>> dealt(np.array([3, 1]), np.array([0, 0, 1]), np.array([0.8, 0.2, 1.0])).tolist()
    [2, 1, 1]"""
    whole = np.bincount(of_class, weights=share, minlength=len(counts))
    part = counts[of_class] * share / whole[of_class]
    out = np.floor(part + 1e-9).astype(np.int64)
    left = counts - np.bincount(of_class, weights=out, minlength=len(counts)).astype(np.int64)
    if left.any():
        order = np.lexsort((out - part, of_class))
        first = np.searchsorted(of_class[order], np.arange(len(counts)))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order)) - first[of_class[order]]
        out += rank < left[of_class]
    return out


# Protected tables as an attack reads them.


@dataclass(frozen=True, eq=False)
class AttackedTables:
    """``lines`` of each level that has tables. ``around`` is the level of areas. Each area is
    attacked by itself."""

    published: ProtectedTables
    lines: dict[str, AttackLines]
    around: str

    @staticmethod
    def from_published(published: ProtectedTables, options: AttackOptions) -> AttackedTables:
        tables = published.tables
        lines = {
            level: AttackLines.from_lines(tables.lines(level), tables.schema)
            for level in published.levels
        }
        return AttackedTables(published, lines, AttackedTables.around_of(published, options))

    @staticmethod
    def around_of(published: ProtectedTables, options: AttackOptions) -> str:
        """The level of areas. Raises :class:`InputError` where ``options.around`` is no level above
        the lowest."""
        levels = published.spine.levels
        above = levels[:-1] or levels
        tabulated = [level for level in above if level in published.levels]
        around = options.around or (tabulated or above)[-1]
        if around not in above:
            raise InputError(
                f"{around!r} is no level above {levels[-1]!r}",
                where="reconstruction",
                remedy=f"choose {', '.join(above)}",
            )
        return around

    @property
    def lowest(self) -> str:
        return self.published.spine.levels[-1]

    def lines_of(self, level: str, unit: int) -> UnitLines:
        """What is published about a unit."""
        of = self.published.levels[level]
        return UnitLines(of.lower[unit], of.upper[unit], of.value[unit], of.price)

    def prior(self, area: int, units: Ints) -> Floats:
        """The shares of cells in an area with these ``units`` of the lowest level."""
        known = ((self.lowest, units), (self.around, np.array([area])))
        sources = {
            level: (self.lines[level], self.published.levels[level].value[of])
            for level, of in known
            if level in self.lines
        }
        if not sources:
            possible = self.published.tables.schema.possible.ravel()
            return np.asarray(possible / possible.sum())
        return shares(list(sources.values()))

    def share_of(self, unit: int, share: Floats) -> Floats:
        """The shares of cells in a unit, by those of its area and what is expected there."""
        known = self.published.expected
        return share if known is None else known.share(unit, share)


# The integer program of a unit, solved by HiGHS through SciPy.
#
# Where lines are perturbed, the likeliest records have the least sum of prices. A price is convex in
# the distance :math:`d` between a row and its printed value, so steps :math:`0 \le s_j \le 1` whose
# costs rise are enough, without integers:
#
# .. math:: A_i x - \sum_j s_j + \sum_j t_j = y_i, \qquad
#    \text{cost } \sum_j (p_j - p_{j-1})(s_j + t_j) .
#
# The solver computes with floating-point numbers. What it finds is rounded, and then counts only if
# it obeys every row exactly, in integers.


#: Statuses of ``scipy.optimize.milp``.
_OPTIMAL, _INFEASIBLE = 0, 2
_TINY = 1e-6


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
    (array([1., 3.]), array([2, 1]))"""
    rise = np.diff(price)
    new = np.flatnonzero(np.diff(rise, prepend=-1.0) > 1e-12)
    return rise[new], np.diff(np.append(new, len(rise)))


@dataclass(frozen=True, eq=False)
class _Columns:
    """A program in columns, classes first and then steps, as the solver takes it."""

    cost: Floats
    least: Floats
    most: Floats
    matrix: sparse.csc_array
    lower: Floats
    upper: Floats
    classes: int

    def solve(self, keep: Bools, whole: bool, seconds: float, gap: float) -> OptimizeResult:
        """The cheapest with the columns to ``keep``, the others at zero; in integers if whole."""
        integral = np.zeros(len(self.cost))
        integral[: self.classes] = whole
        return milp(
            self.cost[keep],
            integrality=integral[keep],
            bounds=Bounds(self.least[keep], self.most[keep]),
            constraints=LinearConstraint(self.matrix[:, keep], self.lower, self.upper),
            options={"time_limit": seconds, "mip_rel_gap": gap, "disp": False},
        )

    def cells(self, answer: OptimizeResult, keep: Bools) -> Floats:
        """The classes in an answer, ``(classes,)``."""
        out = np.zeros(len(self.cost))
        out[keep] = answer.x
        return out[: self.classes]


def _columns(
    program: ReducedProgram, known: Propagated, cost: Floats, prices: tuple[PriceSteps, ...]
) -> _Columns:
    width = sum(len(p.cost) for p in prices)
    blocks: list[list[Any]] = [[program.matrix, *(None for _ in prices)]]
    for i, p in enumerate(prices):
        blocks.append([program.matrix[p.row], *(None for _ in prices)])
        blocks[-1][1 + i] = p.matrix
    values = [p.value.astype(float) for p in prices]
    upper = np.where(program.upper >= UNBOUNDED, np.inf, program.upper)
    return _Columns(
        np.concatenate([cost, *(p.cost for p in prices)]),
        np.concatenate([known.least, np.zeros(width)]),
        np.concatenate(
            [np.where(known.most >= UNBOUNDED, np.inf, known.most), *(p.most for p in prices)]
        ),
        sparse.csc_array(sparse.block_array(blocks)),
        np.concatenate([program.lower.astype(float), *values]),
        np.concatenate([upper, *values]),
        program.classes,
    )


def solved(
    program: ReducedProgram,
    known: Propagated,
    cost: Floats,
    prices: tuple[PriceSteps, ...],
    seconds: float,
    gap: float,
) -> ProgramAnswer:
    """The cheapest integers: ``cost`` ``(classes,)`` for each record, and ``prices``.

    First without integers, which mostly gives integers all the same. If not, in integers with the
    classes that are positive there: with the same cost these are the answer, and otherwise what is
    left if the whole program takes too long."""
    began = perf_counter()
    columns = _columns(program, known, cost, prices)
    every = np.ones(len(columns.cost), dtype=bool)
    relaxed = columns.solve(every, False, seconds, gap)
    if relaxed.x is None:
        nothing = relaxed.status == _INFEASIBLE
        status = AttackStatus.INFEASIBLE if nothing else AttackStatus.TIME_OUT
        return ProgramAnswer(status, None, perf_counter() - began)
    point = columns.cells(relaxed, every)
    x = np.rint(point).astype(np.int64)
    if np.abs(point - x).max(initial=0) < _TINY and program.obeyed(x):
        return ProgramAnswer(AttackStatus.SOLVED, x, perf_counter() - began)
    keep = every.copy()
    keep[: program.classes] = (point > _TINY) | (known.least > 0)
    few = _in_integers(program, columns, keep, seconds, gap)
    if few.x is not None and few.cost <= relaxed.fun + gap * abs(relaxed.fun) + _TINY:
        return ProgramAnswer(AttackStatus.SOLVED, few.x, perf_counter() - began)
    whole = _in_integers(program, columns, every, seconds, gap)
    if few.x is not None and (whole.x is None or few.cost < whole.cost):
        whole = _IntegerAnswer(AttackStatus.GAP, few.x, few.cost)
    return ProgramAnswer(whole.status, whole.x, perf_counter() - began)


@dataclass(frozen=True, eq=False)
class _IntegerAnswer:
    status: AttackStatus
    x: Ints | None
    cost: float


def _in_integers(
    program: ReducedProgram, columns: _Columns, keep: Bools, seconds: float, gap: float
) -> _IntegerAnswer:
    """What the solver finds in integers, if it obeys every row."""
    answer = columns.solve(keep, True, seconds, gap)
    if answer.x is None:
        nothing = answer.status == _INFEASIBLE
        status = AttackStatus.INFEASIBLE if nothing else AttackStatus.TIME_OUT
        return _IntegerAnswer(status, None, np.inf)
    x = np.rint(columns.cells(answer, keep)).astype(np.int64)
    if not program.obeyed(x):
        return _IntegerAnswer(AttackStatus.REFUSED, None, np.inf)
    status = AttackStatus.SOLVED if answer.status == _OPTIMAL else AttackStatus.GAP
    return _IntegerAnswer(status, x, float(answer.fun))


Bools = NDArray[np.bool_]

#: How many of the likeliest cells an attack on perturbed lines adds to its candidates, where the
#: candidates alone have no solution.
_MORE_CELLS = (500, 4000)
#: The largest program whose variability is measured.
_MOST_CLASSES = 5000


@dataclass(frozen=True, eq=False)
class UnitGuess:
    """Records of a unit: ``count`` of ``cell``, both ``(k,)``. ``several``: proved that other
    records have the same lines, too. ``among``: only some cells were tried. ``program`` and what is
    ``known`` of its classes: where there is a guess."""

    status: AttackStatus
    cell: Ints
    count: Ints
    seconds: float
    several: bool = False
    variability: float = float("nan")
    among: bool = False
    program: ReducedProgram | None = None
    known: Propagated | None = None


_NOTHING = np.zeros(0, dtype=np.int64)


def only_total(lines: AttackLines, said: UnitLines) -> bool:
    """Whether nothing is known about a unit except, at most, its number of records."""
    rows = np.flatnonzero(said.informative)
    return not len(rows) or (len(rows) == 1 and rows[0] == lines.total and said.upper[rows[0]] > 0)


def guess_unit(
    lines: AttackLines, said: UnitLines, share: Floats, options: AttackOptions
) -> UnitGuess:
    """The cheapest records. ``share`` ``(cells,)``: the prior."""
    if lines.total >= 0 and said.upper[lines.total] == 0:
        return UnitGuess(AttackStatus.UNIQUE, _NOTHING, _NOTHING, 0.0, variability=0.0)
    began, found = perf_counter(), UnitGuess(AttackStatus.INFEASIBLE, _NOTHING, _NOTHING, 0.0)
    for among in _candidates(lines, said, share, options):
        if (program := reduced(lines, said, among)) is None:
            continue
        known = propagated(program)
        if known.feasible:
            found = _solved(lines, said, program, known, share, options, among is None)
        if found.status.guessed or found.status == AttackStatus.TIME_OUT:
            break
    if options.variability and not said.priced:
        found = _certified(lines, said, found, options)
    return replace(found, seconds=perf_counter() - began)


def _certified(
    lines: AttackLines, said: UnitLines, guess: UnitGuess, options: AttackOptions
) -> UnitGuess:
    """The guess with its variability; unique where that is zero."""
    if guess.program is None or guess.status not in (AttackStatus.SOLVED, AttackStatus.GAP):
        return guess
    program: ReducedProgram | None = guess.program
    known = guess.known
    if guess.among:
        program = reduced(lines, said)
        known = None if program is None else propagated(program)
    if program is None or known is None or program.classes > _MOST_CLASSES:
        return guess
    count = np.zeros(lines.cells, dtype=np.int64)
    count[guess.cell] = guess.count
    v = variability(program, known, count[program.cells], options.seconds)
    status = AttackStatus.UNIQUE if v.unique else guess.status
    return replace(guess, variability=v.percent, status=status)


def _solved(
    lines: AttackLines,
    said: UnitLines,
    program: ReducedProgram,
    known: Propagated,
    share: Floats,
    options: AttackOptions,
    every: bool,
) -> UnitGuess:
    part = share[program.cells]
    alone = np.bincount(program.of_class, minlength=program.classes) == 1
    if known.settled and program.obeyed(known.least):
        certain = every and bool((alone | (known.least == 0)).all())
        answer = ProgramAnswer(
            AttackStatus.UNIQUE if certain else AttackStatus.SOLVED, known.least, 0.0
        )
    else:
        prices = _prices(lines, said, program)
        weight = options.prior_weight if prices else 1.0
        cost = weight * costs(lines, program, share)
        answer = solved(program, known, cost, prices, options.seconds, options.gap)
    if answer.x is None:
        return UnitGuess(answer.status, _NOTHING, _NOTHING, answer.seconds)
    count = dealt(answer.x, program.of_class, part)
    several = known.several or bool((known.least[~alone] > 0).any())
    some = count > 0
    return UnitGuess(
        answer.status,
        program.cells[some],
        count[some],
        0.0,
        several,
        0.0 if answer.status == AttackStatus.UNIQUE else float("nan"),
        not every,
        program,
        known,
    )


def _prices(lines: AttackLines, said: UnitLines, program: ReducedProgram) -> tuple[PriceSteps, ...]:
    """The prices of perturbed lines. Without any, an uncertain total costs what it is off the
    printed one: nothing else keeps records that each cost something from being left out."""
    if said.priced:
        price = np.asarray(said.price)
        return (steps(program, program.priced_row, program.priced_value, price),)
    total = lines.total
    if total < 0 or said.lower[total] == said.upper[total] or said.value[total] < 0:
        return ()
    if program.total_row < 0:
        return ()
    far = max(said.upper[total] - said.value[total], said.value[total] - said.lower[total])
    price = 1e3 * np.arange(int(min(far, 1000)) + 1.0)
    row, value = np.array([program.total_row]), np.array([said.value[total]])
    return (steps(program, row, value, price),)


def _candidates(
    lines: AttackLines, said: UnitLines, share: Floats, options: AttackOptions
) -> Iterator[Bools | None]:
    """The cells to try, fewest first; at last all, ``None``."""
    bounds = (said.upper > 0) & (said.lower < said.upper) & (said.value == 0)
    if bounds.any():
        zero = (said.upper == 0).astype(np.int64)
        alive = lines.possible & (lines.by_cell @ zero == 0)
        shown = _shown(lines, said)
        if alive.sum() > options.few:
            yield shown
            likeliest = np.argsort(-np.where(alive, share, -1.0), kind="stable")
            for more in _MORE_CELLS:
                if alive.sum() > more:
                    among = shown.copy()
                    among[likeliest[:more]] = True
                    yield among
    yield None


def _shown(lines: AttackLines, said: UnitLines) -> Bools:
    """Cells that some line of each family of tables shows."""
    out = np.ones(lines.cells, dtype=bool)
    for f in range(int(lines.family.max(initial=-1)) + 1):
        of = (lines.family == f) & (said.value >= 0)
        if of.any():
            out &= lines.by_cell @ (of & (said.value > 0)).astype(np.int64) > 0
    return out
