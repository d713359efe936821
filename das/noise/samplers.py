"""The sampler of each mechanism, by the name that :mod:`das.model.mechanisms` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.noise import discrete_gaussian, discrete_laplace
from das.noise.entropy import Entropy
from das.noise.inverse_cdf import InverseCdf


class Sampler(Protocol):
    """A module that draws one kind of noise, exactly, for every rational parameter."""

    def refuse(self, parameter: Fraction, /) -> None:
        """Raises where noise of this parameter cannot be drawn."""

    def sample(self, parameter: Fraction, size: int, entropy: Entropy, /) -> NDArray[np.int64]:
        """``size`` independent draws."""
        ...

    def inverse(self, parameter: Fraction, /) -> InverseCdf | None:
        """The table that turns bits into a draw, or ``None`` where a table does not pay."""
        ...

    def one(self, parameter: Fraction, entropy: Entropy, /) -> int:
        """One draw without a table; it reads bits until it accepts."""
        ...


#: The version of all samplers together, that is, of the numbers that they make of given bits. Any
#: change of a number needs a new version: two releases would publish two functions of one noise.
VERSION = "1"

SAMPLERS: Mapping[str, Sampler] = {
    "discrete-gaussian": discrete_gaussian,
    "geometric": discrete_laplace,
}
