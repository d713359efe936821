"""Places with a code for each level, as a tree: units in order, their parents, and the lowest unit
of each place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.codes import Codes, text

Indices = NDArray[np.int64]


def nested(
    levels: Sequence[str], codes: Sequence[Codes]
) -> tuple[tuple[Codes, ...], tuple[Indices, ...], Indices]:
    """``codes[l]``, of shape ``(places,)``, is the code of each place at level ``l``, root first;
    places may be listed in any order, and several may be in one lowest unit.

    Returns the codes and the parents of the units of each level, as :class:`das.model.spine.Spine`
    has them, and the lowest unit of each place. Raises :class:`InputError` naming the unit where a
    level does not nest in the one above."""
    for name, code in zip(levels, codes, strict=True):
        _check_codes(name, code)
    order = np.lexsort(codes[::-1])
    units: list[Codes] = []
    parents: list[Indices] = []
    above = np.zeros(len(order), dtype=np.int64)
    for name, code in zip(levels, codes, strict=True):
        here = code[order]
        new = np.ones(len(here), dtype=bool)
        new[1:] = (here[1:] != here[:-1]) | (above[1:] != above[:-1])
        first = np.flatnonzero(new)
        _check_nested(name, levels, here[first], above[first], units)
        units.append(here[first])
        parents.append(above[first])
        above = np.cumsum(new) - 1
    unit = np.empty(len(order), dtype=np.int64)
    unit[order] = above
    return tuple(units), tuple(parents), unit


def _check_codes(name: str, codes: Codes) -> None:
    """Codes stand in CSV files as they are."""
    for sign in (b",", b'"', b"\n", b"\r"):
        if (odd := np.strings.find(codes, sign) >= 0).any():
            raise InputError(
                f"code {str(text(codes[odd])[0])!r} of level {name!r} has a comma, a quote or a"
                " line break in it",
                where="geography",
                remedy="use codes without them; names can be joined to the results afterwards",
            )


def _check_nested(
    name: str,
    levels: Sequence[str],
    codes: Codes,
    parent: NDArray[np.int64],
    above: Sequence[Codes],
) -> None:
    """A code that starts twice belongs to two parents: the geography does not nest."""
    if not above and len(codes) > 1:
        raise InputError(
            f"level {name!r} has {len(codes)} units, but the first level must have one",
            where="levels of the tree",
            remedy="put a level above it (any name that is not a field, such as US, makes a root)",
        )
    unique, counts = np.unique(codes, return_counts=True)
    if len(unique) == len(codes):
        return
    code = unique[counts > 1][0]
    homes = text(above[-1][parent[codes == code][:2]])
    raise InputError(
        f"{name} {code.decode()} lies in more than one {levels[len(above) - 1]}: {homes[0]} and"
        f" {homes[1]}",
        where="geography",
        remedy=(
            f"fix the input, or make {name} of whole codes: those of the level above and its own"
            " together (in a configuration, a product under [geography.define])"
        ),
    )
