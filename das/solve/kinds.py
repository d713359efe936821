"""Matrices of children. Many are alike, so one of each kind is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Kinds:
    """``matrices`` ``(kinds, cells, cells)``, and which of them is each child's, ``kind``
    ``(children,)``.
    """

    matrices: Array
    kind: NDArray[np.intp]

    def __post_init__(self) -> None:
        if self.matrices.ndim != 3 or not np.array_equal(
            np.unique(self.kind), np.arange(len(self.matrices))
        ):
            raise ValueError(
                "matrices must be (kinds, cells, cells), and each kind that of a child"
            )
