"""Reading microdata files back: as a histogram, by the values of their columns, or as a data
frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError
from das.files import csv_text
from das.files.microdata.writing import (
    BATCH,
    RECORDS,
    MicrodataLayout,
    MicrodataPart,
    layout,
    tails,
)
from das.files.parquet import DAMAGE
from das.model.columns import SERIAL, CodedColumn, MicrodataForm
from das.model.histogram import Histogram
from das.model.names import Codes, encoded, of_characters
from das.model.not_private import CELL, COLUMN, WARNING
from das.model.schema import Schema
from das.model.universe import PERSONS, Universe

if TYPE_CHECKING:
    import pandas as pd

#: Where the persons lie in a run, in a release, in its microdata folder.
FOLDERS = tuple(f"{above}{PERSONS.folder}" for above in ("", "microdata/", "release/microdata/"))


def read(
    directory: Path, universe: Universe, codes: Codes, part: MicrodataPart | None = None
) -> Histogram:
    """Tabulate the microdata in ``directory``: the histogram of the units ``codes``, in that order.
    That of a ``part`` is that of its own files.

    Each record is placed by the values of its columns, and columns that follow from others are
    checked against them. Rows of group-quarters facilities are passed over.

    Raises:
        InputError: a missing or damaged part, other columns than the layout's, a code that it does
            not have, columns of one record that contradict each other, a block that is not among
            ``codes``, or another number of records than was written."""
    form, schema = universe.microdata, universe.schema

    def cells(batch: pa.RecordBatch, where: str) -> NDArray[np.int64]:
        return cells_of(batch, form.columns, schema, where)

    return read_form(directory, form, codes, schema.cells, cells, f"schema {schema.name!r}", part)


def read_form(
    directory: Path,
    form: MicrodataForm,
    codes: Codes,
    cells: int,
    cells_in: Callable[[pa.RecordBatch, str], NDArray[np.int64]],
    called: str,
    part: MicrodataPart | None = None,
) -> Histogram:
    """Read records that are not a universe of their own.

    ``cells_in`` gives the cell of each record in a batch, out of ``cells``; records with a larger
    number are ignored. ``called`` names the universe whose columns the records have."""
    parts = _parts(directory)
    plan = _plan(parts[0], form, codes, called)
    places = _Units(plan, codes)
    first = 0 if part is None else part.first
    keys, counts, records, stated = [], [], first, set()
    for path in parts:
        for batch in _batches(path, plan):
            stated.add((batch.schema.metadata or {}).get(RECORDS.encode()))
            where = f"{path}, records from number {records} of the folder"
            cell = cells_in(batch, where)
            unit = places.unit_numbers(batch, where)
            if SERIAL in plan.order and not _runs_on(batch.column(SERIAL), records):
                raise InputError(
                    f"{SERIAL} does not run on here: a part is missing or out of order", where=where
                )
            key, count = np.unique((unit * cells + cell)[cell < cells], return_counts=True)
            keys.append(key)
            counts.append(count)
            records += batch.num_rows
    if stated - {str(records if part is None else part.records).encode()}:
        raise InputError(f"{records} records are here, another number was written", where=directory)
    key = np.concatenate([*keys, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    count = np.concatenate([*counts, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    return Histogram.from_triplets(len(codes), cells, key // cells, key % cells, count)


def read_frame(path: Path | str) -> pd.DataFrame:
    """The microdata as a data frame, one row per record, coded columns as categories of strings.

    ``path`` is a folder of parts, one part, a pipe-delimited microdata file, or a run or release
    folder, whose persons are taken. Microdata of a seeded run have one more column, which says so.
    """
    path = Path(path)
    if path.suffix == ".csv":
        return _read_text(path)
    if path.is_dir():
        path = next((path / p for p in FOLDERS if (path / p).is_dir()), path)
    try:
        parts = [pq.read_table(p) for p in _parts(path)]
        seeded = any(COLUMN.encode() in (p.schema.metadata or {}) for p in parts)
        return _told(pa.concat_tables(parts).unify_dictionaries().to_pandas(), seeded)
    except DAMAGE as e:
        raise InputError(
            f"not readable as microdata ({e})", where=path, remedy="write it again"
        ) from None


def _read_text(path: Path) -> pd.DataFrame:
    """Lines of ``#`` first, then a header, then rows; separated by ``|`` or by commas."""
    try:
        with path.open(encoding="utf-8") as file:
            above = list(takewhile(lambda line: line.startswith("#"), file))
        with path.open(encoding="utf-8") as file:
            header = next(islice(file, len(above), None))
        sep = "|" if "|" in header else ","
        coded = pa.dictionary(pa.int32(), pa.string())
        kinds = {c: pa.int32() if c == SERIAL else coded for c in header.strip().split(sep)}
        table = pacsv.read_csv(
            path,
            pacsv.ReadOptions(skip_rows=len(above)),
            pacsv.ParseOptions(delimiter=sep),
            pacsv.ConvertOptions(column_types=kinds, strings_can_be_null=False),
        )
        frame = table.unify_dictionaries().to_pandas()
        texts = {
            c: frame[c].cat.rename_categories(csv_text.plain) for c in frame.columns if c != SERIAL
        }
        return _told(frame.assign(**texts), f"# {WARNING}\n" in above)
    except (*DAMAGE, StopIteration) as e:
        raise InputError(
            f"not readable as delimited microdata ({str(e) or 'no header'})", where=path
        ) from None


