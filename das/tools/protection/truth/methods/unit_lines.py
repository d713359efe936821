r"""The lines of one unit without what repeats: the linear programs of an audit are about these.

A line that is known to be 0 makes each of its cells 0. Cells that the same lines count are added
up to one. Lines with the same cells are one row. What remains is small: a block of 50 persons has
some 30 cells and 100 rows of the 9,576 and 773 that its tables have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.spine import Spine
from das.tools.protection.published import LineMatrix, TableSet


@dataclass(frozen=True, eq=False)
class DistinctLines(Frozen):
    """``rows``: which cells each row counts, ``(rows, cells)``, 0 or 1; ``row``: the row of each
    line, ``(lines,)``, -1 for a line that is 0; ``lower`` and ``upper``: what is known of each
    row, ``(rows,)``, floats, the latter infinite where nothing is known."""

    rows: NDArray[np.float64]
    row: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @staticmethod
    def from_bounds(
        matrix: sparse.csr_array, lower: NDArray[np.int64], upper: NDArray[np.int64], unbounded: int
    ) -> DistinctLines:
        """From the bounds of a unit's lines, ``(lines,)``; ``unbounded`` is the upper bound of a
        line that is unknown. Raises :class:`InputError` where the lines of one row
        contradict each other."""
        zero = upper == 0
        dead = np.asarray(matrix[zero].sum(axis=0)).ravel() > 0
        kept = np.flatnonzero(~dead)
        part = matrix[:, kept]
        alive = np.flatnonzero(np.diff(part.indptr) > 0)
        dense = part[alive].toarray().astype(np.float64)
        if dense.size:
            dense = np.unique(dense, axis=1)
            dense = dense[:, dense.any(axis=0)]
        rows, at = np.unique(dense, axis=0, return_inverse=True)
        row = np.full(len(lower), -1)
        row[alive] = at.ravel()
        low, high = np.zeros(len(rows)), np.full(len(rows), np.inf)
        np.maximum.at(low, row[alive], lower[alive])
        np.minimum.at(high, row[alive], np.where(upper < unbounded, upper, np.inf)[alive])
        if (low > high).any() or (lower[row < 0] > 0).any():
            raise InputError("lines of the same cells contradict each other", where="unit's lines")
        return DistinctLines(rows, row, low, high)

    @property
    def exact(self) -> NDArray[np.bool_]:
        """The rows that are known, ``(rows,)``."""
        return self.lower == self.upper


# Differencing: a line that is hidden in one place alone is the difference of the others.
#
# Let two levels have tables, and let a line be among those of both. A *family* is a unit of the level
# above with its parts below: the line of the unit is the sum of the lines of its parts. If it is
# hidden in one member of a family alone, the others give it away. So somebody else of the family
# must be hidden, too: the member with the smallest count that is not 0.
#
# This is one equation at a time. Several together, and equations with the other lines of the places,
# can still narrow a range.

#: By level, whether each line is hidden, or its count, ``(units, lines)``.
Hidden = Mapping[str, NDArray[np.bool_]]
LineCounts = Mapping[str, NDArray[np.int64]]


def partners(hidden: Hidden, counts: LineCounts, spine: Spine, tables: TableSet) -> Hidden:
    """The lines to hide besides, by level, such that no line is hidden alone in its family."""
    out = {level: np.zeros_like(h) for level, h in hidden.items()}
    for above, here, up, down in _shared(spine, tables):
        parent = spine.up(here, above)
        for mine, theirs in zip(up, down, strict=True):
            members = np.concatenate([np.arange(spine.units(above)), parent])
            secret = np.concatenate([hidden[above][:, mine], hidden[here][:, theirs]])
            count = np.concatenate([counts[above][:, mine], counts[here][:, theirs]])
            alone = np.bincount(members, secret, minlength=spine.units(above)) == 1
            free = np.flatnonzero(alone[members] & ~secret & (count > 0))
            order = free[np.lexsort((-free, count[free], members[free]))]
            first = order[np.diff(members[order], prepend=-1) != 0]
            units = spine.units(above)
            out[above][first[first < units], mine] = True
            out[here][first[first >= units] - units, theirs] = True
    return out


def _shared(
    spine: Spine, tables: TableSet
) -> Iterator[tuple[str, str, NDArray[np.int64], NDArray[np.int64]]]:
    """Two levels next to each other among those with tables, and the numbers at each of the lines
    that both have."""
    levels = [level for level in spine.levels if level in tables.tables]
    for above, here in pairwise(levels):
        known = {cells: i for i, cells in enumerate(_cells(tables.lines(above)))}
        lines = [(known[c], j) for j, c in enumerate(_cells(tables.lines(here))) if c in known]
        up, down = np.array(lines, dtype=np.int64).reshape(-1, 2).T
        yield above, here, up, down


def _cells(lines: LineMatrix) -> list[bytes]:
    """The cells of each line."""
    m = lines.matrix.sorted_indices()
    return [m.indices[a:b].tobytes() for a, b in zip(m.indptr, m.indptr[1:], strict=False)]
