"""Who is in which group of the Detailed DHC: counts of some regions of one level, on demand.

Callers first need a group's total, and the cells of its table only if it has a table. Of a nation's
264 million groups, some hundred thousand have one. So memory holds only the records, in compact
form, and the totals of the present regions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from das.model.confidential import Confidential
from das.model.constraint import packed, pieces
from das.publications.detailed.model.iterations import GroupLevel, Regions, groups_of
from das.publications.detailed.model.records import GroupRecords
from das.publications.detailed.model.tables import Parameters

Ints = NDArray[np.int64]
#: Records that are processed together: their groups take some hundred megabytes.
_TOGETHER = 1 << 20
#: Values that finding the groups of one combination takes; most cells that are counted as a dense
#: array.
_WIDEST, _DENSE = 64, 1 << 23


class GroupCounter:
    """Records, and the groups of each combination of codes. Nearly all people report one of a few
    hundred thousand combinations."""

    def __init__(
        self, records: Confidential[GroupRecords], regions: Regions, parameters: Parameters
    ) -> None:
        self._records, self._regions, self._parameters = records, regions, parameters
        self._groups: dict[tuple[int, bool], tuple[Ints, NDArray[np.int32]]] = {}

    @cached_property
    def _combination(self) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
        """The distinct combinations of codes, ``(combinations, race codes + 1)``, and which of them
        each record has."""
        given = self._records.open("to count who is in which group")
        return packed(given.codes[:, : self._parameters.race_codes], given.ethnicity[:, None])

    def _in(self, at: GroupLevel) -> tuple[Ints, NDArray[np.int32]]:
        """The groups of each combination at a level (:func:`das.publications.detailed.model.iterations.groups_of`)."""
        known = at.level, at.fine
        if known not in self._groups:
            rows, _ = self._combination
            parts = [
                groups_of(self._parameters.iterations, at, rows[here, :-1], rows[here, -1])
                for here in pieces(len(rows), _WIDEST)
            ]
            times = np.concatenate([np.diff(indptr) for indptr, _ in parts])
            self._groups[known] = (
                np.append(0, np.cumsum(times)),
                np.concatenate([m for _, m in parts]),
            )
        return self._groups[known]

    def at(self, at: GroupLevel, regions: NDArray[np.int32]) -> GroupTruth:
        """The counts of some regions of a level."""
        given, (indptr, member) = self._records.open("to count who is in which group"), self._in(at)
        place = np.full(len(self._regions.ids[at.region]) + 1, -1, dtype=np.int32)
        place[regions] = np.arange(len(regions), dtype=np.int32)
        there = place[self._regions.of_block[at.region][given.block]]
        some = (
            slice(None) if (there >= 0).all() else np.flatnonzero(there >= 0)
        )  # a whole level needs no copy
        cells = {name: leaf[some] for name, leaf in given.cells.items()}
        iterations = len(self._parameters.iterations.measured_at(at))
        return GroupTruth(
            there[some], self._combination[1][some], indptr, member, cells, len(regions), iterations
        )


class GroupCounts(Protocol):
    """True counts of the groups of some regions of one level."""

    regions: int
    iterations: int

    def totals(self) -> Ints:
        """How many are in each group, ``(groups,)``."""
        ...

    def table(self, name: str, leaves: int, groups: Ints) -> Ints:
        """How many of some groups are in each leaf of a table, ``(groups, leaves)``."""
        ...

    def digest(self) -> bytes:
        """SHA-256 that identifies these counts."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class GroupTruth(GroupCounts):
    """The ``region`` and the ``combination`` of each record. Combination ``c`` is in the iterations
    ``member[indptr[c] : indptr[c + 1]]``."""

    region: NDArray[np.int32]
    combination: NDArray[np.int32]
    indptr: Ints
    member: NDArray[np.int32]
    cells: dict[str, NDArray[np.int8]]
    regions: int
    iterations: int

    @property
    def groups(self) -> int:
        return self.regions * self.iterations

    def totals(self) -> Ints:
        """How many are in each group, ``(groups,)``."""
        out = np.zeros(self.groups, dtype=np.int64)
        for group, _, _ in self._pairs():
            _add(out, group)
        return out

    def table(self, name: str, leaves: int, groups: Ints) -> Ints:
        """How many of some groups are in each leaf of a table, ``(groups, leaves)``."""
        number = np.full(self.groups, -1, dtype=np.int32)
        number[groups] = np.arange(len(groups))
        out = np.zeros(len(groups) * leaves, dtype=np.int64)
        for group, times, here in self._pairs() if len(groups) else ():
            at = number[group]
            kept = np.flatnonzero(at >= 0)
            _add(
                out,
                at[kept].astype(np.int64) * leaves + np.repeat(self.cells[name][here], times)[kept],
            )
        return out.reshape(len(groups), leaves)

    def cells_of(self, name: str, leaves: int) -> tuple[Ints, Ints]:
        """The nonempty cells, ``group * leaves + leaf`` in order, and their counts."""
        cells = (
            group * leaves + np.repeat(self.cells[name][here], times)
            for group, times, here in self._pairs()
        )
        if self.groups * leaves > _DENSE:
            return added_up([np.unique(cell, return_counts=True) for cell in cells])
        every = np.zeros(self.groups * leaves, dtype=np.int64)
        for cell in cells:
            _add(every, cell)
        found = np.flatnonzero(every)
        return found, every[found]

    def digest(self) -> bytes:
        """Covers each record's region, combination and cells, and the groups of the combinations:
        every count is a function of these."""
        total = hashlib.sha256(f"{self.regions} {self.iterations} ".encode())
        leaves = [leaf for _, leaf in sorted(self.cells.items())]
        every: list[NDArray[Any]] = [
            self.region,
            self.combination,
            self.indptr,
            self.member,
            *leaves,
        ]
        for values in every:
            total.update(f"{len(values)} {values.dtype.str} ".encode())
            total.update(np.ascontiguousarray(values).data)
        return total.digest()

    def _pairs(self) -> Iterator[tuple[Ints, Ints, slice]]:
        """Yields, for some records at a time: the groups of each, one record after the other; how
        many groups each has; and which records these are."""
        times_of = np.diff(self.indptr)
        for start in range(0, len(self.region), _TOGETHER):
            here = slice(start, start + _TOGETHER)
            region, combination = self.region[here].astype(np.int64), self.combination[here]
            times = times_of[combination]
            first = self.indptr[combination] - (np.cumsum(times) - times)
            member = self.member[np.repeat(first, times) + np.arange(int(times.sum()))]
            yield np.repeat(region * self.iterations, times) + member, times, here


