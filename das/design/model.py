"""What the optimiser asks of a model of the estimates: variances, and what a little more precision is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.design.choices import Choices

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimand:
    """What is to be known: a query of the units of a level, or of the areas of a ``kind`` (with ``some``, of these alone,
    by their numbers). Its variance is that of one answer, the mean over answers and units, or areas."""

    place: str
    query: str
    areas: bool = False
    some: tuple[int, ...] | None = None
    says: str = ""

    def __str__(self) -> str:
        return f"{self.place}{f' ({self.says})' if self.says else ''}:{self.query}"


class Model(Protocol):
    """Variances of the best linear unbiased estimates of some aims from everything that is measured, before
    non-negativity."""

    @property
    def draws(self) -> Choices: ...

    @property
    def aims(self) -> tuple[Estimand, ...]: ...

    def variances(self, precision: Array) -> Array:
        """f ``(aims,)`` for the precisions of the class draws ``(I,)``: infinite where nothing tells an aim, 0 where it is
        known exactly."""
        ...

    def gradient(self, precision: Array, weight: Array) -> tuple[Array, Array]:
        r"""f, and :math:`h_i = -\sum_a w_a\,\partial \log f_a/\partial p_i \ge 0` ``(I,)``, for weights ``(aims,)``."""
        ...
