"""How often intervals hold the truth: by class of the published count, which a reader knows, and of
the true one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.model.error_rows import CoverageRow

Ints = NDArray[np.int64]
#: The first count of each class, and what it is called: those of Ashmead et al. (2024).
FIRST = (0, 1, 5, 11, 25, 100)
SIZES = ("0", "1-4", "5-10", "11-24", "25-99", "100+")
BY = ("published", "true")


@dataclass
class CoverageTally:
    """Coverage of one table at one level; arrays ``(by, classes)``. ``first``: where the classes
    begin."""

    first: tuple[int, ...] = FIRST
    size: Ints = field(init=False)
    held: Ints = field(init=False)
    width: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.size, self.held, self.width = (
            np.zeros((len(BY), len(self.first)), dtype=np.int64) for _ in range(3)
        )

    def add(self, true: Ints, published: Ints, lower: Ints, upper: Ints) -> None:
        """Counts and the ends of their intervals, arrays of one shape."""
        inside, wide = (lower <= true) & (true <= upper), upper - lower
        for i, count in enumerate((published, true)):
            at = (np.searchsorted(self.first, count.ravel(), side="right") - 1).astype(np.int64)
            self.size[i] += np.bincount(at, minlength=len(self.first))
            self.held[i] += np.bincount(at[inside.ravel()], minlength=len(self.first))
            np.add.at(self.width[i], at, wide.ravel())

    def rows(self, level: str, table: str) -> list[CoverageRow]:
        """A row for each class that has any count."""
        return [
            CoverageRow(
                level,
                table,
                by,
                name,
                int(n),
                float(self.held[i, j] / n),
                float(self.width[i, j] / n),
            )
            for i, by in enumerate(BY)
            for j, name in enumerate(SIZES)
            if (n := self.size[i, j])
        ]


def coverage_rows(
    tallies: Mapping[tuple[str, str], CoverageTally], levels: Iterable[str]
) -> list[CoverageRow]:
    """All tables of each level, named ``all``, and then each by itself."""
    out = []
    for level in levels:
        of_level = {table: t for (lv, table), t in tallies.items() if lv == level}
        every = CoverageTally()
        for t in of_level.values():
            every.size, every.held, every.width = (
                every.size + t.size,
                every.held + t.held,
                every.width + t.width,
            )
        out += every.rows(level, "all")
        for table, t in of_level.items():
            out += t.rows(level, table)
    return out