def _told(frame: pd.DataFrame, seeded: bool) -> pd.DataFrame:
    import pandas as pd  # loaded only where frames are made

    return frame.assign(**{COLUMN: pd.Categorical([CELL]).repeat(len(frame))}) if seeded else frame


def _parts(path: Path) -> list[Path]:
    parts = [path] if path.is_file() else sorted(path.glob("*.parquet"))
    if not parts:
        raise InputError(
            "no microdata here", where=path, remedy="name a folder with part-*.parquet in it"
        )
    return parts


def _batches(path: Path, plan: MicrodataLayout | None) -> Iterator[pa.RecordBatch]:
    """The record batches of one part. Damage shows while reading, and is told as such."""
    try:
        with pq.ParquetFile(path) as file:
            if plan and tuple(file.schema_arrow.names) != plan.order:
                raise InputError(
                    f"other columns than in the first part: {file.schema_arrow.names}", where=path
                )
            for batch in file.iter_batches(BATCH):
                yield batch.replace_schema_metadata(file.schema_arrow.metadata)
    except DAMAGE as e:
        raise InputError(
            f"not readable as Parquet ({e})", where=path, remedy="write the microdata again"
        ) from None


def _plan(path: Path, form: MicrodataForm, codes: Codes, called: str) -> MicrodataLayout:
    """The layout of the form, which the first part must have."""
    try:
        names = tuple(pq.read_schema(path).names)
    except DAMAGE as e:
        raise InputError(
            f"not readable as Parquet ({e})", where=path, remedy="write the microdata again"
        ) from None
    plan = layout(form, codes, "")
    if plan.order != names:
        raise InputError(
            f"its columns are {', '.join(names)}; {called} has {', '.join(plan.order)}",
            where=path,
            remedy="name the schema that the microdata were written with",
        )
    return plan


def coded(batch: pa.RecordBatch, name: str, where: str) -> tuple[list[str], NDArray[np.int64]]:
    """A coded column as its distinct values and the place of each row's value among them."""
    column = batch.column(name)
    if column.null_count:
        raise InputError(f"{name} is missing in {column.null_count} records", where=where)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    if not pa.types.is_string(column.dictionary.type):
        raise InputError(f"{name} holds {column.dictionary.type}, not text", where=where)
    return column.dictionary.to_pylist(), csv_text.integers(column.indices)


def cells_of(
    batch: pa.RecordBatch, columns: Sequence[CodedColumn], schema: Schema, where: str
) -> NDArray[np.int64]:
    """The cell of each record; one past the last for a record of none (a facility)."""
    levels: dict[str, NDArray[np.int64]] = {}
    outside = np.zeros(batch.num_rows, dtype=bool)
    entries = {c.name: _entries(batch, c, where) for c in columns}
    for c in columns:
        if c.decodes:
            level = np.asarray(c.levels)[entries[c.name]]
            outside |= level < 0
            levels[c.decodes] = np.maximum(level, 0)
    for a in schema.attributes:
        if a.name not in levels:
            levels[a.name] = _jointly(a.name, columns, schema, levels, entries, where)
    axes = [levels[a.name] for a in schema.attributes]
    cell = np.ravel_multi_index(axes, schema.shape).astype(np.int64)
    cell[outside] = schema.cells
    for c in columns:
        wrong = np.flatnonzero(c.of_cells(cell) != entries[c.name])
        if len(wrong):
            raise InputError(
                f"{c.name} does not agree with the other columns, first in the record {wrong[0]}"
                f" after that, {batch.slice(wrong[0], 1).to_pylist()[0]}",
                where=where,
            )
    return cell


