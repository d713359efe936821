"""Database reconstruction: everybody's record from published tables, area by area."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.histogram import Histogram
from das.protect.published import ProtectedTables
from das.risk.reconstruction.area import attack_area
from das.risk.reconstruction.options import AttackOptions
from das.risk.reconstruction.result import AttackStatus, Reconstruction
from das.risk.reconstruction.tables import AttackedTables
from das.risk.reconstruction.unit import UnitGuess

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
        InputError: a unit or a level that does not exist.
    """
    spine = published.spine
    lowest = spine.levels[-1]
    every = np.arange(spine.units(lowest))
    wanted = every if units is None else np.unique(units)
    if len(wanted) and not (wanted[0] >= 0 and wanted[-1] < len(every)):
        raise InputError("a unit that does not exist", where="reconstruction")
    if published.records is not None:
        return _taken(published.records, wanted)
    attacked = AttackedTables.of(published, options)
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
        Histogram.of(
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


def _together(found: Mapping[int, UnitGuess], units: int, cells: int) -> Reconstruction:
    status = np.full(units, AttackStatus.SKIPPED, dtype=np.int8)
    variability, seconds = np.full(units, np.nan), np.zeros(units)
    nothing = [np.zeros(0, dtype=np.int64)]
    for u, guess in found.items():
        status[u], variability[u], seconds[u] = guess.status, guess.variability, guess.seconds
    unit = np.concatenate(nothing + [np.full(len(g.cell), u) for u, g in found.items()])
    cell = np.concatenate(nothing + [g.cell for g in found.values()])
    count = np.concatenate(nothing + [g.count for g in found.values()])
    return Reconstruction(
        Histogram.of(units, cells, unit, cell, count), status, variability, seconds
    )
