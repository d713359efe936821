"""The specification of the DHC: three universes over the tree of an earlier
redistricting release.

The production budgets are in :mod:`das.publications.dhc.model.strategy`; a configuration says which of them each
level has, or gives the rho of each query of a level; and a multiple of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import ClassVar, Literal

import tomli_w
from pydantic import Field, field_validator, model_validator

from das.accounting.document import Invariant, OwnAccount, decimal
from das.accounting.guarantee import DEFAULT_DELTA
from das.accounting.planning import QueryCosts
from das.accounting.sources import ADDED, Relation, relations, unit_of
from das.accounting.statement import Terms
from das.accounting.zcdp import no_more
from das.errors import SpecError
from das.model.budget import PlannedMeasurement, QueryNoise, costliest
from das.model.frozen import Frozen
from das.model.mechanisms import EPSILON, MECHANISMS
from das.model.plan import Plan, Strategy
from das.model.post_processing import Method, PostProcessing
from das.model.schema import Schema
from das.model.universe import PERSONS as PEOPLE
from das.model.universe import RecordKind, kind_of
from das.publications.dhc.model import strategy
from das.spec.checks import check_spine
from das.spec.notes import FACILITIES, STRUCTURES, made_from_note, trees_note
from das.spec.parts import DeltaNumber, ExactNumber, Files, OneOrMore, Output, Part, Run, TreeKeys
from das.spec.specification import Specification

# Tables of the configuration of the DHC that need no other: how it is estimated, and linked.

SharesName = Literal["none", "shares"]
_FEW = 100
#: Persons of the ages that a redistricting release tells apart; and how many times the standard
#: deviation of a plan's own queries is much more.
ADULTS, _MUCH = "votingage", 2
#: The level whose units are linked one by one.
LINKED_UNITS = "Tract"


class DhcEstimation(Part):
    """``[estimation]``."""

    method: Method = "topdown"
    """`"topdown"`: each level from its own measurements, given the level above.
    `"full-information"`: queries with at most 100 answers from the measurements of all levels."""

    cells: Literal["last", "first"] = "last"
    """When measurements of single cells of persons count. `"last"`: in the last pass, as in
    production. `"first"`: from the first pass that settles a cell, such as a single year of age
    under 22."""
    prior: SharesName = "none"
    """A prior for the persons of the lowest units: none, or that they have roughly the shares of
    the unit above (`"shares"`; see *Ages*). Its weight is estimated from published levels."""

    @property
    def most(self) -> int:
        """The most answers that a query can have for the upward pass to use it at all levels
        (:mod:`das.estimate.pooled`)."""
        return _FEW if self.method == "full-information" else 0


class DhcLink(Part):
    """``[link]``: a run also puts the persons of its release into households, in ``linked/`` next
    to the release. It is experimental, and costs no budget: ``das link`` of the release gives the
    same files (``docs/how-to/linked.md``). Absent: none."""

    number: int = Field(default=0, ge=0)
    """Which link: others make other choices between equals."""
    csv: bool = False
    """Write CSV files, not Parquet."""
    tables: bool = True
    """Write the tables of the DHC from the link."""
    replicates: int = Field(default=0, ge=0)
    """Replicates to link for the errors of averages. Each takes as long as the estimation."""

    @property
    def says(self) -> str:
        """What comes of it, in a sentence."""
        more = f", with errors from {self.replicates} replicates" if self.replicates else ""
        return (
            "linked/ next to the release: persons in their households, experimental, without"
            f" budget{more}; no household is a real one"
        )

    def check(self, levels: Sequence[str]) -> None:
        """Raises ``ValueError`` for a tree without the units that are linked one by one."""
        if LINKED_UNITS not in levels[:-1]:
            raise ValueError(
                f"link: {LINKED_UNITS}s are linked one by one, and geography.levels has none above"
                " its last level: name it, or leave [link] out"
            )


def kept_counts_notes(
    base: PostProcessing, schema: Schema, measured: Mapping[str, Sequence[QueryNoise]]
) -> tuple[str, ...]:
    """Where adults are kept that ``base`` has measured far less precisely than they are
    ``measured`` here, by level. Both are public: they follow from the plans alone."""
    here = {lv: _deviation(schema, noise) for lv, noise in measured.items()}
    there = {
        lv: _deviation(u.schema, [n for n in u.noise if n.level == lv])
        for u in base.universes
        if u.name == PEOPLE.name
        for lv in measured
    }
    return tuple(
        f"the number of adults in each {lv} is kept from {base.name!r}, whose plan measures it there"
        f" with a standard deviation of {deviation:.0f} persons. The queries of this plan alone would"
        f" have {here[lv]:.0f}. So {lv} ages gain less than they can: rest on a release of"
        " pl94-2010-best, or of another plan that measures adults (docs/reference/dhc-figures.md)"
        for lv, deviation in there.items()
        if deviation > _MUCH * here[lv]
    )


def _deviation(schema: Schema, noise: Sequence[QueryNoise]) -> float:
    """That of the number of adults of a unit, by its own queries alone. A query with k times as many
    answers gives each number as a sum of k, on average."""
    adults = schema.query(ADULTS)
    fine = [(n, q) for n in noise if adults.sums(q := schema.query(n.query))]
    precision = sum(adults.answers / (q.answers * n.variance) for n, q in fine)
    return float("inf") if not fine else float(precision**-0.5)


# What one person, or one household, costs in a release of the DHC, in words: in it alone, and
# together with the release that it rests on. The relations and their proofs are in
# :mod:`das.accounting.sources`.

#: How each sentence begins, after the relation.
COSTS = " costs rho = "
#: By universe, the rho of one record that is replaced.
Costs = Mapping[str, Fraction]


def sentences(costs: Costs, earlier: Costs, delta: Fraction) -> tuple[str, ...]:
    """What each of the relations costs in this release, and together with the earlier one; epsilon
    is from rho alone."""
    both = {**costs, **{u: rho + costs.get(u, 0) for u, rho in earlier.items()}}
    out = []
    for r in relations():
        more = (
            f"; together with the redistricting release {_says(r, both, delta)}" if earlier else ""
        )
        out.append(
            f"{r.title} costs {_says(r, costs, delta)}{more}. Epsilon is at delta ="
            f" {decimal(delta)}, from rho alone."
        )
    return tuple(out)


def are_costs(sentence: str) -> bool:
    """Whether a sentence of a statement is one of these."""
    return any(sentence.startswith(r.title + COSTS) for r in relations())


def total(relation: Relation, costs: Costs, *, most: bool) -> Fraction:
    """rho, wherever the records are, or if each changes other answers."""
    out = Fraction(0)
    for universe, rho in costs.items():
        changed = relation.changed[unit_of(universe)]
        one = rho / 2 if changed.verb == ADDED else rho
        out += one * (changed.multiple.most if most else changed.multiple.apart)
    return out


def _says(relation: Relation, costs: Costs, delta: Fraction) -> str:
    """Both, and epsilon at ``delta``."""
    apart, most = (total(relation, costs, most=most) for most in (False, True))
    if apart == most:
        return _cost(most, delta)
    return f"{_cost(apart, delta)} usually, at most {_cost(most, delta)}"


def replaced(account: OwnAccount) -> dict[str, Fraction]:
    """The rho of one replaced record, by universe, from an account."""
    times = 1 if account.neighbours == "bounded" else 2
    pure = MECHANISMS[account.mechanism].currency == EPSILON
    totals = {u: times * cost for u, cost in account.totals.items() if u != "total"}
    return {u: cost**2 / 2 if pure else cost for u, cost in totals.items()}


def _cost(rho: Fraction, delta: Fraction) -> str:
    """Epsilon is rounded up."""
    return f"rho = {_exact(rho)} (epsilon {ceil(100 * no_more(rho, delta)) / 100:.2f})"


def _exact(value: Fraction) -> str:
    """Itself where few digits say it, else what is a little more."""
    rounded = Fraction(ceil(value * 10**6), 10**6)
    return str(float(rounded)) if rounded.denominator > 1 else str(rounded)


PERSONS, UNITS, HOUSEHOLDS = "persons", "units", "households"
#: Production's strategy of each universe.
PRODUCTION = {PERSONS: strategy.persons, UNITS: strategy.units, HOUSEHOLDS: strategy.households}
#: Levels from which the weight of a prior is estimated: the lowest, its parents, and theirs.
_LEARNING = 3
#: The levels of a tree of tabulation whose budgets have other names.
_LIKE = {level: level for level in strategy.LEVELS} | {"Nation": "US", "Tract": "Tract_Subset"}


class DhcRun(Run):
    """``[run]``."""

    publication: Literal["dhc"] = "dhc"
    """The DHC: persons, units and households."""


class DhcData(Files):
    """``[data]``."""

    path: OneOrMore = ()
    """A folder with the linked tables ``persons``, ``households`` and ``units``; ``--data``
    replaces it."""


class Earlier(Part):
    """``[constraints]``: what is published exactly, outside the guarantee."""

    from_: str = Field(default="", alias="from")
    """Path of a redistricting release for the same blocks. Person and unit counts in every block
    are held to its published values. In a release: its name."""
    digest: str = ""
    """In a release: SHA-256 of that release's privacy statement."""
    exact: tuple[tuple[str, str], ...] = ()
    """In a release: level and query of the person counts that are exact in that release, and so
    are exact here."""
    rho: dict[str, ExactNumber] = Field(default={})
    """In a release: by universe, what that release cost for one replaced record."""


