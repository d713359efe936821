"""What an attack says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from das.errors import InputError, UserError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.tools.protection.published import LineMatrix


class AttackStatus(IntEnum):
    """How the guess of a unit came about. ``UNIQUE``: the lines allow these records alone, proved.
    ``SOLVED``: records that obey every line, likeliest where lines are perturbed. ``GAP``: the same
    at the time limit, perhaps not the likeliest. ``TIME_OUT``: no records within the limit.
    ``INFEASIBLE``: no records obey the lines. ``REFUSED``: the solver's numbers, rounded to
    integers, break a line. ``RECORDS``: the office publishes records. ``DEALT``: only the
    number of persons is known here, and those of an area around were dealt out. ``SKIPPED``: not
    attacked."""

    UNIQUE = 0
    SOLVED = 1
    GAP = 2
    TIME_OUT = 3
    INFEASIBLE = 4
    REFUSED = 5
    RECORDS = 6
    DEALT = 7
    SKIPPED = 8

    @property
    def guessed(self) -> bool:
        """Whether there is a guess."""
        return self in _GUESSED


_GUESSED = frozenset(
    {
        AttackStatus.UNIQUE,
        AttackStatus.SOLVED,
        AttackStatus.GAP,
        AttackStatus.RECORDS,
        AttackStatus.DEALT,
    }
)


@dataclass(frozen=True, eq=False)
class Reconstruction(Frozen):
    """The guess at everybody's record in the units of the lowest level, ``(units, cells)``;
    ``status`` ``(units,)``, numbers of :class:`AttackStatus`; ``variability`` ``(units,)`` in
    percent, nan where it was not measured; ``seconds`` ``(units,)``."""

    histogram: Histogram
    status: NDArray[np.int8]
    variability: NDArray[np.float64]
    seconds: NDArray[np.float64]

    def __post_init__(self) -> None:
        units = self.histogram.units
        if not len(self.status) == len(self.variability) == len(self.seconds) == units:
            raise InputError("units differ in number", where="reconstruction")

    def count(self, status: AttackStatus) -> int:
        """Units with this status."""
        return int((self.status == status).sum())

    @property
    def unique(self) -> NDArray[np.bool_]:
        """Units whose records the lines determine, ``(units,)``."""
        return self.status == AttackStatus.UNIQUE

    @property
    def mean_variability(self) -> float:
        """The mean of the variability over persons of the guess, in percent; nan where no unit has
        one (Bureau: cumsolvar)."""
        known, persons = ~np.isnan(self.variability), self.histogram.totals()
        if not persons[known].sum():
            return float("nan")
        return float(np.average(self.variability[known], weights=persons[known]))

    @staticmethod
    def merged(parts: Sequence[Reconstruction]) -> Reconstruction:
        """One of several that attacked different units of the same tree."""
        if not parts:
            raise InputError("there is no part", where="reconstruction")
        status = np.stack([p.status for p in parts])
        if ((status != AttackStatus.SKIPPED).sum(axis=0) > 1).any():
            raise InputError("two parts attacked the same unit", where="reconstruction")
        of = (status != AttackStatus.SKIPPED).argmax(axis=0)
        every = np.arange(len(of))
        unit, cell, count = (
            np.concatenate([getattr(p.histogram, name) for p in parts])
            for name in ("unit", "cell", "count")
        )
        return Reconstruction(
            Histogram.from_triplets(len(of), parts[0].histogram.cells, unit, cell, count),
            status[of, every],
            np.stack([p.variability for p in parts])[of, every],
            np.stack([p.seconds for p in parts])[of, every],
        )


# How an attack goes about its work.


@dataclass(frozen=True)
class AttackOptions:
    """``seconds``: the limit of each integer program of a unit. ``gap``: the relative gap at which
    a program with prices counts as solved. ``variability``: whether to measure how far solutions
    can differ, which also proves that one is the only one. ``around``: the level whose lines are
    the prior; absent, the lowest level above the blocks that has tables, or else the next level.
    ``prior_weight``: what the prior counts for next to prices, little enough to be a tie-break.
    ``few``: with as many possible cells as this, an attack on perturbed lines tries no subset of
    them first. ``joint_seconds``: the limit of a program of a whole area, 0 for none."""

    seconds: float = 10.0
    gap: float = 1e-3
    variability: bool = True
    around: str | None = None
    prior_weight: float = 0.003
    few: int = 60
    joint_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("seconds", "gap", "prior_weight"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is not above zero", where="options of an attack")
        if self.few < 0 or self.joint_seconds < 0:
            raise UserError("few or joint_seconds is below zero", where="options of an attack")


# The lines of a level, prepared for an attack on many units.

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Sums of these over lines, or over cells, are the fingerprint of a set; they stay below 2^63.
LARGEST_CODE = 1 << 48


@dataclass(frozen=True, eq=False)
class AttackLines:
    """``matrix``: whether a line counts a cell, ``(lines, cells)``, and ``by_cell`` its transpose;
    ``possible``: the cells that are no structural zeros; ``family`` ``(lines,)``: lines whose
    tables separate the same attributes, or some of the same, have the same number, and those of
    tables with one line -1; ``total``: the line that counts every possible cell, -1 if there is
    none; ``line_code`` and ``cell_code``: large numbers whose sums tell sets apart."""

    matrix: sparse.csr_array
    by_cell: sparse.csr_array
    possible: Bools
    table: Ints
    names: tuple[str, ...]
    family: Ints
    total: int
    line_code: Ints
    cell_code: Ints

    @staticmethod
    def from_lines(lines: LineMatrix, schema: Schema) -> AttackLines:
        """Those of one level of a table set."""
        matrix, possible = lines.matrix, schema.possible.ravel()
        rng = np.random.default_rng(20100401)
        counted = matrix @ possible.astype(np.int64)
        every = np.flatnonzero(counted == possible.sum())
        return AttackLines(
            matrix,
            sparse.csr_array(matrix.T),
            possible,
            lines.table,
            lines.names,
            _families(matrix, lines.table, schema),
            int(every[0]) if len(every) else -1,
            rng.integers(1, LARGEST_CODE, matrix.shape[0]),
            rng.integers(1, LARGEST_CODE, matrix.shape[1]),
        )

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def cells(self) -> int:
        return int(self.matrix.shape[1])


def _families(matrix: sparse.csr_array, table: Ints, schema: Schema) -> Ints:
    """A table separates an attribute where its lines count different levels of it."""
    tables, attributes = int(table.max()) + 1, schema.attributes
    separates = np.zeros((tables, len(attributes)), dtype=bool)
    for i, attribute in enumerate(attributes):
        level = schema.level_of(attribute.name)
        each = sparse.csr_array(
            (np.ones(len(level), dtype=np.int64), (np.arange(len(level)), level)),
            shape=(len(level), len(attribute.levels)),
        )
        counted = (matrix @ each).toarray() > 0
        first = np.searchsorted(table, np.arange(tables))
        differs = (counted != counted[first][table]).any(axis=1)
        np.logical_or.at(separates[:, i], table, differs)
    together = separates.T.astype(np.int64) @ separates
    _, of_attribute = connected_components(sparse.csr_array(together), directed=False)
    family = np.where(separates.any(axis=1), of_attribute[separates.argmax(axis=1)], -1)
    return family.astype(np.int64)[table]
