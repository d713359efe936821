"""What constrains a rounding besides its parent: nested sums within each child, and what is below
the children.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Link:
    """One partition of the chain: ``group`` ``(cells,)``; bounds of its sums ``(children,
    groups)``; weight.
    """

    group: NDArray[np.intp]
    lower: Ints | None = None
    upper: Ints | None = None
    weight: float = 1.0

    @cached_property
    def groups(self) -> int:
        return int(self.group.max(initial=0)) + 1 if self.upper is None else self.upper.shape[1]

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sums of ``values`` ``(children, cells)`` over the groups: ``(children, groups)``."""
        out = np.zeros((self.groups, len(values)), dtype=values.dtype)
        np.add.at(out, self.group, values.T)
        return out.T

    def home(self, coarse: Link) -> NDArray[np.intp]:
        """The group of ``coarse`` that contains each group."""
        out = np.zeros(self.groups, dtype=np.intp)
        out[self.group] = coarse.group
        if not np.array_equal(out[self.group], coarse.group):
            raise ValueError(
                "the chain is not laminar: a group of one link straddles two groups of the next"
            )
        return out


@dataclass(frozen=True, eq=False)
class Drains:
    """What is below a child and must be fillable from it: its descendants with known totals.

    The last link's groups of child ``c`` flow into the descendants ``d`` with ``child[d] = c``. A
    descendant takes at least ``lower[d, g]`` and at most ``upper[d, g]`` of group ``g``, and
    exactly ``total[d]`` in all."""

    child: NDArray[np.intp]
    lower: Ints
    upper: Ints
    total: Ints
