"""A DHC run compared with the truth: everything under ``confidential/evaluation/``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.evaluate.impossible import Flags, Ints, LowestCounts, merged, of_counts, row_of
from das.files import rows_csv
from das.files.run import tallies
from das.files.run.run_directory import RunDirectory
from das.model.error_rows import ErrorRow, FigureRow, ImpossibleRow
from das.model.frozen import NoRepr, NoReprRows
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.plan import Plan
from das.publications.dhc.model.figures import GROUPS, MEDIANS, NO_WOMEN, SCHEMAS, of_group
from das.publications.dhc.model.households import DHCH, HHAGE, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.truth.evaluation import PublishedCounts, TrueCounts, figures, query_errors
from das.truth.assessment import over_tree

# Results of the DHC that cannot be, or hardly: persons and households are estimated
# apart.
#
# Of tracts and counties: more householders of some kind than persons, more couples than there can be,
# children and no women, ...; of the lowest units the conditions of :mod:`das.evaluate.impossible`.
# Conditions and universes are those of the Bureau's Inconsistency Tables of 2023-04-03, with their
# numbers in brackets. Not here: 1 (no State's total differs, by construction) and 21 (which group
# quarters are those of adults is not said). A median age is that of single years, interpolated within
# the year in which it falls.

REASON = "impossible results are counted in the truth as well, for confidential/ only"
#: Levels whose areas are counted. The first must be counties, because two conditions concern them.
LEVELS = ("County", "Tract")
#: Areas counted at once.
AREAS = 1024
#: What is asked of households.
_HOUSEHOLDS = ("sex", "hhage", "hisp", "race", "minor", "coupled_hh_type", "hhsize_all")
#: The least age of each group of householders.
_FIRST_AGES = [int(level.split("-")[0]) for level in HHAGE.levels]
#: A condition, the areas of its universe, and those that meet it.
_Found = tuple[str, Flags, Flags]


def dhc_impossible(
    truth: TrueCounts, published: PublishedCounts, levels: Sequence[str]
) -> list[ImpossibleRow]:
    """Rows of ``impossible.csv``, by universe (``persons``, ``units``, ``households``) and level;
    the last of ``levels`` is the lowest one."""
    known = {name: {lv: of[lv].open(REASON) for lv in levels} for name, of in truth.items()}
    rows, lowest = [], levels[-1]
    for level in (lv for lv in LEVELS if lv in levels):
        true, out = ((h["persons"][level], h["households"][level]) for h in (known, published))
        rows += _of_areas(true, out, level)
    before, after = (_lowest(h["persons"][lowest], h["units"][lowest]) for h in (known, published))
    return [*rows, *of_counts(before, after, lowest)]


def _lowest(persons: Histogram, units: Histogram) -> LowestCounts:
    adults = persons.answer(DHCP.query("votingage"))[:, 1]
    household = persons.answer(DHCP.query("hhinstlevels"))[:, 0]
    occupied, vacant, _ = units.answer(TENVACGQ.query("unit_class")).T
    return LowestCounts(persons.totals(), adults, household, occupied, occupied + vacant)


# --- areas


@dataclass(frozen=True, eq=False, repr=False)
class CountedAreas(NoRepr):
    """Counts of some areas.

    ``persons`` is ``(areas, sex, age, origin, race)``, and those in households are ``(areas,)``.
    ``households`` has the groups that the conditions need, ``(areas, groups)``."""

    persons: Ints
    housed: Ints
    households: Mapping[str, Ints]

    @staticmethod
    def from_counts(persons: Histogram, households: Histogram) -> CountedAreas:
        query = DHCP.query("sex * age * hispanic * race7")
        people = persons.answer(query).reshape(-1, *(n for n in query.shape if n > 1))
        housed = persons.answer(DHCP.query("hhinstlevels"))[:, 0]
        return CountedAreas(
            people, housed, {name: households.answer(DHCH.query(name)) for name in _HOUSEHOLDS}
        )

    @cached_property
    def total(self) -> Ints:
        return self.persons.sum(axis=(1, 2, 3, 4))

    @cached_property
    def by_age(self) -> Ints:
        """By sex and age."""
        return self.persons.sum(axis=(3, 4))

    @cached_property
    def of_groups(self) -> Ints:
        """By group, sex and age, ``(areas, groups, sexes, ages)``."""
        races = np.moveaxis(self.persons.sum(axis=3), 3, 1)
        hispanic = self.persons[:, :, :, 1].sum(axis=3)
        return np.concatenate(
            [races, hispanic[:, None], self.persons[:, :, :, 0, 0][:, None]], axis=1
        )

    def couples(self, *kinds: str) -> Ints:
        groups = next(g.groups for g in DHCH.recodes if g.name == "coupled_hh_type")
        return self.households["coupled_hh_type"][:, [groups.index(kind) for kind in kinds]].sum(
            axis=1
        )


def _of_areas(
    true: tuple[Histogram, Histogram], out: tuple[Histogram, Histogram], level: str
) -> list[ImpossibleRow]:
    """Some areas at a time: their persons by sex, age, origin and race are 3,248 numbers each."""
    rows: list[ImpossibleRow] = []
    for start in range(0, true[0].units, AREAS):
        stop = min(start + AREAS, true[0].units)
        before, after = (
            _conditions(CountedAreas.from_counts(*(h.rows(start, stop) for h in both)), level)
            for both in (true, out)
        )
        for (name, *flags), (_, *flags_out) in zip(before, after, strict=True):
            rows.append(row_of(name, level, *flags, *flags_out))
    return merged(rows)


def _conditions(c: CountedAreas, level: str) -> Iterator[_Found]:
    if level == "Tract":
        yield from _persons_and_households(c)
        yield from _householders(c)
        yield from _of_one_kind(c)
    small, women = _small_and_women(c.by_age)
    yield "children under 5, no women of 18 to 44 (14)", small >= 5, women == 0
    small, women = _small_and_women(c.of_groups)
    enough, apart = _medians_apart(c.of_groups)
    for i, group in enumerate(GROUPS):
        yield of_group(NO_WOMEN, group), small[:, i] >= 5, women[:, i] == 0
        yield of_group(MEDIANS, group), enough[:, i], apart[:, i]


def _persons_and_households(c: CountedAreas) -> Iterator[_Found]:
    sizes = c.households["hhsize_all"]
    every = np.ones(len(c.total), dtype=bool)
    yield "more households than persons in them (2)", every, sizes.sum(axis=1) > c.housed
    least = (sizes * np.arange(1, sizes.shape[1] + 1)).sum(axis=1)
    yield (
        "more persons by the sizes of households than persons in them (2)",
        every,
        least > c.housed,
    )


def _householders(c: CountedAreas) -> Iterator[_Found]:
    """Conditions on areas with persons, none of them in group quarters."""
    of, h = (c.total > 0) & (c.housed == c.total), c.households
    sexes, ages = c.by_age.sum(axis=2), c.by_age.sum(axis=1)
    of_age: Ints = np.add.reduceat(ages, _FIRST_AGES, axis=1)
    races, hispanic = c.persons.sum(axis=(1, 2, 3)), c.persons[:, :, :, 1].sum(axis=(1, 2, 3))
    couples, married = c.couples("MO"), c.couples("MO", "MS")
    for name, met in (
        ("more householders of a race than persons (6)", (h["race"] > races).any(axis=1)),
        ("more Hispanic householders than persons (7)", h["hisp"][:, 1] > hispanic),
        ("more householders of an age than persons (8)", (h["hhage"] > of_age).any(axis=1)),
        ("more female householders than women (9)", h["sex"][:, 1] > sexes[:, 1]),
        (
            "more households with minors than minors (10)",
            h["minor"][:, 1] > ages[:, :18].sum(axis=1),
        ),
        ("more opposite-sex married couples than males (11)", couples > sexes[:, 0]),
        ("more opposite-sex married couples than females (12)", couples > sexes[:, 1]),
        (
            "married couples of more than all of 15 and over (13)",
            2 * married > ages[:, 15:].sum(axis=1),
        ),
    ):
        yield name, of, np.asarray(met)


def _of_one_kind(c: CountedAreas) -> Iterator[_Found]:
    minors, nobody = c.by_age[:, :, :18], c.by_age[:, :, :18] == 0
    yield "all of the same sex (16)", c.total >= 5, (c.by_age.sum(axis=2) == 0).any(axis=1)
    yield (
        "nobody of some age under 18 and sex (17)",
        minors.sum(axis=(1, 2)) >= 200,
        np.asarray(nobody.any(axis=(1, 2))),
    )


def _small_and_women(by_age: Ints) -> tuple[Ints, Ints]:
    """Children under 5, and women of 18 to 44, of ``(..., sexes, ages)``."""
    return by_age[..., :5].sum(axis=(-2, -1)), by_age[..., 1, 18:45].sum(axis=-1)


def _medians_apart(by_age: Ints) -> tuple[Flags, Flags]:
    """Where there are five of each sex, and where their median ages are at least 20 years apart."""
    median = medians(by_age)
    return np.all(by_age.sum(axis=-1) >= 5, axis=-1), np.asarray(
        np.abs(median[..., 0] - median[..., 1]) >= 20
    )


def medians(by_age: Ints) -> NDArray[np.float64]:
    """The median age of persons in single years, ``(..., ages)``: those of an age are spread evenly
    over its year. 0 where there is nobody.

    >>> medians(np.array([[0, 1, 1], [4, 0, 0]]))
    array([2. , 0.5])"""
    upto, half = np.cumsum(by_age, axis=-1), by_age.sum(axis=-1) / 2
    age = (upto >= half[..., None]).argmax(axis=-1)
    here = np.take_along_axis(by_age, age[..., None], axis=-1)[..., 0]
    before = np.take_along_axis(upto, age[..., None], axis=-1)[..., 0] - here
    return np.asarray(age + (half - before) / np.maximum(here, 1))


#: In ``confidential/evaluation/``.
FIGURES, IMPOSSIBLE = "figures.csv", "impossible.csv"


@dataclass(frozen=True, repr=False)
class DhcErrors(NoRepr):
    """What the comparison found: figures, impossible results, and errors of measured queries by
    universe."""

    figures: Sequence[FigureRow]
    odd: Sequence[ImpossibleRow]
    queries: Mapping[str, Sequence[ErrorRow]]


def dhc_errors(
    truth: TrueCounts,
    published: PublishedCounts,
    levels: Sequence[str],
    measured: Mapping[str, tuple[MeasuredSpine, Plan]],
) -> DhcErrors:
    """``truth`` and ``published`` are by universe (``persons``, ``units``, ``households``) and
    level. ``levels`` are the levels of the published spine, root first. ``measured`` has, by
    universe, the measured tree and the plan."""
    queries = {}
    for name, (tree, plan) in measured.items():
        true, out = over_tree(tree, truth[name], published[name])
        queries[name] = NoReprRows(query_errors(true, out, tree, SCHEMAS[name], plan))
    return DhcErrors(
        NoReprRows(figures(truth, published, levels)),
        NoReprRows(dhc_impossible(truth, published, levels)),
        queries,
    )


def write(errors: DhcErrors, directory: RunDirectory, private: bool) -> None:
    """Write ``figures.csv``, ``impossible.csv``, and ``errors.csv`` (``errors-<name>.csv`` for
    other universes)."""
    folder = directory.errors.parent
    rows_csv.write_rows(folder / FIGURES, FigureRow, errors.figures, private=private)
    rows_csv.write_rows(folder / IMPOSSIBLE, ImpossibleRow, errors.odd, private=private)
    for name, rows in errors.queries.items():
        tallies.write_errors(directory.errors_of(name), rows, private=private)
