"""All records of a folder, as one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from das.model.confidential import Confidential
from das.publications.detailed.files import records
from das.publications.detailed.model.iterations import RACE_CODES, Regions
from das.publications.detailed.model.records import GroupRecords
from das.publications.detailed.model.tables import Parameters


def opened(given: Confidential[GroupRecords]) -> GroupRecords:
    return given.open("compared with what was written")


def joined(parts: Iterable[GroupRecords], tables: Iterable[str]) -> GroupRecords:
    """One after the other, with the cells of these tables."""
    each = list(parts)
    return GroupRecords(
        np.concatenate([np.zeros(0, dtype=np.int32), *(p.block for p in each)]),
        np.concatenate([np.zeros((0, RACE_CODES), dtype=np.int16), *(p.codes for p in each)]),
        np.concatenate([np.zeros(0, dtype=np.int16), *(p.ethnicity for p in each)]),
        {
            t: np.concatenate([np.zeros(0, dtype=np.int8), *(p.cells[t] for p in each)])
            for t in tables
        },
    )


def all_of(folder: Path, p: Parameters, regions: Regions) -> GroupRecords:
    parts = records.every(records.files(folder, p.product), p, regions)
    return joined(map(opened, parts), [t.name for t in p.product.tables])
