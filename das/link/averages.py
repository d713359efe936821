"""Average sizes of linked households, which neither file of the DHC publishes: persons of a
household with 7 or more are known only once they are linked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from das.errors import InputError
from das.link.counted import RELATIVES
from das.link.fields import MS, Floats, Ints, household_attributes, type_fields
from das.link.people import HomePersons
from das.link.population import LinkedPopulation
from das.model.dhc.household_types import ATTRIBUTE
from das.model.dhc.households import DHCH
from das.model.dhc.members import HEADS, LEVEL
from das.model.frozen import Frozen
from das.model.spine import Spine

#: What is averaged, in words.
STATISTICS = {
    "household size": "persons per household",
    "family size": "householder and relatives per family",
    "children": "persons under 18 per household",
}
ALL = "all households"
_BY = {
    "hhtenshort_3lev": "tenure",
    "hhage": "age of householder",
    "race": "race of householder",
    "hisp": "origin of householder",
}
_MARRIED = "married couples"


@dataclass(frozen=True)
class AverageRow:
    """The average of a ``statistic`` over the ``households`` of a ``group`` in one unit; with the
    root mean square ``error`` over replicates, ``None`` without."""

    level: str
    geocode: str
    statistic: str
    group: str
    households: int
    average: float
    error: float | None = None

    def __post_init__(self) -> None:
        if self.households < 1 or self.average < 0:
            raise InputError("an average over no households", where=f"{self.level} {self.geocode}")


@dataclass(frozen=True, eq=False)
class GroupSums(Frozen):
    """By statistic and group the sums over the households of each unit of a level, and their
    number, ``(units,)`` each."""

    total: Mapping[tuple[str, str], Ints]
    households: Mapping[tuple[str, str], Ints]

    def average(self, key: tuple[str, str]) -> Floats:
        """NaN where there is no household."""
        many = self.households[key]
        return np.where(many > 0, self.total[key] / np.maximum(many, 1), np.nan)


def sums(linked: LinkedPopulation, unit: Ints, units: int) -> GroupSums:
    """``unit``: that of each block."""
    total: dict[tuple[str, str], Ints] = {}
    many: dict[tuple[str, str], Ints] = {}
    here = unit[linked.block]
    values = _values(linked)
    for group, which in _groups(linked.cell):
        for statistic, (value, counted) in values.items():
            chosen = which & counted
            at = here[chosen]
            total[statistic, group] = np.bincount(
                at, weights=value[chosen], minlength=units
            ).astype(np.int64)
            many[statistic, group] = np.bincount(at, minlength=units)
    return GroupSums(total, many)


def _values(linked: LinkedPopulation) -> dict[str, tuple[Ints, np.ndarray]]:
    """Of each household its value of each statistic, and whether it counts."""
    people, home = linked.people, linked.household
    homes = len(linked.cell)
    kind = household_attributes(linked.cell)[ATTRIBUTE]
    t = type_fields()
    family = family_members(people)
    every = np.ones(homes, dtype=bool)
    return {
        "household size": (linked.size, every),
        "family size": (np.bincount(home[family], minlength=homes), t.relatives[kind] == 1),
        "children": (np.bincount(home[people.age < 18], minlength=homes), every),
    }


def family_members(people: HomePersons) -> np.ndarray:
    """Who counts in the size of a family, if the household is one: the householder, and relatives
    with the spouse among them."""
    spouses = (LEVEL["opposite-sex-spouse"], LEVEL["same-sex-spouse"])
    return np.isin(people.relgq, (*HEADS, *spouses, *RELATIVES))


def _groups(cell: Ints) -> Iterator[tuple[str, np.ndarray]]:
    of = household_attributes(cell)
    yield ALL, np.ones(len(cell), dtype=bool)
    for name, said in _BY.items():
        attribute = DHCH.attribute(name)
        for i, label in enumerate(attribute.labels):
            yield f"{said}: {label}", of[name] == i
    yield _MARRIED, type_fields().couple[of[ATTRIBUTE]] <= MS


def units_of_blocks(spine: Spine) -> Mapping[str, Ints]:
    """For each level the unit of each block."""
    out = {spine.levels[-1]: np.arange(len(spine.codes[-1]))}
    for depth in range(len(spine) - 1, 0, -1):
        below = out[spine.levels[depth]]
        out[spine.levels[depth - 1]] = np.asarray(spine.parent[depth])[below]
    return {level: out[level] for level in spine.levels}


def average_rows(
    spine: Spine, linked: LinkedPopulation, replicates: list[LinkedPopulation]
) -> list[AverageRow]:
    """All averages of all levels; their errors from linked ``replicates`` of the release, if there
    are any: of each the difference from the link of the release."""
    rows = []
    for level, unit in units_of_blocks(spine).items():
        many = spine.units(level)
        own, others = sums(linked, unit, many), [sums(r, unit, many) for r in replicates]
        codes = spine.geocodes(level)
        for (statistic, group), households in own.households.items():
            average = own.average((statistic, group))
            error = replicate_error(average, [o.average((statistic, group)) for o in others])
            for u in np.flatnonzero(households).tolist():
                found = None if error is None or np.isnan(error[u]) else float(error[u])
                rows.append(
                    AverageRow(
                        level,
                        str(codes[u]),
                        statistic,
                        group,
                        int(households[u]),
                        float(average[u]),
                        found,
                    )
                )
    return rows


def replicate_error(average: Floats, others: list[Floats]) -> Floats | None:
    """The root mean square of the differences of ``others``, where there are any."""
    if not others:
        return None
    apart = np.stack(others) - average
    many = (~np.isnan(apart)).sum(axis=0)
    mean = np.nansum(apart**2, axis=0) / np.maximum(many, 1)
    return np.where(many > 0, np.sqrt(mean), np.nan)
