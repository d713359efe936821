"""The microdata of units of the DHC: households, vacant units and group quarters facilities in one
folder, by block.

Which of a block's rented households pay no cash rent (``TEN`` 4) is not estimated; the units say
how many. Here they are drawn at random, all choices equally likely. The seed of the draw is a
digest of the published units and households, and of nothing else. So anyone who has the counts
makes the same file, and the file reveals nothing beyond them. (The Bureau's writer takes the last
rented rows of a block in the order of cells: women, and the oldest.)"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.errors import InputError
from das.files.microdata.reading import cells_of, coded, read_form
from das.files.microdata.writing import write_form
from das.microdata import drawn
from das.model.histogram import Histogram
from das.model.names import Codes
from das.model.not_private import Private
from das.publications.dhc.model import microdata
from das.publications.dhc.model.microdata import KIND_OF_TEN, KINDS

_CALLED = ("households", "households without cash rent", "vacant units and facilities")


def records_of(units: Histogram, households: Histogram) -> Histogram:
    """The records, as :mod:`das.publications.dhc.model.microdata` has them. Raises :class:`InputError` where
    units and households differ.
    """
    digest = sha256()
    for h in (units, households):
        for values in h.to_arrays().values():
            digest.update(np.ascontiguousarray(values, dtype="<i8").tobytes())
    free = drawn(microdata.rented(households), microdata.without_rent(units), digest.digest())
    return microdata.joined(units, households, free)


def write(
    directory: Path,
    units: Histogram,
    households: Histogram,
    codes: Codes,
    *,
    build: str = "das",
    csv: bool = False,
    private: Private = True,
) -> list[Path]:
    """Write the records of the lowest level into ``directory`` as
    :func:`das.files.microdata.writing.write` does; return the files.

    ``units`` are over ``tenvacgq``, ``households`` over ``dhch``. Raises as that does, and where
    households of a tenure are not the occupied units of it."""
    records = records_of(units, households)
    return write_form(
        directory, records, codes, microdata.form(), build=build, csv=csv, private=private
    )


def read(directory: Path, codes: Codes) -> tuple[Histogram, Histogram]:
    """Units and households of the blocks ``codes``: what was written. Raises as
    :func:`das.files.microdata.reading.read` does.
    """
    return microdata.parted(
        read_form(directory, microdata.form(), codes, microdata.CELLS, _cells, "a file of units")
    )


def _cells(batch: pa.RecordBatch, where: str) -> NDArray[np.int64]:
    """The cell of each record: its tenure gives its kind, and its own columns the cell within that
    kind.
    """
    values, index = coded(batch, "TEN", where)
    known = np.array([KIND_OF_TEN.get(v, -1) for v in values], dtype=np.int64)[index]
    if (known < 0).any():
        first = int(np.argmax(known < 0))
        raise InputError(
            f"TEN is {values[index[first]]!r} in the record {first} after that; its codes are 0"
            " to 4",
            where=where,
        )
    out = np.empty(batch.num_rows, dtype=np.int64)
    columns = microdata.form().columns
    for kind, (first, schema) in enumerate(KINDS):
        here = known == kind
        own = [c.parts[kind][1] for c in columns]
        out[here] = first + cells_of(
            batch.filter(pa.array(here)), own, schema, f"{where}, {_CALLED[kind]} alone"
        )
    return out
