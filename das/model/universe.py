"""A universe: one kind of record, and everything that the stages ask of it.

Persons are always there and come first; housing units, and any that a configuration defines, are
counted over the same tree, measured and post-processed each by itself. What differs between them is
in these values: no code asks for a universe by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from das.model.budget import PlannedMeasurement, QueryNoise, UnitPath
from das.model.columns import MicrodataForm, labelled
from das.model.frozen import Frozen
from das.model.measured_spine import UnitClasses
from das.model.plan import Plan
from das.model.publications import (
    E2E_1940_PERSONS,
    REDISTRICTING_PERSONS,
    REDISTRICTING_UNITS,
    Publication,
)
from das.model.schema import Schema
from das.model.tabulation import Tabulation, general
from das.plugins import Plugins

# Kinds of records, declared: persons, housing units. A further one is one more declaration here.
#
# Whatever tells one universe from another where its name, files or words are concerned is a field of
# its kind; a kind that nobody declared, such as one under ``[universes]`` of a configuration, has
# those that follow from its name.


@dataclass(frozen=True)
class RecordKind:
    """``name`` stands in the ledger, the statement and the names of files. Absent, the others
    follow from it.
    """

    name: str
    records: str = ""  #: a reader's name for its records
    folder: str = ""  #: in its microdata; also part of the key of its noise
    table: str | None = None  #: its table of the configuration, ``""`` for the top level
    letter: str = ""  #: what the names of its tables begin with, where they have none of their own
    plain: bool = False  #: its files and folders do not contain its name, as published
    serial: bool = False  #: its microdata are numbered
    dwellings: bool = False  #: whether the first universe's records live in its records
    publications: tuple[Publication, ...] = ()
    together: str = ""  #: what the total of several universes does not say about its records
    formerly: str = ""  #: its name in earlier configurations

    def __post_init__(self) -> None:
        records = self.records or self.name.replace("_", " ")
        for name, value in {
            "records": records,
            "folder": self.folder or self.name,
            "table": f"universes.{self.name}" if self.table is None else self.table,
            "letter": self.letter or re.sub(r"[0-9_]", "", self.name).upper(),
            "together": self.together or _together(records),
        }.items():
            object.__setattr__(self, name, value)

    def key(self, below: str) -> str:
        """A key of the configuration.

        >>> PERSONS.key("budget"), HOUSING.key("budget")
        ('budget', 'housing.budget')
        """
        return f"{self.table}.{below}" if self.table else below

    def file(self, stem: str) -> str:
        """The name of its file or folder of those that every universe has.

        >>> PERSONS.file("nmf"), HOUSING.file("nmf")
        ('nmf', 'nmf-housing')
        """
        return stem if self.plain else f"{stem}-{self.name}"

    def published(self, schema: Schema) -> Publication | None:
        """The publication of records with these attributes, if there is one."""
        made = (f() for f in filter(None, [LATE.get(f"{self.name}-{schema.name}")]))
        every = chain(self.publications, made)
        return next((p for p in every if p.schema.attributes == schema.attributes), None)

    def publication(self, schema: Schema) -> Publication:
        """How its records are published, if they have these attributes."""
        known = self.published(schema) or Publication(
            schema, labelled(schema, self.name, self.serial)
        )
        chain = known.chain if known.schema.dwelling == schema.dwelling else None
        return Publication(
            schema, known.microdata, chain, known.tables or general(schema, self.letter)
        )


def _together(records: str) -> str:
    return (
        f"Records of {records} and persons are different records: the guarantee of each is about"
        f" one of its own, the total about one of each. What changes one record of {records} and"
        " several persons, such as a household that comes or goes, costs more than the total."
    )


#: More publications of kinds, by kind and schema: functions that make them when they are asked for.
LATE: Plugins[Callable[[], Publication]] = Plugins(
    "das.record_publications", "publication of records", object, ("persons-dhcp",)
)
PERSONS = RecordKind(
    "persons",
    table="",
    letter="T",
    plain=True,
    serial=True,
    publications=(REDISTRICTING_PERSONS, E2E_1940_PERSONS),
)
HOUSING = RecordKind(
    "housing",
    records="housing units",
    folder="units",
    table="housing",
    letter="U",
    dwellings=True,
    publications=(REDISTRICTING_UNITS,),
    formerly="units",
    together=(
        "The total is about one record of each universe. Someone who moves from one housing unit to"
        " a vacant one changes two records of housing units."
    ),
)

#: The declared kinds, by name. Any other kind follows from its name.
KINDS: Mapping[str, RecordKind] = {kind.name: kind for kind in (PERSONS, HOUSING)}


def kind_of(name: str) -> RecordKind:
    """The kind that is called ``name``.

    >>> kind_of("housing").records, kind_of("rented_dwellings").records
    ('housing units', 'rented dwellings')
    """
    return KINDS.get(name) or RecordKind(name)


def kind_with(schema: Schema) -> RecordKind:
    """The kind of records that are published with these attributes; persons, where there is
    none.
    """
    return next((k for k in KINDS.values() if k.published(schema)), PERSONS)


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
