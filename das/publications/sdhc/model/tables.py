"""The tables of the S-DHC: which answers each region has, and what each of them means.

Nine tables are measured. PH5_num is a copy of PH4, and PH8_num sums cells of PH7. Iterations A to G
are a partition by race; H and I are by origin; ``*`` is everybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from das.model.budget import PlannedMeasurement
from das.model.frozen import Frozen
from das.model.mechanisms import Mechanism

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
    'PH3 A-G'"""
    return f"{table} {group}"


def queries() -> tuple[tuple[str, str], ...]:
    """Table and group of each query of a region."""
    return tuple((t.name, group) for t in TABLES.values() for group in t.groups)


# The confidential records of the S-DHC: addresses, and who lives there.

Codes8 = NDArray[np.int8]


@dataclass(frozen=True, eq=False, repr=False)
class Addresses(Frozen):
    """By address, with its number ``mafid``: the place of its state among ``states`` (-1 where
    tabulation leaves the address out), and the columns of its unit record. ``area``: the code of
    its area, where ``areas`` are tabulated: those in which addresses can be, which are public."""

    states: tuple[str, ...]
    mafid: NDArray[np.int32]
    state: NDArray[np.signedinteger]
    rtype: Codes8
    hhspan: Codes8
    hhrace: Codes8
    ten: Codes8
    hht: Codes8
    hht2: Codes8
    cplt: Codes8
    area: NDArray[np.int32] | None = field(default=None, kw_only=True)
    areas: tuple[str, ...] = field(default=(), kw_only=True)

    def __len__(self) -> int:
        return len(self.mafid)


@dataclass(frozen=True, eq=False, repr=False)
class Residents(Frozen):
    """By person, in the order of their addresses: the place of the ``address`` among these, and the
    columns of the record."""

    address: NDArray[np.int32]
    rtype: Codes8
    age: Codes8
    hisp: Codes8
    race: Codes8
    relship: Codes8

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True, eq=False, repr=False)
class SdhcRecords:
    addresses: Addresses
    residents: Residents

    def by_area(self, codes: Sequence[str]) -> SdhcRecords:
        """The same with some areas, in order, in place of the states. Addresses in none of them are
        left out."""
        area, known = self.addresses.area, np.array([int(c) for c in codes], dtype=np.int32)
        assert area is not None
        place = np.minimum(np.searchsorted(known, area), len(known) - 1)
        inside = (known[place] == area) & (self.addresses.state >= 0)
        state = np.where(inside, place, -1).astype(np.int16)
        return replace(self, addresses=replace(self.addresses, states=tuple(codes), state=state))


# Noisy answers of some regions.


@dataclass(frozen=True, eq=False)
class MeasuredRegions(Frozen):
    """The ``regions`` of a ``level`` (``usa`` or ``state``): their noisy ``values`` ``(regions,
    answers)``, and the ``variance`` of the noise ``(answers,)``, infinite of what is not
    measured."""

    level: str
    regions: tuple[str, ...]
    values: NDArray[np.int64]
    variance: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FurtherSums(Frozen):
    """What other measurements say of the ``regions`` of a ``level``: their noisy ``values``
    ``(regions, sums)``, each a sum of answers with these ``weights`` ``(sums, answers)``, and the
    ``covariance`` of the noise ``(sums, sums)``, the same in each region."""

    level: str
    weights: NDArray[np.float64]
    values: NDArray[np.float64]
    covariance: NDArray[np.float64]


def variances(draws: Sequence[PlannedMeasurement]) -> NDArray[np.float64]:
    """Of the answers of a region, by the draws of its level. Of Gaussian noise this is sigma^2, as
    PHSafe states it: the variance is a little less where it is below 10."""
    out = np.full(len(answers()), np.inf)
    for d in draws:
        out[list(columns(*d.query.split(" ")))] = (
            d.variance if d.mechanism.pure else float(d.parameter)
        )
    return out


