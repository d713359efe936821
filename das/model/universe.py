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

import numpy as np

from das.model.budget import PlannedMeasurement, QueryNoise, UnitPath
from das.model.columns import BUILD, GEOCODE, SERIAL, CodedColumn, MicrodataForm, labeled
from das.model.frozen import Frozen
from das.model.measured_spine import UnitClasses
from das.model.plan import Plan
from das.model.redistricting import CENRACE, E2E_1940, H1, PL94
from das.model.schema import Schema
from das.model.tabulation import LabeledWhere, Tabulation, Where, general
from das.plugins import Plugins

# The publications that this system follows, as data: how the records of a schema are rounded,
# tabulated and listed.
#
# Sources: the 2010 P.L. 94-171 technical documentation, segments 1 and 2 (order and labels of tables
# P1 to P4 and H1), that of 2020, segment 3 (P5); the redistricting microdata detail file of the 2020
# production system, persons and units; the 1940 file of the 2018 end-to-end test. The rounding chains
# are the Bureau's.


@dataclass(frozen=True, eq=False)
class Publication:
    """How the records of ``schema`` are published. ``chain``: nested queries, fine to coarse, whose
    sums rounding keeps, ``None`` where those of the measured queries are kept in its stead;
    ``tables``: none, where it has those of any schema."""

    schema: Schema
    microdata: MicrodataForm
    chain: tuple[str, ...] | None = None
    tables: tuple[Tabulation, ...] = ()


# --- tables

_NUMBER = {2: "two races", 3: "three races", 4: "four races", 5: "five races", 6: "six races"}
ADULTS: Where = {"votingage": ("18-and-over",)}
_QUARTERS = PL94.attribute("hhgq")


def _redistricting() -> tuple[Tabulation, ...]:
    for_adults = " for the population 18 years and over"
    origin = "Hispanic or Latino, and not Hispanic or Latino by race"
    return (
        Tabulation("P1", "Race", columns=by_race({})),
        Tabulation("P2", origin, columns=by_origin_and_race({})),
        Tabulation("P3", "Race" + for_adults, columns=by_race(ADULTS)),
        Tabulation("P4", origin + for_adults, columns=by_origin_and_race(ADULTS)),
        Tabulation(
            "P5", "Group quarters population by major group quarters type", columns=_by_quarters()
        ),
    )


def by_race(where: Where) -> tuple[LabeledWhere, ...]:
    """The total and the 63 combinations of races, of those who meet a condition: 71 columns."""
    return ("Total", where), *_races(where)


def by_origin_and_race(where: Where) -> tuple[LabeledWhere, ...]:
    """The total, the two origins, and the races of those not of Hispanic origin: 73 columns."""
    hispanic, other = ({**where, "hispanic": (level,)} for level in ("hispanic", "not-hispanic"))
    return (
        ("Total", where),
        ("Hispanic or Latino", hispanic),
        ("Not Hispanic or Latino", other),
        *_races(other),
    )


def _races(where: Where) -> list[LabeledWhere]:
    """One race and each; two or more; two races and each pair; ...; six races: 70 columns."""
    label = dict(zip(CENRACE, PL94.attribute("cenrace").labels, strict=True))
    by_number = {n: tuple(c for c in CENRACE if c.count("+") + 1 == n) for n in range(1, 7)}
    columns: list[LabeledWhere] = []
    for n, races in by_number.items():
        if n == 1:
            columns.append(("Population of one race", {**where, "cenrace": races}))
        if n == 2:
            more = tuple(c for c in CENRACE if c not in by_number[1])
            columns.append(("Population of two or more races", {**where, "cenrace": more}))
        if n >= 2:
            columns.append((f"Population of {_NUMBER[n]}", {**where, "cenrace": races}))
        columns += [(label[c], {**where, "cenrace": (c,)}) for c in races]
    return columns


def _by_quarters() -> tuple[LabeledWhere, ...]:
    kinds = _QUARTERS.levels
    each = [(label, {"hhgq": (kind,)}) for kind, label in zip(kinds, _QUARTERS.labels, strict=True)]
    inside = "Institutionalized population", {"hhgq": kinds[1:5]}
    outside = "Noninstitutionalized population", {"hhgq": kinds[5:]}
    return ("Total", {"hhgq": kinds[1:]}), inside, *each[1:5], outside, *each[5:]


_OCCUPANCY = (
    Tabulation(
        "H1",
        "Occupancy status",
        columns=(
            ("Total", {}),
            ("Occupied", {"h1": ("occupied",)}),
            ("Vacant", {"h1": ("vacant",)}),
        ),
    ),
)

