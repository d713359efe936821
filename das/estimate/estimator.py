"""What an estimator is: ours (:mod:`das.estimate.passes`, :mod:`das.estimate.informed`), and
anybody's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from das.estimate.family import Family
from das.model.solution import Certificate
from das.rounding import Margin

Array = NDArray[np.float64]


@runtime_checkable
class Estimator(Protocol):
    """Estimates the children of one parent, real-valued. The descent (:mod:`das.estimate.descent`)
    walks the tree, and rounds, mends and checks what it says, whatever it says. One's own is a
    subclass with a method :meth:`estimate`; it must pickle where work is spread over processes."""

    def estimate(self, family: Family) -> Array | tuple[Array, Certificate]:
        """Counts of the children, ``(children, cells)`` for ``family.cell``: finite, none below
        zero, and summing to ``family.parent`` over the children (there is none at the root). They
        should keep ``family.bounds``; rounding will, and is far from what was said where that does
        not. Those that can hold nobody are left out of the family, and an only child is its parent
        without being asked about: its measurements are pooled with its parent's.

        The array alone, or with it a certificate (:class:`das.model.solution.Certificate`) that
        counts the problems that were solved, and how well."""
        ...

    def estimates(self, families: Sequence[Family]) -> list[tuple[Array, Certificate]]:
        """What it says of some families of one level, each by itself: one after the other, unless
        it can do better. No answer may depend on which families are together."""
        return [_with_certificate(self.estimate(family)) for family in families]

    def margins(self, family: Family) -> tuple[Margin, ...]:
        """The queries whose answers rounding keeps as near to the estimate as it can, beside its
        chain: none, unless it says so."""
        del family
        return ()

    def part(self, level: str, start: int, stop: int) -> Estimator:
        """What a task carries that estimates units ``start:stop`` of ``level``: itself, unless it
        knows more.
        """
        del level, start, stop
        return self


def _with_certificate(said: Array | tuple[Array, Certificate]) -> tuple[Array, Certificate]:
    """What it says of a family, with a certificate of nothing where it gives none."""
    return said if isinstance(said, tuple) else (said, Certificate())
