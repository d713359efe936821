r"""Tables that are finer for larger groups, and the cost of measuring them.

Take a population group level with budget r and stability s. Each of its groups is measured in one
of three ways. Variances are those of discrete Gaussian noise on every answer, and :math:`\gamma` is
the share of the first stage:

======================  =====================================  ==================================
what                    answers                                :math:`\sigma^2`
======================  =====================================  ==================================
total only              1                                      :math:`s / 2r`
first stage             1, which decides the size of the table  :math:`s / 2\gamma r`
second stage            the cells of that size                 :math:`s / 2(1-\gamma)r`
======================  =====================================  ==================================

If an earlier publication decides the size of the table, there is no first stage, and :math:`\gamma
= 0`.

*Privacy.* Add or remove a person. They are in at most s groups of the level. In each group they are
in one cell of the finest table. So one answer changes, by 1, in a table of any size. In one group
the first stage costs :math:`\gamma r / s`. The second stage costs :math:`(1-\gamma) r / s`, *given
any answer of the first*. Composition may be adaptive, so both together cost :math:`r / s`, as much
as a total alone. In s groups they cost r. Levels add up. The loss of the second stage is the same
for every size of the table, because one answer changes by 1. So exact accounting has s draws of
each stage, and needs no bound in between (:mod:`das.accounting.zcdp`). (Geometric noise:
read :math:`\varepsilon` for r, and scale :math:`s/\varepsilon` for :math:`s/2r`.) ∎

Source: Haney et al. (2024), *SafeTab-P*, algorithms 1 to 3 and section 4.2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.frozen import Frozen
from das.model.mechanisms import Mechanism
from das.publications.detailed.model.iterations import REGIONS, GroupLevel, Iterations

#: The queries of a level, as its ledger calls them.
ONLY, FIRST = "total only", "first stage"
#: Classes of groups that are measured differently: without a table, and with one. Their names also
#: tell the run.
TOTALS, TABLES = "totals", "tables"
OF_RUN: Mapping[str, str] = {"us": "", "pr": " (Puerto Rico)"}


@dataclass(frozen=True, eq=False)
class AdaptiveTable(Frozen):
    """A table of ``leaves`` finest cells. Size k has the answers to which ``sizes[k]``
    ``(leaves,)`` sums the leaves: size 0 has only the total, and each size sums the answers of the
    next. ``cells[k]`` says what each answer is, in the columns ``columns``. ``sums`` are also
    published if they are sums of the answers: the words for each, and which leaves are in it."""

    name: str
    columns: tuple[str, ...]
    sizes: tuple[NDArray[np.int16], ...]
    cells: tuple[tuple[tuple[str, ...], ...], ...]
    sums: tuple[tuple[tuple[str, ...], NDArray[np.bool_]], ...] = ()

    def __post_init__(self) -> None:
        for coarse, fine in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            pairs = {(f, c) for f, c in zip(fine.tolist(), coarse.tolist(), strict=True)}
            if sorted(f for f, _ in pairs) != list(range(fine.max() + 1)):
                raise SpecError("a table is not finer than the one before", where=self.name)
        if [len(c) for c in self.cells] != list(self.answers):
            raise SpecError("a table has not as many cells as answers", where=self.name)

    @property
    def leaves(self) -> int:
        return len(self.sizes[0])

    @cached_property
    def answers(self) -> tuple[int, ...]:
        """The number of answers of each size."""
        return tuple(int(of.max()) + 1 for of in self.sizes)


#: The lower ends of age groups, of tables of size 1, 2 and 3; the last one ends with 115.
AGES = (
    (0, 18, 45, 65),
    (0, 5, 18, 25, 35, 45, 55, 65, 75),
    (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
)
OLDEST, ALL_OF_IT = 115, "*"


def _sex_by_age() -> AdaptiveTable:
    """Leaves are men by the finest ages, then women."""
    fine, sizes = np.array(AGES[-1]), [np.zeros(2 * len(AGES[-1]), dtype=np.int16)]
    cells: list[tuple[tuple[str, ...], ...]] = [((ALL_OF_IT,) * 3,)]
    for starts in AGES:
        age = np.searchsorted(starts, fine, side="right") - 1
        sizes.append(np.concatenate([age, age + len(starts)]).astype(np.int16))
        ends = [*(a - 1 for a in starts[1:]), OLDEST]
        cells.append(
            tuple((str(a), str(b), sex) for sex in "12" for a, b in zip(starts, ends, strict=True))
        )
    sexes = np.repeat([0, 1], len(fine))
    sums = tuple(((ALL_OF_IT, ALL_OF_IT, sex), sexes == i) for i, sex in enumerate("12"))
    return AdaptiveTable("t2", ("AGESTART", "AGEEND", "SEX"), tuple(sizes), tuple(cells), sums)


def _of_codes(name: str, column: str, *sizes: tuple[str, ...]) -> AdaptiveTable:
    """Each size as the code of the cell that each leaf is in."""
    numbers = [list(dict.fromkeys(codes)) for codes in sizes]
    index = [
        np.array([known.index(c) for c in codes], dtype=np.int16)
        for known, codes in zip(numbers, sizes, strict=True)
    ]
    codes = {code: np.array([c == code for c in of]) for of in sizes for code in of}
    sums = tuple(((code,), leaves) for code, leaves in codes.items())
    return AdaptiveTable(
        name, (column,), tuple(index), tuple(tuple((c,) for c in known) for known in numbers), sums
    )


SEX_BY_AGE = _sex_by_age()
#: Leaves: a married couple; another family, of a man, of a woman; living alone; not alone.
HOUSEHOLD_TYPE = _of_codes(
    "t3",
    "T3_DATA_CELL",
    ("0",) * 5,
    ("1", "1", "1", "6", "6"),
    ("2", "3", "3", "7", "8"),
    ("2", "4", "5", "7", "8"),
)
#: Leaves: owned with a mortgage, owned free and clear, rented, lived in without rent.
TENURE = _of_codes("t4", "T4_DATA_CELL", ("0",) * 4, ("1", "2", "3", "3"))


@dataclass(frozen=True)
class Product:
    """What is made of one kind of record: ``tables``, and whether their sizes are found by a first
    stage."""

    name: str
    record: str
    letter: str
    tables: tuple[AdaptiveTable, ...]
    staged: bool


PRODUCTS: Mapping[str, Product] = {
    p.name: p
    for p in (
        Product("persons", "person", "p", (SEX_BY_AGE,), staged=True),
        Product("households", "household", "h", (HOUSEHOLD_TYPE, TENURE), staged=False),
    )
}


@dataclass(frozen=True)
class LevelPlan:
    """How the groups of one level are measured for one table. ``first`` is the share of the first
    stage, 0 where there is none; ``cost`` is that of the level, which each group has a
    ``stability``-th of."""

    at: GroupLevel
    table: AdaptiveTable
    mechanism: Mechanism
    stability: int
    cost: Fraction
    first: Fraction
    thresholds: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.stability < 1 or self.cost <= 0 or not 0 <= self.first < 1:
            raise SpecError(
                f"a stability of {self.stability}, a cost of {self.cost} and a first stage of"
                f" {self.first} make no noise",
                where=self.at.name,
            )
        if len(self.thresholds) != len(self.table.sizes) - 1 or list(self.thresholds) != sorted(
            self.thresholds
        ):
            raise SpecError(
                f"the thresholds {self.thresholds} do not choose among the {len(self.table.sizes)}"
                f" sizes of table {self.table.name}",
                where=self.at.name,
            )

    @property
    def level(self) -> str:
        """What the ledger calls the level."""
        return self.at.name if self.first else f"{self.at.name}, {self.table.name}"

    @property
    def run(self) -> str:
        """The run that its regions are of."""
        return next(run for run, regions in REGIONS.items() if self.at.region in regions)

    @property
    def totals(self) -> str:
        """The class of groups for which only a total is measured."""
        return f"{TOTALS}{OF_RUN[self.run]}"

    @property
    def tables(self) -> str:
        """The class of groups with a table."""
        return f"{TABLES}{OF_RUN[self.run]}"

    @cached_property
    def measurements(self) -> tuple[PlannedMeasurement, ...]:
        """The planned measurements of a group with only a total, and of one with a table."""
        if not self.first:
            return (self._measurement(self.table.name, Fraction(1), self.tables),)
        return (
            self._measurement(ONLY, Fraction(1), self.totals),
            self._measurement(FIRST, self.first, self.tables),
            self._measurement(self.table.name, 1 - self.first, self.tables),
        )

    def measurement(self, query: str) -> PlannedMeasurement:
        return next(d for d in self.measurements if d.query == query)

    def _measurement(self, query: str, share: Fraction, unit_class: str) -> PlannedMeasurement:
        return PlannedMeasurement.priced(
            self.level,
            query,
            self.mechanism,
            Neighbours.UNBOUNDED,
            self.cost * share,
            unit_class,
            self.stability,
        )

    def size(self, counts: NDArray[np.int64]) -> NDArray[np.int8]:
        """The size of the table of each group: how many thresholds its count reaches."""
        return np.searchsorted(self.thresholds, counts, side="right").astype(np.int8)


@dataclass(frozen=True, eq=False)
class Parameters(Frozen):
    """Everything that is decided before the records are seen.

    ``race_codes`` is the number of codes of race that are read for each person. ``budgets`` and
    ``thresholds`` are by table and level; a level without a budget is not tabulated. ``first`` is
    the share of the first stage. A group with only a total is published if the total exceeds what
    noise stays below with probability ``chance``; 0 publishes all. ``negative``: whether negative
    counts stay. ``states`` are those of the run ``us``."""

    product: Product
    iterations: Iterations
    race_codes: int
    mechanism: Mechanism
    budgets: Mapping[str, Mapping[GroupLevel, Fraction]]
    first: Fraction
    thresholds: Mapping[str, Mapping[GroupLevel, tuple[int, ...]]]
    chance: Fraction
    negative: bool
    runs: tuple[str, ...]
    states: tuple[str, ...]
    names: Mapping[str, str]

    def plans(self, run: str) -> tuple[LevelPlan, ...]:
        """The plans of every level of a run that has a budget, for each table."""
        return tuple(
            LevelPlan(
                at,
                table,
                self.mechanism,
                self.iterations.stability(at, self.race_codes),
                cost,
                self.first,
                self.thresholds[table.name][at],
            )
            for table in self.product.tables
            for at in GroupLevel.of_run(run)
            if (cost := self.budgets[table.name].get(at, Fraction(0)))
        )

    def cost(self, run: str) -> Fraction:
        """The cost of all levels of a run, in the currency of the mechanism, for neighbors that
        differ by one record added or removed."""
        return sum((p.cost for p in self.plans(run)), Fraction(0))
