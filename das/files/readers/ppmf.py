"""Privacy-protected microdata files as an input: their persons are records, and are held for the
truth.

What a file looks like, and how it is counted, is in :mod:`das.files.readers.ppmf_persons`. These
files have no housing units. A block has 1 housing unit where somebody lives in a household, and 1
facility of each type of group quarters that somebody lives in: lower bounds, not counts. Blocks
without people are not in the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from das.engine.tasks import SILENT, Progress
from das.files.readers import pl94_records, ppmf_persons
from das.files.readers.source import sources
from das.model.confidential import Confidential
from das.model.names import state_names
from das.model.records import Blocks, Extract, Records
from das.model.schema import Schema


def read(paths: Sequence[Path], schema: Schema, *, progress: Progress = SILENT) -> Extract:
    """Read all persons' files among ``paths``. ``schema`` has attributes among those of
    ``PL94``."""
    cells = pl94_records.cell_map(schema)
    files = [member for path in paths for member in ppmf_persons.tables(path)]
    found = ppmf_persons.count(files, progress=progress)
    people = pl94_records.Counts(found.block, found.cell, found.number)
    home = np.zeros(len(found.place), dtype=np.int64)
    home[found.block[found.cell < pl94_records.HALF]] = 1
    return Extract(
        Blocks(
            ppmf_persons.fields(found.place),
            pl94_records.structures(len(home), people, home),
            state_names(),
        ),
        Confidential(Records(schema, found.block, cells[found.cell], found.number)),
        {},
        sources(files),
    )
