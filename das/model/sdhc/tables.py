"""The tables of the S-DHC: which answers each region has, and what each of them means.

Nine tables are measured. PH5_num is a copy of PH4, and PH8_num sums cells of PH7. Iterations A to G
are a partition by race; H and I are by origin; ``*`` is everybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

ITERATIONS: Mapping[str, str] = {
    "*": "all",
    "A": "White alone",
    "B": "Black or African American alone",
    "C": "American Indian and Alaska Native alone",
    "D": "Asian alone",
    "E": "Native Hawaiian and Other Pacific Islander alone",
    "F": "Some Other Race alone",
    "G": "Two or More Races",
    "H": "Hispanic or Latino",
    "I": "White alone, not Hispanic or Latino",
}
#: Iterations that share a budget, as a configuration calls them.
GROUPS: Mapping[str, str] = {"A-G": "ABCDEFG", "H,I": "HI", "*": "*"}
#: Levels of regions: PHSafe's, and areas below the state.
USA, STATE, AREA = "usa", "state", "area"
REGION_LEVELS = (USA, STATE)
ALL_LEVELS = (*REGION_LEVELS, AREA)


@dataclass(frozen=True)
class SdhcTable:
    """``cells``: the numbers of those that are measured; ``grouped``: whether there is a table for
    each iteration; ``people``: whether it counts persons, so that households are cut to tau of
    them."""

    name: str
    cells: tuple[int, ...]
    grouped: bool = True
    people: bool = True

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(GROUPS) if self.grouped else ("*",)


#: What truncation leaves out, which PHSafe does not count: persons by age, and the children that the
#: tables of children leave out.
EXCESS, EXCESS_CHILDREN = LEFT_OUT = ("excess", "excess_children")
TABLES: Mapping[str, SdhcTable] = {
    t.name: t
    for t in (
        SdhcTable("PH1_num", (2, 3)),
        SdhcTable("PH1_denom", (1,), people=False),
        SdhcTable("PH2", (3, 4, 6, 7, 9, 10, 12, 13), grouped=False),
        SdhcTable("PH3", (2, 4, 5, 6, 7, 9, 10)),
        SdhcTable("PH4", (2, 3)),
        SdhcTable("PH5_denom", (1,), people=False),
        SdhcTable("PH6", (3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 18, 19, 20, 21), grouped=False),
        SdhcTable("PH7", (2, 3, 4)),
        SdhcTable("PH8_denom", (2, 3), people=False),
        SdhcTable(EXCESS, (2, 3), grouped=False),
        SdhcTable(EXCESS_CHILDREN, (2,), grouped=False),
    )
}
#: The tables that count persons, and so have a threshold.
TRUNCATED = tuple(t.name for t in TABLES.values() if t.people and t.name not in LEFT_OUT)
#: Those of children.
CHILDREN = ("PH3", "PH6")


@dataclass(frozen=True, order=True)
class RegionAnswer:
    """One number of a region."""

    table: str
    iteration: str
    cell: int


@cache
def answers() -> tuple[RegionAnswer, ...]:
    """All answers of a region, in the order of their columns: by table, group, iteration and
    cell."""
    return tuple(
        RegionAnswer(t.name, i, c)
        for t in TABLES.values()
        for group in t.groups
        for i in GROUPS[group]
        for c in t.cells
    )


@cache
def columns(table: str, group: str | None = None) -> tuple[int, ...]:
    """Which answers of a region are of a table, or of one query of it."""
    return tuple(
        n
        for n, a in enumerate(answers())
        if a.table == table and (group is None or a.iteration in GROUPS[group])
    )


@cache
def column(table: str, iteration: str, cell: int) -> int:
    """Which answer of a region this is."""
    return answers().index(RegionAnswer(table, iteration, cell))


def query(table: str, group: str) -> str:
    """What the ledger calls a query.

    >>> query("PH3", "A-G")
    'PH3 A-G'
    """
    return f"{table} {group}"


def queries() -> tuple[tuple[str, str], ...]:
    """Table and group of each query of a region."""
    return tuple((t.name, group) for t in TABLES.values() for group in t.groups)
