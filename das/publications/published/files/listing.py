"""Noisy measurement files as published: what their folders, columns and row groups hold, read
tolerantly.

Any width of integers or floats, with or without ``plb``, ``sign``, ``query_shape`` and the suffixes
of names, in any order, cut into row groups anyhow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError, SpecError
from das.files import codes as texts
from das.files.parquet import DAMAGE, is_marked
from das.model.names import Codes, encoded
from das.model.query import Query
from das.model.redistricting import SCHEMAS
from das.model.schema import Schema

Ints = NDArray[np.int64]

#: The levels of the publications, root first.
KNOWN = (
    "US",
    "State",
    "County",
    "Prim",
    "Tract_Subset_Group",
    "Tract_Subset",
    "Tract",
    "Block_Group",
    "Block",
)
AGAIN = "the files are incomplete or altered: get them again from where they were published"
_FIXED = ("geocode", "query_name", "query_shape", "value", "variance", "sign", "plb", *KNOWN)


@dataclass(frozen=True)
class Group:
    """A row group of a file, and the first and last of its geocodes."""

    path: Path
    number: int
    first: bytes
    last: bytes


@dataclass
class PublishedLevel:
    """One level as a first look at its files shows it."""

    name: str
    groups: list[Group] = field(default_factory=list)
    constraints: list[Group] = field(default_factory=list)
    codes: Codes = field(default_factory=lambda: np.zeros(0, dtype="S1"))
    #: Measured units by variance, for each name of a query in the files and what it stands for.
    found: dict[str, tuple[Query, Counter[float]]] = field(default_factory=dict)
    #: Names of constraints, each with what the columns of the attributes say.
    spelt: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)

    @property
    def names(self) -> set[str]:
        """The names of the constraints."""
        return {name for name, _ in self.spelt}


def folders(folder: Path) -> dict[str, Path]:
    """The folders of the levels, by name."""
    try:
        found = sorted(
            p for p in folder.glob("*.parquet") if p.is_dir() and not p.name.startswith(".")
        )
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=folder) from None
    return {p.name.removesuffix(".parquet"): p for p in found}


def first(folder: Path) -> tuple[Schema, Path] | None:
    """The schema of the first file, and the file; nothing where there is none."""
    every = (
        file
        for path in folders(folder).values()
        for kind in ("DPQuery", "Constraint")
        for file in _files(path / kind)
    )
    return next(((_schema(file), file) for file in every), None)


def scan(folder: Path) -> tuple[Schema, list[PublishedLevel], bool]:
    """The schema, the levels from the root down, and whether a file says that its noise was
    seeded."""
    found = folders(folder)
    if not found:
        raise InputError(
            "no folder <Level>.parquet is here",
            where=folder,
            remedy="give the folder that holds US.parquet, State.parquet, ...",
        )
    schema: Schema | None = None
    levels, seeded = [], False
    for name, path in found.items():
        level = PublishedLevel(name)
        codes = [level.codes]
        for kind in ("DPQuery", "Constraint"):
            for file in _files(path / kind):
                here = _schema(file)
                if schema is not None and here != schema:
                    raise InputError(
                        f"its attributes are those of schema {here.name!r}, in other files of "
                        f"{schema.name!r}",
                        where=file,
                        remedy="convert persons and units one by one",
                    )
                schema, seeded = here, seeded or is_marked(file)
                groups = range(_open(file).num_row_groups)
                codes.append(
                    _union([_look(file, number, kind, schema, level) for number in groups])
                )
        level.codes = _union(codes)
        levels.append(level)
    if schema is None or not any(level.groups for level in levels):
        raise InputError(
            "there are no measurements in the folders of the levels", where=folder, remedy=AGAIN
        )
    return schema, _ordered(levels, folder), seeded


def _ordered(levels: list[PublishedLevel], folder: Path) -> list[PublishedLevel]:
    """From the root down. A root without rows is known all the same: it is the only unit, of
    whatever geocode."""
    if all(level.name in KNOWN for level in levels):
        levels = sorted(levels, key=lambda level: KNOWN.index(level.name))
    else:
        size = {
            level.name: (len(level.codes), *np.strings.str_len(level.codes[:1]).tolist())
            for level in levels
        }
        levels = sorted(levels, key=lambda level: size[level.name])
        if same := [(a.name, b.name) for a, b in pairwise(levels) if size[a.name] == size[b.name]]:
            raise InputError(
                f"which of the levels {' and '.join(same[0])} is the upper one cannot be told: they"
                " have as many units",
                where=folder,
                remedy=f"name the levels as the publications do ({', '.join(KNOWN)})",
            )
    if not len(levels[0].codes):
        levels[0].codes = encoded([levels[0].name])
    if empty := [level.name for level in levels if not len(level.codes)]:
        raise InputError(
            "this level has no rows",
            where=folder / f"{empty[0]}.parquet",
            remedy="complete it, or move its folder away to go without the level",
        )
    return levels


def _union(codes: Sequence[Codes]) -> Codes:
    return np.unique(np.concatenate([np.zeros(0, dtype="S1"), *codes]))


def _files(folder: Path) -> list[Path]:
    found = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith((".", "_"))]
    return sorted(p for p in found if p.suffix != ".crc")


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except DAMAGE as error:
        raise ReleaseError(
            f"not a readable Parquet file ({error})", where=path, remedy=AGAIN
        ) from None


def _schema(path: Path) -> Schema:
    """The schema whose attributes are the columns of a file."""
    names = [n for n in _open(path).schema_arrow.names if n not in _FIXED]
    for schema in SCHEMAS.values():
        if set(names) == {a.name for a in schema.attributes}:
            return schema
    known = "; ".join(
        f"{s.name}: {', '.join(a.name for a in s.attributes)}" for s in SCHEMAS.values()
    )
    raise InputError(
        f"its attributes ({', '.join(names) or 'none'}) are those of no schema that is built in",
        where=path,
        remedy=f"the schemas that are built in are {known}",
    )


def read(path: Path, group: int, needed: Sequence[str], wanted: Sequence[str] = ()) -> pa.Table:
    """Columns of a row group: all that are ``needed``, and of the ``wanted`` those there are. Texts
    are whole."""
    file = _open(path)
    there = file.schema_arrow.names
    wanted = [n for n in wanted if n in there]
    if lost := [n for n in (*needed, *wanted) if there.count(n) != 1]:
        raise ReleaseError(f"there is no column {lost[0]!r}, or two", where=path, remedy=AGAIN)
    try:
        table = file.read_row_group(group, [*needed, *wanted])
    except DAMAGE as error:
        raise ReleaseError(f"cannot be read ({error})", where=path, remedy=AGAIN) from None
    for i, column in enumerate(table.schema):
        if column.name in ("value", "variance", "query_shape"):
            continue
        try:
            table[i].validate(full=True)
        except pa.ArrowException as error:
            raise ReleaseError(
                f"column {column.name!r} is not text ({error})", where=path, remedy=AGAIN
            ) from None
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)) or table[i].null_count:
            raise ReleaseError(
                f"column {column.name!r} is not text, or some of it is missing",
                where=path,
                remedy=AGAIN,
            )
        table = table.set_column(i, column.name, table[i].cast(pa.string()))
    return table


def _look(path: Path, number: int, kind: str, schema: Schema, level: PublishedLevel) -> Codes:
    """The geocodes of a row group. Adds to ``level`` what it holds: the names of constraints, or
    the queries with their variances."""
    attributes = [a.name for a in schema.attributes]
    measured = kind == "DPQuery"
    table = read(
        path, number, ["geocode", "query_name", *attributes, *(["variance"] if measured else [])]
    )
    codes = np.sort(texts.codes(pc.unique(table["geocode"])))
    if not len(codes):
        return codes
    group = Group(path, number, codes[0], codes[-1])
    if not measured:
        level.constraints.append(group)
        for row in table.group_by(["query_name", *attributes]).aggregate([]).to_pylist():
            level.spelt.add((_bare(row["query_name"]), tuple(row[a] for a in attributes)))
        return codes
    level.groups.append(group)
    table = table.set_column(
        table.schema.get_field_index("variance"), "variance", pa.array(variance_of(table, path))
    )
    for row in (
        table.group_by(["query_name", *attributes, "variance"])
        .aggregate([([], "count_all")])
        .to_pylist()
    ):
        name = row["query_name"]
        query = query_of(schema, _bare(name), [row[a] for a in attributes], path)
        before, units = level.found.setdefault(name, (query, Counter()))
        if before.groupings != query.groupings:
            raise ReleaseError(
                f"{name!r} does not mean the same in all rows", where=path, remedy=AGAIN
            )
        if np.isfinite(row["variance"]):
            units[row["variance"]] += row["count_all"]
    return codes


def _bare(name: str) -> str:
    return name.removesuffix("_dpq").removesuffix("_con")


def variance_of(table: pa.Table, path: Path) -> NDArray[np.float64]:
    """The variance of each row, infinite where it was not measured."""
    try:
        variance = table["variance"].cast(pa.float64()).to_numpy()
    except pa.ArrowException as error:
        raise ReleaseError(
            f"variances are not numbers ({error})", where=path, remedy=AGAIN
        ) from None
    if (variance < 0).any():
        raise ReleaseError("a variance is negative", where=path, remedy=AGAIN)
    return np.where(np.isfinite(variance) & (variance > 0), variance, np.inf)


def query_of(schema: Schema, name: str, labels: Sequence[str], path: Path) -> Query:
    """The query that the columns of the attributes spell, under its own name where that spells the
    same."""
    factors = {
        a.name: a.name if label == "detailed" else label
        for a, label in zip(schema.attributes, labels, strict=True)
        if label != "*"
    }
    every = len(factors) == len(labels) and set(labels) == {"detailed"}
    try:
        query = schema.query("detailed" if every else " * ".join(factors.values()) or "total")
        wrong = [
            a for a, f in factors.items() if schema.query(f).groupings[schema.axis(a)].is_total
        ]
    except SpecError as error:
        raise InputError(
            f"query {name!r} has a grouping that is not built in: {error.what}",
            where=path,
            remedy=error.remedy,
        ) from None
    if wrong:
        raise InputError(
            f"query {name!r} groups {wrong[0]!r} by {factors[wrong[0]]!r}, which groups another"
            " attribute",
            where=path,
            remedy=AGAIN,
        )
    try:
        named = schema.query(name)
    except SpecError:
        return query
    if named.groupings != query.groupings:
        raise ReleaseError(
            f"the columns of the attributes say that query {name!r} is {query.name!r}",
            where=path,
            remedy=AGAIN,
        )
    return named


def check_shape(table: pa.Table, row: int, query: Query, path: Path) -> None:
    """The answers are in the order of our attributes. Axes of one answer may be left out."""
    if "query_shape" in table.column_names:
        shape = table["query_shape"][row].as_py() or []
        if not isinstance(shape, list) or list(_long(shape)) != list(_long(query.shape)):
            raise ReleaseError(
                f"the shape of query {query.name!r} is {shape!r}, not {list(query.shape)}",
                where=path,
                remedy="the schema of these files is not the one that is built in",
            )


def _long(shape: Iterable[object]) -> Iterator[object]:
    return (n for n in shape if n != 1)


def matrix(column: pa.ChunkedArray, query: Query, path: Path) -> Ints:
    """Lists of whole numbers, one for each answer, as rows of an array."""
    where = f"{path}, query {query.name!r}"
    try:
        widths = set(pc.unique(pc.list_value_length(column)).to_pylist())
        flat = pc.list_flatten(column)
    except pa.ArrowException as error:
        raise ReleaseError(f"values are not lists ({error})", where=where, remedy=AGAIN) from None
    if widths != {query.answers}:
        wrong = sorted(map(str, widths - {query.answers}))[0]
        raise ReleaseError(
            f"{wrong} values where the query has {query.answers} answers", where=where, remedy=AGAIN
        )
    values = flat.to_numpy()
    whole = (
        not flat.null_count
        and values.dtype.kind in "iuf"
        and bool((np.rint(values) == values).all())
    )
    if not whole or (np.abs(values) > 2.0**62).any():
        raise ReleaseError("values are not whole numbers", where=where, remedy=AGAIN)
    return values.astype(np.int64).reshape(len(column), query.answers)
