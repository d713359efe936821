"""A universe: one kind of record, and everything that the stages ask of it.

Persons are always there and come first; housing units, and any that a configuration defines, are counted over the
same tree, measured and post-processed each by itself. What differs between them is in these values: no code asks for
a universe by its name but to say where persons, the first of them, lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from das.model.budget import Plan
from das.model.schema import Schema

PERSONS = "persons"
HOUSING = "housing"

#: How a reader calls the records of a universe, where that is not its name.
_CALLED = {HOUSING: "housing units"}


@dataclass(frozen=True)
class Exact:
    """What of a universe is published exactly: the totals of level ``total`` and of those above it, ``queries`` (level
    and query) of units and of those above them, and what its dwellings say of their inhabitants. ``None`` and ``False``:
    nothing."""

    total: str | None = None
    housing_units: bool = False
    group_quarters: bool = False
    queries: tuple[tuple[str, str], ...] = ()

    @property
    def counts(self) -> tuple[tuple[str, str], ...]:
        """Level and query of what is counted exactly. Bounds, which are of buildings, are none of it."""
        total = () if self.total is None else ((self.total, "total"),)
        return tuple(dict.fromkeys((*total, *self.queries)))


#: Of some attributes or groupings, the levels (or groups) of which a record must have one.
Where = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Tabulation:
    """A table that a configuration defines: the total and the answers to ``query``, or ``columns`` with a label and a
    condition each; of the records that meet ``where``."""

    name: str
    title: str
    query: str | None
    columns: tuple[tuple[str, Where], ...] = ()
    where: Where = field(default_factory=dict)


@dataclass(frozen=True)
class Universe:
    """``name`` stands in the ledger, the statement and the names of files; ``folder`` is that of its microdata, by which
    its noise is keyed, too; ``table`` is where the configuration speaks of it (empty for persons); ``letter`` begins the
    names of its tables. With ``facilities`` its microdata list
    the group quarters that bound the persons, as published. ``tables`` are those besides the schema's own."""

    name: str
    folder: str
    schema: Schema
    passes: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)  #: of each level, for estimation
    chain: tuple[str, ...] = ()  #: of nested queries, fine to coarse, whose sums rounding keeps
    margins: bool = False  #: with no chain, rounding keeps the sums of measured queries in its stead
    objective: str = "nearest"
    exact: Exact = Exact()
    table: str = ""
    letter: str = "T"
    facilities: bool = False
    tables: tuple[Tabulation, ...] = ()

    @property
    def records(self) -> str:
        """How a reader calls its records."""
        return called(self.name)

    def key(self, below: str) -> str:
        """A key of the configuration: ``budget`` is ``housing.budget`` for housing units."""
        return f"{self.table}.{below}" if self.table else below


@dataclass(frozen=True, kw_only=True)
class Planned(Universe):
    """A universe with the plan by which it is measured. What comes after measurement has no need of one."""

    plan: Plan


def called(name: str) -> str:
    """How a reader calls the records of the universe ``name``.

    >>> called("housing"), called("rented_dwellings")
    ('housing units', 'rented dwellings')
    """
    return _CALLED.get(name, name.replace("_", " "))


def beside(stem: str, name: str) -> str:
    """The name of a file or folder of a universe: persons have it for themselves.

    >>> beside("nmf", "persons"), beside("nmf", "housing")
    ('nmf', 'nmf-housing')
    """
    return stem if name == PERSONS else f"{stem}-{name}"
