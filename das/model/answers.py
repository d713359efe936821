"""Sparse answers to a query: nearly all are 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.closed import Closed
from das.model.frozen import Frozen

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class SparseAnswers(Closed, Frozen):
    """A sparse array ``(units, answers)`` in C order: the indices ``at`` (increasing) of its
    nonzero elements, and their values ``count``."""

    units: int
    answers: int
    at: Ints
    count: Ints

    @staticmethod
    def of(dense: Ints) -> SparseAnswers:
        """The sparse form of an array ``(units, answers)``."""
        at, (units, answers) = np.flatnonzero(dense), dense.shape
        return SparseAnswers(units, answers, at, dense.ravel()[at])

    @property
    def unit(self) -> Ints:
        """The unit of each element."""
        return self.at // self.answers

    def dense(self) -> Ints:
        """Shape ``(units, answers)``."""
        out = np.zeros(self.units * self.answers, dtype=np.int64)
        out[self.at] = self.count
        return out.reshape(self.units, self.answers)

    def read(self, at: Ints) -> Ints:
        """The elements ``at`` ``(n,)``, in any order. It searches for each and needs no dense
        array.
        """
        if not len(self.at):
            return np.zeros(len(at), dtype=np.int64)
        found = np.minimum(np.searchsorted(self.at, at), len(self.at) - 1)
        return np.where(self.at[found] == at, self.count[found], 0)

    def only(self, units: NDArray[np.bool_]) -> SparseAnswers:
        """The answers of some of the units, given by a mask ``(units,)``, renumbered from 0."""
        if units.all():
            return self
        keep, number = units[self.unit], np.cumsum(units) - 1
        at = number[self.unit[keep]] * self.answers + self.at[keep] % self.answers
        return SparseAnswers(int(np.count_nonzero(units)), self.answers, at, self.count[keep])
