"""Tables of the Detailed DHC as the programs of 2020 write them, and the same in Parquet.

A table is a folder: ``headers.csv`` with the names of its columns, and for each run
``part-00000-<run>.csv`` with names and rows, ``|`` between fields. One Parquet file next to the
folder has the same rows. All tables appear together when they are whole, or not at all.

* ``t1``: ``REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT``.
* ``t2``: the same with ``AGESTART|AGEEND|SEX`` before the count.
* ``t3/T03001`` to ``t3/T03004``: with ``T3_DATA_CELL``; one folder for each size of the table.
* ``t4/T04001``, ``t4/T04002``: with ``T4_DATA_CELL``.

Rows of a seeded run have one column more (:mod:`das.model.not_private`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError
from das.files import atomic, csv_text
from das.files import codes as texts
from das.files.delimited import DELIMITER
from das.model.frozen import Frozen
from das.model.names import Codes
from das.model.not_private import CELL, COLUMN, Private
from das.publications.detailed.model.iterations import REGIONS
from das.publications.detailed.model.tables import AdaptiveTable, Product

GROUP, COUNT = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE"), "COUNT"
HEADERS = "headers.csv"
RUN_OF: Mapping[str, str] = {region: run for run, regions in REGIONS.items() for region in regions}


@dataclass(frozen=True, eq=False, repr=False)
class GroupRows(Frozen):
    """Rows of one ``table`` (a name of :func:`layouts`) and one type of region: by row,
    ``(rows,)``, the codes of ``region`` and ``iteration``, the ``cells`` (by column, in the table's
    order) and the ``count``."""

    table: str
    region_type: str
    region: Codes
    iteration: Codes
    count: NDArray[np.int64]
    cells: Mapping[str, Codes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.region_type not in RUN_OF:
            raise InputError(
                f"no type of region {self.region_type!r}", where=f"rows of {self.table}"
            )
        if any(
            len(c) != len(self.count) for c in (self.region, self.iteration, *self.cells.values())
        ):
            raise InputError("columns differ in length", where=f"rows of {self.table}")

    def __len__(self) -> int:
        return len(self.count)


def layouts(product: Product) -> dict[str, tuple[str, ...]]:
    """The tables of a product, as folders, and the columns of their cells.

    >>> from das.publications.detailed.model.tables import PRODUCTS
    >>> layouts(PRODUCTS["persons"])
    {'t1': (), 't2': ('AGESTART', 'AGEEND', 'SEX')}
    >>> list(layouts(PRODUCTS["households"]))
    ['t3/T03001', 't3/T03002', 't3/T03003', 't3/T03004', 't4/T04001', 't4/T04002']"""
    if product.staged:
        return {"t1": ()} | {table.name: table.columns for table in product.tables}
    return {
        sized(table, size): table.columns
        for table in product.tables
        for size in range(len(table.sizes))
    }


def sized(table: AdaptiveTable, size: int) -> str:
    """The folder of a table's rows of one size, where each size has one."""
    return f"{table.name}/T{int(table.name[1:]):02d}{size + 1:03d}"


def write(
    folder: Path,
    product: Product,
    runs: Iterable[str],
    rows: Iterable[GroupRows],
    *,
    private: Private = True,
) -> dict[str, int]:
    """Write all tables of a product into ``folder``, replacing anything of that name; return the
    number of rows of each.

    ``rows`` come in any order, and are written as they come: as many are in memory as one of them
    holds. A run without rows has files with names alone.

    Raises:
        InputError: rows of another table, of other columns, or of a run that is not among ``runs``;
            or ``folder`` holds something else. Nothing is written."""
    tables, written = layouts(product), dict.fromkeys(layouts(product), 0)
    _refuse_others(folder, tables)
    with atomic.folder(folder) as draft, ExitStack() as stack:
        sinks = {
            name: stack.enter_context(_Sink(draft / name, cells, tuple(runs), private))
            for name, cells in tables.items()
        }
        for chunk in rows:
            if chunk.table not in sinks:
                raise InputError(
                    f"no table {chunk.table!r} of {product.name}",
                    where=folder,
                    remedy=f"it has {', '.join(tables)}",
                )
            sinks[chunk.table].write(chunk)
            written[chunk.table] += len(chunk)
    return written


def _refuse_others(folder: Path, tables: Iterable[str]) -> None:
    """What is replaced are tables alone."""
    ours = {end for name in tables for end in (name.split("/")[0], f"{name.split('/')[0]}.parquet")}
    if folder.exists() and (
        not folder.is_dir() or any(p.name not in ours for p in folder.iterdir())
    ):
        raise InputError(
            "this is not a folder of these tables alone, and it would be replaced",
            where=folder,
            remedy="name another folder for the output, or empty this one",
        )


class _Sink:
    """The files of one table."""

    OPTIONS = pacsv.WriteOptions(include_header=False, delimiter=DELIMITER, quoting_style="none")

    def __init__(
        self, folder: Path, cells: tuple[str, ...], runs: tuple[str, ...], private: Private
    ) -> None:
        self.cells, self.private, self.folder = cells, private, folder
        names = (*GROUP, *cells, COUNT, *(() if private else (COLUMN,)))
        self.schema = pa.schema([(n, pa.int64() if n == COUNT else pa.string()) for n in names])
        folder.mkdir(parents=True)
        header = (DELIMITER.join(names) + "\n").encode()
        self.stack = ExitStack()
        self.text = {
            run: self.stack.enter_context((folder / f"part-00000-{run}.csv").open("wb"))
            for run in runs
        }
        for text in self.text.values():
            text.write(header)
        with (folder / HEADERS).open("wb") as only:
            only.write(header)
        self.parquet = self.stack.enter_context(
            pq.ParquetWriter(folder.with_suffix(".parquet"), self.schema, compression="zstd")
        )

    def __enter__(self) -> _Sink:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def write(self, chunk: GroupRows) -> None:
        if tuple(chunk.cells) != self.cells or RUN_OF[chunk.region_type] not in self.text:
            raise InputError(
                f"rows of {chunk.region_type} with the cells {', '.join(chunk.cells) or 'none'}",
                where=self.folder,
                remedy=(
                    f"this table has {', '.join(self.cells) or 'none'}, of the runs"
                    f" {', '.join(self.text)}"
                ),
            )
        if not len(chunk):
            return
        columns = {
            "REGION_ID": texts.column(chunk.region),
            "REGION_TYPE": texts.repeated(chunk.region_type, len(chunk)),
            "ITERATION_CODE": texts.column(chunk.iteration),
            **{name: texts.column(codes) for name, codes in chunk.cells.items()},
            COUNT: csv_text.column(chunk.count),
            **({} if self.private else {COLUMN: texts.repeated(CELL, len(chunk))}),
        }
        table = pa.table(columns, schema=self.schema)
        csv_text.write_table(table, self.text[RUN_OF[chunk.region_type]], self.OPTIONS)
        self.parquet.write_table(table)
