"""The measurements of published files, level by level, as post-processing takes them.

Rows are read tolerantly, and each unit has each query of its level: where there is no row, the
answers are zero with infinite variance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.engine.progress import Progress
from das.errors import ReleaseError
from das.files import codes as texts
from das.files.measurements.published_files import (
    AGAIN,
    Group,
    Ints,
    PublishedLevel,
    check_shape,
    matrix,
    read,
    variance_of,
)
from das.files.measurements.published_sums import MeasuredTotals
from das.files.measurements.published_tree import units_of_codes
from das.model.measurement import Measurement
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine


@dataclass(frozen=True)
class LevelMeasured:
    """What is measured at a level: by the names of queries in the files, the query; and the usual
    variance and number of units of each that is measured anywhere."""

    level: str
    names: Mapping[str, Query]
    variances: Mapping[str, Counter[float]]
    queries: tuple[Query, ...]

    @staticmethod
    def of(schema: Schema, level: PublishedLevel) -> LevelMeasured:
        names: dict[str, Query] = {}
        variances: dict[str, Counter[float]] = {}
        for name, (query, units) in level.found.items():
            if units:
                names[name] = query
                if query.name in variances:
                    variances[query.name] = variances[query.name] + units
                else:
                    variances[query.name] = units
        queries = {q.name: q for q in names.values()} or {"total": schema.query("total")}
        return LevelMeasured(level.name, names, variances, tuple(queries.values()))

    def usual(self, query: str) -> float:
        return (
            self.variances[query].most_common(1)[0][0] if query in self.variances else float("inf")
        )


def measurements(
    level: PublishedLevel, what: LevelMeasured, spine: Spine, limit: int, progress: Progress
) -> Iterator[Measurement]:
    """All queries of a slice of units, and so on: what is not in the files is zero with infinite
    variance.
    """
    ends = np.array([[g.first, g.last] for g in level.groups], dtype=np.bytes_).reshape(-1, 2)
    first, last = (
        units_of_codes(spine, level.name, ends[:, i]) if len(ends) else np.zeros(0, dtype=int)
        for i in (0, 1)
    )
    for start, stop in spine.batches(level.name, sum(q.answers for q in what.queries), limit):
        values = {q.name: np.zeros((stop - start, q.answers), dtype=np.int64) for q in what.queries}
        variance = {q.name: np.full(stop - start, np.inf) for q in what.queries}
        for i in np.flatnonzero((first < stop) & (last >= start)):
            group = level.groups[i]
            for query, unit, got, var in _rows(group, what, spine, level.name, start, stop):
                again = np.isfinite(variance[query.name][unit])
                if again.any() or len(np.unique(unit)) != len(unit):
                    raise ReleaseError(
                        f"two measurements of {query.name!r} for one unit of {level.name}",
                        where=group.path,
                        remedy=AGAIN,
                    )
                values[query.name][unit], variance[query.name][unit] = got, var
        for q in what.queries:
            yield Measurement(level.name, q.name, start, values[q.name], variance[q.name])
        progress.advance(stop - start)


def noted(
    measurements: Iterator[Measurement], asked: NDArray[np.bool_], totals: MeasuredTotals
) -> Iterator[Measurement]:
    """Pass measurements on, noting in ``asked`` the units that have an answer, and in ``totals``
    how many records they have.
    """
    for m in measurements:
        totals.add(m)
        asked[m.start : m.start + len(m.values)] |= np.isfinite(m.variance)
        yield m


def _rows(
    group: Group, what: LevelMeasured, spine: Spine, level: str, start: int, stop: int
) -> Iterator[tuple[Query, Ints, Ints, NDArray[np.float64]]]:
    """The measured rows of a row group in units ``start:stop``: query, units (from 0), values and
    variances.
    """
    table = read(
        group.path, group.number, ["geocode", "query_name", "value", "variance"], ["query_shape"]
    )
    unit = units_of_codes(spine, level, texts.codes(table["geocode"])) - start
    variance = variance_of(table, group.path)
    here = (unit >= 0) & (unit < stop - start) & np.isfinite(variance)
    name = texts.texts(table["query_name"])
    for written, query in what.names.items():
        row = np.flatnonzero(here & (name == written))
        if len(row):
            check_shape(table, int(row[0]), query, group.path)
            yield (
                query,
                unit[row],
                matrix(table["value"].take(pa.array(row)), query, group.path),
                variance[row],
            )
