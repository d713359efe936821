"""Noisy measurement files (:mod:`das.files.measurements.nmf`), read a slice of units at a time.

:class:`NmfReader` knows the spine, which units are measured, and every file; a task carries an
:class:`NmfPart`, which knows the files and codes of its own units alone. Units that are not
measured have no rows: their answers are zeros of infinite variance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import codes as texts
from das.files.measurements.nmf import folders
from das.files.parquet import LOST as _LOST
from das.files.parquet import batches, metadata, readable, refuse_marked
from das.files.parquet import columns as _columns
from das.model.codes import Codes, text
from das.model.measurement import Measurement
from das.model.not_private import Private
from das.model.spine import Spine, order_of, sorted_places


class NmfReader:
    """Measurements of one published directory, read a slice of units at a time. ``measured`` says
    of each level which units are, ``(units,)``, such as
    :meth:`das.model.measured_spine.MeasuredSpine.measured`; without it all are.

    Of a ``shard`` (0: the trunk), whose own ``spine`` this is then, only the files are looked at
    that are of it by their names: those of the levels that it is responsible for
    (:meth:`das.model.shards.Shards.levels`). Files that say they were seeded are refused where they
    are said to be ``private``."""

    def __init__(
        self,
        root: Path,
        spine: Spine,
        measured: Callable[[str], NDArray[np.bool_]] | None = None,
        shard: int | None = None,
        *,
        private: Private = False,
    ) -> None:
        self.root, self.spine, self.shard, self._measured, self.private = (
            Path(root),
            spine,
            shard,
            measured,
            private,
        )
        self._levels: dict[str, _LevelFiles] = {}

    def queries(self, level: str) -> tuple[str, ...]:
        """Those that units of a level are measured with: none where none is."""
        return tuple(self._level(level).answers)

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        """Units ``start:stop``; every one of them that is measured must be in the files, once."""
        return self.part(level, start, stop).read(level, query, start, stop)

    def part(self, level: str, start: int, stop: int) -> NmfPart:
        """The files that hold units ``start:stop``, and the codes of these and of what stands
        between them.
        """
        held = self._level(level)
        files = held.of_units(start, stop)
        first = min([start, *(f.first for f in files)])
        last = max([stop, *(f.last + 1 for f in files)])
        depth = self.spine.index(level)
        codes, increase = self.spine.codes[depth][first:last], self.spine.orders[depth] is None
        return NmfPart(
            self.root, level, first, codes, increase, held.measured[first:last], held.answers, files
        )

    def constraints(self, level: str) -> dict[str, tuple[str, NDArray[np.int64]]]:
        """Constraint rows of a level: name -> (sign, bounds of shape (units, answers))."""
        found: dict[str, tuple[str, NDArray[np.int64]]] = {}
        for path in self._parts(level, "Constraint"):
            table = _columns(path, ["geocode", "query_name", "value", "sign"]).combine_chunks()
            names = pc.dictionary_encode(table["query_name"].combine_chunks())
            unit = units_of(table["geocode"], self.spine, level, path)
            for number, name in enumerate(names.dictionary.to_pylist()):
                rows = np.flatnonzero(names.indices.to_numpy() == number)
                got = matrix(table["value"].take(pa.array(rows)), path)
                sign = table["sign"][int(rows[0])].as_py()
                key = name.removesuffix("_con")
                if key not in found:
                    found[key] = (
                        sign,
                        np.full((self.spine.units(level), got.shape[1]), -1, dtype=np.int64),
                    )
                bound = found[key][1]
                if (
                    sign != found[key][0]
                    or got.shape[1] != bound.shape[1]
                    or (bound[unit[rows]] >= 0).any()
                ):
                    raise ReleaseError(
                        f"constraint {key!r} is not the same in all parts, or is there twice",
                        where=path,
                        remedy=_LOST,
                    )
                bound[unit[rows]] = got
        for key, (_, bound) in found.items():
            if (bound < 0).any():
                raise ReleaseError(
                    f"constraint {key!r} is missing for a unit of {level!r}",
                    where=self.root,
                    remedy=_LOST,
                )
        return found

    def _level(self, level: str) -> _LevelFiles:
        if level not in self._levels:
            measured = (
                np.ones(self.spine.units(level), dtype=bool)
                if self._measured is None
                else self._measured(level)
            )
            paths = self._parts(level, "DPQuery")
            if bool(paths) != measured.any():
                raise ReleaseError(
                    (
                        f"no measurements of level {level!r}"
                        if not paths
                        else f"measurements of level {level!r}, of which no unit is measured"
                    ),
                    where=self.root / f"{level}.parquet" / "DPQuery",
                    remedy=_LOST,
                )
            self._levels[level] = _LevelFiles.of(
                [_File.of(p, self.spine, level) for p in paths], measured
            )
        return self._levels[level]

    def _parts(self, level: str, kind: str) -> list[Path]:
        """The files of a level, of every shard or of one: ``part-<shard>-<batch>``, of constraints
        ``part-<shard>``, in the folders of its own states."""
        folder = self.root / f"{level}.parquet" / kind
        if self.shard is None:
            found = sorted(folder.rglob("*.parquet"))
        else:
            wanted = (
                f"part-{self.shard:05d}.parquet"
                if kind == "Constraint"
                else f"part-{self.shard:05d}-*.parquet"
            )
            found = [
                p
                for name in folders(self.spine, level)[0]
                for p in sorted((folder / name).glob(wanted))
            ]
        for path in found:
            refuse_marked(path, self.private)
        return found


@dataclass(frozen=True, eq=False)
class _LevelFiles:
    """The files of a level, which of its units are measured ``(units,)``, and the number of answers
    to each query. Of the runs of units that the files have, by their first units: ``file``
    ``(runs,)`` whose it is, ``first`` its first unit, and ``reached`` the last of it and of those
    before it."""

    files: tuple[_File, ...]
    file: NDArray[np.int64]
    first: NDArray[np.int64]
    reached: NDArray[np.int64]
    measured: NDArray[np.bool_]
    answers: Mapping[str, int]

    @staticmethod
    def of(files: Sequence[_File], measured: NDArray[np.bool_]) -> _LevelFiles:
        files = sorted(files, key=lambda f: f.first)
        runs = np.array(
            sorted((*run, i) for i, f in enumerate(files) for run in f.runs), dtype=np.int64
        ).reshape(-1, 3)
        return _LevelFiles(
            tuple(files),
            runs[:, 2],
            runs[:, 0],
            np.maximum.accumulate(runs[:, 1]),
            measured,
            _answers(files),
        )

    def of_units(self, start: int, stop: int) -> tuple[_File, ...]:
        """Those that may hold some of the units ``start:stop``."""
        a, b = np.searchsorted(self.reached, start), np.searchsorted(self.first, stop)
        return tuple(
            self.files[i] for i in np.unique(self.file[a:b]) if self.files[i].may_hold(start, stop)
        )


@dataclass(frozen=True)
class _File:
    """One file of a level: which queries its row groups hold, and the runs of units that it has
    some of, by the first and last of each. That of a shard has several where its units lie among
    others in the tree, as in the branches of an optimised spine."""

    path: Path
    groups: tuple[tuple[str, int], ...]
    runs: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        return self.runs[0][0]

    @property
    def last(self) -> int:
        return self.runs[-1][1]

    def may_hold(self, start: int, stop: int) -> bool:
        """Whether it may hold some of the units ``start:stop``."""
        return any(first < stop and last >= start for first, last in self.runs)

    @staticmethod
    def of(path: Path, spine: Spine, level: str) -> _File:
        with readable(path):
            meta = metadata(path)
            groups = tuple(
                (name.removesuffix("_dpq"), g) for g, name in enumerate(names_of(meta, path))
            )
        once = [g for name, g in groups if name == groups[0][0]]
        unit = np.sort(
            np.concatenate(
                [
                    units_of(rows["geocode"], spine, level, path)
                    for rows in batches(path, ["geocode"], once)
                ]
            )
        )
        cuts = (
            np.flatnonzero(np.diff(unit) > len(unit)) + 1
        )  # more than there are in the file lie between
        return _File(
            path, groups, tuple((int(run[0]), int(run[-1])) for run in np.split(unit, cuts))
        )

    def groups_of(self, query: str) -> list[int]:
        found = [g for name, g in self.groups if name == query]
        if not found:
            raise ReleaseError(
                f"query {query!r} is not in this file", where=self.path, remedy=_LOST
            )
        return found


@dataclass(frozen=True, eq=False)
class NmfPart:
    """Some units of one level, for a task: ``files`` that hold them, ``codes`` of units ``first :
    first + len(codes)`` of the level, all that the files have, whether these are known to
    ``increase``, and which of them are ``measured``; the number of ``answers`` to each query."""

    root: Path
    level: str
    first: int
    codes: Codes
    increase: bool
    measured: NDArray[np.bool_]
    answers: Mapping[str, int]
    files: tuple[_File, ...]

    @cached_property
    def _order(self) -> NDArray[np.int64] | None:
        return None if self.increase else order_of(self.codes)

    def queries(self, level: str) -> tuple[str, ...]:
        self._check(level)
        return tuple(self.answers)

    def part(self, level: str, start: int, stop: int) -> NmfPart:
        self._check(level)
        return replace(self, files=tuple(f for f in self.files if f.may_hold(start, stop)))

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        self._check(level)
        if query not in self.answers:
            raise ReleaseError(
                f"query {query!r} is not in these files",
                where=self.root / f"{level}.parquet",
                remedy=_LOST,
            )
        values = np.zeros((stop - start, self.answers[query]), dtype=np.int64)
        variance, times = np.full(stop - start, np.inf), np.zeros(stop - start, dtype=np.int64)
        for file in self.files:
            if not file.may_hold(start, stop):
                continue
            for group in file.groups_of(query):
                unit, got, var = self._load(file.path, group)
                keep = (unit >= start) & (unit < stop)
                if got.shape[1] != values.shape[1]:
                    raise ReleaseError(
                        f"other numbers of answers to {query!r} than before",
                        where=file.path,
                        remedy=_LOST,
                    )
                if not keep.all():
                    unit, got, var = unit[keep], got[keep], var[keep]
                times += np.bincount(unit - start, minlength=stop - start)
                at = unit - start
                if len(at) and (np.diff(at) == 1).all():  # as they were written
                    values[at[0] : at[-1] + 1], variance[at[0] : at[-1] + 1] = got, var
                else:
                    values[at], variance[at] = got, var
        self._check_times(query, start, times)
        if not (variance > 0).all():
            raise ReleaseError(
                f"a variance of {query!r} at {level!r} is not positive",
                where=self.root,
                remedy=_LOST,
            )
        return Measurement(level, query, start, values, variance)

    def _check_times(self, query: str, start: int, times: NDArray[np.int64]) -> None:
        """Every unit that is measured has one row, any other has none."""
        measured = self.measured[start - self.first : start - self.first + len(times)]
        if len(odd := np.flatnonzero(times != measured)):
            what = "no measurement" if times[odd[0]] == 0 else f"{times[odd[0]]} measurements"
            unit = f"{self.level} {self.codes[start + odd[0] - self.first].decode()}"
            but = "" if measured[odd[0]] else ", which is not measured"
            raise ReleaseError(
                f"{what} of {query!r} for {unit}{but}", where=self.root, remedy=_LOST
            )

    def _check(self, level: str) -> None:
        if level != self.level:
            raise ValueError(f"this is a part of level {self.level!r}, not of {level!r}")

    def _load(
        self, path: Path, group: int
    ) -> tuple[NDArray[np.int64], NDArray[np.signedinteger[Any]], NDArray[np.float64]]:
        table = _columns(path, ["geocode", "value", "variance"], group)
        unit = self.first + _known(
            table["geocode"],
            lambda codes: sorted_places(self.codes, self._order, codes),
            self.level,
            path,
        )
        return (
            unit,
            _as_written(table["value"], path),
            table["variance"].to_numpy().astype(np.float64),
        )


def _answers(files: Sequence[_File]) -> dict[str, int]:
    """The number of answers to each query, from the shape in its first row."""
    out: dict[str, int] = {}
    for file in files:
        for name, group in file.groups:
            if name not in out:
                shape = _columns(file.path, ["query_shape"], group)["query_shape"][:1]
                out[name] = int(matrix(shape, file.path).prod())
    return out


def names_of(meta: pq.FileMetaData, path: Path) -> Iterator[str]:
    """The query of each row group, from its statistics: there is one alone."""
    column = next(
        (i for i in range(meta.num_columns) if meta.schema.column(i).path == "query_name"), None
    )
    if column is None or not meta.num_rows:
        raise ReleaseError("no column query_name, or no rows", where=path, remedy=_LOST)
    for g in range(meta.num_row_groups):
        stats = meta.row_group(g).column(column).statistics
        if (
            stats is None
            or not stats.has_min_max
            or stats.min != stats.max
            or not isinstance(stats.min, str)
        ):
            raise ReleaseError(
                f"row group {g} mixes queries, or does not say which it holds",
                where=path,
                remedy=_LOST,
            )
        yield stats.min


def matrix(column: pa.ChunkedArray, path: Path) -> NDArray[np.int64]:
    """Lists of one length as rows of an array."""
    return _as_written(column, path).astype(np.int64, copy=False)


def _as_written(column: pa.ChunkedArray, path: Path) -> NDArray[np.signedinteger[Any]]:
    """The same, of numbers as wide as in the file."""
    try:
        widths = pc.unique(pc.list_value_length(column)).to_pylist()
        flat = pc.list_flatten(column)
    except pa.ArrowException as error:
        raise ReleaseError(f"values are not lists ({error})", where=path, remedy=_LOST) from None
    if not pa.types.is_integer(flat.type) or flat.null_count:
        raise ReleaseError("values are not lists of integers", where=path, remedy=_LOST)
    if len(widths) != 1 or len(flat) != len(column) * widths[0]:
        raise ReleaseError("lists of different lengths under one query", where=path, remedy=_LOST)
    return flat.to_numpy().reshape(len(column), widths[0])


def units_of(column: pa.ChunkedArray, spine: Spine, level: str, path: Path) -> NDArray[np.int64]:
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
            f"geocode {str(text(wanted[unit < 0])[0])!r} is not a unit of {level!r}",
            where=path,
            remedy=_LOST,
        )
    return unit
