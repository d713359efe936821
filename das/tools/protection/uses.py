"""What people read out of published tables: counts as sums of lines, each made of the fewest lines
of one table.

A *use* is a set of columns, each the count of the records in a set of cells. Where some
lines of one table make up a column without overlap, the public has the sum of their values. Where
no table has such lines, it has a guess alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import SpecError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.tools.protection.published import LevelLines
from das.tools.protection.table_set import TableSet


@dataclass(frozen=True, eq=False)
class TableUse(Frozen):
    """``matrix``: whether column ``j`` counts cell ``k``, ``(columns, cells)``; ``labels`` name the
    columns, ``(columns,)``."""

    name: str
    title: str
    labels: tuple[str, ...]
    matrix: sparse.csr_array

    @staticmethod
    def of_query(name: str, title: str, schema: Schema, query: str) -> TableUse:
        """The answers to a query of the schema."""
        q = schema.query(query)
        ones = np.ones(schema.cells, dtype=np.int64)
        at = (np.asarray(q.index), np.arange(schema.cells))
        matrix = sparse.csr_array((ones, at), shape=(q.answers, schema.cells))
        return TableUse(name, title or q.title, tuple(q.captions("; ")), matrix)

    @staticmethod
    def of_tables(name: str, title: str, tables: TableSet, wanted: tuple[str, ...]) -> TableUse:
        """Every line of some tables, wherever in the set they are. Raises :class:`SpecError` for a
        table that the set has not."""
        known = {t.name: t for ts in tables.tables.values() for t in ts}
        if odd := [w for w in wanted if w not in known]:
            raise SpecError(
                f"there is no table {odd[0]!r}",
                where=f"uses.{name}.tables",
                remedy=f"there are {', '.join(known)}",
            )
        chosen = [known[w] for w in wanted]
        masks = sparse.vstack([sparse.csr_array(t.masks) for t in chosen], format="csr")
        labels = tuple(f"{t.name}: {label}" for t in chosen for label in t.labels)
        return TableUse(name, title or ", ".join(wanted), labels, masks.astype(np.int64))

    @staticmethod
    def of_lines(tables: TableSet, level: str) -> TableUse:
        """Every line of a level."""
        lines = tables.lines(level)
        return TableUse("lines", "lines", lines.names, lines.matrix)

    def counts(self, h: Histogram) -> NDArray[np.int64]:
        """The columns of a histogram, ``(units, columns)``."""
        rows = sparse.csr_array((h.count, h.cell, h.indptr), shape=(h.units, h.cells))
        return np.asarray((rows @ self.matrix.T).toarray())


@dataclass(frozen=True, eq=False)
class TiledUse(Frozen):
    """A use at a level: ``tiles`` says whether column ``j`` is made of line ``i`` there, ``(columns,
    lines)``; ``tiled`` whether there are such lines, ``(columns,)``."""

    use: TableUse
    tiles: sparse.csr_array
    tiled: NDArray[np.bool_]

    @staticmethod
    def of(use: TableUse, tables: TableSet, level: str) -> TiledUse:
        """For every column the fewest lines of one table at ``level`` that make it up."""
        of_level = tables.lines(level)
        lines, table = of_level.matrix, of_level.table.tolist()
        width, size = (np.asarray(m.sum(axis=1)).ravel() for m in (lines, use.matrix))
        common = sparse.csr_array(use.matrix @ lines.T)  # cells in common, (columns, lines)
        common.sort_indices()
        column, within = common.nonzero()
        inside = common.data == width[within]
        column, within = column[inside], within[inside]
        ends = np.searchsorted(column, np.arange(len(size) + 1))
        of_cells = np.split(lines.indices, lines.indptr[1:-1])
        best: list[list[int]] = []
        for j, cells in enumerate(size.tolist()):
            mine = within[ends[j] : ends[j + 1]]
            mine = mine[np.argsort(-width[mine], kind="stable")].tolist()
            by_table: dict[int, list[int]] = {}
            for i in mine:
                by_table.setdefault(table[i], []).append(i)
            found = (_tiling(some, cells, of_cells) for _, some in sorted(by_table.items()))
            best.append(min((f for f in found if f), key=len, default=[]))
        column = np.repeat(np.arange(len(best)), [len(b) for b in best])
        line = np.array([i for b in best for i in b], dtype=np.int64)
        ones = np.ones(len(line), dtype=np.int64)
        matrix = sparse.csr_array((ones, (column, line)), shape=(len(best), len(width)))
        return TiledUse(use, matrix, np.array([bool(b) for b in best]) | (size == 0))

    def estimate(
        self, lines: LevelLines, guessed_lines: NDArray[np.int64], guessed: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """What the public has for each unit and column, and whether all of it is published;
        ``(units, columns)`` both. ``guessed_lines`` and ``guessed`` are a guess of the lines and of
        the columns, for what is not shown."""
        shown = lines.shown
        values = np.where(shown, lines.value, guessed_lines)
        whole = (~shown).astype(np.int64) @ self.tiles.T
        summed = values @ self.tiles.T
        return np.where(self.tiled, summed, guessed), self.tiled & (whole == 0)


def _tiling(lines: list[int], size: int, of_cells: Sequence[NDArray[np.int32]]) -> list[int] | None:
    """Of lines of one table, the largest first, those that together have ``size`` cells without
    overlap: each that fits next to those before it."""
    chosen, covered = [], set[int]()
    for i in lines:
        cells = of_cells[i].tolist()
        if covered.isdisjoint(cells):
            covered.update(cells)
            chosen.append(i)
    return sorted(chosen) if len(covered) == size else None
