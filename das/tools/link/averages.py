"""Average sizes of linked households, which neither file of the DHC publishes: persons of a
household with 7 or more are known only once they are linked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from das.errors import InputError
from das.files import atomic, csv_text
from das.files import codes as texts
from das.files.release.tables import GEOCODE, identifiers, quoting
from das.model.frozen import Frozen
from das.model.not_private import CELL, COLUMN, Private
from das.model.spine import Spine
from das.publications.dhc.agreement.counted import (
    MS,
    RELATIVES,
    Floats,
    Ints,
    household_attributes,
    type_fields,
)
from das.publications.dhc.model.households import ATTRIBUTE, DHCH, TENURE
from das.publications.dhc.model.members import HEADS, LEVEL
from das.publications.sdhc.model.published import PublishedCell, published
from das.publications.sdhc.model.tables import GROUPS, TABLES, answers, column
from das.tools.link.people import HomePersons
from das.tools.link.population import LinkedPopulation

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


# Average household and family sizes of a link as tables, for every unit of every level: PH1, PH5 and
# PH8 of the S-DHC, each for all households and for nine iterations by race and origin of the
# householder. The S-DHC itself has them for States.
#
# * PH1: persons per household, all, under 18, 18 and over.
# * PH5: householder and relatives per family, all, under 18, 18 and over.
# * PH8: persons per household, all, of owners, of renters.
#
# What stands above and below each line is defined once, for both, in :mod:`das.publications.sdhc.model.published`.

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


def _averages(answers: Ints, lines: Sequence[PublishedCell]) -> Floats:
    above = np.stack([_summed(answers, x.iteration, *x.above) for x in lines], axis=1)
    many = _below(answers, lines)
    return np.where(many > 0, above / np.maximum(many, 1), np.nan)


def _below(answers: Ints, lines: Sequence[PublishedCell]) -> Ints:
    return np.stack([_summed(answers, x.iteration, *x.below) for x in lines if x.below], axis=1)


def _summed(answers: Ints, iteration: str, table: str, cells: tuple[int, ...]) -> Ints:
    return answers[:, [column(table, iteration, c) for c in cells]].sum(axis=1)


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


# Tables of averages as CSV files, ``PH1_County.csv`` and the like: a row for each unit. For each line
# there is the average, over how many households or families it is (``_n``), and where there are
# replicates its standard error (``_error``). A field is empty where there is no household.
#
# A line is named by its table with the letter of its iteration, and its number: ``PH1_001`` is for all
# households, ``PH1B_001`` for one race.

#: Digits of an average behind the point.
_DIGITS = 4


def write_tables(
    folder: Path, spine: Spine, level: str, tables: Sequence[AverageTable], *, private: Private
) -> list[Path]:
    """Write the tables of a level, all or none; returns their files."""
    codes = {GEOCODE: spine.codes[spine.index(level)], **identifiers(spine, level)}
    places = {name: texts.column(c) for name, c in codes.items()}
    quotes = quoting(known for name, known in places.items() if name != GEOCODE)
    options = pacsv.WriteOptions(include_header=False, quoting_style=quotes)
    paths = [folder / f"{t.name}_{level}.csv" for t in tables]
    with atomic.files(paths) as drafts:
        for table, draft in zip(tables, drafts, strict=True):
            columns = {**places, **dict(_parquet_columns(table))}
            if not private:
                columns[COLUMN] = texts.repeated(CELL, len(table.average))
            with draft.open("wb") as file:
                file.write((",".join(columns) + "\n").encode())
                csv_text.write_table(pa.table(columns), file, options)
    return paths


def line_name(line: PublishedCell) -> str:
    """What a line is called."""
    return f"{line.table}{line.iteration.strip('*')}_{line.cell:03d}"


def _parquet_columns(table: AverageTable) -> Iterator[tuple[str, pa.Array]]:
    for i, line in enumerate(table.lines):
        yield line_name(line), _rounded(table.average[:, i])
        yield f"{line_name(line)}_n", pa.array(table.many[:, i])
        if table.error is not None:
            yield f"{line_name(line)}_error", _rounded(table.error[:, i])


def _rounded(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(np.round(values, _DIGITS), mask=np.isnan(values))
