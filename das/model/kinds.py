"""Kinds of records, declared: persons, housing units. A further one is one more declaration here.

Whatever tells one universe from another where its name, files or words are concerned is a field of
its kind; a kind that nobody declared, such as one under ``[universes]`` of a configuration, has
those that follow from its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain

from das.model.microdata_form import labelled
from das.model.publications import (
    E2E_1940_PERSONS,
    REDISTRICTING_PERSONS,
    REDISTRICTING_UNITS,
    Publication,
)
from das.model.schema import Schema
from das.model.tabulation import general
from das.plugins import Plugins


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
