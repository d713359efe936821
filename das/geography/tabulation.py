"""The spine of tabulation geography: levels given by fields of the blocks, or by products of fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, SpecError
from das.model.names import blank
from das.model.records import Blocks
from das.model.spine import Spine


def spine(
    blocks: Blocks, levels: Sequence[str], define: Mapping[str, Sequence[str]] | None = None
) -> tuple[Spine, NDArray[np.int64]]:
    """The spine over ``levels``, root first, and the lowest unit of each block.

    A level is a field of the blocks, or is defined as a product of fields (``define``): its units are then
    the parts in which all of them agree, with their codes joined by ``-``. The first level may be neither:
    it is then the root, whose only unit bears the level's name. Raises :class:`InputError` naming the unit
    where a level does not nest in the one above.
    """
    if not len(blocks):
        raise InputError("there is no block in the input", where="geography", remedy="check data.path")
    fields = dict(blocks.fields)
    codes = [_codes(fields, name, depth, define or {}) for depth, name in enumerate(levels)]
    for name, code in zip(levels, codes, strict=True):
        _check_codes(name, code)
    order = np.lexsort(codes[::-1])
    spine_codes: list[NDArray[np.str_]] = []
    parents: list[NDArray[np.int64]] = []
    above = np.zeros(len(order), dtype=np.int64)
    for name, code in zip(levels, codes, strict=True):
        here = code[order]
        new = np.ones(len(here), dtype=bool)
        new[1:] = (here[1:] != here[:-1]) | (above[1:] != above[:-1])
        first = np.flatnonzero(new)
        _check_nested(name, levels, here[first], above[first], spine_codes)
        spine_codes.append(here[first])
        parents.append(above[first])
        above = np.cumsum(new) - 1
    unit = np.empty(len(order), dtype=np.int64)
    unit[order] = above
    names = tuple(_names(blocks, name, code) for name, code in zip(levels, spine_codes, strict=True))
    return Spine(tuple(levels), tuple(spine_codes), tuple(parents), names), unit


def _names(blocks: Blocks, level: str, codes: NDArray[np.str_]) -> NDArray[np.str_]:
    """The names of units. Those of a product of nested fields (a state and a place in it) are known by its code
    without the signs between."""
    known = blocks.names.get(level)
    if known is None:
        return blank(len(codes))
    own = known.at(codes)
    return np.where(own == "", known.at(np.strings.replace(codes, "-", "")), own)


def _codes(
    fields: Mapping[str, NDArray[np.str_]],
    name: str,
    depth: int,
    define: Mapping[str, Sequence[str]],
    inside: tuple[str, ...] = (),
) -> NDArray[np.str_]:
    """The code of each block at a level. In its own definition (``inside``) a name means the field."""
    if name in define and name not in inside:
        if not define[name]:
            raise SpecError("a product of no fields", where=f"geography.define.{name}", remedy="name one at least")
        parts = [_codes(fields, p, -1, define, (*inside, name)) for p in define[name]]
        out = parts[0]
        for p in parts[1:]:
            out = np.char.add(np.char.add(out, "-"), p)
        return out
    if name in fields:
        return fields[name]
    if depth == 0:
        return np.full(len(next(iter(fields.values()))), name)
    raise SpecError(
        f"the input has no geographic field {name!r}",
        where="geography.levels" if depth > 0 else "geography.define",
        remedy=f"its fields are {', '.join(fields)}; other levels are products of them, under [geography.define]",
    )


def _check_codes(name: str, codes: NDArray[np.str_]) -> None:
    """Codes stand in CSV files as they are."""
    for sign in ',"\n\r':
        if (odd := np.char.find(codes, sign) >= 0).any():
            raise InputError(
                f"code {str(codes[odd][0])!r} of level {name!r} has a comma, a quote or a line break in it",
                where="geography",
                remedy="use codes without them; names can be joined to the results afterwards",
            )


def _check_nested(
    name: str,
    levels: Sequence[str],
    codes: NDArray[np.str_],
    parent: NDArray[np.int64],
    above: Sequence[NDArray[np.str_]],
) -> None:
    """A code that starts twice belongs to two parents: the geography does not nest."""
    if not above and len(codes) > 1:
        raise InputError(
            f"level {name!r} has {len(codes)} units, but the first level must have one",
            where="geography.levels",
            remedy="put a level above it (any name that is not a field, such as US, makes a root)",
        )
    unique, counts = np.unique(codes, return_counts=True)
    if len(unique) == len(codes):
        return
    code = unique[counts > 1][0]
    homes = [str(above[-1][p]) for p in parent[codes == code][:2]]
    raise InputError(
        f"{name} {code} lies in more than one {levels[len(above) - 1]}: {homes[0]} and {homes[1]}",
        where="geography",
        remedy=f"mend the input, or define {name} as a product that nests, under [geography.define]",
    )