def _add(out: Ints, cell: Ints) -> None:
    """Count cells into ``out``. Records that are processed together mostly lie near each other, so
    it touches only the range between the least and the greatest cell."""
    if len(cell):
        least = int(cell.min())
        found = np.bincount(cell - least)
        out[least : least + len(found)] += found


def added_up(parts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Cells and their counts, from several lists of them."""
    if not parts:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    cell, at = np.unique(np.concatenate([c for c, _ in parts]), return_inverse=True)
    count = np.zeros(len(cell), dtype=np.int64)
    np.add.at(count, at, np.concatenate([n for _, n in parts]))
    return cell, count


@dataclass(frozen=True, eq=False, repr=False)
class SummedGroups(GroupCounts):
    """Counts of regions that cross states. ``tables`` has, by name, the nonempty cells and their
    counts (:meth:`GroupTruth.cells_of`), for all states together."""

    regions: int
    iterations: int
    tables: Mapping[str, tuple[int, Ints, Ints]]

    def rows(self, some: slice) -> SummedGroups:
        """The counts of some of the regions."""
        first, last = some.start * self.iterations, some.stop * self.iterations
        out = {}
        for name, (leaves, cell, count) in self.tables.items():
            a, b = np.searchsorted(cell, (first * leaves, last * leaves))
            out[name] = leaves, cell[a:b] - first * leaves, count[a:b]
        return SummedGroups(some.stop - some.start, self.iterations, out)

    def totals(self) -> Ints:
        leaves, cell, count = next(iter(self.tables.values()))
        out = np.zeros(self.regions * self.iterations, dtype=np.int64)
        np.add.at(out, cell // leaves, count)
        return out

    def table(self, name: str, leaves: int, groups: Ints) -> Ints:
        _, cell, count = self.tables[name]
        number = np.full(self.regions * self.iterations, -1, dtype=np.int64)
        number[groups] = np.arange(len(groups))
        at = number[cell // leaves]
        out = np.zeros((len(groups), leaves), dtype=np.int64)
        out[at[at >= 0], cell[at >= 0] % leaves] = count[at >= 0]
        return out

    def digest(self) -> bytes:
        total = hashlib.sha256()
        for name, (leaves, cell, count) in sorted(self.tables.items()):
            total.update(f"{name} {leaves} {len(cell)} ".encode())
            for values in (cell, count):
                total.update(np.ascontiguousarray(values, dtype="<i8").data)
        return total.digest()
