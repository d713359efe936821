"""Average household and family sizes of a link as tables, for every unit of every level: PH1, PH5 and
PH8 of the S-DHC, each for all households and for nine iterations by race and origin of the
householder. The S-DHC itself has them for States.

* PH1: persons per household, all, under 18, 18 and over.
* PH5: householder and relatives per family, all, under 18, 18 and over.
* PH8: persons per household, all, of owners, of renters.

What stands above and below each line is defined once, for both, in :mod:`das.model.sdhc.published`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from das.link.averages import family_members, replicate_error
from das.link.fields import Floats, Ints, household_attributes, type_fields
from das.link.population import LinkedPopulation
from das.model.dhc.household_types import ATTRIBUTE
from das.model.dhc.households import TENURE
from das.model.frozen import Frozen
from das.model.sdhc.published import PublishedCell, published
from das.model.sdhc.tables import GROUPS, TABLES, answers, column

#: Iterations by race, in the order of races; Hispanic, and White alone but not Hispanic; all.
_RACES = GROUPS["A-G"]
_ITERATIONS = _RACES + GROUPS["H,I"] + GROUPS["*"]


@dataclass(frozen=True, eq=False)
class AverageTable(Frozen):
    """One table of some units: its ``lines``; the ``average`` of each, NaN over nothing; how
    ``many`` households or families it is over; and its ``error`` from replicates, if there are
    any. Arrays ``(units, lines)``."""

    name: str
    lines: Sequence[PublishedCell]
    average: Floats
    many: Ints
    error: Floats | None


@cache
def lines_of() -> dict[str, tuple[PublishedCell, ...]]:
    """The lines of each table of averages."""
    out: dict[str, list[PublishedCell]] = {}
    for line in published():
        if line.below is not None:
            out.setdefault(line.table, []).append(line)
    return {name: tuple(lines) for name, lines in out.items()}


def average_tables(
    linked: LinkedPopulation, replicates: Sequence[LinkedPopulation], unit: Ints, units: int
) -> list[AverageTable]:
    """All of them. ``unit``: that of each block. Errors are root mean squares of the differences of
    linked ``replicates`` from the link."""
    own = _answers(linked, unit, units)
    others = [_answers(r, unit, units) for r in replicates]
    out = []
    for name, lines in lines_of().items():
        average = _averages(own, lines)
        error = replicate_error(average, [_averages(o, lines) for o in others])
        out.append(AverageTable(name, lines, average, _below(own, lines), error))
    return out


def _averages(found: Ints, lines: Sequence[PublishedCell]) -> Floats:
    above = np.stack([_summed(found, x.iteration, *x.above) for x in lines], axis=1)
    many = _below(found, lines)
    return np.where(many > 0, above / np.maximum(many, 1), np.nan)


def _below(found: Ints, lines: Sequence[PublishedCell]) -> Ints:
    return np.stack([_summed(found, x.iteration, *x.below) for x in lines if x.below], axis=1)


def _summed(found: Ints, iteration: str, table: str, cells: tuple[int, ...]) -> Ints:
    return found[:, [column(table, iteration, c) for c in cells]].sum(axis=1)


def _answers(linked: LinkedPopulation, unit: Ints, units: int) -> Ints:
    """The answers of each unit that averages need, ``(units, answers)``; others are 0."""
    people, home, at = linked.people, linked.household, unit[linked.block]
    of = household_attributes(linked.cell)
    tenure, every = of[TENURE.name], np.arange(len(linked.cell))
    family = np.flatnonzero(type_fields().relatives[of[ATTRIBUTE]] == 1)
    kin = np.flatnonzero(family_members(people) & np.isin(home, family))
    by_age = np.where(people.age < 18, 2, 3)
    one = np.ones(len(every), dtype=np.int64)
    out = np.zeros(units * len(answers()), dtype=np.int64)
    for table, homes, cell in (
        ("PH1_num", home, by_age),
        ("PH1_denom", every, one),
        ("PH4", home[kin], by_age[kin]),
        ("PH5_denom", family, one[family]),
        ("PH7", home, tenure[home] + 2),
        ("PH8_denom", every, np.where(tenure == 2, 3, 2)),
    ):
        for which, iteration in _iterations(of["race"][homes], of["hisp"][homes]):
            answer = _columns(table)[iteration[which], cell[which]]
            index = at[homes[which]] * len(answers()) + answer
            out += np.bincount(index, minlength=len(out))
    return out.reshape(units, len(answers()))


def _iterations(race: Ints, hisp: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Three times the rows that are counted, and the iteration of each row, by its number in
    :data:`_ITERATIONS`."""
    yield np.arange(len(race)), race
    some = np.flatnonzero((hisp == 1) | (race == 0))
    yield some, np.where(hisp == 1, len(_RACES), len(_RACES) + 1)
    yield np.arange(len(race)), np.full(len(race), len(_RACES) + 2)


@cache
def _columns(table: str) -> Ints:
    """The number of each answer of a table, by iteration and cell."""
    cells = TABLES[table].cells
    out = np.zeros((len(_ITERATIONS), max(cells) + 1), dtype=np.int64)
    for i, iteration in enumerate(_ITERATIONS):
        for c in cells:
            out[i, c] = column(table, iteration, c)
    return out
