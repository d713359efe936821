"""Records of the Detailed DHC: where a person lives, the codes of race and ethnicity that they
reported, and their cell of each table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.model.frozen import Frozen, NoRepr
from das.model.names import Codes
from das.publications.detailed.model.iterations import (
    ACROSS,
    MOST_CODES,
    NO_CODE,
    RACE_CODES,
    Regions,
)
from das.publications.detailed.model.tables import PRODUCTS

LEAVES = {table.name: table.leaves for product in PRODUCTS.values() for table in product.tables}


@dataclass(frozen=True, eq=False, repr=False)
class GroupRecords(NoRepr, Frozen):
    """For each record, ``(n,)``: ``block``, the number of its block in a
    :class:`das.publications.detailed.model.iterations.Regions`; ``codes`` of race ``(n, 8)`` in the reported order, 0 for
    none; the code of ``ethnicity``; and by table its leaf, ``cells[table]``."""

    block: NDArray[np.int32]
    codes: NDArray[np.int16]
    ethnicity: NDArray[np.int16]
    cells: Mapping[str, NDArray[np.int8]]

    def __post_init__(self) -> None:
        n = len(self.block)
        if (
            self.codes.shape != (n, RACE_CODES)
            or len(self.ethnicity) != n
            or any(len(c) != n for c in self.cells.values())
        ):
            raise InputError("block, codes, ethnicity and cells differ in length", where="records")
        if n and self.block.min() < 0:
            raise InputError("a negative block number", where="records")
        for codes in (self.codes, self.ethnicity):
            if n and not NO_CODE <= codes.min() <= codes.max() < MOST_CODES:
                raise InputError("a code of race or ethnicity has not four digits", where="records")
        for table, cell in self.cells.items():
            if n and not 0 <= cell.min() <= cell.max() < LEAVES[table]:
                raise InputError(
                    "a cell that its table does not have", where=f"records, table {table}"
                )

    def __len__(self) -> int:
        return len(self.block)


# What is measured of the groups of one level, in some of its regions.

#: The size of the table of a group that is not measured.
UNMEASURED = -1


@dataclass(frozen=True, eq=False, repr=False)
class GroupMeasurement(Frozen):
    """The measurements of some groups. Group ``g = r * iterations + i`` is the i-th iteration of
    the level in the r-th of ``regions``.

    ``only`` ``(iterations,)``: whether only a total is measured. ``first`` ``(groups,)``: the first
    stage, 0 if there is none. ``size`` ``(groups,)`` is the size of each group's table, whose
    answers are ``values[indptr[g] : indptr[g + 1]]``."""

    regions: NDArray[np.bytes_]
    only: NDArray[np.bool_]
    first: NDArray[np.int64]
    size: NDArray[np.int8]
    indptr: NDArray[np.int64]
    values: NDArray[np.int64]

    def __post_init__(self) -> None:
        groups = len(self.regions) * len(self.only)
        if not len(self.first) == len(self.size) == len(self.indptr) - 1 == groups:
            raise ReleaseError(
                "measurements are not of as many groups as there are", where="groups"
            )
        if (
            self.indptr[0] != 0
            or self.indptr[-1] != len(self.values)
            or (np.diff(self.indptr) < 0).any()
        ):
            raise ReleaseError(
                "measurements have not as many answers as they should", where="groups"
            )

    @property
    def iterations(self) -> int:
        return len(self.only)

    @property
    def region(self) -> NDArray[np.int64]:
        """Each group's index among the regions."""
        return np.repeat(np.arange(len(self.regions)), self.iterations)

    @property
    def iteration(self) -> NDArray[np.int64]:
        return np.tile(np.arange(self.iterations), len(self.regions))

    def of_size(self, size: int, answers: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The groups whose table has a size, and their answers ``(groups, answers)``."""
        groups = np.flatnonzero(self.size == size)
        return groups, self.values[self.indptr[groups][:, None] + np.arange(answers)]


# Totals of race and ethnic groups from an earlier publication: they decide the sizes of tables
# that are measured later.


@dataclass(frozen=True, eq=False, repr=False)
class GroupTotals(Frozen):
    """By type of region, of each group, ``(groups,)``: the id of its ``region``, the number of its
    ``iteration`` among those of a :class:`das.publications.detailed.model.iterations.Iterations`, and its published
    ``count``, which may be negative. In the order of regions, then of iterations; each group
    once."""

    region: Mapping[str, Codes]
    iteration: Mapping[str, NDArray[np.int32]]
    count: Mapping[str, NDArray[np.int64]]

    def __post_init__(self) -> None:
        if not self.region.keys() == self.iteration.keys() == self.count.keys():
            raise InputError("not the same types of regions everywhere", where="totals of groups")
        for kind, region in self.region.items():
            iteration = self.iteration[kind]
            if not len(region) == len(iteration) == len(self.count[kind]):
                raise InputError(
                    "regions, iterations and counts differ in length",
                    where=f"totals of groups, {kind}",
                )
            later = (region[1:] > region[:-1]) | (
                (region[1:] == region[:-1]) & (iteration[1:] > iteration[:-1])
            )
            if not later.all():
                raise InputError(
                    "groups are not sorted, or one is there twice",
                    where=f"totals of groups, {kind}",
                )

    def refuse_others(self, regions: Regions, where: object) -> None:
        """Raises :class:`InputError` where no group is in any of the ``regions``: the totals are of
        another place."""
        if not any(
            np.isin(region, regions.ids[kind]).any()
            for kind, region in self.region.items()
            if kind in regions.ids
        ):
            raise InputError(
                "has no group in any region of the geography",
                where=where,
                remedy="give the totals of the same states",
            )

    def states_without(self, regions: Regions) -> list[str]:
        """States without a group in any of their regions: nothing would be measured there."""
        within = [
            np.unique(r.astype("S2"))
            for kind, r in self.region.items()
            if kind not in ACROSS and len(r)
        ]
        return [s.decode() for s in regions.states if not any(s in r for r in within)]

    def __len__(self) -> int:
        return sum(map(len, self.region.values()))
