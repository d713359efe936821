"""Lines that are not shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.protect.published import UNBOUNDED, WITHHELD, LevelLines


def withheld(lines: LevelLines, hidden: NDArray[np.bool_]) -> LevelLines:
    """Lines without those that are ``hidden``, ``(units, lines)``: nothing is known of them."""
    return LevelLines(
        np.where(hidden, 0, lines.lower),
        np.where(hidden, UNBOUNDED, lines.upper),
        np.where(hidden, WITHHELD, lines.value),
        lines.price,
    )
