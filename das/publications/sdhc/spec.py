"""The specification of the Supplemental DHC: mode, relation, thresholds, and a budget for each
query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import tomli_w
from pydantic import Field, field_validator, model_validator

from das.accounting.changes import Change
from das.accounting.draws import Differing, Moves
from das.accounting.guarantee import DEFAULT_DELTA
from das.accounting.sources import Relation
from das.accounting.statement import Terms
from das.errors import SpecError
from das.model.budget import Neighbours, PlannedMeasurement, through
from das.model.ledger import Event
from das.model.mechanisms import MECHANISMS, Mechanism
from das.model.names import STATES
from das.model.plan import Plan
from das.publications.sdhc.model.tables import (
    ALL_LEVELS,
    AREA,
    CHILDREN,
    EXCESS,
    EXCESS_CHILDREN,
    HOUSEHOLD,
    LEFT_OUT,
    PERSON,
    PHSAFE,
    REGION_LEVELS,
    STATE,
    TABLES,
    TIGHT,
    TRUNCATED,
    USA,
    Reach,
    columns,
    queries,
    query,
    reach,
    untruncated,
)
from das.spec.parts import DeltaNumber, ExactNumber, Files, OneOrMore, Part, Run
from das.spec.specification import Specification

# The tables of a configuration of the Supplemental DHC, each with its keys.

#: By kind of area, how many digits its code has.
DIGITS = {"county": 5, "place": 7}
_KNOWN = frozenset(s.fips for s in STATES)
#: Thresholds of production.
PRODUCTION_TAU = {t: 6 if t in CHILDREN else 10 for t in TRUNCATED}


class SdhcRun(Run):
    """``[run]``."""

    publication: Literal["sdhc"] = "sdhc"
    """The Supplemental DHC."""


class SdhcData(Files):
    """``[data]``."""

    path: OneOrMore = ()
    """A folder with ``persons.csv``, ``units.csv`` and ``geo.csv`` in PHSafe's format, or one with
    linked records of the DHC. ``--data`` replaces it."""
    parameters: str = ""
    """A ``config.json`` of PHSafe: its budgets, states and definition of privacy replace those of
    ``[sdhc]``; in the mode ``"phsafe"`` its thresholds do, too."""


class TruncationLimits(Part):
    """``[sdhc.most]``: persons of one address that are counted, in the mode ``"tight"``."""

    persons: int = Field(default=18, gt=0, strict=True)
    """Persons of one address that tables count. The others are left out, and counted as ``excess``."""
    children: int = Field(default=10, gt=0, strict=True)
    """Persons under 18 of one address that the tables PH3 and PH6 count. The others are counted as
    ``excess_children``."""


class SdhcAreas(Part):
    """``[sdhc.areas]``: areas below the state, measured by the queries with a budget such as
    ``"area_*"``, in the mode ``"tight"``."""

    kind: Literal["county", "place"] = "county"
    """Counties, or places."""
    codes: tuple[str, ...] = ()
    """FIPS codes: five digits of a county, seven of a place. Absent: every county of the input."""

    @model_validator(mode="after")
    def _are_areas(self) -> SdhcAreas:
        digits = DIGITS[self.kind]
        if odd := [c for c in self.codes if not (c.isdecimal() and len(c) == digits)]:
            raise ValueError(f"codes: {odd[0]!r} is no code of a {self.kind}: give {digits} digits")
        if list(self.codes) != sorted({*self.codes}):
            raise ValueError("codes: give each area once, in order")
        return self


class SdhcPart(Part):
    """``[sdhc]``."""

    mode: Literal["tight", "phsafe"] = "tight"
    """``"tight"``: noise for the tight sensitivity of each query, one truncation for all tables,
    least squares. ``"phsafe"``: what PHSafe did in 2020."""
    relation: Literal["person", "household"] = "person"
    """The unit of privacy. ``"household"`` needs the mode ``"tight"``."""
    definition: Literal["zcdp", "puredp"] = "zcdp"
    """Discrete Gaussian noise, with budgets in rho; or two-sided geometric noise, in epsilon."""
    states: tuple[str, ...] = ()
    """FIPS codes of the states to tabulate. Absent: those of ``geo.csv``."""
    dhc: str = ""
    """Path of a release of the DHC of the same records: its noisy counts of households and persons
    are further observations in the least squares. In a release: its name."""
    dhc_digest: str = ""
    """In a release: SHA-256 of that release's privacy statement."""
    delta: DeltaNumber = DEFAULT_DELTA
    """The privacy statement gives epsilon at this delta."""
    most: TruncationLimits = TruncationLimits()
    """How many persons of one address are counted, in the mode ``"tight"``."""
    areas: SdhcAreas = SdhcAreas()
    """Areas below the state."""
    tau: dict[str, int] = Field(default_factory=lambda: dict(PRODUCTION_TAU))
    """By table, how many persons of one address it counts, in the mode ``"phsafe"``."""
    budget: dict[str, dict[str, ExactNumber]] = Field(default_factory=dict)
    """By table, the budget of each query, such as ``"state_A-G"`` or, of areas, ``"area_*"``. 0 or
    absent: not measured."""

    @field_validator("states")
    @classmethod
    def _are_states(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if odd := [s for s in value if s not in _KNOWN]:
            raise ValueError(f"{odd[0]!r} is none of the 50 states, 11 or 72: give two digits")
        if len(set(value)) < len(value):
            raise ValueError("a state is there twice")
        if "72" in value and len(value) > 1:
            raise ValueError("72 (Puerto Rico) is not in the nation: run it by itself")
        return tuple(sorted(value))

    @field_validator("tau")
    @classmethod
    def _of_tables(cls, value: dict[str, int]) -> dict[str, int]:
        if set(value) != set(TRUNCATED) or any(type(n) is not int or n < 1 for n in value.values()):
            raise ValueError(f"give {', '.join(TRUNCATED)} a positive whole number each")
        return value

    @field_validator("budget")
    @classmethod
    def _of_queries(cls, value: dict[str, dict[str, Fraction]]) -> dict[str, dict[str, Fraction]]:
        for table, of in value.items():
            if table not in TABLES:
                raise ValueError(f"there is no table {table!r}: they are {', '.join(TABLES)}")
            known = [f"{r}_{g}" for r in ALL_LEVELS for g in TABLES[table].groups]
            for key, cost in of.items():
                if key not in known:
                    raise ValueError(f"{table} has no query {key!r}: they are {', '.join(known)}")
                if cost < 0:
                    raise ValueError(f"{table}.{key} is {cost}: give 0 or more")
        return value


#: What the ledger calls the levels of regions.
LEVELS: Mapping[str, str] = {USA: "US", STATE: "State", AREA: "Area"}

SAYS: Mapping[str, str] = {
    PERSON: (
        "The unit of privacy is a person: the record of one person comes to an address, or goes,"
        " and the unit record of this address changes at will. The list of addresses, with their"
        " states, is public."
    ),
    HOUSEHOLD: (
        "The unit of privacy is a household: all persons of one address and its unit record are"
        " replaced by anything. The list of addresses, with their states, is public."
    ),
}
_ALWAYS = (
    (
        "Under 'ledger', 'stability' is the squared L2 sensitivity of a query (the L1 sensitivity,"
        " if the noise is geometric). Several persons of one address can be in one answer, which"
        " differs by that many."
    ),
    (
        "Each exact epsilon ('pld') is that of the largest change of one answer. Changes of several"
        " answers, by no more in sum, cost less if the noise is wide enough. Where that is not shown,"
        " 'pld' ends at the bound from rho."
    ),
    (
        "The bits of the noise come from a cryptographic generator: the guarantee is computational,"
        " as with any such."
    ),
    "This is the cost of this release alone. Other releases from the same records add their own.",
)
_DIFFER: Mapping[str, str] = {
    PERSON: "one record of a person added or removed, and the unit record of the address changed",
    HOUSEHOLD: "all records of one address replaced by any others",
}


@dataclass(frozen=True, eq=False)
class Residence:
    """What the ledger calls the records, and what is measured of them."""

    name: str
    plan: Plan


class SdhcSpec(Specification):
    """The configuration of the S-DHC. That of a release names its states."""

    title: ClassVar[str] = "the S-DHC"
    public: ClassVar[str] = "das.publications.sdhc.public:PublicSdhc"
    maker: ClassVar[str | None] = "das.publications.sdhc.truth.maker:SdhcMaker"
    remedy: ClassVar[str] = "its tables are in tables/, with intervals: read those"
    of_a_machine: ClassVar[Any] = {"data": True}

    run: SdhcRun
    data: SdhcData = SdhcData()
    sdhc: SdhcPart = SdhcPart()

    def checked(self) -> Self:
        part = self.sdhc
        if part.mode == PHSAFE and part.relation == HOUSEHOLD:
            raise SpecError(
                'sdhc.relation: PHSafe protects a person: say "person", or mode = "tight"'
            )
        if part.mode == PHSAFE and part.dhc:
            raise SpecError(
                'sdhc.dhc: PHSafe used no other release: leave it out, or mode = "tight"'
            )
        if AREA in self.levels:
            self._check_areas()
        if not self.data.parameters:
            self.universes  # noqa: B018  a budget that adds nothing, or none, is refused here
        return self

    def _check_areas(self) -> None:
        part = self.sdhc
        if part.mode == PHSAFE:
            raise SpecError(
                'sdhc.budget: PHSafe has no areas: leave their budgets out, or mode = "tight"'
            )
        if part.areas.kind != "county" and not part.areas.codes:
            raise SpecError(f"sdhc.areas.codes: name the codes of each {part.areas.kind}")
        if part.states and (odd := [c for c in part.areas.codes if c[:2] not in part.states]):
            raise SpecError(f"sdhc.areas.codes: {odd[0]} is in none of the states")

    def amended_by(self, given: Mapping[str, Any]) -> SdhcSpec:
        """With some keys of ``[sdhc]`` replaced, checked. Raises :class:`SpecError`."""
        part = SdhcPart.model_validate({**self.sdhc.model_dump(), **given})
        data = self.data.model_copy(update={"parameters": ""})
        return SdhcSpec(run=self.run, data=data, sdhc=part).checked()  # nothing cached is copied

    def repriced(self, costs: Mapping[tuple[str, str], Fraction]) -> SdhcSpec:
        """With the budgets of these levels and queries of the ledger, and no others."""
        budget: dict[str, dict[str, Fraction]] = {}
        for (level, name), cost in costs.items():
            table, group = name.split(" ")
            region = next(r for r, called in LEVELS.items() if called == level)
            budget.setdefault(table, {})[f"{region}_{group}"] = cost
        return self.amended_by({"budget": budget})

    def budget_toml(self) -> str:
        """Its budgets, as tables of a configuration."""
        return tomli_w.dumps({"sdhc": {"budget": self.tree()["sdhc"]["budget"]}})

    def lacks_input(self, paths: Sequence[Any]) -> bool:
        return not paths and not self.data.path

    @property
    def mechanism(self) -> Mechanism:
        pure = self.sdhc.definition == "puredp"
        return next(m for m in MECHANISMS.values() if m.pure == pure)

    @property
    def tau(self) -> dict[str, int]:
        """By table, how many persons of an address it counts."""
        if self.sdhc.mode == PHSAFE:
            return dict(self.sdhc.tau)
        most = self.sdhc.most
        return {t: most.children if t in CHILDREN else most.persons for t in TRUNCATED}

    @property
    def name(self) -> str:
        """What the ledger calls the records: by the unit of privacy."""
        return f"{self.sdhc.relation}s"

    @property
    def measurements(self) -> tuple[PlannedMeasurement, ...]:
        """The queries with a budget, for each region level."""
        part, found = self.sdhc, []
        for level in ALL_LEVELS:
            for table, group in queries():
                cost = part.budget.get(table, {}).get(f"{level}_{group}", Fraction(0))
                to = reach(table, group, self.tau, part.mode, part.relation)
                if not cost or to is None:
                    continue
                found.append(
                    PlannedMeasurement.priced(
                        LEVELS[level],
                        query(table, group),
                        self.mechanism,
                        Neighbours.UNBOUNDED,
                        cost,
                        stability=to.stability(self.mechanism),
                    )
                )
        return tuple(found)

    @cached_property
    def universes(self) -> tuple[Residence]:
        if not (draws := self.measurements):
            raise SpecError(
                "sdhc.budget: no query has a budget",
                remedy="give some, or name PHSafe's config.json: data.parameters",
            )
        return (Residence(self.name, Plan(Neighbours.UNBOUNDED, draws)),)

    @property
    def levels(self) -> tuple[str, ...]:
        """The region levels with a query."""
        there = {d.level for d in self.measurements}
        return tuple(r for r in ALL_LEVELS if LEVELS[r] in there)

    def regions(self, level: str) -> tuple[str, ...]:
        """The regions of a level: of a release, or of a run that has read its input."""
        return {USA: ("1",), STATE: self.sdhc.states, AREA: self.sdhc.areas.codes}[level]

    def events(self, level: str) -> tuple[Event, ...]:
        """What a level draws. ``answers`` are those of one region."""
        return tuple(
            Event.from_measurement(
                d, self.name, len(self.regions(level)), len(columns(*d.query.split(" ")))
            )
            for d in self.measurements
            if d.level == LEVELS[level]
        )

    @property
    def tight_cost(self) -> Fraction:
        """What the same noise costs by the tight sensitivities, with PHSafe's truncation."""
        total = Fraction(0)
        for d in self.measurements:
            table, group = d.query.split(" ")
            to = reach(table, group, self.tau, TIGHT)
            assert to is not None
            swap = (table, group) == ("PH1_num", "*")  # PHSafe truncates it: one comes, one goes
            n = 2 if swap else to.stability(self.mechanism)
            total += d.mechanism.cost(d.parameter, n)
        return total

    @property
    def terms(self) -> Terms:
        part = self.sdhc
        says: tuple[str, ...] = (SAYS[part.relation], *_ALWAYS)
        levels = tuple(LEVELS[r] for r in ALL_LEVELS if r in REGION_LEVELS or r in self.levels)
        if AREA in self.levels:
            says += (f"The {part.areas.kind} of each address is public, too.",)
        if part.mode == PHSAFE:
            says += (
                f"PHSafe pays for more than can happen: the same noise costs"
                f" {self.mechanism.currency} {float(self.tight_cost):.6g} by tight sensitivities.",
            )
        if part.dhc:
            says += (
                f"Estimates use noisy measurements of the release {part.dhc!r} of the DHC (SHA-256 of"
                f" its privacy.json: {part.dhc_digest or 'not read yet'}). They were published before,"
                " from the same records: what that cost is in its own statement, and adds to this.",
            )
        return Terms(
            self.mechanism,
            Neighbours.UNBOUNDED,
            part.delta,
            levels,
            {},
            {self.name: ()},
            changed={self.name: self._changes},
            says=says,
            differ=_DIFFER[part.relation],
            neighboring={self.name: lambda draws: (self._moves(draws),)},
            address=self._at_addresses,
        )

    def _at_addresses(self, draws: Sequence[PlannedMeasurement], relation: Relation) -> Differing:
        return (self._moves(draws, relation),)

    def reach_of(self, table: str, group: str, relation: Relation | None) -> Reach:
        r"""How far the answers of a query are apart; between neighbors if no ``relation`` is named.

        An address adds x before and y after, with at most tau rows each, whatever changes there. So
        for a person or a household replaced :math:`\|x - y\|^2 \le 2\tau^2`, and 2 for
        denominators, as with the relation *household*; PHSafe states more. A household of n persons
        has at most min(tau, n) rows. Two addresses may change the same answers, by twice as much;
        that is less than twice the square that PHSafe states: :math:`8\tau^2 \le 2 (2\tau + 2)^2`."""
        part = self.sdhc
        found = reach(table, group, self.tau, part.mode, part.relation)
        assert found is not None
        if relation is None:
            return found
        if part.mode == PHSAFE:
            return Reach(found.answers * (2 if relation.moved else 1), found.by)
        if relation.whole or (relation.same_total and not relation.moved):
            everybody = table == untruncated(part.mode, part.relation) and group == "*"
            if everybody or table in LEFT_OUT:
                found = self._by_person(table, relation)
            elif (rows := reach(table, group, self.tau, TIGHT, HOUSEHOLD)) is not None:
                most = relation.persons if relation.whole else rows.by
                found = Reach(rows.answers, min(rows.by, most))
        return Reach(found.answers, found.by * (2 if relation.moved else 1))

    def _by_person(self, table: str, relation: Relation) -> Reach:
        r"""Of what counts persons one by one: those whom tables leave out, and everybody where
        nobody is left out.

        One person more adds 1 to one answer, or none, and takes from none. So one replaced changes
        one answer by -1 and one by 1, or a single answer by 1. Of n persons min(tau, n) are kept,
        and at most max(0, n - tau) are left out. Let m of the n be children, k of them kept, and c
        the limit of children. Then m - min(c, k) children are left out. At most n - min(tau, n)
        children are not kept, so k >= m - n + min(tau, n), and

        .. math:: m - \min(c, k) \le \max(m - c, n - \min(\tau, n))
                  \le \max(0, n - \min(c, \tau)),

        which n children reach. All entries of x and y are 0 or more. So what x has above y is at most
        that in sum, and so is what y has above x."""
        kept = self.tau["PH7"]
        counted = {EXCESS: kept, EXCESS_CHILDREN: min(self.tau["PH3"], kept)}.get(table, 0)
        most = max(0, relation.persons - counted) if relation.whole else 1
        return Reach(len(TABLES[table].cells), most)

    def _moves(
        self, draws: Sequence[PlannedMeasurement], relation: Relation | None = None
    ) -> Moves:
        """What differs. All is ``shifted``, by 1 too: both of two changes can raise one answer, as
        unit records change. So two changes are not one record that goes and one that comes."""
        counts: Counter[tuple[Mechanism, Fraction]] = Counter()
        shifted: Counter[tuple[Fraction, int]] = Counter()
        for d in draws:
            table, group = d.query.split(" ")
            to = self.reach_of(table, group, relation)
            if to.by and self.mechanism.pure:
                counts[d.mechanism, d.parameter] += to.stability(self.mechanism)
            elif to.by:
                shifted[1 / d.parameter, to.by] += to.answers
        return Moves(
            (tuple(counts.items()),),
            ((0,),),
            (through(draws),),
            shifted=tuple((p, k, n) for (p, k), n in shifted.items()),
        )

    def _changes(self, draws: Sequence[PlannedMeasurement]) -> list[Change]:
        """One who moves changes two addresses, whose answers may differ in the same place: twice
        the sum, and four times the square sum. Twice what PHSafe pays covers that, as
        8 tau^2 <= 2 (2 tau + 2)^2."""
        one, who = self._moves(draws), self.sdhc.relation
        twice = self.mechanism.pure or self.sdhc.mode == PHSAFE
        return [
            Change("record", f"one {who} more or less" if who == PERSON else "one household replaced",
                   (one,)),
            Change("record", f"a {who} that moves to another address",
                   (one.times(2) if twice else one.alike(2),)),
        ]  # fmt: skip
