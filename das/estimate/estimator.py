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
from das.rounding import Marginal

Array = NDArray[np.float64]


@runtime_checkable
class Estimator(Protocol):
    """Estimates the children of one parent, as real numbers. The descent
    (``das.estimate.descent``) walks the tree, and rounds, repairs and checks every answer. Write a
    subclass with a method ``estimate``. It must pickle if several processes share the work."""

    def estimate(self, family: Family) -> Array | tuple[Array, Certificate]:
        """Counts of the children, ``(children, cells)`` for ``family.cell``: finite, none below
        zero, and summing to ``family.parent`` over the children (there is none at the root). They
        should keep ``family.bounds``. Rounding enforces these, and moves far from an answer that
        does not keep them. Children that can hold nobody are not in the family. An only child is
        its parent and needs no answer: its measurements are pooled with its parent's.

        The array alone, or with it a certificate (:class:`das.model.solution.Certificate`) that
        counts the problems that were solved, and how well."""
        ...

    def estimates(self, families: Sequence[Family]) -> list[tuple[Array, Certificate]]:
        """Estimates of several families of one level, each by itself: one after the other,
        unless a subclass does better. No answer may depend on which families are together."""
        return [_with_certificate(self.estimate(family)) for family in families]

    def marginals(self, family: Family) -> tuple[Marginal, ...]:
        """The queries whose answers rounding keeps as near to the estimate as possible, besides
        its chain. Default: none."""
        del family
        return ()

    def part(self, level: str, start: int, stop: int) -> Estimator:
        """The part of this estimator that a task needs for units ``start:stop`` of ``level``.
        Default: all of it.
        """
        del level, start, stop
        return self


def _with_certificate(said: Array | tuple[Array, Certificate]) -> tuple[Array, Certificate]:
    """What it says of a family, with a certificate of nothing where it gives none."""
    return said if isinstance(said, tuple) else (said, Certificate())
