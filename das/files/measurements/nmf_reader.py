"""Noisy measurement files (:mod:`das.files.measurements.nmf`), read a slice of units at a time.

:class:`NmfReader` knows the spine and every file; a task carries an :class:`NmfPart`, which knows the files and codes of its own
units alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import codes as texts
from das.files.parquet import LOST as _LOST
from das.files.parquet import columns as _columns
from das.files.parquet import opened, readable
from das.model.codes import Codes, text
from das.model.measurement import Measurement
from das.model.spine import Spine, places


class NmfReader:
    """Measurements of one published directory, read a slice of units at a time."""

    def __init__(self, root: Path, spine: Spine) -> None:
        self.root, self.spine = Path(root), spine
        self._files: dict[str, tuple[_File, ...]] = {}

    def queries(self, level: str) -> tuple[str, ...]:
        return _queries(self._level(level))

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        """Units ``start:stop``; every one of them must be in the files, once."""
        return self.part(level, start, stop).read(level, query, start, stop)

    def part(self, level: str, start: int, stop: int) -> NmfPart:
        """The files that hold units ``start:stop``, and the codes of these and of what stands between them."""
        files = tuple(f for f in self._level(level) if f.first < stop and f.last >= start)
        first = min([start, *(f.first for f in files)])
        last = max([stop, *(f.last + 1 for f in files)])
        codes = self.spine.codes[self.spine.index(level)][first:last]
        return NmfPart(self.root, level, first, codes, files)

    def constraints(self, level: str) -> dict[str, tuple[str, NDArray[np.int64]]]:
        """Constraint rows of a level: name -> (sign, bounds of shape (units, answers))."""
        found: dict[str, tuple[str, NDArray[np.int64]]] = {}
        for path in sorted((self.root / f"{level}.parquet" / "Constraint").rglob("*.parquet")):
            table = _columns(path, ["geocode", "query_name", "value", "sign"])
            names = texts.texts(table["query_name"])
            unit = _units(table["geocode"], self.spine, level, path)
            for name in dict.fromkeys(names.tolist()):
                rows = np.flatnonzero(names == name)
                got = _matrix(table["value"].take(pa.array(rows)), path)
                sign = table["sign"][int(rows[0])].as_py()
                key = name.removesuffix("_con")
                if key not in found:
                    found[key] = (sign, np.full((self.spine.units(level), got.shape[1]), -1, dtype=np.int64))
                bound = found[key][1]
                if sign != found[key][0] or got.shape[1] != bound.shape[1] or (bound[unit[rows]] >= 0).any():
                    raise ReleaseError(f"constraint {key!r} is not the same in all parts, or is there twice",
                                       where=path, remedy=_LOST)  # fmt: skip
                bound[unit[rows]] = got
        for key, (_, bound) in found.items():
            if (bound < 0).any():
                raise ReleaseError(
                    f"constraint {key!r} is missing for a unit of {level!r}", where=self.root, remedy=_LOST
                )
        return found

    def _level(self, level: str) -> tuple[_File, ...]:
        if level not in self._files:
            folder = self.root / f"{level}.parquet" / "DPQuery"
            paths = sorted(folder.rglob("*.parquet"))
            if not paths:
                raise ReleaseError(f"no measurements of level {level!r}", where=folder, remedy=_LOST)
            found = (_File.of(p, self.spine, level) for p in paths)
            self._files[level] = tuple(sorted(found, key=lambda f: f.first))
        return self._files[level]


@dataclass(frozen=True)
class _File:
    """One file of a level: which queries its row groups hold, and the first and last of its units."""

    path: Path
    groups: tuple[tuple[str, int], ...]
    first: int
    last: int

    @staticmethod
    def of(path: Path, spine: Spine, level: str) -> _File:
        with readable(path):
            meta = opened(path).metadata
            groups = tuple((name.removesuffix("_dpq"), g) for g, name in enumerate(_names(meta, path)))
        unit = np.concatenate([_units(_columns(path, ["geocode"], g)["geocode"], spine, level, path)
                               for name, g in groups if name == groups[0][0]])  # fmt: skip
        return _File(path, groups, int(unit.min()), int(unit.max()))

    def groups_of(self, query: str) -> list[int]:
        found = [g for name, g in self.groups if name == query]
        if not found:
            raise ReleaseError(f"query {query!r} is not in this file", where=self.path, remedy=_LOST)
        return found


@dataclass(frozen=True, eq=False)
class NmfPart:
    """Some units of one level, for a task: ``files`` that hold them, and ``codes`` of units ``first : first + len(codes)``
    of the level, all that the files have."""

    root: Path
    level: str
    first: int
    codes: Codes
    files: tuple[_File, ...]

    def queries(self, level: str) -> tuple[str, ...]:
        return _queries(self._of(level))

    def part(self, level: str, start: int, stop: int) -> NmfPart:
        files = tuple(f for f in self._of(level) if f.first < stop and f.last >= start)
        return NmfPart(self.root, level, self.first, self.codes, files)

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        values: NDArray[np.int64] | None = None
        variance, times = np.zeros(stop - start), np.zeros(stop - start, dtype=np.int64)
        for file in self._of(level):
            if not (file.first < stop and file.last >= start):
                continue
            for group in file.groups_of(query):
                unit, got, var = self._load(file.path, group)
                keep = (unit >= start) & (unit < stop)
                if values is None:
                    values = np.zeros((stop - start, got.shape[1]), dtype=np.int64)
                if got.shape[1] != values.shape[1]:
                    raise ReleaseError(f"other numbers of answers to {query!r} than before", where=file.path,
                                       remedy=_LOST)  # fmt: skip
                values[unit[keep] - start], variance[unit[keep] - start] = got[keep], var[keep]
                np.add.at(times, unit[keep] - start, 1)
        if values is None or (times != 1).any():
            at = int(np.flatnonzero(times != 1)[0])
            what = "no measurement" if times[at] == 0 else f"{times[at]} measurements"
            code = self.codes[start + at - self.first].decode()
            raise ReleaseError(f"{what} of {query!r} for {level} {code}", where=self.root, remedy=_LOST)
        if not (variance > 0).all():
            raise ReleaseError(f"a variance of {query!r} at {level!r} is not positive", where=self.root, remedy=_LOST)
        return Measurement(level, query, start, values, variance)

    def _of(self, level: str) -> tuple[_File, ...]:
        if level != self.level:
            raise ValueError(f"this is a part of level {self.level!r}, not of {level!r}")
        return self.files

    def _load(self, path: Path, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        table = _columns(path, ["geocode", "value", "variance"], group)
        unit = self.first + _known(table["geocode"], lambda codes: places(self.codes, codes), self.level, path)
        return unit, _matrix(table["value"], path), table["variance"].to_numpy().astype(np.float64)


def _queries(files: Sequence[_File]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for file in files for name, _ in file.groups))


def _names(meta: pq.FileMetaData, path: Path) -> Iterator[str]:
    """The query of each row group, from its statistics: there is one alone."""
    column = next((i for i in range(meta.num_columns) if meta.schema.column(i).path == "query_name"), None)
    if column is None or not meta.num_rows:
        raise ReleaseError("no column query_name, or no rows", where=path, remedy=_LOST)
    for g in range(meta.num_row_groups):
        stats = meta.row_group(g).column(column).statistics
        if stats is None or not stats.has_min_max or stats.min != stats.max or not isinstance(stats.min, str):
            raise ReleaseError(f"row group {g} mixes queries, or does not say which it holds", where=path, remedy=_LOST)
        yield stats.min


def _matrix(column: pa.ChunkedArray, path: Path) -> NDArray[np.int64]:
    """Lists of one length as rows of an array."""
    try:
        widths = pc.unique(pc.list_value_length(column)).to_pylist()
        flat = pc.list_flatten(column)
    except pa.ArrowException as error:
        raise ReleaseError(f"values are not lists ({error})", where=path, remedy=_LOST) from None
    if not pa.types.is_integer(flat.type) or flat.null_count:
        raise ReleaseError("values are not lists of integers", where=path, remedy=_LOST)
    if len(widths) != 1 or len(flat) != len(column) * widths[0]:
        raise ReleaseError("lists of different lengths under one query", where=path, remedy=_LOST)
    return flat.to_numpy().astype(np.int64, copy=False).reshape(len(column), widths[0])


def _units(column: pa.ChunkedArray, spine: Spine, level: str, path: Path) -> NDArray[np.int64]:
    """Unit numbers of geocodes."""
    return _known(column, lambda codes: spine.find(level, codes), level, path)


def _known(
    column: pa.ChunkedArray, find: Callable[[Codes], NDArray[np.int64]], level: str, path: Path
) -> NDArray[np.int64]:
    """What ``find`` says of geocodes, of which each must be that of a unit."""
    wanted = texts.codes(column)
    unit = find(wanted)
    if (unit < 0).any():
        raise ReleaseError(
            f"geocode {str(text(wanted[unit < 0])[0])!r} is not a unit of {level!r}", where=path, remedy=_LOST
        )
    return unit
