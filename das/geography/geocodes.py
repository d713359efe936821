"""Codes of the units of an optimised spine, as in the published noisy measurement files.

A state's code is the digit of its branch and its own code; a county's that, ``10`` and its three
digits. Below, units are numbered from 1 in their parents, with as many digits as the largest number
in the whole tree has; a block's code is that of its group and its own. So all codes of a level have
one length, and a unit's begins with its parent's. The level of tract groups, where there is none,
has left a constant ``1``: behind the county in the files of 2020, before the number of the block
group in those of the 2010 demonstration data. In the runs of 2022 there are groups of tracts, and
no constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.names import Codes, characters, of_characters

Ints = NDArray[np.int64]
Layout = Literal["2020", "2010", "2022"]

#: Digits of numbers in the nation, where Los Angeles County has over 2,000 tracts, and no tract 100
#: groups: with them one state has the codes that it has in the nation.
NATIONAL = {"Tract": 4, "Block_Group": 2}


@dataclass(frozen=True)
class Geocodes:
    """``layout`` is that of the files of 2020, of the 2010 demonstration data, or of 2022;
    ``digits`` the least number of digits by level."""

    layout: Layout = "2020"
    digits: Mapping[str, int] = field(default_factory=lambda: dict(NATIONAL))

    def of(
        self,
        levels: Sequence[str],
        own: Sequence[Codes],
        blocks: Codes,
        parent: Sequence[Ints],
        branch: NDArray[np.bool_],
    ) -> tuple[Codes, ...]:
        """The codes of the units of each level. ``own`` are their codes on the tabulation spine,
        down to the level below the states, and ``blocks`` those of the lowest; ``branch``
        ``(states,)`` is whether a unit of the level State is in the branch of areas.

        Raises :class:`InputError` where states have codes of several lengths.
        """
        state = list(levels).index("State")
        if len(np.unique(np.strings.str_len(own[state]))) > 1:
            raise InputError(
                "codes of states have different lengths",
                where="geography.spine",
                remedy="give them codes of one length, such as 01 and 02",
            )
        out = [*own[:state], np.strings.add(np.where(branch, b"1", b"0"), own[state])]
        for depth in range(state + 1, len(levels) - 1):
            above, tail = out[-1][parent[depth]], self._tail(levels, own, parent, depth)
            out.append(np.strings.add(above, tail))
        return tuple(map(narrow, (*out, np.strings.add(out[-1][parent[-1]], blocks))))

    def _tail(
        self, levels: Sequence[str], own: Sequence[Codes], parent: Sequence[Ints], depth: int
    ) -> Codes:
        """What the code of a unit has behind that of its parent."""
        level, home = levels[depth], parent[depth]
        if level == "County" and levels[depth - 1] == "State":
            above = own[depth - 1][home]
            digits = characters(own[depth])[:, above.dtype.itemsize :]
            if np.strings.startswith(own[depth], above).all() and digits.size and digits.all():
                return np.strings.add(
                    np.strings.add(b"10", of_characters(digits)),
                    b"1" if self.layout == "2020" else b"",
                )
        number = np.arange(len(home)) - np.searchsorted(home, np.arange(home[-1] + 1))[home] + 1
        constant = b"1" if self.layout == "2010" and depth == len(levels) - 2 else b""
        return np.strings.add(constant, padded(number, self.digits.get(level, 1)))


def narrow(codes: Codes) -> Codes:
    """The same, no wider than the longest needs."""
    return codes.astype(f"S{max(1, int(np.strings.str_len(codes).max(initial=0)))}")


def padded(number: Ints, least: int) -> Codes:
    """Numbers as codes of one length, with zeros before them.

    >>> padded(np.array([7, 12]), 1), padded(np.array([7]), 4)
    (array([b'07', b'12'], dtype='|S2'), array([b'0007'], dtype='|S4'))
    """
    width = max(least, len(str(int(number.max()))))
    digits = number[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10 + ord("0")
    return of_characters(digits.astype(np.uint8))
