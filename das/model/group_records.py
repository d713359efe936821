"""Records of the Detailed DHC: where a person lives, the codes of race and ethnicity that they
reported, and their cell of each table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.adaptive import PRODUCTS
from das.model.closed import Closed
from das.model.frozen import Frozen
from das.model.population import MOST_CODES, NO_CODE, RACE_CODES

LEAVES = {table.name: table.leaves for product in PRODUCTS.values() for table in product.tables}


@dataclass(frozen=True, eq=False, repr=False)
class GroupRecords(Closed, Frozen):
    """For each record, ``(n,)``: ``block``, the number of its block in a
    :class:`das.model.population.Regions`; ``codes`` of race ``(n, 8)`` in the reported order, 0 for
    none; the code of ``ethnicity``; and by table its leaf, ``cells[table]``."""

    block: NDArray[np.int32]
    codes: NDArray[np.int16]
    ethnicity: NDArray[np.int16]
    cells: Mapping[str, NDArray[np.int8]]

    def __post_init__(self) -> None:
        n = len(self.block)
        if (
            self.codes.shape != (n, RACE_CODES)
            or len(self.ethnicity) != n
            or any(len(c) != n for c in self.cells.values())
        ):
            raise InputError("block, codes, ethnicity and cells differ in length", where="records")
        if n and self.block.min() < 0:
            raise InputError("a negative block number", where="records")
        for codes in (self.codes, self.ethnicity):
            if n and not NO_CODE <= codes.min() <= codes.max() < MOST_CODES:
                raise InputError("a code of race or ethnicity has not four digits", where="records")
        for table, cell in self.cells.items():
            if n and not 0 <= cell.min() <= cell.max() < LEAVES[table]:
                raise InputError(
                    "a cell that its table does not have", where=f"records, table {table}"
                )

    def __len__(self) -> int:
        return len(self.block)

    @staticmethod
    def joined(parts: Iterable[GroupRecords], tables: Iterable[str]) -> GroupRecords:
        """One after the other, with the cells of these tables."""
        given = list(parts)
        return GroupRecords(
            np.concatenate([np.zeros(0, dtype=np.int32), *(p.block for p in given)]),
            np.concatenate([np.zeros((0, RACE_CODES), dtype=np.int16), *(p.codes for p in given)]),
            np.concatenate([np.zeros(0, dtype=np.int16), *(p.ethnicity for p in given)]),
            {
                t: np.concatenate([np.zeros(0, dtype=np.int8), *(p.cells[t] for p in given)])
                for t in tables
            },
        )
