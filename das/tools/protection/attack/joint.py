"""The units of an area that their own lines do not settle, together with the lines of the area.

What the settled units have is taken out of the area's lines, exactly. Each open unit has at most
what is left (the Bureau's relaxation of its tract tables), and all open units together have exactly
that. The first gives bounds, and the variability of a unit. The second gives records, and the proof
that those of a unit are the only ones.

*The proof.* A joint solution as far as possible from the guess differs in some units, which have
several solutions. The others are asked again by themselves, until none differs: these are unique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.tools.protection.attack.prior import AttackedTables, costs, dealt
from das.tools.protection.attack.propagation import (
    Propagated,
    ReducedProgram,
    UnitLines,
    farthest,
    largest,
    least_of_class,
    propagated,
    reduced,
    variability,
)
from das.tools.protection.attack.result import AttackOptions, AttackStatus
from das.tools.protection.attack.unit import UnitGuess, solved
from das.tools.protection.published import UNBOUNDED, WITHHELD

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: The largest joint program, in classes; above, units have the relaxation alone.
_MOST_CLASSES = 60_000
_OPEN = (AttackStatus.SOLVED, AttackStatus.GAP)


@dataclass(frozen=True, eq=False)
class OpenUnit:
    """A unit that is not settled: its program, in classes that the area's lines tell apart, too;
    ``rows``: what the area's lines count of these, ``(lines, classes)``."""

    unit: int
    program: ReducedProgram
    rows: sparse.csr_array


def joined(
    a: AttackedTables,
    area: int,
    guesses: Mapping[int, UnitGuess],
    share: Floats,
    options: AttackOptions,
) -> dict[int, UnitGuess]:
    """New guesses for units that were not settled; none where the area's lines say nothing."""
    both = {a.around, a.lowest}
    if len(both) < 2 or not both <= a.lines.keys() or not options.joint_seconds:
        return {}
    if any(len(a.published.levels[level].price) > 1 for level in both):
        return {}  # perturbed lines of an area do not add up with those of its units
    out: dict[int, UnitGuess] = {}
    every = dict(guesses)
    while True:
        open_, rest = _opened(a, area, every)
        if not open_ or rest is None:
            return out
        settled = {
            o.unit: guess
            for o in open_
            if (guess := _by_bounds(o, rest, len(open_) == 1, every)) is not None
        }
        out |= settled
        every |= settled
        if not settled:
            return out | _together(a, open_, rest, every, share, options)


def _opened(
    a: AttackedTables, area: int, guesses: Mapping[int, UnitGuess]
) -> tuple[list[OpenUnit], UnitLines | None]:
    """The units that are not settled, and what the area's lines leave for them."""
    said, lines = a.lines_of(a.around, area), a.lines[a.around]
    taken, whole = np.zeros(len(lines), dtype=np.int64), True
    for guess in guesses.values():
        if guess.status == AttackStatus.UNIQUE:
            taken += (lines.by_cell[guess.cell].T @ guess.count).astype(np.int64)
        else:
            whole &= guess.status in _OPEN
    upper = np.where(said.upper >= UNBOUNDED, UNBOUNDED, said.upper - taken)
    lower = np.maximum(said.lower - taken, 0) if whole else np.zeros_like(upper)
    if (upper < 0).any():
        return [], None  # the lines of the area are not those of its units
    rest = UnitLines(lower, upper, np.full_like(upper, WITHHELD), (0.0,))
    code = np.where(rest.informative, lines.line_code, 0)
    alive, apart = lines.by_cell @ (upper == 0).astype(np.int64) == 0, lines.by_cell @ code
    open_ = []
    for unit, guess in guesses.items():
        if guess.status in _OPEN:
            program = reduced(a.lines[a.lowest], a.lines_of(a.lowest, unit), alive, apart)
            if program is None:
                return [], None
            rows = sparse.csr_array(lines.by_cell[program.first].T)
            open_.append(OpenUnit(unit, program, rows))
    return open_, rest


def _relaxed(o: OpenUnit, rest: UnitLines, alone: bool) -> ReducedProgram:
    """The program of one unit, which has at most what is left; all of it if it is alone."""
    lower = rest.lower if alone else np.zeros_like(rest.lower)
    return o.program.with_rows(o.rows, lower, rest.upper)


