r"""One account of several sources: what one person, or one household, loses in all of them together.

A *source* is a release, a configuration, or another program's statement. It says what one record
costs there, and by which draws. A relation (:mod:`das.accounting.sources`) says which records of
it change. The sources' noise is independent. So rho adds up, and the difference between the two
populations is a composition of the differences in each source.

*Exact.* Epsilon is exact if every source states its draws and each answer differs by 1. An answer
may differ by more in a draw whose worst change is known (:mod:`das.accounting.peaks`). Each
source then has its worst change. Nobody claims that one person can have all of them at once.

*Otherwise* epsilon is an interval. Its upper end is the tight conversion of rho. Its lower end is
that of the known draws, with all changes alike: leaving the others out is post-processing. If what
is left out is private without a delta, its epsilon and that of the others add up to an upper end,
too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import inf, isqrt, nextafter
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from das.accounting.codec import fault, published_schema
from das.accounting.document import Delta, Loss, Many, Positive, Section, Some, StatedFraction
from das.accounting.draws import Composition, Differing, only
from das.accounting.guarantee import combine
from das.accounting.kept import worst_epsilon
from das.accounting.zcdp import bun_steinke, no_more, tight
from das.errors import SpecError
from das.model.not_private import Private

# What one person, or one household, changes in each publication: named relations between two
# populations, and what they cost.
#
# Every publication states its privacy for one record of a unit of its own. One person's coming can
# change several: the person's own record, the record of the household (a function of its members, so
# it is *replaced*), and the record of the housing unit. One who moves changes two households and two
# units.
#
# *One record.* Under bounded neighbors :math:`\rho` is the cost of one replaced record, which
# changes two answers of a measurement by 1; one that is added or removed changes one: half of it.
# Under unbounded neighbors :math:`\rho` is the cost of one added or removed, and a replaced one is
# both: :math:`2\rho`. Noise that is :math:`\varepsilon`-private is :math:`\varepsilon^2/2`-zCDP (Bun
# and Steinke 2016, proposition 1.4), where :math:`\varepsilon` halves and doubles likewise.
#
# *Several records of one kind.* Let :math:`k` of them be replaced. In a draw of :math:`\sigma^2` the
# i-th takes 1 from one answer and gives 1 to another, :math:`v_i = e_{b_i} - e_{a_i}`, so that
# :math:`\|\sum_i v_i\| \le \sum_i \|v_i\| \le k \sqrt 2`. Discrete Gaussian noise under an integer
# shift :math:`v` costs :math:`\|v\|^2 / 2\sigma^2`: at most :math:`k^2` times what one record does,
# :math:`2 / 2\sigma^2`. Summed over the measurements it is :math:`k^2 \rho`, which is reached where
# all k change alike in one block. Where no two of them change the same answer of any draw,
# :math:`\|\sum_i v_i\|^2 = \sum_i \|v_i\|^2 \le 2 k`: then it is :math:`k \rho`. (So records do not
# just add up. At the root every two of them are in one unit, and may be in one answer.)
#
# *Several kinds, several releases* are independent draws about the same change: their :math:`\rho`
# add up.


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


#: What holds of every such account.
ASSUMPTIONS = (
    "A household record is a function of its members. A person who comes or goes replaces it.",
    "All other answers of the other persons stay the same, such as their relationships to the"
    " householder.",
    "The person, or household, is counted in every source.",
    "The noise of each source is independent of that of the others.",
    "Each line is the most that one such change can cost there by what the source states, for any"
    " person, household and place.",
    "Exact counts can reveal more. Epsilon covers them only between populations that agree on them.",
)


@dataclass(frozen=True)
class RecordLoss:
    """What one change of one record costs: rho; and what differs, if that is known. Of noise that
    is private without a delta, its epsilon (``pure``)."""

    rho: Fraction
    found: Differing | None = None
    pure: Fraction | None = None


@dataclass(frozen=True)
class PrivacySource:
    """``stated``: its rho between its own ``neighbours``; ``losses``: of one record, by what happens
    to it, and of addresses by the name of the relation, too; ``same``: what a replaced record costs
    between data sets that agree on all that this source publishes exactly, if anything is;
    ``origin``: where the figures are from."""

    name: str
    publication: str
    unit: Unit
    neighbours: str
    stated: Fraction
    losses: Mapping[str, RecordLoss] = field(hash=False)
    origin: str
    same: RecordLoss | None = None
    private: Private = True

    def change(self, relation: Relation, same: bool = False) -> SourceChange:
        """What a relation changes here."""
        changed = relation.changed[self.unit]
        loss = self.losses[relation.name if self.unit is Unit.ADDRESS else changed.verb]
        if same and self.same is not None and changed.verb == REPLACED:
            loss = self.same
        return SourceChange(self, changed.says(self.unit), loss, relation.multiple(self.unit))


@dataclass(frozen=True)
class SourceChange:
    """What a relation changes in one source, in words; what one record costs, and how often that
    counts."""

    source: PrivacySource
    says: str
    loss: RecordLoss
    multiple: Multiple

    def rho(self, most: bool) -> Fraction:
        return self.loss.rho * (self.multiple.most if most else self.multiple.apart)

    @property
    def pure(self) -> Fraction | None:
        """Epsilon of all records, where it needs no delta: it adds up."""
        return None if self.loss.pure is None else self.loss.pure * self.multiple.apart

    def differing(self, most: bool) -> Differing | None:
        """What differs, where each answer that differs does so alone; or, ``most``, all
        alike."""
        if self.loss.found is None:
            return None
        if most and self.multiple.alike > 1:
            return tuple(part.alike(self.multiple.alike) for part in self.loss.found)
        return tuple(part.times(self.multiple.apart) for part in self.loss.found)


# --- the account as a document


class JointEpsilon(Section):
    """Epsilon at ``delta``: an interval that holds the exact one, which is narrow where it is
    ``exact``; and two conversions of rho. Where it is not, the upper end is a bound."""

    delta: Delta
    pld: tuple[Loss, Loss]
    exact: bool
    tight: Loss
    simple: Loss


class SourceLine(Section):
    """A line that a reader can check: ``rho`` is ``multiple`` times what the source states."""

    source: str
    publication: str
    unit: str
    stated: StatedFraction
    neighbours: str
    changes: str
    multiple: StatedFraction
    rho: StatedFraction
    draws_known: bool
    origin: str


class JointCase(Section):
    """One sum: ``alike`` in the worst case, where all changes of one source fall in the same
    counts; ``same_invariants`` between populations that agree on what is published
    exactly."""

    alike: bool
    same_invariants: bool
    rho: StatedFraction
    epsilon: JointEpsilon
    sources: Some[SourceLine]


class JointRelation(Section):
    name: str
    title: str
    says: str
    cases: Some[JointCase]


class JointAccount(Section):
    """Of several sources. ``naive``: the sum of one record added or removed in each, as if they
    were the same thing."""

    format: str
    naive: StatedFraction
    relations: Some[JointRelation]
    assumptions: Many[str]


FORMAT = "das-joint-account/1"
#: So wide an interval is exact to the digits that are printed.
EXACT = 1e-4


def joint_account(
    sources: Sequence[PrivacySource],
    relations: Iterable[Relation],
    delta: Fraction,
    says: Sequence[str] = (),
) -> JointAccount:
    """``says``: what else a reader must know of the sources."""
    return JointAccount.make(
        format=FORMAT,
        naive=sum((s.losses[ADDED].rho for s in sources), Fraction(0)),
        relations=tuple(_relation(sources, relation, delta) for relation in relations),
        assumptions=(*ASSUMPTIONS, *says),
    )


def _relation(
    sources: Sequence[PrivacySource], relation: Relation, delta: Fraction
) -> JointRelation:
    exact = relation.same_total and any(s.same is not None for s in sources)
    cases = []
    for same in (False, True) if exact else (False,):
        changes = [source.change(relation, same) for source in sources]
        several = any(c.multiple.apart != c.multiple.most for c in changes)
        cases += [
            _case(changes, most, same, delta) for most in ((False, True) if several else (False,))
        ]
    return JointRelation.make(
        name=relation.name, title=relation.title, says=relation.says, cases=tuple(cases)
    )


def _case(changes: Sequence[SourceChange], most: bool, same: bool, delta: Fraction) -> JointCase:
    return JointCase.make(
        alike=most,
        same_invariants=same,
        rho=sum((c.rho(most) for c in changes), Fraction(0)),
        epsilon=joint_epsilon(changes, most, delta),
        sources=tuple(_line(c, most) for c in changes),
    )


def _line(change: SourceChange, most: bool) -> SourceLine:
    source, rho = change.source, change.rho(most)
    return SourceLine.make(
        source=source.name,
        publication=source.publication,
        unit=source.unit.value,
        stated=source.stated,
        neighbours=source.neighbours,
        changes=change.says,
        multiple=rho / source.stated,
        rho=rho,
        draws_known=change.loss.found is not None,
        origin=source.origin,
    )


def joint_epsilon(changes: Sequence[SourceChange], most: bool, delta: Fraction) -> JointEpsilon:
    """Epsilon of all changes together; see the module."""
    rho = sum((c.rho(most) for c in changes), Fraction(0))
    each = [(c, c.differing(most)) for c in changes]
    at = worst_epsilon(combine(found for _, found in each if found is not None), delta)
    high, others = at.high, [c.pure for c, found in each if found is None]
    if others:
        pure = sum((epsilon for epsilon in others if epsilon is not None), Fraction(high))
        high = no_more(rho, delta)
        if None not in others:
            high = min(high, nextafter(float(pure), inf))
    return JointEpsilon.make(
        delta=delta,
        pld=(at.low, high),
        exact=high - at.low < EXACT,
        tight=tight(rho, delta),
        simple=bun_steinke(rho, delta),
    )


# Statements of other programs, in a small JSON format of ours: ``das-sources/1``.
#
# A file has a ``name``, sentences that a reader must know (``says``) and ``sources``. Each source is
# one publication of records of one unit: its rho, under which neighbors, by which draws if that is
# known, and where the figures are from.

SOURCES_FORMAT = "das-sources/1"
AtLeastOne = Annotated[int, Field(ge=1, le=10**9)]


class StatedDraws(Section):
    """Discrete Gaussian noise of one variance that one record is in: ``answers`` answers differ by
    ``by`` each where one record is added or removed. Of ``person-and-household`` an answer may
    differ by less, if others with this noise do, too: by ``by`` in sum."""

    sigma_sq: Positive
    answers: AtLeastOne
    by: AtLeastOne = 1


class StatedMultiples(Section):
    """For ``person-and-household``: what changes of an address cost, as multiples of ``rho``. One
    person replaced; one who has moved (two addresses); a household replaced. 4 is one change twice
    as large; 2 is two changes of different answers."""

    replaced: AtLeastOne
    moved: AtLeastOne
    household: AtLeastOne


class StatedSource(Section):
    """One publication, or the part of it about records of one unit. ``rho`` is what it states,
    between its ``neighbours``: one record added or removed (unbounded), or replaced (bounded).
    Without ``draws`` rho alone is known."""

    name: Annotated[str, Field(min_length=1)]
    publication: str
    unit: Literal["person", "household", "housing-unit", "person-and-household", "record"]
    neighbours: Literal["bounded", "unbounded"]
    rho: Positive
    draws: Some[StatedDraws] | None = None
    multiples: StatedMultiples | None = None
    origin: str = Field(alias="from")

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        address = self.unit == Unit.ADDRESS.value
        if address and self.neighbours == "bounded":
            raise ValueError("a person-and-household is stated as unbounded: added or removed")
        if self.multiples is not None and not address:
            raise ValueError("multiples are for person-and-household")
        draws = self.draws or ()
        if not address and any(d.by > 1 for d in draws):
            raise ValueError("by is for person-and-household: one record changes an answer by 1")
        cost = self.times * sum(d.answers * d.by**2 / (2 * d.sigma_sq) for d in draws)
        if draws and cost != self.rho:
            raise ValueError(f"its draws cost rho = {cost}, and it states {self.rho}")
        return self

    @property
    def times(self) -> int:
        """How many answers of each draw differ between its neighbors."""
        return 2 if self.neighbours == "bounded" else 1

    def source(self, relations: Iterable[Relation]) -> PrivacySource:
        one = self.rho / self.times
        losses: dict[str, RecordLoss] = {
            verb: RecordLoss(times * one, self._found(times))
            for verb, times in ((ADDED, 1), (REPLACED, 2))
        }
        if self.unit == Unit.ADDRESS.value:
            given = {} if self.multiples is None else dict(self.multiples)
            for relation in relations:
                times = relation.of_addresses(**given)
                losses[relation.name] = RecordLoss(times * one, self._of_addresses(times))
        return PrivacySource(
            self.name,
            self.publication,
            Unit(self.unit),
            self.neighbours,
            self.rho,
            losses,
            self.origin,
        )

    def _of_addresses(self, times: int) -> Differing | None:
        """As one change that is larger, or as several."""
        found, root = self._found(1), isqrt(times)
        if found is None:
            return None
        return tuple(m.alike(root) if root**2 == times else m.times(times) for m in found)

    def _found(self, times: int) -> Differing | None:
        if self.draws is None:
            return None
        ones: Counter[Fraction] = Counter()
        for d in self.draws:
            if d.by == 1:
                ones[1 / d.sigma_sq] += times * d.answers
        shifted = ((1 / d.sigma_sq, d.by, times * d.answers) for d in self.draws if d.by > 1)
        return (only(Composition(()) + Composition(tuple(ones.items()), tuple(shifted))),)


class SourceList(Section):
    """The file."""

    format: Literal["das-sources/1"]
    name: Annotated[str, Field(min_length=1)]
    says: Many[str] = ()
    sources: Some[StatedSource]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [s.name for s in self.sources]
        if twice := [n for i, n in enumerate(names) if n in names[:i]]:
            raise ValueError(f"two sources are called {twice[0]!r}")
        return self


def source_list_from_json(value: Mapping[str, Any], where: object) -> SourceList:
    """The list that a JSON object is. Raises :class:`SpecError` with the place of its first
    fault."""
    try:
        return SourceList.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise SpecError(
            f"this is no list of sources ({fault(error)})",
            where=where,
            remedy="`das account schema --sources` prints its JSON Schema; docs/explanation/accounting.md has"
            " an example",
        ) from None


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of such a file."""
    return published_schema(SourceList, SOURCES_FORMAT, "Statements of privacy for das account")
