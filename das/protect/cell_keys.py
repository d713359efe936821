r"""Cell keys: a number for each set of persons, the same in every table that counts them.

Each person has a *record key*, uniform on the integers below :math:`2^{64}`, drawn once. The *cell
key* of a cell is the sum of the keys of its persons modulo :math:`2^{64}`. It is uniform, too,
unless the cell is empty, and a function of the cell's persons alone. A method that decides by cell
keys treats the same persons in the same way wherever they are counted. So nothing can be averaged
away by asking twice.

Source: B. Fraser, J. Wooton, A proposed method for confidentialising tabular output to protect
against differencing, UNECE work session on statistical data confidentiality (2005)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.protect.method import generator
from das.protect.study_records import StudyRecords
from das.protect.table_set import TableSet


def cell_keys(records: StudyRecords, tables: TableSet, key: bytes) -> dict[str, NDArray[np.uint64]]:
    """The key of each line of each level, ``(units, lines)``."""
    drawn = generator(key, "record keys").integers(0, 2**64, size=len(records), dtype=np.uint64)
    spine, cells = records.spine, records.schema.cells
    out = {}
    for level in tables.tables:
        unit = spine.up(spine.levels[-1], level)[records.place]
        sums = sparse.coo_array(
            (drawn, (unit, records.cell)), shape=(spine.units(level), cells)
        ).tocsr()
        out[level] = (sums @ tables.lines(level).matrix.T.astype(np.uint64)).toarray()
    return out


def uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Cell keys as numbers above 0 and below 1, the middles of :math:`2^{52}` intervals.

    >>> uniform(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64)).round(6).tolist()
    [0.0, 0.5, 1.0]
    """
    return ((keys >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