def _jointly(
    attribute: str,
    every: Sequence[CodedColumn],
    schema: Schema,
    known: Mapping[str, NDArray[np.int64]],
    entries: Mapping[str, NDArray[np.int64]],
    where: str,
) -> NDArray[np.int64]:
    """The level of an attribute that no column carries, of each record: from the columns that
    follow from it, and perhaps from attributes that are ``known``. Their codes together tell its
    levels apart."""
    own = schema.steps((attribute,))[0]
    of = dict(zip(schema.steps(list(known)), known, strict=True))
    columns = [c for c in every if own in c.by and all(by in of for by in c.by if by != own)]
    beside = sorted({by for c in columns for by in c.by if by != own}, reverse=True)
    shape = [levels for _, levels in (*beside, own)]
    key = np.arange(prod(shape[:-1])).reshape(*shape[:-1], 1)
    record = np.zeros_like(entries[columns[0].name])
    for by in beside:
        record = record * by[1] + known[of[by]]
    for c in columns:
        axes = [n if by in c.by else 1 for by, n in zip((*beside, own), shape, strict=True)]
        key = key * len(c.values) + c.index.reshape(axes)
        record = record * len(c.values) + entries[c.name]
    order = np.argsort(key, axis=None)
    at = order[np.minimum(np.searchsorted(key.ravel(), record, sorter=order), key.size - 1)]
    if (odd := key.ravel()[at] != record).any():
        raise InputError(
            f"{', '.join(c.name for c in columns)} together are of no"
            f" {schema.attribute(attribute).title}, first in the record {int(np.argmax(odd))} after"
            " that",
            where=where,
        )
    return at % own[1]


def _entries(batch: pa.RecordBatch, column: CodedColumn, where: str) -> NDArray[np.int64]:
    """Which of the layout's codes each record has in ``column``."""
    values, index = coded(batch, column.name, where)
    known = {v: i for i, v in enumerate(column.values)}
    entry = np.array([known.get(v, -1) for v in values], dtype=np.int64)
    rows = entry[index]
    if (rows < 0).any():
        first = int(np.argmax(rows < 0))
        raise InputError(
            f"{column.name} is {values[index[first]]!r} in the record {first} after that; "
            f"its codes are {column.values[0]} to {column.values[-1]}",
            where=where,
        )
    return rows


def _runs_on(serial: pa.Array, start: int) -> bool:
    return bool(np.array_equal(csv_text.array(serial, -1), np.arange(start, start + len(serial))))


class _Units:
    """From the geographic columns to the number of the unit."""

    def __init__(self, plan: MicrodataLayout, codes: Codes) -> None:
        self.plan = plan
        held = codes
        if plan.width:
            held = of_characters(tails(codes, plan.width)).astype(np.int64)
        self.order = np.argsort(held, kind="stable")
        self.held = held[self.order]

    def unit_numbers(self, batch: pa.RecordBatch, where: str) -> NDArray[np.int64]:
        if self.plan.width == 0:
            values, index = coded(batch, self.plan.geography[0][0], where)
            return self._find(encoded(values), values, where)[index]
        key = np.zeros(batch.num_rows, dtype=np.int64)
        for name, width in self.plan.geography:
            values, index = coded(batch, name, where)
            if bad := [v for v in values if not (len(v) == width and v.isascii() and v.isdigit())]:
                raise InputError(f"{name} is {bad[0]!r}, not {width} digits", where=where)
            key = key * 10**width + np.array(values, dtype=np.int64)[index]
        distinct, index = np.unique(key, return_inverse=True)
        return self._find(distinct, [f"{k:0{self.plan.width}d}" for k in distinct], where)[index]

    def _find(self, values: NDArray[np.generic], names: list[str], where: str) -> NDArray[np.int64]:
        if not len(values):
            return np.zeros(0, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.held, values), len(self.held) - 1)
        unknown = np.flatnonzero(self.held[at] != values)
        if len(unknown):
            raise InputError(
                f"block {names[unknown[0]]!r} is not one of the {len(self.held)} units", where=where
            )
        return self.order[at]