class DhcGeography(TreeKeys):
    """``[geography]``."""

    levels: tuple[str, ...] = Field(min_length=2)
    """Levels of the earlier release's tree: all of them, or the lower ones, root first."""

    @property
    def divided(self) -> tuple[str, ...]:
        """The levels at which a published place can be in two measured units: the branches of a
        state, and what is below them above the block groups, whatever the places are."""
        if self.spine == "tabulation":
            return ()
        return self.levels[self.levels.index("State") : -2]


class DhcBudget(Part):
    """``[budget]``: the budgets under zCDP. Neighbors differ in one replaced record of one
    universe (bounded)."""

    persons: ExactNumber = Fraction(1)
    """Multiple of production's rho for each query of persons."""
    units: ExactNumber = Fraction(1)
    """Multiple of production's rho for each query of units."""
    households: ExactNumber = Fraction(1)
    """Multiple of production's rho for each query of households."""
    where: Literal["US", "PR"] = "US"
    """The production budgets to use: those of the nation, or of Puerto Rico."""
    delta: DeltaNumber = DEFAULT_DELTA
    """The privacy statement gives epsilon at this delta."""
    levels: dict[str, str] = Field(default={})
    """A level of the tree, and the level of the production tree whose budget it has. Absent: the
    level of the same name, except that tracts have the budget of ``Tract_Subset``."""
    queries: dict[str, dict[str, dict[str, ExactNumber]]] = Field(default={})
    """By universe and level, the rho of each query, instead of production's. Queries that are not
    listed are not measured there; new ones are products of attributes and recodes. A new query
    is part of the first pass that settles its answers."""
    made_from: tuple[str, ...] = ()
    """What the shares were made from, if more than the configuration. The privacy statement
    repeats it."""

    @field_validator("persons", "units", "households")
    @classmethod
    def _positive(cls, value: Fraction) -> Fraction:
        if value <= 0:
            raise ValueError(f"{value} is not positive")
        return value


