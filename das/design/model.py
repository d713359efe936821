"""What the optimizer needs from a model of the estimates: variances, and the gain from a little
more precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.design.choices import Choices
from das.errors import SpecError

Array = NDArray[np.float64]
#: A matrix has no inverse, except for rounding error, if its trace is this many times its least
#: eigenvalue.
SINGULAR = 1e14
#: What is left of a difference of this part of its terms, or less, is rounding error.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Estimand:
    """What is to be estimated: a query of the units of a level, or of the areas of a ``kind`` (with
    ``some``, only of these, by their numbers). Its variance is that of one answer, the mean over
    answers and units, or areas."""

    place: str
    query: str
    areas: bool = False
    some: tuple[int, ...] | None = None
    says: str = ""

    def __str__(self) -> str:
        return f"{self.place}{f' ({self.says})' if self.says else ''}:{self.query}"


class Model(Protocol):
    """Variances of the best linear unbiased estimates of some estimands from everything that is
    measured, before non-negativity."""

    @property
    def measurements(self) -> Choices: ...

    @property
    def estimands(self) -> tuple[Estimand, ...]: ...

    def variances(self, precision: Array) -> Array:
        """f ``(estimands,)`` for the precisions of the class measurements ``(I,)``: 0 where an
        estimand is known exactly.

        Raises:
            SpecError: the measurements of some lowest units do not tell their cells apart.
        """
        ...

    def gradient(self, precision: Array, weight: Array) -> tuple[Array, Array]:
        r"""f, and :math:`h_i = -\sum_a w_a\,\partial \log f_a/\partial p_i \ge 0` ``(I,)``, for
        weights ``(estimands,)``.
        """
        ...

    def gradients(
        self, precision: Array, weights: Array, tick: Callable[[], None]
    ) -> tuple[Array, Array]:
        """The gradients for several weights at one place, ``(n, estimands) -> (n, I)``; ``tick`` is
        called after each."""
        ...


def inverse(precision: Array) -> Array:
    """The inverses of matrices ``(..., d, d)``, with next to nothing along directions without
    information."""
    scale = np.maximum(np.trace(precision, axis1=-2, axis2=-1), 1e-300)[..., None, None]
    return np.asarray(np.linalg.inv(precision + 1e-15 * scale * np.eye(precision.shape[-1])))


def check_told(precision: Array, inverse: Array) -> None:
    """Raises :class:`SpecError` where a matrix ``(..., d, d)`` of the lowest units' measurements
    has no inverse.
    """
    most = SINGULAR / np.maximum(np.trace(precision, axis1=-2, axis2=-1), 1e-250)
    if not (np.diagonal(inverse, axis1=-2, axis2=-1).max(axis=-1) < most).all():
        raise SpecError(
            "nothing that is drawn tells some cells of the lowest units apart",
            where="budget.queries",
            remedy="measure 'detailed' there, and where only children are bypassed above them",
        )


def given_total(c: Array) -> Array:
    """What covariances ``(..., d, d)`` are once the sum of the d is known: C - C11'C/1'C1, and 0
    where that is rounding error."""
    moved = c.sum(axis=-1)
    rest = c - moved[..., :, None] * moved[..., None, :] / moved.sum(axis=-1)[..., None, None]
    return np.where(np.abs(rest) > ROUNDING * np.abs(c), rest, 0.0)
