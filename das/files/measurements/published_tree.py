"""The tree of noisy measurement files as published, from their geocodes.

A unit's parent is the unit of the level above whose geocode its own begins with. A unit that was
bypassed has no rows: it is there if codes below begin with it, and unmeasured. The nation's geocode
is empty; here it has the name of its level."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from das.errors import InputError
from das.files.measurements.published_files import AGAIN, Ints, PublishedLevel
from das.model.codes import Codes, encoded
from das.model.spine import Spine


def spine_of(levels: Sequence[PublishedLevel], folder: Path) -> Spine:
    """From the lowest level up: each level's own units, and those that codes below begin with."""
    codes: list[Codes] = [np.zeros(0, dtype="S1")] * len(levels)
    parents: list[Ints] = [np.zeros(1, dtype=np.int64)] * len(levels)
    _stand_ins(levels)
    codes[-1] = levels[-1].codes
    for depth in range(len(levels) - 1, 0, -1):
        here, above = levels[depth], levels[depth - 1]
        _check_free(codes[depth], here.name, folder)
        if depth == 1:
            codes[0] = above.codes
            parents[1] = np.zeros(len(codes[1]), dtype=np.int64)
        else:
            home = _homes(codes[depth], here.name, above, folder)
            codes[depth - 1] = np.union1d(above.codes, home)
            parents[depth] = np.searchsorted(codes[depth - 1], home).astype(np.int64)
            childless = np.setdiff1d(codes[depth - 1], home)
            if len(childless):
                raise InputError(
                    f"{above.name} {childless[0].decode()!r} has no unit of level {here.name} below"
                    f" it ({len(childless)} such units)",
                    where=folder,
                    remedy=(
                        "get the missing partitions, or leave out those of its branch everywhere"
                    ),
                )
    if len(codes[0]) != 1:
        raise InputError(
            f"level {levels[0].name} has {len(codes[0])} units ({codes[0][0].decode()},"
            f" {codes[0][1].decode()}, ...), but the tree has one root",
            where=folder,
            remedy="get the level above and all parts of this one, or keep one part alone",
        )
    codes[0] = np.where(codes[0] == b"", encoded([levels[0].name]), codes[0])
    return Spine(tuple(level.name for level in levels), tuple(codes), tuple(parents))


def units_of_codes(spine: Spine, level: str, codes: Codes) -> Ints:
    """The unit of each geocode, -1 for none; the empty one is a root's."""
    if level == spine.levels[0]:
        codes = np.where(codes == b"", spine.codes[0][0], codes)
    return spine.find(level, codes)


def _stand_ins(levels: Sequence[PublishedLevel]) -> None:
    """A unit of a level whose code is as long as those of the next level is also a unit of the
    next: its only child, bypassed, which need not have rows of its own."""
    for above, here in pairwise(levels[1:]):
        lengths = np.unique(np.strings.str_len(here.codes))
        own = np.strings.str_len(above.codes)
        if len(lengths) == 1 and own.min() < own.max():
            here.codes = np.union1d(here.codes, above.codes[own == lengths[0]])


def _check_free(codes: Codes, name: str, folder: Path) -> None:
    """No code of a level begins with another: then a code below has one parent at most, and the
    order of the codes is that of their parents."""
    bad = np.flatnonzero(np.strings.startswith(codes[1:], codes[:-1]))
    if len(bad):
        a, b = codes[bad[0]], codes[bad[0] + 1]
        raise InputError(
            f"geocode {b.decode()!r} of level {name} begins with {a.decode()!r}, another unit of"
            " that level",
            where=folder,
            remedy=AGAIN,
        )


def _homes(codes: Codes, name: str, above: PublishedLevel, folder: Path) -> Codes:
    """The code of each unit's parent: the unit of the level above that it begins with or, if none,
    as much of it as the codes of that level are long."""
    lengths = np.unique(np.strings.str_len(above.codes)).tolist()
    home = np.zeros(len(codes), dtype=f"S{max(lengths)}")
    for length in lengths:
        cut = codes.astype(f"S{length}")
        known = np.isin(cut, above.codes)
        home[known] = cut[known]
    lost = home == b""
    if lost.any() and len(lengths) == 1:
        derived = lost & (np.strings.str_len(codes) >= lengths[0])
        home[derived] = codes.astype(f"S{lengths[0]}")[derived]
        lost &= ~derived
    if lost.any():
        raise InputError(
            f"{name} {codes[lost][0].decode()!r} belongs to no unit of level {above.name}: no"
            f" geocode there is its beginning ({int(lost.sum())} such units)",
            where=folder,
            remedy=AGAIN,
        )
    return home
