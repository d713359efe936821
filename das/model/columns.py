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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.frozen import Frozen
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
    def from_options(
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


# Which columns a microdata file has, and what each cell puts into them.

GEOCODE = "geocode"
SERIAL = "EPNUM"
#: The column of the name of the run.
BUILD = "SCHEMA_BUILD_ID"
#: The whole code of a place in one column, of any width.
WHOLE = ((GEOCODE, 0),)


@dataclass(frozen=True, eq=False)
class CodedColumn(Frozen):
    """A coded column: ``values`` are its codes, and ``index`` says which of them a cell has:
    ``index[k]`` of cell ``k``, or, ``by`` some attributes (:meth:`Schema.steps`), ``index[i, j,
    ...]`` of their levels.

    ``decodes`` names the attribute that the column carries: ``levels[i]`` is the level that code
    ``i`` means (-1 where a record is of no cell of the schema). A column without it follows from
    the others, and ``labels`` say what its codes mean.

    In a file of records of several schemas, whose cells follow each other, it has ``parts``: the
    first cell of each, and its own column; ``index`` is then which of ``values`` each code of the
    parts is, one part after the other."""

    name: str
    values: tuple[str, ...]
    index: NDArray[np.int64]
    decodes: str | None = None
    levels: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    by: tuple[tuple[int, int], ...] = ()
    parts: tuple[tuple[int, CodedColumn], ...] = ()

    @staticmethod
    def for_attribute(
        name: str, schema: Schema, attribute: str, codes: tuple[str, ...]
    ) -> CodedColumn:
        """With one code for each level of ``attribute``."""
        every = tuple(range(len(codes)))
        return CodedColumn(
            name, codes, np.array(every), attribute, every, by=schema.steps((attribute,))
        )

    @staticmethod
    def follows(
        name: str,
        schema: Schema,
        by: Sequence[str],
        code: NDArray[np.str_],
        says: Mapping[str, str],
    ) -> CodedColumn:
        """One that follows from the attributes ``by``: ``code[i, j, ...]`` is that of their levels,
        and ``says`` has what each code means. Raises ``KeyError`` for a code that it does not
        have."""
        known = {value: i for i, value in enumerate(says)}
        index = np.array([known[x] for x in code.ravel().tolist()], dtype=np.int64).reshape(
            code.shape
        )
        return CodedColumn(
            name, tuple(says), index, labels=tuple(says.values()), by=schema.steps(by)
        )

    @staticmethod
    def constant(name: str, value: str, label: str) -> CodedColumn:
        """With one code for all cells."""
        return CodedColumn(
            name, (value,), np.zeros(1, dtype=np.int64), labels=(label,), by=((1, 1),)
        )

    @staticmethod
    def joined(parts: Sequence[tuple[int, CodedColumn]], says: Mapping[str, str]) -> CodedColumn:
        """One of several, with the first cell of each; ``says`` has what each code means. Raises
        ``KeyError`` for a code that it does not have."""
        known = {value: i for i, value in enumerate(says)}
        index = np.array([known[x] for _, c in parts for x in c.values], dtype=np.int64)
        return CodedColumn(
            parts[0][1].name, tuple(says), index, labels=tuple(says.values()), parts=tuple(parts)
        )

    def meaning(self, schema: Schema) -> dict[str, str]:
        """What each of its codes means."""
        if self.decodes is None:
            return dict(zip(self.values, self.labels, strict=True))
        labels = schema.attribute(self.decodes).labels
        said = (labels[i] if i >= 0 else "of no cell of the schema" for i in self.levels)
        return dict(zip(self.values, said, strict=True))

    def of_cells(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which code each of some cells has, in the shape of ``cell``."""
        if self.parts:
            return self._of_parts(cell)
        if not self.by:
            return self.index[cell]
        return self.index[tuple(cell // step % levels for step, levels in self.by)]

    def _of_parts(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        out = np.empty_like(cell)
        part = np.searchsorted([first for first, _ in self.parts], cell, side="right") - 1
        before = 0
        for i, (first, column) in enumerate(self.parts):
            here = part == i
            out[here] = self.index[before + column.of_cells(cell[here] - first)]
            before += len(column.values)
        return out


@dataclass(frozen=True, eq=False)
class MicrodataForm(Frozen):
    """The columns of a file. Its header is ``before``, the columns of the place, then ``after``.
    Each column is part of the place's code, the serial number of the record (``EPNUM``), or the
    name of the run; or it is one of ``columns`` or of ``constants``.

    ``geography`` gives the name and width of each part of a place's code, taken from its right end;
    ``sole`` says that a code has only these parts. Places with other codes have one column,
    ``geocode``. ``says`` describes columns without an attribute. With ``facilities`` each facility
    of group quarters is a record, too. It is in no cell of the schema: its cell is one past the
    last."""

    title: str
    columns: tuple[CodedColumn, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    geography: tuple[tuple[str, int], ...] = WHOLE
    sole: bool = False
    constants: Mapping[str, str] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)
    facilities: bool = False


def labeled(schema: Schema, universe: str, serial: bool) -> MicrodataForm:
    """The form for any schema: ``geocode``, a serial number if wanted, and one column of labels for
    each attribute."""
    columns = tuple(
        CodedColumn.for_attribute(a.name, schema, a.name, a.levels) for a in schema.attributes
    )
    after = ((SERIAL,) if serial else ()) + tuple(c.name for c in columns)
    return MicrodataForm(f"microdata, {universe}, schema {schema.name}", columns, (), after)
