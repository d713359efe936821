"""What people read out of published tables: counts as sums of lines, each made of the fewest lines
of one table.

A *use* is a set of columns, each the count of the records in a set of cells. Where some
lines of one table make up a column without overlap, the public has the sum of their values. Where
no table has such lines, it has a guess alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import SpecError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.protect.published import LevelLines
from das.protect.table_set import TableSet
from das.tables import Table


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
        lines, begin = len(tables.lines(level)), 0
        best: list[NDArray[np.int64] | None] = [None] * len(use.labels)
        size = np.asarray(use.matrix.sum(axis=1)).ravel()
        for found in tables.tables[level]:
            mine = _tiles(found, use.matrix, size)
            for j, rows in enumerate(mine):
                known = best[j]
                if rows is not None and (known is None or len(rows) < len(known)):
                    best[j] = rows + begin
            begin += len(found.columns)
        column = np.repeat(np.arange(len(best)), [0 if b is None else len(b) for b in best])
        line = np.concatenate([np.zeros(0, dtype=np.int64), *(b for b in best if b is not None)])
        ones = np.ones(len(line), dtype=np.int64)
        matrix = sparse.csr_array((ones, (column, line)), shape=(len(best), lines))
        return TiledUse(use, matrix, np.array([b is not None for b in best]))

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


def _tiles(
    table: Table, columns: sparse.csr_array, size: NDArray[np.int64]
) -> list[NDArray[np.int64] | None]:
    """For each column the lines of a table that make it up, the largest first; ``None`` where they
    do not."""
    masks = sparse.csr_array(table.masks).astype(np.int64)
    width = np.asarray(masks.sum(axis=1)).ravel()
    inside = (masks @ columns.T).toarray()  # (lines, columns)
    out: list[NDArray[np.int64] | None] = []
    for j, wanted in enumerate(size.tolist()):
        rows = np.flatnonzero((inside[:, j] == width) & (width > 0))
        chosen, covered = [], np.zeros(masks.shape[1], dtype=bool)
        for i in rows[np.argsort(-width[rows], kind="stable")].tolist():
            cells = masks.indices[masks.indptr[i] : masks.indptr[i + 1]]
            if not covered[cells].any():
                covered[cells] = True
                chosen.append(i)
        out.append(np.array(sorted(chosen)) if covered.sum() == wanted else None)
    return out