# --- microdata

TABULATION = (
    ("TABBLKST", 2),
    ("TABBLKCOU", 3),
    ("TABTRACTCE", 6),
    ("TABBLKGRPCE", 1),
    ("TABBLK", 4),
)
_ENUMERATION = (("STATE", 2), ("COUNTY", 4), ("ENUMDIST", 4))
HEAD = ("SCHEMA_TYPE_CODE", BUILD)
#: The codes of RTYPE of persons.
WHERE_LIVING = {"3": "person in a housing unit", "5": "person in group quarters"}
#: The values of columns without an attribute.
SAYS = {
    GEOCODE: "code of the unit, as in spine.parquet",
    SERIAL: "number of the person, from 0; it means nothing else",
    "SCHEMA_TYPE_CODE": "kind of file",
    BUILD: "name of the run",
    "TABBLKST": "state (FIPS)",
    "TABBLKCOU": "county (FIPS)",
    "TABTRACTCE": "census tract",
    "TABBLKGRPCE": "block group",
    "TABBLK": "block",
    "STATE": "state",
    "COUNTY": "county",
    "ENUMDIST": "enumeration district",
    "RTYPE": "kind of record",
    "EUID": "unit of the person: there are no unit records",
    "QREL": "relationship: not measured",
    "QSEX": "sex: not measured",
    "QSPANX": "Hispanic origin, in detail: not measured",
    "CIT": "citizenship: not measured",
    **{f"QRACE{i}": "race, in detail: not measured" for i in range(1, 9)},
}


def _where_living(schema: Schema) -> CodedColumn:
    code = np.where(np.arange(len(schema.attribute("hhgq").levels)) > 0, "5", "3")
    return CodedColumn.follows("RTYPE", schema, ("hhgq",), code, WHERE_LIVING)


def _redistricting_persons() -> MicrodataForm:
    columns = (
        _where_living(PL94),
        CodedColumn.for_attribute("GQTYPE_PL", PL94, "hhgq", tuple(map(str, range(8)))),
        CodedColumn.for_attribute("VOTING_AGE", PL94, "votingage", ("1", "2")),
        CodedColumn.for_attribute("CENHISP", PL94, "hispanic", ("1", "2")),
        CodedColumn.for_attribute(
            "CENRACE", PL94, "cenrace", tuple(f"{i:02d}" for i in range(1, 64))
        ),
    )
    after = (SERIAL, *(c.name for c in columns))
    return MicrodataForm(
        "redistricting microdata detail file, persons",
        columns,
        HEAD,
        after,
        TABULATION,
        constants={"SCHEMA_TYPE_CODE": "MPD"},
    )


def _redistricting_units() -> MicrodataForm:
    # cells: 0 vacant, 1 occupied; 2 a group-quarters facility, whose type the file does not tell
    columns = (
        CodedColumn(
            "RTYPE",
            ("2", "4"),
            np.array([0, 0, 1]),
            labels=("housing unit", "group-quarters facility"),
        ),
        CodedColumn("HH_STATUS", ("0", "1", "2"), np.array([2, 1, 0]), "h1", (-1, 1, 0)),
    )
    after = tuple(c.name for c in columns)
    return MicrodataForm(
        "redistricting microdata detail file, units",
        columns,
        HEAD,
        after,
        TABULATION,
        constants={"SCHEMA_TYPE_CODE": "MUD"},
        facilities=True,
    )


def _e2e_1940_persons() -> MicrodataForm:
    """The 23 PER columns, then ``GQTYPE`` of the UNIT file (000 in a household, else 100 x type +
    1).

    In the 1940 files a person's type of group quarters is in the unit record that EUID names. This
    file has no unit records. So EUID is 0 and the type is in the person's row: the file keeps the
    whole histogram. Attributes that are not measured have the missing codes of the 1940 file (QREL
    99, QSEX 9, QSPANX 9999, ...)."""
    s = E2E_1940
    columns = (
        _where_living(s),
        CodedColumn.for_attribute("QAGE", s, "votingage", ("17", "18")),
        CodedColumn.for_attribute("CENHISP", s, "hispanic", ("1", "2")),
        CodedColumn.for_attribute("CENRACE", s, "race", tuple(map(str, range(1, 7)))),
        CodedColumn.for_attribute("GQTYPE", s, "hhgq", ("000", *(f"{i}01" for i in range(1, 8)))),
    )
    races = tuple(f"QRACE{i}" for i in range(1, 9))
    constants = {
        "SCHEMA_TYPE_CODE": "MPD1940",
        BUILD: "3.1.4",
        "EUID": "0",
        "QREL": "99",
        "QSEX": "9",
    }
    constants |= {"QSPANX": "9999", **dict.fromkeys(races, "9999"), "CIT": "9"}
    after = (
        *("EUID", SERIAL, "RTYPE", "QREL", "QSEX", "QAGE", "CENHISP", "CENRACE", "QSPANX"),
        *(*races, "CIT", "GQTYPE"),
    )
    return MicrodataForm(
        "1940 microdata detail file, persons", columns, HEAD, after, _ENUMERATION, True, constants
    )


