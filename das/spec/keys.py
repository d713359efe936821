"""The keys of a configuration of counts over a tree."""

from __future__ import annotations

from functools import cached_property

from pydantic import Field

from das.errors import SpecError
from das.model.schema import Schema
from das.model.universe import Planned
from das.spec.parts import (
    BudgetPart,
    Constraints,
    CountsRun,
    Data,
    Estimation,
    Geography,
    Housing,
    Output,
    RoundingPart,
)
from das.spec.schema_part import OwnUniverse, SchemaPart, TablePart
from das.spec.specification import Specification


class CountsKeys(Specification):
    """What the configuration says; what follows from it is :class:`das.spec.run.RunSpec`."""

    run: CountsRun
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

    @property
    def persons(self) -> Planned:
        """The first of the universes, on whose budget those of the others rest."""
        return self.universes[0]

    @property
    def universes(self) -> tuple[Planned, ...]:
        """Persons, and what else is counted over the same tree."""
        raise NotImplementedError

    def universe(self, name: str) -> Planned:
        """By its name. Raises :class:`SpecError`."""
        for u in self.universes:
            if name == u.name:
                return u
        raise SpecError(
            f"there is no universe {name!r}",
            remedy=f"it has {', '.join(u.name for u in self.universes)}",
        )
