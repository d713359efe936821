"""Records of one state, kept in ``confidential/`` for the tasks that count them: compactly, and in
the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic, csv_text
from das.files.parquet import DAMAGE
from das.model.confidential import Confidential
from das.publications.detailed.model.iterations import Regions
from das.publications.detailed.model.records import GroupRecords

PeopleBatch = Confidential[GroupRecords]

#: What names of columns begin with: codes of race in their order, and cells by table. Records that
#: are read at a time.
RACE, CELL = "race", "cell "
TOGETHER = 1 << 20


def path(folder: Path, state: str) -> Path:
    return folder / f"part-{state}.parquet"


def write(folder: Path, batches: Iterable[PeopleBatch], regions: Regions) -> int:
    """A file for each state of the ``regions``, also where nobody lives. Returns how many records
    there are.
    """
    written, states = 0, [str(s, "ascii") for s in regions.states]
    state_of = np.searchsorted(regions.states, regions.state).astype(np.int8)
    with ExitStack() as drafts:
        writers: dict[str, pq.ParquetWriter] = {}
        for batch in batches:
            records = batch.open("to keep them in the confidential part of the run")
            of = state_of[records.block]
            for number in np.unique(of) if len(writers) else range(len(states)):
                table = _table(records, np.flatnonzero(of == number))
                state = states[number]
                if state not in writers:
                    draft = drafts.enter_context(atomic.file(path(folder, state), 0o600))
                    writers[state] = drafts.enter_context(
                        pq.ParquetWriter(draft, table.schema, compression="lz4")
                    )
                writers[state].write_table(table)
            written += len(records)
        for writer in writers.values():
            writer.close()
    return written


def read(file: Path) -> PeopleBatch:
    """Read a file of people. Raises :class:`ReleaseError` if it is missing or damaged."""
    try:
        with pq.ParquetFile(file) as source:
            names, rows, first = source.schema_arrow.names, source.metadata.num_rows, 0
            races, tables = (
                sorted(n for n in names if n.startswith(stem)) for stem in (RACE, CELL)
            )
            codes, ethnicity = (
                np.empty((rows, len(races)), dtype=np.int16),
                np.empty(rows, dtype=np.int16),
            )
            block, cells = (
                np.empty(rows, dtype=np.int32),
                {n: np.empty(rows, dtype=np.int8) for n in tables},
            )
            for batch in source.iter_batches(TOGETHER):
                here = slice(first, first := first + len(batch))
                block[here], ethnicity[here] = (
                    csv_text.array(batch["block"]),
                    csv_text.array(batch["ethnicity"]),
                )
                for place, name in enumerate(races):
                    codes[here, place] = csv_text.array(batch[name])
                for name, leaf in cells.items():
                    leaf[here] = csv_text.array(batch[name])
        return Confidential(
            GroupRecords(
                block, codes, ethnicity, {n.removeprefix(CELL): c for n, c in cells.items()}
            )
        )
    except (*DAMAGE, KeyError, ValueError) as error:
        raise ReleaseError(
            f"the records cannot be read ({error})",
            where=file,
            remedy="a run needs the confidential part of it, as it was written",
        ) from None


def _table(records: GroupRecords, some: NDArray[np.intp]) -> pa.Table:
    races = {
        f"{RACE}{i}": np.ascontiguousarray(records.codes[some, i])
        for i in range(records.codes.shape[1])
    }
    cells = {f"{CELL}{name}": leaf[some] for name, leaf in records.cells.items()}
    columns = {"block": records.block[some], **races, "ethnicity": records.ethnicity[some], **cells}
    return pa.table({name: csv_text.column(values) for name, values in columns.items()})
