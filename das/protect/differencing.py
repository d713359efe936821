r"""Differencing: a line that is hidden in one place alone is the difference of the others.

Let two levels have tables, and let a line be among those of both. A *family* is a unit of the level
above with its parts below: the line of the unit is the sum of the lines of its parts. If it is
hidden in one member of a family alone, the others give it away. So somebody else of the family
must be hidden, too: the member with the smallest count that is not 0.

This is one equation at a time. Several together, and equations with the other lines of the places,
can still narrow a range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.model.spine import Spine
from das.protect.table_set import LineMatrix, TableSet

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
