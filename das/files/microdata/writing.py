"""Microdata files: Parquet, one row per record, with the columns of the microdata detail files.

A folder ``persons/`` or ``units/`` of ``part-NNNNN.parquet`` (zstd; every coded column a dictionary
of strings), ordered by block. It appears under its name when it is whole, never before. On request,
the same rows are written as ``persons.csv``: pipe-delimited, ``#`` lines first, then a header. A
seeded run is marked in the metadata of the parts and in a ``#`` line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError
from das.files import atomic, csv_text
from das.files import codes as texts
from das.files.atomic import HashingWriter
from das.microdata import expand, slices
from das.model.columns import BUILD, SERIAL, WHOLE, CodedColumn, MicrodataForm
from das.model.histogram import Histogram
from das.model.names import Codes, characters, encoded, of_characters
from das.model.not_private import CELL, COLUMN, WARNING, Private
from das.model.universe import Universe

# Which columns the microdata file of a universe has over the places of a release.


@dataclass(frozen=True)
class MicrodataLayout:
    """The columns of one file. ``order`` is the header.

    ``geography`` gives name and width of each part of a block's code, taken from its right end. Or
    it is the single part ``geocode`` of any width (0)."""

    title: str
    geography: tuple[tuple[str, int], ...]
    constants: Mapping[str, str]
    columns: tuple[CodedColumn, ...]
    order: tuple[str, ...]

    @property
    def width(self) -> int:
        """Characters of a block's code that the file holds, 0 for all of them."""
        return sum(width for _, width in self.geography)


def layout(form: MicrodataForm, codes: Codes, build: str) -> MicrodataLayout:
    """The layout where the lowest level has the units ``codes``.

    The block columns of the redistricting or 1940 file are used if every code ends in a block code
    of that file: 16, and exactly 10, digits. Otherwise one column ``geocode`` holds the whole
    code."""
    geography = form.geography if _fits(codes, form) else WHOLE
    order = (*form.before, *(name for name, _ in geography), *form.after)
    named = {BUILD: build} if BUILD in order else {}
    return MicrodataLayout(form.title, geography, named | dict(form.constants), form.columns, order)


def _fits(codes: Codes, form: MicrodataForm) -> bool:
    width = sum(w for _, w in form.geography)
    length = np.strings.str_len(codes)
    if not len(codes) or (length < width).any() or (form.sole and (length > width).any()):
        return False
    tail = tails(codes, width)
    return bool(((tail >= ord("0")) & (tail <= ord("9"))).all())


def tails(codes: Codes, width: int) -> NDArray[np.uint8]:
    """The last ``width`` bytes of each code, ``(units, width)``."""
    at = np.strings.str_len(codes)[:, None] - width + np.arange(width)
    return np.take_along_axis(characters(codes), at, axis=1)


#: Records of one row group, and row groups of one file.
BATCH = 1 << 20
GROUPS = 16
#: EPNUM has nine digits in the published layout.
LARGEST_SERIAL = 999_999_999
#: The key of the files' metadata that says how many records all parts hold together.
RECORDS = "das:records"
#: And what they are.
TITLE = "das:layout"


def write(
    directory: Path,
    h: Histogram,
    codes: Codes,
    universe: Universe,
    *,
    structures: NDArray[np.int64] | None = None,
    build: str = "das",
    csv: bool = False,
    private: Private = True,
    batch: int = BATCH,
) -> list[Path]:
    """Write the microdata of the lowest level into the folder ``directory``; return the files.

    ``codes`` names the units of ``h``. ``structures``, ``(blocks, dwelling levels)``, adds to a
    file that lists facilities one row for each of them (columns 1 and up), as published. ``build``
    goes into ``SCHEMA_BUILD_ID``. At most ``batch`` records are held at a time. Files of an earlier
    run in ``directory`` are replaced; a folder with anything else in it is refused. With ``csv``,
    the rows also go to ``<directory>.csv``.

    Raises:
        InputError: codes that do not fit the histogram, or that do not tell two blocks apart; more
            records than nine digits can number; a folder with other files in it."""
    schema = universe.schema
    if len(codes) != h.units or h.cells != schema.cells:
        raise InputError(
            f"{h.units} units of {h.cells} cells do not fit {len(codes)} codes and the"
            f" {schema.cells} cells of schema {schema.name!r}",
            where=directory,
        )
    if structures is not None and universe.microdata.facilities:
        h = _with_facilities(h, structures)
    return write_form(
        directory, h, codes, universe.microdata, build=build, csv=csv, private=private, batch=batch
    )


def write_form(
    directory: Path,
    h: Histogram,
    codes: Codes,
    form: MicrodataForm,
    *,
    build: str = "das",
    csv: bool = False,
    private: Private = True,
    batch: int = BATCH,
) -> list[Path]:
    """Write records that are not a universe of their own; ``form`` says what each cell of ``h`` is.
    Raises as :func:`write`."""
    plan = layout(form, codes, build)
    _check_serial(records := int(h.count.sum()), plan, directory)
    tables = _tables(h, plan, _Places(plan, codes), batch)
    text = directory.with_name(f"{directory.name}.csv") if csv else None
    _publish(directory, text, tables, plan, records, private)
    return sorted(directory.glob("part-*.parquet")) + ([text] if text else [])


