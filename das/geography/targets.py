"""Areas that block groups of an optimised spine keep apart: codes of each block, by the names of
the areas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.areas import Areas
from das.model.codes import Codes
from das.model.records import Blocks
from das.model.spine import Spine


def of(
    names: Sequence[str],
    blocks: Blocks,
    spine: Spine,
    unit: NDArray[np.int64],
    lists: Mapping[str, Areas],
) -> dict[str, Codes]:
    """The code of each block ``(blocks,)`` by target: that of a level of the tabulation ``spine``,
    a geographic field of the input, or one of the ``lists`` of blocks. ``unit`` ``(blocks,)`` is
    the lowest unit of each block on ``spine``.

    Raises :class:`InputError` for a name that is none of these.
    """
    out = {}
    for name in names:
        if name in lists:
            out[name] = listed(lists[name], spine.units(spine.levels[-1]))[unit]
        elif name in spine.levels:
            out[name] = spine.codes[spine.index(name)][spine.up(spine.levels[-1], name)[unit]]
        elif name in blocks.fields:
            out[name] = blocks.fields[name]
        else:
            raise unknown(name, dict.fromkeys([*spine.levels[1:-1], *blocks.fields]))
    return out


def unknown(name: str, known: Iterable[str]) -> InputError:
    """That no field of the input has the name of a target."""
    return InputError(
        f"the input has no geographic field {name!r}",
        where="geography.targets",
        remedy=f"name some of {', '.join(known)}, or the file of a list of blocks",
    )


def listed(areas: Areas, units: int) -> Codes:
    """A code for the areas that contain each lowest unit: two units have the same code if they are
    in the same areas. Codes of several areas are joined by the unit separator of ASCII; the code is
    empty where there is no area.

    >>> listed(Areas("Ward", ["a", "b"], np.array([1, 0, 0]), np.array([0, 0, 1])), 3).tolist()
    [b'a\\x1fb', b'a', b'']
    """
    order = np.lexsort((areas.codes[areas.area], areas.unit))
    unit, code = areas.unit[order], areas.codes[areas.area[order]]
    rank = np.arange(len(unit)) - np.searchsorted(unit, unit)
    out = np.zeros(units, dtype="S1")
    for turn in range(int(rank.max()) + 1):
        here = rank == turn
        sign = b"\x1f" if turn else b""
        more = np.zeros(units, dtype=f"S{code.dtype.itemsize + len(sign)}")
        more[unit[here]] = np.strings.add(sign, code[here])
        out = np.strings.add(out, more)
    return out
