"""The attack on one unit: its likeliest records, by what is published about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from das.tools.protection.attack.prior import costs, dealt
from das.tools.protection.attack.program import PriceSteps, ProgramAnswer, solved, steps
from das.tools.protection.attack.propagation import (
    Propagated,
    ReducedProgram,
    UnitLines,
    propagated,
    reduced,
    variability,
)
from das.tools.protection.attack.result import AttackLines, AttackOptions, AttackStatus

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

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
