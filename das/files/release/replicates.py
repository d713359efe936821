"""Replicates of a release as files: ``replicates/<records>/replicate=NNN/part-00000.parquet``, 000
being the release itself.

A row is a cell of a unit of the lowest level in which somebody is: ``GEOID`` (its geocode, where it
has none), a column for each attribute with the code of its level, and ``count``. DuckDB, Arrow and
pandas read the folder as one data set with the column ``replicate``; any table of any area is a
filter and a sum. Codes are those of ``dictionary.csv``. Rows of a seeded run have one column more
(:mod:`das.model.not_private`)."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.accounting.document import NAME as STATEMENT
from das.errors import ReleaseError
from das.files import atomic, parquet
from das.files import codes as texts
from das.files.release import spine as spine_file
from das.files.release.tables import GEOID, marks
from das.files.run import run_directory
from das.files.run.ledger import INTERVALS
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.names import Codes, encoded
from das.model.not_private import CELL, COLUMN, Private
from das.model.schema import Schema
from das.model.spine import Spine, places
from das.replicates import BASES, NOT_COVERED, ReplicateErrors, ReplicateInterval
from das.tables import Table

#: The folder, in that of intervals; and what says of these what they are.
NAME, MANIFEST = "replicates", "manifest.json"
#: Of replicates without a release: their places.
SPINE = f"{NAME}/spine.parquet"
COUNT = "count"
#: The most rows of a row group. Rows of some units are found by the first and last GEOID of a
#: group.
GROUP = 1 << 17
#: Of intervals that are not there yet: what to say, and what to do.
BEING_MADE = ("another process is making these intervals", "wait until it has ended")
_REMEDY = "take the folder away, and make the replicates again"


class UnfinishedIntervals(ReleaseError):
    """Intervals that another process is making, or that were begun and not finished."""


def path_of(folder: Path, records: str, number: int) -> Path:
    """The file of a replicate, in a folder of intervals; ``records`` is the folder of a
    universe."""
    return folder / NAME / records / f"replicate={number:03d}" / "part-00000.parquet"


def codes_of(spine: Spine, level: str) -> Codes:
    """What units are called: their GEOIDs, or the geocodes of a level that has none."""
    found = spine.geoids(level)
    return found if found.any() else spine.codes[spine.index(level)]


def write(path: Path, codes: Codes, schema: Schema, h: Histogram, *, private: Private) -> None:
    """``codes`` name the units of ``h``."""
    levels = np.unravel_index(h.cell, schema.shape)
    columns = {GEOID: texts.column(codes[h.unit])}
    for attribute, level in zip(schema.attributes, levels, strict=True):
        columns[attribute.name] = pa.DictionaryArray.from_arrays(
            pa.array(level.astype(np.int16)), pa.array(attribute.levels)
        )
    columns[COUNT] = pa.array(h.count)
    if not private:
        columns[COLUMN] = texts.repeated(CELL, len(h.cell))
    with atomic.file(path) as draft:
        pq.write_table(pa.table(columns), draft, compression="zstd", row_group_size=GROUP)


def check(folder: Path) -> None:
    """Check that a folder of intervals has exactly the files of its manifest, with their digests.
    Raises :class:`UnfinishedIntervals`, or :class:`ReleaseError` for anything else."""
    try:
        _check(folder)
    except ReleaseError:
        if run_directory.RunDirectory(folder).is_locked():
            raise UnfinishedIntervals(BEING_MADE[0], where=folder, remedy=BEING_MADE[1]) from None
        raise


def _check(folder: Path) -> None:
    manifest = run_directory.read_json(folder / MANIFEST)
    said, number = manifest.get("digests"), manifest.get("replicates")
    if isinstance(said, dict) and (
        type(number) is not int or number < 2 or len(_numbers(folder)) != number + 1
    ):
        raise ReleaseError(
            f"gives {number!r} as the number of replicates", where=folder / MANIFEST, remedy=_REMEDY
        )
    if not isinstance(said, dict):
        raise UnfinishedIntervals(
            "intervals of replicates were begun here, and not finished",
            where=folder,
            remedy=(
                f"`{_going_on(folder)}` goes on, with the other options of the first time; or take"
                " the folder away"
            ),
        )
    found = run_directory.tree_digests(folder)
    for name in sorted({*said, *found}):
        if said.get(name) != found.get(name):
            raise ReleaseError(
                "does not match its digest in manifest.json", where=folder / name, remedy=_REMEDY
            )


def _going_on(folder: Path) -> str:
    """The command that makes the rest of the intervals of a folder."""
    own = folder.name == INTERVALS and (folder.parent / STATEMENT).is_file()
    of = [str(folder.parent)] if own else ["--out", str(folder)]
    return shlex.join(["das", "intervals", *of, "--resume"])


def check_kept(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Replicates that a folder has already are as its ``manifest`` has them, if it was finished;
    some may be missing. Raises
    :class:`ReleaseError`."""
    said = manifest.get("digests")
    if isinstance(said, dict):
        for name, digest in run_directory.tree_digests(folder / NAME).items():
            if said.get(f"{NAME}/{name}") != digest:
                raise ReleaseError(
                    "was altered after it was made, or is of something else",
                    where=folder / NAME / name,
                    remedy=_REMEDY,
                )


