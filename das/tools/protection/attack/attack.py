"""Database reconstruction: everybody's record from published tables, area by area."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.histogram import Histogram
from das.tools.protection.attack.joint import joined
from das.tools.protection.attack.prior import AttackedTables, dealt
from das.tools.protection.attack.propagation import UnitLines
from das.tools.protection.attack.result import AttackOptions, AttackStatus, Reconstruction
from das.tools.protection.attack.unit import UnitGuess, guess_unit, only_total
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
            out[unit] = guess_unit(a.lines[a.lowest], a.lines_of(a.lowest, unit), share, options)
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
