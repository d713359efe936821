"""The specification of a release whose measurements another publisher made: what follows
measurement, and no more.

There is no reader, for there was no input, and no budget, for nobody says what was spent. What the
files show is written down: the queries of each level, with the variance that most units have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, NoReturn

from pydantic import Field, field_validator

from das.errors import SpecError, UserError
from das.model.budget import QueryNoise
from das.model.mechanisms import DISCRETE_GAUSSIAN, MECHANISMS
from das.model.not_private import UNKNOWN, Private
from das.model.post_processing import PostProcessing
from das.model.universe import Universe, kind_with
from das.spec.checks import check_chain, check_keys
from das.spec.parts import Estimation, Geography, Output, Part, RoundingPart, Run
from das.spec.schema_part import SchemaPart
from das.spec.specification import Specification
from das.spec.tree import counts_tree
from das.spec.universes import written

UNMEASURED = "unmeasured"


def check_variances(levels: Sequence[str], variance: Mapping[str, Mapping[str, object]]) -> None:
    """Raises :class:`SpecError` unless each level has a table of its queries' variances."""
    if set(variance) != set(levels) or not all(variance.values()):
        raise SpecError(
            "is not a table of queries for each level",
            where="published.variance",
            remedy=f"the levels are {', '.join(levels)}",
        )


def not_measured_by_us(where: object) -> UserError:
    """Nobody states the budget of another publisher."""
    return UserError(
        "these measurements came from another publisher: their budget is not known",
        where=where,
        remedy="give a release that das run made",
    )


class PublishedPart(Part):
    """``[published]``: what was measured, as the files show it."""

    mechanism: str = str(DISCRETE_GAUSSIAN)
    """How the noise was made."""
    private: Literal[False, "unknown"] = UNKNOWN
    """Whether the noise was private: ``false`` where the files say that it was seeded; otherwise
    nobody knows."""
    variance: dict[str, dict[str, float | Literal["unmeasured"]]]
    """For each level, each query that its files have, with the variance of most of its units, or
    ``"unmeasured"``."""

    @field_validator("mechanism")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in MECHANISMS:
            raise ValueError(f"there is no mechanism {value!r}: {', '.join(MECHANISMS)}")
        return value


class PublishedRun(Run):
    """``[run]``."""

    publication: Literal["published"] = "published"


class PublishedSpec(Specification):
    """What follows measurements that somebody else published."""

    title: ClassVar[str] = "measurements that another publisher made"
    public: ClassVar[str] = "das.publications.published.public:PublicPublished"
    remedy: ClassVar[str] = (
        "there is nothing to measure by it: what follows measurement is das estimate --from"
    )

    run: PublishedRun
    schema_: SchemaPart = Field(alias="schema")
    geography: Geography
    published: PublishedPart
    estimation: Estimation = Estimation()
    rounding: RoundingPart = RoundingPart()
    output: Output = Output()

    @cached_property
    def universes(self) -> tuple[Universe, ...]:
        """The records that the files are of."""
        schema, variance, rounding = self.schema_.build(), self.published.variance, self.rounding
        kind = kind_with(schema)
        chain = rounding.chain if rounding.chain is not None else kind.publication(schema).chain
        passes = {
            level: written(
                level, tuple(variance[level]), self.estimation.passes, "estimation.passes"
            )
            for level in self.geography.levels
        }
        noise = self._noise()
        return (
            Universe(
                kind, schema, passes, chain or (), chain is None, rounding.objective, noise=noise
            ),
        )

    def _noise(self) -> tuple[QueryNoise, ...]:
        mechanism = MECHANISMS[self.published.mechanism]
        return tuple(
            QueryNoise(level, query, mechanism, mechanism.with_variance(value))
            for level in self.geography.levels
            for query, value in self.published.variance[level].items()
            if not isinstance(value, str)
        )

    @property
    def persons(self) -> Universe:
        return self.universes[0]

    @property
    def private(self) -> Private:
        return self.published.private if self.run.private else False

    @cached_property
    def after(self) -> PostProcessing:
        """What comes after measurement."""
        e, o = self.estimation, self.output
        return PostProcessing(
            self.run.name,
            self.private,
            self.universes,
            e.method,
            float(e.tolerance),
            o.tables,
            o.csv,
            o.report,
            e.bias,
        )

    @property
    def reader(self) -> str | None:
        """None: another publisher read the records."""
        return None

    def measured_by_us(self, where: object) -> NoReturn:
        """Raises :class:`UserError`: nobody states the budget of another publisher."""
        raise not_measured_by_us(where)

    def on(self, trees: object) -> PublishedSpec:
        """There is no plan that could depend on trees."""
        return self

    def tree(self) -> dict[str, Any]:
        """With the passes that were chosen by rule."""
        return counts_tree(super().tree(), self.universes)

    def checked(self) -> PublishedSpec:
        """Build everything that parts must agree on; raises :class:`SpecError`."""
        levels, variance = self.geography.levels, self.published.variance
        check_variances(levels, variance)
        for level, queries in variance.items():
            for name in queries:
                try:
                    self.schema_.build().query(name)
                except SpecError as error:
                    raise SpecError(error.what, where=f"published.variance.{level}") from None
        check_keys(self.estimation.passes, levels, "estimation.passes")
        check_chain(self.persons)
        return self