@dataclass(frozen=True, eq=False)
class DhcUniverse(Frozen):
    """Records of one kind, the strategy by which they are measured and estimated, and the query
    ``fixed_query`` whose answers are exact in every lowest unit: published before, or, where it
    ``rests_on`` on another universe, by that. What is ``exact`` of it is published as it is true;
    its records may be ``housed`` where there are facilities alone. ``prior`` is that of its lowest
    units."""

    kind: RecordKind
    strategy: Strategy
    fixed_query: str
    rests_on: str | None = None
    exact: str | None = None
    housed: bool = False
    prior: SharesName = "none"

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def records(self) -> str:
        """How a reader calls its records."""
        return self.kind.records

    @property
    def schema(self) -> Schema:
        return self.strategy.schema

    @cached_property
    def plan(self) -> Plan:
        return self.strategy.plan()


class DhcSpec(Specification):
    """A whole run of the DHC. Frozen; every part checked against the others."""

    title: ClassVar[str] = "the DHC"
    public: ClassVar[str] = "das.publications.dhc.public:PublicDhc"
    maker: ClassVar[str | None] = "das.publications.dhc.truth.maker:DhcMaker"
    tasks: ClassVar[str | None] = "das.publications.dhc.truth.by_subtree:TASKS"
    rests_on: ClassVar[str] = "constraints.from"
    remedy: ClassVar[str] = (
        "docs/reference/publications.md lists the commands that take it or its releases"
    )

    run: DhcRun
    data: DhcData = DhcData()
    constraints: Earlier = Earlier()
    geography: DhcGeography
    budget: DhcBudget = DhcBudget()
    estimation: DhcEstimation = DhcEstimation()
    link: DhcLink | None = None
    output: Output = Output()

    @model_validator(mode="after")
    def _agree(self) -> DhcSpec:
        levels = self.geography.levels
        if len(set(levels)) < len(levels):
            raise ValueError("geography.levels: a level is there twice")
        if odd := [lv for lv in self.budget.levels if lv not in levels]:
            raise ValueError(f"budget.levels: {odd[0]!r} is not in geography.levels")
        self._check_queries()
        budgets = strategy.LEVELS if self.budget.where == "US" else strategy.LEVELS[1:]
        for level in levels:
            if self.like(level) not in budgets:
                raise ValueError(
                    f"budget.levels: {level!r} has no budget of production: say {level} ="
                    f' "{budgets[0]}", or another of '
                    f"{', '.join(budgets)}"
                )
        if self.estimation.prior != "none" and len(levels) < _LEARNING:
            raise ValueError(
                f"estimation.prior: its weight is estimated from {_LEARNING} levels, and"
                f' geography.levels names {len(levels)}: name more, or leave it at "none"'
            )
        if self.link is not None:
            self.link.check(levels)
        if self.run.entropy != "keyed":
            raise ValueError('run.entropy: only "keyed" noise is the same when it is asked again')
        return self

    def _check_queries(self) -> None:
        """Universes and levels exist; each universe is a strategy."""
        for name, by_level in self.budget.queries.items():
            where = f"budget.queries.{name}"
            if name not in PRODUCTION:
                raise ValueError(f"{where}: the universes are {', '.join(PRODUCTION)}")
            if odd := [lv for lv in by_level if lv not in self.geography.levels]:
                raise ValueError(f"{where}: {odd[0]!r} is not in geography.levels")
            schema = PRODUCTION[name](self.budget.where).schema
            for level, queries in by_level.items():
                _check_level(schema, queries, f"{where}.{level}")

    def like(self, level: str) -> str:
        return self.budget.levels.get(level, _LIKE.get(level, level))

    @cached_property
    def universes(self) -> tuple[DhcUniverse, ...]:
        """Persons, units, and households, which rest on the units."""
        b = self.budget
        persons, units, households = (
            self._on_levels(of(b.where), getattr(b, name), b.queries.get(name, {}))
            for name, of in PRODUCTION.items()
        )
        if self.estimation.cells == "first":
            persons = persons.cells_first()
        return (
            DhcUniverse(
                kind_of(PERSONS),
                persons,
                strategy.PERSONS_FIXED,
                housed=True,
                prior=self.estimation.prior,
            ),
            DhcUniverse(kind_of(UNITS), units, strategy.UNITS_FIXED, exact=strategy.UNITS_EXACT),
            DhcUniverse(kind_of(HOUSEHOLDS), households, strategy.HOUSEHOLDS_FIXED, rests_on=UNITS),
        )

    def checked(self) -> DhcSpec:
        check_spine(self.geography)
        return self

    @property
    def further(self) -> tuple[str, ...]:
        return () if self.link is None else (self.link.says,)

    @property
    def base(self) -> str:
        return self.constraints.from_

    def notes_on(self, base: PostProcessing) -> tuple[str, ...]:
        own, persons = self.budget.queries.get(PERSONS, {}), self.universe(PERSONS)
        return kept_counts_notes(base, persons.schema, {lv: persons.plan.at(lv) for lv in own})

    def universe(self, name: str) -> DhcUniverse:
        return next(u for u in self.universes if u.name == name)

    def production(self, universe: str) -> Mapping[str, Mapping[str, Fraction]]:
        """Production's costs of each level and query, times what the configuration says."""
        of = PRODUCTION[universe](self.budget.where)
        return self._on_levels(of, getattr(self.budget, universe), {}).rho

    def _on_levels(
        self, strategy: Strategy, times: Fraction, own: Mapping[str, Mapping[str, Fraction]]
    ) -> Strategy:
        """``own``: the levels whose costs are not production's."""
        rho = {}
        for lv in self.geography.levels:
            here = own[lv] if lv in own else strategy.rho[self.like(lv)]
            rho[lv] = {q: times * r for q, r in here.items()}
        return strategy.measuring(rho)

    def lacks_input(self, paths: Sequence[Path]) -> bool:
        return not (paths or self.data.path or self.constraints.from_)

    @property
    def exact(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """By universe level and query of what is published exactly and measured here: housing
        units, and facilities by type; and total persons, where the earlier release has them
        exactly."""
        totals = tuple(known for known in self.constraints.exact if known[1] == "total")
        own = {
            u.name: ((self.geography.levels[-1], u.exact),) if u.exact else ()
            for u in self.universes
        }
        return own | {PERSONS: totals}

    @property
    def taken_over(self) -> tuple[Invariant, ...]:
        """What is exact here because it was exact in the earlier release, whose counts of every
        block are kept."""
        says = (
            "{query} of persons of every {level}, which the redistricting release published exactly"
            " and this release keeps"
        )
        return tuple(
            Invariant.make(
                universe=PERSONS,
                constraint=query,
                level=level,
                query=query,
                sign="=",
                says=says.format(query=query, level=level),
            )
            for level, query in self.constraints.exact
        )

    @cached_property
    def terms(self) -> Terms:
        """What an account of this specification is about."""
        us, plan = self.universes, self.universes[0].plan
        return Terms(
            plan.mechanism,
            plan.neighbours,
            self.budget.delta,
            self.geography.levels,
            {u.name: u.schema for u in us},
            self.exact,
            paths={u.name: u.plan.paths for u in us},
            split={u.name: self.geography.divided for u in us},
            relations=self._relations,
        )

    def _relations(self, draws: Mapping[str, Sequence[PlannedMeasurement]]) -> tuple[str, ...]:
        costs = {u.name: costliest(draws.get(u.name, ()), u.plan.paths) for u in self.universes}
        return sentences(costs, self.constraints.rho, self.budget.delta)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the privacy statement of a run that rests on the earlier release."""
        return (
            (
                "The redistricting counts of persons and of occupied and vacant units of every"
                f" block are those of the release {self.constraints.from_!r} (SHA-256 of its"
                f" privacy.json: {self.constraints.digest}). They were published before, from the"
                " same records: what that cost is in its own statement, and adds to this."
            ),
            (
                "A household is a record of its own, and so is each person in it. A change of"
                " several records of one kind costs up to the square of their number, times what"
                " one costs."
            ),
            *self._of_the_trees(),
            *self._made_from(),
        )

    def _of_the_trees(self) -> tuple[str, ...]:
        if self.geography.spine == "tabulation":
            return ()
        return (trees_note(f", and of what is published exactly: {STRUCTURES}, and {FACILITIES}"),)

    def _made_from(self) -> tuple[str, ...]:
        made = self.budget.made_from
        return (made_from_note(", ".join(self.budget.queries), made),) if made else ()

    def after(self, earlier: Earlier) -> DhcSpec:
        """The specification of a release, which names the earlier release that it rests on."""
        return self.model_copy(update={"constraints": earlier})

    def lower(self, levels: Sequence[str]) -> int:
        """Where in the ``levels`` of an earlier tree those of this begin. Raises
        :class:`SpecError`."""
        own = self.geography.levels
        for first in range(len(levels)):
            if tuple(levels[first:]) == own:
                return first
        raise SpecError(
            f"geography.levels is {', '.join(own)}, and the earlier release has"
            f" {', '.join(levels)}",
            where="geography.levels",
            remedy="name its lower levels, or all",
        )


def _check_level(schema: Schema, queries: Mapping[str, Fraction], where: str) -> None:
    """A level measures something; each query is one of the schema, and costs something. Two names
    of one query are refused: they would be one measurement twice."""
    if not queries:
        raise ValueError(f"{where}: a level must measure some query")
    if odd := [q for q, rho in queries.items() if rho <= 0]:
        raise ValueError(f"{where}: {odd[0]!r} costs {queries[odd[0]]}; leave it out, or say more")
    try:
        asked = [schema.query(q).groupings for q in queries]
    except SpecError as error:
        raise ValueError(f"{where}: {error.what}") from None
    if len(set(asked)) < len(asked):
        raise ValueError(f"{where}: a query is there twice")


# A plan of the DHC as the tables of a configuration that make it, and production's costs.


def dhc_budget_toml(spec: DhcSpec, universe: str, plan: Plan, made_from: Sequence[str]) -> str:
    """The tables that make ``plan`` the plan of ``universe``: the levels whose costs are not
    production's."""
    times: Fraction = getattr(spec.budget, universe)
    production, queries = spec.production(universe), dict[str, dict[str, str]]()
    for level in spec.geography.levels:
        here = {d.query: d.cost for d in plan.at(level)}
        if here != production[level]:
            queries[level] = {q: str(cost / times) for q, cost in here.items()}
    return tomli_w.dumps({"budget": {"made_from": list(made_from), "queries": {universe: queries}}})


def all_of_production(spec: DhcSpec, universe: str) -> tuple[QueryCosts, Mapping[str, str]]:
    """Production's costs over all its levels, times what the configuration says; and, by a level
    here, its last level whose unit two records of two units below share. Those of one tract share a
    group of parts of tracts (docs/how-to/dhc.md)."""
    of, times = PRODUCTION[universe](spec.budget.where), getattr(spec.budget, universe)
    costs = {(lv, q): times * r for lv, queries in of.rho.items() for q, r in queries.items()}
    shared = {lv: spec.like(lv) for lv in spec.geography.levels}
    group = "Tract_Subset_Group"
    return costs, {lv: group if at == "Tract_Subset" else at for lv, at in shared.items()}
