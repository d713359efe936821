r"""Measurements of the same answers from another publication, and the file that keeps them.

``margins.parquet``, next to the tree of the measurements, has a row for each unit, query and
measurement: ``level``, ``geocode``, ``query_name`` (of this schema), ``measured_as`` (the query
that was measured, whose answers are summed), ``value`` (whole numbers) and ``variance`` (of the
worst answer). The publisher's own measurements stay as they are in their files.

They are pooled when they are read, by inverse variance. With own answers :math:`m_1` of variance
:math:`v_1` and others of the same, independent of these,

.. math:: v = 1 / (1/v_1 + \sum_i 1/v_i), \qquad m = v (m_1/v_1 + \sum_i m_i/v_i).

So a query that a unit was not asked (:math:`v_1 = \infty`) has the others alone. Nothing is pooled
in a unit without any measurement of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic
from das.files import codes as texts
from das.files.parquet import LOST, marked, refuse_marked
from das.files.parquet import columns as columns_of
from das.model.frozen import Frozen
from das.model.measurement import Measurement, PooledMeasurement
from das.model.not_private import Private
from das.model.schema import Schema
from das.model.spine import Spine

Ints = NDArray[np.int64]

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
