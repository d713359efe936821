"""``regions.parquet``: the blocks of a Detailed DHC release, and the places and areas that contain
them. All of it is public.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das.errors import InputError, ReleaseError
from das.files import atomic, codes, numbers
from das.files.parquet import DAMAGE, LOST, mark, opened
from das.model.not_private import Private
from das.model.population import Regions

NAME = "regions.parquet"


def write(folder: Path, regions: Regions, private: Private = True) -> None:
    kinds = sorted(regions.ids)
    said = {kind: ",".join(x.decode() for x in regions.ids[kind].tolist()) for kind in kinds}
    said |= mark(private)
    table = pa.table(
        {
            "block": codes.column(regions.block),
            **{kind: numbers.column(regions.of_block[kind]) for kind in kinds},
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
            block, ids, {kind: numbers.integers(table[kind]).astype(np.int32) for kind in kinds}
        )
    except (*DAMAGE, KeyError, ValueError, InputError) as error:
        raise ReleaseError(
            f"not a readable list of blocks ({error})", where=file, remedy=LOST
        ) from None
