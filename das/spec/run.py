"""The run specification: what the configuration may say, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from das.errors import SpecError
from das.model.budget import Allocation, Mechanism, Neighbours, Plan
from das.model.grouping import Grouping
from das.model.schema import H1, SCHEMAS, Attribute, Schema
from das.spec.exact import Exact

_FILE_NAME = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]*")
ALL = "*"  #: in a pass: every measured query that no earlier pass has


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))


class Run(_Part):
    name: str = Field(min_length=1, coerce_numbers_to_str=True)
    seed: int | None = Field(default=None, ge=0, strict=True)
    entropy: Literal["system", "kernel"] = "system"


class Data(_Part):
    reader: Literal["pl94-2010", "pl94-2020", "ext1940", "ppmf", "table"]
    path: tuple[str, ...] = ()
    columns: dict[str, Any] | None = None

    @field_validator("path", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _columns_for_tables(self) -> Data:
        if (self.reader == "table") != (self.columns is not None):
            raise ValueError("data.columns goes with the reader 'table', and that reader needs it")
        return self


class GroupingPart(_Part):
    attribute: str
    groups: dict[str, tuple[str, ...]]


class SchemaPart(_Part):
    name: str
    attributes: dict[str, tuple[str, ...]] | None = None
    groupings: dict[str, GroupingPart] = {}
    impossible: tuple[dict[str, tuple[str, ...]], ...] = ()
    dwelling: str | None = None

    def build(self) -> Schema:
        """The schema: a published one by name, or the one written out here."""
        if self.attributes is None:
            if self.name not in SCHEMAS:
                raise SpecError(
                    f"no schema is called {self.name!r}",
                    where="schema.name",
                    remedy=f"use {', '.join(SCHEMAS)}, or write your own under [schema.attributes]",
                )
            if self.groupings or self.impossible or self.dwelling:
                raise SpecError(f"schema {self.name!r} is a published one and cannot be altered", where="schema",
                                remedy="give it another name and write out its attributes")  # fmt: skip
            return SCHEMAS[self.name]
        attributes = tuple(Attribute(k, v) for k, v in self.attributes.items())
        recodes = tuple(self._grouping(k, g) for k, g in self.groupings.items())
        return Schema(self.name, attributes, recodes, self.impossible, self.dwelling)

    def _grouping(self, name: str, part: GroupingPart) -> Grouping:
        where = f"schema.groupings.{name}"
        levels = (self.attributes or {}).get(part.attribute)
        if levels is None:
            raise SpecError(f"no attribute {part.attribute!r}", where=where)
        home = {level: i for i, members in enumerate(part.groups.values()) for level in members}
        listed = [level for members in part.groups.values() for level in members]
        if sorted(listed) != sorted(levels):
            odd = sorted(set(listed) ^ set(levels)) or sorted({x for x in listed if listed.count(x) > 1})
            raise SpecError(f"each level must be in exactly one group; see {odd[0]!r}", where=where)
        return Grouping(name, part.attribute, tuple(part.groups), tuple(home[x] for x in levels))


class Geography(_Part):
    levels: tuple[str, ...] = Field(min_length=1)
    spine: Literal["tabulation"] = "tabulation"
    define: dict[str, tuple[str, ...]] = {}


class BudgetPart(_Part):
    """``[budget]``. Exactly one of ``rho`` and ``epsilon``, as the mechanism wants."""

    rho: Exact | None = None
    epsilon: Exact | None = None
    neighbours: Literal["bounded", "unbounded"]
    delta: Exact = Fraction(1, 10**10)
    mechanism: Literal["discrete-gaussian", "geometric"] = "discrete-gaussian"
    levels: dict[str, Exact]
    queries: dict[str, dict[str, Exact]]

    @model_validator(mode="after")
    def _one_currency(self) -> BudgetPart:
        wanted, other = ("rho", "epsilon") if self.mechanism == "discrete-gaussian" else ("epsilon", "rho")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            raise ValueError(f"mechanism {self.mechanism!r} wants {wanted}, and no {other}")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}, not between 0 and 1")
        return self


class UnitsBudget(_Part):
    """``[units.budget]``. ``relative`` is a multiple of the persons' budget, so that a rerun moves both."""

    relative: Exact
    levels: dict[str, Exact]
    queries: dict[str, dict[str, Exact]]


class Units(_Part):
    schema_: Literal["h1"] = Field(default="h1", alias="schema")
    budget: UnitsBudget


class Estimation(_Part):
    method: Literal["topdown", "full-information"] = "topdown"
    tolerance: Exact = Fraction(1, 10)
    passes: dict[str, tuple[tuple[str, ...], ...]] = {}


class RoundingPart(_Part):
    """``nearest``: as close as possible to the estimates. ``bureau-2020``: to the estimates' fractional sums
    rounded first, as in production. ``chain``: nested queries, fine to coarse, whose sums count beside the cells."""

    objective: Literal["nearest", "bureau-2020"] = "nearest"
    chain: tuple[str, ...] | None = None


class Constraints(_Part):
    total: str | None = None
    housing_units: bool = True
    group_quarters: bool = True


class Output(_Part):
    csv: bool = False
    tables: bool = True


