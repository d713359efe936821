"""A toy format of records: lines with a block and its persons in each cell of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files.readers.source import source_of
from das.model.confidential import Confidential
from das.model.records import Blocks, Extract, Records
from das.model.schema import Schema


def read(paths: Sequence[Path], schema: Schema, *, progress: Progress = SILENT) -> Extract:
    """The first character of a block's code is that of its town."""
    (path,) = paths
    lines = [line.split() for line in path.read_text().splitlines()]
    for number, line in enumerate(lines, 1):
        if len(line) != 1 + schema.cells:
            raise InputError("a line of another length", where=f"{path}, line {number}")
    codes = np.array([line[0] for line in lines])
    count = np.array([line[1:] for line in lines], dtype=np.int64)
    block, cell = np.indices(count.shape)
    return Extract(
        Blocks({"Town": codes.astype("U1"), "Block": codes}),
        Confidential(Records(schema, block.ravel(), cell.ravel(), count.ravel())),
        {},
        (source_of(path),),
    )
