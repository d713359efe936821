"""Database reconstruction: everybody's record from published tables, area by area."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import InputError
from das.model.histogram import Histogram
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
from das.tools.protection.attack.result import AttackOptions, AttackStatus, Reconstruction
from das.tools.protection.attack.unit import (
    AttackedTables,
    UnitGuess,
    costs,
    dealt,
    guess_unit,
    only_total,
    solved,
)
from das.tools.protection.published import UNBOUNDED, WITHHELD, ProtectedTables

# The attack on an area.
#
# Each unit is attacked by its own lines. Units that show only their number of records are attacked
# together, as the rest of the area.
#
# *The rest.* Of each line that both levels have, the units attacked by themselves are taken out; what
# is left belongs to the other units together. Its likeliest records are dealt out to these by their
# totals, each kind of record as evenly as integers can be.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def attack_area(
    a: AttackedTables, area: int, units: Ints, options: AttackOptions
) -> dict[int, UnitGuess]:
    """A guess for each of the ``units``, all those of the lowest level in this area."""
    share = a.prior(area, units)
    out, others = {}, []
    for unit in units.tolist():
        if a.lowest not in a.lines or only_total(a.lines[a.lowest], a.lines_of(a.lowest, unit)):
            others.append(unit)
        else:
            own = a.share_of(unit, share)
            out[unit] = guess_unit(a.lines[a.lowest], a.lines_of(a.lowest, unit), own, options)
    if others:
        out |= _dealt_out(a, area, np.array(others), np.array(list(out), dtype=int), share, options)
    return out | joined(a, area, out, share, options)


def _dealt_out(
    a: AttackedTables, area: int, units: Ints, attacked: Ints, share: Floats, options: AttackOptions
) -> dict[int, UnitGuess]:
    """Guesses for units that show only their total."""
    began = perf_counter()
    totals = _totals(a, units)
    kinds = _rest(a, area, attacked, totals, share, options)
    if (totals < 0).all():
        totals = dealt(np.array([len(kinds)]), np.zeros(len(units), int), np.ones(len(units)))
    totals = np.maximum(totals, 0)
    missing = int(totals.sum()) - len(kinds)
    if missing > 0:
        more = dealt(np.array([missing]), np.zeros(len(share), dtype=np.int64), share)
        kinds = np.sort(np.concatenate([kinds, np.repeat(np.arange(len(share)), more)]))
    elif missing < 0:
        kinds = kinds[np.linspace(0, len(kinds) - 1, int(totals.sum())).astype(int)]
    slot = np.repeat(np.arange(len(units)), totals)
    begin = np.cumsum(totals) - totals
    order = np.argsort((np.arange(len(slot)) - begin[slot] + 0.5) / totals[slot], kind="stable")
    took = (perf_counter() - began) / len(units)
    out = {}
    for i, unit in enumerate(units.tolist()):
        cell, count = np.unique(kinds[slot[order] == i], return_counts=True)
        status = AttackStatus.DEALT if totals[i] else AttackStatus.UNIQUE
        out[unit] = UnitGuess(status, cell, count.astype(np.int64), took)
    return out


def _totals(a: AttackedTables, units: Ints) -> Ints:
    """The printed number of records of each, -1 where it is not printed."""
    if a.lowest not in a.lines or a.lines[a.lowest].total < 0:
        return np.full(len(units), -1)
    return a.published.levels[a.lowest].value[units, a.lines[a.lowest].total]


def _rest(
    a: AttackedTables,
    area: int,
    attacked: Ints,
    totals: Ints,
    share: Floats,
    options: AttackOptions,
) -> Ints:
    """The cells of the records of an area outside the units that were attacked, one by one and in
    order; none where the area shows nothing of them."""
    nothing = np.zeros(0, dtype=np.int64)
    if a.around not in a.lines or a.around == a.lowest:
        return nothing
    lines, said = a.lines[a.around], a.lines_of(a.around, area)
    if only_total(lines, said):
        return nothing
    left = _left(a, said, attacked)
    if lines.total >= 0 and (totals >= 0).all():
        for bound in (left.lower, left.upper):
            bound[lines.total] = totals.sum()
    found = guess_unit(lines, left, share, options)
    return np.repeat(found.cell, found.count)


def _left(a: AttackedTables, said: UnitLines, attacked: Ints) -> UnitLines:
    """What the lines of an area say of it without the units that were attacked."""
    lower, upper, value = said.lower.copy(), said.upper.copy(), said.value.copy()
    if len(attacked):
        of, here = a.lines[a.around].names, a.lines[a.lowest].names
        _, both, own = np.intersect1d(of, here, return_indices=True)
        only = np.setdiff1d(np.arange(len(of)), both)
        lower[only], value[only] = 0, WITHHELD
        level = a.published.levels[a.lowest]
        low, high = level.lower[attacked][:, own], level.upper[attacked][:, own]
        most = np.where((high >= UNBOUNDED).any(axis=0), UNBOUNDED, high.sum(axis=0))
        lower[both] = np.maximum(lower[both] - most, 0)
        bounded = both[upper[both] < UNBOUNDED]
        upper[bounded] -= low.sum(axis=0)[upper[both] < UNBOUNDED]
        printed = level.value[attacked][:, own]
        shown = (printed != WITHHELD).all(axis=0) & (value[both] != WITHHELD)
        value[both] = np.where(shown, value[both] - printed.sum(axis=0), WITHHELD)
    upper = np.maximum(upper, 0)
    lower = np.minimum(lower, upper)
    value = np.where(value == WITHHELD, value, np.clip(value, lower, upper))
    return UnitLines(lower, upper, value, said.price)


_DEFAULT = AttackOptions()


def reconstruct(
    published: ProtectedTables,
    options: AttackOptions = _DEFAULT,
    *,
    units: NDArray[np.int64] | None = None,
) -> Reconstruction:
    """The likeliest records of each unit of the lowest level, given what is published.

    Areas are independent. With ``units``, those areas are attacked in which they lie, and of these
    the guess has the ``units`` alone; attack areas in any order, in any process, and put the
    answers together (:meth:`Reconstruction.merged`). Where the office publishes records, these are
    the guess.

    Raises:
        InputError: a unit or a level that does not exist."""
    spine = published.spine
    lowest = spine.levels[-1]
    every = np.arange(spine.units(lowest))
    wanted = every if units is None else np.unique(units)
    if len(wanted) and not (wanted[0] >= 0 and wanted[-1] < len(every)):
        raise InputError("a unit that does not exist", where="reconstruction")
    if published.records is not None:
        return _taken(published.records, wanted)
    attacked = AttackedTables.from_published(published, options)
    of = spine.up(lowest, attacked.around)
    found: dict[int, UnitGuess] = {}
    for area in np.unique(of[wanted]).tolist():
        found |= attack_area(attacked, area, np.flatnonzero(of == area), options)
    return _together(
        {u: found[u] for u in wanted.tolist()}, len(every), published.tables.schema.cells
    )


def areas(published: ProtectedTables, options: AttackOptions = _DEFAULT) -> list[NDArray[np.int64]]:
    """The units of each area that is attacked by itself: the parts of the work."""
    spine = published.spine
    of = spine.up(spine.levels[-1], AttackedTables.around_of(published, options))
    return [np.flatnonzero(of == area) for area in range(int(of.max()) + 1)]


def _taken(records: Histogram, wanted: NDArray[np.int64]) -> Reconstruction:
    inside = np.zeros(records.units, dtype=bool)
    inside[wanted] = True
    kept = inside[records.unit]
    return Reconstruction(
        Histogram.from_triplets(
            records.units,
            records.cells,
            records.unit[kept],
            records.cell[kept],
            records.count[kept],
        ),
        np.where(inside, AttackStatus.RECORDS, AttackStatus.SKIPPED).astype(np.int8),
        np.full(records.units, np.nan),
        np.zeros(records.units),
    )


def _together(guesses: Mapping[int, UnitGuess], units: int, cells: int) -> Reconstruction:
    status = np.full(units, AttackStatus.SKIPPED, dtype=np.int8)
    variability, seconds = np.full(units, np.nan), np.zeros(units)
    nothing = [np.zeros(0, dtype=np.int64)]
    for u, guess in guesses.items():
        status[u], variability[u], seconds[u] = guess.status, guess.variability, guess.seconds
    unit = np.concatenate(nothing + [np.full(len(g.cell), u) for u, g in guesses.items()])
    cell = np.concatenate(nothing + [g.cell for g in guesses.values()])
    count = np.concatenate(nothing + [g.count for g in guesses.values()])
    return Reconstruction(
        Histogram.from_triplets(units, cells, unit, cell, count), status, variability, seconds
    )


# The units of an area that their own lines do not settle, together with the lines of the area.
#
# What the settled units have is taken out of the area's lines, exactly. Each open unit has at most
# what is left (the Bureau's relaxation of its tract tables), and all open units together have exactly
# that. The first gives bounds, and the variability of a unit. The second gives records, and the proof
# that those of a unit are the only ones.
#
# *The proof.* A joint solution as far as possible from the guess differs in some units, which have
# several solutions. The others are asked again by themselves, until none differs: these are unique.


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
            return out | _as_one(a, open_, rest, every, share, options)


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


def _as_one(
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
    each = [(o, a.share_of(o.unit, share)) for o in open_]
    cost = np.concatenate([costs(a.lines[a.lowest], o.program, s) for o, s in each])
    answer = solved(program, known, cost, (), options.joint_seconds, options.gap)
    if answer.x is None:
        return {}
    ends = np.cumsum([0, *(o.program.classes for o in open_)])
    counts = [
        dealt(answer.x[start:stop], o.program.of_class, s[o.program.cells])
        for (o, s), start, stop in zip(each, ends[:-1], ends[1:], strict=True)
    ]
    proved = _unique(program, known, open_, counts, ends, options)
    unique = set(proved if options.variability else ())
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
