"""The table of a configuration that declares a schema: a named one, or attributes of one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from pydantic import Field, model_validator

from das.errors import SpecError
from das.model.names import ENGLISH, HeadingWords
from das.model.query import Grouping
from das.model.redistricting import SCHEMAS
from das.model.schema import Attribute, Schema
from das.model.universe import PERSONS
from das.spec.parts import OwnConstraints, Part, RelativeBudget, TableData

Named = TypeVar("Named", Attribute, Grouping)


class GroupingPart(Part):
    """``[schema.groupings.<name>]``: a grouping of the levels of one attribute. It is a query of
    its own."""

    attribute: str
    """The attribute that it groups."""
    groups: dict[str, tuple[str, ...]]
    """The name of each group, and its levels. Each level must be in exactly one group."""


class LabelsPart(Part):
    """``[schema.labels.<name>]``: labels that replace the codes of an attribute or grouping in
    tables and pages."""

    title: str | None = None
    """Such as ``"Voting age"``; absent: the name itself."""
    levels: dict[str, str] = Field(default={})
    """The code of a level (or group), and its label. Levels that you omit keep their code."""


class WordsPart(Part):
    """``[schema.words]``: the words of headings that are no label of yours, in another language."""

    total: str = ENGLISH.total
    """The heading of a total."""
    by: str = ENGLISH.by
    """Between attributes: "Sex by Age"."""
    everything: str = ENGLISH.everything
    """The title of the query ``detailed``."""


class SchemaPart(Part):
    """``[schema]``: the attributes of a record. Their combinations are the cells of the
    histogram."""

    name: str
    """A published schema (``pl94``, ``1940-e2e``, ``dhcp``), or, with ``attributes``, a name for
    your own."""
    attributes: dict[str, tuple[str, ...]] | None = None
    """Your own: each attribute with its levels, in order."""
    groupings: dict[str, GroupingPart] = Field(default={})
    """Coarser views of attributes, by name."""
    labels: dict[str, LabelsPart] = Field(default={})
    """Words for pages and tables, for attributes and groupings of any schema."""
    words: WordsPart | None = None
    """Words for headings, such as "Total"."""
    impossible: tuple[dict[str, tuple[str, ...]], ...] = ()
    """Structural zeros: combinations that cannot occur. Each is a table of attributes or
    groupings and levels; its cells are always 0."""
    dwelling: str | None = None
    """The attribute that says where a person lives. Its first level is a household in a housing
    unit, the others are types of group quarters. Housing units and facilities then bound it."""

    def build(self) -> Schema:
        """The schema: a published one by name, or the one written out here, with its labels."""
        schema = self._unlabeled()
        known = [a.name for a in schema.attributes] + [g.name for g in schema.recodes]
        if unknown := set(self.labels).difference(known):
            raise SpecError(
                f"{min(unknown)!r} is neither an attribute nor a grouping",
                where="schema.labels",
                remedy=f"it has {', '.join(known)}",
            )
        return replace(
            schema,
            attributes=tuple(map(self._labeled, schema.attributes)),
            recodes=tuple(map(self._labeled, schema.recodes)),
            words=schema.words if self.words is None else HeadingWords(**self.words.model_dump()),
        )

    def _labeled(self, named: Named) -> Named:
        said = self.labels.get(named.name)
        return (
            named
            if said is None
            else named.labeled(said.title, said.levels, f"schema.labels.{named.name}")
        )

    def _unlabeled(self) -> Schema:
        if self.attributes is None:
            if self.name not in SCHEMAS:
                raise SpecError(
                    f"no schema is called {self.name!r}",
                    where="schema.name",
                    remedy=f"use {', '.join(SCHEMAS)}, or write your own under [schema.attributes]",
                )
            if self.groupings or self.impossible or self.dwelling:
                raise SpecError(
                    f"schema {self.name!r} is a published one and cannot be altered",
                    where="schema",
                    remedy="give it another name and write out its attributes",
                )
            return SCHEMAS[self.name]
        attributes = tuple(Attribute(k, v) for k, v in self.attributes.items())
        recodes = tuple(self._grouping(k, g) for k, g in self.groupings.items())
        return Schema(self.name, attributes, recodes, self.impossible, self.dwelling)

    def _grouping(self, name: str, part: GroupingPart) -> Grouping:
        where = f"schema.groupings.{name}"
        levels = (self.attributes or {}).get(part.attribute)
        if levels is None:
            raise SpecError(f"no attribute {part.attribute!r}", where=where)
        return Grouping.from_levels(name, part.attribute, levels, part.groups, where)


# The tables of a configuration that declare a universe and published tables of one's own.


class ColumnPart(Part):
    """``[[tables.<name>.columns]]``: one column."""

    label: str
    """Its heading."""
    where: dict[str, tuple[str, ...]] = Field(default={})
    """An attribute or grouping and its levels. A record counts if it has one of them. Absent:
    all records count."""


class TablePart(Part):
    """``[tables.<name>]``: a table of your own, besides those of the schema. It has a total
    followed by the answers to a query, or columns that you list."""

    title: str
    """What it shows."""
    universe: str = PERSONS.name
    """The universe that it counts."""
    query: str | None = None
    """Such as ``"sex * age"``."""
    where: dict[str, tuple[str, ...]] = Field(default={})
    """Count only records with one of these levels, for each attribute or grouping that you name."""
    columns: tuple[ColumnPart, ...] = ()
    """In place of a query."""

    @model_validator(mode="after")
    def _query_or_columns(self) -> TablePart:
        if (self.query is None) != bool(self.columns):
            raise ValueError("give either a query or columns")
        return self


class OwnEstimation(Part):
    """``[universes.<name>.estimation]``; method and tolerance are those of the persons."""

    passes: dict[str, tuple[tuple[str, ...], ...]] = Field(default={})
    """As ``[estimation.passes]``."""


class OwnRounding(Part):
    """``[universes.<name>.rounding]``; the objective is that of the persons."""

    chain: tuple[str, ...] = ()
    """As ``rounding.chain``. Absent: none."""


class OwnUniverse(Part):
    """``[universes.<name>]``: a universe of your own, such as households, counted over the same
    tree as the persons."""

    letter: str = Field(default="", pattern=r"^[A-Z]{0,12}$")
    """Capital letters at the start of its tables' names. Absent: its name in capitals."""
    data: TableData
    """Its records."""
    schema_: SchemaPart = Field(alias="schema")
    """The attributes of its records, as ``[schema]``."""
    budget: RelativeBudget
    """Its own budget."""
    constraints: OwnConstraints = OwnConstraints()
    """What of it is exact."""
    estimation: OwnEstimation = OwnEstimation()
    """How it is estimated."""
    rounding: OwnRounding = OwnRounding()
    """How it is rounded."""
