r"""What one person, or one household, changes in each publication: named relations between two
populations, and what they cost.

Every publication states its privacy for one record of a unit of its own. One person's coming can
change several: the person's own record, the record of the household (a function of its members, so
it is *replaced*), and the record of the housing unit. One who moves changes two households and two
units.

*One record.* Under bounded neighbors :math:`\rho` is the cost of one replaced record, which
changes two answers of a measurement by 1; one that is added or removed changes one: half of it.
Under unbounded neighbors :math:`\rho` is the cost of one added or removed, and a replaced one is
both: :math:`2\rho`. Noise that is :math:`\varepsilon`-private is :math:`\varepsilon^2/2`-zCDP (Bun
and Steinke 2016, proposition 1.4), where :math:`\varepsilon` halves and doubles likewise.

*Several records of one kind.* Let :math:`k` of them be replaced. In a draw of :math:`\sigma^2` the
i-th takes 1 from one answer and gives 1 to another, :math:`v_i = e_{b_i} - e_{a_i}`, so that
:math:`\|\sum_i v_i\| \le \sum_i \|v_i\| \le k \sqrt 2`. Discrete Gaussian noise under an integer
shift :math:`v` costs :math:`\|v\|^2 / 2\sigma^2`: at most :math:`k^2` times what one record does,
:math:`2 / 2\sigma^2`. Summed over the measurements it is :math:`k^2 \rho`, which is reached where
all k change alike in one block. Where no two of them change the same answer of any draw,
:math:`\|\sum_i v_i\|^2 = \sum_i \|v_i\|^2 \le 2 k`: then it is :math:`k \rho`. (So records do not
just add up. At the root every two of them are in one unit, and may be in one answer.)

*Several kinds, several releases* are independent draws about the same change: their :math:`\rho`
add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import isqrt
from typing import Final, Literal


class Unit(Enum):
    """What the records of a publication are, and so what it protects one of."""

    PERSON = "person"
    HOUSEHOLD = "household"
    HOUSING = "housing-unit"
    #: a person, with the record of the household at this address, as in the S-DHC
    ADDRESS = "person-and-household"
    #: of a universe of the user's own
    OTHER = "record"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Unit.PERSON: "person record",
    Unit.HOUSEHOLD: "household record",
    Unit.HOUSING: "housing unit record",
    Unit.ADDRESS: "address",
    Unit.OTHER: "record",
}
_UNITS = {
    "persons": Unit.PERSON,
    "households": Unit.HOUSEHOLD,
    "units": Unit.HOUSING,
    "housing": Unit.HOUSING,
}

Verb = Literal["added or removed", "replaced"]
ADDED: Final = "added or removed"
REPLACED: Final = "replaced"
#: Persons of a household, where nobody says how many.
PERSONS = 3


def unit_of(universe: str) -> Unit:
    """The unit of a universe, by its name."""
    return _UNITS.get(universe, Unit.OTHER)


@dataclass(frozen=True)
class Multiple:
    """How often the cost of one change counts: ``apart`` where no two changes are in one answer,
    ``most`` wherever they are."""

    apart: int
    most: int

    @property
    def alike(self) -> int:
        """By how much an answer differs where all change alike."""
        return isqrt(self.most)


@dataclass(frozen=True)
class Changed:
    """How many records of a unit change, and how."""

    verb: Verb
    records: int = 1

    def says(self, unit: Unit) -> str:
        number = "one" if self.records == 1 else str(self.records)
        plural = "" if self.records == 1 else "es" if unit is Unit.ADDRESS else "s"
        verb = "changed" if unit is Unit.ADDRESS else self.verb
        return f"{number} {unit.words}{plural} {verb}"

    @property
    def multiple(self) -> Multiple:
        """Of the cost of one record."""
        return Multiple(self.records, self.records**2)


@dataclass(frozen=True)
class Relation:
    """What differs between two populations: in words, and as records of each unit."""

    name: str
    title: str
    says: str
    changed: Mapping[Unit, Changed]
    persons: int
    whole: bool  #: whether a whole household changes

    @property
    def same_total(self) -> bool:
        """Whether both populations have as many persons, so that they can agree on totals."""
        return self.changed[Unit.PERSON].verb == REPLACED

    @property
    def moved(self) -> bool:
        """Whether two addresses change."""
        return self.changed[Unit.ADDRESS].records > 1

    def of_addresses(self, replaced: int = 4, moved: int = 4, household: int | None = None) -> int:
        """The cost of this relation as a multiple of that of one person who comes or goes. A source
        can say what one person ``replaced``, one who has ``moved`` and a ``household`` replaced
        cost. The defaults always hold: n changes cost at most n^2 times as much."""
        if self.whole:
            times = 4 * self.persons**2 if household is None else household
        else:
            times = replaced if self.same_total and not self.moved else 1
        return times * moved if self.moved else times

    def multiple(self, unit: Unit) -> Multiple:
        """How often the cost of one record counts. What happens at addresses is stated for each
        relation, as a whole."""
        return Multiple(1, 1) if unit is Unit.ADDRESS else self.changed[unit].multiple


def relations(persons: int = PERSONS) -> tuple[Relation, ...]:
    """The named relations; a household has ``persons`` at most."""
    several = f"{persons} persons" if persons > 1 else "one person"
    rows: tuple[tuple[str, str, int, Verb, int, int, str], ...] = (
        ("added-or-removed", "One person added or removed", 1, ADDED, 1, 1,
         "One person comes or goes. The record of this person's household is replaced, and so can"
         " be that of the housing unit, which may have been vacant."),
        ("replaced", "One person replaced at the same address", 1, REPLACED, 1, 1,
         "All answers of one person change. The record of the household is replaced, and so can"
         " be that of the housing unit."),
        ("moved", "One person moved to another address", 1, REPLACED, 2, 2,
         "One person lives at another address, with any answers. Both households change, and both"
         " housing units."),
        ("household", f"One household of at most {several} replaced", persons, REPLACED, 1, 1,
         "All records of one address are replaced by any others, of no more persons."),
        ("household-moved", f"One household of at most {several} moved to another address",
         persons, REPLACED, 1, 2,
         "All persons of one household live at another address. Their records and that of the"
         " household are replaced, and both housing units change."),
    )  # fmt: skip
    return tuple(
        Relation(
            name,
            title,
            says,
            {
                Unit.PERSON: Changed(verb, n),
                Unit.HOUSEHOLD: Changed(REPLACED, households),
                Unit.HOUSING: Changed(REPLACED, addresses),
                Unit.ADDRESS: Changed(REPLACED, addresses),
                Unit.OTHER: Changed(REPLACED, max(n, addresses)),
            },
            n,
            name.startswith("household"),
        )
        for name, title, n, verb, households, addresses, says in rows
    )
