"""Noisy measurements of the Detailed DHC as files: Parquet, one row for each measured group.

The files are ``nmf/<REGION>-<level>.parquet/DPQuery/<table>/part-<subtree>-<batch>.parquet``. Their
columns are

* ``REGION_ID`` and ``ITERATION_CODE``;
* ``TABLE_SIZE``, which is 0 for a group with a total alone;
* ``FIRST_STAGE``, null where there is none;
* ``VALUES``, the answers of a table of that size, in the order of
  :class:`das.model.adaptive.AdaptiveTable`.

The metadata of a file say what noise each answer has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic, numbers
from das.files import codes as texts
from das.files.parquet import LOST, opened, readable
from das.model.adaptive import FIRST, LevelPlan
from das.model.codes import text
from das.model.group_measurement import UNMEASURED, GroupMeasurement
from das.model.not_private import COLUMN, WARNING, Private

_COLUMNS = ("REGION_ID", "ITERATION_CODE", "TABLE_SIZE", "FIRST_STAGE", "VALUES")


def folder(root: Path, plan: LevelPlan) -> Path:
    """Where the measurements of a level for one table lie, of a product whose measurements are in
    ``root``.
    """
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
            "TABLE_SIZE": numbers.column(m.size[rows]),
            "FIRST_STAGE": numbers.column(m.first[rows], staged),
            "VALUES": numbers.lists(np.append(m.indptr[rows], len(m.values)), m.values),
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
        ReleaseError: the file is damaged, or is not of this level.
    """
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
    region, iteration = (
        _places(table["REGION_ID"], text(regions)),
        _places(table["ITERATION_CODE"], codes),
    )
    at = region * len(codes) + iteration
    if len(at) and (np.diff(at) <= 0).any():
        raise ValueError("groups are not in order, or one is there twice")
    size, sizes = np.full(groups, UNMEASURED, dtype=np.int8), numbers.integers(table["TABLE_SIZE"])
    lists = table["VALUES"].combine_chunks()
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        raise ValueError(f"values are {lists.type}, not lists")
    length = np.diff(numbers.integers(lists.offsets))
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
    if (numbers.there(stage) != (~only[iteration] & bool(plan.first))).any():
        raise ValueError(f"a group has no {FIRST}, or one that it has not")
    first[at] = numbers.integers(stage, absent=0)
    indptr = np.concatenate([[0], np.cumsum(answers[size])])
    return GroupMeasurement(regions, only, first, size, indptr, numbers.integers(lists.flatten()))


def noise(file: Path) -> dict[str, str]:
    """What a file says of the noise of each query."""
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
        ReleaseError: there is none; or see :func:`read`.
    """
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
        numbers.column(index.astype(np.int32)), texts.column(np.strings.encode(names))
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
    return numbers.integers(found)[numbers.integers(known.indices)]