def largest(folder: Path) -> int:
    """The largest number of a replicate that a folder has."""
    return max(_numbers(folder), default=0)


def _numbers(folder: Path) -> set[int]:
    """The numbers of the release and of the replicates in a folder."""
    found = (p.name.partition("=")[2] for p in folder.glob(f"{NAME}/*/replicate=*"))
    return {int(n) for n in found if n.isdecimal()}


def units(path: Path) -> Codes:
    """The units in which somebody is, in order."""
    found = [
        spine_file.same(rows[GEOID])[0] for rows in parquet.batches(path, [GEOID], size=1 << 20)
    ]
    return np.unique(np.concatenate([np.zeros(0, dtype="S1"), *found]))


def populations(path: Path) -> dict[str, int]:
    """How many records a file has by the first two digits of their unit: by State."""
    out: dict[str, int] = {}
    file = parquet.opened(path)
    with parquet.readable(path, _REMEDY):
        for rows in file.iter_batches(1 << 20, columns=[GEOID, COUNT]):
            part = pa.Table.from_batches([rows])
            state, of = np.unique(texts.codes(part[GEOID]).astype("S2"), return_inverse=True)
            for s, n in zip(
                state.tolist(), np.bincount(of, part[COUNT].to_numpy()).tolist(), strict=True
            ):
                out[s.decode()] = out.get(s.decode(), 0) + int(n)
    return out


def foreign(path: Path) -> ReleaseError:
    """A file of something else."""
    return ReleaseError(
        "has units or codes that the release does not have", where=path, remedy=_REMEDY
    )


def rows(path: Path) -> int:
    """How many counts a file has."""
    return int(parquet.opened(path).metadata.num_rows)


def read(path: Path, codes: Codes, schema: Schema, *, part: bool = False) -> Histogram:
    """As :func:`write` was given it; or ``part`` of it, the counts of units ``codes`` alone.

    Raises:
        ReleaseError: a file that is not one, or of other units or another schema."""
    names = [a.name for a in schema.attributes]
    file = parquet.opened(path)
    with parquet.readable(path, _REMEDY):
        table = file.read_row_groups(
            _groups(file, codes) if part else range(file.num_row_groups), [GEOID, *names, COUNT]
        )
        unit = places(codes, texts.codes(table[GEOID]))
        if part:
            table, unit = table.filter(pa.array(unit >= 0)), unit[unit >= 0]
        level = []
        for a in schema.attributes:
            column = table[a.name].unify_dictionaries().combine_chunks()
            here = np.array(
                [a.levels.index(v) if v in a.levels else -1 for v in column.dictionary.to_pylist()]
            )
            level.append(
                here[column.indices.to_numpy()] if len(column) else np.zeros(0, dtype=np.int64)
            )
        count = table[COUNT].to_numpy()
    if (unit < 0).any() or any((of < 0).any() for of in level):
        raise foreign(path)
    cell = np.ravel_multi_index(level, schema.shape) if len(count) else np.zeros(0, dtype=np.int64)
    return Histogram.from_triplets(len(codes), schema.cells, unit, cell, count)


def _groups(file: pq.ParquetFile, codes: Codes) -> list[int]:
    """The row groups that may have some of ``codes``."""
    first, last = np.sort(codes)[[0, -1]]
    at = file.schema_arrow.names.index(GEOID)
    found = []
    for g in range(file.num_row_groups):
        said = file.metadata.row_group(g).column(at).statistics
        if (
            said is None
            or not said.has_min_max
            or (said.min.encode() <= last and said.max.encode() >= first)
        ):
            found.append(g)
    return found


# Intervals of a published table: ``<Table>_<Level>.parquet``, a row for each count that is not 0
# in the release and in all replicates.
#
# Columns:
#
# * ``GEOID`` (the geocode, where a level has none);
# * ``variable`` and ``label`` of the table's column;
# * the published ``value``;
# * the ends ``lower`` and ``upper`` of its interval;
# * ``moe``, the half-width before ends are made whole;
# * ``rmse`` and ``bias`` over the replicates, and whether the bias was subtracted;
# * the number of ``replicates``;
# * ``basis``, what the interval is based on: a word of :data:`das.replicates.BASES`.
#
# A count that is not covered has no ends and no margin. A count without a row is 0 in the release and
# in every replicate, with the interval 0 to 0. Tables of one level join to those of tidycensus by
# ``GEOID`` and ``variable``.

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


def read_intervals(path: Path, table: Table, codes: Codes) -> tuple[NDArray[Any], ...]:
    """For all units ``codes`` and all columns: published values, lower and upper ends, and the
    words for the basis, ``(units, columns)`` each.

    The ends of a count that is not covered are 0 and :data:`NO_END`. The word is empty where there
    is no row.

    Raises:
        ReleaseError: the file is not one of intervals, or has other units or another table."""
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
