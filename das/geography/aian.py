"""Which American Indian, Alaska Native and Native Hawaiian areas have a branch of the optimized
spine of their own.

By the census code of the area (AIANNHCE), as in the production runs of 2020
(``AIANNHCE_ranges.csv``): legal areas and the statistical areas of Oklahoma and Alaska do, tribal
designated and state designated statistical areas do not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.codes import Codes, characters, text

#: First and last code of each category, and whether its areas are in the branch.
CATEGORIES = (
    (b"0001", b"4799", True),  # federally recognised reservation or trust land
    (b"4800", b"4989", True),  # joint use
    (b"5000", b"5499", True),  # Hawaiian home land
    (b"5500", b"5899", True),  # Oklahoma tribal statistical area
    (b"5900", b"5999", True),  # joint use of these
    (b"6000", b"7999", True),  # Alaska native village statistical area
    (b"8000", b"8999", False),  # tribal designated statistical area
    (b"9000", b"9499", True),  # state-recognised reservation
    (b"9500", b"9998", False),  # state designated tribal statistical area
    (b"9999", b"9999", False),  # none
)
NONE = b"9999"


def branches(codes: Codes, blocks: Codes) -> NDArray[np.bool_]:
    """Whether each block is in an area of the branch. ``codes`` are those of the areas, blank or
    all nines where there is none; ``blocks`` those of the blocks.

    Raises :class:`InputError` for a code without a category, with the block: no code is from 4990
    to 4999."""
    found, at = np.unique(codes, return_inverse=True)
    given = np.where(np.strings.strip(found) == b"", NONE, found)
    low, high = (np.array([c[i] for c in CATEGORIES]) for i in (0, 1))
    category = np.maximum(np.searchsorted(low, given, side="right") - 1, 0)
    digits = characters(given)
    sound = (
        (low[category] <= given)
        & (given <= high[category])
        & (np.strings.str_len(given) == len(NONE))
    )
    sound &= ((digits == 0) | ((digits >= ord("0")) & (digits <= ord("9")))).all(axis=1)
    if not sound.all():
        block = int(np.flatnonzero(~sound[at])[0])
        odd, home = text(codes[block : block + 1])[0], text(blocks[block : block + 1])[0]
        more = int((~sound[at]).sum()) - 1
        others = f" (and {more:,} more blocks have such a code)" if more else ""
        raise InputError(
            f"block {home} lies in American Indian area {str(odd)!r}, which is no code of"
            f" one{others}",
            where="geography.spine",
            remedy=(
                "areas have four digits, 0001 to 4989 or 5000 to 9998, and blocks outside of them"
                " 9999"
            ),
        )
    return np.array([c[2] for c in CATEGORIES])[category][at]
