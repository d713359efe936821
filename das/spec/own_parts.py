"""The tables of a configuration that declare a universe and published tables of one's own."""

from __future__ import annotations

from pydantic import Field, model_validator

from das.model.kinds import PERSONS
from das.spec.parts import OwnConstraints, Part, RelativeBudget, TableData
from das.spec.schema_part import SchemaPart


class ColumnPart(Part):
    """``[[tables.<name>.columns]]``: one column."""

    label: str
    """Its heading."""
    where: dict[str, tuple[str, ...]] = Field(default={})
    """An attribute or grouping and its levels. A record counts if it has one of them. Absent:
    all records count.
    """


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
    tree as the persons.
    """

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
