"""Noisy measurement files (:mod:`das.files.measurements.nmf`), read a slice of units at a time.

:class:`NmfReader` knows the spine, which units are measured, and every file; a task carries an
:class:`NmfPart`, which knows the files and codes of its own units alone. Units that are not
measured have no rows: their answers are zeros of infinite variance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic, csv_text
from das.files import codes as texts
from das.files.measurements.nmf import (
    NmfFile,
    NmfLevelFiles,
    as_written,
    folders,
    known_units,
    matrix,
    root_named,
    units_of,
)
from das.files.parquet import LOST, decoded, marked, refuse_marked
from das.files.parquet import LOST as _LOST
from das.files.parquet import columns as _columns
from das.files.parquet import columns as columns_of
from das.model.frozen import Frozen
from das.model.measurement import Measurement, PooledMeasurement
from das.model.names import Codes
from das.model.not_private import Private
from das.model.schema import Schema
from das.model.spine import Spine, order_of, sorted_places

# Measurements of the same answers from another publication, and the file that keeps them.
#
# ``margins.parquet``, next to the tree of the measurements, has a row for each unit, query and
# measurement: ``level``, ``geocode``, ``query_name`` (of this schema), ``measured_as`` (the query
# that was measured, whose answers are summed), ``value`` (whole numbers) and ``variance`` (of the
# worst answer). The publisher's own measurements stay as they are in their files.
#
# They are pooled when they are read, by inverse variance. With own answers :math:`m_1` of variance
# :math:`v_1` and others of the same, independent of these,
#
# .. math:: v = 1 / (1/v_1 + \sum_i 1/v_i), \qquad m = v (m_1/v_1 + \sum_i m_i/v_i).
#
# So a query that a unit was not asked (:math:`v_1 = \infty`) has the others alone. Nothing is pooled
# in a unit without any measurement of its own.

Ints = NDArray[np.int64]

_FEW = 16  #: At most one value in this many is kept by itself
NAME = "margins.parquet"
COLUMNS = ("level", "geocode", "query_name", "measured_as", "value", "variance")


@dataclass(frozen=True, eq=False)
class MarginRow(Frozen):
    """The ``values`` of a ``query`` for one unit, summed from answers of ``measured_as``."""

    level: str
    code: str
    query: str
    measured_as: str
    values: Ints
    variance: float


@dataclass(frozen=True, eq=False)
class Means(Frozen):
    """Of some units of a level, increasing ``(n,)``, all that was measured of a query elsewhere:
    ``precision`` ``(n,)``, the sum of inverse variances, and ``weighted`` ``(n, answers)``, the sum
    of values over variances."""

    unit: Ints
    precision: NDArray[np.float64]
    weighted: NDArray[np.float64]

    def part(self, start: int, stop: int) -> Means:
        a, b = np.searchsorted(self.unit, [start, stop]).tolist()
        return Means(self.unit[a:b], self.precision[a:b], self.weighted[a:b])


@dataclass(frozen=True, eq=False)
class Margins(Frozen):
    """What was measured elsewhere, by level and query. Without any, measurements are passed on."""

    held: Mapping[tuple[str, str], Means] = field(default_factory=dict)

    def part(self, level: str, start: int, stop: int) -> Margins:
        """That of some units."""
        here = {key: means for key, means in self.held.items() if key[0] == level}
        return Margins({key: means.part(start, stop) for key, means in here.items()})

    def pooled(self, m: Measurement) -> Measurement:
        """``m``, and all that is held of the same answers: floats."""
        if (m.level, m.query) not in self.held:
            return m
        there = self.held[m.level, m.query].part(m.start, m.start + len(m.values))
        at, values, variance = there.unit - m.start, m.values.astype(np.float64), m.variance.copy()
        own = 1 / m.variance[at]
        precision = own + there.precision
        values[at] = (own[:, None] * values[at] + there.weighted) / precision[:, None]
        variance[at] = 1 / precision
        return PooledMeasurement(m.level, m.query, m.start, values, variance)


NONE = Margins()


def write(path: Path, rows: Sequence[MarginRow], private: Private) -> None:
    columns = {
        "level": pa.array([r.level for r in rows], pa.string()),
        "geocode": pa.array([r.code for r in rows], pa.string()),
        "query_name": pa.array([f"{r.query}_dpq" for r in rows], pa.string()),
        "measured_as": pa.array([r.measured_as for r in rows], pa.string()),
        "value": pa.array([r.values for r in rows], pa.list_(pa.int64())),
        "variance": pa.array([r.variance for r in rows], pa.float64()),
    }
    table = pa.table(columns)
    with atomic.file(path) as draft:
        pq.write_table(table.cast(marked(table.schema, private)), draft, compression="zstd")


def read(path: Path, spine: Spine, schema: Schema, private: Private) -> Margins:
    """Those of the units of a tree, or of a part of it; none where there is no file."""
    if not path.is_file():
        return NONE
    refuse_marked(path, private)
    table = columns_of(path, list(COLUMNS))
    level, query = (np.array(table[c].to_pylist(), dtype=str) for c in ("level", "query_name"))
    code, value, variance = (table[c] for c in ("geocode", "value", "variance"))
    precision, codes = 1 / variance.to_numpy(), texts.codes(code)
    held = {}
    for lv, name in dict.fromkeys(zip(level.tolist(), query.tolist(), strict=True)):
        if lv not in spine.levels:
            continue
        row = np.flatnonzero((level == lv) & (query == name))
        got = value.take(pa.array(row))
        bare, flat = name.removesuffix("_dpq"), got.combine_chunks().flatten().to_numpy()
        if len(flat) != len(row) * schema.query(bare).answers or not (precision[row] > 0).all():
            raise ReleaseError(f"{bare!r} has other answers or variances", where=path, remedy=LOST)
        unit = spine.find(lv, codes[row])
        here = unit >= 0
        weight, values = precision[row][here], flat.reshape(len(row), -1)[here]
        places, at = np.unique(unit[here], return_inverse=True)
        total = np.bincount(at, weight, len(places))
        weighted = np.zeros((len(places), values.shape[1]))
        np.add.at(weighted, at, weight[:, None] * values)
        held[lv, bare] = Means(places, total.astype(np.float64), weighted)
    return Margins(held)


class NmfReader:
    """Measurements of one published directory, read a slice of units at a time. ``measured`` gives
    the measured units of each level, ``(units,)``, such as
    :meth:`das.model.measured_spine.MeasuredSpine.measured`; without it all are measured.

    For a ``subtree`` (0: the upper tree), ``spine`` is its own. Only files with its number in their
    names are read: those of the levels that it is responsible for
    (:meth:`das.model.measured_spine.Subtrees.levels`). With ``private``, files marked as seeded are
    refused. What was measured ``elsewhere`` of the same answers is pooled with them."""

    def __init__(
        self,
        root: Path,
        spine: Spine,
        measured: Callable[[str], NDArray[np.bool_]] | None = None,
        subtree: int | None = None,
        *,
        private: Private = False,
        elsewhere: Margins = NONE,
    ) -> None:
        self.root, self.spine, self.subtree, self._measured, self.private = (
            Path(root),
            spine,
            subtree,
            measured,
            private,
        )
        self._levels: dict[str, NmfLevelFiles] = {}
        self.elsewhere = elsewhere

    def queries(self, level: str) -> tuple[str, ...]:
        """Those that units of a level are measured with: none where none is."""
        return tuple(self._level(level).answers)

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        """Units ``start:stop``; every one of them that is measured must be in the files, once."""
        return self.part(level, start, stop).read(level, query, start, stop)

    def part(self, level: str, start: int, stop: int) -> NmfPart:
        """The files that hold units ``start:stop``, and the codes of these units and of those
        between them."""
        held = self._level(level)
        files = held.of_units(start, stop)
        first = min([start, *(f.first for f in files)])
        last = max([stop, *(f.last + 1 for f in files)])
        depth = self.spine.index(level)
        codes, increase = self.spine.codes[depth][first:last], self.spine.orders[depth] is None
        measured, elsewhere = held.measured[first:last], self.elsewhere.part(level, first, last)
        return NmfPart(
            self.root, level, first, codes, increase, measured, held.answers, files, elsewhere
        )

    def measured(self, level: str) -> NDArray[np.bool_]:
        """Which units of a level are measured, ``(units,)``."""
        return self._level(level).measured

    def constraints(self, level: str) -> dict[str, tuple[str, NDArray[np.int64]]]:
        """Constraint rows of a level: name -> (sign, bounds of shape (units, answers))."""
        found: dict[str, tuple[str, NDArray[np.int64]]] = {}
        for path in self._parts(level, "Constraint"):
            table = _columns(path, ["geocode", "query_name", "value", "sign"]).combine_chunks()
            names = pc.dictionary_encode(table["query_name"].combine_chunks())
            unit = units_of(table["geocode"], self.spine, level, path)
            for number, name in enumerate(names.dictionary.to_pylist()):
                rows = np.flatnonzero(csv_text.array(names.indices) == number)
                got = matrix(table["value"].take(csv_text.column(rows)), path)
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

    def _level(self, level: str) -> NmfLevelFiles:
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
                        else f"measurements of level {level!r}, where no unit is measured"
                    ),
                    where=self.root / f"{level}.parquet" / "DPQuery",
                    remedy=_LOST,
                )
            self._levels[level] = NmfLevelFiles.from_files(
                [NmfFile.from_path(p, self.spine, level) for p in paths], measured
            )
        return self._levels[level]

    def _parts(self, level: str, kind: str) -> list[Path]:
        """The files of a level, of every subtree or of one: ``part-<subtree>-<batch>``, of
        constraints ``part-<subtree>``, in the folders of its own states."""
        folder = self.root / f"{level}.parquet" / kind
        if self.subtree is None:
            found = sorted(folder.rglob("*.parquet"))
        else:
            wanted = (
                f"part-{self.subtree:05d}.parquet"
                if kind == "Constraint"
                else f"part-{self.subtree:05d}-*.parquet"
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
class NmfPart:
    """Some units of one level, for a task.

    ``files`` hold them, and ``codes`` are theirs: the units ``first : first + len(codes)`` of the
    level, all that the files have. It also says whether the codes ``increase``, which units are
    ``measured``, and the number of ``answers`` to each query."""

    root: Path
    level: str
    first: int
    codes: Codes
    increase: bool
    measured: NDArray[np.bool_]
    answers: Mapping[str, int]
    files: tuple[NmfFile, ...]
    elsewhere: Margins = field(default_factory=Margins)

    @cached_property
    def _order(self) -> NDArray[np.int64] | None:
        return None if self.increase else order_of(self.codes)

    def queries(self, level: str) -> tuple[str, ...]:
        self._check(level)
        return tuple(self.answers)

    def part(self, level: str, start: int, stop: int) -> NmfPart:
        self._check(level)
        files = tuple(f for f in self.files if f.may_hold(start, stop))
        return replace(self, files=files, elsewhere=self.elsewhere.part(level, start, stop))

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
                unit, got, var, row, column, exact = self._load(file.path, group)
                keep = (unit >= start) & (unit < stop)
                far, row = keep[row], unit[row] - start
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
                values[row[far], column[far]] = exact[far]
        self._check_times(query, start, times)
        if not (variance > 0).all():
            raise ReleaseError(
                f"a variance of {query!r} at {level!r} is not positive",
                where=self.root,
                remedy=_LOST,
            )
        return self.elsewhere.pooled(Measurement(level, query, start, values, variance))

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

    def _load(self, path: Path, group: int) -> tuple[NDArray[Any], ...]:
        """The units of a row group, and the rest of :func:`_rows`."""
        codes, *rest = decoded(path, group, partial(_rows, path, group))
        if len(self.codes) == 1:
            codes = root_named(codes, self.codes)
        unit = self.first + known_units(
            codes, partial(sorted_places, self.codes, self._order), self.level, path
        )
        return unit, *rest


def _rows(path: Path, group: int) -> tuple[NDArray[Any], ...]:
    """Geocodes, values and variances. Most values fit a byte, as they are kept: then ``row``,
    ``column`` and value of the others follow."""
    table = _columns(path, ["geocode", "value", "variance"], group)
    values, far = as_written(table["value"], path), np.zeros(0, dtype=np.intp)
    for kind in (np.int8, np.int16):
        small = values.astype(kind)
        far = np.flatnonzero(small != values)
        if len(far) * _FEW <= values.size:
            break
    else:
        small, far = values, far[:0]
    row, column = np.divmod(far, max(1, values.shape[1]))
    codes, variance = texts.codes(table["geocode"]), csv_text.array(table["variance"])
    return codes, small, variance, row, column, values[row, column]
