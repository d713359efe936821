"""Table sets: the lines that an office publishes, for the units of each level.

A *line* is one number of a published table: the count of the records whose cell is in a set of
cells. As an operator on histograms it is a row of zeros and ones, :math:`y = Q h`; lines overlap,
so unlike those of a query (:mod:`das.model.query`) they say some things several times over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.tables import Table


@dataclass(frozen=True, eq=False)
class LineMatrix:
    """The lines of some tables. ``matrix``: whether line ``i`` counts cell ``k``, ``(lines,
    cells)``, ones of int64; ``names``: the field names, ``(lines,)``, such as ``P0120005``;
    ``table``: the number of each line's table, ``(lines,)``."""

    matrix: sparse.csr_array
    names: tuple[str, ...]
    table: NDArray[np.int64]

    @staticmethod
    def of(tables: tuple[Table, ...]) -> LineMatrix:
        """Raises :class:`InputError` where a column counts some records more than once."""
        masks = [sparse.csr_array(t.masks) for t in tables]
        return LineMatrix(
            sparse.vstack(masks, format="csr").astype(np.int64),
            tuple(name for t in tables for name in t.columns),
            np.repeat(np.arange(len(tables)), [len(t.columns) for t in tables]),
        )

    def __len__(self) -> int:
        return len(self.names)

    def counts(self, h: Histogram) -> NDArray[np.int64]:
        """``Q h`` for every unit, ``(units, lines)``. Raises :class:`InputError` for a histogram of
        another schema."""
        if h.cells != self.matrix.shape[1]:
            raise InputError(
                f"the histogram has {h.cells} cells, the lines count {self.matrix.shape[1]}",
                where="table set",
            )
        rows = sparse.csr_array((h.count, h.cell, h.indptr), shape=(h.units, h.cells))
        return (rows @ self.matrix.T).toarray()


@dataclass(frozen=True, eq=False)
class TableSet(Frozen):
    """The tables of each level whose units have some, over the cells of one schema."""

    name: str
    schema: Schema
    tables: Mapping[str, tuple[Table, ...]]

    def __post_init__(self) -> None:
        if not self.tables or not all(self.tables.values()):
            raise InputError(
                "a level has no table",
                where=f"table set {self.name!r}",
                remedy="name levels with tables alone",
            )
        for level, tables in self.tables.items():
            names = [c for t in tables for c in t.columns]
            if len(set(names)) != len(names):
                raise InputError(
                    "two lines have the same name", where=f"table set {self.name!r}, {level}"
                )
            if odd := [t.name for t in tables if t.cells != self.schema.cells]:
                raise InputError(
                    f"table {odd[0]} counts the cells of another schema",
                    where=f"table set {self.name!r}, {level}",
                )

    @cached_property
    def _lines(self) -> dict[str, LineMatrix]:
        return {}

    def lines(self, level: str) -> LineMatrix:
        """The lines of a level. Raises :class:`InputError` where it has none."""
        if level not in self.tables:
            raise InputError(
                f"level {level!r} has no table",
                where=f"table set {self.name!r}",
                remedy=f"there are tables of {', '.join(self.tables)}",
            )
        if level not in self._lines:
            self._lines[level] = LineMatrix.of(self.tables[level])
        return self._lines[level]

    def __getstate__(self) -> dict[str, object]:
        """Another process makes the matrices itself."""
        return {k: v for k, v in self.__dict__.items() if k != "_lines"}
