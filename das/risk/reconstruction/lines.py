"""The lines of a level, prepared for an attack on many units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from das.model.schema import Schema
from das.protect.table_set import LineMatrix

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
    def of(lines: LineMatrix, schema: Schema) -> AttackLines:
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
