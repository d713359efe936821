"""The cells that the S-DHC publishes: each a sum of answers, or a ratio of two sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from das.publications.sdhc.model.tables import EXCESS, EXCESS_CHILDREN, ITERATIONS, LEFT_OUT, TABLES

TITLES: Mapping[str, str] = {
    "PH1": "Average household size by age",
    "PH2": "Household type for the population in households",
    "PH3": "Household type by relationship for the population under 18 years in households",
    "PH4": "Population in families by age",
    "PH5": "Average family size by age",
    "PH6": "Family type and age for own children under 18 years",
    "PH7": "Total population in occupied housing units by tenure",
    "PH8": "Average household size of occupied housing units by tenure",
    EXCESS: "Persons that tables leave out, because their address has too many",
    EXCESS_CHILDREN: "Children that PH3 and PH6 leave out, because their address has too many",
}
_AGES = {1: "Total", 2: "Under 18 years", 3: "18 years and over"}
_BANDS = ("Under 4 years", "4 and 5 years", "6 to 11 years", "12 to 17 years")
_FAMILIES = (
    "In married couple families",
    "In cohabiting couple families",
    "In male householder, no spouse or partner present, families",
    "In female householder, no spouse or partner present, families",
)
#: By table and cell, what it is called.
LABELS: Mapping[str, Mapping[int, str]] = {
    "PH1": _AGES,
    "PH2": {
        1: "Total",
        2: "In married couple household",
        3: "Opposite-sex spouse",
        4: "Same-sex spouse",
        5: "In cohabiting couple household",
        6: "Opposite-sex partner",
        7: "Same-sex partner",
        8: "Male householder, no spouse or partner present",
        9: "Living alone",
        10: "Living with others",
        11: "Female householder, no spouse or partner present",
        12: "Living alone",
        13: "Living with others",
    },
    "PH3": {
        1: "Total",
        2: "Householder, spouse, partner, or nonrelative",
        3: "Own child",
        **dict(enumerate(_FAMILIES, 4)),
        8: "Other relatives",
        9: "Grandchild",
        10: "Other relatives",
    },
    "PH4": _AGES,
    "PH5": _AGES,
    "PH6": {1: "Total"}
    | {2 + 5 * f: name for f, name in enumerate(_FAMILIES)}
    | {3 + 5 * f + b: band for f in range(4) for b, band in enumerate(_BANDS)},
    "PH7": {1: "Total", 2: "Owned with a mortgage or a loan", 3: "Owned free and clear", 4: "Renter occupied"},
    "PH8": {1: "Total", 2: "Owner occupied", 3: "Renter occupied"},
    EXCESS: _AGES,
    EXCESS_CHILDREN: {2: _AGES[2]},
}  # fmt: skip
#: By table and cell that is a sum, the cells that it sums.
_SUMS: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    "PH2": {2: (3, 4), 5: (6, 7), 8: (9, 10), 11: (12, 13)},
    "PH3": {3: (4, 5, 6, 7), 8: (9, 10)},
    "PH6": {2 + 5 * f: tuple(range(3 + 5 * f, 7 + 5 * f)) for f in range(4)},
}
#: Of tables of ratios, the tables and cells above and below the line.
_RATIOS: Mapping[str, tuple[str, Mapping[int, tuple[int, ...]], str, Mapping[int, tuple[int, ...]]]]
_RATIOS = {
    "PH1": ("PH1_num", {1: (2, 3), 2: (2,), 3: (3,)}, "PH1_denom", dict.fromkeys((1, 2, 3), (1,))),
    "PH5": ("PH4", {1: (2, 3), 2: (2,), 3: (3,)}, "PH5_denom", dict.fromkeys((1, 2, 3), (1,))),
    "PH8": ("PH7", {1: (2, 3, 4), 2: (2, 3), 3: (4,)}, "PH8_denom", {1: (2, 3), 2: (2,), 3: (3,)}),
}


@dataclass(frozen=True)
class PublishedCell:
    """``above`` is the sum of some cells of a measured table; a ratio has one ``below``, too.
    ``least``: the smallest value that it can have."""

    table: str
    iteration: str
    cell: int
    above: tuple[str, tuple[int, ...]]
    below: tuple[str, tuple[int, ...]] | None = None
    least: int = 0

    @property
    def label(self) -> str:
        return LABELS[self.table][self.cell]


@dataclass(frozen=True)
class CellEstimate:
    """An estimate with its interval; ``error``: the standard error of a count. What is not known is
    ``None``. ``fitted``: from the non-negative estimates."""

    region: str
    cell: PublishedCell
    value: float | None
    error: float | None
    low: float | None
    high: float | None
    fitted: float | None


@cache
def published() -> tuple[PublishedCell, ...]:
    """All cells of a region, table by table."""
    return tuple(cell for table in TITLES if table not in LEFT_OUT for cell in _cells(table))


def _cells(table: str) -> Iterator[PublishedCell]:
    if table in _RATIOS:
        above, cells, below, under = _RATIOS[table]
        for i in ITERATIONS:
            for c, of in cells.items():
                # everybody is in a household of one, and in a family of two, at least
                least = (2 if table == "PH5" else 1) if c == 1 or table == "PH8" else 0
                yield PublishedCell(table, i, c, (above, of), (below, under[c]), least)
        return
    measured = TABLES[table]
    sums = {c: (c,) for c in measured.cells} | {1: measured.cells, **_SUMS.get(table, {})}
    for i in ITERATIONS if measured.grouped else ("*",):
        for c in sorted(sums):
            yield PublishedCell(table, i, c, (table, tuple(sums[c])))
