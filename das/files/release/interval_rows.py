"""Intervals of a published table: ``<Table>_<Level>.parquet``, a row for each count that is not 0
in the release and in all replicates.

Columns:

* ``GEOID`` (the geocode, where a level has none);
* ``variable`` and ``label`` of the table's column;
* the published ``value``;
* the ends ``lower`` and ``upper`` of its interval;
* ``moe``, the half-width before ends are made whole;
* ``rmse`` and ``bias`` over the replicates, and whether the bias was subtracted;
* the number of ``replicates``;
* ``basis``, what the interval is based on: a word of :data:`das.replicates.BASES`.

A count that is not covered has no ends and no margin. A count without a row is 0 in the release and
in every replicate, with the interval 0 to 0. Tables of one level join to those of tidycensus by
``GEOID`` and ``variable``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic, parquet
from das.files import codes as texts
from das.files.release.tables import GEOID, marks
from das.model.frozen import Frozen
from das.model.names import Codes, encoded
from das.model.not_private import Private
from das.model.spine import places
from das.replicates import BASES, NOT_COVERED, ReplicateErrors, ReplicateInterval
from das.tables import Table

ENDS = ("value", "lower", "upper")
#: The column that says what an interval rests on.
BASIS = "basis"
#: Of a count without an interval, at the upper end.
NO_END = -1


@dataclass(frozen=True, eq=False, repr=False)
class CountedIntervals(Frozen):
    """Intervals of some units and all columns of a table, ``(units, columns)`` each.

    They have the published values, the errors of replicates, the intervals, and the number of their
    basis in :data:`das.replicates.BASES`."""

    value: NDArray[np.int64]
    spread: ReplicateErrors
    interval: ReplicateInterval
    basis: NDArray[np.int8]


class IntervalWriter:
    """Writes the rows of a table, some units at a time; ``rows`` is how many it has written."""

    def __init__(self, path: Path, table: Table, private: Private) -> None:
        self.rows = 0
        self._path, self._table, self._private = path, table, private
        self._file: pq.ParquetWriter | None = None

    def add(self, codes: Codes, part: CountedIntervals) -> None:
        """Add the rows of the units ``codes``."""
        made = _rows(self._table, codes, part, self._private)
        self._file = self._file or pq.ParquetWriter(self._path, made.schema, compression="zstd")
        self._file.write_table(made)
        self.rows += made.num_rows

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@contextmanager
def writing(path: Path, table: Table, *, private: Private) -> Iterator[IntervalWriter]:
    """The file of a table is there, whole, when everything is added."""
    with atomic.file(path) as draft, closing(IntervalWriter(draft, table, private)) as writer:
        yield writer


def read(path: Path, table: Table, codes: Codes) -> tuple[NDArray[Any], ...]:
    """For all units ``codes`` and all columns: published values, lower and upper ends, and the
    words for the basis, ``(units, columns)`` each.

    The ends of a count that is not covered are 0 and :data:`NO_END`. The word is empty where there
    is no row.

    Raises:
        ReleaseError: the file is not one of intervals, or has other units or another table.
    """
    file = parquet.opened(path)
    with parquet.readable(path):
        found = file.read([GEOID, "variable", *ENDS, BASIS])
        unit = places(codes, texts.codes(found[GEOID]))
        column = places(encoded(table.columns), texts.codes(found["variable"].cast(pa.string())))
        ends = [
            pc.fill_null(found[name], none).to_numpy()
            for name, none in zip(ENDS, (0, 0, NO_END), strict=True)
        ]
        words = found[BASIS].to_numpy()
    if (unit < 0).any() or (column < 0).any():
        raise ReleaseError(
            "has units or columns that the release does not have", where=path, remedy=parquet.LOST
        )
    out = np.zeros((len(ENDS), len(codes), len(table.columns)), dtype=np.int64)
    out[:, unit, column] = ends
    basis = np.full(out.shape[1:], "", dtype=object)
    basis[unit, column] = words
    return (*out, basis)


def keep(folder: Path, names: Collection[str]) -> None:
    """Delete all such files of a folder but these."""
    for path in folder.glob("*.parquet"):
        if path.name not in names:
            path.unlink()


def _rows(table: Table, codes: Codes, part: CountedIntervals, private: Private) -> pa.Table:
    unit, column = np.nonzero(part.interval.upper > 0)
    at, s = (unit, column), part.spread
    missing = part.basis[at] == NOT_COVERED
    said = {
        GEOID: texts.column(codes[unit]),
        "variable": _words(table.columns, column),
        "label": _words(table.labels, column),
        "value": part.value[at],
        "lower": pa.array(part.interval.lower[at], mask=missing),
        "upper": pa.array(part.interval.upper[at], mask=missing),
        "moe": pa.array(part.interval.margin[at], mask=missing),
        "rmse": s.rmse[at],
        "bias": s.bias[at],
        "bias_subtracted": part.interval.subtracted[at],
        "replicates": np.full(len(unit), s.replicates, dtype=np.int16),
        BASIS: _words(tuple(BASES), part.basis[at].astype(np.int64)),
    }
    said |= {name: texts.repeated(says, len(unit)) for name, says in marks(table, private).items()}
    return pa.table(said)


def _words(words: tuple[str, ...], at: NDArray[np.int64]) -> pa.DictionaryArray:
    """The words at some places. Columns of both sexes have the same labels: each is in the
    dictionary once, for with one that is there twice Parquet writes other bytes each time."""
    place = {word: i for i, word in enumerate(dict.fromkeys(words))}
    index = np.array([place[word] for word in words], dtype=np.int16)
    return pa.DictionaryArray.from_arrays(pa.array(index[at]), pa.array(list(place)))
