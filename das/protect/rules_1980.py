r"""The suppression rules of the 1980 census, for the tables of 2010.

Races are first the seven groups: White; Black, American Indian and Alaska Native, Asian, Native
Hawaiian and Other Pacific Islander, some other race, each alone or with White only; all others. The
tables by race of the set are replaced by four of these groups: race and origin by race, of all
persons and of the adults. Then, for each place,

* (a) a count of 1 or 2 persons of a race, or of an origin and race, is printed as 0;
* (b) the table of adults by race is withheld where a race has 1 to 14 persons; the one by origin
  and race, where an origin and race has;
* (c) every other table of persons is withheld where the place has 1 to 14 persons.

Totals, and persons of Hispanic origin, are always shown. There is no complementary suppression.

Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
Census: Full Technical Report (2025), appendix D. Its table 18 C repeats table 19 A: the rate there
is one of whole tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.grouping import Grouping
from das.model.redistricting import CENRACE
from das.model.schema import RACES, Schema
from das.model.tabulation import LabelledWhere, Tabulation, Where
from das.protect.published import LevelLines
from das.protect.table_set import TableSet
from das.protect.withheld import withheld
from das.tables import Table, table

#: The tables by race, all persons and adults, of each schema that has them.
_BY_RACE = {"sf1": ("P8", "P9", "P10", "P11"), "pl94": ("P1", "P2", "P3", "P4")}
#: Counts of a race up to FEW are printed as 0; places of up to SMALL persons have no other table.
FEW, SMALL = 2, 14
_ADULT: Where = {"votingage": ("18-and-over",)}


def races() -> Grouping:
    """The seven groups."""
    white = RACES[0]
    groups = {white: [white], **{r: [r, f"{white}+{r}"] for r in RACES[1:]}}
    listed = [c for members in groups.values() for c in members]
    groups["others"] = [c for c in CENRACE if c not in listed]
    return Grouping.of("race1980", "cenrace", CENRACE, groups, "races of 1980")


def tables_1980(tables: TableSet) -> TableSet:
    """The set with its tables by race in the seven groups. Raises :class:`SpecError` for a schema
    without these tables."""
    schema = tables.schema
    if schema.name not in _BY_RACE:
        raise SpecError(
            f"the rules of 1980 are about tables by race, and schema {schema.name!r} has others",
            where="method suppression",
            remedy=f"use the tables of {' or '.join(_BY_RACE)}, or another rule",
        )
    old, new = _BY_RACE[schema.name], _by_race(schema)
    return TableSet(
        f"{tables.name}, races of 1980",
        schema,
        {
            level: (*new, *(t for t in here if t.name not in old))
            for level, here in tables.tables.items()
        },
    )


def _by_race(schema: Schema) -> tuple[Table, ...]:
    """The total and those of Hispanic origin; race, and origin by race, of all and of adults."""
    grouped = replace(schema, recodes=(*schema.recodes, races()))
    hispanic: LabelledWhere = ("Hispanic or Latino", {"hispanic": ("hispanic",)})
    asked = (
        Tabulation("A0", "Total and origin", columns=(("Total", {}), hispanic)),
        Tabulation("A1", "Race", "race1980", total=False),
        Tabulation("A2", "Origin and race", "hispanic * race1980", total=False),
        Tabulation("A3", "Race, 18 years and over", "race1980", where=_ADULT),
        Tabulation("A4", "Origin and race, 18 years and over", "hispanic * race1980", where=_ADULT),
    )
    return tuple(table(t, grouped) for t in asked)


def by_the_rules(lines: LevelLines, names: list[str]) -> LevelLines:
    """Exact lines of :func:`tables_1980` under the rules. ``names``: the table of each line."""
    t, name = lines.value, np.array(names)
    few = np.isin(name, ("A1", "A2")) & (t <= FEW)
    shown = LevelLines(np.where(few, 0, t), np.where(few, FEW, t), np.where(few, 0, t))
    hidden = np.zeros(t.shape, dtype=bool)
    for adults, everybody in (("A3", "A1"), ("A4", "A2")):
        groups = _small(t[:, name == everybody])
        hidden[:, name == adults] = groups.any(axis=1, keepdims=True)
    others = ~np.isin(name, ("A0", "A1", "A2", "A3", "A4"))
    hidden[:, others] = _small(t[:, [0]])
    return withheld(shown, hidden)


def _small(t: NDArray[np.int64]) -> NDArray[np.bool_]:
    out: NDArray[np.bool_] = (t > 0) & (t <= SMALL)
    return out
