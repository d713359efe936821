r"""The audit of a family: what a unit's lines and those of its parts say together.

A unit's line is the sum of the same cells over its parts. So the lines of a family are those of one
large unit, whose cells are the cells of each part: the rows of the parts, each over its own cells,
and those of the unit over all. The ranges of its rows (:func:`das.tools.protection.truth.methods.complementary.ranges`) use every
equation between the two levels. They are within those of the parts audited one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.model.frozen import Frozen
from das.tools.protection.published import UNBOUNDED, ProtectedTables
from das.tools.protection.truth.methods.complementary import DistinctLines


@dataclass(frozen=True, eq=False)
class FamilyLines(Frozen):
    """``lines``: those of the family as of one unit; ``parts``: the numbers of the parts; ``row``:
    the row of each line of each part, ``(parts, lines)``, -1 for a line that is 0."""

    lines: DistinctLines
    parts: NDArray[np.int64]
    row: NDArray[np.int64]

    @staticmethod
    def of(published: ProtectedTables, above: str, unit: int, here: str) -> FamilyLines:
        """The family of a unit of the level ``above`` and its parts at the level ``here``."""
        tables, spine = published.tables, published.spine
        top, low = published.levels[above], published.levels[here]
        own, sums = tables.lines(here).matrix, tables.lines(above).matrix
        parts = np.flatnonzero(spine.up(here, above) == unit)
        both = sparse.vstack([own, sums], format="csr")
        free = np.zeros(sums.shape[0], dtype=np.int64)
        known = np.where(top.upper[unit] == 0, 0, UNBOUNDED)  # of the unit's lines in one part
        pieces, rows, start = [], [], 0
        for part in parts:
            piece = DistinctLines.from_bounds(
                both,
                np.concatenate([low.lower[part], free]),
                np.concatenate([low.upper[part], known]),
                UNBOUNDED,
            )
            pieces.append(piece)
            rows.append(np.where(piece.row < 0, -1, piece.row + start))
            start += len(piece.lower)
        row = np.array(rows)[:, : own.shape[0]]
        added = np.hstack([_sums(p, own.shape[0]) for p in pieces])
        kept = added.any(axis=1)
        every = np.vstack([sparse.block_diag([p.rows for p in pieces]).toarray(), added[kept]])
        most = np.where(top.upper[unit] < UNBOUNDED, top.upper[unit], np.inf)
        lower = np.concatenate([*(p.lower for p in pieces), top.lower[unit][kept]])
        upper = np.concatenate([*(p.upper for p in pieces), most[kept]])
        return FamilyLines(DistinctLines(every, row.ravel(), lower, upper), parts, row)


def _sums(piece: DistinctLines, own: int) -> NDArray[np.float64]:
    """The cells of a part that each line of the unit counts, ``(lines of the unit, cells)``."""
    row = piece.row[own:]
    out = np.zeros((len(row), piece.rows.shape[1]))
    out[row >= 0] = piece.rows[row[row >= 0]]
    return out
