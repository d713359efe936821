"""The tree of noisy measurement files as published, from their geocodes.

A unit's parent is the unit of the level above whose geocode its own begins with. A unit that was
bypassed has no rows: it is there if codes below begin with it, and unmeasured. The nation's geocode
is empty; here it has the name of its level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.engine.tasks import Progress
from das.errors import InputError, ReleaseError
from das.files import codes as texts
from das.model.measurement import Measurement
from das.model.names import Codes, encoded
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.publications.published.files.listing import (
    AGAIN,
    Group,
    Ints,
    PublishedLevel,
    check_shape,
    matrix,
    read,
    variance_of,
)
from das.publications.published.files.sums import MeasuredTotals


def spine_of(levels: Sequence[PublishedLevel], folder: Path) -> Spine:
    """From the lowest level up: each level's own units, and those that codes below begin with."""
    codes: list[Codes] = [np.zeros(0, dtype="S1")] * len(levels)
    parents: list[Ints] = [np.zeros(1, dtype=np.int64)] * len(levels)
    _stand_ins(levels)
    codes[-1] = levels[-1].codes
    for depth in range(len(levels) - 1, 0, -1):
        here, above = levels[depth], levels[depth - 1]
        _check_free(codes[depth], here.name, folder)
        if depth == 1:
            codes[0] = above.codes
            parents[1] = np.zeros(len(codes[1]), dtype=np.int64)
        else:
            home = _homes(codes[depth], here.name, above, folder)
            codes[depth - 1] = np.union1d(above.codes, home)
            parents[depth] = np.searchsorted(codes[depth - 1], home).astype(np.int64)
            childless = np.setdiff1d(codes[depth - 1], home)
            if len(childless):
                raise InputError(
                    f"{above.name} {childless[0].decode()!r} has no unit of level {here.name} below"
                    f" it ({len(childless)} such units)",
                    where=folder,
                    remedy=(
                        "get the missing partitions, or leave out those of its branch everywhere"
                    ),
                )
    if len(codes[0]) != 1:
        raise InputError(
            f"level {levels[0].name} has {len(codes[0])} units ({codes[0][0].decode()},"
            f" {codes[0][1].decode()}, ...), but the tree has one root",
            where=folder,
            remedy="get the level above and all parts of this one, or keep one part alone",
        )
    codes[0] = np.where(codes[0] == b"", encoded([levels[0].name]), codes[0])
    return Spine(tuple(level.name for level in levels), tuple(codes), tuple(parents))


def units_of_codes(spine: Spine, level: str, codes: Codes) -> Ints:
    """The unit of each geocode, -1 for none; the empty one is a root's."""
    if level == spine.levels[0]:
        codes = np.where(codes == b"", spine.codes[0][0], codes)
    return spine.find(level, codes)


def _stand_ins(levels: Sequence[PublishedLevel]) -> None:
    """A unit of a level whose code is as long as those of the next level is also a unit of the
    next: its only child, bypassed, which need not have rows of its own."""
    for above, here in pairwise(levels[1:]):
        lengths = np.unique(np.strings.str_len(here.codes))
        own = np.strings.str_len(above.codes)
        if len(lengths) == 1 and own.min() < own.max():
            here.codes = np.union1d(here.codes, above.codes[own == lengths[0]])


def _check_free(codes: Codes, name: str, folder: Path) -> None:
    """No code of a level begins with another: then a code below has one parent at most, and the
    order of the codes is that of their parents."""
    bad = np.flatnonzero(np.strings.startswith(codes[1:], codes[:-1]))
    if len(bad):
        a, b = codes[bad[0]], codes[bad[0] + 1]
        raise InputError(
            f"geocode {b.decode()!r} of level {name} begins with {a.decode()!r}, another unit of"
            " that level",
            where=folder,
            remedy=AGAIN,
        )


def _homes(codes: Codes, name: str, above: PublishedLevel, folder: Path) -> Codes:
    """The code of each unit's parent: the unit of the level above that it begins with or, if none,
    as much of it as the codes of that level are long."""
    lengths = np.unique(np.strings.str_len(above.codes)).tolist()
    home = np.zeros(len(codes), dtype=f"S{max(lengths)}")
    for length in lengths:
        cut = codes.astype(f"S{length}")
        known = np.isin(cut, above.codes)
        home[known] = cut[known]
    lost = home == b""
    if lost.any() and len(lengths) == 1:
        derived = lost & (np.strings.str_len(codes) >= lengths[0])
        home[derived] = codes.astype(f"S{lengths[0]}")[derived]
        lost &= ~derived
    if lost.any():
        raise InputError(
            f"{name} {codes[lost][0].decode()!r} belongs to no unit of level {above.name}: no"
            f" geocode there is its beginning ({int(lost.sum())} such units)",
            where=folder,
            remedy=AGAIN,
        )
    return home


# The measurements of published files, level by level, as post-processing takes them.
#
# Rows are read tolerantly, and each unit has each query of its level: where there is no row, the
# answers are zero with infinite variance.


@dataclass(frozen=True)
class LevelMeasured:
    """What is measured at a level: by the names of queries in the files, the query; and the usual
    variance and number of units of each that is measured anywhere."""

    level: str
    names: Mapping[str, Query]
    variances: Mapping[str, Counter[float]]
    queries: tuple[Query, ...]

    @staticmethod
    def from_published(schema: Schema, level: PublishedLevel) -> LevelMeasured:
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
    variance."""
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
    how many records they have."""
    for m in measurements:
        totals.add(m)
        asked[m.start : m.start + len(m.values)] |= np.isfinite(m.variance)
        yield m


def _rows(
    group: Group, what: LevelMeasured, spine: Spine, level: str, start: int, stop: int
) -> Iterator[tuple[Query, Ints, Ints, NDArray[np.float64]]]:
    """The measured rows of a row group in units ``start:stop``: query, units (from 0), values and
    variances."""
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
