"""Lines that are not shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.protect.published import UNBOUNDED, WITHHELD, LevelLines


def most(lines: LevelLines, matrix: sparse.csr_array) -> NDArray[np.int64]:
    """The upper bounds of lines, ``(units, lines)``, by their ``matrix``. A withheld line without
    a bound is at most any line that counts all of its records."""
    both = (matrix @ matrix.T).toarray()
    upper = lines.upper.copy()
    for line in np.flatnonzero((upper == UNBOUNDED).any(axis=0)):
        wider = both[line] == both[line, line]
        hidden = upper[:, line] == UNBOUNDED
        upper[hidden, line] = lines.upper[hidden][:, wider].min(axis=1)
    return upper


def withheld(lines: LevelLines, hidden: NDArray[np.bool_]) -> LevelLines:
    """Lines without those that are ``hidden``, ``(units, lines)``: nothing is known of them."""
    return LevelLines(
        np.where(hidden, 0, lines.lower),
        np.where(hidden, UNBOUNDED, lines.upper),
        np.where(hidden, WITHHELD, lines.value),
        lines.price,
    )
