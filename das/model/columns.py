"""What the columns of a table mean: ``[data.columns]`` of the configuration, checked against the
schema.

[data.columns]
count = "n"  # optional: persons that a line stands for
housing_units = "units"  # optional: housing units of the line's place, the same on all its lines
unique_within_parent = true  # optional: codes tell places apart within the level above only
[data.columns.geography]  # level = column, all levels below the root
State = "state"
Block = "block"
[data.columns.areas]  # optional: kind of area = column; areas of whole places, across the tree
Constituency = "seat"
[data.columns.names]  # optional: level or kind of area = column with the names of its places
State = "state_name"
[data.columns.attributes]  # attribute = column; an attribute that is not listed is its own column
votingage = "adult"
[data.columns.codes.votingage]  # optional: value in the file = level of the schema
n = "under-18"
y = "18-and-over"
[data.columns.missing]  # optional: attribute = the level of those whose value is missing
votingage = "unknown"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from das.errors import SpecError
from das.model.schema import Schema

KEYS = (
    "geography",
    "areas",
    "names",
    "attributes",
    "count",
    "housing_units",
    "codes",
    "missing",
    "unique_within_parent",
)


@dataclass
class Columns:
    """The meaning of the columns; ``codes`` maps values to level numbers, ``missing`` attributes to
    the level number of those whose value is missing. ``where`` is the table of the
    configuration."""

    geography: dict[str, str]
    attributes: dict[str, str]
    count: str | None
    housing_units: str | None
    codes: dict[str, dict[str, int]] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    areas: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    within_parent: bool = False
    where: str = "data.columns"

    @staticmethod
    def of(
        columns: Mapping[str, Any] | None, schema: Schema, where: str = "data.columns"
    ) -> Columns:
        """Raises :class:`SpecError` for what is unknown, of another kind, or not of the schema."""
        given = dict(columns or {})
        _check_kinds(given, where)
        _check_names(given, schema, where)
        names = [a.name for a in schema.attributes]
        if given.get("housing_units") and schema.dwelling is None:
            raise SpecError(
                "housing units need a schema that says who lives in one",
                where=f"{where}.housing_units",
                remedy="name the schema's attribute of dwelling, or delete the key",
            )
        level = _Levels(schema, where)
        return Columns(
            dict(given["geography"]),
            {n: given.get("attributes", {}).get(n, n) for n in names},
            given.get("count"),
            given.get("housing_units"),
            {
                name: {
                    value: level(f"codes.{name}.{value}", name, label)
                    for value, label in labels.items()
                }
                for name, labels in given.get("codes", {}).items()
            },
            {
                name: level(f"missing.{name}", name, label)
                for name, label in given.get("missing", {}).items()
            },
            dict(given.get("areas", {})),
            dict(given.get("names", {})),
            given.get("unique_within_parent", False),
            where,
        )

    @property
    def places(self) -> dict[str, str]:
        """Columns that tell of the place: levels, and areas across them."""
        return self.geography | self.areas

    @property
    def texts(self) -> list[str]:
        return list(
            dict.fromkeys([*self.places.values(), *self.names.values(), *self.attributes.values()])
        )

    @property
    def numbers(self) -> list[str]:
        return [c for c in (self.count, self.housing_units) if c is not None]


def _check_kinds(given: Mapping[str, Any], where: str) -> None:
    """Each key is known, and a table, a name of a column, or true or false."""
    if unknown := [k for k in given if k not in KEYS]:
        raise SpecError(f"unknown key {unknown[0]!r}", where=where, remedy=f"use {', '.join(KEYS)}")
    for key, value in given.items():
        if key == "unique_within_parent":
            good, wanted = isinstance(value, bool), "true or false"
        elif key in ("count", "housing_units"):
            good, wanted = isinstance(value, str), "the name of a column"
        elif key == "codes":
            good = isinstance(value, dict) and all(_texts(v) for v in value.values())
            wanted = "a table for each attribute: value in the file = level"
        else:
            good, wanted = _texts(value), "a table of names"
        if not good:
            raise SpecError(
                f"{value!r} is not {wanted}"[:300], where=f"{where}.{key}", remedy=f"give {wanted}"
            )


def _check_names(given: Mapping[str, Any], schema: Schema, where: str) -> None:
    """Check that levels, areas, names and attributes exist, and that each is named once."""
    if not given.get("geography"):
        raise SpecError(
            "the reader 'table' needs to know which columns hold the geographic codes",
            where=f"{where}.geography",
            remedy=f'add a table [{where}.geography] with lines such as Block = "block"',
        )
    if twice := [a for a in given.get("areas", {}) if a in given["geography"]]:
        raise SpecError(
            f"{twice[0]!r} is a level already",
            where=f"{where}.areas",
            remedy="name the areas otherwise",
        )
    places = [*given["geography"], *given.get("areas", {})]
    if own := [n for n in places if n.startswith("das:")]:
        raise SpecError(
            f"{own[0]!r} begins as the columns that are added here do",
            where=f"{where}.geography",
            remedy="name it otherwise",
        )
    if lost := [n for n in given.get("names", {}) if n not in places]:
        raise SpecError(
            f"{lost[0]!r} is neither a level nor a kind of area of the table",
            where=f"{where}.names",
            remedy=f"name one of {', '.join(sorted(places))}",
        )
    names = [a.name for a in schema.attributes]
    for key in ("attributes", "codes", "missing"):
        if odd := [a for a in given.get(key, {}) if a not in names]:
            raise SpecError(
                f"schema {schema.name!r} has no attribute {odd[0]!r}",
                where=f"{where}.{key}",
                remedy=f"its attributes are {', '.join(names)}",
            )


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


class _Levels:
    """Numbers of levels by their names."""

    def __init__(self, schema: Schema, where: str) -> None:
        self.schema, self.where = schema, where

    def __call__(self, key: str, attribute: str, label: str) -> int:
        levels = self.schema.attribute(attribute).levels
        if label not in levels:
            raise SpecError(
                f"{attribute!r} has no level {label!r}",
                where=f"{self.where}.{key}",
                remedy=f"its levels are {', '.join(levels[:20])}",
            )
        return levels.index(label)
