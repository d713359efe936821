"""Tabulation codes of published measurement files: the tree that people ask about, from the codes
of the blocks.

Below the county the published geocodes number units of the measured tree. Only a block's last 16
characters are its tabulation code: state 2, county 3, tract 6, block group 1, block 4, whose first
digit is the block group's. The tree of these codes is the published spine; the tree of the files is
what is measured (:class:`das.model.measured_spine.MeasuredSpine`). The two meet at the blocks and
nowhere else, as in every release with an optimized spine. So a tract in two branches is the sum of
its parts, and a block group is a sum of blocks. Files that end with the counties, or with the
states, have tabulation codes too, unless one of these is in two branches.

*Moved blocks.* In fifteen blocks of water the measurements of 2020 have persons whose published
counts are in another block. These blocks have the code of that other block, unless it is measured
itself. Source: README of the Bureau's least-squares estimates of the same measurements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.model.codes import Codes, characters, encoded, of_characters
from das.model.names import BLOCK, DIGITS, geoids
from das.model.nesting import nested
from das.model.spine import Spine

Ints = NDArray[np.int64]

#: Of blocks of water with persons, the code in the measurements and that of the published counts.
MOVED = {
    "0100399000000001": "0100301080022009",
    "0607399010000002": "0607301870011280",
    "0607599020000001": "0607501790311031",
    "1207599000000008": "1207597040011101",
    "1208699000000022": "1208600800022011",
    "2502599010100031": "2502505030011006",
    "3608199010000002": "3608109160411000",
    "4100799000000010": "4100795110044030",
    "4502999010000001": "4502997080033004",
    "4505399010000002": "4505395030244009",
    "4816799010000039": "4816772390033135",
    "5300999010000035": "5300900190211025",
    "5306199000200017": "5306104010044007",
    "5502599170200003": "5502500320011000",
    "7210399001300009": "7210317040044006",
}
#: The levels that have tabulation codes, besides those with one unit.
_CODED = (*DIGITS, "Block")


def tabulation(spine: Spine) -> tuple[Spine, Ints] | None:
    """The tree of tabulation codes, and for each lowest unit of ``spine`` its unit there.

    None where there is no other tree: the codes of the lowest units tell no tabulation code, or
    two units have the same. So it is where a level has none, as groups of tracts in the DHC.

    >>> block = np.array(["0441000700491024400701070233001"])
    >>> one = np.zeros(1, dtype=np.int64)
    >>> levels = ("State", "County", "Block")
    >>> found = tabulation(Spine(levels, (["044"], ["044100071"], block), (one, one, one)))
    >>> [found[0].code(level, 0) for level in levels]
    ['44', '44007', '4400701070233001']
    """
    found = coded(spine)
    return found if found is not None and len(found[0].codes[-1]) == len(found[1]) else None


def coded(spine: Spine) -> tuple[Spine, Ints] | None:
    """The same, where several of the lowest units can have one code: a county in two branches is
    the sum of its parts."""
    levels, lowest = spine.levels, _lowest(spine.levels[-1], spine.codes[-1])
    if lowest is None:
        return None
    if any(level not in _CODED and spine.units(level) > 1 for level in levels):
        return None
    digits = characters(lowest)
    codes = [
        of_characters(np.ascontiguousarray(digits[:, : DIGITS.get(level, BLOCK)]))
        if level in _CODED
        else np.full(len(digits), encoded(level))
        for level in levels
    ]
    units, parents, place = nested(levels, codes)
    return Spine(levels, units, parents), place


def _lowest(level: str, codes: Codes) -> Codes | None:
    """The tabulation codes of the lowest units: those at the end of a block's geocode, or in that
    of a county, ``<branch><state>10<county>``, or of a state; None for codes of another form."""
    p, width = characters(codes), codes.dtype.itemsize
    if level == "Block":
        if width <= BLOCK or not np.strings.str_len(geoids("Block", codes)).any():
            return None
        return _moved(of_characters(np.ascontiguousarray(p[:, -BLOCK:])))
    if level == "County" and width in (8, 9) and (p[:, 3:5] == [ord("1"), ord("0")]).all():
        kept = p[:, [1, 2, 5, 6, 7]]
    elif level == "State" and width == 3:
        kept = p[:, 1:]
    else:
        return None
    digits = (kept >= ord("0")) & (kept <= ord("9"))
    branch = (p[:, 0] == ord("0")) | (p[:, 0] == ord("1"))
    return of_characters(np.ascontiguousarray(kept)) if digits.all() and branch.all() else None


def _moved(blocks: Codes) -> Codes:
    """The codes of blocks, of moved ones that where their published counts are."""
    old, new = (encoded(list(c)) for c in (MOVED.keys(), MOVED.values()))
    at = {c: n for c, n in zip(old.tolist(), new.tolist(), strict=True) if n not in blocks}
    here = np.flatnonzero(np.isin(blocks, list(at)))
    if not len(here):
        return blocks
    out = blocks.copy()
    out[here] = [at[c] for c in blocks[here].tolist()]
    return out
