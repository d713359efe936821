"""Noisy measurements of the Detailed DHC as files: Parquet, one row for each measured group.

The files are ``nmf/<REGION>-<level>.parquet/DPQuery/<table>/part-<subtree>-<batch>.parquet``. Their
columns are

* ``REGION_ID`` and ``ITERATION_CODE``;
* ``TABLE_SIZE``, which is 0 for a group with a total alone;
* ``FIRST_STAGE``, null where there is none;
* ``VALUES``, the answers of a table of that size, in the order of
  :class:`das.publications.detailed.model.tables.AdaptiveTable`.

The metadata of a file say what noise each answer has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError, UserError
from das.files import atomic, csv_text
from das.files import codes as texts
from das.files.parquet import LOST, opened, readable
from das.model.frozen import Frozen
from das.model.names import Codes, text
from das.model.not_private import CELL, COLUMN, WARNING, Private
from das.publications.detailed.model.records import UNMEASURED, GroupMeasurement
from das.publications.detailed.model.tables import FIRST, LevelPlan

_COLUMNS = ("REGION_ID", "ITERATION_CODE", "TABLE_SIZE", "FIRST_STAGE", "VALUES")


def folder(root: Path, plan: LevelPlan) -> Path:
    """Where the measurements of a level for one table lie, of a product whose measurements are in
    ``root``."""
    name = plan.at.name.replace(" ", "-")
    return root / f"{name}.parquet" / "DPQuery" / plan.table.name


def path(root: Path, plan: LevelPlan, subtree: int, batch: int) -> Path:
    return folder(root, plan) / f"part-{subtree:05d}-{batch:05d}.parquet"


def paths(root: Path, plan: LevelPlan) -> list[Path]:
    """All parts of a level, in order."""
    return sorted(folder(root, plan).glob("part-*.parquet"))


def write(
    file: Path, m: GroupMeasurement, plan: LevelPlan, codes: NDArray[np.str_], private: Private
) -> None:
    """``codes`` are those of the iterations of the level."""
    rows = np.flatnonzero(m.size != UNMEASURED)
    staged = np.zeros(len(rows), dtype=bool) if not plan.first else ~m.only[m.iteration[rows]]
    table = pa.table(
        {
            "REGION_ID": _named(m.region[rows], text(m.regions)),
            "ITERATION_CODE": _named(m.iteration[rows], codes),
            "TABLE_SIZE": csv_text.column(m.size[rows]),
            "FIRST_STAGE": csv_text.column(m.first[rows], staged),
            "VALUES": csv_text.lists(np.append(m.indptr[rows], len(m.values)), m.values),
        }
    )
    said = {"regions": ",".join(text(m.regions)), "level": plan.level, "table": plan.table.name}
    said |= {f"{d.query}: {d.mechanism.symbol}": str(d.parameter) for d in plan.measurements}
    table = table.replace_schema_metadata(said | ({} if private else {COLUMN: WARNING}))
    with atomic.file(file) as draft:
        pq.write_table(table, draft, compression="zstd")


def read(
    file: Path, plan: LevelPlan, codes: NDArray[np.str_], only: NDArray[np.bool_]
) -> GroupMeasurement:
    """Read what :func:`write` wrote for the iterations ``codes``; those in ``only`` have a total
    alone.

    Raises:
        ReleaseError: the file is damaged, or is not of this level."""
    source = opened(file)
    with readable(file):
        table = source.read(list(_COLUMNS))
        said = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    try:
        return _checked(table, said, plan, codes, only)
    except (KeyError, ValueError, IndexError, pa.ArrowException, ReleaseError) as error:
        raise ReleaseError(
            f"these are no measurements of {plan.level} ({error})", where=file, remedy=LOST
        ) from None


def _checked(
    table: pa.Table,
    said: dict[str, str],
    plan: LevelPlan,
    codes: NDArray[np.str_],
    only: NDArray[np.bool_],
) -> GroupMeasurement:
    regions = np.array(said["regions"].split(","), dtype="S")
    groups, answers = len(regions) * len(codes), np.array([*plan.table.answers, 0])
    region = _places(table["REGION_ID"], text(regions))
    iteration = _places(table["ITERATION_CODE"], codes)
    at = region * len(codes) + iteration
    if len(at) and (np.diff(at) <= 0).any():
        raise ValueError("groups are not in order, or one is there twice")
    size, sizes = np.full(groups, UNMEASURED, dtype=np.int8), csv_text.integers(table["TABLE_SIZE"])
    lists = table["VALUES"].combine_chunks()
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        raise ValueError(f"values are {lists.type}, not lists")
    length = np.diff(csv_text.integers(lists.offsets))
    if (
        not ((sizes >= 0) & (sizes < len(plan.table.sizes))).all()
        or (length != answers[sizes]).any()
    ):
        raise ValueError("a group has not the answers of a table of its size")
    size[at] = sizes
    if plan.first and len(at) != groups:
        raise ValueError("a group is missing")
    first = np.zeros(groups, dtype=np.int64)
    stage = table["FIRST_STAGE"].combine_chunks()
    if (csv_text.there(stage) != (~only[iteration] & bool(plan.first))).any():
        raise ValueError(f"a group has no {FIRST}, or one that it has not")
    first[at] = csv_text.integers(stage, absent=0)
    indptr = np.concatenate([[0], np.cumsum(answers[size])])
    return GroupMeasurement(regions, only, first, size, indptr, csv_text.integers(lists.flatten()))


def noise(file: Path) -> dict[str, str]:
    """The noise of each query, as a file states it."""
    with readable(file):
        said = opened(file).schema_arrow.metadata or {}
    return {k.decode(): v.decode() for k, v in said.items() if b": " in k}


def each(
    root: Path, plan: LevelPlan, codes: NDArray[np.str_], only: NDArray[np.bool_]
) -> Iterator[GroupMeasurement]:
    """Part after part."""
    for file in paths(root, plan):
        yield read(file, plan, codes, only)


def part(
    root: Path, plan: LevelPlan, subtree: int, codes: NDArray[np.str_], only: NDArray[np.bool_]
) -> GroupMeasurement:
    """All batches of one subtree, together.

    Raises:
        ReleaseError: there is none; or see :func:`read`."""
    files = sorted(folder(root, plan).glob(f"part-{subtree:05d}-*.parquet"))
    if not files:
        raise ReleaseError(
            f"there are no measurements of {plan.level}, part {subtree}",
            where=folder(root, plan),
            remedy=LOST,
        )
    found = [read(file, plan, codes, only) for file in files]
    starts = np.concatenate([[0], np.cumsum([len(m.values) for m in found])])
    return GroupMeasurement(
        np.concatenate([m.regions for m in found]),
        only,
        np.concatenate([m.first for m in found]),
        np.concatenate([m.size for m in found]),
        np.concatenate([[0], *(m.indptr[1:] + s for m, s in zip(found, starts[:-1], strict=True))]),
        np.concatenate([m.values for m in found]),
    )


def _named(index: NDArray[np.int64], names: NDArray[np.str_]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        csv_text.column(index.astype(np.int32)), texts.column(np.strings.encode(names))
    )


def _places(column: pa.ChunkedArray, names: NDArray[np.str_]) -> NDArray[np.int64]:
    """Where each text is in ``names``."""
    given = column.combine_chunks()
    known = (
        given if pa.types.is_dictionary(given.type) else given.dictionary_encode()
    )  # each text is looked for once
    found = pc.index_in(known.dictionary.cast(pa.string()), texts.column(np.strings.encode(names)))
    if found.null_count or known.null_count:
        raise ValueError("a region or an iteration is not of this level")
    return csv_text.integers(found)[csv_text.integers(known.indices)]


# Estimates of the Detailed DHC as files: ``<REGION_TYPE>/part-<state>.parquet`` and, on request,
# the same as text in ``csv/``.
#
# A row is a cell of a group. Its columns are
#
# * ``REGION_ID``, ``REGION_TYPE``, ``ITERATION_CODE``;
# * the columns of its table (``*`` in all of them is the total);
# * ``VALUE``, ``STANDARD_ERROR``, ``LOWER`` and ``UPPER`` (95 %);
# * ``TRUNCATED``: whether a threshold was near;
# * ``COUNT``, where whole numbers were requested.
#
# Rows of a seeded run have one column more (:mod:`das.model.not_private`).

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
        UserError: there is something else, or the folder is in the run."""
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
