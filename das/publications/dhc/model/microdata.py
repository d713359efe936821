"""The microdata of the DHC: which codes a person, a household or another unit has in each field.

A file of units has the rows of households (:func:`household_form`) and those of vacant units and of
group quarters (:func:`unit_form`). Which of the rented ones pay no rent (``TEN`` 4) no cell of a
household says: the units of its block do, and it is drawn.

Source: the production writers (``...RevisedColumnNames``) and their layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.columns import SERIAL, CodedColumn, MicrodataForm
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.universe import HEAD, TABULATION, WHERE_LIVING
from das.publications.dhc.model import quarters
from das.publications.dhc.model.households import (
    COUPLES,
    DHCH,
    HHAGE,
    HHTYPE,
    HISP,
    RACE,
    RANGES,
    TENURE,
    TENURES,
    TENVACGQ,
    TYPES,
    VACANCIES,
    HouseholdType,
    persons,
)
from das.publications.dhc.model.persons import DHCP, RELATIONSHIPS, SEX, ages

Says = Mapping[str, str]

_NONE, _NIU = "no household", "0"
_QUARTERS: Says = {"000": "none", **{t.code: t.label for t in quarters.TYPES}}
_NO_YES: Says = {"0": "no", "1": "yes"}


# --- persons

_GQ_CODES = tuple(t.code for t in quarters.TYPES)
_INSTITUTIONAL = len(quarters.levels("correctional", "juvenile", "nursing", "other-institutional"))
#: A householder is one, whether alone or not.
_RELSHIP: Says = {
    "20": "Householder",
    **{str(19 + i): label for i, label in enumerate(RELATIONSHIPS.values()) if i >= 2},
    "37": "In institutional group quarters",
    "38": "In noninstitutional group quarters",
}
_LIVE_ALONE: Says = {"1": "lives alone", "2": "does not live alone", "0": "in group quarters"}


def person_form() -> MicrodataForm:
    """16 fields."""
    home, away = len(RELATIONSHIPS), len(quarters.TYPES)
    of_relgq: dict[str, tuple[Sequence[str], Says]] = {
        "RTYPE": (["3"] * home + ["5"] * away, WHERE_LIVING),
        "GQTYPE": (["000"] * home + list(_GQ_CODES), _QUARTERS),
        "RELSHIP": (
            ["20", *(str(19 + i) for i in range(1, home))]
            + ["37"] * _INSTITUTIONAL
            + ["38"] * (away - _INSTITUTIONAL),
            _RELSHIP,
        ),
        "LIVE_ALONE": (["1"] + ["2"] * (home - 1) + ["0"] * away, _LIVE_ALONE),
    }
    columns = {
        name: CodedColumn.follows(name, DHCP, ("relgq",), np.array(code), says)
        for name, (code, says) in of_relgq.items()
    }
    coded = {
        "QSEX": ("sex", ("1", "2")),
        "QAGE": ("age", ages(0)),
        "CENHISP": ("hispanic", ("1", "2")),
        "CENRACE": ("cenrace", tuple(f"{i:02d}" for i in range(1, 64))),
    }
    columns |= {name: CodedColumn.for_attribute(name, DHCP, *of) for name, of in coded.items()}
    order = ("RTYPE", "GQTYPE", "RELSHIP", *coded, "LIVE_ALONE")
    return MicrodataForm(
        "DHC microdata detail file, persons",
        tuple(columns[name] for name in order),
        HEAD,
        (SERIAL, *order),
        TABULATION,
        constants={"SCHEMA_TYPE_CODE": "MPD"},
        says={
            "GQTYPE": "type of group quarters",
            "RELSHIP": "relationship to the householder",
            "LIVE_ALONE": "whether a person in a household lives alone",
        },
    )


# --- units

#: The fields of a unit after its place, and what those say that carry no attribute.
UNIT_FIELDS = {
    "RTYPE": "kind of record",
    "GQTYPE": "type of group quarters",
    "TEN": "tenure",
    "VACS": "vacancy status",
    "HHSIZE": "persons",
    "HHT": "household or family type",
    "HHT2": "household type, with cohabiting couples",
    "CPLT": "couple type",
    "UPART": "presence of an unmarried partner",
    "MULTG": "three or more generations",
    "THHLDRAGE": "age of householder",
    "THHSPAN": "Hispanic origin of householder",
    "THHRACE": "race of householder",
    "PAOC": "presence and age of own children under 18",
    "TP18": "anyone under 18",
    "TP60": "anyone of 60 and over",
    "TP65": "anyone of 65 and over",
    "TP75": "anyone of 75 and over",
    "PAC": "presence and age of children under 18 but householder, spouse or partner",
    "HHSEX": "sex of householder",
}
_UNIT: Says = {"2": "housing unit", "4": "group-quarters facility"}

_HHT: Says = {
    "1": "Married couple household",
    "2": "Other family household, male householder",
    "3": "Other family household, female householder",
    "4": "Nonfamily household, male householder, living alone",
    "5": "Nonfamily household, male householder, not living alone",
    "6": "Nonfamily household, female householder, living alone",
    "7": "Nonfamily household, female householder, not living alone",
}
_HHT2: Says = {
    "01": "Married couple, with own children under 18",
    "02": "Married couple, none",
    "03": "Cohabiting couple, with own children under 18",
    "04": "Cohabiting couple, none",
    **{
        f"{first + i:02d}": f"{who} householder, no spouse or partner, {with_whom}"
        for first, who in ((5, "Female"), (9, "Male"))
        for i, with_whom in enumerate(
            (
                "living alone",
                "with own children under 18",
                "with relatives, no own children under 18",
                "no relatives present",
            )
        )
    },
}
_UPART: Says = {
    "0": "Living alone",
    "1": "Male householder, male partner",
    "2": "Male householder, female partner",
    "3": "Female householder, female partner",
    "4": "Female householder, male partner",
    "5": "No unmarried partner",
}
_CPLT: Says = {
    "0": "Living alone",
    **{str(i): label for i, label in enumerate(COUPLES.values(), 1)},
}
_MULTG: Says = {
    "0": "One or two persons",
    "1": "Fewer than three generations",
    "2": "Three or more generations",
}
_CHILDREN: Says = {"1": RANGES[1], "2": RANGES[2], "3": RANGES[3], "4": RANGES[0]}


def hht(t: HouseholdType, female: bool) -> str:
    """Household or family type, as files code it."""
    if t.married:
        return "1"
    if t.relatives:
        return "3" if female else "2"
    return str((4 if t.alone else 5) + 2 * female)


def hht2(t: HouseholdType, female: bool) -> str:
    """Household type with cohabiting couples."""
    if t.married or t.cohabiting:
        return f"{(1 if t.married else 3) + (not t.own):02d}"
    return (
        f"{(5 if female else 9) + (0 if t.alone else 1 if t.own else 2 if t.relatives else 3):02d}"
    )


def _upart(t: HouseholdType, female: bool) -> str:
    if t.cohabiting:
        return str((1 if t.couple == "CS" else 2) + 2 * female)
    return "0" if t.alone else "5"


#: Fields that follow from the type of household, and from it and the sex of the householder.
_OF_TYPE: Mapping[str, tuple[Callable[[HouseholdType], str], Says]] = {
    "HHSIZE": (lambda t: str(t.size), {str(n): persons(n) for n in range(1, 8)}),
    "CPLT": (lambda t: "0" if t.alone else str(1 + tuple(COUPLES).index(t.couple)), _CPLT),
    "MULTG": (lambda t: str(1 + t.multig) if t.size > 2 else "0", _MULTG),
    "PAOC": (lambda t: str(t.own or 4), _CHILDREN),
    "TP18": (lambda t: str(t.minor), _NO_YES),
    "PAC": (lambda t: str(t.children or 4), _CHILDREN),
}
_OF_SEX_AND_TYPE: Mapping[str, tuple[Callable[[HouseholdType, bool], str], Says]] = {
    "HHT": (hht, _HHT),
    "HHT2": (hht2, _HHT2),
    "UPART": (_upart, _UPART),
}


def household_form() -> MicrodataForm:
    """27 fields; ``TEN`` 3 is any rent, or none."""
    columns = [
        CodedColumn.for_attribute("HHSEX", DHCH, SEX.name, ("1", "2")),
        CodedColumn.for_attribute("THHLDRAGE", DHCH, HHAGE.name, tuple(map(str, range(1, 10)))),
        CodedColumn.for_attribute("THHSPAN", DHCH, HISP.name, ("1", "2")),
        CodedColumn.for_attribute(
            "THHRACE", DHCH, RACE.name, tuple(f"{i:02d}" for i in range(1, 8))
        ),
        CodedColumn.for_attribute("TEN", DHCH, TENURE.name, ("1", "2", "3")),
    ]
    for i, field in enumerate(("TP60", "TP65", "TP75")):
        code = np.where(np.arange(4) > i, "1", "0")
        columns.append(CodedColumn.follows(field, DHCH, ("elderly",), code, _NO_YES))
    for field, (code_of, says) in _OF_TYPE.items():
        columns.append(
            CodedColumn.follows(
                field, DHCH, (HHTYPE.name,), np.array([code_of(t) for t in TYPES]), says
            )
        )
    for field, (code_by, says) in _OF_SEX_AND_TYPE.items():
        code = np.array([[code_by(t, female) for t in TYPES] for female in (False, True)])
        columns.append(CodedColumn.follows(field, DHCH, (SEX.name, HHTYPE.name), code, says))
    return _unit_form("households", columns, {"RTYPE": "2", "GQTYPE": "000", "VACS": _NIU})


def unit_form() -> MicrodataForm:
    """27 fields, those of a household all 0: of vacant units and of group quarters."""
    vacant, occupied, away = len(VACANCIES), len(TENURES), len(quarters.TYPES)
    housing = occupied + vacant
    code: dict[str, tuple[list[str], Says]] = {
        "RTYPE": (["2"] * housing + ["4"] * away, _UNIT),
        "GQTYPE": (["000"] * housing + list(_GQ_CODES), _QUARTERS),
        "TEN": (
            [*"1234"] + [_NIU] * (vacant + away),
            {_NIU: _NONE, **dict(zip("1234", TENURES.values(), strict=True))},
        ),
        "VACS": (
            [_NIU] * occupied + [*"1234567"] + [_NIU] * away,
            {_NIU: "not vacant", **dict(zip("1234567", VACANCIES.values(), strict=True))},
        ),
    }
    columns = [
        CodedColumn.follows(n, TENVACGQ, ("tenvacgq",), np.array(c), says)
        for n, (c, says) in code.items()
    ]
    zeros = {
        field: "00" if field in ("HHT2", "THHRACE") else _NIU
        for field in UNIT_FIELDS
        if field not in code
    }
    return _unit_form("other units", columns, zeros)


def _unit_form(records: str, columns: Sequence[CodedColumn], constants: Says) -> MicrodataForm:
    return MicrodataForm(
        f"DHC microdata detail file, {records}",
        tuple(columns),
        HEAD,
        tuple(UNIT_FIELDS),
        TABULATION,
        constants={"SCHEMA_TYPE_CODE": "MUD", **constants},
        says=UNIT_FIELDS,
    )


# The records of the file of units: of the households those that pay rent, or own, and those that
# pay none; vacant units; facilities.
#
# A record is one cell of three kinds that follow each other:
#
# ====================  ==========================  =============================
# first cell            cells of                    records
# ====================  ==========================  =============================
# 0                     ``dhch``                    households
# :data:`NO_CASH_RENT`  ``dhch``                    households that pay no cash rent
# :data:`OTHERS`        ``tenvacgq``, from its 5th  vacant units, and facilities
# ====================  ==========================  =============================
#
# So the file is the histogram of them by block, and the histogram follows from the file. Households
# know three classes of tenure, and units four. No count says which of a block's rented households are
# in the fourth class; a program that joins the two must draw them.

NO_CASH_RENT, OTHERS = DHCH.cells, 2 * DHCH.cells
CELLS = OTHERS + TENVACGQ.cells
#: First cell and schema of each kind, and which kind a record with a code of ``TEN`` is of.
KINDS: tuple[tuple[int, Schema], ...] = ((0, DHCH), (NO_CASH_RENT, DHCH), (OTHERS, TENVACGQ))
KIND_OF_TEN = {"0": 2, "1": 0, "2": 0, "3": 0, "4": 1}
_RENTED, _FREE = TENURE.levels.index("rented"), tuple(TENURES).index("no-cash-rent")
_NOBODY = "no household"


# --- the file


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


def _column(form: MicrodataForm, name: str, label: str) -> CodedColumn:
    found = [c for c in form.columns if c.name == name]
    return found[0] if found else CodedColumn.constant(name, form.constants[name], label)


def _says(parts: Sequence[CodedColumn]) -> dict[str, str]:
    """What the codes of a column mean in the whole file: as units say it, where they do."""
    out: dict[str, str] = {}
    for (_, schema), column in zip(KINDS, parts, strict=True):
        for code, label in column.meaning(schema).items():
            out[code] = f"{out[code]}, or {label}" if label == _NOBODY and code in out else label
    return dict(sorted(out.items()))


# --- the counts


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
            without rent."""
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
    units = Histogram.from_triplets(
        records.units,
        TENVACGQ.cells,
        unit,
        np.concatenate([others.cell - OTHERS, tenure]),
        np.concatenate([others.count, households.count]),
    )
    return units, Histogram.from_triplets(
        records.units, DHCH.cells, households.unit, cell, households.count
    )


def _tenure(cell: NDArray[np.int64]) -> NDArray[np.int64]:
    return DHCH.query(TENURE.name).at(cell)


def _those(h: Histogram, which: NDArray[np.bool_]) -> Histogram:
    return Histogram.from_triplets(h.units, h.cells, h.unit[which], h.cell[which], h.count[which])


def _added(parts: Sequence[tuple[Histogram, int, int]], cells: int) -> Histogram:
    """Their sum, with the first cell of each and how many times it counts."""
    unit, cell, count = (
        np.concatenate(x)
        for x in zip(
            *((h.unit, h.cell + first, times * h.count) for h, first, times in parts), strict=True
        )
    )
    return Histogram.from_triplets(parts[0][0].units, cells, unit, cell, count)
