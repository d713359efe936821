r"""Rounding every line to a multiple of a base b.

Let :math:`t = q b + r`, :math:`0 \le r < b`, be the true count.

* ``random``: printed is :math:`q b` with probability :math:`1 - r / b`, else :math:`(q + 1) b`: at
  distance d with probability :math:`1 - d / b`. It is unbiased; its variance is :math:`r (b - r)`:
  2 for base 3 where r > 0, on average over residuals :math:`(b^2 - 1) / 6` (4/3, 4, 16.5 for bases
  3, 5, 10). The cell's key decides (:mod:`das.protect.cell_keys`), so the same persons are rounded
  in the same way in every table. The price of distance d is :math:`-\ln (1 - d / b)`, convex.
* ``nearest``: the nearest multiple, up where two are as near. No line is random and no value is
  likelier than another. Small groups vanish: with base 5, counts 1 and 2 are 0 everywhere.
* ``controlled``: a multiple next to the count, or a little farther, such that all sums of a unit
  hold (:mod:`das.protect.controlled_rounding`).

Multiples stay as they are, zeros too. Each total is rounded on its own, except where controlled.

*What is proved.* Nothing about attacks that combine lines. Intervals of overlapping lines often
leave one table.

Source: L. Willenborg, T. de Waal, Elements of Statistical Disclosure Control (2001), chapter 9;
Stats NZ rounds its censuses to base 3 at random, with seeds from the cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.protect.cell_keys import cell_keys, uniform
from das.protect.controlled_rounding import controlled
from das.protect.method import ProtectionMethod
from das.protect.published import LevelLines, ProtectedTables
from das.protect.study_records import StudyRecords
from das.protect.table_set import TableSet
from das.protect.unprotected import exact_lines

HOW = ("random", "nearest", "controlled")


@dataclass(frozen=True)
class Rounding(ProtectionMethod):
    """``base``: every printed count is a multiple of it; ``how``: ``random``, ``nearest`` or
    ``controlled``."""

    base: int = 3
    how: str = "random"

    name: ClassVar[str] = "rounding"

    def __post_init__(self) -> None:
        where = "method rounding"
        if not isinstance(self.base, int) or isinstance(self.base, bool) or self.base < 2:
            raise SpecError(f"base is {self.base!r}: it must be an integer from 2 on", where=where)
        if self.how not in HOW:
            raise SpecError(
                f"how is {self.how!r}", where=where, remedy=f"it can be {', '.join(HOW)}"
            )

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether it draws random numbers."""
        return self.how == "random"

    @property
    def label(self) -> str:
        words = {
            "random": "at random to",
            "nearest": "to the nearest",
            "controlled": "with sums to",
        }
        return f"rounded {words[self.how]} base {self.base}"

    @property
    def price(self) -> tuple[float, ...]:
        """Of the distances 0 to b - 1 of random rounding; else a zero."""
        if self.how != "random":
            return (0.0,)
        return tuple((-np.log1p(-np.arange(self.base) / self.base)).tolist())

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        exact = exact_lines(records.histogram(), records.spine, tables)
        levels = {}
        keys = cell_keys(records, tables, key) if self.how == "random" else {}
        for level, lines in exact.items():
            if self.how == "random":
                levels[level] = self._random(lines.value, uniform(keys[level]))
            elif self.how == "controlled":
                levels[level] = controlled(lines, tables.lines(level), self.base)
            else:
                levels[level] = self._nearest(lines.value)
        return ProtectedTables(records.spine, tables, levels)

    def _random(self, t: NDArray[np.int64], chance: NDArray[np.float64]) -> LevelLines:
        b = self.base
        down, r = np.divmod(t, b)
        y = b * (down + (chance < r / b))
        return LevelLines(np.maximum(y - b + 1, y > 0), y + b - 1, y, self.price)

    def _nearest(self, t: NDArray[np.int64]) -> LevelLines:
        b = self.base
        y = b * ((t + b // 2) // b)
        return LevelLines(np.maximum(y - b // 2, 0), y + (b - 1) // 2, y, self.price)
