"""Protected tables as an attack reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.protect.published import ProtectedTables
from das.risk.reconstruction.lines import AttackLines
from das.risk.reconstruction.options import AttackOptions
from das.risk.reconstruction.prior import shares
from das.risk.reconstruction.reduced import UnitLines

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttackedTables:
    """``lines`` of each level that has tables. ``around`` is the level of areas. Each area is
    attacked by itself."""

    published: ProtectedTables
    lines: dict[str, AttackLines]
    around: str

    @staticmethod
    def of(published: ProtectedTables, options: AttackOptions) -> AttackedTables:
        tables = published.tables
        lines = {
            level: AttackLines.of(tables.lines(level), tables.schema) for level in published.levels
        }
        return AttackedTables(published, lines, AttackedTables.around_of(published, options))

    @staticmethod
    def around_of(published: ProtectedTables, options: AttackOptions) -> str:
        """The level of areas. Raises :class:`InputError` where ``options.around`` is no level above
        the lowest.
        """
        levels = published.spine.levels
        above = levels[:-1] or levels
        tabulated = [level for level in above if level in published.levels]
        around = options.around or (tabulated or above)[-1]
        if around not in above:
            raise InputError(
                f"{around!r} is no level above {levels[-1]!r}",
                where="reconstruction",
                remedy=f"choose {', '.join(above)}",
            )
        return around

    @property
    def lowest(self) -> str:
        return self.published.spine.levels[-1]

    def lines_of(self, level: str, unit: int) -> UnitLines:
        """What is published about a unit."""
        of = self.published.levels[level]
        return UnitLines(of.lower[unit], of.upper[unit], of.value[unit], of.price)

    def prior(self, area: int, units: Ints) -> Floats:
        """The shares of cells in an area with these ``units`` of the lowest level."""
        known = ((self.lowest, units), (self.around, np.array([area])))
        sources = {
            level: (self.lines[level], self.published.levels[level].value[of])
            for level, of in known
            if level in self.lines
        }
        if not sources:
            possible = self.published.tables.schema.possible.ravel()
            return np.asarray(possible / possible.sum())
        return shares(list(sources.values()))
