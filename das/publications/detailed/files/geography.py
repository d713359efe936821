"""``GRF-C.txt``: where blocks are. The real file has many columns; six are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import atomic, codes, csv_text
from das.files.delimited import Faults
from das.files.parquet import DAMAGE, LOST, mark, opened
from das.model.names import Codes
from das.model.not_private import Private
from das.publications.detailed.files.columns import Field, Reading, digits, written
from das.publications.detailed.model.iterations import REGIONS, Mask, Regions
from das.publications.detailed.model.tables import Parameters

FILE = "GRF-C.txt"
#: The columns that name a block, and their widths.
BLOCK: Mapping[str, int] = {"TABBLKST": 2, "TABBLKCOU": 3, "TABTRACTCE": 6, "TABBLK": 4}
WIDTH = sum(BLOCK.values())
PUERTO_RICO = 72
#: How wide the ids of types of regions are, those of Puerto Rico as the others.
ID_WIDTHS: Mapping[str, int] = {
    "USA": 1,
    "STATE": 2,
    "COUNTY": 5,
    "TRACT": 11,
    "PLACE": 7,
    "AIANNH": 4,
}
NATION = 1
#: What stands for no place, and for no area.
NO_PLACE, NO_AREA = 99999, 9999
REMEDY = "fix these lines, or the states and runs in config.json, and read the folder again"

Signed = NDArray[np.signedinteger[Any]]


def file_of(folder: Path) -> Path:
    """It may be compressed. Raises :class:`InputError` where there are two."""
    plain, packed = folder / FILE, folder / f"{FILE}.gz"
    if plain.exists() and packed.exists():
        raise InputError(
            f"has {FILE} twice, plain and compressed",
            where=folder,
            remedy="take one of the two away",
        )
    return packed if packed.exists() else plain


def regions(folder: Path, parameters: Parameters) -> Regions:
    """The blocks of the states of each run, and the regions that they are in, of the types of that
    run.

    Raises:
        InputError: with all faults of the file, or as many as the message has room for; a run
            without a block is one."""
    faults, wanted = Faults(), states_read(parameters)
    columns = [
        *block_fields(),
        digits("PLACEFP", 5, kind=np.int32),
        digits("AIANNHCE", 4, kind=np.int16),
    ]
    parts: list[tuple[Signed, ...]] = [
        tuple(np.zeros(0, dtype=kind) for kind in (np.int64, np.int32, np.int16, np.int64))
    ]
    with Reading(file_of(folder), columns, faults, others=True) as file:
        for lines in file.batches():
            of, here = lines.values, wanted[lines.values["TABBLKST"]]
            parts.append(
                tuple(
                    c[here]
                    for c in (block_numbers(of), of["PLACEFP"], of["AIANNHCE"], lines.record)
                )
            )
        block, place, area, record = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(block, kind="stable")
        block = block[order]
        if len(again := np.flatnonzero(block[1:] == block[:-1]) + 1):
            file.note(
                "again",
                f"block {block[again[0]]:0{WIDTH}} is there already",
                np.sort(record[order[again]]),
            )
    check_runs(np.unique(block // 10 ** (WIDTH - 2)), parameters, FILE, "block", faults)
    faults.refuse(folder, REMEDY)
    return _regions(block, place[order], area[order], parameters.runs)


def block_fields() -> list[Field]:
    return [digits(name, width) for name, width in BLOCK.items()]


def block_numbers(columns: Mapping[str, Signed]) -> NDArray[np.int64]:
    """The numbers of blocks' codes, from the columns that they are made of."""
    first, *others = BLOCK
    out = columns[first].astype(np.int64)
    for name in others:
        out *= 10 ** BLOCK[name]
        out += columns[name]
    return out


def states_read(parameters: Parameters) -> Mask:
    """Which of the states 00 to 99 belong to a run."""
    out = np.zeros(100, dtype=bool)
    out[[int(s) for s in parameters.states]] = "us" in parameters.runs
    out[PUERTO_RICO] = "pr" in parameters.runs
    return out


def check_runs(
    states: NDArray[np.int64], parameters: Parameters, file: str, what: str, faults: Faults
) -> None:
    """Each run has something in one of the ``states`` that were found; asked where nothing else is
    wrong."""
    if len(faults):
        return
    for run in parameters.runs:
        if not ((states == PUERTO_RICO) == (run == "pr")).any():
            of = (
                "state 72"
                if run == "pr"
                else f"the states of run_us ({', '.join(parameters.states)})"
            )
            faults.add(file, None, f"has no {what} of {of}")


def _regions(block: NDArray[np.int64], place: Signed, area: Signed, runs: Iterable[str]) -> Regions:
    ids: dict[str, Codes] = {}
    of_block: dict[str, NDArray[np.int32]] = {}
    pr = block // 10 ** (WIDTH - 2) == PUERTO_RICO
    for run in runs:
        here = pr if run == "pr" else ~pr
        for region in REGIONS[run]:
            kind = region.removeprefix("PR-")
            number, there = _ids(kind, block, place, area)
            there &= here
            known, at = np.unique(number[there], return_inverse=True)
            ids[region] = written(known, ID_WIDTHS[kind])
            of_block[region] = np.full(len(block), -1, dtype=np.int32)
            of_block[region][there] = at
    return Regions(written(block, WIDTH), ids, of_block)


def _ids(
    kind: str, block: NDArray[np.int64], place: Signed, area: Signed
) -> tuple[NDArray[np.int64], Mask]:
    """For each block the number of the region's id, and whether the block is in a region."""
    everywhere = np.ones(len(block), dtype=bool)
    if kind == "USA":
        return np.full(len(block), NATION, dtype=np.int64), everywhere
    if kind == "PLACE":
        return block // 10 ** (WIDTH - 2) * 10**5 + place, place != NO_PLACE
    if kind == "AIANNH":
        return area.astype(np.int64), area != NO_AREA
    return block // 10 ** (WIDTH - ID_WIDTHS[kind]), everywhere


# ``regions.parquet``: the blocks of a Detailed DHC release, and the places and areas that contain
# them. All of it is public.

NAME = "regions.parquet"


def write(folder: Path, regions: Regions, private: Private = True) -> None:
    kinds = sorted(regions.ids)
    said = {kind: ",".join(x.decode() for x in regions.ids[kind].tolist()) for kind in kinds}
    said |= mark(private)
    table = pa.table(
        {
            "block": codes.column(regions.block),
            **{kind: csv_text.column(regions.of_block[kind]) for kind in kinds},
        }
    )
    with atomic.file(folder / NAME) as draft:
        pq.write_table(table.replace_schema_metadata(said), draft, compression="zstd")


def read(folder: Path) -> Regions:
    """Read the regions. Raises :class:`ReleaseError` if the file is missing or damaged."""
    file = folder / NAME
    try:
        table = opened(file).read(use_threads=False)
        kinds = [name for name in table.column_names if name != "block"]
        said = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
        ids = {
            kind: np.array(said[kind].split(",") if said[kind] else [], dtype="S") for kind in kinds
        }
        block = codes.codes(table["block"])
        if not len(block):
            raise ValueError("it has no block")
        return Regions(
            block, ids, {kind: csv_text.integers(table[kind]).astype(np.int32) for kind in kinds}
        )
    except (*DAMAGE, KeyError, ValueError, InputError) as error:
        raise ReleaseError(
            f"not a readable list of blocks ({error})", where=file, remedy=LOST
        ) from None
