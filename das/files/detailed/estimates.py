"""Estimates of the Detailed DHC as files: ``<REGION_TYPE>/part-<state>.parquet`` and, on request,
the same as text in ``csv/``.

A row is a cell of a group. Its columns are

* ``REGION_ID``, ``REGION_TYPE``, ``ITERATION_CODE``;
* the columns of its table (``*`` in all of them is the total);
* ``VALUE``, ``STANDARD_ERROR``, ``LOWER`` and ``UPPER`` (95 %);
* ``TRUNCATED``: whether a threshold was near;
* ``COUNT``, where whole numbers were requested.

Rows of a seeded run have one column more (:mod:`das.model.not_private`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import UserError
from das.files import codes as texts
from das.model.codes import Codes
from das.model.frozen import Frozen
from das.model.not_private import CELL, COLUMN, Private

GROUP = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE")
NUMBERS = ("VALUE", "STANDARD_ERROR", "LOWER", "UPPER")
FLAG, COUNT = "TRUNCATED", "COUNT"
#: Says that a folder is one of estimates.
SUMMARY = "estimates.json"
#: Files of such a folder.
_OWN = re.compile(r"estimates\.json|[A-Z-]+/part-\d{5}\.parquet|csv/[A-Z-]+/part-\d{5}\.csv")


@dataclass(frozen=True, eq=False, repr=False)
class EstimateRows(Frozen):
    """By row: the codes of ``region``, ``iteration`` and ``cells`` (by column), and the numbers."""

    region_type: str
    region: Codes
    iteration: Codes
    cells: Mapping[str, Codes]
    value: NDArray[np.float64]
    error: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    truncated: NDArray[np.bool_]
    count: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.value)


class EstimateFile:
    """One part: rows are written as they come. A file without rows is not made."""

    def __init__(
        self, folder: Path, kind: str, subtree: int, *, private: Private, csv: bool
    ) -> None:
        self.path, self.private, self.csv = (
            folder / kind / f"part-{subtree:05d}.parquet",
            private,
            csv,
        )
        self.stack, self.rows = ExitStack(), 0
        self.parquet: pq.ParquetWriter | None = None
        self.text: pacsv.CSVWriter | None = None

    def __enter__(self) -> EstimateFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def write(self, rows: EstimateRows) -> None:
        if not len(rows):
            return
        columns = {
            GROUP[0]: texts.column(rows.region),
            GROUP[1]: texts.repeated(rows.region_type, len(rows)),
            GROUP[2]: texts.column(rows.iteration),
            **{name: texts.column(codes) for name, codes in rows.cells.items()},
            **dict(
                zip(
                    NUMBERS,
                    map(pa.array, (rows.value, rows.error, rows.lower, rows.upper)),
                    strict=True,
                )
            ),
            FLAG: pa.array(rows.truncated),
            **({} if rows.count is None else {COUNT: pa.array(rows.count)}),
            **({} if self.private else {COLUMN: texts.repeated(CELL, len(rows))}),
        }
        table = pa.table(columns)
        if self.parquet is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            writer = pq.ParquetWriter(self.path, table.schema, compression="zstd")
            self.parquet = self.stack.enter_context(writer)
            if self.csv:
                beside = (
                    self.path.parent.parent
                    / "csv"
                    / self.path.parent.name
                    / f"{self.path.stem}.csv"
                )
                beside.parent.mkdir(parents=True, exist_ok=True)
                self.text = self.stack.enter_context(pacsv.CSVWriter(beside, table.schema))
        assert self.parquet is not None
        self.parquet.write_table(table)
        if self.text is not None:
            self.text.write_table(table)
        self.rows += len(rows)


def place(folder: Path, release: Path) -> Path:
    """Where estimates of a release are written: the ``folder``, whatever it is called. What is
    replaced there are estimates alone.

    Raises:
        UserError: there is something else, or the folder is in the run.
    """
    out, run = folder.resolve(), release.resolve()
    run = run.parent if (run.parent / "confidential").exists() else run
    if out == run or run in out.parents:
        raise UserError(
            f"is in {run}, which is complete", where=folder, remedy="choose an --out next to it"
        )
    for above in out.parents:
        if above.exists() and not above.is_dir():
            raise UserError(
                f"cannot be made: {above} is no folder", where=folder, remedy="choose another --out"
            )
    if out.exists() and not out.is_dir():
        raise UserError("is a file", where=folder, remedy="choose another --out")
    there = (
        [p.relative_to(out).as_posix() for p in sorted(out.rglob("*")) if not p.is_dir()]
        if out.exists()
        else []
    )
    odd = [name for name in there if not _OWN.fullmatch(name)]
    if odd or (there and SUMMARY not in there):
        raise UserError(
            f"has {[*odd, *there][0]}, which would be lost",
            where=folder,
            remedy="name another folder, or empty this one",
        )
    return out