# How far the answers of one S-DHC query are apart between neighbors.
#
# A query has the answers of one table and one group of iterations, for all regions of a level. Each
# row that it counts adds 1 to one answer. The rows of one address are all in one region.
#
# **Relations.** *person*: one person record is added to an address, or removed from it. The unit
# record of the address then changes at will, except its MAFID, its type and its place. *household*:
# all that one address holds, its persons and its unit record, is replaced by anything.
#
# **Claim.** Let an address add the vector :math:`x \ge 0` to the answers before the change, and
# :math:`y \ge 0` after it. Truncation leaves :math:`\|x\|_1 \le \tau` and :math:`\|y\|_1 \le \tau`.
# Then
#
# .. math:: \|x - y\|_2^2 = \|x\|_2^2 + \|y\|_2^2 - 2 x \cdot y \le 2\tau^2, \qquad
# \|x - y\|_1 \le 2\tau.
#
# *Proof.* All entries are non-negative, so :math:`x \cdot y \ge 0` and :math:`\|x\|_2 \le \|x\|_1`. ∎
# Both relations are covered, and so is any rule that says who is kept. The bound is reached: tau
# persons under a householder of race B, whose record changes to race A.
#
# **Where it is less**, with the relation *person*:
#
# * Who is kept follows from the persons alone (:mod:`das.publications.sdhc.truth.counts`). One person more changes
# the kept persons by one swap: that person comes, and the last of them may go.
# * ``PH1_num`` for all: the cell is the age of the person. A swap would change two answers
# by 1. So nobody is left out of it (:func:`untruncated`), and nobody goes: 1.
# * ``PH4`` for all: the cell is the age, too. If the unit record says a family before and after, a
# swap costs 2. If it says so once, one of x and y is 0, and the other costs :math:`\tau^2`.
# * Persons that truncation leaves out (``excess``): nobody is left out less than before, and one
# person is left out more, at most: 1. With *household* there is no bound, so it is not measured.
# * Children that the tables of children leave out (``excess_children``): m children, less those that
# are kept, min(c, k), where k are children among the kept persons. A child that comes makes m one
# more, and k one more or none; another person that comes leaves m, and makes k one less or none. The
# difference grows by 0 or 1 in each case: 1. With *household* it is not measured.
# * Denominators: an address is at most one row: 2, or 1 where the query has one answer.
#
# PHSafe itself takes :math:`\Delta = 2\tau + 2` rows, all in one answer, and 2 for denominators: its
# unit table may change in any two rows anywhere.
#
# :class:`Reach` is such a bound: ``answers`` answers differ by ``by`` each. Its square sum prices
# Gaussian noise, its sum geometric noise. The exhaustive test over small households is
# ``tests/sdhc/test_sensitivity.py``.

PHSAFE, TIGHT = "phsafe", "tight"
PERSON, HOUSEHOLD = "person", "household"


@dataclass(frozen=True)
class Reach:
    """``answers`` answers differ by at most ``by`` each between neighbors."""

    answers: int
    by: int

    def stability(self, mechanism: Mechanism) -> int:
        """Unit changes that cost as much: for pure noise their sum, otherwise their square sum."""
        return self.answers * (self.by if mechanism.pure else self.by**2)


def untruncated(mode: str, relation: str) -> str | None:
    """The table that counts everybody in its query for all (``*``), if there is one."""
    return "PH1_num" if (mode, relation) == (TIGHT, PERSON) else None


def reach(
    table: str, group: str, tau: Mapping[str, int], mode: str, relation: str = PERSON
) -> Reach | None:
    """Of a query; ``None`` where it has no bound, and so is not measured."""
    if mode == PHSAFE:
        if table in LEFT_OUT:
            return None
        return Reach(1, 2 * tau[table] + 2 if TABLES[table].people else 2)
    person, everybody = relation == PERSON, group == "*"
    if table in LEFT_OUT:
        return Reach(1, 1) if person else None
    if not TABLES[table].people:
        return Reach(1 if everybody and len(TABLES[table].cells) == 1 else 2, 1)
    if person and everybody and table == "PH1_num":
        return Reach(1, 1)
    if person and everybody and table == "PH4" and tau[table] > 1:
        return Reach(1, tau[table])
    return Reach(2, tau[table])
