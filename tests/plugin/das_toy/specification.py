"""A toy publication: how many persons each region has, with noise. What its configuration says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from das.accounting.changes import Change
from das.accounting.draws import differing
from das.accounting.statement import Terms
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.ledger import Event
from das.model.mechanisms import DISCRETE_GAUSSIAN, MECHANISMS
from das.model.plan import Plan
from das.spec.parts import ExactNumber, Files, Run
from das.spec.specification import Specification

LEVEL, QUERY = "Region", "total"


class ToyRun(Run):
    publication: Literal["toy"] = "toy"


@dataclass(frozen=True)
class ToyPersons:
    plan: Plan
    name: str = "persons"


class ToySpec(Specification):
    title: ClassVar[str] = "the toy publication"
    remedy: ClassVar[str] = "name another"
    public: ClassVar[str] = "das_toy.public:PublicToy"
    maker: ClassVar[str | None] = "das_toy.maker:ToyMaker"

    run: ToyRun
    data: Files = Files()
    regions: tuple[str, ...]
    rho: ExactNumber

    @property
    def universes(self) -> tuple[ToyPersons]:
        noise = MECHANISMS[str(DISCRETE_GAUSSIAN)]
        draw = PlannedMeasurement.priced(LEVEL, QUERY, noise, Neighbours.UNBOUNDED, self.rho)
        return (ToyPersons(Plan(Neighbours.UNBOUNDED, (draw,))),)

    @property
    def events(self) -> tuple[Event, ...]:
        (persons,) = self.universes
        return tuple(
            Event.from_measurement(d, persons.name, len(self.regions), 1)
            for d in persons.plan.measurements
        )

    @property
    def terms(self) -> Terms:
        (persons,) = self.universes
        return Terms(
            persons.plan.mechanism,
            Neighbours.UNBOUNDED,
            Fraction(1, 10**10),
            (LEVEL,),
            {},
            {persons.name: ()},
            changed={persons.name: self._changes},
            says=("A person is in one region.",),
        )

    def _changes(self, draws: Sequence[PlannedMeasurement]) -> list[Change]:
        """A person who is somewhere else."""
        moves = [(path, path) for path in self.universes[0].plan.paths]
        return [Change("record", "region", differing(draws, moves))]