@dataclass(frozen=True)
class Universe:
    """One kind of record: its schema, plan and passes."""

    name: str
    schema: Schema
    plan: Plan
    passes: Mapping[str, tuple[tuple[str, ...], ...]]
    chain: tuple[str, ...]
    objective: str = "nearest"


#: Chains of nested queries for rounding, fine to coarse; the Bureau's for the redistricting schema.
CHAINS = {
    "pl94": ("hhgq * hispanic * cenrace", "hhgq * hispanic"),
    "1940-e2e": ("hhgq * hispanic * race", "hhgq * hispanic"),
}


class RunSpec(_Part):
    """A whole run. Frozen; every part checked against the others."""

    run: Run
    data: Data
    schema_: SchemaPart = Field(alias="schema")
    geography: Geography
    budget: BudgetPart
    units: Units | None = None
    estimation: Estimation = Estimation()
    rounding: RoundingPart = RoundingPart()
    constraints: Constraints = Constraints()
    output: Output = Output()

    @cached_property
    def schema_built(self) -> Schema:
        return self.schema_.build()

    @cached_property
    def persons(self) -> Universe:
        b = self.budget
        total = b.rho if b.rho is not None else b.epsilon
        assert total is not None
        return self._universe("persons", self.schema_built, total, b)

    @cached_property
    def housing(self) -> Universe | None:
        if self.units is None:
            return None
        b = self.units.budget
        if b.relative <= 0:
            raise SpecError(f"relative is {b.relative}, not positive", where="units.budget.relative")
        return self._universe("units", H1, self.persons.plan.cost * b.relative, b)

    @cached_property
    def universes(self) -> tuple[Universe, ...]:
        return (self.persons,) if self.housing is None else (self.persons, self.housing)

    def check(self) -> RunSpec:
        """Build everything that parts must agree on; raises :class:`SpecError`."""
        levels = self.geography.levels
        if wrong := [n for n in levels if not _FILE_NAME.fullmatch(n)]:
            raise SpecError(f"{wrong[0]!r} cannot be part of a file name", where="geography.levels",
                            remedy="begin with no dot, and leave out '/', '\\' and line breaks")  # fmt: skip
        if len(set(levels)) != len(levels):
            raise SpecError("a level occurs twice", where="geography.levels")
        for table, keys in (("geography.define", self.geography.define), ("estimation.passes", self.estimation.passes)):
            if extra := [k for k in keys if k not in levels and k != "default"]:
                raise SpecError(
                    f"{extra[0]!r} is not a level", where=table, remedy=f"the levels are {', '.join(levels)}"
                )
        if self.constraints.total is not None and self.constraints.total not in levels:
            raise SpecError(f"{self.constraints.total!r} is not a level", where="constraints.total",
                            remedy=f"the levels are {', '.join(levels)}")  # fmt: skip
        if self.estimation.method == "full-information":
            for u in self.universes:
                if not any(u.schema.query(d.query).answers == u.schema.cells for d in u.plan.at(levels[-1])):
                    raise SpecError(f"full information needs the detailed query at {levels[-1]!r} ({u.name})",
                                    where="estimation.method",
                                    remedy="measure 'detailed' there, or use the method 'topdown'")  # fmt: skip
        self._check_chain()
        _ = self.universes
        return self

    def _check_chain(self) -> None:
        """Each query of the rounding chain is finer than the next; all of them tell dwelling groups apart."""
        schema, chain = self.schema_built, self.rounding.chain or ()
        indices = [schema.query(name).index for name in chain]
        names = list(chain)
        if schema.dwelling is not None and chain:
            indices.append(schema.query(schema.dwelling).index)
            names.append(schema.dwelling)
        for (fine, coarse), (name, after) in zip(pairwise(indices), pairwise(names), strict=True):
            if len(np.unique(np.stack([fine, coarse]), axis=1).T) != len(np.unique(fine)):
                raise SpecError(f"{name!r} does not tell the groups of {after!r} apart", where="rounding.chain",
                                remedy="nest the queries, fine to coarse, each naming the dwelling attribute")  # fmt: skip

    def _universe(self, name: str, schema: Schema, total: Fraction, part: BudgetPart | UnitsBudget) -> Universe:
        where = "budget" if name == "persons" else "units.budget"
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
        plan = Plan.of(total, Mechanism(self.budget.mechanism), Neighbours(self.budget.neighbours), allocation)
        passes = {lv: self._passes(lv, tuple(part.queries[lv]), name) for lv in levels}
        written = () if name == "units" else self.rounding.chain
        chain = CHAINS.get(schema.name, ()) if written is None else written
        return Universe(name, schema, plan, passes, chain, self.rounding.objective)

    def _passes(self, level: str, measured: tuple[str, ...], universe: str) -> tuple[tuple[str, ...], ...]:
        """The passes of a level: written out, ``default``, or all queries at once. ``*`` is the rest."""
        if universe == "units":
            return (measured,)
        written = self.estimation.passes.get(level, self.estimation.passes.get("default", ((ALL,),)))
        where = f"estimation.passes.{level if level in self.estimation.passes else 'default'}"
        named = [q for p in written for q in p if q != ALL]
        if unknown := [q for q in named if q not in measured and level in self.estimation.passes]:
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
