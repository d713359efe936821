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
        """What makes a draw of its bits, if a table of the distribution pays."""
        ...

    def one(self, parameter: Fraction, entropy: Entropy, /) -> int:
        """One draw without a table, from as many bits as it takes."""
        ...


#: Of what the samplers make of given bits, all of them together. Another number for the same bits
#: is another version: both published would be two functions of one noise.
VERSION = "1"

SAMPLERS: Mapping[str, Sampler] = {
    "discrete-gaussian": discrete_gaussian,
    "geometric": discrete_laplace,
}