def _by_bounds(
    o: OpenUnit, rest: UnitLines, alone: bool, guesses: Mapping[int, UnitGuess]
) -> UnitGuess | None:
    """The guess of a unit that bounds settle."""
    known = propagated(_relaxed(o, rest, alone))
    if not (known.feasible and known.settled):
        return None
    size = np.bincount(o.program.of_class, minlength=o.program.classes)
    if (known.least[size > 1] > 0).any():
        return None
    count = known.least[o.program.of_class]
    return replace(
        guesses[o.unit],
        status=AttackStatus.UNIQUE,
        cell=o.program.cells[count > 0],
        count=count[count > 0],
        variability=0.0,
    )


def _together(
    a: AttackedTables,
    open_: list[OpenUnit],
    rest: UnitLines,
    guesses: Mapping[int, UnitGuess],
    share: Floats,
    options: AttackOptions,
) -> dict[int, UnitGuess]:
    """Guesses that obey the area's lines together, and which of them are the only ones."""
    program = _joint(open_, rest)
    if program.classes > _MOST_CLASSES or not (known := propagated(program)).feasible:
        return {}
    cost = np.concatenate([costs(a.lines[a.lowest], o.program, share) for o in open_])
    answer = solved(program, known, cost, (), options.joint_seconds, options.gap)
    if answer.x is None:
        return {}
    ends = np.cumsum([0, *(o.program.classes for o in open_)])
    counts = [
        dealt(answer.x[start:stop], o.program.of_class, share[o.program.cells])
        for o, start, stop in zip(open_, ends[:-1], ends[1:], strict=True)
    ]
    unique: set[int] = set()
    if options.variability:
        unique = set(_unique(program, known, open_, counts, ends, options))
    out = {}
    for i, (o, count) in enumerate(zip(open_, counts, strict=True)):
        guess = replace(
            guesses[o.unit],
            status=AttackStatus.UNIQUE if i in unique else answer.status,
            cell=o.program.cells[count > 0],
            count=count[count > 0],
        )
        if i in unique:
            guess = replace(guess, variability=0.0)
        elif options.variability:
            limited = _relaxed(o, rest, len(open_) == 1)
            v = variability(limited, propagated(limited), count, options.seconds)
            guess = replace(guess, variability=v.percent)
        out[o.unit] = guess
    return out


def _joint(open_: list[OpenUnit], rest: UnitLines) -> ReducedProgram:
    """One program of all: their rows below each other, and those of the area across them."""
    across = sparse.csr_array(sparse.hstack([o.rows for o in open_]))
    ends = np.cumsum([0, *(o.program.classes for o in open_)])
    cells = np.concatenate([o.program.cells for o in open_])
    of_class = [o.program.of_class + e for o, e in zip(open_, ends[:-1], strict=True)]
    lower = np.concatenate([o.program.lower for o in open_])
    upper = np.concatenate([o.program.upper for o in open_])
    none = np.zeros(0, dtype=np.int64)
    own = sparse.csr_array(sparse.block_diag([o.program.matrix for o in open_]))
    most = largest(own, upper)
    program = ReducedProgram(
        cells, np.concatenate(of_class), own, lower, upper, most, none, none, -1
    )
    rows = np.flatnonzero(rest.informative & (np.diff(across.indptr) > 0))
    code = np.random.default_rng(1).integers(1, 1 << 48, program.classes)
    _, first = np.unique(across[rows] @ code, return_index=True)
    rows = rows[first]
    return program.with_rows(across[rows], rest.lower[rows], rest.upper[rows])


def _unique(
    program: ReducedProgram,
    known: Propagated,
    open_: list[OpenUnit],
    counts: list[Ints],
    ends: Ints,
    options: AttackOptions,
) -> Iterator[int]:
    """The units, by their place, whose records are proved to be the only ones."""
    count = np.concatenate(counts)
    near = least_of_class(program, count)
    guess = np.bincount(program.of_class, weights=count).astype(np.int64)
    of = np.repeat(np.arange(len(open_)), np.diff(ends))
    asked = np.arange(len(open_))
    while len(asked):
        among = np.isin(of, asked)
        x, proved = farthest(program, known, near, options.joint_seconds, among)
        if x is None or not program.obeyed(x):
            return
        size = np.bincount(program.of_class, minlength=program.classes)
        moved = (x != guess) | ((size > 1) & (x > 0))
        differs = np.unique(of[moved & among])
        if not len(differs):
            if proved:
                yield from asked.tolist()
            return
        asked = np.setdiff1d(asked, differs)
