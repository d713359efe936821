"""The records of the file of units: of the households those that pay rent, or own, and those that
pay none; vacant units; facilities.

A record is one cell of three kinds that follow each other:

====================  ==========================  =============================
first cell            cells of                    records
====================  ==========================  =============================
0                     ``dhch``                    households
:data:`NO_CASH_RENT`  ``dhch``                    households that pay no cash rent
:data:`OTHERS`        ``tenvacgq``, from its 5th  vacant units, and facilities
====================  ==========================  =============================

So the file is the histogram of them by block, and the histogram follows from the file. Households
know three classes of tenure, and units four. No count says which of a block's rented households are
in the fourth class; a program that joins the two must draw them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.dhc.households import DHCH, TENURE
from das.model.dhc.microdata import household_form, unit_form
from das.model.dhc.units import TENURES, TENVACGQ
from das.model.histogram import Histogram
from das.model.microdata_form import CodedColumn, MicrodataForm
from das.model.schema import Schema

NO_CASH_RENT, OTHERS = DHCH.cells, 2 * DHCH.cells
CELLS = OTHERS + TENVACGQ.cells
#: First cell and schema of each kind, and which kind a record with a code of ``TEN`` is of.
KINDS: tuple[tuple[int, Schema], ...] = ((0, DHCH), (NO_CASH_RENT, DHCH), (OTHERS, TENVACGQ))
KIND_OF_TEN = {"0": 2, "1": 0, "2": 0, "3": 0, "4": 1}
_RENTED, _FREE = TENURE.levels.index("rented"), tuple(TENURES).index("no-cash-rent")
_NOBODY = "no household"


# --- the file
# ----------------------------------------------------------------------------------------


def form() -> MicrodataForm:
    """27 fields, of records of all three kinds."""
    home, other = household_form(), unit_form()
    columns = []
    for name in home.after:
        own, others = _column(home, name, ""), _column(other, name, _NOBODY)
        parts = own, _free() if name == "TEN" else own, others
        columns.append(
            CodedColumn.joined(
                [(first, c) for (first, _), c in zip(KINDS, parts, strict=True)], _says(parts)
            )
        )
    constants = {name: home.constants[name] for name in home.constants if name not in home.after}
    return MicrodataForm(
        "DHC microdata detail file, units",
        tuple(columns),
        home.before,
        home.after,
        home.geography,
        constants=constants,
        says=home.says,
    )


def _free() -> CodedColumn:
    """``TEN`` of a household that pays no cash rent: the class of those that pay it."""
    by = DHCH.steps((TENURE.name,))
    return CodedColumn(
        "TEN", ("4",), np.zeros(len(TENURE.levels), dtype=np.int64), TENURE.name, (_RENTED,), by=by
    )


def _column(of: MicrodataForm, name: str, label: str) -> CodedColumn:
    found = [c for c in of.columns if c.name == name]
    return found[0] if found else CodedColumn.constant(name, of.constants[name], label)


def _says(parts: Sequence[CodedColumn]) -> dict[str, str]:
    """What the codes of a column mean in the whole file: as units say it, where they do."""
    out: dict[str, str] = {}
    for (_, schema), column in zip(KINDS, parts, strict=True):
        for code, label in column.meaning(schema).items():
            out[code] = f"{out[code]}, or {label}" if label == _NOBODY and code in out else label
    return dict(sorted(out.items()))


# --- the counts
# --------------------------------------------------------------------------------------


def _tenures(households: Histogram) -> NDArray[np.int64]:
    """Households of each tenure, ``(blocks, 3)``."""
    return households.answer(DHCH.query(TENURE.name))


def _of_units(units: Histogram) -> NDArray[np.int64]:
    return units.answer(TENVACGQ.query("tenure_3lev"))[:, : len(TENURE.levels)]


def rented(households: Histogram) -> Histogram:
    """Those that pay rent or none."""
    return _those(households, _tenure(households.cell) == _RENTED)


def without_rent(units: Histogram) -> NDArray[np.int64]:
    """Units occupied without payment of cash rent, ``(blocks,)``."""
    return _those(units, units.cell == _FREE).totals()


def joined(units: Histogram, households: Histogram, free: Histogram) -> Histogram:
    """The records by block; ``free`` are those of the households that pay no cash rent.

    Raises:
        InputError: blocks whose households of a tenure are not their units of it, or that have
            other households in ``free`` than they have, or another number of them than of units
            without rent.
    """
    if (odd := (_tenures(households) != _of_units(units)).any(axis=1)).any():
        block = int(odd.argmax())
        raise InputError(
            f"block number {block} has {_tenures(households)[block].tolist()} households by tenure,"
            f" and occupied units {_of_units(units)[block].tolist()}",
            where="units",
            remedy="estimate households given the units of each tenure",
        )
    if (free.totals() != without_rent(units)).any():
        raise InputError("not as many households without cash rent as units", where="units")
    rest = _added([(households, 0, 1), (free, 0, -1)], DHCH.cells)
    vacant = _those(units, units.cell >= len(TENURES))
    return _added([(rest, 0, 1), (free, NO_CASH_RENT, 1), (vacant, OTHERS, 1)], CELLS)


def parted(records: Histogram) -> tuple[Histogram, Histogram]:
    """Units and households that the records are of."""
    home = records.cell < OTHERS
    households = _those(records, home)
    cell = households.cell % DHCH.cells
    tenure = np.where(households.cell >= NO_CASH_RENT, _FREE, _tenure(cell))
    others = _those(records, ~home)
    unit = np.concatenate([others.unit, households.unit])
    units = Histogram.of(
        records.units,
        TENVACGQ.cells,
        unit,
        np.concatenate([others.cell - OTHERS, tenure]),
        np.concatenate([others.count, households.count]),
    )
    return units, Histogram.of(records.units, DHCH.cells, households.unit, cell, households.count)


def _tenure(cell: NDArray[np.int64]) -> NDArray[np.int64]:
    return DHCH.query(TENURE.name).at(cell)


def _those(h: Histogram, which: NDArray[np.bool_]) -> Histogram:
    return Histogram.of(h.units, h.cells, h.unit[which], h.cell[which], h.count[which])


def _added(parts: Sequence[tuple[Histogram, int, int]], cells: int) -> Histogram:
    """Their sum, with the first cell of each and how many times it counts."""
    unit, cell, count = (
        np.concatenate(x)
        for x in zip(
            *((h.unit, h.cell + first, times * h.count) for h, first, times in parts), strict=True
        )
    )
    return Histogram.of(parts[0][0].units, cells, unit, cell, count)