# --- the publications

REDISTRICTING_PERSONS = Publication(
    PL94,
    _redistricting_persons(),
    ("hhgq * hispanic * cenrace", "hhgq * hispanic"),
    _redistricting(),
)
REDISTRICTING_UNITS = Publication(H1, _redistricting_units(), (), _OCCUPANCY)
E2E_1940_PERSONS = Publication(
    E2E_1940, _e2e_1940_persons(), ("hhgq * hispanic * race", "hhgq * hispanic")
)


# The features of publications, by name, in words. A publication's public half says which it has,
# with a reason for each that it lacks (docs/reference/publications.md).

#: Features by name, in the words of a message.
FEATURES = {
    "engine": "a run by Dask or by array jobs (--engine)",
    "store": "copying a run's files to a store (--store)",
    "tasks": "`das run status`, `das run tasks` and `das run task`",
    "resume": "resuming an interrupted run",
    "sealed": "a manifest of digests, and `das account verify`",
    "recompute": "`das account verify --recompute`",
    "check": "`das check`, the plan of a configuration",
    "check --data": "the size of a run on given data (das check --data)",
    "plan": "`das plan`, margins of error and what they cost",
    "plan --margin": "other plans to choose from (das plan --margin, --add, --toml)",
    "plan --areas": "how well areas will be known (das plan --areas)",
    "plan --page": "a page for choosing a budget",
    "optimize": "`das plan --optimize`",
    "spine": "an optimized spine",
    "area": "`das area`",
    "estimate": "`das estimate --from`",
    "estimate --set": "another way to estimate (das estimate --set)",
    "tables": "`das tables`",
    "tables --areas": "tables of areas (das tables --areas)",
    "tables --margins": "tables with margins of error (das tables --margins)",
    "intervals": "`das intervals`",
    "sweep": "`das sweep`",
    "compare": "`das compare`",
    "evaluate": "`das evaluate`, again",
    "map": "`das map`",
    "risk": "`das risk` on a run",
    "nmf": "`das nmf summary` and `das nmf show`",
    "nmf verify": "`das nmf verify`",
    "look-up": "a page that looks up every place",
    "arrays": "arrays in, arrays out (das.measure, das.topdown)",
}


# Kinds of records, declared: persons, housing units. A further one is one more declaration here.
#
# Whatever tells one universe from another where its name, files or words are concerned is a field of
# its kind; a kind that nobody declared, such as one under ``[universes]`` of a configuration, has
# those that follow from its name.


@dataclass(frozen=True)
class RecordKind:
    """``name`` stands in the ledger, the statement and the names of files. Absent, the others
    follow from it."""

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
        ('budget', 'housing.budget')"""
        return f"{self.table}.{below}" if self.table else below

    def file(self, stem: str) -> str:
        """The name of its file or folder of those that every universe has.

        >>> PERSONS.file("nmf"), HOUSING.file("nmf")
        ('nmf', 'nmf-housing')"""
        return stem if self.plain else f"{stem}-{self.name}"

    def published(self, schema: Schema) -> Publication | None:
        """The publication of records with these attributes, if there is one."""
        made = (f() for f in filter(None, [LATE.get(f"{self.name}-{schema.name}")]))
        every = chain(self.publications, made)
        return next((p for p in every if p.schema.attributes == schema.attributes), None)

    def publication(self, schema: Schema) -> Publication:
        """How its records are published, if they have these attributes."""
        known = self.published(schema) or Publication(
            schema, labeled(schema, self.name, self.serial)
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
    ('housing units', 'rented dwellings')"""
    return KINDS.get(name) or RecordKind(name)


def kind_with(schema: Schema) -> RecordKind:
    """The kind of records that are published with these attributes; persons, where there is
    none."""
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
        buildings."""
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
        differ."""
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
