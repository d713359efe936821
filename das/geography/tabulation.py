"""The spine of tabulation geography: levels given by fields of the blocks, or by products of
fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, SpecError
from das.model.names import Codes, blank, characters, encoded, of_characters
from das.model.records import Blocks
from das.model.spine import Spine, nested


def spine(
    blocks: Blocks, levels: Sequence[str], define: Mapping[str, Sequence[str]] | None = None
) -> tuple[Spine, NDArray[np.int64]]:
    """The spine over ``levels``, root first, and the lowest unit of each block.

    A level is a field of the blocks, or is defined as a product of fields (``define``): its units
    are then the parts in which all of them agree, with their codes joined by ``-``. The first level
    may be neither: it is then the root, whose only unit bears the level's name. Raises
    :class:`InputError` naming the unit where a level does not nest in the one above."""
    if not len(blocks):
        raise InputError(
            "there is no block in the input", where="geography", remedy="check data.path"
        )
    fields = dict(blocks.fields)
    codes = [_codes(fields, name, depth, define or {}) for depth, name in enumerate(levels)]
    unit_codes, parents, unit = nested(levels, codes)
    names = tuple(_names(blocks, name, code) for name, code in zip(levels, unit_codes, strict=True))
    return Spine(tuple(levels), unit_codes, parents, names), unit


def _names(blocks: Blocks, level: str, codes: Codes) -> NDArray[np.str_]:
    """The names of units. Those of a product of nested fields (a state and a place in it) are known
    by its code without the signs between."""
    known = blocks.names.get(level)
    if known is None:
        return blank(len(codes))
    own = known.at(codes)
    return np.where(own == "", known.at(np.strings.replace(codes, b"-", b"")), own)


def _codes(
    fields: Mapping[str, Codes],
    name: str,
    depth: int,
    define: Mapping[str, Sequence[str]],
    inside: tuple[str, ...] = (),
) -> Codes:
    """The code of each block at a level. In its own definition (``inside``) a name means the
    field."""
    if name in define and name not in inside:
        if not define[name]:
            raise SpecError(
                "a product of no fields",
                where=f"geography.define.{name}",
                remedy="name one at least",
            )
        parts = [_codes(fields, p, -1, define, (*inside, name)) for p in define[name]]
        out = parts[0]
        for p in parts[1:]:
            out = np.strings.add(np.strings.add(out, b"-"), p)
        return out
    if name in fields:
        return fields[name]
    if depth == 0:
        return np.full(len(next(iter(fields.values()))), encoded(name))
    raise SpecError(
        f"the input has no geographic field {name!r}",
        where="geography.levels" if depth > 0 else "geography.define",
        remedy=(
            f"its fields are {', '.join(fields)}; other levels are products of them, under"
            " [geography.define]"
        ),
    )


# Codes of the units of an optimized spine, as in the published noisy measurement files.
#
# A state's code is the digit of its branch and its own code; a county's that, ``10`` and its three
# digits. Below, units are numbered from 1 in their parents, with as many digits as the largest number
# in the whole tree has; a block's code is that of its group and its own. So all codes of a level have
# one length, and a unit's begins with its parent's. The level of tract groups, where there is none,
# has left a constant ``1``: behind the county in the files of 2020, before the number of the block
# group in those of the 2010 demonstration data. In the runs of 2022 there are groups of tracts, and
# no constant.

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

    def unit_codes(
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

        Raises :class:`InputError` where states have codes of several lengths."""
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
    (array([b'07', b'12'], dtype='|S2'), array([b'0007'], dtype='|S4'))"""
    width = max(least, len(str(int(number.max()))))
    digits = number[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10 + ord("0")
    return of_characters(digits.astype(np.uint8))
