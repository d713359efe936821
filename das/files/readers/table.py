"""Tables in CSV or Parquet, one line per record or per count: of persons, or of a second universe.

:mod:`das.model.columns` gives the meaning of columns, and :mod:`das.files.readers.rows` reads rows.
A line with a count of 0 makes a place known without anybody in it. Counting goes batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError, SpecError
from das.files import codes as texts
from das.files.readers.rows import CELL, COUNT, NAME, UNITS, UTF_8, names, place, rows
from das.files.readers.source import Member, members, sources
from das.model.columns import Columns
from das.model.confidential import Confidential
from das.model.names import Names
from das.model.records import Blocks, Extract, Records
from das.model.schema import Schema
from das.model.source import Source

SUFFIXES = (".csv", ".txt", ".psv", ".tsv", ".parquet")
MERGE = 1 << 22  #: counts that wait before they are merged


def read(
    paths: Sequence[Path],
    schema: Schema,
    *,
    columns: Mapping[str, Any] | None = None,
    encoding: str = UTF_8,
    places: Path | None = None,
    progress: Progress = SILENT,
) -> Extract:
    """Read all tables among ``paths``; together they are one extract. Housing units are not records
    here.

    ``places`` is a table of all places of the lowest level, with the columns of the levels above.
    It also has areas, names and housing units where ``columns`` names such columns. With it,
    records need only the code of the lowest level.

    Raises :class:`InputError` for a record in a place that ``places`` does not list."""
    meaning = Columns.from_options(columns, schema)
    if places is not None:
        return _placed(paths, schema, meaning, encoding, places, progress)
    counted, read_from = counted_rows(paths, schema, meaning, encoding, progress)
    return _extract(counted, meaning, schema, read_from)


def _placed(
    paths: Sequence[Path],
    schema: Schema,
    meaning: Columns,
    encoding: str,
    places: Path,
    progress: Progress,
) -> Extract:
    """The places are those of their own table, also those where nobody is."""
    if not places.is_file():
        raise InputError(
            "there is no such table of places",
            where="geography.places",
            remedy=f"name the file as seen from here: {places}",
        )
    of_places = replace(meaning, attributes={}, count=None, codes={}, missing={})
    listed, more = counted_rows([places], None, of_places, encoding, progress)
    blocks, codes = blocks_of(listed, of_places)
    of_records = replace(meaning, areas={}, names={}, housing_units=None)
    counted, read_from = counted_rows(paths, schema, of_records, encoding, progress, lowest=True)
    listing = ListedPlaces(f"those of {places.name}", places.name)
    block = joined(counted, of_records, blocks, listing, paths, encoding)
    records = _some(counted, block)
    if meaning.housing_units:
        at = pc.index_in(listed.column(list(meaning.geography)[-1]), value_set=codes)
        units = at.to_numpy().astype(np.int64), listed.column(UNITS).to_numpy()
        blocks = replace(blocks, structures=_structures(schema, codes, units, records))
    return Extract(blocks, Confidential(Records(schema, *records)), {}, (*read_from, *more))


@dataclass(frozen=True)
class ListedPlaces:
    """Where places are listed, in words, and which file that is."""

    of: str = "those of the persons"
    file: str = "the persons' table"

    @property
    def remedy(self) -> str:
        """What to do about a place that is not among them."""
        return (
            "write the codes alike, with data.columns.unique_within_parent and every level in both"
            f" or in neither; or list every place in {self.file}"
            + (", empty ones with a count of 0" if self == ListedPlaces() else "")
        )


def read_beside(
    paths: Sequence[Path],
    schema: Schema,
    blocks: Blocks,
    *,
    columns: Mapping[str, Any],
    encoding: str = UTF_8,
    where: str = "data.columns",
    progress: Progress = SILENT,
) -> tuple[Confidential[Records], tuple[Source, ...]]:
    """The records of another universe, joined to the places of the persons by the code of the last
    level of their geography. Other levels that are listed must agree with it.

    Raises :class:`InputError` for a place that the persons' input does not list."""
    meaning = Columns.from_options(columns, schema, where)
    if meaning.housing_units or meaning.areas or meaning.names:
        raise SpecError(
            "housing units, areas and names come from the persons' table",
            where=where,
            remedy="delete the key",
        )
    counted, read_from = counted_rows(paths, schema, meaning, encoding, progress)
    block = joined(counted, meaning, blocks, ListedPlaces(), paths, encoding)
    return Confidential(Records(schema, *_some(counted, block))), read_from


