r"""Children whose totals are known only together: :math:`\sum_{c \in s} 1'x_c = T_s` for each part
:math:`s` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Parts:
    """``part`` ``(children,)``: the part that each child is in, -1 for none; ``total``
    ``(parts,)``.
    """

    part: NDArray[np.intp]
    total: NDArray[Any]

    @staticmethod
    def of(part: NDArray[Any] | None, total: NDArray[Any] | None, children: int) -> Parts:
        """Checked; without ``part``, no child is in any."""
        if (part is None) != (total is None):
            raise ValueError("parts and totals go together")
        if part is None or total is None:
            return Parts(np.full(children, -1), np.zeros(0))
        number, totals = np.asarray(part), np.asarray(total)
        inside = number.shape == (children,) and totals.ndim == 1 and number.dtype.kind in "iu"
        if not inside or not np.array_equal(np.unique(number[number >= 0]), np.arange(len(totals))):
            raise ValueError(
                "parts must be (children,) of numbers from 0 or -1, and each number have a total"
                " and a child"
            )
        return Parts(number.astype(np.intp), totals)

    def __len__(self) -> int:
        return len(self.total)

    @property
    def bound(self) -> NDArray[np.bool_]:
        """The children that are in a part."""
        return self.part >= 0

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """``(children,)`` to ``(parts,)``."""
        out = np.zeros(len(self), dtype=values.dtype)
        np.add.at(out, self.part[self.bound], values[self.bound])
        return out

    def spread(self, values: Array, elsewhere: float) -> Array:
        """``(parts,)`` to ``(children,)``, evenly: a part's value over its number of children."""
        out = np.full(len(self.part), elsewhere)
        out[self.bound] = (values / np.bincount(self.part[self.bound], minlength=len(self)))[
            self.part[self.bound]
        ]
        return out

    def projected(self, held: Array) -> Array:
        """The nearest child totals ``(children,)`` that meet those of the parts: each child of a
        part is shifted alike.
        """
        return np.asarray(held + self.spread(self.total - self.sums(held), 0.0))
