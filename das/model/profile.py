"""What a table of persons looks like: for each column, its values and which row has which.
Confidential: it is the table; only a draft of a configuration is made from it, and its user is told
what of the data stands in that."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen


@dataclass(frozen=True, eq=False)
class ColumnProfile(Frozen):
    """``values`` are the distinct values but the empty one; row ``i`` has number ``index[i]`` of
    them, -1 for none.
    """

    name: str
    values: tuple[str, ...] = field(repr=False)
    index: NDArray[np.int64] = field(repr=False)

    @property
    def empty(self) -> int:
        """Rows without a value."""
        return int((self.index < 0).sum())

    def common(self, least: int) -> tuple[str, ...]:
        """The values of at least so many rows."""
        rows = np.bincount(self.index[self.index >= 0], minlength=len(self.values))
        return tuple(v for v, n in zip(self.values, rows, strict=True) if n >= least)

    @property
    def whole(self) -> bool:
        """True if all values are whole numbers, none negative."""
        return bool(self.values) and all(
            v.isascii() and v.isdigit() and len(v) < 10 for v in self.values
        )

    def nests_in(self, *coarse: ColumnProfile) -> bool:
        """True if each value occurs with one combination of those of ``coarse`` only."""
        pairs = np.unique(np.stack([self.index, *(c.index for c in coarse)]), axis=1)
        return pairs.shape[1] == len(np.unique(self.index))


@dataclass(frozen=True, eq=False)
class InputProfile:
    """``encoding`` is that in which the file was read; ``path`` as it was given."""

    path: str
    encoding: str
    rows: int
    columns: tuple[ColumnProfile, ...] = field(repr=False)
