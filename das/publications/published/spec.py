"""The specification of a release whose measurements of the DHC's persons another publisher made:
what follows measurement, and no more.

The levels and variances are those of the files. The passes are production's
(:mod:`das.publications.dhc.model.strategy`). The rho of each query is what its usual variance implies."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, NoReturn

from pydantic import field_validator

from das.errors import SpecError
from das.model.not_private import Private
from das.model.universe import PERSONS
from das.publications.dhc.model import strategy
from das.publications.dhc.spec import DhcUniverse
from das.spec.parts import Output, Part, Run
from das.spec.published import UNMEASURED, PublishedPart, check_variances, not_measured_by_us
from das.spec.specification import Specification

#: A rho of production has four decimals; a variance in the files seven digits.
_PARTS = 100_000


class PublishedDhcRun(Run):
    """``[run]``."""

    publication: Literal["published-dhc"] = "published-dhc"


class PublishedDhcGeography(Part):
    """``[geography]``."""

    levels: tuple[str, ...]
    """The levels of the files, from the root down."""

    @field_validator("levels")
    @classmethod
    def _differ(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) < len(value):
            raise ValueError("there is no level, or one is there twice")
        return value


class PublishedDhcSpec(Specification):
    """What follows measurements of the DHC's persons that somebody else published."""

    title: ClassVar[str] = "the DHC's persons, measured by another publisher"
    public: ClassVar[str] = "das.publications.published.public:PublicPublishedDhc"
    remedy: ClassVar[str] = (
        "there is nothing to measure by it: what follows measurement is das estimate --from"
    )

    run: PublishedDhcRun
    geography: PublishedDhcGeography
    published: PublishedPart
    output: Output = Output()

    @cached_property
    def universes(self) -> tuple[DhcUniverse, ...]:
        """Persons, with the strategy that the variances imply."""
        rho = {
            level: {
                query: Fraction(1 / variance).limit_denominator(_PARTS)
                for query, variance in queries.items()
                if not isinstance(variance, str)
            }
            for level, queries in self.published.variance.items()
        }
        of = strategy.persons().measuring({level: costs for level, costs in rho.items() if costs})
        return (DhcUniverse(PERSONS, of, strategy.PERSONS_FIXED, housed=True),)

    @property
    def persons(self) -> DhcUniverse:
        return self.universes[0]

    @property
    def measured(self) -> tuple[str, ...]:
        """The levels at which anything is measured."""
        return tuple(self.persons.strategy.rho)

    @property
    def private(self) -> Private:
        return self.published.private if self.run.private else False

    def measured_by_us(self, where: object) -> NoReturn:
        """Raises :class:`UserError`: nobody states the budget of another publisher."""
        raise not_measured_by_us(where)

    def checked(self) -> PublishedDhcSpec:
        """Build the strategy; raises :class:`SpecError` where there is none."""
        levels, variance = self.geography.levels, self.published.variance
        check_variances(levels, variance)
        if all(v == UNMEASURED for queries in variance.values() for v in queries.values()):
            raise SpecError("nothing is measured at any level", where="published.variance")
        _ = self.universes
        return self