def _some(
    counted: pa.Table, block: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Place, cell and number of the records; counts of 0 are left out."""
    cell, count = counted.column(CELL).to_numpy(), counted.column(COUNT).to_numpy()
    some = count > 0
    return block[some], cell[some], count[some]


def joined(
    counted: pa.Table,
    meaning: Columns,
    blocks: Blocks,
    listed: ListedPlaces,
    paths: Sequence[Path],
    encoding: str,
) -> NDArray[np.int64]:
    """The number of each row's place. Raises :class:`InputError` with the first line of a place
    that is not ``listed``."""
    lowest = list(meaning.geography)[-1]
    where = f"{meaning.where}.geography"
    if unknown := [lv for lv in meaning.geography if lv not in blocks.fields]:
        raise SpecError(
            f"the persons' input has no geographic field {unknown[0]!r}",
            where=where,
            remedy=f"its fields are {', '.join(blocks.fields)}",
        )
    codes = blocks.fields[lowest]
    if len(np.unique(codes)) != len(codes):
        raise SpecError(
            f"{lowest} is not the lowest field of the persons' input: it does not tell its places"
            " apart",
            where=where,
            remedy=f"end with {list(blocks.fields)[-1]}",
        )
    block = pc.index_in(counted.column(lowest), value_set=texts.column(codes))
    if block.null_count:
        lost = pc.unique(counted.column(lowest).filter(pc.is_null(block)))
        places = len(pc.unique(counted.column(lowest)))
        raise InputError(
            f"{len(lost)} of {places} places of {lowest} are not among {listed.of}, such as"
            f" {lost[0].as_py()!r}; theirs are such as {codes[0].decode()!r}",
            where=_first_line(paths, meaning, encoding, lost[0].as_py()) or where,
            remedy=listed.remedy,
        )
    at = block.to_numpy().astype(np.int64)
    for level in [lv for lv in meaning.geography if lv in counted.column_names]:
        here = texts.codes(counted.column(level))
        if len(bad := np.flatnonzero(here != blocks.fields[level][at])):
            raise InputError(
                f"{lowest} {codes[at[bad[0]]].decode()!r} is in {level} {here[bad[0]].decode()!r},"
                f" and in {listed.file} in {blocks.fields[level][at[bad[0]]].decode()!r}",
                where=where,
                remedy="use the same codes in both tables",
            )
    return at


def _first_line(paths: Sequence[Path], meaning: Columns, encoding: str, code: str) -> str:
    """Where the first record of a place of the lowest level is."""
    levels = list(meaning.geography)
    kept = levels if meaning.within_parent else levels[-1:]
    column = replace(
        meaning, geography={lv: meaning.geography[lv] for lv in kept}, attributes={}, count=None
    )
    for member in _used(paths):
        before = 0
        for batch in rows([member], column, (), encoding, SILENT):
            if (at := pc.index(batch.column(levels[-1]), code).as_py()) >= 0:
                return place(member, before + at)
            before += len(batch)
    return ""


def _used(paths: Sequence[Path]) -> list[Member]:
    every = [(Path(p), m) for p in paths for m in members(Path(p))]
    return [m for path, m in every if m.base.endswith(SUFFIXES) or m.path == path]


def counted_rows(
    paths: Sequence[Path],
    schema: Schema | None,
    meaning: Columns,
    encoding: str,
    progress: Progress,
    *,
    lowest: bool = False,
) -> tuple[pa.Table, tuple[Source, ...]]:
    """Counts by place and cell, and their files; without a ``schema`` there is one cell.
    ``lowest``: of the levels of places only the last is required."""
    used = _used(paths)
    if not used:
        raise InputError(
            "no input files",
            where="data.path",
            remedy=f"name at least one file ({', '.join(SUFFIXES)})",
        )
    if lowest and not meaning.within_parent:
        meaning = _with_levels(meaning, used, encoding)
    keys = [
        *meaning.places,
        *(NAME + level for level in meaning.names),
        CELL,
        *([UNITS] if meaning.housing_units else []),
    ]
    parts: list[pa.Table] = []
    merged = waiting = 0
    attributes = () if schema is None else schema.attributes
    for batch in rows(used, meaning, attributes, encoding, progress):
        parts.append(_group(batch, keys))
        waiting += len(parts[-1])
        if waiting > max(merged, MERGE):
            parts = [_group(pa.concat_tables(parts), keys)]
            merged, waiting = len(parts[0]), 0
    if not sum(map(len, parts)):
        raise InputError("has no records", where=used[0].name)
    return _group(pa.concat_tables(parts), keys), sources(used)


def _with_levels(meaning: Columns, used: Sequence[Member], encoding: str) -> Columns:
    """Without the levels above the last whose columns some file does not have."""
    there = [set(names(member, encoding)) for member in used]
    *above, last = meaning.geography.items()
    kept = [(lv, column) for lv, column in above if all(column in n for n in there)]
    return replace(meaning, geography=dict([*kept, last]))


def _group(table: pa.Table, keys: list[str]) -> pa.Table:
    return table.group_by(keys).aggregate([(COUNT, "sum")]).rename_columns([*keys, COUNT])


def _extract(
    table: pa.Table, meaning: Columns, schema: Schema, read_from: tuple[Source, ...]
) -> Extract:
    blocks, codes = blocks_of(table, meaning)
    lowest = list(meaning.geography)[-1]
    block = pc.index_in(table.column(lowest), value_set=codes).to_numpy().astype(np.int64)
    records = _some(table, block)
    if meaning.housing_units:
        units = block, table.column(UNITS).to_numpy()
        blocks = replace(blocks, structures=_structures(schema, codes, units, records))
    return Extract(blocks, Confidential(Records(schema, *records)), {}, read_from)


def blocks_of(table: pa.Table, meaning: Columns) -> tuple[Blocks, pa.Array]:
    """The places of a table, without structures, in the order of their codes; and these."""
    lowest = list(meaning.geography)[-1]
    places = table.select(list(meaning.places)).group_by(list(meaning.places)).aggregate([])
    _check_parents(places, meaning, lowest)
    places = places.sort_by(lowest)
    fields = {level: texts.codes(places.column(level)) for level in meaning.places}
    codes = places.column(lowest).combine_chunks()
    return Blocks(fields, None, _names(table, meaning)), codes


def _names(table: pa.Table, meaning: Columns) -> dict[str, Names]:
    """The names of places by level or kind of area. Raises where a place has two."""
    out = {}
    for level in meaning.names:
        pairs = table.select([level, NAME + level]).group_by([level, NAME + level]).aggregate([])
        code, name = texts.codes(pairs.column(level)), texts.texts(pairs.column(NAME + level))
        code, name = code[name != ""], name[name != ""]
        known, first, at = np.unique(code, return_index=True, return_inverse=True)
        if len(other := np.flatnonzero(name != name[first][at])):
            i = other[0]
            raise InputError(
                f"{level} {code[i].decode()} is called {str(name[first][at][i])!r} and"
                f" {str(name[i])!r}",
                where=f"{meaning.where}.names",
                remedy="give each place one name",
            )
        out[level] = Names.from_pairs(known, name[first])
    return out


def _check_parents(places: pa.Table, meaning: Columns, lowest: str) -> None:
    """Raises unless a code of the lowest level stands with one code of each level above, and in one
    area of a kind."""
    code = places.column(lowest)
    if len(places) == len(pc.unique(code)):
        return
    repeated = pc.value_counts(code)
    bad = repeated.field("values").filter(pc.greater(repeated.field("counts"), 1))[0].as_py()
    rows = places.filter(pc.equal(code, bad)).slice(0, 2).to_pylist()
    differ = next(level for level in rows[0] if rows[0][level] != rows[1][level])
    if differ in meaning.areas:
        remedy = (
            "an area is made of whole places: end the geography with places that lie in one"
            f" {differ} each"
        )
    else:
        remedy = (
            "list levels from the top down; codes must be unique: begin each with the code of the"
            f" level above, or say {meaning.where}.unique_within_parent = true"
        )
    raise InputError(
        f"{lowest} {bad!r} is in {differ} {rows[0][differ]!r} and in {differ} {rows[1][differ]!r}",
        where=f"{meaning.where}.geography",
        remedy=remedy,
    )


def _structures(
    schema: Schema,
    codes: pa.Array,
    units: tuple[NDArray[np.int64], NDArray[np.int64]],
    records: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Housing units as rows give them, each with its place, and 1 facility of each type that
    somebody lives in."""
    assert schema.dwelling is not None
    (at, given), (block, cell, _) = units, records
    out = np.zeros((len(codes), len(schema.attribute(schema.dwelling).levels)), dtype=np.int64)
    out[block, schema.level_of(schema.dwelling)[cell]] = 1
    home = out[:, 0].astype(bool)
    out[at, 0] = given
    for wrong, what in (
        (out[at, 0] != given, "has two different numbers of housing units"),
        (home[at] & (given == 0), "has people in households, but no housing unit"),
    ):
        if wrong.any():
            raise InputError(
                f"{codes[int(at[np.flatnonzero(wrong)[0]])].as_py()!r} {what}",
                where="data.columns.housing_units",
            )
    return out