@dataclass(frozen=True)
class MicrodataPart:
    """A subtree of what is published: its number, and of its records the number of the ``first``,
    of ``records`` in all."""

    subtree: int
    first: int
    records: int


def write_part(
    directory: Path,
    part: MicrodataPart,
    h: Histogram,
    codes: Codes,
    universe: Universe,
    *,
    structures: NDArray[np.int64] | None = None,
    build: str = "das",
    private: Private = True,
) -> None:
    """Like :func:`write`, for one subtree. :func:`publish_parts` collects the files of all
    subtrees. Raises as :func:`write`."""
    plan = layout(universe.microdata, codes, build)
    if structures is not None and universe.microdata.facilities:
        h = _with_facilities(h, structures)
    _check_serial(part.records, plan, directory)
    metadata = _metadata(plan, part.records, private)
    rows = _tables(h, plan, _Places(plan, codes), BATCH, part.first)
    for number, first in enumerate(rows):
        path = directory / f"part-{part.subtree:05d}-{number:05d}.parquet"
        schema = first.schema.with_metadata(metadata)
        with (
            atomic.file(path) as draft,
            pq.ParquetWriter(draft, schema, compression="zstd") as writer,
        ):
            for table in (first, *islice(rows, GROUPS - 1)):
                writer.write_table(table.replace_schema_metadata(metadata))


def _metadata(plan: MicrodataLayout, records: int, private: Private) -> dict[str, str]:
    return {TITLE: plan.title, RECORDS: str(records)} | ({} if private else {COLUMN: CELL})


def publish_parts(
    folders: Iterable[Path], directory: Path, *, csv: bool = False, private: Private = True
) -> None:
    """The files in ``folders``, which :func:`write_part` wrote, are there under ``directory``, too;
    with ``csv`` their rows also go to ``<directory>.csv``."""
    _refuse_others(directory)
    with atomic.folder(directory) as draft:
        for part in (p for folder in folders for p in sorted(folder.glob("part-*.parquet"))):
            atomic.link(part, draft / part.name)
        if csv:
            _write_text(
                sorted(draft.iterdir()), directory.with_name(f"{directory.name}.csv"), private
            )


def _write_text(parts: Sequence[Path], path: Path, private: Private) -> None:
    with atomic.file(path) as draft, draft.open("wb") as file:
        _copy_as_text(parts, file, private)


def text_digest(folder: Path, private: Private) -> str:
    """SHA-256 of the text file that goes with a folder of microdata."""
    hashed = HashingWriter()
    _copy_as_text(sorted(folder.glob("*.parquet")), hashed, private)
    return hashed.digest


def _copy_as_text(parts: Sequence[Path], file: Any, private: Private) -> None:
    schema = pq.read_schema(parts[0])
    title, records = (schema.metadata[key.encode()].decode() for key in (TITLE, RECORDS))
    text = _Text(file, title, tuple(schema.names), int(records), private)
    for part in parts:
        for batch in pq.ParquetFile(part).iter_batches(BATCH):
            text.write(pa.Table.from_batches([batch]))


def _check_serial(records: int, plan: MicrodataLayout, directory: Path) -> None:
    if records > LARGEST_SERIAL + 1 and SERIAL in plan.order:
        raise InputError(
            f"{records:,} records are more than EPNUM can number (1,000,000,000)", where=directory
        )


def _publish(
    directory: Path,
    text: Path | None,
    tables: Iterator[pa.Table],
    plan: MicrodataLayout,
    records: int,
    private: Private,
) -> None:
    """All parts, and the text, are written before either gets its name."""
    _refuse_others(directory)
    with ExitStack() as outer:
        parts = outer.enter_context(atomic.folder(directory))
        draft = outer.enter_context(atomic.file(text)) if text else None
        with ExitStack() as stack:
            sinks: list[_Parts | _Text] = [
                stack.enter_context(_Parts(parts, plan, records, private))
            ]
            if draft:
                file = stack.enter_context(draft.open("wb"))
                sinks.append(_Text(file, plan.title, plan.order, records, private))
            for table in tables:
                for sink in sinks:
                    sink.write(table)


def _refuse_others(directory: Path) -> None:
    if directory.exists() and (
        not directory.is_dir() or any(not _is_part(p) for p in directory.iterdir())
    ):
        raise InputError(
            "this is not a folder of microdata parts alone, and it would be replaced",
            where=directory,
            remedy="name another folder for the output, or empty this one",
        )


def _is_part(path: Path) -> bool:
    return path.name.startswith("part-") and path.suffix == ".parquet"


