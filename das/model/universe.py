"""A universe: one kind of record, and everything that the stages ask of it.

Persons are always there and come first; housing units, and any that a configuration defines, are
counted over the same tree, measured and post-processed each by itself. What differs between them is
in these values: no code asks for a universe by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from das.model.budget import PlannedMeasurement, QueryNoise, UnitPath
from das.model.frozen import Frozen
from das.model.kinds import RecordKind
from das.model.microdata_form import MicrodataForm
from das.model.plan import Plan
from das.model.publications import Publication
from das.model.schema import Schema
from das.model.tabulation import Tabulation
from das.model.unit_classes import UnitClasses


@dataclass(frozen=True)
class Exact:
    """What is published exactly about a universe: totals at level ``total`` and above; each of the
    ``queries`` (level and query) at its level and above; and the bounds that dwellings put on their
    inhabitants. ``None`` and ``False``: nothing."""

    total: str | None = None
    housing_units: bool = False
    group_quarters: bool = False
    queries: tuple[tuple[str, str], ...] = ()

    @property
    def counts(self) -> tuple[tuple[str, str], ...]:
        """Level and query of each exact count. Bounds are not among them, because they count
        buildings.
        """
        total = () if self.total is None else ((self.total, "total"),)
        return tuple(dict.fromkeys((*total, *self.queries)))


@dataclass(frozen=True)
class Universe(Frozen):
    """Records of one ``kind`` with the attributes of ``schema``. ``own_tables`` are the tables of
    the configuration, in addition to those of the publication."""

    kind: RecordKind
    schema: Schema
    passes: Mapping[str, tuple[tuple[str, ...], ...]] = field(
        default_factory=dict
    )  #: of each level, for estimation
    chain: tuple[str, ...] = ()  #: of nested queries, fine to coarse, whose sums rounding keeps
    marginals: bool = False  #: without a chain, rounding keeps the sums of measured queries instead
    objective: str = "nearest"
    exact: Exact = Exact()
    own_tables: tuple[Tabulation, ...] = ()
    noise: tuple[
        QueryNoise, ...
    ] = ()  #: of the measurements, level by level; where units differ, the noise of most of them

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def records(self) -> str:
        """How a reader calls its records."""
        return self.kind.records

    @cached_property
    def publication(self) -> Publication:
        """How its records are published."""
        return self.kind.publication(self.schema)

    @property
    def microdata(self) -> MicrodataForm:
        """The columns of its microdata."""
        return self.publication.microdata

    @property
    def tables(self) -> tuple[Tabulation, ...]:
        """All its tables."""
        return self.publication.tables + self.own_tables

    @property
    def measurements(self) -> tuple[QueryNoise, ...]:
        """The noise of all classes of units; that of :attr:`noise` where nobody says how they
        differ.
        """
        return self.noise

    @property
    def wide(self) -> float:
        """Standard errors that a margin at 95 % has, for sums of any of its noise."""
        return max((n.mechanism.wide for n in self.noise), default=0.0)

    def key(self, below: str) -> str:
        """A key of the configuration: ``budget`` is ``housing.budget`` for housing units."""
        return self.kind.key(below)


@dataclass(frozen=True, kw_only=True)
class Planned(Universe):
    """A universe with the plan by which it is measured: the measurements are its noise, where units
    of a level are measured differently those of the class that is the ``usual`` one there. What
    comes after measurement has no need of a plan.

    ``own``: what each level's own share of the budget measures, of all levels, whether the tree has
    units that are measured with it alone or not. A small tree may have none: then the plan, which
    has the tree's paths only, does not say it."""

    plan: Plan
    # : of each level of which units are measured; left out, the plan's first path
    usual: UnitPath = ()
    own: tuple[PlannedMeasurement, ...] = ()  #: left out, the measurements on the plan's first path

    def __post_init__(self) -> None:
        usual = self.usual or self.plan.paths[0]
        object.__setattr__(self, "own", self.own or self.plan.plain)
        object.__setattr__(
            self, "noise", tuple(d for d in self.plan.measurements if d.place in usual)
        )

    @property
    def measurements(self) -> tuple[QueryNoise, ...]:
        return self.plan.measurements

    def on(self, tree: UnitClasses) -> Planned:
        """The same universe, with the classes and paths of a tree."""
        return replace(self, plan=self.plan.along(tree.paths), usual=tree.usual)
