"""Tabulation codes of published measurement files: the tree that people ask about, from the codes
of the blocks.

Below the county the published geocodes number units of the measured tree. Only a block's last 16
characters are its tabulation code: state 2, county 3, tract 6, block group 1, block 4, whose first
digit is the block group's. The tree of these codes is the published spine; the tree of the files is
what is measured (:class:`das.model.measured_spine.MeasuredSpine`). The two meet at the blocks and
nowhere else, as in every release with an optimized spine. So a tract in two branches is the sum of
its parts, and a block group is a sum of blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.model.codes import characters, encoded, of_characters
from das.model.names import BLOCK, DIGITS, geoids
from das.model.nesting import nested
from das.model.spine import Spine

Ints = NDArray[np.int64]

#: The levels that have tabulation codes, besides those with one unit.
_CODED = (*DIGITS, "Block")


def tabulation(spine: Spine) -> tuple[Spine, Ints] | None:
    """The tree of tabulation codes, and for each lowest unit of ``spine`` its unit there.

    None where there is no other tree: the lowest units are not blocks whose geocodes end with such
    a code. So it is for levels without codes, as groups of tracts in the DHC.

    >>> block = np.array(["0441000700491024400701070233001"])
    >>> one = np.zeros(1, dtype=np.int64)
    >>> levels = ("State", "County", "Block")
    >>> found = tabulation(Spine(levels, (["044"], ["044100071"], block), (one, one, one)))
    >>> [found[0].code(level, 0) for level in levels]
    ['44', '44007', '4400701070233001']
    """
    blocks = spine.codes[-1]
    levels, width = spine.levels, blocks.dtype.itemsize
    if (
        levels[-1] != "Block"
        or width <= BLOCK
        or not np.strings.str_len(geoids("Block", blocks)).any()
    ):
        return None
    if any(level not in _CODED and spine.units(level) > 1 for level in levels):
        return None
    digits = characters(blocks)[:, -BLOCK:]
    codes = [
        of_characters(np.ascontiguousarray(digits[:, : DIGITS.get(level, BLOCK)]))
        if level in _CODED
        else np.full(len(blocks), encoded(level))
        for level in levels
    ]
    units, parents, place = nested(levels, codes)
    if len(units[-1]) != len(blocks):  # a block twice: the tree of the files is all that is known
        return None
    return Spine(levels, units, parents), place
