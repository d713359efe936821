"""The spine of tabulation geography: levels given by fields of the blocks, or by products of
fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, SpecError
from das.model.names import Codes, blank, encoded
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
    field.
    """
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
