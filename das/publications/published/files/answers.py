"""Single answers of published measurement files, read on demand: measurements of a million cells a
unit are never in memory as a whole.

A county of the DHC's persons has ten rows with 1.9 million answers. An estimate looks at a few ten
thousand of them. So :class:`PublishedAnswers` finds the row of each unit and query by the narrow
columns alone. It decodes the lists of a row group only when an answer in it is requested, some rows
at a time. It keeps the short lists that it came across, and at most :data:`_KEPT` further numbers.

Values can be integers or floats of any width, row groups of any size, and lists large or small, as
in all published files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import codes as texts
from das.files.parquet import readable
from das.model.measurement import not_measured, places
from das.model.query import Query
from das.model.spine import Spine
from das.publications.published.files.listing import (
    AGAIN,
    Group,
    Ints,
    PublishedLevel,
    check_shape,
    read,
    variance_of,
)
from das.publications.published.files.tree import units_of_codes

#: Numbers that are decoded together, about.
_TOGETHER = 1 << 22
#: Answers of a query whose lists are all kept once they are decoded.
_SHORT = 1 << 10
#: Numbers of long lists that are kept, the last ones.
_KEPT = 1 << 23


class PublishedAnswers:
    """A :class:`das.model.measurement.SparseSource` of the published files of some
    ``levels``, over their tree. A unit without a row of a query has an infinite variance.

    Raises :class:`ReleaseError` for lists that are not as long as their query has answers, or not
    of whole numbers, when they are read."""

    def __init__(self, levels: tuple[PublishedLevel, ...], spine: Spine) -> None:
        self._levels, self._spine = {level.name: level for level in levels}, spine
        self._held: dict[str, _LevelRows] = {}

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(self._rows(level).queries)

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return self._spine.units(level), self._query(level, query).answers

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        self._query(level, query)
        return self._rows(level).variance[query]

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        """The answers at some coordinates, ``(n,)``. Raises :class:`InputError` for a unit that is
        not measured."""
        where = f"{level}/{query}"
        places(units, cells, self.shape(level, query), where)
        rows = self._rows(level)
        at = rows.row[query][units]
        if (at < 0).any():
            code = self._spine.code(level, int(units[np.argmin(at)]))
            raise InputError(f"{code} is not measured by this query", where=where)
        return rows.values(self._query(level, query), at, cells)

    def _query(self, level: str, query: str) -> Query:
        known = self._rows(level).queries
        if query not in known:
            raise not_measured(level, query, known)
        return known[query]

    def _rows(self, level: str) -> _LevelRows:
        if level not in self._held:
            there = self._levels.get(level, PublishedLevel(level))
            self._held[level] = _LevelRows.from_published(there, self._spine)
        return self._held[level]


@dataclass(eq=False)
class _LevelRows:
    """The measured rows of a level, numbered through its ``groups``: those of group i begin at
    ``starts[i]``. ``row`` has of each query the number of each unit's row, ``(units,)``, -1 where
    there is none; ``of_row`` of each row the number of its query, -1 where it is of no measured
    unit. ``short`` and ``long`` are lists that are kept, by the numbers of their rows."""

    groups: list[Group]
    starts: Ints
    queries: Mapping[str, Query]
    row: Mapping[str, Ints]
    variance: Mapping[str, NDArray[np.float64]]
    of_row: NDArray[np.int8]
    short: dict[int, NDArray[Any]] = field(default_factory=dict)
    long: OrderedDict[int, NDArray[Any]] = field(default_factory=OrderedDict)
    kept: int = 0

    @staticmethod
    def from_published(level: PublishedLevel, spine: Spine) -> _LevelRows:
        """From the narrow columns of the files."""
        units = spine.units(level.name)
        named = {name: query for name, (query, found) in level.found.items() if found}
        queries = {query.name: query for query in named.values()}
        row = {name: np.full(units, -1) for name in queries}
        variance = {name: np.full(units, np.inf) for name in queries}
        starts, of_row = [0], list[NDArray[np.int8]]()
        for group in level.groups:
            columns = ["geocode", "query_name", "variance"]
            table = read(group.path, group.number, columns, ["query_shape"])
            unit = units_of_codes(spine, level.name, texts.codes(table["geocode"]))
            there, name = variance_of(table, group.path), texts.texts(table["query_name"])
            of_row.append(np.full(len(table), -1, dtype=np.int8))
            for written, query in named.items():
                here = np.flatnonzero((name == written) & (unit >= 0) & np.isfinite(there))
                if not len(here):
                    continue
                check_shape(table, int(here[0]), query, group.path)
                _check_once(row[query.name], unit[here], query, level.name, group)
                row[query.name][unit[here]] = starts[-1] + here
                variance[query.name][unit[here]] = there[here]
                of_row[-1][here] = list(queries).index(query.name)
            starts.append(starts[-1] + len(table))
        every = np.concatenate([np.zeros(0, dtype=np.int8), *of_row])
        return _LevelRows(level.groups, np.array(starts), queries, row, variance, every)

    def values(self, query: Query, at: Ints, cells: Ints) -> Ints:
        """The answers ``cells`` of the rows ``at``, ``(n,)`` each."""
        out = np.empty(len(at), dtype=np.int64)
        if not len(at):
            return out
        order = np.argsort(at, kind="stable")
        number, first = np.unique(at[order], return_index=True)
        of = dict(zip(number.tolist(), np.split(order, first[1:]), strict=True))
        for row, values in self._lists(number):
            here = of[row]
            out[here] = _whole(values[cells[here]], query, self._group(row))
        return out

    def _group(self, row: int) -> Group:
        return self.groups[int(np.searchsorted(self.starts, row, side="right")) - 1]

    def _lists(self, rows: Ints) -> Iterator[tuple[int, NDArray[Any]]]:
        """The values of some rows, in any order."""
        lost = []
        for row in rows.tolist():
            known = self.short.get(row, self.long.get(row))
            if known is None:
                lost.append(row)
            else:
                yield row, known
        group = np.searchsorted(self.starts, lost, side="right") - 1
        for number in np.unique(group).tolist():
            here = {row for row, g in zip(lost, group.tolist(), strict=True) if g == number}
            yield from self._decoded(number, here)

    def _decoded(self, number: int, wanted: set[int]) -> Iterator[tuple[int, NDArray[Any]]]:
        """The values of the ``wanted`` rows of a group. They are kept as far as there is room, and
        so are short lists on the way."""
        group, start, last = self.groups[number], int(self.starts[number]), max(wanted)
        queries = list(self.queries.values())
        for row, values in _lists_of(group, start):
            of = int(self.of_row[row])
            query = queries[of]
            if of >= 0 and (row in wanted or query.answers <= _SHORT):
                if len(values) != query.answers:
                    raise ReleaseError(
                        f"{len(values)} values where the query has {query.answers} answers",
                        where=f"{group.path}, query {query.name!r}",
                        remedy=AGAIN,
                    )
                if query.answers <= _SHORT:
                    self.short[row] = values.copy()
                else:
                    self._keep(row, values)
                if row in wanted:
                    yield row, values
            if row >= last:
                break

    def _keep(self, row: int, values: NDArray[Any]) -> None:
        if len(values) > _KEPT:
            return
        self.long[row] = values.copy()
        self.kept += len(values)
        while self.kept > _KEPT:
            _, old = self.long.popitem(last=False)
            self.kept -= len(old)


def _check_once(row: Ints, units: Ints, query: Query, level: str, group: Group) -> None:
    if (row[units] >= 0).any() or len(np.unique(units)) != len(units):
        raise ReleaseError(
            f"two measurements of {query.name!r} for one unit of {level}",
            where=group.path,
            remedy=AGAIN,
        )


def _lists_of(group: Group, start: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """The lists of a row group, each with the number of its row."""
    with readable(group.path, AGAIN):
        file = pq.ParquetFile(group.path, pre_buffer=False)
        said = file.metadata.row_group(group.number)
        names = [said.column(i).path_in_schema for i in range(said.num_columns)]
        column = next(i for i, name in enumerate(names) if name.split(".")[0] == "value")
        numbers = max(1, said.column(column).num_values)
        batch = max(1, said.num_rows * _TOGETHER // numbers)
        for part in file.iter_batches(batch, row_groups=[group.number], columns=["value"]):
            lists = part.column(0)
            kind = lists.type
            if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or lists.null_count:
                raise ReleaseError("values are not lists", where=group.path, remedy=AGAIN)
            end, flat = lists.offsets.to_numpy(), lists.values
            numeric = pa.types.is_integer(flat.type) or pa.types.is_floating(flat.type)
            if flat.null_count or not numeric:
                raise ReleaseError("values are not whole numbers", where=group.path, remedy=AGAIN)
            values = flat.to_numpy()
            for i in range(len(lists)):
                yield start + i, values[end[i] : end[i + 1]]
            start += len(lists)


def _whole(values: NDArray[Any], query: Query, group: Group) -> Ints:
    """Values as integers. Raises :class:`ReleaseError` for others."""
    if (values.dtype.kind == "f" and not (np.rint(values) == values).all()) or (
        np.abs(values.astype(np.float64)) > 2.0**62
    ).any():
        raise ReleaseError(
            "values are not whole numbers",
            where=f"{group.path}, query {query.name!r}",
            remedy=AGAIN,
        )
    return values.astype(np.int64)