def _with_facilities(h: Histogram, structures: NDArray[np.int64]) -> Histogram:
    """A third cell after vacant and occupied: group-quarters facilities of all types."""
    if len(structures) != h.units:
        raise InputError(
            f"structures of {len(structures)} blocks for {h.units} blocks",
            where="microdata of housing units",
        )
    facilities = structures[:, 1:].sum(axis=1)
    at = np.flatnonzero(facilities)
    unit, cell = np.concatenate([h.unit, at]), np.concatenate([h.cell, np.full(len(at), h.cells)])
    return Histogram.from_triplets(
        h.units, h.cells + 1, unit, cell, np.concatenate([h.count, facilities[at]])
    )


class _Places:
    """The geographic columns: for each, the distinct values and which of them a unit has."""

    def __init__(self, plan: MicrodataLayout, codes: Codes) -> None:
        self.whole = codes if plan.width == 0 else None
        self.name = plan.geography[0][0]
        self.parts: dict[str, tuple[pa.Array, NDArray[np.int64]]] = {}
        held = codes
        if plan.width:
            rows, at = tails(codes, plan.width), 0
            held = of_characters(rows)
            for name, width in plan.geography:
                values, index = np.unique(
                    of_characters(rows[:, at : at + width]), return_inverse=True
                )
                self.parts[name] = texts.column(values), index
                at += width
        if len(np.unique(held)) != len(codes):
            raise InputError(
                "two units have the same code"
                + (f" in its last {plan.width} characters" if plan.width else ""),
                where="microdata",
                remedy=(
                    "give each block a code of its own: state, county, tract, block group, block"
                ),
            )

    def columns(self, unit: NDArray[np.int64]) -> dict[str, pa.Array]:
        if self.whole is not None:
            first, last = (unit.min(), unit.max() + 1) if len(unit) else (0, 0)
            return {self.name: _coded(unit - first, texts.column(self.whole[first:last]))}
        return {name: _coded(index[unit], values) for name, (values, index) in self.parts.items()}


def _tables(
    h: Histogram, plan: MicrodataLayout, places: _Places, batch: int, first_serial: int = 0
) -> Iterator[pa.Table]:
    """The rows, ``batch`` at most at a time; one empty table if there are none."""
    serial = first_serial
    for first, last in slices(h, batch):
        part = h.rows(first, last)
        for start in range(0, int(part.count.sum()), batch):
            unit, cell = expand(part, start, start + batch)
            yield _table(unit + first, cell, serial, plan, places)
            serial += len(unit)
    if serial == first_serial:
        none = np.zeros(0, dtype=np.int64)
        yield _table(none, none, serial, plan, places)


def _table(
    unit: NDArray[np.int64],
    cell: NDArray[np.int64],
    serial: int,
    plan: MicrodataLayout,
    places: _Places,
) -> pa.Table:
    rows = len(unit)
    columns: dict[str, Any] = {
        SERIAL: csv_text.column(np.arange(serial, serial + rows, dtype=np.int32))
    }
    columns |= places.columns(unit)
    for name, value in plan.constants.items():
        columns[name] = _coded(np.zeros(rows, dtype=np.int32), texts.repeated(value, 1))
    for c in plan.columns:
        columns[c.name] = _coded(c.of_cells(cell), texts.column(encoded(c.values)))
    return pa.table({name: columns[name] for name in plan.order})


def _coded(index: NDArray[np.int64], values: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(csv_text.column(index.astype(np.int32)), values)


class _Parts:
    """The Parquet files, a new one every ``GROUPS`` row groups."""

    def __init__(
        self,
        directory: Path,
        plan: MicrodataLayout,
        records: int,
        private: Private,
        name: str = "part",
    ) -> None:
        self.directory, self.name = directory, name
        self.metadata = {TITLE: plan.title, RECORDS: str(records)} | (
            {} if private else {COLUMN: CELL}
        )
        self.groups = 0
        self.writer: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        if self.groups % GROUPS == 0:
            self.close()
            path = self.directory / f"part-{self.groups // GROUPS:05d}.parquet"
            schema = table.schema.with_metadata(self.metadata)
            self.writer = pq.ParquetWriter(path, schema, compression="zstd")
        assert self.writer is not None
        self.writer.write_table(table.replace_schema_metadata(self.metadata))
        self.groups += 1

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def __enter__(self) -> _Parts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Text:
    """The pipe-delimited file: ``#`` lines, the header, the rows."""

    OPTIONS = pacsv.WriteOptions(include_header=False, delimiter="|", quoting_style="none")

    def __init__(
        self, file: IO[bytes], title: str, order: Sequence[str], records: int, private: Private
    ) -> None:
        self.file = file
        mark = () if private else (f"# {WARNING}",)
        lines = (f"# {title}", f"# records: {records}", *mark, "|".join(order))
        self.file.write(("\n".join(lines) + "\n").encode())

    def write(self, table: pa.Table) -> None:
        csv_text.write_table(table, self.file, self.OPTIONS)
