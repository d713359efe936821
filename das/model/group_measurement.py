"""What is measured of the groups of one level, in some of its regions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.model.frozen import Frozen

#: The size of the table of a group that is not measured.
UNMEASURED = -1


@dataclass(frozen=True, eq=False, repr=False)
class GroupMeasurement(Frozen):
    """The measurements of some groups. Group ``g = r * iterations + i`` is the i-th iteration of
    the level in the r-th of ``regions``.

    ``only`` ``(iterations,)``: whether only a total is measured. ``first`` ``(groups,)``: the first
    stage, 0 if there is none. ``size`` ``(groups,)`` is the size of each group's table, whose
    answers are ``values[indptr[g] : indptr[g + 1]]``."""

    regions: NDArray[np.bytes_]
    only: NDArray[np.bool_]
    first: NDArray[np.int64]
    size: NDArray[np.int8]
    indptr: NDArray[np.int64]
    values: NDArray[np.int64]

    def __post_init__(self) -> None:
        groups = len(self.regions) * len(self.only)
        if not len(self.first) == len(self.size) == len(self.indptr) - 1 == groups:
            raise ReleaseError(
                "measurements are not of as many groups as there are", where="groups"
            )
        if (
            self.indptr[0] != 0
            or self.indptr[-1] != len(self.values)
            or (np.diff(self.indptr) < 0).any()
        ):
            raise ReleaseError(
                "measurements have not as many answers as they should", where="groups"
            )

    @property
    def iterations(self) -> int:
        return len(self.only)

    @property
    def region(self) -> NDArray[np.int64]:
        """Each group's index among the regions."""
        return np.repeat(np.arange(len(self.regions)), self.iterations)

    @property
    def iteration(self) -> NDArray[np.int64]:
        return np.tile(np.arange(self.iterations), len(self.regions))

    def of_size(self, size: int, answers: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The groups whose table has a size, and their answers ``(groups, answers)``."""
        groups = np.flatnonzero(self.size == size)
        return groups, self.values[self.indptr[groups][:, None] + np.arange(answers)]
