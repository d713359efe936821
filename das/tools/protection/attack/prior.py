r"""What the lines of an area say about the records of each of its blocks, before one looks at the
block: a tie-break among records that the block's own lines allow.

Of all histograms with the area's lines, the one of greatest entropy, by iterative proportional
fitting: each table that counts a record once scales its lines to what is published, again and
again. Where an area publishes race by origin and sex by age it is their product. A line that the
area itself publishes counts; otherwise the sum over its blocks. A table that some blocks withhold
says less, and goes before the others, so that these have the last word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.tools.protection.attack.propagation import ReducedProgram, UnitLines
from das.tools.protection.attack.result import LARGEST_CODE, AttackLines, AttackOptions
from das.tools.protection.published import WITHHELD, ProtectedTables

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_SWEEPS = 30
#: Costs of records this close are a tie. With both margins of a table known, all records cost alike.
_TIE = 1e-3
#: The part of the shares that every possible cell has alike, and records that each line has besides
#: those published.
_ALIKE, _MORE = 0.01, 0.01


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A table: for each cell its line, -1 where none counts it; what is published of each line."""

    line: Ints
    wanted: Floats
    complete: bool


def shares(sources: list[tuple[AttackLines, Ints]]) -> Floats:
    """The share of each cell, ``(cells,)``, positive where records are possible, sum 1.
    ``sources``: lines of a level, and values of units of that level which make up the area,
    ``(units, lines)``; later ones have the last word."""
    possible = sources[0][0].possible
    x = possible / possible.sum()
    tables = [t for lines, values in sources for t in _tables(lines, values)]
    tables.sort(key=lambda t: t.complete)  # stable: among equals, as given
    if persons := max((float(t.wanted.sum()) for t in tables), default=0.0):
        x = x * persons
    for _ in range(_SWEEPS if len(tables) > 1 else 1):
        for t in tables:
            _scale(x, t)
    x /= max(x.sum(), 1e-300)
    x = (1 - _ALIKE) * x + _ALIKE * possible / possible.sum()
    return np.asarray(x / x.sum())


def _tables(lines: AttackLines, values: Ints) -> list[_Fitted]:
    """Those whose lines count no record twice, where some unit shows them."""
    shown = values != WITHHELD
    out = []
    for t in range(int(lines.table.max()) + 1):
        rows = np.flatnonzero(lines.table == t)
        part = lines.matrix[rows]
        if not shown[:, rows].any() or part.sum(axis=0).max() > 1:
            continue
        line = np.full(lines.cells, -1, dtype=np.int64)
        row, cell = part.nonzero()
        line[cell] = row
        wanted = np.where(shown[:, rows], values[:, rows], 0).sum(axis=0) + _MORE
        out.append(_Fitted(line, wanted.astype(float), bool(shown[:, rows].all())))
    return out


def _scale(x: Floats, t: _Fitted) -> None:
    """Scale lines to what is published; where that is incomplete, without changing their sum."""
    inside = t.line >= 0
    line = t.line[inside]
    now = np.bincount(line, weights=x[inside], minlength=len(t.wanted))
    wanted = t.wanted if t.complete else t.wanted * (now.sum() / t.wanted.sum())
    x[inside] *= (wanted / np.maximum(now, 1e-300))[line]


def costs(lines: AttackLines, program: ReducedProgram, share: Floats) -> Floats:
    """What a record of each class costs: minus the logarithm of its share, ``(classes,)``.

    A tie is broken by the code of a cell, whatever is published. So of two sets of records, one
    inside the other, the larger one's cheapest is the smaller one's, too, where it is in it. A line
    shown or hidden, and the order of the solver, move no tie."""
    part = np.bincount(program.of_class, weights=share[program.cells], minlength=program.classes)
    return np.asarray(_TIE * lines.cell_code[program.first] / LARGEST_CODE - np.log(part))


def dealt(counts: Ints, of_class: Ints, share: Floats) -> Ints:
    """The counts of classes dealt out to their cells by ``share``: each the floor of its part, and
    what is left to the largest remainders. ``of_class`` and ``share`` are ``(cells,)``.

    >>> dealt(np.array([3, 1]), np.array([0, 0, 1]), np.array([0.8, 0.2, 1.0])).tolist()
    [2, 1, 1]"""
    whole = np.bincount(of_class, weights=share, minlength=len(counts))
    part = counts[of_class] * share / whole[of_class]
    out = np.floor(part + 1e-9).astype(np.int64)
    left = counts - np.bincount(of_class, weights=out, minlength=len(counts)).astype(np.int64)
    if left.any():
        order = np.lexsort((out - part, of_class))
        first = np.searchsorted(of_class[order], np.arange(len(counts)))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order)) - first[of_class[order]]
        out += rank < left[of_class]
    return out


# Protected tables as an attack reads them.


@dataclass(frozen=True, eq=False)
class AttackedTables:
    """``lines`` of each level that has tables. ``around`` is the level of areas. Each area is
    attacked by itself."""

    published: ProtectedTables
    lines: dict[str, AttackLines]
    around: str

    @staticmethod
    def from_published(published: ProtectedTables, options: AttackOptions) -> AttackedTables:
        tables = published.tables
        lines = {
            level: AttackLines.from_lines(tables.lines(level), tables.schema)
            for level in published.levels
        }
        return AttackedTables(published, lines, AttackedTables.around_of(published, options))

    @staticmethod
    def around_of(published: ProtectedTables, options: AttackOptions) -> str:
        """The level of areas. Raises :class:`InputError` where ``options.around`` is no level above
        the lowest."""
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
