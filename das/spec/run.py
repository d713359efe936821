"""The run specification: what the configuration may say, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from pydantic import Field

from das.accounting.statement import Terms
from das.errors import SpecError
from das.model.budget import Allocation, Neighbours, Plan
from das.model.columns import Columns
from das.model.mechanisms import MECHANISMS
from das.model.schema import H1, Schema
from das.model.universe import HOUSING, PERSONS, Exact, Planned, Tabulation, Universe
from das.spec.parts import (
    BudgetPart,
    Constraints,
    Data,
    Estimation,
    Geography,
    Housing,
    Output,
    OwnUniverse,
    Part,
    RelativeBudget,
    RoundingPart,
    Run,
    SchemaPart,
    TablePart,
)
from das.spec.passes import default_passes

_FILE_NAME = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]*")
_TABLE = re.compile(r"[A-Za-z]\w{0,60}", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
#: Names that no universe of one's own may have: they stand in files and statements for something else.
TAKEN = (PERSONS, HOUSING, "units", "total")
ALL = "*"  #: in a pass: every measured query that no earlier pass has
Passes = Mapping[str, tuple[tuple[str, ...], ...]]


#: Chains of nested queries for rounding, fine to coarse; the Bureau's for the redistricting schema.
CHAINS = {
    "pl94": ("hhgq * hispanic * cenrace", "hhgq * hispanic"),
    "1940-e2e": ("hhgq * hispanic * race", "hhgq * hispanic"),
}


class RunSpec(Part):
    """A whole run. Frozen; every part checked against the others."""

    run: Run
    data: Data
    schema_: SchemaPart = Field(alias="schema")
    geography: Geography
    budget: BudgetPart
    housing: Housing | None = None
    tables: dict[str, TablePart] = Field(default={})
    own: dict[str, OwnUniverse] = Field(default={}, alias="universes")
    estimation: Estimation = Estimation()
    rounding: RoundingPart = RoundingPart()
    constraints: Constraints = Constraints()
    output: Output = Output()

    @cached_property
    def schema_built(self) -> Schema:
        return self.schema_.build()

    @cached_property
    def persons(self) -> Planned:
        total = self.budget.total
        assert total is not None, "a budget that calibrate() has yet to find"
        c = self.constraints
        plan = self._plan(self.schema_built, total, self.budget, "budget")
        written = self.rounding.chain
        return Planned(
            PERSONS, PERSONS, self.schema_built, self._passes(plan, self.schema_built, self.estimation.passes, "estimation.passes"),
            CHAINS.get(self.schema_built.name, ()) if written is None else written,
            written is None and self.schema_built.name not in CHAINS, self.rounding.objective,
            Exact(c.total, c.housing_units, c.group_quarters, c.queries), tables=self._tables(PERSONS), plan=plan,
        )  # fmt: skip

    @cached_property
    def universes(self) -> tuple[Planned, ...]:
        """Persons, and what else is counted over the same tree."""
        out = [self.persons]
        if self.housing is not None:
            plan = self._relative(H1, self.housing.budget, "housing.budget")
            out.append(Planned(
                HOUSING, "units", H1, self._passes(plan, H1, {}, ""), (), False, self.rounding.objective,
                Exact(self.geography.levels[-1]), table="housing", letter="U", facilities=True,
                tables=self._tables(HOUSING), plan=plan,
            ))  # fmt: skip
        return (*out, *(self._own(name, part) for name, part in self.own.items()))

    def _own(self, name: str, part: OwnUniverse) -> Planned:
        """One under ``[universes]``."""
        table = f"universes.{name}"
        if not _NAME.fullmatch(name) or name in TAKEN:
            raise SpecError(f"{name!r} cannot name a universe", where=table,
                            remedy=f"use small letters, digits and _, beginning with a letter; but not {', '.join(TAKEN)}")  # fmt: skip
        try:
            schema = part.schema_.build()
        except SpecError as error:
            raise SpecError(error.what, where=f"{table}, {error.where}", remedy=error.remedy) from None
        plan = self._relative(schema, part.budget, f"{table}.budget")
        return Planned(
            name, name, schema, self._passes(plan, schema, part.estimation.passes, f"{table}.estimation.passes"),
            part.rounding.chain, not part.rounding.chain, self.rounding.objective, Exact(part.constraints.total, queries=part.constraints.queries), table,
            part.letter or re.sub(r"[0-9_]", "", name).upper(), tables=self._tables(name), plan=plan,
        )  # fmt: skip

    def _tables(self, universe: str) -> tuple[Tabulation, ...]:
        """The tables that are defined for a universe."""
        return tuple(
            Tabulation(name, t.title, t.query, tuple((c.label, c.where) for c in t.columns), t.where)
            for name, t in self.tables.items() if t.universe == universe
        )  # fmt: skip

    def _check_tables(self) -> None:
        """Names that can stand in the names of files and columns, and queries and conditions of the schema."""
        for name, asked in self.tables.items():
            where = f"tables.{name}"
            if not _TABLE.fullmatch(name) or name.upper() == name:
                raise SpecError(f"{name!r} cannot name a table", where=where,
                                remedy="use letters, digits and _, and have a small letter in it")  # fmt: skip
            if sum(name.lower() == other.lower() for other in self.tables) > 1:
                raise SpecError(f"two tables are called {name!r}", where=where, remedy="rename one")
            try:
                schema = self.universe(asked.universe).schema
                if asked.query is not None:
                    schema.query(asked.query)
                for condition in (asked.where, *(c.where for c in asked.columns)):
                    if not schema.where(condition).any():
                        raise SpecError("no record can meet this condition", remedy="list levels that it may have")
            except SpecError as error:
                raise SpecError(error.what, where=where, remedy=error.remedy) from None

    def universe(self, name: str) -> Planned:
        """By its name. Raises :class:`SpecError`."""
        for u in self.universes:
            if name == u.name:
                return u
        raise SpecError(f"there is no universe {name!r}", remedy=f"it has {', '.join(u.name for u in self.universes)}")

    @cached_property
    def terms(self) -> Terms:
        """What an account of this specification is about."""
        b = self.budget
        schemas = {u.name: u.schema for u in self.universes}
        exact = {u.name: u.exact.counts for u in self.universes}
        return Terms(
            MECHANISMS[b.mechanism],
            Neighbours(b.neighbours),
            b.delta,
            self.geography.levels,
            schemas,
            exact,
            b.target,
            {u.name: u.plan.paths for u in self.universes},
        )

    def calibrate(self) -> RunSpec:
        """The same specification with the budget found where it gives a target alone."""
        target = self.budget.target
        if target is None or self.budget.rho is not None:
            return self
        shape = self._plan(self.schema_built, Fraction(1), self.budget, "budget")
        return self.model_copy(update={"budget": self.budget.model_copy(update={"rho": target.rho(shape)})})

    def check(self) -> RunSpec:
        """Build everything that parts must agree on; raises :class:`SpecError`."""
        levels = self.geography.levels
        if wrong := [n for n in levels if not _FILE_NAME.fullmatch(n)]:
            raise SpecError(f"{wrong[0]!r} cannot be part of a file name", where="geography.levels",
                            remedy="begin with no dot, and leave out '/', '\\' and line breaks")  # fmt: skip
        if len(set(levels)) != len(levels):
            raise SpecError("a level occurs twice", where="geography.levels")
        passes: list[tuple[str, Mapping[str, object]]] = [("estimation.passes", self.estimation.passes)]
        passes += [(f"universes.{name}.estimation.passes", u.estimation.passes) for name, u in self.own.items()]
        for table, keys in (("geography.define", self.geography.define), *passes):
            if extra := [k for k in keys if k not in levels and k != "default"]:
                raise SpecError(
                    f"{extra[0]!r} is not a level", where=table, remedy=f"the levels are {', '.join(levels)}"
                )
        if self.data.columns is not None:
            Columns.of(self.data.columns, self.schema_built)
        for name, part in self.own.items():
            Columns.of(part.data.columns, self.universe(name).schema, f"universes.{name}.data.columns")
        for u in self.universes:
            if u.exact.total is not None and u.exact.total not in levels:
                raise SpecError(f"{u.exact.total!r} is not a level", where=u.key("constraints.total"),
                                remedy=f"the levels are {', '.join(levels)}")  # fmt: skip
            self._check_chain(u)
            self._check_invariants(u)
        self._check_tables()
        letters = [u.letter for u in self.universes]
        if twice := [u for u in self.universes[1:] if letters.count(u.letter) > 1 or u.letter in ("P", "H", "T")]:
            raise SpecError(f"tables of another universe begin with {twice[0].letter!r}", where=twice[0].key("letter"),
                            remedy="give it other letters")  # fmt: skip
        if self.estimation.method == "full-information":
            for u in self.universes:
                if not any(u.schema.query(d.query).answers == u.schema.cells for d in u.plan.at(levels[-1])):
                    raise SpecError(f"full information needs the detailed query at {levels[-1]!r} ({u.name})",
                                    where="estimation.method",
                                    remedy="measure 'detailed' there, or use the method 'topdown'")  # fmt: skip
        if self.budget.target is not None:
            self.budget.target.check(self.persons.plan)
        return self

    def _check_chain(self, u: Universe) -> None:
        """Each query of the rounding chain is finer than the next; all of them tell dwelling groups apart."""
        schema, chain = u.schema, u.chain
        try:
            indices = [schema.query(name).index for name in chain]
        except SpecError as error:
            raise SpecError(
                f"{error.where}: {error.what}", where=u.key("rounding.chain"), remedy=error.remedy
            ) from None
        names = list(chain)
        if schema.dwelling is not None and chain:
            indices.append(schema.query(schema.dwelling).index)
            names.append(schema.dwelling)
        for (fine, coarse), (name, after) in zip(pairwise(indices), pairwise(names), strict=True):
            if len(np.unique(np.stack([fine, coarse]), axis=1).T) != len(np.unique(fine)):
                raise SpecError(f"{name!r} does not tell the groups of {after!r} apart", where=u.key("rounding.chain"),
                                remedy="nest the queries, fine to coarse, each naming the dwelling attribute")  # fmt: skip

    def _check_invariants(self, u: Universe) -> None:
        """Counts that are exact are nested among themselves and with the rounding's sums, or no network rounds them."""
        where = u.key("constraints.invariants")
        for level, name in u.exact.queries:
            if level not in self.geography.levels:
                raise SpecError(
                    f"{level!r} is not a level",
                    where=where,
                    remedy=f"the levels are {', '.join(self.geography.levels)}",
                )
            try:
                u.schema.query(name)
            except SpecError as error:
                raise SpecError(error.what, where=where, remedy=error.remedy) from None
        if all(name == "total" for _, name in u.exact.queries):
            return
        if u.schema.dwelling is not None and (u.exact.housing_units or u.exact.group_quarters):
            raise SpecError("beside bounds on dwellings only totals can be exact", where=where,
                            remedy="set constraints.housing_units and constraints.group_quarters to false")  # fmt: skip
        queries = [u.schema.query(name) for name in dict.fromkeys(name for _, name in u.exact.counts)]
        for a in queries:
            for b in [*queries, *map(u.schema.query, u.chain)]:
                if not (a.sums(b) or b.sums(a)):
                    chain = " (of rounding.chain)" if b.name in u.chain else ""
                    other = f"; or change {u.key('rounding.chain')} (to [], for none)" if chain else ""
                    raise SpecError(
                        f"{a.name!r} and {b.name!r}{chain} cross: neither is a sum of the other", where=where,
                        remedy="what is exact must be nested, such as total, sex and 'sex * age': only then is there a "
                               f"rounding that meets all of it{other}",
                    )  # fmt: skip

    def _relative(self, schema: Schema, part: RelativeBudget, where: str) -> Plan:
        if part.relative <= 0:
            raise SpecError(f"relative is {part.relative}, not positive", where=f"{where}.relative")
        return self._plan(schema, self.persons.plan.cost * part.relative, part, where)

    def _plan(self, schema: Schema, total: Fraction, part: BudgetPart | RelativeBudget, where: str) -> Plan:
        levels = self.geography.levels
        if missing := [lv for lv in levels if lv not in part.levels]:
            raise SpecError(f"level {missing[0]!r} of geography.levels has no share", where=f"{where}.levels",
                            remedy=f"add {missing[0]}, or take it out of geography.levels")  # fmt: skip
        if extra := [lv for lv in part.levels if lv not in levels]:
            raise SpecError(f"{extra[0]!r} is not a level", where=f"{where}.levels",
                            remedy=f"the levels are {', '.join(levels)}")  # fmt: skip
        for level, queries in part.queries.items():
            for q in queries:
                try:
                    schema.query(q)
                except SpecError as error:
                    raise SpecError(error.what, where=f"{where}.queries.{level}", remedy="see the schema") from None
        ordered = {lv: part.levels[lv] for lv in levels}
        try:
            allocation = Allocation(ordered, part.queries)
        except SpecError as error:
            raise SpecError(error.what, where=str(error.where).replace("budget", where, 1)) from None
        return Plan.of(total, MECHANISMS[self.budget.mechanism], Neighbours(self.budget.neighbours), allocation)

    def _passes(self, plan: Plan, schema: Schema, given: Passes, where: str) -> dict[str, tuple[tuple[str, ...], ...]]:
        """The passes of each level: written out, ``default``, or by rule (:mod:`das.spec.passes`)."""
        levels = self.geography.levels
        return {
            lv: self._passes_of(lv, tuple(d.query for d in plan.at(lv)), given, where)
            if given.keys() & {lv, "default"} else default_passes(plan, schema, lv, root=lv == levels[0])
            for lv in levels
        }  # fmt: skip

    def _passes_of(
        self, level: str, measured: tuple[str, ...], given: Passes, where: str
    ) -> tuple[tuple[str, ...], ...]:
        """``*`` is the rest."""
        written = given.get(level, given.get("default", ()))
        where = f"{where}.{level if level in given else 'default'}"
        named = [q for p in written for q in p if q != ALL]
        if unknown := [q for q in named if q not in measured and level in given]:
            raise SpecError(f"{unknown[0]!r} is not measured at {level!r}", where=where)
        if len(set(named)) != len(named):
            raise SpecError("a query occurs in two passes", where=where)
        passes, seen = [], set(named)
        for names in written:
            full = [q for q in names if q != ALL and q in measured]
            if ALL in names:
                full += [q for q in measured if q not in seen]
                seen |= set(measured)
            if full:
                passes.append(tuple(full))
        if left := [q for q in measured if q not in seen]:
            raise SpecError(f"measured at {level!r}, but in no pass: {left[0]!r}", where=where,
                            remedy='add it, or end the passes with ["*"], the rest')  # fmt: skip
        return tuple(passes)
